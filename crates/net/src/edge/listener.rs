//! Sockets that listen, and what they accept.
//!
//! Each thread has a TCP listener of its own on the same port (SO_REUSEPORT), so that accepting needs no lock. A Unix
//! socket is one, and all threads accept from it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net as unix;
use std::path::Path;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::h1::{PeerAddress, Stream};

/// Connections that the kernel keeps for us before they are accepted.
const BACKLOG: i32 = 1024;
/// Most connections that a drain takes out of a listener's queue: more than it holds.
const QUEUED_MAX: usize = 4096;

/// A socket that listens. One for each thread: of TCP by [`bind`], of a Unix socket by [`Listener::share`]. One by
/// [`reserve`] listens from [`Listener::open`] on.
#[derive(Debug)]
pub enum Listener {
    Tcp(std::net::TcpListener),
    Unix(unix::UnixListener),
}

/// Opens a listening socket that may share its port with those of other threads. For port 0, bind one, read
/// its port, and bind the others to that.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = reserve(address)?;
    open(&listener)?;
    Ok(listener)
}

/// Opens a listening socket on a port that nobody listens on; from then on those of [`bind`] and [`reserve`] may share it.
///
/// The kernel lets sockets of one user share a port where all of them allow it (socket(7), SO_REUSEPORT), so that `bind`
/// alone would share the port of another program. This socket allows it only once it listens, and the kernel lets one of
/// two such sockets listen.
///
/// # Errors
/// `AddrInUse` where anybody listens there.
pub fn bind_alone(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = bound(address, false)?;
    socket.listen(BACKLOG)?;
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// The same socket as of [`bind`] before it listens: the port is taken, and whoever connects is refused until it is opened.
pub fn reserve(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    Ok(bound(address, true)?.into())
}

fn bound(address: SocketAddr, shares: bool) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Lets a reserved socket listen. One that listens already goes on.
fn open(listener: &std::net::TcpListener) -> io::Result<()> {
    SockRef::from(listener).listen(BACKLOG)?;
    crate::own::note(listener);
    Ok(())
}

impl Listener {
    /// Listens on a Unix socket that those may speak to whom the mode of its file lets, such as 0o600: this user alone.
    /// A socket there that nobody listens on is removed; anything else that stands there is an error.
    pub fn unix(path: &Path, mode: u32) -> io::Result<Listener> {
        if let Ok(found) = fs::symlink_metadata(path) {
            let dead = found.file_type().is_socket() && unix::UnixStream::connect(path).is_err();
            if !dead {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            fs::remove_file(path)?;
        }
        let listener = unix::UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// Lets a reserved socket listen. One that listens already goes on.
    pub fn open(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => open(listener),
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

/// The same on this thread's runtime.
pub(super) enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Accepting {
    pub(super) fn new(listener: Listener) -> io::Result<Accepting> {
        Ok(match listener {
            Listener::Tcp(listener) => Accepting::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener) => {
                Accepting::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }

    pub(super) async fn accept(&self) -> io::Result<(Stream, PeerAddress)> {
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
    pub(super) fn close(self) -> io::Result<Vec<(Stream, PeerAddress)>> {
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
