//! From measurements to an answer: better, worse, same, or cannot tell.
//!
//! Each block gives one ln-ratio of B to A for each metric, and blocks are the samples; a million requests of one
//! run share its minute, its neighbours and its memory layout, so they count as one. What is concluded is decided
//! by `stats::margin`, and the promise against false alarms is shared out by `stats::holm`. Pure: nothing is read
//! and nothing drawn here.

use serde::{Deserialize, Serialize};

use super::metrics::{ERRORS_WEIGHT, Errors, METRIC, Measured, Metric, Worse};
use crate::stats::counts::fisher_increase;
use crate::stats::holm::{Held, holm};
use crate::stats::interval::{Estimate, Interval};
use crate::stats::location::deviation;
use crate::stats::margin::{Decided, decide};
use crate::stats::power::{Design, blocks_for_half_width};

/// Fewer blocks, or parts of a run, than this say nothing.
pub const SAMPLES_MIN: usize = 3;

/// What is concluded about B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Better,
    Worse,
    Same,
    CannotTell,
}

impl Answer {
    pub fn as_str(self) -> &'static str {
        match self {
            Answer::Better => "better",
            Answer::Worse => "worse",
            Answer::Same => "same",
            Answer::CannotTell => "cannot tell",
        }
    }
}

/// By which rule answers are found.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The chance of any false "better" or "worse" that is allowed, over all metrics.
    pub alpha: f64,
    /// The ln-ratio below which a difference does not matter.
    pub margin: f64,
    /// Which metrics are judged, as places in [`METRIC`], in order.
    pub judged: Vec<usize>,
}

/// The two runs of a block.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    pub a: Measured,
    pub b: Measured,
}

/// What is concluded from all metrics together.
#[derive(Clone, Debug)]
pub struct Judged {
    pub answer: Answer,
    /// The metric that the answer rests on; absent where errors decided, or nothing was measured.
    pub leading: Option<&'static str>,
    pub findings: Vec<Finding>,
    pub errors: ErrorsAnswer,
}

/// What one metric says. Effects are ln-ratios of B to A.
#[derive(Clone, Debug)]
pub struct Finding {
    pub metric: &'static Metric,
    pub answer: Answer,
    pub estimate: Estimate,
    pub interval: Interval,
    /// The level of that interval: this metric's share of the promise.
    pub level: f64,
    pub margin: f64,
    /// The logarithms of the samples. Pairs stand at the same place.
    pub a: Vec<f64>,
    pub b: Vec<f64>,
    pub paired: bool,
}

/// Whether errors became more frequent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorsAnswer {
    pub answer: Answer,
    pub requests_a: u64,
    pub failed_a: u64,
    pub requests_b: u64,
    pub failed_b: u64,
    /// Of "no increase", one-sided: Fisher's exact test.
    pub p_value: f64,
    pub level: f64,
}

/// Answers from blocks that ran A and B next to each other.
pub fn judge_blocks(pairs: &[Pair], rule: &Rule) -> Judged {
    let evidence = rule.judged.iter().filter_map(|&place| {
        let both = pairs.iter().filter_map(|pair| {
            let (a, b) = (pair.a.values[place]?, pair.b.values[place]?);
            Some((a.ln(), b.ln()))
        });
        let (a, b) = both.unzip();
        Evidence::paired(&METRIC[place], a, b)
    });
    let sum = |side: fn(&Pair) -> Errors| {
        let each = pairs.iter().map(side);
        each.fold(Errors::default(), |sum, one| Errors {
            requests: sum.requests + one.requests,
            failed: sum.failed + one.failed,
        })
    };
    let errors = (sum(|pair| pair.a.errors), sum(|pair| pair.b.errors));
    judge(evidence.collect(), errors, rule)
}

/// Answers from two runs that were not interleaved: by samples of each metric on each side, in the order of
/// [`METRIC`]. The samples must be independent, such as means over parts of a run; never single requests.
pub fn judge_unpaired(
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    errors: (Errors, Errors),
    rule: &Rule,
) -> Judged {
    let ln = |samples: &Vec<f64>| -> Vec<f64> { samples.iter().map(|x| x.ln()).collect() };
    let evidence = rule.judged.iter().filter_map(|&place| {
        Evidence::unpaired(&METRIC[place], ln(a.get(place)?), ln(b.get(place)?))
    });
    judge(evidence.collect(), errors, rule)
}

/// One metric's samples and their estimate, before it is known how sure it has to be.
struct Evidence {
    metric: &'static Metric,
    estimate: Estimate,
    a: Vec<f64>,
    b: Vec<f64>,
    paired: bool,
}

impl Evidence {
    fn paired(metric: &'static Metric, a: Vec<f64>, b: Vec<f64>) -> Option<Evidence> {
        if a.len() < SAMPLES_MIN {
            return None;
        }
        Some(Evidence {
            metric,
            estimate: Estimate::paired(&differences(&a, &b))?,
            a,
            b,
            paired: true,
        })
    }

    fn unpaired(metric: &'static Metric, a: Vec<f64>, b: Vec<f64>) -> Option<Evidence> {
        if a.len().min(b.len()) < SAMPLES_MIN {
            return None;
        }
        Some(Evidence {
            metric,
            estimate: Estimate::unpaired(&a, &b)?,
            a,
            b,
            paired: false,
        })
    }

    fn judged(self, held: Held, margin: f64) -> Finding {
        let interval = self.estimate.interval(held.level);
        let answer = match (decide(&self.estimate, &interval, margin), self.metric.worse) {
            (Decided::Within, _) => Answer::Same,
            (Decided::Unknown, _) => Answer::CannotTell,
            (Decided::More, Worse::Up) | (Decided::Less, Worse::Down) => Answer::Worse,
            (Decided::More, Worse::Down) | (Decided::Less, Worse::Up) => Answer::Better,
        };
        Finding {
            metric: self.metric,
            answer,
            estimate: self.estimate,
            interval,
            level: held.level,
            margin,
            a: self.a,
            b: self.b,
            paired: self.paired,
        }
    }
}

fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b - a).collect()
}

fn judge(evidence: Vec<Evidence>, (a, b): (Errors, Errors), rule: &Rule) -> Judged {
    let p_value = fisher_increase(a.failed, a.requests, b.failed, b.requests);
    let mut questions: Vec<(f64, f64)> = evidence
        .iter()
        .map(|one| (one.estimate.p_value(), one.metric.weight))
        .collect();
    questions.push((p_value, ERRORS_WEIGHT));
    let mut held = holm(&questions, rule.alpha);
    let held_errors = held.pop().expect("errors were asked last");
    let errors = ErrorsAnswer {
        answer: match held_errors.rejected {
            true => Answer::Worse,
            false if (a.failed, b.failed) == (0, 0) => Answer::Same,
            false => Answer::CannotTell,
        },
        requests_a: a.requests,
        failed_a: a.failed,
        requests_b: b.requests,
        failed_b: b.failed,
        p_value,
        level: held_errors.level,
    };
    let judged = evidence.into_iter().zip(held);
    let findings: Vec<Finding> = judged
        .map(|(evidence, held)| evidence.judged(held, rule.margin))
        .collect();
    let (answer, leading) = overall(&findings, &errors);
    Judged {
        answer,
        leading,
        findings,
        errors,
    }
}

/// Worse in anything is worse; else better in anything is better; else what the most trusted metric says.
fn overall(findings: &[Finding], errors: &ErrorsAnswer) -> (Answer, Option<&'static str>) {
    if errors.answer == Answer::Worse {
        return (Answer::Worse, None);
    }
    let says = |answer| findings.iter().find(|finding| finding.answer == answer);
    let leading = says(Answer::Worse).or_else(|| says(Answer::Better));
    match leading.or(findings.first()) {
        Some(finding) => (finding.answer, Some(finding.metric.name)),
        None => (Answer::CannotTell, None),
    }
}

impl Finding {
    /// The ln-ratios of the blocks; nothing where the samples are not paired.
    pub fn ratios(&self) -> Option<Vec<f64>> {
        self.paired.then(|| differences(&self.a, &self.b))
    }

    /// How exact this comparison was: what it could have found.
    pub fn design(&self) -> Design {
        Design {
            standard_error: self.estimate.standard_error,
            df: self.estimate.df,
            level: self.level,
            margin: self.margin,
        }
    }

    /// Blocks until the interval is half as wide as the margin to both sides, with noise as it was here: then only an
    /// effect about as large as the margin is left in doubt. Nothing where the samples are not blocks.
    pub fn blocks_needed(&self) -> Option<u32> {
        let deviation = deviation(&self.ratios()?)?;
        Some(blocks_for_half_width(
            0.5 * self.margin,
            deviation,
            self.level,
        ))
    }
}
