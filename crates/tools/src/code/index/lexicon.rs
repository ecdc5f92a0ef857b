//! The words of a segment that is being written, each by a number, and the names that were cut into them.
//!
//! Most names of a file were seen in another one before: a name is cut once, and after that it is only looked up.

use std::hash::{BuildHasher, RandomState};

use crate::code::parse::words::{RUN_BYTES_MAX, Words, runs};

/// Bits of the place of a word in its name; a name has fewer parts than there are places.
const PLACE_BITS: u32 = 5;
const _: () = assert!(crate::code::parse::words::PARTS_MAX < 1 << PLACE_BITS);
/// A multiplier with as many ones as zeros, of no meaning.
const FOLD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A word of a name: its number in [`Lexicon::words`], and its place from the first word of the name.
#[derive(Clone, Copy)]
pub(super) struct Word(u32);

impl Word {
    pub(super) fn number(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    pub(super) fn place(self) -> u32 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }
}

/// Names and their words.
pub(super) struct Lexicon {
    /// The words of all names.
    pub words: Texts,
    names: Texts,
    /// For each name, where its words end in `cut`, and how many places they take.
    ends: Vec<(u32, u32)>,
    cut: Vec<Word>,
}

impl Default for Lexicon {
    fn default() -> Lexicon {
        let mut lexicon = Lexicon {
            words: Texts::default(),
            names: Texts::default(),
            ends: Vec::new(),
            cut: Vec::new(),
        };
        // The empty name stands for all that are too long: one place without a word.
        lexicon.names.number(b"");
        lexicon.ends.push((0, 1));
        lexicon
    }
}

impl Lexicon {
    /// The numbers of the names of a text, in order.
    pub(super) fn names<'a>(&'a mut self, text: &'a str) -> impl Iterator<Item = u32> + 'a {
        runs(text).map(|run| self.name(run))
    }

    fn name(&mut self, run: &str) -> u32 {
        let number = match run.len() > RUN_BYTES_MAX {
            true => 0,
            false => self.names.number(run.as_bytes()),
        };
        if number as usize == self.ends.len() {
            self.cut(run);
        }
        number
    }

    fn cut(&mut self, run: &str) {
        let (mut words, mut places) = (Words::of(run), 0);
        while words.advance() {
            let number = self.words.number(words.text().as_bytes());
            let place = u32::try_from(words.position()).expect("a name has few parts");
            self.cut.push(Word(number << PLACE_BITS | place));
            places = place + 1;
        }
        self.ends.push((count(self.cut.len()), places));
    }

    /// The words of a name, by its number, and how many places they take.
    pub(super) fn of(&self, name: u32) -> (&[Word], u32) {
        let name = name as usize;
        let from = name.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, places) = self.ends[name];
        (&self.cut[from as usize..end as usize], places)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.words.bytes() + self.names.bytes() + self.ends.len() * 8 + self.cut.len() * 4
    }
}

/// Texts by numbers, from 0 in the order in which they were seen.
pub(super) struct Texts {
    letters: Vec<u8>,
    /// Where each text ends in `letters`.
    ends: Vec<u32>,
    /// A power of two of slots: half of the hash of a text, and one more than its number; 0 where there is none.
    slots: Vec<u64>,
    /// Nobody outside can tell which texts share a hash.
    seed: u64,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts {
            letters: Vec::new(),
            ends: Vec::new(),
            slots: vec![0; 1 << 10],
            seed: RandomState::new().hash_one(FOLD),
        }
    }
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &[u8]) -> u32 {
        let hash = self.hash(text);
        let mut at = self.first(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let number = slot as u32 - 1;
            if slot >> 32 == hash && self.text(number) == text {
                return number;
            }
            at = (at + 1) % self.slots.len();
        }
        let number = count(self.ends.len());
        self.letters.extend_from_slice(text);
        self.ends.push(count(self.letters.len()));
        self.slots[at] = hash << 32 | u64::from(number + 1);
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    /// The text of a number.
    pub(super) fn text(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.letters[from as usize..self.ends[number] as usize]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Their numbers by the order of the texts.
    pub(super) fn in_order(&self) -> Vec<u32> {
        let head = |number: u32| {
            let (mut head, text) = ([0; 8], self.text(number));
            let length = text.len().min(8);
            head[..length].copy_from_slice(&text[..length]);
            (u64::from_be_bytes(head), number)
        };
        let mut order: Vec<(u64, u32)> = (0..count(self.len())).map(head).collect();
        order.sort_unstable_by(|one, two| {
            let rest = || self.text(one.1).cmp(self.text(two.1));
            one.0.cmp(&two.0).then_with(rest)
        });
        order.into_iter().map(|(_, number)| number).collect()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.letters.len() + self.ends.len() * 4 + self.slots.len() * 8
    }

    /// The slot where looking for a hash begins.
    fn first(&self, hash: u64) -> usize {
        (hash >> (32 - self.slots.len().trailing_zeros())) as usize
    }

    fn grow(&mut self) {
        let more = vec![0; self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, more) {
            let mut at = self.first(slot >> 32);
            while slot != 0 && self.slots[at] != 0 {
                at = (at + 1) % self.slots.len();
            }
            if slot != 0 {
                self.slots[at] = slot;
            }
        }
    }

    /// The hash of a text, of 32 bits.
    fn hash(&self, text: &[u8]) -> u64 {
        let (words, rest) = text.as_chunks::<8>();
        let mut hash = self.seed ^ text.len() as u64;
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        fold(hash ^ u64::from_le_bytes(last)) >> 32
    }
}

fn fold(number: u64) -> u64 {
    let product = u128::from(number) * u128::from(FOLD);
    product as u64 ^ (product >> 64) as u64
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("a segment is under 4 GiB")
}
