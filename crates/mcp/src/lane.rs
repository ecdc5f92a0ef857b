//! The lane's state: what is configured, and what lives on one thread or is shared by all.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::{Name, Secret};
use gate::{Gate, Passed};
use net::Upstreams;
use net::children::Command;

use crate::calls::Calls;
use crate::declared::Declared;
use crate::probe::Health;
use crate::token::Tokens;
use crate::upstream::Links;
use crate::upstream::find::Spoken;

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
    /// Signs session ids, so that one agent cannot use another's. Secret.
    pub session_key: [u8; 32],
}

/// What all threads share.
pub struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) sessions: Links,
    /// Calls under way with servers over HTTP.
    pub(crate) calls: Arc<Calls>,
    /// What the schemas of tools declare.
    pub(crate) declared: Declared,
    pub(crate) health: HashMap<Name, Health>,
}

impl Shared {
    pub fn new(settings: Settings, gate: Arc<Gate>) -> Shared {
        let health = settings
            .servers
            .keys()
            .map(|name| (name.clone(), Health::default()));
        Shared {
            health: health.collect(),
            sessions: Links::default(),
            calls: Arc::default(),
            declared: approved(&gate),
            settings,
            gate,
        }
    }

    /// What makes and opens tokens of an agent for a server.
    pub(crate) fn tokens<'a>(&'a self, agent: &'a Name, server: &'a Name) -> Tokens<'a> {
        let key = &self.settings.session_key;
        Tokens { key, agent, server }
    }

    /// Each server's name and what is wrong with it, if anything, as last seen.
    pub fn health(&self) -> impl Iterator<Item = (&Name, Result<(), String>)> {
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

    /// Sessions open now, over all servers that weir keeps sessions for.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
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
