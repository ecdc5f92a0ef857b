//! The command line: what a person or a script can ask of the binary.
//!
//! Each command is one file below `cli/`, or a crate of its own, and one row here. What a command has to say goes to standard output;
//! what went wrong, where, and how to mend it goes to standard error.

mod admin;
mod agent;
mod agents;
mod api;
mod audit;
mod ca;
mod completions;
mod config;
mod connect;
mod enrol;
mod hook;
mod init;
mod lab;
mod llm;
mod mcp;
mod pins;
mod policy;
mod prices;
mod problems;
mod reference;
mod relay;
mod replicas;
mod runs;
mod serve;
mod stop;
mod store;
mod usage;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::config::{Reference, SECRET_BYTES_MAX};
use base::Secret;
use clap::{Args, Parser, Subcommand};
use scancli::{Hook, Scan};
use toolscli::{Code, Flow, Tools};

pub(crate) use terminal::{Answer, Ended, Failure, complain, print, warn, write_new};

use crate::config::{Problem, Seen, Settings};

const EXAMPLES: &str = "\
Examples:
  weir init                 Write weir.yaml, with a key for a first agent
  weir config check         Say everything that is wrong with it
  weir serve                Serve it
  weir connect cursor       Write its servers into the configuration of an MCP client
  weir runs list            List the runs of an agent on the server
  weir usage                Say what models used, and what it cost
  weir agents invite build  Let an agent enrol, by a key that it makes itself
  weir scan notes.md        Say whether it may leave
  weir code search retries  Find code in this repository
  weir flow next            Say what can be worked on next
  weir audit verify state   Prove that the log is whole
  weir relay keygen my.key  Make a key pair for the sealed relay
  weir lab load URL -c 64   Measure what a server carries

Exit codes:
  0  done, or yes
  1  no: the policy refuses, the scan found something, what was to be checked has problems
  2  could not be done: wrong use, or a file that cannot be read or written
A configuration that cannot be read is 2. One that has problems is 1 where the command checks or
shows it (weir config, weir policy check), and 2 where it is needed for something else.
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
    Agents(agents::Agents),
    #[command(subcommand)]
    Keys(agents::Keys),
    #[command(subcommand)]
    Api(api::Api),
    #[command(subcommand)]
    Ca(ca::Ca),
    Enrol(enrol::Enrol),
    Token(enrol::Token),
    Whoami(enrol::Whoami),
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    #[command(subcommand)]
    Llm(llm::Llm),
    Connect(Box<connect::Connect>),
    #[command(subcommand)]
    Runs(runs::Runs),
    Usage(usage::Usage),
    #[command(subcommand)]
    Prices(prices::Prices),
    #[command(subcommand)]
    Relay(Box<relay::Relay>),
    Scan(Box<Scan>),
    #[command(subcommand)]
    Code(Code),
    #[command(subcommand)]
    Flow(Box<Flow>),
    #[command(subcommand)]
    Tools(Tools),
    Hook(Box<Hook>),
    #[command(subcommand)]
    Web(web::Web),
    #[command(subcommand)]
    Store(store::Store),
    Replicas(replicas::Replicas),
    Stop(stop::Stop),
    Go(stop::Go),
    Stopped(stop::StoppedNow),
    Lab(lab::Lab),
    Completions(completions::Completions),
    Reference(reference::Reference),
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    let ended = match parsed().command {
        Command::Init(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Policy(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Pins(command) => command.run(),
        Command::Agent(command) => command.run(),
        Command::Agents(command) => command.run(),
        Command::Keys(command) => command.run(),
        Command::Api(command) => command.run(),
        Command::Ca(command) => command.run(),
        Command::Enrol(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::Whoami(command) => command.run(),
        Command::Mcp(command) => return command.run(),
        Command::Llm(command) => command.run(),
        Command::Connect(command) => command.run(),
        Command::Runs(command) => command.run(),
        Command::Usage(command) => command.run(),
        Command::Prices(command) => command.run(),
        Command::Relay(command) => command.run(),
        Command::Scan(command) => command.run(scan_settings),
        Command::Code(command) => command.run(),
        Command::Flow(command) => command.run(),
        Command::Tools(command) => command.run(),
        Command::Hook(command) => command.run(scan_settings, hook::log),
        Command::Web(command) => command.run(),
        Command::Store(command) => command.run(),
        Command::Replicas(command) => command.run(),
        Command::Stop(command) => command.run(),
        Command::Go(command) => command.run(),
        Command::Stopped(command) => command.run(),
        Command::Lab(command) => return command.run(),
        Command::Completions(command) => command.run(),
        Command::Reference(command) => command.run(),
    };
    terminal::exit(ended)
}

/// The command line, or the end of the process: help was asked for, or something is wrong with it.
fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        if error.use_stderr() {
            let what = error.render().to_string();
            terminal::fail_in_json(&Failure::new(what.trim_end(), ""));
        }
        error.exit()
    })
}

/// Where the configuration is.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// The configuration; by default ./weir.yaml, or else what WEIR_CONFIG names
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The same, for a command that takes nothing else: the file may stand there alone.
#[derive(Args, Debug)]
pub(crate) struct OneConfigFile {
    #[command(flatten)]
    file: ConfigFile,
    /// The same as -c FILE
    #[arg(value_name = "FILE", conflicts_with = "config")]
    alone: Option<PathBuf>,
}

impl OneConfigFile {
    pub(crate) fn named(&self) -> ConfigFile {
        let config = self.file.config.as_ref().or(self.alone.as_ref());
        ConfigFile {
            config: config.cloned(),
        }
    }
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

    /// The settings, for a command that does something else with them. Problems are printed, and are a failure.
    pub(crate) fn load(&self) -> Result<Settings, Failure> {
        self.load_seen(&mut Seen::default())
    }

    /// The same, and which files they were read from.
    pub(crate) fn load_seen(&self, seen: &mut Seen) -> Result<Settings, Failure> {
        let path = self.path();
        readable(&path)?;
        let loaded = crate::config::load(&path, &variable, seen);
        loaded.map_err(|problems| unusable(&path, &problems))
    }

    /// The settings, for a command that sends nothing: secrets that are not there are no problem.
    pub(crate) fn load_without_secrets(&self) -> Result<Settings, Failure> {
        let path = self.path();
        let read = self.read_without_secrets()?;
        read.map_err(|problems| unusable(&path, &problems))
    }

    /// The same, or all that is wrong with them. A file that cannot be read is a failure.
    pub(crate) fn read_without_secrets(&self) -> Result<Result<Settings, Vec<Problem>>, Failure> {
        let path = self.path();
        readable(&path)?;
        Ok(crate::config::read::load_without_secrets(&path, &variable))
    }

    /// The settings, for a command that checks or shows them. Problems are printed, and are the answer no.
    pub(crate) fn checked(&self) -> Result<Settings, Ended> {
        let read = self.read().map_err(Err)?;
        read.map_err(|problems| {
            print_problems(&problems);
            Ok(Answer::No)
        })
    }

    /// The settings, or all that is wrong with them. A file that cannot be read is a failure.
    pub(crate) fn read(&self) -> Result<Result<Settings, Vec<Problem>>, Failure> {
        let path = self.path();
        readable(&path)?;
        Ok(crate::config::load(&path, &variable, &mut Seen::default()))
    }
}

/// Reads the text of a configuration.
fn readable(path: &Path) -> Result<String, Failure> {
    let text = crate::config::read::read_text(path, crate::config::FILE_BYTES_MAX);
    text.map_err(|message| {
        let what = format!("{}: {message}", path.display());
        Failure::new(
            what,
            "Write one with weir init, or name another with -c FILE.",
        )
    })
}

/// Prints the problems of a configuration, for a command that needs it for something else.
fn unusable(path: &Path, problems: &[Problem]) -> Failure {
    print_problems(problems);
    let what = format!("{} cannot be used", path.display());
    Failure::new(what, "See weir config check.")
}

/// The scan settings of a configuration. Problems are printed.
fn scan_settings(path: &Path) -> Result<scan::Settings, Failure> {
    let loaded = crate::config::load(path, &variable, &mut Seen::default());
    let settings = loaded.map_err(|problems| unusable(path, &problems))?;
    Ok(settings.scan)
}

/// A folder of weir's own for what outlives programs (XDG Base Directory Specification), such as `weir/hook`.
pub(crate) fn state_folder(below: &str) -> Result<PathBuf, Failure> {
    // A relative path is to be ignored there.
    let folder = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || folder("HOME").map(|home| home.join(".local/state"));
    let base = folder("XDG_STATE_HOME").or_else(home).ok_or_else(|| {
        let what = "there is no folder for the log: neither XDG_STATE_HOME nor HOME is set";
        Failure::new(what, "Name one with --state DIR.")
    })?;
    Ok(base.join("weir").join(below))
}

/// A variable of the process's environment, if it is set and UTF-8.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The secret that a flag names: the value of a variable, or the one line of a file. What cannot be read is said, never its text.
pub(crate) fn secret_at(reference: &str, flag: &str) -> Result<Secret, Failure> {
    // The text is not repeated: it may be the secret itself.
    let reference = crate::config::values::reference(reference);
    let reference = reference.map_err(|why| Failure::new(format!("{flag} {why}"), ""))?;
    let read = match reference {
        Reference::Env(name) => variable(&name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("the variable {name} is not set")),
        Reference::File(path) => {
            let text = crate::config::read::read_text(&path, SECRET_BYTES_MAX);
            text.map_err(|why| format!("{} {why}", path.display()))
        }
    };
    let line = read.and_then(|text| ::config::one_line(&text));
    let secret = line.map_err(|why| Failure::new(format!("{flag}: {why}"), ""))?;
    Ok(Secret::new(secret))
}

/// Prints what the operator should know of.
pub(crate) fn print_warnings(warnings: &[Problem]) {
    for warning in warnings {
        warn(&without_help(warning), &warning.help);
    }
}

/// Prints every problem and how many there are.
pub(crate) fn print_problems(problems: &[Problem]) {
    for problem in problems {
        complain(&without_help(problem), &problem.help);
    }
    let many = if problems.len() == 1 {
        "problem"
    } else {
        "problems"
    };
    complain(&format!("{} {many}", problems.len()), "");
}

/// Where a problem is and what it is.
fn without_help(problem: &Problem) -> String {
    let bare = Problem {
        help: String::new(),
        ..problem.clone()
    };
    bare.to_string()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    /// The commands at and below this one whose help has no example, or of a leaf none of the command itself or no exit codes.
    fn without_example(path: &str, command: &clap::Command, found: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let is_leaf = !command.has_subcommands();
        let is_told = help.contains("xit code") || command.is_hide_set();
        if !help.contains("Example") || (is_leaf && !(help.contains(path) && is_told)) {
            found.push(path.to_owned());
        }
        for below in command.get_subcommands() {
            without_example(&format!("{path} {}", below.get_name()), below, found);
        }
    }

    #[test]
    fn each_help_has_an_example_and_each_leaf_its_exit_codes() {
        let mut found = Vec::new();
        without_example("weir", &Cli::command(), &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
