//! The experiments: each is a command of `weir lab`, one file below, one row here.

pub mod compare;
pub mod load;
pub mod target;

use clap::Subcommand;

use crate::exit::Ended;

/// What `weir lab` can be asked.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    Load(load::Load),
    Target(Box<target::Target>),
    Compare(compare::Compare),
}

impl Experiment {
    /// Carries it out. What it has to say goes to standard output.
    pub fn run(self) -> Ended {
        match self {
            Experiment::Load(load) => load.run(),
            Experiment::Target(target) => target.run(),
            Experiment::Compare(compare) => compare.run(),
        }
    }
}
