//! `weir config`: look at a configuration without serving it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use store::audit::{self, Against, Kind};
use terminal::visible_json;

use super::problems::{ProblemCode, to_json};
use super::{
    Answer, ConfigFile, Ended, OneConfigFile, print, print_problems, print_warnings, readable,
};
use crate::config::{Problem, Settings, file};
use crate::coverage::Coverage;

/// Check or show a configuration, or print its schema
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir config check         Say everything that is wrong with weir.yaml
  weir config show          Show what holds, with defaults filled in")]
pub(super) enum Config {
    Check(Check),
    Show(Show),
    /// Print the JSON Schema of the configuration, for editors
    #[command(
        after_help = "Examples:\n  weir config schema > weir.schema.json\n\nThen begin weir.yaml with:\n  # yaml-language-server: $schema=weir.schema.json\n\nExit codes: 0 printed, 2 standard output cannot be written."
    )]
    Schema,
}

/// Do all that serving does before it listens, and say every problem at once
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir config check
  weir config check /etc/weir/weir.yaml
  weir config check --json | jq -r '.problems[] | \"\\(.file):\\(.line): \\(.text)\"'

With --json, one object: `good`, `file`, `problems`, `warnings`, and where it is good `agents`, `servers` and `policies`
(how many). A problem and a warning have `file`, `line` and `column` (from 1; line 0 is the whole file), `key` (empty where
there is none), `code`, `text` and `help`. Codes: config.invalid (what is written, or what it names), config.folder (something
else stands where the gateway keeps a folder), log.damaged, policy.invalid (policies and scan rules), config.warning.

Exit codes: 0 no problem, 1 problems, 2 it cannot be read.")]
pub(super) struct Check {
    #[command(flatten)]
    file: OneConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print the settings that hold, with defaults; secrets stay references
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir config show\n  weir config show -c /etc/weir/weir.yaml\n  weir config show --coverage\n\nExit codes: 0 printed, 1 the configuration has problems, 2 it cannot be read."
)]
pub(super) struct Show {
    #[command(flatten)]
    file: ConfigFile,
    /// Print what the scan does about each class of findings, in each lane and direction
    #[arg(long)]
    coverage: bool,
    /// Print the coverage as JSON
    #[arg(long, requires = "coverage")]
    json: bool,
}

impl Config {
    pub(super) fn run(self) -> Ended {
        match self {
            Config::Check(command) => command.run(),
            Config::Show(command) => command.run(),
            Config::Schema => {
                let schema = config::schema::publish(&file::schema(), "weir configuration");
                print(&format!("{schema:#}\n"))?;
                Ok(Answer::Yes)
            }
        }
    }
}

impl Check {
    fn run(self) -> Ended {
        let settings = match self.file.named().read()? {
            Ok(settings) => settings,
            Err(problems) => return self.wrong(ProblemCode::Config, &problems),
        };
        let misplaced = misplaced(&settings);
        if !misplaced.is_empty() {
            return self.wrong(ProblemCode::Folder, &misplaced);
        }
        let damaged = damaged(&settings);
        if !damaged.is_empty() {
            return self.wrong(ProblemCode::Log, &damaged);
        }
        let policies = match crate::config::compile::all(&settings, [0; 32]) {
            Ok((policies, _engine)) => policies.len(),
            Err(problems) => return self.wrong(ProblemCode::Policy, &problems),
        };
        let (agents, servers) = (settings.agents.len(), settings.servers.len());
        let path = settings.file.display().to_string();
        if self.json {
            let warnings = to_json(ProblemCode::Warning, &settings.warnings);
            let value = json!({
                "good": true, "file": path, "problems": [], "warnings": warnings,
                "agents": agents, "servers": servers, "policies": policies,
            });
            print(&format!("{}\n", visible_json(&value.to_string())))?;
            return Ok(Answer::Yes);
        }
        print_warnings(&settings.warnings);
        print(&format!(
            "{path} is good: agents: {agents}, servers: {servers}, policies: {policies}\n"
        ))?;
        Ok(Answer::Yes)
    }

    fn wrong(&self, code: ProblemCode, problems: &[Problem]) -> Ended {
        if self.json {
            let file = self.file.named().path().display().to_string();
            let problems = to_json(code, problems);
            let value =
                json!({ "good": false, "file": file, "problems": problems, "warnings": [] });
            print(&format!("{}\n", visible_json(&value.to_string())))?;
        } else {
            print_problems(problems);
        }
        Ok(Answer::No)
    }
}

/// What stands where the gateway would keep a folder, and is none.
fn misplaced(settings: &Settings) -> Vec<Problem> {
    let state = &settings.state;
    let folders = [state.clone(), state.join("log"), state.join("pins")];
    let is_other = |path: &PathBuf| path.exists() && !path.is_dir();
    let problem = |path: PathBuf| {
        let message = "is no folder, and the gateway keeps one of this name";
        let help = "Move it away, or name another folder as state.";
        Problem::of_file(path.display().to_string(), message, help)
    };
    let misplaced = folders.into_iter().filter(is_other);
    misplaced.map(problem).collect()
}

/// Logs that serving would not go on with. What was signed long ago is looked at by its hashes alone, as there.
fn damaged(settings: &Settings) -> Vec<Problem> {
    let names = store::state::log_names(Path::new(""));
    let logs = names.map(|(name, _)| settings.state.join(name));
    let against = Against {
        since: true,
        ..Against::default()
    };
    let problem = |log: PathBuf| {
        let damage = audit::verify_against(&log, against).err()?;
        // A log that has not begun is none yet.
        (damage.kind != Kind::Unreadable).then(|| {
            let message = format!("the log is damaged at {damage}");
            let help = "See weir audit verify; move the folder away to begin another log.";
            Problem::of_file(log.display().to_string(), message, help)
        })
    };
    logs.filter(|log| log.is_dir())
        .filter_map(problem)
        .collect()
}

impl Show {
    /// Shows only what the first stage found well formed, so that nothing is shown that would not hold.
    fn run(self) -> Ended {
        if self.coverage {
            return self.coverage();
        }
        let path = self.file.path();
        let text = readable(&path)?;
        let problems = match file::read(&path.display().to_string(), &text) {
            Ok((document, _, problems)) if problems.is_empty() => {
                print(&document.show())?;
                return Ok(Answer::Yes);
            }
            Ok((_, _, problems)) => problems,
            Err(problem) => vec![problem],
        };
        print_problems(&problems);
        Ok(Answer::No)
    }

    fn coverage(self) -> Ended {
        let settings = match self.file.checked() {
            Ok(settings) => settings,
            Err(ended) => return ended,
        };
        print_warnings(&settings.warnings);
        let coverage = Coverage::new(&settings);
        print(&match self.json {
            true => format!("{:#}\n", coverage.to_json()),
            false => coverage.lines().join("\n") + "\n",
        })?;
        Ok(Answer::Yes)
    }
}
