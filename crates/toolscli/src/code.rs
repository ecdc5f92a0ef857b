//! `weir code`: code search for people, over the same index as its MCP server.

pub(crate) mod index;
mod search;

use clap::Subcommand;

use crate::Ended;

/// Find code in the trees of this machine
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir code search retries      Find code in this repository
  weir code index               Bring its index up to date")]
pub enum Code {
    Search(Box<search::SearchCommand>),
    Index(index::IndexCommand),
}

impl Code {
    /// Runs the command.
    pub fn run(self) -> Ended {
        match self {
            Code::Search(command) => command.run(),
            Code::Index(command) => command.run(),
        }
    }
}
