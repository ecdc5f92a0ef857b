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

fn next(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    let label = |text: &[u8]| {
        let other = text.iter().position(|byte| !byte.is_ascii_alphanumeric());
        other.unwrap_or(text.len())
    };
    for at in memchr::memchr_iter(b'.', bytes.get(from..)?) {
        let at = from + at;
        let near = at >= from + LABEL_BYTES_MIN && bytes.len() - at > LABEL_BYTES_MIN;
        if !near
            || !bytes[at - 1].is_ascii_alphanumeric()
            || !bytes[at + 1].is_ascii_alphanumeric()
            || !bytes[at - LABEL_BYTES_MIN..at]
                .iter()
                .all(u8::is_ascii_alphanumeric)
        {
            continue;
        }
        let before = bytes[from..at].iter().rev().take(64);
        let start = at
            - before
                .take_while(|byte| byte.is_ascii_alphanumeric())
                .count();
        if !spells(&bytes[start..at]) {
            continue;
        }
        let mut end = at;
        while bytes.get(end) == Some(&b'.') {
            let length = label(&bytes[end + 1..]);
            if !spells(&bytes[end + 1..end + 1 + length]) {
                break;
            }
            end += 1 + length;
        }
        if end > at {
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
    use super::*;

    fn joined(text: &str) -> Vec<String> {
        let whole = 0..text.len();
        let layer = Layer::plain(text.as_bytes(), std::slice::from_ref(&whole));
        let (mut at, mut all) = (0, Vec::new());
        while let Some(run) = next(&layer, at) {
            at = run.end;
            let sink = &mut |out: &[u8], _| all.push(String::from_utf8_lossy(out).into_owned());
            decode(&layer.bytes[run], sink).unwrap();
        }
        all
    }

    #[test]
    fn labels_that_spell_are_put_together() {
        let [a, b] = ["612073656372657420", "6f66206d696e652c20"];
        assert_eq!(
            joined(&format!("dig {a}.{b}.x.example.org")),
            [format!("{a}{b}")]
        );
        assert_eq!(
            joined("MEQHGZLDOJSXI2DF.OJSSA5DIMF2CA2LT.x"),
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
            assert!(joined(text).is_empty(), "{text}");
        }
    }
}
