//! Which three-byte runs a text must have so that an expression can match in it.
//!
//! After Russ Cox, "Regular Expression Matching with a Trigram Index": an expression is read as a set of texts where it
//! is small, and else as what all its matches have in common. It may say too little, never too much.

use std::collections::BTreeSet;

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use super::Gram;

/// What a file must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    /// Nothing in particular.
    Any,
    /// One run.
    Has(Gram),
    /// All of these.
    All(Vec<Formula>),
    /// One of these.
    One(Vec<Formula>),
}

/// Texts of one set.
const TEXTS_MAX: usize = 32;
/// Bytes of one text in a set.
const TEXT_BYTES_MAX: usize = 64;
/// Members of a class that are read one by one.
const CLASS_MAX: u32 = 12;

/// What matches: one of these texts exactly, or something of which the formula is true.
enum Known {
    Texts(BTreeSet<Vec<u8>>),
    Formula(Formula),
}

impl Formula {
    /// What a match of `hir` needs.
    pub(crate) fn of(hir: &Hir) -> Formula {
        known(hir).formula()
    }

    /// What a text needs.
    pub(crate) fn of_text(text: &[u8]) -> Formula {
        let mut grams: Vec<Gram> = text
            .windows(3)
            .map(|run| Gram::of([run[0], run[1], run[2]]))
            .collect();
        grams.sort_unstable();
        grams.dedup();
        all(grams.into_iter().map(Formula::Has).collect())
    }
}

impl Known {
    fn formula(self) -> Formula {
        match self {
            Known::Formula(formula) => formula,
            Known::Texts(texts) => one(texts.iter().map(|text| Formula::of_text(text)).collect()),
        }
    }

    fn text(text: &[u8]) -> Known {
        Known::Texts(BTreeSet::from([text.to_ascii_lowercase()]))
    }
}

fn all(parts: Vec<Formula>) -> Formula {
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Formula::Any => {}
            Formula::All(more) => flat.extend(more),
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => Formula::Any,
        1 => flat.remove(0),
        _ => Formula::All(flat),
    }
}

fn one(mut parts: Vec<Formula>) -> Formula {
    if parts.contains(&Formula::Any) {
        return Formula::Any;
    }
    match parts.len() {
        0 => Formula::Any,
        1 => parts.remove(0),
        _ => Formula::One(parts),
    }
}

fn known(hir: &Hir) -> Known {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Known::text(b""),
        HirKind::Literal(literal) => match literal.0.len() <= TEXT_BYTES_MAX {
            true => Known::text(&literal.0),
            false => Known::Formula(Formula::of_text(&literal.0)),
        },
        HirKind::Class(class) => {
            class_texts(class).map_or(Known::Formula(Formula::Any), Known::Texts)
        }
        HirKind::Capture(capture) => known(&capture.sub),
        HirKind::Repetition(repetition) => repeated(repetition),
        HirKind::Concat(parts) => joined(parts.iter().map(known)),
        HirKind::Alternation(parts) => either(parts.iter().map(known).collect()),
    }
}

fn class_texts(class: &Class) -> Option<BTreeSet<Vec<u8>>> {
    let mut texts = BTreeSet::new();
    let mut left = CLASS_MAX;
    match class {
        Class::Unicode(class) => {
            for range in class.iter() {
                left = left.checked_sub(range.end() as u32 - range.start() as u32 + 1)?;
                for letter in range.start()..=range.end() {
                    let mut buffer = [0; 4];
                    let text = letter.encode_utf8(&mut buffer);
                    texts.insert(text.as_bytes().to_ascii_lowercase());
                }
            }
        }
        Class::Bytes(class) => {
            for range in class.iter() {
                left = left.checked_sub(u32::from(range.end() - range.start()) + 1)?;
                texts.extend((range.start()..=range.end()).map(|b| vec![b.to_ascii_lowercase()]));
            }
        }
    }
    Some(texts)
}

fn repeated(repetition: &Repetition) -> Known {
    let sub = known(&repetition.sub);
    match (repetition.min, repetition.max) {
        (0, Some(1)) => match sub {
            Known::Texts(mut texts) => {
                texts.insert(Vec::new());
                Known::Texts(texts)
            }
            Known::Formula(_) => Known::Formula(Formula::Any),
        },
        (0, _) => Known::Formula(Formula::Any),
        (1, Some(1)) => sub,
        _ => Known::Formula(sub.formula()),
    }
}

fn joined(parts: impl Iterator<Item = Known>) -> Known {
    let mut texts = BTreeSet::from([Vec::new()]);
    let mut formulas = Vec::new();
    for part in parts {
        match part {
            Known::Texts(next) => match product(&texts, &next) {
                Some(longer) => texts = longer,
                None => formulas.push(Known::Texts(std::mem::replace(&mut texts, next)).formula()),
            },
            Known::Formula(formula) => {
                let before = std::mem::replace(&mut texts, BTreeSet::from([Vec::new()]));
                formulas.push(Known::Texts(before).formula());
                formulas.push(formula);
            }
        }
    }
    if formulas.is_empty() {
        return Known::Texts(texts);
    }
    formulas.push(Known::Texts(texts).formula());
    Known::Formula(all(formulas))
}

fn product(first: &BTreeSet<Vec<u8>>, then: &BTreeSet<Vec<u8>>) -> Option<BTreeSet<Vec<u8>>> {
    if first.len() * then.len() > TEXTS_MAX {
        return None;
    }
    let mut texts = BTreeSet::new();
    for head in first {
        for tail in then {
            if head.len() + tail.len() > TEXT_BYTES_MAX {
                return None;
            }
            texts.insert([head.as_slice(), tail].concat());
        }
    }
    Some(texts)
}

fn either(parts: Vec<Known>) -> Known {
    let mut texts = BTreeSet::new();
    for part in &parts {
        match part {
            Known::Texts(more) if texts.len() + more.len() <= TEXTS_MAX => {
                texts.extend(more.iter().cloned());
            }
            _ => return Known::Formula(one(parts.into_iter().map(Known::formula).collect())),
        }
    }
    Known::Texts(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(source: &str) -> Formula {
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        Formula::of(&parser.parse(source).unwrap())
    }

    fn text(text: &str) -> Formula {
        Formula::of_text(text.as_bytes())
    }

    #[test]
    fn says_what_all_matches_have() {
        assert_eq!(formula("needle"), text("needle"));
        assert_eq!(formula("ab"), Formula::Any);
        assert_eq!(formula(".*"), Formula::Any);
        assert_eq!(formula("abc|x"), Formula::Any);
        assert_eq!(
            formula("abc|xyz"),
            Formula::One(vec![text("abc"), text("xyz")])
        );
        assert_eq!(
            formula("ab[cd]"),
            Formula::One(vec![text("abc"), text("abd")])
        );
        assert_eq!(formula("(abc)+"), text("abc"));
        assert_eq!(formula("(abc)*"), Formula::Any);
        assert_eq!(
            formula("abc.*xyz"),
            Formula::All(vec![text("abc"), text("xyz")])
        );
        assert_eq!(formula("^abc$"), text("abc"));
        assert_eq!(
            formula("abc?d"),
            Formula::One(vec![text("abcd"), text("abd")])
        );
    }

    #[test]
    fn case_is_one_and_strange_cases_are_kept() {
        assert_eq!(formula("NEEDLE"), text("needle"));
        assert_eq!(formula("(?i)abc"), text("abc"));
        // The Kelvin sign is a k, too.
        let Formula::One(either) = formula("(?i)bake") else {
            panic!("one of two");
        };
        assert!(either.contains(&text("bake")) && either.contains(&text("ba\u{212A}e")));
    }

    /// Whatever matches has what the formula says.
    #[test]
    fn never_says_too_much() {
        fn holds(formula: &Formula, text: &[u8]) -> bool {
            match formula {
                Formula::Any => true,
                Formula::Has(gram) => text
                    .windows(3)
                    .any(|run| Gram::of([run[0], run[1], run[2]]) == *gram),
                Formula::All(parts) => parts.iter().all(|part| holds(part, text)),
                Formula::One(parts) => parts.iter().any(|part| holds(part, text)),
            }
        }
        let sources = [
            "ab?c?d",
            "(ab|cd)(ef|gh)?ij",
            "[a-c]{3}",
            "x[a-z]{2,}y",
            "(?i)Hello World",
            "a{5}",
            "foo(bar|baz|qux)+end",
            "(ab){3,5}",
            "a|bc|def",
            "\\bword\\b",
            "é+clair",
            "(?i)straße",
            "(a?b?c?d?e?f?g?)xyz",
            "[ab][cd][ef][gh][ij][kl]",
        ];
        let texts = [
            "ad",
            "abd",
            "abcd",
            "acd",
            "abefij",
            "cdghij",
            "abij",
            "abc",
            "cab",
            "xqqy",
            "xabcy",
            "HELLO wORLD",
            "aaaaa",
            "foobarend",
            "foobazquxend",
            "ababab",
            "bc",
            "def",
            "a word.",
            "éclair",
            "ééclair",
            "STRASSE",
            "StraßE",
            "STRAẞE",
            "xyz",
            "abcdefgxyz",
            "acegik",
            "bdfhjl",
        ];
        for source in sources {
            let regex = regex_automata::meta::Regex::new(source).unwrap();
            let formula = formula(source);
            for text in texts {
                if regex.is_match(text) {
                    assert!(
                        holds(&formula, text.as_bytes()),
                        "{source} on {text}: {formula:?}"
                    );
                }
            }
        }
    }
}
