//! A server as an experiment asks for it: where it listens, how it is started, and one load that it is given.
//!
//! The load is read as `weir lab load` reads it, with the server's address in it, so that no experiment spells a load in
//! another way.

use std::sync::Arc;
use std::time::Duration;

use super::launch::{Launch, PORT, Started};
use crate::exit::Failure;
use crate::experiments::load::Load;
use crate::output::{Nobody, Observer};
use crate::result::{Run, Verdict};
use crate::run::{self, Around};
use crate::scenario;
use crate::scenario::flags::{FLAGS, Given};
use crate::watch::Subject;

/// How often the watched are looked at, at least: a run of an experiment is short.
const WATCH_EVERY_MAX: Duration = Duration::from_millis(250);

/// One server, as it was asked for.
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
    /// A server that listens on this machine is found and watched without being named.
    pub finds: bool,
    /// Each request that fails is noted with its number.
    pub names_failures: bool,
}

/// One load as it went.
pub struct Carried {
    pub run: Run,
    /// Verdicts of validity that the load accepts.
    pub accept: Vec<Verdict>,
}

impl Spec {
    /// Finds out what can be known to be wrong before anything is started or sent.
    ///
    /// # Errors
    ///
    /// The load, or what is to be watched, cannot be read.
    pub fn check(&self, load: &Load) -> Result<(), Failure> {
        // Any port will do: nothing is sent there.
        let (_, settings) = self.planned(load, self.launch.as_ref().map(|_| 1))?;
        self.subjects(&settings.watch).map(drop)
    }

    /// Sends a load to the server, and watches it meanwhile. `started` is the server, where this program started it.
    ///
    /// # Errors
    ///
    /// The load cannot be read or carried out, or the server ended.
    pub fn carry_out(&self, load: &Load, started: Option<&Started>) -> Result<Carried, Failure> {
        self.carry_out_before(load, started, &mut Nobody)
    }

    /// The same, while somebody looks on.
    ///
    /// # Errors
    ///
    /// As of [`Spec::carry_out`].
    pub fn carry_out_before(
        &self,
        load: &Load,
        started: Option<&Started>,
        observer: &mut dyn Observer,
    ) -> Result<Carried, Failure> {
        let (cell, settings) = self.planned(load, started.map(|started| started.port))?;
        let mut watch = self.subjects(&settings.watch)?;
        watch.extend(started.map(|started| Subject::Pid(started.pid())));
        if watch.is_empty() && self.finds {
            watch = scenario::servers_here(&cell.plan);
        }
        let around = Around {
            watch,
            watch_every: settings.watch_every.min(WATCH_EVERY_MAX),
            origin: settings.origin,
            meta: settings.meta,
            ..Around::default()
        };
        let run = run::carry_out(&cell.plan, &around, observer);
        if let Some(started) = started.filter(|started| started.has_ended()) {
            let why = format!("{} ended while it was measured", self.label);
            return Err(started.failed(why, "look at its output"));
        }
        Ok(Carried {
            run: run?,
            accept: settings.accept,
        })
    }

    /// Reads the load with the server's address, as `weir lab load` would.
    pub(crate) fn planned(
        &self,
        load: &Load,
        port: Option<u16>,
    ) -> Result<(scenario::Cell, scenario::RunSettings), Failure> {
        let mut load = load.clone();
        let with_port = |text: &String| match port {
            Some(port) => text.replace(PORT, &port.to_string()),
            None => text.clone(),
        };
        load.source = load.source.iter().map(with_port).collect();
        load.source.extend(self.url.as_ref().map(with_port));
        if let Some(port) = port {
            load.flags
                .given
                .push(given("env", &format!("BASE=http://127.0.0.1:{port}"))?);
        }
        let (cells, settings) = scenario::plan(&load).map_err(|found| scenario::failure(&found))?;
        let count = cells.len();
        match cells.into_iter().next() {
            Some(mut cell) if count == 1 => {
                for flow in cell.plan.flows.iter_mut().filter_map(Arc::get_mut) {
                    flow.names_failures = self.names_failures;
                }
                Ok((cell, settings))
            }
            _ => Err(Failure::new(
                "a matrix is more than one load",
                "leave --matrix out, and measure each of its cells",
            )),
        }
    }

    /// What is watched beside a started server.
    fn subjects(&self, shared: &[String]) -> Result<Vec<Subject>, Failure> {
        let texts = shared.iter().chain(&self.watch);
        let subjects = texts.map(|text| Subject::parse(text).map_err(|why| Failure::new(why, "")));
        subjects.collect()
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
