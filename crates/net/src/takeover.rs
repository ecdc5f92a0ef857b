//! Connections that are taken over from HTTP: by an answer that switches to another protocol, or by CONNECT.
//!
//! Whoever takes one over shows a permit, and what is carried is held to it: the permit is asked again while the bytes
//! flow, and its call ends with a stop, a revocation or a drain. The bytes mean nothing here. A lane runs the tunnel
//! within its answer to the request, so that the connection keeps its place and ends with the edge.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base::{Permit, Refusal};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::h1::{ConnectionSettings, Input, Socket, Stream, Thread, Watch};
use crate::pool::Lease;
use crate::send::SendError;

/// How often the permit of a connection that was taken over is asked, in milliseconds: with the ticks of the thread's
/// clock a call that has to end does so within a second.
const PERMIT_LOOK_MS: u64 = 500;
/// How long nothing flows in a tunnel that a drain ends early, in milliseconds.
const DRAIN_QUIET_MS: u64 = 1_000;
/// Bytes that wait in a tunnel for the side that they are for.
const TUNNEL_BUFFER_BYTES_MAX: usize = 64 << 10;

/// The answer that ends HTTP on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Switch<'a> {
    /// 101, or 200 to CONNECT.
    pub status: u16,
    /// The protocol that follows; with 101 alone.
    pub protocol: Option<&'a str>,
    /// Further fields of the answer.
    pub fields: &'a [(&'a [u8], &'a [u8])],
}

impl<'a> Switch<'a> {
    /// Goes on with another protocol, such as `websocket`.
    pub fn to(protocol: &'a str, fields: &'a [(&'a [u8], &'a [u8])]) -> Switch<'a> {
        Switch {
            status: 101,
            protocol: Some(protocol),
            fields,
        }
    }

    /// Makes the tunnel that CONNECT asks for.
    pub fn connected() -> Switch<'static> {
        Switch {
            status: 200,
            protocol: None,
            fields: &[],
        }
    }
}

/// A connection that speaks HTTP no more. What was read behind the last head comes first.
///
/// Reading and writing it is bounded by nothing; [`Tunnel::join`] and [`crate::WebSocket`] hold it to a permit.
///
/// Only a permit makes one:
///
/// ```compile_fail
/// async fn tunnel(mut request: net::Request) -> net::Tunnel {
///     request.take_over(&(), net::Switch::connected()).await.unwrap()
/// }
/// ```
/// ```compile_fail
/// fn tunnel(stream: net::h1::Stream) -> net::Tunnel {
///     net::Tunnel { stream, early: Default::default(), thread: todo!(), settings: todo!() }
/// }
/// ```
pub struct Tunnel {
    stream: Stream,
    early: Bytes,
    thread: Rc<Thread>,
    settings: Rc<ConnectionSettings>,
}

/// The bounds of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelBounds {
    /// How long nothing may flow, in milliseconds.
    pub idle_ms: u64,
    /// How long it may last, in milliseconds.
    pub whole_ms: u64,
    /// Bytes that it may carry, both ways together.
    pub bytes_max: u64,
}

/// How a tunnel ended.
#[derive(Clone, Debug)]
pub struct TunnelEnd {
    /// Bytes of the side that was joined, which the other took.
    pub up: u64,
    /// Bytes of the other side, which it took.
    pub down: u64,
    pub why: TunnelStop,
}

/// Why a connection that was taken over ended.
#[derive(Clone, Debug)]
pub enum TunnelStop {
    /// Both sides closed it.
    Closed,
    /// Nothing flowed for too long.
    Idle,
    /// It lasted too long.
    Late,
    /// It carried too much.
    TooLong,
    /// The gateway stops.
    Drained,
    /// The permit is not in force any more.
    Ended(Refusal),
    /// A side broke.
    Broken(io::ErrorKind),
}

impl fmt::Display for TunnelStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunnelStop::Closed => f.write_str("both sides closed the connection"),
            TunnelStop::Idle => f.write_str("nothing flowed for too long"),
            TunnelStop::Late => f.write_str("the connection lasted too long"),
            TunnelStop::TooLong => f.write_str("the connection carried too much"),
            TunnelStop::Drained => f.write_str("the gateway stops"),
            TunnelStop::Ended(refusal) => f.write_str(&refusal.public),
            TunnelStop::Broken(kind) => write!(f, "a side broke: {kind}"),
        }
    }
}

impl Tunnel {
    pub(crate) fn new(
        (stream, early): (Stream, Vec<u8>),
        thread: &Rc<Thread>,
        settings: &Rc<ConnectionSettings>,
    ) -> Tunnel {
        Tunnel {
            stream,
            early: early.into(),
            thread: Rc::clone(thread),
            settings: Rc::clone(settings),
        }
    }

    /// Carries bytes between this side and another, until both have closed or a bound, the drain or the permit ends it.
    ///
    /// A side that closes its half is passed on as that; the other half goes on. A side that takes nothing makes the
    /// other wait. A tunnel that is ended before both sides closed is reset, so that neither side takes what came for
    /// the whole. A drain ends it when it is quiet, and at the latest after half of the time that the drain has.
    pub async fn join<P: Permit>(
        self,
        other: Tunnel,
        permit: &P,
        bounds: TunnelBounds,
    ) -> TunnelEnd {
        let mut clock = TakeoverClock::new(&self, bounds.idle_ms, bounds.whole_ms, DRAIN_QUIET_MS);
        let (mut near, mut far) = (self, other);
        let (mut up, mut down) = (Flow::default(), Flow::default());
        let why = poll_fn(|context| {
            let went_up = up.poll(&mut near, &mut far, context, bounds.bytes_max, down.bytes);
            let went_down = down.poll(&mut far, &mut near, context, bounds.bytes_max, up.bytes);
            match (went_up, went_down) {
                (Poll::Ready(Err(why)), _) | (_, Poll::Ready(Err(why))) => Poll::Ready(why),
                (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(TunnelStop::Closed),
                _ => clock.poll(context, permit, up.bytes + down.bytes),
            }
        })
        .await;
        if !matches!(why, TunnelStop::Closed) {
            near.reset();
            far.reset();
        }
        let (up, down) = (up.bytes, down.bytes);
        TunnelEnd { up, down, why }
    }

    /// Ends it at once, so that neither side takes what came for the whole.
    pub fn abandon(mut self) {
        self.reset();
    }

    /// Puts bytes back that were read, before all that follows.
    pub(crate) fn unread(&mut self, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(&self.early);
        self.early = bytes.into();
    }

    pub(crate) fn watched_by(&self) -> (Rc<Thread>, Rc<ConnectionSettings>) {
        (Rc::clone(&self.thread), Rc::clone(&self.settings))
    }

    pub(crate) fn into_stream(self) -> Stream {
        match self.early.is_empty() {
            true => self.stream,
            false => Stream::Unread(Box::new(self)),
        }
    }

    /// What was read behind the last head.
    pub(crate) fn take_early(&mut self) -> Bytes {
        std::mem::take(&mut self.early)
    }
}

impl Lease {
    /// Takes over a connection whose server switched to another protocol
    /// ([`ClientConnection::is_switched`](crate::h1::ClientConnection::is_switched)), or a new one on which nothing
    /// was asked.
    pub fn take_over<P: Permit>(self, permit: &P) -> Result<Tunnel, SendError> {
        permit.in_force().map_err(SendError::Refused)?;
        permit.dial(self.address()).map_err(SendError::Refused)?;
        let (client, thread, bounds) = self.into_client();
        let parts = client.into_parts().map_err(SendError::from)?;
        Ok(Tunnel::new(parts, &thread, &bounds))
    }
}

/// One direction of a tunnel.
#[derive(Default)]
struct Flow {
    waiting: Input,
    /// Bytes that its reader took.
    bytes: u64,
    is_unflushed: bool,
    /// Its writer closed.
    is_ended: bool,
    /// Its reader was told.
    is_shut: bool,
}

impl Flow {
    /// Carries what there is. Ready once all is carried and the end passed on.
    fn poll(
        &mut self,
        from: &mut Tunnel,
        to: &mut Tunnel,
        context: &mut Context<'_>,
        bytes_max: u64,
        bytes_back: u64,
    ) -> Poll<Result<(), TunnelStop>> {
        let broken = |error: io::Error| TunnelStop::Broken(error.kind());
        loop {
            let left = bytes_max.saturating_sub(self.bytes + bytes_back);
            if self.waiting.raw().len() as u64 > left {
                return Poll::Ready(Err(TunnelStop::TooLong));
            }
            while !self.waiting.raw().is_empty() {
                let taken = Pin::new(&mut *to).poll_write(context, self.waiting.raw());
                match ready!(taken).map_err(broken)? {
                    0 => return Poll::Ready(Err(TunnelStop::Broken(io::ErrorKind::WriteZero))),
                    bytes => self.took(bytes),
                }
            }
            if self.is_unflushed {
                ready!(Pin::new(&mut *to).poll_flush(context)).map_err(broken)?;
                self.is_unflushed = false;
            }
            if self.is_shut {
                return Poll::Ready(Ok(()));
            }
            if self.is_ended {
                ready!(Pin::new(&mut *to).poll_shutdown(context)).map_err(broken)?;
                self.is_shut = true;
                continue;
            }
            let thread = Rc::clone(&from.thread);
            let buffers = &thread.buffers;
            let max = TUNNEL_BUFFER_BYTES_MAX;
            let came = self.waiting.poll_read(from, context, buffers, max);
            self.is_ended = ready!(came).map_err(broken)? == 0;
        }
    }

    fn took(&mut self, bytes: usize) {
        self.waiting.skip(bytes);
        self.bytes += bytes as u64;
        self.is_unflushed = true;
    }
}

/// When a connection that was taken over has to end, by the ticks of its thread.
pub(crate) struct TakeoverClock {
    watch: Watch,
    idle_ms: u64,
    /// How long nothing flows before a drain ends it early; 0 where a drain ends it at once.
    quiet_ms: u64,
    idle_due: u64,
    quiet_due: u64,
    whole_due: u64,
    look_due: u64,
    /// The tick at which a drain ends it, whatever flows.
    last_due: Option<u64>,
    /// Bytes or messages that had passed when it was asked last.
    moved: Option<u64>,
}

impl TakeoverClock {
    pub(crate) fn new(
        tunnel: &Tunnel,
        idle_ms: u64,
        whole_ms: u64,
        quiet_ms: u64,
    ) -> TakeoverClock {
        let thread = &tunnel.thread;
        TakeoverClock {
            idle_ms,
            quiet_ms,
            idle_due: u64::MAX,
            quiet_due: u64::MAX,
            whole_due: thread.after(whole_ms),
            look_due: thread.after(0),
            last_due: None,
            moved: None,
            watch: Watch::new(thread, &tunnel.settings),
        }
    }

    /// Ready when it has to end. `moved` grows with what passes.
    pub(crate) fn poll<P: Permit>(
        &mut self,
        context: &mut Context<'_>,
        permit: &P,
        moved: u64,
    ) -> Poll<TunnelStop> {
        let thread = Rc::clone(&self.watch.thread);
        if self.moved.replace(moved) != Some(moved) {
            self.idle_due = thread.after(self.idle_ms);
            self.quiet_due = thread.after(self.quiet_ms);
        }
        if thread.has_passed(self.look_due) {
            if let Err(refusal) = permit.in_force() {
                return Poll::Ready(TunnelStop::Ended(refusal));
            }
            self.look_due = thread.after(PERMIT_LOOK_MS);
        }
        let drain_due = self.drain_due(&thread);
        match () {
            () if thread.has_passed(drain_due) => return Poll::Ready(TunnelStop::Drained),
            () if thread.has_passed(self.whole_due) => return Poll::Ready(TunnelStop::Late),
            () if thread.has_passed(self.idle_due) => return Poll::Ready(TunnelStop::Idle),
            () => {}
        }
        self.watch.read_done();
        for due in [self.look_due, drain_due, self.whole_due, self.idle_due] {
            self.watch.read_by(due);
        }
        self.watch.wake_later(context.waker());
        Poll::Pending
    }

    /// The tick at which a drain ends it; never while there is none.
    fn drain_due(&mut self, thread: &Thread) -> u64 {
        if !thread.is_draining() {
            return u64::MAX;
        }
        if self.quiet_ms == 0 {
            return 0;
        }
        let half_ms = self.watch.bounds.drain_ms / 2;
        let last = *self.last_due.get_or_insert_with(|| thread.after(half_ms));
        last.min(self.quiet_due)
    }
}

impl Socket for Tunnel {
    fn reset(&mut self) {
        self.stream.reset();
    }

    fn tells_end(&self) -> bool {
        self.stream.tells_end()
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tunnel = self.get_mut();
        if tunnel.early.is_empty() {
            return Pin::new(&mut tunnel.stream).poll_read(context, buffer);
        }
        let bytes = tunnel.early.len().min(buffer.remaining());
        buffer.put_slice(&tunnel.early.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
