//! What is wrong with a configuration or its policies, as JSON for programs.
//!
//! Field names and codes are stable: `weir config check --help` and `weir policy check --help` say them, and so does the
//! reference of commands, which is made from these.

use serde_json::{Value, json};

use crate::config::Problem;

/// Which check found a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProblemCode {
    /// What is written, or a file or a variable that it names.
    Config,
    /// Something else stands where the gateway keeps a folder.
    Folder,
    /// A log in the state folder is not what was written.
    Log,
    /// The policies or the scan rules, when they are compiled.
    Policy,
    /// Something to know of, which keeps nothing from working.
    Warning,
}

impl ProblemCode {
    fn as_str(self) -> &'static str {
        match self {
            ProblemCode::Config => "config.invalid",
            ProblemCode::Folder => "config.folder",
            ProblemCode::Log => "log.damaged",
            ProblemCode::Policy => "policy.invalid",
            ProblemCode::Warning => "config.warning",
        }
    }
}

/// The problems as a list of objects.
pub(super) fn to_json(code: ProblemCode, problems: &[Problem]) -> Value {
    let each = |problem: &Problem| {
        json!({
            "file": problem.file,
            "line": problem.line,
            "column": problem.column,
            "key": problem.key,
            "code": code.as_str(),
            "text": problem.message,
            "help": problem.help,
        })
    };
    problems.iter().map(each).collect()
}
