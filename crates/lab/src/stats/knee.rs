//! Where more load stops to give more: the knee of a ladder of levels.
//!
//! The rule decides: the knee is the least level that carries 97 % of the most that any level carried. Beside it stand
//! Kneedle (Satopää and others, "Finding a 'Kneedle' in a Haystack", 2011) and the place where the scalability law is
//! highest, which on flat curves lies far to the right and is no knee.

use serde::{Deserialize, Serialize};

use super::usl::Usl;

/// The share of the highest rate that the knee carries at least.
pub const SHARE: f64 = 0.97;

/// Where it bends, by three readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The place among the levels, and the level: this is the knee.
    pub index: usize,
    pub level: f64,
    /// What it carries.
    pub rate: f64,
    /// Kneedle's level, where the curve has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kneedle: Option<f64>,
    /// Where the universal scalability law is highest, where it falls at all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usl_highest: Option<f64>,
    /// A level above the knee was measured and gave no more: the curve is flat there. Without that, the last level is
    /// only the last one that was tried.
    pub is_bent: bool,
}

impl Knee {
    /// Of levels that rise, each with its rate. `None` for fewer than two.
    pub fn of(levels: &[(f64, f64)]) -> Option<Knee> {
        if levels.len() < 2 || !levels.is_sorted_by(|a, b| a.0 < b.0) {
            return None;
        }
        let most = levels.iter().map(|level| level.1).fold(0.0, f64::max);
        let index = levels.iter().position(|level| level.1 >= SHARE * most)?;
        Some(Knee {
            index,
            level: levels[index].0,
            rate: levels[index].1,
            kneedle: kneedle(levels),
            usl_highest: Usl::fit(levels).and_then(|law| law.highest_at()),
            is_bent: index + 1 < levels.len() && most > 0.0,
        })
    }
}

/// Where the curve, drawn in a unit square, lies highest above the diagonal.
fn kneedle(levels: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (levels.first()?, levels.last()?);
    let least = levels.iter().map(|l| l.1).fold(f64::INFINITY, f64::min);
    let most = levels.iter().map(|l| l.1).fold(0.0, f64::max);
    if most <= least {
        return None;
    }
    // Levels double, so the axis is of logarithms.
    let across = |n: f64| (n / first.0).ln() / (last.0 / first.0).ln();
    let above = |l: &(f64, f64)| (l.1 - least) / (most - least) - across(l.0);
    let highest = levels.iter().max_by(|a, b| above(a).total_cmp(&above(b)))?;
    (above(highest) > 0.0).then_some(highest.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_ladder_bends_at_16() {
        // Page S2.
        let levels = [
            (8.0, 6445.0),
            (16.0, 7892.0),
            (32.0, 7711.0),
            (64.0, 7775.0),
            (128.0, 7617.0),
        ];
        let knee = Knee::of(&levels).unwrap();
        assert_eq!((knee.level, knee.index, knee.is_bent), (16.0, 1, true));
        assert_eq!(knee.kneedle, Some(16.0));
        assert!(knee.usl_highest.unwrap() > 30.0, "{knee:?}");
    }

    #[test]
    fn a_curve_that_still_rises_has_no_bend() {
        let knee = Knee::of(&[(1.0, 100.0), (2.0, 200.0), (4.0, 400.0)]).unwrap();
        assert_eq!((knee.level, knee.is_bent), (4.0, false));
        assert_eq!(Knee::of(&[(1.0, 100.0)]), None);
        assert_eq!(Knee::of(&[(2.0, 100.0), (1.0, 100.0)]), None);
    }
}
