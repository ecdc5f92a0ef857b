//! Exact text: which files can have a match (by the three-byte runs that it must contain), and the lines that do.
//!
//! The index answers a superset: each file that it names is read and matched, so that what is answered is what stands
//! in the files, as `git grep` would say it. ASCII letters are one case in the index, which serves both kinds of search.

mod formula;
mod pattern;

pub(super) use formula::Formula;
pub(super) use pattern::{Line, Pattern};

/// Three bytes, ASCII letters in lower case, as a number of [`GRAM_BITS`] bits. Different runs may share one: the
/// index then names a file too many, which reading it mends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Gram(u16);

/// Bits of a [`Gram`]. With as few the index is made and kept in much less memory, and a file of usual size has some three
/// of a hundred runs that it does not contain: a text of five letters then names hardly a file too many.
const GRAM_BITS: u32 = u16::BITS;
/// How many runs there are.
pub(super) const RUNS: usize = 1 << GRAM_BITS;

impl Gram {
    fn of(run: [u8; 3]) -> Gram {
        let [a, b, c] = run.map(|byte| u32::from(byte.to_ascii_lowercase()));
        Gram::of_letters(a << 16 | b << 8 | c)
    }

    /// The run of three letters that stand in one number.
    fn of_letters(letters: u32) -> Gram {
        Gram((letters.wrapping_mul(0x9E37_79B1) >> (32 - GRAM_BITS)) as u16)
    }

    /// The number that stands for it in the index.
    pub(super) fn number(self) -> u16 {
        self.0
    }
}

/// Makes the runs of many files, one after the other.
pub(super) struct Grams {
    seen: Vec<u64>,
    found: Vec<u16>,
}

impl Default for Grams {
    fn default() -> Grams {
        Grams {
            seen: vec![0; RUNS / 64],
            found: Vec::new(),
        }
    }
}

impl Grams {
    /// The number of each run of `bytes` once.
    pub(super) fn of(&mut self, bytes: &[u8]) -> &[u16] {
        for gram in self.found.drain(..) {
            self.seen[usize::from(gram) / 64] = 0;
        }
        let mut letters = 0;
        for (at, byte) in bytes.iter().enumerate() {
            letters = (letters << 8 | u32::from(byte.to_ascii_lowercase())) & 0xFF_FFFF;
            if at < 2 {
                continue;
            }
            let Gram(gram) = Gram::of_letters(letters);
            let (word, bit) = (usize::from(gram) / 64, 1u64 << (gram % 64));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                self.found.push(gram);
            }
        }
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_said_once_in_any_case() {
        let mut grams = Grams::default();
        assert_eq!(grams.of(b"abcABCabc").len(), 3);
        assert_eq!(grams.of(b"abc"), [Gram::of(*b"ABC").number()]);
        assert!(grams.of(b"ab").is_empty());
    }
}
