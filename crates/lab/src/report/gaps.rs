//! What a run represents, and what it did not measure.
//!
//! A reader takes a number for more than it is unless told. What the author excluded stands first; the rest is read
//! off the run itself.

use maud::{Markup, html};

use super::tiles::held;
use super::words::clean;
use crate::result::Run;

pub fn section(run: &Run) -> Markup {
    let gaps = gaps(run);
    html! {
        @if !run.meta.description.is_empty() { p { (clean(&run.meta.description)) } }
        @if !run.meta.represents.is_empty() {
            p { strong { "It represents: " } (clean(&run.meta.represents)) }
        }
        @if !gaps.is_empty() {
            p { strong { "It did not measure:" } }
            ul.gaps { @for gap in &gaps { li { (gap) } } }
        }
    }
}

/// What was not measured, in sentences.
fn gaps(run: &Run) -> Vec<String> {
    let mut gaps: Vec<String> = run.meta.excludes.iter().map(|text| clean(text)).collect();
    let mut say = |when: bool, what: &str| {
        if when {
            gaps.push(what.to_owned());
        }
    };
    let watched = run.watched.subjects.iter();
    say(!held(run), "A steady state: no level was held, only ramps.");
    say(
        !watched
            .clone()
            .any(|s| s.kind == "process" || s.kind == "cgroup"),
        "CPU and memory of the target: no process of it was watched.",
    );
    say(
        on_one_machine(run),
        "A network: generator and target ran on one machine, and shared its cores.",
    );
    say(
        run.flows.iter().any(|flow| flow.model == "closed"),
        "Overload from outside: with a closed load a slow answer delays the next request, so no more is ever \
         asked than the connections allow.",
    );
    say(
        run.meta.ceilings.is_none(),
        "This machine's ceilings: weir lab calibrate was not run here.",
    );
    let response = run.measured.latency.get("response");
    say(
        response.is_some_and(|found| found.p999.is_none()),
        "p99.9 and rarer: fewer than 10,000 requests were answered well.",
    );
    say(
        run.origin.is_none(),
        "Requests executed twice: only the built-in origin counts them, and it was not asked.",
    );
    say(
        true,
        "How much the numbers vary between runs: this is one run. weir lab compare repeats and says.",
    );
    gaps
}

fn on_one_machine(run: &Run) -> bool {
    let mut targets = run.flows.iter().flat_map(|flow| &flow.targets).peekable();
    targets.peek().is_some() && targets.all(|url| is_loopback(url))
}

fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|start| authority.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_names_that_contain_it() {
        assert!(is_loopback("http://127.0.0.1:8080/x"));
        assert!(is_loopback("https://[::1]/"));
        assert!(is_loopback("http://localhost:1"));
        assert!(!is_loopback("http://example.com/127.0.0.1"));
        assert!(!is_loopback("http://10.0.0.1/?localhost"));
    }

    #[test]
    fn what_the_author_excluded_stands_first() {
        let mut run = Run::default();
        run.meta.excludes.push("the LLM hop".into());
        let gaps = gaps(&run);
        assert_eq!(gaps[0], "the LLM hop");
        assert!(gaps.iter().any(|gap| gap.contains("no process")));
    }
}
