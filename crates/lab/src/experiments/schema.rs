//! `weir lab schema`.

use std::io::Write as _;

use clap::Args;

use crate::exit::{Ended, Exit, Failure};
use crate::scenario::schema;

/// Prints the JSON Schema of scenario files
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir lab schema > scenario.schema.json\n\nExit codes: 0 printed, 2 standard output cannot be written."
)]
pub struct Schema {}

impl Schema {
    pub fn run(self) -> Ended {
        let text = serde_json::to_string_pretty(&schema::schema());
        let text = text.expect("a schema is JSON with texts for keys");
        match writeln!(std::io::stdout(), "{text}") {
            Ok(()) => Ok(Exit::Pass),
            Err(e) => Err(Failure::new(format!("cannot print: {e}"), "")),
        }
    }
}
