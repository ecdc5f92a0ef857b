//! How texts are cut for the index: code and queries alike by [`parse::words`](crate::code::parse::words).

use tantivy::Index;
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};

use super::schema::WORDS;
use crate::code::parse::words::{Part, Words};

/// Tells an index how its texts are cut.
pub fn register(index: &Index) {
    let words = TextAnalyzer::builder(WordCutter::default()).build();
    index.tokenizers().register(WORDS, words);
}

/// The words of a text as the index has them: the text, its place, and what it is.
pub fn words_of(text: &str) -> Vec<(String, usize, Part)> {
    let mut words = Words::of(text);
    let mut found = Vec::new();
    while words.advance() {
        found.push((words.text().to_owned(), words.position(), words.part()));
    }
    found
}

#[derive(Clone, Default)]
struct WordCutter {
    token: Token,
}

struct WordStream<'a> {
    words: Words<'a>,
    token: &'a mut Token,
}

impl Tokenizer for WordCutter {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream {
            words: Words::of(text),
            token: &mut self.token,
        }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        if !self.words.advance() {
            return false;
        }
        self.token.text.clear();
        self.token.text.push_str(self.words.text());
        self.token.position = self.words.position();
        self.token.offset_from = self.words.start();
        self.token.offset_to = self.words.end();
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
