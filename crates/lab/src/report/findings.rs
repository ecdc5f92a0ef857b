//! The table of findings: what was asked, what was found, and whether that is enough.

use maud::{Markup, html};

use super::words::{NONE, clean, number};
use crate::result::{Run, ThresholdResult};

/// One row for each threshold; nothing where none was set.
pub fn table(run: &Run) -> Markup {
    html! {
        @if run.thresholds.is_empty() {
            p.none { "No thresholds were set, so nothing was asked of this run." }
        } @else {
            div.scroll { table {
                thead { tr {
                    th { "metric" } th { "target" } th.n { "result" } th { "status" } th { "over" }
                } }
                tbody { @for threshold in &run.thresholds { (row(threshold)) } }
            } }
        }
    }
}

fn row(threshold: &ThresholdResult) -> Markup {
    let found = threshold.found.map_or(NONE.to_owned(), number);
    html! {
        tr {
            th scope="row" { span.code { (clean(&threshold.metric)) } }
            td { span.code { (clean(&threshold.expression)) } }
            td.n { (found) }
            td {
                @if threshold.ok { span.yes { "✓ met" } }
                @else if threshold.found.is_none() { span.no { "✗ nothing to judge" } }
                @else { span.no { "✗ breached" } }
            }
            td.quiet { (clean(&threshold.window)) }
        }
    }
}
