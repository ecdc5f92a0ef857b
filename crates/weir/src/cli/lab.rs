//! `weir lab`: the capacity lab. What it does lives in the crate `lab`, which knows nothing of the gateway.

mod operations;

use std::process::ExitCode;

use clap::Args;

/// What a server carries, how it fails, and whether it changed
#[derive(Debug, Args)]
#[command(after_help = lab::experiments::EXAMPLES)]
pub(super) struct Lab {
    #[command(subcommand)]
    experiment: lab::experiments::Experiment,
}

impl Lab {
    /// Carries the experiment out. The lab has exit codes of its own.
    pub(super) fn run(self) -> ExitCode {
        match self.experiment.run(operations::ALL) {
            Ok(exit) => ExitCode::from(exit.code()),
            Err(failure) => {
                terminal::fail(&failure);
                ExitCode::from(lab::exit::Exit::CannotRun.code())
            }
        }
    }
}
