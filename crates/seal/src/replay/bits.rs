//! One window: which of the last 16,384 counters of a sender have been taken.
//!
//! The counters are a ring of bits, so that the window moves without being copied. It covers the highest counter that
//! was taken and the 16,383 below it, exactly; whatever is lower counts as taken.

use super::WINDOW_BITS;

const WORDS: usize = (WINDOW_BITS / 64) as usize;

/// A window with at least one counter taken.
pub(super) struct Bits {
    top: u64,
    words: Box<[u64]>,
}

impl Bits {
    /// A window in which only `ctr` is taken.
    pub(super) fn new(ctr: u64) -> Bits {
        let mut bits = Bits {
            top: ctr,
            words: vec![0; WORDS].into_boxed_slice(),
        };
        bits.set(ctr);
        bits
    }

    /// Whether `ctr` can still be taken.
    #[inline]
    pub(super) fn is_free(&self, ctr: u64) -> bool {
        if ctr > self.top {
            return true;
        }
        let (word, bit) = place(ctr);
        self.top - ctr < WINDOW_BITS && self.words[word] & bit == 0
    }

    /// Takes `ctr`, which is free, and moves the window up to it if it is the highest.
    #[inline]
    pub(super) fn take(&mut self, ctr: u64) {
        debug_assert!(self.is_free(ctr));
        if ctr > self.top {
            self.move_to(ctr);
        }
        self.set(ctr);
    }

    #[inline]
    fn set(&mut self, ctr: u64) {
        let (word, bit) = place(ctr);
        self.words[word] |= bit;
    }

    /// Clears the bits of the counters after `top`, up to and with `ctr`.
    #[inline]
    fn move_to(&mut self, ctr: u64) {
        if ctr - self.top >= WINDOW_BITS {
            self.words.fill(0);
        } else {
            let mut next = self.top + 1;
            while next <= ctr {
                // As many as the word has from here on, and no more than are asked for.
                let in_word = 64 - next % 64;
                let count = in_word.min(ctr - next + 1);
                let ones = u64::MAX >> (64 - count);
                self.words[place(next).0] &= !(ones << (next % 64));
                let Some(after) = next.checked_add(count) else {
                    break;
                };
                next = after;
            }
        }
        self.top = ctr;
    }
}

/// The word and the bit of a counter.
#[inline]
fn place(ctr: u64) -> (usize, u64) {
    ((ctr % WINDOW_BITS / 64) as usize, 1 << (ctr % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn it_covers_exactly_its_counters() {
        let mut bits = Bits::new(100_000);
        assert!(!bits.is_free(100_000));
        assert!(bits.is_free(100_000 - (WINDOW_BITS - 1)));
        assert!(!bits.is_free(100_000 - WINDOW_BITS));
        bits.take(100_001);
        assert!(!bits.is_free(100_000 - (WINDOW_BITS - 1)));
        assert!(bits.is_free(100_001 - (WINDOW_BITS - 1)));
        assert!(!bits.is_free(0));
    }

    #[test]
    fn it_works_at_both_ends_of_the_counters() {
        let mut bits = Bits::new(0);
        assert!(!bits.is_free(0));
        bits.take(1);
        bits.take(u64::MAX - 70);
        for ctr in u64::MAX - 69..=u64::MAX {
            assert!(bits.is_free(ctr));
            bits.take(ctr);
            assert!(!bits.is_free(ctr));
        }
        assert!(bits.is_free(u64::MAX - 71));
        assert!(!bits.is_free(1));
    }

    /// Jumps of every kind, against the plain meaning: a set, and the highest.
    #[test]
    fn it_agrees_with_a_set() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let width = random.u32(1..40);
            let start = random.u64(..1 << width);
            let (mut bits, mut taken, mut top) = (Bits::new(start), HashSet::from([start]), start);
            for _ in 0..4_000 {
                let reach = 1 << random.u32(0..17);
                let ctr = (top + random.u64(0..reach)).saturating_sub(random.u64(0..reach));
                let is_free = !taken.contains(&ctr) && ctr + WINDOW_BITS > top;
                assert_eq!(bits.is_free(ctr), is_free, "seed {seed}, {ctr} under {top}");
                if is_free {
                    bits.take(ctr);
                    taken.insert(ctr);
                    top = top.max(ctr);
                }
            }
        }
    }
}
