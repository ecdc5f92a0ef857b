//! How a run stands, in one line: valid or not first, then right or wrong, then fast or slow.

use maud::{Markup, html};

use super::words::{clean, count, plural};
use crate::result::{Run, Verdict};
use crate::tally::Fault;

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Valid, and within what was asked.
    Good,
    /// Not to be quoted, or not known.
    Doubtful,
    /// Valid, and not what was asked.
    Bad,
}

impl Grade {
    /// The class in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Doubtful => "doubtful",
            Grade::Bad => "bad",
        }
    }

    /// A sign, so that colour is not alone in saying it.
    pub fn sign(self) -> &'static str {
        match self {
            Grade::Good => "✓",
            Grade::Doubtful => "!",
            Grade::Bad => "✗",
        }
    }
}

/// A grade with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub grade: Grade,
    pub title: String,
    /// What it rests on, in sentences.
    pub why: Vec<String>,
}

/// Judges a run by what it says of itself.
pub fn of(run: &Run) -> Standing {
    if run.meta.partial || run.validity.verdict == Verdict::Interrupted {
        return Standing {
            grade: Grade::Doubtful,
            title: "Interrupted: a partial result".to_owned(),
            why: vec![
                "It was stopped before its end. What was measured until then is shown.".into(),
            ],
        };
    }
    if run.validity.verdict != Verdict::Valid {
        return Standing {
            grade: Grade::Doubtful,
            title: format!("Not valid: {}", run.validity.verdict.as_str()),
            why: not_valid(run),
        };
    }
    if run.validity.criteria.is_empty() {
        return Standing {
            grade: Grade::Doubtful,
            title: "Validity was not judged".to_owned(),
            why: vec![
                "The run says nothing of how it was measured, so its numbers stand alone.".into(),
            ],
        };
    }
    let wrong = wrong(run);
    if !wrong.is_empty() {
        return Standing {
            grade: Grade::Bad,
            title: "Valid, and the answers were wrong".to_owned(),
            why: wrong,
        };
    }
    by_thresholds(run)
}

fn not_valid(run: &Run) -> Vec<String> {
    let mut why = vec!["Do not quote these numbers.".to_owned()];
    let failed = run.validity.criteria.iter().filter(|c| !c.holds);
    why.extend(failed.map(|criterion| clean(&criterion.evidence)));
    why
}

/// What no speed makes good: wrong bytes, and requests executed twice.
fn wrong(run: &Run) -> Vec<String> {
    let mut why = Vec::new();
    let integrity = run.total.errors.get(Fault::Integrity.as_str()).copied();
    if let Some(n) = integrity.filter(|n| *n > 0) {
        why.push(format!(
            "{} answers were not byte for byte what was sent.",
            count(n)
        ));
    }
    let twice = run.origin.as_ref().map_or(0, |origin| origin.duplicates);
    if twice > 0 {
        why.push(format!(
            "{} requests reached the origin more than once.",
            count(twice)
        ));
    }
    why
}

fn by_thresholds(run: &Run) -> Standing {
    let total = run.thresholds.len();
    let breached: Vec<String> = run
        .thresholds
        .iter()
        .filter(|t| !t.ok)
        .map(|t| clean(&format!("{} {}", t.metric, t.expression)))
        .collect();
    match (total, breached.len()) {
        (0, _) => Standing {
            grade: Grade::Good,
            title: "Valid; no thresholds were set".to_owned(),
            why: Vec::new(),
        },
        (_, 0) => Standing {
            grade: Grade::Good,
            title: format!("Valid, and within {}", plural(total, "threshold")),
            why: Vec::new(),
        },
        (_, n) => Standing {
            grade: Grade::Bad,
            title: format!("Valid; {n} of {} breached", plural(total, "threshold")),
            why: vec![format!("Breached: {}.", breached.join("; "))],
        },
    }
}

/// The banner at the top of a run.
pub fn banner(run: &Run) -> Markup {
    let standing = of(run);
    let criteria = &run.validity.criteria;
    html! {
        div class=(format!("banner {}", standing.grade.class())) role="status" {
            p.verdict { span.sign aria-hidden="true" { (standing.grade.sign()) } " " (standing.title) }
            @for sentence in &standing.why { p { (sentence) } }
        }
        @if !criteria.is_empty() {
            details.criteria {
                summary { "Validity was judged by " (plural(criteria.len(), "criterion").replace("criterions", "criteria")) }
                ul {
                    @for criterion in criteria {
                        li {
                            @if criterion.holds { span.yes { "✓ " } } @else { span.no { "✗ " } }
                            span.code { (criterion.verdict.as_str()) } ": " (clean(&criterion.evidence))
                        }
                    }
                }
            }
        }
        @for warning in &run.warnings {
            p.warning { span.sign aria-hidden="true" { "!" } " " (clean(warning)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Criterion, OriginCounts, ThresholdResult};

    fn judged() -> Run {
        let mut run = Run::default();
        run.validity.criteria.push(Criterion {
            verdict: Verdict::NoisyHost,
            holds: true,
            evidence: "steal 0.1 % (at most 2 %)".into(),
        });
        run
    }

    #[test]
    fn validity_comes_before_thresholds_and_correctness_between() {
        let mut run = judged();
        assert_eq!(of(&run).title, "Valid; no thresholds were set");
        run.thresholds.push(ThresholdResult {
            metric: "response".into(),
            expression: "p(99)<100".into(),
            ..ThresholdResult::default()
        });
        assert_eq!(of(&run).title, "Valid; 1 of 1 threshold breached");
        run.origin = Some(OriginCounts {
            duplicates: 2,
            ..OriginCounts::default()
        });
        assert_eq!(of(&run).title, "Valid, and the answers were wrong");
        run.validity.verdict = Verdict::GeneratorBound;
        assert_eq!(of(&run).title, "Not valid: generator-bound");
        run.meta.partial = true;
        assert_eq!(of(&run).grade, Grade::Doubtful);
        assert_eq!(of(&run).title, "Interrupted: a partial result");
    }

    #[test]
    fn a_run_that_was_not_judged_is_not_good() {
        assert_eq!(of(&Run::default()).grade, Grade::Doubtful);
    }
}
