//! The lane's state: what is configured, and what lives on one thread or is shared by all.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Name, Secret};
use gate::{Gate, Passed};
use net::Upstreams;
use net::children::Command;
use tokio::time::Instant;

use crate::calls::Calls;
use crate::declared::Declared;
use crate::hub::HubState;
use crate::probe::{Health, ServerState};
use crate::token::Tokens;
use crate::upstream::find::{Spoken, Transport};
use crate::upstream::{Link, Links};
use crate::waiting::gone;

/// How often sessions that are to end are looked at, in milliseconds.
const RETIRED_LOOK_MS: u64 = 50;

/// The variable by which a child is told for which agent it was started.
pub const AGENT: &str = "WEIR_AGENT";

/// One MCP server, as configured.
pub struct Server {
    pub name: Name,
    pub kind: ServerKind,
    /// Most sessions that it may have at once, where weir keeps them (stdio).
    pub sessions_max: usize,
    /// Most of them that one agent may have.
    pub agent_sessions_max: usize,
    /// How long such a session may be unused, in milliseconds.
    pub session_idle_ms: u64,
    /// Whether a child is told by [`AGENT`] which agent it is started for.
    pub tells_agent: bool,
    /// How long a list is kept of which the server does not say it, in milliseconds; at the URL of many servers.
    pub list_ms: u64,
    /// What its items are called at that URL, by the server's own names.
    pub names: HashMap<String, String>,
    /// What is said of its items there, by the same.
    pub items: HashMap<String, ItemWords>,
}

impl Server {
    /// What a child of the server is started by for an agent. The agent is the one that the gate verified: no message of
    /// a client has a part in it.
    pub(crate) fn command_for(
        &self,
        command: &net::children::Command,
        agent: &Name,
    ) -> net::children::Command {
        let mut command = command.clone();
        if self.tells_agent {
            command.env.retain(|(name, _)| name != AGENT);
            let told = base::Secret::new(agent.as_str().to_owned());
            command.env.push((AGENT.to_owned(), told));
        }
        command
    }
}

/// What the configuration says of an item in place of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemWords {
    pub description: Option<String>,
    /// Hints of a tool, such as `readOnlyHint`.
    pub annotations: BTreeMap<String, bool>,
}

/// A chosen set of servers and their items, behind a URL of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolset {
    pub servers: Vec<Name>,
    /// Its items as `server/item`, where `*` stands for any text; all where there is nothing.
    pub tools: Option<Vec<String>>,
    /// Its tools are found by search.
    pub search: bool,
}

impl Toolset {
    pub(crate) fn has(&self, server: &Name) -> bool {
        self.servers.contains(server)
    }

    pub(crate) fn has_item(&self, server: &Name, item: &str) -> bool {
        let Some(tools) = &self.tools else {
            return true;
        };
        let whole = format!("{server}/{item}");
        tools.iter().any(|pattern| is_like(&whole, pattern))
    }
}

/// Whether a text is like a pattern, in which `*` stands for any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(mut left) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

pub enum ServerKind {
    /// Streamable HTTP. The URL stands in `net`'s table of targets under the same name.
    Url {
        /// Sent as `Authorization: Bearer …`; what the agent sent never is.
        token: Option<Secret>,
    },
    /// A child process that speaks MCP over its standard input and output.
    Child(Command),
}

/// What the lane is told.
pub struct Settings {
    pub servers: HashMap<Name, Server>,
    /// Origins of browsers that may call, besides the gateway's own address.
    pub origins: Vec<String>,
    /// How long a server may be silent during a call, in milliseconds.
    pub answer_ms: u64,
    /// Largest message of a server, in bytes.
    pub answer_bytes_max: usize,
    /// The sets of servers that have a URL of their own, `/mcp/@NAME`.
    pub toolsets: HashMap<Name, Toolset>,
    /// At the URL of all servers, tools are found by search.
    pub search: bool,
    /// Gives each call its id.
    pub new_id: fn() -> CallId,
    /// Signs session ids, so that one agent cannot use another's. Secret.
    pub session_key: [u8; 32],
}

/// What all threads share.
pub struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) sessions: Arc<Links>,
    /// Calls under way with servers over HTTP.
    pub(crate) calls: Arc<Calls>,
    /// What the schemas of tools declare.
    pub(crate) declared: Arc<Declared>,
    /// What is kept for the clients of many servers.
    pub(crate) hub: Arc<HubState>,
    pub(crate) health: HashMap<Name, Arc<Health>>,
}

impl Shared {
    pub fn new(settings: Settings, gate: Arc<Gate>) -> Shared {
        let health = settings
            .servers
            .keys()
            .map(|name| (name.clone(), Arc::default()));
        Shared {
            health: health.collect(),
            sessions: Arc::default(),
            calls: Arc::default(),
            declared: Arc::new(approved(&gate)),
            hub: Arc::new(HubState::new((settings.new_id)())),
            settings,
            gate,
        }
    }

    /// The state by other settings: sessions, calls under way and what is known of servers that did not change stay. Whoever
    /// has this one goes on by its settings.
    pub fn next(&self, settings: Settings, is_changed: impl Fn(&Name) -> bool) -> Shared {
        self.hub.servers_changed(&is_changed);
        self.declared.withheld.forget(&is_changed);
        let health = settings.servers.keys().map(|name| {
            let known = self.health.get(name).filter(|_| !is_changed(name));
            (name.clone(), known.map(Arc::clone).unwrap_or_default())
        });
        Shared {
            health: health.collect(),
            sessions: Arc::clone(&self.sessions),
            calls: Arc::clone(&self.calls),
            declared: Arc::clone(&self.declared),
            hub: Arc::clone(&self.hub),
            settings,
            gate: Arc::clone(&self.gate),
        }
    }

    /// Other policies or agents are in force, so that agents may be shown other lists.
    pub fn list_again(&self) {
        self.hub.list_again();
    }

    /// Takes the sessions of these servers: no call begins in them any more.
    pub fn retire(&self, is_over: impl Fn(&Name) -> bool) -> Retired {
        Retired {
            sessions: Arc::clone(&self.sessions),
            retired: self.sessions.retire(is_over),
            wait_ms: self.settings.answer_ms,
        }
    }

    /// What makes and opens tokens of an agent for a server.
    pub(crate) fn tokens<'a>(&'a self, agent: &'a Name, server: &'a Name) -> Tokens<'a> {
        let key = &self.settings.session_key;
        Tokens { key, agent, server }
    }

    /// Each server's name and how it is, as last seen.
    pub fn health(&self) -> impl Iterator<Item = (&Name, ServerState)> {
        self.health
            .iter()
            .map(|(name, health)| (name, health.get()))
    }

    /// Each server's name and the revisions of MCP that it speaks, the oldest first, as far as they are known.
    pub fn revisions(&self) -> impl Iterator<Item = (&Name, Vec<&'static str>)> {
        let dates = |name: &Name| {
            let spoken = self.spoken(name);
            spoken.map_or_else(Vec::new, |spoken| spoken.dates().collect())
        };
        self.health.keys().map(move |name| (name, dates(name)))
    }

    /// What a server speaks, as far as it is known.
    pub(crate) fn spoken(&self, server: &Name) -> Option<Arc<Spoken>> {
        self.health.get(server)?.spoken()
    }

    /// Whether weir keeps the sessions with a server: it has none by itself that a client can name.
    pub(crate) fn keeps_sessions(&self, server: &Server) -> bool {
        match &server.kind {
            ServerKind::Child(_) => true,
            ServerKind::Url { .. } => {
                let spoken = self.spoken(&server.name);
                spoken.is_some_and(|spoken| spoken.transport == Transport::Events)
            }
        }
    }

    /// Sessions open now, over all servers that weir keeps sessions for.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

/// Sessions of servers that changed or are gone, with their children: each ends once no call is under way in it.
pub struct Retired {
    sessions: Arc<Links>,
    retired: Vec<Arc<Link>>,
    /// After which calls that are still under way end too.
    wait_ms: u64,
}

impl Retired {
    /// Ends them, each when it may.
    pub async fn end(mut self) {
        let until = Instant::now() + Duration::from_millis(self.wait_ms);
        while !self.retired.is_empty() {
            let is_late = Instant::now() >= until;
            self.retired.retain(|session| {
                let stays = session.is_busy() && !is_late;
                if !stays {
                    let why = gone("its server was changed or taken out");
                    self.sessions.end(session, &why);
                }
                stays
            });
            tokio::time::sleep(Duration::from_millis(RETIRED_LOOK_MS)).await;
        }
    }
}

/// What the approved definitions declare: known before any agent lists tools.
fn approved(gate: &Gate) -> Declared {
    #[derive(serde::Deserialize)]
    struct Definition<'a> {
        #[serde(borrow, rename = "inputSchema")]
        schema: &'a serde_json::value::RawValue,
    }
    let declared = Declared::default();
    gate.definitions(&mut |server, tool, definition| {
        if let Ok(Definition { schema }) = serde_json::from_str(definition) {
            declared.see(server, tool, schema.get());
        }
    });
    declared
}

/// The server that a call of this lane is asked of.
pub(crate) fn server_of(passed: &Passed) -> &Name {
    let server = passed.resource().as_server();
    server.expect("the lane asks servers alone")
}

/// The lane on one thread.
#[derive(Clone)]
pub struct McpLane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) upstreams: Rc<Upstreams<Passed>>,
}

impl McpLane {
    pub fn new(shared: Arc<Shared>, upstreams: Rc<Upstreams<Passed>>) -> McpLane {
        McpLane { shared, upstreams }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}
