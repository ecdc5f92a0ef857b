//! What a connection runs over: TCP, a Unix socket, or anything that reads and writes as they do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::takeover::Tunnel;

/// A stream of bytes in both directions.
///
/// Its `poll_read` and `poll_write` have to try before they wait, as tokio's do: then a call that
/// finds the socket ready costs one system call, and one that knows it is not costs none.
pub trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Makes the coming close a visible failure, where the close alone would look like an end.
    fn reset(&mut self) {}

    /// Whether an end that is not announced by a shutdown is a failure to the other side.
    fn tells_end(&self) -> bool {
        false
    }
}

impl Socket for TcpStream {
    fn reset(&mut self) {
        // An error means that the connection is gone already.
        let _ = socket2::SockRef::from(&*self).set_linger(Some(Duration::ZERO));
    }
}

impl Socket for UnixStream {}
impl Socket for DuplexStream {}

/// Under TLS an end without its alert is a failure already (RFC 8446 §6.1).
impl<S: AsyncRead + AsyncWrite + Unpin> Socket for tokio_rustls::TlsStream<S> {
    fn tells_end(&self) -> bool {
        true
    }
}

/// Who is at the other end of an accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    Tcp(SocketAddr),
    /// A process of this machine, as the kernel names it.
    Unix {
        uid: u32,
        pid: Option<i32>,
    },
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => address.fmt(f),
            PeerAddress::Unix { uid, pid: None } => write!(f, "uid {uid}"),
            PeerAddress::Unix {
                uid,
                pid: Some(pid),
            } => write!(f, "uid {uid}, pid {pid}"),
        }
    }
}

/// A connection that was accepted or dialled.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS, as either of its sides. Boxed, because its state is many times the size of the others.
    Tls(Box<tokio_rustls::TlsStream<TcpStream>>),
    /// TLS that ends here inside of a connection that was taken over.
    Inner(Box<tokio_rustls::server::TlsStream<Tunnel>>),
    /// A connection that was taken over, of which something was read and given back.
    Unread(Box<Tunnel>),
    /// One stream of a connection of HTTP/2, as HTTP/1.1 ([`crate::http2`]).
    Translated(DuplexStream),
}

impl Stream {
    /// Whether both sides agreed on HTTP/2 as they shook hands (RFC 7301).
    pub(crate) fn agreed_on_http2(&self) -> bool {
        match self {
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2),
            _ => false,
        }
    }
}

/// How TLS names HTTP/2 (RFC 9113 §3.1).
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

impl Socket for Stream {
    fn reset(&mut self) {
        match self {
            Stream::Tcp(stream) => Socket::reset(stream),
            Stream::Unix(stream) => Socket::reset(stream),
            Stream::Tls(stream) => Socket::reset(&mut **stream),
            Stream::Inner(stream) => stream.get_mut().0.reset(),
            Stream::Unread(tunnel) => tunnel.reset(),
            // Nothing in it is ended by a close.
            Stream::Translated(_) => {}
        }
    }

    fn tells_end(&self) -> bool {
        matches!(self, Stream::Tls(_) | Stream::Inner(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Inner(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unread(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Translated(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Inner(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unread(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Translated(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
            Stream::Inner(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unread(stream) => Pin::new(stream).poll_flush(context),
            Stream::Translated(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Inner(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unread(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Translated(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
