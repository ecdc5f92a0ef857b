//! `weir llm`: what the providers of models are worth, and what agents may ask of them.

mod check;
mod models;

use clap::Subcommand;

use super::Ended;

/// Check the providers of models, and list what agents may ask for
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir llm check            Ask each provider with each of its keys
  weir llm models           The names that a client may send
  weir llm models --agent dev --json")]
pub(super) enum Llm {
    Check(check::Check),
    Models(models::Models),
}

impl Llm {
    pub(super) fn run(self) -> Ended {
        match self {
            Llm::Check(command) => command.run(),
            Llm::Models(command) => command.run(),
        }
    }
}
