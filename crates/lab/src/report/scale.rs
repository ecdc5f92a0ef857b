//! Where a value stands on an axis, and which values are named there.
//!
//! Ticks are 1, 2 or 5 times a power of ten, on an axis of time also what a clock shows. A scale is never empty:
//! one value, or none, still gives an axis.

/// Most ticks that a scale answers.
pub const TICKS_MAX: usize = 64;

/// One axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    Linear { low: f64, high: f64 },
    Log { low: f64, high: f64 },
}

impl Scale {
    /// From 0 to a round number that is at least the highest value.
    pub fn from_zero(values: impl IntoIterator<Item = f64>) -> Scale {
        let most = values.into_iter().filter(|v| v.is_finite());
        let most = most.fold(0.0, f64::max);
        if most <= 0.0 {
            return Scale::Linear {
                low: 0.0,
                high: 1.0,
            };
        }
        let step = step_for(most / 4.0);
        Scale::Linear {
            low: 0.0,
            high: (most / step).ceil() * step,
        }
    }

    /// Time from 0 to an end, exactly.
    pub fn time(end_s: f64) -> Scale {
        let end = if end_s.is_finite() && end_s > 0.0 {
            end_s
        } else {
            1.0
        };
        Scale::Linear {
            low: 0.0,
            high: end,
        }
    }

    /// Logarithmic, between the round numbers around the values; values at or under zero have no place. At least
    /// one step of 1-2-5 lies on each side of a value that is alone.
    pub fn log(values: impl IntoIterator<Item = f64>) -> Scale {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values {
            if value.is_finite() && value > 0.0 {
                least = least.min(value);
                most = most.max(value);
            }
        }
        if most <= 0.0 {
            (least, most) = (1.0, 10.0);
        }
        let (mut low, mut high) = (round_down(least), round_up(most));
        if high / low < 4.0 {
            low = round_down(low * 0.99);
            high = round_up(high * 1.01);
        }
        Scale::Log { low, high }
    }

    pub fn low(&self) -> f64 {
        match self {
            Scale::Linear { low, .. } | Scale::Log { low, .. } => *low,
        }
    }

    pub fn high(&self) -> f64 {
        match self {
            Scale::Linear { high, .. } | Scale::Log { high, .. } => *high,
        }
    }

    /// Where a value stands: 0 at the low end, 1 at the high one, never outside.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Scale::Linear { low, high } => (value - low) / (high - low),
            Scale::Log { low, high } => (value.max(low) / low).ln() / (high / low).ln(),
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// About so many round values, low to high.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        match *self {
            Scale::Linear { low, high } => {
                multiples(low, high, step_for((high - low) / about.max(1) as f64))
            }
            Scale::Log { low, high } => log_ticks(low, high, about),
        }
    }

    /// About so many instants that a clock shows: 15 s, 30 s, 1 min, 2 min, …
    pub fn time_ticks(&self, about: usize) -> Vec<f64> {
        const STEPS: &[f64] = &[
            15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
            21_600.0, 43_200.0, 86_400.0,
        ];
        let wanted = (self.high() - self.low()) / about.max(1) as f64;
        let step = match wanted {
            wanted if wanted <= 10.0 => step_for(wanted),
            wanted => STEPS
                .iter()
                .copied()
                .find(|step| *step >= wanted)
                .unwrap_or_else(|| (wanted / 86_400.0).ceil() * 86_400.0),
        };
        multiples(self.low(), self.high(), step)
    }
}

/// Every multiple of a step between two values.
fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    if step.is_nan() || step <= 0.0 {
        return vec![low];
    }
    let first = (low / step - 1e-9).ceil();
    let ticks = (0..TICKS_MAX).map(|i| (first + i as f64) * step);
    ticks.take_while(|t| *t <= high + step * 1e-9).collect()
}

/// 1, 2 and 5 times each power of ten; only the powers where those are too many; only every n-th power where those
/// are too many too.
fn log_ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let decades = (high.log10().ceil() as i32 - first).max(1);
    let among = |factors: &[f64], every: i32| -> Vec<f64> {
        (0..=decades)
            .filter(|decade| decade % every == 0)
            .flat_map(|decade| {
                let power = 10f64.powi(first + decade);
                factors.iter().map(move |factor| factor * power)
            })
            .filter(|t| *t >= low * 0.999 && *t <= high * 1.001)
            .take(TICKS_MAX)
            .collect()
    };
    let fine = among(&[1.0, 2.0, 5.0], 1);
    if fine.len() <= about + 2 {
        return fine;
    }
    among(&[1.0], (decades / about.max(1) as i32).max(1))
}

/// The least of 1, 2 or 5 times a power of ten that is at least `wanted`.
fn step_for(wanted: f64) -> f64 {
    round_up(wanted)
}

fn round_up(value: f64) -> f64 {
    rounds(value)
        .find(|r| *r >= value * (1.0 - 1e-9))
        .unwrap_or(value)
}

fn round_down(value: f64) -> f64 {
    rounds(value)
        .filter(|r| *r <= value * (1.0 + 1e-9))
        .last()
        .unwrap_or(value)
}

/// The round numbers around a value, rising.
fn rounds(value: f64) -> impl Iterator<Item = f64> {
    let power = value.log10().floor() as i32;
    [1.0, 2.0, 5.0, 10.0].into_iter().map(move |factor| {
        if power < 0 {
            factor / 10f64.powi(-power)
        } else {
            factor * 10f64.powi(power)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_end_at_round_numbers() {
        let scale = Scale::from_zero([3.0, 17.0, f64::NAN]);
        assert_eq!((scale.low(), scale.high()), (0.0, 20.0));
        assert_eq!(scale.ticks(4), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(scale.place(5.0), 0.25);
        assert_eq!(scale.place(1e9), 1.0);
    }

    #[test]
    fn a_scale_of_nothing_or_of_one_value_is_still_a_scale() {
        assert_eq!(Scale::from_zero([]).high(), 1.0);
        assert_eq!(Scale::log([]).place(0.0), 0.0);
        let alone = Scale::log([5000.0]);
        assert!(alone.low() < 5000.0 && alone.high() > 5000.0);
        assert!(alone.ticks(5).len() >= 2);
        assert_eq!(Scale::time(0.0).high(), 1.0);
        assert_eq!(Scale::time(f64::NAN).high(), 1.0);
    }

    #[test]
    fn log_ticks_are_1_2_5_and_thin_out() {
        let narrow = Scale::log([120.0, 900.0]);
        assert_eq!(narrow.ticks(6), [100.0, 200.0, 500.0, 1000.0]);
        let wide = Scale::log([1.0, 1e9]);
        let ticks = wide.ticks(5);
        assert!(ticks.len() <= 11 && ticks.len() >= 4, "{ticks:?}");
        assert!(ticks.iter().all(|t| t.log10().fract() == 0.0), "{ticks:?}");
    }

    #[test]
    fn time_ticks_are_what_a_clock_shows() {
        assert_eq!(
            Scale::time(200.0).time_ticks(8),
            [0.0, 30.0, 60.0, 90.0, 120.0, 150.0, 180.0]
        );
        let days = Scale::time(10.0 * 86_400.0).time_ticks(8);
        assert!(days.len() <= 9 && days.len() > 2, "{days:?}");
    }

    #[test]
    fn ticks_are_bounded_whatever_the_range() {
        for scale in [
            Scale::log([1e-300, 1e300]),
            Scale::from_zero([1e300]),
            Scale::from_zero([1e-300]),
            Scale::time(1e300),
        ] {
            assert!(scale.ticks(6).len() <= TICKS_MAX);
            assert!(scale.time_ticks(6).len() <= TICKS_MAX);
            assert!(scale.place(1.0).is_finite());
        }
    }
}
