//! The edge: what agents connect to.
//!
//! HTTP/1.1 by [`crate::h1`], with what is the edge's own: places for agents and strangers, whole messages for
//! the service that answers, and refusals in its words for what is not let in. It does not route and does not
//! judge.

mod answer;
mod body;
mod connection;
mod drain;
mod listen;
mod places;
mod refused;
mod request;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base::{Refusal, limit};

use crate::h1::ConnectionSettings;

pub use body::{Body, BodySender, Gone, StreamBody};
pub use drain::Drain;
pub(crate) use listen::ConnectionSlot;
pub(crate) use listen::open;
pub use listen::{bind, reserve, serve};
pub use refused::refused;
pub use request::Request;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: SocketAddr,
}

/// The bounds of the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeSettings {
    /// From the first byte of a request head to its last, in milliseconds.
    pub head_ms: u64,
    /// For a whole request body, in milliseconds.
    pub body_ms: u64,
    /// Largest request body, in bytes.
    pub body_bytes_max: usize,
    /// How long a connection may be unused, in milliseconds.
    pub idle_ms: u64,
    /// How long a client may take none of its answer, in milliseconds.
    pub write_ms: u64,
    /// Connections open at once, over all threads that share one [`EdgeShared`].
    pub connections_max: usize,
    /// Of those, connections from one address (IPv6: one /64) on which no known agent has asked yet.
    pub strangers_max: usize,
    /// How long a drain waits for calls in flight, in milliseconds.
    pub drain_ms: u64,
}

impl EdgeSettings {
    /// The bounds of each connection.
    fn bounds(&self) -> ConnectionSettings {
        ConnectionSettings {
            head_bytes_max: limit::HEAD_BYTES_MAX,
            fields_max: limit::HEAD_FIELDS_MAX,
            head_ms: self.head_ms,
            idle_ms: self.idle_ms,
            // A whole body has as long; `Request::body` sees to that.
            piece_ms: self.body_ms,
            write_ms: self.write_ms,
            connections_max: self.connections_max,
            drain_ms: self.drain_ms,
            // A tick, in which a request that is here already is read.
            drain_idle_ms: 0,
            ..ConnectionSettings::default()
        }
    }
}

impl Default for EdgeSettings {
    fn default() -> EdgeSettings {
        EdgeSettings {
            head_ms: limit::HEAD_MS_DEFAULT,
            body_ms: limit::BODY_MS_DEFAULT,
            body_bytes_max: limit::BODY_BYTES_DEFAULT,
            idle_ms: limit::IDLE_CLIENT_MS_DEFAULT,
            write_ms: limit::WRITE_MS_DEFAULT,
            connections_max: limit::CONNECTIONS_DEFAULT,
            strangers_max: limit::STRANGERS_CONNECTIONS_DEFAULT,
            drain_ms: limit::DRAIN_MS_DEFAULT,
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

    /// Request heads refused so far: malformed, too large or too slow.
    pub fn refused_heads(&self) -> u64 {
        self.refused_heads.load(Ordering::Relaxed)
    }
}
