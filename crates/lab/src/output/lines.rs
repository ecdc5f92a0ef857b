//! A run as plain lines, for logs and pipes: one line for each flow, at most one a second.
//!
//! A run of an hour must not fill a build's log, so long runs say something each ten seconds only.

use std::io::Write;

use super::units::{count, duration, level, number, plain};
use super::{FlowSnapshot, Observer, Snapshot};
use crate::exit::Failure;

/// Longest run, in seconds, that is told each second.
pub const SHORT_S: f64 = 60.0;
/// How often a longer run is told, in seconds.
pub const LONG_EVERY_S: f64 = 10.0;

/// Writes lines to a stream, which is standard error in a run.
pub struct Lines<W> {
    out: W,
    next_s: f64,
}

impl<W: Write + Send> Lines<W> {
    pub fn new(out: W) -> Lines<W> {
        Lines { out, next_s: 0.0 }
    }

    /// Whether this snapshot is due. An interval that ends a little early counts as due.
    fn due(&mut self, snapshot: &Snapshot) -> bool {
        let every_s = if snapshot.total_s <= SHORT_S {
            1.0
        } else {
            LONG_EVERY_S
        };
        let due = snapshot.t_s + 0.05 >= self.next_s.max(every_s);
        if due {
            self.next_s = snapshot.t_s + every_s;
        }
        due
    }

    /// A log that cannot be written is no reason to end a run.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }
}

impl<W: Write + Send> Observer for Lines<W> {
    fn interval(&mut self, snapshot: &Snapshot) {
        if !self.due(snapshot) {
            return;
        }
        let many = snapshot.flows.len() > 1;
        for flow in &snapshot.flows {
            let text = line_of(snapshot, flow, many);
            self.line(&text);
        }
    }

    fn message(&mut self, text: &str) {
        self.line(&plain(text));
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let _ = self.out.flush();
        Ok(())
    }
}

/// How one flow stands, in one line.
fn line_of(snapshot: &Snapshot, flow: &FlowSnapshot, many: bool) -> String {
    let mut parts = vec![format!(
        "{:.0}/{:.0} s",
        snapshot.t_s.floor(),
        snapshot.total_s
    )];
    if many {
        parts.push(plain(&flow.name));
    }
    parts.push(plain(&flow.step));
    let (rate, planned) = (number(flow.rate), level(flow.planned));
    parts.push(if flow.open {
        format!("{rate}/s of {planned}/s planned")
    } else {
        format!("{rate}/s on {planned} connections")
    });
    parts.push(format!("{} done", count(flow.completed)));
    parts.push(format!("{} failed", count(flow.failed)));
    if flow.dropped > 0 {
        parts.push(format!("{} dropped", count(flow.dropped)));
    }
    if let Some(spread) = &flow.last {
        parts.push(format!(
            "p50 {}, p99 {}, max {}",
            duration(spread.p50),
            duration(spread.p99),
            duration(spread.max)
        ));
    }
    let classes = flow.errors.iter();
    parts.extend(classes.map(|(class, n)| format!("{} {}", plain(class), count(*n))));
    parts.join("  ")
}
