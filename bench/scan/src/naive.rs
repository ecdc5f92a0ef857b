//! The peer: the same rules run one by one, each over the whole text, with the `regex` crate.
//!
//! It knows no literals, no windows, no decoding and no checks, so it finds less than the engine does.

use std::sync::LazyLock;

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
