//! Seed phrases of which each word is a value of its own, as in a call with an argument for each.
//!
//! The words may stand in their order, in the opposite one, or in that of the numbers that their names end with.
//! Only values that are one listed word are looked at, and only where enough of them follow each other.

use std::ops::Range;

use super::{LENGTHS, LETTERS_MAX, LETTERS_MIN, WORDS, Word, holds_phrase};

/// Words of the shortest phrase.
pub(crate) const PARTS_MIN: usize = LENGTHS[LENGTHS.len() - 1];

/// Whether a value of so many bytes can be a listed word.
pub(crate) fn may_be_word(bytes: usize) -> bool {
    (LETTERS_MIN..=LETTERS_MAX).contains(&bytes)
}

/// The runs of values that hold a phrase, of values with their names. `tried` counts the checksums made.
pub(crate) fn runs(values: &[(&[u8], &[u8])], tried: &mut usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < values.len() {
        let word = |(_, value): &&(&[u8], &[u8])| number(value).is_some();
        let words = values[start..].iter().take_while(word).count();
        let run = start..start + words;
        if words >= PARTS_MIN && holds(&values[run.clone()], tried) {
            found.push(run);
        }
        start += words + 1;
    }
    found
}

/// The number of a value that is a listed word.
fn number(value: &[u8]) -> Option<u16> {
    let letters = may_be_word(value.len()) && value.iter().all(u8::is_ascii_alphabetic);
    letters.then(|| WORDS.number(value)).flatten()
}

/// Whether the words of these values are a phrase in any order that is looked at.
fn holds(values: &[(&[u8], &[u8])], tried: &mut usize) -> bool {
    let words = values.iter().filter_map(|(_, value)| number(value));
    let mut words: Vec<Word> = words.map(|number| (number, 0..0)).collect();
    // The list is the list in either direction.
    if words.is_sorted_by(|a, b| a.0 < b.0) || words.is_sorted_by(|a, b| a.0 > b.0) {
        return false;
    }
    if holds_phrase(&words, tried) {
        return true;
    }
    words.reverse();
    if holds_phrase(&words, tried) {
        return true;
    }
    let mut named: Vec<(u32, u16)> = Vec::with_capacity(values.len());
    for (name, value) in values {
        let (Some(at), Some(number)) = (last_number(name), number(value)) else {
            return false;
        };
        named.push((at, number));
    }
    if named.is_sorted() || named.iter().rev().is_sorted() {
        return false;
    }
    named.sort();
    let words: Vec<Word> = named
        .into_iter()
        .map(|(_, number)| (number, 0..0))
        .collect();
    holds_phrase(&words, tried)
}

/// The number that a name ends with.
fn last_number(name: &[u8]) -> Option<u32> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let digits = &name[name.len() - digits.count()..];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Range<usize>; 0] = [];
    const PHRASE: &str =
        "rack rubber able sing until jazz decade rookie fiction lounge spend december";

    fn found(values: &[(String, &str)]) -> Vec<Range<usize>> {
        let values: Vec<(&[u8], &[u8])> = values
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        runs(&values, &mut 0)
    }

    fn named(
        words: &[&'static str],
        name: impl Fn(usize) -> String,
    ) -> Vec<(String, &'static str)> {
        words
            .iter()
            .enumerate()
            .map(|(at, word)| (name(at), *word))
            .collect()
    }

    #[test]
    fn a_word_in_each_value_is_a_phrase_in_any_of_three_orders() {
        let words: Vec<&str> = PHRASE.split(' ').collect();
        let plain = named(&words, |at| format!("w{}", at + 1));
        assert_eq!(found(&plain), std::slice::from_ref(&(0..12)));
        let mut back = plain.clone();
        back.reverse();
        assert_eq!(found(&back), std::slice::from_ref(&(0..12)));
        // As whoever writes JSON may put them: w1, w10, w11, w12, w2.
        let mut sorted = plain.clone();
        sorted.sort();
        assert_ne!(sorted, plain);
        assert_eq!(found(&sorted), std::slice::from_ref(&(0..12)));
        let mut around = vec![("to".to_owned(), "ops@example.com")];
        around.extend(plain.clone());
        around.push(("note".to_owned(), "as asked"));
        assert_eq!(found(&around), std::slice::from_ref(&(1..13)));
    }

    #[test]
    fn what_is_no_phrase_is_left_alone() {
        let words: Vec<&str> = PHRASE.split(' ').collect();
        let plain = named(&words, |at| format!("w{}", at + 1));
        assert_eq!(found(&plain[..11]), NONE);
        let mut broken = plain.clone();
        broken[5].1 = "jazzy";
        assert_eq!(found(&broken), NONE);
        let mut wrong = plain.clone();
        wrong.swap(0, 1);
        let names = |at: usize| format!("{}", char::from(b'a' + at as u8));
        let wrong: Vec<&str> = wrong.into_iter().map(|(_, word)| word).collect();
        assert_eq!(found(&named(&wrong, names)), NONE);
        // The list itself, in either direction.
        let mut list: Vec<&'static str> = WORDS.all[100..160].to_vec();
        assert_eq!(found(&named(&list, names_of)), NONE);
        list.reverse();
        assert_eq!(found(&named(&list, names_of)), NONE);
        assert_eq!(found(&[]), NONE);
    }

    fn names_of(at: usize) -> String {
        format!("k{at}")
    }
}
