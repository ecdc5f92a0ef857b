//! What every command line has in common: how a command ends, and what it says on standard output and standard error.
//!
//! Answers go to standard output. What went wrong, and how to mend it, goes to standard error, in colour on a terminal
//! only. What agents, servers and files wrote is made visible before it is printed ([`visible`]). It knows nothing of
//! what the commands do.

mod visible;

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

pub use visible::{visible, visible_json, visible_lines};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, or yes: exit code 0.
    Yes,
    /// No: exit code 1.
    No,
}

/// Why a command could not be done: exit code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, and where.
    pub what: String,
    /// How to mend it; may be empty.
    pub help: String,
}

impl Failure {
    /// What went wrong and where, and how to mend it (may be empty).
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// What a command returns.
pub type Ended = Result<Answer, Failure>;

/// The exit code of a command that ended so. A failure is printed.
pub fn exit(ended: Ended) -> ExitCode {
    match ended {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(failure) => {
            fail(&failure);
            ExitCode::from(2)
        }
    }
}

/// Prints a failure for people on standard error, and where the command line asks for JSON, as an object on standard output too:
/// `{"error":…,"help":…}`.
pub fn fail(failure: &Failure) {
    complain(&failure.what, &failure.help);
    fail_in_json(failure);
}

/// Prints a failure on standard output where the command line asks for JSON, and nothing else.
pub fn fail_in_json(failure: &Failure) {
    if asks_for_json() {
        // Standard error has it as well.
        let _ = print(&format!("{}\n", as_json(failure)));
    }
}

/// Whether `--json` is among this process's arguments; what follows `--` is another program's.
fn asks_for_json() -> bool {
    let own = std::env::args_os().skip(1);
    own.take_while(|word| word != "--")
        .any(|word| word == "--json")
}

fn as_json(failure: &Failure) -> String {
    let object = serde_json::json!({ "error": failure.what, "help": failure.help });
    visible_json(&object.to_string()).into_owned()
}

/// Writes an error and its help to standard error, in colour on a terminal only.
pub fn complain(what: &str, help: &str) {
    tell("error", "\x1b[31m", what, help);
}

/// Writes a warning and its help to standard error: something to know of that keeps nothing from working.
pub fn warn(what: &str, help: &str) {
    tell("warning", "\x1b[33m", what, help);
}

fn tell(kind: &str, colour_of_kind: &str, what: &str, help: &str) {
    let mut stderr = std::io::stderr().lock();
    let (start, end) = if has_colour(&stderr) {
        (colour_of_kind, "\x1b[0m")
    } else {
        ("", "")
    };
    let mut text = format!("{start}{kind}:{end} {}\n", visible_lines(what));
    if !help.is_empty() {
        text.push_str(&format!("  help: {}\n", visible_lines(help)));
    }
    // There is nobody to tell where standard error is closed.
    let _ = stderr.write_all(text.as_bytes());
}

/// Whether colours are to be written there: on a terminal, unless NO_COLOR is set.
pub fn has_colour(to: &impl IsTerminal) -> bool {
    to.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A line for the person at the terminal, on standard error.
pub fn remark(text: &str) {
    // There is nobody to tell where standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes to standard output. A reader that went away (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(unwritable_output(&error)),
    }
}

/// Standard output cannot be written, other than because its reader went away.
pub fn unwritable_output(error: &std::io::Error) -> Failure {
    Failure::new(format!("standard output cannot be written: {error}"), "")
}

/// Writes a new file; fails where one is there already.
pub fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display()), ""))
}
