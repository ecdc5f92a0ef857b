//! A sheet as one page of HTML, with everything in it.

use maud::{Markup, html};

use super::{Grid, Sheet, SheetBlock};
use crate::report::page::{document, picture};
use crate::report::words::clean;

/// Most rows of one table; the CSV file has all.
const ROWS_SHOWN_MAX: usize = 500;

/// The page.
pub fn page(sheet: &Sheet) -> String {
    let below = html! { p.quiet { (clean(&sheet.below)) } };
    let body = html! {
        div class=(format!("banner {}", sheet.grade.class())) role="status" {
            p.verdict { span.sign aria-hidden="true" { (sheet.grade.sign()) } " " (clean(&sheet.answer)) }
            @for note in &sheet.notes { p { (clean(note)) } }
        }
        @for part in &sheet.parts {
            section id=(part.name) {
                h3 { (clean(&part.title)) }
                @for block in &part.blocks { (one(block)) }
            }
        }
    };
    document(&sheet.kind, &clean(&sheet.title), &below, &body).into_string()
}

fn one(block: &SheetBlock) -> Markup {
    html! {
        @match block {
            SheetBlock::Words(words) => p { (clean(words)) },
            SheetBlock::Grid(grid) => (table(grid)),
            SheetBlock::Figure(figure) => (picture(figure)),
            SheetBlock::Code(code) => pre { @for line in code.lines() { (clean(line)) "\n" } },
        }
    }
}

fn table(grid: &Grid) -> Markup {
    let numeric = |column: usize| (column >= grid.left).then_some("n");
    let shown = &grid.rows[..grid.rows.len().min(ROWS_SHOWN_MAX)];
    html! {
        @if shown.len() < grid.rows.len() {
            p.warning { "The first " (ROWS_SHOWN_MAX) " of " (grid.rows.len()) " rows are shown." }
        }
        div.scroll { table {
            thead { tr { @for (i, name) in grid.head.iter().enumerate() { th class=[numeric(i)] { (name) } } } }
            tbody { @for row in shown { tr {
                @for (i, cell) in row.iter().enumerate() {
                    @if i == 0 { th scope="row" class=[numeric(i)] { (clean(cell)) } }
                    @else { td class=[numeric(i)] { (clean(cell)) } }
                }
            } } }
        } }
    }
}
