//! The bounds of the edge, and how each of its listeners takes connections.

use std::net::IpAddr;
use std::sync::Arc;

use base::{AddressRange, limit};

use super::Peer;
use super::forwarded::{self, ForwardedField};
use crate::h1::{ConnectionSettings, PeerAddress};
use crate::tls::EdgeTls;

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
    pub(super) fn bounds(&self) -> ConnectionSettings {
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

/// How a listener takes connections.
#[derive(Debug)]
pub struct ListenerSettings {
    /// Whether HTTP/2 is spoken: to who begins with it, and to who agrees on it as TLS begins.
    pub http2: bool,
    /// The TLS that ends here.
    pub tls: Option<Arc<EdgeTls>>,
    /// The proxies in front of it that are believed.
    pub proxies: Option<Proxies>,
}

impl Default for ListenerSettings {
    fn default() -> ListenerSettings {
        ListenerSettings {
            http2: true,
            tls: None,
            proxies: None,
        }
    }
}

/// Proxies that say whom they act for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    pub said: CallerSaid,
    /// Their addresses.
    pub trusted: Vec<AddressRange>,
    /// Whether every process that reaches the Unix socket is one.
    pub is_unix_trusted: bool,
}

/// Where a proxy says whom it acts for. One alone is believed: what a proxy does not set itself, it passes on as its
/// client made it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerSaid {
    /// In a PROXY header, version 1 or 2, before all else.
    Protocol,
    /// In a field of each request.
    Field(ForwardedField),
}

impl Proxies {
    pub(super) fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|range| range.contains(address))
    }
}

impl ListenerSettings {
    /// Whether a proxy that is believed is at the other end.
    pub(super) fn is_proxy(&self, peer: &PeerAddress) -> bool {
        self.proxies.as_ref().is_some_and(|proxies| match peer {
            PeerAddress::Tcp(address) => proxies.is_trusted(address.ip()),
            PeerAddress::Unix { .. } => proxies.is_unix_trusted,
        })
    }

    /// Whoever sent a request of a connection, by what its proxy says of it.
    pub(super) fn caller_of(&self, peer: &Peer, head: &http::request::Parts) -> Peer {
        let mut peer = peer.clone();
        if let Some(proxies) = &self.proxies
            && let CallerSaid::Field(field) = proxies.said
            && self.is_proxy(&peer.address)
        {
            let values = head.headers.get_all(field.name()).iter();
            let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
            let is_trusted = |address| proxies.is_trusted(address);
            let (caller, is_named) = forwarded::caller(field, &values, peer.caller, is_trusted);
            (peer.caller, peer.is_unnamed) = (caller, !is_named);
        }
        peer
    }

    pub(super) fn is_proxy_protocol(&self) -> bool {
        let proxies = self.proxies.as_ref();
        proxies.is_some_and(|proxies| proxies.said == CallerSaid::Protocol)
    }

    /// Whether HTTP is all that connections speak.
    pub(super) fn opens_at_once(&self) -> bool {
        self.tls.is_none() && !self.is_proxy_protocol()
    }
}
