//! When requests are due: stages of ramps and holds, and the arrivals that they mean.
//!
//! Arrival `k` of a run is the same instant whatever the number of threads: threads take every n-th of one
//! global sequence. The rate function is integrated exactly, so a ramp has neither steps nor drift.

use std::time::Duration;

use crate::plan::Arrivals;

/// One stage as planned, with its place in time. Times are nanoseconds from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    /// Left out of every headline.
    pub warmup: bool,
    /// The level at its begin and at its end: equal for a hold.
    pub from: f64,
    pub to: f64,
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Step {
    /// Whether the level stands still; quantiles are a headline only then.
    pub fn is_hold(&self) -> bool {
        self.from == self.to
    }

    pub fn seconds(&self) -> f64 {
        (self.end_ns - self.begin_ns) as f64 / 1e9
    }

    /// Arrivals in it when the level is a rate; connection-seconds when it is a number of connections.
    fn area(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds()
    }
}

/// What is asked for in a stage: go to a level, or stay at one.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Ramp { to: f64, over: Duration },
    Hold { at: f64, lasting: Duration },
}

/// The stages of a flow in order, without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    steps: Vec<Step>,
}

impl Profile {
    /// Lays stages `(name, warm-up, shape)` out in time. The level before the first is 0. A stage without a
    /// duration is left out.
    pub fn new(stages: impl IntoIterator<Item = (String, bool, Shape)>) -> Profile {
        let (mut steps, mut level, mut at_ns) = (Vec::new(), 0.0, 0);
        for (name, warmup, shape) in stages {
            let (from, to, lasting) = match shape {
                Shape::Ramp { to, over } => (level, to, over),
                Shape::Hold { at, lasting } => (at, at, lasting),
            };
            level = to;
            let end_ns = at_ns + lasting.as_nanos() as u64;
            if end_ns > at_ns {
                steps.push(Step {
                    name,
                    warmup,
                    from,
                    to,
                    begin_ns: at_ns,
                    end_ns,
                });
            }
            at_ns = end_ns;
        }
        Profile { steps }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// When the last stage ends.
    pub fn end_ns(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.end_ns)
    }

    /// The stage that an instant belongs to; the last one for what comes after the end.
    pub fn step_at(&self, ns: u64) -> usize {
        let after = self.steps.partition_point(|step| step.end_ns <= ns);
        after.min(self.steps.len().saturating_sub(1))
    }

    /// The level at an instant; 0 from the end on.
    pub fn level_at(&self, ns: u64) -> f64 {
        let Some(step) = self.steps.get(self.step_at(ns)).filter(|s| ns < s.end_ns) else {
            return 0.0;
        };
        let share = (ns - step.begin_ns) as f64 / (step.end_ns - step.begin_ns) as f64;
        step.from + (step.to - step.from) * share
    }

    /// The highest level of all stages.
    pub fn level_max(&self) -> f64 {
        let levels = self.steps.iter().flat_map(|step| [step.from, step.to]);
        levels.fold(0.0, f64::max)
    }

    /// Arrivals that the whole profile means when its level is a rate.
    pub fn arrivals(&self) -> f64 {
        self.steps.iter().map(Step::area).sum()
    }
}

/// The instants of one thread's arrivals: every `threads`-th of the flow's sequence.
pub struct Sequence<'a> {
    profile: &'a Profile,
    step: usize,
    /// Arrivals before the current step.
    before: f64,
    /// The global number of the arrival that comes next in the sequence (of any thread).
    next: u64,
    thread: u64,
    threads: u64,
    gaps: Gaps,
}

/// Where arrivals stand on the axis of expected arrivals.
enum Gaps {
    Uniform,
    /// So many share the place of their first.
    Burst(u64),
    /// Sums of exponential gaps. Each thread draws all of them, so that all see one process.
    Poisson {
        draw: fastrand::Rng,
        sum: f64,
    },
}

impl Gaps {
    fn position(&mut self, number: u64) -> f64 {
        match self {
            Gaps::Uniform => number as f64,
            Gaps::Burst(size) => (number - number % *size) as f64,
            Gaps::Poisson { draw, sum } => {
                *sum -= (1.0 - draw.f64()).ln();
                *sum
            }
        }
    }
}

impl<'a> Sequence<'a> {
    pub fn new(
        profile: &'a Profile,
        arrivals: Arrivals,
        seed: u64,
        thread: usize,
        threads: usize,
    ) -> Sequence<'a> {
        let gaps = match arrivals {
            Arrivals::Uniform => Gaps::Uniform,
            Arrivals::Burst(size) => Gaps::Burst(size.max(1)),
            Arrivals::Poisson => Gaps::Poisson {
                draw: fastrand::Rng::with_seed(seed),
                sum: 0.0,
            },
        };
        Sequence {
            profile,
            step: 0,
            before: 0.0,
            next: 0,
            thread: thread as u64,
            threads: threads as u64,
            gaps,
        }
    }

    /// The instant of a position on the axis of expected arrivals, which never goes back.
    fn instant(&mut self, position: f64) -> Option<u64> {
        loop {
            let step = self.profile.steps.get(self.step)?;
            let (inside, area) = (position - self.before, step.area());
            if inside < area {
                return Some(step.begin_ns + (solve(step, inside) * 1e9).round() as u64);
            }
            self.before += area;
            self.step += 1;
        }
    }
}

/// Seconds from a step's begin until `n` arrivals: the root of `from·t + slope·t²/2 = n`, in the form that
/// does not cancel and holds for a slope of zero.
fn solve(step: &Step, n: f64) -> f64 {
    let slope = (step.to - step.from) / step.seconds();
    let root = (step.from * step.from + 2.0 * n * slope).max(0.0).sqrt();
    if n == 0.0 {
        return 0.0;
    }
    2.0 * n / (step.from + root)
}

impl Iterator for Sequence<'_> {
    /// The arrival's global number and its instant in nanoseconds from the start.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if !matches!(self.gaps, Gaps::Poisson { .. }) {
            // Nothing is drawn, so the others' arrivals need not be visited.
            let number = self.next.max(self.thread);
            self.next = number + self.threads;
            let position = self.gaps.position(number);
            return Some((number, self.instant(position)?));
        }
        loop {
            let number = self.next;
            self.next += 1;
            let position = self.gaps.position(number);
            if number % self.threads == self.thread {
                return Some((number, self.instant(position)?));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_one_instant_and_the_rate_stays() {
        let profile = profile(&[hold(100.0, 2)]);
        let found = all(&profile, Arrivals::Burst(25), 3);
        assert_eq!(found.len(), 200);
        for (number, at) in found {
            assert_eq!(at, number / 25 * 250_000_000, "{number}");
        }
    }

    fn profile(shapes: &[Shape]) -> Profile {
        let stages = shapes.iter().enumerate();
        Profile::new(stages.map(|(i, shape)| (format!("s{i}"), false, shape.clone())))
    }

    fn hold(at: f64, seconds: u64) -> Shape {
        Shape::Hold {
            at,
            lasting: Duration::from_secs(seconds),
        }
    }

    fn ramp(to: f64, seconds: u64) -> Shape {
        Shape::Ramp {
            to,
            over: Duration::from_secs(seconds),
        }
    }

    fn all(profile: &Profile, arrivals: Arrivals, threads: usize) -> Vec<(u64, u64)> {
        let each = |thread| Sequence::new(profile, arrivals, 7, thread, threads);
        let mut found: Vec<_> = (0..threads).flat_map(each).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_hold_is_evenly_spaced() {
        let found = all(&profile(&[hold(100.0, 10)]), Arrivals::Uniform, 1);
        assert_eq!(found.len(), 1000);
        assert_eq!((found[0], found[1]), ((0, 0), (1, 10_000_000)));
        assert_eq!(found[999], (999, 9_990_000_000));
    }

    #[test]
    fn threads_do_not_change_the_process() {
        let profile = profile(&[ramp(500.0, 2), hold(500.0, 1), ramp(0.0, 2)]);
        for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
            let one = all(&profile, arrivals, 1);
            assert!((1400..=1600).contains(&one.len()), "{}", one.len());
            assert!(one.is_sorted_by_key(|(_, ns)| *ns));
            for threads in [2, 3, 7] {
                assert_eq!(all(&profile, arrivals, threads), one, "{threads}");
            }
        }
    }

    #[test]
    fn a_ramp_integrates_exactly() {
        // From 0 to 100/s over 10 s: 500 arrivals, the k-th at sqrt(k/5) s.
        let found = all(&profile(&[ramp(100.0, 10)]), Arrivals::Uniform, 1);
        assert_eq!(found.len(), 500);
        for (k, ns) in found {
            let truth = (k as f64 / 5.0).sqrt() * 1e9;
            assert!((ns as f64 - truth).abs() < 2.0, "{k}: {ns}, not {truth}");
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let found = all(&profile(&[hold(1000.0, 100)]), Arrivals::Poisson, 1);
        let gaps: Vec<f64> = found
            .windows(2)
            .map(|w| (w[1].1 - w[0].1) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "mean {mean} ms");
        // An exponential distribution's deviation equals its mean.
        assert!((square.sqrt() - 1.0).abs() < 0.03, "deviation {square}");
    }

    #[test]
    fn levels_are_where_they_should_be() {
        let profile = profile(&[ramp(50.0, 10), hold(50.0, 10), hold(20.0, 5)]);
        assert_eq!(profile.level_at(5_000_000_000), 25.0);
        assert_eq!(profile.level_at(15_000_000_000), 50.0);
        assert_eq!(profile.level_at(20_000_000_000), 20.0);
        assert_eq!(profile.level_at(25_000_000_000), 0.0);
        assert_eq!(profile.step_at(99_000_000_000), 2);
        assert_eq!(profile.level_max(), 50.0);
        assert_eq!(profile.arrivals(), 250.0 + 500.0 + 100.0);
        assert!(profile.steps()[1].is_hold() && !profile.steps()[0].is_hold());
    }

    #[test]
    fn an_idle_stage_has_no_arrivals() {
        let found = all(
            &profile(&[hold(0.0, 5), hold(10.0, 1)]),
            Arrivals::Uniform,
            2,
        );
        assert_eq!(found.len(), 10);
        assert_eq!(found[0], (0, 5_000_000_000));
    }
}
