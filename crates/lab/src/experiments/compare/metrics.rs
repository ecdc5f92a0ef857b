//! What is compared, in the order in which it is believed: one row for each metric.
//!
//! CPU time per request comes first, because on a shared machine it is the number that repeats: when the load of
//! a neighbour moved throughput twelvefold, it moved CPU time per request by a third. So it alone has half of the
//! promise against false alarms, and the others share the rest.

use crate::result::{Quantiles, Run, Summary, Verdict};

/// How many metrics there are.
pub const METRICS: usize = METRIC.len();

/// Requests below which a p90 is the noise of a few.
const P90_REQUESTS_MIN: u64 = 100;
/// Requests below which a p99 is the noise of a few.
const P99_REQUESTS_MIN: u64 = 1000;

/// Which way a metric gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    Up,
    Down,
}

/// One thing that is compared.
#[derive(Debug)]
pub struct Metric {
    /// Its name in flags and in JSON.
    pub name: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    pub unit: Unit,
    pub worse: Worse,
    /// Its part of the promise against false alarms, against the parts of the others that were measured.
    pub weight: f64,
    read: fn(&Run) -> Option<f64>,
}

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Microseconds,
    PerSecond,
    Bytes,
}

/// Every metric, the most trusted first.
pub const METRIC: &[Metric] = &[
    Metric {
        name: "cpu_us_per_request",
        title: "CPU per request",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 7.0,
        read: |run| run.measured.watched_cpu_us,
    },
    Metric {
        name: "service_us_p50",
        title: "service p50",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |run| Some(latency(&run.measured, "service", 1)?.p50),
    },
    Metric {
        name: "service_us_p90",
        title: "service p90",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |run| Some(latency(&run.measured, "service", P90_REQUESTS_MIN)?.p90),
    },
    Metric {
        name: "service_us_p99",
        title: "service p99",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |run| Some(latency(&run.measured, "service", P99_REQUESTS_MIN)?.p99),
    },
    // Series of earlier runs hold responses; runs of blocks are read as a whole, and their services are.
    Metric {
        name: "response_us_p50",
        title: "response p50",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |_| None,
    },
    Metric {
        name: "response_us_p90",
        title: "response p90",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |_| None,
    },
    Metric {
        name: "response_us_p99",
        title: "response p99",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |_| None,
    },
    Metric {
        name: "first_token_us_p50",
        title: "first token p50",
        unit: Unit::Microseconds,
        worse: Worse::Up,
        weight: 1.0,
        read: |run| Some(latency(&run.measured, "first_token", 1)?.p50),
    },
    Metric {
        name: "requests_per_second",
        title: "throughput",
        unit: Unit::PerSecond,
        worse: Worse::Down,
        weight: 1.0,
        read: throughput,
    },
    Metric {
        name: "rss_bytes",
        title: "memory (RSS)",
        unit: Unit::Bytes,
        worse: Worse::Up,
        weight: 1.0,
        read: rss_bytes,
    },
];

/// The weight of the question whether errors increased, beside the metrics.
pub const ERRORS_WEIGHT: f64 = 1.0;

/// What one run of one side gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// By the order of [`METRIC`], in its unit; absent where it was not measured.
    pub values: [Option<f64>; METRICS],
    pub errors: Errors,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// Why this run must not be used, if it must not.
    pub unfit: Option<String>,
}

/// Requests that ended, and those of them that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    pub requests: u64,
    pub failed: u64,
}

impl Measured {
    /// What a run says. A run that measured something else than the target (a noisy host, a generator at its
    /// limit, an early end) is kept with the reason not to use it, unless that verdict is accepted. That a run is
    /// short is no reason: blocks are meant to be.
    pub fn of(run: &Run, accept: &[Verdict]) -> Measured {
        let mut measured = Measured {
            errors: errors(&run.measured),
            interrupted: run.validity.verdict == Verdict::Interrupted,
            unfit: unfit(run, accept),
            ..Measured::default()
        };
        for (value, metric) in measured.values.iter_mut().zip(METRIC) {
            *value = (metric.read)(run).filter(|value| value.is_finite() && *value > 0.0);
        }
        measured
    }

    /// Of a run that was not begun any more.
    pub fn interrupted() -> Measured {
        Measured {
            interrupted: true,
            unfit: Some(Verdict::Interrupted.as_str().to_owned()),
            ..Measured::default()
        }
    }
}

fn unfit(run: &Run, accept: &[Verdict]) -> Option<String> {
    let criteria = run.validity.criteria.iter().filter(|c| !c.holds);
    let mut matters = criteria.filter(|criterion| match criterion.verdict {
        Verdict::Valid | Verdict::NotSaturated | Verdict::TooShort => false,
        Verdict::NoisyHost | Verdict::GeneratorBound | Verdict::Interrupted => {
            !accept.contains(&criterion.verdict)
        }
    });
    let first = matters.next()?;
    Some(format!("{}: {}", first.verdict.as_str(), first.evidence))
}

/// Requests that the end of the run cut off have not failed; requests that were due and never sent have.
fn errors(summary: &Summary) -> Errors {
    let unfinished = summary.errors.get("unfinished").copied().unwrap_or(0);
    let failed = summary.failed.saturating_sub(unfinished) + summary.dropped;
    Errors {
        requests: summary.good + failed,
        failed,
    }
}

fn latency<'a>(summary: &'a Summary, name: &str, count_min: u64) -> Option<&'a Quantiles> {
    let quantiles = summary.latency.get(name)?;
    (quantiles.count >= count_min).then_some(quantiles)
}

/// Good answers a second. With planned arrivals both sides show the plan's number until one falls behind.
fn throughput(run: &Run) -> Option<f64> {
    let summary = &run.measured;
    (summary.seconds > 0.0).then(|| summary.good as f64 / summary.seconds)
}

/// The most memory that all watched processes and groups held, summed.
fn rss_bytes(run: &Run) -> Option<f64> {
    let subjects = run.watched.subjects.iter();
    let held = subjects
        .filter(|subject| subject.kind != "generator")
        .filter_map(|subject| {
            let measured = subject.steps.iter().find(|step| step.step.is_empty())?;
            measured.rss_bytes_max
        });
    let bytes: Vec<u64> = held.collect();
    (!bytes.is_empty()).then(|| bytes.iter().sum::<u64>() as f64)
}

/// The place of a metric in [`METRIC`].
pub fn place(name: &str) -> Option<usize> {
    METRIC.iter().position(|metric| metric.name == name)
}

/// The places in [`METRIC`] of some names; every place when none is named.
///
/// # Errors
///
/// The first name that is no metric.
pub fn places(names: &[String]) -> Result<Vec<usize>, String> {
    if names.is_empty() {
        return Ok((0..METRICS).collect());
    }
    let mut places = Vec::new();
    for name in names {
        let place = place(name).ok_or_else(|| name.clone())?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_unstable();
    Ok(places)
}
