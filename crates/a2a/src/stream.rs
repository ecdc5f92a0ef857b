//! An answer that is a stream of events: each is judged as it comes, and what is split over several is looked for too.

use std::time::Duration;

use base::record::CallEnd;
use base::{Permit as _, Refusal, refusal};
use bytes::Bytes;
use gate::{CallEnding, Passed};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use net::sse::{self, Event, Reader};
use net::{Body, BodySender, Response, UpstreamAnswer};
use tokio::time::Instant;

use crate::answer::{Answering, end_refused};
use crate::lane::A2aLane;
use crate::refuse;
use crate::send::{Asking, of_send};

/// Chunks that may wait for a slow client before the agent is made to wait.
const CHUNKS_WAITING_MAX: usize = 16;
/// How often a stream looks whether its call is in force, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// After how long without an event the client is told that there is one to come, in milliseconds.
const KEEP_ALIVE_MS: u64 = 15_000;
/// Bytes of two line breaks.
const TAIL_BYTES: usize = 4;
/// Keeps nginx from collecting a stream.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Carries a stream to the client, on a task of its own.
pub(crate) fn carry(
    lane: &A2aLane,
    mut passed: Passed,
    asking: &Asking<'_>,
    answer: UpstreamAnswer,
) -> Response {
    let (sender, body) = Body::stream(CHUNKS_WAITING_MAX);
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    fields.insert(CONTENT_TYPE, kind);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(BUFFERING, HeaderValue::from_static("no"));
    passed.more_to_come();
    let carrying = Carrying {
        reader: Reader::new(lane.settings().answer_bytes_max),
        answering: Answering::of(asking),
        lane: lane.clone(),
        passed,
        answer,
        sender,
        bytes: 0,
        tail: Vec::new(),
    };
    tokio::task::spawn_local(carrying.run());
    response
}

/// How a stream came to its end.
enum Ended {
    Whole,
    ClientGone,
    Refused(Refusal),
}

struct Carrying {
    lane: A2aLane,
    answering: Answering,
    passed: Passed,
    reader: Reader,
    answer: UpstreamAnswer,
    sender: BodySender,
    bytes: u64,
    /// The last bytes that came.
    tail: Vec<u8>,
}

impl Carrying {
    async fn run(mut self) {
        let ended = self.carry().await;
        let Carrying {
            answering,
            passed,
            sender,
            bytes,
            answer,
            ..
        } = self;
        let status = answer.head.status.as_u16();
        let ending = |end| CallEnding {
            status,
            bytes,
            ..CallEnding::of(end)
        };
        match ended {
            Ended::Whole => passed.end(ending(CallEnd::Complete)),
            Ended::ClientGone => passed.end(ending(CallEnd::Cut)),
            Ended::Refused(refusal) => {
                let (id, version) = (Some(&*answering.id), answering.method.version);
                let error = refuse::error(&refusal, passed.call(), id, version);
                let event = sse::write(&Event::message(error.as_bytes()));
                // Nobody may be there to read it.
                let _ = sender.send(event.into()).await;
                end_refused(passed, status, bytes, &refusal);
            }
        }
    }

    async fn carry(&mut self) -> Ended {
        let silence = Duration::from_millis(self.answering.agent.silence_ms);
        let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
        let (mut came, mut told) = (Instant::now(), Instant::now());
        loop {
            let piece = tokio::select! {
                piece = self.answer.chunk() => piece,
                () = self.sender.closed() => return Ended::ClientGone,
                _ = look.tick() => {
                    if let Err(refusal) = self.passed.in_force() {
                        return Ended::Refused(refusal);
                    }
                    if came.elapsed() > silence {
                        let what = "the agent sent no event for longer than silence_ms";
                        return Ended::Refused(Refusal::new(refusal::A2A_SLOW, what));
                    }
                    if told.elapsed() > Duration::from_millis(KEEP_ALIVE_MS) {
                        told = Instant::now();
                        let comment = Bytes::from_static(b": keep-alive\n\n");
                        if self.sender.send(comment).await.is_err() {
                            return Ended::ClientGone;
                        }
                    }
                    continue;
                }
            };
            let piece = match piece {
                Ok(Some(piece)) => piece,
                Ok(None) if ends_with_an_event(&self.tail) => return Ended::Whole,
                Ok(None) => {
                    let what = "the agent's events ended in the middle of one";
                    return Ended::Refused(Refusal::new(refusal::A2A_DOWN, what));
                }
                Err(error) => return Ended::Refused(of_send(error)),
            };
            self.bytes += piece.len() as u64;
            let mut out = Vec::new();
            let taken = self.take(&piece, &mut out);
            if !out.is_empty() {
                // Comments are no event: an agent that sends nothing else is silent.
                (came, told) = (Instant::now(), Instant::now());
                if self.sender.send(out.into()).await.is_err() {
                    return Ended::ClientGone;
                }
            }
            if let Err(refusal) = taken {
                return Ended::Refused(refusal);
            }
        }
    }

    /// Takes what came; adds to `out` the events that may go on, also where one behind them is refused.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut events = Vec::new();
        let read = self.reader.push(piece, |event| events.push(event));
        self.tail
            .extend_from_slice(&piece[piece.len().saturating_sub(TAIL_BYTES)..]);
        self.tail
            .drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        for event in events {
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let told = self.answering.judge(&self.lane, &mut self.passed, &data)?;
            let event = Event {
                // Clients know one type beside that of messages; ids mean nothing here.
                name: event.name.filter(|name| name == "error"),
                ..Event::message(&told)
            };
            out.extend(sse::write(&event));
        }
        read.map_err(|_| {
            let what = "an event is larger than limits.answer_bytes_max";
            Refusal::new(refusal::A2A_ANSWER_INVALID, what)
        })
    }
}

/// Whether a stream that ends with these bytes ends behind an event, or a comment (HTML standard, section 9.2.6).
fn ends_with_an_event(tail: &[u8]) -> bool {
    let ends: [&[u8]; 4] = [b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n"];
    tail.is_empty() || ends.iter().any(|end| tail.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_ends_in_the_middle_of_an_event_is_cut() {
        for whole in ["", "x\n\n", "x\r\n\r\n", "x\r\r", "\n\n"] {
            assert!(ends_with_an_event(whole.as_bytes()), "{whole:?}");
        }
        for cut in ["x", "x\n", "x\r\n", "\n"] {
            assert!(!ends_with_an_event(cut.as_bytes()), "{cut:?}");
        }
    }
}
