//! A connection of HTTP/2 as its server: each stream is served as a connection of HTTP/1.1 with one request.
//!
//! Streams at once, their windows, what is remembered of them, and frames that mean nothing are bounded. A connection
//! without a stream is closed as an idle one of HTTP/1.1 is. A drain says GOAWAY, and lets what runs end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::{Refusal, limit, refusal};
use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinSet;

use super::exchange;
use super::frames::{FrameGuard, GuardedStream};
use super::translate::{TranslatedHead, sent};
use crate::edge::{Body, Response, refused_in_words};
use crate::h1::{ClientConnection, ConnectionSettings, Stream, Thread, Watch};

/// What serves the streams of a connection.
pub(crate) trait StreamService: 'static {
    /// Serves one stream to its end, as a connection.
    fn stream(&self, stream: Stream) -> impl Future<Output = ()>;
    /// Forms the answer for what is refused before it is a request of HTTP/1.1. Its body has to be `Empty` or `Full`.
    fn refuse(&self, refusal: &Refusal) -> Response;
}

/// Serves a connection whose TLS ended here: each of its streams where both sides agreed on HTTP/2, else the connection itself.
pub async fn each_stream(
    stream: Stream,
    (thread, bounds): (&Rc<Thread>, &Rc<ConnectionSettings>),
    serve_one: impl AsyncFn(Stream) + 'static,
) {
    match stream.agreed_on_http2() {
        true => serve(stream, (thread, bounds), Rc::new(EachStream(serve_one))).await,
        false => serve_one(stream).await,
    }
}

struct EachStream<F>(F);

impl<F: AsyncFn(Stream) + 'static> StreamService for EachStream<F> {
    async fn stream(&self, stream: Stream) {
        (self.0)(stream).await;
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        refused_in_words(refusal)
    }
}

type Frames = GuardedStream<Stream>;

/// Serves a connection whose client speaks HTTP/2, to its end.
pub(crate) async fn serve<S: StreamService>(
    stream: Stream,
    (thread, bounds): (&Rc<Thread>, &Rc<ConnectionSettings>),
    service: Rc<S>,
) {
    let guard = FrameGuard::new();
    let watch = Watch::new(thread, bounds);
    let frames = GuardedStream::of_client(stream, &guard);
    let Some(connection) = begin(frames, &guard, &watch).await else {
        return;
    };
    let patient = ConnectionSettings {
        head_ms: u64::MAX,
        piece_ms: u64::MAX,
        answer_ms: u64::MAX,
        // What the service does not read makes the client wait; it bounds that wait itself.
        write_ms: u64::MAX,
        ..(**bounds).clone()
    };
    let serving = Serving {
        service,
        thread: Rc::clone(thread),
        bounds: Rc::clone(bounds),
        patient: Rc::new(patient),
    };
    let mut one = InwardConnection {
        connection,
        guard,
        watch,
        streams: JoinSet::new(),
        closing: false,
    };
    let serving = Rc::new(serving);
    while let Some((request, respond)) = poll_fn(|context| one.poll_next(context)).await {
        let serving = Rc::clone(&serving);
        one.streams
            .spawn_local(async move { serving.stream(request, respond).await });
    }
    let mut streams = one.end();
    // Each sees that its client is gone.
    while streams.join_next().await.is_some() {}
}

/// Shakes hands, within the time of a head.
async fn begin(
    frames: Frames,
    guard: &FrameGuard,
    watch: &Watch,
) -> Option<Connection<Frames, Bytes>> {
    watch.read_within(watch.bounds.head_ms);
    let builder = builder(&watch.bounds);
    let mut handshake = pin!(builder.handshake::<_, Bytes>(frames));
    let begun = poll_fn(|context| match handshake.as_mut().poll(context) {
        Poll::Ready(begun) => Poll::Ready(begun.ok()),
        Poll::Pending if guard.is_flooded() || watch.is_read_late() => Poll::Ready(None),
        Poll::Pending => {
            watch.wake_later(context.waker());
            Poll::Pending
        }
    });
    begun.await
}

fn builder(bounds: &ConnectionSettings) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limit::HTTP2_STREAMS_MAX)
        .max_header_list_size(bounds.head_bytes_max as u32)
        .initial_window_size(limit::HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limit::HTTP2_CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(limit::HTTP2_SEND_BYTES_MAX)
        .max_concurrent_reset_streams(limit::HTTP2_PENDING_RESETS_MAX)
        .max_pending_accept_reset_streams(limit::HTTP2_PENDING_RESETS_MAX)
        .max_local_error_reset_streams(Some(limit::HTTP2_ERRORS_MAX));
    builder
}

/// One connection, between two streams.
struct InwardConnection {
    connection: Connection<Frames, Bytes>,
    guard: Rc<FrameGuard>,
    watch: Watch,
    streams: JoinSet<()>,
    /// GOAWAY was said.
    closing: bool,
}

impl InwardConnection {
    /// The next stream; nothing at the end of the connection.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<(Request<RecvStream>, SendResponse<Bytes>)>> {
        while let Poll::Ready(Some(_)) = self.streams.poll_join_next(context) {}
        loop {
            if !self.closing && self.watch.thread.is_draining() {
                self.close();
            }
            // A stream that was taken back counts until its call is over.
            let is_full = self.streams.len() >= limit::HTTP2_STREAMS_MAX as usize;
            let next = match is_full {
                true => self.connection.poll_closed(context).map(|_| None),
                false => self.connection.poll_accept(context),
            };
            match next {
                Poll::Ready(Some(Ok(next))) => {
                    self.watch.read_done();
                    return Poll::Ready(Some(next));
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(None),
                Poll::Pending => {}
            }
            if self.guard.is_flooded() && !self.closing {
                self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                self.streams.abort_all();
                self.end_within(limit::HTTP2_CLOSING_MS);
                continue;
            }
            if !self.poll_idle() {
                self.watch.wake_later(context.waker());
                return Poll::Pending;
            }
            if self.closing {
                return Poll::Ready(None);
            }
            self.close();
        }
    }

    /// Says that no further stream is taken.
    fn close(&mut self) {
        self.connection.graceful_shutdown();
        self.end_within(limit::HTTP2_CLOSING_MS);
    }

    fn end_within(&mut self, ms: u64) {
        self.closing = true;
        self.watch.read_within(ms);
    }

    /// Whether the connection had nothing to do for too long.
    fn poll_idle(&self) -> bool {
        if !self.streams.is_empty() {
            self.watch.read_done();
            return false;
        }
        if !self.watch.is_reading_bounded() {
            let bounds = &self.watch.bounds;
            self.watch.read_within(match self.closing {
                true => limit::HTTP2_CLOSING_MS,
                false => bounds.idle_ms,
            });
        }
        self.watch.is_read_late()
    }

    /// Ends the connection; what it served is left.
    fn end(self) -> JoinSet<()> {
        self.streams
    }
}

/// What the streams of a connection have in common.
struct Serving<S> {
    service: Rc<S>,
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    patient: Rc<ConnectionSettings>,
}

impl<S: StreamService> Serving<S> {
    /// Serves one stream to its end.
    async fn stream(&self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let (near, far) = duplex(limit::HTTP2_EXCHANGE_BYTES);
        let (client, body) = match self.translate(request, far) {
            Ok(asked) => asked,
            Err(refusal) => return self.refuse(respond, &refusal),
        };
        let watch = Watch::new(&self.thread, &self.bounds);
        let mut carried = pin!(exchange::carry(client, body, respond, watch));
        let mut served = pin!(self.service.stream(Stream::Translated(near)));
        tokio::select! {
            biased;
            // Where the client took its stream back, its call ends here, as that of a connection does which is dropped.
            is_awaited = &mut carried => {
                if is_awaited {
                    served.await;
                }
            }
            () = &mut served => {
                carried.await;
            }
        }
    }

    /// A request as an exchange of HTTP/1.1 that has begun, with its body to come.
    fn translate(
        &self,
        request: Request<RecvStream>,
        far: DuplexStream,
    ) -> Result<(ClientConnection<DuplexStream>, RecvStream), Refusal> {
        let (head, body) = request.into_parts();
        let told = TranslatedHead::new(&head, body.is_end_stream())?;
        let mut client = ClientConnection::new(far, &self.thread, &self.patient);
        let (method, target, authority) = (told.method(), told.target, told.authority);
        let asked = client.request(method, target, authority, told.fields(), told.framing);
        // It is no head of HTTP/1.1.
        asked.map_err(|error| Refusal::new(refusal::HEAD_INVALID, error.to_string()))?;
        Ok((client, body))
    }

    fn refuse(&self, mut respond: SendResponse<Bytes>, refusal: &Refusal) {
        let (head, body) = self.service.refuse(refusal).into_parts();
        let body = match body {
            Body::Full(bytes) => bytes,
            _ => Bytes::new(),
        };
        let has_ended = body.is_empty();
        let answer = http::Response::from_parts(head, ());
        // A client that took its stream back need not be told.
        if let Ok(mut sending) = respond.send_response(answer, has_ended)
            && !has_ended
        {
            let _ = sending.send_data(sent(&body), true);
        }
    }
}
