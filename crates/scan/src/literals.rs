//! All literals of all rules in one pass, in every letter case and in leetspeak.
//!
//! Thousands of literals make an automaton that no cache of a processor holds, and each byte then waits for
//! memory. So of each literal only four bytes in a row are looked for, its *gram*, the rarest that it has: a bit
//! in a small table says for each place whether any gram may end there, and only then are literals compared.
//! What it answers are candidates in order of place; whoever asks judges them.

use memchr::memmem::Finder;

use crate::words::leet;

mod rare;

/// Bytes of a gram.
const GRAM_BYTES: usize = 4;
/// Bytes of a literal that is not ASCII among which its gram is the last.
const WIDE_BYTES: usize = 6;
/// Bytes of literals that a gram makes up with what stands around them.
const SHORT_BYTES: usize = 3;
const PAIR_BYTES: usize = 2;
/// Bits of the table: 16 KB, half of what the nearest cache holds.
const TABLE_BITS: u32 = 17;
const WORD_BITS: u32 = 5;
const WORDS: usize = 1 << (TABLE_BITS - WORD_BITS);
/// Bytes of a text whose places are looked up in one go.
const BLOCK_BYTES: usize = 256;
/// Bits of a number that say no place of the table.
const KEPT_MASK: u32 = (1 << (u32::BITS - TABLE_BITS)) - 1;
/// What a text begins with and ends with.
const OUTSIDE: u8 = 0;

/// What a literal is of the words that it stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    Word,
    Begins,
    Part,
}

/// Literals to be found in one pass. Built once, shared by all threads.
pub(crate) struct Literals {
    /// The letter that each byte is read as.
    read: [u8; 256],
    /// All literals as they are read, one behind the other.
    texts: Vec<u8>,
    literals: Vec<Literal>,
    table: Table,
    /// Marks that are too short for a gram.
    tiny: Vec<(Finder<'static>, u16)>,
}

/// A literal, and where its gram ends in it.
struct Literal {
    /// Its first bytes as they are written plainly, and which of their bits have to be so: a letter has two cases.
    plain: u64,
    mask: u64,
    /// Where it begins in all texts, and its bytes.
    start: u32,
    length: u8,
    /// Bytes behind its gram: one less than none where the gram takes in the byte behind the literal.
    behind: i8,
}

impl Literal {
    fn new(literal: &[u8], start: usize, behind: i8) -> Literal {
        let (mut plain, mut mask) = ([0; 8], [0; 8]);
        for (at, byte) in literal.iter().enumerate().take(8) {
            plain[at] = *byte;
            mask[at] = if byte.is_ascii_alphabetic() {
                !0x20
            } else {
                !0
            };
        }
        let (plain, mask) = (u64::from_le_bytes(plain), u64::from_le_bytes(mask));
        Literal {
            plain: plain & mask,
            mask,
            start: start as u32,
            length: literal.len() as u8,
            behind,
        }
    }
}

/// Where literals were found. Kept by who searches.
#[derive(Default)]
pub(crate) struct Places {
    /// The places behind literals, which they are, and whether they are written plainly.
    ends: Vec<(u32, u16, bool)>,
}

impl Places {
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
    }

    /// The place behind each literal that was found, and which it is, in order of place.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.spelled().map(|(end, literal, _)| (end, literal))
    }

    /// The same, and whether it is known to be written in no leetspeak.
    pub(crate) fn spelled(&self) -> impl Iterator<Item = (usize, u16, bool)> + '_ {
        let ends = self.ends.iter();
        ends.map(|(end, literal, plain)| (*end as usize, *literal, *plain))
    }

    /// Keeps a place. Grams stand anywhere in their literals, so their order is not quite that of the ends.
    #[inline(always)]
    fn keep(&mut self, end: usize, literal: u16, plain: bool) {
        let place = (end as u32, literal, plain);
        let later = self.ends.iter().rev();
        match later.take_while(|other| other.0 > place.0).count() {
            0 => self.ends.push(place),
            later => self.ends.insert(self.ends.len() - later, place),
        }
    }
}

impl Literals {
    /// Literals, and what each is of words. Empty literals are in no text.
    pub(crate) fn new(literals: &[(&[u8], Whole)]) -> Literals {
        let read = readings();
        let mut texts = Vec::new();
        for (literal, _) in literals {
            texts.extend(literal.iter().map(|byte| read[usize::from(*byte)]));
        }
        let mut grams = Grams::new(&read, &texts);
        let mut tiny = Vec::new();
        let (mut all, mut start) = (Vec::with_capacity(literals.len()), 0);
        for (index, (literal, whole)) in (0u16..).zip(literals) {
            let text = &texts[start..start + literal.len()];
            let behind = match text.len() {
                0 => 0,
                PAIR_BYTES if *whole == Whole::Word => grams.pair(text, index),
                1 | PAIR_BYTES => {
                    tiny.push((Finder::new(literal).into_owned(), index));
                    0
                }
                SHORT_BYTES => grams.short(text, *whole != Whole::Part, index),
                length => {
                    let wide = if literal.is_ascii() {
                        GRAM_BYTES
                    } else {
                        WIDE_BYTES
                    };
                    let end = rare::gram(literal, wide.min(length)) + wide.min(length);
                    grams.add(&text[end - GRAM_BYTES..end], index);
                    (length - end) as i8
                }
            };
            all.push(Literal::new(literal, start, behind));
            start += literal.len();
        }
        Literals {
            read,
            table: grams.table(),
            texts,
            literals: all,
            tiny,
        }
    }

    /// Finds all places of all literals.
    pub(crate) fn find(&self, bytes: &[u8], places: &mut Places) {
        places.clear();
        self.add(bytes, 0, places);
    }

    /// Adds all places of all literals, which are known by their numbers and as many more.
    pub(crate) fn add(&self, bytes: &[u8], more: u16, places: &mut Places) {
        let first = places.ends.len();
        self.table.each(bytes, |at, index| {
            let literal = &self.literals[usize::from(index)];
            let end = at.wrapping_add_signed(isize::from(literal.behind));
            if let Some(plain) = self.ends_at(bytes, end, literal) {
                places.keep(end, index + more, plain);
            }
        });
        let among = places.ends.len();
        for (finder, index) in &self.tiny {
            let end = |at| (at + finder.needle().len()) as u32;
            let found = finder.find_iter(bytes);
            places
                .ends
                .extend(found.map(|at| (end(at), index + more, true)));
        }
        if first > 0 || places.ends.len() > among {
            places.ends.sort_by_key(|(end, ..)| *end);
        }
    }

    /// Whether any literal is in a text.
    pub(crate) fn hold(&self, bytes: &[u8]) -> bool {
        let mut places = Places::default();
        self.find(bytes, &mut places);
        !places.ends.is_empty()
    }

    /// Whether a literal ends at a place; and if it does, whether it is known to be written plainly.
    #[inline(always)]
    fn ends_at(&self, bytes: &[u8], end: usize, literal: &Literal) -> Option<bool> {
        let length = usize::from(literal.length);
        let start = end.wrapping_sub(length);
        // Most literals are short, and written plainly: those are compared at once.
        if let Some(eight) = bytes.get(start..).and_then(<[u8]>::first_chunk::<8>) {
            let same = u64::from_le_bytes(*eight) & literal.mask == literal.plain;
            if same && length <= 8 {
                return Some(true);
            }
        }
        let text = &self.texts[literal.start as usize..][..length];
        let same = |(byte, letter): (&u8, &u8)| self.read[usize::from(*byte)] == *letter;
        let found = bytes.get(start..end)?;
        found.iter().zip(text).all(same).then_some(false)
    }
}

/// Gives each byte a number, such that those of bytes in a row make one that goes on from byte to byte: each is
/// shifted by as much as it stands further back, and what is too far back falls out.
struct Numbers([u32; 256]);

impl Numbers {
    const SHIFT: u32 = u32::BITS / GRAM_BYTES as u32;

    #[inline(always)]
    fn next(&self, number: u32, byte: u8) -> u32 {
        number << Self::SHIFT ^ self.0[usize::from(byte)]
    }

    fn of(&self, bytes: &[u8]) -> u32 {
        bytes
            .iter()
            .fold(0, |number, byte| self.next(number, *byte))
    }
}

/// The place of a number in the table: its first bits.
#[inline(always)]
fn place(number: u32) -> u32 {
    number >> (u32::BITS - TABLE_BITS)
}

/// The word of the table that a place is in, and its bit there.
#[inline(always)]
fn word(place: u32) -> (usize, u32) {
    (
        (place >> WORD_BITS) as usize % WORDS,
        place % (1 << WORD_BITS),
    )
}

/// The places where grams may end, in a table of bits, and the grams of each.
struct Table {
    numbers: Numbers,
    bits: Box<[u32; WORDS]>,
    /// How many bits are set before those of each word.
    ranks: Box<[u32; WORDS]>,
    /// Where the grams of each bit begin, and the end.
    starts: Vec<u32>,
    grams: Vec<u16>,
}

impl Table {
    /// Calls `each` with the places behind what may be a gram, in their order, and with each gram that it may be.
    #[inline(always)]
    fn each(&self, bytes: &[u8], mut each: impl FnMut(usize, u16)) {
        let mut number = self.numbers.of(&[OUTSIDE; GRAM_BYTES]);
        let mut kept = [0; BLOCK_BYTES];
        for (start, block) in (0..).step_by(BLOCK_BYTES).zip(bytes.chunks(BLOCK_BYTES)) {
            let count = self.block(block, &mut number, &mut kept);
            for kept in &kept[..count] {
                let at = start + (kept % BLOCK_BYTES as u32) as usize + 1;
                let grams = self.grams(place(*kept));
                grams.iter().for_each(|gram| each(at, *gram));
            }
        }
        // A gram may take in the byte behind the text.
        if self.block(&[OUTSIDE], &mut number, &mut kept) > 0 {
            let grams = self.grams(place(kept[0]));
            grams.iter().for_each(|gram| each(bytes.len() + 1, *gram));
        }
    }

    /// Keeps the places where grams may end in a block, each with its number, and counts them.
    #[inline(never)]
    fn block(&self, block: &[u8], number: &mut u32, kept: &mut [u32; BLOCK_BYTES]) -> usize {
        let (mut count, mut last) = (0u32, *number);
        // Whether a place is kept is no branch, since a processor could not foresee it.
        let mut keep = |at: u32, byte: u8| {
            last = self.numbers.next(last, byte);
            kept[usize::from(count as u8)] = last & !KEPT_MASK | at;
            let (word, bit) = word(place(last));
            count += self.bits[word] >> bit & 1;
        };
        let (fours, rest) = block.as_chunks::<4>();
        for (start, four) in (0u32..).step_by(4).zip(fours) {
            (0..)
                .zip(four)
                .for_each(|(at, byte)| keep(start + at, *byte));
        }
        let start = 4 * fours.len() as u32;
        (start..).zip(rest).for_each(|(at, byte)| keep(at, *byte));
        *number = last;
        count as usize
    }

    /// The grams of a place whose bit is set.
    #[inline(always)]
    fn grams(&self, place: u32) -> &[u16] {
        let (word, bit) = word(place);
        let before = (self.bits[word] & ((1 << bit) - 1)).count_ones();
        let rank = (self.ranks[word] + before) as usize;
        &self.grams[self.starts[rank] as usize..self.starts[rank + 1] as usize]
    }
}

/// Grams before they are a table.
struct Grams {
    numbers: Numbers,
    /// A byte of each number, and whether it may stand beside a word.
    bytes: Vec<(u8, bool)>,
    places: Vec<(u32, u16)>,
}

impl Grams {
    /// Bytes that are read as one letter have one number, and so have all that no literal has.
    fn new(read: &[u8; 256], texts: &[u8]) -> Grams {
        let mut used = [false; 256];
        for byte in texts {
            used[usize::from(*byte)] = true;
        }
        let letter = |byte: u8| {
            let letter = read[usize::from(byte)];
            if used[usize::from(letter)] {
                letter
            } else {
                OUTSIDE
            }
        };
        let mut bytes: Vec<(u8, bool)> = Vec::new();
        for byte in 0..=255u8 {
            let outside = !byte.is_ascii_alphanumeric() && byte != b'_';
            let same = |known: &&mut (u8, bool)| letter(known.0) == letter(byte);
            match bytes.iter_mut().find(same) {
                Some((_, known)) => *known |= outside,
                None => bytes.push((byte, outside)),
            }
        }
        Grams {
            numbers: Numbers(std::array::from_fn(|byte| mixed(letter(byte as u8)))),
            bytes,
            places: Vec::new(),
        }
    }

    fn add(&mut self, bytes: &[u8], literal: u16) {
        self.places.push((place(self.numbers.of(bytes)), literal));
    }

    /// Adds a literal of three bytes, with each byte that may stand before it.
    fn short(&mut self, text: &[u8], begins: bool, literal: u16) -> i8 {
        for (before, outside) in self.bytes.clone() {
            if outside || !begins {
                self.add(&[before, text[0], text[1], text[2]], literal);
            }
        }
        0
    }

    /// Adds a word of two bytes, with each byte that may stand before it and behind it.
    fn pair(&mut self, text: &[u8], literal: u16) -> i8 {
        let outside = self.bytes.iter().filter(|(_, outside)| *outside);
        let outside: Vec<u8> = outside.map(|(byte, _)| *byte).collect();
        for before in &outside {
            for behind in &outside {
                self.add(&[*before, text[0], text[1], *behind], literal);
            }
        }
        -1
    }

    fn table(mut self) -> Table {
        self.places.sort_by_key(|(place, _)| *place);
        let mut bits = Box::new([0u32; WORDS]);
        let mut starts = Vec::new();
        for (at, (place, _)) in (0u32..).zip(&self.places) {
            let (word, bit) = word(*place);
            if bits[word] >> bit & 1 == 0 {
                starts.push(at);
            }
            bits[word] |= 1 << bit;
        }
        starts.push(self.places.len() as u32);
        let mut ranks = Box::new([0; WORDS]);
        let mut before = 0;
        for (rank, word) in ranks.iter_mut().zip(bits.iter()) {
            *rank = before;
            before += word.count_ones();
        }
        Table {
            numbers: self.numbers,
            bits,
            ranks,
            starts,
            grams: self
                .places
                .into_iter()
                .map(|(_, literal)| literal)
                .collect(),
        }
    }
}

/// A number for a byte. Each of its bits has to reach all bits of the number, since numbers are only shifted
/// together (the last steps of MurmurHash3).
fn mixed(byte: u8) -> u32 {
    let number = (u32::from(byte) + 1).wrapping_mul(0x9e37_79b1);
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
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
