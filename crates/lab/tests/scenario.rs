//! Scenarios and flags in, plans or problems out.
//!
//! Each file of `cases/scenario/` is one case: the command, then what the file `scenario.yaml` holds, then what is
//! expected, with a line `---` between. `UPDATE=1` rewrites what is expected, and the diff is the review.

use std::path::{Path, PathBuf};

use clap::Parser;
use lab::experiments::load::Load;
use lab::scenario::problem::Problem;
use lab::scenario::{self, Around, Cell, RunSettings, show};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    load: Load,
}

type Planned = Result<(Vec<Cell>, RunSettings), Vec<Problem>>;

/// Variables that every case sees.
fn environment(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("hunter2".into()),
        "EMPTY" => Some(String::new()),
        "LINES" => Some("a\nb".into()),
        "BASE" => Some("http://127.0.0.1:9000".into()),
        _ => None,
    }
}

fn planned(load: &Load) -> Planned {
    let around = Around {
        environment: &environment,
        cores: 4,
        any_target: load.i_own_this,
    };
    scenario::plan_with(load, &around)
}

fn parsed(words: &[String]) -> Result<Load, clap::Error> {
    let words = ["load".to_owned()].into_iter().chain(words.iter().cloned());
    Command::try_parse_from(words).map(|command| command.load)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/scenario")
}

fn updating() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// Words as a shell splits them, with single quotes only.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What a case gives: the plan with its settings, or the problems.
fn outcome(command: &str, yaml: &str, place: &Path) -> String {
    let files = folder().join("files").display().to_string();
    let beside = place.display().to_string();
    let command = command.replace("FILES", &files).replace("PEMS", &beside);
    std::fs::write(place.join("scenario.yaml"), yaml.replace("FILES", &files)).unwrap();
    certificates(place);
    let mut words = split(&command);
    let named = words.iter_mut().filter(|word| *word == "scenario.yaml");
    named.for_each(|word| *word = format!("{beside}/scenario.yaml"));
    let text = match parsed(&words) {
        Ok(load) => shown(planned(&load)),
        Err(error) => {
            let text = error.to_string();
            format!("{}\n", text.lines().next().unwrap_or_default())
        }
    };
    text.replace(&files, "FILES")
        .replace(&format!("{beside}/"), "")
}

/// An authority, a client's certificate with its key, and a key that is another's.
fn certificates(place: &Path) {
    let pair = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    let ((ca, _), (client, key), (_, other)) = (pair("ca"), pair("client"), pair("other"));
    let files = [
        ("ca.pem", ca),
        ("client.pem", client),
        ("client.key", key),
        ("other.key", other),
    ];
    for (name, pem) in files {
        std::fs::write(place.join(name), pem).unwrap();
    }
}

fn shown(planned: Planned) -> String {
    let (cells, settings) = match planned {
        Ok(found) => found,
        Err(problems) => {
            let problems = problems.iter().map(|problem| format!("{problem}\n"));
            return problems.collect();
        }
    };
    let mut out = String::new();
    for cell in &cells {
        if !cell.label.is_empty() {
            out += &format!("[{}]\n", cell.label);
        }
        out += &show::plan(&cell.plan);
        let warnings = cell.warnings.iter();
        out.extend(warnings.map(|warning| format!("warning: {warning}\n")));
        for one in &cell.thresholds {
            let (metric, expression) = (&one.metric, &one.expression);
            out += &format!("threshold {metric} {expression}\n");
        }
    }
    if !settings.watch.is_empty() {
        let (watch, every) = (settings.watch.join(", "), settings.watch_every);
        out += &format!("watch {watch} each {every:?}\n");
    }
    if let Some(origin) = &settings.origin {
        out += &format!("origin {origin}\n");
    }
    for verdict in &settings.accept {
        out += &format!("accept {}\n", verdict.as_str());
    }
    out + &format!("$ {}\n", settings.meta.command.join(" "))
}

#[test]
fn cases() {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let mut wrong = Vec::new();
    for name in &names {
        let text = std::fs::read_to_string(name).unwrap();
        let mut parts = text.splitn(3, "---\n");
        let command = parts.next().unwrap_or_default();
        let yaml = parts.next().unwrap_or_default();
        let expected = parts.next().unwrap_or_default();
        let place = tempfile::tempdir().unwrap();
        let found = outcome(command.trim(), yaml, place.path());
        let leaked = found.replace(command.trim(), "").contains("hunter2");
        assert!(!leaked, "{name:?} prints a secret");
        if found == expected {
            continue;
        }
        if updating() {
            std::fs::write(name, format!("{command}---\n{yaml}---\n{found}")).unwrap();
        } else {
            wrong.push(format!("{name:?}:\n{found}\ninstead of\n{expected}"));
        }
    }
    let wrong = wrong.join("\n");
    assert!(wrong.is_empty(), "UPDATE=1 accepts these:\n{wrong}");
}
