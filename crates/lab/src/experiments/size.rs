//! `weir lab size`: which deployment do I need for this peak and payload?
//!
//! It reads facts and measures nothing. Each number names the measurement that it comes from, floors round down, and what
//! was not measured is said. What it emits is read back by a parser before it is kept.

mod emit;

use std::path::PathBuf;

use clap::Args;

use self::emit::{Artefact, Names};
use crate::bench::deliver;
use crate::exit::{Ended, Exit, Failure};
use crate::facts::size::{SizeWanted, Sizing};
use crate::facts::{EXPERIMENTS_MAX, FACTS_FILE, Facts};
use crate::output::{self, artefact};
use crate::report::experiments::size::sheet;
use crate::report::sheet;
use crate::scenario::units;

/// Most rates of a list.
const RATES_MAX: usize = 32;

const EXAMPLES: &str = "\
Examples:
  weir lab size sweep --peak 3000 --payload 5KB                     Tiers, replicas and margin, from sweep/facts.json
  weir lab size sweep soak --peak 3000 --ha --derate 25% --p99 50ms
  weir lab size sweep --clients 0.1,10 --cpu-table 100,1000,10000
  weir lab size sweep --peak 3000 --emit compose,hpa,alerts,nginx,haproxy,pools,limits deploy --service gateway

Nothing is measured: what was not, is said. A floor is never rounded up.

Exit codes: 0 done, 2 it could not be done, 99 the peak is not covered, or the p99 that was asked for is not kept.";

/// Sizes a deployment by what was measured
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SizeArgs {
    /// facts.json of a sweep, and of a soak where there is one, or folders with one; with --emit the last is the folder to write
    #[arg(value_name = "FACTS", required = true)]
    facts: Vec<PathBuf>,
    /// Requests a second at the busiest moment
    #[arg(long, value_name = "RATE", value_parser = rate)]
    peak: Option<f64>,
    /// The size of a request's body
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    payload: Option<u64>,
    /// The share of saturation that may be used
    #[arg(long, value_name = "SHARE", default_value = "60%", value_parser = share)]
    utilisation: f64,
    /// By how much the machine to buy may be slower than the one that was measured
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    derate: f64,
    /// One instance more than needed, and two at least
    #[arg(long)]
    ha: bool,
    /// The p99 that is to be kept
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    p99: Option<std::time::Duration>,
    /// Rates of single clients: how many of them it serves
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', value_parser = rate)]
    clients: Vec<f64>,
    /// Rates of the table of CPU cost
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', default_value = "10,100,1000,10000", value_parser = rate)]
    cpu_table: Vec<f64>,
    /// Files to write into the folder that is named last
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    emit: Vec<Artefact>,
    #[command(flatten)]
    names: Names,
    /// Print the size as one JSON object, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Write the page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The folder for facts.json, report.html, report.md and the tables
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl SizeArgs {
    pub fn run(mut self) -> Ended {
        for (name, count) in [
            ("--clients", self.clients.len()),
            ("--cpu-table", self.cpu_table.len()),
        ] {
            if count > RATES_MAX {
                return Err(Failure::new(
                    format!("{name} names {count} rates; {RATES_MAX} is the most"),
                    "name fewer",
                ));
            }
        }
        self.names.check()?;
        let folder = match self.emit.is_empty() {
            true => None,
            false if self.facts.len() < 2 => {
                return Err(Failure::new(
                    "--emit needs a folder to write to",
                    "name the facts first and the folder last",
                ));
            }
            false => self.facts.pop(),
        };
        let facts = self.read()?;
        let sizing = self.sized(&facts)?;
        let exit = exit(&sizing);
        self.deliver(&sizing, facts.machines_differ())?;
        if let Some(folder) = folder {
            std::fs::create_dir_all(&folder).map_err(|e| {
                Failure::new(
                    format!("{}: {e}", folder.display()),
                    "name a folder that can be written",
                )
            })?;
            for file in emit::files(&self.emit, &sizing, &self.names)? {
                deliver::write(&folder.join(file.name), &file.text)?;
                if !self.json {
                    println!("{}", folder.join(file.name).display());
                }
            }
        }
        Ok(exit)
    }

    fn read(&self) -> Result<Facts, Failure> {
        let mut all = Facts::new();
        for path in &self.facts {
            all.join(Facts::read(path)?);
        }
        match all.settings().count() {
            count if count > EXPERIMENTS_MAX => Err(Failure::new(
                format!("{count} experiments are more than {EXPERIMENTS_MAX}"),
                "name fewer files",
            )),
            _ => Ok(all),
        }
    }

    /// By the one sweep that there is.
    fn sized(&self, facts: &Facts) -> Result<Sizing, Failure> {
        let [sweep] = facts.sweeps.as_slice() else {
            return Err(Failure::new(
                format!(
                    "{} sweeps are in these facts, and a size rests on one",
                    facts.sweeps.len()
                ),
                "name the facts.json of one weir lab sweep",
            ));
        };
        let idle = facts
            .soaks
            .iter()
            .flat_map(|soak| &soak.processes)
            .map(|process| process.before_bytes);
        let idle = idle.reduce(f64::max).map(|bytes| bytes as u64);
        let wanted = SizeWanted {
            peak: self.peak,
            payload_bytes: self.payload,
            utilisation: self.utilisation,
            derate: self.derate,
            ha: self.ha,
            clients: self.clients.clone(),
            cpu_rates: self.cpu_table.clone(),
            p99_us: self.p99.map(|time| time.as_secs_f64() * 1e6),
        };
        let sizing = Sizing::of(sweep, idle, wanted);
        sizing.map_err(|why| Failure::new(why, ""))
    }

    fn deliver(&self, sizing: &Sizing, differ: Option<String>) -> Result<(), Failure> {
        let mut facts = Facts::new();
        let mut shown = sizing.clone();
        shown.cautions.extend(differ);
        let page = sheet(&shown);
        facts.sizes.push(shown);
        let text = if self.json {
            facts.json()?
        } else {
            sheet::text(&page)
        };
        output::say(&mut std::io::stdout(), &text)?;
        if let Some(file) = &self.html {
            artefact::check(file)?;
            deliver::write(file, &sheet::page(&page))?;
        }
        if let Some(folder) = &self.out {
            deliver::open_folder(folder, FACTS_FILE)?;
            facts.write(&folder.join(FACTS_FILE))?;
            if let Some(failure) = deliver::files(folder, &page).into_iter().next() {
                return Err(failure);
            }
        }
        Ok(())
    }
}

fn exit(sizing: &Sizing) -> Exit {
    let is_covered =
        sizing.wanted.peak.is_none() || sizing.choice().is_some_and(|tier| tier.margin.is_some());
    let is_kept = match (sizing.wanted.p99_us, sizing.p99_at_use) {
        (Some(wanted), Some((_, found))) => found <= wanted,
        (Some(_), None) => false,
        (None, _) => true,
    };
    if is_covered && is_kept {
        Exit::Pass
    } else {
        Exit::Threshold
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err(format!(
            "`{text}` is no rate; write requests a second, such as 3000"
        )),
    }
}

/// Reads a share from 0 to 1: `60%` or `0.6`.
fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|n| n / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err(format!(
            "`{text}` is no share from 0 to under 100 %; write 60%"
        )),
    }
}
