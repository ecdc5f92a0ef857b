//! Tokens that are written as several strings in one line, which source code puts together: `"ghp_" + "…"`.

use std::ops::Range;

use super::{Decoder, Sink};
use crate::layer::Layer;
use crate::report::Bound;

/// Words in strings with an operator between them, and the name that they are given to.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Bytes of each part, and of all of them.
const PART_BYTES_MIN: usize = 2;
const WORD_BYTES_MIN: usize = 16;
/// Spaces on either side of an operator.
const SPACES_MAX: usize = 2;
/// Bytes of a name before its value.
const NAME_BYTES_MAX: usize = 48;

fn inside(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+=~%".contains(byte)
}

fn leading(text: &[u8], test: impl Fn(&u8) -> bool) -> usize {
    let other = text.iter().position(|byte| !test(byte));
    other.unwrap_or(text.len())
}

fn trailing(text: &[u8], test: impl Fn(&u8) -> bool) -> usize {
    let other = text.iter().rposition(|byte| !test(byte));
    other.map_or(text.len(), |at| text.len() - at - 1)
}

/// Where the next string begins, if this quote ends one that another is added to.
#[inline]
fn joint(text: &[u8], at: usize) -> Option<usize> {
    let operator = |byte: &u8| b"+.&|".contains(byte);
    let space = |byte: &u8| *byte == b' ';
    let rest = &text[at + 1..];
    if !rest
        .first()
        .is_some_and(|byte| space(byte) || operator(byte))
    {
        return None;
    }
    let before = leading(rest, space);
    let signs = leading(&rest[before..], operator);
    let after = leading(&rest[before + signs..], space);
    let next = before + signs + after;
    // Some languages put strings together that stand side by side.
    let beside = signs == 0 && before == 1;
    let joined = before.max(after) <= SPACES_MAX
        && (beside || (1..=2).contains(&signs))
        && rest.get(next) == Some(&text[at]);
    joined.then_some(at + next + 2)
}

fn next(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    // What stands between the strings of a document is no source code.
    let first = layer.strings.partition_point(|string| string.end <= from);
    let long = |string: &&Range<usize>| string.len() >= WORD_BYTES_MIN;
    let mut strings = layer.strings[first..].iter().filter(long);
    strings.find_map(|string| next_in(layer.bytes, string.start.max(from)..string.end))
}

fn next_in(bytes: &[u8], string: Range<usize>) -> Option<Range<usize>> {
    let (text, start) = (&bytes[..string.end], string.start);
    for at in memchr::memchr3_iter(b'"', b'\'', b'`', &bytes[string]) {
        let at = start + at;
        if joint(text, at).is_none() {
            continue;
        }
        let first = trailing(&text[start..at], inside);
        let (mut end, mut length) = (at, first);
        while let Some(next) = joint(text, end) {
            let part = leading(&text[next..], inside);
            if part < PART_BYTES_MIN {
                break;
            }
            (end, length) = (next + part, length + part);
            if end == text.len() {
                break;
            }
        }
        if first >= PART_BYTES_MIN && length >= WORD_BYTES_MIN && end > at {
            return Some(at - first - name(&text[start..at - first])..end);
        }
    }
    None
}

/// Bytes of the name and the mark between it and its value, that a text ends with.
fn name(text: &[u8]) -> usize {
    let text = &text[text.len().saturating_sub(NAME_BYTES_MAX)..];
    let value = trailing(text, |byte| b" \"'`".contains(byte));
    let marks = trailing(&text[..text.len() - value], |byte| b":=>".contains(byte));
    if marks == 0 {
        return 0;
    }
    let marks = value + marks;
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-. \"'".contains(byte);
    marks + trailing(&text[..text.len() - marks], named)
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let mut out = Vec::with_capacity(run.len());
    let mut from = 0;
    for at in memchr::memchr3_iter(b'"', b'\'', b'`', run) {
        if at >= from
            && let Some(next) = joint(run, at)
        {
            out.extend_from_slice(&run[from..at]);
            from = next;
        }
    }
    out.extend_from_slice(&run[from..]);
    sink(&out, "joined");
    out.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    #[test]
    fn strings_that_code_puts_together_are_one() {
        for text in [
            r#"f("aZ3kQ9xW" + "m7Rt1VbN5" + "yHs8PdL2")"#,
            r#"f("aZ3kQ9xW"+"m7Rt1VbN5"+"yHs8PdL2")"#,
            "f('aZ3kQ9xW' . 'm7Rt1VbN5' . 'yHs8PdL2')",
            "f('aZ3kQ9xW' || 'm7Rt1VbN5' || 'yHs8PdL2')",
            r#"f("aZ3kQ9xW" "m7Rt1VbN5" "yHs8PdL2")"#,
            "f(`aZ3kQ9xW` & `m7Rt1VbN5` & `yHs8PdL2`",
        ] {
            assert_eq!(
                all_of(&DECODER, text),
                ["aZ3kQ9xWm7Rt1VbN5yHs8PdL2"],
                "{text}"
            );
        }
        assert_eq!(
            all_of(&DECODER, r#"let key = "aZ3kQ9xW" + "m7Rt1VbN5""#),
            ["let key = \"aZ3kQ9xWm7Rt1VbN5"]
        );
    }

    #[test]
    fn other_strings_are_left_alone() {
        for text in [
            r#"["aZ3kQ9xWm7Rt1VbN5", "yHs8PdL2cFgJ4uE6"]"#,
            r#""a long sentence " + "and one more""#,
            r#"{"aZ3kQ9xWm7Rt1VbN5":"yHs8PdL2cFgJ4uE6"}"#,
            r#""a" + "b" + "c""#,
            r#"it's + it's '' " " + "#,
            r#"""#,
        ] {
            assert!(all_of(&DECODER, text).is_empty(), "{text}");
        }
    }
}
