//! Text of others, fit for a terminal: what cannot be seen, or would steer the terminal, is written out.
//!
//! Agents, servers and files choose such texts. A control sequence could move the cursor, U+202E turn a name round, and
//! a character without a shape hide words from whoever reads and not from a model. Each is shown as `\u{202e}`.

use std::borrow::Cow;
use std::fmt::Write;

/// A text on one line: line ends and tabs are written out too.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, |character, out| {
        write!(out, "\\u{{{:x}}}", u32::from(character)).expect("a string takes all");
    })
}

/// A text of several lines: line ends and tabs stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    let hidden = |character| is_hidden(character) && !matches!(character, '\n' | '\t');
    escaped(text, hidden, |character, out| {
        write!(out, "\\u{{{:x}}}", u32::from(character)).expect("a string takes all");
    })
}

/// A text that is JSON, with the escapes of JSON, so that it means the same. White space between its values stays.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let between = |character| matches!(character, '\n' | '\r' | '\t');
    let hidden = |character| is_hidden(character) && !between(character);
    escaped(json, hidden, |character, out| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}").expect("a string takes all");
        }
    })
}

fn escaped(
    text: &str,
    hidden: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.chars().any(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match hidden(character) {
            true => escape(character, &mut out),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Whether a character steers a terminal, reorders text, has no shape, or looks like a space and is none.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || (character.is_whitespace() && character != ' ')
        || (!character.is_ascii() && is_shapeless(character))
}

/// Unicode 16: `Default_Ignorable_Code_Point`, general category `Cf`, the blank of Braille, private use, and
/// noncharacters.
fn is_shapeless(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}'
        | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        | '\u{f0000}'..)
        || u32::from(character) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_stays() {
        for text in [
            "",
            "files/read",
            "Grüße, 世界 🎉 \u{301}",
            "a|b \\u{202e} \"x\"",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
            assert_eq!(visible_json(text), text);
        }
        assert_eq!(visible_lines("a\tb\nc"), "a\tb\nc");
        assert_eq!(visible_json("{\n \"a\": 1 }"), "{\n \"a\": 1 }");
    }

    #[test]
    fn what_hides_or_steers_is_written_out() {
        let steers = ["\u{1b}", "\r", "\u{7f}", "\u{9b}", "\u{b}", "\u{85}"];
        let hides = [
            "\u{202e}",
            "\u{2066}",
            "\u{200b}",
            "\u{200d}",
            "\u{feff}",
            "\u{ad}",
            "\u{61c}",
            "\u{e0041}",
            "\u{fe0f}",
            "\u{e0100}",
            "\u{115f}",
            "\u{3164}",
            "\u{2028}",
            "\u{a0}",
            "\u{2800}",
            "\u{e000}",
            "\u{f0000}",
            "\u{10ffff}",
            "\u{ffff}",
            "\u{1d173}",
            "\u{180e}",
            "\u{17b4}",
        ];
        for text in steers.iter().chain(&hides) {
            let number = u32::from(text.chars().next().expect("a character"));
            let shown = format!("a\\u{{{number:x}}}b");
            assert_eq!(visible(&format!("a{text}b")), shown);
            assert_eq!(visible_lines(&format!("a{text}b")), shown);
        }
        assert_eq!(visible("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(
            visible_json("\"\u{202e}\u{e0041}\""),
            r#""\u202e\udb40\udc41""#
        );
    }
}
