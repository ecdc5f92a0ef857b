//! The engine over real trees.

mod alone;
mod answers;
mod calls;
mod edits;
mod exact;
mod killed;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::code::api::{Hit, JobState, Limits, Mode, ParseBy};

/// A tree in a directory of its own, and an engine over it.
pub(super) struct Bed {
    _made: tempfile::TempDir,
    pub top: PathBuf,
    pub engine: Engine,
}

pub(super) fn settings(data: &Path, roots: &[PathBuf]) -> Settings {
    Settings {
        data_dir: data.to_owned(),
        roots: roots.to_vec(),
        hidden: Vec::new(),
        tenant: "t".to_owned(),
        limits: Limits {
            // Tests wait for what they ask about, however slow the machine is.
            wait_ms: 60_000,
            search_ms: 60_000,
            check_ms: 10_000,
            ..Limits::default()
        },
        parse: ParseBy::Here,
        embed: None,
    }
}

impl Bed {
    pub(super) fn new(files: &[(&str, &str)]) -> Bed {
        Bed::with(files, |_| {})
    }

    pub(super) fn with(files: &[(&str, &str)], change: impl FnOnce(&mut Settings)) -> Bed {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        let tree = top.join("tree");
        std::fs::create_dir(&tree).unwrap();
        write_all(&tree, files);
        let mut settings = settings(&top.join("data"), std::slice::from_ref(&tree));
        change(&mut settings);
        let engine = Engine::open(settings).unwrap();
        let bed = Bed {
            _made: made,
            top,
            engine,
        };
        bed.index("");
        bed
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.top.join("tree")
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        write_all(&self.tree(), &[(path, text)]);
    }

    pub(super) fn index(&self, path: &str) -> Job {
        index(&self.engine, path)
    }

    pub(super) fn search(&self, query: &str, mode: Mode) -> Answer {
        search(&self.engine, query, mode)
    }
}

pub(super) fn write_all(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Indexes a tree, and waits for the end.
pub(super) fn index(engine: &Engine, path: &str) -> Job {
    let ask = IndexAsk {
        path: path.to_owned(),
        ..IndexAsk::default()
    };
    let job = engine.index(&ask).unwrap();
    let last = engine.progress(&job.id).unwrap().last().unwrap();
    assert_eq!(last.state, JobState::Done, "{}", last.message);
    last
}

pub(super) fn search(engine: &Engine, query: &str, mode: Mode) -> Answer {
    let ask = Search {
        query: query.to_owned(),
        mode,
        limit: Some(50),
        ..Search::default()
    };
    engine.search(&ask, &Cancel::new()).unwrap()
}

/// Every hit of a search, page after page.
pub(super) fn all_hits(engine: &Engine, ask: &Search) -> Vec<Hit> {
    let mut ask = ask.clone();
    ask.limit = Some(50);
    let mut hits = Vec::new();
    loop {
        let mut answer = engine.search(&ask, &Cancel::new()).unwrap();
        hits.append(&mut answer.hits);
        ask.cursor = answer.cursor;
        if ask.cursor.is_none() {
            return hits;
        }
    }
}

pub(super) fn paths(answer: &Answer) -> Vec<&str> {
    answer.hits.iter().map(|hit| hit.path.as_str()).collect()
}

/// Runs git in a directory, with nobody's settings.
pub(super) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("LC_ALL", "C.UTF-8")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
