//! What the target draws: distributions of time, and chances, each drawn by the number of the request.
//!
//! A draw depends on the seed, on the number of the request and on what is drawn, and on nothing else. So the
//! same seed gives the same sequence whatever the threads do, and one more behaviour does not shift another.

use std::str::FromStr;
use std::time::Duration;

use crate::scenario::units;

/// The longest time that a draw gives. An unbounded distribution is cut there.
pub const DRAW_MAX: Duration = Duration::from_secs(600);
/// The most parts of a mixture.
const PARTS_MAX: usize = 16;

/// What is drawn for a request. Each has its own sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Delay = 1,
    Fault = 2,
    Offset = 3,
    FirstToken = 4,
    Framing = 5,
    Id = 6,
    Session = 7,
}

/// The generator of random numbers for the `nth` request's `purpose`.
pub fn draw(seed: u64, nth: u64, purpose: Purpose) -> fastrand::Rng {
    fastrand::Rng::with_seed(mixed(mixed(seed ^ mixed(nth)) ^ purpose as u64))
}

/// The finalizer of SplitMix64: near numbers become unrelated ones.
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A distribution of a time.
///
/// Written `5ms`, `uniform(1ms,9ms)`, `exp(5ms)` (by its mean), `lognormal(5ms,0.5)` (by its median and the
/// standard deviation of the logarithm), or `mix(0.99:5ms,0.01:exp(100ms))`.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    Fixed(Duration),
    Uniform {
        least: Duration,
        most: Duration,
    },
    Exponential {
        mean: Duration,
    },
    Lognormal {
        median: Duration,
        sigma: f64,
    },
    /// Parts with their weights, which sum to 1. A part is not a mixture itself.
    Mixture(Vec<(f64, Distribution)>),
}

impl Distribution {
    /// No time at all.
    pub const NONE: Distribution = Distribution::Fixed(Duration::ZERO);

    /// Whether each draw is zero.
    pub fn is_none(&self) -> bool {
        *self == Distribution::NONE
    }

    /// One draw, at most [`DRAW_MAX`].
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Duration {
        let seconds = match self {
            Distribution::Fixed(time) => return *time,
            Distribution::Uniform { least, most } => {
                least.as_secs_f64() + (most.as_secs_f64() - least.as_secs_f64()) * rng.f64()
            }
            // `f64` is in [0, 1), so the logarithm is of something above 0.
            Distribution::Exponential { mean } => -mean.as_secs_f64() * (1.0 - rng.f64()).ln(),
            Distribution::Lognormal { median, sigma } => {
                median.as_secs_f64() * (sigma * normal(rng)).exp()
            }
            Distribution::Mixture(parts) => return part(parts, rng.f64()).sample(rng),
        };
        Duration::try_from_secs_f64(seconds.max(0.0)).map_or(DRAW_MAX, |time| time.min(DRAW_MAX))
    }
}

/// The part of a mixture at `at` of its cumulated weight.
fn part(parts: &[(f64, Distribution)], at: f64) -> &Distribution {
    let mut below = 0.0;
    for (weight, part) in parts {
        below += weight;
        if at < below {
            return part;
        }
    }
    let (_, last) = parts.last().expect("a mixture has a part");
    last
}

/// A draw from the standard normal distribution. Source: Box and Muller, 1958.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else {
            return duration(text).map(Distribution::Fixed);
        };
        let inner = rest
            .strip_suffix(')')
            .ok_or_else(|| format!("'{text}' has no closing parenthesis"))?;
        match name.trim() {
            "uniform" => {
                let (least, most) = pair(inner, "uniform(1ms,9ms)")?;
                let (least, most) = (duration(least)?, duration(most)?);
                if least > most {
                    return Err(format!("'{text}' begins above its end"));
                }
                Ok(Distribution::Uniform { least, most })
            }
            "exp" => duration(inner).map(|mean| Distribution::Exponential { mean }),
            "lognormal" => {
                let (median, sigma) = pair(inner, "lognormal(5ms,0.5)")?;
                let (median, sigma) = (duration(median)?, number(sigma)?);
                if sigma > 10.0 {
                    return Err(format!("the sigma of '{text}' is above 10"));
                }
                Ok(Distribution::Lognormal { median, sigma })
            }
            "mix" => mixture(inner),
            other => Err(format!(
                "'{other}' is no distribution; there are 5ms, uniform(1ms,9ms), exp(5ms), lognormal(5ms,0.5) \
                 and mix(0.99:5ms,0.01:100ms)"
            )),
        }
    }
}

fn pair<'a>(inner: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    inner
        .split_once(',')
        .ok_or_else(|| format!("'{inner}' needs two values, such as {example}"))
}

fn mixture(inner: &str) -> Result<Distribution, String> {
    let mut parts = Vec::new();
    for part in top_level(inner) {
        let (weight, rest) = part
            .split_once(':')
            .ok_or_else(|| format!("'{part}' needs a weight, such as mix(0.99:5ms,0.01:100ms)"))?;
        let distribution: Distribution = rest.parse()?;
        if matches!(distribution, Distribution::Mixture(_)) {
            return Err("a part of a mixture cannot be a mixture; write its parts instead".into());
        }
        parts.push((share(weight)?, distribution));
    }
    if parts.len() > PARTS_MAX {
        return Err(format!("a mixture has at most {PARTS_MAX} parts"));
    }
    let sum: f64 = parts.iter().map(|(weight, _)| weight).sum();
    if (sum - 1.0).abs() > 1e-6 {
        return Err(format!(
            "the weights of mix({inner}) sum to {sum}, not to 1"
        ));
    }
    Ok(Distribution::Mixture(parts))
}

/// The parts between the commas that are in no parentheses.
fn top_level(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A number that is finite and not negative.
fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    // `f64` also reads "inf" and "nan".
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 && !text.starts_with('-') => Ok(value),
        _ => Err(format!("'{text}' is not a number from 0 up")),
    }
}

/// A time with its unit, at most [`DRAW_MAX`].
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let time = units::duration(text.trim())?;
    if time > DRAW_MAX {
        return Err(format!("'{text}' is longer than {} s", DRAW_MAX.as_secs()));
    }
    Ok(time)
}

/// A share from 0 to 1: `1%`, `0.01`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let value = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    if value > 1.0 {
        return Err(format!("'{text}' is more than all; write 1% or 0.01"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: f64) -> Duration {
        Duration::from_secs_f64(value / 1e3)
    }

    #[test]
    fn distributions_are_read_as_written() {
        let read = |text: &str| text.parse::<Distribution>().unwrap();
        assert_eq!(read("5ms"), Distribution::Fixed(ms(5.0)));
        assert_eq!(
            read("uniform(1ms, 9ms)"),
            Distribution::Uniform {
                least: ms(1.0),
                most: ms(9.0)
            }
        );
        assert_eq!(
            read("mix(99%:5ms,0.01:uniform(1ms,2ms))"),
            Distribution::Mixture(vec![
                (0.99, Distribution::Fixed(ms(5.0))),
                (
                    0.01,
                    Distribution::Uniform {
                        least: ms(1.0),
                        most: ms(2.0)
                    }
                ),
            ])
        );
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for text in [
            "",
            "5",
            "ms",
            "-5ms",
            "nanms",
            "infs",
            "5 parsecs",
            "uniform(9ms,1ms)",
            "uniform(1ms)",
            "exp(5ms",
            "lognormal(5ms,11)",
            "lognormal(5ms,-1)",
            "mix()",
            "mix(0.5:5ms)",
            "mix(0.5:5ms,0.6:1ms)",
            "mix(1:mix(1:5ms))",
            "mix(5ms,5ms)",
            "gauss(1ms)",
            "2000h",
            "1e400s",
        ] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_at_most_all() {
        assert_eq!(share("1%").unwrap(), 0.01);
        assert_eq!(share("0.5").unwrap(), 0.5);
        for text in ["101%", "1.1", "%", "-1%", "nan", "inf", "", "1e-400x"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    /// The mean of 20,000 draws, in milliseconds. The seed is fixed, so the value is too.
    fn mean_ms(text: &str) -> f64 {
        let distribution: Distribution = text.parse().unwrap();
        let sum: f64 = (0..20_000)
            .map(|nth| {
                let mut rng = draw(7, nth, Purpose::Delay);
                distribution.sample(&mut rng).as_secs_f64() * 1e3
            })
            .sum();
        sum / 20_000.0
    }

    #[test]
    fn means_are_what_the_distributions_say() {
        let near = |text: &str, expected: f64| {
            let mean = mean_ms(text);
            assert!((mean / expected - 1.0).abs() < 0.03, "{text}: {mean}");
        };
        near("5ms", 5.0);
        near("uniform(1ms,9ms)", 5.0);
        near("exp(5ms)", 5.0);
        // The mean of a lognormal is its median times exp(sigma² / 2).
        near("lognormal(5ms,0.5)", 5.0 * (0.125_f64).exp());
        near("mix(0.9:5ms,0.1:105ms)", 15.0);
    }

    #[test]
    fn a_draw_depends_on_seed_number_and_purpose_only() {
        let first = |seed, nth, purpose| draw(seed, nth, purpose).u64(..);
        assert_eq!(first(1, 2, Purpose::Delay), first(1, 2, Purpose::Delay));
        assert_ne!(first(1, 2, Purpose::Delay), first(1, 2, Purpose::Fault));
        assert_ne!(first(1, 2, Purpose::Delay), first(1, 3, Purpose::Delay));
        assert_ne!(first(1, 2, Purpose::Delay), first(2, 2, Purpose::Delay));
    }
}
