//! The `web` section of a configuration, as it is written.
//!
//! What one key says about another is checked where the configuration is read.

use base::limit;
use config::{
    Addresses, ByName, Count, FilePath, FileReference, Label, List, Listen, Reference, Switch,
    Text, Url,
};
use schemars::JsonSchema;
use serde::Deserialize;

const BODY_BYTES_DEFAULT: u64 = limit::BODY_BYTES_DEFAULT as u64;
const ANSWER_MS_DEFAULT: u64 = 60_000;
const SILENCE_MS_DEFAULT: u64 = 120_000;
const PAGE_BYTES_DEFAULT: u64 = 8 << 20;
const REDIRECTS_DEFAULT: u64 = 10;
const TUNNEL_IDLE_MS_DEFAULT: u64 = 120_000;
const TUNNEL_MS_DEFAULT: u64 = 3_600_000;
const TUNNEL_BYTES_DEFAULT: u64 = 4 << 30;
const MESSAGE_BYTES_DEFAULT: u64 = 1 << 20;
const OPEN_DEFAULT: u64 = 256;
const HOSTS_DEFAULT: u64 = 1_000;
const BYTES_DEFAULT: u64 = 1 << 40;

/// Pages, requests and tunnels of agents: /fetch, and the forward proxy where it listens.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ listen: '127.0.0.1:8703' }")]
pub struct WebSection {
    /// Where the forward proxy listens, for HTTPS_PROXY and HTTP_PROXY of agents; without it there is only /fetch.
    #[schemars(example = &"127.0.0.1:8703")]
    pub listen: Option<Listen>,
    /// Looking into TLS: with an authority that agents' programs trust, what is inside of tunnels is judged too.
    #[schemars(example = &"{ ca: ./ca, pass: [pinned.example] }")]
    pub intercept: Option<InterceptSection>,
    /// Whether what policies and the scan refuse is refused, or passes and is only recorded.
    #[schemars(example = &"observe")]
    pub mode: WebMode,
    /// Credentials that agents never have: put into requests to their hosts, and taken out of what comes back.
    #[schemars(example = &"{ github: { hosts: [api.github.com], value: env:GITHUB_TOKEN } }")]
    pub credentials: ByName<CredentialSection>,
    /// How /fetch asks for pages.
    #[schemars(example = &"{ user_agent: weir/1 }")]
    pub fetch: FetchSection,
    /// The bounds of a tunnel.
    #[schemars(example = &"{ idle_ms: 60000 }")]
    pub tunnel: TunnelSection,
    /// WebSockets, through the proxy and at /ws.
    #[schemars(example = &"{ binary: true }")]
    pub socket: SocketSection,
    /// Services of the operator's, each on a listener of its own: what is asked of them is judged, and what they answer.
    #[schemars(example = &"{ wiki: { listen: '127.0.0.1:8704', url: 'http://127.0.0.1:9000' } }")]
    pub reverse: ByName<ReverseSection>,
    /// What one agent may use.
    #[schemars(example = &"{ open_max: 64 }")]
    pub agent: AgentSection,
    /// Certificates to trust for sites beside the public ones, as PEM.
    #[schemars(example = &"file:company-ca.pem")]
    pub ca: Option<FileReference>,
    /// Largest body that is judged before any of it leaves, in bytes; a larger one is judged as it flows.
    #[schemars(example = &"4194304")]
    pub body_bytes_max: Count<1024, 1_073_741_824>,
    /// How long a site may take until its answer begins, in milliseconds.
    #[schemars(example = &"60000")]
    pub answer_ms: Count<1, 86_400_000>,
    /// How long a site may send nothing in the middle of an answer, in milliseconds.
    #[schemars(example = &"120000")]
    pub silence_ms: Count<1, 86_400_000>,
}

impl Default for WebSection {
    fn default() -> WebSection {
        WebSection {
            listen: None,
            intercept: None,
            mode: WebMode::default(),
            credentials: ByName::default(),
            fetch: FetchSection::default(),
            tunnel: TunnelSection::default(),
            socket: SocketSection::default(),
            reverse: ByName::default(),
            agent: AgentSection::default(),
            ca: None,
            body_bytes_max: Count(BODY_BYTES_DEFAULT),
            answer_ms: Count(ANSWER_MS_DEFAULT),
            silence_ms: Count(SILENCE_MS_DEFAULT),
        }
    }
}

/// What becomes of calls that policies or the scan refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebMode {
    #[default]
    Enforce,
    Observe,
}

/// Looking into TLS.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ ca: ./ca, pass: [pinned.example] }")]
pub struct InterceptSection {
    /// The folder of the authority, as weir web ca init makes it.
    #[schemars(required, example = &"./ca")]
    pub ca: Option<FilePath>,
    /// Hosts whose tunnels nobody looks into; *. before a name means all below it.
    #[schemars(example = &"[pinned.example, '*.bank.example']")]
    pub pass: List<Text>,
}

/// One service behind the reverse proxy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ listen: '127.0.0.1:8704', url: 'http://127.0.0.1:9000' }")]
pub struct ReverseSection {
    /// Where agents reach it.
    #[schemars(required, example = &"127.0.0.1:8704")]
    pub listen: Option<Listen>,
    /// Where the service is; its path stands before each that is asked.
    #[schemars(required, example = &"https://wiki.example/api")]
    pub url: Option<Url>,
    /// Sent to the service as Authorization: Bearer; over https, or to this machine.
    #[schemars(example = &"env:WIKI_TOKEN")]
    pub token: Option<Reference>,
    /// Certificates to trust for this service instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// Private address ranges that may be dialled for this service; those that are not public are refused otherwise.
    #[schemars(example = &"[10.0.0.0/8]")]
    pub addresses: List<Addresses>,
}

/// One credential.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ hosts: [api.github.com], value: env:GITHUB_TOKEN }")]
pub struct CredentialSection {
    /// The hosts that it is for, by https; *. before a name means all below it.
    #[schemars(required, example = &"[api.github.com]")]
    pub hosts: List<Text>,
    /// The agents that may use it; all where none is named.
    #[schemars(example = &"[dev]")]
    pub agents: List<Label>,
    /// The field of the request that it goes into; authorization where none is named.
    #[schemars(example = &"x-api-key")]
    pub field: Option<Text>,
    /// The value.
    #[schemars(required, example = &"env:GITHUB_TOKEN")]
    pub value: Option<Reference>,
    /// What agents write in place of the value; weir-credential-NAME where nothing is said.
    #[schemars(example = &"weir-credential-github")]
    pub placeholder: Option<Text>,
    /// What stands before the value where the agent sends no such field; "Bearer " in authorization where nothing is said.
    #[schemars(example = &"'token '")]
    pub before: Option<Text>,
}

/// How /fetch asks for pages.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ user_agent: weir/1, redirects_max: 5 }")]
pub struct FetchSection {
    /// What sites are told of who asks.
    #[schemars(example = &"weir/1 (+https://weir.example)")]
    pub user_agent: Text,
    /// Largest page, in bytes, before and after its coding is undone.
    #[schemars(example = &"8388608")]
    pub bytes_max: Count<1024, 67_108_864>,
    /// Redirects that are followed; each is a call of its own.
    #[schemars(example = &"10")]
    pub redirects_max: Count<0, 20>,
    /// Whether a page is left alone where the site's robots.txt asks for that (RFC 9309), of the name that user_agent begins with.
    #[schemars(example = &"true")]
    pub robots: Switch,
}

impl Default for FetchSection {
    fn default() -> FetchSection {
        FetchSection {
            user_agent: Text(concat!("weir/", env!("CARGO_PKG_VERSION")).to_owned()),
            bytes_max: Count(PAGE_BYTES_DEFAULT),
            redirects_max: Count(REDIRECTS_DEFAULT),
            robots: Switch(false),
        }
    }
}

/// The bounds of a tunnel.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ idle_ms: 60000, bytes_max: 1073741824 }")]
pub struct TunnelSection {
    /// How long nothing may flow, in milliseconds.
    #[schemars(example = &"120000")]
    pub idle_ms: Count<1, 86_400_000>,
    /// How long it may last, in milliseconds.
    #[schemars(example = &"3600000")]
    pub whole_ms: Count<1, 604_800_000>,
    /// Bytes that it may carry, both ways together.
    #[schemars(example = &"4294967296")]
    pub bytes_max: Count<1, 1_099_511_627_776>,
}

impl Default for TunnelSection {
    fn default() -> TunnelSection {
        TunnelSection {
            idle_ms: Count(TUNNEL_IDLE_MS_DEFAULT),
            whole_ms: Count(TUNNEL_MS_DEFAULT),
            bytes_max: Count(TUNNEL_BYTES_DEFAULT),
        }
    }
}

/// WebSockets, through the proxy and at /ws.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ binary: true, origin: drop }")]
pub struct SocketSection {
    /// Whether messages may be bytes; of those only runs of letters can be judged.
    #[schemars(example = &"true")]
    pub binary: Switch,
    /// What becomes of the client's Origin field: keep, drop, or replace it by the site's own.
    #[schemars(example = &"drop")]
    pub origin: SocketOrigin,
    /// Largest message, in bytes, in however many frames it comes.
    #[schemars(example = &"1048576")]
    pub message_bytes_max: Count<1024, 67_108_864>,
    /// How long nothing may come or go, in milliseconds; a ping counts.
    #[schemars(example = &"120000")]
    pub idle_ms: Count<1, 86_400_000>,
    /// How long it may last, in milliseconds.
    #[schemars(example = &"3600000")]
    pub whole_ms: Count<1, 604_800_000>,
}

impl Default for SocketSection {
    fn default() -> SocketSection {
        SocketSection {
            binary: Switch(false),
            origin: SocketOrigin::Keep,
            message_bytes_max: Count(MESSAGE_BYTES_DEFAULT),
            idle_ms: Count(TUNNEL_IDLE_MS_DEFAULT),
            whole_ms: Count(TUNNEL_MS_DEFAULT),
        }
    }
}

/// What becomes of the Origin field of a client that asks for a WebSocket (RFC 6454 §7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SocketOrigin {
    #[default]
    Keep,
    Drop,
    Replace,
}

/// What one agent may use.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ open_max: 64, hosts_per_hour: 200 }")]
pub struct AgentSection {
    /// Calls and tunnels open at once.
    #[schemars(example = &"256")]
    pub open_max: Count<1, 100_000>,
    /// Different hosts in an hour.
    #[schemars(example = &"1000")]
    pub hosts_per_hour: Count<1, 100_000>,
    /// Bytes of bodies and tunnels in an hour, both ways together.
    #[schemars(example = &"10737418240")]
    pub bytes_per_hour: Count<1, 1_099_511_627_776>,
}

impl Default for AgentSection {
    fn default() -> AgentSection {
        AgentSection {
            open_max: Count(OPEN_DEFAULT),
            hosts_per_hour: Count(HOSTS_DEFAULT),
            bytes_per_hour: Count(BYTES_DEFAULT),
        }
    }
}
