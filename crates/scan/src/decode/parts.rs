//! Tokens whose parts are given to numbered names, line by line: `part1=…`, `part2=…`.

use std::ops::Range;

use super::{Decoder, Sink};
use crate::layer::Layer;
use crate::report::Bound;

/// Lines of names that differ in their number or last letter, each with a value.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Bytes of a value that is a part, and of a line.
const PART_BYTES_MIN: usize = 4;
const LINE_BYTES_MAX: usize = 256;
/// Bytes of all values together.
const WORD_BYTES_MIN: usize = 16;
/// Lines that are put together.
const LINES_MAX: usize = 16;

/// The stem of a name, and the value that a line gives to it.
struct Given<'t> {
    stem: &'t [u8],
    value: &'t [u8],
}

/// What a line gives, if it is of a numbered name and a value without spaces.
fn given(line: &[u8]) -> Option<Given<'_>> {
    let (last, mark) = (line.last()?, |byte: &u8| matches!(byte, b'=' | b':'));
    // Most lines end in a mark or hold no value.
    if line.len() > LINE_BYTES_MAX || *last == b'.' || *last == b'{' {
        return None;
    }
    let at = line.iter().position(mark)?;
    let name = line[..at].trim_ascii_end();
    let start = name
        .iter()
        .rposition(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let name = name[start.map_or(0, |at| at + 1)..].trim_ascii();
    let (number, stem) = name.split_last()?;
    let stem = match number.is_ascii_digit() {
        true => &name[..name.iter().rposition(|byte| !byte.is_ascii_digit())? + 1],
        // `key_a`, `a`: a letter by itself.
        false if stem.is_empty() || stem.ends_with(b"_") => stem,
        false => return None,
    };
    let around = |byte: &u8| b" \t\r\"'`,;".contains(byte);
    let value = &line[at + 1..];
    let first = value.iter().position(|byte| !around(byte))?;
    let end = value.iter().rposition(|byte| !around(byte))? + 1;
    let value = &value[first..end];
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./+=~%".contains(byte);
    (value.len() >= PART_BYTES_MIN && value.iter().all(inside)).then_some(Given { stem, value })
}

fn line(text: &[u8], start: usize) -> Range<usize> {
    let rest = &text[start..];
    start..start + memchr::memchr(b'\n', rest).unwrap_or(rest.len())
}

fn next(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    let mut done = from;
    // One line alone is no part.
    memchr::memchr(b'\n', bytes.get(from..)?)?;
    for mark in memchr::memchr2_iter(b'=', b':', bytes.get(from..)?) {
        let mark = from + mark;
        if mark < done || !numbered(&bytes[done..mark]) {
            continue;
        }
        let Some((_, bounds)) = layer.string(mark) else {
            continue;
        };
        let text = &bytes[..bounds.end];
        let near = mark
            .saturating_sub(LINE_BYTES_MAX)
            .max(bounds.start)
            .max(from);
        let start = memchr::memrchr(b'\n', &text[near..mark]).map_or(near, |at| near + at + 1);
        let first = line(text, start);
        let Some(stem) = given(&text[first.clone()]).map(|given| given.stem) else {
            // Other marks of the line say nothing new.
            done = first.end;
            continue;
        };
        let (mut end, mut length, mut lines) = (start, 0, 0);
        while end < text.len() && lines < LINES_MAX {
            let line = line(text, end);
            let Some(part) = given(&text[line.clone()]).filter(|part| part.stem == stem) else {
                break;
            };
            (end, length, lines) = (line.end + 1, length + part.value.len(), lines + 1);
        }
        done = end.min(text.len());
        if lines > 1 && length >= WORD_BYTES_MIN {
            return Some(start..done);
        }
    }
    None
}

/// Whether a text ends with a number, or with a letter by itself, and at most a space.
#[inline]
fn numbered(text: &[u8]) -> bool {
    let text = text.strip_suffix(b" ").unwrap_or(text);
    match text {
        [.., last] if last.is_ascii_digit() => true,
        [.., before, last] => last.is_ascii_alphabetic() && !before.is_ascii_alphanumeric(),
        [last] => last.is_ascii_alphabetic(),
        [] => false,
    }
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let lines = run.split(|byte| *byte == b'\n').filter_map(given);
    let mut out: Vec<u8> = lines.flat_map(|given| given.value).copied().collect();
    sink(&out, "joined");
    out.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    #[test]
    fn numbered_parts_are_put_together() {
        for text in [
            "part1=aZ3kQ9xWm7Rt\npart2=1VbN5yHs8PdL",
            "see\n  const P1 = \"aZ3kQ9xWm7Rt\";\n  const P2 = \"1VbN5yHs8PdL\";\nend",
            "A_TOKEN_1: aZ3kQ9\r\nA_TOKEN_2: xWm7Rt\r\nA_TOKEN_3: 1VbN5yHs8PdL\r\n",
            "a=aZ3kQ9xWm7Rt\nb=1VbN5yHs8PdL",
        ] {
            assert_eq!(
                all_of(&DECODER, text),
                ["aZ3kQ9xWm7Rt1VbN5yHs8PdL"],
                "{text}"
            );
        }
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "host=aZ3kQ9xWm7Rt1VbN5\nport=yHs8PdL2cFgJ4uE6",
            "x1 = 3\nx2 = 4\n",
            "part1=a sentence of words\npart2=and one more",
            "part1=aZ3kQ9xWm7Rt1VbN5yHs\n",
            "=\n:\n1=\n",
            "",
        ] {
            assert!(all_of(&DECODER, text).is_empty(), "{text}");
        }
    }
}
