//! Where things meet: from settings to the parts of a running gateway.
//!
//! This file alone names `Upstreams<Passed>`: whatever goes out of this process goes out by those, for a
//! call that the gate passed.

mod log;
pub(crate) mod probe;
pub(crate) mod relay;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::Digest;
use gate::ports::{Ports, RecordError};
use gate::{Gate, Passed, Rates, Rules};
use identity::AgentState;
use net::h1::Wires;
use net::upstream::Scheme;
use net::{Drain, EdgeSettings, EdgeShared, Endpoint, Targets, Upstreams};
use store::{Log, LogSettings, State};

use crate::config::settings::{ChildServer, HttpServer, ServerKind, Settings};
use crate::config::{Problem, compile};
use crate::metrics::Metrics;
use crate::ports::{Clock, Known};
use crate::routes::Routes;

pub(crate) use log::InForce;

/// What all threads of a gateway share.
pub(crate) struct Gateway {
    pub log: Arc<Log>,
    pub pins: Option<Arc<store::Pins>>,
    pub drain: Drain,
    pub edge_settings: EdgeSettings,
    fingerprint_key: [u8; 32],
    known: Arc<Known>,
    gate: Arc<Gate>,
    pub metrics: Arc<Metrics>,
    edge: Arc<EdgeShared>,
    mcp: Arc<mcp::Shared>,
    targets: Arc<Targets>,
    clock: Arc<Clock>,
    pub sides: relay::Sides,
    outbound_edge: Arc<EdgeShared>,
    inbound_edge: Arc<EdgeShared>,
}

impl Gateway {
    /// Makes everything that can fail before the first call, for one of several gateways that share a state: each
    /// writes the first of `logs` logs that no other writes. The error is for the operator.
    pub(crate) fn with_logs(settings: &Settings, logs: usize) -> Result<Gateway, String> {
        let targets = Arc::new(targets(settings)?);
        let failed = |error: store::StateError| error.to_string();
        let state = State::open(&settings.state).map_err(failed)?;
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
        log::begin(&log, settings, &in_force, gate::ports::Clock::now(&*clock))?;
        let metrics = Arc::new(Metrics::new(names(settings)));
        let pins = pins(settings, &state)?;
        let known = Arc::new(Known::new(agents(settings)));
        let ports = Ports {
            pins: pins.clone().map(|pins| pins as Arc<dyn gate::ports::Pins>),
            ..Ports::new(
                Arc::clone(&known) as Arc<dyn gate::ports::Directory>,
                Arc::new(store::Limits::new()),
                Arc::clone(&log) as Arc<dyn gate::ports::Recorder>,
                Arc::clone(&clock) as Arc<dyn gate::ports::Clock>,
                Arc::clone(&metrics) as Arc<dyn gate::ports::Meter>,
            )
        };
        let gate = Arc::new(Gate::new(ports, rules));
        let session_key = state.key("session.key").map_err(failed)?;
        let mcp = mcp::Shared::new(mcp_settings(settings, session_key), Arc::clone(&gate));
        let sides = relays(settings, &gate, &clock)?;
        Ok(Gateway {
            log,
            pins,
            drain: Drain::new(),
            edge_settings: edge_settings(settings),
            fingerprint_key,
            known,
            gate,
            metrics,
            edge: Arc::default(),
            mcp: Arc::new(mcp),
            targets,
            clock,
            sides,
            outbound_edge: Arc::default(),
            inbound_edge: Arc::default(),
        })
    }

    /// The routes of one thread, with upstream connections of its own.
    pub(crate) fn thread(&self) -> Routes {
        let upstreams: Rc<Upstreams<Passed>> = Rc::new(Upstreams::new(Arc::clone(&self.targets)));
        Routes {
            mcp: mcp::McpLane::new(Arc::clone(&self.mcp), upstreams),
            mcp_shared: Arc::clone(&self.mcp),
            gate: Arc::clone(&self.gate),
            metrics: Arc::clone(&self.metrics),
            edge: Arc::clone(&self.edge),
            log: Arc::clone(&self.log),
            drain: self.drain.clone(),
            relay: self.sides.clone(),
        }
    }

    /// Puts other settings in force, as far as that can be done while serving: agents, policies, the scan,
    /// and rates. `started` are those that this gateway was made of. Gives the texts that are in force from now on.
    /// Errors: nothing was changed.
    pub(crate) fn reload(
        &self,
        started: &Settings,
        settings: &Settings,
    ) -> Result<InForce, Vec<Problem>> {
        let rules = rules(settings, started, self.fingerprint_key)?;
        let in_force = InForce::new(&rules.policies, &settings.agents);
        // In the log first: no judgement names a text that does not stand before it.
        in_force
            .keep(&self.log, self.now())
            .map_err(|error| vec![unkept(settings, &error)])?;
        self.reload_relay(settings)?;
        self.gate.replace(rules);
        self.known.replace(agents(settings));
        Ok(in_force)
    }

    /// Records that the gateway ends by itself, and closes its log.
    pub(crate) fn close(&self) -> Result<(), RecordError> {
        log::end(&self.log, self.now())
    }

    /// Keys, peers, routes and callers of the relay. Sides and places are those that it started with.
    pub(crate) fn reload_relay(&self, settings: &Settings) -> Result<(), Vec<Problem>> {
        let problem = |message: String| {
            vec![Problem {
                file: settings.file.display().to_string(),
                line: 0,
                column: 0,
                key: "relay".to_owned(),
                message,
                help: "What the relay listens on and where it goes takes a restart.".to_owned(),
            }]
        };
        let now = gate::ports::Clock::now(&*self.clock);
        if let (Some(running), Some(side)) = (&self.sides.outbound, &settings.relay.outbound) {
            let told = relay::outbound(side, settings, now.unix_ms);
            let renewals = relay::renewals(side, &self.targets).map_err(|peer| {
                problem(format!("{peer} was not spoken to by mtls when this began"))
            })?;
            running
                .reload(told)
                .map_err(|error| problem(error.to_string()))?;
            renewals.iter().for_each(relay::Renewal::apply);
        }
        if let (Some(running), Some(side)) = (&self.sides.inbound, &settings.relay.inbound) {
            running
                .reload(relay::inbound(side, settings))
                .map_err(|error| problem(error.to_string()))?;
        }
        Ok(())
    }

    /// Connections of one thread, for one side of the relay.
    pub(crate) fn wires(&self) -> impl FnOnce(Rc<net::h1::Thread>) -> Wires<Passed> + use<> {
        wires(&self.targets)
    }

    pub(crate) fn outbound_edge(&self) -> Arc<EdgeShared> {
        Arc::clone(&self.outbound_edge)
    }

    pub(crate) fn inbound_edge(&self) -> Arc<EdgeShared> {
        Arc::clone(&self.inbound_edge)
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

/// Connections of one thread to these targets.
fn wires(targets: &Arc<Targets>) -> impl FnOnce(Rc<net::h1::Thread>) -> Wires<Passed> + use<> {
    let targets = Arc::clone(targets);
    move |thread| Wires::new(targets, thread)
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

/// What judges, by these settings. The servers are those that the gateway started with.
fn rules(
    settings: &Settings,
    started: &Settings,
    fingerprint_key: [u8; 32],
) -> Result<Rules, Vec<Problem>> {
    let (policies, engine) = compile::all(settings, fingerprint_key)?;
    let servers = started.servers.iter();
    Ok(Rules {
        policies,
        engine,
        rates: Rates {
            agent_per_minute: settings.limits.agent_per_minute,
            agent_tokens_per_minute: None,
            address_per_minute: settings.limits.address_per_minute,
            strangers_per_minute: settings.limits.strangers_per_minute,
        },
        reach: servers
            .map(|s| (s.name.clone(), s.reach()))
            .chain(started.relay.places().map(|p| (p.name.clone(), p.reach())))
            .collect(),
    })
}

/// What policies and metrics know by name.
fn names(settings: &Settings) -> impl Iterator<Item = base::Name> + '_ {
    let servers = settings.servers.iter().map(|server| &server.name);
    let places = settings.relay.places().map(|place| &place.name);
    servers.chain(places).cloned()
}

/// The sides of the relay that the configuration asks for.
fn relays(
    settings: &Settings,
    gate: &Arc<Gate>,
    clock: &Arc<Clock>,
) -> Result<relay::Sides, String> {
    let now = gate::ports::Clock::now(&**clock);
    let clock = || Arc::clone(clock) as Arc<dyn gate::ports::Clock>;
    let outbound = settings.relay.outbound.as_ref().map(|side| {
        let told = relay::outbound(side, settings, now.unix_ms);
        ::relay::Outbound::new(told, Arc::clone(gate), clock())
    });
    let inbound = settings.relay.inbound.as_ref().map(|side| {
        let told = relay::inbound(side, settings);
        ::relay::Inbound::new(told, Arc::clone(gate), clock())
    });
    let failed = |side: &str, error: ::relay::Problem| format!("relay.{side}: {error}");
    let outbound = outbound
        .transpose()
        .map_err(|error| failed("outbound", error))?;
    let inbound = inbound
        .transpose()
        .map_err(|error| failed("inbound", error))?;
    Ok(relay::Sides { outbound, inbound })
}

fn edge_settings(settings: &Settings) -> EdgeSettings {
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

fn agents(settings: &Settings) -> store::Agents {
    let known = settings.agents.iter().flat_map(|agent| {
        let known = Arc::new(identity::Agent {
            name: agent.name.clone(),
            groups: agent.groups.clone(),
            state: AgentState::Active,
            expires_unix_ms: agent.expires_unix_ms,
        });
        agent
            .keys
            .iter()
            .map(move |key: &Digest| (*key, Arc::clone(&known)))
    });
    store::Agents::new(known)
}

fn targets(settings: &Settings) -> Result<Targets, String> {
    let endpoints = settings
        .servers
        .iter()
        .filter_map(|server| match &server.kind {
            ServerKind::Http(http) => Some((server.name.clone(), endpoint(http))),
            ServerKind::Child(_) => None,
        });
    dialled(endpoints.chain(relay::endpoints(&settings.relay)))
}

/// Where these names are dialled. The error is for the operator.
fn dialled(endpoints: impl IntoIterator<Item = (base::Name, Endpoint)>) -> Result<Targets, String> {
    Targets::new(endpoints).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

fn endpoint(http: &HttpServer) -> Endpoint {
    Endpoint {
        scheme: if http.url.https {
            Scheme::Https
        } else {
            Scheme::Http
        },
        host: http.url.host.clone(),
        port: http.url.port,
        path: http.url.path.clone(),
        ca: http.ca.as_ref().map(|ca| ca.pem.clone().into_bytes()),
        mutual: None,
        idle_max: base::limit::IDLE_UPSTREAMS_MAX,
        idle_ms: base::limit::IDLE_UPSTREAM_MS_MAX,
    }
}

fn mcp_settings(settings: &Settings, session_key: [u8; 32]) -> mcp::Settings {
    let servers: HashMap<_, _> = settings
        .servers
        .iter()
        .map(|server| {
            let kind = match &server.kind {
                ServerKind::Http(http) => mcp::ServerKind::Url {
                    token: http.token.clone(),
                },
                ServerKind::Child(child) => mcp::ServerKind::Child(command(&server.name, child)),
            };
            let server = mcp::Server {
                name: server.name.clone(),
                kind,
                sessions_max: server.sessions_max,
                agent_sessions_max: server.agent_sessions_max,
                session_idle_ms: server.session_idle_ms,
            };
            (server.name.clone(), server)
        })
        .collect();
    mcp::Settings {
        servers,
        origins: settings.origins.clone(),
        answer_ms: settings.limits.answer_ms,
        answer_bytes_max: settings.limits.answer_bytes_max,
        session_key,
    }
}

fn command(name: &base::Name, child: &ChildServer) -> net::children::Command {
    let (program, args) = child
        .command
        .split_first()
        .expect("a command names its program");
    net::children::Command {
        program: program.clone(),
        args: args.to_vec(),
        env: child
            .env
            .iter()
            .map(|env| (env.name.clone(), env.value.clone()))
            .collect(),
        dir: Some(child.dir.clone()),
        name: name.clone(),
        errors: child.errors,
        guard: Some(net::children::OWN_GUARD.into()),
    }
}

/// Which definitions of tools are approved, where that is asked for.
fn pins(settings: &Settings, state: &State) -> Result<Option<Arc<store::Pins>>, String> {
    if !settings.pins {
        return Ok(None);
    }
    let servers = settings.servers.iter().map(|server| server.name.clone());
    let pins = state.pins(servers).map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(pins)))
}

fn log_settings(settings: &Settings) -> LogSettings {
    LogSettings {
        // Empty: its own, or one that the state folder keeps.
        origin: settings.log.origin.clone().unwrap_or_default(),
        durability: settings.log.durability,
        bytes_max: settings.log.bytes_max,
    }
}
