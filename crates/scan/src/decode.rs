//! Undoing encodings: base64, hex, base32 and rarer ones, bytes as numbers, percent and other escapes, separators
//! between characters, line ends inside words, words in parts.
//!
//! Only runs whose alphabet and length can decode are tried, each once. What a run decodes to is never
//! longer than the run, so that the work is bounded by the text and the depth.

use std::ops::Range;

use crate::layer::Layer;
use crate::report::Bound;

mod base;
mod escapes;
mod labels;
mod lines;
mod numbers;
mod parts;
mod spaced;
mod strings;
mod turned;
pub(crate) mod unescaped;
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
    lines::DECODER,
    strings::DECODER,
    parts::DECODER,
    labels::DECODER,
    numbers::DECODER,
];

/// The next run of at least `min` bytes that `class` holds, from `at` on.
///
/// It looks at every `min`th byte and back, so that text of short words costs little.
pub(crate) fn run(
    bytes: &[u8],
    mut at: usize,
    min: usize,
    class: impl Fn(u8) -> bool,
) -> Option<Range<usize>> {
    while at + min <= bytes.len() {
        match bytes[at..at + min].iter().rposition(|byte| !class(*byte)) {
            Some(outside) => at += outside + 1,
            None => {
                let rest = &bytes[at + min..];
                let more = rest
                    .iter()
                    .position(|byte| !class(*byte))
                    .unwrap_or(rest.len());
                return Some(at..at + min + more);
            }
        }
    }
    None
}

/// Bytes of a percent-encoded byte (RFC 3986, 2.1).
pub(crate) const ESCAPE_BYTES: usize = 3;

/// The byte that a text begins with, percent-encoded.
pub(crate) fn escaped(text: &[u8]) -> Option<u8> {
    match text {
        [b'%', high, low, ..] => Some(hex(*high)? * 16 + hex(*low)?),
        _ => None,
    }
}

/// The value of a hexadecimal digit.
fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a decoder makes of a text.
    pub(super) fn all_of(decoder: &Decoder, text: &str) -> Vec<String> {
        let whole = 0..text.len();
        let layer = Layer::plain(text.as_bytes(), std::slice::from_ref(&whole));
        let (mut at, mut all) = (0, Vec::new());
        while let Some(run) = (decoder.next)(&layer, at) {
            at = run.end;
            let sink = &mut |out: &[u8], _| all.push(String::from_utf8_lossy(out).into_owned());
            (decoder.decode)(&layer.bytes[run], sink).unwrap();
        }
        all
    }

    #[test]
    fn runs_are_maximal() {
        let digits = |byte: u8| byte.is_ascii_digit();
        assert_eq!(run(b"ab123456cd", 0, 4, digits), Some(2..8));
        assert_eq!(run(b"123x1234", 0, 4, digits), Some(4..8));
        assert_eq!(run(b"123x123", 0, 4, digits), None);
        assert_eq!(run(b"", 0, 4, digits), None);
    }
}
