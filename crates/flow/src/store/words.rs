//! The words of a text, as full-text search on PostgreSQL finds them: in small letters and without diacritics, as SQLite's
//! `unicode61 remove_diacritics 2` has them.
//!
//! PostgreSQL's own index of words is a GIN index, which it does not use below row-level security: the test for a word may
//! tell of rows that the policy hides, so the policy is asked first, of every row. Words in a table are found by a B-tree,
//! whose comparisons tell nothing.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Different words of one object that are found; more are not.
const WORDS_MAX: usize = 4_000;
/// Longest word, in characters; of a longer one its beginning.
const WORD_CHARS_MAX: usize = 64;
/// How much more a word of the title counts than one of the rest.
const TITLE_WEIGHT: i64 = 4;
/// Most that one word counts.
const WEIGHT_MAX: i64 = 1_000;

/// The words of a text, in its order.
pub(super) fn words(text: &str) -> Vec<String> {
    let folded: String = text
        .nfd()
        .filter(|letter| !is_combining_mark(*letter))
        .flat_map(char::to_lowercase)
        .collect();
    folded
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(WORD_CHARS_MAX).collect())
        .collect()
}

/// The different words of an object, in the order of their bytes, and how much each counts.
pub(super) fn weights(title: &str, body: &str) -> Vec<(String, i64)> {
    let mut all: BTreeMap<String, i64> = BTreeMap::new();
    for (text, weight) in [(title, TITLE_WEIGHT), (body, 1)] {
        for word in words(text) {
            if all.len() < WORDS_MAX || all.contains_key(&word) {
                let sum = all.entry(word).or_default();
                *sum = (*sum + weight).min(WEIGHT_MAX);
            }
        }
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded() {
        assert_eq!(words("Übung, café\u{301}s-2x!"), ["ubung", "cafes", "2x"]);
        assert_eq!(
            weights("door", "The door, the DOOR"),
            [("door".to_owned(), 6), ("the".to_owned(), 2)]
        );
    }
}
