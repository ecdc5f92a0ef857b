//! The loop of one thread that accepts connections and gives each to a service.
//!
//! As in the edge: each thread has a listener of its own (SO_REUSEPORT), the connections of all
//! threads are counted together, one over the bound is told so and closed, and a drain waits for
//! what is in flight. What is spoken on a connection is the service's matter: plain HTTP by a
//! `ServerConnection`, or TLS first.

use std::cell::Cell;
use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net as unix;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::limit;
use tokio::task::{JoinSet, spawn_local};

use super::ConnectionSettings;
use super::server::ServerConnection;
use super::stream::{PeerAddress, Stream};
use super::thread::Thread;
use crate::edge::{ConnectionSlot, Drain, EdgeShared};

/// How long to wait after a failure to accept, such as no file descriptor left.
const ACCEPT_AGAIN_MS: u64 = 50;
/// Most connections that a drain takes out of a listener's queue: more than it holds.
const QUEUED_MAX: usize = 4096;

/// What serves connections.
pub trait ConnectionService: 'static {
    /// Serves one connection to its end. It ends by itself when the thread drains, as a `ServerConnection`
    /// does; otherwise it is dropped when the drain has taken too long.
    fn connection(
        &self,
        stream: Stream,
        peer: PeerAddress,
        thread: Rc<Thread>,
        bounds: Rc<ConnectionSettings>,
    ) -> impl Future<Output = ()>;

    /// A whole answer, as bytes, for a connection over the bound; it has to say `connection:
    /// close`.
    fn busy(&self) -> &[u8] {
        b"HTTP/1.1 503 ConnectionService Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    }
}

/// A socket that listens. One for each thread: of TCP by [`crate::bind`], of a Unix socket by
/// [`Listener::share`]. One by [`crate::reserve`] listens from [`Listener::open`] on.
#[derive(Debug)]
pub enum Listener {
    Tcp(std::net::TcpListener),
    Unix(unix::UnixListener),
}

impl Listener {
    /// Listens on a Unix socket that only this user may speak to. A socket there that nobody
    /// listens on is removed; anything else that stands there is an error.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        if let Ok(found) = fs::symlink_metadata(path) {
            let dead = found.file_type().is_socket() && unix::UnixStream::connect(path).is_err();
            if !dead {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            fs::remove_file(path)?;
        }
        let listener = unix::UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// Lets a reserved socket listen. One that listens already goes on.
    pub fn open(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => crate::edge::open(listener),
            Listener::Unix(_) => Ok(()),
        }
    }

    /// The same socket for another thread.
    pub fn share(&self) -> io::Result<Listener> {
        Ok(match self {
            Listener::Tcp(listener) => Listener::Tcp(listener.try_clone()?),
            Listener::Unix(listener) => Listener::Unix(listener.try_clone()?),
        })
    }
}

pub(crate) enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Accepting {
    pub(crate) fn new(listener: Listener) -> io::Result<Accepting> {
        Ok(match listener {
            Listener::Tcp(listener) => Accepting::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener) => {
                Accepting::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, PeerAddress)> {
        match self {
            Accepting::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok(tcp(stream, address))
            }
            Accepting::Unix(listener) => unix(listener.accept().await?.0),
        }
    }

    /// Closes the socket and gives what stood in its queue, which the kernel would reset with it. Nothing is done
    /// between the last that is taken and the close, so that hardly any can come between.
    pub(crate) fn close(self) -> io::Result<Vec<(Stream, PeerAddress)>> {
        Ok(match self {
            Accepting::Tcp(listener) => {
                let listener = listener.into_std()?;
                let queued = std::iter::from_fn(|| listener.accept().ok());
                let queued: Vec<_> = queued.take(QUEUED_MAX).collect();
                drop(listener);
                let stream = |(stream, address): (std::net::TcpStream, SocketAddr)| {
                    stream.set_nonblocking(true).ok()?;
                    Some(tcp(tokio::net::TcpStream::from_std(stream).ok()?, address))
                };
                queued.into_iter().filter_map(stream).collect()
            }
            Accepting::Unix(listener) => {
                let listener = listener.into_std()?;
                let queued = std::iter::from_fn(|| listener.accept().ok());
                let queued: Vec<_> = queued.take(QUEUED_MAX).collect();
                drop(listener);
                let stream = |(stream, _): (unix::UnixStream, _)| {
                    stream.set_nonblocking(true).ok()?;
                    unix(tokio::net::UnixStream::from_std(stream).ok()?).ok()
                };
                queued.into_iter().filter_map(stream).collect()
            }
        })
    }
}

fn tcp(stream: tokio::net::TcpStream, address: SocketAddr) -> (Stream, PeerAddress) {
    // An error here means that the client is gone already; the first read will say so.
    let _ = stream.set_nodelay(true);
    (Stream::Tcp(stream), PeerAddress::Tcp(address))
}

fn unix(stream: tokio::net::UnixStream) -> io::Result<(Stream, PeerAddress)> {
    let cred = stream.peer_cred()?;
    let (uid, pid) = (cred.uid(), cred.pid());
    Ok((Stream::Unix(stream), PeerAddress::Unix { uid, pid }))
}

/// Accepts and serves until the drain starts; then accepts what is queued already, lets what is in
/// flight end, and returns after at most `drain_ms`.
///
/// Fails only if the listener cannot be used at all. Must run inside a `LocalSet`. A thread that
/// listens on several sockets runs this once for each.
pub async fn serve<S: ConnectionService>(
    listener: Listener,
    service: Rc<S>,
    thread: Rc<Thread>,
    bounds: ConnectionSettings,
    shared: Arc<EdgeShared>,
    drain: Drain,
) -> io::Result<()> {
    let accepting = Accepting::new(listener)?;
    let mut floor = Floor {
        open: JoinSet::new(),
        refusing: Rc::default(),
        service,
        thread,
        bounds: Rc::new(bounds),
        shared,
    };
    floor.accept_until(&accepting, drain.started()).await;
    let ConnectionSettings {
        drain_ms,
        drain_idle_ms,
        ..
    } = *floor.bounds;
    floor.thread.drain(drain_idle_ms.min(drain_ms));
    for (stream, peer) in accepting.close()? {
        floor.begin(stream, peer);
    }
    let mut open = floor.open;
    let wait = Duration::from_millis(drain_ms);
    let ended = async { while open.join_next().await.is_some() {} };
    // What is left is dropped with the set.
    let _ = tokio::time::timeout(wait, ended).await;
    open.shutdown().await;
    Ok(())
}

/// What one thread accepts and serves.
struct Floor<S> {
    open: JoinSet<()>,
    refusing: Rc<Cell<usize>>,
    service: Rc<S>,
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    shared: Arc<EdgeShared>,
}

impl<S: ConnectionService> Floor<S> {
    async fn accept_until(&mut self, accepting: &Accepting, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = accepting.accept() => accepted,
                Some(_) = self.open.join_next() => continue,
                () = &mut end => return,
            };
            match accepted {
                Ok((stream, peer)) => self.begin(stream, peer),
                Err(error) => {
                    tracing::warn!(target: "edge", %error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(ACCEPT_AGAIN_MS)).await;
                }
            }
        }
    }

    fn begin(&mut self, stream: Stream, peer: PeerAddress) {
        self.shared.accepted.fetch_add(1, Ordering::Relaxed);
        let Some(place) = ConnectionSlot::take(&self.shared, self.bounds.connections_max) else {
            return self.turn_away(stream);
        };
        let service = Rc::clone(&self.service);
        let (thread, bounds) = (Rc::clone(&self.thread), Rc::clone(&self.bounds));
        self.open.spawn_local(async move {
            let _place = place;
            service.connection(stream, peer, thread, bounds).await;
        });
    }

    /// Tells a connection that there is no place for it; if too many are being told, closes it without
    /// a word.
    fn turn_away(&self, stream: Stream) {
        self.shared.refused_busy.fetch_add(1, Ordering::Relaxed);
        if self.refusing.get() >= limit::REFUSING_MAX {
            return;
        }
        self.refusing.set(self.refusing.get() + 1);
        let (service, refusing) = (Rc::clone(&self.service), Rc::clone(&self.refusing));
        let server = ServerConnection::new(stream, &self.thread, &self.bounds);
        spawn_local(async move {
            server.turn_away(service.busy()).await;
            refusing.set(refusing.get() - 1);
        });
    }
}
