//! The operator's own rules: files of the same format as ours, checked when they are read.
//!
//! A rule that does not compile, that has no bound, that misses one of its hits or finds one of its misses
//! is an error with its line, and none of the file's rules is used.

use std::fmt;
use std::sync::Mutex;

use crate::check::Check;
use crate::command::Argument;
use crate::engine::Engine;
use crate::opening;
use crate::patterns::{self, Read};
use crate::rule::{Action, Class, Direction, Rule};
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
    match rule.class {
        Class::Tool | Class::Chain => {
            return say("`class` must be secret, personal, injection, command or url".to_owned());
        }
        Class::Command | Class::Url => of_calls(rule, say),
        _ => {}
    }
    if rule.regex.is_empty() {
        return say("it needs `regex`".to_owned());
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
    let built = match rule.class.reads_text() {
        true => set::check(rule),
        false => opening::compile(rule).map(drop),
    };
    if let Err(message) = built {
        return say(message);
    }
    if rule.hits.is_empty() {
        say("it needs at least one text in `hits`".to_owned());
    }
    let engine = match Engine::alone(rule) {
        Ok(engine) => engine,
        Err(message) => return say(message.to_owned()),
    };
    let finds = |text: &&str| finds(&engine, rule, text);
    for hit in rule.hits.iter().filter(|hit| !finds(hit)) {
        say(format!("does not find its hit {}", shown(hit)));
    }
    for miss in rule.misses.iter().filter(finds) {
        say(format!("finds its miss {}", shown(miss)));
    }
}

/// What a rule about commands or URLs cannot say: these are judged in what goes out, whole.
fn of_calls(rule: &Rule, say: &mut impl FnMut(String)) {
    let class = rule.class.as_str();
    if rule.action == Action::Redact {
        say(format!(
            "there is nothing to redact in class {class}; `action` is refuse, warn or off"
        ));
    }
    if !rule.directions.contains(&Direction::Outgoing) {
        say(format!(
            "class {class} is judged in what goes out; `directions` leaves that out"
        ));
    }
    let plain = Check {
        entropy: None,
        test: None,
    };
    let flags = [
        ("before", rule.before > 0),
        ("pair", rule.pair),
        ("named", rule.named),
        ("digits", rule.digits),
        ("base58", rule.base58),
        ("phrase", rule.phrase),
        ("block", rule.block),
        ("kind", rule.kind.is_some()),
        ("language", !rule.language.is_empty()),
        ("check` and `entropy", rule.check != plain),
    ];
    for (name, _) in flags.iter().filter(|(_, given)| *given) {
        say(format!("`{name}` has no meaning in class {class}"));
    }
}

/// Whether a rule finds a text: as an argument of the kind that its class is about.
fn finds(engine: &Engine, rule: &'static Rule, text: &str) -> bool {
    let place = Direction::Outgoing;
    match rule.class {
        Class::Command => command_finds(engine, rule, text),
        Class::Url => !engine.own_urls.judge(text).is_empty(),
        _ => {
            let report = engine.text(place, text, "");
            report.is_ok_and(|report| !report.findings.is_empty())
        }
    }
}

/// A command is judged as one; `read_file PATH`, `write_file PATH` and `delete_file PATH` as the path of a call
/// of that tool.
fn command_finds(engine: &Engine, rule: &Rule, text: &str) -> bool {
    let file = |tool: &&str| text.starts_with(*tool) && text[tool.len()..].starts_with(' ');
    let tool = ["read_file", "write_file", "delete_file"]
        .into_iter()
        .find(file);
    let (tool, argument) = match tool {
        Some(tool) => (
            tool,
            Argument {
                path: "path",
                text: text[tool.len()..].trim(),
            },
        ),
        None => (
            "run_command",
            Argument {
                path: "command",
                text,
            },
        ),
    };
    let mut hits = Vec::new();
    engine.commands().judge(tool, &[argument], &mut hits);
    hits.iter().any(|hit| hit.rule == rule.id)
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
        assert!(wrong("\"secret\"", "\"chain\"").contains("must be secret"));
        assert!(wrong("badge ACME", "\\u0000 ACME").contains("cannot hold a NUL"));
    }

    const DEPLOY: &str = r#"
[[rule]]
id = "acme_deploy"
class = "command"
severity = "high"
summary = "Deploys to production."
reference = "https://intranet.example/deploy"
action = "refuse"
literals = ["acme-deploy", "/srv/acme/keys"]
regex = '(?m)(?:^| \| )(?:acme-deploy (?:[^\n|]* )?--prod|read_file /srv/acme/keys/)'
hits = ["sudo acme-deploy --prod web", "ls && acme-''deploy --prod", "read_file /srv/acme/keys/a.pem"]
misses = ["acme-deploy --stage web", "echo acme-deploy --prod", "read_file /srv/acme/keys.md"]

[[rule]]
id = "acme_pastes"
class = "url"
severity = "high"
summary = "Our own pastes, which the world can read."
reference = "https://intranet.example/pastes"
action = "refuse"
literals = ["acme.example"]
regex = '^https?://pub\.acme\.example/(?:new|raw)\b'
hits = ["https://pub.acme.example/new?x=1", "HTTPS://u@PUB.acme.example/r%61w/1"]
misses = ["https://acme.example/new", "https://pub.acme.example/old", "https://x.example/?u=https://pub.acme.example/new"]
"#;

    fn engine(text: &str) -> Engine {
        let mut settings = Settings::default();
        settings.rules = operator_rules(text).unwrap();
        Engine::new(settings, [1; 32])
    }

    #[test]
    fn commands_and_urls_of_the_operators_are_judged_in_calls() {
        let engine = engine(DEPLOY);
        let call = |tool: &str, argument: &str, text: &str| {
            let params = serde_json::json!({ "name": tool, "arguments": { argument: text } });
            let report = engine.call(Direction::Outgoing, params.to_string().as_bytes(), "", None);
            let findings = report.unwrap().findings.into_iter();
            let own = findings.filter(|f| f.rule.id.starts_with("acme"));
            own.map(|f| (f.rule.id, f.path, f.action))
                .collect::<Vec<_>>()
        };
        let deploys = vec![(
            "acme_deploy",
            "arguments.command".to_owned(),
            Action::Refuse,
        )];
        assert_eq!(
            call("bash", "command", "cd x; acme-deploy -v --prod"),
            deploys
        );
        assert_eq!(
            call("bash", "command", "sh -c 'acme-deploy --prod'"),
            deploys
        );
        assert_eq!(call("bash", "command", "acme-deploy --dry-run"), []);
        assert_eq!(call("write_file", "content", "acme-deploy --prod"), []);
        assert_eq!(call("read_file", "path", "/srv/acme/keys/b.pem").len(), 1);
        let pastes = vec![("acme_pastes", "arguments.url".to_owned(), Action::Refuse)];
        assert_eq!(
            call("fetch", "url", "https://pub.acme.example/n%65w"),
            pastes
        );
        assert_eq!(call("fetch", "url", "https://pub.acme.example/"), []);
        let url = |url: &str| engine.url(Direction::Outgoing, url, None).unwrap().findings;
        assert_eq!(
            url("https://pub.acme.example/raw")[0].rule.id,
            "acme_pastes"
        );
        assert_eq!(url("https://pub.acme.example/raw")[0].span, 0..28);
    }

    #[test]
    fn what_is_done_about_them_can_be_set() {
        let mut settings = Settings::default();
        settings.rules = operator_rules(DEPLOY).unwrap();
        settings.set("acme_pastes", None, Action::Warn).unwrap();
        let engine = Engine::new(settings, [1; 32]);
        let report = engine.url(Direction::Outgoing, "https://pub.acme.example/new", None);
        assert_eq!(report.unwrap().action, Action::Warn);
    }

    #[test]
    fn a_bad_rule_about_commands_or_urls_is_an_error_with_its_line() {
        let wrong = |from: &str, to: &str| {
            let text = DEPLOY.replacen(from, to, 1);
            assert_ne!(text, DEPLOY);
            operator_rules(&text).unwrap_err()[0].to_string()
        };
        let last = |from: &str, to: &str| {
            let at = DEPLOY.rfind(from).unwrap();
            let text = [&DEPLOY[..at], to, &DEPLOY[at + from.len()..]].concat();
            operator_rules(&text).unwrap_err()[0].to_string()
        };
        assert!(wrong("(?m)(?:^", "(?m)((?:^").contains("does not build"));
        assert!(
            wrong("--stage", "--prod").starts_with("line 2: rule `acme_deploy`: finds its miss")
        );
        assert!(wrong("&& acme", "&& echo acme").contains("does not find its hit"));
        assert!(wrong("\"refuse\"", "\"redact\"").contains("nothing to redact in class command"));
        assert!(wrong("regex =", "remedy =").contains("it needs `regex`"));
        assert!(wrong("regex =", "pair = true\nregex =").contains("`pair` has no meaning"));
        assert!(wrong("regex =", "entropy = 3.0\nregex =").contains("`entropy` has no meaning"));
        let directions = "directions = [\"incoming\"]\nregex =";
        assert!(wrong("regex =", directions).contains("`directions` leaves that out"));
        let line = DEPLOY[..DEPLOY.rfind("[[rule]]").unwrap()].lines().count() + 1;
        let bad = last("/old", "/new");
        assert!(
            bad.starts_with(&format!("line {line}: rule `acme_pastes`: finds its miss")),
            "{bad}"
        );
        assert!(last("r%61w", "x").contains("does not find its hit"));
    }
}
