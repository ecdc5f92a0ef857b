//! The sockets of the target: a listener, a runtime and a timer for each thread.
//!
//! Nothing is shared between threads on the way of a request but what `Tables` counts.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::answer::{Connection, Origin, Served, Shared};
use super::timer::Timer;
use super::{CONNECTIONS_MAX, Error};

/// Connections that the kernel holds for one listener until they are accepted.
const BACKLOG: i32 = 4_096;
/// How long a client may take for a TLS handshake and the first bytes of a connection.
const HELLO: Duration = Duration::from_secs(10);
/// How long to wait after accepting fails, which it does when descriptors run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);
/// What a client that speaks HTTP/2 sends first. Source: RFC 9113, section 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The most bytes of a request's head, and of what is read ahead.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most streams at once of one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;

/// One listener for each thread, all on the same address; the kernel spreads connections over them. An address that
/// anybody listens on is an error: sockets that share a port would share that of another program of this user.
pub(super) fn listen(address: SocketAddr, threads: usize) -> Result<Vec<TcpListener>, Error> {
    let wrong = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::Listen(format!(
            "{address} is in use by another program; name another with --listen, such as 127.0.0.1:0 for any"
        )),
        _ => Error::Listen(format!("cannot listen on {address}: {error}")),
    };
    let first = listener(address, Sharing::OnceItListens).map_err(wrong)?;
    // The first one may have taken a free port.
    let address = first.local_addr().map_err(wrong)?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(listener(address, Sharing::AtOnce).map_err(wrong)?);
    }
    Ok(listeners)
}

/// When others may listen on the same port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// Nobody may listen there before.
    OnceItListens,
    AtOnce,
}

fn listener(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // The address is free again as soon as the target ended, and all threads can bind it.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::AtOnce)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// What one thread serves.
pub(super) struct Thread {
    pub(super) index: usize,
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) shared: Arc<Shared>,
    pub(super) stopped: watch::Receiver<bool>,
}

impl Thread {
    /// Starts it. Returns once its runtime runs.
    pub(super) fn start(self) -> Result<JoinHandle<()>, Error> {
        let wrong = |error: io::Error| Error::Machine(format!("cannot start a thread: {error}"));
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("target-{}", self.index))
            .spawn(move || {
                let runtime = match tokio::runtime::Builder::new_current_thread()
                    .enable_io()
                    .build()
                {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(begun.send(Err(error))),
                };
                let local = tokio::task::LocalSet::new();
                // Dropping `local` and the runtime closes every connection of the thread.
                runtime.block_on(local.run_until(self.run(begun)));
            })
            .map_err(wrong)?;
        match begins.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(wrong(error)),
            Err(_) => Err(Error::Machine("a thread ended before it began".into())),
        }
    }

    async fn run(mut self, begun: std::sync::mpsc::SyncSender<io::Result<()>>) {
        let prepared = Timer::new().and_then(|timer| {
            let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
            Ok((timer, listener))
        });
        let (timer, listener) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return drop(begun.send(Err(error))),
        };
        drop(begun.send(Ok(())));
        let origin = Origin::new(Arc::clone(&self.shared), self.index, timer.clone());
        let stopped = self.stopped.wait_for(|stopped| *stopped);
        tokio::select! {
            // Both the error of the receiver and `true` mean that the target is over.
            _ = stopped => {}
            _ = timer.run() => {}
            () = accept(&listener, &origin, self.tls.clone()) => {}
        }
    }
}

async fn accept(
    listener: &tokio::net::TcpListener,
    origin: &Rc<Origin>,
    tls: Option<Arc<ServerConfig>>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            let again = std::time::Instant::now() + ACCEPT_AGAIN;
            origin.timer().until(again).await;
            continue;
        };
        let Some(open) = Open::new(origin.shared()) else {
            continue;
        };
        let (origin, tls) = (Rc::clone(origin), tls.clone());
        tokio::task::spawn_local(async move {
            let _open = open;
            // How a connection ends is the client's affair: what matters is counted.
            let _ = connection(stream, origin, tls).await;
        });
    }
}

/// One of the [`CONNECTIONS_MAX`] places.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Option<Open> {
        let before = shared.connections.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(shared));
        (before < CONNECTIONS_MAX).then_some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    stream: TcpStream,
    origin: Rc<Origin>,
    tls: Option<Arc<ServerConfig>>,
) -> Result<(), Box<dyn std::error::Error>> {
    stream.set_nodelay(true)?;
    let connection = Rc::new(Connection::default());
    let socket = Cut {
        stream,
        connection: Rc::clone(&connection),
        first: Vec::new(),
        given: 0,
    };
    let hello = origin.timer().until(std::time::Instant::now() + HELLO);
    let served = Served::new(Rc::clone(&origin), Rc::clone(&connection));
    match tls {
        Some(config) => {
            let handshake = TlsAcceptor::from(config).accept(socket);
            let stream = within(hello, handshake).await??;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve(stream, served, http2).await
        }
        None => {
            let mut socket = socket;
            let http2 = within(hello, socket.begins_http2()).await??;
            serve(socket, served, http2).await
        }
    }
}

/// The work's output, or an error when `limit` ends before it.
async fn within<T>(limit: super::timer::Until, work: impl Future<Output = T>) -> io::Result<T> {
    tokio::select! {
        output = work => Ok(output),
        () = limit => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    served: Served,
    http2: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let io = TokioIo::new(stream);
    if http2 {
        http2::Builder::new(Here)
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .serve_connection(io, served)
            .await?;
    } else {
        http1::Builder::new()
            .pipeline_flush(true)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(io, served)
            .await?;
    }
    Ok(())
}

/// Runs the streams of HTTP/2 connections on the thread that they came to.
#[derive(Clone)]
struct Here;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// A socket that can be reset, and whose first bytes can be looked at.
struct Cut {
    stream: TcpStream,
    connection: Rc<Connection>,
    /// What was read to tell HTTP/2 from HTTP/1.
    first: Vec<u8>,
    /// How much of `first` was handed on.
    given: usize,
}

impl Cut {
    /// Whether the client begins as HTTP/2 does. Reads until that is known.
    async fn begins_http2(&mut self) -> io::Result<bool> {
        while self.first.len() < PREFACE.len() {
            if !PREFACE.starts_with(&self.first) {
                return Ok(false);
            }
            let mut buffer = [0; 2_048];
            let count = self.stream.read(&mut buffer).await?;
            if count == 0 {
                return Ok(false);
            }
            self.first.extend_from_slice(&buffer[..count]);
        }
        Ok(self.first.starts_with(PREFACE))
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if self.connection.reset.get() {
            // Closing with a linger of zero sends RST. When that cannot be set, the client sees a close.
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Cut {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let cut = self.get_mut();
        let left = &cut.first[cut.given..];
        if left.is_empty() {
            return Pin::new(&mut cut.stream).poll_read(context, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        cut.given += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Cut {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let cut = self.get_mut();
        if cut.connection.reset.get() {
            // FIN must not go before the RST.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut cut.stream).poll_shutdown(context)
    }
}
