//! What was asked for: a file's tree with flags and a matrix cell laid over it, and where each part came from.
//!
//! Everything is laid over as values before anything is judged, so a flag is checked by the same code, and
//! complained about in the same words, as its key.

use config::yaml::{self, Scalars, Spot};
use config::{Path, Problem, Step, read};
use serde_json::{Map, Value};

use super::file::File;
use super::flags::{Flag, Given};

/// The name of the one scenario of a run without a file.
pub(super) const ONLY: &str = "load";

/// A scenario before it is judged.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub tree: Value,
    /// The file as it was named, and its positions.
    file: Option<(String, Spot)>,
    /// Which part was given by what; the last that covers a path is the one that counts.
    given: Vec<(Path, String)>,
}

impl Source {
    /// Of a command without a file: one scenario.
    pub(super) fn empty() -> Source {
        let mut source = Source {
            tree: Value::Object(Map::new()),
            file: None,
            given: Vec::new(),
        };
        let only = source.place(&Path::of("scenarios").key(ONLY));
        if let Some(only) = only {
            *only = Value::Object(Map::new());
        }
        source
    }

    /// Of a file's text.
    ///
    /// # Errors
    ///
    /// It is not YAML, or not a map.
    pub(super) fn read(name: &str, text: &str) -> Result<Source, Problem> {
        let wrong = |line, column, message: &str| Problem {
            line,
            column,
            ..Problem::of_file(name, message, "")
        };
        let parsed = yaml::parse(text, Scalars::Json);
        let (tree, spot) = parsed.map_err(|w| wrong(w.at.line, w.at.column, &w.message))?;
        if !tree.is_object() {
            let message = "is not a map of keys, such as scenarios:";
            return Err(wrong(1, 1, message));
        }
        let file = Some((name.to_owned(), spot));
        let given = Vec::new();
        Ok(Source { tree, file, given })
    }

    /// The file, where there is one.
    pub(super) fn file(&self) -> Option<&str> {
        self.file.as_ref().map(|(name, _)| name.as_str())
    }

    /// A problem of the part at a path.
    pub(super) fn problem(&self, path: &Path, message: impl Into<String>, help: &str) -> Problem {
        Problem {
            message: message.into(),
            help: help.to_owned(),
            ..self.whence(path)
        }
    }

    /// What gave the last flag that covers a path, if one did.
    fn flag(&self, path: &Path) -> Option<&(Path, String)> {
        self.given.iter().rev().find(|(part, _)| part.covers(path))
    }

    /// Where a path came from, as a problem that says nothing yet.
    fn whence(&self, path: &Path) -> Problem {
        if let Some((part, what)) = self.flag(path) {
            let inner = Path(path.0[part.0.len()..].to_vec());
            return Problem {
                key: inner.to_string(),
                ..Problem::of_file(what, "", "")
            };
        }
        match &self.file {
            Some((name, spot)) => {
                let at = spot.key(path);
                Problem {
                    line: at.line,
                    column: at.column,
                    key: path.to_string(),
                    ..Problem::of_file(name, "", "")
                }
            }
            // Without a file, a problem of a whole group is a problem of the flags in it.
            None => {
                let below = |part: &Path| part.0.len() > path.0.len() && covers_end(part, path);
                let by = self.given.iter().rev().find(|(part, _)| below(part));
                Problem::of_file(by.map_or("", |(_, what)| what), "", "")
            }
        }
    }

    /// Lays the flags over the tree. What several flags of one key give is one value. Gives the problems of those that cannot be read.
    pub(super) fn lay_flags(&mut self, given: &[Given]) -> Vec<Problem> {
        let (mut over, mut problems): (Vec<(&Flag, Value)>, _) = (Vec::new(), Vec::new());
        for Given { flag, text } in given {
            let value = match (flag.read)(text) {
                Ok(value) => value,
                Err(message) => {
                    problems.push(Problem::of_file(format!("--{}", flag.name), message, ""));
                    continue;
                }
            };
            match over.iter_mut().find(|(known, _)| known.name == flag.name) {
                Some((_, before)) => merge(before, value, true),
                None => over.push((flag, value)),
            }
        }
        // First everything that a flag stands instead of, so that two flags which do not go together are seen.
        for (flag, _) in &over {
            for path in self.places(&Path::of(flag.key)) {
                flag.displaces
                    .iter()
                    .for_each(|rival| self.remove(&path, rival));
            }
        }
        for (flag, value) in over {
            for path in self.places(&Path::of(flag.key)) {
                if let Some(place) = self.place(&path) {
                    merge(place, value.clone(), false);
                }
            }
            let what = format!("--{}", flag.name);
            self.given.push((Path::of(flag.key), what));
        }
        problems
    }

    /// Whether the value at a path stands in the file, so that what it names is beside the file.
    pub(super) fn in_file(&self, path: &Path) -> bool {
        self.file.is_some() && self.flag(path).is_none()
    }

    /// Sets one value of one key, as a matrix does.
    pub(super) fn set(&mut self, key: &Path, value: &Value, what: &str) {
        for path in self.places(key) {
            if let Some(place) = self.place(&path) {
                place.clone_from(value);
            }
        }
        self.given.push((key.clone(), what.to_owned()));
    }

    /// The paths that a key with `*` means in this tree.
    fn places(&self, key: &Path) -> Vec<Path> {
        let every = key.0.iter().position(|s| *s == Step::Key("*".into()));
        let Some(at) = every else {
            return vec![key.clone()];
        };
        let above = Path(key.0[..at].to_vec());
        let names = self.get(&above).and_then(Value::as_object);
        let names = names.into_iter().flat_map(|map| map.keys().cloned());
        let below = &key.0[at + 1..];
        names
            .map(|name| Path([above.key(&name).0, below.to_vec()].concat()))
            .collect()
    }

    fn get(&self, path: &Path) -> Option<&Value> {
        path.0
            .iter()
            .try_fold(&self.tree, |value, step| match step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => value.get(index),
            })
    }

    /// The value at a path of keys, made if it is not there. Nothing if what is above is no map.
    fn place(&mut self, path: &Path) -> Option<&mut Value> {
        let mut value = &mut self.tree;
        for step in &path.0 {
            let Step::Key(key) = step else { return None };
            if value.is_null() {
                *value = Value::Object(Map::new());
            }
            value = value.as_object_mut()?.entry(key).or_insert(Value::Null);
        }
        Some(value)
    }

    /// Removes a key beside the one that a path ends in.
    fn remove(&mut self, beside: &Path, key: &str) {
        let above = Path(beside.0[..beside.0.len() - 1].to_vec());
        if let Some(map) = self.place(&above).and_then(Value::as_object_mut) {
            map.shift_remove(key);
        }
    }

    /// Reads the tree, and finds everything that is no key or has the wrong type.
    pub(super) fn file_tree(&self) -> (File, Vec<(Path, Problem)>) {
        let (file, wrong) = read::all(self.tree.clone());
        let problems = wrong.into_iter().map(|(path, wrong)| {
            let problem = self.problem(&path, wrong.message(), &wrong.help(&path));
            (path, problem)
        });
        (file.unwrap_or_default(), problems.collect())
    }
}

/// Whether a path, in which the key `*` is any key, begins with that path and is inside a scenario's group.
fn covers_end(part: &Path, above: &Path) -> bool {
    above.0.len() > 2 && Path(part.0[..above.0.len()].to_vec()).covers(above)
}

/// Lays a value over another: maps are merged, all else is replaced. Flags of one key also add to its list.
fn merge(below: &mut Value, over: Value, append: bool) {
    match (below, over) {
        (Value::Object(below), Value::Object(over)) => {
            for (key, value) in over {
                match below.get_mut(&key) {
                    Some(place) => merge(place, value, append),
                    None => {
                        below.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(below), Value::Array(over)) if append => below.extend(over),
        (below, over) => *below = over,
    }
}
