//! Undoing encodings: base64 and base64url, hex, percent-encoding.
//!
//! Only maximal runs whose alphabet and length can decode are tried, each once. What a run decodes to is
//! always shorter than the run, so that the work is bounded by the text and the depth.

use std::ops::Range;

use base::limit::{SCAN_ENCODED_BYTES_MIN, SCAN_PERCENT_ROUNDS_MAX};

use crate::report::Bound;

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

/// The next run that base64 or hex can be in.
pub(crate) fn encoded(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    run(bytes, at, SCAN_ENCODED_BYTES_MIN, |byte| {
        SIXTY_FOUR[usize::from(byte)] < 64
    })
}

/// Decodes a run of [`encoded`] into `out`; answers what it was.
pub(crate) fn decode(run: &[u8], out: &mut Vec<u8>) -> &'static str {
    let hex = |b: &u8| char::from(*b).to_digit(16);
    if run.len().is_multiple_of(2) && run.iter().all(u8::is_ascii_hexdigit) {
        let pair = |pair: &[u8]| Some((hex(&pair[0])? * 16 + hex(&pair[1])?) as u8);
        out.extend(run.chunks_exact(2).filter_map(pair));
        return "hex";
    }
    // The last 2 or 3 characters of a group hold 1 or 2 bytes; a last single one holds none.
    for group in run.chunks(4) {
        let values = group
            .iter()
            .map(|byte| u32::from(SIXTY_FOUR[usize::from(*byte)]));
        let bits = values.fold(0, |bits, value| bits << 6 | value) << (6 * (4 - group.len()));
        let [_, decoded @ ..] = bits.to_be_bytes();
        out.extend_from_slice(&decoded[..group.len() * 3 / 4]);
    }
    "base64"
}

/// Whether a text looks like someone's words rather than noise.
pub(crate) fn readable(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes
            .iter()
            .all(|b| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// The next stretch without spaces, quotes and angle brackets that has a percent escape, within `end`.
pub(crate) fn percent(bytes: &[u8], from: usize, end: usize) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        at += memchr::memchr(b'%', &bytes[at..end])?;
        if escape(&bytes[at..end]).is_some() {
            break;
        }
        at += 1;
    }
    let outside = |byte: &u8| *byte <= b' ' || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`');
    let start = bytes[from..at]
        .iter()
        .rposition(outside)
        .map_or(from, |i| from + i + 1);
    let end = bytes[at..end]
        .iter()
        .position(outside)
        .map_or(end, |i| at + i);
    Some(start..end)
}

/// The byte that a percent escape at the start stands for.
fn escape(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else {
        return None;
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// Decodes a stretch of [`percent`] into `out`, again and again until nothing is left to decode.
pub(crate) fn unpercent(run: &[u8], out: &mut Vec<u8>) -> Result<(), Bound> {
    out.extend_from_slice(run);
    for _ in 0..SCAN_PERCENT_ROUNDS_MAX {
        let (mut read, mut write) = (0, 0);
        while read < out.len() {
            let (byte, length) = match escape(&out[read..]) {
                Some(byte) => (byte, 3),
                None => (out[read], 1),
            };
            out[write] = byte;
            read += length;
            write += 1;
        }
        if write == out.len() {
            return Ok(());
        }
        out.truncate(write);
    }
    Err(Bound(
        "the text is percent-encoded more often than the scan undoes",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(run: &str) -> (String, &'static str) {
        let mut out = Vec::new();
        let name = decode(run.as_bytes(), &mut out);
        (String::from_utf8(out).unwrap(), name)
    }

    #[test]
    fn runs_are_maximal() {
        let digits = |byte: u8| byte.is_ascii_digit();
        assert_eq!(run(b"ab123456cd", 0, 4, digits), Some(2..8));
        assert_eq!(run(b"123x1234", 0, 4, digits), Some(4..8));
        assert_eq!(run(b"123x123", 0, 4, digits), None);
        assert_eq!(run(b"", 0, 4, digits), None);
    }

    #[test]
    fn base64_and_hex_decode() {
        assert_eq!(
            decoded("SGVsbG8sIHdvcmxkIQ"),
            ("Hello, world!".into(), "base64")
        );
        assert_eq!(
            decoded("SGVsbG8sIHdvcmxkI"),
            ("Hello, world".into(), "base64")
        );
        assert_eq!(decoded("Pz8_Pj4-"), ("???>>>".into(), "base64"));
        assert_eq!(decoded("48656c6C6f"), ("Hello".into(), "hex"));
    }

    #[test]
    fn percent_escapes_are_undone_until_none_is_left_or_the_bound() {
        let undone = |run: &str| {
            let mut out = Vec::new();
            unpercent(run.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(undone("a%41%2541%zz%"), Ok("aAA%zz%".into()));
        let deep = format!("%{}41", "25".repeat(SCAN_PERCENT_ROUNDS_MAX + 1));
        assert!(undone(&deep).is_err());
        let text = b"see https://e.org/?q=%41b now";
        assert_eq!(percent(text, 0, text.len()), Some(4..25));
        assert_eq!(percent(b"100% sure", 0, 9), None);
    }
}
