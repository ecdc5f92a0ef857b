//! Made-up machines whose truth is known: noise as it was measured on shared hosts, fed to the real comparison.

use fastrand::Rng;
use lab::exit::Failure;
use lab::experiments::compare::answer::Rule;
use lab::experiments::compare::blocks::{Bench, Count, Interleaved, Side, interleave};
use lab::experiments::compare::metrics::{Errors, METRIC, METRICS, Measured};

/// How a made-up machine disturbs what is measured on it. Deviations are of ln-values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    /// Of the ratio within a block: what pairing cannot remove.
    pub pair: f64,
    /// Of a whole block: what both of its runs share.
    pub block: f64,
    /// Of a slow drift from run to run, an AR(1) process with φ = 0.9.
    pub drift: f64,
    /// The share of runs that something else disturbs, by an exponential excess with this mean.
    pub outliers: f64,
    pub excess: f64,
}

/// The ratio's deviations that were measured: CPU per request on a quiet and on a noisy host.
pub(crate) const QUIET: Noise = Noise {
    pair: 0.09,
    block: 0.15,
    drift: 0.0,
    outliers: 0.0,
    excess: 0.0,
};
pub(crate) const NOISY: Noise = Noise {
    pair: 0.23,
    block: 0.6,
    ..QUIET
};
pub(crate) const DRIFTING: Noise = Noise {
    drift: 0.3,
    ..QUIET
};
pub(crate) const DISTURBED: Noise = Noise {
    outliers: 0.08,
    excess: 0.4,
    ..QUIET
};
pub(crate) const ALL: &[(&str, Noise)] = &[
    ("quiet", QUIET),
    ("noisy", NOISY),
    ("drifting", DRIFTING),
    ("disturbed", DISTURBED),
    (
        "all at once",
        Noise {
            drift: 0.3,
            outliers: 0.08,
            excess: 0.4,
            ..NOISY
        },
    ),
];

/// One made-up machine.
pub(crate) struct World {
    noise: Noise,
    /// The true ln-ratio of B to A, in every metric in its direction of worse.
    effect: f64,
    rng: Rng,
    drift: f64,
    block: (usize, [f64; METRICS]),
}

impl World {
    pub(crate) fn new(noise: Noise, effect: f64, seed: u64) -> World {
        World {
            noise,
            effect,
            rng: Rng::with_seed(seed),
            drift: 0.0,
            block: (usize::MAX, [0.0; METRICS]),
        }
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.f64()).cos()
    }

    fn disturbed(&mut self) -> f64 {
        if self.rng.f64() < self.noise.outliers {
            -(1.0 - self.rng.f64()).ln() * self.noise.excess
        } else {
            0.0
        }
    }
}

impl Bench for World {
    fn measure(&mut self, side: Side, run: usize) -> Result<Measured, Failure> {
        if self.block.0 != run / 2 {
            self.block = (run / 2, [0.0; METRICS].map(|_| self.normal()));
        }
        self.drift = 0.9 * self.drift + (1.0_f64 - 0.81).sqrt() * self.normal();
        let disturbed = self.disturbed();
        let mut measured = Measured {
            errors: Errors {
                requests: 10_000,
                failed: u64::from(self.rng.f64() < 0.2),
            },
            ..Measured::default()
        };
        for (place, metric) in METRIC.iter().enumerate() {
            let worse = if metric.name == "requests_per_second" {
                -1.0
            } else {
                1.0
            };
            let effect = if side == Side::B { self.effect } else { 0.0 };
            let own = self.noise.pair / 2.0_f64.sqrt() * self.normal();
            let shared = self.noise.block * self.block.1[place] + self.noise.drift * self.drift;
            measured.values[place] =
                Some((5.0 + shared + own + worse * (effect + disturbed)).exp());
        }
        Ok(measured)
    }
}

/// One comparison on a fresh machine.
pub(crate) fn compared(
    noise: Noise,
    effect: f64,
    count: Count,
    rule: &Rule,
    seed: u64,
) -> Interleaved {
    let mut world = World::new(noise, effect, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    interleave(count, rule, seed, &mut world).unwrap()
}
