//! What is spelled in the labels of a host, each at most 63 characters: hex and base32 over several of them, as
//! tunnels through name servers send it. URLs have their parts put together elsewhere; here stands a bare name.

use std::ops::Range;

use super::{Decoder, Sink};
use crate::layer::Layer;
use crate::report::Bound;

/// Labels with dots between them.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Characters of each label.
const LABEL_BYTES_MIN: usize = 12;

fn inside(byte: &u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether characters are of a label that spells something: of few letters, and digits among them.
fn spells(label: &[u8]) -> bool {
    let lower = label.iter().all(inside);
    let upper = || {
        label
            .iter()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'))
    };
    label.len() >= LABEL_BYTES_MIN && label.iter().any(u8::is_ascii_digit) && (lower || upper())
}

/// Whether labels are made of this byte.
fn is_label(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// The labels from the one before the first dot that has such labels on both sides on.
fn next(layer: &Layer<'_>, at: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    for dot in memchr::memchr_iter(b'.', bytes.get(at..)?) {
        let dot = at + dot;
        let (before, behind) = (&bytes[at..dot], &bytes[dot + 1..]);
        // Behind most dots is a space or a short word.
        let long = |label: &[u8; LABEL_BYTES_MIN]| label.iter().all(is_label);
        if !behind.first_chunk().is_some_and(long) || !before.last_chunk().is_some_and(long) {
            continue;
        }
        let other = before.iter().rposition(|byte| !is_label(byte));
        let start = other.map_or(at, |other| at + other + 1);
        if !spells(&bytes[start..dot]) {
            continue;
        }
        let mut end = dot;
        while bytes.get(end) == Some(&b'.') {
            let label = &bytes[end + 1..];
            let length = label.iter().take_while(|byte| is_label(byte)).count();
            if !spells(&label[..length]) {
                break;
            }
            end += 1 + length;
        }
        if end > dot {
            return Some(start..end);
        }
    }
    None
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let out: Vec<u8> = run.iter().copied().filter(|byte| *byte != b'.').collect();
    sink(&out, "labels");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    #[test]
    fn labels_that_spell_are_put_together() {
        let [a, b] = ["612073656372657420", "6f66206d696e652c20"];
        assert_eq!(
            all_of(&DECODER, &format!("dig {a}.{b}.x.example.org")),
            [format!("{a}{b}")]
        );
        assert_eq!(
            all_of(&DECODER, "MEQHGZLDOJSXI2DF.OJSSA5DIMF2CA2LT.x"),
            ["MEQHGZLDOJSXI2DFOJSSA5DIMF2CA2LT"]
        );
    }

    #[test]
    fn other_names_are_left_alone() {
        for text in [
            "documentation.internationalization.example.org",
            "window.addEventListener.prototype2",
            "1.2.3.4.5.6",
            "a sentence with end2026. And another one",
            "612073656372657420.example.org",
            ".",
        ] {
            assert!(all_of(&DECODER, text).is_empty(), "{text}");
        }
    }
}
