//! Everything that a run shows or writes, except HTML: while it runs to an [`Observer`], at its end from a `Run`.
//!
//! What is shown is made from the same numbers as what is written, in one place for each form, so no two of them
//! can disagree. Nothing is computed here that `run.json` does not hold.

pub mod lines;
pub mod live;

pub mod summary;
pub(crate) mod table;
pub mod units;

pub(crate) mod artefact;
pub mod csv;
pub mod hlog;
pub mod json;
pub mod junit;
pub mod k6;
pub mod markdown;
mod wanted;

pub use wanted::{
    HISTOGRAM_FILE, JUNIT_FILE, K6_DATA_FILE, K6_FILE, MARKDOWN_FILE, MATRIX_FILE, RUN_FILE,
    Wanted, file_of, folder_of, say,
};

use std::collections::BTreeMap;
use std::io::IsTerminal;

use crate::exit::Failure;
use crate::plan::Plan;
use crate::result::HostSample;
use crate::tally::{Distribution, Tally};

/// Who looks on while a run goes on. Called from one thread, never from a generator's.
pub trait Observer: Send {
    /// Tells how the run stands, once an interval.
    fn interval(&mut self, snapshot: &Snapshot);

    /// Hands over what one flow tallied in one interval (all steps and kinds of requests added up): its end and its
    /// length, in seconds from the start of the run.
    fn histograms(&mut self, t_s: f64, seconds: f64, flow: &str, tally: &Tally) {
        let _ = (t_s, seconds, flow, tally);
    }

    /// Says one line of text, such as a warning.
    fn message(&mut self, text: &str) {
        let _ = text;
    }

    /// The run is over, or was stopped. Called once; nothing is shown any more afterwards.
    ///
    /// # Errors
    ///
    /// What was to be written along the way could not be. The run's result is not touched by this.
    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// How a run stands at the end of an interval.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Seconds from the start of the run, and how many are planned.
    pub t_s: f64,
    pub total_s: f64,
    pub flows: Vec<FlowSnapshot>,
    /// Watched processes and groups, the generator among them.
    pub subjects: Vec<SubjectSnapshot>,
    /// The generator's host, where it was read.
    pub host: Option<HostSample>,
}

/// How one flow stands.
#[derive(Clone, Debug, Default)]
pub struct FlowSnapshot {
    pub name: String,
    /// The stage that it is in.
    pub step: String,
    /// Open or closed: what `planned` means, arrivals a second or connections.
    pub open: bool,
    /// The level that the plan means now.
    pub planned: f64,
    /// Answers a second over the last interval.
    pub rate: f64,
    pub in_flight: u64,
    /// Due and not sent yet.
    pub waiting: u64,
    /// From the start of the run.
    pub completed: u64,
    pub good: u64,
    pub failed: u64,
    pub dropped: u64,
    /// Failures from the start, by [`crate::tally::Fault`]; those that occurred only.
    pub errors: BTreeMap<String, u64>,
    /// Response times of the last interval and from the start; absent where nothing was answered well.
    pub last: Option<Spread>,
    pub so_far: Option<Spread>,
}

/// A few quantiles, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    /// Of a distribution of nanoseconds, unless it is empty.
    pub fn of(distribution: &Distribution) -> Option<Spread> {
        let at = |q| distribution.quantile(q).map(|ns| ns as f64 / 1000.0);
        Some(Spread {
            p50: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
            max: distribution.most as f64 / 1000.0,
        })
    }
}

/// How one watched subject stands.
#[derive(Clone, Debug, Default)]
pub struct SubjectSnapshot {
    pub name: String,
    /// Cores used over the last interval; absent before the second sample, and of an endpoint.
    pub cores: Option<f64>,
    pub rss_bytes: Option<u64>,
}

/// Several observers as one, told in order.
pub struct All(pub Vec<Box<dyn Observer>>);

impl Observer for All {
    fn interval(&mut self, snapshot: &Snapshot) {
        self.0.iter_mut().for_each(|one| one.interval(snapshot));
    }

    fn histograms(&mut self, t_s: f64, seconds: f64, flow: &str, tally: &Tally) {
        for one in &mut self.0 {
            one.histograms(t_s, seconds, flow, tally);
        }
    }

    fn message(&mut self, text: &str) {
        self.0.iter_mut().for_each(|one| one.message(text));
    }

    /// Finishes every one, also after an error; the first error is told.
    fn finish(&mut self) -> Result<(), Failure> {
        let ends: Vec<_> = self.0.iter_mut().map(|one| one.finish()).collect();
        ends.into_iter().collect()
    }
}

/// Nobody looks on: `--quiet`.
pub struct Nobody;

impl Observer for Nobody {
    fn interval(&mut self, _: &Snapshot) {}
}

/// How a run is shown while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Not at all.
    Away,
    /// As plain lines.
    Lines,
    /// Drawn where standard error is a terminal that can be drawn on, as plain lines otherwise.
    Best,
}

/// Who shows a run on standard error.
pub fn screen(plan: &Plan, look: Look) -> Box<dyn Observer> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let draws = look == Look::Best && std::io::stderr().is_terminal() && !dumb;
    if look == Look::Away {
        Box::new(Nobody)
    } else if draws {
        let outline = live::Outline::of(plan);
        Box::new(live::Live::new(outline, may_colour()))
    } else {
        Box::new(lines::Lines::new(std::io::stderr()))
    }
}

/// Whether colours are welcome (<https://no-color.org>).
pub fn may_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
