//! `weir audit` on a log that the store wrote: whole, then damaged.

use std::path::Path;
use std::process::{Command, Output};

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
    let origin = "weir.test/log".to_owned();
    let settings = LogSettings {
        origin,
        durability: Durability::Os,
        bytes_max: 1 << 30,
    };
    let log = Log::open(&dir.join("log"), settings).expect("a new log");
    for record in [
        r#"{"action":"mcp:call","agent":"dev","at":"2026-01-01T00:00:00.000Z","call":"01","decision":"pass","kind":"judgement","server":"files","tool":"read"}"#,
        r#"{"at":"2026-01-01T00:00:01.000Z","bytes":5,"call":"01","duration_ms":7,"end":"complete","kind":"outcome","status":200}"#,
        r#"{"action":"mcp:call","agent":"guest","at":"2026-01-01T00:00:02.000Z","call":"02","decision":"refuse","kind":"judgement","refusal":"policy.forbidden","server":"files","tool":"\u001b[2Jx"}"#,
    ] {
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
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].contains("pass dev mcp:call files/read"), "{all:?}");
    assert!(
        all[1].contains("complete, status 200, 5 bytes, 7 ms"),
        "{all:?}"
    );
    assert!(
        all[2].contains("policy.forbidden") && !all[2].contains('\u{1b}'),
        "{all:?}"
    );
    assert_eq!(lines(&["audit", "show", ".", "--last", "1"]), all[2..]);
    assert_eq!(lines(&["audit", "show", ".", "--call", "01"]), all[..2]);
    assert_eq!(lines(&["audit", "show", ".", "--agent", "guest"]), all[2..]);
    let json = lines(&["audit", "show", ".", "--json", "--agent", "dev"]);
    let record: serde_json::Value = serde_json::from_str(&json[0]).expect("JSON");
    assert_eq!(record["tool"], "read");

    lines(&["audit", "export", ".", "--out", "out"]);
    assert!(lines(&["audit", "verify", "out"])[0].contains("entries: 3"));
    let again = weir(dir.path(), &["audit", "export", ".", "--out", "out"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
}

#[test]
fn a_changed_record_is_found() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    state(dir.path());
    let files = std::fs::read_dir(dir.path().join("log")).expect("the log's folder");
    let segment = files
        .map(|file| file.expect("a file").path())
        .find(|path| path.extension().is_some_and(|end| end == "log"))
        .expect("a segment");
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
}
