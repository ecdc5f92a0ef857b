//! The peer: the same rules run one by one, each over the whole text, with the `regex` crate.
//!
//! It knows no literals, no windows, no decoding and no checks, so it finds less than the engine does. Beside it stands
//! what is least: the words of all rules, found by one automaton, which says nothing of what stands around them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};
use scan::{Class, Rule};

/// Bytes that the compiled form of one rule may take.
const REGEX_BYTES_MAX: usize = 64 << 20;

pub struct Naive {
    rules: Vec<Regex>,
}

impl Naive {
    fn of(classes: &[Class]) -> Naive {
        let ours = |rule: &&Rule| classes.contains(&rule.class) && !rule.regex.is_empty();
        let build = |rule: &Rule| {
            let case = matches!(rule.class, Class::Injection);
            let regex = RegexBuilder::new(rule.regex)
                .unicode(false)
                .case_insensitive(case)
                .size_limit(REGEX_BYTES_MAX)
                .build();
            regex.ok()
        };
        Naive {
            rules: scan::rules()
                .iter()
                .filter(ours)
                .filter_map(build)
                .collect(),
        }
    }

    /// How many rules find something in a text.
    pub fn scan(&self, text: &[u8]) -> usize {
        self.rules
            .iter()
            .filter(|rule| rule.find(text).is_some())
            .count()
    }
}

pub static SECRETS: LazyLock<Naive> =
    LazyLock::new(|| Naive::of(&[Class::Secret, Class::Personal]));
pub static INJECTION: LazyLock<Naive> = LazyLock::new(|| Naive::of(&[Class::Injection]));

/// Letters of the shortest word of an expression that is looked for alone.
const WORD_LETTERS_MIN: usize = 4;

/// The words of the rules of some classes, each wherever it stands, by the fastest automaton there is for them.
fn words(classes: &[Class]) -> AhoCorasick {
    let mut words = BTreeSet::new();
    for rule in scan::rules()
        .iter()
        .filter(|rule| classes.contains(&rule.class))
    {
        if rule.class != Class::Injection {
            words.extend(rule.literals.iter().map(str::to_lowercase));
            continue;
        }
        let all = rule.regex.split(|letter: char| !letter.is_alphabetic());
        let long = all.filter(|word| word.chars().count() >= WORD_LETTERS_MIN);
        words.extend(long.map(str::to_lowercase));
    }
    let mut builder = AhoCorasick::builder();
    builder
        .kind(Some(AhoCorasickKind::DFA))
        .ascii_case_insensitive(true);
    builder.build(&words).expect("the words are few")
}

pub static SECRET_WORDS: LazyLock<AhoCorasick> =
    LazyLock::new(|| words(&[Class::Secret, Class::Personal]));
pub static INJECTION_WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| words(&[Class::Injection]));
