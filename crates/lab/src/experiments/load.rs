//! `weir lab load`: reads what is asked for, carries each cell of it out, and delivers what was found.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Ended, Exit, Failure};
use crate::experiments::coldstart;
use crate::output::{self, Observer, Wanted, artefact};
use crate::result::{Run, Verdict};
use crate::scenario::{self, Cell, Flags, RunSettings, show};
use crate::tally::Fault;
use crate::{interrupt, judge, report, run};

/// The report's name in a run's folder.
pub const REPORT_FILE: &str = "report.html";

const EXAMPLES: &str = "\
Examples:
  weir lab load http://127.0.0.1:8080/ -c 64 -d 30s        Closed: 64 connections for 30 seconds
  weir lab load http://127.0.0.1:8080/ -R 1000             Open: 1000 arrivals a second for 10 seconds
  weir lab load URL --arrivals poisson --stage ramp:500,30s --stage hold:500,2m
  weir lab load URL --unique 1KB --expect echo             A new body each time; every byte compared
  weir lab load http://127.0.0.1:8900/mcp --protocol mcp --mcp-tool echo --mcp-args '{\"text\":\"hi\"}'
  weir lab load --spawn './serve --port {port}' http://127.0.0.1:{port}/ -c 8
  weir lab load --spawn './serve --port {port}' http://127.0.0.1:{port}/health --coldstart --starts 20
  weir lab load scenario.yaml -d 5s                        Flags replace the keys of all scenarios

Units are written: 5ms, 30s, 2m; 10KB is 10,000 bytes and 10KiB is 10,240.

Exit codes: 0 valid and within its thresholds, 2 it could not be run, 91 to 95 it is not valid, 99 a threshold was breached,
105 interrupted. weir lab --help says each.";

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
    /// Start the server by this command, and end it afterwards; {port} becomes a free port, also in the URL
    #[arg(long, value_name = "COMMAND", help_heading = "The server")]
    pub spawn: Option<String>,
    /// Send no load: start the server several times, and say how long each takes to its first good answer
    #[arg(long, requires = "spawn", help_heading = "The server")]
    pub coldstart: bool,
    /// How often --coldstart starts it
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        help_heading = "The server"
    )]
    pub starts: usize,
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
        self.run_to(&mut std::io::stdout())
    }

    /// As the command, with its output given.
    ///
    /// # Errors
    ///
    /// The load cannot be begun or cannot go on, or a result cannot be written.
    pub fn run_to(self, out: &mut dyn Write) -> Ended {
        if self.coldstart {
            return coldstart::run(&self, out);
        }
        let (load, _started) = coldstart::spawned(self)?;
        load.measure(out)
    }

    fn measure(self, out: &mut dyn Write) -> Ended {
        let planned = scenario::plan(&self);
        let (cells, settings) = planned.map_err(|problems| scenario::failure(&problems))?;
        if self.dry_run || self.print_profile {
            let text: String = cells.iter().map(|cell| self.preview(cell)).collect();
            output::say(out, &text)?;
            return Ok(Exit::Pass);
        }
        let wanted = self.wanted(&settings);
        wanted.check().map_err(|failures| all(&failures))?;
        interrupt::listen()?;
        let matrix = cells.len() > 1;
        let (mut done, mut failed): (Vec<(String, Run)>, _) = (Vec::new(), None);
        for (index, cell) in cells.iter().enumerate() {
            let number = matrix.then_some((index + 1, cell.label.as_str()));
            match carry(cell, &settings, &wanted, number) {
                Ok(run) => done.push((cell.label.clone(), run)),
                Err(failure) => failed = Some(failure),
            }
            if failed.is_some() || interrupt::asked() {
                break;
            }
        }
        // What was measured before a cell failed is delivered too.
        let delivered = match done.as_slice() {
            [] => Ok(()),
            [(_, run)] if !matrix => wanted.deliver(run, out),
            cells => wanted.deliver_matrix(cells, out),
        };
        let delivered = delivered.and(reports(&settings, &done));
        if let Some(failure) = failed {
            return Err(failure);
        }
        delivered.map_err(|failures| all(&failures))?;
        let exits = done.iter().map(|(_, run)| exit(run, &settings.accept));
        let worst = exits.max_by_key(|exit| (*exit != Exit::Pass, exit.code()));
        Ok(worst.unwrap_or(Exit::Pass))
    }

    fn wanted(&self, settings: &RunSettings) -> Wanted {
        let outputs = settings.outputs.clone();
        Wanted {
            json: self.json,
            quiet: self.quiet,
            no_live: self.no_live,
            out: outputs.out,
            hlog: outputs.hlog,
            summary_export: outputs.summary_export,
            csv: outputs.csv,
            junit: outputs.junit,
            markdown: outputs.markdown,
        }
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
        let spawn = self
            .spawn
            .iter()
            .flat_map(|command| ["--spawn".to_owned(), command.clone()]);
        begin
            .into_iter()
            .chain(source)
            .chain(flags)
            .chain(spawn)
            .chain(switches)
            .collect()
    }
}

/// Carries one cell out.
fn carry(
    cell: &Cell,
    settings: &RunSettings,
    wanted: &Wanted,
    number: Option<(usize, &str)>,
) -> Result<Run, Failure> {
    let mut observer = wanted.observer(&cell.plan, number)?;
    if number.is_some() {
        observer.message(&cell.label);
    }
    let warnings = cell.warnings.iter();
    warnings.for_each(|warning| observer.message(warning));
    let around = settings.around(cell)?;
    let ended = run::carry_out(&cell.plan, &around, &mut observer);
    // A log that could not be written costs the log and not the result.
    let finished = observer.finish();
    let mut run = ended?;
    run.warnings.extend(cell.warnings.iter().cloned());
    run.warnings
        .extend(finished.err().map(|failure| failure.to_string()));
    Ok(run)
}

/// Writes the report where it is asked for, and beside `run.json`.
fn reports(settings: &RunSettings, done: &[(String, Run)]) -> Result<(), Vec<Failure>> {
    let outputs = &settings.outputs;
    let folder = outputs.out.iter().map(|folder| folder.join(REPORT_FILE));
    let files: Vec<PathBuf> = outputs.html.iter().cloned().chain(folder).collect();
    if files.is_empty() || done.is_empty() {
        return Ok(());
    }
    let runs: Vec<(&str, &Run)> = done
        .iter()
        .map(|(label, run)| (label.as_str(), run))
        .collect();
    let page = report::html(&runs);
    let whole = |draft: &Path| {
        let read = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
        match read == page.as_bytes() {
            true => Ok(()),
            false => Err(Failure::new("the report was not written whole", "")),
        }
    };
    let wrote = files.iter();
    let wrote = wrote.map(|file| artefact::replace(file, page.as_bytes(), whole));
    let failures: Vec<Failure> = wrote.filter_map(Result::err).collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures)
    }
}

/// Several failures as one.
fn all(failures: &[Failure]) -> Failure {
    let texts: Vec<String> = failures.iter().map(Failure::to_string).collect();
    Failure::new(texts.join("\n"), "")
}

/// How a command ends with this run: whole, right, valid, and within its thresholds, in this order.
fn exit(run: &Run, accept: &[Verdict]) -> Exit {
    let wrong = run.total.errors.get(Fault::Integrity.as_str());
    let twice = run.origin.as_ref().map_or(0, |origin| origin.duplicates);
    let verdict = judge::validity::unaccepted(&run.validity, accept);
    match judge::validity::exit(verdict) {
        _ if run.validity.verdict == Verdict::Interrupted => Exit::Interrupted,
        _ if wrong.is_some_and(|n| *n > 0) || twice > 0 => Exit::Integrity,
        exit if exit != Exit::Pass => exit,
        _ if run.thresholds.iter().any(|threshold| !threshold.ok) => Exit::Threshold,
        _ => Exit::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{OriginCounts, ThresholdResult};

    #[test]
    fn what_is_worst_is_told_first() {
        let mut run = Run::default();
        assert_eq!(exit(&run, &[]), Exit::Pass);
        run.thresholds.push(ThresholdResult::default());
        assert_eq!(exit(&run, &[]), Exit::Threshold);
        run.validity.verdict = Verdict::NoisyHost;
        assert_eq!(exit(&run, &[]), Exit::NoisyHost);
        assert_eq!(exit(&run, &[Verdict::NoisyHost]), Exit::Threshold);
        assert_eq!(exit(&run, &[Verdict::TooShort]), Exit::NoisyHost);
        run.origin = Some(OriginCounts {
            duplicates: 1,
            ..OriginCounts::default()
        });
        assert_eq!(exit(&run, &[Verdict::NoisyHost]), Exit::Integrity);
        run.validity.verdict = Verdict::Interrupted;
        assert_eq!(exit(&run, &[Verdict::Interrupted]), Exit::Interrupted);
    }
}
