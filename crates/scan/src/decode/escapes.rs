//! Escapes inside a text: percent-encoding (RFC 3986, 2.1), `\x41`, `\u0041`, `\101`, and numeric character
//! references as in HTML.

use std::ops::Range;

use base::limit::SCAN_PERCENT_ROUNDS_MAX;

use super::{Decoder, ESCAPE_BYTES, Sink, hex};
use crate::layer::Layer;
use crate::report::Bound;

pub(super) const DECODER: Decoder = Decoder { next, decode };

/// The next stretch without spaces, quotes and angle brackets that has an escape.
fn next(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    for at in memchr::memchr3_iter(b'%', b'\\', b'&', bytes.get(from..)?) {
        let at = from + at;
        // The next byte tells for most.
        let begins = match (bytes[at], bytes.get(at + 1)) {
            (b'&', Some(b'#')) => true,
            (b'%', Some(next)) => next.is_ascii_hexdigit(),
            (b'\\', Some(next)) => matches!(next, b'x' | b'u' | b'0'..=b'3'),
            _ => false,
        };
        if begins
            && let Some((_, bounds)) = layer.string(at)
            && escape(&bytes[at..bounds.end]).is_some()
        {
            return Some(stretch(bytes, bounds.start.max(from), at, bounds.end));
        }
    }
    None
}

/// The bytes that no stretch goes over.
const OUTSIDE: [bool; 256] = {
    let mut outside = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        outside[byte] = byte <= 0x20 || matches!(byte as u8, b'"' | b'\'' | b'<' | b'>' | b'`');
        byte += 1;
    }
    outside
};

fn stretch(bytes: &[u8], from: usize, at: usize, end: usize) -> Range<usize> {
    let outside = |byte: &u8| OUTSIDE[usize::from(*byte)];
    let start = bytes[from..at].iter().rposition(outside);
    let length = bytes[at..end].iter().position(outside);
    start.map_or(from, |i| from + i + 1)..length.map_or(end, |i| at + i)
}

/// Decodes a stretch again and again, until nothing is left to decode.
fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let name = match memchr::memchr3(b'\\', b'&', b'%', run).map(|at| run[at]) {
        Some(b'%') => "percent",
        Some(b'&') if memchr::memchr(b'%', run).is_none() => "entity",
        Some(b'&') => "percent",
        _ => "escape",
    };
    let mut out = run.to_vec();
    for _ in 0..SCAN_PERCENT_ROUNDS_MAX {
        let Some(first) = memchr::memchr3(b'%', b'\\', b'&', &out) else {
            sink(&out, name);
            return Ok(());
        };
        let (mut read, mut write) = (first, first);
        let mut buffer = [0; 4];
        while read < out.len() {
            let Some((escaped, length)) = escape(&out[read..]) else {
                // As far as the next byte that may begin an escape.
                let rest = &out[read + 1..];
                let plain = memchr::memchr3(b'%', b'\\', b'&', rest).unwrap_or(rest.len()) + 1;
                out.copy_within(read..read + plain, write);
                read += plain;
                write += plain;
                continue;
            };
            let bytes = match escaped {
                Escaped::Byte(byte) => {
                    buffer[0] = byte;
                    &buffer[..1]
                }
                Escaped::Character(character) => character.encode_utf8(&mut buffer).as_bytes(),
                Escaped::Nothing => &[],
            };
            // An escape is never shorter than what it stands for.
            out[write..write + bytes.len()].copy_from_slice(bytes);
            read += length;
            write += bytes.len();
        }
        if write == out.len() {
            sink(&out, name);
            return Ok(());
        }
        out.truncate(write);
    }
    Err(Bound(
        "the text is percent-encoded more often than the scan undoes",
    ))
}

/// What an escape stands for.
pub(super) enum Escaped {
    Byte(u8),
    Character(char),
    Nothing,
}

/// What an escape at the start stands for, and its length.
pub(super) fn escape(bytes: &[u8]) -> Option<(Escaped, usize)> {
    let two = |at: usize| Some(hex(*bytes.get(at)?)? * 16 + hex(*bytes.get(at + 1)?)?);
    match bytes {
        [b'%', ..] => Some((Escaped::Byte(super::escaped(bytes)?), ESCAPE_BYTES)),
        [b'\\', b'x', ..] => Some((Escaped::Byte(two(2)?), 4)),
        [b'\\', b'u', b'{', rest @ ..] => number(rest, 16, b'}').map(|(c, l)| (c, l + 3)),
        [b'\\', b'u', ..] => {
            let unit = |at: usize| Some(u16::from(two(at)?) << 8 | u16::from(two(at + 2)?));
            let first = unit(2)?;
            let second = bytes.get(6..8).filter(|next| next == br"\u");
            let pair = [first, second.and_then(|_| unit(8)).unwrap_or_default()];
            let character = char::decode_utf16(pair).next()?.ok()?;
            let length = if character.len_utf16() == 2 { 12 } else { 6 };
            Some((Escaped::Character(character), length))
        }
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            let value = (a - b'0') * 64 + (b - b'0') * 8 + (c - b'0');
            Some((Escaped::Byte(value), 4))
        }
        [b'&', b'#', b'x' | b'X', rest @ ..] => number(rest, 16, b';').map(|(c, l)| (c, l + 3)),
        [b'&', b'#', rest @ ..] => number(rest, 10, b';').map(|(c, l)| (c, l + 2)),
        _ => None,
    }
}

/// A number of at most six digits up to its end mark, as a character, and the length with the mark.
fn number(bytes: &[u8], radix: u32, mark: u8) -> Option<(Escaped, usize)> {
    let length = bytes.iter().take(7).position(|byte| *byte == mark)?;
    let digits = std::str::from_utf8(&bytes[..length]).ok()?;
    let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
    // `&#9;` has four bytes, so that even the longest character is no longer than its escape.
    Some((Escaped::Character(character), length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(run: &str) -> Result<String, Bound> {
        let mut text = String::new();
        decode(run.as_bytes(), &mut |out, _| {
            text = String::from_utf8_lossy(out).into()
        })?;
        Ok(text)
    }

    #[test]
    fn escapes_are_undone_until_none_is_left_or_the_bound() {
        assert_eq!(undone("a%41%2541%zz%"), Ok("aAA%zz%".into()));
        assert_eq!(undone(r"\x41\u0042\u{43}\104"), Ok("ABCD".into()));
        assert_eq!(undone("&#65;&#x42;&#x1F600;&#9;"), Ok("AB😀\t".into()));
        assert_eq!(
            undone(r"\x4\u12\u{110000}&#;&#xFFFFFFFF;"),
            Ok(r"\x4\u12\u{110000}&#;&#xFFFFFFFF;".into())
        );
        let deep = format!("%{}41", "25".repeat(SCAN_PERCENT_ROUNDS_MAX + 1));
        assert!(undone(&deep).is_err());
    }

    #[test]
    fn a_stretch_ends_at_spaces_and_quotes() {
        let find = |text: &str| {
            let whole = 0..text.len();
            let layer = Layer::plain(text.as_bytes(), std::slice::from_ref(&whole));
            next(&layer, 0)
        };
        assert_eq!(find("see https://e.org/?q=%41b now"), Some(4..25));
        assert_eq!(find("100% sure & \\done"), None);
    }
}
