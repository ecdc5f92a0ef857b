//! `weir lab soak`: does it leak or drift?
//!
//! Memory is watched before a load, under it and after it, of each process for itself. A process leaks when its memory
//! rises for sure and by more than is allowed; both are needed, since noise that remembers itself rises now and then. The
//! verdict is on memory alone: whether the load was fast is for `weir lab sweep`.

use std::time::{Duration, Instant};

use clap::Args;

use crate::bench::asked::AskedServer;
use crate::bench::deliver;
use crate::bench::side::given;
use crate::bench::stand::Stand;
use crate::exit::{Ended, Exit, Failure};
use crate::experiments::load::Load;
use crate::facts::Facts;
use crate::facts::level::{ALPHA, CellFacts};
use crate::facts::soak::{DriftVerdict, ProcessDrift, Soak};
use crate::interrupt;
use crate::output::{self, Look, Observer, screen};
use crate::report::experiments::soak::sheet;
use crate::report::words::{bytes, seconds, share};
use crate::result::{FlowResult, Run, SubjectResult};
use crate::scenario::{self, units};
use crate::stats::drift::Drift;
use crate::stats::location::median;
use crate::tally::Fault;
use crate::watch::{Subject, Watcher};

/// How long the load is, and its warm-up, when nothing else is said.
const DURATION: &str = "10m";
const WARMUP: &str = "30s";
/// How often memory is looked at, when nothing else is said.
const EVERY: &str = "1s";
/// Growth under this many bytes is pages of the system, and no leak.
const GROWTH_BYTES_MIN: f64 = 256.0 * 1024.0;
/// Memory is unwound when it is within this share of what it was.
const UNWOUND: f64 = 0.05;
/// Flags of a load that mean nothing here.
const NOT_HERE: &[&str] = &["stage", "threshold"];

const EXAMPLES: &str = "\
Examples:
  weir lab soak http://127.0.0.1:8900/ -R 500 -d 60m --out soak       An hour at 500 arrivals a second
  weir lab soak --command './gateway --port {port}' http://127.0.0.1:{port}/ -c 50 -d 60m
  weir lab soak http://127.0.0.1:8080/ -c 50 -d 60m --watch name:nginx --watch name:proxy --settle 2m
  weir lab soak http://127.0.0.1:8900/ -c 16 -d 5m --max-residual 5% --max-slope 2%

Exit codes: 0 steady, 2 it could not be run, 91 too short to tell, 95 a wrong answer, 99 a process leaks or stays large, 105
interrupted. weir lab --help says each.";

/// Watches the memory of a server before, under and after a load, and says which process leaks
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SoakArgs {
    #[command(flatten)]
    asked: AskedServer,
    /// How long it is watched before the load
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    before: Duration,
    /// How long it is watched after the load
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    settle: Duration,
    /// The most that memory may be larger after the load than before
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share_of)]
    max_residual: f64,
    /// The most that memory may rise under the load, in an hour, as a share of its median
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share_of)]
    max_slope: f64,
}

/// When the phases began and ended, in seconds from the start of the watch.
#[derive(Clone, Copy, Debug)]
struct Phases {
    load: f64,
    /// After the warm-up.
    under: f64,
    after: f64,
    end: f64,
}

impl SoakArgs {
    pub fn run(self) -> Ended {
        let load = self.load()?;
        let warmup = self
            .asked
            .time("warmup", units::duration(WARMUP).unwrap_or_default())?;
        let hold = self
            .asked
            .time("duration", units::duration(DURATION).unwrap_or_default())?;
        if self.asked.dry_run {
            self.asked.spec().check(&load)?;
            let all = self.before + warmup + hold + self.settle;
            let text = format!(
                "before {}, warm-up {}, under load {}, after {}: {} in all\n",
                seconds(self.before.as_secs_f64()),
                seconds(warmup.as_secs_f64()),
                seconds(hold.as_secs_f64()),
                seconds(self.settle.as_secs_f64()),
                seconds(all.as_secs_f64())
            );
            output::say(&mut std::io::stdout(), &text)?;
            return Ok(Exit::Pass);
        }
        deliver::check(&self.asked)?;
        interrupt::listen()?;
        let mut stand = Stand::set_up(self.asked.spec(), load, None)?;
        let subjects = subjects(&stand)?;
        let (run, series, phases) = self.watched(&mut stand, &subjects, warmup)?;
        let soak = self.read(&stand, &run, &series, phases);
        let exit = exit(&soak, &run);
        let mut facts = Facts::new();
        let sheet = sheet(&soak);
        facts.soaks.push(soak);
        deliver::deliver(&self.asked, &facts, &sheet)?;
        Ok(exit)
    }

    fn load(&self) -> Result<Load, Failure> {
        let mut load = self.asked.load(NOT_HERE)?;
        for (name, text) in [
            ("duration", DURATION),
            ("warmup", WARMUP),
            ("watch-every", EVERY),
        ] {
            if self.asked.flag(name).is_none() {
                load.flags.given.push(given(name, text)?);
            }
        }
        Ok(load)
    }

    /// Watches before, sends the load, watches after. A Ctrl-C ends the phase that it is in, and all later ones.
    fn watched(
        &self,
        stand: &mut Stand,
        subjects: &[Subject],
        warmup: Duration,
    ) -> Result<(Run, Vec<SubjectResult>, Phases), Failure> {
        let every = self.asked.time("watch-every", Duration::from_secs(1))?;
        let watcher = Watcher::start(subjects, every)?;
        let begin = Instant::now();
        let now = || begin.elapsed().as_secs_f64();
        self.asked.tell(&format!(
            "soak: before the load, {}",
            seconds(self.before.as_secs_f64())
        ));
        wait(self.before);
        let load = now();
        let mut shown = self.observer(stand)?;
        let measured = stand.run_before(&[], &[], shown.as_mut());
        let ended = shown.finish();
        let run = measured?.run;
        ended?;
        let after = now();
        self.asked.tell(&format!(
            "soak: after the load, {}",
            seconds(self.settle.as_secs_f64())
        ));
        wait(self.settle);
        let phases = Phases {
            load,
            under: (load + warmup.as_secs_f64()).min(after),
            after,
            end: now(),
        };
        let (watched, _) = watcher.finish(&[]);
        Ok((run, watched.subjects, phases))
    }

    fn observer(&self, stand: &Stand) -> Result<Box<dyn Observer>, Failure> {
        let look = if self.asked.quiet || self.asked.json {
            Look::Away
        } else {
            Look::Best
        };
        Ok(screen(&stand.planned()?.0.plan, look))
    }

    fn read(&self, stand: &Stand, run: &Run, subjects: &[SubjectResult], phases: Phases) -> Soak {
        let words = vec![
            "--before".to_owned(),
            format!("{}ms", self.before.as_millis()),
            "--settle".to_owned(),
            format!("{}ms", self.settle.as_millis()),
            "--max-residual".to_owned(),
            format!("{}%", self.max_residual * 100.0),
            "--max-slope".to_owned(),
            format!("{}%", self.max_slope * 100.0),
        ];
        let mut rng = fastrand::Rng::with_seed(self.asked.seed());
        let watched = subjects
            .iter()
            .filter(|s| s.kind == "process" || s.kind == "cgroup");
        let processes: Vec<ProcessDrift> = watched
            .filter_map(|subject| self.process(subject, phases, &mut rng))
            .collect();
        let is_blamed =
            |p: &&ProcessDrift| matches!(p.verdict, DriftVerdict::Leaks | DriftVerdict::StaysLarge);
        let flow = run.flows.first();
        let mut drift = |of: fn(&crate::result::Point) -> Option<f64>| {
            flow.and_then(|flow| drift_of(flow, of, &mut rng))
        };
        let p99_drift = drift(|point| point.p99_us);
        let rate_drift = drift(|point| Some(point.completed as f64 / point.seconds));
        let words = self.asked.words("soak", &words);
        let mut setting = stand.setting(&self.asked, words, interrupt::asked());
        setting.warnings.extend(first_uses(run, phases));
        Soak {
            setting,
            before_s: phases.load,
            warmup_s: phases.under - phases.load,
            under_s: phases.after - phases.under,
            after_s: phases.end - phases.after,
            load: CellFacts::of(run),
            blamed: processes
                .iter()
                .filter(is_blamed)
                .map(|p| p.name.clone())
                .collect(),
            processes,
            max_residual: self.max_residual,
            max_slope_hour: self.max_slope,
            p99_drift,
            rate_drift,
        }
    }

    /// One process by its samples: of the memory that no file backs, where the kernel tells it. Pages of files come in as
    /// code runs for the first time, and are no leak.
    fn process(
        &self,
        subject: &SubjectResult,
        phases: Phases,
        rng: &mut fastrand::Rng,
    ) -> Option<ProcessDrift> {
        let series: Vec<(f64, f64)> = subject
            .series
            .iter()
            .filter_map(|s| Some((s.t_s, s.anon_bytes.or(s.rss_bytes)? as f64)))
            .collect();
        let between = |from: f64, to: f64| -> Vec<(f64, f64)> {
            series
                .iter()
                .copied()
                .filter(|(t, _)| *t >= from && *t < to)
                .collect()
        };
        let middle = |part: &[(f64, f64)]| median(&part.iter().map(|p| p.1).collect::<Vec<_>>());
        let (before, under) = (
            between(0.0, phases.load),
            between(phases.under, phases.after),
        );
        // The second half of what follows: memory is given time to be given back.
        let after = between(0.5 * (phases.after + phases.end), f64::INFINITY);
        let before_bytes = middle(&before)?;
        let mut found = ProcessDrift {
            name: subject.name.clone(),
            before_bytes,
            under_bytes: middle(&under).unwrap_or(before_bytes),
            after_bytes: middle(&after)?,
            unwound_after_s: series
                .iter()
                .find(|(t, rss)| *t >= phases.after && *rss <= (1.0 + UNWOUND) * before_bytes)
                .map(|(t, _)| t - phases.after),
            drift: Drift::of(&under, ALPHA, rng),
            verdict: DriftVerdict::CannotTell,
            evidence: String::new(),
            series,
        };
        self.judge(&mut found, phases.after - phases.under);
        Some(found)
    }

    /// What it does: significance and materiality, both.
    fn judge(&self, found: &mut ProcessDrift, under_s: f64) {
        let residual = found.residual();
        let stays = residual > self.max_residual
            && found.after_bytes - found.before_bytes > GROWTH_BYTES_MIN;
        let Some((drift, slope_hour)) = found.drift.as_ref().zip(found.slope_hour()) else {
            found.evidence = "there are fewer than 8 samples under the load".to_owned();
            return;
        };
        let is_material = slope_hour > self.max_slope && drift.slope * under_s > GROWTH_BYTES_MIN;
        let hour = |slope: f64| {
            let size = bytes((slope.abs() * 3600.0) as u64);
            if slope < 0.0 {
                format!("−{size}")
            } else {
                size
            }
        };
        let slope = format!(
            "{} an hour under load (95 % sure: {} to {}), {} of its median in an hour (allowed: {})",
            hour(drift.slope),
            hour(drift.interval.low),
            hour(drift.interval.high),
            share(slope_hour),
            share(self.max_slope)
        );
        let stayed = format!(
            "{} larger after the load than before (allowed: {})",
            share(residual),
            share(self.max_residual)
        );
        (found.verdict, found.evidence) = match () {
            () if drift.rises() && is_material => (
                DriftVerdict::Leaks,
                format!("it rises by {slope}; it is {stayed}"),
            ),
            () if stays => (
                DriftVerdict::StaysLarge,
                format!("it is {stayed}; it does not rise for sure: {slope}"),
            ),
            () => (
                DriftVerdict::Steady,
                format!("it moves by {slope}; it is {stayed}"),
            ),
        };
    }
}

/// An open load takes its connections in turn, and a server keeps memory for each that was used: where the warm-up is over
/// before each was, that memory looks like a slope.
fn first_uses(run: &Run, phases: Phases) -> Option<String> {
    let flow = run.flows.iter().find(|flow| flow.model == "open")?;
    let rate = flow.measured.rate_planned.unwrap_or(flow.measured.rate);
    let used = rate * (phases.under - phases.load);
    (used < flow.connections as f64).then(|| {
        format!(
            "The warm-up was over before each of {} connections was used once: the memory of connections may be in the slope. \
             Give fewer with -c, or a longer --warmup.",
            flow.connections
        )
    })
}

/// What is watched: what was named, what was started, or what listens where the load goes.
fn subjects(stand: &Stand) -> Result<Vec<Subject>, Failure> {
    let (cell, settings) = stand.planned()?;
    let named = settings
        .watch
        .iter()
        .map(|text| Subject::parse(text).map_err(|why| Failure::new(why, "")));
    let mut subjects: Vec<Subject> = named.collect::<Result<_, _>>()?;
    subjects.extend(stand.pid().map(Subject::Pid));
    if subjects.is_empty() {
        subjects = scenario::servers_here(&cell.plan);
    }
    let has_memory = |s: &Subject| !matches!(s, Subject::Prometheus { .. });
    match subjects.iter().any(has_memory) {
        true => Ok(subjects),
        false => Err(Failure::new(
            "there is no process to watch, and a soak is about the memory of processes",
            "name one with --watch, such as --watch name:nginx, or start the server with --command",
        )),
    }
}

/// Waits, unless it is interrupted.
fn wait(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time && !interrupt::asked() {
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
}

/// The drift of a number of intervals, over the holds.
fn drift_of(
    flow: &FlowResult,
    of: fn(&crate::result::Point) -> Option<f64>,
    rng: &mut fastrand::Rng,
) -> Option<Drift> {
    let hold = flow.steps.iter().find(|step| step.kind == "hold")?;
    let (begin, end) = (hold.begin_s, hold.begin_s + hold.summary.seconds);
    let points = flow
        .series
        .iter()
        .filter(|p| p.t_s - p.seconds >= begin - 1e-6 && p.t_s <= end + 1e-6);
    let series: Vec<(f64, f64)> = points.filter_map(|p| Some((p.t_s, of(p)?))).collect();
    Drift::of(&series, ALPHA, rng)
}

fn exit(soak: &Soak, run: &Run) -> Exit {
    let wrong = run
        .total
        .errors
        .get(Fault::Integrity.as_str())
        .is_some_and(|n| *n > 0);
    let cannot_tell = soak.processes.is_empty()
        || soak
            .processes
            .iter()
            .any(|p| p.verdict == DriftVerdict::CannotTell);
    match () {
        () if soak.setting.partial => Exit::Interrupted,
        () if wrong => Exit::Integrity,
        () if !soak.blamed.is_empty() => Exit::Threshold,
        () if cannot_tell => Exit::TooShort,
        () => Exit::Pass,
    }
}

/// Reads a share above 0, such as 5%.
fn share_of(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|n| n / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if share > 0.0 && share <= 100.0 => Ok(share),
        _ => Err(format!("`{text}` is no share above 0; write 5%")),
    }
}
