//! What plots have in common: a panel with its two axes, a legend, and the stages of a run behind it.
//!
//! All plots over time have the same left and right edge, so that an event stands at one place down the page.

use super::pen::{Ink, Pen, Stand, width_of};
use super::scale::Scale;
use super::words::{clock, clock_unit, cut};
use crate::result::{FlowResult, Run};

/// The width of every plot, in pixels of its own picture.
pub const WIDTH: f64 = 960.0;
/// Left of a panel: the labels of its axis, and its title.
pub const LEFT: f64 = 78.0;
/// Right of a panel.
pub const RIGHT: f64 = 18.0;
/// Below a panel: the labels of its axis, and its title.
pub const BELOW: f64 = 42.0;
/// Between two panels that share an axis of time.
pub const BETWEEN: f64 = 22.0;
/// Above a panel: the names of the stages.
pub const STAGES: f64 = 20.0;
/// The size of every text but a legend's.
pub const SMALL: f64 = 11.0;
const LEGEND_SIZE: f64 = 12.0;
const LEGEND_ROW: f64 = 20.0;
/// Longest name in a legend, in characters.
const NAME_MAX: usize = 40;

/// A rectangle with two axes.
#[derive(Clone, Debug)]
pub struct Panel {
    pub top: f64,
    pub height: f64,
    pub x: Scale,
    pub y: Scale,
}

impl Panel {
    /// Where two values stand, in pixels.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.across(x), self.up(y))
    }

    pub fn across(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
    }

    pub fn up(&self, y: f64) -> f64 {
        self.top + (1.0 - self.y.place(y)) * self.height
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Lines across, named at the left, with the axis's title.
    pub fn y_axis(&self, pen: &mut Pen, title: &str, name: impl Fn(f64) -> String) {
        let apart = match self.y {
            Scale::Linear { .. } => 40.0,
            Scale::Log { .. } => 24.0,
        };
        let about = (self.height / apart).round().max(2.0) as usize;
        for tick in self.y.ticks(about) {
            let y = self.up(tick);
            pen.line((LEFT, y), (WIDTH - RIGHT, y), Ink::Grid, 1.0);
            let at = (LEFT - 8.0, y);
            pen.text(at, &name(tick), Ink::Quiet, Stand::End, SMALL);
        }
        let middle = self.top + self.height / 2.0;
        pen.text_up((12.0, middle), title, Ink::Quiet, SMALL);
        self.floor(pen);
    }

    /// Named marks under the panel, with the axis's title.
    pub fn x_axis(&self, pen: &mut Pen, title: &str, ticks: &[(f64, String)]) {
        let bottom = self.bottom();
        for (value, name) in ticks {
            let x = self.across(*value);
            pen.line((x, bottom), (x, bottom + 4.0), Ink::Axis, 1.0);
            let at = (x, bottom + 13.0);
            pen.text(at, name, Ink::Quiet, Stand::Middle, SMALL);
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let at = (middle, bottom + 31.0);
        pen.text(at, title, Ink::Quiet, Stand::Middle, SMALL);
    }

    /// The axis of time.
    pub fn time_axis(&self, pen: &mut Pen) {
        let span = self.x.high();
        let ticks = self.x.time_ticks(10).into_iter();
        let ticks: Vec<(f64, String)> = ticks.map(|t| (t, clock(t, span))).collect();
        let title = format!("time from the start ({})", clock_unit(span));
        self.x_axis(pen, &title, &ticks);
    }

    fn floor(&self, pen: &mut Pen) {
        let bottom = self.bottom();
        let (from, to) = ((LEFT, bottom), (WIDTH - RIGHT, bottom));
        pen.line(from, to, Ink::Axis, 1.0);
    }

    /// A line through values; where one is missing it is broken.
    pub fn line(
        &self,
        pen: &mut Pen,
        values: impl IntoIterator<Item = (f64, Option<f64>)>,
        ink: Ink,
        width: f64,
    ) {
        let mut part: Vec<(f64, f64)> = Vec::new();
        for (x, value) in values {
            match value {
                Some(y) => part.push(self.at(x, y)),
                None => {
                    pen.path(&part, ink, width);
                    part.clear();
                }
            }
        }
        pen.path(&part, ink, width);
    }
}

/// A stage, as a band behind a plot over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    pub name: String,
    pub begin_s: f64,
    pub end_s: f64,
    pub kind: String,
}

/// The stages of one flow.
pub fn stages_of(flow: &FlowResult) -> Vec<Stage> {
    let steps = flow.steps.iter().map(|step| Stage {
        name: step.name.clone(),
        begin_s: step.begin_s,
        end_s: step.begin_s + step.summary.seconds,
        kind: step.kind.clone(),
    });
    steps.collect()
}

/// The stages of a run where all its flows have the same; otherwise none.
pub fn stages_of_all(run: &Run) -> Vec<Stage> {
    let mut flows = run.flows.iter().map(stages_of);
    let Some(first) = flows.next() else {
        return Vec::new();
    };
    if flows.all(|other| other == first) {
        first
    } else {
        Vec::new()
    }
}

/// Draws the stages behind panels: a ground for what is no hold, from the first one's top to the last one's bottom,
/// a line where one stage follows another, and names above. A hold alone needs none of it.
pub fn draw_stages(pen: &mut Pen, stages: &[Stage], first: &Panel, last: &Panel) {
    if stages.len() < 2 && stages.iter().all(|stage| stage.kind == "hold") {
        return;
    }
    let (top, bottom) = (first.top - STAGES, last.bottom());
    for (i, stage) in stages.iter().enumerate() {
        let (from, to) = (first.across(stage.begin_s), first.across(stage.end_s));
        match stage.kind.as_str() {
            "warm-up" => pen.rect((from, top), (to, bottom), Ink::Warm),
            "ramp" => pen.rect((from, top), (to, bottom), Ink::Band),
            _ => {}
        }
        if i > 0 {
            pen.line((from, top), (from, bottom), Ink::Grid, 1.0);
        }
        let room = ((to - from - 8.0) / width_of("n", SMALL)) as usize;
        if room >= 3 {
            let at = ((from + to) / 2.0, top + STAGES / 2.0);
            let name = cut(&stage.name, room);
            pen.text(at, &name, Ink::Quiet, Stand::Middle, SMALL);
        }
    }
}

/// What a colour in a legend looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Line,
    Block,
}

/// Names of inks, above a plot, in as many rows as they need.
#[derive(Clone, Debug)]
pub struct Legend {
    items: Vec<(String, Ink, Sign)>,
}

impl Legend {
    pub fn new(items: impl IntoIterator<Item = (String, Ink, Sign)>) -> Legend {
        let items = items.into_iter();
        Legend {
            items: items
                .map(|(name, ink, sign)| (cut(&name, NAME_MAX), ink, sign))
                .collect(),
        }
    }

    /// Each item's place: its row, and where it begins.
    fn places(&self) -> Vec<(usize, f64)> {
        let (mut row, mut x) = (0, LEFT);
        let mut places = Vec::new();
        for (name, _, _) in &self.items {
            let wide = 30.0 + width_of(name, LEGEND_SIZE) + 18.0;
            if x > LEFT && x + wide > WIDTH {
                (row, x) = (row + 1, LEFT);
            }
            places.push((row, x));
            x += wide;
        }
        places
    }

    /// How high it is, in pixels.
    pub fn height(&self) -> f64 {
        let rows = self.places().last().map_or(0, |(row, _)| row + 1);
        rows as f64 * LEGEND_ROW + 4.0
    }

    /// Draws it at the top of the picture.
    pub fn draw(&self, pen: &mut Pen) {
        for ((name, ink, sign), (row, x)) in self.items.iter().zip(self.places()) {
            let y = row as f64 * LEGEND_ROW + LEGEND_ROW / 2.0;
            match sign {
                Sign::Line => pen.line((x, y), (x + 22.0, y), *ink, 2.5),
                Sign::Block => pen.rect((x + 4.0, y - 6.0), (x + 18.0, y + 6.0), *ink),
            }
            let at = (x + 29.0, y);
            pen.text(at, name, Ink::Text, Stand::Start, LEGEND_SIZE);
        }
    }
}

/// When the last interval or stage of a run ended, in seconds from the start.
pub fn end_s(run: &Run) -> f64 {
    let points = run.flows.iter().flat_map(|f| f.series.last());
    let stages = run.flows.iter().flat_map(|f| f.steps.last());
    let points = points.map(|point| point.t_s);
    let stages = stages.map(|step| step.begin_s + step.summary.seconds);
    points
        .chain(stages)
        .filter(|t| t.is_finite())
        .fold(0.0, f64::max)
}
