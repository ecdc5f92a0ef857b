//! A configuration of Pipelock as it was written, and what became of each of its keys.
//!
//! Whoever reads a key takes it. What nobody took is told at the end, by the table of what has no counterpart, so that no
//! key is left out in silence; a value is never repeated, since it may be a secret.

use config::yaml::{self, Scalars, Spot};
use config::{Path, Step};
use serde_json::Value;

use super::without;

/// Most lines that a report tells of one kind; a file of its size cannot need more.
const TOLD_MAX: usize = 5_000;

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub line: usize,
    pub key: String,
    pub what: String,
}

/// What became of all keys.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The same here, by another name.
    pub taken: Vec<Told>,
    /// Something like it here, that does more or less.
    pub otherwise: Vec<Told>,
    /// Nothing here.
    pub without: Vec<Told>,
}

impl Report {
    pub(super) fn sort(&mut self) {
        for told in [&mut self.taken, &mut self.otherwise, &mut self.without] {
            told.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
            told.truncate(TOLD_MAX);
        }
    }
}

/// The file, with the keys that were read so far.
pub(super) struct Source {
    tree: Value,
    spot: Spot,
    read: Vec<Path>,
    pub(super) report: Report,
}

impl Source {
    /// # Errors
    /// What is no YAML that can be read, with its place.
    pub(super) fn new(text: &str) -> Result<Source, String> {
        let (tree, spot) = yaml::parse(text, Scalars::Json).map_err(|wrong| {
            let (line, column) = (wrong.at.line, wrong.at.column);
            format!("line {line}, column {column}: {}", wrong.message)
        })?;
        if !tree.is_object() {
            return Err("is no map of keys".to_owned());
        }
        Ok(Source {
            tree,
            spot,
            read: Vec::new(),
            report: Report::default(),
        })
    }

    /// What stands at a path, whoever read it. A key without a value stands nowhere.
    pub(super) fn get(&self, path: &Path) -> Option<&Value> {
        let found = path
            .0
            .iter()
            .try_fold(&self.tree, |value, step| match step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => value.get(index),
            });
        found.filter(|value| !value.is_null())
    }

    /// The keys below a path.
    pub(super) fn keys(&self, path: &Path) -> Vec<String> {
        let map = self.get(path).and_then(Value::as_object);
        map.map_or_else(Vec::new, |map| map.keys().cloned().collect())
    }

    pub(super) fn line(&self, path: &Path) -> usize {
        self.spot.key(path).line
    }

    fn told(&self, path: &Path, what: impl Into<String>) -> Told {
        Told {
            line: self.line(path),
            key: path.to_string(),
            what: what.into(),
        }
    }

    fn reads(&mut self, path: &Path) {
        if !self.read.contains(path) {
            self.read.push(path.clone());
        }
    }

    /// The key is the same here.
    pub(super) fn took(&mut self, path: &Path, what: impl Into<String>) {
        self.reads(path);
        let told = self.told(path, what);
        self.report.taken.push(told);
    }

    /// The key does more or less here than there.
    pub(super) fn differs(&mut self, path: &Path, what: impl Into<String>) {
        self.reads(path);
        let told = self.told(path, what);
        self.report.otherwise.push(told);
    }

    /// The key has no counterpart.
    pub(super) fn lacks(&mut self, path: &Path, why: impl Into<String>) {
        self.reads(path);
        let told = self.told(path, why);
        self.report.without.push(told);
    }

    fn wrong<T>(&mut self, path: &Path, kind: &str) -> Option<T> {
        self.lacks(path, format!("is no {kind}, so that it says nothing"));
        None
    }

    /// The number at a path.
    pub(super) fn number(&mut self, path: &Path) -> Option<u64> {
        match self.get(path)?.as_u64() {
            Some(number) => Some(number),
            None => self.wrong(path, "whole number"),
        }
    }

    pub(super) fn text(&mut self, path: &Path) -> Option<String> {
        match self.get(path)?.as_str() {
            Some("") => {
                self.reads(path);
                None
            }
            Some(text) => Some(text.to_owned()),
            None => self.wrong(path, "text"),
        }
    }

    pub(super) fn switch(&mut self, path: &Path) -> Option<bool> {
        match self.get(path)?.as_bool() {
            Some(switch) => Some(switch),
            None => self.wrong(path, "true or false"),
        }
    }

    /// The texts of a list, each with its place.
    pub(super) fn texts(&mut self, path: &Path) -> Vec<(Path, String)> {
        let list = match self.get(path) {
            None => return Vec::new(),
            Some(Value::Array(list)) => list.clone(),
            Some(_) => return self.wrong(path, "list").unwrap_or_default(),
        };
        self.reads(path);
        let mut texts = Vec::new();
        for (number, value) in list.into_iter().enumerate() {
            let at = path.index(number);
            match value {
                Value::String(text) => texts.push((at, text)),
                _ => self.lacks(&at, "is no text, so that it says nothing"),
            }
        }
        texts
    }

    /// How many elements a list has.
    pub(super) fn length(&mut self, path: &Path) -> usize {
        match self.get(path) {
            None => 0,
            Some(Value::Array(list)) => list.len(),
            Some(_) => self.wrong::<usize>(path, "list").unwrap_or_default(),
        }
    }

    /// Tells of each key that nobody read.
    pub(super) fn rest(&mut self) {
        self.rest_below(&Path::default());
    }

    fn rest_below(&mut self, path: &Path) {
        for key in self.keys(path) {
            let below = path.key(&key);
            if self.read.contains(&below) {
                continue;
            }
            let is_read_in_part = self.read.iter().any(|read| below.covers(read));
            let reason = without::reason(&below);
            match (is_read_in_part, reason) {
                (true, _) => self.rest_below(&below),
                (false, Some(_)) if self.is_off(&below) => {
                    self.lacks(&below, "is off, so that there is nothing to take over");
                }
                (false, Some(reason)) => self.lacks(&below, reason),
                (false, None) if self.get(&below).is_some_and(Value::is_object) => {
                    self.rest_below(&below);
                }
                (false, None) => self.lacks(&below, "is not known here"),
            }
        }
    }

    /// Whether a group says that it is off, or a key says nothing.
    fn is_off(&self, path: &Path) -> bool {
        match self.get(path) {
            None => true,
            Some(Value::Object(map)) => map.get("enabled") == Some(&Value::Bool(false)),
            Some(Value::Array(list)) => list.is_empty(),
            Some(value) => *value == Value::Bool(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_told_once_with_its_line() {
        let text = "mode: balanced\nairlock:\n  enabled: true\n  timers: { a: 1 }\nsandbox:\n  enabled: false\n\
                    fetch_proxy:\n  listen: x\n  more: y\nnew: { thing: hunter2 }\nempty:\n";
        let mut source = Source::new(text).unwrap();
        let listen = Path::of("fetch_proxy.listen");
        assert_eq!(source.text(&listen).as_deref(), Some("x"));
        source.took(&listen, "listen");
        source.rest();
        source.report.sort();
        let told = |all: &[Told]| {
            let lines = all.iter().map(|told| format!("{} {}", told.line, told.key));
            lines.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(told(&source.report.taken), "8 fetch_proxy.listen");
        assert_eq!(
            told(&source.report.without),
            "1 mode, 2 airlock, 5 sandbox, 9 fetch_proxy.more, 10 new.thing, 11 empty"
        );
        assert!(!format!("{:?}", source.report).contains("hunter2"));
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let error = |text: &str| Source::new(text).map(drop).unwrap_err();
        assert!(error("a: [1\nb: 2").contains("line "));
        assert!(error("- a\n").contains("no map"));
        assert!(error("a: &x 1\nb: *x\n").contains("line 1, column 4: anchors"));
        assert!(error(&format!("a: {}", "x".repeat(2 << 20))).contains("larger than"));
    }
}
