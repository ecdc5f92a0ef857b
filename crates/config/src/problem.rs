//! One thing that is wrong with what was written: where it is, what it is, and how to mend it.
//!
//! It never carries a value that may be a secret.

use std::fmt;

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// Where a value stands, such as `scenarios.api.stages[2].ramp`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Whether this path, in which the key `*` is any key, is that path or above it.
    pub fn covers(&self, other: &Path) -> bool {
        let same = |(a, b): (&Step, &Step)| a == b || *a == Step::Key("*".into());
        self.0.len() <= other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

/// As an operator writes it. What was written may be long or hold control characters, and is shown without.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KEY_MAX: usize = 200;
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    let shown = key.chars().filter(|c| !c.is_control()).take(KEY_MAX);
                    let dot = if at == 0 { "" } else { "." };
                    write!(f, "{dot}{}", shown.collect::<String>())?;
                }
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file as it was named, or what was given instead of one, such as a flag; empty where all of it is meant.
    pub file: String,
    /// Line and column, from 1; line 0 is the whole file.
    pub line: usize,
    pub column: usize,
    /// The key's path; empty where there is none.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it; may be empty.
    pub help: String,
}

impl Problem {
    /// A problem of a whole file.
    pub fn of_file(
        file: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Problem {
        Problem {
            file: file.into(),
            message: message.into(),
            help: help.into(),
            ..Problem::default()
        }
    }

    /// A problem of the whole command or of the machine.
    pub fn general(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem::of_file("", message, help)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.file.is_empty() {
            f.write_str(": ")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let path = Path::of("scenarios.api.stages").index(2).key("ramp");
        assert_eq!(path.to_string(), "scenarios.api.stages[2].ramp");
        assert!(Path::of("scenarios.*.stages").covers(&path));
        assert!(!Path::of("scenarios.*.rate").covers(&path));
        assert!(!path.covers(&Path::of("scenarios.api")));
        let odd = Path::default().key("a\u{1b}[31m").to_string();
        assert_eq!(odd, "a[31m");
    }
}
