//! The headline: five numbers, each with what it rests on.
//!
//! Quantiles of a ramp are never a headline, so a run that held no level has none.

use maud::{Markup, html};

use super::words::{NONE, count, micros, number, plural, seconds, share};
use crate::result::{Run, Summary};

/// One number.
struct Tile {
    name: &'static str,
    value: String,
    rests_on: String,
}

/// Whether a level was held anywhere that counts.
pub fn held(run: &Run) -> bool {
    let steps = || run.flows.iter().flat_map(|flow| &flow.steps);
    steps().next().is_none() || steps().any(|step| step.kind == "hold")
}

pub fn tiles(run: &Run) -> Markup {
    let tiles = [
        rate(run),
        response(run, Rank::Median),
        response(run, Rank::P99),
        errors(&run.measured),
        cpu(run),
    ];
    html! {
        div.tiles { @for tile in &tiles {
            div.tile {
                div.name { (tile.name) }
                div.value { (tile.value) }
                div.rests { (tile.rests_on) }
            }
        } }
    }
}

fn rate(run: &Run) -> Tile {
    let found = &run.measured;
    let planned = found
        .rate_planned
        .map(|rate| format!("{}/s planned; ", number(rate)));
    Tile {
        name: "Throughput",
        value: format!("{}/s", number(found.rate)),
        rests_on: format!(
            "{}{} answered in {}",
            planned.unwrap_or_default(),
            count(found.requests),
            seconds(found.seconds)
        ),
    }
}

/// Which of the responses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Median,
    P99,
}

fn response(run: &Run, rank: Rank) -> Tile {
    let name = match rank {
        Rank::Median => "Response, p50",
        Rank::P99 => "Response, p99",
    };
    let none = |why: &str| Tile {
        name,
        value: NONE.to_owned(),
        rests_on: why.to_owned(),
    };
    if !held(run) {
        return none("no level was held; quantiles of a ramp are no headline");
    }
    let Some(found) = run.measured.latency.get("response") else {
        return none("nothing was answered well");
    };
    let (value, rests_on) = match (rank, found.p999) {
        (Rank::Median, _) => (
            found.p50,
            format!("of {} answered well", count(found.count)),
        ),
        (Rank::P99, Some(p999)) => {
            let text = format!("p99.9 {}, slowest {}", micros(p999), micros(found.max));
            (found.p99, text)
        }
        (Rank::P99, None) => (found.p99, format!("slowest {}", micros(found.max))),
    };
    Tile {
        name,
        value: micros(value),
        rests_on,
    }
}

/// With no failure in n, the true share is under 3/n in 95 of 100 cases (the rule of three).
fn errors(found: &Summary) -> Tile {
    let ended = found.good + found.failed;
    let (value, rests_on) = match (ended, found.failed) {
        (0, _) => (NONE.to_owned(), "no request ended".to_owned()),
        (n, 0) => {
            let bound = share((3.0 / n as f64).min(1.0));
            let text = format!(
                "none in {}: at most {bound} with 95 % confidence (3/n)",
                count(n)
            );
            ("0".to_owned(), text)
        }
        (n, failed) => (
            share(found.failed_share),
            format!("{} of {} failed", count(failed), count(n)),
        ),
    };
    let dropped = match found.dropped {
        0 => String::new(),
        n => format!("; {} dropped, never sent", count(n)),
    };
    Tile {
        name: "Errors",
        value,
        rests_on: rests_on + &dropped,
    }
}

fn cpu(run: &Run) -> Tile {
    let found = &run.measured;
    let own = found
        .generator_cpu_us
        .map(|us| format!("; the generator's own: {}", micros(us)));
    let watched = run.watched.subjects.iter();
    let n = watched
        .filter(|subject| subject.kind != "generator")
        .count();
    let (value, text) = match found.watched_cpu_us {
        Some(us) => (
            micros(us),
            format!(
                "of {} watched",
                plural(n, "process").replace("processs", "processes")
            ),
        ),
        None => (NONE.to_owned(), "the target was not watched".to_owned()),
    };
    Tile {
        name: "CPU for a request",
        value,
        rests_on: text + &own.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowResult, StepResult};

    #[test]
    fn no_error_in_n_has_a_bound() {
        let found = Summary {
            good: 3000,
            ..Summary::default()
        };
        assert_eq!(
            errors(&found).rests_on,
            "none in 3,000: at most 0.100 % with 95 % confidence (3/n)"
        );
        assert_eq!(errors(&Summary::default()).value, NONE);
    }

    #[test]
    fn a_ramp_is_no_headline() {
        let step = |kind: &str| StepResult {
            kind: kind.into(),
            ..StepResult::default()
        };
        let mut run = Run::default();
        assert!(held(&run));
        run.flows.push(FlowResult {
            steps: vec![step("warm-up"), step("ramp")],
            ..FlowResult::default()
        });
        assert!(!held(&run));
        assert!(response(&run, Rank::P99).rests_on.contains("ramp"));
        run.flows[0].steps.push(step("hold"));
        assert!(held(&run));
    }
}
