//! What was asked for: a file's tree with flags and a matrix cell laid over it, and where each part came from.
//!
//! Everything is laid over as values before anything is judged, so a flag is checked by the same code, and
//! complained about in the same words, as its key.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::file::File;
use super::flags::{Flag, Given};
use super::problem::{PROBLEMS_MAX, Path, Place, Problem, Step, meant};
use super::yaml::{self, Spot};

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
            place: Place::File {
                name: name.to_owned(),
                line,
                column,
            },
            key: String::new(),
            message: message.to_owned(),
            help: String::new(),
        };
        let (tree, spot) =
            yaml::parse(text).map_err(|w| wrong(w.at.line, w.at.column, &w.message))?;
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
        let (place, key) = self.whence(path);
        Problem {
            place,
            key,
            message: message.into(),
            help: help.to_owned(),
        }
    }

    fn whence(&self, path: &Path) -> (Place, String) {
        let by = self.given.iter().rev().find(|(part, _)| part.covers(path));
        if let Some((part, what)) = by {
            let inner = Path(path.0[part.0.len()..].to_vec());
            return (Place::Given(what.clone()), inner.to_string());
        }
        match &self.file {
            Some((name, spot)) => {
                let at = spot.find(path);
                let place = Place::File {
                    name: name.clone(),
                    line: at.line,
                    column: at.column,
                };
                (place, path.to_string())
            }
            // Without a file, a problem of a whole group is a problem of the flags in it.
            None => {
                let below = |part: &Path| part.0.len() > path.0.len() && part.covers_end(path);
                let by = self.given.iter().rev().find(|(part, _)| below(part));
                let what = by.map_or_else(String::new, |(_, what)| what.clone());
                (Place::Given(what), String::new())
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
                    let mut problem = Problem::general(message, "");
                    problem.place = Place::Given(format!("--{}", flag.name));
                    problems.push(problem);
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
        matches!(self.whence(path).0, Place::File { .. })
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
        let (mut tree, mut problems) = (self.tree.clone(), Vec::new());
        let mut seen = BTreeSet::new();
        while problems.len() < PROBLEMS_MAX {
            let error = match serde_path_to_error::deserialize::<_, File>(&tree) {
                Ok(file) => return (file, problems),
                Err(error) => error,
            };
            let path = path_of(error.path());
            let (message, help) = reworded(&error.into_inner().to_string());
            let unknown = message == "is not a key here";
            if seen.insert(path.to_string()) {
                problems.push((path.clone(), self.problem(&path, message, &help)));
            }
            if !forget(&mut tree, &path, unknown) {
                break;
            }
        }
        (File::default(), problems)
    }
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

fn path_of(path: &serde_path_to_error::Path) -> Path {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { variant } => Some(Step::Key(variant.clone())),
        Segment::Unknown => None,
    });
    Path(steps.collect())
}

/// Takes what is wrong out of the tree, so that what comes after it is read. What is nothing already has to go
/// with what it is in. Nothing is left to forget when this is false.
fn forget(tree: &mut Value, path: &Path, remove: bool) -> bool {
    let mut steps = path.0.as_slice();
    loop {
        let value = steps.iter().try_fold(&mut *tree, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        });
        match value {
            Some(found) if !found.is_null() && !steps.is_empty() => {
                *found = Value::Null;
                break;
            }
            Some(_) if remove && steps.len() == path.0.len() && !steps.is_empty() => break,
            _ => {}
        }
        match steps.split_last() {
            Some((_, above)) => steps = above,
            None => return false,
        }
    }
    if remove
        && let Some((Step::Key(key), above)) = path.0.split_last()
        && let Some(Value::Object(map)) = above.iter().try_fold(tree, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        })
    {
        map.shift_remove(key);
    }
    true
}

/// Serde's words in ours: the message and the help.
fn reworded(error: &str) -> (String, String) {
    let quoted: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
    let known = quoted.get(1..).unwrap_or_default();
    let listed = || format!("there are {}", known.join(", "));
    let suggested = || {
        let near = quoted
            .first()
            .and_then(|written| meant(written, known.iter().copied()));
        match near {
            Some(near) => format!("did you mean {near}?"),
            None => listed(),
        }
    };
    if error.starts_with("unknown field") {
        return ("is not a key here".to_owned(), suggested());
    }
    if error.starts_with("unknown variant") {
        let written = quoted.first().unwrap_or(&"");
        return (format!("`{written}` is not known"), suggested());
    }
    let expected = error.split_once("expected ").map(|(_, expected)| expected);
    match expected {
        Some(expected) if error.starts_with("invalid ") => {
            let expected = match expected {
                "string or map" | "map with a single key" => "a word, or a map with one key",
                expected if expected.starts_with("struct ") => "a map",
                "a sequence" => "a list",
                expected => expected,
            };
            (
                format!("is not what it should be: {expected}"),
                String::new(),
            )
        }
        _ => (error.to_owned(), String::new()),
    }
}
