//! What is spelled in the labels of a host, each at most 63 characters: hex and base32 over several of them, as
//! tunnels through name servers send it. URLs have their parts put together elsewhere; here stands a bare name.

use std::ops::Range;

use super::{Decoder, Sink, ahead, run};
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

fn next(layer: &Layer<'_>, mut at: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    let class = |byte: u8| ((byte | 0x20).wrapping_sub(b'a') < 26) | (byte.wrapping_sub(b'0') < 10);
    loop {
        at = ahead(bytes, at, LABEL_BYTES_MIN, class);
        let first = run(bytes, at, LABEL_BYTES_MIN, class)?;
        let mut end = first.end;
        if spells(&bytes[first.clone()]) {
            while bytes.get(end) == Some(&b'.') {
                let label = &bytes[end + 1..];
                let length = label.iter().take_while(|byte| class(**byte)).count();
                if !spells(&label[..length]) {
                    break;
                }
                end += 1 + length;
            }
        }
        if end > first.end {
            return Some(first.start..end);
        }
        at = first.end;
    }
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
