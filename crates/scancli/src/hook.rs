//! `weir hook`: judges one event of a coding agent, and answers in that program's own protocol.
//!
//! It reads the event on standard input and nothing else, not even a configuration unless one is named, so
//! that it is ready before anybody notices. An event that it cannot read, or cannot judge to its end, is
//! refused; an event that it does not know is none of its business, and passes.

mod claude;
mod cursor;
mod event;

use clap::{Args, Subcommand};
use terminal::{Answer, Ended, Failure, print};

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
cannot be judged is refused with exit code 2.")]
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

An event that cannot be judged is denied.")]
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
    #[command(flatten)]
    with: With,
}

impl Hook {
    /// Answers the event, or prints how the hook is installed. `read` reads the configuration of `--config`.
    pub fn run(self, read: ReadSettings) -> Ended {
        match self.program {
            Program::Claude(Claude { options }) if options.print_settings => {
                print(&format!("{:#}\n", claude::settings(&command("claude")?)))?;
                Ok(Answer::Yes)
            }
            Program::Cursor(Cursor { options }) if options.print_settings => {
                print(&format!("{:#}\n", cursor::settings(&command("cursor")?)))?;
                Ok(Answer::Yes)
            }
            Program::Claude(Claude { options }) => claude::run(&options, read),
            Program::Cursor(Cursor { options }) => cursor::run(&options, read),
        }
    }
}

/// The command that a program is to run: this binary by its full path, for a hook that is not found lets
/// everything pass.
fn command(program: &str) -> Result<String, Failure> {
    let path = std::env::current_exe();
    let path =
        path.map_err(|error| Failure::new(format!("this binary has no path: {error}"), ""))?;
    let path = path.display().to_string();
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    Ok(match path.chars().all(safe) {
        true => format!("{path} hook {program}"),
        false => format!("'{}' hook {program}", path.replace('\'', "'\\''")),
    })
}
