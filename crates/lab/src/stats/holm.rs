//! Several questions asked of one comparison, with one promise for all of them: Holm's correction, weighted.
//!
//! Six metrics at 5 % each would raise a false alarm in a quarter of all comparisons. Holm ("A simple sequentially
//! rejective multiple test procedure", 1979) keeps the chance of *any* false alarm at the promise. Weights let the
//! metric that repeats best spend more of it than the noisy ones.

/// What one question may conclude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The level at which this question was tested: an interval at it excludes "no effect" exactly when `rejected`.
    pub level: f64,
    /// Whether "no effect" is rejected.
    pub rejected: bool,
}

/// Tests the p-values, each with its weight (above 0), at `alpha` for all together. Answers in the given order.
pub fn holm(questions: &[(f64, f64)], alpha: f64) -> Vec<Held> {
    let mut order: Vec<usize> = (0..questions.len()).collect();
    let urgency = |i: usize| questions[i].0 / questions[i].1;
    order.sort_by(|a, b| urgency(*a).total_cmp(&urgency(*b)));
    let mut remaining: f64 = questions.iter().map(|(_, weight)| weight).sum();
    let mut open = true;
    let mut held = vec![
        Held {
            level: alpha,
            rejected: false
        };
        questions.len()
    ];
    for i in order {
        let (p_value, weight) = questions[i];
        let level = alpha * (weight / remaining).min(1.0);
        open = open && p_value <= level;
        held[i] = Held {
            level,
            rejected: open,
        };
        // Once one stands, those after it share what was left when it was asked.
        if open {
            remaining -= weight;
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_are_holms() {
        // statsmodels.stats.multitest.multipletests([.01, .04, .03, .005, .2], .05, 'holm')
        let questions = [0.01, 0.04, 0.03, 0.005, 0.2].map(|p| (p, 1.0));
        let held = holm(&questions, 0.05);
        let rejected: Vec<bool> = held.iter().map(|held| held.rejected).collect();
        assert_eq!(rejected, [true, false, false, true, false]);
        let levels: Vec<f64> = held.iter().map(|held| (held.level * 1e6).round()).collect();
        // 0.05/4, then 0.05/3 for the one that stopped and all after it; the first at 0.05/5.
        assert_eq!(levels, [12500.0, 16667.0, 16667.0, 10000.0, 16667.0]);
    }

    #[test]
    fn a_weight_is_a_share_of_the_promise() {
        let held = holm(&[(0.02, 2.0), (0.02, 1.0), (0.02, 1.0)], 0.05);
        assert_eq!(held[0].level, 0.025);
        assert!(held[0].rejected, "half of the promise is spent on it");
        assert_eq!(held[1].level, 0.025);
        assert!(held[1].rejected, "it inherits what the first did not need");
        assert!(held[2].rejected);
        assert_eq!(held[2].level, 0.05);
    }

    #[test]
    fn one_question_has_all_of_it() {
        assert_eq!(
            holm(&[(0.05, 0.3)], 0.05),
            [Held {
                level: 0.05,
                rejected: true
            }]
        );
        assert_eq!(holm(&[], 0.05), []);
    }
}
