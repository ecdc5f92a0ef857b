//! The settings of a gateway, as typed values: parsed and checked once, then only read.
//!
//! Nothing here is optional that has a default, and nothing here can be printed by accident: what holds a
//! secret has no `Debug`. `config::read` is the one place that makes a [`Settings`].

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ::config::kinds::{plain, some};
use ::config::{Count, Listen};
use base::{Digest, Name, Secret, limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::section::Log;

use super::Problem;
use super::listen::{Admin, Listener};

pub(crate) use ::config::{Pem as Ca, Reference, Url};
pub(crate) use ::relay::configured as relay;

/// The agent of `weir mcp wrap` where none is named. A configuration may be one for it alone, so that a stop may name
/// this agent although no section does.
pub(crate) const LOCAL: &str = "local";

/// Everything that the configuration says, with defaults filled in.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The file that this was read from, as the operator named it.
    pub file: PathBuf,
    /// Where agents connect.
    pub listen: Vec<Listener>,
    /// Where the operator's pages are.
    pub admin: Admin,
    /// The origin of the URL by which the gateway is reached, where it is not that of a listener.
    pub public_url: Option<String>,
    /// The folder of the log and its keys.
    pub state: PathBuf,
    /// In the order that they were written; names are unique, and so are keys.
    pub agents: Vec<Agent>,
    /// Tokens, certificates and enrolment; off where nothing was written.
    pub identity: Option<super::identity::Identity>,
    /// What nothing may pass for.
    pub stop: gate::Stops,
    /// The MCP servers, in the order that they were written; names are unique.
    pub servers: Vec<Server>,
    /// The sets of servers that have a URL of their own.
    pub toolsets: Vec<(Name, mcp::Toolset)>,
    /// The providers of models.
    pub llm: Llm,
    /// The agents' loops on the server; none where nothing was written.
    pub runs: Option<Runs>,
    /// What there may be of models, a row for each amount.
    pub budgets: Vec<gate::Budget>,
    /// The web lane; off where nothing was written.
    pub web: Web,
    /// Agents of others, in the order that they were written; names are unique.
    pub a2a: Vec<A2aAgent>,
    /// At the URL of all servers, tools are found by search.
    pub search: bool,
    pub policy: Policy,
    /// What to do about each scan rule; where nothing was written, the rules' own defaults.
    pub scan: scan::Settings,
    /// The store that replicas share.
    pub cache: Option<super::cache::Cache>,
    /// That of the relay's inbound, where it has one of its own.
    pub relay_cache: Option<super::cache::Cache>,
    /// The sealed relay; off where nothing was written.
    pub relay: relay::Relay,
    #[cfg(test)]
    pub echo: Option<crate::echo::Section>,
    /// Whether a tool that changed waits for approval.
    pub pins: bool,
    /// What the operator should know of, and that keeps nothing from working.
    pub warnings: Vec<Problem>,
    /// What is wrong with certificates of listeners, where it keeps nothing else from being used.
    pub unusable: Vec<Problem>,
    pub limits: Limits,
    pub log: Log,
    /// What is shared with other replicas, where there are any.
    pub store: Option<super::replicas::StoreSettings>,
    /// Browser origins that may call, beside the gateway's own; lower case, no trailing slash.
    pub origins: Vec<String>,
    pub logs: Logs,
    /// Serving threads; 0 is one for each core.
    pub threads: usize,
}

impl Settings {
    /// What a command serves by that needs no configuration: every default, and one policy.
    pub(crate) fn built_in(policy: &str) -> Settings {
        Settings {
            file: "built-in".into(),
            listen: vec![Listener::plain(Listen::local(8700))],
            admin: Admin::built_in(),
            public_url: None,
            state: super::file::state().0,
            agents: Vec::new(),
            identity: None,
            stop: gate::Stops::default(),
            servers: Vec::new(),
            toolsets: Vec::new(),
            llm: Llm::default(),
            runs: None,
            budgets: Vec::new(),
            web: super::web::built_in(),
            a2a: Vec::new(),
            search: false,
            policy: Policy {
                files: vec![PolicyFile {
                    file: "built-in.cedar".to_owned(),
                    text: policy.to_owned(),
                }],
                arguments: BTreeMap::new(),
            },
            scan: scan::Settings::default(),
            cache: None,
            relay_cache: None,
            relay: relay::Relay::default(),
            #[cfg(test)]
            echo: None,
            pins: true,
            warnings: Vec::new(),
            unusable: Vec::new(),
            limits: Limits::default(),
            log: Log::default(),
            store: None,
            origins: Vec::new(),
            logs: Logs::default(),
            threads: 0,
        }
    }
}

/// Who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub name: Name,
    /// SHA-256 of each key that is good now; at least one.
    pub keys: Vec<Digest>,
    pub groups: Vec<Name>,
    pub state: identity::AgentState,
    /// Unix milliseconds after which no key of this agent is good.
    pub expires_unix_ms: Option<u64>,
}

/// An MCP server behind the gateway.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub name: Name,
    pub kind: ServerKind,
    /// Most sessions open at once.
    pub sessions_max: usize,
    /// Most of them that one agent may have.
    pub agent_sessions_max: usize,
    /// How long a session may be unused, in milliseconds.
    pub session_idle_ms: u64,
    /// Whether a child is told which agent it is started for.
    pub tells_agent: bool,
    /// How long a list is kept of which the server does not say it, in milliseconds.
    pub list_ms: u64,
    /// What its items are called at the URL of many servers, by its own names.
    pub names: HashMap<String, String>,
    /// What is said of its items there.
    pub items: HashMap<String, mcp::ItemWords>,
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

/// An agent of others, and how it is reached.
#[derive(Clone, PartialEq)]
pub(crate) struct A2aAgent {
    pub told: a2a::RemoteAgent,
    pub url: Url,
    pub ca: Option<Ca>,
    /// Ranges that may be dialled beside public addresses.
    pub addresses: Vec<base::AddressRange>,
}

impl A2aAgent {
    /// Where it may be dialled: where its URL says, and in the ranges that are named.
    pub(crate) fn reach(&self) -> gate::Reach {
        let mut reach = match self.url.is_loopback() {
            true => gate::Reach::loopback(),
            false => gate::Reach::default(),
        };
        reach.ranges.extend(&self.addresses);
        reach
    }
}

/// Models of providers.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Llm {
    /// In the order that they were written; names are unique.
    pub providers: Vec<ModelProvider>,
    pub routes: Vec<llm::ModelRoute>,
    pub cache: Option<llm::AnswerCacheSettings>,
    pub body_bytes_max: usize,
    pub answer_bytes_max: usize,
    pub answer_ms: u64,
    pub silence_ms: u64,
    pub stream_ms: u64,
    pub socket_idle_ms: u64,
}

impl ModelProvider {
    /// Where it may be dialled: where its URL says, and in the ranges that are named.
    pub(crate) fn reach(&self) -> gate::Reach {
        let mut reach = match self.url.is_loopback() {
            true => gate::Reach::loopback(),
            false => gate::Reach::default(),
        };
        reach.ranges.extend(&self.addresses);
        reach
    }

    /// Where the place of its tokens may be dialled.
    pub(crate) fn token_reach(&self, place: &TokenPlace) -> gate::Reach {
        let mut reach = match place.url.is_loopback() {
            true => gate::Reach::loopback(),
            false => gate::Reach::default(),
        };
        reach
            .ranges
            .extend(self.addresses.iter().filter(|_| place.is_own));
        reach
    }
}

impl Llm {
    /// The provider of this name.
    pub(crate) fn provider(&self, name: &base::Name) -> Option<&ModelProvider> {
        let mut providers = self.providers.iter();
        providers.find(|provider| provider.told.name == *name)
    }
}

/// Runs of agents on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    /// In the order that they were written; names are unique.
    pub agents: Vec<run::RunAgent>,
    /// Bounds of runs that bring their own model and tools.
    pub own: run::RunLimits,
    pub at_once: usize,
    pub agent_at_once: usize,
    pub keep_ms: u64,
    pub bytes_max: u64,
}

/// Where tokens for a provider are got.
#[derive(Clone, PartialEq)]
pub(crate) struct TokenPlace {
    /// What it is called among all targets.
    pub name: base::Name,
    pub url: Url,
    /// Whether it is another than Google's: then the provider's certificates and addresses hold for it too.
    pub is_own: bool,
}

/// One provider, and how it is reached.
#[derive(Clone, PartialEq)]
pub(crate) struct ModelProvider {
    pub told: llm::Provider,
    pub url: Url,
    /// Where the tokens are got that it is asked with, if it is.
    pub token: Option<TokenPlace>,
    pub ca: Option<Ca>,
    /// Ranges that may be dialled beside public addresses.
    pub addresses: Vec<base::AddressRange>,
}

/// A service behind the reverse proxy, and how it is reached.
#[derive(Clone, PartialEq)]
pub(crate) struct WebReverse {
    pub told: Arc<web::ReverseService>,
    pub listen: Listen,
    pub url: Url,
    pub ca: Option<Ca>,
    /// Ranges that may be dialled beside public addresses.
    pub addresses: Vec<base::AddressRange>,
}

impl WebReverse {
    /// Where it may be dialled: where its URL says, and in the ranges that are named.
    pub(crate) fn reach(&self) -> gate::Reach {
        let mut reach = match self.url.is_loopback() {
            true => gate::Reach::loopback(),
            false => gate::Reach::default(),
        };
        reach.ranges.extend(&self.addresses);
        reach
    }
}

/// Pages, requests and tunnels of agents.
#[derive(Clone, PartialEq)]
pub(crate) struct Web {
    /// Whether there is such a section at all.
    pub is_on: bool,
    pub mode: web::WebMode,
    /// Where the forward proxy listens.
    pub listen: Option<Listen>,
    pub intercept: Option<WebIntercept>,
    /// The folder of its authority.
    pub intercept_folder: Option<PathBuf>,
    pub credentials: Vec<web::SiteCredential>,
    /// Certificates to trust for sites beside the public ones.
    pub ca: Option<Ca>,
    /// Services behind the reverse proxy; names are unique.
    pub reverse: Vec<WebReverse>,
    pub fetch: web::FetchSettings,
    pub tunnel: net::TunnelBounds,
    pub socket: web::SocketSettings,
    pub agent: web::AgentBounds,
    pub body_bytes_max: usize,
    pub answer_ms: u64,
    pub silence_ms: u64,
}

/// How tunnels are looked into.
#[derive(Clone)]
pub(crate) struct WebIntercept {
    pub authority: Arc<net::InterceptAuthority>,
    pub pass: web::HostNames,
}

impl PartialEq for WebIntercept {
    fn eq(&self, other: &WebIntercept) -> bool {
        self.authority.fingerprint() == other.authority.fingerprint() && self.pass == other.pass
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Child(ChildServer),
    Http(HttpServer),
}

/// A server that is a child process and speaks over its standard input and output.
#[derive(Clone, PartialEq, Eq)]
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
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EnvValue {
    pub name: String,
    pub value: Secret,
}

/// A server that is reached over streamable HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HttpServer {
    pub url: Url,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// Certificates to trust for this server instead of the public ones.
    pub ca: Option<Ca>,
    /// Whether HTTP/2 is spoken to it.
    pub http2: bool,
    /// Private ranges that may be dialled for this server. Loopback may be dialled where
    /// [`Url::is_loopback`] says that the URL itself names it.
    pub addresses: Vec<base::AddressRange>,
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

type PerMinute = Count<1, 10_000_000>;
type Bytes = Count<1024, { 1 << 30 }>;
type Ms = Count<1, 86_400_000>;
type Connections = Count<1, 1_000_000>;

/// Bounds on what agents may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Calls a minute for one agent.
    #[serde(deserialize_with = "plain::<PerMinute, _, _>")]
    #[schemars(with = "PerMinute", example = &"600")]
    pub agent_per_minute: u32,
    /// Calls a minute of all agents at one address (IPv6: one /64) together; not limited where it is not set.
    #[serde(deserialize_with = "some::<PerMinute, _, _>")]
    #[schemars(with = "Option<PerMinute>", example = &"6000")]
    pub address_per_minute: Option<u32>,
    /// Requests a minute without a good key from one address (IPv6: one /64); agents at that address are not
    /// counted.
    #[serde(deserialize_with = "plain::<PerMinute, _, _>")]
    #[schemars(with = "PerMinute", example = &"60")]
    pub strangers_per_minute: u32,
    /// Largest request body, in bytes.
    #[serde(deserialize_with = "plain::<Bytes, _, _>")]
    #[schemars(with = "Bytes", example = &"4194304")]
    pub body_bytes_max: usize,
    /// Largest answer of a server, in bytes: one JSON body, one event, or one line.
    #[serde(deserialize_with = "plain::<Bytes, _, _>")]
    #[schemars(with = "Bytes", example = &"8388608")]
    pub answer_bytes_max: usize,
    /// How long a request head may take, in milliseconds.
    #[serde(deserialize_with = "plain::<Ms, _, _>")]
    #[schemars(with = "Ms", example = &"10000")]
    pub head_ms: u64,
    /// How long a request body may take, in milliseconds.
    #[serde(deserialize_with = "plain::<Ms, _, _>")]
    #[schemars(with = "Ms", example = &"30000")]
    pub body_ms: u64,
    /// How long a server may take to answer a call, in milliseconds.
    #[serde(deserialize_with = "plain::<Ms, _, _>")]
    #[schemars(with = "Ms", example = &"60000")]
    pub answer_ms: u64,
    /// Most connections of agents open at once. When all are taken, those that ask nothing and have shown no
    /// good key are closed, the oldest first.
    #[serde(deserialize_with = "plain::<Connections, _, _>")]
    #[schemars(with = "Connections", example = &"4096")]
    pub connections_max: usize,
    /// Of those, most from one address (IPv6: one /64) on which no good key was shown yet.
    #[serde(deserialize_with = "plain::<Connections, _, _>")]
    #[schemars(with = "Connections", example = &"1024")]
    pub strangers_connections_max: usize,
    /// How long the gateway waits for calls in flight when it is told to stop, in milliseconds.
    #[serde(deserialize_with = "plain::<Ms, _, _>")]
    #[schemars(with = "Ms", example = &"10000")]
    pub drain_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            agent_per_minute: limit::CALLS_PER_MINUTE_DEFAULT,
            address_per_minute: None,
            strangers_per_minute: limit::STRANGERS_PER_MINUTE_DEFAULT,
            body_bytes_max: limit::BODY_BYTES_DEFAULT,
            answer_bytes_max: limit::ANSWER_BYTES_DEFAULT,
            head_ms: limit::HEAD_MS_DEFAULT,
            body_ms: limit::BODY_MS_DEFAULT,
            answer_ms: limit::ANSWER_MS_DEFAULT,
            connections_max: limit::CONNECTIONS_DEFAULT,
            strangers_connections_max: limit::STRANGERS_CONNECTIONS_DEFAULT,
            drain_ms: limit::DRAIN_MS_DEFAULT,
        }
    }
}

/// The gateway's own messages, on standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Logs {
    /// The form of the messages.
    #[schemars(example = &"json")]
    pub format: LogFormat,
    /// The least urgent message that is written.
    #[schemars(example = &"info")]
    pub level: LogLevel,
}

/// The form of the gateway's own messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The least urgent message that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Seen, read};

    #[test]
    fn what_is_built_in_is_what_an_empty_configuration_says() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("built-in.cedar"), "").unwrap();
        let path = dir.path().join("weir.yaml");
        let text = "policy: built-in.cedar";
        let read = read::load_text(&path, text, &|_: &str| None, &mut Seen::default());
        let read = read.unwrap_or_else(|problems| panic!("{problems:?}"));
        let built_in = Settings::built_in("");
        let said = |of: &Settings| {
            let (log, limits, logs) = (of.log.clone(), of.limits.clone(), of.logs.clone());
            let rest = (
                of.listen.iter().map(|of| of.at.clone()).collect::<Vec<_>>(),
                of.admin == Admin::built_in(),
                of.pins,
                of.threads,
                of.stop.all,
                of.servers.len(),
            );
            let scan = format!("{:?}", of.scan);
            (log, limits, logs, rest, scan, of.origins.clone())
        };
        assert_eq!(said(&built_in), said(&read));
        assert_eq!(dir.path().join(built_in.state), read.state);
    }
}
