//! The configuration as it is written: what is not a crate's own section, and where those are.
//!
//! A key is one field: its type reads it, its comment is its help, its default stands in `Default` or beside it.

use ::config::{
    ByArgument, ByName, Count, Document, FilePath, Label, List, Listen, OneOr, OneOrMore, Switch,
    Time,
};
use base::{Digest, Name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::identity::IdentitySection;
use super::listen::{AdminSection, Listens};
use super::settings::{Limits, Logs};

/// A configuration, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Where agents connect: an address of this machine, unix:PATH, a listener with TLS, or a list of these.
    #[schemars(example = &"127.0.0.1:8700")]
    #[serde(default = "listen")]
    pub listen: Listens,
    /// Allows a listener without TLS that other machines reach; agents' keys cross that network in the clear, so put
    /// a proxy that speaks TLS in front.
    #[schemars(example = &"true")]
    #[serde(default)]
    pub listen_public: Switch,
    /// The URL by which agents and browsers reach the gateway, where a proxy or a name stands before it.
    #[schemars(example = &"https://weir.example")]
    pub public_url: Option<Origin>,
    /// Where the operator's pages are, such as /metrics.
    #[schemars(example = &"{ listen: '127.0.0.1:9090' }")]
    pub admin: Option<AdminSection>,
    /// The folder of the log and its keys, relative to this file.
    #[schemars(example = &"./state")]
    #[serde(default = "state")]
    pub state: FilePath,
    /// Who may call; without an agent nobody may.
    #[schemars(example = &"{ dev: { key: sha256:9f2c…, groups: [engineers] } }")]
    #[serde(default)]
    pub agents: ByName<Agent>,
    /// Tokens, certificates and enrolment: who calls, proved by a key that is never sent.
    #[schemars(example = &"{ trust_domain: example.org }")]
    pub identity: Option<IdentitySection>,
    /// What nothing passes for, from the next reload on: all, a lane, or an agent; open streams and sessions end.
    #[schemars(example = &"[agent:dev, lane:relay]")]
    pub stop: Option<OneOrMore<Stopped>>,
    /// The MCP servers behind the gateway; agents reach each at /mcp/<name>.
    #[schemars(example = &"{ files: { command: [mcp-server-filesystem, ./files] } }")]
    #[serde(default)]
    pub mcp: ByName<mcp::section::ServerSection>,
    /// Sets of servers and their tools behind URLs of their own, /mcp/@<name>; all servers are at /mcp.
    #[schemars(example = &"{ desk: { servers: [files], tools: [files/read_text_file] } }")]
    #[serde(default)]
    pub toolsets: ByName<mcp::section::ToolsetSection>,
    /// Models of providers, in the dialect that the client speaks; agents reach them at /v1 and /v1beta.
    #[schemars(example = &"{ providers: { openai: { key: env:OPENAI_API_KEY } } }")]
    #[serde(default)]
    pub llm: llm::section::LlmSection,
    /// An agent's loop on the server, for callers that have none; agents start runs at /v1/runs.
    #[schemars(example = &"{ agents: { triage: { model: smart, tools: [tracker/*] } } }")]
    pub runs: Option<run::section::RunsSection>,
    /// What there may be of models in a time: money, tokens, calls, by agent, group, provider, model; all that apply hold.
    #[schemars(example = &"{ month: { group: engineers, money: 200, per: month } }")]
    #[serde(default)]
    pub budgets: ByName<super::budgets::BudgetSection>,
    /// Pages, requests and tunnels of agents: /fetch, and the forward proxy where it listens.
    #[schemars(example = &"{ listen: '127.0.0.1:8703' }")]
    pub web: Option<web::section::WebSection>,
    /// Agents of others behind the gateway, by A2A; agents reach each at /a2a/<name>.
    #[schemars(example = &"{ helper: { url: 'https://helper.example/a2a' } }")]
    #[serde(default)]
    pub a2a: ByName<a2a::section::RemoteAgentSection>,
    /// The MCP servers that weir ships, written in short: each is a child process like any other server.
    #[schemars(example = &"{ code: { roots: [.] } }")]
    pub tools: Option<tools::section::Tools>,
    /// The Cedar policies: one file, or a map; what no policy permits is refused.
    #[schemars(required, example = &"policy.cedar")]
    pub policy: Option<OneOr<FilePath, Policy>>,
    /// What is looked for in calls and answers, and what is done about it.
    #[schemars(example = &"{ secrets: { outgoing: refuse } }")]
    #[serde(default)]
    pub scan: scan::section::Section,
    /// A store that replicas share: a Redis or a Valkey, for what must be used or run once over all of them.
    #[schemars(example = &"{ redis: env:REDIS_URL }")]
    pub cache: Option<relay::section::CacheSection>,
    /// The sealed relay: an outbound seals what applications send, an inbound opens it for origins.
    #[schemars(example = &"{ outbound: { … } }")]
    pub relay: Option<relay::section::Section>,
    /// A lane of the tests.
    #[cfg(test)]
    #[schemars(example = &"{ url: 'http://127.0.0.1:9000' }")]
    pub echo: Option<crate::echo::Section>,
    /// Bounds on what agents may ask.
    #[schemars(example = &"{ agent_per_minute: 600 }")]
    #[serde(default)]
    pub limits: Limits,
    /// The log of records: what every agent asked, and what became of it.
    #[schemars(example = &"{ durability: fsync }")]
    #[serde(default)]
    pub log: store::section::Log,
    /// What several gateways share in PostgreSQL, so that they are one; without it this one keeps all in its state folder.
    #[schemars(example = &"{ postgres: env:DATABASE_URL, passphrase: file:store.pass }")]
    pub store: Option<::store::replica::StoreSection>,
    /// What this gateway is called among those that share a store; each has a name of its own.
    #[schemars(example = &"a")]
    pub replica: Option<Label>,
    /// Web sites whose pages may call, beside the gateway's own address.
    #[schemars(example = &"[https://app.example]")]
    #[serde(default)]
    pub origins: List<Origin>,
    /// The gateway's own messages, on standard error.
    #[schemars(example = &"{ format: json, level: info }")]
    #[serde(default)]
    pub logs: Logs,
    /// Serving threads; 0 is one for each core.
    #[schemars(example = &"0")]
    #[serde(default)]
    pub threads: Count<0, 1024>,
}

pub(super) fn listen() -> Listens {
    Listens::one(OneOr::One(Listen::local(8700)))
}

pub(super) fn state() -> FilePath {
    FilePath("./state".into())
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ key: sha256:9f2c…, groups: [engineers] }")]
pub(crate) struct Agent {
    /// The hash of the agent's key, as `weir agent key` prints it; list two while one replaces the other.
    #[schemars(required, example = &"sha256:9f2c…")]
    pub key: Option<OneOrMore<KeyHash>>,
    /// The groups that policies know the agent by.
    #[schemars(example = &"[engineers]")]
    #[serde(default)]
    pub groups: List<Label>,
    /// Whether the agent may call; one that is suspended or revoked is refused, and loses open streams and sessions.
    #[schemars(example = &"suspended")]
    #[serde(default)]
    pub state: Standing,
    /// When the agent's keys stop being good; without it they do not.
    #[schemars(example = &"2027-01-01T00:00:00Z")]
    pub expires: Option<Time>,
}

/// Whether an agent may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Standing {
    #[default]
    Active,
    Suspended,
    Revoked,
}

impl From<Standing> for identity::AgentState {
    fn from(standing: Standing) -> identity::AgentState {
        match standing {
            Standing::Active => identity::AgentState::Active,
            Standing::Suspended => identity::AgentState::Suspended,
            Standing::Revoked => identity::AgentState::Revoked,
        }
    }
}

/// One element of `stop`; whether the lane or the agent exists is checked later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    All,
    Lane(String),
    Agent(Name),
}

::config::scalar!(Stopped, stopped, "all, lane:NAME or agent:NAME", {
    "type": "string", "pattern": "^(all|(lane|agent):.+)$"
});

pub(crate) fn stopped(text: &str) -> Result<Stopped, String> {
    let agent = |name: &str| Name::new(name).map(Stopped::Agent);
    let found = match text.split_once(':') {
        None if text == "all" => Some(Stopped::All),
        Some(("lane", name)) => Some(Stopped::Lane(name.to_owned())),
        Some(("agent", name)) => agent(name),
        _ => None,
    };
    found.ok_or_else(|| "must be all, lane:NAME or agent:NAME".to_owned())
}

/// The SHA-256 of an agent's key, as `weir agent key` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(pub Digest);

::config::scalar!(KeyHash, key_hash, "sha256:…", {
    "type": "string", "pattern": "^sha256:[0-9A-Fa-f]{64}$"
});

fn key_hash(text: &str) -> Result<KeyHash, String> {
    if text.starts_with("weir_") {
        let message =
            "is a key itself; write its hash, and make a new key: this one was written down";
        return Err(message.to_owned());
    }
    let digest = text.strip_prefix("sha256:").and_then(Digest::from_hex);
    let wrong = || "must be sha256: and 64 hex digits".to_owned();
    digest.map(KeyHash).ok_or_else(wrong)
}

/// The Cedar policies: one file, or a map; what no policy permits is refused.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    /// The policy files, relative to this file.
    #[schemars(required, example = &"[base.cedar, team.cedar]")]
    pub files: Option<List<FilePath>>,
    /// The arguments of tools that policies may read, with their types.
    #[schemars(example = &"{ path: String }")]
    #[serde(default)]
    pub arguments: ByArgument<Argument>,
}

/// A type that policies can read an argument as, by its Cedar name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument(pub policy::ArgumentType);

::config::scalar!(Argument, argument, "String or Long or Bool or Set<String> or Set<Long>", {
    "enum": ["String", "Long", "Bool", "Set<String>", "Set<Long>"],
    "description": "The type of one argument; a call that sends another type is refused.",
    "examples": ["String"]
});

fn argument(text: &str) -> Result<Argument, String> {
    let wrong = |_| "must be one of String, Long, Bool, Set<String>, Set<Long>".to_owned();
    text.parse().map(Argument).map_err(wrong)
}

/// A web site: scheme, host and port, nothing after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(pub String);

::config::scalar!(Origin, origin, "origin", { "type": "string", "pattern": "^https?://[^/]+$" });

fn origin(text: &str) -> Result<Origin, String> {
    let parsed = ::config::url::parse(text).ok();
    let bare = parsed.filter(|url| url.path == "/" && !text.ends_with(['/', '?']));
    let wrong = || "must be an origin such as https://app.example, without a path".to_owned();
    bare.map(|url| Origin(url.origin())).ok_or_else(wrong)
}

/// What every key is.
pub(crate) fn schema() -> Value {
    ::config::schema::of::<File>()
}

/// Reads a text, and tells everything that is wrong with single keys.
///
/// # Errors
///
/// The text is not YAML.
pub(crate) fn read(
    name: &str,
    text: &str,
) -> Result<(Document, File, Vec<::config::Problem>), ::config::Problem> {
    Document::read(name, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_sentence_and_an_example() {
        let rows = ::config::schema::rows(&schema());
        assert!(rows.len() > 150, "{}", rows.len());
        for row in rows {
            assert!(row.doc.ends_with('.'), "{row:?}");
            assert!(!row.example.is_empty() && !row.kind.is_empty(), "{row:?}");
        }
    }

    #[test]
    fn what_is_stopped_is_all_a_lane_or_an_agent() {
        let dev = Name::new("dev").unwrap();
        assert_eq!(stopped("all"), Ok(Stopped::All));
        assert_eq!(stopped("lane:mcp"), Ok(Stopped::Lane("mcp".into())));
        assert_eq!(stopped("agent:dev"), Ok(Stopped::Agent(dev)));
        for bad in [
            "",
            "dev",
            "All",
            "all:",
            "agent:",
            "agent: dev",
            "server:files",
        ] {
            assert!(stopped(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn origins_and_hashes() {
        let good = |text: &str| origin(text).map(|origin| origin.0);
        assert_eq!(
            good("https://App.example"),
            Ok("https://app.example".into())
        );
        assert_eq!(
            good("http://localhost:3000"),
            Ok("http://localhost:3000".into())
        );
        for bad in ["https://a/", "https://a/x", "*", "null", "https://a?x"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
        assert!(key_hash(&format!("sha256:{}", "a".repeat(64))).is_ok());
        let written = key_hash("weir_abc").unwrap_err();
        assert!(written.contains("is a key itself") && !written.contains("abc"));
        assert!(key_hash("sha256:12").is_err());
    }
}
