//! The edge: what agents connect to.
//!
//! HTTP/1.1 by [`crate::h1`], with what is the edge's own: places for agents and strangers, whole messages for
//! the service that answers, and refusals in its words for what is not let in. It does not route and does not
//! judge.

mod accept;
mod answer;
mod body;
mod connection;
mod drain;
mod forwarded;
pub mod fuzzing;
mod listen;
mod listener;
mod opening;
mod places;
mod proxy;
mod refused;
mod request;
mod settings;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::Refusal;

use crate::h1::PeerAddress;
use crate::mutual::Shown;

pub use accept::{AcceptedConnection, ConnectionService, serve_connections};
pub use body::{Body, BodySender, Gone, StreamBody};
pub use drain::Drain;
pub use forwarded::ForwardedField;
pub use listen::serve;
pub use listen::serve_tunnel;
pub use listener::{Listener, bind, bind_alone, reserve};
pub use refused::refused;
pub(crate) use refused::refused_in_words;
pub use request::Request;
pub use settings::{CallerSaid, EdgeSettings, ListenerSettings, Proxies};

/// What a [`Service`] answers with.
pub type Response = http::Response<Body>;

/// What answers requests.
pub trait Service: 'static {
    /// Answers one request. The future is dropped when the client goes away before it is done.
    fn call(&self, request: Request) -> impl Future<Output = Response>;
    /// Forms the answer for what the edge itself refuses: a bad head, too many connections. Its body has to
    /// be `Empty` or `Full`.
    fn refuse(&self, refusal: &Refusal) -> Response;
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Of the socket.
    pub address: PeerAddress,
    /// Of whoever calls, by which limits count and which records name: behind a proxy that is believed, the address
    /// that it says. A process that comes by a Unix socket has that of this machine, 127.0.0.1.
    pub caller: IpAddr,
    /// Whether a proxy acts for somebody whom it does not name, so that `caller` is the proxy's own address.
    pub is_unnamed: bool,
    /// Whether the connection is secured by TLS that ends here.
    pub is_tls: bool,
    /// The certificates that it showed, where they were asked for; they are good.
    pub shown: Option<Arc<Shown>>,
}

impl Peer {
    /// The certificate that was shown, in DER.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.shown.as_deref()?.leaf()
    }

    fn new(address: PeerAddress) -> Peer {
        let caller = match address {
            PeerAddress::Tcp(address) => address.ip().to_canonical(),
            PeerAddress::Unix { .. } => Ipv4Addr::LOCALHOST.into(),
        };
        Peer {
            address,
            caller,
            is_unnamed: false,
            is_tls: false,
            shown: None,
        }
    }
}

/// What the edges of all threads count together.
#[derive(Debug, Default)]
pub struct EdgeShared {
    connections: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused_busy: AtomicU64,
    refused_heads: AtomicU64,
    unopened: AtomicU64,
    closed_silent: AtomicU64,
    strangers: Mutex<places::Strangers>,
}

impl EdgeShared {
    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections accepted so far, also those that were refused.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections refused so far because there were too many, in all or from their address.
    pub fn refused_busy(&self) -> u64 {
        self.refused_busy.load(Ordering::Relaxed)
    }

    /// Connections closed so far because they asked nothing while others had no place.
    pub fn closed_silent(&self) -> u64 {
        self.closed_silent.load(Ordering::Relaxed)
    }

    /// Connections so far that did not get as far as HTTP: their PROXY header or their TLS failed.
    pub fn unopened(&self) -> u64 {
        self.unopened.load(Ordering::Relaxed)
    }

    /// Request heads refused so far: malformed, too large or too slow.
    pub fn refused_heads(&self) -> u64 {
        self.refused_heads.load(Ordering::Relaxed)
    }
}
