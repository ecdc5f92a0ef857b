//! What a run does, checked: targets, requests, loads, stages.
//!
//! A plan is made from a scenario file or from flags (`scenario`), once, with every problem found. Engines
//! only read it, so nothing here can be wrong any more when load is sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::Secret;

use crate::schedule::Profile;
use crate::template::{Body, Feed, Template};

/// Most scenarios in one run.
pub const FLOWS_MAX: usize = 64;
/// Most stages of one scenario.
pub const STAGES_MAX: usize = 256;
/// Most kinds of requests in one scenario.
pub const REQUESTS_MAX: usize = 64;
/// Most connections of one scenario.
pub const CONNECTIONS_MAX: usize = 65_536;
/// Most arrivals of one burst.
pub const BURST_MAX: u64 = 100_000;
/// Most generator threads of one scenario.
pub const THREADS_MAX: usize = 256;
/// Longest answer that is kept to be compared or read, in bytes. Longer ones are counted and not kept.
pub const KEPT_BYTES_MAX: usize = 16 << 20;

/// A whole run.
pub struct Plan {
    pub name: String,
    /// Everything random is drawn from this.
    pub seed: u64,
    /// The run's identifier in `weir-lab-id`: eight hex digits; a flow adds four of its own.
    pub run: u32,
    pub flows: Vec<Arc<Flow>>,
    /// How often tallies are handed over, which is also the resolution of the series.
    pub interval: Duration,
}

/// One scenario of a run: one kind of traffic, with its own load and its own threads.
pub struct Flow {
    pub name: String,
    /// Its place in the plan.
    pub index: usize,
    /// Where connections go, in turn: connection `j` goes to target `j % targets.len()`.
    pub targets: Vec<Target>,
    pub protocol: Protocol,
    pub model: Model,
    /// What the level of `profile` means: connections (closed) or arrivals a second (open).
    pub profile: Profile,
    /// Connections: the most at once when closed, and the bound of requests in flight when open.
    pub connections: usize,
    /// Generator threads of this flow, at least 1 and at most `connections`.
    pub threads: usize,
    pub requests: Vec<Request>,
    pub feeds: Vec<Feed>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// From the send to the last byte.
    pub timeout: Duration,
    /// How long a closed connection waits between an answer and its next request.
    pub pause: Duration,
    /// A new connection for each request, instead of keeping connections alive.
    pub reconnect: bool,
    /// Each request that fails is worth a note with its number, also where its status says it all.
    pub names_failures: bool,
}

impl Flow {
    /// The index of the kind of request that the request with this number is: by weight, and evenly mixed.
    pub fn kind_of(&self, number: u64) -> usize {
        if self.requests.len() == 1 {
            return 0;
        }
        let total: u64 = self.requests.iter().map(|r| u64::from(r.weight)).sum();
        // A golden-ratio step visits the weights evenly, whatever order they are written in.
        let turn = u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut at = ((turn * u128::from(total)) >> 64) as u64;
        for (index, request) in self.requests.iter().enumerate() {
            let weight = u64::from(request.weight);
            if at < weight {
                return index;
            }
            at -= weight;
        }
        0
    }

    /// Connections of one of its threads: they are dealt out like cards.
    pub fn connections_of(&self, thread: usize) -> usize {
        (self.connections + self.threads - 1 - thread) / self.threads
    }
}

/// One server to speak to.
#[derive(Clone, Debug)]
pub struct Target {
    pub tls: bool,
    /// The name as written, without brackets, for TLS.
    pub host: String,
    pub port: u16,
    /// What the Host field says.
    pub authority: String,
    /// Resolved once, before the run; the first that answers is used.
    pub addresses: Vec<SocketAddr>,
}

impl Target {
    /// Its scheme, host and port, as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }
}

/// How the generator speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 on the hot path, without TLS, or over TLS.
    Http1,
    /// HTTP/2: by ALPN over TLS, with prior knowledge without.
    Http2 {
        /// Requests in flight on one connection; connections × streams is the closed load.
        streams: usize,
    },
    /// MCP over streamable HTTP. Each connection has its own session.
    Mcp(McpRevision),
    /// A stream of server-sent events, read to its end.
    Sse,
    /// An OpenAI-style chat completion, streamed or not (the request's body says which).
    Openai,
    /// An Anthropic-style message, streamed or not.
    Anthropic,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Protocol::Http1 => f.write_str("http1"),
            Protocol::Http2 { .. } => f.write_str("http2"),
            Protocol::Sse => f.write_str("sse"),
            Protocol::Openai => f.write_str("openai"),
            Protocol::Anthropic => f.write_str("anthropic"),
            Protocol::Mcp(McpRevision::Session(revision) | McpRevision::Stateless(revision)) => {
                write!(f, "mcp {revision}")
            }
        }
    }
}

/// Which MCP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpRevision {
    /// Revisions with `initialize` and a session: 2025-06-18 or 2025-11-25.
    Session(&'static str),
    /// The stateless revision: 2026-07-28.
    Stateless(&'static str),
}

/// Who decides when a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The server: a connection sends its next request when it has its answer.
    Closed,
    /// The clock: requests begin when they are due, whether or not earlier ones have been answered.
    Open {
        arrivals: Arrivals,
        /// Most requests that are due and wait for a free connection, over all threads; more are dropped and counted.
        queue_max: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly spaced.
    Uniform,
    /// Independent: the gaps are exponential.
    Poisson,
    /// So many at the same instant, evenly spaced: the rate is that of uniform arrivals.
    Burst(u64),
}

/// One kind of request.
pub struct Request {
    pub name: String,
    pub weight: u32,
    pub method: String,
    /// Path and query.
    pub path: Template,
    /// In order; without Host, Content-Length and what the protocol itself adds.
    pub headers: Vec<(String, Value)>,
    pub body: Body,
    /// For MCP: what is asked. The path is the endpoint, the body unused.
    pub ask: Option<Ask>,
    pub expect: Expect,
}

/// What an MCP request asks.
pub enum Ask {
    /// `initialize` and `notifications/initialized`: done for each connection before the run, where the revision
    /// has sessions. Its weight is 0, so that it is never drawn, and it is in no headline.
    Initialize,
    /// `tools/list`, to its last page.
    List,
    /// `tools/call`.
    Call {
        tool: String,
        /// The arguments, as JSON text once rendered.
        arguments: Template,
    },
    /// `ping`, where the revision has it.
    Ping,
}

/// A header field's value.
pub enum Value {
    Text(Template),
    /// A credential, never printed.
    Secret(Secret),
}

/// What a good answer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The statuses that are good; empty: every 2xx and 3xx.
    pub statuses: Vec<u16>,
    /// Fields that must be there with exactly this value (names in lower case).
    pub headers: Vec<(String, String)>,
    pub body: BodyCheck,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyCheck {
    /// Counted only.
    #[default]
    Any,
    /// Every byte equals what was sent, the content type too, and the `weir-lab-id` field comes back.
    Echo,
    /// Exactly these bytes.
    Exact(Vec<u8>),
    /// These bytes are somewhere in it.
    Contains(Vec<u8>),
}

impl Expect {
    /// Whether a status is good.
    pub fn status(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            (200..400).contains(&status)
        } else {
            self.statuses.contains(&status)
        }
    }
}
