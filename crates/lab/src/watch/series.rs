//! Points over time whose number is bounded, however long the run.
//!
//! When a series is full every second point is dropped and from then on only every second sample is kept. The values
//! are totals since the beginning wherever that is possible, so rates stay exact; peaks are kept elsewhere.

/// The most points of a series.
pub const POINTS_MAX: usize = 1200;

/// A bounded series.
#[derive(Clone, Debug)]
pub(super) struct Series<T> {
    points: Vec<T>,
    every: u64,
    seen: u64,
}

impl<T> Default for Series<T> {
    fn default() -> Series<T> {
        Series {
            points: Vec::new(),
            every: 1,
            seen: 0,
        }
    }
}

impl<T> Series<T> {
    /// Offers the next sample.
    pub(super) fn push(&mut self, point: T) {
        if self.seen.is_multiple_of(self.every) {
            if self.points.len() == POINTS_MAX {
                let mut keep = [true, false].into_iter().cycle();
                self.points.retain(|_| keep.next().unwrap_or(true));
                self.every = self.every.saturating_mul(2);
            }
            // The sample may be one of those that the wider step leaves out.
            if self.seen.is_multiple_of(self.every) {
                self.points.push(point);
            }
        }
        self.seen += 1;
    }

    /// The points, oldest first.
    pub(super) fn points(&self) -> &[T] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_evenly_spaced_points() {
        let mut series = Series::default();
        for at in 0..1_000_000_u64 {
            series.push(at);
            assert!(series.points().len() <= POINTS_MAX);
        }
        let points = series.points();
        assert!(points.len() > POINTS_MAX / 2);
        let step = points[1] - points[0];
        assert!(step.is_power_of_two());
        assert!(
            points.windows(2).all(|pair| pair[1] - pair[0] == step),
            "{step}"
        );
        assert!(1_000_000 - points[points.len() - 1] <= step);
    }
}
