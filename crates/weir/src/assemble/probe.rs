//! A gate, a log and one way out, for a command that asks an inbound: what it sends is judged and recorded like all else.
//!
//! It serves nobody, so it needs no configuration: no agent is known, no policy permits anything, and the gateway's own
//! traffic to one place is all that passes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::limit::LOGS_MAX;
use gate::ports::Ports;
use gate::{Gate, Rates, Rules};
use net::{Endpoint, Targets};
use relay::doctor::Way;
use store::{Durability, Log, LogSettings, State};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::config::settings::relay::Place;
use crate::lanes;
use crate::metrics::Metrics;
use crate::ports::{Clock, Known};

/// Bytes of the log, as of a gateway's where nothing else is set.
const LOG_BYTES_MAX: u64 = 10 << 30;

/// A way to one place.
pub(crate) struct Probe {
    log: Arc<Log>,
    gate: Arc<Gate>,
    clock: Arc<Clock>,
    targets: Arc<Targets>,
    target: base::Name,
    runtime: Runtime,
}

impl Probe {
    /// The way to this place, which `net` knows as `endpoint`, with a log in the state folder. The error is for the
    /// operator.
    pub(crate) fn new(state: &Path, place: &Place, endpoint: Endpoint) -> Result<Probe, String> {
        let target = place.name.clone();
        let targets = super::dialled([(target.clone(), endpoint)])?;
        let settings = LogSettings {
            // Its own, or one that the state folder keeps.
            origin: String::new(),
            durability: Durability::Os,
            bytes_max: LOG_BYTES_MAX,
        };
        let log = State::open(state).and_then(|state| state.log(&settings, None, LOGS_MAX));
        let log = Arc::new(log.map_err(|error| error.to_string())?);
        let clock = Arc::new(Clock::new());
        let metrics = Metrics::new(std::iter::once(target.clone()));
        let ports = Ports::new(
            Arc::new(Known::new(store::Agents::new(std::iter::empty()))),
            Arc::new(store::Limits::new()),
            Arc::clone(&log) as Arc<dyn gate::ports::Recorder>,
            Arc::clone(&clock) as Arc<dyn gate::ports::Clock>,
            Arc::new(metrics),
        );
        let gate = Arc::new(Gate::new(ports, rules(place)));
        Ok(Probe {
            log,
            gate,
            clock,
            targets: Arc::new(targets),
            target,
            runtime: crate::serve::runtime()?,
        })
    }

    /// Runs what asks.
    pub(crate) fn run<T>(&self, body: impl AsyncFnOnce(&Way) -> T) -> T {
        LocalSet::new().block_on(&self.runtime, async {
            let (gate, clock) = (Arc::clone(&self.gate), Arc::clone(&self.clock));
            let upstreams = super::upstreams(&self.targets);
            body(&Way::new(gate, clock, self.target.clone(), upstreams)).await
        })
    }

    /// Writes down what was asked.
    pub(crate) fn close(self) -> Result<(), String> {
        let closed = self.log.close();
        closed.map_err(|error| format!("the log: {error:?}"))
    }
}

/// What judges: nobody may do anything, and the gateway itself may ask this place.
fn rules(place: &Place) -> Rules {
    let policies = policy::Policies::load(&lanes::tables(), &[], &BTreeMap::new());
    Rules {
        policies: policies.expect("no policy has no problem"),
        // Nothing is scanned here, so fingerprints need no key.
        engine: scan::Engine::new(scan::Settings::default(), [0; 32]),
        rates: Rates::of_agent(0),
        budgets: Vec::new(),
        reach: [(place.name.clone(), place.reach())].into(),
    }
}
