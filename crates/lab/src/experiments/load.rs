//! `weir lab load`.

use clap::Args;

use crate::exit::{Ended, Failure};

/// Sends load to a server and says what happened
#[derive(Debug, Args)]
pub struct Load {}

impl Load {
    pub fn run(self) -> Ended {
        Err(Failure::new("not built yet", ""))
    }
}
