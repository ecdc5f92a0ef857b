//! Bodies between a stream of HTTP/2 and an exchange of HTTP/1.1, both ways at once.
//!
//! Nothing is kept but what one read brought: whoever does not read makes the other wait, through the windows of HTTP/2. A
//! stream that its client takes back ends the exchange as a closed connection does, and an exchange that breaks off
//! ends its stream with RST_STREAM, never with END_STREAM.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use base::limit;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use tokio::io::DuplexStream;

use super::translate::{self, pairs};
use crate::h1::{ClientConnection, Watch};

/// Bytes of an answer that are asked room for at once.
const ROOM_BYTES: usize = 64 << 10;

/// Why a stream ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamBroken {
    /// Its other side took it back, or is gone.
    TakenBack,
    /// The exchange of HTTP/1.1 broke off.
    Exchange,
    /// The other side took nothing for too long.
    Slow,
}

impl StreamBroken {
    /// How the other side is told.
    pub(super) fn reason(self) -> Reason {
        match self {
            StreamBroken::TakenBack | StreamBroken::Slow => Reason::CANCEL,
            StreamBroken::Exchange => Reason::INTERNAL_ERROR,
        }
    }
}

/// Waits for room to send bytes in, at most `write_ms` milliseconds: how many.
pub(super) fn poll_room(
    sending: &mut SendStream<Bytes>,
    bytes: usize,
    watch: &Watch,
    context: &mut Context<'_>,
) -> Poll<Result<usize, StreamBroken>> {
    if sending.capacity() == 0 {
        sending.reserve_capacity(bytes.min(ROOM_BYTES));
    }
    while sending.capacity() == 0 {
        match sending.poll_capacity(context) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => return Poll::Ready(Err(StreamBroken::TakenBack)),
            Poll::Pending => {
                watch.write_within(watch.bounds.write_ms);
                if watch.is_write_late() {
                    return Poll::Ready(Err(StreamBroken::Slow));
                }
                watch.wake_later(context.waker());
                return Poll::Pending;
            }
        }
    }
    watch.write_done();
    Poll::Ready(Ok(sending.capacity().min(bytes)))
}

/// The body of a request, on its way in.
pub(super) struct RequestBody {
    body: RecvStream,
    /// Bytes that were taken and not passed on: the client may send as many again once they are.
    held: usize,
    stage: BodyStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyStage {
    Data,
    Trailers,
    Done,
}

impl RequestBody {
    fn new(body: RecvStream) -> RequestBody {
        RequestBody {
            body,
            held: 0,
            stage: BodyStage::Data,
        }
    }

    /// Passes on what comes. Ready once all is passed on, or is not read any more.
    fn poll(
        &mut self,
        client: &mut ClientConnection<DuplexStream>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamBroken>> {
        loop {
            // A body of a known length is whole only with the end of its stream: until then its last bytes are kept, so that
            // one that goes on is not passed on, and no answer is there before its request has ended.
            let is_ending = self.stage == BodyStage::Data && !client.has_body_to_send();
            let may_flush = !is_ending || self.body.is_end_stream();
            if may_flush && client.unflushed() > 0 && ready!(client.poll_flush(context)).is_err() {
                // Whoever answers reads no more of it; the answer may be there.
                self.stage = BodyStage::Done;
                return Poll::Ready(Ok(()));
            }
            if self.held > 0 {
                let _ = self.body.flow_control().release_capacity(self.held);
                self.held = 0;
            }
            match self.stage {
                BodyStage::Data => match ready!(self.body.poll_data(context)) {
                    Some(Ok(bytes)) => {
                        let pushed = client.body_with(|out| out.extend_from_slice(&bytes));
                        pushed.map_err(|_| StreamBroken::TakenBack)?;
                        self.held = bytes.len();
                    }
                    Some(Err(_)) => return Poll::Ready(Err(StreamBroken::TakenBack)),
                    None => self.stage = BodyStage::Trailers,
                },
                BodyStage::Trailers => {
                    let trailers = ready!(self.body.poll_trailers(context));
                    let trailers = trailers.map_err(|_| StreamBroken::TakenBack)?;
                    let trailers = trailers.unwrap_or_default();
                    let ended = client.end_with(pairs(trailers.iter()));
                    ended.map_err(|_| StreamBroken::TakenBack)?;
                    self.stage = BodyStage::Done;
                }
                BodyStage::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Throws away what still comes of it, for a moment: some clients take an answer for broken that comes with a reset
    /// while they send.
    async fn let_go(&mut self, watch: &Watch) {
        watch.read_within(limit::LINGER_QUIET_MS_MAX);
        poll_fn(|context| {
            while let Poll::Ready(piece) = self.body.poll_data(context) {
                let Some(Ok(bytes)) = piece else {
                    return Poll::Ready(());
                };
                let _ = self.body.flow_control().release_capacity(bytes.len());
            }
            if watch.is_read_late() {
                return Poll::Ready(());
            }
            watch.wake_later(context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// The answer to a request, on its way out.
struct AnswerOut<'a> {
    respond: SendResponse<Bytes>,
    sending: Option<SendStream<Bytes>>,
    watch: &'a Watch,
}

impl AnswerOut<'_> {
    /// Passes on what there is. Ready once all is passed on.
    fn poll(
        &mut self,
        client: &mut ClientConnection<DuplexStream>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamBroken>> {
        while self.sending.is_none() {
            if client.poll_answer(context)?.is_pending() {
                return self.poll_taken_back(context);
            }
            let view = client.answered();
            if view.is_informational() {
                self.inform(view.status());
                continue;
            }
            let answer = translate::answer(view).ok_or(StreamBroken::Exchange)?;
            let has_ended = client.is_body_here() && client.filled().is_empty();
            let sending = self.respond.send_response(answer, has_ended);
            self.sending = Some(sending.map_err(|_| StreamBroken::TakenBack)?);
            if has_ended {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            if client.poll_fill(context, 1)?.is_pending() {
                return self.poll_taken_back(context);
            }
            let here = client.filled().len();
            let sending = self.sending.as_mut().ok_or(StreamBroken::Exchange)?;
            if here == 0 {
                let trailers = translate::fields(client.trailers());
                let trailers = trailers.ok_or(StreamBroken::Exchange)?;
                let sent = match trailers.is_empty() {
                    true => sending.send_data(Bytes::new(), true),
                    false => sending.send_trailers(trailers),
                };
                return Poll::Ready(sent.map_err(|_| StreamBroken::TakenBack));
            }
            let room = ready!(poll_room(sending, here, self.watch, context))?;
            let bytes = translate::sent(&client.filled()[..room]);
            client.consume(room);
            let is_last = room == here && client.is_body_here() && client.trailers().is_empty();
            let sent = sending.send_data(bytes, is_last);
            sent.map_err(|_| StreamBroken::TakenBack)?;
            if is_last {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Tells a client to go on that waits for it. Other interim answers are left out: some clients of HTTP/2 take none.
    fn inform(&mut self, status: u16) {
        const CONTINUE: u16 = 100;
        if status == CONTINUE {
            let mut go_on = http::Response::new(());
            *go_on.status_mut() = http::StatusCode::CONTINUE;
            // A client that took its stream back is seen below.
            let _ = self.respond.send_informational(go_on);
        }
    }

    fn poll_taken_back(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamBroken>> {
        let taken_back = match &mut self.sending {
            Some(sending) => sending.poll_reset(context),
            None => self.respond.poll_reset(context),
        };
        taken_back.map(|_| Err(StreamBroken::TakenBack))
    }
}

/// Whoever answers broke off, or ended without an answer.
impl From<crate::h1::Error> for StreamBroken {
    fn from(_: crate::h1::Error) -> StreamBroken {
        StreamBroken::Exchange
    }
}

/// Carries the body of a request to whoever answers it, and the answer back. The head of the request is in the output
/// of `client`. Says whether somebody still waits for the end of the call.
pub(super) async fn carry(
    mut client: ClientConnection<DuplexStream>,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    watch: Watch,
) -> bool {
    let mut body = RequestBody::new(body);
    let mut answer = AnswerOut {
        respond,
        sending: None,
        watch: &watch,
    };
    let carried = poll_fn(|context| {
        if let Poll::Ready(Err(broken)) = body.poll(&mut client, context) {
            return Poll::Ready(Err(broken));
        }
        answer.poll(&mut client, context)
    });
    let Err(broken) = carried.await else {
        drop(client);
        body.let_go(&watch).await;
        return true;
    };
    // A reset takes back what waits to be written: what the client takes without delay, it gets.
    tokio::task::yield_now().await;
    match &mut answer.sending {
        Some(sending) => sending.send_reset(broken.reason()),
        None => answer.respond.send_reset(broken.reason()),
    }
    broken == StreamBroken::Exchange
}
