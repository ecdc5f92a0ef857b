//! Base64 and base64url, hex and base32 (RFC 4648).

use std::ops::Range;

use base::limit::SCAN_ENCODED_BYTES_MIN;

use super::{Decoder, Sink, hex, run};
use crate::layer::Layer;
use crate::report::Bound;
use crate::unpack;

pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Bytes of a run's start that tell how it is aligned.
const PROBE_BYTES: usize = 64;

/// The value of each byte in base64 and base64url; 64 where it has none.
const SIXTY_FOUR: [u8; 256] = {
    let mut table = [64; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut i = 0;
    while i < 64 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
};

fn next(layer: &Layer<'_>, at: usize) -> Option<Range<usize>> {
    run(layer.bytes, at, SCAN_ENCODED_BYTES_MIN, |byte| {
        SIXTY_FOUR[usize::from(byte)] < 64
    })
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let mut out = Vec::new();
    // Hex and base32 have no marks: a path or a name around them is not part of them.
    let words = run.split(|byte| !byte.is_ascii_alphanumeric());
    for word in words.filter(|word| word.len() >= SCAN_ENCODED_BYTES_MIN) {
        if word.iter().all(u8::is_ascii_hexdigit) {
            from_hex(word, &mut out, sink);
        } else if thirty_two(word, &mut out) && unpack::has_text(&out) {
            sink(&out, "base32");
        }
    }
    // The run may begin before what is encoded, as in a path: then another start is the right one.
    for start in 0..4.min(run.len()) {
        let rest = &run[start..];
        let probe = &rest[..rest.len().min(PROBE_BYTES)];
        sixty_four(probe, &mut out);
        if start == 0 || unpack::has_text(&out) {
            sixty_four(rest, &mut out);
            if unpack::has_text(&out) {
                sink(&out, "base64");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Decodes base64. The last 2 or 3 characters of a group hold 1 or 2 bytes; a last single one none.
fn sixty_four(run: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for group in run.chunks(4) {
        let values = group
            .iter()
            .map(|byte| u32::from(SIXTY_FOUR[usize::from(*byte)]));
        let bits = values.fold(0, |bits, value| bits << 6 | value) << (6 * (4 - group.len()));
        let [_, decoded @ ..] = bits.to_be_bytes();
        out.extend_from_slice(&decoded[..group.len() * 3 / 4]);
    }
}

/// Decodes hex that starts at the first digit or, where that gives no text, at the second.
fn from_hex(word: &[u8], out: &mut Vec<u8>, sink: Sink<'_>) {
    for start in 0..2 {
        out.clear();
        let pair = |pair: &[u8]| Some(hex(pair[0])? * 16 + hex(pair[1])?);
        out.extend(word[start..].chunks_exact(2).filter_map(pair));
        if unpack::has_text(out) {
            return sink(out, "hex");
        }
    }
}

/// Decodes base32 in one letter case; answers whether it was that.
fn thirty_two(word: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let upper = word
        .iter()
        .all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'));
    let lower = word
        .iter()
        .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'));
    if !upper && !lower {
        return false;
    }
    let value = |byte: u8| match byte.to_ascii_uppercase() {
        letter @ b'A'..=b'Z' => u64::from(letter - b'A'),
        digit => u64::from(digit - b'2') + 26,
    };
    for group in word.chunks(8) {
        let bits = group.iter().fold(0, |bits, byte| bits << 5 | value(*byte));
        let bits = bits << (5 * (8 - group.len()));
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + group.len() * 5 / 8]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(run: &str) -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        let mut sink = |text: &[u8], name| all.push((String::from_utf8_lossy(text).into(), name));
        decode(run.as_bytes(), &mut sink).unwrap();
        all
    }

    #[test]
    fn all_bases_decode() {
        let text = "Hello, world, hello!".to_owned();
        let one = |name| vec![(text.clone(), name)];
        assert_eq!(decoded("SGVsbG8sIHdvcmxkLCBoZWxsbyE"), one("base64"));
        assert_eq!(
            decoded("48656c6C6f2c20776f726c642c2068656c6c6f21"),
            one("hex")
        );
        assert_eq!(
            decoded("JBSWY3DPFQQHO33SNRSCYIDIMVWGY3ZB")[0],
            one("base32")[0]
        );
        assert_eq!(
            decoded("jbswy3dpfqqho33snrscyidimvwgy3zb")[0],
            one("base32")[0]
        );
        let marked = decoded("Pz8_Pj4-Pz8_Pj4-Pz8_Pj4-");
        assert_eq!(marked[0].0, "???>>>???>>>???>>>");
    }

    #[test]
    fn what_stands_before_does_not_hide_it() {
        for before in ["/", "/x/", "/v1/a/"] {
            let found = decoded(&format!("{before}SGVsbG8sIHdvcmxkLCBoZWxsbyE"));
            assert!(
                found.iter().any(|(text, _)| text.contains("Hello, world")),
                "{before}"
            );
        }
        let found = decoded("f48656c6c6f2c20776f726c642c2068656c6c6f21");
        assert_eq!(found[0].0, "Hello, world, hello!");
    }

    #[test]
    fn noise_decodes_to_nothing() {
        assert!(decoded("thisIsJustAVeryLongIdentifierInSomeCode").is_empty());
        assert!(
            decoded("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08").is_empty()
        );
    }
}
