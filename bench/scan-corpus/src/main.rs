//! Scans files that other people wrote, and lists what is flagged: the measure of false positives.
//!
//! Reads text files under the folders that are given, each content once, and judges each as what comes back
//! (`response`) and as what goes out (`text`). Nothing is sampled by chance: the same folders give the same
//! numbers. It changes no file and keeps none.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use scan::{Action, Class, Engine, Settings, Subject, SubjectKind, Verdict};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Larger files are left out.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Deeper folders are left out.
const FOLDERS_DEEP_MAX: usize = 16;
/// Bytes around a finding that `--show` prints.
const AROUND_BYTES: usize = 40;

const USAGE: &str = "usage: scan-corpus [--documents] [--each N] [--show] FOLDER…
       scan-corpus --lines FILE

  --documents  only documentation: README, CHANGELOG and their like, Markdown, reStructuredText, text
  --each N     of files that are no documentation, one in N (by their hash)
  --show       print what was found, with what stands around it
  --lines      judge each line of FILE as `weir scan --jsonl` does";

/// What is asked for on the command line.
#[derive(Default)]
struct Options {
    documents: bool,
    each: u64,
    show: bool,
    lines: Option<PathBuf>,
    folders: Vec<PathBuf>,
}

/// The counts of one sort of files.
#[derive(Default)]
struct Count {
    files: usize,
    bytes: u64,
    /// Files flagged for secrets and personal data, and for injection: as a response, as a text.
    secrets: [usize; 2],
    injection: [usize; 2],
    rules: BTreeMap<(&'static str, &'static str), usize>,
}

fn main() {
    let Some(options) = options(env::args().skip(1)) else {
        println!("{USAGE}");
        std::process::exit(2);
    };
    let engine = Engine::new(Settings::default(), [1; 32]);
    match &options.lines {
        Some(file) => lines(&engine, file),
        None => corpus(&engine, &options),
    }
}

fn options(args: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options {
        each: 1,
        ..Options::default()
    };
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--documents" => options.documents = true,
            "--show" => options.show = true,
            "--each" => options.each = args.next()?.parse().ok().filter(|each| *each > 0)?,
            "--lines" => options.lines = Some(args.next()?.into()),
            _ if arg.starts_with('-') => return None,
            _ => options.folders.push(arg.into()),
        }
    }
    (options.lines.is_some() || !options.folders.is_empty()).then_some(options)
}

/// Judges the lines of a file; one line of JSON for each.
fn lines(engine: &Engine, file: &Path) {
    let text = fs::read_to_string(file).expect("the file of lines can be read");
    for line in text.lines() {
        let answer = match Subject::read(line) {
            Ok(subject) => {
                let place = scan::Direction::Outgoing.into();
                let verdict = subject.judge(engine, place, None);
                let all = verdict.findings.iter();
                let rules: Vec<_> = all.map(|f| [f.rule.id, f.action.as_str()]).collect();
                let bound = verdict.bound.as_ref().map(|bound| bound.0);
                json!({"id": subject.id, "block": verdict.block, "rules": rules, "bound": bound})
            }
            Err(error) => json!({ "error": error }),
        };
        println!("{answer}");
    }
}

/// Judges all files; prints what is flagged, then the counts.
fn corpus(engine: &Engine, options: &Options) {
    let mut files = Vec::new();
    for folder in &options.folders {
        walk(folder, 0, options, &mut files);
    }
    files.sort();
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    let counts = Mutex::new([Count::default(), Count::default()]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one(engine, options, file, &seen, &counts);
                }
            });
        }
    });
    let counts = counts.into_inner().expect("no thread panicked");
    for (count, sort) in counts.iter().zip(["documentation", "other text"]) {
        print(count, sort);
    }
}

/// Judges one file, unless its content was judged before.
fn one(
    engine: &Engine,
    options: &Options,
    file: &Path,
    seen: &Mutex<HashSet<[u8; 32]>>,
    counts: &Mutex<[Count; 2]>,
) {
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    let hash: [u8; 32] = Sha256::digest(&text).into();
    let draw = u64::from_be_bytes(hash[..8].try_into().expect("a hash has 32 bytes"));
    let documentation = documentation(file);
    if text.contains('\0') || (!documentation && draw % options.each != 0) {
        return;
    }
    if !seen.lock().expect("no thread panicked").insert(hash) {
        return;
    }
    let kinds = [SubjectKind::Response, SubjectKind::Text];
    let verdicts = kinds.map(|kind| {
        let subject = Subject::of(kind, &text).expect("a text is a subject");
        subject.judge(engine, scan::Direction::Outgoing.into(), None)
    });
    let mut counts = counts.lock().expect("no thread panicked");
    let count = &mut counts[usize::from(!documentation)];
    count.files += 1;
    count.bytes += text.len() as u64;
    for ((i, verdict), kind) in verdicts.iter().enumerate().zip(kinds) {
        add(count, i, verdict, kind);
        list(file, &text, verdict, kind, options.show);
    }
}

fn add(count: &mut Count, i: usize, verdict: &Verdict, kind: SubjectKind) {
    let blocking = verdict.findings.iter().filter(|f| f.action >= Action::Redact);
    let blocking: Vec<_> = blocking.map(|finding| finding.rule).collect();
    let injection = |class| class == Class::Injection;
    count.secrets[i] += usize::from(blocking.iter().any(|rule| !injection(rule.class)));
    count.injection[i] += usize::from(blocking.iter().any(|rule| injection(rule.class)));
    let rules: HashSet<_> = blocking.iter().map(|rule| rule.id).collect();
    for rule in rules {
        *count.rules.entry((kind.as_str(), rule)).or_default() += 1;
    }
    if verdict.bound.is_some() {
        *count.rules.entry((kind.as_str(), "(a bound)")).or_default() += 1;
    }
}

/// Prints what blocks a file.
fn list(file: &Path, text: &str, verdict: &Verdict, kind: SubjectKind, show: bool) {
    let mut said = HashSet::new();
    for finding in verdict.findings.iter().filter(|f| f.action >= Action::Redact) {
        if !said.insert(finding.rule.id) {
            continue;
        }
        let from = finding.span.start.saturating_sub(AROUND_BYTES);
        let to = (finding.span.end + AROUND_BYTES).min(text.len());
        let shown = match show {
            true => String::from_utf8_lossy(&text.as_bytes()[from..to]).replace('\n', "⏎"),
            false => String::new(),
        };
        let (kind, rule) = (kind.as_str(), finding.rule.id);
        let file = file.display();
        println!("{kind}\t{rule}\t{}\t{file}\t{shown}", finding.disguise);
    }
    if let Some(bound) = &verdict.bound {
        println!("{}\t(a bound)\t{}\t{}", kind.as_str(), bound.0, file.display());
    }
}

fn print(count: &Count, sort: &str) {
    println!("\n{sort}: {} files, {} bytes", count.files, count.bytes);
    let share = |flagged: usize| 100.0 * flagged as f64 / count.files.max(1) as f64;
    for (i, kind) in ["response", "text"].into_iter().enumerate() {
        let (secrets, injection) = (count.secrets[i], count.injection[i]);
        println!(
            "  {kind}: secrets {secrets} ({:.3} %), injection {injection} ({:.3} %)",
            share(secrets),
            share(injection)
        );
    }
    for ((kind, rule), files) in &count.rules {
        println!("  {files:6} {kind} {rule}");
    }
}

/// Collects the files under a folder that may be text. Links are not followed.
fn walk(folder: &Path, depth: usize, options: &Options, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let (path, Ok(sort)) = (entry.path(), entry.file_type()) else {
            continue;
        };
        if sort.is_dir() && depth < FOLDERS_DEEP_MAX {
            walk(&path, depth + 1, options, files);
        } else if sort.is_file() && (documentation(&path) || !options.documents) {
            let bytes = entry.metadata().map_or(u64::MAX, |data| data.len());
            if (1..=FILE_BYTES_MAX).contains(&bytes) {
                files.push(path);
            }
        }
    }
}

/// Whether a file is documentation, by its name.
fn documentation(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let known = ["readme", "changelog", "changes", "history", "news", "contributing", "security"];
    let ends = [".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".html"];
    known.iter().any(|start| name.starts_with(start)) || ends.iter().any(|end| name.ends_with(end))
}
