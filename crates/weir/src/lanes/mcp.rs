//! The row of MCP: servers behind `/mcp/<server>`.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use base::{CallId, Name, Refusal, refusal};
use gate::Reach;
use http::Method;
use mcp::metrics::{SERVER_ERA, SERVER_UP, SESSIONS};
use net::{Endpoint, Request, Response};
use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Local, OnThread, Opened, Parts, Row, Running};
use crate::assemble::{WayOut, endpoint};
use crate::config::Settings;
use crate::config::settings::{ChildServer, Server, ServerKind};
use crate::health::{KnownOfParts, LaneHealth, Readiness};
use crate::reload::named;
use crate::routes::{Answers, Open, Route, new_call_id};

pub(crate) const ROW: Row = Row {
    lane: &mcp::LANE,
    routes: &[route("/mcp"), route("/mcp/*")],
    metrics: &[SESSIONS, SERVER_UP, SERVER_ERA],
    endpoints,
    reach,
    only_at_start,
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
    shared: Arc<mcp::Shared>,
    registry: Registry,
    sessions: Gauge,
    server_up: Family<[(&'static str, String); 1], Gauge>,
    server_era: Family<[(&'static str, String); 2], Gauge>,
}

impl Mcp {
    /// The lane on one thread, as the wrapper of one server uses it.
    pub(crate) fn on_thread(&self, out: &WayOut) -> mcp::McpLane {
        mcp::McpLane::new(Arc::clone(&self.shared), out.upstreams())
    }
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let key = parts.state.key("session.key");
    let key = key.map_err(|error| error.to_string())?;
    let told = lane_settings(settings, key);
    let (mut registry, sessions) = (Registry::default(), Gauge::default());
    let (server_up, server_era) = (Family::default(), Family::default());
    registry.register(SESSIONS.name, SESSIONS.help, sessions.clone());
    registry.register(SERVER_UP.name, SERVER_UP.help, server_up.clone());
    registry.register(SERVER_ERA.name, SERVER_ERA.help, server_era.clone());
    Ok(Arc::new(Mcp {
        shared: Arc::new(mcp::Shared::new(told, Arc::clone(parts.gate))),
        registry,
        sessions,
        server_up,
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
        Rc::new(McpThread(self.on_thread(out)))
    }

    /// A server that does not work takes none of the others away; where none works, nothing can be called.
    fn health(&self) -> Option<LaneHealth> {
        let (mut parts, mut down) = (Vec::new(), 0);
        for (name, health) in self.shared.health() {
            down += usize::from(health.is_err());
            let word = if health.is_ok() { "works" } else { "down" };
            parts.push((name.as_str().to_owned(), word));
        }
        let readiness = match down {
            0 => Readiness::Ready,
            down if down == parts.len() => Readiness::NotReady,
            _ => Readiness::Degraded,
        };
        let revisions = self.shared.revisions();
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
        self.sessions.set(self.shared.sessions() as i64);
        for (name, health) in self.shared.health() {
            let up = [("server", name.as_str().to_owned())];
            let up = self.server_up.get_or_create(&up);
            up.set(i64::from(health.is_ok()));
        }
        self.server_era.clear();
        for (name, dates) in self.shared.revisions() {
            for date in dates {
                let server = ("server", name.as_str().to_owned());
                let spoken = [server, ("revision", date.to_owned())];
                self.server_era.get_or_create(&spoken).set(1);
            }
        }
        text::encode_registry(page, &self.registry).expect("a string takes all that is written");
    }
}

struct McpThread(mcp::McpLane);

impl OnThread for McpThread {
    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        if rest.is_empty() {
            return Box::pin(self.0.serve_set(None, request, id));
        }
        // Some clients write the @ of a path as %40 (RFC 3986, section 2.1).
        let set = rest.strip_prefix('@').or_else(|| rest.strip_prefix("%40"));
        let Some(name) = Name::new(set.unwrap_or(rest)) else {
            let refusal = Refusal::new(refusal::NOT_FOUND, "that cannot be a server's name");
            return Box::pin(std::future::ready(mcp::refuse(&refusal, id)));
        };
        match set {
            Some(_) => Box::pin(self.0.serve_set(Some(name), request, id)),
            None => Box::pin(self.0.serve(name, request, id)),
        }
    }

    fn serve(self: Rc<Self>, first: bool) -> Local<'static, io::Result<()>> {
        if first {
            mcp::probe(&self.0, new_call_id);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

fn endpoints(settings: &Settings) -> Vec<(Name, Endpoint)> {
    let servers = settings.servers.iter();
    let dialled = servers.filter_map(|server| match &server.kind {
        ServerKind::Http(http) => {
            Some((server.name.clone(), endpoint(&http.url, http.ca.as_ref())))
        }
        ServerKind::Child(_) => None,
    });
    dialled.collect()
}

fn reach(settings: &Settings) -> Vec<(Name, Reach)> {
    let servers = settings.servers.iter();
    servers
        .map(|server| (server.name.clone(), server.reach()))
        .collect()
}

fn lane_settings(settings: &Settings, session_key: [u8; 32]) -> mcp::Settings {
    let servers: HashMap<_, _> = settings
        .servers
        .iter()
        .map(|server| (server.name.clone(), lane_server(server)))
        .collect();
    mcp::Settings {
        servers,
        origins: settings.origins.clone(),
        answer_ms: settings.limits.answer_ms,
        answer_bytes_max: settings.limits.answer_bytes_max,
        toolsets: settings.toolsets.iter().cloned().collect(),
        search: settings.search,
        new_id: new_call_id,
        session_key,
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
fn only_at_start(old: &Settings, new: &Settings) -> Vec<String> {
    fn all(settings: &Settings) -> impl Iterator<Item = (&Name, &Server)> {
        settings.servers.iter().map(|server| (&server.name, server))
    }
    let one = |settings: &'_ Settings, at: &str| {
        let mut servers = settings.servers.iter();
        servers
            .find(|server| at == format!("mcp.{}", server.name))
            .cloned()
    };
    let mut keys = Vec::new();
    if old.toolsets != new.toolsets {
        keys.push("toolsets".to_owned());
    }
    if old.search != new.search {
        keys.push("tools.search".to_owned());
    }
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
