//! The list of pattern files, and the reading of them.
//!
//! To add a rule: put it into a file under `patterns/` with its hits and misses; to add a file: add its
//! line to [`FILES`]. A file that does not read is a mistake of ours, found by each test and at start.

use std::sync::LazyLock;

use serde::Deserialize;
use toml::Spanned;

use crate::check::{Check, Test};
use crate::rule::{Action, Class, Direction, Kind, Rule, Severity};

/// Every pattern file, in the order in which the reference page lists its rules.
const FILES: &[(&str, &str)] = &[
    ("models", include_str!("../patterns/models.toml")),
    ("agents", include_str!("../patterns/agents.toml")),
    ("clouds", include_str!("../patterns/clouds.toml")),
    ("azure", include_str!("../patterns/azure.toml")),
    ("hosting", include_str!("../patterns/hosting.toml")),
    ("networks", include_str!("../patterns/networks.toml")),
    ("databases", include_str!("../patterns/databases.toml")),
    ("code", include_str!("../patterns/code.toml")),
    ("packages", include_str!("../patterns/packages.toml")),
    ("build", include_str!("../patterns/build.toml")),
    ("services", include_str!("../patterns/services.toml")),
    ("chat", include_str!("../patterns/chat.toml")),
    ("mail", include_str!("../patterns/mail.toml")),
    ("money", include_str!("../patterns/money.toml")),
    ("exchanges", include_str!("../patterns/exchanges.toml")),
    ("wallets", include_str!("../patterns/wallets.toml")),
    ("personal", include_str!("../patterns/personal.toml")),
    ("operations", include_str!("../patterns/operations.toml")),
    ("monitoring", include_str!("../patterns/monitoring.toml")),
    ("analytics", include_str!("../patterns/analytics.toml")),
    ("work", include_str!("../patterns/work.toml")),
    ("social", include_str!("../patterns/social.toml")),
    ("generic", include_str!("../patterns/generic.toml")),
    ("operator", include_str!("../patterns/operator.toml")),
    ("urls", include_str!("../patterns/urls.toml")),
    ("en", include_str!("../patterns/injection/en.toml")),
    (
        "en_deeds",
        include_str!("../patterns/injection/en_deeds.toml"),
    ),
    ("es", include_str!("../patterns/injection/es.toml")),
    ("pt", include_str!("../patterns/injection/pt.toml")),
    ("it", include_str!("../patterns/injection/it.toml")),
    ("fr", include_str!("../patterns/injection/fr.toml")),
    ("de", include_str!("../patterns/injection/de.toml")),
    ("ru", include_str!("../patterns/injection/ru.toml")),
    ("ko", include_str!("../patterns/injection/ko.toml")),
    ("ar", include_str!("../patterns/injection/ar.toml")),
    ("zh", include_str!("../patterns/injection/zh.toml")),
    ("ja", include_str!("../patterns/injection/ja.toml")),
    ("commands", include_str!("../patterns/commands.toml")),
    ("footholds", include_str!("../patterns/footholds.toml")),
    ("chains", include_str!("../patterns/chains.toml")),
    ("tools", include_str!("../patterns/tools.toml")),
];

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &'static str)| {
        let rules = read(text).unwrap_or_else(|(at, error)| {
            panic!("the pattern file {name} does not read, at byte {at}: {error}")
        });
        rules.into_iter().map(|read| read.rule)
    };
    FILES.iter().flat_map(read).collect()
});

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
    let rule = |entry: Spanned<Entry>| Read {
        at: entry.span().start,
        rule: entry.into_inner().rule(),
    };
    Ok(file.rule.into_iter().map(rule).collect())
}

/// Every rule, in the order of the files.
pub fn rules() -> &'static [Rule] {
    &RULES
}

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().iter().find(|rule| rule.id == id)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
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
    /// The rule for the rest of the process.
    fn rule(self) -> Rule {
        let check = Check {
            entropy: self.entropy,
            test: self.check,
        };
        Rule {
            id: keep(self.id),
            class: self.class,
            severity: self.severity,
            summary: keep(self.summary),
            reference: keep(self.reference),
            action: self.action,
            literals: self.literals.into_iter().map(keep).collect(),
            // An expression may be written on several lines.
            regex: keep(self.regex.split('\n').collect()),
            remedy: keep(self.remedy),
            kind: self.kind,
            language: keep(self.language),
            directions: self.directions,
            hits: self.hits.into_iter().map(keep).collect(),
            misses: self.misses.into_iter().map(keep).collect(),
            before: self.before,
            pair: self.pair,
            digits: self.digits,
            base58: self.base58,
            phrase: self.phrase,
            block: self.block,
            check,
        }
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
    use super::*;

    #[test]
    fn rules_are_well_formed() {
        let mut ids: Vec<_> = rules().iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rules().len(), "two rules of one id");
        for rule in rules() {
            let lower_snake = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            assert!(rule.id.bytes().all(lower_snake), "{}", rule.id);
            let opened = !rule.literals.is_empty() || rule.digits || rule.base58;
            assert_eq!(opened, !rule.regex.is_empty(), "{}: literals", rule.id);
            assert!(
                rule.action == Action::Off
                    || rule.literals.iter().all(|literal| literal.len() >= 3),
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
