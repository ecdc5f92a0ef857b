//! `weir lab compare`.

pub mod answer;
pub mod blocks;
pub mod metrics;

use clap::Args;

use crate::exit::{Ended, Failure};

/// Says whether B is better, worse or the same as A
#[derive(Debug, Args)]
pub struct Compare {}

impl Compare {
    pub fn run(self) -> Ended {
        Err(Failure::new("not built yet", ""))
    }
}
