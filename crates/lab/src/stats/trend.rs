//! Whether a series drifts: the Theil–Sen slope.

use super::location::median;

/// The median of the slopes between all pairs of points (x, y); `None` when no two points differ in x.
///
/// Theil (1950) and Sen (1968). Up to 29 % of the points may be wild without moving it far. n²/2 slopes are built,
/// so hand it thousands of points, not millions.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let later = points[i + 1..].iter().filter(|(other, _)| other != x);
        slopes.extend(later.map(|(other_x, other_y)| (other_y - y) / (other_x - x)));
    }
    median(&slopes)
}

#[cfg(test)]
mod tests {
    use super::super::distributions::tests::close;
    use super::*;

    #[test]
    fn the_slope_is_scipys() {
        // scipy.stats.theilslopes(ys, xs).slope, with one wild point
        let xs = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5];
        let ys = [1.0, 2.1, 2.9, 4.2, 5.1, 30.0, 7.2, 8.4];
        let points: Vec<(f64, f64)> = xs.into_iter().zip(ys).collect();
        close(theil_sen(&points).unwrap(), 1.0225, 1e-12);
    }

    #[test]
    fn one_moment_has_no_slope() {
        assert_eq!(theil_sen(&[]), None);
        assert_eq!(theil_sen(&[(1.0, 2.0)]), None);
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
