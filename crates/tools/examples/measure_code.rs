//! Measures code search over a copy of a directory: indexing, refreshing, edits, a branch, queries, memory.
//!
//! `cargo run --release -p tools --example measure_code -- DIR [--here]`; with `--here` files are parsed in this process, for
//! profilers. Links are not followed, and what starts with a dot is left out. Processor time is that of this process;
//! that of its parsers is told beside it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tools::code::api::{
    Cancel, Engine, IndexAsk, Limits, Mode, ParseBy, Search, Settings, SymbolAsk, SymbolWant,
};

const ROLE: &str = "--parse";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(first) = args.first() else {
        return Err("give a directory".into());
    };
    if first == ROLE {
        tools::code::parse::worker::serve()?;
        return Ok(());
    }
    // As the server does; without it, what was written with is kept.
    tools::serve::memory::give_back()?;
    let here = args.iter().any(|arg| arg == "--here");
    let scratch = std::env::temp_dir().join(format!("measure-code-{}", std::process::id()));
    let (dir, data) = (scratch.join("tree"), scratch.join("data"));
    let files = copy(&PathBuf::from(first).canonicalize()?, &dir)?;
    println!("{} files in {} MB", files.len(), disk_bytes(&dir) >> 20);
    let settings = Settings {
        data_dir: data.clone(),
        hidden: Vec::new(),
        roots: vec![dir.clone()],
        tenant: "measure".to_owned(),
        limits: Limits::default(),
        parse: match here {
            true => ParseBy::Here,
            false => ParseBy::Worker {
                program: std::env::current_exe()?,
                args: vec![ROLE.to_owned()],
                workers: 2,
            },
        },
        embed: None,
    };
    let engine = Engine::open(settings.clone())?;
    build(&engine)?;
    refresh(&engine, "refresh, nothing changed", || Ok(()))?;
    refresh(&engine, "refresh, nothing changed", || Ok(()))?;
    rest();
    tell_rss("idle, in the process that made the index");
    queries(&engine)?;
    tell_rss("after questions");
    edit(&engine, &dir)?;
    branch(&engine, &files)?;
    println!("rss at the end: {} MB", rss_mb("VmRSS"));
    println!("data on disk: {} MB", disk_bytes(&data) >> 20);
    drop(engine);
    let began = Instant::now();
    let engine = Engine::open(settings)?;
    println!("open again: {:?}", began.elapsed());
    refresh(&engine, "first refresh after it", || Ok(()))?;
    rest();
    tell_rss("idle");
    drop(engine);
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

fn tell_rss(when: &str) {
    let (all, own) = (rss_mb("VmRSS"), rss_mb("RssAnon"));
    println!("rss {when}: {all} MB (anonymous {own} MB)");
}

/// Waits until the engine has tidied up.
fn rest() {
    let used = cpu();
    std::thread::sleep(Duration::from_secs(12));
    println!("12 s of rest: processor {:?}", cpu() - used);
}

/// Copies a directory; answers the files of the copy.
fn copy(from: &Path, to: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(to)?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() {
            files.append(&mut copy(&entry.path(), &target)?);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
            files.push(target);
        }
    }
    Ok(files)
}

fn build(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let job = engine.index(&IndexAsk::default())?;
    let mut first = None;
    let mut peak = 0;
    let mut updates = engine.progress(&job.id)?;
    let mut last = job;
    loop {
        match updates.next_within(Duration::from_millis(50)) {
            Ok(Some(job)) => last = job,
            Ok(None) => {}
            Err(_) => break,
        }
        peak = peak.max(rss_mb("VmRSS"));
        if first.is_none() && !ask(engine, "read configuration file", Mode::Auto)?.is_empty() {
            first = Some(began.elapsed());
        }
    }
    println!(
        "processor time: {:?}, of children {:?}",
        cpu(),
        children_cpu()
    );
    println!(
        "index: {:?}; {} files, {} indexed, {} skipped, {} fallback, {} pieces, {} MB; first answer {first:?}; rss peak {peak} MB; {}",
        began.elapsed(),
        last.files_seen,
        last.files_indexed,
        last.files_skipped,
        last.files_fallback,
        last.chunks,
        last.bytes >> 20,
        last.message
    );
    Ok(())
}

/// Brings the index up to date after a change, which is in the time.
fn refresh(
    engine: &Engine,
    what: &str,
    change: impl FnOnce() -> std::io::Result<()>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (began, used) = (Instant::now(), (cpu(), children_cpu()));
    change()?;
    let job = engine.index(&IndexAsk::default())?;
    let last = engine.progress(&job.id)?.last().unwrap_or_default();
    let (took, used) = (
        began.elapsed(),
        (cpu() - used.0, children_cpu().saturating_sub(used.1)),
    );
    println!(
        "{what}: {took:?}, processor {:?} and {:?}; parsed {}; {}",
        used.0, used.1, last.files_indexed, last.message
    );
    Ok(())
}

fn ask(
    engine: &Engine,
    query: &str,
    mode: Mode,
) -> Result<Vec<tools::code::api::Hit>, tools::code::api::Error> {
    let ask = Search {
        query: query.to_owned(),
        mode,
        ..Search::default()
    };
    match engine.search(&ask, &Cancel::new()) {
        Ok(answer) => Ok(answer.hits),
        Err(tools::code::api::Error::NotReady(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn queries(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    let kinds: [(&str, Mode, &[&str]); 6] = [
        (
            "words",
            Mode::Auto,
            &[
                "read configuration file",
                "retry with backoff after a failure",
                "parse command line arguments",
                "compute the hash of a file",
                "open a connection to the server",
                "how are errors converted to strings",
                "iterate over all entries of a directory",
                "convert bytes to unicode text",
            ],
        ),
        (
            "names",
            Mode::Auto,
            &[
                "HashMap",
                "parse_args",
                "Connection",
                "read_to_end",
                "getLogger",
                "to_string",
                "Session.get",
            ],
        ),
        (
            "misspelt",
            Mode::Auto,
            &[
                "confguration",
                "retreive conection",
                "serailize_value",
                "dirctory iterater",
            ],
        ),
        (
            "paths",
            Mode::Auto,
            &["src/lib.rs", "utils.py", "error.rs", "tests/test_api.py"],
        ),
        (
            "text",
            Mode::Text,
            &[
                "unsafe impl Send",
                "raise ValueError(",
                "TODO: ",
                "fn main() {",
                "zqxjkv not there",
            ],
        ),
        (
            "regex",
            Mode::Regex,
            &[
                r"impl<.*> From<\w+> for",
                r"def _\w+_cache\(",
                r"^pub struct [A-Z]\w+Error\b",
            ],
        ),
    ];
    let (mut all, mut all_first) = (Vec::new(), Vec::new());
    for (kind, mode, queries) in kinds {
        let (mut took, mut first) = (Vec::new(), Vec::new());
        for round in 0..21 {
            for query in queries {
                let began = cpu();
                ask(engine, query, mode)?;
                let used = cpu().saturating_sub(began);
                match round {
                    0 => first.push(used),
                    _ => took.push(used),
                }
            }
        }
        tell(kind, &mut took, &first);
        all.extend(took);
        all_first.extend(first);
    }
    tell("all of them", &mut all, &all_first);
    let ask = SymbolAsk {
        name: Some("parse".to_owned()),
        want: SymbolWant::Definition,
        ..SymbolAsk::default()
    };
    let began = Instant::now();
    let found = engine.symbol(&ask, &Cancel::new())?.total;
    println!("definitions of `parse`: {found} in {:?}", began.elapsed());
    Ok(())
}

/// Prints what questions took, and at most when they were asked for the first time.
fn tell(kind: &str, took: &mut [Duration], first: &[Duration]) {
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!(
        "{kind}: processor p50 {:?}, p95 {:?}, p99 {:?}; asked for the first time, at most {:?}",
        at(0.5),
        at(0.95),
        at(0.99),
        first.iter().max().unwrap_or(&Duration::ZERO)
    );
}

/// Writes a file and asks until it is found.
fn edit(engine: &Engine, dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = dir.join("measure_code_edit.rs");
    for round in 0..3 {
        std::fs::write(&path, format!("fn zyxwv_edited_{round}() {{}}\n"))?;
        let began = Instant::now();
        while ask(engine, &format!("zyxwv_edited_{round}"), Mode::Auto)?
            .iter()
            .all(|hit| !hit.path.ends_with("edit.rs"))
        {
            if began.elapsed() > Duration::from_secs(10) {
                println!("an edit is not found");
                break;
            }
        }
        println!("an edit is found by rank after {:?}", began.elapsed());
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

/// Changes a thousand files, and changes them back.
fn branch(engine: &Engine, files: &[PathBuf]) -> Result<(), Box<dyn std::error::Error>> {
    let step = (files.len() / 1000).max(1);
    let chosen: Vec<&PathBuf> = files.iter().step_by(step).take(1000).collect();
    let before: Vec<Vec<u8>> = chosen.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    let put = |tail: &[u8]| {
        let mut all = chosen.iter().zip(&before);
        all.try_for_each(|(path, bytes)| std::fs::write(path, [bytes.as_slice(), tail].concat()))
    };
    let what = format!("a branch with {} other files", chosen.len());
    refresh(engine, &what, || put(b"\n// measured\n"))?;
    refresh(engine, "and back", || put(b""))
}

/// Processor time of this process.
fn cpu() -> Duration {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        at.tv_sec.unsigned_abs(),
        u32::try_from(at.tv_nsec).unwrap_or(0),
    )
}

/// Processor time of all children that run, by what the kernel tells of them.
fn children_cpu() -> Duration {
    let ours = std::process::id().to_string();
    let mut ticks = 0;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        if fields.get(1) == Some(&ours.as_str()) {
            ticks += fields[11..13]
                .iter()
                .filter_map(|field| field.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    Duration::from_millis(ticks * 10)
}

fn rss_mb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kb = line
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|kb| kb.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}

fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.path().is_dir() {
            true => disk_bytes(&entry.path()),
            false => entry.metadata().map_or(0, |metadata| metadata.len()),
        })
        .sum()
}
