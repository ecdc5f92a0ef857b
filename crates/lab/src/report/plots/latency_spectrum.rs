//! The whole distribution of latency: quantiles, with the tail stretched.
//!
//! The axis is 1/(1−q), logarithmic, so that each step to the right is ten times rarer. Response, service and lag
//! lie over each other: where response leaves service, requests waited to be sent.

use crate::report::frame::{BELOW, Legend, Panel, Sign, WIDTH};
use crate::report::pen::{Ink, svg};
use crate::report::scale::Scale;
use crate::report::words::{count, plural, seconds, tick_micros};
use crate::result::{FlowResult, Run};

use super::{FLOWS_DRAWN_MAX, Figure};

const HEIGHT: f64 = 260.0;
/// What is drawn, what it means, and how wide: what comes later lies on top and lets the first be seen.
const CURVES: &[(&str, &str, Ink, f64)] = &[
    (
        "response",
        "response (from when it was due)",
        Ink::Series(0),
        3.5,
    ),
    (
        "service",
        "service (from when it was sent)",
        Ink::Dashed(4),
        2.0,
    ),
    ("lag", "lag (sent later than due)", Ink::Dotted(1), 2.0),
];

pub fn draw(run: &Run) -> Vec<Figure> {
    let drawn = run.flows.iter().filter(|f| !curves(f).is_empty());
    let mut figures: Vec<Figure> = drawn
        .take(FLOWS_DRAWN_MAX)
        .map(|flow| one(flow, run.flows.len()))
        .collect();
    if figures.is_empty() {
        figures.push(Figure::words(
            "No request was answered well in what is measured, so there is no latency to show.",
        ));
    }
    figures
}

/// Words, ink, width, and points.
type Curve<'a> = (&'static str, Ink, f64, &'a [(f64, f64)]);

fn curves(flow: &FlowResult) -> Vec<Curve<'_>> {
    let known = CURVES.iter().filter_map(|(name, words, ink, width)| {
        let points = flow.spectrum.get(*name)?;
        (!points.is_empty()).then_some((*words, *ink, *width, points.as_slice()))
    });
    known.collect()
}

fn one(flow: &FlowResult, flows: usize) -> Figure {
    let curves = curves(flow);
    let n = flow.measured.latency.get("response").map_or(0, |q| q.count);
    let legend = Legend::new(
        curves
            .iter()
            .map(|(words, ink, _, _)| ((*words).to_owned(), *ink, Sign::Line)),
    );
    let panel = Panel {
        top: legend.height() + 8.0,
        height: HEIGHT,
        x: Scale::Log {
            low: 1.0,
            high: farthest(&curves),
        },
        y: Scale::log(values(&curves)),
    };
    let label = format!("Latency of {} by quantile", flow.name);
    let picture = svg(WIDTH, panel.bottom() + BELOW, &label, |pen| {
        legend.draw(pen);
        panel.y_axis(pen, "latency", tick_micros);
        panel.x_axis(pen, "quantile", &ticks(panel.x.high()));
        for (_, ink, width, points) in &curves {
            let places = points.iter().map(|(q, us)| {
                let x = one_in(*q).min(panel.x.high());
                // A lag of nothing has no logarithm; it lies on the floor.
                (x, Some(us.max(panel.y.low())))
            });
            panel.line(pen, places, *ink, *width);
        }
    });
    Figure {
        title: if flows > 1 {
            flow.name.clone()
        } else {
            String::new()
        },
        svg: picture,
        caption: format!(
            "n = {} answered well over {}, by {}. Each step right is ten times rarer; the right end is the slowest. \
             Both axes are logarithmic.",
            count(n),
            seconds(flow.measured.seconds),
            plural(flow.connections, "connection"),
        ),
    }
}

fn one_in(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile.clamp(0.0, 1.0))
}

/// Twice as far as the last quantile that is not the maximum: where the slowest of n stands.
fn farthest(curves: &[Curve]) -> f64 {
    let quantiles = curves.iter().flat_map(|(_, _, _, points)| points.iter());
    let finite = quantiles.map(|(q, _)| one_in(*q)).filter(|x| x.is_finite());
    (finite.fold(1.0, f64::max) * 2.0).max(10.0)
}

/// What the axis must hold. Lag is often under a microsecond at first, which would flatten all else: nothing
/// under a thousandth of the least response is shown.
fn values(curves: &[Curve]) -> Vec<f64> {
    let all = |points: &[(f64, f64)]| points.iter().map(|(_, us)| *us).collect::<Vec<f64>>();
    let first = curves.first().map(|(_, _, _, points)| all(points));
    let least = first.unwrap_or_default().into_iter().filter(|us| *us > 0.0);
    let floor = least.fold(f64::INFINITY, f64::min) / 100.0;
    let values = curves.iter().flat_map(|(_, _, _, points)| all(points));
    values
        .map(|us| if floor.is_finite() { us.max(floor) } else { us })
        .collect()
}

/// The quantiles that are named: 0, 50, 90, 99, 99.9 % and so on.
fn ticks(high: f64) -> Vec<(f64, String)> {
    let mut ticks = vec![(1.0, "0 %".to_owned()), (2.0, "50 %".to_owned())];
    let mut x = 10.0;
    let mut places = 0;
    while x <= high * 1.001 && places < 12 {
        let percent = match places {
            0 => "90 %".to_owned(),
            1 => "99 %".to_owned(),
            more => format!("99.{} %", "9".repeat(more - 1)),
        };
        ticks.push((x, percent));
        x *= 10.0;
        places += 1;
    }
    ticks
}
