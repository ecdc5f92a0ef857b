//! The page of a comparison: the answer first, then each change with its interval, then the blocks that it rests on.
//!
//! It says what `compare.json` says and draws no conclusion of its own.

use maud::{Markup, html};

use super::page::{document, picture};
use super::plots::effects;
use super::standing::Grade;
use super::words::{NONE, clean, count, plural};
use crate::experiments::compare::answer::{Answer, ErrorsAnswer};
use crate::experiments::compare::comparison::{BlockResult, Comparison, MetricAnswer};
use crate::experiments::compare::metrics::METRIC;
use crate::experiments::compare::table;

/// Most comparisons in one page.
pub const COMPARISONS_MAX: usize = 64;
/// Most blocks in one table.
const BLOCKS_SHOWN_MAX: usize = 400;

/// The page of comparisons.
pub fn page(comparisons: &[Comparison]) -> Markup {
    let title = match comparisons {
        [one] => format!("{} against {}", clean(&one.b), clean(&one.a)),
        many => plural(many.len(), "comparison"),
    };
    let shown = &comparisons[..comparisons.len().min(COMPARISONS_MAX)];
    let body = html! {
        @if shown.len() < comparisons.len() {
            p.warning { "The first " (COMPARISONS_MAX) " of " (count(comparisons.len() as u64)) " comparisons are shown." }
        }
        @if let [one] = shown { (section(one)) }
        @else {
            @for one in shown { article {
                h2.run { (clean(&one.b)) " against " (clean(&one.a)) }
                (section(one))
            } }
        }
    };
    document("comparison", &title, &html! {}, &body)
}

/// One comparison, in the order in which it should be read.
fn section(comparison: &Comparison) -> Markup {
    html! {
        (banner(comparison))
        section { h3 { "What was compared" } dl {
            div { dt { "A" } dd.code { (clean(&comparison.a)) } }
            div { dt { "B" } dd.code { (clean(&comparison.b)) } }
        } }
        section.plot { h3 { (effects::QUESTION) } (picture(&effects::draw(comparison))) }
        section { h3 { "Each metric" } (metrics(comparison)) }
        @if !comparison.blocks.is_empty() {
            section { h3 { "The blocks" } (blocks(comparison)) }
        }
        section { h3 { "Conditions" } pre { (clean_lines(&table::conditions(comparison))) } }
    }
}

fn banner(comparison: &Comparison) -> Markup {
    let grade = grade(comparison);
    html! {
        div class=(format!("banner {}", grade.class())) role="status" {
            p.verdict {
                span.sign aria-hidden="true" { (grade.sign()) } " " (clean(&table::headline(comparison)))
            }
            @for note in &comparison.notes { p { (clean(note)) } }
        }
    }
}

fn grade(comparison: &Comparison) -> Grade {
    match comparison.answer {
        _ if comparison.partial => Grade::Doubtful,
        Answer::Better | Answer::Same => Grade::Good,
        Answer::Worse => Grade::Bad,
        Answer::CannotTell => Grade::Doubtful,
    }
}

fn metrics(comparison: &Comparison) -> Markup {
    html! { div.scroll { table {
        thead { tr {
            th { "metric" } th { "answer" } th.n { "A" } th.n { "B" } th.n { "change" } th.n { "interval" }
            th.n { "p" } th.n { "least change found" } th.n { "samples" }
        } }
        tbody {
            @for metric in &comparison.metrics { (metric_row(metric)) }
            @if let Some(errors) = &comparison.errors { (errors_row(errors)) }
        }
    } } }
}

fn metric_row(metric: &MetricAnswer) -> Markup {
    let row = table::row(metric);
    let title = row.map_or(metric.name.as_str(), |row| row.title);
    let value = |value: f64| row.map_or(NONE.to_owned(), |row| table::quantity(value, row.unit));
    html! { tr {
        th scope="row" { (clean(title)) }
        td { (answer(metric.answer)) }
        td.n { (value(metric.a)) } td.n { (value(metric.b)) }
        td.n { (table::signed(metric.change)) }
        @if let Some(sure) = &metric.sure {
            td.n { (table::interval(sure)) }
            td.n { (p_value(sure.p_value)) }
            td.n { (table::least(sure.detectable_change)) }
            td.n { (sure.samples_a.min(sure.samples_b)) }
        } @else {
            td.n { "none possible" } td.n { (NONE) } td.n { (NONE) } td.n { "1" }
        }
    } }
}

fn errors_row(errors: &ErrorsAnswer) -> Markup {
    let side = |failed: u64, of: u64| format!("{} of {}", count(failed), count(of));
    html! { tr {
        th scope="row" { "errors" }
        td { (answer(errors.answer)) }
        td.n { (side(errors.failed_a, errors.requests_a)) } td.n { (side(errors.failed_b, errors.requests_b)) }
        td.n { (NONE) } td.n { (NONE) } td.n { (p_value(errors.p_value)) } td.n { (NONE) } td.n { (NONE) }
    } }
}

fn answer(answer: Answer) -> Markup {
    html! {
        @match answer {
            Answer::Worse => span.no { "✗ worse" },
            Answer::Better => span.yes { "✓ better" },
            Answer::Same => span.yes { "✓ same" },
            Answer::CannotTell => span.doubtful { "? cannot tell" },
        }
    }
}

fn p_value(p: f64) -> String {
    match p {
        p if !p.is_finite() => NONE.to_owned(),
        p if p < 0.0001 => "< 0.0001".to_owned(),
        p => format!("{p:.4}"),
    }
}

/// Each block with what it gave for the first metric that it has.
fn blocks(comparison: &Comparison) -> Markup {
    let shown = &comparison.blocks[..comparison.blocks.len().min(BLOCKS_SHOWN_MAX)];
    html! {
        @if shown.len() < comparison.blocks.len() {
            p.warning { "The first " (BLOCKS_SHOWN_MAX) " of " (comparison.blocks.len()) " blocks are shown." }
        }
        div.scroll { table {
            thead { tr {
                th.n { "block" } th { "runs" } th { "metric" } th.n { "A" } th.n { "B" } th.n { "change" } th { "used" }
            } }
            tbody { @for block in shown { (block_row(block)) } }
        } }
    }
}

fn block_row(block: &BlockResult) -> Markup {
    let runs = match block.control {
        true => "A and A, a control".to_owned(),
        false => block.order.clone(),
    };
    let first = METRIC.iter().find_map(|metric| {
        let mut values = block.values.iter();
        Some((metric, values.find(|value| value.name == metric.name)?))
    });
    html! { tr {
        th.n scope="row" { (block.number + 1) }
        td { (clean(&runs)) }
        @if let Some((metric, value)) = first {
            td { (metric.title) }
            td.n { (table::quantity(value.a, metric.unit)) } td.n { (table::quantity(value.b, metric.unit)) }
            td.n { (table::signed(value.b / value.a - 1.0)) }
        } @else {
            td { (NONE) } td.n { (NONE) } td.n { (NONE) } td.n { (NONE) }
        }
        td {
            @if let Some(why) = &block.dropped { span.no { "dropped: " } (clean(why)) }
            @else { span.yes { "yes" } }
        }
    } }
}

/// Lines of the lab's own, without what a terminal or a page would act on.
fn clean_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(clean).collect();
    lines.join("\n")
}
