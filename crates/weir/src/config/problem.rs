//! One thing that is wrong with the configuration: where it is, what it is, and how to mend it.
//!
//! It never carries a value that may be a secret.

use std::fmt;

/// A problem, as `weir config check` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, as the operator named it.
    pub file: String,
    /// Line and column, from 1; line 0 where the whole file is meant.
    pub line: usize,
    pub column: usize,
    /// The key's path, such as `agents.dev.key`; empty where there is none.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it; may be empty.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        f.write_str(": ")?;
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
