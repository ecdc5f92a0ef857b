//! All literals of all rules in one pass, in every letter case and in leetspeak.
//!
//! Thousands of literals make an automaton that no cache of a processor holds, and each byte then waits for
//! memory. So of each literal only four bytes in a row are looked for, its *gram*, the rarest that it has: a bit
//! in a small table says for each place whether any gram may end there, and only then are literals compared.
//! What it answers are candidates in order of place; whoever asks judges them.

use std::ops::Range;

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
/// Places whose literals are in one row.
const ROW_BITS: u32 = 3;
const ROWS: usize = 1 << (TABLE_BITS - ROW_BITS);
/// Bytes of a text whose places are looked up in one go, and of a short one.
const BLOCK_BYTES: usize = 256;
const SHORT_BLOCK_BYTES: usize = 32;
/// Bytes of a text whose places are put in order in one go.
const CHUNK_BYTES: usize = 4 << 10;
/// Bytes of the longest literal.
pub(crate) const LITERAL_BYTES_MAX: usize = u8::MAX as usize;
/// Bytes of a literal that are compared at once.
const PART_BYTES: usize = 8;
/// Letters of a text that are read around a block: as many before and behind as a literal's part may reach.
const AROUND_BYTES: usize = PART_BYTES + PART_BYTES + GRAM_BYTES;
/// Bits of a letter by which grams are told apart, and what marks are in those: path's, brackets, all others.
const LETTER_BITS: u32 = 5;
const BESIDE: u8 = (1 << LETTER_BITS) - 1;
const MARKS: [u8; 3] = [29, 30, 31];
/// What a text begins with and ends with, and what each byte is that no literal has.
const OUTSIDE: u8 = 0;

/// What a literal is of the words that it stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    Word,
    Begins,
    Part,
}

/// How a literal is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Written {
    /// In each spelling that it may have.
    Freely,
    /// As it is, in whatever letter case.
    Plainly,
}

/// Literals to be found in one pass. Built once, shared by all threads.
pub(crate) struct Literals {
    /// The letter that each byte is read as.
    read: [u8; 256],
    /// All literals, one behind the other.
    texts: Vec<u8>,
    literals: Vec<Literal>,
    table: Table,
    /// Marks that are too short for a gram.
    tiny: Vec<(Finder<'static>, u16)>,
}

struct Literal {
    /// Its first bytes as they are written plainly, and which of their bits have to be so: a letter has two cases.
    plain: u64,
    mask: u64,
    /// Where it begins in all texts, and its bytes.
    start: u32,
    length: u8,
    written: Written,
}

impl Literal {
    fn new(literal: &[u8], start: usize, written: Written) -> Literal {
        let (mut plain, mut mask) = ([0; PART_BYTES], [0; PART_BYTES]);
        for (at, byte) in literal.iter().enumerate().take(PART_BYTES) {
            mask[at] = if byte.is_ascii_alphabetic() {
                !0x20
            } else {
                !0
            };
            plain[at] = byte & mask[at];
        }
        Literal {
            plain: u64::from_le_bytes(plain),
            mask: u64::from_le_bytes(mask),
            start: start as u32,
            length: literal.len() as u8,
            written,
        }
    }
}

/// The place behind a literal, which it is, and whether it is known to be written plainly.
pub(crate) type Found = (usize, u16, bool);

/// Where literals were found. Kept by who searches.
#[derive(Default)]
pub(crate) struct Places {
    /// The places behind literals, which they are, and whether they are written plainly.
    ends: Vec<(u32, u16, bool)>,
    /// Those that wait to be put among the others.
    tail: Vec<(u32, u16, bool)>,
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
    pub(crate) fn spelled(&self) -> impl Iterator<Item = Found> + '_ {
        let ends = self.ends.iter();
        ends.map(|(end, literal, plain)| (*end as usize, *literal, *plain))
    }

    /// Keeps a place behind so many that are done. Grams stand anywhere in their literals, so their order is not quite
    /// that of the ends.
    #[inline(always)]
    pub(crate) fn keep(&mut self, done: usize, end: usize, literal: u16, plain: bool) {
        let place = (end as u32, literal, plain);
        let later = self.ends[done..].iter().rev();
        match later
            .take_while(|other| order(other) > order(&place))
            .count()
        {
            0 => self.ends.push(place),
            later => self.ends.insert(self.ends.len() - later, place),
        }
    }

    /// The end that is next behind so many; beyond all texts where there is none.
    #[inline(always)]
    pub(crate) fn end(&self, done: usize) -> usize {
        self.ends
            .get(done)
            .map_or(usize::MAX, |(end, ..)| *end as usize)
    }

    /// The place that is next behind so many, if it is not behind this end.
    #[inline(always)]
    pub(crate) fn before(&self, done: usize, end: usize) -> Option<Found> {
        let (place, literal, plain) = *self.ends.get(done)?;
        (place as usize <= end).then_some((place as usize, literal, plain))
    }

    /// Puts the places from a middle one on among those before, from the first one on, which are in order.
    fn merge(&mut self, first: usize, middle: usize) {
        self.tail.extend(self.ends.drain(middle..));
        self.tail.sort_by_key(order);
        self.ends.extend_from_slice(&self.tail);
        let (mut left, mut free) = (middle, self.ends.len());
        while let Some(next) = self.tail.pop() {
            while left > first && order(&self.ends[left - 1]) > order(&next) {
                (left, free) = (left - 1, free - 1);
                self.ends[free] = self.ends[left];
            }
            free -= 1;
            self.ends[free] = next;
        }
    }
}

/// Literals that end at one place are in the order of their numbers.
fn order((end, literal, _): &(u32, u16, bool)) -> (u32, u16) {
    (*end, *literal)
}

impl Literals {
    /// Literals, what each is of words, and how it is written. Empty literals are in no text.
    pub(crate) fn new(literals: &[(&[u8], Whole, Written)]) -> Literals {
        let read = readings(literals);
        let mut grams = Grams::new(&read);
        let (mut tiny, mut texts) = (Vec::new(), Vec::new());
        let mut all = Vec::with_capacity(literals.len());
        for (index, (literal, whole, written)) in (0u16..).zip(literals) {
            match literal.len() {
                0 => {}
                PAIR_BYTES if *whole == Whole::Word => grams.pair(literal, index),
                1 | PAIR_BYTES => tiny.push((Finder::new(literal).into_owned(), index)),
                SHORT_BYTES => grams.short(literal, *whole != Whole::Part, index),
                length => {
                    let wide = if literal.is_ascii() {
                        GRAM_BYTES
                    } else {
                        WIDE_BYTES
                    };
                    let end = rare::gram(literal, wide.min(length)) + wide.min(length);
                    grams.add(literal, end - GRAM_BYTES, index);
                }
            }
            all.push(Literal::new(literal, texts.len(), *written));
            texts.extend_from_slice(literal);
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
        self.add(bytes, &(0..bytes.len()), (places, 0), |found, keep| {
            keep(found)
        });
    }

    /// Adds the places of the literals whose grams are in a part of a text, each as `known` has it kept or not at all, to
    /// those behind so many that are done.
    pub(crate) fn add(
        &self,
        bytes: &[u8],
        part: &Range<usize>,
        (places, done): (&mut Places, usize),
        known: impl Fn(Found, &mut dyn FnMut(Found)),
    ) {
        let first = places.ends.len();
        for start in part.clone().step_by(CHUNK_BYTES) {
            let chunk = start..part.end.min(start + CHUNK_BYTES);
            self.each_gram(bytes, &chunk, |end, literal, plain| {
                known((end, literal, plain), &mut |(end, literal, plain)| {
                    places.keep(first, end, literal, plain);
                });
            });
            let among = places.ends.len();
            self.each_tiny(bytes, &(start..part.end), chunk.len(), |end, literal| {
                known((end, literal, true), &mut |(end, literal, plain)| {
                    places.ends.push((end as u32, literal, plain));
                });
            });
            places.merge(first, among);
        }
        places.merge(done, first);
    }

    /// Calls `each` with the place behind each literal that is in a part of a text, which it is, and whether it is known
    /// to be written plainly. Words of two letters are told by what stands around them, and so may end behind it.
    pub(crate) fn each_in(
        &self,
        bytes: &[u8],
        part: &Range<usize>,
        mut each: impl FnMut(usize, u16, bool),
    ) {
        self.each_gram(bytes, part, &mut each);
        self.each_tiny(bytes, part, part.len(), |end, literal| {
            each(end, literal, true)
        });
    }

    /// Calls `each` with the place behind each tiny literal that begins in so many bytes of a part of a text.
    fn each_tiny(
        &self,
        bytes: &[u8],
        part: &Range<usize>,
        count: usize,
        mut each: impl FnMut(usize, u16),
    ) {
        for (finder, index) in &self.tiny {
            let length = finder.needle().len();
            let end = part.end.min(part.start + count + length - 1);
            for at in finder.find_iter(&bytes[part.start..end]) {
                each(part.start + at + length, *index);
            }
        }
    }

    fn each_gram(&self, bytes: &[u8], part: &Range<usize>, each: impl FnMut(usize, u16, bool)) {
        match part.len() {
            0..=SHORT_BLOCK_BYTES => {
                self.each_block::<{ SHORT_BLOCK_BYTES + AROUND_BYTES }>(bytes, part, each);
            }
            _ => self.each_block::<{ BLOCK_BYTES + AROUND_BYTES }>(bytes, part, each),
        }
    }

    fn each_block<const READ: usize>(
        &self,
        bytes: &[u8],
        part: &Range<usize>,
        mut each: impl FnMut(usize, u16, bool),
    ) {
        let mut block = Block::<READ>::new();
        let length = READ - AROUND_BYTES;
        for start in part.clone().step_by(length) {
            block.read(bytes, start..part.end.min(start + length), &self.read);
            self.table.each(&block, |at, part| {
                let end = start + at + usize::from(part.to_end);
                if let Some(plain) = self.ends_at(bytes, end, part.literal) {
                    each(end, part.literal, plain);
                }
            });
        }
        block.wipe();
    }

    /// Whether any literal may be in a text by itself. It is asked of short ones, most of which hold none.
    pub(crate) fn may_hold(&self, text: &[u8]) -> bool {
        let (mut gram, mut bits) = (0, 0);
        let letters = text.iter().map(|byte| self.read[usize::from(*byte)]);
        for letter in letters.chain([OUTSIDE; GRAM_BYTES - 1]) {
            gram = gram >> u8::BITS | u32::from(letter) << (u32::BITS - u8::BITS);
            let (word, bit) = word(place(gram));
            bits |= self.table.bits[word] >> bit;
        }
        bits & 1 == 1
            || self
                .tiny
                .iter()
                .any(|(finder, _)| finder.find(text).is_some())
    }

    /// Whether any literal is in a text.
    pub(crate) fn hold(&self, bytes: &[u8]) -> bool {
        let mut places = Places::default();
        self.find(bytes, &mut places);
        !places.ends.is_empty()
    }

    /// Whether a literal of which a part was found ends at a place; and if it does, whether it is known to be written
    /// plainly.
    #[inline(always)]
    fn ends_at(&self, bytes: &[u8], end: usize, literal: u16) -> Option<bool> {
        let literal = &self.literals[usize::from(literal)];
        let length = usize::from(literal.length);
        let start = end.wrapping_sub(length);
        let eight = bytes.get(start..).and_then(<[u8]>::first_chunk);
        let same = |eight: &[u8; 8]| u64::from_le_bytes(*eight) & literal.mask == literal.plain;
        let plain = eight.is_some_and(same);
        if !plain && eight.is_some() && literal.written == Written::Plainly {
            return None;
        }
        if length <= PART_BYTES {
            return Some(plain);
        }
        let text = &self.texts[literal.start as usize..][..length];
        let found = bytes.get(start..end)?;
        if plain && found[PART_BYTES..].eq_ignore_ascii_case(&text[PART_BYTES..]) {
            return Some(true);
        }
        if literal.written == Written::Plainly {
            return None;
        }
        let read = |byte: &u8| self.read[usize::from(*byte)];
        let same = |(byte, other): (&u8, &u8)| read(byte) == read(other);
        found.iter().zip(text).all(same).then_some(false)
    }
}

/// The letters of a part of a text, as they are read, and of what stands around it.
struct Block<const READ: usize> {
    letters: [u8; READ],
    /// Letters that are of the part itself.
    length: usize,
}

impl<const READ: usize> Block<READ> {
    fn new() -> Block<READ> {
        Block {
            letters: [OUTSIDE; READ],
            length: 0,
        }
    }

    /// Reads a part of a text, and what stands around it.
    fn read(&mut self, bytes: &[u8], part: Range<usize>, read: &[u8; 256]) {
        let Range { start, end } = part;
        let (before, behind) = (start.min(PART_BYTES), (bytes.len() - end).min(PART_BYTES));
        let from = PART_BYTES - before;
        let around = &bytes[start - before..end + behind];
        let (letters, rest) = self.letters[from..].split_at_mut(around.len());
        for (letter, byte) in letters.iter_mut().zip(around) {
            *letter = read[usize::from(*byte)];
        }
        rest.fill(OUTSIDE);
        self.length = end - start;
    }

    /// Forgets the letters: what was scanned does not stay in memory longer than it has to.
    fn wipe(&mut self) {
        self.letters.fill(OUTSIDE);
        // Else a compiler sees that nobody reads them again, and leaves them as they are.
        std::hint::black_box(&self.letters);
    }

    /// The letters from the byte before this one of the text on.
    #[inline(always)]
    fn letters<const N: usize>(&self, at: usize) -> &[u8; N] {
        let from = PART_BYTES - 1 + at;
        let row = self.letters[from..].first_chunk();
        row.expect("as many are read behind a block")
    }

    /// The gram that begins there.
    #[inline(always)]
    fn gram(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.letters(at))
    }

    /// The letters from so many before it on.
    #[inline(always)]
    fn part(&self, at: usize, back: u8) -> u64 {
        let from = PART_BYTES - 1 + at - usize::from(back);
        let part = self.letters[from..].first_chunk();
        u64::from_le_bytes(*part.expect("as many are read behind a block"))
    }
}

/// The place of a gram in the table. Each of its letters reaches all bits of it.
#[inline(always)]
fn place(gram: u32) -> u32 {
    const LETTERS: u32 = u32::from_le_bytes([BESIDE; GRAM_BYTES]);
    (gram & LETTERS).wrapping_mul(0x9e37_79b1) >> (u32::BITS - TABLE_BITS)
}

/// The word of the table that a place is in, and its bit there.
#[inline(always)]
fn word(place: u32) -> (usize, u32) {
    (
        (place >> WORD_BITS) as usize % WORDS,
        place % (1 << WORD_BITS),
    )
}

/// The row of a place: few rows have grams of more than one place, since few places have any.
#[inline(always)]
fn row(place: u32) -> usize {
    (place >> ROW_BITS) as usize % ROWS
}

/// The places of grams, in a table of bits, and the parts of literals that each may be in.
struct Table {
    bits: Box<[u32; WORDS]>,
    /// Where the parts of each row of places begin, and the end.
    starts: Vec<u32>,
    parts: Vec<Part>,
}

/// The letters of a literal around its gram, which are compared at once.
#[derive(Clone, Copy)]
struct Part {
    letters: u64,
    mask: u64,
    literal: u16,
    /// Letters before the gram.
    back: u8,
    /// Bytes from the one behind the gram's first to the end of the literal.
    to_end: u8,
}

impl Table {
    /// Calls `each` with the parts of literals that are in a block, each with the place in it behind the first byte of
    /// its gram; in the order of grams.
    #[inline(always)]
    fn each<const READ: usize>(&self, block: &Block<READ>, mut each: impl FnMut(usize, &Part)) {
        let mut kept = [0; READ];
        let count = self.grams(block, &mut kept);
        for at in &kept[..count] {
            let at = usize::from(*at);
            for part in self.parts(place(block.gram(at))) {
                if block.part(at, part.back) & part.mask == part.letters {
                    each(at, part);
                }
            }
        }
    }

    /// Keeps the places where grams may be in a block, and counts them.
    #[inline(never)]
    fn grams<const READ: usize>(&self, block: &Block<READ>, kept: &mut [u8; READ]) -> usize {
        let mut count = 0;
        // Whether a place is kept is no branch, since a processor could not foresee it.
        let mut keep = |at: usize, row: &[u8]| {
            let gram = row.first_chunk().expect("a row is longer");
            let (word, bit) = word(place(u32::from_le_bytes(*gram)));
            kept[count] = at as u8;
            count += (self.bits[word] >> bit & 1) as usize;
        };
        for start in (0..block.length).step_by(PART_BYTES) {
            let row: &[u8; PART_BYTES + GRAM_BYTES] = block.letters(start);
            (0..PART_BYTES).for_each(|at| keep(start + at, &row[at..]));
        }
        count
    }

    /// The parts of a row of places.
    #[inline(always)]
    fn parts(&self, place: u32) -> &[Part] {
        let row = row(place);
        &self.parts[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

/// Grams before they are a table.
struct Grams<'r> {
    read: &'r [u8; 256],
    /// What may stand beside a literal, by the bits that grams are told apart by, and whether it ends a word.
    beside: Vec<(u8, bool)>,
    parts: Vec<(u32, Part)>,
}

impl Grams<'_> {
    fn new(read: &[u8; 256]) -> Grams<'_> {
        let mut beside: Vec<(u8, bool)> = Vec::new();
        for (byte, letter) in (0..=255u8).zip(read) {
            let letter = letter & BESIDE;
            let outside = !byte.is_ascii_alphanumeric() && byte != b'_';
            match beside.iter_mut().find(|known| known.0 == letter) {
                Some((_, known)) => *known |= outside,
                None => beside.push((letter, outside)),
            }
        }
        Grams {
            read,
            beside,
            parts: Vec::new(),
        }
    }

    /// Adds a literal whose gram begins here.
    fn add(&mut self, text: &[u8], start: usize, literal: u16) {
        let from = start.saturating_sub(GRAM_BYTES);
        let letters = text[from..]
            .iter()
            .take(PART_BYTES)
            .map(|byte| self.letter(*byte));
        let letters: Vec<_> = letters.collect();
        self.part(&letters, start - from, text.len() - start - 1, literal);
    }

    /// Adds a literal of three bytes, with each letter that may stand before it.
    fn short(&mut self, text: &[u8], begins: bool, literal: u16) {
        let [a, b, c] = [0, 1, 2].map(|at| self.letter(text[at]));
        for (before, outside) in self.beside.clone() {
            if outside || !begins {
                self.part(&[(before, BESIDE), a, b, c], 0, SHORT_BYTES, literal);
            }
        }
    }

    /// Adds a word of two bytes, with each letter that may stand before it and behind it.
    fn pair(&mut self, text: &[u8], literal: u16) {
        let [a, b] = [0, 1].map(|at| self.letter(text[at]));
        let outside = self.beside.iter().filter(|(_, outside)| *outside);
        let outside: Vec<(u8, u8)> = outside.map(|(letter, _)| (*letter, BESIDE)).collect();
        for before in &outside {
            for behind in &outside {
                self.part(&[*before, a, b, *behind], 0, PAIR_BYTES, literal);
            }
        }
    }

    fn letter(&self, byte: u8) -> (u8, u8) {
        (self.read[usize::from(byte)], !0)
    }

    /// Adds letters, each with the bits of it that are compared, whose gram begins so many behind their first.
    fn part(&mut self, letters: &[(u8, u8)], back: usize, to_end: usize, literal: u16) {
        let word = |word: [u8; PART_BYTES]| u64::from_le_bytes(word);
        let letter = |at: usize| letters.get(at).copied().unwrap_or_default();
        let gram = std::array::from_fn(|at| letters[back + at].0);
        let part = Part {
            letters: word(std::array::from_fn(|at| letter(at).0)),
            mask: word(std::array::from_fn(|at| letter(at).1)),
            literal,
            back: back as u8,
            to_end: to_end as u8,
        };
        self.parts.push((place(u32::from_le_bytes(gram)), part));
    }

    /// Puts the parts in order of their rows.
    fn table(self) -> Table {
        let mut bits = Box::new([0u32; WORDS]);
        let mut starts = vec![0u32; ROWS + 1];
        for (place, _) in &self.parts {
            let (word, bit) = word(*place);
            bits[word] |= 1 << bit;
            starts[row(*place) + 1] += 1;
        }
        for row in 0..ROWS {
            starts[row + 1] += starts[row];
        }
        let mut free = starts.clone();
        let mut order = vec![0u32; self.parts.len()];
        for (index, (place, _)) in (0u32..).zip(&self.parts) {
            let next = &mut free[row(*place)];
            order[*next as usize] = index;
            *next += 1;
        }
        let part = |index: &u32| self.parts[*index as usize].1;
        Table {
            bits,
            starts,
            parts: order.iter().map(part).collect(),
        }
    }
}

/// The letter that each byte is read as, as a number: itself in any case, or the letter that it stands for.
fn readings(literals: &[(&[u8], Whole, Written)]) -> [u8; 256] {
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
    let mut used = [false; 256];
    for byte in literals.iter().flat_map(|(literal, ..)| *literal) {
        used[usize::from(read[usize::from(*byte)])] = true;
    }
    let (mut letters, mut marks) = (0, 0);
    let mut numbers = [OUTSIDE; 256];
    for byte in (0..=255u8).filter(|byte| used[usize::from(*byte)]) {
        let mut mark = |kind: u8| {
            marks += 1;
            kind | marks << LETTER_BITS
        };
        numbers[usize::from(byte)] = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => {
                letters += 1;
                letters
            }
            // Each byte of another script tells as much as a letter.
            0x80.. => byte,
            ..=b' ' => mark(OUTSIDE),
            b'/' | b':' => mark(MARKS[0]),
            b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'{' | b'}' => mark(MARKS[1]),
            _ => mark(MARKS[2]),
        };
    }
    read.map(|letter| numbers[usize::from(letter)])
}
