//! The loop that accepts the connections of one listener, makes each ready, and gives it to a service.
//!
//! A connection over a bound is told so and closed; nobody is left to wait in silence. What stands before HTTP is read
//! here: the PROXY header of a proxy in front of us, then TLS. A drain takes what stands in the listener's queue, lets
//! what is in flight end, and returns after at most `drain_ms`.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Refusal, limit, refusal};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::Instant;

use super::listener::Accepting;
use super::opening::{self, Unopened};
use super::places::{ConnectionPlace, Guest, GuestPart, StrangersFull};
use super::proxy::ProxySource;
use super::{
    Drain, EdgeShared, Listener, ListenerSettings, Peer, Response, answer, refused_in_words,
};
use crate::h1::{ConnectionSettings, PeerAddress, ServerConnection, Stream, Thread};
use crate::http2::{self, StreamService};

/// Connections accepted before those that are open have their turn. A thread runs some sixty tasks between two
/// turns of this loop, and each accepted connection can be two of them: itself, and one that gives up its place.
const ACCEPTS_IN_A_ROW: u64 = 16;
/// How long a drain waits for what stands before HTTP, in milliseconds.
const OPENING_DRAIN_MS: u64 = 1_000;
/// How long to wait after a failure to accept, such as no file descriptor left.
const ACCEPT_AGAIN_MS: u64 = 50;

/// What serves connections.
pub trait ConnectionService: 'static {
    /// Serves one connection to its end. It ends by itself when the thread drains, as a `ServerConnection`
    /// does; otherwise it is dropped when the drain has taken too long.
    fn connection(&self, accepted: AcceptedConnection) -> impl Future<Output = ()>;

    /// The answer to a connection that is not served. Its body has to be `Empty` or `Full`.
    fn refuse(&self, refusal: &Refusal) -> Response {
        refused_in_words(refusal)
    }

    /// Whether connections are given to it as they come, because it does what stands before HTTP itself.
    fn takes_bare(&self) -> bool {
        false
    }

    /// Most connections from one address (IPv6: one /64) of whom nobody said that it is known; such a connection gives
    /// way to others while it asks nothing. Without it connections are bounded in number alone.
    fn strangers_max(&self) -> Option<usize> {
        None
    }
}

/// A connection that was accepted, with what it has in common with others of its thread.
pub struct AcceptedConnection {
    pub stream: Stream,
    pub peer: Peer,
    pub thread: Rc<Thread>,
    pub bounds: Rc<ConnectionSettings>,
    pub(super) guest: Option<Rc<GuestPart>>,
    pub(super) settings: Rc<ListenerSettings>,
}

/// Accepts and serves until the drain starts, and then to the end of what is in flight.
///
/// Fails only if the listener cannot be used at all. Must run inside a `LocalSet`. A thread that
/// listens on several sockets runs this once for each.
pub async fn serve_connections<S: ConnectionService>(
    (listener, settings): (Listener, Rc<ListenerSettings>),
    service: Rc<S>,
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    shared: Arc<EdgeShared>,
    drain: Drain,
) -> io::Result<()> {
    let accepting = Accepting::new(listener)?;
    let (drain_ms, drain_idle_ms) = (bounds.drain_ms, bounds.drain_idle_ms);
    let edge = Rc::new(Edge {
        settings,
        service,
        thread,
        bounds,
        shared,
        drain,
        refusing: Cell::new(0),
    });
    let mut open = JoinSet::new();
    tokio::select! {
        () = edge.accept(&accepting, &mut open) => {}
        () = edge.drain.started() => {}
    }
    edge.thread.drain(drain_idle_ms.min(drain_ms));
    for (stream, address) in accepting.close()? {
        edge.take(stream, address, &mut open);
    }
    let wait = Duration::from_millis(drain_ms);
    let ended = async { while open.join_next().await.is_some() {} };
    // What is left is dropped with the set.
    let _ = tokio::time::timeout(wait, ended).await;
    open.shutdown().await;
    Ok(())
}

/// One listener on one thread.
struct Edge<S> {
    settings: Rc<ListenerSettings>,
    service: Rc<S>,
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    shared: Arc<EdgeShared>,
    drain: Drain,
    refusing: Cell<usize>,
}

impl<S: ConnectionService> Edge<S> {
    async fn accept(self: &Rc<Self>, accepting: &Accepting, open: &mut JoinSet<()>) {
        let mut accepted: u64 = 0;
        loop {
            let next = tokio::select! {
                biased;
                next = accepting.accept() => next,
                Some(_) = open.join_next() => continue,
            };
            match next {
                Ok((stream, address)) => {
                    self.take(stream, address, open);
                    accepted += 1;
                    if accepted.is_multiple_of(ACCEPTS_IN_A_ROW) {
                        tokio::task::yield_now().await;
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "edge", %error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(ACCEPT_AGAIN_MS)).await;
                }
            }
        }
    }

    fn take(self: &Rc<Self>, stream: Stream, address: PeerAddress, open: &mut JoinSet<()>) {
        self.shared.accepted.fetch_add(1, Ordering::Relaxed);
        let peer = Peer::new(address);
        // Whoever a proxy acts for is known once its header is read.
        let strangers_max = match self.settings.is_proxy(&peer.address) {
            true => None,
            false => self.service.strangers_max(),
        };
        let seat = match self.seat(&peer, strangers_max) {
            Ok(seat) => seat,
            Err(full) => return self.turn_away(stream, &busy(full)),
        };
        let edge = Rc::clone(self);
        match self.settings.opens_at_once() {
            true => open.spawn_local(async move { edge.serve(stream, peer, seat).await }),
            false => open.spawn_local(async move { edge.open(stream, peer, seat).await }),
        };
    }

    fn seat(
        &self,
        peer: &Peer,
        strangers_max: Option<usize>,
    ) -> Result<ConnectionPlace, StrangersFull> {
        let connections_max = self.bounds.connections_max;
        ConnectionPlace::take(&self.shared, peer.caller, connections_max, strangers_max)
    }

    /// Reads what stands before HTTP, and serves.
    async fn open(self: Rc<Self>, stream: Stream, peer: Peer, mut seat: ConnectionPlace) {
        let Stream::Tcp(mut socket) = stream else {
            return self.serve(stream, peer, seat).await;
        };
        let mut peer = peer;
        let within = Duration::from_millis(self.bounds.head_ms);
        let end = Instant::now() + within;
        if self.settings.is_proxy_protocol() && self.settings.is_proxy(&peer.address) {
            let caller = self.before(end, opening::read_proxy(&mut socket)).await;
            match caller.unwrap_or(Err(Unopened::Late)) {
                Ok(ProxySource::Client(address)) => peer.caller = address,
                Ok(ProxySource::Unknown) => peer.is_unnamed = true,
                Ok(ProxySource::Proxy) => {}
                Err(why) => return self.close(Stream::Tcp(socket), &peer, why),
            }
            match self.seat(&peer, self.service.strangers_max()) {
                Ok(own) => seat = own,
                Err(full) => return self.turn_away(Stream::Tcp(socket), &busy(full)),
            }
        }
        let Some(tls) = &self.settings.tls else {
            return self.serve(Stream::Tcp(socket), peer, seat).await;
        };
        let shaken = self.before(end, opening::shake(tls, socket));
        let shaken = tokio::select! {
            biased;
            () = seat.given_up() => return,
            shaken = shaken => shaken,
        };
        match shaken {
            Some(Ok((stream, shown))) => {
                (peer.is_tls, peer.shown) = (true, shown.map(Arc::new));
                self.serve(stream, peer, seat).await;
            }
            Some(Err((socket, why))) => match socket {
                Some(socket) => self.close(Stream::Tcp(socket), &peer, why),
                None => self.count(&peer, &why),
            },
            None => self.count(&peer, &Unopened::Late),
        }
    }

    /// What comes of a step before HTTP; nothing where it lasts beyond `end`, or a drain does not wait for it.
    async fn before<T>(&self, end: Instant, step: impl Future<Output = T>) -> Option<T> {
        let drained = async {
            self.drain.started().await;
            tokio::time::sleep(Duration::from_millis(OPENING_DRAIN_MS)).await;
        };
        tokio::select! {
            done = tokio::time::timeout_at(end, step) => done.ok(),
            () = drained => None,
        }
    }

    async fn serve(self: &Rc<Self>, stream: Stream, peer: Peer, seat: ConnectionPlace) {
        let guest = seat.guest();
        tokio::select! {
            biased;
            () = seat.given_up() => {}
            () = self.speak(stream, peer, guest) => {}
        }
    }

    /// Serves whatever HTTP the client speaks.
    async fn speak(self: &Rc<Self>, stream: Stream, peer: Peer, guest: Option<Arc<Guest>>) {
        let may_speak = self.settings.http2 && self.bounds.http2 && !self.service.takes_bare();
        let is_http2 = match may_speak {
            false => Some(false),
            true if stream.agreed_on_http2() => Some(true),
            true => http2::speaks_http2(&stream, &self.thread, &self.bounds).await,
        };
        match is_http2 {
            Some(false) => {
                let guest = guest.map(GuestPart::new).map(Rc::new);
                self.service
                    .connection(self.accepted(stream, peer, guest))
                    .await;
            }
            Some(true) => {
                let edge = Rc::clone(self);
                let streams = Rc::new(Http2Edge { edge, peer, guest });
                // Its state is no burden to those that speak HTTP/1.1.
                Box::pin(http2::serve(stream, (&self.thread, &self.bounds), streams)).await;
            }
            // It said nothing.
            None => {}
        }
    }

    fn accepted(
        &self,
        stream: Stream,
        peer: Peer,
        guest: Option<Rc<GuestPart>>,
    ) -> AcceptedConnection {
        AcceptedConnection {
            stream,
            peer,
            thread: Rc::clone(&self.thread),
            bounds: Rc::clone(&self.bounds),
            guest,
            settings: Rc::clone(&self.settings),
        }
    }

    /// Counts a connection that did not get as far as HTTP.
    fn count(&self, peer: &Peer, why: &Unopened) {
        self.shared.unopened.fetch_add(1, Ordering::Relaxed);
        let why = why.to_string();
        tracing::debug!(target: "edge", peer = %peer.address, why, "a connection was not opened");
    }

    /// The same, where the client can be told.
    fn close(self: &Rc<Self>, stream: Stream, peer: &Peer, why: Unopened) {
        self.count(peer, &why);
        if let Some(refusal) = why.refusal() {
            self.turn_away(stream, &refusal);
        }
    }

    /// Tells a connection why it is not served; if too many are being told, closes it without a word.
    fn turn_away(self: &Rc<Self>, stream: Stream, refusal: &Refusal) {
        let is_busy = refusal.code == refusal::BUSY;
        self.shared
            .refused_busy
            .fetch_add(u64::from(is_busy), Ordering::Relaxed);
        // Nothing that is not TLS can be said before TLS.
        let speaks = self.settings.tls.is_none() || refusal.code == refusal::TLS;
        if !speaks || self.refusing.get() >= limit::REFUSING_MAX {
            return;
        }
        self.refusing.set(self.refusing.get() + 1);
        let (edge, response) = (Rc::clone(self), self.service.refuse(refusal));
        spawn_local(async move {
            let mut server = Box::new(ServerConnection::new(stream, &edge.thread, &edge.bounds));
            server.owe_refusal();
            answer::refuse(server, response).await;
            edge.refusing.set(edge.refusing.get() - 1);
        });
    }
}

/// A connection that speaks HTTP/2: each of its streams is a connection to the service.
struct Http2Edge<S> {
    edge: Rc<Edge<S>>,
    peer: Peer,
    guest: Option<Arc<Guest>>,
}

impl<S: ConnectionService> StreamService for Http2Edge<S> {
    async fn stream(&self, stream: Stream) {
        let guest = self.guest.clone().map(GuestPart::new).map(Rc::new);
        let accepted = self.edge.accepted(stream, self.peer.clone(), guest);
        self.edge.service.connection(accepted).await;
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        let heads = &self.edge.shared.refused_heads;
        heads.fetch_add(1, Ordering::Relaxed);
        self.edge.service.refuse(refusal)
    }
}

/// What a connection is told for which there is no place.
fn busy(full: StrangersFull) -> Refusal {
    let public = match full {
        StrangersFull::Everywhere => "The gateway has as many connections as it may have.",
        StrangersFull::Address => {
            "This address has as many connections without a good key as it may have."
        }
    };
    Refusal::new(refusal::BUSY, public).with_retry_ms(limit::BUSY_RETRY_MS)
}
