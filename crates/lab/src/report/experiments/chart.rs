//! A picture of a few curves over one axis: points that were measured, lines that join them, dashes that are fitted.

use crate::report::frame::{BELOW, LEFT, Legend, Panel, RIGHT, SMALL, Sign, WIDTH};
use crate::report::pen::{Ink, Stand, svg};
use crate::report::plots::Figure;
use crate::report::scale::Scale;
use crate::stats::interval::Interval;

const HEIGHT: f64 = 260.0;

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Beside each point, where there is one.
    pub intervals: Vec<Option<Interval>>,
    /// It is fitted and not measured: dashes, no points.
    pub is_fitted: bool,
    /// Dots alone.
    pub is_loose: bool,
}

/// A picture to be.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// What a reader is told who does not see it.
    pub label: &'a str,
    pub x_title: &'a str,
    pub y_title: &'a str,
    pub x_is_log: bool,
    pub y_is_log: bool,
    pub x_name: fn(f64) -> String,
    pub y_name: fn(f64) -> String,
    pub curves: Vec<Curve>,
    /// A line upwards, with a word.
    pub marker: Option<(f64, String)>,
    pub caption: String,
}

impl Chart<'_> {
    /// Draws it; words where there is nothing to draw.
    pub fn figure(&self) -> Figure {
        let points = || {
            self.curves
                .iter()
                .flat_map(|curve| curve.points.iter().copied())
        };
        if points().count() == 0 {
            return Figure::words("There is nothing to draw.");
        }
        let ends = self
            .curves
            .iter()
            .flat_map(|curve| curve.intervals.iter().flatten().map(|i| i.high));
        let scale = |is_log: bool, values: Vec<f64>| match is_log {
            true => Scale::log(values),
            false => Scale::from_zero(values),
        };
        let legend = Legend::new(
            self.curves
                .iter()
                .enumerate()
                .map(|(i, curve)| (curve.name.clone(), ink(curve, i), Sign::Line)),
        );
        let panel = Panel {
            top: legend.height() + 6.0,
            height: HEIGHT,
            x: scale(self.x_is_log, points().map(|p| p.0).collect()),
            y: scale(self.y_is_log, points().map(|p| p.1).chain(ends).collect()),
        };
        let picture = svg(WIDTH, panel.bottom() + BELOW, self.label, |pen| {
            legend.draw(pen);
            panel.y_axis(pen, self.y_title, self.y_name);
            let about = ((WIDTH - LEFT - RIGHT) / 90.0) as usize;
            let ticks = panel
                .x
                .ticks(about)
                .into_iter()
                .map(|t| (t, (self.x_name)(t)));
            panel.x_axis(pen, self.x_title, &ticks.collect::<Vec<_>>());
            if let Some((at, word)) = &self.marker {
                let x = panel.across(*at);
                pen.line((x, panel.top), (x, panel.bottom()), Ink::Axis, 1.5);
                pen.text(
                    (x + 6.0, panel.top + 9.0),
                    word,
                    Ink::Text,
                    Stand::Start,
                    SMALL,
                );
            }
            for (i, curve) in self.curves.iter().enumerate() {
                let ink = ink(curve, i);
                if !curve.is_loose {
                    panel.line(pen, curve.points.iter().map(|p| (p.0, Some(p.1))), ink, 2.0);
                }
                for (place, point) in curve.points.iter().enumerate().filter(|_| !curve.is_fitted) {
                    pen.dot(
                        panel.at(point.0, point.1),
                        ink,
                        if curve.is_loose { 1.8 } else { 4.0 },
                    );
                    if let Some(Some(interval)) = curve.intervals.get(place) {
                        let (low, high) = (
                            panel.at(point.0, interval.low),
                            panel.at(point.0, interval.high),
                        );
                        pen.line(low, high, ink, 1.5);
                    }
                }
            }
        });
        Figure {
            title: String::new(),
            svg: picture,
            caption: self.caption.clone(),
        }
    }
}

fn ink(curve: &Curve, i: usize) -> Ink {
    match curve.is_fitted {
        true => Ink::Dashed(i),
        false => Ink::Series(i),
    }
}
