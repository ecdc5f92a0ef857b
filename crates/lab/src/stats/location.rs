//! Where a set of samples lies and how wide it is: mean, median, quantiles, Hodges–Lehmann.
//!
//! Samples are finite numbers in any unit; the answers are in the same unit. Each function answers `None` when
//! there are too few samples for it.

/// The arithmetic mean.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The standard deviation of what the samples were drawn from (divided by n - 1). Needs two samples.
pub fn deviation(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt())
}

/// The middle sample, or the middle of the two.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// The quantile `q` (0 to 1) with linear interpolation between samples: type 7 of Hyndman and Fan (1996), as
/// `numpy.quantile`.
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// The same for samples that are sorted already.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (place - below as f64) * (sorted[above] - sorted[below]))
}

/// The Hodges–Lehmann estimate of the centre: the median of the means of all pairs, each sample with itself too.
///
/// Hodges and Lehmann, "Estimates of Location Based on Rank Tests" (1963). One wild sample in four does not move
/// it far. n²/2 pairs are built, so hand it blocks, not requests.
pub fn hodges_lehmann(samples: &[f64]) -> Option<f64> {
    let pairs = samples.iter().enumerate();
    let means: Vec<f64> = pairs
        .flat_map(|(i, a)| samples[i..].iter().map(move |b| 0.5 * (a + b)))
        .collect();
    median(&means)
}

/// How far `b` lies above `a` when the two are not paired: the median of all differences.
pub fn hodges_lehmann_shift(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = a
        .iter()
        .flat_map(|a| b.iter().map(move |b| b - a))
        .collect();
    median(&differences)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::distributions::tests::close;
    use super::*;

    /// The samples of the golden vectors in this folder.
    pub(crate) const X: &[f64] = &[0.031, -0.012, 0.085, 0.044, 0.120, 0.007, -0.051, 0.066];
    pub(crate) const Y: &[f64] = &[0.011, 0.092, 0.025, -0.044, 0.150, 0.170, 0.081];

    #[test]
    fn samples_are_described_as_numpy_does() {
        // numpy.mean(X), numpy.std(X, ddof=1), numpy.median(X)
        close(mean(X).unwrap(), 0.036250000000000004, 1e-13);
        close(deviation(X).unwrap(), 0.0549798664447788, 1e-13);
        close(median(X).unwrap(), 0.0375, 1e-13);
        // numpy.quantile(X, q)
        for (q, value) in [
            (0.0, -0.051),
            (0.1, -0.023699999999999995),
            (0.25, 0.0022500000000000003),
            (0.5, 0.0375),
            (0.9, 0.0955),
            (1.0, 0.12),
        ] {
            close(quantile(X, q).unwrap(), value, 1e-12);
        }
    }

    #[test]
    fn hodges_lehmann_is_the_median_of_pairs() {
        // numpy.median of (X[i]+X[j])/2 for i <= j; numpy.median of b-a
        close(hodges_lehmann(X).unwrap(), 0.036500000000000005, 1e-12);
        close(hodges_lehmann_shift(X, Y).unwrap(), 0.0335, 1e-12);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert_eq!(mean(&[]), None);
        assert_eq!(deviation(&[1.0]), None);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann_shift(&[1.0], &[]), None);
    }
}
