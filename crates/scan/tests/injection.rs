//! The matrix of rules against injection: each kind of attack in each language has its texts.
//!
//! It holds the promise that no cell is empty, that what a cell shows is found by a rule of that cell,
//! and that no text shown as harmless is flagged by any rule against injection, of whatever language.

use scan::{Action, Class, Direction, Engine, Kind, Rule, Settings};

/// The languages in which orders to a model are looked for, as in BCP 47.
const LANGUAGES: [&str; 11] = [
    "en", "zh", "ja", "ko", "es", "fr", "de", "pt", "ru", "it", "ar",
];
/// Fewest texts of each sort in a cell.
const TEXTS_MIN: usize = 5;

fn cell(kind: Kind, language: &str) -> impl Iterator<Item = &'static Rule> {
    scan::rules().iter().filter(move |rule| {
        rule.class == Class::Injection && rule.kind == Some(kind) && rule.language == language
    })
}

/// The rules against injection that find something in a text, with what they do about it.
fn found(engine: &Engine, text: &str) -> Vec<(&'static str, Action)> {
    let report = engine
        .text(Direction::Description, text, "")
        .expect("no text of a cell reaches a bound");
    let injection = report
        .findings
        .iter()
        .filter(|finding| finding.rule.class == Class::Injection);
    injection
        .map(|finding| (finding.rule.id, finding.action))
        .collect()
}

#[test]
fn no_cell_is_empty() {
    let mut empty = Vec::new();
    for language in LANGUAGES {
        for kind in Kind::ALL {
            let hits: usize = cell(kind, language).map(|rule| rule.hits.len()).sum();
            let harmless: usize = cell(kind, language).map(|rule| rule.misses.len()).sum();
            if hits < TEXTS_MIN || harmless < TEXTS_MIN {
                let kind = kind.as_str();
                empty.push(format!(
                    "{kind} {language}: {hits} hits, {harmless} harmless"
                ));
            }
        }
    }
    assert!(empty.is_empty(), "{}", empty.join("\n"));
}

#[test]
fn each_cell_finds_its_texts_and_flags_no_other() {
    let engine = Engine::new(Settings::default(), [3; 32]);
    let mut wrong = Vec::new();
    for language in LANGUAGES {
        for kind in Kind::ALL {
            for rule in cell(kind, language) {
                let missed = |hit: &&str| !found(&engine, hit).contains(&(rule.id, rule.action));
                let missed = rule.hits.iter().filter(missed);
                wrong.extend(missed.map(|hit| format!("{} does not find: {hit}", rule.id)));
                for text in rule.misses {
                    let found = found(&engine, text);
                    if !found.is_empty() {
                        wrong.push(format!("{} is flagged by {found:?}: {text}", rule.id));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
