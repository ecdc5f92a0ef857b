//! The numbers in full: by stage, by metric, by kind of request, by class of error, and the wrong answers.

use maud::{Markup, html};

use super::words::{NONE, bytes, clean, count, micros, number, seconds, share};
use crate::result::{FlowResult, Quantiles, Run, StepResult, SubjectResult, Summary};
use crate::tally::Metric;

/// Most wrong answers that are shown.
const NOTES_SHOWN_MAX: usize = 50;

/// What stands over the column of Little's law.
const LITTLE: &str = "connections divided by the rate: the mean that a closed load must have";

/// What each class of failure means, in the order of `tally::Fault`.
const FAULTS: &[(&str, &str)] = &[
    ("dns", "the name did not resolve"),
    ("connect-refused", "nobody listens there"),
    ("connect-timeout", "the connection was not made in time"),
    ("ephemeral-ports", "no local port was free"),
    ("descriptors", "no file descriptor was free"),
    ("tls", "the TLS handshake failed"),
    ("reset", "the connection was reset"),
    ("closed-early", "the connection ended before the answer did"),
    ("timeout", "no whole answer within the timeout"),
    ("protocol", "what came is not the protocol"),
    ("http-429", "too many requests"),
    ("http-4xx", "another 4xx that was not expected"),
    ("http-5xx", "a 5xx that was not expected"),
    ("http-status", "another status that was not expected"),
    ("check", "something expected in the answer is not there"),
    ("integrity", "the answer is not byte for byte what was sent"),
    ("jsonrpc-error", "a JSON-RPC error"),
    ("tool-error", "a tool's result says isError"),
    ("stream", "an error event, or no end, in a stream"),
    ("unfinished", "the run ended first"),
];

/// A table that scrolls by itself where the page is narrow.
fn table(head: Markup, body: Markup) -> Markup {
    html! { div.scroll { table { thead { (head) } tbody { (body) } } } }
}

/// By stage: counts and latency.
pub fn steps(run: &Run) -> Markup {
    html! { @for flow in &run.flows {
        @if run.flows.len() > 1 { h4 { (clean(&flow.name)) } }
        p.quiet { (about(flow)) }
        @if flow.steps.is_empty() { p.none { "No stage was recorded." } } @else {
            (table(steps_head(flow), html! { @for step in &flow.steps { (step_row(flow, step)) } }))
        }
    } }
}

fn about(flow: &FlowResult) -> String {
    let targets: Vec<String> = flow.targets.iter().map(|url| clean(url)).collect();
    format!(
        "{} to {}; {} load, {} connections, {} generator threads",
        clean(&flow.protocol),
        targets.join(", "),
        clean(&flow.model),
        count(flow.connections as u64),
        flow.threads
    )
}

/// An open load can drop requests; a closed one cannot, and has Little's law instead.
fn steps_head(flow: &FlowResult) -> Markup {
    let closed = flow.model == "closed";
    let level = if closed { "connections" } else { "arrivals/s" };
    html! {
        tr.group {
            th colspan="3" { "stage" } th.n colspan=(if closed { "3" } else { "4" }) { "requests" }
            th.n colspan="5" { "response" } th.n colspan="2" { "service" } th.n { "lag" }
            @if closed { th.n { "Little" } }
        }
        tr {
            th { "name" } th.n { (level) } th.n { "for" }
            th.n { "answered" } th.n { "per s" } th.n { "failed" }
            @if !closed { th.n { "dropped" } }
            th.n { "p50" } th.n { "p90" } th.n { "p99" } th.n { "p99.9" } th.n { "max" }
            th.n { "p50" } th.n { "p99" } th.n { "p99" }
            @if closed { th.n title=(LITTLE) { "N/X" } }
        }
    }
}

fn step_row(flow: &FlowResult, step: &StepResult) -> Markup {
    let found = &step.summary;
    let closed = flow.model == "closed";
    let level = if step.from == step.to {
        level(step.to)
    } else {
        format!("{} → {}", level(step.from), level(step.to))
    };
    let of = |metric: &str| found.latency.get(metric);
    let at = |metric: &str, pick: fn(&Quantiles) -> Option<f64>| {
        of(metric).and_then(pick).map_or(NONE.to_owned(), micros)
    };
    let little =
        (step.from == step.to && found.rate > 0.0).then(|| micros(step.to / found.rate * 1e6));
    html! {
        tr class=(if step.kind == "warm-up" { "warm" } else { "" }) {
            th scope="row" { (clean(&step.name)) " " span.tag { (clean(&step.kind)) } }
            td.n { (level) } td.n { (seconds(found.seconds)) }
            td.n { (count(found.requests)) } td.n { (number(found.rate)) }
            td.n { (failures(found)) }
            @if !closed { td.n { (count(found.dropped)) } }
            td.n { (at("response", |q| Some(q.p50))) } td.n { (at("response", |q| Some(q.p90))) }
            td.n { (at("response", |q| Some(q.p99))) } td.n { (at("response", |q| q.p999)) }
            td.n { (at("response", |q| Some(q.max))) }
            td.n { (at("service", |q| Some(q.p50))) } td.n { (at("service", |q| Some(q.p99))) }
            td.n { (at("lag", |q| Some(q.p99))) }
            @if closed { td.n { (little.unwrap_or(NONE.to_owned())) } }
        }
    }
}

/// Connections are whole, and arrivals mostly are.
fn level(level: f64) -> String {
    if level.fract() == 0.0 && level >= 0.0 {
        count(level as u64)
    } else {
        number(level)
    }
}

fn failures(found: &Summary) -> Markup {
    html! {
        (count(found.failed))
        @if found.failed > 0 { br; span.quiet { (share(found.failed_share)) } }
    }
}

/// Every distribution of every flow, over what is measured.
pub fn latencies(run: &Run) -> Markup {
    let rows = || run.flows.iter().filter(|f| !f.measured.latency.is_empty());
    if rows().next().is_none() {
        return html! { p.none { "No request was answered in what is measured." } };
    }
    let head = html! { tr {
        th { "metric" } th.n { "n" } th.n { "mean" } th.n { "min" } th.n { "p50" } th.n { "p75" } th.n { "p90" }
        th.n { "p95" } th.n { "p99" } th.n { "p99.9" } th.n { "p99.99" } th.n { "max" }
    } };
    let body = html! { @for flow in rows() {
        @if run.flows.len() > 1 {
            tr.group { th colspan="12" scope="rowgroup" { (clean(&flow.name)) } }
        }
        (distributions(&flow.measured))
        @if flow.kinds.len() > 1 { @for kind in &flow.kinds {
            tr.group { th colspan="12" scope="rowgroup" { (clean(&flow.name)) " / " (clean(&kind.name)) } }
            (distributions(&kind.summary))
        } }
    } };
    table(head, body)
}

fn distributions(found: &Summary) -> Markup {
    html! {
        @for metric in Metric::ALL {
            @if let Some(quantiles) = found.latency.get(metric.as_str()) {
                (distribution(&metric.as_str().replace('_', " "), quantiles, micros))
            }
        }
        @if let Some(quantiles) = &found.tokens_per_second {
            (distribution("tokens a second", quantiles, number))
        }
    }
}

fn distribution(name: &str, found: &Quantiles, show: fn(f64) -> String) -> Markup {
    let rare = |value: Option<f64>| value.map_or(NONE.to_owned(), show);
    html! { tr {
        th scope="row" { (clean(name)) }
        td.n { (count(found.count)) } td.n { (show(found.mean)) } td.n { (show(found.min)) }
        td.n { (show(found.p50)) } td.n { (show(found.p75)) } td.n { (show(found.p90)) }
        td.n { (show(found.p95)) } td.n { (show(found.p99)) } td.n { (rare(found.p999)) }
        td.n { (rare(found.p9999)) } td.n { (show(found.max)) }
    } }
}

/// What was watched, by stage: CPU and memory.
pub fn watched(run: &Run) -> Markup {
    let subjects: Vec<&SubjectResult> = run
        .watched
        .subjects
        .iter()
        .filter(|s| !s.steps.is_empty())
        .collect();
    if subjects.is_empty() {
        return html! { p.none { "Nothing was watched." } };
    }
    let head = html! { tr {
        th { "what" } th { "stage" } th.n { "cores" } th.n { "CPU for a request" } th.n { "RSS, most" }
        th.n { "RSS, at the end" } th.n { "requests" }
    } };
    let memory = |rss: Option<u64>| rss.map_or(NONE.to_owned(), bytes);
    let body = html! { @for subject in subjects { @for (i, step) in subject.steps.iter().enumerate() {
        tr {
            @if i == 0 {
                th scope="rowgroup" rowspan=(subject.steps.len()) {
                    (clean(&subject.name)) " " span.tag { (clean(&subject.kind)) }
                }
            }
            td { @if step.step.is_empty() { strong { "measured" } } @else { (clean(&step.step)) } }
            td.n { (number(step.cores)) }
            td.n { (step.cpu_us_per_request.map_or(NONE.to_owned(), micros)) }
            td.n { (memory(step.rss_bytes_max)) } td.n { (memory(step.rss_bytes_end)) }
            td.n { (count(step.requests)) }
        }
    } } };
    table(head, body)
}

/// Failures by class over the whole run, and statuses.
pub fn errors(run: &Run) -> Markup {
    let found = &run.total;
    let ended = (found.good + found.failed).max(1) as f64;
    let means = |class: &str| FAULTS.iter().find(|(name, _)| *name == class);
    html! {
        @if found.errors.is_empty() {
            p.none { "No request failed over the whole run." }
        } @else {
            (table(
                html! { tr { th { "class" } th { "what it means" } th.n { "requests" } th.n { "share" } } },
                html! { @for (class, n) in &found.errors { tr {
                    th scope="row" { span.code { (clean(class)) } }
                    td { (means(class).map_or("", |(_, words)| *words)) }
                    td.n { (count(*n)) } td.n { (share(*n as f64 / ended)) }
                } } },
            ))
        }
        p.quiet {
            @if found.dropped > 0 { (count(found.dropped)) " more were due and never sent. " }
            @if found.queued > 0 { (count(found.queued)) " were sent late, since no connection was free. " }
            @if !found.statuses.is_empty() {
                "Statuses: "
                @for (i, (status, n)) in found.statuses.iter().enumerate() {
                    @if i > 0 { ", " } (clean(status)) " × " (count(*n))
                }
                ". "
            }
            @if let Some(origin) = &run.origin {
                "The origin counted " (count(origin.distinct)) " distinct requests and "
                (count(origin.duplicates)) " duplicates."
            }
        }
    }
}

/// The answers that were wrong, as far as they were kept.
pub fn notes(run: &Run) -> Markup {
    let head = html! { tr {
        th { "flow" } th.n { "request" } th.n { "at" } th { "class" } th { "what was wrong" } th.n { "byte" }
        th { "expected / received" }
    } };
    let body = html! { @for note in run.notes.iter().take(NOTES_SHOWN_MAX) { tr {
        th scope="row" { (clean(&note.flow)) }
        td.n { (count(note.number)) } td.n { (seconds(note.t_s)) }
        td { span.code { (clean(&note.fault)) } } td { (clean(&note.what)) }
        td.n { (note.offset.map_or(NONE.to_owned(), count)) }
        td { (hex(note.expected_hex.as_deref())) br; (hex(note.received_hex.as_deref())) }
    } } };
    html! {
        (table(head, body))
        @if run.notes.len() > NOTES_SHOWN_MAX {
            p.quiet { (count((run.notes.len() - NOTES_SHOWN_MAX) as u64)) " more are in run.json." }
        }
    }
}

fn hex(text: Option<&str>) -> Markup {
    html! { @match text { Some(text) => span.code.hex { (clean(text)) }, None => span.quiet { (NONE) } } }
}

#[cfg(test)]
mod tests {
    use super::FAULTS;
    use crate::tally::Fault;

    #[test]
    fn every_class_of_failure_is_explained() {
        let named: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
        let all: Vec<&str> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
        assert_eq!(named, all);
    }
}
