//! A run as a picture in the terminal that is drawn over itself, and leaves nothing behind.
//!
//! What is drawn is made by one pure function from the last snapshot and the rates so far; `indicatif` draws it,
//! at most ten times a second, and takes it away again. It is not for logs: see `lines` for those.

use std::collections::VecDeque;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::units::{clock, count, cut, duration, level, memory, number, plain};
use super::{FlowSnapshot, Observer, Snapshot, Spread};
use crate::exit::Failure;
use crate::plan::Plan;
use crate::result::HostSample;

/// How often it is drawn at most, in times a second.
pub const REDRAWS_PER_S: u8 = 10;
/// Most rates that the small curve of a flow remembers.
const CURVE_MAX: usize = 24;
/// Most flows that are drawn; more are counted.
const FLOWS_MAX: usize = 6;
/// Fewest and most columns that are used.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=120;
/// From these shares on, somebody else has the processor: stolen time, and time that a task waited.
const STEAL_BAD: f64 = 0.02;
const PRESSURE_BAD: f64 = 0.10;

/// What is known before the run begins.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    pub name: String,
    /// Each flow's stages: their names and how long they are, in seconds.
    pub stages: Vec<Vec<(String, f64)>>,
}

impl Outline {
    pub fn of(plan: &Plan) -> Outline {
        let stages = plan.flows.iter().map(|flow| {
            let steps = flow.profile.steps().iter();
            steps
                .map(|step| (plain(&step.name), step.seconds()))
                .collect()
        });
        Outline {
            name: plain(&plan.name),
            stages: stages.collect(),
        }
    }
}

/// The live view.
pub struct Live {
    bar: ProgressBar,
    columns: Box<dyn Fn() -> Option<usize> + Send>,
    picture: Picture,
}

impl Live {
    /// Draws on standard error.
    pub fn new(outline: Outline, colour: bool) -> Live {
        let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S);
        Live::on(target, Box::new(columns_of_stderr), outline, colour)
    }

    /// Draws somewhere else; `columns` tells how wide that is now.
    pub fn on(
        target: ProgressDrawTarget,
        columns: Box<dyn Fn() -> Option<usize> + Send>,
        outline: Outline,
        colour: bool,
    ) -> Live {
        let style = ProgressStyle::with_template("{msg}").expect("the template is constant");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        let picture = Picture {
            outline,
            paint: Paint(colour),
            curves: Vec::new(),
        };
        Live {
            bar,
            columns,
            picture,
        }
    }
}

impl Observer for Live {
    fn interval(&mut self, snapshot: &Snapshot) {
        let columns = (self.columns)().unwrap_or(80);
        // The last column stays free: some terminals break the line when it is written.
        let width = columns.saturating_sub(1);
        self.picture.note(snapshot);
        self.bar
            .set_message(self.picture.draw(snapshot, width).join("\n"));
    }

    fn message(&mut self, text: &str) {
        self.bar.println(plain(text));
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        Ok(())
    }
}

impl Drop for Live {
    /// A run that ends in an error leaves the terminal clean too.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How wide the terminal is, where it tells.
fn columns_of_stderr() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Words in colour, or not.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }
}

/// What a view remembers between two snapshots.
struct Picture {
    outline: Outline,
    paint: Paint,
    /// The last rates of each flow.
    curves: Vec<VecDeque<f64>>,
}

impl Picture {
    fn note(&mut self, snapshot: &Snapshot) {
        self.curves.resize_with(snapshot.flows.len(), VecDeque::new);
        for (curve, flow) in self.curves.iter_mut().zip(&snapshot.flows) {
            curve.push_back(flow.rate);
            if curve.len() > CURVE_MAX {
                curve.pop_front();
            }
        }
    }

    /// The lines, none wider than `width` columns as far as that is at least 40.
    fn draw(&self, snapshot: &Snapshot, width: usize) -> Vec<String> {
        let width = width.clamp(*COLUMNS.start(), *COLUMNS.end());
        let mut lines = vec![progress(&self.outline.name, snapshot, width)];
        for (index, flow) in snapshot.flows.iter().take(FLOWS_MAX).enumerate() {
            if snapshot.flows.len() > 1 {
                lines.push(cut(&plain(&flow.name), width));
            }
            self.flow(index, flow, width, &mut lines);
        }
        if snapshot.flows.len() > FLOWS_MAX {
            let more = snapshot.flows.len() - FLOWS_MAX;
            lines.push(format!(" and {more} more scenarios"));
        }
        lines.extend(watched(snapshot, width));
        if let Some(host) = &snapshot.host {
            lines.push(self.host(host, width));
        }
        lines
    }

    fn flow(&self, index: usize, flow: &FlowSnapshot, width: usize, lines: &mut Vec<String>) {
        let stages = self.outline.stages.get(index);
        let room = width - LABEL;
        lines.push(row("stage", &stages_line(stages, &flow.step, room)));
        lines.push(row(
            "rate",
            &cut(&rate_line(flow, self.curves.get(index)), room),
        ));
        let failed = format!("failed {}", count(flow.failed));
        let rest = format!(
            "  done {}  in flight {}  waiting {}",
            count(flow.completed),
            count(flow.in_flight),
            count(flow.waiting)
        );
        let rest = cut(&rest, room.saturating_sub(failed.chars().count()));
        let failed = match flow.failed {
            0 => self.paint.good(&failed),
            _ => self.paint.bad(&failed),
        };
        lines.push(row("requests", &format!("{failed}{rest}")));
        lines.push(row("now", &spread_line(flow.last, room)));
        lines.push(row("all", &spread_line(flow.so_far, room)));
        if !flow.errors.is_empty() || flow.dropped > 0 {
            let errors = self.paint.bad(&cut(&errors_line(flow), room));
            lines.push(row("errors", &errors));
        }
    }

    /// A lamp for the host: whether somebody else has the processor.
    fn host(&self, host: &HostSample, width: usize) -> String {
        let pressed = host
            .pressure_share
            .is_some_and(|share| share > PRESSURE_BAD);
        let lamp = if host.steal_share > STEAL_BAD {
            self.paint.bad("● stolen")
        } else if pressed {
            self.paint.bad("● pressed")
        } else {
            self.paint.good("● quiet")
        };
        let mut text = format!(
            "  busy {:.0} %, steal {:.1} %",
            host.busy_share * 100.0,
            host.steal_share * 100.0
        );
        if let Some(pressure) = host.pressure_share {
            text += &format!(", pressure {:.0} %", pressure * 100.0);
        }
        text += &format!(", load {:.1}", host.load1);
        // The lamp takes nine columns at most.
        row(
            "host",
            &format!("{lamp}{}", self.paint.faint(&cut(&text, width - LABEL - 9))),
        )
    }
}

/// Columns of a row's name.
const LABEL: usize = 10;

fn row(name: &str, text: &str) -> String {
    format!(" {name:<8} {text}")
}

/// The name, a bar, and how long it still takes.
fn progress(name: &str, snapshot: &Snapshot, width: usize) -> String {
    let left_s = (snapshot.total_s - snapshot.t_s).max(0.0);
    let times = format!(
        "{} of {}, {} left",
        clock(snapshot.t_s.floor()),
        clock(snapshot.total_s),
        clock(left_s.ceil())
    );
    let name = cut(name, 20);
    let used = name.chars().count() + times.chars().count() + 2;
    let cells = width.saturating_sub(used).min(40);
    let share = if snapshot.total_s > 0.0 {
        (snapshot.t_s / snapshot.total_s).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let full = (share * cells as f64).round() as usize;
    let bar = "█".repeat(full) + &"░".repeat(cells - full);
    cut(&format!("{name} {bar} {times}"), width)
}

/// The stages in order, the present one in brackets; those that are past go first when there is no room.
fn stages_line(stages: Option<&Vec<(String, f64)>>, now: &str, room: usize) -> String {
    let now = plain(now);
    let names = stages.map_or(&[][..], Vec::as_slice);
    let Some(at) = names.iter().position(|(name, _)| *name == now) else {
        return cut(&now, room);
    };
    for first in 0..=at {
        let shown = names[first..].iter().enumerate().map(|(index, (name, s))| {
            let text = format!("{name} {}", clock(*s));
            if index + first == at {
                format!("[{text}]")
            } else {
                text
            }
        });
        let dots = if first > 0 { "… › " } else { "" };
        let line = format!("{dots}{}", shown.collect::<Vec<_>>().join(" › "));
        if line.chars().count() <= room || first == at {
            return cut(&line, room);
        }
    }
    cut(&now, room)
}

fn rate_line(flow: &FlowSnapshot, curve: Option<&VecDeque<f64>>) -> String {
    let planned = if flow.open {
        format!("planned {}/s", level(flow.planned))
    } else {
        format!("{} connections", level(flow.planned.round()))
    };
    let curve = curve.map(sparkline).unwrap_or_default();
    format!("{}/s  {planned}  {curve}", number(flow.rate))
}

/// A small curve, from 0 to the greatest.
fn sparkline(values: &VecDeque<f64>) -> String {
    const CELLS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    let cell = |value: &f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        CELLS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(cell).collect()
}

/// Four quantiles, or the three that matter most where there is less room.
fn spread_line(spread: Option<Spread>, room: usize) -> String {
    let Some(spread) = spread else {
        return "nothing answered yet".to_owned();
    };
    let cell = |name: &str, us| format!("{name} {:<8}", duration(us));
    let (p50, p90) = (cell("p50", spread.p50), cell("p90", spread.p90));
    let (p99, max) = (cell("p99", spread.p99), cell("max", spread.max));
    let wide = format!("{p50}  {p90}  {p99}  {max}");
    let wide = wide.trim_end();
    if wide.chars().count() <= room {
        return wide.to_owned();
    }
    cut(format!("{p50} {p99} {max}").trim_end(), room)
}

fn errors_line(flow: &FlowSnapshot) -> String {
    let classes = flow.errors.iter();
    let mut parts: Vec<String> = classes
        .map(|(class, n)| format!("{} {}", plain(class), count(*n)))
        .collect();
    if flow.dropped > 0 {
        parts.push(format!("dropped {}", count(flow.dropped)));
    }
    parts.join("  ")
}

fn watched(snapshot: &Snapshot, width: usize) -> Option<String> {
    let subjects = snapshot.subjects.iter().map(|subject| {
        let mut text = plain(&subject.name);
        if let Some(cores) = subject.cores {
            text += &format!(" {cores:.2} cores");
        }
        if let Some(rss) = subject.rss_bytes {
            text += &format!(" {}", memory(rss));
        }
        text
    });
    let text = subjects.collect::<Vec<_>>().join(" · ");
    (!text.is_empty()).then(|| row("watched", &cut(&text, width - LABEL)))
}
