//! `weir lab micro`: what one operation costs inside of a program, as CPU time with an interval.
//!
//! The operations are the caller's (the `weir` binary lends its own through [`MicroOperation`]), or those of any program that
//! answers JSON lines (`--exec`). All of them take turns, round by round, so that a noisy moment meets each. It knows nothing of what
//! an operation does, and says so: a rate is what one core would do with nothing else to do.

mod exec;
mod own;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use self::exec::Program;
use crate::bench::deliver;
use crate::exit::{Ended, Exit, Failure};
use crate::interrupt;
use crate::output::units::{cut, number, plain};
use crate::output::{self, artefact};
use crate::run;
use crate::scenario::units;
use crate::stats::interval::Estimate;
use crate::watch::machine;

/// Most operations, sizes and thread counts of one command.
const OPERATIONS_MAX: usize = 64;
const SIZES_MAX: usize = 16;
const THREADS_MAX: usize = 256;
/// Most rounds.
const ROUNDS_MAX: usize = 1000;
/// Largest size, in bytes.
const SIZE_BYTES_MAX: u64 = 64 << 20;
/// The chance that an interval misses.
const ALPHA: f64 = 0.05;

/// One operation that the program around the lab lends: what it is called, and how it is got ready for a size.
pub struct MicroOperation {
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Its cost depends on a size.
    pub is_sized: bool,
    /// Gets it ready for one thread; what is given back does it once.
    pub prepare: fn(size: usize) -> Box<dyn FnMut() + Send>,
}

/// Measures what operations cost inside of a program
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir lab micro                                            Operations of weir
  weir lab micro scan --size 90,1KB,10KB --threads 1,2,4
  weir lab micro --exec 'python3 operations.py' --json      Operations of another program
  weir lab micro --list

A program of --exec reads one JSON object a line, and answers each with one:
  {\"list\":true}                                             {\"operations\":[{\"name\":\"parse\",\"sized\":true}]}
  {\"run\":\"parse\",\"size\":1024,\"times\":500,\"threads\":1}      {\"cpu_ns\":12345678,\"wall_ns\":12400000}
Without cpu_ns the CPU time of its process is read, which also counts what it does beside.

Exit codes: 0 measured, 2 it could not be, 105 interrupted; what was measured until then is told.")]
pub struct Micro {
    /// Operations whose name begins so [default: all]
    #[arg(value_name = "OPERATION")]
    operations: Vec<String>,
    /// Measure operations of this program, by JSON lines, instead of weir's own
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Sizes of what operations work on
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_value = "1KB", value_parser = units::size)]
    size: Vec<u64>,
    /// Threads that do it at once
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// How long one measurement takes at least
    #[arg(short, long, value_name = "TIME", default_value = "50ms", value_parser = units::duration)]
    duration: Duration,
    /// Measurements of each, three at least
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
    /// Say which operations there are
    #[arg(long)]
    list: bool,
    /// Print one JSON object, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Write the same object to a file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// One operation at one size and number of threads.
#[derive(Clone, Debug, Serialize)]
pub struct MicroCost {
    pub operation: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// In bytes; absent where the cost does not depend on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    pub threads: usize,
    /// CPU time of one time, in nanoseconds: the mean, and the interval that misses with a chance of 5 %.
    pub cpu_ns: f64,
    pub cpu_ns_low: f64,
    pub cpu_ns_high: f64,
    /// Times a second, of all threads together, by the clock on the wall.
    pub per_second: f64,
    /// CPU time of one time in each round, in nanoseconds.
    pub rounds: Vec<f64>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
struct Found {
    schema: &'static str,
    cpu: String,
    cores_logical: usize,
    cores_physical: Option<usize>,
    version: String,
    costs: Vec<MicroCost>,
}

/// What one measurement took.
#[derive(Clone, Copy, Debug)]
struct Took {
    times: u64,
    cpu_ns: f64,
    wall_ns: f64,
}

/// What can be measured, wherever it is.
trait Source {
    fn list(&mut self) -> Result<Vec<Listed>, Failure>;
    fn run(&mut self, cell: &Asked, times: u64) -> Result<Took, Failure>;
}

#[derive(Clone, Debug)]
struct Listed {
    name: String,
    about: String,
    is_sized: bool,
}

/// One operation at one size, by so many threads.
#[derive(Clone, Debug)]
struct Asked {
    operation: Listed,
    size: Option<u64>,
    threads: usize,
}

impl Micro {
    pub fn run(self, lent: &[MicroOperation]) -> Ended {
        self.check()?;
        let mut source: Box<dyn Source + '_> = match &self.exec {
            Some(command) => Box::new(Program::start(command)?),
            None => Box::new(own::Own::new(lent)),
        };
        let listed = self.chosen(source.list()?)?;
        if self.list {
            let lines: String = listed
                .iter()
                .map(|one| format!("{:<24}{}\n", plain(&one.name), plain(&one.about)))
                .collect();
            output::say(&mut std::io::stdout(), &lines)?;
            return Ok(Exit::Pass);
        }
        interrupt::listen()?;
        let costs = self.measure(source.as_mut(), &self.cells(&listed))?;
        let setting = machine::read();
        let found = Found {
            schema: "weir-lab-micro/1",
            cpu: setting.cpu,
            cores_logical: setting.cores_logical,
            cores_physical: setting.cores_physical,
            version: run::version(),
            costs,
        };
        let json = serde_json::to_string_pretty(&found)
            .map_err(|e| Failure::new(e.to_string(), ""))?
            + "\n";
        output::say(
            &mut std::io::stdout(),
            &if self.json {
                json.clone()
            } else {
                table(&found)
            },
        )?;
        if let Some(file) = &self.out {
            deliver::write(file, &json)?;
        }
        Ok(if interrupt::asked() {
            Exit::Interrupted
        } else {
            Exit::Pass
        })
    }

    fn check(&self) -> Result<(), Failure> {
        let refuse = |what: String, help: &str| Err(Failure::new(what, help));
        if self.size.is_empty()
            || self.size.len() > SIZES_MAX
            || self.size.iter().any(|size| *size > SIZE_BYTES_MAX)
        {
            return refuse(
                format!("--size names not 1 to {SIZES_MAX} sizes of up to 64 MiB"),
                "write --size 1KB,10KB",
            );
        }
        if self.threads.len() > SIZES_MAX
            || self
                .threads
                .iter()
                .any(|threads| !(1..=THREADS_MAX).contains(threads))
        {
            return refuse(
                format!("--threads is not from 1 to {THREADS_MAX}"),
                "write --threads 1,2,4",
            );
        }
        if !(3..=ROUNDS_MAX).contains(&self.rounds) {
            return refuse(
                format!("--rounds is not from 3 to {ROUNDS_MAX}"),
                "fewer than three have no interval",
            );
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&self.duration) {
            return refuse(
                "--duration is not from 1ms to 60s".to_owned(),
                "write -d 50ms",
            );
        }
        match &self.out {
            Some(file) => artefact::check(file),
            None => Ok(()),
        }
    }

    fn chosen(&self, listed: Vec<Listed>) -> Result<Vec<Listed>, Failure> {
        let is_wanted = |one: &Listed| {
            self.operations.is_empty()
                || self
                    .operations
                    .iter()
                    .any(|wanted| one.name.starts_with(wanted))
        };
        let names: Vec<String> = listed.iter().map(|one| plain(&one.name)).collect();
        let found: Vec<Listed> = listed.into_iter().filter(is_wanted).collect();
        match found.len() {
            0 => Err(Failure::new(
                "there is no such operation",
                format!("there are: {}", names.join(", ")),
            )),
            count if count > OPERATIONS_MAX => Err(Failure::new(
                format!("there are more than {OPERATIONS_MAX} operations"),
                "name some",
            )),
            _ => Ok(found),
        }
    }

    fn cells(&self, listed: &[Listed]) -> Vec<Asked> {
        let mut cells = Vec::new();
        for operation in listed {
            let sizes: Vec<Option<u64>> = match operation.is_sized {
                true => self.size.iter().copied().map(Some).collect(),
                false => vec![None],
            };
            for size in sizes {
                for threads in &self.threads {
                    cells.push(Asked {
                        operation: operation.clone(),
                        size,
                        threads: *threads,
                    });
                }
            }
        }
        cells
    }

    /// Measures all cells in turns. Interrupted, it gives what has three rounds.
    fn measure(&self, source: &mut dyn Source, cells: &[Asked]) -> Result<Vec<MicroCost>, Failure> {
        let wanted = self.duration.as_nanos() as f64;
        let mut times = Vec::new();
        for cell in cells {
            times.push(calibrated(source, cell, wanted)?);
        }
        let mut took: Vec<Vec<Took>> = vec![Vec::new(); cells.len()];
        'rounds: for _ in 0..self.rounds {
            for (cell, (times, took)) in cells.iter().zip(times.iter().zip(&mut took)) {
                if interrupt::asked() {
                    break 'rounds;
                }
                took.push(source.run(cell, *times)?);
            }
        }
        let costs: Vec<MicroCost> = cells
            .iter()
            .zip(&took)
            .filter_map(|(cell, took)| cost(cell, took))
            .collect();
        match costs.is_empty() {
            true => Err(Failure::new("too little was measured", "let it run longer")),
            false => Ok(costs),
        }
    }
}

/// How many times take as long as one measurement should; also what warms it up.
fn calibrated(source: &mut dyn Source, cell: &Asked, wanted: f64) -> Result<u64, Failure> {
    let mut times = 1;
    loop {
        let took = source.run(cell, times)?;
        if took.wall_ns >= wanted / 10.0 || times > 1 << 40 {
            let more = wanted / took.wall_ns.max(1.0);
            return Ok(((times as f64 * more).ceil() as u64).clamp(1, 1 << 44));
        }
        times *= 4;
    }
}

fn cost(cell: &Asked, took: &[Took]) -> Option<MicroCost> {
    let rounds: Vec<f64> = took
        .iter()
        .map(|took| took.cpu_ns / took.times as f64)
        .collect();
    let estimate = Estimate::paired(&rounds).filter(|_| rounds.len() >= 3)?;
    let interval = estimate.interval(ALPHA);
    let wall: f64 = took.iter().map(|took| took.wall_ns).sum();
    let times: u64 = took.iter().map(|took| took.times).sum();
    Some(MicroCost {
        operation: cell.operation.name.clone(),
        about: cell.operation.about.clone(),
        size: cell.size,
        threads: cell.threads,
        cpu_ns: estimate.mean,
        cpu_ns_low: interval.low.max(0.0),
        cpu_ns_high: interval.high,
        per_second: times as f64 / (wall / 1e9).max(1e-9),
        rounds,
    })
}

fn table(found: &Found) -> String {
    let mut out = format!(
        "{:<24}{:>10}{:>9}{:>14}{:>26}{:>14}\n",
        "operation", "size", "threads", "CPU", "95 %", "a second"
    );
    for cost in &found.costs {
        let size = cost
            .size
            .map_or("-".to_owned(), |size| output::units::bytes(size as f64));
        let interval = format!("{} to {}", time(cost.cpu_ns_low), time(cost.cpu_ns_high));
        let _ = writeln!(
            out,
            "{:<24}{size:>10}{:>9}{:>14}{interval:>26}{:>14}",
            cut(&plain(&cost.operation), 23),
            cost.threads,
            time(cost.cpu_ns),
            number(cost.per_second.floor()),
        );
    }
    let most = found
        .costs
        .iter()
        .map(|cost| cost.threads)
        .max()
        .unwrap_or(1);
    if let Some(cores) = found.cores_physical.filter(|cores| most > *cores) {
        let _ = writeln!(
            out,
            "This machine has {cores} physical cores: what more threads do is no scaling."
        );
    }
    if run::version().contains("debug") {
        out += "This is a debug build: its numbers are no claim.\n";
    }
    out
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_has_its_interval_and_needs_three_rounds() {
        let operation = Listed {
            name: "x".to_owned(),
            about: String::new(),
            is_sized: false,
        };
        let cell = Asked {
            operation,
            size: None,
            threads: 1,
        };
        let took = |cpu_ns| Took {
            times: 100,
            cpu_ns,
            wall_ns: 1e6,
        };
        assert!(cost(&cell, &[took(1000.0), took(1000.0)]).is_none());
        let found = cost(&cell, &[took(900.0), took(1000.0), took(1100.0)]).unwrap();
        assert!(
            (found.cpu_ns - 10.0).abs() < 1e-9
                && found.cpu_ns_low < 10.0
                && found.cpu_ns_high > 10.0
        );
        assert!((found.per_second - 1e5).abs() < 1.0, "{}", found.per_second);
    }
}
