//! `weir lab load`.

use std::io::Write as _;

use clap::Args;

use crate::exit::{Ended, Exit, Failure};
use crate::scenario::{self, Flags, problem, show};

const EXAMPLES: &str = "\
Examples:
  weir lab load http://127.0.0.1:8080/ -c 64 -d 30s        Closed: 64 connections for 30 seconds
  weir lab load http://127.0.0.1:8080/ -R 1000             Open: 1000 arrivals a second for 10 seconds
  weir lab load URL --arrivals poisson --stage ramp:500,30s --stage hold:500,2m
  weir lab load URL --unique 1KB --expect echo             A new body each time; every byte compared
  weir lab load http://127.0.0.1:8900/mcp --protocol mcp --mcp-tool echo --mcp-args '{\"text\":\"hi\"}'
  weir lab load scenario.yaml -d 5s                        Flags replace the keys of all scenarios

Units are written: 5ms, 30s, 2m; 10KB is 10,000 bytes and 10KiB is 10,240.";

/// Sends load to a server and says what happened
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct Load {
    /// A scenario file, or URLs that connections take in turn, or both
    #[arg(value_name = "URL|FILE")]
    pub source: Vec<String>,
    #[command(flatten)]
    pub flags: Flags,
    /// Print one JSON object, and nothing else, to standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Say nothing while it runs
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Print lines instead of drawing on the terminal
    #[arg(long, help_heading = "Output")]
    pub no_live: bool,
    /// Check everything, say what would be done, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the stages with their times and levels, and send nothing
    #[arg(long)]
    pub print_profile: bool,
    /// Allow targets outside this machine: they are yours, or you may load them
    #[arg(long)]
    pub i_own_this: bool,
}

impl Load {
    pub fn run(self) -> Ended {
        let planned = scenario::plan(&self);
        let (cells, _settings) = planned.map_err(|problems| problem::failure(&problems))?;
        if self.dry_run || self.print_profile {
            let text: String = cells.iter().map(|cell| self.preview(cell)).collect();
            return match std::io::stdout().write_all(text.as_bytes()) {
                Ok(()) => Ok(Exit::Pass),
                Err(e) => Err(Failure::new(format!("cannot print: {e}"), "")),
            };
        }
        Err(Failure::new("not built yet", ""))
    }

    /// What would be done in one cell.
    fn preview(&self, cell: &scenario::Cell) -> String {
        let mut out = String::new();
        if !cell.label.is_empty() {
            out = format!("[{}]\n", cell.label);
        }
        if self.dry_run {
            out += &show::plan(&cell.plan);
            for warning in &cell.warnings {
                out += &format!("warning: {warning}\n");
            }
        }
        if self.print_profile {
            out += &show::profile(&cell.plan);
        }
        out
    }

    /// The command that repeats this one, without what may be a secret.
    pub fn words(&self) -> Vec<String> {
        let begin = ["weir", "lab", "load"].map(String::from);
        let source = self.source.iter().map(|word| scenario::without_user(word));
        let switches = [
            ("--json", self.json),
            ("--quiet", self.quiet),
            ("--no-live", self.no_live),
            ("--i-own-this", self.i_own_this),
        ];
        let switches = switches.iter().filter(|(_, on)| *on);
        let switches = switches.map(|(name, _)| (*name).to_owned());
        let flags = self.flags.words();
        begin
            .into_iter()
            .chain(source)
            .chain(flags)
            .chain(switches)
            .collect()
    }
}
