//! `weir lab calibrate`: is this machine fit to measure on, and what are the instrument's own ceilings?
//!
//! Four measurements of some seconds each: the generator against the built-in origin as fast as they go, which
//! bounds every rate that can be told from this machine; how late a request leaves when it is due at an instant;
//! and how long the disk takes to make an append durable, beside which every `fsync` figure must be read.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Parser};

use crate::ceilings;
use crate::exit::{Ended, Exit, Failure};
use crate::experiments::load::Load;
use crate::interrupt;
use crate::output::{Nobody, units};
use crate::result::{Ceilings, Run, Verdict};
use crate::run::{self, Around};
use crate::scenario;
use crate::target;
use crate::watch;

/// Bytes of one append, and how many are measured.
const APPEND_BYTES: usize = 4096;
const APPENDS: usize = 200;
/// Arrivals a second at which lateness is measured.
const DUE_RATE: &str = "1000";

const EXAMPLES: &str = "\
Examples:
  weir lab calibrate                Measure for about half a minute, and remember it for every report
  weir lab calibrate --json         The same, as one JSON object
  weir lab calibrate --dir /data    Measure the disk that holds /data

What is found is kept in the user's cache folder, and shown by every later run on the same machine.

Exit codes: 0 measured, 2 it could not be done, 93 the machine was busy with something else, 105 interrupted.";

/// Measures what this machine and the lab itself can do at most
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Calibrate {
    /// How long the generator runs at its limit; lateness takes half as long
    #[arg(short, long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=300))]
    duration: u64,
    /// The folder whose disk is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print one JSON object, and nothing else, to standard output
    #[arg(long)]
    json: bool,
}

/// The words of a load, read as the command line reads them.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    load: Load,
}

impl Calibrate {
    pub fn run(self) -> Ended {
        interrupt::listen()?;
        let machine = watch::machine::read();
        self.say("disk: appending and syncing")?;
        let sync_ms = sync_ms(&self.dir)?;
        let target = target::start(target::Settings::default())
            .map_err(|error| Failure::new(format!("the origin cannot start: {error}"), ""))?;
        let url = format!("http://{}/", target.address());
        self.say("generator: as fast as the built-in origin answers")?;
        let seconds = format!("{}s", self.duration);
        let before = process_cpu();
        let closed = load(&[&url, "-c", "64", "-t", "1", "-d", &seconds])?;
        let cpu_us = (process_cpu() - before).as_secs_f64() * 1e6;
        self.say("timer: sending at given instants")?;
        let half = format!("{}s", self.duration.div_ceil(2));
        let open = load(&[&url, "-R", DUE_RATE, "-c", "16", "-t", "1", "-d", &half])?;
        target.stop();
        if interrupt::asked() {
            return Ok(Exit::Interrupted);
        }
        let found = of(&closed, &open, cpu_us, &sync_ms)?;
        let kept = ceilings::remember(&machine, &found)?;
        self.show(&found, &closed, &kept)
    }

    /// Progress, where somebody reads along.
    fn say(&self, what: &str) -> Result<(), Failure> {
        if !self.json {
            let written = writeln!(std::io::stderr(), "calibrate: {what}");
            written.map_err(|e| Failure::new(format!("standard error: {e}"), ""))?;
        }
        Ok(())
    }

    fn show(&self, found: &Ceilings, closed: &Run, kept: &Path) -> Ended {
        let noisy = closed.validity.verdict == Verdict::NoisyHost;
        let text = if self.json {
            let text = serde_json::to_string_pretty(found).expect("numbers and texts are JSON");
            text + "\n"
        } else {
            table(found, closed, kept)
        };
        let written = std::io::stdout().write_all(text.as_bytes());
        written.map_err(|e| Failure::new(format!("standard output: {e}"), ""))?;
        Ok(if noisy { Exit::NoisyHost } else { Exit::Pass })
    }
}

fn table(found: &Ceilings, closed: &Run, kept: &Path) -> String {
    let rows = [
        (
            "generator and origin, closed, 64 connections",
            format!("{} requests/s", units::number(found.generator_rps)),
        ),
        (
            "generator, CPU a request",
            units::duration(found.generator_cpu_us),
        ),
        (
            "origin, CPU a request",
            units::duration(found.origin_cpu_us),
        ),
        (
            "a request leaves late by, p50 and p99",
            format!(
                "{} and {}",
                units::duration(found.timer_us_p50),
                units::duration(found.timer_us_p99)
            ),
        ),
        (
            "fdatasync of 4 KiB appended, p50 and p95",
            format!(
                "{} and {}",
                units::duration(found.fdatasync_ms_p50 * 1000.0),
                units::duration(found.fdatasync_ms_p95 * 1000.0)
            ),
        ),
    ];
    let mut text = String::new();
    for (what, value) in rows {
        text += &format!("{what:<46} {value}\n");
    }
    let broken = closed.validity.criteria.iter();
    let noise = broken.filter(|c| c.verdict == Verdict::NoisyHost && !c.holds);
    for criterion in noise {
        text += &format!(
            "this machine is busy with something else: {}\n",
            criterion.evidence
        );
    }
    text + &format!("kept in {}\n", kept.display())
}

fn of(closed: &Run, open: &Run, cpu_us: f64, sync_ms: &[f64]) -> Result<Ceilings, Failure> {
    let requests = closed.total.requests as f64;
    let lag = open.measured.latency.get("lag");
    let (Some(generator), Some(lag)) = (closed.total.generator_cpu_us, lag) else {
        return Err(Failure::new(
            "the origin answered nothing",
            "look at what else this machine is doing, and try again",
        ));
    };
    let at = |q: f64| sync_ms[((sync_ms.len() - 1) as f64 * q) as usize];
    Ok(Ceilings {
        measured: closed.meta.started.clone(),
        generator_rps: closed.measured.rate,
        generator_cpu_us: generator,
        // One process: what the generator's threads did not use, the origin did.
        origin_cpu_us: (cpu_us / requests - generator).max(0.0),
        fdatasync_ms_p50: at(0.5),
        fdatasync_ms_p95: at(0.95),
        timer_us_p50: lag.p50,
        timer_us_p99: lag.p99,
    })
}

/// One load on the built-in origin.
fn load(words: &[&str]) -> Result<Run, Failure> {
    let load = Words::try_parse_from(words)
        .map_err(|e| Failure::new(e.to_string(), ""))?
        .load;
    let (cells, settings) =
        scenario::plan(&load).map_err(|problems| scenario::failure(&problems))?;
    let cell = cells.first().expect("no matrix was asked for");
    let around = Around {
        watch_every: settings.watch_every,
        ..Around::default()
    };
    run::carry_out(&cell.plan, &around, &mut Nobody)
}

/// CPU time of this process.
fn process_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long appends take to be durable, in milliseconds, sorted.
fn sync_ms(folder: &Path) -> Result<Vec<f64>, Failure> {
    let path = folder.join(format!(".weir-lab-{}.probe", std::process::id()));
    let probed = File::create_new(&path).and_then(appends);
    // The probe's own failure is told first; a file that cannot be removed was not made.
    let _ = std::fs::remove_file(&path);
    probed.map_err(|error| {
        let help = "name a folder that can be written with --dir";
        Failure::new(format!("{}: {error}", folder.display()), help)
    })
}

fn appends(mut file: File) -> std::io::Result<Vec<f64>> {
    let block = [0x77; APPEND_BYTES];
    let mut times = Vec::with_capacity(APPENDS);
    for _ in 0..APPENDS {
        let begin = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
