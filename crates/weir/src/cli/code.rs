//! `weir code`: code search for people, over the same index as its MCP server.

pub(super) mod index;
mod search;

use clap::Subcommand;

use super::Ended;

/// Find code in the trees of this machine
#[derive(Debug, Subcommand)]
pub(super) enum Code {
    Search(Box<search::SearchCommand>),
    Index(index::IndexCommand),
}

impl Code {
    pub(super) fn run(self) -> Ended {
        match self {
            Code::Search(command) => command.run(),
            Code::Index(command) => command.run(),
        }
    }
}
