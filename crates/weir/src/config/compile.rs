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
    policy::Policies::load(&sources, &settings.policy.arguments).map_err(|problems| {
        let mut problems: Vec<Problem> = problems.into_iter().map(Problem::from).collect();
        // The compiler gives them in no order of its own.
        problems.sort_by(|a, b| {
            let place = |p: &Problem| (p.file.clone(), p.line, p.column, p.message.clone());
            place(a).cmp(&place(b))
        });
        problems
    })
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
