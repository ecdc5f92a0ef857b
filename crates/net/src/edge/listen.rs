//! Listening sockets, and the loop that accepts from one.
//!
//! Each thread has a listener of its own on the same port (SO_REUSEPORT), so that accepting needs no lock. A
//! connection over a bound is told so and closed; nobody is left to wait in silence.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Refusal, limit, refusal};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::task::{JoinSet, spawn_local};

use super::connection::AgentConnection;
use super::places::{StrangerSlot, StrangersFull};
use super::{Drain, EdgeSettings, EdgeShared, Peer, Service, answer, connection};
use crate::h1::{Accepting, ConnectionSettings, Listener, PeerAddress, Stream, Thread};

/// Connections that the kernel keeps for us before they are accepted.
const BACKLOG: i32 = 1024;
/// Connections accepted before those that are open have their turn. A thread runs some sixty tasks between two
/// turns of this loop, and each accepted connection can be two of them: itself, and one that gives up its place.
const ACCEPTS_IN_A_ROW: u64 = 16;
/// How long to wait after a failure to accept, such as no file descriptor left.
const ACCEPT_AGAIN_MS: u64 = 50;

/// Opens a listening socket that may share its port with those of other threads. For port 0, bind one, read
/// its port, and bind the others to that.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = reserve(address)?;
    open(&listener)?;
    Ok(listener)
}

/// The same socket before it listens: the port is taken, and whoever connects is refused until it is opened.
pub fn reserve(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Lets a reserved socket listen. One that listens already goes on.
pub(crate) fn open(listener: &std::net::TcpListener) -> io::Result<()> {
    SockRef::from(listener).listen(BACKLOG)
}

/// What the connections of one thread have in common.
pub(super) struct Edge<S> {
    pub(super) service: Rc<S>,
    pub(super) settings: Rc<EdgeSettings>,
    pub(super) shared: Arc<EdgeShared>,
    bounds: Rc<ConnectionSettings>,
    thread: Rc<Thread>,
    refusing: Cell<usize>,
}

/// Accepts and serves until the drain starts; then accepts what is queued already, finishes what is in flight,
/// and returns after at most `drain_ms`.
///
/// Fails only if the listener cannot be used at all. Must run inside a `LocalSet`.
pub async fn serve<S: Service>(
    listener: std::net::TcpListener,
    service: Rc<S>,
    settings: Rc<EdgeSettings>,
    shared: Arc<EdgeShared>,
    drain: Drain,
) -> io::Result<()> {
    let listener = Accepting::new(Listener::Tcp(listener))?;
    let bounds = Rc::new(settings.bounds());
    let edge = Rc::new(Edge {
        service,
        settings,
        shared,
        thread: Thread::new(bounds.tick_ms()),
        bounds,
        refusing: Cell::new(0),
    });
    let mut open = JoinSet::new();
    tokio::select! {
        () = accept(&edge, &listener, &mut open) => {}
        () = drain.started() => {}
    }
    edge.thread.drain(edge.bounds.drain_idle_ms);
    for (stream, peer) in listener.close()? {
        edge.take(stream, peer, &mut open);
    }
    let wait = Duration::from_millis(edge.settings.drain_ms);
    let ended = async { while open.join_next().await.is_some() {} };
    // What is left is dropped with the set.
    let _ = tokio::time::timeout(wait, ended).await;
    open.shutdown().await;
    Ok(())
}

async fn accept<S: Service>(edge: &Rc<Edge<S>>, listener: &Accepting, open: &mut JoinSet<()>) {
    let mut accepted: u64 = 0;
    loop {
        let next = tokio::select! {
            biased;
            next = listener.accept() => next,
            Some(_) = open.join_next() => continue,
        };
        match next {
            Ok((stream, peer)) => {
                edge.take(stream, peer, open);
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

impl<S: Service> Edge<S> {
    /// A connection as its server.
    pub(super) fn server(&self, stream: Stream) -> Box<AgentConnection> {
        Box::new(AgentConnection::new(stream, &self.thread, &self.bounds))
    }

    fn take(self: &Rc<Self>, stream: Stream, peer: PeerAddress, open: &mut JoinSet<()>) {
        self.shared.accepted.fetch_add(1, Ordering::Relaxed);
        let PeerAddress::Tcp(address) = peer else {
            return base::never!("a connection to the edge by a Unix socket");
        };
        let peer = Peer { address };
        let seat = match StrangerSlot::take(&self.shared, address.ip(), &self.settings) {
            Ok(seat) => seat,
            Err(full) => return self.turn_away(stream, full),
        };
        let edge = Rc::clone(self);
        open.spawn_local(async move {
            let guest = seat.guest();
            tokio::select! {
                biased;
                () = seat.given_up() => {}
                () = connection::run(&edge, stream, peer, &guest) => {}
            }
        });
    }

    fn turn_away(self: &Rc<Self>, stream: Stream, full: StrangersFull) {
        self.shared.refused_busy.fetch_add(1, Ordering::Relaxed);
        if self.refusing.get() >= limit::REFUSING_MAX {
            return;
        }
        self.refusing.set(self.refusing.get() + 1);
        let edge = Rc::clone(self);
        spawn_local(async move {
            let public = match full {
                StrangersFull::Everywhere => "The gateway has as many connections as it may have.",
                StrangersFull::Address => {
                    "This address has as many connections without a good key as it may have."
                }
            };
            let refusal = Refusal::new(refusal::BUSY, public).with_retry_ms(limit::BUSY_RETRY_MS);
            let mut server = edge.server(stream);
            server.owe_refusal();
            answer::refuse(server, edge.service.refuse(&refusal)).await;
            edge.refusing.set(edge.refusing.get() - 1);
        });
    }
}

/// One of the `connections_max` places; dropping it frees it.
pub(crate) struct ConnectionSlot(Arc<EdgeShared>);

impl ConnectionSlot {
    pub(crate) fn take(shared: &Arc<EdgeShared>, max: usize) -> Option<ConnectionSlot> {
        let place = ConnectionSlot(Arc::clone(shared));
        // Relaxed: the count guards nothing but itself.
        let before = shared.connections.fetch_add(1, Ordering::Relaxed);
        (before < max).then_some(place)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
