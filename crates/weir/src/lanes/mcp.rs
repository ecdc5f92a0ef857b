//! The row of MCP: servers behind `/mcp/<server>`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use base::{CallId, Name, Refusal, refusal};
use gate::Reach;
use http::Method;
use mcp::ServerState;
use mcp::metrics::{SERVER_ERA, SERVER_STARTING, SERVER_UP, SESSIONS};
use net::{Endpoint, Request, Response, TargetError, Targets};
use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::{Local, OnThread, Opened, Parts, Row, Running, Take};
use crate::assemble::{WayOut, endpoint};
use crate::config::settings::{ChildServer, Server, ServerKind};
use crate::config::{Problem, Settings};
use crate::health::{KnownOfParts, LaneHealth, Readiness};
use crate::reload::named;
use crate::routes::{Answers, Open, Route, new_call_id};

pub(crate) const ROW: Row = Row {
    lane: &mcp::LANE,
    routes: &[route("/mcp"), route("/mcp/*")],
    metrics: &[SESSIONS, SERVER_UP, SERVER_STARTING, SERVER_ERA],
    endpoints,
    reach,
    only_at_start: |_, _| Vec::new(),
    reloaded,
    open,
};

const fn route(template: &'static str) -> Route {
    Route {
        template,
        methods: &[Method::DELETE, Method::GET, Method::POST],
        open: Open::Agents,
        body_bytes_max: None,
        refuse: mcp::refuse,
        answers: Answers::Lane,
    }
}

/// The lane of one process.
pub(crate) struct Mcp {
    serving: Arc<Serving>,
    fixed: Fixed,
    registry: Registry,
    sessions: Gauge,
    server_up: Family<[(&'static str, String); 1], Gauge>,
    server_starting: Family<[(&'static str, String); 1], Gauge>,
    server_era: Family<[(&'static str, String); 2], Gauge>,
}

/// What changes when servers are added, changed or taken out.
struct Serving {
    current: ArcSwap<Generation>,
    /// Told when there is another.
    changed: watch::Sender<()>,
    /// Sessions of servers that changed or are gone, until a thread ends them.
    retired: Mutex<Vec<mcp::Retired>>,
}

/// One state of the settings of servers. A call goes on by that in which it came in.
struct Generation {
    shared: Arc<mcp::Shared>,
    targets: Arc<Targets>,
    servers: ServerSettings,
}

/// What settings say of servers and of the URLs of several.
#[derive(Clone, PartialEq)]
struct ServerSettings {
    servers: Vec<Server>,
    toolsets: Vec<(Name, mcp::Toolset)>,
    search: bool,
}

impl ServerSettings {
    fn of(settings: &Settings) -> ServerSettings {
        ServerSettings {
            servers: settings.servers.clone(),
            toolsets: settings.toolsets.clone(),
            search: settings.search,
        }
    }
}

/// What the lane is told at the start alone.
struct Fixed {
    origins: Vec<String>,
    answer_ms: u64,
    answer_bytes_max: usize,
    session_key: [u8; 32],
}

impl Mcp {
    /// The lane on one thread, as the wrapper of one server uses it.
    pub(crate) fn on_thread(&self, out: &WayOut) -> mcp::McpLane {
        self.serving.current.load().lane(out)
    }
}

impl Generation {
    fn lane(&self, out: &WayOut) -> mcp::McpLane {
        let upstreams = out.to(&self.targets).upstreams();
        mcp::McpLane::new(Arc::clone(&self.shared), upstreams)
    }

    /// Whether a server of this name is not the same in other settings.
    fn is_changed(&self, name: &Name, servers: &[Server]) -> bool {
        let of = |servers: &[Server]| servers.iter().position(|server| server.name == *name);
        let (old, new) = (of(&self.servers.servers), of(servers));
        old.map(|at| &self.servers.servers[at]) != new.map(|at| &servers[at])
    }
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let key = parts.state.key("session.key");
    let fixed = Fixed {
        origins: settings.origins.clone(),
        answer_ms: settings.limits.answer_ms,
        answer_bytes_max: settings.limits.answer_bytes_max,
        session_key: key.map_err(|error| error.to_string())?,
    };
    let servers = ServerSettings::of(settings);
    let told = lane_settings(&servers, &fixed);
    let (mut registry, sessions) = (Registry::default(), Gauge::default());
    let (server_up, server_era) = (Family::default(), Family::default());
    let server_starting = Family::default();
    registry.register(SERVER_ERA.name, SERVER_ERA.help, server_era.clone());
    registry.register(SESSIONS.name, SESSIONS.help, sessions.clone());
    registry.register(SERVER_UP.name, SERVER_UP.help, server_up.clone());
    let starting = SERVER_STARTING;
    registry.register(starting.name, starting.help, server_starting.clone());
    let generation = Generation {
        shared: Arc::new(mcp::Shared::new(told, Arc::clone(parts.gate))),
        targets: Arc::clone(parts.targets),
        servers,
    };
    Ok(Arc::new(Mcp {
        serving: Arc::new(Serving {
            current: ArcSwap::from_pointee(generation),
            changed: watch::Sender::default(),
            retired: Mutex::default(),
        }),
        fixed,
        registry,
        sessions,
        server_up,
        server_starting,
        server_era,
    }))
}

impl Running for Mcp {
    fn say_started(&self, settings: &Settings, url: Option<&str>) {
        let Some(gateway) = url else { return };
        for server in &settings.servers {
            let url = format!("{gateway}/mcp/{}", server.name);
            tracing::info!(server = %server.name, url, "server");
        }
    }

    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread> {
        let generation = self.serving.current.load_full();
        let lane = Rc::new(generation.lane(out));
        Rc::new(McpThread {
            serving: Arc::clone(&self.serving),
            out: out.clone(),
            held: RefCell::new((generation, lane)),
        })
    }

    /// A server that does not work takes none of the others away; where none works, nothing can be called.
    fn health(&self) -> Option<LaneHealth> {
        let current = self.serving.current.load();
        let (mut parts, mut work, mut starting) = (Vec::new(), 0, 0);
        for (name, health) in current.shared.health() {
            let word = match health {
                ServerState::Works => "works",
                ServerState::Starting => "starting",
                ServerState::Down(_) => "down",
            };
            work += usize::from(health == ServerState::Works);
            starting += usize::from(health == ServerState::Starting);
            parts.push((name.as_str().to_owned(), word));
        }
        let readiness = match work {
            all if all == parts.len() => Readiness::Ready,
            1.. => Readiness::Degraded,
            _ if starting > 0 => Readiness::Starting,
            _ => Readiness::NotReady,
        };
        let revisions = current.shared.revisions();
        let revisions = revisions.map(|(name, dates)| (name.as_str().to_owned(), dates));
        Some(LaneHealth {
            title: "servers",
            parts,
            known: Some(KnownOfParts {
                title: "revisions",
                words: revisions.collect(),
            }),
            readiness,
        })
    }

    fn show_metrics(&self, page: &mut String) {
        let current = self.serving.current.load();
        self.sessions.set(current.shared.sessions() as i64);
        // Servers that were taken out are not shown as what they were last.
        self.server_up.clear();
        self.server_starting.clear();
        for (name, health) in current.shared.health() {
            let server = [("server", name.as_str().to_owned())];
            let is = |state| i64::from(health == state);
            let up = self.server_up.get_or_create(&server);
            up.set(is(ServerState::Works));
            let starting = self.server_starting.get_or_create(&server);
            starting.set(is(ServerState::Starting));
        }
        self.server_era.clear();
        for (name, dates) in current.shared.revisions() {
            for date in dates {
                let server = ("server", name.as_str().to_owned());
                let spoken = [server, ("revision", date.to_owned())];
                self.server_era.get_or_create(&spoken).set(1);
            }
        }
        text::encode_registry(page, &self.registry).expect("a string takes all that is written");
    }

    /// Servers that were added, changed or taken out. Calls under way go on by the settings that passed them; sessions of
    /// servers that are not the same end, and all others stay.
    fn prepare(&self, settings: &Settings) -> Result<Take<'_>, Vec<Problem>> {
        let current = self.serving.current.load_full();
        let servers = ServerSettings::of(settings);
        if current.servers == servers {
            return Ok(Box::new(move || current.shared.list_again()));
        }
        let targets = current.targets.next(endpoints(settings));
        let targets = targets.map_err(|errors| {
            let problem = |error: TargetError| Problem {
                key: format!("mcp.{}", error.name),
                ..Problem::of_file(settings.file.display().to_string(), error.problem, "")
            };
            errors.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        let targets = Arc::new(targets);
        Ok(Box::new(move || {
            self.take(&current, servers, targets);
            current.shared.list_again();
        }))
    }
}

impl Mcp {
    /// Puts other servers in force.
    fn take(&self, old: &Generation, servers: ServerSettings, targets: Arc<Targets>) {
        let is_changed = |name: &Name| old.is_changed(name, &servers.servers);
        let told = lane_settings(&servers, &self.fixed);
        let shared = Arc::new(old.shared.next(told, is_changed));
        let retired = old.shared.retire(is_changed);
        say_changes(&old.servers.servers, &servers.servers);
        self.serving.current.store(Arc::new(Generation {
            shared,
            targets,
            servers,
        }));
        let waiting = &self.serving.retired;
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(retired);
        self.serving.changed.send_replace(());
    }
}

/// Tells the operator which servers came, changed and went.
fn say_changes(old: &[Server], new: &[Server]) {
    let find = |servers: &[Server], name: &Name| servers.iter().position(|of| of.name == *name);
    for server in new {
        match find(old, &server.name) {
            None => tracing::info!(server = %server.name, "server added"),
            Some(at) if old[at] != *server => {
                tracing::info!(server = %server.name, "server changed");
            }
            Some(_) => {}
        }
    }
    for server in old {
        if find(new, &server.name).is_none() {
            tracing::info!(server = %server.name, "server taken out");
        }
    }
}

struct McpThread {
    serving: Arc<Serving>,
    out: WayOut,
    /// The lane by the settings of the last call, as long as these are in force.
    held: RefCell<(Arc<Generation>, Rc<mcp::McpLane>)>,
}

impl McpThread {
    /// The lane by the settings that are in force now.
    fn lane(&self) -> Rc<mcp::McpLane> {
        let current = self.serving.current.load();
        let mut held = self.held.borrow_mut();
        if !Arc::ptr_eq(&held.0, &current) {
            let lane = Rc::new(current.lane(&self.out));
            *held = (Arc::clone(&current), lane);
        }
        Rc::clone(&held.1)
    }

    /// Hears what servers tell without being asked, by the settings that are in force.
    async fn keep_feeds(self: Rc<Self>) {
        let mut changed = self.serving.changed.subscribe();
        loop {
            let lane = self.lane();
            tokio::select! {
                () = lane.keep_feeds() => {}
                told = changed.changed() => match told {
                    Ok(()) => {}
                    Err(_closed) => return,
                },
            }
        }
    }

    /// Watches the servers, and begins anew when others are in force.
    async fn watch(self: Rc<Self>) {
        let mut changed = self.serving.changed.subscribe();
        loop {
            let generation = self.serving.current.load_full();
            // Tasks and connections of their own end with this.
            let watching = LocalSet::new();
            let watched = watching.run_until(async {
                let out = WayOut::new(&generation.targets);
                mcp::probe(&generation.lane(&out), new_call_id);
                changed.changed().await
            });
            if watched.await.is_err() {
                return;
            }
            drop(watching);
            let retired = &self.serving.retired;
            let retired =
                std::mem::take(&mut *retired.lock().unwrap_or_else(PoisonError::into_inner));
            for sessions in retired {
                tokio::task::spawn_local(sessions.end());
            }
        }
    }
}

impl OnThread for McpThread {
    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        if rest.is_empty() {
            let lane = self.lane();
            return Box::pin(async move { lane.serve_set(None, request, id).await });
        }
        // Some clients write the @ of a path as %40 (RFC 3986, section 2.1).
        let set = rest.strip_prefix('@').or_else(|| rest.strip_prefix("%40"));
        let Some(name) = Name::new(set.unwrap_or(rest)) else {
            let refusal = Refusal::new(refusal::NOT_FOUND, "that cannot be a server's name");
            return Box::pin(std::future::ready(mcp::refuse(&refusal, id)));
        };
        let lane = self.lane();
        match set {
            Some(_) => Box::pin(async move { lane.serve_set(Some(name), request, id).await }),
            None => Box::pin(async move { lane.serve(name, request, id).await }),
        }
    }

    fn serve(self: Rc<Self>, first: bool) -> Local<'static, io::Result<()>> {
        if first {
            tokio::task::spawn_local(Rc::clone(&self).keep_feeds());
            tokio::task::spawn_local(self.watch());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

fn endpoints(settings: &Settings) -> Vec<(Name, Endpoint)> {
    let servers = settings.servers.iter();
    let dialled = servers.filter_map(|server| match &server.kind {
        ServerKind::Http(http) => {
            let endpoint = Endpoint {
                http2: http.http2,
                ..endpoint(&http.url, http.ca.as_ref())
            };
            Some((server.name.clone(), endpoint))
        }
        ServerKind::Child(_) => None,
    });
    dialled.collect()
}

fn reach(_: &Settings, settings: &Settings) -> Vec<(Name, Reach)> {
    let servers = settings.servers.iter();
    servers
        .map(|server| (server.name.clone(), server.reach()))
        .collect()
}

fn lane_settings(settings: &ServerSettings, fixed: &Fixed) -> mcp::Settings {
    let servers: HashMap<_, _> = settings
        .servers
        .iter()
        .map(|server| (server.name.clone(), lane_server(server)))
        .collect();
    mcp::Settings {
        servers,
        origins: fixed.origins.clone(),
        answer_ms: fixed.answer_ms,
        answer_bytes_max: fixed.answer_bytes_max,
        toolsets: settings.toolsets.iter().cloned().collect(),
        search: settings.search,
        new_id: new_call_id,
        session_key: fixed.session_key,
    }
}

fn lane_server(server: &Server) -> mcp::Server {
    let kind = match &server.kind {
        ServerKind::Http(http) => mcp::ServerKind::Url {
            token: http.token.clone(),
        },
        ServerKind::Child(child) => mcp::ServerKind::Child(command(&server.name, child)),
    };
    mcp::Server {
        name: server.name.clone(),
        kind,
        sessions_max: server.sessions_max,
        agent_sessions_max: server.agent_sessions_max,
        session_idle_ms: server.session_idle_ms,
        tells_agent: server.tells_agent,
        list_ms: server.list_ms,
        names: server.names.clone(),
        items: server.items.clone(),
    }
}

fn command(name: &Name, child: &ChildServer) -> net::children::Command {
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

/// The servers that differ, each with its keys where it is the same kind of server.
fn reloaded(old: &Settings, new: &Settings) -> Vec<String> {
    let mut keys = reloaded_servers(&old.servers, &new.servers);
    if old.toolsets != new.toolsets {
        keys.push("toolsets".to_owned());
    }
    if old.search != new.search {
        keys.push("tools.search".to_owned());
    }
    keys
}

fn reloaded_servers(old: &[Server], new: &[Server]) -> Vec<String> {
    fn all(servers: &[Server]) -> impl Iterator<Item = (&Name, &Server)> {
        servers.iter().map(|server| (&server.name, server))
    }
    let one = |servers: &'_ [Server], at: &str| {
        let mut servers = servers.iter();
        servers
            .find(|server| at == format!("mcp.{}", server.name))
            .cloned()
    };
    let mut keys = Vec::new();
    for at in named("mcp", all(old), all(new)) {
        match one(old, &at).zip(one(new, &at)) {
            Some((old, new)) => keys.extend(of_server(&at, &old, &new)),
            None => keys.push(at),
        }
    }
    keys
}

fn of_server(at: &str, old: &Server, new: &Server) -> Vec<String> {
    let mut differ = vec![
        ("tells_agent", old.tells_agent != new.tells_agent),
        ("list_ms", old.list_ms != new.list_ms),
        ("names", old.names != new.names),
        ("items", old.items != new.items),
        ("sessions_max", old.sessions_max != new.sessions_max),
        (
            "agent_sessions_max",
            old.agent_sessions_max != new.agent_sessions_max,
        ),
        (
            "session_idle_ms",
            old.session_idle_ms != new.session_idle_ms,
        ),
    ];
    match (&old.kind, &new.kind) {
        (ServerKind::Child(old), ServerKind::Child(new)) => differ.extend([
            ("command", old.command != new.command),
            ("env", old.env != new.env),
            ("dir", old.dir != new.dir),
        ]),
        (ServerKind::Http(old), ServerKind::Http(new)) => differ.extend([
            ("url", old.url != new.url),
            ("token", old.token != new.token),
            ("ca", old.ca != new.ca),
            ("addresses", old.addresses != new.addresses),
        ]),
        (ServerKind::Child(_), ServerKind::Http(_)) => differ.push(("url", true)),
        (ServerKind::Http(_), ServerKind::Child(_)) => differ.push(("command", true)),
    }
    let differ = differ.into_iter().filter(|(_, differs)| *differs);
    differ.map(|(key, _)| format!("{at}.{key}")).collect()
}
