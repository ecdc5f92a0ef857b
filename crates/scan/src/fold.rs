//! One spelling for texts that look alike: compatibility forms, accents, confusables, invisible characters.
//!
//! Plain ASCII never comes here. Letters of other scripts stay, in lower case, so that rules can be written
//! in them; a Cyrillic or Greek word becomes Latin only where each of its letters looks Latin.
//! Source: Unicode UAX #15 (compatibility decomposition), UTS #39 (confusables; the common ones only).

use std::ops::Range;
use std::sync::OnceLock;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::east;
use crate::layer::{Layer, Text};

/// Folds a view into `out`, string by string.
pub(crate) fn fold(layer: &Layer<'_>, out: &mut Text) {
    let mut at = 0;
    for string in layer.strings {
        stretch(layer.bytes, at..string.start, out);
        let start = out.bytes.len();
        stretch(layer.bytes, string.clone(), out);
        out.strings.push(start..out.bytes.len());
        at = string.end;
    }
    stretch(layer.bytes, at..layer.bytes.len(), out);
}

fn stretch(bytes: &[u8], range: Range<usize>, out: &mut Text) {
    let mut at = range.start;
    for chunk in bytes[range].utf8_chunks() {
        let valid = chunk.valid();
        words(bytes, at, valid, out);
        at += valid.len();
        out.copy(bytes, at..at + chunk.invalid().len());
        at += chunk.invalid().len();
    }
}

/// Folds one valid stretch that starts at `base` in `bytes`.
fn words(bytes: &[u8], base: usize, text: &str, out: &mut Text) {
    // Until here the current word's confusables are Latin, or are not.
    let (mut word_end, mut latin) = (0, false);
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let plain = rest
            .bytes()
            .position(|byte| !byte.is_ascii())
            .unwrap_or(rest.len());
        out.copy(bytes, base + at..base + at + plain);
        at += plain;
        let same = stays(&text[at..], at < word_end && !latin);
        out.copy(bytes, base + at..base + at + same);
        at += same;
        let Some(character) = text[at..].chars().next().filter(|c| !c.is_ascii()) else {
            continue;
        };
        if let Some((folded, length)) = east::fold(&text[at..]) {
            eastern(bytes, folded, base + at..base + at + length, out);
            at += length;
            at += east::torn(folded, &text[at..]);
            continue;
        }
        let end = at + character.len_utf8();
        if at >= word_end && foreign(character) {
            let word = &text[at..];
            let length = word.find(|c| flags(c) & WORD == 0).unwrap_or(word.len());
            word_end = at + length;
            latin = word[..length]
                .chars()
                .all(|c| !foreign(c) || lookalike(c).is_some());
            if !latin {
                continue;
            }
        }
        let source = base + at..base + end;
        match lookalike(character).filter(|_| latin && at < word_end) {
            Some(byte) => out.put(&[byte], source),
            None => one(bytes, character, source, out),
        }
        at = end;
    }
}

/// The character stays as it is.
const SAME: u8 = 1;
/// It can stand inside a word.
const WORD: u8 = 2;
/// What stands behind it can change it.
const JOINS: u8 = 4;
/// It is of a script whose words may be Latin in disguise.
const FOREIGN: u8 = 8;

/// What has to be known of each character of the basic plane, asked once for each row of 256: a text has few rows,
/// and all of them take a tenth of a second.
static FLAGS: [OnceLock<[u8; 256]>; 256] = [const { OnceLock::new() }; 256];

fn flags(character: char) -> u8 {
    let code = u32::from(character);
    match FLAGS.get((code >> 8) as usize) {
        Some(row) => {
            let row =
                row.get_or_init(|| std::array::from_fn(|low| asked(code & !0xff | low as u32)));
            row[(code & 0xff) as usize]
        }
        None => u8::from(in_word(character)) * WORD,
    }
}

/// What has to be known of a character.
fn asked(code: u32) -> u8 {
    let Some(character) = char::from_u32(code) else {
        return 0;
    };
    let mut utf8 = [0; 4];
    let alone: &str = character.encode_utf8(&mut utf8);
    let eastern = east::fold(alone);
    let same = match eastern {
        Some((folded, _)) => folded == character,
        None => {
            let mut out = Text::take();
            one(alone.as_bytes(), character, 0..alone.len(), &mut out);
            let same = out.bytes == alone.as_bytes();
            out.give();
            same
        }
    };
    u8::from(same) * SAME
        + u8::from(in_word(character)) * WORD
        + u8::from(eastern.is_some()) * JOINS
        + u8::from(foreign(character)) * FOREIGN
}

/// How many bytes at the start stay as they are; of a script whose words may be Latin only where it is
/// known that this one is not.
fn stays(text: &str, not_latin: bool) -> usize {
    let mut end = 0;
    let mut joins = None;
    for (at, character) in text.char_indices() {
        let flags = flags(character);
        let foreign = flags & FOREIGN != 0;
        if flags & SAME == 0 || character.is_ascii() || foreign && !not_latin {
            // Before a space, or before what may change it, a character is looked at by itself.
            return joins.unwrap_or(at);
        }
        joins = (flags & JOINS != 0).then_some(at);
        end = at + character.len_utf8();
    }
    joins.unwrap_or(end)
}

/// Adds what a character of East Asia, or a few of them, are folded to.
fn eastern(bytes: &[u8], folded: char, source: Range<usize>, out: &mut Text) {
    let mut utf8 = [0; 4];
    let folded = folded.encode_utf8(&mut utf8).as_bytes();
    if folded == &bytes[source.clone()] {
        out.copy(bytes, source);
    } else {
        out.put(folded, source);
    }
}

/// Folds one character that is not ASCII, by itself.
fn one(bytes: &[u8], character: char, source: Range<usize>, out: &mut Text) {
    let mut folded = [0; 32];
    let mut length = 0;
    let mut add = |character: char| {
        // The longest compatibility forms are rare ligatures of words; their tail is of no use here.
        if length + 4 <= folded.len() {
            length += character.encode_utf8(&mut folded[length..]).len();
        }
    };
    match character {
        // Tags spell ASCII that nobody sees: let the rules see it.
        '\u{e0020}'..='\u{e007e}' => {
            add(char::from((u32::from(character) - 0xe0000) as u8));
        }
        _ if invisible(character) => return,
        '\u{2010}'..='\u{2015}' | '\u{2212}' => add('-'),
        '\u{2018}' | '\u{2019}' => add('\''),
        '\u{201c}' | '\u{201d}' => add('"'),
        'ß' => add('s'),
        'ø' | 'ɵ' => add('o'),
        'Ø' => add('O'),
        'đ' | 'ð' => add('d'),
        'Đ' => add('D'),
        'ł' => add('l'),
        'Ł' => add('L'),
        'ħ' => add('h'),
        'ı' | 'ɪ' => add('i'),
        'ŧ' => add('t'),
        'ɑ' => add('a'),
        'ʀ' => add('r'),
        'ɴ' => add('n'),
        _ if decomposes(character) => decompose_compatible(character, |part| {
            if part.is_ascii() {
                add(part);
            } else if !is_combining_mark(part) {
                part.to_lowercase().for_each(&mut add);
            }
        }),
        _ => character.to_lowercase().for_each(&mut add),
    }
    if folded[..length] == bytes[source.clone()] {
        out.copy(bytes, source);
    } else {
        out.put(&folded[..length], source);
    }
}

/// Scripts and blocks whose compatibility forms or accents are undone. Arabic letters decompose too, but
/// into what their readers would not write.
fn decomposes(character: char) -> bool {
    matches!(character,
        '\u{a0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | '\u{2000}'..='\u{2bff}'
        | '\u{3000}' | '\u{fb00}'..='\u{fdff}' | '\u{fe30}'..='\u{feff}' | '\u{ff00}'..='\u{ffef}'
        | '\u{1d400}'..='\u{1d7ff}' | '\u{1f100}'..='\u{1f1ff}')
}

/// Characters without a shape of their own that can stand inside a word.
pub(crate) fn invisible(character: char) -> bool {
    matches!(character,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{61c}' | '\u{640}' | '\u{64b}'..='\u{652}' | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}')
}

fn in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || invisible(character)
}

fn foreign(character: char) -> bool {
    matches!(character, '\u{370}'..='\u{52f}' | 'ɡ' | 'ո' | 'օ' | 'ա')
}

/// The ASCII letter that a Cyrillic or Greek one looks like.
fn lookalike(character: char) -> Option<u8> {
    Some(match character {
        'а' | 'α' | 'ա' => b'a',
        'А' | 'Α' => b'A',
        'В' | 'Β' => b'B',
        'с' | 'ϲ' => b'c',
        'С' | 'Ϲ' => b'C',
        'ԁ' => b'd',
        'е' | 'ҽ' | 'ε' => b'e',
        'Е' | 'Ε' => b'E',
        'ɡ' => b'g',
        'Н' | 'Η' => b'H',
        'һ' => b'h',
        'і' | 'ι' | 'ӏ' => b'i',
        'І' | 'Ι' | 'Ӏ' => b'I',
        'ј' | 'ϳ' => b'j',
        'Ј' => b'J',
        'К' | 'Κ' => b'K',
        'к' | 'κ' => b'k',
        'М' | 'Μ' => b'M',
        'Ν' => b'N',
        'ո' => b'n',
        'о' | 'ο' | 'σ' | 'օ' => b'o',
        'О' | 'Ο' => b'O',
        'р' | 'ρ' => b'p',
        'Р' | 'Ρ' => b'P',
        'ԛ' => b'q',
        'ѕ' => b's',
        'Ѕ' => b'S',
        'Т' | 'Τ' => b'T',
        'т' | 'τ' => b't',
        'υ' => b'u',
        'ѵ' | 'ν' => b'v',
        'ԝ' | 'ω' => b'w',
        'х' | 'χ' => b'x',
        'Х' | 'Χ' => b'X',
        'у' | 'γ' => b'y',
        'У' | 'Υ' => b'Y',
        'Ζ' => b'Z',
        _ => return None,
    })
}

/// What made a stretch of text look like something else; empty where it is only accents or letter case.
pub(crate) fn disguise(source: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(source);
    let found = |test: fn(char) -> bool| text.chars().any(test);
    if found(|c| invisible(c) && !is_combining_mark(c)) {
        "invisible"
    } else if found(|c| matches!(c, '\u{ff01}'..='\u{ff5e}')) {
        "fullwidth"
    } else if found(|c| matches!(c, '\u{1d400}'..='\u{1d7ff}' | '\u{2460}'..='\u{24ff}'))
        || (found(|c| lookalike(c).is_some()) && found(|c| c.is_ascii_alphabetic()))
    {
        "confusable"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn folded(text: &str) -> String {
        let whole = 0..text.len();
        let mut out = Text::take();
        fold(
            &Layer::plain(text.as_bytes(), slice::from_ref(&whole)),
            &mut out,
        );
        String::from_utf8(out.bytes.clone()).unwrap()
    }

    #[test]
    fn disguises_are_undone() {
        assert_eq!(folded("ｉｇｎｏｒｅ　ＡＬＬ"), "ignore ALL");
        assert_eq!(folded("ig\u{200b}no\u{ad}re"), "ignore");
        assert_eq!(folded("pаsswоrd"), "password");
        assert_eq!(folded("𝐢𝐠𝐧𝐨𝐫𝐞 ⓘ"), "ignore i");
        assert_eq!(folded("précédentes Añade i\u{301}"), "precedentes Anade i");
        assert_eq!(folded("\u{e0068}\u{e0069}"), "hi");
    }

    #[test]
    fn other_scripts_stay_what_they_are() {
        assert_eq!(folded("Игнорируй все"), "игнорируй все");
        assert_eq!(folded("忽略之前的指令"), "忽略之前的指令");
        assert_eq!(folded("이전 지시를 무시"), "이전 지시를 무시");
        assert_eq!(folded("これまでの"), "これまでの");
        assert_eq!(folded("前の\n指 示 ｦ無視。"), "前の\n指示ヲ无视.");
    }

    #[test]
    fn bytes_that_are_not_text_stay() {
        let bytes = b"a\xff\xc3\x28\xe4b";
        let whole = 0..bytes.len();
        let mut out = Text::take();
        fold(&Layer::plain(bytes, slice::from_ref(&whole)), &mut out);
        assert_eq!(out.bytes, bytes);
    }

    #[test]
    fn a_disguise_has_a_name() {
        assert_eq!(disguise("ｉg".as_bytes()), "fullwidth");
        assert_eq!(disguise("i\u{200b}g".as_bytes()), "invisible");
        assert_eq!(disguise("pаss".as_bytes()), "confusable");
        assert_eq!(disguise("précédent".as_bytes()), "");
    }
}
