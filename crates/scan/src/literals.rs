//! All literals of all rules in one pass, in every letter case and in leetspeak.
//!
//! Thousands of literals make an automaton that no cache of a processor holds, and each byte then waits for
//! memory. So of each literal only a few bytes in a row are looked for, its *gram*, the rarest that it has:
//! a bit in a small table says for each place whether any gram may end there, and only then is the literal
//! compared. What it answers are candidates in order of place; whoever asks judges them.

use crate::words::leet;

mod rare;

/// Bytes of a gram of literals in ASCII, of other literals, and of those too short for either.
pub(crate) const ASCII_BYTES: usize = 4;
pub(crate) const WIDE_BYTES: usize = 6;
const SHORT_BYTES: usize = 3;
/// Words of the tables, of 64 bits: 16 KB, half of what the nearest cache holds, and 1 KB.
const LONG_WORDS: usize = 2048;
const SHORT_WORDS: usize = 128;
/// Places of the table that share one list of grams, as a power of two.
const LIST_BITS: u32 = 4;
/// Spreads grams over the table (Knuth, The Art of Computer Programming 3, section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Literals that have grams of so many bytes. Built once, shared by all threads.
pub(crate) struct Literals<const BYTES: usize> {
    /// The letter that each byte is read as.
    read: [u8; 256],
    /// The last bytes of all grams: one test that most places of a text do not pass.
    tails: Box<[u64; LONG_WORDS]>,
    long: Grams<BYTES, LONG_WORDS>,
    short: Grams<SHORT_BYTES, SHORT_WORDS>,
    /// Literals shorter than any gram, by their first byte.
    tiny: Vec<(u8, Vec<u16>)>,
    texts: Vec<Box<[u8]>>,
}

/// Where literals were found. Kept by who searches.
#[derive(Default)]
pub(crate) struct Places {
    /// Where grams may end, with the bytes up to there.
    hits: Vec<(u32, u64)>,
    /// The places behind literals, and which they are.
    ends: Vec<(u32, u16)>,
}

impl Places {
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
    }

    /// The place behind each literal that was found, and which it is, in order of place.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.ends
            .iter()
            .map(|(end, literal)| (*end as usize, *literal))
    }
}

impl<const BYTES: usize> Literals<BYTES> {
    /// Empty literals are in no text.
    pub(crate) fn new(literals: &[&[u8]]) -> Literals<BYTES> {
        let read = readings();
        let same = |byte: &u8| read[usize::from(*byte)];
        let texts: Vec<Box<[u8]>> = literals
            .iter()
            .map(|literal| literal.iter().map(same).collect())
            .collect();
        let (mut long, mut short) = (Vec::new(), Vec::new());
        let mut tiny: Vec<(u8, Vec<u16>)> = Vec::new();
        for (index, (literal, text)) in (0u16..).zip(literals.iter().zip(&texts)) {
            match text.len() {
                0 => {}
                bytes if bytes >= BYTES => long.push(Gram::of(literal, text, BYTES, index)),
                SHORT_BYTES.. => short.push(Gram::of(literal, text, SHORT_BYTES, index)),
                _ => {
                    let list = tiny.iter_mut().find(|(first, _)| *first == literal[0]);
                    match list {
                        Some((_, list)) => list.push(index),
                        None => tiny.push((literal[0], vec![index])),
                    }
                }
            }
        }
        tiny.sort();
        let mut tails = Box::new([0; LONG_WORDS]);
        for gram in long.iter().chain(&short) {
            let place = tail(gram.bytes);
            tails[place >> 6] |= 1 << (place & 63);
        }
        Literals {
            read,
            tails,
            long: Grams::new(long),
            short: Grams::new(short),
            tiny,
            texts,
        }
    }

    /// Finds all places of all literals.
    pub(crate) fn find(&self, bytes: &[u8], places: &mut Places) {
        places.ends.clear();
        self.tiny(bytes, &mut places.ends);
        let first = places.ends.len();
        self.hits(bytes, &mut places.hits);
        for (at, last) in &places.hits {
            for gram in self.long.at(*last).chain(self.short.at(*last)) {
                let Some(end) = self.end(bytes, *at as usize, gram) else {
                    continue;
                };
                // Grams stand anywhere in their literals, so their order is not quite that of the ends.
                let behind = places.ends[first..].iter().rev();
                let later = behind.take_while(|(other, _)| *other > end).count();
                let place = places.ends.len() - later;
                places.ends.insert(place, (end, gram.literal));
            }
        }
        if first > 0 {
            places.ends.sort_by_key(|(end, _)| *end);
        }
    }

    /// Whether any literal is in a text.
    pub(crate) fn hold(&self, bytes: &[u8]) -> bool {
        let mut places = Places::default();
        self.find(bytes, &mut places);
        !places.ends.is_empty()
    }

    /// Finds the places where grams may end.
    fn hits(&self, bytes: &[u8], hits: &mut Vec<(u32, u64)>) {
        hits.clear();
        let mut last = 0;
        for (at, byte) in bytes.iter().enumerate() {
            last = last << 8 | u64::from(self.read[usize::from(*byte)]);
            let place = tail(last);
            if self.tails[place >> 6] >> (place & 63) & 1 != 0
                && (self.long.may_end(last) || self.short.may_end(last))
            {
                hits.push((at as u32 + 1, last));
            }
        }
    }

    /// The place behind a literal of which a gram ends here, where all of it is there.
    fn end(&self, bytes: &[u8], at: usize, gram: &Gram) -> Option<u32> {
        let text = &self.texts[usize::from(gram.literal)];
        let end = at + usize::from(gram.behind);
        let found = bytes.get(end.checked_sub(text.len())?..end)?;
        let read = |byte: &u8| self.read[usize::from(*byte)];
        found
            .iter()
            .map(read)
            .eq(text.iter().copied())
            .then_some(end as u32)
    }

    fn tiny(&self, bytes: &[u8], ends: &mut Vec<(u32, u16)>) {
        for three in self.tiny.chunks(3) {
            let first = |index: usize| three.get(index).unwrap_or(&three[0]).0;
            for at in memchr::memchr3_iter(first(0), first(1), first(2), bytes) {
                let lists = three.iter().filter(|(first, _)| *first == bytes[at]);
                for literal in lists.flat_map(|(_, list)| list) {
                    let text = &self.texts[usize::from(*literal)];
                    let rest = bytes.get(at + 1..at + text.len()).unwrap_or(b"");
                    let mut read = rest.iter().map(|byte| self.read[usize::from(*byte)]);
                    if rest.len() + 1 == text.len() && read.by_ref().eq(text[1..].iter().copied()) {
                        ends.push(((at + text.len()) as u32, *literal));
                    }
                }
            }
        }
    }
}

/// The place of the last bytes of a gram in their table.
#[inline(always)]
fn tail(last: u64) -> usize {
    const MASK: u32 = (1 << (8 * SHORT_BYTES)) - 1;
    const SHIFT: u32 = u32::BITS - (LONG_WORDS * u64::BITS as usize).trailing_zeros();
    ((last as u32 & MASK).wrapping_mul(SPREAD as u32) >> SHIFT) as usize
}

/// Bytes of a literal in a row, as they are read.
struct Gram {
    bytes: u64,
    literal: u16,
    /// Bytes of the literal behind the gram.
    behind: u8,
}

impl Gram {
    /// The rarest gram of a literal.
    fn of(literal: &[u8], text: &[u8], bytes: usize, index: u16) -> Gram {
        let start = rare::gram(literal, bytes);
        let gram = text[start..start + bytes].iter();
        Gram {
            bytes: gram.fold(0, |all, byte| all << 8 | u64::from(*byte)),
            literal: index,
            behind: (text.len() - start - bytes) as u8,
        }
    }
}

/// Grams of one length, with a table of so many words.
struct Grams<const BYTES: usize, const WORDS: usize> {
    bits: Box<[u64; WORDS]>,
    /// Where the list of each few places of the table begins.
    starts: Vec<u16>,
    grams: Vec<Gram>,
}

impl<const BYTES: usize, const WORDS: usize> Grams<BYTES, WORDS> {
    const MASK: u64 = (1 << (8 * BYTES)) - 1;
    const PLACES: usize = WORDS * u64::BITS as usize;
    /// How far a spread gram is shifted to be a place of the table.
    const SHIFT: u32 = u64::BITS - Self::PLACES.trailing_zeros();

    fn new(mut grams: Vec<Gram>) -> Grams<BYTES, WORDS> {
        let mut bits = Box::new([0; WORDS]);
        grams.sort_by_key(|gram| Self::place(gram.bytes));
        for gram in &grams {
            let place = Self::place(gram.bytes);
            bits[place >> 6] |= 1 << (place & 63);
        }
        let lists = 0..=Self::PLACES >> LIST_BITS;
        let start =
            |list| grams.partition_point(|gram| Self::place(gram.bytes) >> LIST_BITS < list);
        Grams {
            bits,
            starts: lists.map(|list| start(list) as u16).collect(),
            grams,
        }
    }

    #[inline(always)]
    fn place(last: u64) -> usize {
        ((last & Self::MASK).wrapping_mul(SPREAD) >> Self::SHIFT) as usize
    }

    /// Whether any gram may end with these bytes.
    #[inline(always)]
    fn may_end(&self, last: u64) -> bool {
        let place = Self::place(last);
        self.bits[(place >> 6) % WORDS] >> (place & 63) & 1 != 0
    }

    /// The grams that end with these bytes.
    fn at(&self, last: u64) -> impl Iterator<Item = &Gram> {
        let list = Self::place(last) >> LIST_BITS;
        let list = usize::from(self.starts[list])..usize::from(self.starts[list + 1]);
        let bytes = last & Self::MASK;
        self.grams[list]
            .iter()
            .filter(move |gram| gram.bytes == bytes)
    }
}

/// The letter that each byte is read as: itself in lower case, or the letter that it stands for.
fn readings() -> [u8; 256] {
    let mut read: [u8; 256] = std::array::from_fn(|byte| (byte as u8).to_ascii_lowercase());
    for letter in b'a'..=b'z' {
        for other in leet(letter) {
            read[usize::from(*other)] = letter;
        }
    }
    // `1` is both an i and an l, so those two are one.
    let one = read[usize::from(b'1')];
    for byte in b"iIlL!|1" {
        read[usize::from(*byte)] = one;
    }
    read
}
