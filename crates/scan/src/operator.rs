//! The operator's own rules: files of the same format as ours, checked when they are read.
//!
//! A rule that does not compile, that has no bound, that misses one of its hits or finds one of its misses
//! is an error with its line, and none of the file's rules is used.

use std::fmt;
use std::sync::Mutex;

use crate::engine::Engine;
use crate::patterns::{self, Read};
use crate::rule::{Direction, Rule};
use crate::set;

/// Rules of the operator's own, over all files.
pub const OPERATOR_RULES_MAX: usize = 1_000;
/// Bytes of one file of rules.
pub const OPERATOR_FILE_BYTES_MAX: usize = 1 << 20;
/// Literals of one rule.
const LITERALS_MAX: usize = 64;
/// Bytes of the shortest literal: shorter ones stand in every text.
const LITERAL_BYTES_MIN: usize = 3;
/// Bytes of the longest literal.
const LITERAL_BYTES_MAX: usize = 128;

/// What is wrong with a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Reads a file of rules.
///
/// Errors: everything that is wrong with it. A rule that was read once stays in memory for the life of the
/// process, and is not kept twice.
pub fn operator_rules(text: &str) -> Result<Vec<&'static Rule>, Vec<RuleProblem>> {
    let at_top = |message: String| vec![RuleProblem { line: 1, message }];
    if text.len() > OPERATOR_FILE_BYTES_MAX {
        return Err(at_top(format!("more than {OPERATOR_FILE_BYTES_MAX} bytes")));
    }
    let rules = patterns::read(text).map_err(|(at, message)| {
        vec![RuleProblem {
            line: line(text, at),
            message,
        }]
    })?;
    if rules.len() > OPERATOR_RULES_MAX {
        return Err(at_top(format!("more than {OPERATOR_RULES_MAX} rules")));
    }
    let mut problems = Vec::new();
    let mut kept: Vec<&'static Rule> = Vec::new();
    for Read { rule, at } in rules {
        let rule = keep(rule);
        let mut say = |message: String| {
            problems.push(RuleProblem {
                line: line(text, at),
                message: format!("rule `{}`: {message}", rule.id),
            });
        };
        let known = kept.iter().any(|other| other.id == rule.id);
        if known || patterns::rule(rule.id).is_some() {
            say("another rule has this id".to_owned());
        }
        kept.push(rule);
        check(rule, &mut say);
    }
    if problems.is_empty() {
        Ok(kept)
    } else {
        Err(problems)
    }
}

fn check(rule: &'static Rule, say: &mut impl FnMut(String)) {
    let lower_snake = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if rule.id.is_empty() || !rule.id.bytes().all(lower_snake) {
        say("`id` takes lower-case letters, digits and `_`".to_owned());
    }
    if !rule.class.reads_text() {
        say("`class` must be secret, personal or injection".to_owned());
    }
    if rule.literals.is_empty() != rule.digits {
        say("it needs `literals`, or `digits = true`, and not both".to_owned());
    }
    if rule.literals.len() > LITERALS_MAX {
        say(format!("more than {LITERALS_MAX} literals"));
    }
    let lengths = LITERAL_BYTES_MIN..=LITERAL_BYTES_MAX;
    if rule.literals.iter().any(|l| !lengths.contains(&l.len())) {
        say(format!(
            "a literal has from {LITERAL_BYTES_MIN} to {LITERAL_BYTES_MAX} bytes"
        ));
    }
    if let Err(message) = set::check(rule) {
        return say(message);
    }
    if rule.hits.is_empty() {
        say("it needs at least one text in `hits`".to_owned());
    }
    let engine = match Engine::alone(rule) {
        Ok(engine) => engine,
        Err(message) => return say(message.to_owned()),
    };
    let finds = |text: &&&str| {
        let report = engine.text(Direction::Outgoing, text, "");
        report.is_ok_and(|report| !report.findings.is_empty())
    };
    for hit in rule.hits.iter().filter(|hit| !finds(hit)) {
        say(format!("does not find its hit {}", shown(hit)));
    }
    for miss in rule.misses.iter().filter(finds) {
        say(format!("finds its miss {}", shown(miss)));
    }
}

/// The start of a text, for a message: hits may hold what must not be printed whole.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(12).collect();
    format!("{:?}", format!("{start}…"))
}

fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The one copy of a rule that lives as long as the process.
fn keep(rule: Rule) -> &'static Rule {
    static KEPT: Mutex<Vec<&'static Rule>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(known) = kept.iter().find(|known| ***known == rule) {
        return known;
    }
    let rule: &'static Rule = Box::leak(Box::new(rule));
    kept.push(rule);
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    const GOOD: &str = r#"
[[rule]]
id = "acme_badge"
class = "secret"
severity = "high"
summary = "A badge number of ours."
reference = "https://intranet.example/badges"
action = "refuse"
literals = ["ACME-"]
regex = 'ACME-\d{6}'
hits = ["badge ACME-123456"]
misses = ["ACME-12"]
"#;

    #[test]
    fn a_rule_of_the_operators_is_found_like_ours() {
        let rules = operator_rules(GOOD).unwrap();
        let mut settings = Settings::default();
        settings.rules.clone_from(&rules);
        let engine = Engine::new(settings, [1; 32]);
        let report = engine.text(Direction::Outgoing, "see ACME-654321", "");
        assert_eq!(report.unwrap().findings[0].rule.id, "acme_badge");
        assert!(std::ptr::eq(rules[0], operator_rules(GOOD).unwrap()[0]));
    }

    #[test]
    fn a_bad_rule_is_an_error_with_its_line() {
        let wrong = |from: &str, to: &str| {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            operator_rules(&text).unwrap_err()[0].to_string()
        };
        assert!(wrong("{6}", "{6").starts_with("line 2: rule `acme_badge`"));
        assert!(wrong("{6}", "+").contains("has no bound"));
        assert!(wrong("123456", "12345").contains("does not find its hit \"badge ACME-1…\""));
        assert!(wrong("ACME-12\"", "ACME-999999\"").contains("finds its miss"));
        assert!(wrong("[\"ACME-\"]", "[\"A\"]").contains("from 3 to"));
        assert!(wrong("acme_badge", "github_token").contains("another rule has this id"));
        assert!(wrong("\"high\"", "\"hihg\"").starts_with("line 5: "));
        assert!(wrong("summary", "sumary").starts_with("line 6: "));
        assert!(wrong("\"secret\"", "\"url\"").contains("must be secret"));
    }
}
