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
    if word.len() < LETTERS_MIN || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return Cow::Borrowed(word);
    }
    let single = plural(word);
    let bare = long(&single).unwrap_or_else(|| past(&single));
    let short = bare
        .strip_suffix('e')
        .filter(|rest| rest.len() >= REST_MIN && !rest.ends_with('e'));
    let result = short.unwrap_or(&bare);
    if result == word {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(result.to_owned())
    }
}

/// Without the `s` of a plural: `classes`, `retries`, `urls`; not `class`, `status`, `this`.
fn plural(word: &str) -> String {
    if let Some(rest) = word.strip_suffix("ies").filter(|rest| rest.len() >= 2) {
        return format!("{rest}y");
    }
    let hissing = |rest: &&str| {
        let ends = ["ss", "x", "sh", "ch", "zz"];
        ends.iter().any(|end| rest.ends_with(end)) && rest.len() >= REST_MIN
    };
    if let Some(rest) = word.strip_suffix("es").filter(hissing) {
        return rest.to_owned();
    }
    match word.strip_suffix('s') {
        Some(rest) if !rest.ends_with(['s', 'u', 'i']) => rest.to_owned(),
        _ => word.to_owned(),
    }
}

/// The verb in a noun: `validation` and `validator` are `validat`, `tokenizer` is `tokeniz`, `connection` is
/// `connect`.
fn long(word: &str) -> Option<String> {
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
    let ending = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending))?;
    let rest = &word[..word.len() - ending.0.len()];
    let enough = rest.len() >= REST_MIN || ending.0.starts_with(['c', 's']) && rest.len() >= 2;
    enough.then(|| format!("{rest}{}", ending.1))
}

/// Without `-ed` and `-ing`, and what they did to the verb: `mapped`, `parsing`, `copied`.
fn past(word: &str) -> String {
    if let Some(rest) = word.strip_suffix("ied").filter(|rest| rest.len() >= 2) {
        return format!("{rest}y");
    }
    let rest = word.strip_suffix("ing").or_else(|| word.strip_suffix("ed"));
    let Some(rest) = rest.filter(|rest| rest.len() >= REST_MIN && has_vowel(rest)) else {
        return word.to_owned();
    };
    let bytes = rest.as_bytes();
    let is_double = bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    if is_double && !rest.ends_with(['l', 's', 'z', 'e', 'o']) && rest.len() > REST_MIN {
        return rest[..rest.len() - 1].to_owned();
    }
    rest.to_owned()
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
