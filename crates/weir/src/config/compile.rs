//! From settings to what judges: the last step before serving that can find something wrong.
//!
//! `weir config check` and `weir serve` both take it, so what the one finds good the other can serve.

use super::{Problem, Settings};
use crate::lanes;

/// Compiles the policies. Errors: every problem of every policy file.
pub(crate) fn policies(settings: &Settings) -> Result<policy::Policies, Vec<Problem>> {
    let files = settings.policy.files.iter();
    let sources: Vec<policy::Source<'_>> = files
        .map(|file| policy::Source {
            file: &file.file,
            text: &file.text,
        })
        .collect();
    policy::Policies::load(&lanes::tables(), &sources, &settings.policy.arguments).map_err(
        |problems| {
            let mut problems: Vec<Problem> = problems.into_iter().map(of_policy).collect();
            // The compiler gives them in no order of its own.
            problems.sort_by(|a, b| {
                let place = |p: &Problem| (p.file.clone(), p.line, p.column, p.message.clone());
                place(a).cmp(&place(b))
            });
            problems
        },
    )
}

/// Compiles the scan engine. Errors: the rules do not go together.
pub(crate) fn engine(
    settings: &Settings,
    fingerprint_key: [u8; 32],
) -> Result<scan::Engine, Problem> {
    scan::Engine::compile(settings.scan.clone(), fingerprint_key).map_err(|message| Problem {
        key: "scan.folder".to_owned(),
        ..Problem::of_file(
            settings.file.display().to_string(),
            format!("the rules cannot be compiled together: {message}"),
            "Give your rules fewer or shorter literals.",
        )
    })
}

/// Compiles all that judges. Errors: every problem of policies and rules.
pub(crate) fn all(
    settings: &Settings,
    fingerprint_key: [u8; 32],
) -> Result<(policy::Policies, scan::Engine), Vec<Problem>> {
    match (policies(settings), engine(settings, fingerprint_key)) {
        (Ok(policies), Ok(engine)) => Ok((policies, engine)),
        (policies, engine) => {
            let mut problems = policies.err().unwrap_or_default();
            problems.extend(engine.err());
            Err(problems)
        }
    }
}

fn of_policy(problem: policy::Problem) -> Problem {
    Problem {
        line: problem.line,
        column: problem.column,
        ..Problem::of_file(problem.file, problem.message, problem.help)
    }
}
