//! `weir api`: what programs can ask at the admin listener.

use clap::Subcommand;

use super::{Answer, Ended, print};
use crate::admin::openapi;

/// What programs can ask at the admin listener
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir api openapi > weir-admin.json

Exit codes: 0 done, 2 it could not be done.")]
pub(super) enum Api {
    /// Print the OpenAPI document of the admin API
    #[command(after_help = "\
Examples:
  weir api openapi > weir-admin.json
  weir api openapi | jq '.paths | keys'

The gateway answers the same at /admin/openapi.json of its admin listener.
Exit codes: 0 printed, 2 it could not be printed.")]
    Openapi,
}

impl Api {
    pub(super) fn run(self) -> Ended {
        let Api::Openapi = self;
        print(&format!("{:#}\n", openapi::document()))?;
        Ok(Answer::Yes)
    }
}
