//! Exact text: which files can have a match (by the three-byte runs that it must contain), and the lines that do.
//!
//! The index answers a superset: each file that it names is read and matched, so that what is answered is what stands
//! in the files, as `git grep` would say it. ASCII letters are one case in the index, which serves both kinds of search.

mod formula;
mod pattern;

pub use formula::Formula;
pub use pattern::{Line, Pattern};

/// Three bytes, ASCII letters in lower case, as a number of [`GRAM_BITS`] bits. Different runs may share one: the
/// index then names a file too many, which reading it mends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gram(u32);

/// Bits of a [`Gram`]. With as few the index is made and kept in much less memory, and a file of usual size has some three
/// of a hundred runs that it does not contain: a text of five letters then names hardly a file too many.
const GRAM_BITS: u32 = 16;

impl Gram {
    fn of(run: [u8; 3]) -> Gram {
        let [a, b, c] = run.map(|byte| u32::from(byte.to_ascii_lowercase()));
        let number = a << 16 | b << 8 | c;
        Gram(number.wrapping_mul(0x9E37_79B1) >> (32 - GRAM_BITS))
    }

    /// The character that stands for it in the index.
    pub fn letter(self) -> char {
        char::from_u32(0x1_0000 + self.0)
            .expect("all code points past the basic plane are characters")
    }
}

/// Makes the runs of many files, one after the other.
pub struct Grams {
    seen: Vec<u64>,
    found: Vec<u32>,
}

impl Default for Grams {
    fn default() -> Grams {
        Grams {
            seen: vec![0; 1 << (GRAM_BITS - 6)],
            found: Vec::new(),
        }
    }
}

impl Grams {
    /// Each run of `bytes` once, as one text of [`Gram::letter`]s.
    pub fn of(&mut self, bytes: &[u8]) -> String {
        for run in bytes.windows(3) {
            let Gram(gram) = Gram::of([run[0], run[1], run[2]]);
            let (word, bit) = (gram as usize >> 6, 1u64 << (gram & 63));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                self.found.push(gram);
            }
        }
        let mut text = String::with_capacity(self.found.len() * 4);
        for gram in self.found.drain(..) {
            self.seen[gram as usize >> 6] = 0;
            text.push(Gram(gram).letter());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_said_once_in_any_case() {
        let mut grams = Grams::default();
        let text = grams.of(b"abcABCabc");
        assert_eq!(text.chars().count(), 3);
        assert_eq!(grams.of(b"abc"), Gram::of(*b"ABC").letter().to_string());
        assert_eq!(grams.of(b"ab"), "");
    }
}
