//! `weir lab target`.

use clap::Args;

use crate::exit::{Ended, Failure};

/// Starts a fake server to measure against
#[derive(Debug, Args)]
pub struct Target {}

impl Target {
    pub fn run(self) -> Ended {
        Err(Failure::new("not built yet", ""))
    }
}
