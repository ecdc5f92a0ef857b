//! Expressions of Pipelock as rules of weir: a rule that is there already, or one of the operator's own.
//!
//! Texts that an expression describes are made of it. Where our own rules find each of them, nothing more is needed. Else a
//! rule is written, with a bound, and with the letters that stand in each match; whether it is good is asked of whoever
//! reads such rules.

use std::fmt::Write as _;

use regex_syntax::Parser;
use regex_syntax::hir::{Capture, Class as CharClass, Hir, HirKind, Repetition};
use scan::{Class, Direction, Engine};
use serde_json::Value;

/// Texts that are made of an expression.
const SAMPLES: u64 = 8;
/// Repeats of what may stand there for ever.
const REPEATS_MAX: u32 = 256;
/// Bytes of the longest text that is made.
const SAMPLE_BYTES_MAX: usize = 2_048;
/// Bytes of the longest expression that is read.
const REGEX_BYTES_MAX: usize = 4_096;
/// Letters of the shortest word that opens a rule, and how many words a rule may have.
const LITERAL_BYTES_MIN: usize = 3;
const LITERALS_MAX: usize = 64;

/// A pattern as Pipelock has it.
pub(super) struct Pattern<'p> {
    pub name: &'p str,
    pub regex: &'p str,
    /// As Pipelock writes it; high where nothing is written.
    pub severity: &'p str,
    pub class: Class,
}

/// What became of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum As {
    /// A rule that weir has.
    Known(&'static str),
    /// A rule of the operator's own, by its id, as TOML.
    Own(String, String),
}

/// Reads patterns, and asks our own rules about them.
pub(super) struct Patterns {
    engine: Engine,
    ids: Vec<String>,
}

impl Patterns {
    pub(super) fn new() -> Patterns {
        Patterns {
            // Nothing that is found is kept, so fingerprints need no key.
            engine: Engine::new(scan::Settings::default(), [0; 32]),
            ids: Vec::new(),
        }
    }

    /// # Errors
    /// Why no rule says the same.
    pub(super) fn read(&mut self, pattern: &Pattern<'_>) -> Result<As, String> {
        if pattern.regex.len() > REGEX_BYTES_MAX {
            return Err("has a longer expression than weir reads".to_owned());
        }
        let hir = Parser::new().parse(pattern.regex);
        let hir = hir.map_err(|_| "has an expression that weir cannot read".to_owned())?;
        let samples: Vec<String> = (1..=SAMPLES).map(|seed| sample(&hir, seed)).collect();
        if let Some(rule) = self.known(pattern.class, &samples) {
            return Ok(As::Known(rule));
        }
        let id = self.id(pattern.name);
        let rule = own(pattern, &id, &hir, &samples)?;
        self.ids.push(id.clone());
        Ok(As::Own(id, rule))
    }

    /// The rule that finds each of these texts, or the first of several that do.
    fn known(&self, class: Class, samples: &[String]) -> Option<&'static str> {
        let direction = match class {
            Class::Injection => Direction::Incoming,
            _ => Direction::Outgoing,
        };
        let mut found = samples.iter().map(|sample| {
            let report = self.engine.text(direction, sample, "").ok()?;
            let mut findings = report.findings.iter().map(|finding| finding.rule);
            let is_same = |of: Class| match class {
                Class::Injection => of == Class::Injection,
                _ => matches!(of, Class::Secret | Class::Personal),
            };
            findings
                .find(|rule| is_same(rule.class))
                .map(|rule| rule.id)
        });
        let first = found.next()??;
        found.all(|rule| rule.is_some()).then_some(first)
    }

    /// An id that no other rule has.
    fn id(&self, name: &str) -> String {
        let plain = |c: char| match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        };
        let plain: String = name.chars().take(64).map(plain).collect();
        let base = format!("pipelock_{}", plain.trim_matches('_'));
        let others = (2..).map(|number| format!("{base}_{number}"));
        let mut ids = std::iter::once(base.clone()).chain(others);
        let free = ids.find(|id| !self.ids.contains(id));
        free.expect("numbers do not end")
    }
}

/// A rule of the operator's own that says the same.
fn own(pattern: &Pattern<'_>, id: &str, hir: &Hir, samples: &[String]) -> Result<String, String> {
    let bounded = bounded(hir);
    let words = words(&bounded).unwrap_or_default();
    let hit = samples.first().map_or("", String::as_str);
    let bounded = bounded.to_string();
    let mut last = String::new();
    for regex in [pattern.regex, &bounded] {
        let written = toml(pattern, id, regex, &words, hit);
        match scan::operator_rules(&written) {
            Ok(_) => return Ok(written),
            Err(problems) => {
                last = problems
                    .first()
                    .map_or_else(String::new, |p| p.message.clone())
            }
        }
    }
    let why = last.split_once("`: ").map_or(last.as_str(), |(_, why)| why);
    // A hit is made of the expression and may hold what it describes, so it is not repeated.
    let why = why.split(" its hit").next().unwrap_or_default();
    Err(format!(
        "cannot be a rule here: {why}; write one by hand in scan.folder"
    ))
}

fn toml(pattern: &Pattern<'_>, id: &str, regex: &str, words: &Words, hit: &str) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let severity = match pattern.severity {
        severity @ ("critical" | "high" | "medium" | "low") => severity,
        _ => "high",
    };
    let mut toml = format!(
        "[[rule]]\nid = {}\nclass = {}\nseverity = {}\nsummary = {}\nreference = \"https://github.com/luckyPipewrench/pipelock\"\naction = \"refuse\"\n",
        text(id),
        text(pattern.class.as_str()),
        text(severity),
        text(&format!("{} of Pipelock's configuration.", pattern.name)),
    );
    match words.all.is_empty() {
        // Numbers alone have no letters to begin with.
        true => toml.push_str("digits = true\n"),
        false => {
            let all: Vec<String> = words.all.iter().map(|word| text(word)).collect();
            let _ = writeln!(toml, "literals = [{}]", all.join(", "));
            if words.before > 0 {
                let _ = writeln!(toml, "before = {}", words.before);
            }
        }
    }
    let _ = writeln!(toml, "regex = {}\nhits = [{}]", text(regex), text(hit));
    toml
}

/// The same expression with a bound for all that repeats.
fn bounded(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(of) => {
            let least = of.min;
            Hir::repetition(Repetition {
                max: Some(of.max.unwrap_or_else(|| least.saturating_add(REPEATS_MAX))),
                sub: Box::new(bounded(&of.sub)),
                ..of.clone()
            })
        }
        HirKind::Capture(of) => Hir::capture(Capture {
            sub: Box::new(bounded(&of.sub)),
            ..of.clone()
        }),
        HirKind::Concat(all) => Hir::concat(all.iter().map(bounded).collect()),
        HirKind::Alternation(all) => Hir::alternation(all.iter().map(bounded).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

/// Words of which one stands in each match.
#[derive(Default)]
struct Words {
    /// In lower case.
    all: Vec<String>,
    /// Bytes of a match before its word, at most.
    before: usize,
}

impl Words {
    fn shortest(&self) -> usize {
        self.all.iter().map(String::len).min().unwrap_or_default()
    }
}

/// Words of which one stands in each match of an expression with bounds; nothing where there are none.
fn words(hir: &Hir) -> Option<Words> {
    match hir.kind() {
        HirKind::Literal(_) | HirKind::Class(_) => {
            let word = letters(hir)?;
            (word.len() >= LITERAL_BYTES_MIN).then(|| Words {
                all: vec![word],
                before: 0,
            })
        }
        HirKind::Capture(of) => words(&of.sub),
        HirKind::Repetition(of) if of.min > 0 => words(&of.sub),
        HirKind::Alternation(all) => {
            let mut of_all = Words::default();
            for one in all {
                let of_one = words(one)?;
                of_all.all.extend(of_one.all);
                of_all.before = of_all.before.max(of_one.before);
            }
            of_all.all.sort_unstable();
            of_all.all.dedup();
            (of_all.all.len() <= LITERALS_MAX).then_some(of_all)
        }
        HirKind::Concat(all) => words_of_row(all),
        HirKind::Empty | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

/// The best words of what stands one after the other: the longest letters in a row, else what stands in one of them.
fn words_of_row(all: &[Hir]) -> Option<Words> {
    let (mut run, mut best) = (Words::default(), Words::default());
    let (mut letters_of_run, mut at) = (String::new(), 0_usize);
    for one in all.iter().map(Some).chain([None]) {
        match one.and_then(letters) {
            Some(more) => {
                if letters_of_run.is_empty() {
                    run.before = at;
                }
                letters_of_run.push_str(&more);
            }
            None => {
                run.all = vec![std::mem::take(&mut letters_of_run)];
                if run.shortest() > best.shortest() {
                    best = std::mem::take(&mut run);
                }
            }
        }
        let longest = one.and_then(|one| one.properties().maximum_len());
        at = at.saturating_add(longest.unwrap_or_default());
    }
    if best.shortest() >= LITERAL_BYTES_MIN {
        return Some(best);
    }
    let mut at = 0_usize;
    let of_each = all.iter().filter_map(|one| {
        let mut found = words(one);
        if let Some(found) = &mut found {
            found.before = found.before.saturating_add(at);
        }
        at = at.saturating_add(one.properties().maximum_len().unwrap_or_default());
        found
    });
    of_each.max_by_key(|words| (words.shortest(), std::cmp::Reverse(words.all.len())))
}

/// The letters that this is, in lower case, where it can be no others.
fn letters(hir: &Hir) -> Option<String> {
    match hir.kind() {
        HirKind::Literal(of) => {
            let text = std::str::from_utf8(&of.0).ok()?;
            text.is_ascii().then(|| text.to_ascii_lowercase())
        }
        HirKind::Capture(of) => letters(&of.sub),
        HirKind::Concat(all) => all.iter().map(letters).collect(),
        // A letter in either case.
        HirKind::Class(class) => {
            let mut letters = characters(class)?.map(|c| c.to_ascii_lowercase());
            let first = letters.next()?;
            let is_one = first.is_ascii() && letters.all(|other| other == first);
            is_one.then(|| first.to_string())
        }
        _ => None,
    }
}

/// The characters of a class, where they are few.
fn characters(class: &CharClass) -> Option<impl Iterator<Item = char>> {
    const FEW: usize = 4;
    let CharClass::Unicode(class) = class else {
        return None;
    };
    let count: usize = class.ranges().iter().map(|range| range.len()).sum();
    let all: Vec<char> = match count <= FEW {
        true => class
            .ranges()
            .iter()
            .flat_map(|range| range.start()..=range.end())
            .collect(),
        false => return None,
    };
    // The long s and the sign of Kelvin are letters in either case too.
    Some(all.into_iter().filter(|c| !matches!(c, 'ſ' | '\u{212a}')))
}

/// A text that an expression describes.
fn sample(hir: &Hir, seed: u64) -> String {
    let mut maker = Maker {
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        text: String::new(),
    };
    maker.make(hir);
    maker.text
}

struct Maker {
    state: u64,
    text: String,
}

impl Maker {
    /// The next number below `most`, as good as random (xorshift, Marsaglia 2003).
    fn next(&mut self, most: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or_default() % most.max(1)
    }

    fn make(&mut self, hir: &Hir) {
        if self.text.len() > SAMPLE_BYTES_MAX {
            return;
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(of) => self.text.push_str(&String::from_utf8_lossy(&of.0)),
            HirKind::Class(class) => self.character(class),
            HirKind::Capture(of) => self.make(&of.sub),
            HirKind::Concat(all) => all.iter().for_each(|one| self.make(one)),
            HirKind::Alternation(all) => {
                let one = self.next(all.len());
                self.make(&all[one]);
            }
            HirKind::Repetition(of) => {
                let most = of.max.map_or(1, |max| max - of.min.min(max));
                let more = self.next(most.min(2) as usize + 1);
                for _ in 0..of.min as usize + more {
                    self.make(&of.sub);
                }
            }
        }
    }

    /// A character of a class: a letter or a digit where there is one, for these are what keys are made of.
    fn character(&mut self, class: &CharClass) {
        let ranges: Vec<(u32, u32)> = match class {
            CharClass::Unicode(class) => {
                let ranges = class.ranges().iter();
                ranges
                    .map(|range| (u32::from(range.start()), u32::from(range.end())))
                    .collect()
            }
            CharClass::Bytes(class) => {
                let ranges = class.ranges().iter();
                ranges
                    .map(|range| (u32::from(range.start()), u32::from(range.end())))
                    .collect()
            }
        };
        let holds = |c: char| {
            ranges
                .iter()
                .any(|(a, b)| (*a..=*b).contains(&u32::from(c)))
        };
        let plain: Vec<char> = (b'!'..=b'~')
            .map(char::from)
            .filter(|c| holds(*c))
            .collect();
        let words: Vec<char> = plain
            .iter()
            .copied()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let all = if words.is_empty() { &plain } else { &words };
        if holds(' ') && all.len() < 8 {
            return self.text.push(' ');
        }
        match all.is_empty() {
            false => {
                let one = self.next(all.len());
                self.text.push(all[one]);
            }
            true => {
                let first = ranges.first().and_then(|(first, _)| char::from_u32(*first));
                self.text.extend(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, regex: &str, class: Class) -> Result<As, String> {
        Patterns::new().read(&Pattern {
            name,
            regex,
            severity: "critical",
            class,
        })
    }

    #[test]
    fn what_weir_finds_needs_no_rule() {
        let known = |name: &str, regex: &str| match read(name, regex, Class::Secret) {
            Ok(As::Known(rule)) => rule,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(
            known("GitHub Token", "gh[pousr]_[A-Za-z0-9_]{36,}"),
            "github_token"
        );
        assert_eq!(known("npm", "npm_[A-Za-z0-9]{36,}"), "npm_token");
        let order = "(?i)(ignore|disregard) (all )?(previous|prior) (instructions|rules)";
        assert!(matches!(
            read("a", order, Class::Injection),
            Ok(As::Known(_))
        ));
    }

    #[test]
    fn what_it_does_not_find_becomes_a_rule_of_ones_own() {
        for (name, regex, literals) in [
            ("Acme Badge", r"ACME-[0-9]{6,}", "\"acme-\""),
            (
                "Door",
                r"(?i)\b(?:door|gate)-(?:ber|par)-\d{4}\b",
                "\"door\", \"gate\"",
            ),
            ("Ends", r"[a-f0-9]{8}\.acme\.example", "\".acme.example\""),
        ] {
            let Ok(As::Own(id, toml)) = read(name, regex, Class::Secret) else {
                panic!("{name}: {:?}", read(name, regex, Class::Secret));
            };
            assert!(id.starts_with("pipelock_"), "{id}");
            for literal in literals.split(", ") {
                assert!(toml.contains(literal.trim_matches('"')), "{toml}");
            }
            assert!(scan::operator_rules(&toml).is_ok(), "{toml}");
        }
    }

    #[test]
    fn what_no_rule_can_say_is_said() {
        for regex in ["(", "[a-z]+", "(?:a|b)+"] {
            assert!(read("x", regex, Class::Secret).is_err(), "{regex}");
        }
        assert!(read("x", &"a".repeat(5_000), Class::Secret).is_err());
    }

    #[test]
    fn each_rule_has_an_id_of_its_own() {
        let mut patterns = Patterns::new();
        let mut id = |name: &str| {
            let regex = "ACME-[0-9]{6}";
            let (severity, class) = ("low", Class::Secret);
            let pattern = Pattern {
                name,
                regex,
                severity,
                class,
            };
            match patterns.read(&pattern) {
                Ok(As::Own(id, _)) => id,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(id("Acme Badge!"), "pipelock_acme_badge");
        assert_eq!(id("acme-badge"), "pipelock_acme_badge_2");
    }
}
