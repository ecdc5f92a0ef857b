//! The rules of our own pattern files, and the reading of the operator's.
//!
//! To add a rule: put it into a file under `patterns/` with its hits and misses; to add a file: add its
//! line to `patterns/list.txt`, which is the order of the reference page. A file that does not read does
//! not build.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

use serde::Deserialize;
use toml::Spanned;

use crate::branch::{self, Branch, Fixed, Taken};
use crate::check::{Check, Test};
use crate::packed::{Texts, Words};
use crate::rule::{Action, Class, Direction, Kind, Openings, Part, Rule, Severity, Use};
use crate::spell;
use crate::url::Ready;

/// The rules of our own files, written by `build.rs`, so that a start reads nothing.
static RULES: &[Rule] = &include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// The words that open them: those that are ASCII, and the others.
static WORDS: [Openings; 2] = include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// A rule as it was read, and where it stands in its file, in bytes.
pub(crate) struct Read {
    pub(crate) rule: Rule,
    pub(crate) at: usize,
}

/// Reads a pattern file. Errors: what is wrong, and where, in bytes.
pub(crate) fn read(text: &str) -> Result<Vec<Read>, (usize, String)> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (at, error.message().to_owned())
    })?;
    let part = |name: &str| file.parts.get(name).map(String::as_str);
    let rule = |entry: Spanned<Entry>| {
        let at = entry.span().start;
        let mut entry = entry.into_inner();
        let wrong = |error: String| (at, format!("rule `{}`: {error}", entry.id));
        if entry.texts().any(|text| text.contains('\0')) {
            return Err(wrong("a text cannot hold a NUL".to_owned()));
        }
        entry.regex = spell::whole(&entry.regex, part).map_err(wrong)?;
        let rule = entry.rule();
        Ok(Read { rule, at })
    };
    file.rule.into_iter().map(rule).collect()
}

/// Every rule, in the order of the files.
pub fn rules() -> &'static [Rule] {
    RULES
}

/// The words that open our own rules: those that are ASCII, and the others.
pub(crate) fn words() -> [Openings; 2] {
    WORDS
}

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    static BY_ID: LazyLock<HashMap<&str, &Rule, BuildHasherDefault<Ready>>> =
        LazyLock::new(|| rules().iter().map(|rule| (rule.id, rule)).collect());
    BY_ID.get(id).copied()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Parts of expressions, by the names that those call them.
    #[serde(default)]
    parts: BTreeMap<String, String>,
    rule: Vec<Spanned<Entry>>,
}

/// One `[[rule]]` of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    class: Class,
    severity: Severity,
    summary: String,
    reference: String,
    action: Action,
    #[serde(default)]
    literals: Vec<String>,
    #[serde(default)]
    regex: String,
    #[serde(default)]
    remedy: String,
    kind: Option<Kind>,
    #[serde(default)]
    language: String,
    #[serde(default = "everywhere")]
    directions: Vec<Direction>,
    #[serde(default)]
    before: usize,
    #[serde(default)]
    pair: bool,
    #[serde(default)]
    named: bool,
    #[serde(default)]
    digits: bool,
    #[serde(default)]
    base58: bool,
    #[serde(default)]
    phrase: bool,
    #[serde(default)]
    block: bool,
    check: Option<Test>,
    entropy: Option<f32>,
    #[serde(default)]
    hits: Vec<String>,
    #[serde(default)]
    misses: Vec<String>,
}

fn everywhere() -> Vec<Direction> {
    Direction::ALL.to_vec()
}

impl Entry {
    /// Its lists of texts, one behind the other.
    fn texts(&self) -> impl Iterator<Item = &String> {
        self.literals.iter().chain(&self.hits).chain(&self.misses)
    }

    /// The rule for the rest of the process.
    fn rule(self) -> Rule {
        let check = Check {
            entropy: self.entropy,
            test: self.check,
        };
        // An expression may be written on several lines.
        let regex = keep(self.regex.split('\n').collect());
        // What does not parse is an error of whoever checks the rule.
        let branches = match self.class {
            Class::Injection => branch::branches(regex).unwrap_or_default(),
            _ => Vec::new(),
        };
        Rule {
            id: keep(self.id),
            class: self.class,
            severity: self.severity,
            summary: keep(self.summary),
            reference: keep(self.reference),
            action: self.action,
            literals: Texts::keep(&self.literals),
            regex,
            remedy: keep(self.remedy),
            kind: self.kind,
            language: keep(self.language),
            directions: self.directions.leak(),
            hits: Texts::keep(&self.hits),
            misses: Texts::keep(&self.misses),
            before: self.before,
            pair: self.pair,
            named: self.named,
            digits: self.digits,
            base58: self.base58,
            phrase: self.phrase,
            block: self.block,
            check,
            branches: branches
                .into_iter()
                .map(keep_branch)
                .collect::<Vec<_>>()
                .leak(),
        }
    }
}

fn keep_branch(taken: Taken) -> Fixed {
    Branch {
        regex: keep(taken.regex),
        ascii: taken.ascii,
        first: Words::keep(&taken.first),
        middle: Words::keep(&taken.middle),
        last: Words::keep(&taken.last),
        near: taken.near,
        before: taken.before,
        after: taken.after,
    }
}

/// The rules are read once and live as long as the process.
fn keep(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Reads a word of a pattern file as one of a type's values, by its name.
macro_rules! named {
    ($type:ty) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word = String::deserialize(from)?;
                let value = <$type>::ALL
                    .into_iter()
                    .find(|value| value.as_str() == word);
                value.ok_or_else(|| serde::de::Error::custom(format!("`{word}` is not known here")))
            }
        }
    };
}

named!(Action);
named!(Class);
named!(Direction);
named!(Kind);
named!(Severity);
named!(Test);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test reads the files")]
    fn what_was_built_is_what_the_files_say() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("patterns");
        let list = std::fs::read_to_string(folder.join("list.txt")).unwrap();
        let files = list.lines().flat_map(|name| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            read(&text).unwrap_or_else(|error| panic!("{name}: {error:?}"))
        });
        let files: Vec<Rule> = files.map(|read| read.rule).collect();
        assert_eq!(files, rules());
    }

    #[test]
    fn rules_are_well_formed() {
        let mut ids: Vec<_> = rules().iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rules().len(), "two rules of one id");
        for rule in rules() {
            let lower_snake = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            assert!(rule.id.bytes().all(lower_snake), "{}", rule.id);
            let by_words = |branch: &Fixed| !branch.first.is_empty();
            let words = !rule.branches.is_empty() && rule.branches.iter().all(by_words);
            let opened = !rule.literals.is_empty() || words || rule.digits || rule.base58;
            assert_eq!(opened, !rule.regex.is_empty(), "{}: literals", rule.id);
            assert!(
                rule.action == Action::Off
                    || rule.literals.iter().all(|literal| literal.len() >= 2),
                "{}",
                rule.id
            );
            assert!(
                rule.regex.is_empty() || rule.hits.len() >= 2 && rule.misses.len() >= 2,
                "{}: cases",
                rule.id
            );
            assert!(
                rule.reference.starts_with("https://"),
                "{}: reference",
                rule.id
            );
            assert!(rule.summary.ends_with('.'), "{}: summary", rule.id);
        }
    }

    #[test]
    fn there_are_as_many_as_promised() {
        let count = |class| rules().iter().filter(|rule| rule.class == class).count();
        assert!(count(Class::Secret) >= 40, "{}", count(Class::Secret));
        assert!(count(Class::Injection) >= 15, "{}", count(Class::Injection));
    }
}
