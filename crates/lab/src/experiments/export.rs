//! `weir lab export`: a scenario file as a script for k6.
//!
//! Nothing is sent. What k6 cannot do as the lab does it is refused, or said where it changes nothing of what is sent.

mod k6;
mod words;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::bench::deliver;
use crate::exit::{Ended, Exit, Failure};
use crate::output;
use crate::scenario::{self, read};

/// What can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// A script for k6
    K6,
}

/// Makes a k6 script from a scenario file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir lab export k6 scenario.yaml -o script.js
  k6 run -e TOKEN=… script.js

Secrets stay where they are: env:NAME becomes __ENV.NAME, and file:PATH becomes open(PATH).
MCP, models, event streams and feeds are refused: k6 does not read them as the lab does.

Exit codes: 0 written, 2 it could not be done.")]
pub struct Export {
    /// What to write
    #[arg(value_name = "KIND")]
    kind: To,
    /// The scenario file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The script to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub fn run(self) -> Ended {
        let To::K6 = self.kind;
        let text =
            read::text(&self.file, config::FILE_BYTES_MAX).map_err(|why| Failure::new(why, ""))?;
        let file = scenario::read_text(&text).map_err(|problems| scenario::failure(&problems))?;
        let name = self.file.display();
        let made = k6::script(&file).map_err(|why| Failure::new(format!("{name}: {why}"), ""))?;
        for line in &made.left_out {
            // The script is what matters; whoever closed standard error does not read along.
            let _ = output::say(&mut std::io::stderr(), &format!("left out: {line}\n"));
        }
        match &self.output {
            Some(file) => deliver::write(file, &made.text)?,
            None => output::say(&mut std::io::stdout(), &made.text)?,
        }
        Ok(Exit::Pass)
    }
}
