//! Two servers on a bench: each run starts what has to be started, sends the load, and hands over what it measured.
//!
//! A server that is started is started afresh for each run, unless it is to be kept: where a process lies in memory
//! can move its speed by more than what is looked for, and one start of each would count that as a difference.

use super::blocks::{Bench, Block, Kind, Side};
use super::metrics::{METRIC, Measured};
use super::table;
use crate::bench::launch::Started;
use crate::bench::side::Spec;
use crate::exit::Failure;
use crate::experiments::load::Load;
use crate::interrupt;

/// Both sides and the load that they are given.
pub struct Rig<'t> {
    pub a: Spec,
    pub b: Spec,
    /// The load without its target; its source is at most a scenario file.
    pub load: Load,
    /// Servers stay up between runs.
    pub keep: bool,
    /// Told one line after each block.
    pub tell: Box<dyn FnMut(&str) + 't>,
    kept: [Option<Started>; 2],
}

impl<'t> Rig<'t> {
    pub fn new(a: Spec, b: Spec, load: Load, keep: bool, tell: impl FnMut(&str) + 't) -> Rig<'t> {
        Rig {
            a,
            b,
            load,
            keep,
            tell: Box::new(tell),
            kept: [None, None],
        }
    }

    /// Finds out what can be known to be wrong before anything is started or sent.
    ///
    /// # Errors
    ///
    /// The load of a side, or what is to be watched, cannot be read.
    pub fn check(&self) -> Result<(), Failure> {
        for spec in [&self.a, &self.b] {
            spec.check(&self.load)?;
        }
        Ok(())
    }

    fn run(&self, spec: &Spec, started: Option<&Started>) -> Result<Measured, Failure> {
        let carried = spec.carry_out(&self.load, started)?;
        Ok(Measured::of(&carried.run, &carried.accept))
    }
}

impl Bench for Rig<'_> {
    fn measure(&mut self, side: Side, _run: usize) -> Result<Measured, Failure> {
        if interrupt::asked() {
            return Ok(Measured::interrupted());
        }
        let (spec, place) = match side {
            Side::A => (self.a.clone(), 0),
            Side::B => (self.b.clone(), 1),
        };
        let Some(launch) = &spec.launch else {
            return self.run(&spec, None);
        };
        let started = match self.kept[place].take() {
            Some(started) => started,
            None => launch.start()?,
        };
        let measured = self.run(&spec, Some(&started));
        if self.keep {
            self.kept[place] = Some(started);
        }
        measured
    }

    fn after(&mut self, block: &Block) {
        let line = line(block);
        (self.tell)(&line);
    }
}

/// A block in one line: its first metric.
fn line(block: &Block) -> String {
    let name = match block.kind {
        Kind::Pair => "A and B",
        Kind::Control => "A and A",
    };
    let number = block.number + 1;
    if let Some(reason) = &block.dropped {
        return format!("block {number}: {name}: dropped: {reason}");
    }
    let both = METRIC
        .iter()
        .zip(block.pair.a.values.iter().zip(&block.pair.b.values));
    let first = both
        .into_iter()
        .find_map(|(metric, (a, b))| Some((metric, (*a)?, (*b)?)));
    match first {
        Some((metric, a, b)) => format!(
            "block {number}: {name}: {} {} and {} ({})",
            metric.title,
            table::quantity(a, metric.unit),
            table::quantity(b, metric.unit),
            table::signed(b / a - 1.0)
        ),
        None => format!("block {number}: {name}: nothing was measured"),
    }
}
