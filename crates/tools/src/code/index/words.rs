//! How texts are cut for the index: code and queries alike by [`parse::words`](crate::code::parse::words).

use crate::code::parse::words::{Part, Words};

/// The words of a text as the index has them: the text, its place, and what it is.
pub(crate) fn words_of(text: &str) -> Vec<(String, usize, Part)> {
    let mut words = Words::of(text);
    let mut found = Vec::new();
    while words.advance() {
        found.push((words.text().to_owned(), words.position(), words.part()));
    }
    found
}
