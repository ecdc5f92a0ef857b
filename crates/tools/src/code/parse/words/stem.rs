//! Takes the ending off an English word, lightly: `caches`, `cached`, `caching` and `cache` become one.
//!
//! The rules are those of the first and last steps of Porter's algorithm (M. F. Porter, "An algorithm for suffix
//! stripping", 1980), with three of its longer endings that names of code are full of (`-ation`, `-ator`,
//! `-izer`). It refuses to touch short words and words that are not plain ASCII letters.

use std::borrow::Cow;

/// Letters under which a word is left as it is.
const LETTERS_MIN: usize = 4;
/// Letters that must be left before an ending.
const REST_MIN: usize = 3;

/// The word without its ending. `word` is in lower case.
pub fn stem(word: &str) -> Cow<'_, str> {
    match parted(word) {
        (rest, "") => Cow::Borrowed(rest),
        (rest, tail) => Cow::Owned(format!("{rest}{tail}")),
    }
}

/// What is left of a word, and the letters to put behind it.
pub(super) fn parted(word: &str) -> (&str, &'static str) {
    let ends = matches!(
        word.as_bytes().last(),
        Some(b'd' | b'e' | b'g' | b'n' | b'r' | b's')
    );
    if !ends || word.len() < LETTERS_MIN || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return (word, "");
    }
    if let Some(rest) = word.strip_suffix("ies").filter(|rest| rest.len() >= 2) {
        return (rest, "y");
    }
    let single = plural(word);
    if let Some(parted) = long(single) {
        return parted;
    }
    if let Some(rest) = single.strip_suffix("ied").filter(|rest| rest.len() >= 2) {
        return (rest, "y");
    }
    let bare = past(single);
    let short = bare
        .strip_suffix('e')
        .filter(|rest| rest.len() >= REST_MIN && !rest.ends_with('e'));
    (short.unwrap_or(bare), "")
}

/// Without the `s` of a plural: `classes`, `urls`; not `class`, `status`, `this`.
fn plural(word: &str) -> &str {
    let hissing = |rest: &&str| {
        let ends = ["ss", "x", "sh", "ch", "zz"];
        ends.iter().any(|end| rest.ends_with(end)) && rest.len() >= REST_MIN
    };
    if let Some(rest) = word.strip_suffix("es").filter(hissing) {
        return rest;
    }
    match word.strip_suffix('s') {
        Some(rest) if !rest.ends_with(['s', 'u', 'i']) => rest,
        _ => word,
    }
}

/// The verb in a noun: `validation` and `validator` are `validat`, `tokenizer` is `tokeniz`, `connection` is
/// `connect`.
fn long(word: &str) -> Option<(&str, &'static str)> {
    const ENDINGS: &[(&str, &str)] = &[
        ("ization", "iz"),
        ("isation", "iz"),
        ("izer", "iz"),
        ("iser", "iz"),
        ("ation", "at"),
        ("ator", "at"),
        ("ction", "ct"),
        ("ssion", "ss"),
    ];
    if !word.ends_with(['n', 'r']) {
        return None;
    }
    let (ending, tail) = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending))?;
    let rest = &word[..word.len() - ending.len()];
    let least = if ending.starts_with(['c', 's']) {
        2
    } else {
        REST_MIN
    };
    (rest.len() >= least).then_some((rest, tail))
}

/// Without `-ed` and `-ing`, and what they did to the verb: `mapped`, `parsing`.
fn past(word: &str) -> &str {
    let rest = word.strip_suffix("ing").or_else(|| word.strip_suffix("ed"));
    let Some(rest) = rest.filter(|rest| rest.len() >= REST_MIN && has_vowel(rest)) else {
        return word;
    };
    let bytes = rest.as_bytes();
    let is_double = bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    if is_double && !rest.ends_with(['l', 's', 'z', 'e', 'o']) && rest.len() > REST_MIN {
        return &rest[..rest.len() - 1];
    }
    rest
}

fn has_vowel(word: &str) -> bool {
    word.contains(['a', 'e', 'i', 'o', 'u', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_become_one() {
        for forms in [
            &["cache", "caches", "cached", "caching"][..],
            &["retry", "retries", "retried", "retrying"],
            &["parse", "parses", "parsed", "parsing"],
            &["map", "maps", "mapped", "mapping"],
            &[
                "validate",
                "validates",
                "validated",
                "validating",
                "validation",
                "validator",
                "validators",
            ],
            &[
                "tokenize",
                "tokenizer",
                "tokenization",
                "tokenizes",
                "tokenized",
            ],
            &["connect", "connection", "connections", "connected"],
            &["class", "classes"],
            &["box", "boxes", "boxed"],
            &["index", "indexes", "indexing"],
            &["session", "sessions"],
        ] {
            let stems: Vec<_> = forms.iter().map(|form| stem(form)).collect();
            assert!(
                stems.iter().all(|stem| stem == &stems[0]),
                "{forms:?} are {stems:?}"
            );
        }
    }

    #[test]
    fn words_that_only_look_so_stay_as_they_are() {
        for word in [
            "status", "this", "class", "bus", "string", "thing", "need", "axis", "feed", "red",
            "tree",
        ] {
            assert_eq!(stem(word), word);
        }
    }

    #[test]
    fn it_takes_anything() {
        for word in [
            "", "s", "ed", "ing", "ies", "naïve", "x86_64", "eeee", "ssss", "ingeding",
        ] {
            assert!(stem(word).len() <= word.len() + 1);
        }
    }
}
