//! The settings of a gateway, as typed values: parsed and checked once, then only read.
//!
//! Nothing here is optional that has a default, and nothing here can be printed by accident: what holds a
//! secret has no `Debug`. `config::read` is the one place that makes a [`Settings`].

pub(crate) mod relay;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use base::{Digest, Name, Secret};

use super::Problem;

/// Everything that the configuration says, with defaults filled in.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The file that this was read from, as the operator named it.
    pub file: PathBuf,
    pub listen: SocketAddr,
    /// The folder of the log and its keys.
    pub state: PathBuf,
    /// In the order that they were written; names are unique, and so are keys.
    pub agents: Vec<Agent>,
    /// The MCP servers, in the order that they were written; names are unique.
    pub servers: Vec<Server>,
    pub policy: Policy,
    /// What to do about each scan rule; where nothing was written, the rules' own defaults.
    pub scan: scan::Settings,
    /// The sealed relay; off where nothing was written.
    pub relay: relay::Relay,
    /// Whether a tool that changed waits for approval.
    pub pins: bool,
    /// What the operator should know of, and that keeps nothing from working.
    pub warnings: Vec<Problem>,
    pub limits: Limits,
    pub log: Log,
    /// Browser origins that may call, beside the gateway's own; lower case, no trailing slash.
    pub origins: Vec<String>,
    pub logs: Logs,
    /// Serving threads; 0 is one for each core.
    pub threads: usize,
}

/// Who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub name: Name,
    /// SHA-256 of each key that is good now; at least one.
    pub keys: Vec<Digest>,
    pub groups: Vec<Name>,
    /// Unix milliseconds after which no key of this agent is good.
    pub expires_unix_ms: Option<u64>,
}

/// An MCP server behind the gateway.
#[derive(Clone)]
pub(crate) struct Server {
    pub name: Name,
    pub kind: ServerKind,
    /// Most sessions open at once.
    pub sessions_max: usize,
    /// Most of them that one agent may have.
    pub agent_sessions_max: usize,
    /// How long a session may be unused, in milliseconds.
    pub session_idle_ms: u64,
}

impl Server {
    /// Where the server may be dialled: besides public addresses, the ranges that are named for it, and
    /// loopback where its URL names this machine. A child is not dialled.
    pub(crate) fn reach(&self) -> gate::Reach {
        let ServerKind::Http(http) = &self.kind else {
            return gate::Reach::default();
        };
        let mut reach = match http.url.is_loopback() {
            true => gate::Reach::loopback(),
            false => gate::Reach::default(),
        };
        reach.ranges.extend(&http.addresses);
        reach
    }
}

/// How a server is reached.
#[derive(Clone)]
pub(crate) enum ServerKind {
    Child(ChildServer),
    Http(HttpServer),
}

/// A server that is a child process and speaks over its standard input and output.
#[derive(Clone)]
pub(crate) struct ChildServer {
    /// The program and its arguments; never empty, and no shell between.
    pub command: Vec<String>,
    /// The whole environment of the child.
    pub env: Vec<EnvValue>,
    pub dir: PathBuf,
    /// No key: the gateway's log, but for the one server of `weir mcp wrap`.
    pub errors: net::children::Errors,
}

/// One variable of a child's environment.
#[derive(Clone)]
pub(crate) struct EnvValue {
    pub name: String,
    pub value: Secret,
}

/// A server that is reached over streamable HTTP.
#[derive(Clone)]
pub(crate) struct HttpServer {
    pub url: Url,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// Certificates to trust for this server instead of the public ones.
    pub ca: Option<Ca>,
    /// Private ranges that may be dialled for this server. Loopback may be dialled where
    /// [`Url::is_loopback`] says that the URL itself names it.
    pub addresses: Vec<gate::Range>,
}

/// A file of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ca {
    pub file: PathBuf,
    /// PEM text, not checked yet.
    pub pem: String,
}

/// An `http` or `https` URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub https: bool,
    /// Lower case; an IPv6 address stands without brackets.
    pub host: String,
    pub port: u16,
    /// Path and query; starts with `/`.
    pub path: String,
}

impl Url {
    /// Host and port as a `Host` field has them: the port only where it is not the scheme's own.
    pub(crate) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let usual = if self.https { 443 } else { 80 };
        if self.port == usual {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// Scheme, host and port, as browsers write an origin.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Whether the URL names this machine: `localhost`, or a loopback address written out.
    pub(crate) fn is_loopback(&self) -> bool {
        let literal = self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        literal || self.host == "localhost"
    }
}

/// The policies, read but not compiled.
#[derive(Clone)]
pub(crate) struct Policy {
    /// In the order that they were named; at least one.
    pub files: Vec<PolicyFile>,
    /// Types of the arguments that policies may read, by the argument's name.
    pub arguments: BTreeMap<String, policy::ArgumentType>,
}

/// One policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyFile {
    /// The path, as the operator would type it.
    pub file: String,
    pub text: String,
}

/// Bounds on what agents may ask. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Calls a minute for one agent; at least 1.
    pub agent_per_minute: u32,
    /// Calls of agents a minute for one address, where they are limited; at least 1.
    pub address_per_minute: Option<u32>,
    /// Requests a minute without a good key for one address; at least 1.
    pub strangers_per_minute: u32,
    pub body_bytes_max: usize,
    pub answer_bytes_max: usize,
    pub head_ms: u64,
    pub body_ms: u64,
    pub answer_ms: u64,
    pub connections_max: usize,
    /// Of those, from one address, on which no good key was shown yet.
    pub strangers_connections_max: usize,
    pub drain_ms: u64,
}

/// How the log of records is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub durability: Durability,
    /// Bytes on disk after which calls are refused.
    pub bytes_max: u64,
    /// What the checkpoints of a log that begins call it; made at random where nothing was written.
    pub origin: Option<String>,
    /// Where the newest checkpoint is kept a second time.
    pub witness: Option<PathBuf>,
}

/// When a record counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Once the disk says so.
    Fsync,
    /// Once the operating system has it: survives the process, not the machine.
    Os,
}

impl Durability {
    /// The word for it in the configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Durability::Fsync => "fsync",
            Durability::Os => "os",
        }
    }
}

/// The gateway's own messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logs {
    pub format: LogFormat,
    pub level: LogLevel,
}

/// The form of the gateway's own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The least urgent message that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The level's word, in the configuration and for `tracing`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A variable of the gateway's environment.
    Env(String),
    /// A file, relative to the configuration file.
    File(PathBuf),
}
