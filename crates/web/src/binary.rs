//! Texts inside of bytes that are none: pictures, archives, packs of git.
//!
//! Read as a text, random bytes say a short password now and then. So of what is binary only runs of printable characters
//! are judged that are long enough to be a key. They cannot be replaced: what is found in them refuses all.

use base::{Refusal, refusal};
use gate::{Channel, Passed, Role};

/// Shortest run that is judged, in bytes.
const RUN_BYTES_MIN: usize = 16;
/// Longest end of a piece that waits for the next one because a run may go on, in bytes.
const RUN_BYTES_MAX: usize = 4 << 10;
/// Bytes of a piece that says by itself whether it is text.
const SNIFFED_BYTES_MIN: usize = 64;
/// Of so many bytes one that no text has makes a piece no text. Of random bytes one in ten is such a byte.
const BINARY_SHARE: usize = 20;

/// Whether a piece is no text: enough of its bytes are control characters that no text has (WHATWG MIME Sniffing, "binary
/// data byte").
pub(crate) fn is_binary(piece: &[u8]) -> bool {
    let odd = |byte: u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    let odd = piece.iter().filter(|byte| odd(**byte)).count();
    piece.len() >= SNIFFED_BYTES_MIN && odd * BINARY_SHARE > piece.len()
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

/// The runs of printable characters, each in lines of its own.
pub(crate) fn texts(bytes: &[u8]) -> Vec<u8> {
    let mut texts = Vec::new();
    for run in bytes.split(|byte| !is_printable(*byte)) {
        if run.len() >= RUN_BYTES_MIN {
            texts.extend_from_slice(run);
            texts.push(b'\n');
        }
    }
    texts
}

/// Where the run begins that bytes end with, if it is short enough to wait for what follows.
pub(crate) fn last_run(bytes: &[u8]) -> usize {
    let before = bytes.iter().rposition(|byte| !is_printable(*byte));
    let start = before.map_or(0, |at| at + 1);
    match bytes.len() - start > RUN_BYTES_MAX {
        true => bytes.len(),
        false => start,
    }
}

/// Judges what is written in bytes that are about to go on.
///
/// # Errors
/// The refusal of a finding.
pub(crate) fn judge(passed: &mut Passed, role: Role, bytes: &[u8]) -> Result<(), Refusal> {
    let (mut channel, mut told) = (Channel::new(role, "body"), Vec::new());
    let texts = texts(bytes);
    channel.push(passed, &texts, &mut told)?;
    channel.finish(passed, &mut told)?;
    match told == texts {
        true => Ok(()),
        false => Err(in_binary()),
    }
}

/// The refusal of what would be replaced in a text.
pub(crate) fn in_binary() -> Refusal {
    let public = "a secret stands in a body that is no text, so that it cannot be replaced";
    Refusal::new(refusal::SECRET, public)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_what_is_none() {
        let prose =
            b"The water stands high behind the weir, and nobody looks at it for long. ".repeat(4);
        assert!(!is_binary(&prose) && !is_binary(b"\0\0\0"));
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let noise: Vec<u8> = noise.take(4096).collect();
        assert!(is_binary(&noise));
        // A text that begins with a zero is a text.
        assert!(!is_binary(&[b"\0", prose.as_slice()].concat()));
    }

    #[test]
    fn runs_that_may_be_keys_are_read() {
        let bytes = b"\0\x01short\x02a key of twenty chars\nand a line\0\xff0123456789abcde\x01";
        assert_eq!(texts(bytes), b"a key of twenty chars\nand a line\n");
        assert_eq!(last_run(b"\0abc"), 1);
        assert_eq!(last_run(b"abc\0"), 4);
        assert_eq!(last_run(&[b'a'; RUN_BYTES_MAX + 1]), RUN_BYTES_MAX + 1);
    }
}
