//! Base64 and base64url, hex and base32 (RFC 4648), and Base58; and tokens that were turned.

use std::ops::Range;

use super::{Decoder, Sink, turned};
use crate::check::base58;
use crate::layer::Layer;
use crate::report::Bound;
use crate::stretches::WORD_BYTES_MIN;
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
    // Such stretches are what is decoded here.
    let words = &layer.stretches().words;
    let next = words.partition_point(|word| word.end < at + WORD_BYTES_MIN);
    words.get(next).map(|word| word.start.max(at)..word.end)
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let mut out = Vec::new();
    // Hex and base32 have no marks: a path or a name around them is not part of them.
    let inside = |byte: u8| byte.is_ascii_alphanumeric();
    let mut at = 0;
    while let Some(word) = super::run(run, at, WORD_BYTES_MIN, inside) {
        at = word.end;
        let word = &run[word];
        if word.iter().all(u8::is_ascii_hexdigit) {
            from_hex(word, &mut out, sink);
        } else if fifty_eight(word, &mut out) {
            sink(&out, "base58");
        } else if thirty_two(word, &mut out) && unpack::has_text(&out) {
            sink(&out, "base32");
        }
    }
    if turned::may_be_turned(run) {
        for word in run.split(|byte| matches!(byte, b'/' | b'+')) {
            turned::turn(word, sink);
        }
    }
    // The run may begin before what is encoded, as in a path: then another start is the right one.
    let mut probed = [0; PROBE_BYTES];
    for start in 0..4.min(run.len()) {
        let rest = &run[start..];
        if !may_hold_ascii(rest) && !head_is_text(rest) {
            continue;
        }
        let probe = &rest[..rest.len().min(PROBE_BYTES)];
        let decoded = sixty_four(probe, &mut probed);
        let text = unpack::has_text(decoded);
        if rest.len() > PROBE_BYTES && (text || start == 0) {
            out.resize(rest.len(), 0);
            let decoded = sixty_four(rest, &mut out);
            if unpack::has_text(decoded) {
                sink(decoded, "base64");
                return Ok(());
            }
        } else if text {
            sink(decoded, "base64");
            return Ok(());
        }
    }
    Ok(())
}

/// Characters of a word that is read as Base58, and bytes of a text that comes out.
const FIFTY_EIGHT_BYTES_MIN: usize = 26;
const FIFTY_EIGHT_TEXT_MIN: usize = 16;

/// Decodes a word in Base58 into a buffer; answers whether it is a text.
fn fifty_eight(word: &[u8], out: &mut Vec<u8>) -> bool {
    let has = |test: fn(&u8) -> bool| word.iter().any(test);
    if word.len() < FIFTY_EIGHT_BYTES_MIN
        || !(has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase))
    {
        return false;
    }
    let mut buffer = [0; base58::DECODED_BYTES_MAX];
    let Some(length) = base58::decode(word, &mut buffer) else {
        return false;
    };
    out.clear();
    out.extend_from_slice(&buffer[buffer.len() - length..]);
    let printable = |byte: &u8| (b' '..=b'~').contains(byte) || *byte == b'\n';
    length >= FIFTY_EIGHT_TEXT_MIN && out.iter().all(printable)
}

/// Groups in a row of which each decodes to ASCII alone: a stretch of printable ASCII holds as many.
const GROUPS: usize = 4;

/// Bits of a value that are set where a byte that it is a part of is not ASCII: of the first, the second and the third
/// character of a group.
const HIGH: [u8; 3] = [32, 8, 2];

/// Whether a run that is decoded from its start on may give a stretch of printable ASCII.
fn may_hold_ascii(run: &[u8]) -> bool {
    let is_ascii = |group: &[u8]| {
        let high = |at: usize| SIXTY_FOUR[usize::from(group[at])] & HIGH[at];
        high(0) | high(1) | high(2) == 0
    };
    let mut rest = run;
    // The last of some groups is looked at first, since most are not ASCII: then none of those before it matters.
    while let Some(row) = rest.first_chunk::<{ GROUPS * 4 - 1 }>() {
        match (0..GROUPS).rfind(|group| !is_ascii(&row[group * 4..])) {
            None => return true,
            Some(other) => rest = rest.get((other + 1) * 4..).unwrap_or_default(),
        }
    }
    false
}

/// Whether what a run decodes to begins as text does, or UTF-16, or what is compressed.
fn head_is_text(run: &[u8]) -> bool {
    let mut head = [0; 6];
    let Some(run) = run.first_chunk::<8>() else {
        return true;
    };
    let value = |at: usize| SIXTY_FOUR[usize::from(run[at])];
    // No character of UTF-8 begins so.
    if (0x80..0xc2).contains(&(value(0) << 2 | value(1) >> 4)) {
        return false;
    }
    let control = |byte: &u8| matches!(byte, 0..8 | 14..0x20 | 0x7f);
    match sixty_four(run, &mut head) {
        [0x1f | 0x78 | 0, ..] | [_, 0, ..] => true,
        head if head.iter().any(control) => false,
        head => match str::from_utf8(head) {
            Ok(_) => true,
            // The last character may go on.
            Err(error) => error.error_len().is_none(),
        },
    }
}

/// Decodes base64 into a buffer of its length. The last 2 or 3 characters of a group hold 1 or 2 bytes; a
/// last single one none.
fn sixty_four<'o>(run: &[u8], out: &'o mut [u8]) -> &'o [u8] {
    let (groups, rest) = run.as_chunks::<4>();
    for (group, out) in groups.iter().zip(out.chunks_exact_mut(3)) {
        let [_, decoded @ ..] = bits(group).to_be_bytes();
        out.copy_from_slice(&decoded);
    }
    let length = run.len() * 3 / 4;
    let [_, decoded @ ..] = bits(rest).to_be_bytes();
    let last = rest.len() * 3 / 4;
    out[length - last..length].copy_from_slice(&decoded[..last]);
    &out[..length]
}

/// The bits of a group of at most four characters.
#[inline]
fn bits(group: &[u8]) -> u32 {
    let value = |bits: u32, byte: &u8| bits << 6 | u32::from(SIXTY_FOUR[usize::from(*byte)]);
    group.iter().fold(0, value) << (6 * (4 - group.len()))
}

/// Decodes hex that starts at the first digit or, where that gives no text, at the second.
fn from_hex(word: &[u8], out: &mut Vec<u8>, sink: Sink<'_>) {
    // Of a hexadecimal digit, which all of them are.
    let value = |digit: u8| (digit & 15) + (digit >> 6) * 9;
    for start in 0..2 {
        out.clear();
        let (pairs, _) = word[start..].as_chunks();
        out.extend(
            pairs
                .iter()
                .map(|[high, low]| value(*high) * 16 + value(*low)),
        );
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
    fn all_that_has_a_value_is_found() {
        for byte in 0..=u8::MAX {
            let (text, whole) = ([byte; 60], 0..60);
            let run = next(&Layer::plain(&text, std::slice::from_ref(&whole)), 0);
            let has = SIXTY_FOUR[usize::from(byte)] < 64;
            assert_eq!(run, has.then_some(whole), "{byte}");
        }
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
    fn what_is_passed_over_holds_no_text() {
        let alphabet: Vec<u8> = (0..=255)
            .filter(|byte| SIXTY_FOUR[usize::from(*byte)] < 64)
            .collect();
        let text = b"cm8gdGV4dCBoZXJlIG5vdw0KSAlkw7bDvMOfw6TQttC1H4sIeNo";
        let mut seed = 1u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (seed >> 16) as usize % below
        };
        for _ in 0..20_000 {
            let mut run: Vec<u8> = (0..next(30)).map(|_| alphabet[next(64)]).collect();
            let from = next(text.len());
            run.extend(&text[from..from + next(text.len() - from + 1)]);
            run.extend((0..next(12)).map(|_| alphabet[next(64)]));
            for start in 0..4.min(run.len()) {
                let mut out = vec![0; run.len()];
                let rest = &run[start..];
                let passed = !may_hold_ascii(rest) && !head_is_text(rest);
                let text = unpack::has_text(sixty_four(rest, &mut out));
                assert!(!(passed && text), "{}", String::from_utf8_lossy(rest));
            }
        }
    }

    #[test]
    fn base58_is_a_text_or_nothing() {
        let mut out = Vec::new();
        assert!(fifty_eight(
            b"7Y9FVCG7PySsfNouZWDaJSHAVJcyEuyiKkVbiBDmq2ZF",
            &mut out
        ));
        assert_eq!(out, b"a text that nobody is to see: 12");
        for other in [
            &b"2NEpo7TZRRrLZSi2U2NEpo7TZR"[..],
            b"d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert!(!fifty_eight(other, &mut out));
        }
    }

    #[test]
    fn noise_decodes_to_nothing() {
        assert!(decoded("thisIsJustAVeryLongIdentifierInSomeCode").is_empty());
        assert!(
            decoded("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08").is_empty()
        );
    }
}
