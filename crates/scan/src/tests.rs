//! The shared test of all rules, and the engine's promises.

use super::*;

fn engine() -> &'static Engine {
    static ENGINE: std::sync::LazyLock<Engine> =
        std::sync::LazyLock::new(|| Engine::new(Settings::default(), [7; 32]));
    &ENGINE
}

fn found(text: &str) -> Vec<&'static str> {
    let report = engine().text(Direction::Outgoing, text, "").unwrap();
    report
        .findings
        .iter()
        .map(|finding| finding.rule.id)
        .collect()
}

#[test]
fn every_rule_finds_its_hits_and_leaves_its_misses() {
    let mut wrong = Vec::new();
    for rule in rules() {
        for hit in rule
            .hits
            .iter()
            .filter(|hit| !found(hit).contains(&rule.id))
        {
            wrong.push(format!("{} does not find: {hit}", rule.id));
        }
        for miss in rule
            .misses
            .iter()
            .filter(|miss| found(miss).contains(&rule.id))
        {
            wrong.push(format!("{} finds: {miss}", rule.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
