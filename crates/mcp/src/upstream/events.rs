//! To a server over HTTP+SSE (MCP 2024-11-05): one event stream for each session, and POSTs to the place that its first event
//! names.
//!
//! The place has to be at the server's own address. Anything else would have the gateway send what agents say, and the
//! server's token, wherever the server likes. When the stream ends, the calls under way end with it; the next call opens
//! another, on which the session's `initialize` is said again.
//!
//! Source: MCP 2024-11-05, "Transports", section "HTTP with SSE".

mod place;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Refusal, refusal};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use net::{UpstreamAnswer, sse};

use super::http::{fields, is, known, request};
use super::session::{REPLAY_ID, initialize_again};
use super::{Link, lock, unknown, while_in_force};
use crate::answers::Answers;
use crate::lane::{McpLane, Server, Shared};
use crate::waiting::{BadLine, gone, too_large};

/// How long the first event may take, in milliseconds.
const ENDPOINT_MS_MAX: u64 = 10_000;
/// Messages that are none, after which a stream is ended.
const GARBAGE_MAX: usize = 64;
/// Most of the answer to a POST that is read, in bytes: it says nothing.
const TAKEN_BYTES_MAX: usize = 64 << 10;
/// The name of the event that says where to send messages.
const ENDPOINT: &str = "endpoint";

/// An open event stream of a session.
#[derive(Clone)]
pub(crate) struct EventsIn {
    /// Where the session's messages are sent.
    place: PathAndQuery,
    is_over: Arc<AtomicBool>,
}

/// Sends one message to the session's server; `replay` says that the session's `initialize` is to be said where its stream
/// has to be opened again.
pub(super) async fn send(
    lane: &McpLane,
    server: &Server,
    link: &Arc<Link>,
    answers: &Answers,
    message: Bytes,
    replay: bool,
) -> Result<(), Refusal> {
    let mut events = link.events.lock().await;
    let open = events.as_ref();
    let open = open.filter(|events| !events.is_over.load(Ordering::Relaxed));
    let place = match open {
        Some(open) => open.place.clone(),
        None if link.is_ended() => {
            answers.passed().in_force()?;
            return Err(unknown());
        }
        None => {
            let opened = begin(lane, server, link, answers, replay).await?;
            events.insert(opened).place.clone()
        }
    };
    drop(events);
    post(lane, server, answers, &place, message).await
}

/// Opens the stream of a session, unless it ended a moment ago.
async fn begin(
    lane: &McpLane,
    server: &Server,
    link: &Arc<Link>,
    answers: &Answers,
    replay: bool,
) -> Result<EventsIn, Refusal> {
    let now_ms = crate::probe::mono_ms();
    {
        let mut restart = lock(&link.backoff);
        if now_ms < restart.not_before_ms {
            let wait_ms = restart.not_before_ms - now_ms;
            let why = "its stream ended and waits to be opened again";
            return Err(down(why).with_retry_ms(wait_ms));
        }
        restart.backoff.started(now_ms);
    }
    let opened = open(lane, server, link, answers).await;
    let (events, answer, reader, early) = opened.inspect_err(|_| backed_off(link))?;
    let replayed = replay
        .then(|| link.wait(REPLAY_ID, REPLAY_ID, None, false))
        .transpose()?;
    let stream = Stream {
        shared: Arc::clone(&lane.shared),
        link: Arc::clone(link),
        is_over: Arc::clone(&events.is_over),
        reader,
        early,
    };
    tokio::task::spawn_local(stream.run(answer));
    if let Some(heard) = replayed {
        let say = async |message: Bytes| {
            let sent = post(lane, server, answers, &events.place, message).await;
            sent.map_err(|refusal| refusal.public.to_string())
        };
        let said = initialize_again(link, heard, say).await;
        link.forget(REPLAY_ID);
        said.map_err(down)?;
    }
    Ok(events)
}

type OpenedEvents = (EventsIn, UpstreamAnswer, sse::Reader, VecDeque<sse::Event>);

/// Opens a stream, and reads up to its first event; gives what came with that.
async fn open(
    lane: &McpLane,
    server: &Server,
    link: &Link,
    answers: &Answers,
) -> Result<OpenedEvents, Refusal> {
    let passed = answers.passed();
    let mut fields = fields(server, answers, None);
    fields.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let request = request(Method::GET, fields, Bytes::new());
    let sent = lane
        .upstreams
        .send_fresh(passed, request, lane.settings().answer_ms);
    let mut answer = known(while_in_force(passed, sent).await??)?;
    let status = answer.head.status;
    if !status.is_success() || !is(&answer.head.headers, "text/event-stream") {
        return Err(down(format!("its event stream is answered with {status}")));
    }
    let mut reader = sse::Reader::new(lane.settings().answer_bytes_max);
    let wait = Duration::from_millis(ENDPOINT_MS_MAX);
    let first = tokio::time::timeout(wait, events_of(&mut answer, &mut reader));
    let first = while_in_force(passed, first).await?;
    let mut events = first.map_err(|_elapsed| down("its stream does not say where to send"))??;
    let endpoint = events
        .pop_front()
        .filter(|first| first.name.as_deref() == Some(ENDPOINT));
    let named = endpoint.and_then(|event| event.data);
    let named = named.ok_or_else(|| down("the first event of its stream is no endpoint"))?;
    let own = lane.upstreams.endpoint(passed);
    let own = own.ok_or_else(|| down("it has no address"))?;
    let place = place::read(&own, &named).map_err(|why| {
        tracing::warn!(server = %link.server, why, "a server wants its messages sent elsewhere");
        let public = "the server wants messages sent to a place that is not its own";
        Refusal::new(refusal::ENDPOINT_ELSEWHERE, public).with_private(why)
    })?;
    let events_in = EventsIn {
        place,
        is_over: Arc::default(),
    };
    Ok((events_in, answer, reader, events))
}

/// The next events of a stream, at least one.
async fn events_of(
    answer: &mut UpstreamAnswer,
    reader: &mut sse::Reader,
) -> Result<VecDeque<sse::Event>, Refusal> {
    let mut events = VecDeque::new();
    while events.is_empty() {
        let chunk = answer.chunk().await.map_err(Refusal::from)?;
        let chunk = chunk.ok_or_else(|| down("its stream ended"))?;
        let read = reader.push(&chunk, |event| events.push_back(event));
        events.retain(|event: &sse::Event| event.data.is_some());
        read.map_err(|_too_large| too_large())?;
    }
    Ok(events)
}

/// Sends one message; what it is answered with comes on the stream.
async fn post(
    lane: &McpLane,
    server: &Server,
    answers: &Answers,
    place: &PathAndQuery,
    message: Bytes,
) -> Result<(), Refusal> {
    let (passed, answer_ms) = (answers.passed(), lane.settings().answer_ms);
    let mut fields = fields(server, answers, None);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let request = request(Method::POST, fields, message);
    let sent = lane.upstreams.send_to(passed, place, request, answer_ms);
    let mut answer = known(while_in_force(passed, sent).await??)?;
    let status = answer.head.status;
    if !status.is_success() {
        let public = match status {
            StatusCode::NOT_FOUND => "the server does not know the session any more".to_owned(),
            _ => format!("the server answered with HTTP status {}", status.as_u16()),
        };
        return Err(Refusal::new(refusal::SERVER_DOWN, public));
    }
    if answer.whole(TAKEN_BYTES_MAX, answer_ms).await.is_ok() {
        // Nothing that is said here is of any call.
        answer.reuse();
    }
    Ok(())
}

/// Reads a stream.
struct Stream {
    shared: Arc<Shared>,
    link: Arc<Link>,
    is_over: Arc<AtomicBool>,
    reader: sse::Reader,
    /// Events that came with the first one.
    early: VecDeque<sse::Event>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    async fn run(mut self, mut answer: UpstreamAnswer) {
        let mut over = self.link.over.subscribe();
        let why = tokio::select! {
            why = self.read(&mut answer) => why,
            _ = over.wait_for(|over| *over) => gone("its session ended"),
        };
        self.is_over.store(true, Ordering::Relaxed);
        // Where the session ended, its calls are told why by what ended it.
        if !self.link.is_ended() {
            backed_off(&self.link);
            let server = &self.link.server;
            tracing::warn!(%server, why = why.private, "a server's event stream ended");
            if let Some(health) = self.shared.health.get(server) {
                health.doubt();
            }
            self.link.end_calls(&why);
        }
    }

    /// Gives each message to whom it belongs, until the stream ends; gives why.
    async fn read(&mut self, answer: &mut UpstreamAnswer) -> Refusal {
        let mut events = std::mem::take(&mut self.early);
        let mut garbage = 0;
        loop {
            for event in std::mem::take(&mut events) {
                match self.hear(event).await {
                    Ok(()) => {}
                    Err(BadLine::NotMcp(why)) => {
                        garbage += 1;
                        tracing::warn!(server = %self.link.server, why, "the server sent what is not MCP");
                        if garbage > GARBAGE_MAX {
                            return gone("it says what is not MCP");
                        }
                    }
                    Err(BadLine::Foreign) => return gone("it answered what it was not asked"),
                }
            }
            events = match events_of(answer, &mut self.reader).await {
                Ok(events) => events,
                Err(why) => return why,
            };
        }
    }

    async fn hear(&self, event: sse::Event) -> Result<(), BadLine> {
        match event.name.as_deref() {
            None => {
                let data = event.data.unwrap_or_default();
                self.link.hear(Bytes::from(data)).await
            }
            // One that moves in the middle of a session cannot be relied on.
            Some(ENDPOINT) => Err(BadLine::Foreign),
            Some(_) => Ok(()),
        }
    }
}

fn backed_off(link: &Link) {
    let now_ms = crate::probe::mono_ms();
    let mut restart = lock(&link.backoff);
    restart.not_before_ms = now_ms + restart.backoff.ended(now_ms);
}

fn down(why: impl Into<String>) -> Refusal {
    let public = "the server's event stream cannot be used";
    Refusal::new(refusal::SERVER_DOWN, public).with_private(why)
}
