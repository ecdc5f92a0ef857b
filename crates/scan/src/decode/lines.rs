//! Tokens that a line end stands in, at no width that a program breaks lines at: somebody put it there.
//!
//! Of the words around a line end one at least is as no word of a language, and together they are looked at
//! without what stands around them: only what is a secret by its own shape is found so.

use std::ops::Range;

use super::{Decoder, Sink, wrapped};
use crate::layer::Layer;
use crate::report::Bound;

/// Words around line ends.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Bytes of the parts, and of all of them.
const FIRST_BYTES_MIN: usize = 6;
const NEXT_BYTES_MIN: usize = 4;
const WORD_BYTES_MIN: usize = 20;
const PART_BYTES_MAX: usize = 200;
/// Line ends in one token.
const LINES_MAX: usize = 8;
/// Spaces at the start of a line.
const INDENT_MAX: usize = 40;

/// The bytes that words are made of.
const INSIDE: [bool; 256] = {
    let mut inside = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        inside[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'_' | b'-');
        byte += 1;
    }
    inside
};

fn inside(byte: &u8) -> bool {
    INSIDE[usize::from(*byte)]
}

fn leading(text: &[u8]) -> usize {
    let text = &text[..text.len().min(PART_BYTES_MAX)];
    let other = text.iter().position(|byte| !inside(byte));
    other.unwrap_or(text.len())
}

/// Whether there are letters and digits in it.
fn mixed(word: &[u8]) -> bool {
    word.iter().any(u8::is_ascii_digit) && word.iter().any(u8::is_ascii_alphabetic)
}

/// The word that begins the line behind a line end.
fn begins(text: &[u8], line_end: usize) -> Range<usize> {
    let line = &text[line_end + 1..];
    let indent = line.iter().take(INDENT_MAX);
    let indent = indent.take_while(|byte| matches!(byte, b' ' | b'\t'));
    let start = line_end + 1 + indent.count();
    start..start + leading(&text[start..])
}

fn next(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    for line_end in memchr::memchr_iter(b'\n', bytes.get(from..)?) {
        let line_end = from + line_end;
        let line = &bytes[from..line_end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Most lines end with a mark, or a short word.
        let last = line.last_chunk::<FIRST_BYTES_MIN>();
        if !last.is_some_and(|last| last.iter().all(inside)) {
            continue;
        }
        let before = line.iter().rev().take(PART_BYTES_MAX);
        let length = before.take_while(|byte| inside(byte)).count();
        let first = line.len() - length;
        let path = first > 0 && b"./+@\\".contains(&line[first - 1]);
        if path || line.len() - first >= PART_BYTES_MAX {
            continue;
        }
        let Some((_, bounds)) = layer.string(line_end) else {
            continue;
        };
        let start = from + first;
        let text = &bytes[..bounds.end];
        if start < bounds.start {
            continue;
        }
        let (mut end, mut total, mut mixes) = (line_end, length, mixed(&line[first..]));
        let mut hex = line[first..].iter().all(u8::is_ascii_hexdigit);
        for _ in 0..LINES_MAX {
            let word = begins(text, end);
            let after = text.get(word.end);
            let name = after.is_some_and(|byte| b"=:(.@/\\".contains(byte));
            if word.len() < NEXT_BYTES_MIN || name {
                break;
            }
            total += word.len();
            mixes |= mixed(&text[word.clone()]);
            hex &= text[word.clone()].iter().all(u8::is_ascii_hexdigit);
            end = word.end;
            let carriage = usize::from(after == Some(&b'\r'));
            if text.get(end + carriage) != Some(&b'\n') {
                break;
            }
            end += carriage;
        }
        // Numbers in hex stand below each other in lists.
        if end > line_end && total >= WORD_BYTES_MIN && mixes && !hex {
            return Some(start..end);
        }
    }
    None
}

fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let space = |byte: &u8| byte.is_ascii_whitespace();
    let mut out: Vec<u8> = run.iter().copied().filter(|byte| !space(byte)).collect();
    sink(&out, wrapped::NAME);
    out.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    #[test]
    fn a_token_goes_on_behind_a_line_end() {
        let token = "tok_aZ3kQ9xWm7Rt1VbN5yHs8PdL2cFgJ4uE6";
        for joint in ["\n", "\r\n", "\n    ", "\n\t"] {
            let text = format!("the key {}{joint}{}, please", &token[..14], &token[14..]);
            assert_eq!(all_of(&DECODER, &text), [token], "{text}");
            let [a, b, c] = [&token[..12], &token[12..24], &token[24..]];
            assert_eq!(
                all_of(&DECODER, &format!("{a}{joint}{b}{joint}{c}")),
                [token]
            );
        }
    }

    #[test]
    fn words_of_two_lines_are_left_alone() {
        for text in [
            "a sentence that goes\non in the next line",
            "version1\nversion2\n",
            "A_KEY=aZ3kQ9xWm7Rt1VbN5\nB_KEY=aZ3kQ9xWm7Rt1VbN5",
            "d41d8cd98f00b204\n9e29800998ecf842\n",
            "see src/aZ3kQ9xWm7Rt1\nVbN5yHs8PdL2",
            "abcdefgh12\nfunction_of_mine(x)",
            "\n\n",
            "",
        ] {
            assert!(all_of(&DECODER, text).is_empty(), "{text}");
        }
    }
}
