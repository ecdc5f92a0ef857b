//! The command lines of `weir scan` and `weir hook`: they judge files, lines, URLs, calls, folders and the events of
//! coding agents as the gate would, with nothing else running.
//!
//! They ask the engine that the gate asks, and say what it found, where, and what to do about it. They never print what
//! matched, and what they could not read to its end is never called clean. They know no configuration: whoever calls
//! them reads its scan settings.

mod files;
mod history;
mod hook;
mod lines;
mod position;
mod repo;
mod rules;
mod sarif;
mod say;
mod with;

use std::path::Path;

use clap::{Args, Subcommand};
use terminal::{Ended, Failure};

pub use hook::{Hook, HookLog, OpenHookLog};

/// Reads the scan settings of a configuration file. Its problems are printed before it fails.
pub type ReadSettings = fn(&Path) -> Result<scan::Settings, Failure>;

/// Judge texts, URLs, tool definitions, calls and messages
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  weir scan notes.md config.json          Would these be let out?
  curl -s URL | weir scan --kind response -
  weir scan --kind url --explain -        One URL a line
  weir scan --jsonl cases.jsonl           One JSON in, one JSON out
  weir scan repo . --sarif found.sarif
  weir scan rules --class injection

A line of --jsonl has an `id` and a `kind`: `url`, `text` (it goes out) or `response` (it comes back) with
`text`; `tool` with `tool`, an MCP definition; `call` with `tool` and `args`; `message` with `message`, a
JSON-RPC message, and `direction`.

Exit codes: 0 nothing that is refused or redacted, 1 something is or a bound was reached, 2 an error.")]
pub struct Scan {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    files: files::Files,
}

#[derive(Debug, Subcommand)]
enum What {
    Rules(rules::Rules),
    Repo(repo::Repo),
}

impl Scan {
    /// Judges what was named. `read` reads the configuration of `--config`.
    pub fn run(self, read: ReadSettings) -> Ended {
        match self.what {
            Some(What::Rules(command)) => command.run(read),
            Some(What::Repo(command)) => command.run(read),
            None => self.files.run(read),
        }
    }
}

/// A key for the fingerprints of this run: they join what one run found, and nothing else.
fn key() -> Result<[u8; 32], Failure> {
    let mut key = [0; 32];
    match aws_lc_rs::rand::fill(&mut key) {
        Ok(()) => Ok(key),
        Err(_) => Err(Failure::new("no random bytes", "")),
    }
}
