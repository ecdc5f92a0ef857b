//! Whether the comparison itself keeps its promise on this machine: the same question many times, its answers counted.
//!
//! With one binary against itself every "better" or "worse" is a false alarm; with a slowdown that was put in, every
//! other answer is a miss. How many of either are allowed follows from the promise, by the binomial distribution.

use clap::ValueEnum;
use serde::Serialize;

use super::answer::Answer;
use super::comparison::{Comparison, SCHEMA};
use crate::exit::{Exit, Failure};
use crate::stats::counts::binomial_most;
use crate::stats::power::POWER;

/// Most repetitions.
pub const REPEAT_MAX: usize = 1000;
/// The chance that a comparison which keeps its promise is called wrong here.
const BLAME: f64 = 0.01;

/// What is true of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Truth {
    /// Every "better" or "worse" is a false alarm: at most as many as promised.
    Same,
    /// Found in four of five, but for chance.
    Worse,
    /// Found in four of five, but for chance.
    Better,
}

/// The answers so far.
pub struct Tally {
    comparisons: Vec<Comparison>,
}

/// The answers, counted.
#[derive(Debug, Serialize)]
pub struct Repeated {
    pub schema: &'static str,
    pub repeats: usize,
    pub better: usize,
    pub worse: usize,
    pub same: usize,
    pub cannot_tell: usize,
    /// The promise of each comparison.
    pub alpha: f64,
    /// "Better" and "worse" that a comparison of a thing with itself may give so often, all but surely.
    pub alarms_most: u64,
    /// Whether the answers are right often enough; absent where nobody said what is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    pub partial: bool,
    pub comparisons: Vec<Comparison>,
}

impl Tally {
    /// # Errors
    ///
    /// None, or more than anybody waits for.
    pub fn new(times: usize) -> Result<Tally, Failure> {
        if (1..=REPEAT_MAX).contains(&times) {
            return Ok(Tally {
                comparisons: Vec::with_capacity(times),
            });
        }
        Err(Failure::new(
            format!("--repeat {times} is not possible"),
            format!("ask for 1 to {REPEAT_MAX}"),
        ))
    }

    pub fn add(&mut self, comparison: Comparison) {
        self.comparisons.push(comparison);
    }

    /// Counts the answers, and judges them if it is known what is true.
    pub fn judged(self, alpha: f64, truth: Option<Truth>) -> Repeated {
        let count = |answer| {
            let answers = self.comparisons.iter();
            answers
                .filter(|comparison| comparison.answer == answer)
                .count()
        };
        let (better, worse) = (count(Answer::Better), count(Answer::Worse));
        let repeats = self.comparisons.len();
        let alarms_most = binomial_most(repeats as u64, alpha, BLAME);
        let misses_most = binomial_most(repeats as u64, 1.0 - POWER, BLAME);
        let found = |hits: usize| (repeats - hits) as u64 <= misses_most;
        Repeated {
            schema: SCHEMA,
            repeats,
            better,
            worse,
            same: count(Answer::Same),
            cannot_tell: count(Answer::CannotTell),
            alpha,
            alarms_most,
            holds: truth.map(|truth| match truth {
                Truth::Same => (better + worse) as u64 <= alarms_most,
                Truth::Worse => found(worse),
                Truth::Better => found(better),
            }),
            partial: self.comparisons.iter().any(|comparison| comparison.partial),
            comparisons: self.comparisons,
        }
    }
}

impl Repeated {
    pub fn text(&self) -> String {
        let verdict = match self.holds {
            Some(true) => "as promised\n",
            Some(false) => "NOT as promised\n",
            None => "",
        };
        format!(
            "\n{} comparisons: {} better, {} worse, {} same, {} cannot tell\n\
             of a thing with itself, at most {} may be better or worse at a promise of {} %\n{verdict}",
            self.repeats,
            self.better,
            self.worse,
            self.same,
            self.cannot_tell,
            self.alarms_most,
            100.0 * self.alpha
        )
    }

    /// # Errors
    ///
    /// A number in it is not finite.
    pub fn json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|e| Failure::new(format!("the answers are no JSON: {e}"), ""))?;
        Ok(text + "\n")
    }

    pub fn exit(&self) -> Exit {
        match self.holds {
            _ if self.partial => Exit::Interrupted,
            Some(false) => Exit::Worse,
            Some(true) | None => Exit::Pass,
        }
    }
}
