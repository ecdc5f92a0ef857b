//! The engine against labelled cases: our own, and those in the folder that `WEIR_CASES` names.
//!
//! Theirs are a report for now; what must not happen is that a harmless call is refused for a secret.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use scan::{Action, Class, Direction, Engine, Settings};
use serde_json::Value;

/// One labelled case.
struct Case {
    id: String,
    kind: String,
    block: bool,
    payload: Value,
}

/// Reads cases, one JSON a line.
fn cases(lines: &str) -> Vec<Case> {
    let case = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("a case is JSON");
        let text = |key: &str| value[key].as_str().expect("a case has this key").to_owned();
        let block = text("expected_verdict") == "block";
        Case {
            id: text("id"),
            kind: text("input_type"),
            block,
            payload: value["payload"].clone(),
        }
    };
    lines.lines().map(case).collect()
}

/// What the engine does about each case, as the strongest action of its findings of each class.
fn judge(engine: &Engine, case: &Case) -> (Action, Action, Vec<&'static str>) {
    let direction = match case.kind.as_str() {
        "mcp_tool_result" | "response_content" => Direction::Incoming,
        "mcp_tool_definition" | "a2a_agent_card" => Direction::Description,
        _ => Direction::Outgoing,
    };
    let json = serde_json::to_vec(&case.payload).expect("a payload is JSON");
    let report = engine
        .json(direction, &json, "")
        .expect("no case reaches a bound");
    let strongest = |class: Class| {
        let of_class = report
            .findings
            .iter()
            .filter(|finding| finding.rule.class == class);
        of_class
            .map(|finding| finding.action)
            .max()
            .unwrap_or(Action::Off)
    };
    let rules = report
        .findings
        .iter()
        .map(|finding| finding.rule.id)
        .collect();
    (strongest(Class::Secret), strongest(Class::Injection), rules)
}

fn engine() -> Engine {
    Engine::new(Settings::default(), [1; 32])
}

#[test]
fn our_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let lines = fs::read_to_string(folder.join("own.jsonl")).expect("our cases are there");
    let (engine, cases) = (engine(), cases(&lines));
    assert!(cases.iter().any(|case| case.block) && cases.iter().any(|case| !case.block));
    for case in cases {
        let (secret, injection, rules) = judge(&engine, &case);
        let flagged = secret.max(injection) > Action::Off;
        assert_eq!(flagged, case.block, "{}: {rules:?}", case.id);
    }
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
    let engine = engine();
    let (mut found, mut block, mut flagged, mut allow) = (0, 0, 0, 0);
    for case in cases(&lines) {
        let (secret, injection, rules) = judge(&engine, &case);
        let seen = secret.max(injection) > Action::Off;
        if case.block {
            block += 1;
            found += usize::from(seen);
        } else {
            allow += 1;
            flagged += usize::from(seen);
            assert!(secret < Action::Refuse, "{} is refused: {rules:?}", case.id);
        }
        if seen != case.block {
            println!(
                "{} {}: {rules:?}",
                if case.block { "missed" } else { "flagged" },
                case.id
            );
        }
    }
    println!("found {found} of {block} to block; flagged {flagged} of {allow} to allow");
}
