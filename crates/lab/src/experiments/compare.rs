//! `weir lab compare`.

pub mod answer;
pub mod blocks;
pub mod comparison;
pub mod imports;
pub mod metrics;
pub mod process;
pub mod table;

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
