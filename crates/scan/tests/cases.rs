//! The engine against labelled cases: our own, and those in the folder that `WEIR_CASES` names.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a test reads its cases and prints"
)]

use std::fs;
use std::io::Read as _;
use std::path::Path;

use scan::{Direction, Engine, Settings, Subject};
use serde_json::Value;

/// Judges each line; answers those whose label is another than the verdict, and how many there were.
fn wrong(lines: &str) -> (Vec<String>, usize) {
    let engine = Engine::new(Settings::default(), [1; 32]);
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let block = case["expected_verdict"] == "block";
        let subject = Subject::read(line).expect("a case is a subject");
        let verdict = subject.judge(&engine, Direction::Outgoing.into(), None);
        if verdict.block != block {
            let rules: Vec<_> = verdict.findings.iter().map(|f| f.rule.id).collect();
            let what = if block { "missed" } else { "flagged" };
            wrong.push(format!("{what} {}: {rules:?}", case["id"]));
        }
    }
    (wrong, lines.lines().count())
}

#[test]
fn our_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let lines = fs::read_to_string(folder.join("own.jsonl")).expect("our cases are there");
    let (wrong, all) = wrong(&lines);
    assert!(all > 10);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn their_cases() {
    let Ok(folder) = std::env::var("WEIR_CASES") else {
        return;
    };
    let file = fs::File::open(Path::new(&folder).join("egress-cases.jsonl.gz"));
    let mut lines = String::new();
    let mut unzipped = flate2::read::GzDecoder::new(file.expect("the folder has the cases"));
    unzipped
        .read_to_string(&mut lines)
        .expect("the cases are gzipped text");
    let (wrong, all) = wrong(&lines);
    println!("{} of {all} as labelled", all - wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
