//! Several runs side by side: what each carried, and how long its requests took.
//!
//! The rows are in the order of the matrix. A run that is not valid is marked in words, not only in colour.

use crate::report::frame::{BELOW, SMALL, WIDTH};
use crate::report::pen::{Ink, Pen, Stand, svg, width_of};
use crate::report::scale::Scale;
use crate::report::words::{NONE, count, cut, micros, number, tick, tick_micros};
use crate::result::{Run, Verdict};

use super::Figure;

/// The question that it answers.
pub const QUESTION: &str = "How do the cells compare?";
const ROW: f64 = 24.0;
const TOP: f64 = 26.0;
/// Longest name of a cell, in characters.
const NAME_MAX: usize = 34;
/// Between the two panels, for the numbers at the ends of the bars.
const GAP: f64 = 84.0;

/// Where a panel stands between left and right.
struct Span {
    left: f64,
    right: f64,
    scale: Scale,
}

impl Span {
    fn across(&self, value: f64) -> f64 {
        self.left + self.scale.place(value) * (self.right - self.left)
    }

    fn axis(&self, pen: &mut Pen, bottom: f64, title: &str, name: fn(f64) -> String) {
        let about = ((self.right - self.left) / 60.0) as usize;
        for tick in self.scale.ticks(about.min(6)) {
            let x = self.across(tick);
            pen.line((x, TOP - 6.0), (x, bottom), Ink::Grid, 1.0);
            let at = (x, bottom + 12.0);
            pen.text(at, &name(tick), Ink::Quiet, Stand::Middle, SMALL);
        }
        let at = (self.left, TOP / 2.0 - 2.0);
        pen.text(at, title, Ink::Text, Stand::Start, 12.0);
    }
}

pub fn draw(runs: &[(&str, &Run)]) -> Vec<Figure> {
    if runs.is_empty() {
        return vec![Figure::words("There is no run to show.")];
    }
    let names: Vec<String> = runs.iter().map(|(name, run)| named(name, run)).collect();
    let widest = names.iter().map(|name| width_of(name, 12.0));
    let left = widest.fold(60.0, f64::max).min(280.0) + 14.0;
    let half = (WIDTH - left - 2.0 * GAP) / 2.0;
    let rate = Span {
        left,
        right: left + half,
        scale: Scale::from_zero(runs.iter().map(|(_, run)| run.measured.rate)),
    };
    let latency = Span {
        left: left + half + GAP,
        right: left + 2.0 * half + GAP,
        scale: Scale::log(runs.iter().flat_map(|(_, run)| response(run)).flatten()),
    };
    let bottom = TOP + ROW * runs.len() as f64;
    let label = "Requests a second and latency of each cell";
    let picture = svg(WIDTH, bottom + BELOW - 14.0, label, |pen| {
        rate.axis(pen, bottom, "answered a second", tick);
        let title = "response: p50 to p99";
        latency.axis(pen, bottom, title, tick_micros);
        for (i, (name, (_, run))) in names.iter().zip(runs).enumerate() {
            let y = TOP + ROW * (i as f64 + 0.5);
            pen.text((left - 10.0, y), name, Ink::Text, Stand::End, 12.0);
            row(pen, y, run, &rate, &latency);
        }
    });
    let n: u64 = runs.iter().map(|(_, run)| run.measured.requests).sum();
    vec![Figure {
        title: String::new(),
        svg: picture,
        caption: format!(
            "n = {} requests in {} runs, over what is measured in each. The axis of latency is logarithmic.",
            count(n),
            runs.len()
        ),
    }]
}

fn named(name: &str, run: &Run) -> String {
    let name = cut(name, NAME_MAX);
    match run.validity.verdict {
        Verdict::Valid => name,
        other => format!("{name} ({})", other.as_str()),
    }
}

/// The median and the 99th percentile of the response.
fn response(run: &Run) -> Option<[f64; 2]> {
    let found = run.measured.latency.get("response")?;
    Some([found.p50, found.p99])
}

fn row(pen: &mut Pen, y: f64, run: &Run, rate: &Span, latency: &Span) {
    let end = rate.across(run.measured.rate);
    pen.rect((rate.left, y - 7.0), (end, y + 7.0), Ink::Series(0));
    let text = format!("{}/s", number(run.measured.rate));
    pen.text((end + 6.0, y), &text, Ink::Text, Stand::Start, SMALL);
    let Some([p50, p99]) = response(run) else {
        let at = (latency.left, y);
        return pen.text(at, NONE, Ink::Quiet, Stand::Start, SMALL);
    };
    let (from, to) = (latency.across(p50), latency.across(p99));
    pen.line((from, y), (to, y), Ink::Series(2), 2.0);
    pen.dot((from, y), Ink::Series(2), 4.0);
    pen.dot((to, y), Ink::Series(1), 4.0);
    let at = (to + 9.0, y);
    pen.text(at, &micros(p99), Ink::Text, Stand::Start, SMALL);
}
