//! What a sweep found: the ladder and its knee, overload and recovery, what a request and a kilobyte cost, shapes.

use serde::{Deserialize, Serialize};

use super::Setting;
use super::level::LevelFacts;
use crate::bench::shape::CpuShape;
use crate::stats::interval::Interval;
use crate::stats::knee::Knee;
use crate::stats::line::{Line, PowerLaw};
use crate::stats::usl::Usl;

/// One sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub setting: Setting,
    /// The size of a request's body on the ladder, where it is one size.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_bytes: Option<u64>,
    /// Connections, rising.
    pub closed: Vec<LevelFacts>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub knee: Option<Knee>,
    /// What held the target back at the knee.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limiter: Option<Limiter>,
    /// Of the ladder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usl: Option<Usl>,
    /// Arrivals a second, as shares of what the knee carried.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub open: Vec<LevelFacts>,
    /// So many times the knee's connections.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub overload_closed: Vec<LevelFacts>,
    /// So many times the knee's rate, as arrivals.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub overload_open: Vec<LevelFacts>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recovery: Option<Recovery>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub payloads: Vec<PayloadFacts>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<CostModel>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub shapes: Vec<ShapeFacts>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scaling: Option<Scaling>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direct: Option<Direct>,
}

/// What held it back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limiter {
    /// `cpu`, `generator`, `wait` or `unknown`.
    pub what: String,
    pub evidence: String,
}

/// Back to a load that it carries, after one that it does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Arrivals a second before and after, and in between.
    pub calm_rate: f64,
    pub overload_rate: f64,
    /// The p99 before, in microseconds: the median of its intervals.
    pub before_p99_us: f64,
    /// Seconds until the p99 stays within 10 % of that; absent where it did not come back while it was watched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
    pub watched_s: f64,
    pub failed: u64,
    pub dropped: u64,
}

/// One size of payload, at one connection and at the knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PayloadFacts {
    pub bytes: u64,
    pub light: LevelFacts,
    pub heavy: LevelFacts,
}

/// Microseconds of the bottleneck for a request: fixed, and for each kilobyte (1,000 bytes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    pub line: Line,
    pub kilobytes: Vec<f64>,
    /// 10⁶ over the rate, which the line is fitted to.
    pub found_us: Vec<f64>,
}

/// One shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeFacts {
    pub shape: CpuShape,
    /// How it was held.
    pub how: String,
    pub level: LevelFacts,
}

/// Cores against throughput, by two models at least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Measured: cores and rate.
    pub measured: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usl: Option<Usl>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub power: Option<PowerLaw>,
}

/// The same load without the server in between.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Direct {
    pub target: String,
    pub levels: Vec<DirectLevel>,
}

/// One level, through the server and directly, taken in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectLevel {
    pub through: LevelFacts,
    pub direct: LevelFacts,
    /// What the server adds to the mean response, in microseconds, and the interval of that; from three pairs on.
    pub added_us: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub added_interval: Option<Interval>,
}

/// What a projection is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PointStanding {
    Measured,
    Interpolated,
    Extrapolated,
    /// Beyond 1.5 times the largest measured point: shown, and no capacity.
    Beyond,
}

/// A point of a curve, by both models.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Projection {
    pub at: f64,
    pub low: f64,
    pub high: f64,
    pub standing: PointStanding,
}

/// Beyond so many times the largest measured point a projection is no capacity.
pub const BEYOND: f64 = 1.5;

impl Scaling {
    /// Fits both models to measured points.
    pub fn of(measured: Vec<(f64, f64)>) -> Scaling {
        Scaling {
            usl: Usl::fit(&measured),
            power: PowerLaw::fit(&measured, super::level::ALPHA).filter(|_| measured.len() >= 3),
            measured,
        }
    }

    /// What the models say of so many cores; nothing where there are not two of them.
    pub fn project(&self, at: f64) -> Option<Projection> {
        if let Some((_, rate)) = self.measured.iter().find(|(cores, _)| *cores == at) {
            return Some(Projection {
                at,
                low: *rate,
                high: *rate,
                standing: PointStanding::Measured,
            });
        }
        let (usl, power) = (self.usl?.at(at), self.power.as_ref()?.at(at));
        let most = self.measured.iter().map(|p| p.0).fold(0.0, f64::max);
        let least = self
            .measured
            .iter()
            .map(|p| p.0)
            .fold(f64::INFINITY, f64::min);
        Some(Projection {
            at,
            low: usl.min(power),
            high: usl.max(power),
            standing: match at {
                at if at > BEYOND * most => PointStanding::Beyond,
                at if at > most || at < least => PointStanding::Extrapolated,
                _ => PointStanding::Interpolated,
            },
        })
    }
}

impl Sweep {
    /// The level of the ladder that is the knee.
    pub fn at_knee(&self) -> Option<&LevelFacts> {
        self.closed.get(self.knee?.index)
    }
}
