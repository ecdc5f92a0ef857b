//! Failures over time, stacked by class: one bad minute and a steady trickle are different illnesses.

use std::collections::BTreeMap;

use crate::report::frame::{BELOW, Legend, Panel, STAGES, Sign, WIDTH};
use crate::report::frame::{draw_stages, end_s, stages_of_all};
use crate::report::pen::{Ink, Pen, SERIES_MAX, svg};
use crate::report::scale::Scale;
use crate::report::words::{count, seconds, tick};
use crate::result::Run;

use super::Figure;

const HEIGHT: f64 = 160.0;
/// Due and never sent: no failure of the target's, and no success either.
const DROPPED: &str = "dropped (never sent)";
const OTHERS: &str = "other classes";

pub fn draw(run: &Run) -> Vec<Figure> {
    let layers = layers(run);
    if layers.columns.is_empty() {
        return vec![Figure::words(
            "No interval was recorded, so errors over time are not known.",
        )];
    }
    if layers.classes.is_empty() {
        return vec![Figure::words(format!(
            "None: of {} requests none failed and none was dropped.",
            count(run.total.requests)
        ))];
    }
    vec![one(run, &layers)]
}

/// Failures a second by class, in each interval.
struct Layers {
    /// With how many, most first.
    classes: Vec<(String, u64)>,
    columns: Vec<Column>,
}

#[derive(Default)]
struct Column {
    from_s: f64,
    to_s: f64,
    counts: BTreeMap<String, u64>,
}

impl Column {
    fn rate(&self, class: &str) -> f64 {
        let n = self.counts.get(class).copied().unwrap_or(0);
        let seconds = self.to_s - self.from_s;
        if seconds > 0.0 {
            n as f64 / seconds
        } else {
            0.0
        }
    }
}

fn layers(run: &Run) -> Layers {
    let mut columns: BTreeMap<i64, Column> = BTreeMap::new();
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    for point in run.flows.iter().flat_map(|flow| &flow.series) {
        let ended = (point.t_s * 1000.0).round() as i64;
        let column = columns.entry(ended).or_default();
        column.to_s = point.t_s;
        column.from_s = point.t_s - point.seconds;
        let dropped = (DROPPED.to_owned(), point.dropped);
        let errors = point.errors.iter().map(|(class, n)| (class.clone(), *n));
        for (class, n) in errors.chain([dropped]).filter(|(_, n)| *n > 0) {
            *column.counts.entry(class.clone()).or_default() += n;
            *totals.entry(class).or_default() += n;
        }
    }
    let mut classes: Vec<(String, u64)> = totals.into_iter().collect();
    classes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut columns: Vec<Column> = columns.into_values().collect();
    if classes.len() > SERIES_MAX {
        let rest = classes.split_off(SERIES_MAX - 1);
        classes.push((OTHERS.to_owned(), rest.iter().map(|(_, n)| n).sum()));
        for column in &mut columns {
            let counts = rest
                .iter()
                .filter_map(|(class, _)| column.counts.get(class));
            let sum = counts.sum();
            column.counts.insert(OTHERS.to_owned(), sum);
        }
    }
    Layers { classes, columns }
}

fn one(run: &Run, layers: &Layers) -> Figure {
    let items = layers.classes.iter().enumerate();
    let legend = Legend::new(items.map(|(i, (class, n))| {
        let name = format!("{class}: {}", count(*n));
        (name, ink_of(i), Sign::Block)
    }));
    let stages = stages_of_all(run);
    let heights = layers.columns.iter().map(|column| {
        let classes = layers.classes.iter();
        classes.map(|(class, _)| column.rate(class)).sum::<f64>()
    });
    let panel = Panel {
        top: legend.height() + STAGES,
        height: HEIGHT,
        x: Scale::time(end_s(run)),
        y: Scale::from_zero(heights),
    };
    let label = "Failures a second over time, stacked by class";
    let picture = svg(WIDTH, panel.bottom() + BELOW, label, |pen| {
        legend.draw(pen);
        draw_stages(pen, &stages, &panel, &panel);
        panel.y_axis(pen, "failures/s", tick);
        stack(pen, &panel, layers);
        panel.time_axis(pen);
    });
    let total: u64 = layers.classes.iter().map(|(_, n)| n).sum();
    Figure {
        title: String::new(),
        svg: picture,
        caption: format!(
            "n = {} over {}, of {} requests answered. Stacked: the top edge is the sum.",
            count(total),
            seconds(end_s(run)),
            count(run.total.requests),
        ),
    }
}

/// The first class of failures is not the colour that means success elsewhere.
fn ink_of(class: usize) -> Ink {
    const ORDER: [usize; SERIES_MAX] = [1, 3, 4, 5, 6, 2, 0, 7];
    Ink::Series(ORDER[class % SERIES_MAX])
}

fn stack(pen: &mut Pen, panel: &Panel, layers: &Layers) {
    for column in &layers.columns {
        let mut below = 0.0;
        for (i, (class, _)) in layers.classes.iter().enumerate() {
            let rate = column.rate(class);
            if rate <= 0.0 {
                continue;
            }
            let from = panel.at(column.from_s, below + rate);
            let to = panel.at(column.to_s, below);
            pen.rect(from, to, ink_of(i));
            below += rate;
        }
    }
}
