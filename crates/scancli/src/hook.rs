//! `weir hook`: judges one event of a coding agent, and answers in that program's own protocol.
//!
//! It reads the event on standard input and nothing else, not even a configuration unless one is named, so
//! that it is ready before anybody notices. An event that it cannot read, or cannot judge to its end, is
//! refused; an event that it does not know is none of its business, and passes. Each event that it judges is recorded
//! before it answers; what cannot be recorded is refused, unless its options say otherwise.

mod claude;
mod cursor;
mod event;
mod record;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use terminal::{Answer, Ended, Failure, print};

pub use record::{HookLog, OpenHookLog};

use record::{Recording, Records};

use super::ReadSettings;
use super::with::With;

/// Judge an event of Claude Code or Cursor, as a hook of that program
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir hook claude --print-settings    What to put into .claude/settings.json
  weir hook cursor --print-settings    What to put into .cursor/hooks.json
  weir hook claude < event.json")]
pub struct Hook {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    Claude(Claude),
    Cursor(Cursor),
}

/// Answer an event of Claude Code: PreToolUse, PostToolUse, UserPromptSubmit
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir hook claude --print-settings    What to put into .claude/settings.json
  weir hook claude < event.json

Nothing is printed where nothing is found, so that the program's own permissions hold. An event that
cannot be judged is refused with exit code 2. Each event that is judged leaves a record:
  weir audit show --state ~/.local/state/weir/hook --last 20

Exit codes: 0 answered, be it yes or no, 2 refused because the event could not be read, judged or recorded.")]
struct Claude {
    #[command(flatten)]
    options: Options,
}

/// Answer an event of Cursor: before a command, an MCP call, a file that is read, a prompt
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir hook cursor --print-settings    What to put into .cursor/hooks.json
  weir hook cursor < event.json

An event that cannot be judged is denied. Each event that is judged leaves a record:
  weir audit show --state ~/.local/state/weir/hook --last 20

Exit code: 0, whatever the answer is.")]
struct Cursor {
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
struct Options {
    /// Print the settings that install the hook, and read no event
    #[arg(long)]
    print_settings: bool,
    /// Ask the person where a call would be refused
    #[arg(long)]
    ask: bool,
    /// Who the coding agent is in records; by default claude or cursor
    #[arg(long, value_name = "NAME", value_parser = agent)]
    agent: Option<String>,
    /// The folder of the log; by default `hook` in the state folder of --config, or else weir/hook in $XDG_STATE_HOME or
    /// ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// What is done about an event whose record cannot be written
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    record: Recording,
    #[command(flatten)]
    with: With,
}

fn agent(text: &str) -> Result<String, String> {
    let wrong = "must be 1 to 64 letters, digits, dots, _ or -, and begin with a letter or digit";
    let name = base::Name::new(text).ok_or_else(|| wrong.to_owned())?;
    Ok(name.to_string())
}

impl Hook {
    /// Answers the event, or prints how the hook is installed. `read` reads the configuration of `--config`, `open`
    /// finds the log.
    pub fn run(self, read: ReadSettings, open: OpenHookLog) -> Ended {
        match self.program {
            Program::Claude(Claude { options }) if options.print_settings => {
                let command = options.command("claude")?;
                print(&format!("{:#}\n", claude::settings(&command)))?;
                Ok(Answer::Yes)
            }
            Program::Cursor(Cursor { options }) if options.print_settings => {
                let command = options.command("cursor")?;
                print(&format!("{:#}\n", cursor::settings(&command)))?;
                Ok(Answer::Yes)
            }
            Program::Claude(Claude { options }) => {
                claude::run(&options, read, Records::new(&options, open))
            }
            Program::Cursor(Cursor { options }) => {
                cursor::run(&options, read, Records::new(&options, open))
            }
        }
    }
}

impl Options {
    /// The command that a program is to run, with the options that were given.
    fn command(&self, program: &str) -> Result<String, Failure> {
        let mut words = vec![command(program)?];
        if let Some(agent) = &self.agent {
            words.push(format!("--agent {agent}"));
        }
        if let Some(state) = &self.state {
            // The program may run the hook in any folder.
            let state = std::path::absolute(state);
            let state = state.map_err(|error| Failure::new(format!("--state: {error}"), ""))?;
            words.push(format!("--state {}", quoted(&state.display().to_string())));
        }
        if self.record != Recording::default() {
            words.push(format!("--record {}", self.record.as_str()));
        }
        if self.ask {
            words.push("--ask".to_owned());
        }
        for (flag, path) in self.with.paths() {
            let path = std::path::absolute(path);
            let path = path.map_err(|error| Failure::new(format!("{flag}: {error}"), ""))?;
            words.push(format!("{flag} {}", quoted(&path.display().to_string())));
        }
        Ok(words.join(" "))
    }
}

/// The command that a program is to run: this binary by its full path, for a hook that is not found lets
/// everything pass.
fn command(program: &str) -> Result<String, Failure> {
    let path = std::env::current_exe();
    let path =
        path.map_err(|error| Failure::new(format!("this binary has no path: {error}"), ""))?;
    let path = quoted(&path.display().to_string());
    Ok(format!("{path} hook {program}"))
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match !word.is_empty() && word.chars().all(safe) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
