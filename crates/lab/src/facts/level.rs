//! One level of load, measured once or several times: the same numbers as a single run of `weir lab load`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::REPEATS_MIN;
use crate::result::{Point, Run, SubjectResult, Summary, Verdict};
use crate::stats::interval::{Estimate, Interval};
use crate::stats::location;

/// The level of every interval that is told.
pub const ALPHA: f64 = 0.05;

/// How a level is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    /// So many connections, each of which waits for its answer.
    #[default]
    Closed,
    /// So many arrivals a second, whatever the answers do.
    Open,
}

/// A level with its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelFacts {
    pub label: String,
    pub model: Loop,
    /// Connections, or arrivals a second.
    pub at: f64,
    pub runs: Vec<CellFacts>,
}

/// What one run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellFacts {
    pub seconds: f64,
    /// Good answers a second. An answer that failed is not carried.
    pub rate: f64,
    pub requests: u64,
    pub failed: u64,
    pub dropped: u64,
    /// By class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub errors: BTreeMap<String, u64>,
    /// Answers 429: the target's own limit spoke.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub limited: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    /// Response times in microseconds; absent where nothing was answered well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p90_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p95_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_us: Option<f64>,
    /// CPU time for a request, of everything watched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target_cpu_us: Option<f64>,
    /// Cores that everything watched used, its memory at most, and how busy its busiest thread was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target_cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target_busiest_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generator_cpu_us: Option<f64>,
    /// Each process that was watched, by its name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub processes: Vec<ProcessFacts>,
    /// Gauges of a watched endpoint, at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub gauges: BTreeMap<String, f64>,
    pub verdict: Verdict,
    /// Why it is not valid.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub evidence: String,
}

/// One process in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFacts {
    pub name: String,
    pub cores: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rss_bytes: Option<u64>,
}

/// Good answers a second that came while an open load was held; nothing for closed loads, whose requests are answered
/// where they are due.
fn answered_in_holds(run: &Run) -> Option<f64> {
    let (mut good, mut seconds) = (0, 0.0);
    for flow in run.flows.iter().filter(|flow| flow.model == "open") {
        for step in flow.steps.iter().filter(|step| step.kind == "hold") {
            let (begin, end) = (step.begin_s, step.begin_s + step.summary.seconds);
            let is_in = |p: &&Point| p.t_s - p.seconds >= begin - 1e-3 && p.t_s <= end + 1e-3;
            for point in flow.series.iter().filter(is_in) {
                good += point.completed.saturating_sub(point.failed);
                seconds += point.seconds;
            }
        }
    }
    (seconds > 0.0).then(|| good as f64 / seconds)
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl CellFacts {
    /// What a run measured, over its holds.
    pub fn of(run: &Run) -> CellFacts {
        let mut cell = CellFacts::in_window(run, &run.measured, "");
        // A summary counts a request where it was due. Under overload many are answered after the window, when nothing
        // more comes: they are not what is carried in it.
        cell.rate = answered_in_holds(run).unwrap_or(cell.rate);
        cell
    }

    fn in_window(run: &Run, found: &Summary, window: &str) -> CellFacts {
        let response = found.latency.get("response");
        let broken = run.validity.criteria.iter().find(|c| !c.holds);
        let mut cell = CellFacts {
            seconds: found.seconds,
            rate: if found.seconds > 0.0 {
                found.good as f64 / found.seconds
            } else {
                0.0
            },
            requests: found.requests,
            failed: found.failed,
            dropped: found.dropped,
            errors: found.errors.clone(),
            limited: found.statuses.get("429").copied().unwrap_or(0),
            bytes_out: found.bytes_out,
            bytes_in: found.bytes_in,
            mean_us: response.map(|q| q.mean),
            p50_us: response.map(|q| q.p50),
            p90_us: response.map(|q| q.p90),
            p95_us: response.map(|q| q.p95),
            p99_us: response.map(|q| q.p99),
            max_us: response.map(|q| q.max),
            target_cpu_us: found.watched_cpu_us,
            generator_cpu_us: found.generator_cpu_us,
            verdict: run.validity.verdict,
            evidence: broken.map_or(String::new(), |c| c.evidence.clone()),
            ..CellFacts::default()
        };
        cell.watched(&run.watched.subjects, window);
        cell
    }

    fn watched(&mut self, subjects: &[SubjectResult], window: &str) {
        for subject in subjects {
            let Some(step) = subject.steps.iter().find(|step| step.step == window) else {
                continue;
            };
            self.gauges.extend(
                step.values
                    .iter()
                    .map(|(name, value)| (name.clone(), *value)),
            );
            let is_target = subject.kind == "process" || subject.kind == "cgroup";
            if !is_target || subject.part_of.is_some() {
                continue;
            }
            *self.target_cores.get_or_insert(0.0) += step.cores;
            if let Some(rss) = step.rss_bytes_max {
                *self.target_rss_bytes.get_or_insert(0) += rss;
            }
            let busy = step
                .threads
                .iter()
                .map(|thread| thread.busy_share + thread.waited_share);
            let busiest = busy.chain(self.target_busiest_share).reduce(f64::max);
            self.target_busiest_share = busiest.map(|share| share.min(1.0));
            self.processes.push(ProcessFacts {
                name: subject.name.clone(),
                cores: step.cores,
                rss_bytes: step.rss_bytes_max,
            });
        }
    }
}

impl LevelFacts {
    pub fn new(label: impl Into<String>, model: Loop, at: f64) -> LevelFacts {
        LevelFacts {
            label: label.into(),
            model,
            at,
            runs: Vec::new(),
        }
    }

    /// The mean of the rates of its runs.
    pub fn rate(&self) -> f64 {
        location::mean(&self.rates()).unwrap_or(0.0)
    }

    /// The rate that its runs leave for sure; from three on.
    pub fn rate_interval(&self) -> Option<Interval> {
        let rates = self.rates();
        let estimate = Estimate::paired(&rates).filter(|_| rates.len() >= REPEATS_MIN)?;
        let interval = estimate.interval(ALPHA);
        Some(Interval {
            low: interval.low.max(0.0),
            high: interval.high,
        })
    }

    pub fn rates(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.rate).collect()
    }

    /// The median of a number over its runs.
    pub fn middle(&self, of: impl Fn(&CellFacts) -> Option<f64>) -> Option<f64> {
        let found: Vec<f64> = self.runs.iter().filter_map(of).collect();
        location::median(&found)
    }

    /// The largest of a number over its runs.
    pub fn most(&self, of: impl Fn(&CellFacts) -> Option<f64>) -> Option<f64> {
        self.runs.iter().filter_map(of).reduce(f64::max)
    }

    pub fn sum(&self, of: impl Fn(&CellFacts) -> u64) -> u64 {
        self.runs.iter().map(of).sum()
    }

    /// What Little's law makes the mean response of a closed loop: connections over rate, in microseconds. A measured
    /// mean that equals it says nothing that the rate has not said.
    pub fn little_us(&self) -> Option<f64> {
        let rate = self.rate();
        (self.model == Loop::Closed && rate > 0.0).then(|| self.at / rate * 1e6)
    }

    /// How far the measured mean is from that, as a share; over 3 % something was left out of one of them.
    pub fn little_off(&self) -> Option<f64> {
        let expected = self.little_us()?;
        Some(self.middle(|run| run.mean_us)? / expected - 1.0)
    }

    /// Whether there are enough runs for a headline.
    pub fn is_headline(&self) -> bool {
        self.runs.len() >= REPEATS_MIN
    }
}
