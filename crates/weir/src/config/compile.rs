//! From settings to what judges: the last step before serving that can find something wrong.
//!
//! `weir config check` and `weir serve` both take it, so what the one finds good the other can serve.

use super::{Problem, Settings};

/// Compiles the policies. Errors: every problem of every policy file.
pub fn policies(settings: &Settings) -> Result<policy::Policies, Vec<Problem>> {
    let files = settings.policy.files.iter();
    let sources: Vec<policy::Source<'_>> = files
        .map(|file| policy::Source {
            file: &file.file,
            text: &file.text,
        })
        .collect();
    policy::Policies::load(&sources, &settings.policy.arguments)
        .map_err(|problems| problems.into_iter().map(Problem::from).collect())
}

impl From<policy::Problem> for Problem {
    fn from(problem: policy::Problem) -> Problem {
        let policy::Problem {
            file,
            line,
            column,
            message,
            help,
        } = problem;
        Problem {
            file,
            line,
            column,
            key: String::new(),
            message,
            help,
        }
    }
}
