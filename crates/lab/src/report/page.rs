//! The page itself: its head, the order of its sections, and the overview where there are several runs.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plots::{Figure, PLOTS, cells};
use super::words::{NONE, clean, count, micros, number, plural, seconds};
use super::{RUNS_MAX, findings, gaps, setting, standing, tables, tiles};
use crate::result::Run;

/// Colours, light and dark, and the layout; the only style there is.
pub(super) const STYLE: &str = include_str!("style.css");
/// Nothing may be fetched or run; the style is in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub fn page(runs: &[(&str, &Run)]) -> Markup {
    let title = match runs {
        [(name, _)] => clean(name),
        runs => format!("{} compared", plural(runs.len(), "run")),
    };
    let body = match runs {
        [] => html! { p.none { "There is no run to show." } },
        [(_, run)] => one(run, "run1"),
        runs => several(runs),
    };
    document("load report", &title, &when(runs), &body)
}

/// A whole page: what kind of report it is, its title, a line below that, and the rest.
pub fn document(kind: &str, title: &str, below: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="weir lab report";
                title { (title) " – weir lab" }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                header { p.brand { "weir lab · " (kind) } h1 { (title) } (below) }
                (body)
            } }
        }
    }
}

fn when(runs: &[(&str, &Run)]) -> Markup {
    let [(_, run)] = runs else {
        return html! {};
    };
    html! { p.quiet {
        (clean(&run.meta.started)) " · " (seconds(run.meta.seconds)) " · "
        (clean(&run.meta.machine.cpu)) " · weir lab " (clean(&run.meta.version))
    } }
}

/// A table of all runs, a plot of all, then each by itself.
fn several(runs: &[(&str, &Run)]) -> Markup {
    let shown = &runs[..runs.len().min(RUNS_MAX)];
    html! {
        @if shown.len() < runs.len() {
            p.warning { "The first " (RUNS_MAX) " of " (count(runs.len() as u64)) " runs are shown." }
        }
        section {
            h2 { (cells::QUESTION) }
            (overview(shown))
            @for figure in cells::draw(shown) { (picture(&figure)) }
        }
        @for (i, (name, run)) in shown.iter().enumerate() {
            @let anchor = format!("run{}", i + 1);
            article id=(anchor) {
                h2.run { (clean(name)) }
                (one(run, &anchor))
            }
        }
    }
}

fn overview(runs: &[(&str, &Run)]) -> Markup {
    html! { div.scroll { table {
        thead { tr {
            th { "run" } th { "verdict" } th.n { "answered/s" } th.n { "p50" } th.n { "p99" } th.n { "failed" }
            th.n { "CPU for a request" }
        } }
        tbody { @for (i, (name, run)) in runs.iter().enumerate() {
            @let standing = standing::of(run);
            @let found = &run.measured;
            @let at = |pick: fn(&crate::result::Quantiles) -> f64| {
                found.latency.get("response").map_or(NONE.to_owned(), |q| micros(pick(q)))
            };
            tr {
                th scope="row" { a href=(format!("#run{}", i + 1)) { (clean(name)) } }
                td { span class=(standing.grade.class()) { (standing.grade.sign()) " " (standing.title) } }
                td.n { (number(found.rate)) } td.n { (at(|q| q.p50)) } td.n { (at(|q| q.p99)) }
                td.n { (count(found.failed)) }
                td.n { (found.watched_cpu_us.map_or(NONE.to_owned(), micros)) }
            }
        } }
    } } }
}

/// One run, in the order in which it should be read.
fn one(run: &Run, anchor: &str) -> Markup {
    html! {
        (standing::banner(run))
        section { h3 { "What this is" } (gaps::section(run)) }
        section { h3 { "Findings" } (findings::table(run)) }
        section { h3 { "Headline" } (tiles::tiles(run)) }
        @for plot in PLOTS {
            section.plot id=(format!("{anchor}-{}", plot.name)) {
                h3 { (plot.question) }
                @for figure in (plot.draw)(run) { (picture(&figure)) }
            }
        }
        section { h3 { "By stage" } (tables::steps(run)) }
        section { h3 { "Latency in full" } (tables::latencies(run)) }
        section { h3 { "CPU and memory by stage" } (tables::watched(run)) }
        section { h3 { "Errors by class" } (tables::errors(run)) }
        @if !run.notes.is_empty() { section { h3 { "Wrong answers" } (tables::notes(run)) } }
        div.columns {
            section { h3 { "Machine and versions" } (setting::machine(run)) }
            section { h3 { "Ceilings of this machine" } (setting::ceilings(run)) }
        }
        section { h3 { "Reproduce it" } (setting::reproduce(run)) }
    }
}

/// A plot with its words; words alone where there is nothing to draw.
pub fn picture(figure: &Figure) -> Markup {
    html! {
        @if figure.svg.is_empty() {
            p.none { (clean(&figure.caption)) }
        } @else {
            figure {
                @if !figure.title.is_empty() { h4 { (clean(&figure.title)) } }
                div.scroll { (PreEscaped(&figure.svg)) }
                figcaption { (clean(&figure.caption)) }
            }
        }
    }
}
