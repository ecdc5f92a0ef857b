//! The changes of a comparison: each metric's change with its interval, against no change and the margin.
//!
//! The axis is of ratios, so that twice and half lie equally far from no change. An interval that leaves the picture ends
//! in an arrow; a metric without an interval is a ring alone.

use crate::experiments::compare::answer::Answer;
use crate::experiments::compare::comparison::{Comparison, MetricAnswer};
use crate::experiments::compare::table;
use crate::report::frame::{BELOW, SMALL, WIDTH};
use crate::report::pen::{Ink, Pen, Stand, svg, width_of};
use crate::report::words::cut;

use super::Figure;

/// The question that it answers.
pub const QUESTION: &str = "How much did each metric change?";
const ROW: f64 = 30.0;
const TOP: f64 = 30.0;
/// Longest name of a metric, in characters.
const NAME_MAX: usize = 34;
/// Right of the axis, for the numbers of the change and its interval.
const NUMBERS: f64 = 210.0;
/// The axis reaches so many margins to each side at least, and so far at most, as an ln-ratio: a factor of 8.
const MARGINS_MIN: f64 = 2.5;
const REACH_MAX: f64 = 2.08;

/// The axis: no change in its middle, an ln-ratio of `reach` at both ends.
struct Axis {
    left: f64,
    right: f64,
    reach: f64,
}

impl Axis {
    /// Where a change stands, and whether that is inside of the picture.
    fn across(&self, change: f64) -> (f64, bool) {
        let ln = change.max(-0.999).ln_1p();
        let place = (ln / self.reach).clamp(-1.0, 1.0);
        let middle = 0.5 * (self.left + self.right);
        let half = 0.5 * (self.right - self.left);
        (middle + place * half, ln.abs() <= self.reach)
    }
}

pub fn draw(comparison: &Comparison) -> Figure {
    let metrics = &comparison.metrics;
    if metrics.is_empty() {
        return Figure::words("Nothing was measured on both sides, so there is no change to draw.");
    }
    let names: Vec<String> = metrics.iter().map(title).collect();
    let widest = names.iter().map(|name| width_of(name, 12.0));
    let left = widest.fold(60.0, f64::max).min(280.0) + 14.0;
    let axis = Axis {
        left,
        right: WIDTH - NUMBERS,
        reach: reach(comparison),
    };
    let bottom = TOP + ROW * metrics.len() as f64;
    let label = "The change of each metric with its interval";
    let picture = svg(WIDTH, bottom + BELOW - 14.0, label, |pen| {
        ground(pen, &axis, bottom, comparison.margin);
        for (i, (name, metric)) in names.iter().zip(metrics).enumerate() {
            let y = TOP + ROW * (i as f64 + 0.5);
            pen.text((left - 10.0, y), name, Ink::Text, Stand::End, 12.0);
            effect(pen, y, metric, &axis);
        }
    });
    let intervals = metrics.iter().filter_map(|metric| metric.sure.as_ref());
    let samples = intervals.map(|sure| sure.samples_a.min(sure.samples_b));
    let caption = match samples.min() {
        Some(n) => format!(
            "n = {n} pairs or more. The bars are intervals that all hold together in {} of comparisons; the band is the \
             margin of {}, inside of which a change does not matter. The axis is of ratios.",
            table::percent(1.0 - comparison.alpha),
            table::percent(comparison.margin)
        ),
        None => "No interval is possible: these are totals of one run each.".to_owned(),
    };
    Figure {
        title: String::new(),
        svg: picture,
        caption,
    }
}

fn title(metric: &MetricAnswer) -> String {
    let name = table::row(metric).map_or(metric.name.as_str(), |row| row.title);
    cut(name, NAME_MAX)
}

/// How far the axis reaches: to the widest interval, within bounds.
fn reach(comparison: &Comparison) -> f64 {
    let ends = comparison.metrics.iter().flat_map(|metric| {
        let interval = metric.sure.as_ref().map(|sure| sure.interval);
        let [low, high] = interval.map_or([metric.change; 2], |of| [of.low, of.high]);
        [metric.change, low, high]
    });
    let far = ends.map(|change| change.max(-0.999).ln_1p().abs());
    let far = far.filter(|far| far.is_finite()).fold(0.0, f64::max);
    let least = MARGINS_MIN * comparison.margin.ln_1p().max(0.001);
    (1.08 * far).clamp(least.min(REACH_MAX), REACH_MAX)
}

/// The margin, no change, and the names of a few changes.
fn ground(pen: &mut Pen, axis: &Axis, bottom: f64, margin: f64) {
    let (low, high) = (
        axis.across(1.0 / (1.0 + margin) - 1.0).0,
        axis.across(margin).0,
    );
    pen.rect((low, TOP - 8.0), (high, bottom), Ink::Band);
    let named = |pen: &mut Pen, change: f64, text: &str, ink: Ink| {
        let x = axis.across(change).0;
        pen.line((x, TOP - 8.0), (x, bottom), ink, 1.0);
        pen.text((x, bottom + 12.0), text, Ink::Quiet, Stand::Middle, SMALL);
    };
    for part in [-1.0, -0.5, 0.5, 1.0] {
        let change = (part * axis.reach).exp_m1();
        named(pen, change, &table::signed(change), Ink::Grid);
    }
    named(pen, 0.0, "no change", Ink::Axis);
    let at = (axis.left, TOP / 2.0 - 4.0);
    pen.text(at, "less in B", Ink::Quiet, Stand::Start, SMALL);
    let at = (axis.right, TOP / 2.0 - 4.0);
    pen.text(at, "more in B", Ink::Quiet, Stand::End, SMALL);
}

fn effect(pen: &mut Pen, y: f64, metric: &MetricAnswer, axis: &Axis) {
    let ink = match metric.answer {
        Answer::Worse => Ink::Series(1),
        Answer::Better => Ink::Series(2),
        Answer::Same => Ink::Series(0),
        Answer::CannotTell => Ink::Series(5),
    };
    let mut numbers = table::signed(metric.change);
    if let Some(sure) = &metric.sure {
        numbers = format!("{numbers} {}", table::interval(sure));
        for (end, out) in [(sure.interval.low, -1.0), (sure.interval.high, 1.0)] {
            let (x, is_inside) = axis.across(end);
            match is_inside {
                true => pen.line((x, y - 6.0), (x, y + 6.0), ink, 2.0),
                false => pen.path(
                    &[(x - 6.0 * out, y - 5.0), (x, y), (x - 6.0 * out, y + 5.0)],
                    ink,
                    2.0,
                ),
            }
        }
        let (from, to) = (
            axis.across(sure.interval.low).0,
            axis.across(sure.interval.high).0,
        );
        pen.line((from, y), (to, y), ink, 2.0);
    }
    pen.dot((axis.across(metric.change).0, y), ink, 4.5);
    pen.text(
        (axis.right + 12.0, y),
        &numbers,
        Ink::Text,
        Stand::Start,
        SMALL,
    );
}
