//! Two servers on a bench: each run starts what has to be started, sends the load, and hands over what it measured.
//!
//! A server that is started is started afresh for each run, unless it is to be kept: where a process lies in memory
//! can move its speed by more than what is looked for, and one start of each would count that as a difference.

use std::time::Duration;

use super::blocks::{Bench, Block, Kind, Side};
use super::metrics::{METRIC, Measured};
use super::process::{Launch, PORT, Started};
use super::table;
use crate::exit::Failure;
use crate::experiments::load::Load;
use crate::interrupt;
use crate::output::Nobody;
use crate::run::{self, Around};
use crate::scenario::flags::{FLAGS, Given};
use crate::scenario::{self, problem};
use crate::watch::Subject;

/// How often the watched are looked at, at least: a block is short.
const WATCH_EVERY_MAX: Duration = Duration::from_millis(250);

/// One side, as it was asked for.
#[derive(Clone, Debug)]
pub struct Spec {
    /// What to call it.
    pub label: String,
    /// Where it listens; `{port}` may stand in it.
    pub url: Option<String>,
    /// How to start it, if it does not run already.
    pub launch: Option<Launch>,
    /// What else to watch, as `--watch` spells it.
    pub watch: Vec<String>,
}

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
            // Any port will do: nothing is sent there.
            let (_, settings) = self.planned(spec, spec.launch.as_ref().map(|_| 1))?;
            subjects(&settings.watch, spec)?;
        }
        Ok(())
    }

    /// Reads the load with the side's address, as `weir lab load` would.
    fn planned(
        &self,
        spec: &Spec,
        port: Option<u16>,
    ) -> Result<(scenario::Cell, scenario::RunSettings), Failure> {
        let mut load = self.load.clone();
        let with_port = |text: &String| match port {
            Some(port) => text.replace(PORT, &port.to_string()),
            None => text.clone(),
        };
        load.source = load.source.iter().map(with_port).collect();
        load.source.extend(spec.url.as_ref().map(with_port));
        if let Some(port) = port {
            load.flags
                .given
                .push(given("env", &format!("BASE=http://127.0.0.1:{port}"))?);
        }
        let (cells, settings) = scenario::plan(&load).map_err(|found| problem::failure(&found))?;
        let count = cells.len();
        match cells.into_iter().next() {
            Some(cell) if count == 1 => Ok((cell, settings)),
            _ => Err(Failure::new(
                "a matrix cannot be compared",
                "leave --matrix out, and compare each of its cells",
            )),
        }
    }

    fn run(&self, spec: &Spec, started: Option<&Started>) -> Result<Measured, Failure> {
        let (cell, settings) = self.planned(spec, started.map(|started| started.port))?;
        let mut watch = subjects(&settings.watch, spec)?;
        watch.extend(started.map(|started| Subject::Pid(started.pid())));
        let around = Around {
            watch,
            watch_every: settings.watch_every.min(WATCH_EVERY_MAX),
            origin: settings.origin,
            meta: settings.meta,
            ..Around::default()
        };
        let run = run::carry_out(&cell.plan, &around, &mut Nobody);
        if let Some(started) = started.filter(|started| started.has_ended()) {
            let why = format!("{} ended while it was measured", spec.label);
            return Err(started.failed(why, "look at its output"));
        }
        Ok(Measured::of(&run?, &settings.accept))
    }
}

/// What is watched beside a started server.
fn subjects(shared: &[String], spec: &Spec) -> Result<Vec<Subject>, Failure> {
    let texts = shared.iter().chain(&spec.watch);
    let subjects = texts.map(|text| Subject::parse(text).map_err(|why| Failure::new(why, "")));
    subjects.collect()
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

/// A flag of `weir lab load` with its text.
///
/// # Errors
///
/// There is no such flag.
pub fn given(name: &str, text: &str) -> Result<Given, Failure> {
    let flag = FLAGS.iter().find(|flag| flag.name == name);
    let flag = flag.ok_or_else(|| Failure::new(format!("--{name} is no flag of a load"), ""))?;
    Ok(Given {
        flag,
        text: text.to_owned(),
    })
}
