//! Throughput over time: what the plan asked for, what was sent, what came back, and what was under way.

use std::collections::BTreeMap;

use crate::report::frame::{BELOW, BETWEEN, Legend, Panel, STAGES, Sign, WIDTH};
use crate::report::frame::{draw_stages, end_s, stages_of_all};
use crate::report::pen::{Ink, SERIES_MAX, svg};
use crate::report::scale::Scale;
use crate::report::words::{count, seconds, tick};
use crate::result::{FlowResult, Run};

use super::Figure;

const HEIGHT: f64 = 180.0;
const HEIGHT_BELOW: f64 = 90.0;

pub fn draw(run: &Run) -> Vec<Figure> {
    let all = sums(run.flows.iter());
    if all.is_empty() {
        return vec![Figure::words(
            "No interval was recorded, so throughput over time is not known.",
        )];
    }
    let mut figures = vec![together(run, &all)];
    if run.flows.len() > 1 {
        figures.push(by_flow(run));
        figures[0].title = "all flows together".to_owned();
    }
    figures
}

/// The counts of one interval, of one flow or of many.
#[derive(Clone, Copy, Default)]
struct Sum {
    t_s: f64,
    seconds: f64,
    sent: u64,
    completed: u64,
    in_flight: u64,
    waiting: u64,
}

impl Sum {
    fn middle(&self) -> f64 {
        self.t_s - self.seconds / 2.0
    }

    fn rate(&self, n: u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| n as f64 / self.seconds)
    }
}

/// Flows added up by interval: those that end in the same millisecond are one.
fn sums<'a>(flows: impl Iterator<Item = &'a FlowResult>) -> Vec<Sum> {
    let mut sums: BTreeMap<i64, Sum> = BTreeMap::new();
    for point in flows.flat_map(|flow| &flow.series) {
        let sum = sums.entry((point.t_s * 1000.0).round() as i64).or_default();
        sum.t_s = point.t_s;
        sum.seconds = sum.seconds.max(point.seconds);
        sum.sent += point.sent;
        sum.completed += point.completed;
        sum.in_flight += point.in_flight;
        sum.waiting += point.waiting;
    }
    sums.into_values().collect()
}

/// What the plan meant at each corner of it, where every flow is open.
fn planned(run: &Run) -> Vec<(f64, f64)> {
    let open = run.flows.iter().all(|flow| flow.model == "open");
    if !open {
        return Vec::new();
    }
    let steps = || run.flows.iter().flat_map(|flow| &flow.steps);
    let mut corners: Vec<f64> = steps()
        .flat_map(|step| [step.begin_s, step.begin_s + step.summary.seconds])
        .filter(|t| t.is_finite())
        .collect();
    corners.sort_by(f64::total_cmp);
    corners.dedup();
    // Just before and just after a corner, so that a jump stays one.
    let level = |t: f64| -> f64 {
        let inside = steps().filter(|s| s.begin_s <= t && t < s.begin_s + s.summary.seconds);
        inside
            .map(|s| s.from + (s.to - s.from) * (t - s.begin_s) / s.summary.seconds)
            .sum()
    };
    let sides = corners.windows(2).flat_map(|pair| {
        let inset = (pair[1] - pair[0]) * 1e-6;
        [
            (pair[0], level(pair[0] + inset)),
            (pair[1], level(pair[1] - inset)),
        ]
    });
    sides.collect()
}

fn legend(planned: bool, waits: bool) -> Legend {
    let items = [
        ("completed", Ink::Series(0), true),
        ("sent", Ink::Dashed(2), true),
        ("planned", Ink::Dotted(7), planned),
        ("in flight", Ink::Series(3), true),
        ("waiting for a connection", Ink::Dashed(1), waits),
    ];
    let there = items.into_iter().filter(|(_, _, there)| *there);
    Legend::new(there.map(|(name, ink, _)| (name.to_owned(), ink, Sign::Line)))
}

fn together(run: &Run, all: &[Sum]) -> Figure {
    let planned = planned(run);
    let stages = stages_of_all(run);
    let waits = all.iter().any(|sum| sum.waiting > 0);
    let legend = legend(!planned.is_empty(), waits);
    let rates = all
        .iter()
        .flat_map(|s| [s.rate(s.sent), s.rate(s.completed)]);
    let rates = rates.flatten().chain(planned.iter().map(|(_, rate)| *rate));
    let upper = Panel {
        top: legend.height() + STAGES,
        height: HEIGHT,
        x: Scale::time(end_s(run)),
        y: Scale::from_zero(rates),
    };
    let under_way = all
        .iter()
        .flat_map(|s| [s.in_flight as f64, s.waiting as f64]);
    let lower = Panel {
        top: upper.bottom() + BETWEEN,
        height: HEIGHT_BELOW,
        x: upper.x,
        y: Scale::from_zero(under_way),
    };
    let label = "Requests a second over time: planned, sent, completed; and requests in flight";
    let picture = svg(WIDTH, lower.bottom() + BELOW, label, |pen| {
        legend.draw(pen);
        draw_stages(pen, &stages, &upper, &lower);
        upper.y_axis(pen, "requests/s", tick);
        lower.y_axis(pen, "requests", tick);
        lower.time_axis(pen);
        let plan = planned.iter().map(|(t, rate)| (*t, Some(*rate)));
        upper.line(pen, plan, Ink::Dotted(7), 2.0);
        let sent = all.iter().map(|s| (s.middle(), s.rate(s.sent)));
        upper.line(pen, sent, Ink::Dashed(2), 2.0);
        let completed = all.iter().map(|s| (s.middle(), s.rate(s.completed)));
        upper.line(pen, completed, Ink::Series(0), 2.0);
        if waits {
            let waiting = all.iter().map(|s| (s.t_s, Some(s.waiting as f64)));
            lower.line(pen, waiting, Ink::Dashed(1), 1.75);
        }
        let in_flight = all.iter().map(|s| (s.t_s, Some(s.in_flight as f64)));
        lower.line(pen, in_flight, Ink::Series(3), 1.75);
    });
    Figure {
        title: String::new(),
        svg: picture,
        caption: caption(run, all),
    }
}

fn caption(run: &Run, all: &[Sum]) -> String {
    let completed: u64 = all.iter().map(|sum| sum.completed).sum();
    let sent: u64 = all.iter().map(|sum| sum.sent).sum();
    let longest = all.iter().map(|sum| sum.seconds).fold(0.0, f64::max);
    let mut text = format!(
        "n = {} completed of {} sent over {}, in intervals of {}.",
        count(completed),
        count(sent),
        seconds(end_s(run)),
        seconds(longest),
    );
    if run.flows.iter().any(|flow| flow.model != "open") {
        text.push_str(" In a closed load the target sets the rate, so none is planned.");
    }
    text
}

/// What was completed, by flow; the ones that have no colour of their own are added up.
fn by_flow(run: &Run) -> Figure {
    let alone = if run.flows.len() > SERIES_MAX {
        SERIES_MAX - 1
    } else {
        run.flows.len()
    };
    let mut lines: Vec<(String, Ink, Vec<Sum>)> = Vec::new();
    for (i, flow) in run.flows.iter().take(alone).enumerate() {
        lines.push((flow.name.clone(), Ink::Series(i), sums([flow].into_iter())));
    }
    let rest = &run.flows[alone..];
    if !rest.is_empty() {
        let name = format!("{} others", rest.len());
        lines.push((name, Ink::Dashed(alone), sums(rest.iter())));
    }
    let items = lines
        .iter()
        .map(|(n, ink, _)| (n.clone(), *ink, Sign::Line));
    let legend = Legend::new(items);
    let stages = stages_of_all(run);
    let rates = lines.iter().flat_map(|(_, _, sums)| sums);
    let panel = Panel {
        top: legend.height() + STAGES,
        height: HEIGHT,
        x: Scale::time(end_s(run)),
        y: Scale::from_zero(rates.filter_map(|sum| sum.rate(sum.completed))),
    };
    let label = "Requests completed a second over time, by flow";
    let picture = svg(WIDTH, panel.bottom() + BELOW, label, |pen| {
        legend.draw(pen);
        draw_stages(pen, &stages, &panel, &panel);
        panel.y_axis(pen, "completed/s", tick);
        panel.time_axis(pen);
        for (_, ink, sums) in &lines {
            let rates = sums.iter().map(|s| (s.middle(), s.rate(s.completed)));
            panel.line(pen, rates, *ink, 2.0);
        }
    });
    Figure {
        title: "by flow".to_owned(),
        svg: picture,
        caption: format!(
            "The same completed requests over {}, by flow.",
            seconds(end_s(run))
        ),
    }
}
