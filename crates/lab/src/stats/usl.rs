//! The universal scalability law: how throughput bends with the number that share a resource.
//!
//! `X(N) = λN / (1 + σ(N − 1) + κN(N − 1))` (Gunther, "Guerrilla Capacity Planning", 2007): λ is what one carries alone,
//! σ what is done one after another, κ what each costs each other. Fitted by Gauss–Newton on the relative residuals
//! with σ and κ not below zero; each of the four ways in which a bound can hold is solved, and the best one that keeps
//! the bounds is the answer. It refuses fewer than three points.

use serde::{Deserialize, Serialize};

/// Steps of Gauss–Newton, at most, and halvings of one.
const STEPS_MAX: usize = 200;
const HALVINGS_MAX: usize = 40;

/// A law that was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// What one carries alone.
    pub lambda: f64,
    /// Contention: the share that cannot be done at the same time.
    pub sigma: f64,
    /// Coherency: what each costs each other.
    pub kappa: f64,
    /// The root of the mean square of what the points are off, as a share.
    pub rms: f64,
}

impl Usl {
    /// Fits points of number and throughput, all above zero and at three different numbers at least.
    pub fn fit(points: &[(f64, f64)]) -> Option<Usl> {
        let mut numbers: Vec<f64> = points.iter().map(|p| p.0).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let are_fit = points
            .iter()
            .all(|(n, x)| *n > 0.0 && *x > 0.0 && x.is_finite());
        if numbers.len() < 3 || !are_fit {
            return None;
        }
        let free = [[true, true], [true, false], [false, true], [false, false]];
        let found = free.iter().filter_map(|free| within(points, *free));
        let best = found
            .filter(|law| law.sigma >= 0.0 && law.kappa >= 0.0 && law.lambda > 0.0)
            .min_by(|a, b| a.rms.total_cmp(&b.rms));
        // A bound that costs nothing is no finding: of laws that fit as well, the simpler one was listed later.
        best
    }

    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// Where the law is highest; none where it never falls.
    pub fn highest_at(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

/// The best law with only these of σ and κ free, the others being zero.
fn within(points: &[(f64, f64)], free: [bool; 2]) -> Option<Usl> {
    let used: Vec<usize> = [0, 1, 2]
        .into_iter()
        .filter(|i| *i == 0 || free[i - 1])
        .collect();
    let mut at = start(points, &used)?;
    let mut cost = cost_of(points, &at);
    for _ in 0..STEPS_MAX {
        let step = step(points, &at, &used)?;
        let mut share = 1.0;
        let mut moved = None;
        for _ in 0..HALVINGS_MAX {
            let mut next = at;
            for (i, place) in used.iter().enumerate() {
                next[*place] += share * step[i];
            }
            let found = cost_of(points, &next);
            if found.is_finite() && found <= cost && next[0] > 0.0 {
                moved = Some((next, found));
                break;
            }
            share *= 0.5;
        }
        let Some((next, found)) = moved else { break };
        let is_done = (0..3).all(|i| (next[i] - at[i]).abs() <= 1e-14 * (1e-6 + next[i].abs()));
        (at, cost) = (next, found);
        if is_done {
            break;
        }
    }
    let [lambda, sigma, kappa] = at;
    Some(Usl {
        lambda,
        sigma,
        kappa,
        rms: (cost / points.len() as f64).sqrt(),
    })
}

/// A first law: N/X is linear in 1/λ, σ/λ and κ/λ.
fn start(points: &[(f64, f64)], used: &[usize]) -> Option<[f64; 3]> {
    let rows = points.iter().map(|&(n, x)| {
        let y = n / x;
        let row = [1.0 / y, (n - 1.0) / y, n * (n - 1.0) / y];
        (row, 1.0)
    });
    let solved = least_squares(rows, used)?;
    let mut linear = [0.0; 3];
    for (i, place) in used.iter().enumerate() {
        linear[*place] = solved[i];
    }
    let [inverse, sigma, kappa] = linear;
    if inverse <= 0.0 {
        let best = points.iter().map(|(n, x)| x / n).fold(0.0, f64::max);
        return Some([best, 0.0, 0.0]);
    }
    Some([1.0 / inverse, sigma / inverse, kappa / inverse])
}

fn parts(n: f64, [lambda, sigma, kappa]: &[f64; 3]) -> (f64, f64) {
    let below = 1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0);
    (lambda * n / below, below)
}

fn cost_of(points: &[(f64, f64)], law: &[f64; 3]) -> f64 {
    let squares = points.iter().map(|&(n, x)| {
        let (found, below) = parts(n, law);
        if below <= 0.0 {
            return f64::INFINITY;
        }
        (found / x - 1.0).powi(2)
    });
    squares.sum()
}

/// One step of Gauss–Newton.
fn step(points: &[(f64, f64)], law: &[f64; 3], used: &[usize]) -> Option<Vec<f64>> {
    let rows = points.iter().map(|&(n, x)| {
        let (found, below) = parts(n, law);
        let row = [
            found / law[0] / x,
            -found / below * (n - 1.0) / x,
            -found / below * n * (n - 1.0) / x,
        ];
        (row, 1.0 - found / x)
    });
    least_squares(rows, used)
}

/// Solves the normal equations of a few columns, each scaled to length 1.
fn least_squares(
    rows: impl Iterator<Item = ([f64; 3], f64)> + Clone,
    used: &[usize],
) -> Option<Vec<f64>> {
    let k = used.len();
    let scale: Vec<f64> = used
        .iter()
        .map(|place| {
            rows.clone()
                .map(|(row, _)| row[*place].powi(2))
                .sum::<f64>()
                .sqrt()
        })
        .collect();
    if scale.iter().any(|s| *s <= 0.0 || !s.is_finite()) {
        return None;
    }
    let mut matrix = vec![vec![0.0; k + 1]; k];
    for (row, y) in rows {
        for i in 0..k {
            let left = row[used[i]] / scale[i];
            for j in 0..k {
                matrix[i][j] += left * row[used[j]] / scale[j];
            }
            matrix[i][k] += left * y;
        }
    }
    let solved = eliminate(matrix)?;
    Some(
        solved
            .iter()
            .zip(&scale)
            .map(|(value, s)| value / s)
            .collect(),
    )
}

/// Gauss's elimination with the largest pivot; `None` where the rows say too little.
fn eliminate(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let k = matrix.len();
    for at in 0..k {
        let pivot = (at..k).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, pivot);
        if matrix[at][at].abs() < 1e-14 {
            return None;
        }
        let pivoted = matrix[at].clone();
        for (other, row) in matrix.iter_mut().enumerate() {
            if other == at {
                continue;
            }
            let factor = row[at] / pivoted[at];
            for (value, above) in row.iter_mut().zip(&pivoted) {
                *value -= factor * above;
            }
        }
    }
    Some((0..k).map(|i| matrix[i][k] / matrix[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::super::vectors::vectors;
    use super::*;

    #[test]
    fn laws_are_scipys() {
        for case in vectors()["usl"].as_array().unwrap() {
            let points: Vec<(f64, f64)> = serde_json::from_value(case["points"].clone()).unwrap();
            let law = Usl::fit(&points).unwrap();
            let number = |key: &str| case[key].as_f64().unwrap();
            let near = |found: f64, want: f64, least: f64| {
                assert!(
                    (found - want).abs() <= 2e-4 * want.abs() + least,
                    "{found} {want} {case}"
                );
            };
            near(law.lambda, number("lambda"), 0.0);
            near(law.sigma, number("sigma"), 2e-6);
            near(law.kappa, number("kappa"), 2e-7);
            near(law.rms, number("rms"), 1e-7);
        }
    }

    #[test]
    fn the_published_curves_come_out() {
        // Page S2's cores; its projections rest on a power law alone.
        let law = Usl::fit(&[(2.0, 3820.0), (4.0, 7700.0), (8.0, 12_600.0)]).unwrap();
        assert_eq!((law.lambda.round(), law.sigma), (1967.0, 0.0));
        assert!((law.kappa - 4.31e-3).abs() < 5e-6, "{law:?}");
        assert!((law.rms - 0.021).abs() < 5e-4, "{law:?}");
        assert!((law.at(12.0) - 15_041.0).abs() < 1.0, "{law:?}");
        assert!((law.at(16.0) - 15_465.0).abs() < 1.0, "{law:?}");
    }

    #[test]
    fn a_law_that_is_exact_is_found() {
        let truth = Usl {
            lambda: 500.0,
            sigma: 0.05,
            kappa: 0.002,
            rms: 0.0,
        };
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
            .iter()
            .map(|n| (*n, truth.at(*n)))
            .collect();
        let law = Usl::fit(&points).unwrap();
        assert!(
            (law.sigma - 0.05).abs() < 1e-6 && (law.kappa - 0.002).abs() < 1e-7,
            "{law:?}"
        );
        let highest = law.highest_at().unwrap();
        assert!((highest - (0.95_f64 / 0.002).sqrt()).abs() < 0.01);
        let line: Vec<(f64, f64)> = [1.0, 2.0, 3.0].iter().map(|n| (*n, 10.0 * n)).collect();
        let law = Usl::fit(&line).unwrap();
        assert!(law.sigma < 1e-9 && law.kappa < 1e-9, "{law:?}");
        assert_eq!(Usl::fit(&line[..2]), None);
        assert_eq!(Usl::fit(&[(1.0, 0.0), (2.0, 1.0), (3.0, 1.0)]), None);
    }
}
