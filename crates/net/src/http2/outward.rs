//! A connection of HTTP/2 as its client, shared by all calls of a thread to one target.
//!
//! Each lease has a connection of HTTP/1.1 of its own, which is a stream of this one for each request; so the pool lends, keeps
//! and judges it as any other. The connection closes by itself once nobody has one. Nothing is sent again here: a request that
//! a server refused unseen is as lost as one on a connection that it closed.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};

use base::limit;
use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::exchange::{StreamBroken, poll_room};
use super::frames::{FrameGuard, GuardedStream};
use super::translate::{self, pairs, sent};
use crate::h1::{ConnectionSettings, ServerConnection, Stream, Thread, Watch};

/// The bounds of what is between a lease and its stream, and the thread that never drains: what is under way ends
/// with its call.
pub(crate) struct LinkSetting {
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    patient: Rc<ConnectionSettings>,
}

impl LinkSetting {
    pub(crate) fn new(bounds: &ConnectionSettings) -> Rc<LinkSetting> {
        let patient = ConnectionSettings {
            head_ms: u64::MAX,
            idle_ms: u64::MAX,
            piece_ms: u64::MAX,
            write_ms: u64::MAX,
            answer_ms: u64::MAX,
            ..bounds.clone()
        };
        Rc::new(LinkSetting {
            thread: Thread::new(bounds.tick_ms()),
            bounds: Rc::new(bounds.clone()),
            patient: Rc::new(patient),
        })
    }
}

/// A connection to a server that speaks HTTP/2.
pub(crate) struct Http2Link {
    send: RefCell<SendRequest<Bytes>>,
    /// Leases that have a part in it.
    open: Cell<usize>,
    end: Rc<LinkEnd>,
    setting: Rc<LinkSetting>,
    is_tls: bool,
}

/// Whether a connection takes no further request.
#[derive(Default)]
struct LinkEnd {
    is_over: Cell<bool>,
    told: Notify,
}

impl LinkEnd {
    fn tell(&self) {
        if !self.is_over.replace(true) {
            self.told.notify_waiters();
        }
    }

    async fn over(&self) {
        if !self.is_over.get() {
            self.told.notified().await;
        }
    }
}

type Frames = GuardedStream<Stream>;

impl Http2Link {
    /// Begins to speak HTTP/2 on a connection that was dialled. Waits for nothing that the server says.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn new(
        stream: Stream,
        setting: &Rc<LinkSetting>,
    ) -> Result<Rc<Http2Link>, h2::Error> {
        let is_tls = matches!(stream, Stream::Tls(_));
        let guard = FrameGuard::new();
        let frames = GuardedStream::of_server(stream, &guard);
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .max_header_list_size(setting.bounds.head_bytes_max as u32)
            .initial_window_size(limit::HTTP2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limit::HTTP2_CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(limit::HTTP2_SEND_BYTES_MAX)
            .max_concurrent_reset_streams(limit::HTTP2_PENDING_RESETS_MAX);
        let (send, connection) = builder.handshake::<_, Bytes>(frames).await?;
        let link = Rc::new(Http2Link {
            send: RefCell::new(send),
            open: Cell::new(0),
            end: Rc::default(),
            setting: Rc::clone(setting),
            is_tls,
        });
        let end = Rc::clone(&link.end);
        spawn_local(drive(connection, guard, Rc::downgrade(&link), end));
        Ok(link)
    }

    /// Whether one more lease may have a part in it.
    pub(crate) fn has_room(&self) -> bool {
        let server = self.send.borrow().current_max_send_streams();
        let max = server.min(limit::HTTP2_UPSTREAM_STREAMS_MAX);
        !self.is_over() && self.open.get() < max
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.is_over.get()
    }

    /// A connection of HTTP/1.1 whose requests are streams of this one.
    pub(crate) fn open(self: &Rc<Self>) -> Stream {
        let (near, far) = duplex(limit::HTTP2_EXCHANGE_BYTES);
        let part = LinkPart(Rc::clone(self));
        self.open.set(self.open.get() + 1);
        spawn_local(async move { part.serve(far).await });
        Stream::Translated(near)
    }

    /// Whether the server takes further requests, as far as it has said.
    fn takes_requests(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        !matches!(
            self.send.borrow_mut().poll_ready(&mut context),
            Poll::Ready(Err(_))
        )
    }
}

/// Drives a connection to its end. It does not keep it open.
async fn drive(
    connection: Connection<Frames, Bytes>,
    guard: Rc<FrameGuard>,
    link: Weak<Http2Link>,
    end: Rc<LinkEnd>,
) {
    let mut connection = pin!(connection);
    poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() || guard.is_flooded() {
            return Poll::Ready(());
        }
        // The server may have said GOAWAY, and answer what it has.
        let takes = link.upgrade().is_none_or(|link| link.takes_requests());
        if !takes {
            end.tell();
        }
        Poll::Pending
    })
    .await;
    end.tell();
}

/// A lease's part in a connection.
struct LinkPart(Rc<Http2Link>);

impl Drop for LinkPart {
    fn drop(&mut self) {
        let open = &self.0.open;
        open.set(open.get() - 1);
    }
}

type Asking = ServerConnection<DuplexStream>;

impl LinkPart {
    /// Sends each request of a lease as a stream, until the lease or the connection is over.
    async fn serve(self, far: DuplexStream) {
        let LinkSetting {
            thread, patient, ..
        } = &*self.0.setting;
        let mut asking = Asking::new(far, thread, patient);
        loop {
            let begun = tokio::select! {
                biased;
                head = asking.head() => matches!(head, Ok(Some(_))),
                () = self.0.end.over() => false,
            };
            if !begun || self.exchange(&mut asking).await.is_err() {
                // What the lease has of an answer is not whole, and it sees that.
                return;
            }
        }
    }

    async fn exchange(&self, asking: &mut Asking) -> Result<(), StreamBroken> {
        let view = asking.request();
        if view.wants_upgrade() {
            return Err(StreamBroken::Exchange);
        }
        let is_head = view.is_head();
        let request = translate::request(view, self.0.is_tls).ok_or(StreamBroken::Exchange)?;
        let has_ended = asking.is_body_here() && asking.filled().is_empty();
        poll_fn(|context| self.0.send.borrow_mut().poll_ready(context))
            .await
            .map_err(|_| StreamBroken::TakenBack)?;
        let asked = self.0.send.borrow_mut().send_request(request, has_ended);
        let (answer, sending) = asked.map_err(|_| StreamBroken::TakenBack)?;
        let watch = Watch::new(&self.0.setting.thread, &self.0.setting.bounds);
        let mut body = RequestOut {
            sending,
            is_done: has_ended,
        };
        let mut answer = AnswerIn {
            answer: Some(answer),
            body: None,
            held: 0,
            is_head,
            is_ended: false,
        };
        poll_fn(|context| {
            let sent = body.poll(asking, &watch, context)?;
            let answered = answer.poll(asking, context)?;
            if answered.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if sent.is_ready() && asking.poll_gone(context).is_ready() {
                return Poll::Ready(Err(StreamBroken::Exchange));
            }
            Poll::Pending
        })
        .await
    }
}

/// The body of a request, on its way to a server.
struct RequestOut {
    sending: SendStream<Bytes>,
    is_done: bool,
}

impl RequestOut {
    /// Sends what there is. Ready once all is sent, or the server takes no more of it.
    fn poll(
        &mut self,
        asking: &mut Asking,
        watch: &Watch,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamBroken>> {
        while !self.is_done {
            ready!(asking.poll_fill(context, 1))?;
            let here = asking.filled().len();
            if here == 0 {
                let trailers = translate::fields(asking.trailers());
                let trailers = trailers.ok_or(StreamBroken::Exchange)?;
                let ended = match trailers.is_empty() {
                    true => self.sending.send_data(Bytes::new(), true),
                    false => self.sending.send_trailers(trailers),
                };
                // A server that takes no more may have answered.
                let _ = ended;
                self.is_done = true;
                break;
            }
            let room = match ready!(poll_room(&mut self.sending, here, watch, context)) {
                Err(StreamBroken::TakenBack) => {
                    self.is_done = true;
                    break;
                }
                room => room?,
            };
            let bytes = sent(&asking.filled()[..room]);
            asking.consume(room);
            let is_last = room == here && asking.is_body_here() && asking.trailers().is_empty();
            self.is_done = self.sending.send_data(bytes, is_last).is_err() || is_last;
        }
        Poll::Ready(Ok(()))
    }
}

/// The answer of a server, on its way to the lease.
struct AnswerIn {
    /// Until its head came.
    answer: Option<ResponseFuture>,
    body: Option<RecvStream>,
    /// Bytes that were taken and not passed on.
    held: usize,
    is_head: bool,
    is_ended: bool,
}

impl AnswerIn {
    /// Passes on what comes. Ready once all is passed on.
    fn poll(
        &mut self,
        asking: &mut Asking,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamBroken>> {
        if let Some(answer) = &mut self.answer {
            while let Poll::Ready(Some(interim)) = answer.poll_informational(context) {
                let interim = interim.map_err(|_| StreamBroken::TakenBack)?;
                // One too many, or too late, is left out.
                let _ = asking.inform(interim.status().as_u16(), pairs(interim.headers().iter()));
            }
            if asking.unflushed() > 0 && asking.poll_flush(context)?.is_pending() {
                return Poll::Pending;
            }
            let head = ready!(pin!(answer).poll(context)).map_err(|_| StreamBroken::TakenBack)?;
            self.answer = None;
            let (head, body) = head.into_parts();
            if !translate::is_answer_good(&head.headers) {
                return Poll::Ready(Err(StreamBroken::Exchange));
            }
            let framing = translate::answer_framing(&head, body.is_end_stream(), self.is_head);
            let framing = framing.map_err(|_| StreamBroken::Exchange)?;
            asking.respond(head.status.as_u16(), pairs(head.headers.iter()), framing)?;
            self.body = Some(body);
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(Err(StreamBroken::Exchange));
        };
        loop {
            if asking.unflushed() > 0 {
                ready!(asking.poll_flush(context))?;
            }
            if self.held > 0 {
                let _ = body.flow_control().release_capacity(self.held);
                self.held = 0;
            }
            if self.is_ended {
                return Poll::Ready(Ok(()));
            }
            match ready!(body.poll_data(context)) {
                Some(Ok(bytes)) => {
                    asking.push(&bytes)?;
                    self.held = bytes.len();
                }
                Some(Err(_)) => return Poll::Ready(Err(StreamBroken::TakenBack)),
                None => {
                    let trailers = ready!(body.poll_trailers(context));
                    let trailers = trailers.map_err(|_| StreamBroken::TakenBack)?;
                    asking.end_with(pairs(trailers.unwrap_or_default().iter()))?;
                    self.is_ended = true;
                }
            }
        }
    }
}
