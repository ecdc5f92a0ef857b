//! Scenarios and flags in, plans or problems out.
//!
//! Each file of `cases/scenario/` is one case: the command, then what the file `scenario.yaml` holds, then what is
//! expected, with a line `---` between. `UPDATE=1` rewrites what is expected, and the diff is the review.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "scenario/valid.rs"]
mod valid;

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use lab::exit::Exit;
use lab::experiments::load::Load;
use lab::scenario::Problem;
use lab::scenario::flags::{FLAGS, Given};
use lab::scenario::{self, Around, Cell, RunSettings, schema, show};
use serde_json::Value;

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
    // The scenario names them beside itself, so that columns do not depend on where this crate lies.
    let files = place.join("files").display().to_string();
    if !place.join("files").exists() {
        std::os::unix::fs::symlink(folder().join("files"), &files).unwrap();
    }
    let beside = place.display().to_string();
    let command = command.replace("FILES", &files).replace("PEMS", &beside);
    let yaml = yaml.replace("FILES", "files");
    std::fs::write(place.join("scenario.yaml"), yaml).unwrap();
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

/// The yaml parts of all cases that are YAML.
fn written() -> Vec<(PathBuf, String, Value)> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let texts = entries
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            let yaml = text.split("---\n").nth(1)?.to_owned();
            let tree = scenario::tree(&yaml).ok()?;
            Some((path, yaml, tree))
        });
    texts.collect()
}

#[test]
fn the_schema_and_the_reader_agree() {
    let schema = schema::schema();
    let (mut good, mut bad) = (0, 0);
    for (name, yaml, tree) in written() {
        let misfit = valid::misfit(&schema, &schema, &tree, "");
        match scenario::read_text(&yaml) {
            Ok(_) => {
                good += 1;
                // Expressions of thresholds are the judge's to read.
                let other = misfit.filter(|why| !why.starts_with(".thresholds"));
                assert_eq!(other, None, "{name:?}");
            }
            Err(problems) => {
                bad += 1;
                // A secret that is written out is a matter of its pattern, which is not looked at here.
                let pattern = problems.iter().all(|p| p.message.contains("secret"));
                assert!(pattern || misfit.is_some(), "{name:?} fits the schema");
            }
        }
    }
    assert!(good > 10 && bad > 3, "{good} {bad}");
}

#[test]
fn the_published_schema_is_this_one() {
    let place =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/lab-scenario.schema.json");
    let made = serde_json::to_string_pretty(&schema::schema()).unwrap() + "\n";
    if updating() {
        std::fs::write(&place, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(
        kept == made,
        "{place:?} is old; run this test with UPDATE=1"
    );
}

/// Keys that only a file has: what names things, and what is too large for a line.
const FILE_ONLY: &[&str] = &[
    "version",
    "description",
    "represents",
    "excludes",
    "threads",
    "scenarios.*.url",
    "scenarios.*.urls",
    "scenarios.*.requests",
    "scenarios.*.mcp.calls",
    "scenarios.*.llm.messages",
    "scenarios.*.feeds",
];

/// Flags that are not called as their key is, since that is a list, a group, or another flag's name.
const RENAMED: &[&str] = &[
    "stage",
    "header",
    "http2",
    "mcp-tool",
    "mcp-revision",
    "mcp-args",
    "bearer",
    "basic",
    "api-key",
    "threshold",
    "watch",
    "watch-every",
];

/// The keys below a schema, each with its path.
fn keys(root: &Value, schema: &Value, path: &str, flags: &[&str], found: &mut Vec<String>) {
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(pointer.trim_start_matches('#')).unwrap();
        return keys(root, target, path, flags, found);
    }
    if flags.contains(&path) || FILE_ONLY.contains(&path) {
        return found.push(path.to_owned());
    }
    let mut any = false;
    for one in schema
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if one.get("type").and_then(Value::as_str) != Some("null") {
            any = true;
            keys(root, one, path, flags, found);
        }
    }
    let named = schema.get("properties").and_then(Value::as_object);
    for (key, below) in named.into_iter().flatten() {
        any = true;
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        keys(root, below, &path, flags, found);
    }
    if let Some(below) = schema
        .get("additionalProperties")
        .filter(|below| below.is_object())
    {
        any = true;
        keys(root, below, &format!("{path}.*"), flags, found);
    }
    if !any {
        found.push(path.to_owned());
    }
}

#[test]
fn every_flag_has_its_key_and_every_key_its_flag() {
    let schema = schema::schema();
    let flags: Vec<&str> = FLAGS.iter().map(|flag| flag.key).collect();
    let mut found = Vec::new();
    keys(&schema, &schema, "", &flags, &mut found);
    for key in &found {
        let known = flags.contains(&key.as_str()) || FILE_ONLY.contains(&key.as_str());
        assert!(known, "{key} has no flag and is not in FILE_ONLY");
    }
    for flag in FLAGS {
        assert!(
            found.iter().any(|key| key == flag.key),
            "--{} has no key",
            flag.name
        );
        let last = flag.key.rsplit('.').next().unwrap().replace('_', "-");
        let renamed = RENAMED.contains(&flag.name);
        assert!(
            last == flag.name || renamed,
            "--{} writes {}",
            flag.name,
            flag.key
        );
    }
    for key in FILE_ONLY {
        assert!(
            found.iter().any(|known| known == key),
            "there is no key {key}"
        );
    }
}

#[test]
fn the_parser_is_whole() {
    Command::command().debug_assert();
}

/// A flag's words give the same flags again.
#[test]
fn the_command_repeats_itself() {
    let words = [
        "http://127.0.0.1:9000/",
        "-c",
        "5",
        "--header",
        "X: y",
        "--reconnect",
        "-e",
        "A=b",
    ];
    let words: Vec<String> = words.map(str::to_owned).to_vec();
    let first = parsed(&words).unwrap();
    let again = parsed(&first.words()[3..]).unwrap();
    let given = |load: &Load| -> Vec<(&str, String)> {
        let one = |given: &Given| (given.flag.name, given.text.clone());
        load.flags.given.iter().map(one).collect()
    };
    assert_eq!(given(&first), given(&again));
    let planned = |load: &Load| planned(load).ok().unwrap();
    let digest = |load: &Load| planned(load).1.meta.scenario_sha256;
    assert_eq!(digest(&first), digest(&again));
    assert_eq!(digest(&first).len(), 64);
}

#[test]
fn a_name_that_does_not_resolve_is_refused() {
    let load = parsed(&["http://no-such-name.invalid/".to_owned()]).unwrap();
    let problems = planned(&load).err().unwrap();
    let text = problems[0].to_string();
    assert!(
        text.contains("`no-such-name.invalid` does not resolve"),
        "{text}"
    );
}

/// Two flows could share the descriptors of no process: more than the kernel gives one.
#[test]
fn descriptors_are_counted_before_the_run() {
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let flows = hard.map_or(0, |hard| hard / 65_536 + 1);
    if !(1..=64).contains(&flows) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("many.yaml");
    let mut text = String::from("scenarios:\n");
    for flow in 0..flows {
        text += &format!("  f{flow}: {{ url: \"http://127.0.0.1:9\", connections: 65536 }}\n");
    }
    std::fs::write(&file, text).unwrap();
    let load = parsed(&[file.display().to_string()]).unwrap();
    let problems = planned(&load).err().unwrap();
    assert!(
        problems[0].message.contains("descriptors"),
        "{}",
        problems[0]
    );
    assert!(problems[0].help.contains("ulimit -Hn"), "{}", problems[0]);
}

#[test]
fn a_load_is_carried_out_and_delivered() {
    let target = lab::target::start(lab::target::Settings::default()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let words = [
        &format!("http://{}/echo", target.address()),
        "-c4",
        "-t1",
        "-d500ms",
        "--unique=1KB",
        "--expect=echo",
        "--json",
        "--quiet",
        "--accept=too-short",
        "--accept=noisy-host",
        "--accept=generator-bound",
        &format!("--out={}", out.display()),
        &format!("--origin=http://{}", target.address()),
        "--threshold=errors:count<1",
    ];
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut printed = Vec::new();
    let exit = parsed(&words).unwrap().run_to(&mut printed).unwrap();
    let shown: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(exit, Exit::Pass, "{}", shown["validity"]);
    let requests = shown["requests"].as_u64().unwrap();
    assert!(requests > 0);
    assert_eq!(
        shown["origin"]["distinct"].as_u64(),
        Some(requests),
        "{}",
        shown["origin"]
    );
    assert_eq!(shown["origin"]["duplicates"], 0);
    for file in ["run.json", "intervals.hlog", "report.html"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let kept = lab::result::Run::read(&out).unwrap();
    assert_eq!(kept.requests, requests);
    assert_eq!(kept.meta.command[..3], ["weir", "lab", "load"]);
    target.stop();
}

/// Cases with a few bytes changed, from a seed: read or refused, but never a panic, and problems have a line.
#[test]
fn broken_files_are_refused_in_order() {
    let mut draw = fastrand::Rng::with_seed(11);
    let texts = written().into_iter().map(|(_, yaml, _)| yaml);
    let texts: Vec<String> = texts.filter(|yaml| !yaml.is_empty()).collect();
    for round in 0..3000 {
        let mut bytes = texts[round % texts.len()].clone().into_bytes();
        for _ in 0..draw.usize(1..6) {
            let at = draw.usize(..bytes.len());
            let odd = draw.choice(*b"{}[]:,-#&*!|>'\"%@`\n\t 0a\0").unwrap();
            match draw.u8(..3) {
                0 => bytes.insert(at, odd),
                1 => bytes.truncate(at),
                _ => bytes[at] = odd,
            }
            if bytes.is_empty() {
                break;
            }
        }
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        for problem in scenario::read_text(&text).err().into_iter().flatten() {
            let place = problem.to_string();
            assert!(place.starts_with("scenario.yaml:"), "{place} of {text:?}");
        }
    }
}
