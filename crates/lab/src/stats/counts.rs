//! What counts say: whether errors became more frequent, and how rare "none seen" allows them to be.

use super::distributions::ln_gamma;

/// The chance to see at least `errors_b` errors in `requests_b` if errors were as frequent on both sides: Fisher's
/// exact test, one-sided (R. A. Fisher, "Statistical Methods for Research Workers", 1934, section 21.02).
///
/// More errors than requests are counted as one for each request. No requests on one side answer 1: nothing is
/// known.
pub fn fisher_increase(errors_a: u64, requests_a: u64, errors_b: u64, requests_b: u64) -> f64 {
    let (errors_a, errors_b) = (errors_a.min(requests_a), errors_b.min(requests_b));
    let errors = errors_a + errors_b;
    if errors == 0 || requests_a == 0 || requests_b == 0 {
        return 1.0;
    }
    // The number of errors on side B is hypergeometric, from `least` to `most`.
    let least = errors.saturating_sub(requests_a);
    let most = errors.min(requests_b);
    if errors_b <= least {
        return 1.0;
    }
    let (a, b, k) = (requests_a as f64, requests_b as f64, errors as f64);
    let ln_chance = |x: f64| ln_choose(b, x) + ln_choose(a, k - x) - ln_choose(a + b, k);
    // Each term from its neighbour: chance(x + 1) / chance(x).
    let ratio = |x: f64| (b - x) * (k - x) / ((x + 1.0) * (a - k + x + 1.0));
    let expected = k * b / (a + b);
    let observed = errors_b as f64;
    if observed > expected {
        let upward = (errors_b..most).map(|x| ratio(x as f64));
        sum_of_terms(ln_chance(observed).exp(), upward).min(1.0)
    } else {
        let first = errors_b - 1;
        let downward = (least..first).rev().map(|x| 1.0 / ratio(x as f64));
        1.0 - sum_of_terms(ln_chance(first as f64).exp(), downward).min(1.0)
    }
}

/// The sum of falling terms, of which the next is the last times the next ratio; ends where no digit changes.
fn sum_of_terms(first: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut term, mut sum) = (first, first);
    for ratio in ratios {
        term *= ratio;
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    sum
}

fn ln_choose(n: f64, k: f64) -> f64 {
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
}

/// The most errors that a process with error chance `p` shows in `n` trials, but for a chance of `beyond`: the
/// binomial quantile at `1 - beyond`. It is how the lab's own tests bound their false alarms.
pub fn binomial_most(n: u64, p: f64, beyond: f64) -> u64 {
    if p <= 0.0 {
        return 0;
    }
    if p >= 1.0 {
        return n;
    }
    let odds = p / (1.0 - p);
    let (mut ln_term, mut sum) = (n as f64 * (-p).ln_1p(), 0.0);
    for k in 0..n {
        sum += ln_term.exp();
        if sum >= 1.0 - beyond {
            return k;
        }
        ln_term += (odds * (n - k) as f64 / (k + 1) as f64).ln();
    }
    n
}

#[cfg(test)]
mod tests {
    use super::super::distributions::tests::close;
    use super::*;

    #[test]
    fn fisher_is_scipys() {
        // scipy.stats.fisher_exact([[eb, nb-eb], [ea, na-ea]], alternative='greater').pvalue
        for ((errors_a, requests_a, errors_b, requests_b), p) in [
            ((0, 1000, 3, 1000), 0.12481240620310154),
            ((0, 1000, 8, 1000), 0.0038517404255419474),
            ((2, 50, 9, 40), 0.009125351386157643),
            ((5, 1_000_000, 25, 1_000_000), 0.00016244135612490692),
            ((100, 2000, 90, 2000), 0.793198497631847),
            ((0, 2_000_000, 1, 10), 4.999975002798934e-06),
        ] {
            let ours = fisher_increase(errors_a, requests_a, errors_b, requests_b);
            close(ours / p, 1.0, 1e-6);
        }
    }

    #[test]
    fn fisher_knows_nothing_of_nothing() {
        assert_eq!(fisher_increase(0, 0, 5, 10), 1.0);
        assert_eq!(fisher_increase(0, 1000, 0, 1000), 1.0);
        assert_eq!(fisher_increase(5, 10, 0, 1000), 1.0);
        assert_eq!(fisher_increase(10, 10, 10, 10), 1.0);
        // More errors than requests is a caller's mistake; it must not become a panic or a wrong sign.
        assert!(fisher_increase(0, 10, 99, 10) < 1e-4);
    }

    #[test]
    fn the_binomial_quantile_is_scipys() {
        // scipy.stats.binom.ppf(0.999, n, p)
        assert_eq!(binomial_most(2000, 0.01, 0.001), 35);
        assert_eq!(binomial_most(1000, 0.05, 0.001), 73);
        assert_eq!(binomial_most(10, 0.0, 0.001), 0);
        assert_eq!(binomial_most(10, 1.0, 0.001), 10);
    }
}
