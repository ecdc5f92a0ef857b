//! The command line: what a person or a script can ask of the binary.
//!
//! Each command is one file below `cli/` and one row here. What a command has to say goes to standard output;
//! what went wrong, where, and how to mend it goes to standard error.

mod agent;
mod audit;
mod code;
mod completions;
mod config;
mod hook;
mod init;
mod lab;
mod mcp;
mod pins;
mod policy;
mod reference;
mod relay;
mod scan;
mod serve;
mod tools;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{Problem, Seen, Settings};

const EXAMPLES: &str = "\
Examples:
  weir init                 Write weir.yaml, with a key for a first agent
  weir config check         Say everything that is wrong with it
  weir serve                Serve it
  weir scan notes.md        Say whether it may leave
  weir code search retries  Find code in this repository
  weir audit verify state   Prove that the log is whole
  weir relay keygen my.key  Make a key pair for the sealed relay
  weir lab load URL -c 64   Measure what a server carries

Exit codes:
  0  done, or yes
  1  no: the configuration has problems, the policy refuses, the scan found something
  2  could not be done: wrong use, or a file that cannot be read or written
The lab has more: weir lab --help";

/// The gateway that every agent's traffic goes through: identified, judged, scanned, recorded.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Serve(serve::Serve),
    #[command(subcommand)]
    Config(config::Config),
    #[command(subcommand)]
    Policy(policy::Policy),
    #[command(subcommand)]
    Audit(audit::Audit),
    #[command(subcommand)]
    Pins(pins::Pins),
    #[command(subcommand)]
    Agent(agent::Agent),
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    #[command(subcommand)]
    Relay(Box<relay::Relay>),
    Scan(Box<scan::Scan>),
    #[command(subcommand)]
    Code(code::Code),
    #[command(subcommand)]
    Tools(tools::Tools),
    Hook(Box<hook::Hook>),
    Lab(lab::Lab),
    Completions(completions::Completions),
    Reference(reference::Reference),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, or yes: exit code 0.
    Yes,
    /// No: exit code 1.
    No,
}

/// Why a command could not be done: exit code 2.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    help: String,
}

impl Failure {
    /// What went wrong and where, and how to mend it (may be empty).
    pub(crate) fn new(what: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            help: help.into(),
        }
    }
}

/// What each command returns.
pub(crate) type Ended = Result<Answer, Failure>;

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Init(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Policy(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Pins(command) => command.run(),
        Command::Agent(command) => command.run(),
        Command::Mcp(command) => return command.run(),
        Command::Relay(command) => command.run(),
        Command::Scan(command) => command.run(),
        Command::Code(command) => command.run(),
        Command::Tools(command) => command.run(),
        Command::Hook(command) => command.run(),
        Command::Lab(command) => return command.run(),
        Command::Completions(command) => command.run(),
        Command::Reference(command) => command.run(),
    };
    match ended {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(failure) => {
            complain(&failure.what, &failure.help);
            ExitCode::from(2)
        }
    }
}

/// Where the configuration is.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// The configuration; by default ./weir.yaml, or else what WEIR_CONFIG names
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file to read, which need not be there.
    pub(crate) fn path(&self) -> PathBuf {
        let here = || Some(PathBuf::from("weir.yaml")).filter(|path| path.exists());
        let named = || std::env::var_os("WEIR_CONFIG").map(PathBuf::from);
        self.config
            .clone()
            .or_else(here)
            .or_else(named)
            .unwrap_or_else(|| "weir.yaml".into())
    }

    /// The settings. Problems are printed, and are the answer no.
    pub(crate) fn load(&self) -> Result<Settings, Answer> {
        self.load_seen(&mut Seen::default())
    }

    /// The same, and which files they were read from.
    pub(crate) fn load_seen(&self, seen: &mut Seen) -> Result<Settings, Answer> {
        crate::config::load(&self.path(), &variable, seen).map_err(|problems| {
            print_problems(&problems);
            Answer::No
        })
    }
}

/// A variable of the process's environment, if it is set and UTF-8.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Prints what the operator should know of.
pub(crate) fn print_warnings(warnings: &[Problem]) {
    for warning in warnings {
        let text = warning.to_string();
        let (what, help) = text.split_once("\n  help: ").unwrap_or((&text, ""));
        warn(what, help);
    }
}

/// Prints every problem and how many there are.
pub(crate) fn print_problems(problems: &[Problem]) {
    for problem in problems {
        let text = problem.to_string();
        let (what, help) = text.split_once("\n  help: ").unwrap_or((&text, ""));
        complain(what, help);
    }
    let many = if problems.len() == 1 {
        "problem"
    } else {
        "problems"
    };
    complain(&format!("{} {many}", problems.len()), "");
}

/// Writes an error and its help to standard error, in colour on a terminal only.
pub(crate) fn complain(what: &str, help: &str) {
    tell("error", "\x1b[31m", what, help);
}

/// The same of what should be known, and keeps nothing from working.
pub(crate) fn warn(what: &str, help: &str) {
    tell("warning", "\x1b[33m", what, help);
}

fn tell(kind: &str, colour_of_kind: &str, what: &str, help: &str) {
    let mut stderr = std::io::stderr().lock();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (start, end) = if colour {
        (colour_of_kind, "\x1b[0m")
    } else {
        ("", "")
    };
    let mut text = format!("{start}{kind}:{end} {what}\n");
    if !help.is_empty() {
        text.push_str(&format!("  help: {help}\n"));
    }
    // There is nobody to tell where standard error is closed.
    let _ = stderr.write_all(text.as_bytes());
}

/// A line for the person at the terminal, on standard error.
pub(crate) fn remark(text: &str) {
    // There is nobody to tell where standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes to standard output. A reader that went away (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(
            format!("standard output cannot be written: {error}"),
            "",
        )),
    }
}

/// Writes a new file; fails where one is there already.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display()), ""))
}
