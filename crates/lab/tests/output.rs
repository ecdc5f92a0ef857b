//! Everything that is shown or written of a run, from one recorded run, against files in `cases/output`.
//!
//! `UPDATE=1 cargo test -p lab --test output` rewrites those files; look at the difference before you keep it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "output/screen.rs"]
mod screen;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::ProgressDrawTarget;
use lab::output::hlog::{HistogramLog, totals};
use lab::output::lines::Lines;
use lab::output::live::{Live, Outline};
use lab::output::{
    All, FlowSnapshot, Look, Observer, Snapshot, Spread, SubjectSnapshot, Wanted, json, k6, summary,
};
use lab::plan::Plan;
use lab::result::{Criterion, HostSample, Run, Validity, Verdict};
use lab::tally::Tally;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use screen::Screen;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases/output")
        .join(name)
}

/// Compares a text with a file, or makes the file.
fn check(name: &str, text: &str) {
    let path = case(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (number, (found, due)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, due, "{name}, line {}", number + 1);
    }
    assert_eq!(text.len(), expected.len(), "{name} ends early or late");
}

fn recorded() -> Run {
    Run::read(&case("run.json")).unwrap()
}

/// The recorded run with its closed flow only.
fn single() -> Run {
    let mut run = recorded();
    run.flows.truncate(1);
    run.measured = run.flows[0].measured.clone();
    run.thresholds.retain(|threshold| threshold.ok);
    run.notes.clear();
    run.total.errors.clear();
    run.origin = None;
    run
}

/// The recorded run, stopped in its ramp, by a generator at its limit.
fn spoiled() -> Run {
    let mut run = single();
    run.validity = Validity {
        verdict: Verdict::GeneratorBound,
        criteria: vec![Criterion {
            verdict: Verdict::GeneratorBound,
            holds: false,
            evidence: "the generator used 97 % of its cores; the bound is 80 %".to_owned(),
        }],
    };
    run.meta.partial = true;
    run.meta.ceilings = None;
    run.flows[0].steps.truncate(1);
    run.thresholds.clear();
    run
}

#[test]
fn a_run_is_summed_up_on_one_screen() {
    check("summary.txt", &summary::text(&recorded(), false));
    check("summary-single.txt", &summary::text(&single(), false));
    check("summary-spoiled.txt", &summary::text(&spoiled(), false));
}

/// Any other `run-*.json` is a run as it was found: its summary must not change by accident.
#[test]
fn every_recorded_run_is_summed_up_as_it_was() {
    let entries = std::fs::read_dir(case("")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    for name in names.filter(|name| name.starts_with("run-")) {
        if let Some(stem) = name.strip_suffix(".json") {
            let run = Run::read(&case(&name)).unwrap();
            check(&format!("{stem}.txt"), &summary::text(&run, false));
        }
    }
}

#[test]
fn colours_mark_verdicts_and_change_nothing_else() {
    let (plain, coloured) = (
        summary::text(&recorded(), false),
        summary::text(&recorded(), true),
    );
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains("\u{1b}[1;32mVALID\u{1b}[0m: "));
    assert!(coloured.contains("\u{1b}[1;31mTHRESHOLDS BREACHED\u{1b}[0m: 2 of 3."));
    assert_eq!(screen::without_colours(&coloured), plain);
}

#[test]
fn texts_of_a_target_cannot_steer_the_terminal() {
    let mut run = recorded();
    run.notes[0].what = "\u{1b}]0;owned\u{7}\u{1b}[2J".to_owned();
    run.warnings = vec!["a\rb".to_owned()];
    run.flows[0].name = "\u{1b}[31m".to_owned();
    run.meta.command = vec!["\u{9b}2J".to_owned()];
    let text = summary::text(&run, false);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
}

#[test]
fn a_matrix_is_one_table_and_one_object() {
    let cells = [
        ("connections=2".to_owned(), single()),
        ("connections=8".to_owned(), spoiled()),
        ("both".to_owned(), recorded()),
    ];
    check("matrix.txt", &summary::matrix(&cells));
    let text = json::matrix(&cells).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let requests: u64 = cells.iter().map(|(_, run)| run.requests).sum();
    assert_eq!(value["schema"], "weir-lab-matrix/1");
    assert_eq!(value["requests"], requests);
    assert_eq!(value["cells"][1]["label"], "connections=8");
    assert_eq!(value["cells"][2]["run"]["flows"][1]["name"], "tools");
}

#[test]
fn run_json_is_the_same_bytes_after_reading() {
    let text = json::run(&recorded()).unwrap();
    check("run.json", &text);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    json::write_run(&recorded(), &path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert_eq!(json::run(&Run::read(folder.path()).unwrap()).unwrap(), text);
}

#[test]
fn k6s_readers_read_ours() {
    check("k6.json", &k6::text(&recorded()));
}

#[test]
fn everything_that_is_wanted_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let wanted = Wanted {
        out: Some(at("new/out")),
        summary_export: Some(at("k6.json")),
        csv: Some(at("steps.csv")),
        hlog: Some(at("extra.hlog")),
        quiet: true,
        ..Wanted::default()
    };
    wanted.check().unwrap();
    wanted.deliver(&recorded(), &mut Vec::new()).unwrap();
    for name in ["steps.csv", "steps-series.csv"] {
        check(name, &std::fs::read_to_string(at(name)).unwrap());
    }
    for cell in [None, Some((2, "c=2"))] {
        let mut observer = wanted.observer(&empty_plan(), cell).unwrap();
        let mut tally = Tally::default();
        tally.good(0, 10, 20);
        observer.histograms(1.0, 1.0, "echo", &tally);
        observer.finish().unwrap();
    }
    for name in [
        "new/out/intervals.hlog",
        "extra.hlog",
        "new/out/02-c=2/intervals.hlog",
        "extra-02-c=2.hlog",
    ] {
        assert_eq!(totals(&at(name)).unwrap().values, 3, "{name}");
    }

    let cells = [("c=1".to_owned(), single()), ("c=2".to_owned(), single())];
    wanted.deliver_matrix(&cells, &mut Vec::new()).unwrap();
    for name in [
        "new/out/matrix.json",
        "new/out/01-c=1/run.json",
        "new/out/02-c=2/run.json",
        "k6-01-c=1.json",
        "k6-02-c=2.json",
    ] {
        assert!(at(name).is_file(), "{name}");
    }
    let rows = std::fs::read_to_string(at("steps.csv")).unwrap();
    assert_eq!(
        rows.lines().filter(|row| row.starts_with("c=2,")).count(),
        2
    );
}

#[test]
fn json_is_one_object_and_quiet_keeps_the_result() {
    let print = |json, quiet| {
        let wanted = Wanted {
            json,
            quiet,
            ..Wanted::default()
        };
        let mut printed = Vec::new();
        wanted.deliver(&recorded(), &mut printed).unwrap();
        String::from_utf8(printed).unwrap()
    };
    let mut objects = serde_json::Deserializer::from_str(&print(true, true))
        .into_iter::<serde_json::Value>()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    assert_eq!(objects.len(), 1);
    assert_eq!(objects.remove(0)["requests"], recorded().requests);
    for quiet in [true, false] {
        assert_eq!(print(false, quiet), summary::text(&recorded(), false));
    }
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = Wanted {
        csv: Some(folder.path().join("fine.csv")),
        summary_export: Some(PathBuf::from("/dev/full")),
        ..Wanted::default()
    };
    let mut printed = Vec::new();
    let failures = wanted.deliver(&recorded(), &mut printed).unwrap_err();
    assert_eq!(failures.len(), 1);
    assert_eq!(
        failures[0].to_string(),
        "/dev/full: No space left on device (os error 28); free space there, or write elsewhere"
    );
    assert!(printed.starts_with(b"VALID: "));
    assert!(folder.path().join("fine.csv").is_file());
}

#[test]
fn what_cannot_be_written_is_refused_before_load_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let wanted = Wanted {
        out: Some(folder.path().join("file/out")),
        csv: Some(folder.path().join("no/such.csv")),
        summary_export: Some(folder.path().to_owned()),
        ..Wanted::default()
    };
    let failures = wanted.check().unwrap_err();
    let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(said[0].contains("file/out: "), "{}", said[0]);
    assert!(said[1].ends_with("is a folder; name a file in it"));
    assert!(said[2].ends_with("make its folder first"), "{}", said[2]);
}

/// How two flows stand after some seconds.
fn snapshot(t_s: f64, total_s: f64) -> Snapshot {
    let echo = FlowSnapshot {
        name: "echo".to_owned(),
        step: "steady".to_owned(),
        planned: 64.0,
        rate: 113_745.0 + 1000.0 * (t_s % 7.0),
        in_flight: 64,
        completed: (113_745.0 * t_s) as u64,
        last: Some(Spread {
            p50: 520.0,
            p90: 720.0,
            p99: 1120.0,
            max: 9310.0,
        }),
        so_far: Some(Spread {
            p50: 521.0,
            p90: 725.0,
            p99: 1230.0,
            max: 12_310.0,
        }),
        ..FlowSnapshot::default()
    };
    let tools = FlowSnapshot {
        name: "tools".to_owned(),
        step: "climb".to_owned(),
        open: true,
        planned: 187.5,
        rate: 187.0,
        waiting: 3,
        completed: 2400,
        failed: 12,
        dropped: 2,
        errors: BTreeMap::from([("http-5xx".to_owned(), 9), ("reset".to_owned(), 3)]),
        ..FlowSnapshot::default()
    };
    Snapshot {
        t_s,
        total_s,
        flows: vec![echo, tools],
        subjects: vec![
            SubjectSnapshot {
                name: "gateway".to_owned(),
                cores: Some(0.64),
                rss_bytes: Some(48_300_000),
            },
            SubjectSnapshot {
                name: "generator".to_owned(),
                cores: Some(0.31),
                rss_bytes: None,
            },
        ],
        host: Some(HostSample {
            t_s,
            busy_share: 0.48,
            steal_share: 0.03,
            pressure_share: Some(0.12),
            load1: 1.6,
        }),
    }
}

fn outline() -> Outline {
    let stage = |name: &str, seconds| (name.to_owned(), seconds);
    Outline {
        name: "agents".to_owned(),
        stages: vec![
            vec![stage("warm-up", 5.0), stage("steady", 25.0)],
            vec![stage("climb", 20.0), stage("steady", 10.0)],
        ],
    }
}

fn empty_plan() -> Plan {
    Plan {
        name: "agents".to_owned(),
        seed: 1,
        run: 1,
        flows: Vec::new(),
        interval: Duration::from_secs(1),
    }
}

/// A live view on a screen of so many columns.
fn view(columns: usize, colour: bool) -> (Screen, Live) {
    let screen = Screen::new(columns);
    let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
    let live = Live::on(target, Box::new(move || Some(columns)), outline(), colour);
    (screen, live)
}

#[test]
fn the_live_view_is_drawn_over_itself_and_taken_away() {
    for (columns, name) in [(80, "live-80.txt"), (48, "live-48.txt")] {
        let (screen, mut live) = view(columns, false);
        for second in 1..=12 {
            live.interval(&snapshot(f64::from(second), 30.0));
        }
        let shown = screen.text();
        assert!(!shown.contains('\u{1b}'));
        assert!(shown.lines().all(|line| line.chars().count() < columns));
        check(name, &shown);
        live.message("the target\u{1b}[2J closed 3 connections");
        live.finish().unwrap();
        assert_eq!(
            screen.text(),
            "the target\u{fffd}[2J closed 3 connections\n",
            "only the message is left"
        );
    }
}

#[test]
fn a_view_that_is_dropped_leaves_nothing_either() {
    let (screen, mut live) = view(80, true);
    live.interval(&snapshot(3.0, 30.0));
    assert!(screen.text().contains("\u{1b}[31m● stolen\u{1b}[0m"));
    drop(live);
    assert_eq!(screen.text(), "");
}

/// Draws on standard error: in lines, unless the test below has made that a terminal.
#[test]
fn child_draws() {
    let plan = empty_plan();
    let mut screen = lab::output::screen(&plan, Look::Best);
    for second in 1..=3 {
        screen.interval(&snapshot(f64::from(second), 30.0));
    }
    screen.message("a word");
    screen.finish().unwrap();
}

/// What [`child_draws`] writes to a terminal of 80 columns.
fn drawn_on_a_terminal(term: &str, no_color: &str) -> String {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_draws", "--nocapture"])
        .env("TERM", term)
        .env("NO_COLOR", no_color)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave)
        .spawn()
        .unwrap();
    // Reading ends with an error when nobody has the other side open any more.
    let mut bytes = Vec::new();
    let _ = File::from(master).read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_real_terminal_is_clean_afterwards() {
    let written = drawn_on_a_terminal("xterm", "");
    assert!(
        written.contains("\u{1b}[31mfailed 12\u{1b}[0m  done 2,400"),
        "{written:?}"
    );
    let screen = Screen::new(80);
    screen.feed(&written);
    assert_eq!(screen.text(), "a word\n");
}

#[test]
fn no_color_is_respected_and_a_dumb_terminal_has_lines() {
    let written = drawn_on_a_terminal("xterm", "1");
    assert!(written.contains("failed 12  done 2,400"), "{written:?}");
    assert!(!written.contains("\u{1b}[3"), "{written:?}");
    let written = drawn_on_a_terminal("dumb", "");
    assert!(!written.contains('\u{1b}'), "{written:?}");
    assert!(written.starts_with("1/30 s  echo  steady  "), "{written:?}");
}

/// A writer whose text can be looked at.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn without_a_terminal_there_is_a_line_a_second_or_every_ten() {
    let mut text = String::new();
    for (total_s, steps) in [(3.0, 12), (3600.0, 100)] {
        let log = Log::default();
        let mut lines = Lines::new(log.clone());
        for step in 1..=steps {
            lines.interval(&snapshot(f64::from(step) * 0.25, total_s));
        }
        lines.message("the end");
        lines.finish().unwrap();
        text += std::str::from_utf8(&log.0.lock().unwrap()).unwrap();
    }
    check("lines.txt", &text);
}

#[test]
fn a_log_that_went_away_does_not_end_a_run() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut lines = Lines::new(writer);
    lines.interval(&snapshot(1.0, 3.0));
    lines.message("text");
    lines.finish().unwrap();
}

#[test]
fn all_are_told_and_the_first_failure_is_handed_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.hlog");
    let log = Log::default();
    let full = HistogramLog::begin(Path::new("/dev/full")).unwrap();
    let fine = HistogramLog::begin(&path).unwrap();
    let mut all = All(vec![
        Box::new(full),
        Box::new(fine),
        Box::new(Lines::new(log.clone())),
    ]);
    let mut tally = Tally::default();
    (1..=1000).for_each(|us| tally.good(0, 100, us * 1000));
    all.interval(&snapshot(1.0, 3.0));
    all.histograms(1.0, 1.0, "echo", &tally);
    let failure = all.finish().unwrap_err();
    assert!(failure.what.starts_with("/dev/full: "), "{failure}");
    assert_eq!(totals(&path).unwrap().values, 3000);
    assert!(!log.0.lock().unwrap().is_empty());
}
