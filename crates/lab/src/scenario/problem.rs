//! What is wrong with a scenario, and where: in a file's line, at a flag, or in a cell of a matrix.
//!
//! A value may be a credential that somebody wrote in the wrong place, so a problem names keys and never
//! repeats what stood behind those that carry secrets.

use std::fmt;

use crate::exit::Failure;

/// Most problems that are told at once.
pub const PROBLEMS_MAX: usize = 100;

/// One step of a path into a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// Where a value stands, such as `scenarios.api.stages[2].ramp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// Of a path written with dots and without indices.
    pub fn of(dotted: &str) -> Path {
        let keys = dotted.split('.').filter(|key| !key.is_empty());
        Path(keys.map(|key| Step::Key(key.to_owned())).collect())
    }

    /// The path of a key below.
    pub fn key(&self, key: &str) -> Path {
        self.with(Step::Key(key.to_owned()))
    }

    /// The path of an element below.
    pub fn index(&self, index: usize) -> Path {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Path {
        let mut steps = self.0.clone();
        steps.push(step);
        Path(steps)
    }

    /// Whether this path, in which the key `*` is any key, begins with that path and is inside a scenario's group.
    pub fn covers_end(&self, above: &Path) -> bool {
        above.0.len() > 2 && Path(self.0[..above.0.len()].to_vec()).covers(above)
    }

    /// Whether this path, in which the key `*` is any key, is that path or above it.
    pub fn covers(&self, other: &Path) -> bool {
        let same = |(a, b): (&Step, &Step)| a == b || *a == Step::Key("*".into());
        self.0.len() <= other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file with line and column, the flag, or the cell; empty where the whole command is meant.
    pub place: Place,
    /// The key's path; empty where there is none, or where the flag says it all.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it; may be empty.
    pub help: String,
}

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On the command line, or in the machine: what was given, such as `--rate`; may be empty.
    Given(String),
    /// In a file. The line and the column count from 1; line 0 is the whole file.
    File {
        name: String,
        line: usize,
        column: usize,
    },
}

impl Problem {
    /// A problem of the whole command or of the machine.
    pub fn general(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem {
            place: Place::Given(String::new()),
            key: String::new(),
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Given(given) if given.is_empty() => {}
            Place::Given(given) => write!(f, "{given}: ")?,
            Place::File { name, line: 0, .. } => write!(f, "{name}: ")?,
            Place::File { name, line, column } => write!(f, "{name}:{line}:{column}: ")?,
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if !self.help.is_empty() {
            write!(f, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// All problems as the one failure of a command.
pub fn failure(problems: &[Problem]) -> Failure {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Failure::new(texts.join("\n"), "")
}

/// The known name that was most likely meant: at most two letters away, or the only one that begins so.
pub fn meant<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let known: Vec<&str> = known.into_iter().collect();
    let near = known.iter().map(|name| (distance(written, name), *name));
    let limit = if written.len() < 4 { 1 } else { 2 };
    if let Some((_, name)) = near.filter(|(away, _)| *away <= limit).min() {
        return Some(name);
    }
    let mut begin = known.iter().filter(|name| {
        written.len() > 1 && (name.starts_with(written) || written.starts_with(**name))
    });
    match (begin.next(), begin.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

/// Letters to insert, remove or replace (Levenshtein, 1965); long texts are simply far apart.
fn distance(a: &str, b: &str) -> usize {
    const LETTERS_MAX: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().max(b.len()) > LETTERS_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant() {
        let known = ["connections", "rate", "stages", "headers", "timeout"];
        assert_eq!(meant("conections", known), Some("connections"));
        assert_eq!(meant("header", known), Some("headers"));
        assert_eq!(meant("time", known), Some("timeout"));
        assert_eq!(meant("rats", known), Some("rate"));
        assert_eq!(meant("zebra", known), None);
        assert_eq!(meant(&"x".repeat(10_000), known), None);
    }

    #[test]
    fn paths() {
        let path = Path::of("scenarios.api.stages").index(2).key("ramp");
        assert_eq!(path.to_string(), "scenarios.api.stages[2].ramp");
        assert!(Path::of("scenarios.*.stages").covers(&path));
        assert!(!Path::of("scenarios.*.rate").covers(&path));
        assert!(!path.covers(&Path::of("scenarios.api")));
    }
}
