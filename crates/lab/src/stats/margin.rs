//! What an interval decides, given the margin below which a difference does not matter.
//!
//! A difference is called only when it is both *sure* (the interval leaves out "none") and *material* (the estimate
//! is beyond the margin). "Within" is called only when the whole interval lies inside the margin: two one-sided
//! tests (Schuirmann 1987), each at half the level, so it is wrong less often than promised. All else is unknown:
//! the lack of a difference is never concluded from the lack of evidence.

use super::interval::{Estimate, Interval};

/// What is known of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// Surely below zero, and by more than the margin as far as the estimate goes.
    Less,
    /// Surely above zero, and by more than the margin as far as the estimate goes.
    More,
    /// Surely within the margin.
    Within,
    /// The samples do not tell.
    Unknown,
}

/// Decides from an estimate, its interval and a margin in the same unit (above 0).
pub fn decide(estimate: &Estimate, interval: &Interval, margin: f64) -> Decided {
    if interval.within(margin) {
        Decided::Within
    } else if interval.low > 0.0 && estimate.mean >= margin {
        Decided::More
    } else if interval.high < 0.0 && estimate.mean <= -margin {
        Decided::Less
    } else {
        Decided::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_sure_and_material_or_it_is_not_called() {
        let check = |low: f64, high: f64, decided: Decided| {
            let estimate = Estimate {
                mean: 0.5 * (low + high),
                standard_error: 0.01,
                df: 5.0,
            };
            let interval = Interval { low, high };
            assert_eq!(decide(&estimate, &interval, 0.05), decided, "{low} {high}");
        };
        check(-0.02, 0.03, Decided::Within);
        check(0.01, 0.03, Decided::Within);
        check(-0.05, 0.03, Decided::Unknown);
        check(0.01, 0.08, Decided::Unknown);
        check(-0.02, 0.20, Decided::Unknown);
        check(0.01, 0.15, Decided::More);
        check(0.06, 0.15, Decided::More);
        check(-0.15, -0.01, Decided::Less);
        check(-0.08, -0.01, Decided::Unknown);
    }
}
