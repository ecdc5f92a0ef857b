//! A configuration file exactly as it was written, checked against the table of keys.
//!
//! This stage knows shapes and words, not meanings: whether two keys go together, or a file is there, is for
//! `config::read`. It never stops at the first problem.

use super::PROBLEMS_MAX;
use super::keys::{self, Kind};
use super::problem::Problem;
use super::values;
use super::yaml::{self, At, Entry, Node, Value};

/// What was written.
pub(crate) struct File {
    /// The file's name, as the operator gave it.
    pub name: String,
    pub root: Node,
}

impl File {
    /// Reads the text and checks every key. A file that is not YAML is one problem and no file.
    pub(crate) fn parse(name: &str, text: &str) -> (Option<File>, Vec<Problem>) {
        let root = match yaml::parse(text) {
            Ok(root) => root,
            Err(wrong) => {
                let problem = problem_at(name, wrong.at, "", wrong.message, String::new());
                return (None, vec![problem]);
            }
        };
        let mut check = Check {
            name,
            problems: Vec::new(),
        };
        match &root.value {
            Value::Map(entries) => check.group(entries, "", "", root.at),
            Value::Null | Value::Text(_) | Value::List(_) => {
                check.say(
                    root.at,
                    "",
                    "must be a map of keys",
                    "Begin with a line such as listen: 127.0.0.1:8700.",
                );
            }
        }
        let problems = check.problems;
        (
            Some(File {
                name: name.to_owned(),
                root,
            }),
            problems,
        )
    }

    /// A problem at a place of this file, with the help of the key's row.
    pub(crate) fn problem(
        &self,
        at: At,
        path: &str,
        pattern: &str,
        message: impl Into<String>,
    ) -> Problem {
        problem_at(&self.name, at, path, message.into(), help(pattern))
    }
}

fn problem_at(file: &str, at: At, key: &str, message: String, help: String) -> Problem {
    let (line, column) = (at.line, at.column);
    Problem {
        file: file.to_owned(),
        line,
        column,
        key: key.to_owned(),
        message,
        help,
    }
}

/// The help of a key, from its row.
fn help(pattern: &str) -> String {
    keys::find(pattern)
        .map(|key| {
            let last = key.path.rsplit('.').next().filter(|part| *part != "*");
            let last = last.map(|part| format!("{part}: ")).unwrap_or_default();
            format!("{} Example: {last}{}", key.doc, key.example)
        })
        .unwrap_or_default()
}

struct Check<'f> {
    name: &'f str,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn say(&mut self, at: At, path: &str, message: &str, help: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            let problem = problem_at(self.name, at, path, message.to_owned(), help.to_owned());
            self.problems.push(problem);
        }
    }

    /// A map of keys that the table names.
    fn group(&mut self, entries: &[Entry], pattern: &str, path: &str, at: At) {
        for entry in entries {
            let (below, inner) = (join(pattern, &entry.key), join(path, &entry.key));
            // A `*` in the file would be a pattern of the table by chance, so it is no key.
            match keys::find(&below).filter(|_| !entry.key.contains(['*', '.'])) {
                Some(key) => self.value(&entry.node, key.kind, &below, &inner),
                None => self.unknown(entry, pattern, &inner),
            }
        }
        for (name, key) in keys::children(pattern) {
            let there = entries.iter().any(|entry| entry.key == name);
            if key.default == keys::Unset::Required && !there {
                let message = format!("{name} is missing");
                self.say(at, path, &message, &help(key.path));
            }
        }
    }

    fn unknown(&mut self, entry: &Entry, pattern: &str, path: &str) {
        let names = || keys::children(pattern).map(|(name, _)| name);
        let help = match keys::nearest(&entry.key, names()) {
            Some(near) => format!("Did you mean {near}?"),
            None => format!(
                "The keys here are {}.",
                names().collect::<Vec<_>>().join(", ")
            ),
        };
        self.say(entry.at, &shown(path), "there is no such key", &help);
    }

    fn value(&mut self, node: &Node, kind: Kind, pattern: &str, path: &str) {
        match (kind, &node.value) {
            (_, Value::Null) => {
                self.say(
                    node.at,
                    path,
                    "has no value; leave the key out or give it one",
                    &help(pattern),
                );
            }
            (Kind::Group | Kind::Feature | Kind::GroupOr(_), Value::Map(entries)) => {
                self.group(entries, pattern, path, node.at);
            }
            (
                Kind::Names | Kind::Variables | Kind::Arguments | Kind::Rules,
                Value::Map(entries),
            ) => {
                self.named(entries, kind, pattern, path);
            }
            (Kind::List(kind) | Kind::OneOrMore(kind), Value::List(nodes)) => {
                for (i, node) in nodes.iter().enumerate() {
                    self.value(node, *kind, pattern, &format!("{path}[{i}]"));
                }
            }
            (kind, Value::Text(text)) => {
                if let Err(message) = kind.check(text) {
                    self.say(node.at, path, &message, &help(pattern));
                }
            }
            (_, Value::Map(_) | Value::List(_)) => {
                let message = format!("has to be: {}", kind.describe());
                self.say(node.at, path, &message, &help(pattern));
            }
        }
    }

    /// A map whose keys the operator names.
    fn named(&mut self, entries: &[Entry], kind: Kind, pattern: &str, path: &str) {
        let below = join(pattern, "*");
        let row = keys::find(&below).expect("a map by name has a row for its values");
        for entry in entries {
            let inner = join(path, &entry.key);
            let fits = match kind {
                Kind::Variables if !values::env_name(&entry.key) => {
                    Err("must be a variable's name: letters, digits and _".to_owned())
                }
                Kind::Names => values::name(&entry.key).map(drop),
                Kind::Arguments if !(1..=256).contains(&entry.key.len()) => {
                    Err("must be an argument's name of 1 to 256 bytes".to_owned())
                }
                _ => Ok(()),
            };
            if let Err(message) = fits {
                self.say(entry.at, &shown(&inner), &message, &help(pattern));
            }
            self.value(&entry.node, row.kind, &below, &inner);
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// A path for a message: what was written may be long or hold control characters.
fn shown(path: &str) -> String {
    path.chars().filter(|c| !c.is_control()).take(200).collect()
}
