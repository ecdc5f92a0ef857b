//! Latency over time: how many responses took how long, each drawn at the moment when it was due.
//!
//! The series counts a response when it ends, so a server that freezes looks like nothing and then a column. Each
//! is moved back by its own latency here: then a freeze is a wedge that falls to its end, as its victims felt it.

use crate::report::frame::{BELOW, LEFT, Legend, Panel, RIGHT, STAGES, Sign, Stage, WIDTH};
use crate::report::frame::{draw_stages, stages_of};
use crate::report::pen::{HEAT_MAX, Ink, Pen, svg};
use crate::report::scale::Scale;
use crate::report::words::{count, seconds, tick_micros};
use crate::result::{FlowResult, Point, Run};

use super::{FLOWS_DRAWN_MAX, Figure};

const HEIGHT: f64 = 240.0;
/// Most columns of the heat map.
const COLUMNS_MAX: usize = 160;
/// Most rows, so that the picture stays small whatever was measured: a cell is an eighth of a doubling, and an hour
/// is under 2^32 microseconds.
const ROWS_MAX: u16 = 256;
/// Fewer responses than this in a column have no p99.
const P99_LEAST: u64 = 20;

pub fn draw(run: &Run) -> Vec<Figure> {
    let drawn = run.flows.iter().filter(|f| has_cells(f));
    let mut figures: Vec<Figure> = drawn
        .take(FLOWS_DRAWN_MAX)
        .map(|flow| one(flow, run.flows.len()))
        .collect();
    if figures.is_empty() {
        figures.push(Figure::words(
            "No interval with an answer was recorded, so latency over time is not known.",
        ));
    }
    figures
}

fn has_cells(flow: &FlowResult) -> bool {
    flow.series.iter().any(|point| !point.cells.is_empty())
}

/// Counts by column and row.
struct Heat {
    columns: usize,
    /// One column, in seconds.
    wide_s: f64,
    /// Row 0 is this cell.
    first: u16,
    rows: usize,
    counts: Vec<u64>,
}

impl Heat {
    fn of(flow: &FlowResult, end_s: f64) -> Heat {
        let cells = || flow.series.iter().flat_map(|p| p.cells.iter());
        let first = cells().map(|(cell, _)| (*cell).min(ROWS_MAX)).min();
        let last = cells().map(|(cell, _)| (*cell).min(ROWS_MAX)).max();
        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
        let columns = flow.series.len().clamp(1, COLUMNS_MAX);
        let rows = usize::from(last - first) + 1;
        let mut heat = Heat {
            columns,
            wide_s: end_s / columns as f64,
            first,
            rows,
            counts: vec![0; columns * rows],
        };
        for point in &flow.series {
            heat.add(point);
        }
        heat
    }

    fn add(&mut self, point: &Point) {
        for (cell, n) in &point.cells {
            let cell = (*cell).min(ROWS_MAX);
            let took_s = middle_us(cell) / 1e6;
            let due_s = (point.t_s - point.seconds / 2.0 - took_s).max(0.0);
            let column = ((due_s / self.wide_s) as usize).min(self.columns - 1);
            let row = usize::from(cell - self.first);
            self.counts[column * self.rows + row] += n;
        }
    }

    fn column(&self, column: usize) -> &[u64] {
        &self.counts[column * self.rows..(column + 1) * self.rows]
    }

    /// The middle of the cell in which a column's quantile lies, in microseconds.
    fn quantile(&self, column: usize, q: f64, least: u64) -> Option<f64> {
        let counts = self.column(column);
        let total: u64 = counts.iter().sum();
        if total < least.max(1) {
            return None;
        }
        let rank = (q * total as f64).ceil() as u64;
        let mut passed = 0;
        for (row, n) in counts.iter().enumerate() {
            passed += n;
            if passed >= rank {
                return Some(middle_us(self.first + row as u16));
            }
        }
        None
    }
}

fn edge_us(cell: u16) -> f64 {
    (f64::from(cell) / 8.0).exp2()
}

/// The geometric middle of a cell.
fn middle_us(cell: u16) -> f64 {
    ((f64::from(cell) + 0.5) / 8.0).exp2()
}

fn one(flow: &FlowResult, flows: usize) -> Figure {
    let stages = stages_of(flow);
    let ended = flow.series.last().map_or(0.0, |point| point.t_s);
    let staged = stages.last().map_or(0.0, |stage| stage.end_s);
    let end_s = ended.max(staged).max(1e-3);
    let heat = Heat::of(flow, end_s);
    let most = heat.counts.iter().copied().max().unwrap_or(0);
    let n: u64 = heat.counts.iter().sum();
    let legend = legend(most);
    let last = heat.first + heat.rows as u16;
    let panel = Panel {
        top: legend.height() + STAGES,
        height: HEIGHT,
        x: Scale::time(end_s),
        y: Scale::log([edge_us(heat.first), edge_us(last)]),
    };
    let label = format!("Latency of {} over time, as a heat map", flow.name);
    let picture = svg(WIDTH, panel.bottom() + BELOW, &label, |pen| {
        paint(pen, &panel, &heat, &stages, &legend);
    });
    Figure {
        title: if flows > 1 {
            flow.name.clone()
        } else {
            String::new()
        },
        svg: picture,
        caption: format!(
            "n = {} responses over {}, in columns of {}. Each response is drawn at the moment when it was due, \
             not when it ended: a freeze is a wedge.",
            count(n),
            seconds(end_s),
            seconds(heat.wide_s),
        ),
    }
}

fn legend(most: u64) -> Legend {
    let line = |name: &str, ink| (name.to_owned(), ink, Sign::Line);
    let block = |name: String, step| (name, Ink::Heat(step), Sign::Block);
    Legend::new([
        line("p50", Ink::Text),
        line("p99", Ink::Series(1)),
        block("1 response in a cell".to_owned(), 0),
        block(format!("{} responses", count(most)), HEAT_MAX - 1),
    ])
}

fn paint(pen: &mut Pen, panel: &Panel, heat: &Heat, stages: &[Stage], legend: &Legend) {
    legend.draw(pen);
    draw_stages(pen, stages, panel, panel);
    panel.y_axis(pen, "response", tick_micros);
    panel.time_axis(pen);
    let most = heat.counts.iter().copied().max().unwrap_or(0);
    let wide = (WIDTH - LEFT - RIGHT) / heat.columns as f64;
    for column in 0..heat.columns {
        let x = LEFT + column as f64 * wide;
        for (row, n) in heat
            .column(column)
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
        {
            let cell = heat.first + row as u16;
            let (low, high) = (panel.up(edge_us(cell)), panel.up(edge_us(cell + 1)));
            pen.rect((x, high), (x + wide, low), Ink::Heat(step_of(*n, most)));
        }
    }
    let middles = |q, least| {
        let columns = 0..heat.columns;
        columns.map(move |c| ((c as f64 + 0.5) * heat.wide_s, heat.quantile(c, q, least)))
    };
    panel.line(pen, middles(0.5, 1), Ink::Text, 1.5);
    panel.line(pen, middles(0.99, P99_LEAST), Ink::Series(1), 1.75);
}

/// The step of colour of a count: logarithmic, since a few slow ones among many fast ones must be seen.
fn step_of(n: u64, most: u64) -> usize {
    if most <= 1 {
        return HEAT_MAX - 1;
    }
    let share = (n as f64).ln() / (most as f64).ln();
    ((share * HEAT_MAX as f64) as usize).min(HEAT_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_is_a_wedge() {
        // One response in each tenth of a second of a freeze of 2 s, all answered at its end.
        let cell = |us: f64| (us.log2() * 8.0) as u16;
        let cells: Vec<(u16, u64)> = (0..20)
            .map(|i| (cell(2e6 - 1e5 * f64::from(i)), 1))
            .collect();
        let points = (1..=10).map(|t| Point {
            t_s: f64::from(t),
            seconds: 1.0,
            cells: if t == 6 {
                cells.clone()
            } else {
                vec![(cell(5000.0), 10)]
            },
            ..Point::default()
        });
        let flow = FlowResult {
            series: points.collect(),
            ..FlowResult::default()
        };
        let heat = Heat::of(&flow, 10.0);
        let slowest = |column: usize| heat.column(column).iter().rposition(|n| *n > 0);
        assert!(slowest(3) > slowest(4) && slowest(4) > slowest(2));
        assert_eq!(heat.counts.iter().sum::<u64>(), 9 * 10 + 20);
    }

    #[test]
    fn colour_grows_with_the_logarithm() {
        assert_eq!(step_of(1, 1), HEAT_MAX - 1);
        assert_eq!(step_of(1, 10_000), 0);
        assert_eq!(step_of(100, 10_000), HEAT_MAX / 2);
        assert_eq!(step_of(10_000, 10_000), HEAT_MAX - 1);
    }
}
