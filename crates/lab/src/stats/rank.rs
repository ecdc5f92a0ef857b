//! Tests that look at ranks only: Wilcoxon's signed ranks for pairs, Mann–Whitney for unpaired samples.
//!
//! They are the second opinion beside a t interval: one wild block cannot sway them. Their weakness is printed with
//! them: six pairs cannot reach a p-value below 0.031, whatever they say.

use super::distributions::normal_cdf;

/// Up to this many samples the p-value is counted exactly, ties included; beyond, by the normal approximation.
const SIGNED_RANK_EXACT_MAX: usize = 25;
/// The same for both samples together.
const MANN_WHITNEY_EXACT_MAX: usize = 40;

/// What a rank test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The test's own number: W+ (the sum of ranks of positive differences) or U of the second sample.
    pub statistic: f64,
    /// Two-sided.
    pub p_value: f64,
}

/// Wilcoxon's signed-rank test that paired differences lie around zero ("Individual comparisons by ranking
/// methods", 1945). Zeros are left out, as Wilcoxon did; `None` when nothing remains.
pub fn signed_rank(differences: &[f64]) -> Option<Ranked> {
    let differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranks = doubled_ranks(&sizes);
    if ranks.is_empty() {
        return None;
    }
    let signed = ranks.iter().zip(&differences);
    let positive: usize = signed
        .filter(|(_, d)| **d > 0.0)
        .map(|(rank, _)| rank)
        .sum();
    let p_value = if ranks.len() <= SIGNED_RANK_EXACT_MAX {
        let mut ways = vec![0.0; ranks.iter().sum::<usize>() + 1];
        ways[0] = 1.0;
        for rank in &ranks {
            for sum in (*rank..ways.len()).rev() {
                ways[sum] += ways[sum - rank];
            }
        }
        two_sided(&ways, positive)
    } else {
        signed_rank_normal(&ranks, positive)
    };
    Some(Ranked {
        statistic: 0.5 * positive as f64,
        p_value,
    })
}

/// The normal approximation without continuity correction, as SciPy's: each rank is counted or not, so its variance
/// is a quarter of its square, and ties need no further care.
fn signed_rank_normal(ranks: &[usize], positive: usize) -> f64 {
    let mean = 0.5 * ranks.iter().sum::<usize>() as f64;
    let variance: f64 = ranks.iter().map(|r| 0.25 * (r * r) as f64).sum();
    two_tails((positive as f64 - mean) / variance.sqrt())
}

/// The Mann–Whitney U test that neither sample tends to be larger ("On a test of whether one of two random
/// variables is stochastically larger than the other", 1947). `None` when a sample is empty or all are equal.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<Ranked> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let all = [a, b].concat();
    let ranks = doubled_ranks(&all);
    if ranks.iter().all(|rank| *rank == ranks[0]) {
        return None;
    }
    let of_b: usize = ranks[a.len()..].iter().sum();
    let least = b.len() * (b.len() + 1);
    let p_value = if all.len() <= MANN_WHITNEY_EXACT_MAX {
        two_sided(&subset_sums(&ranks, b.len()), of_b)
    } else {
        mann_whitney_normal(&ranks, b.len(), of_b)
    };
    Some(Ranked {
        statistic: 0.5 * (of_b - least) as f64,
        p_value,
    })
}

/// In how many ways `chosen` of the ranks sum up to each sum.
fn subset_sums(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let sums = ranks.iter().sum::<usize>() + 1;
    let mut ways = vec![vec![0.0; sums]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for count in (1..=chosen).rev() {
            for sum in *rank..sums {
                ways[count][sum] += ways[count - 1][sum - rank];
            }
        }
    }
    ways.swap_remove(chosen)
}

/// The normal approximation with tie and continuity correction, as SciPy's.
fn mann_whitney_normal(ranks: &[usize], chosen: usize, of_b: usize) -> f64 {
    let n = ranks.len() as f64;
    let mean = chosen as f64 * (n + 1.0);
    // The variance of a sum drawn without replacement from these (doubled) ranks.
    let spread: f64 = ranks.iter().map(|r| (*r as f64 - (n + 1.0)).powi(2)).sum();
    let variance = spread * chosen as f64 * (n - chosen as f64) / (n * (n - 1.0));
    let away = (of_b as f64 - mean).abs() - 1.0;
    two_tails(away.max(0.0) / variance.sqrt())
}

/// Twice the rank of each value, ties sharing the mean of their ranks; doubled so that it is a whole number.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        for place in tied {
            ranks[*place] = 2 * first + tied.len() + 1;
        }
        first += tied.len();
    }
    ranks
}

/// The share of the ways that lie at least as far from the middle as `observed`; sums are symmetric around it.
fn two_sided(ways: &[f64], observed: usize) -> f64 {
    let total: f64 = ways.iter().sum();
    let mean = ways
        .iter()
        .enumerate()
        .map(|(s, w)| s as f64 * w)
        .sum::<f64>()
        / total;
    let away = (observed as f64 - mean).abs() - 1e-6;
    let sums = ways.iter().enumerate();
    let far = sums.filter(|(sum, _)| (*sum as f64 - mean).abs() >= away);
    (far.map(|(_, ways)| ways).sum::<f64>() / total).min(1.0)
}

fn two_tails(z: f64) -> f64 {
    (2.0 * normal_cdf(-z.abs())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::distributions::tests::close;
    use super::super::location::tests::{X, Y};
    use super::*;

    fn check(ranked: Option<Ranked>, statistic: f64, p_value: f64) {
        let ranked = ranked.unwrap();
        close(ranked.statistic, statistic, 1e-12);
        close(ranked.p_value, p_value, 1e-10);
    }

    #[test]
    fn signed_ranks_are_scipys() {
        // scipy.stats.wilcoxon(X, method='exact'): min(W+, W-) = 7 of 36, so W+ = 29
        check(signed_rank(X), 29.0, 0.1484375);
        // Six pairs that all agree: the least p-value that six can have.
        check(signed_rank(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), 21.0, 0.03125);
        // Ties and a zero, by counting all 2^8 sign patterns of scipy.stats.rankdata.
        let tied = [1.0, 1.0, -2.0, 3.0, 3.0, -1.0, 4.0, 0.0, 5.0];
        check(signed_rank(&tied), 30.0, 0.109375);
    }

    #[test]
    fn many_signed_ranks_are_scipys() {
        // scipy.stats.wilcoxon(L, method='approx', correction=False): min(W+, W-) = 228.5 of 561
        let many = [
            0.02, 0.05, -0.007, -0.069, -0.025, -0.079, 0.026, 0.154, -0.029, -0.042, 0.069, 0.056,
            0.031, -0.073, 0.017, 0.09, -0.114, -0.026, -0.17, -0.109, -0.164, -0.004, -0.107,
            0.047, 0.036, 0.001, -0.232, -0.034, 0.015, 0.031, 0.02, 0.02, -0.02,
        ];
        check(signed_rank(&many), 228.5, 0.3526982899822727);
    }

    #[test]
    fn mann_whitney_is_scipys() {
        // scipy.stats.mannwhitneyu(Y, X, method='exact')
        check(mann_whitney(X, Y), 36.0, 0.39689199689199695);
        // Ties, by counting all subsets of scipy.stats.rankdata.
        let a = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 6.0];
        let b = [2.0, 4.0, 5.0, 7.0, 8.0, 9.0];
        check(mann_whitney(&a, &b), 32.0, 0.1346153846153846);
    }

    #[test]
    fn mann_whitney_of_many_is_scipys() {
        // scipy.stats.mannwhitneyu(B, A, method='asymptotic')
        let a = [
            10, 12, 9, 14, 8, 10, 11, 5, 10, 9, 4, 8, 13, 11, 12, 9, 9, 19, 12, 14, 6, 11, 10, 14,
            11, 9, 10, 8, 9, 14,
        ];
        let b = [
            13, 10, 16, 11, 15, 14, 8, 8, 19, 10, 20, 12, 15, 11, 11, 5, 9, 14, 10, 9, 9, 16, 13,
            13, 12,
        ];
        let (a, b) = (a.map(f64::from), b.map(f64::from));
        check(mann_whitney(&a, &b), 486.0, 0.06015429050468455);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert_eq!(signed_rank(&[]), None);
        assert_eq!(signed_rank(&[0.0, 0.0]), None);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0]), None);
    }
}
