//! A server on its stand: started in its shape if it has to be, given one load after another, and ended with the stand.
//!
//! Loads are read, carried out and judged as `weir lab load` does it, so a cell of an experiment equals a single run.

use std::time::Instant;

use super::asked::{AskedServer, with};
use super::launch::Started;
use super::shape::{CpuShape, Room};
use super::side::{Carried, Spec};
use crate::ceilings;
use crate::exit::Failure;
use crate::experiments::load::Load;
use crate::facts::Setting;
use crate::judge;
use crate::output::{Nobody, Observer};
use crate::result::{Meta, Run, Verdict};
use crate::run::version;
use crate::scenario;
use crate::watch;

/// A server and the load that it is given.
pub struct Stand {
    pub spec: Spec,
    pub load: Load,
    // Ended before its room: a group with processes cannot be removed.
    started: Option<Started>,
    room: Option<Room>,
    began: Instant,
    begun_at: String,
    meta: Option<Meta>,
}

/// One load as it went.
pub struct Measured {
    pub run: Run,
    /// Its verdict, without those that the user accepts.
    pub unaccepted: Verdict,
}

impl Stand {
    /// Checks the load, and starts the server if it has to be started.
    ///
    /// # Errors
    ///
    /// The load cannot be read, has several scenarios, or the server cannot be started.
    pub fn set_up(spec: Spec, load: Load, shape: Option<CpuShape>) -> Result<Stand, Failure> {
        spec.check(&load)?;
        let (cell, _) = spec.planned(&load, spec.launch.as_ref().map(|_| 1))?;
        if cell.plan.flows.len() > 1 {
            return Err(Failure::new(
                format!(
                    "the file has {} scenarios, and an experiment sets one level",
                    cell.plan.flows.len()
                ),
                "give a file with one scenario, or a URL",
            ));
        }
        let room = shape.map(Room::of).transpose()?;
        let started = match (&spec.launch, &room) {
            (Some(launch), Some(room)) => Some(launch.start_in(room)?),
            (Some(launch), None) => Some(launch.start()?),
            (None, Some(_)) => {
                return Err(Failure::new(
                    "a shape is for a server that is started here",
                    "say how to start it with --command",
                ));
            }
            (None, None) => None,
        };
        Ok(Stand {
            spec,
            load,
            started,
            room,
            began: Instant::now(),
            begun_at: base::clock::rfc3339(unix_ms()),
            meta: None,
        })
    }

    /// How its shape is held, in words.
    pub fn how(&self) -> String {
        self.room
            .as_ref()
            .map_or(String::new(), |room| room.how.clone())
    }

    /// Carries out one load: the stand's, with some flags in the place of others.
    ///
    /// # Errors
    ///
    /// It cannot be carried out, or the server ended.
    pub fn run(&mut self, without: &[&str], flags: &[(&str, &str)]) -> Result<Measured, Failure> {
        self.run_before(without, flags, &mut Nobody)
    }

    /// The same, while somebody looks on.
    ///
    /// # Errors
    ///
    /// As of [`Stand::run`].
    pub fn run_before(
        &mut self,
        without: &[&str],
        flags: &[(&str, &str)],
        observer: &mut dyn Observer,
    ) -> Result<Measured, Failure> {
        let load = with(&self.load, without, flags)?;
        let carried = self
            .spec
            .carry_out_before(&load, self.started.as_ref(), observer)?;
        let Carried { run, accept } = carried;
        let unaccepted = judge::validity::unaccepted(&run.validity, &accept);
        self.meta.get_or_insert_with(|| run.meta.clone());
        Ok(Measured { run, unaccepted })
    }

    /// The processes that were started here.
    pub fn pid(&self) -> Option<u32> {
        self.started.as_ref().map(Started::pid)
    }

    /// Where a load would go, to find what listens there.
    ///
    /// # Errors
    ///
    /// The load cannot be read.
    pub fn planned(&self) -> Result<(scenario::Cell, scenario::RunSettings), Failure> {
        self.spec.planned(
            &self.load,
            self.started.as_ref().map(|started| started.port),
        )
    }

    /// What is known of the experiment beside its numbers.
    pub fn setting(&self, asked: &AskedServer, command: Vec<String>, partial: bool) -> Setting {
        let machine = watch::machine::read();
        let meta = self.meta.clone().unwrap_or_default();
        let name = asked.flag("name").map(str::to_owned);
        Setting {
            name: name
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| self.spec.label.clone()),
            represents: meta.represents,
            excludes: meta.excludes,
            target: self.spec.label.clone(),
            command,
            scenario_sha256: meta.scenario_sha256,
            seed: asked.seed(),
            started: self.begun_at.clone(),
            seconds: self.began.elapsed().as_secs_f64(),
            partial,
            version: version(),
            ceilings: ceilings::recall(&machine),
            machine,
            ready_after_s: self
                .started
                .as_ref()
                .map(|started| started.ready_after.as_secs_f64()),
            warnings: meta_warnings(asked),
        }
    }
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// What has to be said of any experiment on this program.
fn meta_warnings(asked: &AskedServer) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(
            "This weir is a debug build: the generator is slower than it should be.".to_owned(),
        );
    }
    let is_debug = asked
        .command
        .as_ref()
        .is_some_and(|command| command.contains("/debug/"));
    if is_debug {
        warnings.push(
            "The server's command names a debug build: no number of it is worth quoting."
                .to_owned(),
        );
    }
    warnings
}
