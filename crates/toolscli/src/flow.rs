//! `weir flow`: work tracking for people, in the same database as its MCP server.

mod calls;
mod exchange;
pub(crate) mod serve;
mod show;
mod work;

use clap::Subcommand;

use crate::Ended;

/// See and change what is being worked on
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir flow add 'Repair the door' --project Shop   Write down what is to be done
  weir flow next                                   Say what can be taken now
  weir flow claim                                  Take the most urgent of it
  weir flow done 12                                Say that it is done
  weir flow board                                  See all of it\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub enum Flow {
    Board(show::Board),
    Next(show::Next),
    Add(work::Add),
    Claim(work::Claim),
    Done(work::Done),
    Status(show::Status),
    Log(show::Log),
    Import(exchange::Import),
    Export(exchange::Export),
    Migrate(exchange::Migrate),
}

impl Flow {
    /// Runs the command.
    pub fn run(self) -> Ended {
        match self {
            Flow::Board(command) => command.run(),
            Flow::Next(command) => command.run(),
            Flow::Add(command) => command.run(),
            Flow::Claim(command) => command.run(),
            Flow::Done(command) => command.run(),
            Flow::Status(command) => command.run(),
            Flow::Log(command) => command.run(),
            Flow::Import(command) => command.run(),
            Flow::Export(command) => command.run(),
            Flow::Migrate(command) => command.run(),
        }
    }
}
