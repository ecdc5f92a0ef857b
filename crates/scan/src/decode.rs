//! Undoing encodings: base64, hex and base32, percent and other escapes, separators between characters, line ends
//! inside words.
//!
//! Only runs whose alphabet and length can decode are tried, each once. What a run decodes to is never
//! longer than the run, so that the work is bounded by the text and the depth.

use std::ops::Range;

use crate::layer::Layer;
use crate::report::Bound;
use crate::runs::{self, BLOCK_BYTES};

mod base;
mod escapes;
mod spaced;
pub(crate) mod wrapped;

/// Takes what a run decoded to, and the name of what was undone.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8], &'static str);

/// One kind of encoding.
pub(crate) struct Decoder {
    /// The next run that can be decoded, from a place on.
    pub(crate) next: fn(&Layer<'_>, usize) -> Option<Range<usize>>,
    /// Decodes a run, in each way that gives something. Errors: it is encoded too often.
    pub(crate) decode: fn(&[u8], Sink<'_>) -> Result<(), Bound>,
}

/// Every decoder, in the order in which they are tried.
pub(crate) const ALL: &[Decoder] = &[
    base::DECODER,
    escapes::DECODER,
    spaced::SINGLE,
    spaced::PAIRS,
    wrapped::DECODER,
];

/// The next run of at least `min` bytes that `class` holds, from `at` on; `min` is at most a block.
///
/// Where a run begins is told for a block at once, without a branch; in what is left behind the last blocks it looks
/// at every `min`th byte and back.
pub(crate) fn run(
    bytes: &[u8],
    mut at: usize,
    min: usize,
    class: impl Fn(u8) -> bool,
) -> Option<Range<usize>> {
    let inside = |at: usize| {
        let block = bytes.get(at..).and_then(<[u8]>::first_chunk)?;
        Some(u128::from(runs::inside(block, &class)))
    };
    let mut here = None;
    while let Some(next) = inside(at + BLOCK_BYTES) {
        let both = next << BLOCK_BYTES | here.or_else(|| inside(at))?;
        let start = starts(both, min).trailing_zeros() as usize;
        if start < BLOCK_BYTES {
            return Some(maximal(bytes, at + start, min, class));
        }
        (here, at) = (Some(next), at + BLOCK_BYTES);
    }
    while at + min <= bytes.len() {
        match bytes[at..at + min].iter().rposition(|byte| !class(*byte)) {
            Some(outside) => at += outside + 1,
            None => return Some(maximal(bytes, at, min, class)),
        }
    }
    None
}

/// The whole of a run of which the first `min` bytes are known.
fn maximal(bytes: &[u8], start: usize, min: usize, class: impl Fn(u8) -> bool) -> Range<usize> {
    let rest = &bytes[start + min..];
    let more = rest.iter().position(|byte| !class(*byte));
    start..start + min + more.unwrap_or(rest.len())
}

/// The bits behind which, with themselves, so many are set.
fn starts(bits: u128, count: usize) -> u128 {
    let (mut starts, mut known) = (bits, 1);
    while known < count {
        let step = known.min(count - known);
        starts &= starts >> step;
        known += step;
    }
    starts
}

/// The value of a hexadecimal digit.
fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_maximal() {
        let digits = |byte: u8| byte.is_ascii_digit();
        assert_eq!(run(b"ab123456cd", 0, 4, digits), Some(2..8));
        assert_eq!(run(b"123x1234", 0, 4, digits), Some(4..8));
        assert_eq!(run(b"123x123", 0, 4, digits), None);
        assert_eq!(run(b"", 0, 4, digits), None);
    }
}
