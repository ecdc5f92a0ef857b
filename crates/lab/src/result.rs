//! What a run found: the shape of `run.json`, written by `load` and read by `compare` and the report.
//!
//! Names end in their unit. What was not measured is absent, never zero. Nothing here is a credential: the
//! command line is kept as it was given, with the values of secret flags left out.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::tally::{Distribution, Fault, Metric, Tally};

/// The format's name and version: the first field of every `run.json`.
pub const SCHEMA: &str = "weir-lab-run/1";
/// Most points of a series; over it, pairs are merged and the interval doubles.
pub const POINTS_MAX: usize = 1200;
/// Largest `run.json` that is read, in bytes.
pub const RUN_BYTES_MAX: u64 = 256 << 20;

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    pub schema: String,
    /// Requests completed: answered, well or not, over the whole run, warm-up included.
    pub requests: u64,
    pub validity: Validity,
    /// All flows together, over what is measured: holds that are no warm-up, or everything where there is no hold.
    pub measured: Summary,
    /// All flows together, over the whole run.
    pub total: Summary,
    pub flows: Vec<FlowResult>,
    pub thresholds: Vec<ThresholdResult>,
    pub watched: Watched,
    /// What the built-in origin counted, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginCounts>,
    /// Answers that were wrong, the first of each thread.
    pub notes: Vec<Note>,
    pub warnings: Vec<String>,
    pub meta: Meta,
}

/// What the run was, and where.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub represents: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub excludes: Vec<String>,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// SHA-256 of the scenario as it was read, in hex.
    pub scenario_sha256: String,
    pub seed: u64,
    /// RFC 3339, in UTC.
    pub started: String,
    pub seconds: f64,
    /// It was stopped before its end.
    pub partial: bool,
    /// The threshold that stopped it, if one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped_by: Option<String>,
    /// The lab's own version and profile, such as `0.1.0 (release)`.
    pub version: String,
    pub machine: Machine,
    /// This machine's ceilings as `calibrate` found them, if it was run here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Machine {
    pub cpu: String,
    pub cores_logical: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_physical: Option<usize>,
    pub memory_bytes: u64,
    pub kernel: String,
    pub os: String,
    /// Cores that a cgroup allows, where it bounds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<String>,
}

/// What this machine can do at most, as `weir lab calibrate` measured it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Ceilings {
    /// RFC 3339, in UTC.
    pub measured: String,
    /// Requests a second of the generator against the built-in origin, closed, both on this machine.
    pub generator_rps: f64,
    /// The generator's CPU time for a request, in microseconds.
    pub generator_cpu_us: f64,
    /// The built-in origin's CPU time for a request, in microseconds.
    pub origin_cpu_us: f64,
    /// fdatasync of 4 KiB appended, in milliseconds.
    pub fdatasync_ms_p50: f64,
    pub fdatasync_ms_p95: f64,
    /// How late a timed wake-up is, in microseconds.
    pub timer_us_p50: f64,
    pub timer_us_p99: f64,
}

/// One flow of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowResult {
    pub name: String,
    /// The targets' URLs, without credentials.
    pub targets: Vec<String>,
    /// `http1`, `http2`, `mcp 2025-11-25`, `sse`, `openai`, `anthropic`.
    pub protocol: String,
    /// `closed` or `open`.
    pub model: String,
    pub connections: usize,
    pub threads: usize,
    pub measured: Summary,
    pub steps: Vec<StepResult>,
    /// By kind of request, over what is measured.
    pub kinds: Vec<KindResult>,
    /// By [`Metric`] name: response, service and lag as pairs of quantile and microseconds.
    #[serde(default)]
    pub spectrum: BTreeMap<String, Vec<(f64, f64)>>,
    pub series: Vec<Point>,
}

/// One stage of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepResult {
    pub name: String,
    /// `ramp`, `hold` or `warm-up`.
    pub kind: String,
    /// The level at its begin and at its end: connections when closed, arrivals a second when open.
    pub from: f64,
    pub to: f64,
    /// When it began, in seconds from the start.
    pub begin_s: f64,
    pub summary: Summary,
}

/// One kind of request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KindResult {
    pub name: String,
    pub summary: Summary,
}

/// Counts and latencies of some window of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    pub seconds: f64,
    /// Answered, well or not.
    pub requests: u64,
    pub good: u64,
    pub failed: u64,
    /// By [`Fault`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub errors: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub statuses: BTreeMap<String, u64>,
    /// Due and never sent.
    pub dropped: u64,
    /// Sent late, since no connection was free.
    pub queued: u64,
    /// Answered a second.
    pub rate: f64,
    /// Arrivals a second that the plan meant; open only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_planned: Option<f64>,
    /// Of those that ended, the share that failed.
    pub failed_share: f64,
    pub connections_made: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    #[serde(skip_serializing_if = "is_zero", default)]
    pub tokens: u64,
    /// By [`Metric`]. Durations.
    pub latency: BTreeMap<String, Quantiles>,
    /// Tokens a second of single streams.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tokens_per_second: Option<Quantiles>,
    /// The generator's own CPU time for a request, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generator_cpu_us: Option<f64>,
    /// CPU time of everything watched for a request, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub watched_cpu_us: Option<f64>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A distribution in numbers, in microseconds (tokens a second for `tokens_per_second`). A quantile that too few
/// requests stand behind is absent: p99.9 needs 10,000 and p99.99 100,000.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Quantiles {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p999: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p9999: Option<f64>,
    pub max: f64,
}

/// One interval of a series.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// When it ended, in seconds from the start, and how long it was.
    pub t_s: f64,
    pub seconds: f64,
    pub sent: u64,
    pub completed: u64,
    pub failed: u64,
    pub dropped: u64,
    /// At its end.
    pub in_flight: u64,
    pub waiting: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub errors: BTreeMap<String, u64>,
    /// Response quantiles, in microseconds; absent where nothing was answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p90_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_us: Option<f64>,
    /// Counts of responses by latency: the cell `c` holds those of 2^(c/8) to 2^((c+1)/8) microseconds.
    pub cells: Vec<(u16, u64)>,
}

/// An answer that was wrong.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Note {
    pub flow: String,
    pub fault: String,
    /// The request's number in its flow.
    pub number: u64,
    /// Seconds from the start.
    pub t_s: f64,
    /// What was wrong, in one sentence.
    pub what: String,
    /// Of the first wrong byte in the body, where the body was compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset: Option<u64>,
    /// Up to 32 bytes around it, in hex: as expected and as received.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_hex: Option<String>,
}

/// What the built-in origin counted of this run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct OriginCounts {
    pub url: String,
    pub distinct: u64,
    pub duplicates: u64,
    pub first_duplicates: Vec<u64>,
}

/// Whether the numbers mean anything. Judged before anything else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Validity {
    pub verdict: Verdict,
    /// Each criterion, with what was found.
    pub criteria: Vec<Criterion>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    #[default]
    Valid,
    GeneratorBound,
    NoisyHost,
    NotSaturated,
    TooShort,
    /// Stopped before its end.
    Interrupted,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::GeneratorBound => "generator-bound",
            Verdict::NoisyHost => "noisy-host",
            Verdict::NotSaturated => "not-saturated",
            Verdict::TooShort => "too-short",
            Verdict::Interrupted => "interrupted",
        }
    }
}

/// One reason for a verdict.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Criterion {
    /// The verdict that it leads to when it does not hold.
    pub verdict: Verdict,
    pub holds: bool,
    /// What was found, and what the bound is, in one sentence.
    pub evidence: String,
}

/// One threshold, judged.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// As it was written: metric and expression.
    pub metric: String,
    pub expression: String,
    /// What was found; absent where there was nothing to judge, which is a breach.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<f64>,
    pub ok: bool,
    /// Over which window, and why where that is not plain.
    pub window: String,
}

/// What was watched beside the requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    pub subjects: Vec<SubjectResult>,
    pub host: Vec<HostSample>,
    /// Of the generator's host over the measured time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub noise: Option<Noise>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ports: Option<Ports>,
}

/// A process with its children, a control group, or an endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SubjectResult {
    pub name: String,
    /// `process`, `cgroup`, `prometheus`, `generator`.
    pub kind: String,
    /// The subject that holds this one too, which sums count instead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part_of: Option<String>,
    /// By step name, in order; `""` is what is measured (holds that are no warm-up).
    pub steps: Vec<SubjectStep>,
    pub series: Vec<SubjectSample>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SubjectStep {
    pub step: String,
    pub seconds: f64,
    /// CPU time in microseconds.
    pub cpu_us: f64,
    /// Requests of all flows completed in it, and CPU time for one.
    pub requests: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_us_per_request: Option<f64>,
    /// Cores used: CPU time over time.
    pub cores: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rss_bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rss_bytes_end: Option<u64>,
    /// The part of it that no file backs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub anon_bytes_end: Option<u64>,
    /// Time that threads were ready to run and had no CPU; of a cgroup, time that its limit held it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waited_us: Option<f64>,
    /// How often threads were put on a CPU.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub switches: Option<u64>,
    /// The busiest threads, at most 16; of the generator those that send load.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub threads: Vec<ThreadShare>,
    /// Of an endpoint: counters, a second.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rates: BTreeMap<String, f64>,
    /// Of an endpoint: gauges, at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub values: BTreeMap<String, f64>,
}

/// How busy one thread was.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ThreadShare {
    pub name: String,
    /// Of the time, on a CPU.
    pub busy_share: f64,
    /// Of the time, ready to run and without a CPU.
    pub waited_share: f64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SubjectSample {
    pub t_s: f64,
    /// Since the watch began.
    pub cpu_us: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rss_bytes: Option<u64>,
    /// The part of it that no file backs: what a leak grows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub anon_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threads: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub descriptors: Option<u64>,
    /// Of an endpoint: each series by its name with labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub values: BTreeMap<String, f64>,
}

/// The host at one instant; shares are of all cores since the sample before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostSample {
    pub t_s: f64,
    pub busy_share: f64,
    pub steal_share: f64,
    /// Some task waited for a CPU: share of the time; absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure_share: Option<f64>,
    pub load1: f64,
}

/// How busy the host was with what is neither generator nor watched.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    pub steal_share: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure_share: Option<f64>,
    /// Some task waited for memory, and for a disk: shares of the time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure_memory_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure_io_share: Option<f64>,
    /// CPU time of others as a share of all cores. Without a watched target this includes a target on this host,
    /// so it is absent then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub others_share: Option<f64>,
    pub load1: f64,
}

/// Local ports of the generator's host.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Ports {
    pub range: u64,
    pub time_wait_max: u64,
}

impl Run {
    /// Reads a `run.json`, or the one in a folder.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not JSON, or is no run of a version that is known.
    pub fn read(path: &Path) -> Result<Run, Failure> {
        let file = if path.is_dir() {
            path.join("run.json")
        } else {
            path.to_owned()
        };
        let fail = |why: String| Failure::new(format!("{}: {why}", file.display()), "");
        let bytes = std::fs::metadata(&file)
            .map_err(|e| fail(e.to_string()))?
            .len();
        if bytes > RUN_BYTES_MAX {
            return Err(fail(format!("is larger than {RUN_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(&file).map_err(|e| fail(e.to_string()))?;
        let run: Run = serde_json::from_slice(&text).map_err(|e| fail(e.to_string()))?;
        if run.schema != SCHEMA {
            return Err(fail(format!("is `{}`, not `{SCHEMA}`", run.schema)));
        }
        Ok(run)
    }
}

impl Quantiles {
    /// Of a distribution of nanoseconds; `unit` is how many of what was recorded make one of what is shown.
    pub fn of(distribution: &Distribution, unit: f64) -> Option<Quantiles> {
        let at = |q| distribution.quantile(q).map(|value| value as f64 / unit);
        let enough = |least, q| at(q).filter(|_| distribution.count() >= least);
        Some(Quantiles {
            count: distribution.count(),
            mean: distribution.mean()? / unit,
            min: distribution.least as f64 / unit,
            p50: at(0.5)?,
            p75: at(0.75)?,
            p90: at(0.9)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            p999: enough(10_000, 0.999),
            p9999: enough(100_000, 0.9999),
            max: distribution.most as f64 / unit,
        })
    }
}

impl Summary {
    /// Of a tally over some seconds.
    pub fn of(tally: &Tally, seconds: f64) -> Summary {
        let ended = tally.good + tally.failures();
        let errors = Fault::ALL.iter().zip(&tally.faults);
        let statuses = tally.statuses.iter().enumerate();
        let durations = Metric::ALL.iter().filter(|m| **m != Metric::TokenRate);
        Summary {
            seconds,
            requests: tally.completed,
            good: tally.good,
            failed: tally.failures(),
            errors: errors
                .filter(|(_, n)| **n > 0)
                .map(|(fault, n)| (fault.as_str().to_owned(), *n))
                .collect(),
            statuses: statuses
                .filter(|(_, n)| **n > 0)
                .map(|(status, n)| (status.to_string(), *n))
                .collect(),
            dropped: tally.dropped,
            queued: tally.queued,
            rate: per(tally.completed as f64, seconds),
            failed_share: per(tally.failures() as f64, ended as f64),
            connections_made: tally.connections,
            bytes_out: tally.bytes_out,
            bytes_in: tally.bytes_in,
            tokens: tally.tokens,
            latency: durations
                .filter_map(|metric| {
                    let found = Quantiles::of(tally.distribution(*metric)?, 1000.0)?;
                    Some((metric.as_str().to_owned(), found))
                })
                .collect(),
            tokens_per_second: tally
                .distribution(Metric::TokenRate)
                .and_then(|distribution| Quantiles::of(distribution, 1000.0)),
            ..Summary::default()
        }
    }
}

/// Quantiles of a distribution, evenly spaced on the axis 1/(1−q) drawn as a logarithm, as far as the samples
/// reach: pairs of quantile and microseconds. The last is the maximum, at quantile 1.
pub fn spectrum(distribution: &Distribution) -> Vec<(f64, f64)> {
    /// Points for each factor of ten.
    const DECADE: u32 = 12;
    let at = |q| distribution.quantile(q).map(|ns| (q, ns as f64 / 1000.0));
    let most = (distribution.count().max(1) as f64).log10() * f64::from(DECADE);
    let inner = (0..=most as u32).map(|i| 1.0 - 10f64.powf(-f64::from(i) / f64::from(DECADE)));
    inner.chain([1.0]).filter_map(at).collect()
}

/// A ratio that is 0 when there is nothing to divide by.
fn per(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
