//! `weir audit` on a log that the store wrote: whole, then damaged.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use gate::ports::Recorder;
use store::{Durability, Log, LogSettings};

fn weir(dir: &Path, arguments: &[&str]) -> Output {
    let weir = env!("CARGO_BIN_EXE_weir");
    Command::new(weir)
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("the binary runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A state folder whose log holds a judgement, its outcome, and a refusal with a hostile tool name.
fn state(dir: &Path) {
    write(
        dir,
        &[
            r#"{"action":"mcp:call","agent":"dev","at":"2026-01-01T00:00:00.000Z","call":"01","decision":"pass","kind":"judgement","server":"files","tool":"read"}"#,
            r#"{"at":"2026-01-01T00:00:01.000Z","bytes":5,"call":"01","duration_ms":7,"end":"complete","kind":"outcome","status":200}"#,
            r#"{"action":"mcp:call","agent":"guest","at":"2026-01-01T00:00:02.000Z","call":"02","decision":"refuse","kind":"judgement","refusal":"policy.forbidden","server":"files","tool":"\u001b[2Jx"}"#,
        ],
    );
}

/// Puts records at the end of the log of a state folder.
fn write(dir: &Path, records: &[&str]) {
    let origin = "weir.test/log".to_owned();
    let settings = LogSettings {
        origin,
        durability: Durability::Os,
        bytes_max: 1 << 30,
    };
    let log = Log::open(&dir.join("log"), settings).expect("a new log");
    for record in records {
        let kept = log.append(record.as_bytes().to_vec()).blocking_recv();
        kept.expect("the writer answers")
            .expect("the record is kept");
    }
    log.close().expect("the log closes");
}

#[test]
fn a_whole_log_verifies_shows_and_exports() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    state(dir.path());
    let verified = weir(dir.path(), &["audit", "verify", "."]);
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    assert!(
        said(&verified).contains("entries: 3, signed: 3"),
        "{}",
        said(&verified)
    );

    let lines = |arguments: &[&str]| {
        let output = weir(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let none = weir(dir.path(), &["audit", "show", ".", "--call", "nope"]);
    assert_eq!(none.status.code(), Some(1), "{}", said(&none));
    assert!(
        said(&none).contains("no record of the call"),
        "{}",
        said(&none)
    );
    let all = lines(&["audit", "show", "."]);
    assert!(
        all[0].contains("ENTRY") && all[0].contains("WHAT"),
        "{all:?}"
    );
    let summary = "records: 3 of 3, passed: 1, refused: 1, ended: 1, from 2026-01-01T00:00:00.000Z to 2026-01-01T00:00:02.000Z";
    assert_eq!(all[4..], [summary], "{all:?}");
    let shown = |arguments: &[&str]| {
        let lines = lines(&[&["audit", "show", "."], arguments].concat());
        lines[1..lines.len() - 1].to_vec()
    };
    let all = all[1..4].to_vec();
    assert!(all[0].contains("pass dev mcp:call files/read"), "{all:?}");
    assert!(
        all[1].contains("complete, status 200, 5 bytes, 7 ms"),
        "{all:?}"
    );
    assert!(
        all[2].contains("policy.forbidden") && !all[2].contains('\u{1b}'),
        "{all:?}"
    );
    assert_eq!(shown(&["--last", "1"]), all[2..]);
    assert_eq!(shown(&["--call", "01"]), all[..2]);
    assert_eq!(shown(&["--agent", "guest"]), all[2..]);
    let json = lines(&["audit", "show", ".", "--json", "--agent", "dev"]);
    let record: serde_json::Value = serde_json::from_str(&json[0]).expect("JSON");
    assert_eq!(record["tool"], "read");

    let exported = lines(&["audit", "export", ".", "--out", "out", "--json"]);
    let exported: serde_json::Value = serde_json::from_str(&exported[0]).expect("JSON");
    assert_eq!(
        (&exported["exported"], &exported["entries"]),
        (&true.into(), &3.into())
    );
    assert!(
        exported["root"]
            .as_str()
            .is_some_and(|root| root.len() == 64)
    );
    assert!(lines(&["audit", "verify", "out"])[0].contains("entries: 3"));
    let again = weir(dir.path(), &["audit", "export", ".", "--out", "out"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
}

#[test]
fn a_changed_record_is_found() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    state(dir.path());
    let segment = segment(&dir.path().join("log"));
    let mut bytes = std::fs::read(&segment).expect("a segment");
    let at = bytes
        .windows(8)
        .position(|eight| eight == b"complete")
        .expect("the outcome");
    bytes[at] = b'C';
    std::fs::write(&segment, bytes).expect("a segment is written");

    let output = weir(dir.path(), &["audit", "verify", "."]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = weir(dir.path(), &["audit", "verify", ".", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), &value["whole"]),
        (Some(1), &false.into())
    );
    assert_eq!(
        (&value["entry"], &value["kind"]),
        (&1.into(), &"changed".into())
    );
    let export = weir(dir.path(), &["audit", "export", ".", "--out", "out"]);
    assert_eq!(export.status.code(), Some(1), "{}", said(&export));
    let export = weir(
        dir.path(),
        &["audit", "export", ".", "--out", "new", "--json"],
    );
    let value: serde_json::Value = serde_json::from_slice(&export.stdout).expect("JSON");
    assert_eq!(
        (export.status.code(), &value["exported"]),
        (Some(1), &false.into())
    );
}

/// The segment of a log's folder.
fn segment(log: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(log).expect("the log's folder");
    let mut files = files.map(|file| file.expect("a file").path());
    let segment = files.find(|path| path.extension().is_some_and(|end| end == "log"));
    segment.expect("a segment")
}

#[test]
fn a_forged_record_is_said_by_show_by_check_and_by_serve_as_one_entry() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let state_dir = dir.path().join("state");
    std::fs::create_dir(&state_dir).expect("a folder");
    state(&state_dir);
    std::fs::write(
        dir.path().join("policy.cedar"),
        "permit (principal, action, resource);",
    )
    .expect("a policy");
    let config =
        "listen: 127.0.0.1:0\nlog: { origin: weir.test/log }\npolicy: policy.cedar\nstate: state\n";
    std::fs::write(dir.path().join("weir.yaml"), config).expect("a configuration");
    let good = weir(dir.path(), &["config", "check"]);
    assert_eq!(good.status.code(), Some(0), "{}", said(&good));

    let segment = segment(&state_dir.join("log"));
    let mut bytes = std::fs::read(&segment).expect("a segment");
    let at = bytes.windows(5).position(|five| five == b"\"dev\"");
    let at = at.expect("the judgement");
    bytes[at + 1..at + 4].copy_from_slice(b"eve");
    std::fs::write(&segment, bytes).expect("a segment is written");
    // What was forged is shown, and that it was.
    for arguments in [
        &["audit", "show", "state"][..],
        &["audit", "show", "--json"],
    ] {
        let shown = weir(dir.path(), arguments);
        assert_eq!(shown.status.code(), Some(1), "{}", said(&shown));
        let said = said(&shown);
        assert!(
            said.contains("eve") && said.contains("damaged at entry 0"),
            "{said}"
        );
    }
    for arguments in [&["audit", "verify"][..], &["config", "check"], &["serve"]] {
        let done = weir(dir.path(), arguments);
        assert_ne!(done.status.code(), Some(0), "{}", said(&done));
        assert!(
            said(&done).contains("damaged at entry 0"),
            "{}",
            said(&done)
        );
    }
    let check = weir(dir.path(), &["config", "check", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&check.stdout).expect("JSON");
    assert_eq!(value["problems"][0]["code"], "log.damaged");
}

#[test]
fn a_rule_that_met_often_is_said_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let finding = r#"{"action":"refuse","rule":"ignore_instructions"}"#;
    let other = r#"{"action":"warn","rule":"email_address"}"#;
    let findings = [&[finding; 49][..], &[other], &[finding]]
        .concat()
        .join(",");
    let record = format!(
        r#"{{"action":"mcp:call","agent":"dev","at":"2026-01-01T00:00:00.000Z","call":"0a1","decision":"pass","findings":[{findings}],"kind":"judgement","server":"files","tool":"read"}}"#
    );
    let listed = r#"{"action":"mcp:list","agent":"dev","at":"2026-01-01T00:00:00.000Z","call":"0a3","decision":"pass","kind":"judgement","server":"files"}"#;
    write(dir.path(), &[&record, ANSWER, listed]);
    let all = shown(dir.path(), &[]);
    assert!(
        all[0].ends_with("[ignore_instructions ×50, email_address]"),
        "{all:?}"
    );
    // An outcome is its call's.
    assert_eq!(shown(dir.path(), &["--action", "mcp:call"]), all[..2]);
    assert_eq!(shown(dir.path(), &["--action", "mcp:list"]), all[2..]);
    let unknown = weir(dir.path(), &["audit", "show", ".", "--action", "mcp:cal"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        said(&unknown).contains("Did you mean mcp:call?"),
        "{}",
        said(&unknown)
    );
}

const PASS: &str = r#"{"agent":"dev","at":"2026-01-01T00:00:00.000Z","call":"0a1","decision":"pass","kind":"judgement","server":"files","tool":"read"}"#;
const ANSWER: &str = r#"{"at":"2026-01-01T00:00:01.000Z","call":"0a1","end":"refused","findings":[{"action":"refuse","rule":"ignore_instructions"}],"kind":"outcome","why":"scan.injection"}"#;
const HOSTILE: &str = "{\"agent\":\"guest\",\"at\":\"2026-01-03T00:00:00.000Z\",\"call\":\"0a2\",\"decision\":\"refuse\",\"kind\":\"judgement\",\"refusal\":\"policy.forbidden\",\"server\":\"web\",\"tool\":\"gpj.\u{202e}exe\\n     9  x\u{e0041}\"}";

/// The lines between the header and the summary.
fn shown(dir: &Path, arguments: &[&str]) -> Vec<String> {
    let output = weir(dir, &[&["audit", "show", "."], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
    lines[1..lines.len() - 1].to_vec()
}

#[test]
fn records_are_chosen_by_what_they_say() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), &[PASS, ANSWER, HOSTILE]);
    let all = shown(dir.path(), &[]);
    for (arguments, expected) in [
        (&["--agent", "dev"][..], &all[..2]),
        (&["--server", "web"], &all[2..]),
        (&["--tool", "read"], &all[..2]),
        (&["--tool", "write"], &[]),
        (&["--since", "2026-01-02"], &all[2..]),
        (&["--since", "2026-01-03T01:00:00+01:00"], &all[2..]),
        (&["--since", "1s"], &[]),
        (&["--call", "0a2"], &all[2..]),
        (&["--last", "1", "--agent", "dev"], &all[1..2]),
    ] {
        assert_eq!(shown(dir.path(), arguments), expected, "{arguments:?}");
    }
    // An answer that was refused stands alone, and so it says whose it is.
    let by_rule = shown(dir.path(), &["--rule", "ignore_instructions"]);
    assert_eq!(by_rule.len(), 1);
    assert!(
        by_rule[0].contains("refused scan.injection") && by_rule[0].contains("of dev files/read")
    );
    assert_eq!(
        shown(dir.path(), &["--refused"]),
        [by_rule[0].clone(), all[2].clone()]
    );
    assert_eq!(shown(dir.path(), &["--refused", "--agent", "dev"]), by_rule);
}

#[test]
fn a_name_that_nobody_knows_is_an_error_that_says_which_was_meant() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), &[PASS, ANSWER, HOSTILE]);
    let config = "agents: { eve: { key: 'sha256:00' } }\nmcp: { tracker: { command: [none] } }\npolicy: none.cedar\n";
    std::fs::write(dir.path().join("weir.yaml"), config).expect("a file is written");
    for (arguments, what, help) in [
        (
            ["--agent", "devv"],
            "there is no agent \"devv\"",
            "Did you mean dev?",
        ),
        (
            ["--server", "fils"],
            "there is no server \"fils\"",
            "Did you mean files?",
        ),
        (
            ["--server", "zebra"],
            "there is no server",
            "There are: files, tracker, web.",
        ),
        (
            ["--rule", "github_tokn"],
            "there is no rule",
            "Did you mean github_token?",
        ),
        (
            ["--call", "0a"],
            "several calls begin with \"0a\"",
            "0a1, 0a2",
        ),
    ] {
        let output = weir(
            dir.path(),
            &[&["audit", "show", "."], &arguments[..]].concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let said = said(&output);
        assert!(said.contains(what) && said.contains(help), "{said}");
    }
    // Those that are configured asked nothing, and that is no error; a rule that found nothing is none either.
    for arguments in [
        ["--agent", "eve"],
        ["--server", "tracker"],
        ["--rule", "github_token"],
    ] {
        assert_eq!(shown(dir.path(), &arguments), [""; 0], "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_seen_is_written_out() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), &[HOSTILE]);
    let text = said(&weir(dir.path(), &["audit", "show", "."]));
    assert_eq!(text.lines().count(), 3, "no line is made up: {text}");
    assert!(
        text.contains(r"web/gpj.\u{202e}exe\u{a}     9  x\u{e0041}"),
        "{text}"
    );
    let json = said(&weir(dir.path(), &["audit", "show", ".", "--json"]));
    assert!(json.is_ascii(), "{json}");
    let record: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let kept: serde_json::Value = serde_json::from_str(HOSTILE).expect("JSON");
    assert_eq!(record, kept);
    let refused = said(&weir(
        dir.path(),
        &["audit", "show", ".", "--agent", "a\u{202e}b"],
    ));
    assert!(!refused.contains('\u{202e}'), "{refused}");
}

#[test]
fn a_log_is_followed() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), &[PASS]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["audit", "show", ".", "--follow", "--refused"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert!(next().contains("ENTRY"));
    write(dir.path(), &[HOSTILE]);
    assert!(next().contains("policy.forbidden"));
    write(dir.path(), &[ANSWER]);
    assert!(next().contains("of dev files/read"));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
