//! The lanes of this gateway: one row each, and what a row brings.
//!
//! The rest of this crate knows lanes by this table alone. A request to `/mcp/files` is found in the `mcp` row's
//! routes, answered by what that row opened, counted in the metrics that it shows, and gone from `/health` when
//! the row is.

pub(crate) mod a2a;
pub(crate) mod identity;
pub(crate) mod llm;
pub(crate) mod mcp;
pub(crate) mod relay;
pub(crate) mod run;
pub(crate) mod web;

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use base::{Action, CallId, Lane, Metric, Name};
use gate::{Gate, Reach};
use net::{Drain, Endpoint, Request, Response, Targets};
use store::{Log, State};

use crate::assemble::{Replica, Spending, WayOut};
use crate::config::{Problem, Settings};
use crate::health::LaneHealth;
use crate::ports::{Clock, Known};
use crate::routes::Route;
use crate::shared_store::SharedStores;

/// One lane.
pub(crate) struct Row {
    /// What agents can do there, and what policies call it.
    pub lane: &'static Lane,
    /// The paths that it answers where the gateway listens.
    pub routes: &'static [Route],
    /// What it shows at `/metrics`.
    pub metrics: &'static [Metric],
    /// Where its configured destinations are, of those that are dialled.
    pub endpoints: fn(&Settings) -> Vec<(Name, Endpoint)>,
    /// Every destination, and the addresses that may be dialled for it: of the settings that the gateway was started with,
    /// or of those that are to be in force, as the lane takes new destinations.
    pub reach: fn(&Settings, &Settings) -> Vec<(Name, Reach)>,
    /// The keys of its settings that differ, of those that are read at the start alone.
    pub only_at_start: fn(&Settings, &Settings) -> Vec<String>,
    /// The keys of its settings that differ, of those that a reload puts in force.
    pub reloaded: fn(&Settings, &Settings) -> Vec<String>,
    /// Starts it. The error is for the operator.
    pub open: fn(&Settings, &Parts<'_>) -> Opened,
}

/// A lane that was opened, or why it was not.
pub(crate) type Opened = Result<Arc<dyn Running>, String>;

/// What a lane is opened with.
pub(crate) struct Parts<'a> {
    pub gate: &'a Arc<Gate>,
    pub clock: &'a Arc<Clock>,
    pub targets: &'a Arc<Targets>,
    pub drain: &'a Drain,
    pub state: &'a State,
    pub spending: &'a Spending,
    pub known: &'a Arc<Known>,
    pub log: &'a Arc<Log>,
    pub replica: Option<&'a Arc<Replica>>,
    /// The stores that replicas share.
    pub stores: &'a SharedStores,
}

/// A lane of a gateway that runs: what all threads share.
pub(crate) trait Running: Any + Send + Sync {
    /// Takes the addresses of its own that it listens on, one socket for each of so many threads. The error is for
    /// the operator.
    fn listen(&self, _settings: &Settings, _threads: usize) -> Result<(), String> {
        Ok(())
    }

    /// Tells the operator that it is there. `url` is that of the gateway, where it is known.
    fn say_started(&self, _settings: &Settings, _url: Option<&str>) {}

    /// Its part of one thread, which has upstream connections of its own. Each call is for another thread.
    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread>;

    /// How it is now; nothing where there is nothing to say of it.
    fn health(&self) -> Option<LaneHealth> {
        None
    }

    /// Appends what it counts to a page of metrics, in the OpenMetrics text format.
    fn show_metrics(&self, _page: &mut String) {}

    /// Checks other settings, and gives what puts them in force, as far as that can be done while serving. Nothing
    /// changes before that is called: another lane may refuse the same settings.
    fn prepare(&self, _settings: &Settings) -> Result<Take<'_>, Vec<Problem>> {
        Ok(Box::new(|| ()))
    }
}

/// Puts settings in force that were found good.
pub(crate) type Take<'a> = Box<dyn FnOnce() + 'a>;

/// Has all lanes check other settings, before any lane changes. Errors: those of the first lane that refuses.
pub(crate) fn prepare<'a>(
    lanes: &'a [Arc<dyn Running>],
    settings: &Settings,
) -> Result<Vec<Take<'a>>, Vec<Problem>> {
    lanes.iter().map(|lane| lane.prepare(settings)).collect()
}

/// Work of one thread.
pub(crate) type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A lane on one thread.
pub(crate) trait OnThread {
    /// Answers a request to one of the lane's routes. `rest` is the part of the path from the route's first `*` on.
    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response>;

    /// Is shown the lanes of its thread, in the order of [`ALL`], before anything is asked.
    fn meet(&self, _lanes: &[Rc<dyn OnThread>]) {}

    /// What else the lane does on this thread, until the gateway drains: its own listeners, and on the `first`
    /// thread what is done once in a process.
    fn serve(self: Rc<Self>, _first: bool) -> Local<'static, io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// All lanes, in the order of the reference.
pub(crate) static ALL: &[Row] = &[
    mcp::ROW,
    llm::ROW,
    web::ROW,
    a2a::ROW,
    run::ROW,
    relay::ROW,
    identity::ROW,
    #[cfg(test)]
    crate::echo::ROW,
];

/// The tables of all lanes.
pub(crate) fn tables() -> Vec<&'static Lane> {
    ALL.iter().map(|row| row.lane).collect()
}

/// Everything that agents can do.
pub(crate) fn actions() -> impl Iterator<Item = &'static Action> {
    ALL.iter().flat_map(|row| row.lane.actions.iter().copied())
}

/// Those whose messages the scan reads.
pub(crate) fn scanned() -> impl Iterator<Item = &'static Lane> {
    ALL.iter()
        .map(|row| row.lane)
        .filter(|lane| lane.is_scanned)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A lane that counts what it put in force, or refuses all settings.
    struct Fake {
        taken: Arc<AtomicU32>,
        is_refusing: bool,
    }

    impl Running for Fake {
        fn thread(&self, _out: &WayOut) -> Rc<dyn OnThread> {
            unreachable!("it serves nothing")
        }

        fn prepare(&self, _settings: &Settings) -> Result<Take<'_>, Vec<Problem>> {
            match self.is_refusing {
                true => Err(vec![Problem::of_file("weir.yaml", "no", "")]),
                false => Ok(Box::new(|| {
                    self.taken.fetch_add(1, Ordering::Relaxed);
                })),
            }
        }
    }

    #[test]
    fn a_lane_that_refuses_settings_keeps_the_others_from_taking_them() {
        let taken = Arc::new(AtomicU32::new(0));
        let lane = |is_refusing| {
            let taken = Arc::clone(&taken);
            Arc::new(Fake { taken, is_refusing }) as Arc<dyn Running>
        };
        let settings = Settings::built_in("");
        let lanes = [lane(false), lane(false), lane(true)];
        assert!(prepare(&lanes, &settings).is_err());
        assert_eq!(taken.load(Ordering::Relaxed), 0);
        for take in prepare(&lanes[..2], &settings).unwrap() {
            take();
        }
        assert_eq!(taken.load(Ordering::Relaxed), 2);
    }
}
