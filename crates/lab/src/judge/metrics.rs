//! The metrics that a threshold may name: k6's names and ours in one table, and where a run keeps each.
//!
//! k6's `http_req_duration` is our `response`: from the intended start, so that a server that stops answering cannot
//! look fast. It is of good answers only; what failed is in `http_req_failed`.

use crate::result::{Quantiles, Run, StepResult, Summary};
use crate::tally::Fault;

/// What kind of numbers a metric gives, and so which statistics it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A distribution of durations; bounds are in ms.
    Duration,
    /// A distribution of plain numbers.
    Number,
    /// A share of requests.
    Share,
    /// Something counted.
    Count,
    /// One value.
    Value,
}

impl Shape {
    /// The statistics that it has, as they are written.
    pub(crate) fn statistics(self) -> &'static str {
        match self {
            Shape::Duration | Shape::Number => {
                "avg, min, med, max, count, p(50), p(75), p(90), p(95), p(99), p(99.9), p(99.99)"
            }
            Shape::Share => "rate, count",
            Shape::Count => "count, rate",
            Shape::Value => "value, max",
        }
    }
}

/// Where a run keeps a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `Summary::latency` by this name.
    Latency(&'static str),
    TokensPerSecond,
    /// Failed, of those that ended.
    Failed,
    /// Good, of those that ended.
    Good,
    Requests,
    Dropped,
    Queued,
    BytesOut,
    BytesIn,
    Tokens,
    WatchedCpu,
    GeneratorCpu,
    Rss,
}

/// Every metric: its name, what it gives, where it is, in the order that they are listed in errors.
pub(crate) const METRICS: &[(&str, Shape, Source)] = &[
    (
        "http_req_duration",
        Shape::Duration,
        Source::Latency("response"),
    ),
    ("http_req_failed", Shape::Share, Source::Failed),
    ("http_reqs", Shape::Count, Source::Requests),
    (
        "http_req_waiting",
        Shape::Duration,
        Source::Latency("service"),
    ),
    ("http_req_blocked", Shape::Duration, Source::Latency("lag")),
    (
        "http_req_connecting",
        Shape::Duration,
        Source::Latency("connect"),
    ),
    (
        "http_req_tls_handshaking",
        Shape::Duration,
        Source::Latency("tls"),
    ),
    (
        "iteration_duration",
        Shape::Duration,
        Source::Latency("response"),
    ),
    ("iterations", Shape::Count, Source::Requests),
    ("dropped_iterations", Shape::Count, Source::Dropped),
    ("checks", Shape::Share, Source::Good),
    ("data_sent", Shape::Count, Source::BytesOut),
    ("data_received", Shape::Count, Source::BytesIn),
    ("response", Shape::Duration, Source::Latency("response")),
    ("service", Shape::Duration, Source::Latency("service")),
    ("lag", Shape::Duration, Source::Latency("lag")),
    ("failed", Shape::Duration, Source::Latency("failed")),
    ("connect", Shape::Duration, Source::Latency("connect")),
    ("tls", Shape::Duration, Source::Latency("tls")),
    ("ttft", Shape::Duration, Source::Latency("first_token")),
    ("token_gap", Shape::Duration, Source::Latency("token_gap")),
    ("tokens_per_second", Shape::Number, Source::TokensPerSecond),
    ("tokens", Shape::Count, Source::Tokens),
    ("errors", Shape::Share, Source::Failed),
    ("requests", Shape::Count, Source::Requests),
    ("dropped", Shape::Count, Source::Dropped),
    ("queued", Shape::Count, Source::Queued),
    ("cpu_us_per_request", Shape::Value, Source::WatchedCpu),
    ("generator_cpu_us", Shape::Value, Source::GeneratorCpu),
    ("rss_mb", Shape::Value, Source::Rss),
];

/// What of a metric is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    Mean,
    Min,
    Max,
    Count,
    Rate,
    Value,
    /// A quantile that runs keep, in percent.
    Percentile(f64),
}

/// The percentiles that a run keeps.
pub(super) const PERCENTILES: &[f64] = &[50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Statistic {
    /// Reads one as a metric of this shape has it; `None` when it has none of that name.
    pub(super) fn parse(text: &str, shape: Shape) -> Option<Statistic> {
        let found = match text {
            "avg" => Statistic::Mean,
            "min" => Statistic::Min,
            "med" => Statistic::Percentile(50.0),
            "max" => Statistic::Max,
            "count" => Statistic::Count,
            "rate" => Statistic::Rate,
            "value" => Statistic::Value,
            other => {
                let inside = other.strip_prefix("p(")?.strip_suffix(')')?;
                let percent: f64 = inside.trim().parse().ok()?;
                Statistic::Percentile(*PERCENTILES.iter().find(|kept| **kept == percent)?)
            }
        };
        let fits = match shape {
            Shape::Duration | Shape::Number => !matches!(found, Statistic::Rate | Statistic::Value),
            Shape::Share | Shape::Count => matches!(found, Statistic::Rate | Statistic::Count),
            Shape::Value => matches!(found, Statistic::Value | Statistic::Max),
        };
        fits.then_some(found)
    }

    /// Whether it says nothing of a ramp, where the level is another at each instant.
    pub(super) fn needs_hold(self) -> bool {
        matches!(
            self,
            Statistic::Percentile(_) | Statistic::Mean | Statistic::Min | Statistic::Max
        )
    }

    /// Of several windows: the sum, where that has a meaning.
    pub(super) fn adds_up(self) -> bool {
        matches!(self, Statistic::Count)
    }
}

/// What a metric is read from: a summary, and what was watched in the same window.
pub(super) struct Window<'a> {
    pub run: &'a Run,
    pub summary: &'a Summary,
    /// `""` for what is measured.
    pub step: &'a str,
}

impl<'a> Window<'a> {
    /// Of one step.
    pub(super) fn of_step(run: &'a Run, step: &'a StepResult) -> Window<'a> {
        Window {
            run,
            summary: &step.summary,
            step: &step.name,
        }
    }

    /// The number, in the metric's own unit (ms for durations); `None` where there is nothing to read.
    pub(super) fn read(&self, source: Source, statistic: Statistic, only: Only<'_>) -> Option<f64> {
        let summary = self.summary;
        let ended = summary.good + summary.failed;
        let count = |count: u64| match statistic {
            Statistic::Count => Some(count as f64),
            _ => (summary.seconds > 0.0).then(|| count as f64 / summary.seconds),
        };
        let share = |part: u64| match statistic {
            _ if ended == 0 => None,
            Statistic::Count => Some(part as f64),
            _ => Some(part as f64 / ended as f64),
        };
        match source {
            Source::Latency(name) => quantile(summary.latency.get(name)?, statistic, 1000.0),
            Source::TokensPerSecond => {
                quantile(summary.tokens_per_second.as_ref()?, statistic, 1.0)
            }
            Source::Failed => share(match only.class {
                Some(class) => summary.errors.get(class).copied().unwrap_or(0),
                None => summary.failed,
            }),
            Source::Good => share(summary.good),
            Source::Requests if statistic == Statistic::Rate => {
                Some(summary.rate).filter(|_| ended > 0)
            }
            Source::Requests => count(summary.requests),
            Source::Dropped => count(summary.dropped),
            Source::Queued => count(summary.queued),
            Source::BytesOut => count(summary.bytes_out),
            Source::BytesIn => count(summary.bytes_in),
            Source::Tokens => count(summary.tokens),
            Source::GeneratorCpu => summary.generator_cpu_us,
            Source::WatchedCpu => self.cpu_us(only.watched),
            Source::Rss => self.rss_mb(only.watched),
        }
    }

    fn cpu_us(&self, watched: Option<&str>) -> Option<f64> {
        let Some(name) = watched else {
            return crate::watch::watched_cpu_us(&self.run.watched, self.step);
        };
        let subject = self
            .run
            .watched
            .subjects
            .iter()
            .find(|subject| is_named(&subject.name, name))?;
        subject
            .steps
            .iter()
            .find(|step| step.step == self.step)?
            .cpu_us_per_request
    }

    /// The most that one subject, or all processes and cgroups together, had at a time, in 10⁶ bytes.
    fn rss_mb(&self, watched: Option<&str>) -> Option<f64> {
        let subjects = self
            .run
            .watched
            .subjects
            .iter()
            .filter(|subject| match watched {
                Some(name) => is_named(&subject.name, name),
                None => {
                    matches!(subject.kind.as_str(), "process" | "cgroup")
                        && subject.part_of.is_none()
                }
            });
        let most = subjects.filter_map(|subject| {
            let step = subject.steps.iter().find(|step| step.step == self.step)?;
            Some(step.rss_bytes_max.or(step.rss_bytes_end)? as f64 / 1e6)
        });
        most.reduce(|sum, part| sum + part)
    }
}

/// A subject that was given by its pid is named `nginx (123)`, which `nginx` means too.
fn is_named(subject: &str, name: &str) -> bool {
    let rest = subject.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}

/// What narrows a metric beside its window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Only<'a> {
    /// A [`Fault`] by its name.
    pub class: Option<&'a str>,
    /// A subject by its name.
    pub watched: Option<&'a str>,
}

fn quantile(found: &Quantiles, statistic: Statistic, unit: f64) -> Option<f64> {
    if found.count == 0 {
        return None;
    }
    let value = match statistic {
        Statistic::Count => return Some(found.count as f64),
        Statistic::Mean => found.mean,
        Statistic::Min => found.min,
        Statistic::Max => found.max,
        Statistic::Percentile(percent) => match percent {
            50.0 => found.p50,
            75.0 => found.p75,
            90.0 => found.p90,
            95.0 => found.p95,
            99.0 => found.p99,
            99.9 => found.p999?,
            99.99 => found.p9999?,
            _ => return None,
        },
        Statistic::Rate | Statistic::Value => return None,
    };
    Some(value / unit)
}

/// A metric by its name.
pub(super) fn find(name: &str) -> Option<(Shape, Source)> {
    let found = METRICS.iter().find(|(known, ..)| *known == name)?;
    Some((found.1, found.2))
}

/// Whether a fault has this name.
pub(super) fn is_fault(name: &str) -> bool {
    Fault::ALL.iter().any(|fault| fault.as_str() == name)
}
