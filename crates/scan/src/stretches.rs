//! The long stretches of a text of bytes that words in an encoding are made of, or numbers: found once for all who look
//! for something of a narrower class, or longer.

use std::ops::Range;

use base::limit::SCAN_ENCODED_BYTES_MIN;

use crate::decode::run;
use crate::runs::{self, BLOCK_BYTES};

/// Bytes of the shortest word that anyone looks for, and of the shortest row of numbers.
pub(crate) const WORD_BYTES_MIN: usize = SCAN_ENCODED_BYTES_MIN;
pub(crate) const ROW_BYTES_MIN: usize = 13;

/// What a text has of them, in order.
pub(crate) struct Stretches {
    /// Of letters, digits and `+/-_`.
    pub(crate) words: Vec<Range<usize>>,
    /// Of digits, white space and `+,-;`.
    pub(crate) rows: Vec<Range<usize>>,
}

impl Stretches {
    pub(crate) fn of(bytes: &[u8]) -> Stretches {
        Stretches {
            words: words(bytes, WORD_BYTES_MIN, in_word),
            rows: rows(bytes),
        }
    }
}

fn in_word(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    // The slash is the byte before the first digit.
    let digit = byte.wrapping_sub(b'/') < 11;
    letter | digit | (byte == b'+') | (byte == b'-') | (byte == b'_')
}

/// The bytes of a row.
const IN_ROW: [bool; 256] = {
    let mut inside = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let space = matches!(byte as u8, b'\t'..=b'\r' | b' ');
        inside[byte] = space || matches!(byte as u8, b'0'..=b'9' | b'+' | b',' | b'-' | b';');
        byte += 1;
    }
    inside
};

/// All rows. Few bytes of a text are of one, so that a look at some of them says no.
fn rows(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut at, mut all) = (0, Vec::new());
    let class = |byte: u8| IN_ROW[usize::from(byte)];
    while let Some(row) = run(bytes, at, ROW_BYTES_MIN, class) {
        at = row.end;
        all.push(row);
    }
    all
}

/// All runs of at least `min` bytes that a class holds. Most bytes of a text are of words, so that a block of them is
/// looked at at once, and without a branch; the class is one of few ranges, and `min` less than a block.
fn words(bytes: &[u8], min: usize, class: impl Fn(u8) -> bool) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    // Where the run begins that goes on in the next block.
    let mut open = None;
    for base in (0..bytes.len()).step_by(BLOCK_BYTES) {
        let mut inside = runs::inside_first(&bytes[base..], &class);
        if let Some(start) = open {
            let more = inside.trailing_ones() as usize;
            if more == BLOCK_BYTES {
                continue;
            }
            let end = base + more;
            all.extend((end - start >= min).then_some(start..end));
            inside &= !0 << more;
        }
        let last = inside.leading_ones() as usize;
        open = (last > 0).then_some(base + BLOCK_BYTES - last);
        let mut starts = starts(inside, min);
        while starts != 0 {
            let at = starts.trailing_zeros() as usize;
            let length = (inside >> at).trailing_ones() as usize;
            if at + length == BLOCK_BYTES {
                break;
            }
            all.push(base + at..base + at + length);
            starts &= !0 << (at + length);
        }
    }
    let open = open.map(|start| start..bytes.len());
    all.extend(open.filter(|last| last.len() >= min));
    all
}

/// The bits behind which, with themselves, so many are set.
fn starts(bits: u64, count: usize) -> u64 {
    let (mut starts, mut known) = (bits, 1);
    while known < count {
        let step = known.min(count - known);
        starts &= starts >> step;
        known += step;
    }
    starts
}

/// The next run of at least `min` bytes that `class` holds, from `at` on, where all such runs are inside some stretches.
pub(crate) fn run_in(
    stretches: &[Range<usize>],
    (bytes, at): (&[u8], usize),
    min: usize,
    class: impl Fn(u8) -> bool,
) -> Option<Range<usize>> {
    let first = stretches.partition_point(|stretch| stretch.end <= at);
    stretches[first..]
        .iter()
        .find_map(|stretch| run(&bytes[..stretch.end], stretch.start.max(at), min, &class))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a byte is in a word, and whether it is in a row.
    fn classes(byte: u8) -> [bool; 2] {
        let word = byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
        let row =
            byte.is_ascii_digit() || byte.is_ascii_whitespace() || b"\x0b+,-;".contains(&byte);
        [word, row]
    }

    #[test]
    fn stretches_are_of_their_classes() {
        for byte in 0..=u8::MAX {
            for length in [WORD_BYTES_MIN, 400] {
                let Stretches { words, rows } = Stretches::of(&vec![byte; length]);
                let due = classes(byte).map(|is| vec![0..length; usize::from(is)]);
                assert_eq!([words, rows], due, "{byte}");
            }
        }
    }

    #[test]
    fn blocks_do_not_divide_stretches() {
        let class = |byte: u8| byte < b'c';
        let mut seed = 1u32;
        for length in (0..700).step_by(7) {
            let byte = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b'a' + (seed >> 29) as u8 / 3
            };
            let mut text: Vec<u8> = (0..length).map(byte).collect();
            if length > 300 {
                text[length / 3..length - 90].fill(b'a');
            }
            for min in [1, 5, 13, 20, 63] {
                let (mut at, mut due) = (0, Vec::new());
                while let Some(one) = run(&text, at, min, class) {
                    at = one.end;
                    due.push(one);
                }
                assert_eq!(words(&text, min, class), due, "{length} {min}");
            }
        }
    }
}
