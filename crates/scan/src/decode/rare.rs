//! Base58 and Ascii85, which hide a text as well as base64 does, and are seldom used for one.

use std::ops::Range;

use super::{Decoder, Sink, ahead, run};
use crate::layer::Layer;
use crate::report::Bound;

/// Words in either alphabet.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Characters of a word that is decoded, and of Base58, whose cost grows with the square of its length.
const WORD_BYTES_MIN: usize = 26;
const BASE58_BYTES_MAX: usize = 200;
/// Characters of Ascii85 that are decoded.
const ASCII85_BYTES_MAX: usize = 4096;
/// Bytes of a text that comes out.
const TEXT_BYTES_MIN: usize = 16;

const BASE58: [u8; 256] = {
    let mut table = [58; 256];
    let alphabet = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut i = 0;
    while i < 58 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Ascii85 is of `!` to `u`, and `z` for four zeros, which no text has.
fn next(layer: &Layer<'_>, at: usize) -> Option<Range<usize>> {
    let class = |byte: u8| byte.wrapping_sub(b'!') < 85 || (byte.wrapping_sub(b'v') < 5);
    let at = ahead(layer.bytes, at, WORD_BYTES_MIN, class);
    run(layer.bytes, at, WORD_BYTES_MIN, class)
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    for word in run.split(|byte| !byte.is_ascii_alphanumeric()) {
        let of = |test: fn(&u8) -> bool| word.iter().any(test);
        if (WORD_BYTES_MIN..=BASE58_BYTES_MAX).contains(&word.len())
            && of(u8::is_ascii_digit)
            && of(u8::is_ascii_lowercase)
            && of(u8::is_ascii_uppercase)
            && let Some(out) = base58(word)
        {
            sink(&out, "base58");
        }
    }
    // It may stand behind a quote or a bracket, or between its own marks.
    let starts = run.iter().enumerate().take(ASCII85_BYTES_MAX);
    let starts = starts.filter(|(_, byte)| b"\"'`~(=:".contains(byte));
    let starts = starts.map(|(at, _)| at + 1).take(8);
    for start in std::iter::once(0).chain(starts) {
        let rest = &run[start..run.len().min(start + ASCII85_BYTES_MAX)];
        if let Some(out) = ascii85(rest) {
            sink(&out, "ascii85");
            break;
        }
    }
    Ok(())
}

fn printable(byte: &u8) -> bool {
    (b' '..=b'~').contains(byte) || *byte == b'\n'
}

/// The text that is written in Base58, if it is one.
fn base58(word: &[u8]) -> Option<Vec<u8>> {
    // Limbs of a number, the lowest first.
    let mut limbs: Vec<u32> = Vec::with_capacity(word.len() * 3 / 16 + 2);
    for byte in word {
        let digit = BASE58[usize::from(*byte)];
        if digit == 58 {
            return None;
        }
        let mut carry = u64::from(digit);
        for limb in &mut limbs {
            carry += u64::from(*limb) * 58;
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    let bytes = limbs.iter().rev().flat_map(|limb| limb.to_be_bytes());
    let out: Vec<u8> = bytes.skip_while(|byte| *byte == 0).collect();
    (out.len() >= TEXT_BYTES_MIN && out.iter().all(printable)).then_some(out)
}

/// The text that a word in Ascii85 begins with, if it is one.
fn ascii85(word: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let end = word.iter().position(|byte| !(b'!'..=b'u').contains(byte));
    for group in word[..end.unwrap_or(word.len())].chunks(5) {
        let digit = |at: usize| group.get(at).map_or(84, |byte| u64::from(byte - b'!'));
        let sum = (0..5).fold(0, |sum, at| sum * 85 + digit(at));
        let bytes = u32::try_from(sum).ok().map(u32::to_be_bytes);
        let bytes = bytes.unwrap_or_default();
        let bytes = &bytes[..group.len().saturating_sub(1)];
        if !bytes.iter().all(printable) {
            break;
        }
        out.extend_from_slice(bytes);
    }
    (out.len() >= TEXT_BYTES_MIN).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Vec<(String, &'static str)> {
        let whole = 0..text.len();
        let layer = Layer::plain(text.as_bytes(), std::slice::from_ref(&whole));
        let (mut at, mut all) = (0, Vec::new());
        while let Some(run) = next(&layer, at) {
            at = run.end;
            let sink = &mut |out: &[u8], name| {
                all.push((String::from_utf8_lossy(out).into_owned(), name));
            };
            decode(&layer.bytes[run], sink).unwrap();
        }
        all
    }

    /// Ascii85 of a text, without its marks.
    fn eighty_five(text: &[u8]) -> String {
        let mut out = String::new();
        for group in text.chunks(4) {
            let byte = |at: usize| group.get(at).copied().unwrap_or(0);
            let mut sum = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = b'!' + (sum % 85) as u8;
                sum /= 85;
            }
            out.extend(
                digits[..group.len() + 1]
                    .iter()
                    .map(|digit| char::from(*digit)),
            );
        }
        out
    }

    #[test]
    fn both_are_decoded() {
        let text = "a text that nobody is to see: 1234";
        let all = eighty_five(text.as_bytes());
        for around in [
            ("", ""),
            ("see ", " now"),
            ("<~", "~>"),
            ("{\"x\":\"", "\"}"),
        ] {
            let found = decoded(&format!("{}{all}{}", around.0, around.1));
            // What stands behind it spoils the last group.
            let whole = &text[..text.len() - 4];
            let found = found.iter().any(|(out, _)| out.starts_with(whole));
            assert!(found, "{around:?} {all}");
        }
        let found = decoded("in StV1DL6CwTryKyV5yS6z9vW here");
        assert!(found.iter().all(|(text, _)| text.is_ascii()), "{found:?}");
        assert_eq!(base58(b"2NEpo7TZRRrLZSi2U2NEpo7TZR"), None);
    }

    #[test]
    fn what_is_neither_decodes_to_nothing() {
        for text in [
            "https://example.org/a/long/path/to/a/page-of-2026.html",
            "d41d8cd98f00b204e9800998ecf8427e",
            "aZ3kQ9xWm7Rt1VbN5yHs8PdL2cFgJ4uE6",
            "function(a,b){return(a+b)*c[d]-e.f;}",
            "-----------------------------------",
        ] {
            assert!(decoded(text).is_empty(), "{text}: {:?}", decoded(text));
        }
    }
}
