//! `weir relay`: the sealed relay without a configuration, its keys, and whether it works.
//!
//! Each command is one file below `cli/relay/`. Keys are texts or files of them, as everywhere; a private key is
//! never printed and never taken from the command line itself.

mod arguments;
mod doctor;
mod keygen;
mod keys;
mod pin;
mod run;
mod show;
mod store;

use clap::Subcommand;

pub(super) use keygen::make_pair_files;

use super::Ended;

/// Carry HTTP requests sealed through whatever stands between two weirs
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir relay keygen my.key
  weir relay inbound --listen 0.0.0.0:8702 --origin http://127.0.0.1:3000 --allow outbound.key.pub
  weir relay outbound --listen 127.0.0.1:8701 --to https://east.example --peer inbound.key.pub")]
pub(super) enum Relay {
    Outbound(run::Outbound),
    Inbound(run::Inbound),
    Keygen(keygen::Keygen),
    Show(show::Show),
    Pin(pin::Pin),
    Doctor(doctor::Doctor),
}

impl Relay {
    pub(super) fn run(self) -> Ended {
        match self {
            Relay::Outbound(command) => command.run(),
            Relay::Inbound(command) => command.run(),
            Relay::Keygen(command) => command.run(),
            Relay::Show(command) => command.run(),
            Relay::Pin(command) => command.run(),
            Relay::Doctor(command) => command.run(),
        }
    }
}
