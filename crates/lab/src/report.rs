//! The report: one HTML file that shows what runs found, to print, to send, to keep.
//!
//! It says first whether the numbers mean anything, then whether they are good, then the numbers. It holds no
//! script and asks for nothing from anywhere, so it reads the same in ten years. The same runs make the same bytes.

pub mod comparison;
pub mod experiments;
pub mod findings;
pub mod frame;
pub mod gaps;
pub mod page;
pub mod pen;
pub mod plots;
pub mod scale;
pub mod setting;
pub mod sheet;
pub mod standing;
pub mod tables;
pub mod tiles;
pub mod words;

use crate::experiments::compare::comparison::Comparison;
use crate::result::Run;

/// Most runs in one report.
pub const RUNS_MAX: usize = 64;

/// The report of one run, or of the runs of a matrix, each with its name. Of more than [`RUNS_MAX`] the first are
/// shown, and the page says how many there were.
pub fn html(runs: &[(&str, &Run)]) -> String {
    page::page(runs).into_string()
}

/// The report of one comparison, or of several with one A.
pub fn html_of_comparisons(comparisons: &[Comparison]) -> String {
    comparison::page(comparisons).into_string()
}
