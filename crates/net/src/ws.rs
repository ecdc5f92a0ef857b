//! WebSocket (RFC 6455) on connections that were taken over, as a server and as a client.
//!
//! The handshake is ours, over the HTTP of this crate; the frames are tungstenite's
//! (`docs/decisions/0019-websocket.md`). Messages are whole and bounded. There are no extensions, so nothing is
//! compressed. Each message is read and sent with a permit, which is asked again while the socket waits.

mod handshake;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::{Permit, Refusal, refusal};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as FrameError, Message as Frame};

pub use handshake::{WebSocketAsk, WebSocketOffer};

use crate::edge::Request;
use crate::pool::Lease;
use crate::send::SendError;
use crate::takeover::{Switch, TakeoverClock, Tunnel, TunnelStop};

/// Bytes that are read at once, and held by each socket.
const READ_BYTES: usize = 8 << 10;
/// Bytes beside a message in the output: its head and a control frame.
const FRAME_BYTES: usize = 1 << 10;
/// How long the other side has to close after we did, in milliseconds.
const CLOSE_MS: u64 = 1_000;
/// Bytes that are read and thrown away in that time.
const CLOSE_BYTES_MAX: usize = 1 << 20;

/// The bounds of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSocketBounds {
    /// How long nothing may come or go, in milliseconds. A ping counts.
    pub idle_ms: u64,
    /// How long it may last, in milliseconds.
    pub whole_ms: u64,
    /// Largest message, in bytes, whether it comes in one frame or in many.
    pub message_bytes_max: usize,
}

/// What comes and goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketMessage {
    Text(String),
    Binary(Bytes),
}

/// Why a WebSocket ended without a close of the other side.
#[derive(Clone, Debug)]
pub enum WebSocketEnd {
    /// A bound, the drain, or the permit.
    Stopped(TunnelStop),
    /// A message is larger than the bound.
    TooLarge,
    /// A text is not UTF-8.
    NotText,
    /// The other side broke the protocol.
    Invalid(String),
    /// The connection broke.
    Broken(String),
    /// We closed it ourselves.
    Closed,
}

impl WebSocketEnd {
    /// What the other side is told (RFC 6455 §7.4.1), where it still can be.
    fn code(&self) -> Option<u16> {
        match self {
            WebSocketEnd::Stopped(TunnelStop::Ended(_)) => Some(1008),
            WebSocketEnd::Stopped(_) => Some(1001),
            WebSocketEnd::TooLarge => Some(1009),
            WebSocketEnd::NotText => Some(1007),
            WebSocketEnd::Invalid(_) => Some(1002),
            WebSocketEnd::Broken(_) | WebSocketEnd::Closed => None,
        }
    }
}

impl fmt::Display for WebSocketEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WebSocketEnd::Stopped(why) => why.fmt(f),
            WebSocketEnd::TooLarge => f.write_str("a message is too large"),
            WebSocketEnd::NotText => f.write_str("a text is not UTF-8"),
            WebSocketEnd::Invalid(why) => write!(f, "the protocol was broken: {why}"),
            WebSocketEnd::Broken(why) => write!(f, "the connection broke: {why}"),
            WebSocketEnd::Closed => f.write_str("the connection was closed"),
        }
    }
}

/// One WebSocket.
pub struct WebSocket {
    frames: WebSocketStream<Tunnel>,
    clock: TakeoverClock,
    message_bytes_max: usize,
    /// Frames that came and messages that went.
    moved: u64,
    /// The other side closed it, with this code if it gave one.
    closed: Option<Option<u16>>,
    ended: Option<WebSocketEnd>,
    /// The other side was told of the end, as far as it can be.
    is_told: bool,
}

impl WebSocket {
    /// Answers an offer, with one of its protocols or none, and takes the connection over.
    ///
    /// # Errors
    /// As of [`Request::take_over`].
    pub async fn accept<P: Permit>(
        request: &mut Request,
        permit: &P,
        offer: &WebSocketOffer,
        protocol: Option<&str>,
        bounds: WebSocketBounds,
    ) -> Result<WebSocket, Refusal> {
        if protocol.is_some_and(|protocol| !offer.protocols().any(|known| known == protocol)) {
            let public = "The client does not offer the protocol that is spoken here.";
            return Err(Refusal::new(refusal::WEBSOCKET, public));
        }
        let mut fields: Vec<(&[u8], &[u8])> = Vec::with_capacity(2);
        fields.push((handshake::ACCEPT.as_bytes(), offer.accept().as_bytes()));
        if let Some(protocol) = protocol {
            fields.push((handshake::PROTOCOL.as_bytes(), protocol.as_bytes()));
        }
        let switch = Switch::to("websocket", &fields);
        let tunnel = request.take_over(permit, switch).await?;
        Ok(WebSocket::new(tunnel, Role::Server, bounds).await)
    }

    /// Asks the server at the other end of a connection. Gives the protocol that it chose, if it chose one.
    ///
    /// # Errors
    /// `Broken` where the server does not answer the handshake as RFC 6455 §4.1 wants it.
    pub async fn connect<P: Permit>(
        mut lease: Lease,
        permit: &P,
        ask: WebSocketAsk<'_>,
        bounds: WebSocketBounds,
    ) -> Result<(WebSocket, Option<String>), SendError> {
        permit.in_force().map_err(SendError::Refused)?;
        let accept = ask.write(&mut lease)?;
        lease.flush().await?;
        while lease.answer().await?.is_informational() {}
        let answer = lease.answered();
        let is_switched = lease.is_switched();
        let protocol = ask.check(&answer, is_switched, &accept);
        let protocol = protocol.map_err(SendError::Broken)?;
        let tunnel = lease.take_over(permit)?;
        Ok((WebSocket::new(tunnel, Role::Client, bounds).await, protocol))
    }

    async fn new(mut tunnel: Tunnel, role: Role, bounds: WebSocketBounds) -> WebSocket {
        let message_bytes_max = bounds.message_bytes_max;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            // A message goes out at once.
            .write_buffer_size(0)
            .max_write_buffer_size(message_bytes_max.saturating_add(FRAME_BYTES))
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(message_bytes_max));
        let clock = TakeoverClock::new(&tunnel, bounds.idle_ms, bounds.whole_ms, 0);
        let early = tunnel.take_early().into();
        let frames = WebSocketStream::from_partially_read(tunnel, early, role, Some(config)).await;
        WebSocket {
            frames,
            clock,
            message_bytes_max,
            moved: 0,
            closed: None,
            ended: None,
            is_told: false,
        }
    }

    /// The next message; nothing once the other side closed. Pings are answered here. It may be dropped while it
    /// waits: no message is lost.
    ///
    /// # Errors
    /// What ended the socket; the other side was told.
    pub async fn next<P: Permit>(
        &mut self,
        permit: &P,
    ) -> Result<Option<WebSocketMessage>, WebSocketEnd> {
        if self.ended.is_none() {
            match poll_fn(|context| self.poll_next(context, permit)).await {
                Ok(message) => return Ok(message),
                Err(end) => self.ended = Some(end),
            }
        }
        Err(self.tell_end().await)
    }

    /// Sends a message; waits while the other side does not read.
    ///
    /// # Errors
    /// What ended the socket; the other side was told.
    pub async fn send<P: Permit>(
        &mut self,
        permit: &P,
        message: WebSocketMessage,
    ) -> Result<(), WebSocketEnd> {
        let (bytes, frame) = match message {
            WebSocketMessage::Text(text) => (text.len(), Frame::Text(text.into())),
            WebSocketMessage::Binary(bytes) => (bytes.len(), Frame::Binary(bytes)),
        };
        self.send_frame(permit, bytes, frame).await
    }

    /// Sends a ping, so that whoever stands between sees that the connection is used.
    ///
    /// # Errors
    /// As of [`WebSocket::send`].
    pub async fn ping<P: Permit>(&mut self, permit: &P) -> Result<(), WebSocketEnd> {
        self.send_frame(permit, 0, Frame::Ping(Bytes::new())).await
    }

    async fn send_frame<P: Permit>(
        &mut self,
        permit: &P,
        bytes: usize,
        frame: Frame,
    ) -> Result<(), WebSocketEnd> {
        if self.ended.is_none() {
            let mut unsent = Some(frame);
            let sent = match bytes > self.message_bytes_max {
                true => Err(WebSocketEnd::TooLarge),
                false => poll_fn(|context| self.poll_send(context, permit, &mut unsent)).await,
            };
            match sent {
                Ok(()) => return Ok(()),
                Err(end) => self.ended = Some(end),
            }
        }
        Err(self.tell_end().await)
    }

    /// Closes it with a code (RFC 6455 §7.4.1) and a reason of at most 123 bytes.
    pub async fn close(&mut self, code: u16, reason: &str) {
        if self.ended.is_none() {
            self.ended = Some(WebSocketEnd::Closed);
            self.finish(Some(code), reason).await;
        }
    }

    /// The code with which the other side closed it, if it did and gave one.
    pub fn closed_with(&self) -> Option<u16> {
        self.closed.flatten()
    }

    fn poll_next<P: Permit>(
        &mut self,
        context: &mut Context<'_>,
        permit: &P,
    ) -> Poll<Result<Option<WebSocketMessage>, WebSocketEnd>> {
        loop {
            let came = Pin::new(&mut self.frames).poll_next(context);
            self.moved += u64::from(came.is_ready());
            let message = match came {
                Poll::Ready(Some(Ok(Frame::Text(text)))) => {
                    WebSocketMessage::Text(text.as_str().to_owned())
                }
                Poll::Ready(Some(Ok(Frame::Binary(bytes)))) => WebSocketMessage::Binary(bytes),
                Poll::Ready(Some(Ok(Frame::Close(frame)))) => {
                    self.closed = Some(frame.map(|frame| frame.code.into()));
                    continue;
                }
                Poll::Ready(Some(Ok(_))) => continue,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(ended_by(error))),
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                // Its close was answered; a server ends the connection, which need not be waited for.
                Poll::Pending if self.closed.is_some() => return Poll::Ready(Ok(None)),
                Poll::Pending => return self.poll_stop(context, permit).map(Err),
            };
            return Poll::Ready(Ok(Some(message)));
        }
    }

    fn poll_send<P: Permit>(
        &mut self,
        context: &mut Context<'_>,
        permit: &P,
        unsent: &mut Option<Frame>,
    ) -> Poll<Result<(), WebSocketEnd>> {
        let mut frames = Pin::new(&mut self.frames);
        let ready = frames.as_mut().poll_ready(context);
        let sent = match ready {
            Poll::Ready(Ok(())) => {
                let begun = unsent.take().map(|frame| frames.as_mut().start_send(frame));
                begun.map_or(Ok(()), |begun| begun).map_err(ended_by)?;
                frames.poll_flush(context)
            }
            other => other,
        };
        match sent {
            Poll::Ready(sent) => {
                self.moved += 1;
                Poll::Ready(sent.map_err(ended_by))
            }
            Poll::Pending => self.poll_stop(context, permit).map(Err),
        }
    }

    fn poll_stop<P: Permit>(
        &mut self,
        context: &mut Context<'_>,
        permit: &P,
    ) -> Poll<WebSocketEnd> {
        let why = ready!(self.clock.poll(context, permit, self.moved));
        Poll::Ready(WebSocketEnd::Stopped(why))
    }

    /// Tells the other side once why the socket ended.
    async fn tell_end(&mut self) -> WebSocketEnd {
        let end = self.ended.clone().unwrap_or(WebSocketEnd::Closed);
        if let Some(code) = end.code()
            && !self.is_told
        {
            let reason = end.to_string();
            self.finish(Some(code), &reason).await;
        }
        end
    }

    /// Sends a close frame, ends our side, and lets the other read it, within bounds.
    async fn finish(&mut self, code: Option<u16>, reason: &str) {
        self.is_told = true;
        let frame = code.map(|code| CloseFrame {
            code: code.into(),
            reason: cut(reason).into(),
        });
        let told = async {
            let mut frame = Some(Frame::Close(frame));
            let _ = poll_fn(|context| {
                let mut frames = Pin::new(&mut self.frames);
                ready!(frames.as_mut().poll_ready(context))?;
                if let Some(frame) = frame.take() {
                    frames.as_mut().start_send(frame)?;
                }
                frames.poll_flush(context)
            })
            .await;
            discard(self.frames.get_mut()).await
        };
        let _ = tokio::time::timeout(Duration::from_millis(CLOSE_MS), told).await;
    }
}

/// Ends our side, and throws away what still comes: bytes that nobody reads would make the kernel throw our close away.
async fn discard(tunnel: &mut Tunnel) -> io::Result<()> {
    tunnel.shutdown().await?;
    let (mut left, mut bytes) = (CLOSE_BYTES_MAX, [0; 4096]);
    loop {
        match tunnel.read(&mut bytes).await? {
            0 => return Ok(()),
            came if came > left => return Ok(()),
            came => left -= came,
        }
    }
}

/// A reason as long as a control frame takes one (RFC 6455 §5.5).
fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

fn ended_by(error: FrameError) -> WebSocketEnd {
    match error {
        FrameError::Capacity(CapacityError::MessageTooLong { .. })
        | FrameError::WriteBufferFull(_) => WebSocketEnd::TooLarge,
        FrameError::Utf8(_) => WebSocketEnd::NotText,
        FrameError::Io(error) => WebSocketEnd::Broken(error.kind().to_string()),
        FrameError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            WebSocketEnd::Broken("it ended without a close".to_owned())
        }
        FrameError::ConnectionClosed
        | FrameError::AlreadyClosed
        | FrameError::Protocol(ProtocolError::SendAfterClosing) => WebSocketEnd::Closed,
        error => WebSocketEnd::Invalid(error.to_string()),
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
