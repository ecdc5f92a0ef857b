//! Tokens that are broken by the ends of lines: wrapped at a column, continued by a backslash, or written as
//! strings that source code puts together.
//!
//! A line end is a *joint* where the word before it goes on in the next line. What was wrapped is told from what
//! only stands in two lines by the width of the line, and by what follows: a name with its value, or a word of a
//! sentence, is no remainder. Text without a long word at the end of a line costs a look at its line ends.

use std::ops::Range;

use super::{Decoder, Sink};
use crate::layer::Layer;
use crate::report::Bound;

/// Words over lines, with the name that they are given to or the scheme that they are of, where one stands before.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// What undoing this is called.
pub(crate) const NAME: &str = "wrapped";

/// Bytes of a word that may be broken: shorter ones end most lines.
const WORD_BYTES_MIN: usize = 16;
/// Bytes of each part of a word that is written as strings.
const PART_BYTES_MIN: usize = 4;
/// Bytes of a line that was broken for its width. Source: 64 (RFC 7468), 70 (OpenSSH), 72 to 80 (text), 76
/// (RFC 2045), and 60 where an indentation counts.
const WIDTH_BYTES_MIN: usize = 60;
/// Letters of a word of a sentence, in one case or with a capital.
const LETTERS_MAX: usize = 12;
/// Digits of a number of a list.
const NUMBER_MAX: usize = 3;
/// Bytes of what stands before a word.
const BEFORE_BYTES_MAX: usize = 64;

/// What stands before a credential in a header (RFC 6750, RFC 7617).
const SCHEMES: [&[u8]; 3] = [b"bearer", b"basic", b"token"];

/// What a byte is to a word.
const INSIDE: u8 = 1;
/// Stands between strings.
const OPERATOR: u8 = 2;
const QUOTE: u8 = 4;
const SPACE: u8 = 8;
/// Begins a comment or a quoted line.
const MARGIN: u8 = 16;

const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        bytes[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'~' | b'%' | b'-' => INSIDE,
            b'+' | b'.' => INSIDE | OPERATOR,
            b'/' => INSIDE | MARGIN,
            b'&' => OPERATOR,
            b'"' | b'\'' | b'`' => QUOTE,
            b' ' | b'\t' | b'\r' => SPACE,
            b'>' | b'#' | b';' | b'|' => MARGIN,
            _ => 0,
        };
        byte += 1;
    }
    bytes
};

fn is(byte: u8, kinds: u8) -> bool {
    BYTES[usize::from(byte)] & kinds != 0
}

/// How many bytes of these kinds a text begins with.
fn leading(text: &[u8], kinds: u8) -> usize {
    let other = text.iter().position(|byte| !is(*byte, kinds));
    other.unwrap_or(text.len())
}

/// How many bytes of these kinds a text ends with.
fn trailing(text: &[u8], kinds: u8) -> usize {
    let other = text.iter().rposition(|byte| !is(*byte, kinds));
    other.map_or(text.len(), |at| text.len() - at - 1)
}

/// How a line ends in which a word goes on.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// With the word.
    Wrapped,
    /// With a backslash: the shell, C and YAML put the lines together.
    Continued,
    /// With the end of a string in these quotes, and perhaps an operator.
    String(u8),
}

/// Where a word is broken: where its part in the one line ends, and where that in the next begins.
struct Joint {
    style: Style,
    end: usize,
    next: usize,
}

/// The joint at a line end, if a word goes on there: what it looks like, and not yet whether it is one.
fn joint(text: &[u8], line_end: usize) -> Option<Joint> {
    let bare = |line: &[u8], kinds| line.len() - trailing(line, kinds);
    let end = bare(&text[..line_end], SPACE);
    let next = line_end + 1;
    let next = next + leading(&text[next..], SPACE);
    let line = &text[..end];
    match *line.last()? {
        // With a space before it the backslash parts two words.
        b'\\' if is(*text.get(end.checked_sub(2)?)?, INSIDE) => Some(Joint {
            style: Style::Continued,
            end: end - 1,
            next,
        }),
        last if is(last, INSIDE) && !is(last, OPERATOR) || last == b'=' => {
            Some(wrapped(text, end, next))
        }
        last if is(last, QUOTE | OPERATOR) || last == b'\\' => {
            let string = line.strip_suffix(b"\\").unwrap_or(line);
            let string = &string[..bare(string, SPACE)];
            let string = &string[..bare(string, OPERATOR)];
            let string = &string[..bare(string, SPACE)];
            match string.last() {
                Some(quote) if is(*quote, QUOTE) => strings(text, string.len() - 1, next),
                // A word may end so as well.
                _ if is(last, INSIDE) => Some(wrapped(text, end, next)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `"…" +` and `"…"` in the next line, or with the operator there, or with none.
fn strings(text: &[u8], end: usize, mut next: usize) -> Option<Joint> {
    let quote = text[end];
    next += leading(&text[next..], OPERATOR);
    next += leading(&text[next..], SPACE);
    // A letter may say what kind of string it is.
    let kind = text[next..]
        .iter()
        .take(2)
        .position(|byte| *byte == quote)?;
    Some(Joint {
        style: Style::String(quote),
        end,
        next: next + kind + 1,
    })
}

/// The end of a line, and the next one without its margin.
fn wrapped(text: &[u8], end: usize, mut next: usize) -> Joint {
    let margin = leading(&text[next..], MARGIN);
    let spaces = leading(&text[next + margin..], SPACE);
    if margin > 0 && spaces > 0 {
        next += margin + spaces;
    }
    // The soft end of a line in quoted-printable (RFC 2045, 6.7).
    let soft = text[..end].ends_with(b"=") && !text[..end].ends_with(b"==");
    Joint {
        style: Style::Wrapped,
        end: end - usize::from(soft),
        next,
    }
}

/// Where the part behind a joint ends, if a word goes on there.
fn goes_on(text: &[u8], line_end: usize, joint: &Joint) -> Option<usize> {
    let length = leading(&text[joint.next..], INSIDE);
    let after = joint.next + length;
    if joint.style != Style::Wrapped {
        let before = trailing(&text[..joint.end], INSIDE);
        let long = before.max(length) >= WORD_BYTES_MIN;
        return (long && before.min(length) >= PART_BYTES_MIN).then_some(after);
    }
    let word = joint.end.checked_sub(WORD_BYTES_MIN)?;
    if !text[word..joint.end]
        .iter()
        .rev()
        .all(|byte| is(*byte, INSIDE))
    {
        return None;
    }
    let line = memchr::memrchr(b'\n', &text[..joint.end]).map_or(0, |at| at + 1);
    let width = joint.end - line;
    // A line that is wider was not broken for its width.
    if length == 0 || width < WIDTH_BYTES_MIN || after - line_end - 1 > width + 1 {
        return None;
    }
    let rest = &text[after..];
    let rest = &rest[memchr::memchr(b'\n', rest).map_or(0..rest.len(), |end| 0..end)];
    let rest = rest.trim_ascii();
    let alone = rest.iter().all(|byte| *byte == b'=');
    // A name has its value behind it.
    let name = !alone && matches!(rest[0], b'=' | b':');
    (!name && (alone || !is_word(&text[joint.next..after]))).then_some(after)
}

/// Whether these are letters as a word of a sentence has them, or what begins an entry of a list.
pub(crate) fn is_word(text: &[u8]) -> bool {
    let text = text.strip_suffix(b".").unwrap_or(text);
    let letters = text.len() <= LETTERS_MAX && text.iter().all(u8::is_ascii_alphabetic);
    let rest = text.get(1..).unwrap_or_default();
    let cased = rest.iter().all(u8::is_ascii_lowercase) || text.iter().all(u8::is_ascii_uppercase);
    let number = text.len() <= NUMBER_MAX && text.iter().all(u8::is_ascii_digit);
    letters && cased || number || !text.iter().any(u8::is_ascii_alphanumeric)
}

/// The next words that are broken, from a place on: from the first part of the first to the end of the last.
fn next(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    for line_end in memchr::memchr_iter(b'\n', bytes.get(from..)?) {
        let line_end = from + line_end;
        if !may_join(&bytes[from..line_end], &bytes[line_end + 1..]) {
            continue;
        }
        let Some((_, bounds)) = layer.string(line_end) else {
            continue;
        };
        let start = bounds.start.max(from);
        let text = &bytes[start..bounds.end];
        if let Some(words) = words(text, line_end - start) {
            return Some(start + words.start - label(&text[..words.start])..start + words.end);
        }
    }
    None
}

/// Whether a word may go on from one line to the next; false for most.
#[inline]
fn may_join(line: &[u8], next: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(last) = line.last() else {
        return false;
    };
    let kinds = BYTES[usize::from(*last)];
    if kinds & INSIDE != 0 || *last == b'=' {
        // The look back ends at the first space.
        let long = line.len() >= WORD_BYTES_MIN
            && line[line.len() - WORD_BYTES_MIN..line.len() - 1]
                .iter()
                .rev()
                .all(|byte| is(*byte, INSIDE));
        return long || kinds & OPERATOR != 0 && ends_string(line) && begins_string(next);
    }
    match kinds {
        QUOTE => begins_string(next),
        SPACE => true,
        _ if kinds & OPERATOR != 0 => ends_string(line) && begins_string(next),
        _ => *last == b'\\',
    }
}

/// Whether a string and an operator end a line.
fn ends_string(line: &[u8]) -> bool {
    let other = |byte: &&u8| !is(**byte, SPACE | OPERATOR);
    let end = line.iter().rev().find(other);
    end.is_some_and(|byte| is(*byte, QUOTE))
}

/// Whether a line begins with a string, after an operator or a letter.
fn begins_string(line: &[u8]) -> bool {
    let start = leading(line, SPACE | OPERATOR);
    let start = line[start..].iter().take(2);
    start.into_iter().any(|byte| is(*byte, QUOTE))
}

/// Bytes of the name and the mark between it and its value, or of the scheme of a credential, that a text ends
/// with.
fn label(text: &[u8]) -> usize {
    let line = memchr::memrchr(b'\n', text).map_or(text, |at| &text[at + 1..]);
    let bare = line[..line.len() - trailing(line, SPACE | QUOTE)].to_ascii_lowercase();
    let given = matches!(bare.last(), Some(b':' | b'=')) || bare.ends_with(b"=>");
    if !given && !SCHEMES.iter().any(|scheme| bare.ends_with(scheme)) {
        return 0;
    }
    let most = &line[line.len().saturating_sub(BEFORE_BYTES_MAX)..];
    // A character that was cut in two is left out.
    let cut = most.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
    most[cut..].trim_ascii_start().len()
}

/// The words around a line end, with all that they go on to.
fn words(text: &[u8], line_end: usize) -> Option<Range<usize>> {
    let first = joint(text, line_end)?;
    let mut end = goes_on(text, line_end, &first)?;
    while let Some(length) = memchr::memchr(b'\n', &text[end..]) {
        let line_end = end + length;
        let closed =
            |byte: &u8| matches!(byte, b'\\' | b'=') || is(*byte, SPACE | QUOTE | OPERATOR);
        let more = joint(text, line_end).filter(|more| more.style == first.style);
        let Some(more) = more.filter(|_| text[end..line_end].iter().all(closed)) else {
            break;
        };
        let Some(after) = goes_on(text, line_end, &more) else {
            break;
        };
        end = after;
    }
    let padding = text[end..].iter().take(2).take_while(|byte| **byte == b'=');
    end += padding.count();
    let start = first.end - trailing(&text[..first.end], INSIDE);
    Some(start..end)
}

/// Takes the joints out. Each line end of a run is one.
fn decode(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let mut out = Vec::with_capacity(run.len());
    let mut from = 0;
    for line_end in memchr::memchr_iter(b'\n', run) {
        if let Some(joint) = joint(run, line_end) {
            out.extend_from_slice(&run[from..joint.end.max(from)]);
            from = joint.next;
        }
    }
    out.extend_from_slice(run.get(from..).unwrap_or_default());
    sink(&out, NAME);
    out.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    /// A word of one length that is no word of a language.
    fn token(bytes: usize) -> String {
        let letters = b"aZ3kQ9xWm7Rt1VbN5yHs8PdL2cFgJ4uE6iO0";
        let mut state = 7u32;
        let mut letter = || {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            char::from(letters[(state >> 16) as usize % letters.len()])
        };
        (0..bytes).map(|_| letter()).collect()
    }

    /// A text in lines of so many bytes, each behind an indentation.
    fn folded(text: &str, width: usize, indent: &str) -> String {
        let lines = text.as_bytes().chunks(width);
        let lines = lines.map(|line| format!("{indent}{}", String::from_utf8_lossy(line)));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_was_wrapped_is_put_together() {
        let token = token(300);
        for width in [60, 64, 70, 76, 80, 120] {
            for indent in ["", "  ", "\t\t", "# ", "> ", "    // "] {
                let text = folded(&token, width, indent);
                for text in [
                    text.clone(),
                    format!("{text}\n"),
                    format!("The key is\n{text}\nand so on"),
                    text.replace('\n', "\r\n"),
                ] {
                    assert_eq!(
                        all_of(&DECODER, &text),
                        std::slice::from_ref(&token),
                        "{width} {indent:?}\n{text}"
                    );
                }
            }
        }
        let soft = folded(&token, 75, "").replace('\n', "=\n");
        assert_eq!(all_of(&DECODER, &soft), std::slice::from_ref(&token));
        let base64 = format!("{}==", folded(&token, 76, ""));
        assert_eq!(all_of(&DECODER, &base64), [format!("{token}==")]);
    }

    #[test]
    fn what_goes_on_is_put_together_at_any_width() {
        let token = token(48);
        for joint in [
            "\\\n",
            "\\\r\n    ",
            "\"\n  \"",
            "\" +\n    \"",
            "\"\n    + \"",
            "\" \\\n    \"",
            "\" .\n\"",
            "\" ..\n\"",
            "\"\n  f\"",
            "\" &\n \"",
        ] {
            let strings = folded(&token, 20, "").replace('\n', joint);
            assert_eq!(
                all_of(&DECODER, &format!("f(\"{strings}\")")),
                std::slice::from_ref(&token),
                "{strings}"
            );
        }
    }

    #[test]
    fn a_name_or_a_scheme_belongs_to_it() {
        let token = token(120);
        for (before, label) in [
            ("key = '", "key = '"),
            ("  Authorization: Bearer ", "Authorization: Bearer "),
            ("{\"password\": \"", "{\"password\": \""),
            ("x\ny: ", "y: "),
            ("see ", ""),
            ("", ""),
        ] {
            let text = format!("{before}{}\n{}'", &token[..70], &token[70..]);
            assert_eq!(
                all_of(&DECODER, &text),
                [format!("{label}{token}")],
                "{text}"
            );
        }
        let long = format!("{}: {}\n{}", "é".repeat(40), &token[..70], &token[70..]);
        assert!(all_of(&DECODER, &long)[0].ends_with(&format!("éé: {token}")));
    }

    #[test]
    fn lines_of_their_own_are_left_alone() {
        let (long, short) = (token(70), token(30));
        for text in [
            format!("A_KEY={long}\nB_KEY={long}"),
            format!("a: {long}\nb: {long}\n"),
            format!("see https://example.com/{long}\nand go on"),
            format!("see https://example.com/{long}\nThe rest"),
            format!("{short}\n{short}\n"),
            format!("{short} \\\n  --flag value"),
            format!("\"{long}\",\n\"{long}\""),
            format!("- {long}\n- {long}"),
            format!("9. {long}\n10. {long}"),
            format!("{long}\n\n{long}"),
            format!("{long}\n{}", self::token(200)),
            format!("x = '{short}'\ny = '{short}'\n"),
            "\\\n\\\n\"\n\"\n+\n=\n".to_owned(),
            String::new(),
        ] {
            assert_eq!(all_of(&DECODER, &text), [""; 0], "{text}");
        }
    }

    #[test]
    fn no_text_makes_it_panic_or_stop() {
        let marks = b"aZ9_ \t\r\n\n\n\\\"'+.=&|>#/;:-\xc3\xa9";
        let mut state = 1u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (state >> 16) as usize % below
        };
        for _ in 0..20_000 {
            let mut text = Vec::new();
            for _ in 0..random(12) {
                text.extend(vec![b'k'; random(3) * 20]);
                text.extend((0..random(6)).map(|_| marks[random(marks.len())]));
            }
            let whole = 0..text.len();
            let layer = Layer::plain(&text, std::slice::from_ref(&whole));
            let mut at = 0;
            while let Some(run) = next(&layer, at) {
                assert!(run.end > at && run.end <= text.len());
                at = run.end;
                decode(&text[run], &mut |_, _| {}).unwrap();
            }
        }
    }
}
