//! Where things meet: from settings to the parts of a running gateway.
//!
//! This file alone makes values of `Upstreams<Passed>`: whatever goes out of this process goes out by those, for a
//! call that the gate passed.

pub(crate) mod client;
mod log;
pub(crate) mod probe;
pub(crate) mod relay;
pub(crate) mod replica;
mod spending;

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use base::Digest;
use gate::ports::{Ports, RecordError};
use gate::{Gate, Passed, Rates, Rules};
use net::h1::{ConnectionSettings, Thread};
use net::{Drain, EdgeSettings, EdgeShared, Endpoint, Scheme, Targets, Upstreams};
use store::{Log, LogSettings, State};

use crate::admin::access::AdminAccess;
use crate::config::identity::{Identity, OnceBy};
use crate::config::settings::{Ca, Settings, Url};
use crate::config::{Problem, compile};
use crate::lanes::{self, OnThread, Parts, Running};
use crate::metrics::Metrics;
use crate::notices::{Notices, NoticingLog, NoticingPins};
use crate::ports::{Clock, Known, UsedIds};
use crate::routes::Routes;
use crate::shared_store::{SharedIds, SharedStores};
use crate::stopping::Stopping;

pub(crate) use log::InForce;
pub(crate) use replica::Replica;
pub(crate) use spending::{BudgetGauge, OfAgents, RunMoney, Spending, dollars};

/// Connections of one thread to what weir calls, for calls that the gate passed.
#[derive(Clone)]
pub(crate) struct WayOut(Rc<Upstreams<Passed>>);

impl WayOut {
    pub(crate) fn upstreams(&self) -> Rc<Upstreams<Passed>> {
        Rc::clone(&self.0)
    }

    /// The same connections, and other targets.
    pub(crate) fn to(&self, targets: &Arc<Targets>) -> WayOut {
        WayOut(Rc::new(self.0.to(Arc::clone(targets))))
    }

    /// Connections to these targets that end with whoever has them.
    pub(crate) fn new(targets: &Arc<Targets>) -> WayOut {
        // How long a server may take is for each call to say.
        let bounds = ConnectionSettings {
            head_bytes_max: base::limit::HEAD_BYTES_MAX,
            ..ConnectionSettings::default()
        };
        let thread = Thread::new(bounds.tick_ms());
        WayOut(Rc::new(upstreams(targets)(thread, bounds)))
    }
}

/// What all threads of a gateway share.
pub(crate) struct Gateway {
    pub log: Arc<Log>,
    /// Of a gateway that shares a store with others.
    replica: Option<Arc<Replica>>,
    pub pins: Option<Arc<store::Pins>>,
    pub notices: Arc<Notices>,
    pub drain: Drain,
    pub edge_settings: EdgeSettings,
    fingerprint_key: [u8; 32],
    known: Arc<Known>,
    spending: Spending,
    gate: Arc<Gate>,
    pub metrics: Arc<Metrics>,
    edge: Arc<EdgeShared>,
    targets: Arc<Targets>,
    clock: Arc<Clock>,
    /// In the order of [`lanes::ALL`].
    pub lanes: Arc<[Arc<dyn Running>]>,
    origins: Arc<[String]>,
    /// Who may ask at the admin listener.
    pub admin: Arc<AdminAccess>,
    pub stopping: Arc<Stopping>,
}

impl Gateway {
    /// Makes everything that can fail before the first call, for one of several gateways that share a state: each
    /// writes the first of `logs` logs that no other writes. The error is for the operator.
    pub(crate) fn with_logs(settings: &Settings, logs: usize) -> Result<Gateway, String> {
        let targets = Arc::new(targets(settings)?);
        let failed = |error: store::StateError| error.to_string();
        let state = State::open(&settings.state).map_err(failed)?;
        // Before anything is made: keys and the authority are the store's where there is one.
        let begun = replica::join(settings)?;
        let fingerprint_key = state.key("fingerprint.key").map_err(failed)?;
        let rules = rules(settings, settings, fingerprint_key).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })?;
        let witness = settings.log.witness.as_deref();
        let log = state.log(&log_settings(settings), witness, logs);
        let log = Arc::new(log.map_err(failed)?);
        let clock = Arc::new(Clock::new());
        let in_force = InForce::new(&rules.policies, &settings.agents);
        let replica = begun.map(|begun| Replica::start(begun, settings, &log));
        let replica = replica.transpose()?.map(Arc::new);
        let before = replica.as_ref().and_then(|replica| replica.before());
        let now = gate::ports::Clock::now(&*clock);
        log::begin(&log, settings, &in_force, before, now)?;
        let spending = Spending::read(settings, &state.logs(), gate::ports::Clock::now(&*clock))?;
        let metrics = Arc::new(Metrics::new(names(settings, settings)));
        let pins = pins(settings, &state)?;
        let known = Arc::new(Known::new(store::Agents::default()));
        known.configure(agents(settings));
        let notices = Arc::new(Notices::new(&settings.file));
        let noticing = |pins| -> Arc<dyn gate::ports::Pins> {
            Arc::new(NoticingPins::new(pins, Arc::clone(&notices)))
        };
        let recorder = NoticingLog {
            log: Arc::clone(&log),
            notices: Arc::clone(&notices),
            store: replica.as_ref().map(|replica| replica.standing()),
        };
        let stores = SharedStores::new(settings, &clock)?;
        let ports = Ports {
            pins: pins.clone().map(noticing),
            accounts: Some(spending.accounts()),
            once_ids: Some(once_ids(settings, &stores, &clock)),
            ..Ports::new(
                Arc::clone(&known) as Arc<dyn gate::ports::Directory>,
                Arc::clone(&spending.limits) as Arc<dyn gate::ports::Budgets>,
                Arc::new(recorder) as Arc<dyn gate::ports::Recorder>,
                Arc::clone(&clock) as Arc<dyn gate::ports::Clock>,
                Arc::clone(&metrics) as Arc<dyn gate::ports::Meter>,
            )
        };
        let gate = Arc::new(Gate::new(ports, rules));
        let stopping = Stopping::new(&settings.state, &settings.stop, &gate, &log, &clock);
        let admin = AdminAccess::new(&settings.admin, &log, &clock);
        let drain = Drain::new();
        let parts = Parts {
            gate: &gate,
            clock: &clock,
            targets: &targets,
            drain: &drain,
            state: &state,
            spending: &spending,
            known: &known,
            log: &log,
            replica: replica.as_ref(),
            stores: &stores,
        };
        let lanes = lanes::ALL.iter().map(|row| (row.open)(settings, &parts));
        let lanes: Result<_, String> = lanes.collect();
        Ok(Gateway {
            lanes: lanes?,
            log,
            replica,
            pins,
            notices,
            drain,
            edge_settings: edge_settings(settings),
            fingerprint_key,
            known,
            gate,
            metrics,
            spending,
            edge: Arc::default(),
            targets,
            clock,
            origins: settings.origins.clone().into(),
            admin: Arc::new(admin),
            stopping: Arc::new(stopping),
        })
    }

    /// The routes of one thread, with upstream connections of its own.
    pub(crate) fn thread(&self) -> Routes {
        let out = self.way_out();
        let lanes = self.lanes.iter().map(|lane| lane.thread(&out));
        let lanes = lanes.collect::<Vec<Rc<dyn OnThread>>>();
        lanes.iter().for_each(|lane| lane.meet(&lanes));
        Routes {
            lanes,
            running: Arc::clone(&self.lanes),
            gate: Arc::clone(&self.gate),
            metrics: Arc::clone(&self.metrics),
            edge: Arc::clone(&self.edge),
            log: Arc::clone(&self.log),
            replica: self.replica.clone(),
            drain: self.drain.clone(),
            origins: Arc::clone(&self.origins),
            stopping: Arc::clone(&self.stopping),
        }
    }

    /// Upstream connections of one thread.
    pub(crate) fn way_out(&self) -> WayOut {
        WayOut::new(&self.targets)
    }

    /// The lane of this type, for who serves one lane and no routes.
    pub(crate) fn lane<L: Running>(&self) -> Option<&L> {
        self.lanes.iter().find_map(|lane| {
            let lane: &dyn Any = &**lane;
            lane.downcast_ref()
        })
    }

    /// Puts other settings in force, as far as that can be done while serving: agents, servers, stops, policies, the
    /// scan, and rates. `started` are those that this gateway was made of. Gives the texts that are in force from now on.
    /// Errors: nothing was changed.
    pub(crate) fn reload(
        &self,
        started: &Settings,
        settings: &Settings,
    ) -> Result<InForce, Vec<Problem>> {
        let rules = rules(settings, started, self.fingerprint_key)?;
        let in_force = InForce::new(&rules.policies, &settings.agents);
        let lanes = lanes::prepare(&self.lanes, settings)?;
        if let Some(pins) = &self.pins {
            let added = pins.add(pinned(settings));
            added.map_err(|error| vec![unread(settings, &error)])?;
        }
        // In the log first: no judgement names a text that does not stand before it.
        in_force
            .keep(&self.log, self.now())
            .map_err(|error| vec![unkept(settings, &error)])?;
        self.metrics.know(names(started, settings));
        // A server is judged before a lane knows it.
        let budgets = self.gate.budgets();
        self.spending.reloaded(&budgets, &rules.budgets, self.now());
        self.gate.replace(rules);
        self.known.configure(agents(settings));
        self.stopping.configured(settings.stop.clone());
        // After what is judged by: a lane asks anew for what agents may see.
        lanes.into_iter().for_each(|take| take());
        Ok(in_force)
    }

    /// Records that the gateway ends by itself, and closes its log.
    pub(crate) fn close(&self) -> Result<(), RecordError> {
        let ended = log::end(&self.log, self.now());
        if let Some(replica) = &self.replica {
            replica.close();
        }
        ended
    }

    /// What the lanes can change while serving. Errors: no lane changed.
    pub(crate) fn reload_lanes(&self, settings: &Settings) -> Result<(), Vec<Problem>> {
        let lanes = lanes::prepare(&self.lanes, settings)?;
        lanes.into_iter().for_each(|take| take());
        Ok(())
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The clocks that the gate goes by.
    pub(crate) fn now(&self) -> base::Now {
        gate::ports::Clock::now(&*self.clock)
    }

    pub(crate) fn edge(&self) -> Arc<EdgeShared> {
        Arc::clone(&self.edge)
    }
}

/// Where it is kept which proofs were used.
fn once_ids(
    settings: &Settings,
    stores: &SharedStores,
    clock: &Arc<Clock>,
) -> Arc<dyn gate::ports::OnceIds> {
    let is_shared = |identity: &Identity| identity.once == OnceBy::Redis;
    match (&stores.all, &settings.identity) {
        (Some(store), Some(identity)) if is_shared(identity) => {
            Arc::new(SharedIds::new(Arc::clone(store), Arc::clone(clock)))
        }
        _ => Arc::new(UsedIds::new(Arc::clone(clock))),
    }
}

/// Connections of one thread to these targets.
pub(crate) fn upstreams(
    targets: &Arc<Targets>,
) -> impl FnOnce(Rc<Thread>, ConnectionSettings) -> Upstreams<Passed> + use<> {
    let targets = Arc::clone(targets);
    move |thread, bounds| Upstreams::new(targets, thread, bounds)
}

/// What comes into force cannot be recorded, so it does not.
fn unkept(settings: &Settings, error: &RecordError) -> Problem {
    Problem {
        file: settings.file.display().to_string(),
        line: 0,
        column: 0,
        key: "log".to_owned(),
        message: format!(
            "the log cannot keep the policies and agents that would be in force: {error}"
        ),
        help: "See /health/ready; nothing comes into force unrecorded.".to_owned(),
    }
}

/// The book of a server's approvals is damaged, so the server cannot be told from another.
fn unread(settings: &Settings, error: &store::pins::PinsError) -> Problem {
    let message = format!("the approvals of a server cannot be read: {error}");
    Problem {
        key: "mcp".to_owned(),
        ..Problem::of_file(
            settings.file.display().to_string(),
            message,
            "See weir pins.",
        )
    }
}

/// What judges, by these settings. `started` are those that the gateway was made of.
fn rules(
    settings: &Settings,
    started: &Settings,
    fingerprint_key: [u8; 32],
) -> Result<Rules, Vec<Problem>> {
    let (policies, engine) = compile::all(settings, fingerprint_key)?;
    let reach = lanes::ALL
        .iter()
        .flat_map(|row| (row.reach)(started, settings));
    Ok(Rules {
        policies,
        engine,
        rates: Rates {
            agent_per_minute: settings.limits.agent_per_minute,
            agent_tokens_per_minute: None,
            address_per_minute: settings.limits.address_per_minute,
            strangers_per_minute: settings.limits.strangers_per_minute,
        },
        budgets: settings.budgets.clone(),
        reach: reach.collect(),
    })
}

/// What policies and metrics know by name.
fn names(started: &Settings, settings: &Settings) -> impl Iterator<Item = base::Name> {
    let reach = lanes::ALL
        .iter()
        .flat_map(|row| (row.reach)(started, settings));
    reach.map(|(name, _)| name)
}

pub(crate) fn edge_settings(settings: &Settings) -> EdgeSettings {
    let limits = &settings.limits;
    EdgeSettings {
        head_ms: limits.head_ms,
        body_ms: limits.body_ms,
        body_bytes_max: limits.body_bytes_max,
        connections_max: limits.connections_max,
        strangers_max: limits.strangers_connections_max,
        drain_ms: limits.drain_ms,
        ..EdgeSettings::default()
    }
}

fn agents(settings: &Settings) -> Vec<(Digest, Arc<identity::Agent>)> {
    let known = settings.agents.iter().flat_map(|agent| {
        let known = Arc::new(identity::Agent {
            name: agent.name.clone(),
            groups: agent.groups.clone(),
            state: agent.state,
            expires_unix_ms: agent.expires_unix_ms,
        });
        agent
            .keys
            .iter()
            .map(move |key: &Digest| (*key, Arc::clone(&known)))
    });
    known.collect()
}

/// Where what the gateway starts with is dialled. The error is for the operator.
fn targets(settings: &Settings) -> Result<Targets, String> {
    let targets = dialled(lanes::ALL.iter().flat_map(|row| (row.endpoints)(settings)))?;
    match &settings.web.ca {
        Some(ca) => targets.trusting(ca.pem.as_bytes()),
        None => Ok(targets),
    }
}

/// Where these names are dialled. The error is for the operator.
fn dialled(endpoints: impl IntoIterator<Item = (base::Name, Endpoint)>) -> Result<Targets, String> {
    Targets::new(endpoints).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

/// What stands at a URL, as `net` is told of it. `ca` are the certificates to trust instead of the public ones.
pub(crate) fn endpoint(url: &Url, ca: Option<&Ca>) -> Endpoint {
    Endpoint {
        scheme: match url.https {
            true => Scheme::Https,
            false => Scheme::Http,
        },
        host: url.host.clone(),
        port: url.port,
        path: url.path.clone(),
        ca: ca.map(|ca| ca.pem.clone().into_bytes()),
        mutual: None,
        http2: false,
        idle_max: base::limit::IDLE_UPSTREAMS_MAX,
        idle_ms: base::limit::IDLE_UPSTREAM_MS_MAX,
    }
}

/// Which definitions of tools are approved, where that is asked for.
fn pins(settings: &Settings, state: &State) -> Result<Option<Arc<store::Pins>>, String> {
    if !settings.pins {
        return Ok(None);
    }
    let pins = state
        .pins(pinned(settings))
        .map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(pins)))
}

/// Whose definitions are pinned: servers of MCP, and agents of others.
fn pinned(settings: &Settings) -> impl Iterator<Item = base::Name> {
    let servers = settings.servers.iter().map(|server| server.name.clone());
    servers.chain(settings.a2a.iter().map(|agent| agent.told.name.clone()))
}

fn log_settings(settings: &Settings) -> LogSettings {
    LogSettings {
        // Empty: its own, or one that the state folder keeps.
        origin: settings.log.origin.clone().unwrap_or_default(),
        durability: settings.log.durability,
        bytes_max: settings.log.bytes_max,
    }
}
