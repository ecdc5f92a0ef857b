//! What a relay is told to do: plain values, checked once when an [`crate::Outbound`] or [`crate::Inbound`] is made.
//!
//! Secrets here have no `Debug`, no `Display` and no serialization, and are wiped when they are dropped. Nothing here
//! reads a file or an environment.

use std::fmt;
use std::sync::Arc;

use base::{Digest, Name};
use identity::AgentState;
use net::Endpoint;
use net::mutual::{Credentials, CredentialsError};
use seal::keytext::{PeerKey, TicketKey};
use seal::{Identity, Key32, Mode, Pin, Public, Suite};
use zeroize::Zeroizing;

use crate::once::Claims;

/// Most routes of one relay.
pub const ROUTES_MAX: usize = 1024;
/// Most peers of an outbound, and peers that are enrolled at an inbound.
pub const PEERS_MAX: usize = 4096;
/// Most tokens and users that callers of an outbound are known by.
pub const CALLERS_MAX: usize = 4096;
/// Most keys that one peer may have.
pub const PEER_KEYS_MAX: usize = 4;
/// Longest content of one message, in bytes, where nothing else is set: SHR/1 carries no longer one.
pub const CONTENT_BYTES_DEFAULT: u64 = 1 << 37;

/// How long a session lasts, in milliseconds, where nothing shorter is set.
pub const SESSION_MS_DEFAULT: u64 = seal::session::SESSION_MS;
/// Idle connections that one thread keeps to one target, at least.
pub const IDLE_MAX: usize = 1024;
/// How long a stream of an answer may be silent, in milliseconds.
pub const STREAM_MS_DEFAULT: u64 = 300_000;

/// A join token: 16 to 64 secret bytes, shared by a fleet.
#[derive(Clone)]
pub struct Token(pub(crate) Zeroizing<Vec<u8>>);

impl Token {
    pub fn new(bytes: Vec<u8>) -> Token {
        Token(Zeroizing::new(bytes))
    }
}

/// Which hosts a route is for, without regard to case and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMatch {
    Any,
    /// This name alone.
    Exact(String),
    /// Every name that ends in a dot and this, such as `api.example` for `example`.
    Under(String),
}

/// Where requests of a route go. The name is that of a peer or of a target in the same settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Sealed, to this peer. Of an outbound alone.
    Peer(Name),
    /// As plain HTTP, to this target: the pass-through of an outbound, the origin of an inbound.
    Plain(Name),
}

/// One route. The first that matches is taken; a request that none matches is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub host: HostMatch,
    /// The path itself, or what stands before a `/` of it; `/` is for every path.
    pub path: String,
    pub to: To,
}

/// Who calls, as policies and records name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: Name,
    pub groups: Vec<Name>,
    pub state: AgentState,
}

/// How an outbound knows who calls. What none of it fits is refused.
#[derive(Clone, Debug)]
pub struct Callers {
    /// The field that holds a token, which is taken out of the request. In `proxy-authorization` it stands behind
    /// `Bearer`, elsewhere alone.
    pub field: String,
    /// SHA-256 of the tokens.
    pub tokens: Vec<(Digest, Agent)>,
    /// Users of this machine, by uid, on a Unix socket.
    pub users: Vec<(u32, Agent)>,
    /// Who calls without a token; absent where a token or a user is demanded.
    pub anyone: Option<Agent>,
}

/// An inbound, as an outbound sees it.
pub struct Peer {
    pub name: Name,
    pub endpoint: Endpoint,
    /// Tried in this order; the next only where the inbound says that it has no such key.
    pub keys: Vec<PeerKey>,
    pub suite: Suite,
    /// Our own key.
    pub identity: Arc<Identity>,
    /// The keys of this pair; two while they turn over.
    pub psks: Vec<Key32>,
    pub token: Option<Token>,
    /// Whether lengths are hidden in buckets.
    pub padding: bool,
}

/// What an outbound is told.
pub struct OutboundSettings {
    pub routes: Vec<Route>,
    pub peers: Vec<Peer>,
    /// Targets of routes that pass requests on as they are. One with a certificate of ours is a peer by TLS.
    pub plain: Vec<(Name, Endpoint)>,
    pub callers: Callers,
    /// Longest content of one message, in bytes.
    pub content_bytes_max: u64,
    /// Bounds of connections with applications.
    pub edge: net::h1::ConnectionSettings,
    /// Bounds of connections with peers and plain targets.
    pub upstream: net::h1::ConnectionSettings,
}

/// An outbound, as an inbound sees it.
pub struct Enrolled {
    pub agent: Agent,
    pub public: Public,
    pub psk: Option<Key32>,
    /// Sessions from before this time are refused, in Unix milliseconds.
    pub sessions_after_unix_ms: u64,
}

/// Where ticket keys come from.
pub enum TicketKeys {
    /// This instance makes its own, each hour a new one, and tells nobody. Sessions end with it.
    Own,
    /// Instances of one fleet have the same; they are reloaded to turn over.
    Given(Vec<TicketKey>),
    /// Instances of one fleet make them together in the store that they share, wrapped under this key.
    Shared(Key32),
}

/// TLS with certificates on both sides, in place of the seal.
pub struct Mutual {
    /// Our certificate, and whose we take.
    pub credentials: Credentials,
    /// The outbounds that may call, each by a name that its certificate is for.
    pub peers: Vec<(Agent, String)>,
}

/// What an inbound is told.
pub struct InboundSettings {
    pub routes: Vec<Route>,
    /// The origins.
    pub origins: Vec<(Name, Endpoint)>,
    /// With it nothing is sealed; keys, peers, tokens and ticket keys below mean nothing then.
    pub mutual: Option<Mutual>,
    /// Our keys: one, or two while they turn over.
    pub identities: Vec<Identity>,
    pub peers: Vec<Enrolled>,
    /// Join tokens; with any, a handshake without one of them is refused.
    pub tokens: Vec<Token>,
    pub ticket_keys: TicketKeys,
    /// What sessions are promised about replays; it stays as it was at the start.
    pub mode: Mode,
    /// The store that all instances share; needed where the mode is strict or ticket keys are shared.
    pub claims: Option<Arc<dyn Claims>>,
    /// How long sessions last, in milliseconds: an hour where nothing shorter is set, and at most.
    pub session_ms: u64,
    /// The key that peers are told to expect next.
    pub next_pin: Option<Pin>,
    /// Most replay windows: one for each sender of the last half minute.
    pub windows_max: usize,
    /// CPU time that handshakes may take in each second, in microseconds.
    pub handshake_cpu_us_per_s: u64,
    /// Longest content of one message, in bytes.
    pub content_bytes_max: u64,
    /// Whether the lengths of answers are hidden in buckets.
    pub padding: bool,
    /// Bounds of connections with outbounds, or whatever stands before them.
    pub edge: net::h1::ConnectionSettings,
    /// Bounds of connections with origins.
    pub upstream: net::h1::ConnectionSettings,
}

/// A relay has one target for many connections, so it keeps more of them than a gateway does for each of its servers.
fn pooled((name, endpoint): (&Name, &Endpoint)) -> (Name, Endpoint) {
    let mut endpoint = endpoint.clone();
    endpoint.idle_max = endpoint.idle_max.max(IDLE_MAX);
    (name.clone(), endpoint)
}

/// The bounds of connections that go out, where nothing else is set: an event stream may be silent for five minutes.
pub fn upstream() -> net::h1::ConnectionSettings {
    net::h1::ConnectionSettings {
        piece_ms: STREAM_MS_DEFAULT,
        ..net::h1::ConnectionSettings::default()
    }
}

impl OutboundSettings {
    /// The targets that `net` has to know.
    pub fn endpoints(&self) -> Vec<(Name, Endpoint)> {
        let peers = self.peers.iter();
        let peers = peers.map(|peer| (&peer.name, &peer.endpoint));
        let plain = self.plain.iter().map(|(name, endpoint)| (name, endpoint));
        peers.chain(plain).map(pooled).collect()
    }
}

impl InboundSettings {
    /// The targets that `net` has to know.
    pub fn endpoints(&self) -> Vec<(Name, Endpoint)> {
        let origins = self.origins.iter().map(|(name, endpoint)| (name, endpoint));
        origins.map(pooled).collect()
    }
}

/// What is wrong with settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is nothing to send requests to.
    NoRoutes,
    /// A route goes to a name that is not among peers, targets or origins.
    RouteTarget(Name),
    /// A route's path does not begin with `/`, or its host is empty.
    RouteForm(String),
    /// A name stands for two things.
    NameTwice(Name),
    /// A peer has no key, or more than four.
    PeerKeys(Name),
    /// Two peers that are enrolled have one key.
    PeerTwice(Name),
    /// One of the lists is longer than its bound.
    TooMany(&'static str),
    /// The name that a peer's certificate has to be for is none.
    PeerName(Name),
    /// The path of a peer's URL is none that a request can have.
    PeerPath(Name),
    /// A certificate, its key or the authorities.
    Credentials(CredentialsError),
    /// The name of the caller's field is no field name.
    CallerField,
    /// A key, token or ring that `seal` does not take.
    Seal(seal::Error),
    /// The kernel gives no random bytes.
    Random,
    /// What is asked for takes a store that instances share, and there is none.
    NoStore,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoRoutes => {
                f.write_str("there is no route, so every request would be refused")
            }
            Problem::RouteTarget(name) => write!(f, "a route goes to {name}, which is not defined"),
            Problem::RouteForm(what) => {
                write!(
                    f,
                    "{what:?}: a route's path begins with / and its host is a name"
                )
            }
            Problem::NameTwice(name) => write!(f, "{name} stands for two things"),
            Problem::PeerKeys(name) => write!(f, "{name}: a peer has one to {PEER_KEYS_MAX} keys"),
            Problem::PeerTwice(name) => write!(f, "{name} has the key or the name of another peer"),
            Problem::PeerName(name) => {
                write!(
                    f,
                    "{name}: a certificate is for a DNS name or an IP address"
                )
            }
            Problem::PeerPath(name) => {
                write!(f, "{name}: the path of its URL cannot stand in a request")
            }
            Problem::Credentials(error) => error.fmt(f),
            Problem::TooMany(what) => write!(f, "there are too many {what}"),
            Problem::CallerField => f.write_str("the field of the caller's token is no field name"),
            Problem::Seal(error) => error.fmt(f),
            Problem::Random => f.write_str("the kernel gives no random bytes"),
            Problem::NoStore => f.write_str(
                "strict replay and shared ticket keys need a store that instances share",
            ),
        }
    }
}

impl std::error::Error for Problem {}

impl From<seal::Error> for Problem {
    fn from(error: seal::Error) -> Problem {
        Problem::Seal(error)
    }
}
