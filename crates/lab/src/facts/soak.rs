//! What a soak found: memory before, under and after a load, whether it rises, and of which process.

use serde::{Deserialize, Serialize};

use super::Setting;
use super::level::CellFacts;
use crate::stats::drift::Drift;

/// One soak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    pub setting: Setting,
    /// Seconds of each phase.
    pub before_s: f64,
    pub warmup_s: f64,
    pub under_s: f64,
    pub after_s: f64,
    /// The load, over its hold.
    pub load: CellFacts,
    pub processes: Vec<ProcessDrift>,
    /// What is allowed: of the residual as a share, of the slope as a share of the median in an hour.
    pub max_residual: f64,
    pub max_slope_hour: f64,
    /// The names of processes that leak, or stay larger than is allowed.
    pub blamed: Vec<String>,
    /// Drift of the p99 of intervals and of their rate, in units a second; absent where it was too short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_drift: Option<Drift>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_drift: Option<Drift>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessDrift {
    pub name: String,
    /// Medians of its memory in bytes: of the part that no file backs, where the kernel tells it.
    pub before_bytes: f64,
    pub under_bytes: f64,
    pub after_bytes: f64,
    /// Seconds after the load until its memory is within 5 % of what it was before; absent where it was not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unwound_after_s: Option<f64>,
    /// Under the load, warm-up excluded: bytes a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drift: Option<Drift>,
    pub verdict: DriftVerdict,
    /// In a sentence, what the verdict rests on.
    pub evidence: String,
    /// Pairs of seconds from the start and bytes.
    pub series: Vec<(f64, f64)>,
}

/// What a process is found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftVerdict {
    /// Neither rises for sure nor stays large.
    Steady,
    /// Rises for sure, and by more than is allowed.
    Leaks,
    /// Does not rise for sure, and stays larger after the load than is allowed.
    StaysLarge,
    /// There are too few samples.
    CannotTell,
}

impl ProcessDrift {
    /// After against before, as a share.
    pub fn residual(&self) -> f64 {
        self.after_bytes / self.before_bytes - 1.0
    }

    /// Under against before, as a share.
    pub fn growth(&self) -> f64 {
        self.under_bytes / self.before_bytes - 1.0
    }

    /// The slope as a share of the median under load, in an hour.
    pub fn slope_hour(&self) -> Option<f64> {
        Some(self.drift.as_ref()?.slope * 3600.0 / self.under_bytes)
    }
}
