//! The `tools` section of a configuration, as it is written: its keys, what they mean, and their defaults.

use base::limit;
use config::{Count, FilePath, List, Reference, Switch, Text, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The variable that hands the URL of a PostgreSQL database to the child.
pub const FLOW_URL: &str = "WEIR_FLOW_URL";
/// The variable that hands the key of the embedding endpoint to the child.
pub const EMBED_KEY: &str = "WEIR_EMBED_KEY";

/// Whose tools are listed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compat {
    Codebase,
}

impl Compat {
    pub fn as_str(self) -> &'static str {
        match self {
            Compat::Codebase => "codebase",
        }
    }
}

/// Whose tools work tracking lists too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowCompat {
    Workflow,
}

impl FlowCompat {
    pub fn as_str(self) -> &'static str {
        match self {
            FlowCompat::Workflow => "workflow",
        }
    }
}

/// When a write of work tracking is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowDurability {
    #[default]
    Fsync,
    Os,
}

impl FlowDurability {
    pub fn as_str(self) -> &'static str {
        match self {
            FlowDurability::Fsync => "fsync",
            FlowDurability::Os => "os",
        }
    }
}

/// What an endpoint for vectors speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmbedKind {
    #[default]
    Ollama,
    Openai,
}

impl EmbedKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EmbedKind::Ollama => "ollama",
            EmbedKind::Openai => "openai",
        }
    }
}

/// The MCP servers that weir ships, written in short: each is a child process like any other server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Code search; agents reach it at /mcp/code.
    #[schemars(example = &"{ roots: [.] }")]
    pub code: Option<Code>,
    /// Work tracking; agents reach it at /mcp/flow.
    #[schemars(example = &"{}")]
    pub flow: Option<FlowSection>,
    /// At /mcp, three tools that find, describe and call the others, in place of a long list.
    #[schemars(example = &"false")]
    pub search: Switch,
}

/// Code search; agents reach it at /mcp/code.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// The folders that may be searched, relative to this file; each is indexed when the server starts.
    #[schemars(required, example = &"[., ../library]")]
    pub roots: Option<List<FilePath>>,
    /// The folder of the index, relative to this file; tools/code in the state folder where none is named.
    #[schemars(example = &"/var/lib/weir/code")]
    pub data: Option<FilePath>,
    /// Whose tools are listed too: codebase lists the four of codebase-mcp, which answer in any case.
    #[schemars(example = &"codebase")]
    pub compat: Option<Compat>,
    /// The endpoint that makes vectors of texts; without it there is no search by likeness alone, and nothing
    /// else is missing.
    #[schemars(example = &"{ url: http://127.0.0.1:11434, model: nomic-embed-text }")]
    pub embed: Option<Embed>,
    /// Most sessions open at once; each is a small process, and one of them has the index.
    #[schemars(example = &"64")]
    #[serde(default = "sessions")]
    pub sessions_max: Count<1, 4096>,
    /// Most of these sessions that one agent may have.
    #[schemars(example = &"16")]
    #[serde(default = "agent_sessions")]
    pub agent_sessions_max: Count<1, 4096>,
    /// How long a session may be unused before it is ended, in milliseconds.
    #[schemars(example = &"1800000")]
    #[serde(default = "session_idle")]
    pub session_idle_ms: Count<1, 86_400_000>,
}

/// Work tracking; agents reach it at /mcp/flow.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSection {
    /// The folder of its database, relative to this file; tools/flow in the state folder where none is named.
    #[schemars(example = &"/var/lib/weir/flow")]
    pub data: Option<FilePath>,
    /// A PostgreSQL database that several machines share, in place of a file in that folder.
    #[schemars(example = &"{ postgres: env:FLOW_URL }")]
    pub store: Option<FlowStore>,
    /// When a write to a file is acknowledged: fsync, when the disk has it, or os, when the operating system has it.
    #[schemars(example = &"os")]
    pub durability: FlowDurability,
    /// Whose tools are listed too: workflow lists those of workflow-mcp, which answer in any case.
    #[schemars(example = &"workflow")]
    pub compat: Option<FlowCompat>,
    /// Most sessions open at once; each is a small process, and one of them has the database.
    #[schemars(example = &"64")]
    pub sessions_max: Count<1, 4096>,
    /// Most of these sessions that one agent may have.
    #[schemars(example = &"16")]
    pub agent_sessions_max: Count<1, 4096>,
    /// How long a session may be unused before it is ended, in milliseconds.
    #[schemars(example = &"1800000")]
    pub session_idle_ms: Count<1, 86_400_000>,
}

impl Default for FlowSection {
    fn default() -> FlowSection {
        FlowSection {
            data: None,
            store: None,
            durability: FlowDurability::default(),
            compat: None,
            sessions_max: sessions(),
            agent_sessions_max: agent_sessions(),
            session_idle_ms: session_idle(),
        }
    }
}

/// A PostgreSQL database that several machines share, in place of a file in that folder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowStore {
    /// The URL of the database: env:NAME or file:PATH of it, or itself where it has no password.
    #[schemars(required, example = &"env:FLOW_URL")]
    pub postgres: Option<Text>,
    /// Whose rows of it: those of one tenant are never seen by another; default where none is named.
    #[schemars(example = &"shop")]
    pub tenant: Option<Text>,
}

/// The endpoint that makes vectors of texts; without it there is no search by likeness alone, and nothing else
/// is missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    /// Where the endpoint is, without the path that its kind has; the child may connect to its port and no
    /// other.
    #[schemars(required, example = &"http://127.0.0.1:11434")]
    pub url: Option<Url>,
    /// What the endpoint speaks: /api/embed of Ollama, or /v1/embeddings of OpenAI.
    #[schemars(example = &"openai")]
    #[serde(default)]
    pub kind: EmbedKind,
    /// The model; vectors of another one are made anew.
    #[schemars(required, example = &"nomic-embed-text")]
    pub model: Option<Text>,
    /// Sent as Authorization: Bearer; over https, or to this machine.
    #[schemars(example = &"env:EMBED_KEY")]
    pub key: Option<Reference>,
    /// What the model wants before a query.
    #[schemars(example = &"\"search_query: \"")]
    pub query_prefix: Option<Text>,
    /// What the model wants before a text that is searched.
    #[schemars(example = &"\"search_document: \"")]
    pub document_prefix: Option<Text>,
}

fn sessions() -> Count<1, 4096> {
    Count(limit::SESSIONS_DEFAULT as u64)
}

fn agent_sessions() -> Count<1, 4096> {
    Count(limit::AGENT_SESSIONS_DEFAULT as u64)
}

fn session_idle() -> Count<1, 86_400_000> {
    Count(limit::SESSION_IDLE_MS_DEFAULT)
}
