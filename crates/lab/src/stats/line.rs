//! A straight line through weighted points, and a power law, which is a line between logarithms.
//!
//! Weighted least squares with the weights taken as relative: what the points leave over says how noisy they are, as
//! `scipy.optimize.curve_fit(sigma=…, absolute_sigma=False)` and statsmodels' WLS do it. Two points have a line and no
//! interval; one has none.

use serde::{Deserialize, Serialize};

use super::distributions::t_quantile;
use super::interval::Interval;

/// One measured point. Weights are relative; 1 for all is no weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointOfFit {
    pub x: f64,
    pub y: f64,
    pub weight: f64,
}

/// A line with how sure it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub intercept: f64,
    pub slope: f64,
    /// Absent where the points are too few to tell: fewer than three.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub intercept_interval: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slope_interval: Option<Interval>,
    /// How far each point lies above the line, in its own unit.
    pub residuals: Vec<f64>,
    /// The farthest that a point lies from the line through all others, in its own unit. Needs three.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out_max: Option<f64>,
}

impl Line {
    /// Fits a line; the intervals miss the truth with chance `alpha`. `None` for fewer than two different places, or
    /// for a weight that is not above zero.
    pub fn fit(points: &[PointOfFit], alpha: f64) -> Option<Line> {
        let (intercept, slope, sums) = solve(points)?;
        let at = |x: f64| intercept + slope * x;
        let residuals: Vec<f64> = points.iter().map(|p| p.y - at(p.x)).collect();
        let df = points.len().checked_sub(2)? as f64;
        let (intercept_interval, slope_interval) = if df > 0.0 {
            let squares = points.iter().zip(&residuals);
            let left: f64 = squares.map(|(p, r)| p.weight * r * r).sum();
            let variance = left / df;
            let t = t_quantile(1.0 - 0.5 * alpha, df);
            let half_slope = t * (variance * sums.weight / sums.determinant).sqrt();
            let half_intercept = t * (variance * sums.xx / sums.determinant).sqrt();
            (
                Some(around(intercept, half_intercept)),
                Some(around(slope, half_slope)),
            )
        } else {
            (None, None)
        };
        Some(Line {
            intercept,
            slope,
            intercept_interval,
            slope_interval,
            residuals,
            left_out_max: left_out(points),
        })
    }

    /// What the line says at a place.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// `y = factor · x^exponent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerLaw {
    pub factor: f64,
    pub exponent: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exponent_interval: Option<Interval>,
}

impl PowerLaw {
    /// Fits it to points above zero: each counts by how far it is off as a ratio.
    pub fn fit(points: &[(f64, f64)], alpha: f64) -> Option<PowerLaw> {
        let logarithms: Option<Vec<PointOfFit>> = points
            .iter()
            .map(|&(x, y)| {
                (x > 0.0 && y > 0.0).then(|| PointOfFit {
                    x: x.ln(),
                    y: y.ln(),
                    weight: 1.0,
                })
            })
            .collect();
        let line = Line::fit(&logarithms?, alpha)?;
        Some(PowerLaw {
            factor: line.intercept.exp(),
            exponent: line.slope,
            exponent_interval: line.slope_interval,
        })
    }

    pub fn at(&self, x: f64) -> f64 {
        self.factor * x.powf(self.exponent)
    }
}

fn around(value: f64, half: f64) -> Interval {
    Interval {
        low: value - half,
        high: value + half,
    }
}

struct Sums {
    weight: f64,
    xx: f64,
    determinant: f64,
}

/// Intercept and slope, with the sums that their errors are made of.
fn solve(points: &[PointOfFit]) -> Option<(f64, f64, Sums)> {
    let are_fit = points
        .iter()
        .all(|p| p.weight > 0.0 && p.weight.is_finite() && p.x.is_finite() && p.y.is_finite());
    if points.len() < 2 || !are_fit {
        return None;
    }
    let sum = |value: fn(&PointOfFit) -> f64| points.iter().map(value).sum::<f64>();
    let weight = sum(|p| p.weight);
    // Centred, so that places far from zero lose no digits.
    let centre = sum(|p| p.weight * p.x) / weight;
    let mean = sum(|p| p.weight * p.y) / weight;
    let spread: f64 = points
        .iter()
        .map(|p| p.weight * (p.x - centre) * (p.x - centre))
        .sum();
    let farthest = points
        .iter()
        .map(|p| (p.x - centre).abs())
        .fold(0.0, f64::max);
    if farthest <= 1e-12 * centre.abs() || spread <= 0.0 {
        return None;
    }
    let slope = points
        .iter()
        .map(|p| p.weight * (p.x - centre) * (p.y - mean))
        .sum::<f64>()
        / spread;
    let sums = Sums {
        weight,
        xx: sum(|p| p.weight * p.x * p.x),
        determinant: weight * spread,
    };
    Some((mean - slope * centre, slope, sums))
}

/// How far each point lies from the line through the others, at most.
fn left_out(points: &[PointOfFit]) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let off = (0..points.len()).filter_map(|out| {
        let mut others = points.to_vec();
        let left = others.remove(out);
        let (intercept, slope, _) = solve(&others)?;
        Some((left.y - intercept - slope * left.x).abs())
    });
    off.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::distributions::tests::close;
    use super::super::vectors::vectors;
    use super::*;

    fn weighted(points: &[(f64, f64, f64)]) -> Vec<PointOfFit> {
        let point = |&(x, y, weight): &(f64, f64, f64)| PointOfFit { x, y, weight };
        points.iter().map(point).collect()
    }

    #[test]
    fn lines_are_scipys() {
        let all = vectors();
        for case in all["lines"].as_array().unwrap() {
            let read =
                |key: &str| -> Vec<f64> { serde_json::from_value(case[key].clone()).unwrap() };
            let (x, y, sigma) = (read("x"), read("y"), read("sigma"));
            let points: Vec<PointOfFit> = (0..x.len())
                .map(|i| PointOfFit {
                    x: x[i],
                    y: y[i],
                    weight: sigma[i].powi(-2),
                })
                .collect();
            let line = Line::fit(&points, 0.05).unwrap();
            let number = |key: &str| case[key].as_f64().unwrap();
            close(line.intercept, number("intercept"), 1e-7);
            close(line.slope, number("slope"), 1e-7);
            let slope = line.slope_interval.unwrap();
            close(slope.low, number("slope_low"), 1e-6);
            close(slope.high, number("slope_high"), 1e-6);
            let intercept = line.intercept_interval.unwrap();
            close(intercept.low, number("intercept_low"), 1e-6);
            close(intercept.high, number("intercept_high"), 1e-6);
        }
    }

    #[test]
    fn the_published_cost_model_comes_out() {
        // Page S2: 5,537, 4,762 and 3,856 requests a second at 2, 5 and 10 KB are 161 µs + 9.8 µs a KB, and 5 KB is
        // predicted within 0.1 µs.
        let points = [(2.0, 5537.0), (5.0, 4762.0), (10.0, 3856.0)];
        let points: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|(kb, rate)| (*kb, 1e6 / rate, 1.0))
            .collect();
        let line = Line::fit(&weighted(&points), 0.05).unwrap();
        assert_eq!(line.intercept.round(), 161.0);
        assert_eq!((line.slope * 10.0).round(), 98.0);
        assert!((line.at(5.0) - 210.0).abs() < 0.11, "{}", line.at(5.0));
    }

    #[test]
    fn power_laws_are_lines_of_logarithms() {
        for case in vectors()["power_laws"].as_array().unwrap() {
            let read =
                |key: &str| -> Vec<f64> { serde_json::from_value(case[key].clone()).unwrap() };
            let points: Vec<(f64, f64)> = read("x").into_iter().zip(read("y")).collect();
            let law = PowerLaw::fit(&points, 0.05).unwrap();
            close(law.factor, case["factor"].as_f64().unwrap(), 1e-9);
            close(law.exponent, case["exponent"].as_f64().unwrap(), 1e-9);
        }
        // Page S2 projects the last doubling: 4 and 8 cores.
        let law = PowerLaw::fit(&[(4.0, 7700.0), (8.0, 12_600.0)], 0.05).unwrap();
        assert_eq!((law.at(12.0) / 10.0).round(), 1681.0);
        assert_eq!((law.at(16.0) / 10.0).round(), 2062.0);
        assert_eq!(law.exponent_interval, None);
    }

    #[test]
    fn nothing_is_fitted_to_nothing() {
        assert_eq!(Line::fit(&weighted(&[(1.0, 1.0, 1.0)]), 0.05), None);
        assert_eq!(
            Line::fit(&weighted(&[(1.0, 1.0, 1.0), (1.0, 2.0, 1.0)]), 0.05),
            None
        );
        assert_eq!(
            Line::fit(&weighted(&[(1.0, 1.0, 1.0), (2.0, 2.0, 0.0)]), 0.05),
            None
        );
        assert_eq!(
            Line::fit(&weighted(&[(1.0, f64::NAN, 1.0), (2.0, 2.0, 1.0)]), 0.05),
            None
        );
        assert_eq!(PowerLaw::fit(&[(0.0, 1.0), (1.0, 2.0)], 0.05), None);
    }
}
