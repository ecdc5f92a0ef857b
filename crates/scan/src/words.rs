//! Expressions of rules against injection: one spelling in the data, every spelling in the match.
//!
//! A rule says `ignore all previous instructions` and finds it in any letter case, in leetspeak, and with any
//! few spaces, marks or nothing at all between its words.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Repetition};

/// Bytes that may stand where a rule has a space.
const GAP_BYTES_MAX: u32 = 8;
/// Times that a loosened expression still counts.
const LOOSE_MIN: u32 = 3;

/// The marks that are written in place of letters.
pub(crate) const LEET_MARKS: [u8; 4] = *b"@!|$";

/// What is written in place of a lower-case letter in leetspeak.
pub(crate) fn leet(letter: u8) -> &'static [u8] {
    match letter {
        b'a' => b"4@",
        b'b' => b"8",
        b'e' => b"3",
        b'g' => b"9",
        b'i' => b"1!",
        b'l' => b"1|",
        b'o' => b"0",
        b's' => b"5$",
        b't' => b"7",
        _ => b"",
    }
}

/// Whether a text spells a literal, and whether it does so plainly, in whatever letter case.
pub(crate) fn spelling(text: &[u8], literal: &[u8]) -> Option<bool> {
    let mut plain = true;
    for (byte, letter) in text.iter().zip(literal) {
        if byte.to_ascii_lowercase() != *letter {
            plain = false;
            if !leet(*letter).contains(byte) {
                return None;
            }
        }
    }
    Some(plain)
}

/// Whether a text has digits inside its words, as leetspeak has.
pub(crate) fn is_leet(text: &[u8]) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic();
    let inside = |three: &[u8]| letter(three[0]) && three[1].is_ascii_digit() && letter(three[2]);
    text.windows(3).any(inside)
}

/// The expression with each letter in all its spellings and each space as a gap.
pub(crate) fn widen(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Literal(literal) => Hir::concat(literal.0.iter().map(|b| byte(*b)).collect()),
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            // A negated class already holds what it is meant to hold.
            if class.ranges().len() < 128 {
                class.case_fold_simple();
            }
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(widen(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Capture(capture) => {
            let mut capture = capture.clone();
            capture.sub = Box::new(widen(&capture.sub));
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(widen).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(widen).collect()),
        _ => hir.clone(),
    }
}

/// An expression that matches wherever this one does, and elsewhere too: it does not count how often something is
/// repeated. A gap of up to so many bytes is as many states of an automaton; one of any length is one.
pub(crate) fn loosen(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let counts = repetition.max.is_some_and(|max| max > 1);
            let bounds = match counts {
                true => (repetition.min.min(LOOSE_MIN), None),
                false => (repetition.min, repetition.max),
            };
            Hir::repetition(Repetition {
                min: bounds.0,
                max: bounds.1,
                greedy: repetition.greedy,
                sub: Box::new(loosen(&repetition.sub)),
            })
        }
        HirKind::Capture(capture) => loosen(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(loosen).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(loosen).collect()),
        _ => hir.clone(),
    }
}

/// Bytes of the longest match of an expression once it is widened. Of one without a bound, very many.
pub(crate) fn length_max(hir: &Hir) -> usize {
    let (sum, most) = (usize::saturating_add, usize::max);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => {
            let gaps = literal.0.iter().filter(|byte| **byte == b' ').count();
            literal.0.len() + gaps * (GAP_BYTES_MAX as usize - 1)
        }
        HirKind::Class(class) => class.maximum_len().unwrap_or(0),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.map_or(usize::MAX, |max| max as usize);
            length_max(&repetition.sub).saturating_mul(times)
        }
        HirKind::Capture(capture) => length_max(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(length_max).fold(0, sum),
        HirKind::Alternation(parts) => parts.iter().map(length_max).fold(0, most),
    }
}

fn byte(byte: u8) -> Hir {
    match byte {
        b' ' => gap(),
        _ if byte.is_ascii_alphabetic() => {
            let lower = byte.to_ascii_lowercase();
            let spellings = [lower, lower.to_ascii_uppercase()];
            let all = spellings.iter().chain(leet(lower));
            class(all.map(|b| (*b, *b)))
        }
        _ => Hir::literal([byte]),
    }
}

/// Spaces, marks and control characters: what is neither a letter nor a digit.
fn gap() -> Hir {
    let marks = [(0, b'/'), (b':', b'@'), (b'[', b'`'), (b'{', 0x7f)];
    Hir::repetition(Repetition {
        min: 0,
        max: Some(GAP_BYTES_MAX),
        greedy: true,
        sub: Box::new(class(marks.into_iter())),
    })
}

fn class(ranges: impl Iterator<Item = (u8, u8)>) -> Hir {
    let ranges = ranges.map(|(start, end)| ClassBytesRange::new(start, end));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}

#[cfg(test)]
mod tests {
    use regex_automata::meta;
    use regex_automata::util::syntax;

    use super::*;

    #[test]
    fn what_is_loosened_matches_more_and_never_less() {
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let matches = |hir: &Hir, text: &str| {
            let regex = meta::Regex::builder().build_from_hir(hir).unwrap();
            regex.is_match(text)
        };
        let hir = syntax::parse_with(r"a(?:[0-9]{2,4}|x{5})?.{0,3}(b){1,2}", &syntax).unwrap();
        for text in ["a12b", "axxxxxb", "a...bb", "a1234...b"] {
            assert!(
                matches(&hir, text) && matches(&loosen(&hir), text),
                "{text}"
            );
        }
        assert!(!matches(&hir, "a12345....b") && matches(&loosen(&hir), "a12345....b"));
        assert!(!matches(&loosen(&hir), "a12c"));
    }

    #[test]
    fn leetspeak_is_of_digits_and_few_marks() {
        let all = (b'a'..=b'z').flat_map(leet);
        let known = |byte: &&u8| byte.is_ascii_digit() || LEET_MARKS.contains(byte);
        assert!(all.clone().all(|byte| known(&byte)));
        assert!(
            LEET_MARKS
                .iter()
                .all(|mark| all.clone().any(|byte| byte == mark))
        );
    }

    #[test]
    fn one_spelling_finds_all() {
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let hir = syntax::parse_with("ignore (?:all |any )?rules", &syntax).unwrap();
        let regex = meta::Regex::builder().build_from_hir(&widen(&hir)).unwrap();
        for hit in [
            "Ignore all RULES",
            "1gn0r3 4ll rul3$",
            "ignoreallrules",
            "ignore -- any, rules",
            "IGNORE_RULES",
        ] {
            assert!(regex.is_match(hit), "{hit}");
        }
        for miss in ["ignore older rules", "ignore          rules", "ignor rules"] {
            assert!(!regex.is_match(miss), "{miss}");
        }
    }
}
