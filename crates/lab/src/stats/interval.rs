//! How far an effect may lie from its estimate: t intervals of paired and unpaired samples, and a bootstrap beside.
//!
//! The lab compares with three to a few dozen blocks, and few samples decide which interval keeps its promise. A
//! simulation of 1,000 experiments each, without any effect, normal noise / one block in ten five times as noisy,
//! gave these false alarms at a promised 1 %:
//!
//! | blocks | t | studentised bootstrap | BCa bootstrap | percentile bootstrap |
//! |---|---|---|---|---|
//! | 3 | 1.1 / 1.1 % | 0 / 0 % (never tells) | 27 / 25 % | 25 / 24 % |
//! | 6 | 0.5 / 1.0 % | 1.2 / 1.1 % | 7 / 12 % | 6 / 9 % |
//! | 12 | 0.9 / 0.5 % | 1.2 / 1.5 % | 3 / 7 % | 3 / 5 % |
//! | 24 | 1.0 / 0.3 % | 1.2 / 2.8 % | 2 / 6 % | 2 / 3 % |
//!
//! So the t interval judges; the studentised bootstrap, which assumes no shape, is printed beside it; the other
//! two are not offered. Differences of a pair that runs in random order are symmetric when nothing differs, which
//! is all that the t interval needs here to stay on the safe side.

use serde::{Deserialize, Serialize};

use super::distributions::{t_cdf, t_quantile};
use super::location::{deviation, mean, quantile_of_sorted};

/// Two ends, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Half of its width.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Whether `value` lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether all of it lies strictly between `-margin` and `margin`.
    pub fn within(&self, margin: f64) -> bool {
        -margin < self.low && self.high < margin
    }
}

/// An effect with what its interval and its p-value are made from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The effect, in the unit of the samples.
    pub mean: f64,
    /// The standard deviation of that estimate.
    pub standard_error: f64,
    /// The degrees of freedom of the t distribution that it follows.
    pub df: f64,
}

impl Estimate {
    /// From paired differences: Student's one-sample t. Needs two.
    pub fn paired(differences: &[f64]) -> Option<Estimate> {
        Some(Estimate {
            mean: mean(differences)?,
            standard_error: deviation(differences)? / (differences.len() as f64).sqrt(),
            df: (differences.len() - 1) as f64,
        })
    }

    /// How far `b` lies above `a` when the two are not paired: Welch's t ("The generalization of 'Student's'
    /// problem", 1947), which does not assume equal noise. Needs two of each, and some noise in one.
    pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Estimate> {
        let variance_a = deviation(a)?.powi(2) / a.len() as f64;
        let variance_b = deviation(b)?.powi(2) / b.len() as f64;
        let variance = variance_a + variance_b;
        if variance <= 0.0 {
            return None;
        }
        let weight_a = variance_a * variance_a / (a.len() - 1) as f64;
        let weight_b = variance_b * variance_b / (b.len() - 1) as f64;
        Some(Estimate {
            mean: mean(b)? - mean(a)?,
            standard_error: variance.sqrt(),
            df: variance * variance / (weight_a + weight_b),
        })
    }

    /// The two-sided interval that misses the truth with chance `alpha` (0 to 1, both excluded).
    pub fn interval(&self, alpha: f64) -> Interval {
        let half = t_quantile(1.0 - 0.5 * alpha, self.df) * self.standard_error;
        Interval {
            low: self.mean - half,
            high: self.mean + half,
        }
    }

    /// The two-sided p-value of "no effect". Samples without any noise answer 0 (an effect) or 1 (none).
    pub fn p_value(&self) -> f64 {
        if self.standard_error > 0.0 {
            2.0 * t_cdf(-(self.mean / self.standard_error).abs(), self.df)
        } else if self.mean == 0.0 {
            1.0
        } else {
            0.0
        }
    }
}

/// The fewest samples whose resamples make a distribution worth the name.
const BOOTSTRAP_SAMPLES_MIN: usize = 6;

/// The studentised (bootstrap-t) interval of the mean from `resamples` draws.
///
/// Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), section 12.5. Needs six samples; resamples
/// that drew one value only have no width to divide by and are left out.
pub fn bootstrap_t(
    samples: &[f64],
    alpha: f64,
    resamples: usize,
    rng: &mut fastrand::Rng,
) -> Option<Interval> {
    if samples.len() < BOOTSTRAP_SAMPLES_MIN {
        return None;
    }
    let centre = Estimate::paired(samples)?;
    // Equal values leave rounding noise instead of an exact zero.
    if centre.standard_error <= 1e-12 * centre.mean.abs() {
        return None;
    }
    let mut drawn = vec![0.0; samples.len()];
    let mut ts = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        for place in &mut drawn {
            *place = samples[rng.usize(..samples.len())];
        }
        let resample = Estimate::paired(&drawn)?;
        if resample.standard_error > 1e-9 * centre.standard_error {
            ts.push((resample.mean - centre.mean) / resample.standard_error);
        }
    }
    ts.sort_by(f64::total_cmp);
    let high_t = quantile_of_sorted(&ts, 1.0 - 0.5 * alpha)?;
    let low_t = quantile_of_sorted(&ts, 0.5 * alpha)?;
    Some(Interval {
        low: centre.mean - high_t * centre.standard_error,
        high: centre.mean - low_t * centre.standard_error,
    })
}

#[cfg(test)]
mod tests {
    use super::super::distributions::tests::close;
    use super::super::location::tests::{X, Y};
    use super::*;

    #[test]
    fn the_paired_interval_is_scipys() {
        // r = scipy.stats.ttest_1samp(X, 0); r.pvalue; r.confidence_interval(.95), (.99)
        let estimate = Estimate::paired(X).unwrap();
        close(estimate.p_value(), 0.10446135692303492, 1e-11);
        let interval = estimate.interval(0.05);
        close(interval.low, -0.009714318616242397, 1e-11);
        close(interval.high, 0.0822143186162424, 1e-11);
        close(interval.half_width(), 0.0459643186162424, 1e-11);
        let interval = estimate.interval(0.01);
        close(interval.low, -0.03177406985519536, 1e-11);
        close(interval.high, 0.10427406985519537, 1e-11);
    }

    #[test]
    fn the_unpaired_interval_is_scipys() {
        // r = scipy.stats.ttest_ind(Y, X, equal_var=False); r.pvalue; r.df; r.confidence_interval(.95)
        let estimate = Estimate::unpaired(X, Y).unwrap();
        close(estimate.p_value(), 0.3656633685596622, 1e-11);
        close(estimate.df, 10.725796937128184, 1e-12);
        let interval = estimate.interval(0.05);
        close(interval.low, -0.04418191821053759, 1e-11);
        close(interval.high, 0.11025334678196617, 1e-11);
    }

    #[test]
    fn the_bootstrap_is_near_that_of_every_resample() {
        // numpy: every multiset of eight draws from X with its multinomial weight, weighted quantiles of its t
        let mut rng = fastrand::Rng::with_seed(11);
        let interval = bootstrap_t(X, 0.1, 20_000, &mut rng).unwrap();
        let (low, high) = (-0.0015853494137314864, 0.07273979806727954);
        let tolerance = 0.03 * (high - low);
        assert!((interval.low - low).abs() < tolerance, "{interval:?}");
        assert!((interval.high - high).abs() < tolerance, "{interval:?}");
        let mut again = fastrand::Rng::with_seed(11);
        assert_eq!(bootstrap_t(X, 0.1, 20_000, &mut again), Some(interval));
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(Estimate::paired(&[0.1]), None);
        assert_eq!(Estimate::unpaired(&[0.1, 0.2], &[0.3]), None);
        assert_eq!(Estimate::unpaired(&[0.1, 0.1], &[0.3, 0.3]), None);
        assert_eq!(bootstrap_t(&X[..5], 0.05, 1000, &mut rng), None);
        assert_eq!(bootstrap_t(&[0.2; 8], 0.05, 1000, &mut rng), None);
    }
}
