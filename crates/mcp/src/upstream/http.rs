//! To a server over streamable HTTP (MCP 2025-11-25, "Streamable HTTP").
//!
//! The agent's credential never goes on: the server gets the token that the configuration names for it.
//! Its session id is passed on inside a sealed one, so that it is of use to the same agent only.

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{Refusal, refusal};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use net::{Body, BodySender, Response, sse};
use tokio::time::Instant;

use super::find;
use super::{Outgoing, look_every, while_in_force};
use crate::answers::{Answers, AskedMethod};
use crate::era::fields::REVISION;
use crate::era::{CapabilitySet, Era};
use crate::inbound::{SESSION, accepted, event_stream, json, rpc_error};
use crate::lane::{McpLane, Server, ServerKind, Shared, server_of};
use crate::token::Resume;
use crate::upstream;
use crate::waiting::cancelled_by_client;
use crate::{batch, refuse};

pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Chunks that may wait for a slow client before the server is made to wait.
const CHUNKS_WAITING_MAX: usize = 16;

/// Whose session with the server a message is of.
pub(crate) enum SessionOf<'a> {
    /// The client's own, if it has one: its id is the server's.
    Client(Option<String>),
    /// Weir's own; `client` is the one that the client has with weir, if it has one.
    Weir {
        client: Option<&'a str>,
        can: CapabilitySet,
    },
}

impl SessionOf<'_> {
    /// What tells the ids of one client from those of another.
    fn client(&self) -> Option<&str> {
        match self {
            SessionOf::Client(id) => id.as_deref(),
            SessionOf::Weir { client, .. } => *client,
        }
    }
}

/// Asks whether a session is there still.
const PING: &[u8] = br#"{"jsonrpc":"2.0","id":"weir:ping","method":"ping"}"#;

/// Carries one message and its answer.
pub(crate) async fn carry(
    lane: &McpLane,
    server: &Server,
    mut answers: Answers,
    mut outgoing: Outgoing,
    session: SessionOf<'_>,
) -> Response {
    let is_request = outgoing.id.is_some();
    if let Err(refusal) = answers.begin(&lane.shared.calls, session.client()) {
        return rpc_error(answers, &refusal);
    }
    let mut fields = fields(server, &answers, None);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    if let Some(revision) = outgoing.revision {
        fields.insert(REVISION, HeaderValue::from_static(revision.date));
    }
    fields.extend(std::mem::take(&mut outgoing.fields));
    let sent = match (&session, outgoing.era()) {
        (SessionOf::Weir { can, .. }, Era::Legacy) => {
            in_own_session(lane, server, &answers, fields, (&outgoing, *can)).await
        }
        _ => {
            put_session(&mut fields, session.client());
            let request = request(Method::POST, fields, outgoing.message.clone());
            send(lane, &answers, request).await
        }
    };
    if let Some(cancelled) = &outgoing.cancelled {
        let client = answers.client(session.client());
        lane.shared.calls.cancel(client, &cancelled.client);
    }
    match sent {
        Ok(answer) if !is_request => {
            let status = answer.head.status;
            let ok = status.is_success();
            let end = if ok {
                CallEnd::Complete
            } else {
                CallEnd::Failed
            };
            answers.end(end, status.as_u16());
            if ok { accepted() } else { plain(status) }
        }
        Ok(answer) => read(lane, server, answers, answer, outgoing.takes_events).await,
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Sends a message in the session that weir has with the server for the agent. One that the server does not know any more is
/// begun again, and the message, which it did not take, is sent once more (MCP 2025-11-25, "Session Management").
async fn in_own_session(
    lane: &McpLane,
    server: &Server,
    answers: &Answers,
    fields: HeaderMap,
    (outgoing, can): (&Outgoing, CapabilitySet),
) -> Result<net::UpstreamAnswer, Refusal> {
    let post = async |session: &Option<String>, message: Bytes| {
        let mut fields = fields.clone();
        put_session(&mut fields, session.as_deref());
        send(lane, answers, request(Method::POST, fields, message)).await
    };
    let session = own_session(lane, server, answers, can, None).await?;
    let answer = post(&session, outgoing.message.clone()).await?;
    if answer.head.status != StatusCode::NOT_FOUND || session.is_none() {
        return Ok(answer);
    }
    // A server that says 404 of the call itself may have run it: it is sent again only where the session is gone for all.
    let ping = Bytes::from_static(PING);
    if post(&session, ping).await?.head.status != StatusCode::NOT_FOUND {
        return Ok(answer);
    }
    let again = own_session(lane, server, answers, can, Some(&session)).await?;
    match again == session {
        true => Ok(answer),
        false => post(&again, outgoing.message.clone()).await,
    }
}

/// The session that weir has with the server for the agent of a call: begun where there is none, and again where it is the one
/// that is `gone`.
async fn own_session(
    lane: &McpLane,
    server: &Server,
    answers: &Answers,
    can: CapabilitySet,
    gone: Option<&Option<String>>,
) -> Result<Option<String>, Refusal> {
    let passed = answers.passed();
    let own = &lane.shared.hub.own;
    let own = own.session(&server.name, passed.agent(), can);
    let mut session = own.lock().await;
    if session.is_none() || session.as_ref() == gone {
        let begun = find::http::begin(lane, passed, token(server), can);
        let begun = while_wanted(answers, begun).await?;
        *session = Some(begun.map_err(|why| {
            Refusal::new(refusal::SERVER_DOWN, "the server begins no session").with_private(why)
        })?);
    }
    Ok(session.clone().flatten())
}

fn put_session(fields: &mut HeaderMap, session: Option<&str>) {
    if let Some(value) = session.and_then(|session| HeaderValue::try_from(session).ok()) {
        fields.insert(SESSION, value);
    }
}

fn token(server: &Server) -> Option<&base::Secret> {
    match &server.kind {
        ServerKind::Url { token } => token.as_ref(),
        ServerKind::Child(_) => None,
    }
}

/// Opens that stream in the session that weir has with the server for the agent, and gives the session. `gone` is one that the
/// server did not know any more.
pub(crate) async fn listen_in_own(
    lane: &McpLane,
    server: &Server,
    answers: Answers,
    revision: Option<&HeaderValue>,
    gone: Option<Option<String>>,
) -> (Response, Option<Option<String>>) {
    let nothing = CapabilitySet::default();
    let session = own_session(lane, server, &answers, nothing, gone.as_ref()).await;
    match session {
        Ok(session) => {
            let known = Some(session.clone());
            let listened = listen(lane, server, answers, session, revision, None);
            (listened.await, known)
        }
        Err(refusal) => (rpc_error(answers, &refusal), None),
    }
}

/// Opens the stream on which a server sends what answers no request, or what is left of another stream after
/// the event `after`.
pub(crate) async fn listen(
    lane: &McpLane,
    server: &Server,
    mut answers: Answers,
    upstream_session: Option<String>,
    revision: Option<&HeaderValue>,
    after: Option<&str>,
) -> Response {
    if let Err(refusal) = answers.begin(&lane.shared.calls, upstream_session.as_deref()) {
        return rpc_error(answers, &refusal);
    }
    let mut fields = fields(server, &answers, upstream_session.as_deref());
    fields.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(revision) = revision {
        fields.insert(REVISION, revision.clone());
    }
    if let Some(after) = after.and_then(|after| HeaderValue::try_from(after).ok()) {
        fields.insert(LAST_EVENT, after);
    }
    let request = request(Method::GET, fields, Bytes::new());
    // No id tells the events of this stream from those of another, so nobody else used its connection.
    let sent = lane
        .upstreams
        .send_fresh(answers.passed(), request, lane.settings().answer_ms);
    match sent.await.map_err(Refusal::from).and_then(known) {
        Ok(answer) if is(&answer.head.headers, "text/event-stream") => {
            stream(lane, answers, answer, None)
        }
        Ok(answer) => {
            // 405: a server that has no such stream says so, and the client goes on without.
            let status = answer.head.status;
            answers.end(CallEnd::Complete, status.as_u16());
            plain(match status.is_client_error() {
                true => status,
                false => StatusCode::METHOD_NOT_ALLOWED,
            })
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Ends the server's session.
pub(crate) async fn end(
    lane: &McpLane,
    server: &Server,
    answers: Answers,
    upstream_session: Option<String>,
) -> Response {
    let fields = fields(server, &answers, upstream_session.as_deref());
    let request = request(Method::DELETE, fields, Bytes::new());
    match send(lane, &answers, request).await {
        Ok(answer) => {
            let status = answer.head.status;
            answers.end(CallEnd::Complete, status.as_u16());
            plain(if status.is_success() {
                StatusCode::OK
            } else {
                status
            })
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

pub(super) fn fields(server: &Server, answers: &Answers, session: Option<&str>) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(8);
    let bearer =
        token(server).and_then(|t| HeaderValue::try_from(format!("Bearer {}", t.expose())).ok());
    if let Some(mut value) = bearer {
        value.set_sensitive(true);
        fields.insert(AUTHORIZATION, value);
    }
    put_session(&mut fields, session);
    if let Ok(value) = HeaderValue::try_from(answers.call().to_string()) {
        fields.insert(REQUEST_ID, value);
    }
    fields
}

/// The URI stays `/`: the target's own path.
pub(super) fn request(method: Method, fields: HeaderMap, body: Bytes) -> http::Request<Bytes> {
    let mut request = http::Request::new(body);
    *request.method_mut() = method;
    *request.headers_mut() = fields;
    request
}

async fn send(
    lane: &McpLane,
    answers: &Answers,
    request: http::Request<Bytes>,
) -> Result<net::UpstreamAnswer, Refusal> {
    let answer_ms = lane.settings().answer_ms;
    let sent = lane.upstreams.send(answers.passed(), request, answer_ms);
    let sent = while_wanted(answers, sent).await?;
    known(sent.map_err(Refusal::from)?)
}

/// What a server does for a call, as long as the call is in force and its client wants it.
async fn while_wanted<T>(answers: &Answers, work: impl Future<Output = T>) -> Result<T, Refusal> {
    tokio::select! {
        biased;
        () = answers.cancelled() => Err(cancelled_by_client()),
        done = while_in_force(answers.passed(), work) => done,
    }
}

/// Refuses what no server that knows the gateway answers.
pub(super) fn known(answer: net::UpstreamAnswer) -> Result<net::UpstreamAnswer, Refusal> {
    match answer.head.status.as_u16() {
        300..=399 => Err(Refusal::new(
            refusal::ANSWER_INVALID,
            "the server answered a redirect",
        )),
        401 | 403 => Err(
            Refusal::new(refusal::SERVER_DOWN, "the server refused the gateway")
                .with_private("it answered 401 or 403: check the server's token"),
        ),
        _ => Ok(answer),
    }
}

/// Reads the answer to a request: one JSON message, or an event stream that ends with it.
async fn read(
    lane: &McpLane,
    server: &Server,
    mut answers: Answers,
    mut answer: net::UpstreamAnswer,
    takes_events: bool,
) -> Response {
    let status = answer.head.status;
    if !status.is_success() && !is(&answer.head.headers, "application/json") {
        if answers.is_modern()
            && status.is_client_error()
            && let Some(health) = lane.shared.health.get(&server.name)
        {
            // A server of that era says no by a JSON-RPC error.
            health.doubt();
        }
        if status == StatusCode::NOT_FOUND {
            // The transport's way to say that the session is over; the client has to see it as such.
            answers.end(CallEnd::Complete, status.as_u16());
            return plain(status);
        }
        let public = format!("the server answered with HTTP status {}", status.as_u16());
        let message = answers.error(&Refusal::new(refusal::SERVER_DOWN, public));
        answers.end(CallEnd::Failed, status.as_u16());
        let mut response = json(status, message.unwrap_or_default(), None);
        if let Some(again) = answer.head.headers.get(RETRY_AFTER) {
            response.headers_mut().insert(RETRY_AFTER, again.clone());
        }
        return response;
    }
    let session = answer.head.headers.get(SESSION);
    // A client of many servers has no session with any of them.
    let session = session.filter(|_| !answers.is_modern() && !answers.is_across());
    let session = session.and_then(|v| v.to_str().ok());
    let agent = answers.passed().agent();
    let session = session.map(|id| lane.shared.tokens(agent, &server.name).session(id));
    if is(&answer.head.headers, "text/event-stream") {
        if takes_events {
            return stream(lane, answers, answer, session);
        }
        let why = Refusal::new(
            refusal::NOT_ACCEPTED,
            "the server answers with an event stream",
        );
        return rpc_error(answers, &why);
    }
    let settings = lane.settings();
    let whole = answer.whole(settings.answer_bytes_max, settings.answer_ms);
    let whole = while_wanted(&answers, whole).await;
    match whole.and_then(|whole| whole.map_err(Refusal::from)) {
        Ok(message) => {
            let mut said = None;
            for message in batch::of_server(&message) {
                // What a batch holds beside the answer has no place in JSON.
                let taken = answers.take(&lane.shared.declared, &message);
                if answers.is_done() {
                    said = said.or(taken);
                }
            }
            let message = said;
            if !answers.is_done() {
                let public = "the server answered with what is no answer";
                return rpc_error(answers, &Refusal::new(refusal::ANSWER_INVALID, public));
            }
            if answers.is_clean() {
                answer.reuse();
            }
            // What weir says in place of the answer is said as its own refusals are.
            let status = match answers.is_refused() || status.is_success() {
                true => StatusCode::OK,
                false => status,
            };
            answers.end(CallEnd::Complete, status.as_u16());
            match message {
                Some(message) => json(status, message, session.as_deref()),
                None => plain(StatusCode::BAD_GATEWAY),
            }
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Passes an event stream on, each message judged as it comes.
fn stream(
    lane: &McpLane,
    answers: Answers,
    answer: net::UpstreamAnswer,
    session: Option<String>,
) -> Response {
    let (sender, body) = Body::stream(CHUNKS_WAITING_MAX);
    let settings = lane.settings();
    // A stream that answers a request may not be silent for longer than an answer may take; one that
    // answers none may be silent for as long as a session may.
    let silence_ms = if waits(&answers) {
        settings.answer_ms
    } else {
        upstream::LISTEN_SILENCE_MS
    };
    let pump = Pump {
        shared: Arc::clone(&lane.shared),
        answers,
        sender,
        silence: Duration::from_millis(silence_ms),
        resumable: false,
    };
    tokio::task::spawn_local(pump.run(answer));
    event_stream(body, session.as_deref())
}

/// Whether the stream is that of an answer to come; a subscription is open for as long as both sides want it.
fn waits(answers: &Answers) -> bool {
    answers.is_for_request() && answers.asked() != AskedMethod::Listen
}

/// Passes the events of one stream on.
struct Pump {
    shared: Arc<Shared>,
    answers: Answers,
    sender: BodySender,
    /// How long the server may say nothing that is a message.
    silence: Duration,
    /// An event had an id: the client can open the stream again from there.
    resumable: bool,
}

/// Why a stream is over.
enum Over {
    Ended,
    ClientGone,
    Failed(Refusal),
}

impl Pump {
    async fn run(mut self, mut answer: net::UpstreamAnswer) {
        let over = self.events(&mut answer).await;
        if self.answers.is_clean() {
            answer.reuse();
        }
        match over {
            Over::Ended => self.answers.end(CallEnd::Complete, 200),
            Over::ClientGone => self.answers.end(CallEnd::Cut, 200),
            Over::Failed(refusal) => cut(self.answers, &refusal, self.sender).await,
        }
    }

    async fn events(&mut self, answer: &mut net::UpstreamAnswer) -> Over {
        let mut reader = sse::Reader::new(self.shared.settings.answer_bytes_max);
        let mut look = look_every();
        let mut heard = Instant::now();
        loop {
            let chunk = tokio::select! {
                chunk = tokio::time::timeout_at(heard + self.silence, answer.chunk()) => chunk,
                () = self.sender.closed() => return Over::ClientGone,
                () = self.answers.cancelled() => return Over::Failed(cancelled_by_client()),
                _ = look.tick() => match self.answers.passed().in_force() {
                    Ok(()) => continue,
                    Err(ended) => return Over::Failed(ended),
                },
            };
            let chunk = match chunk {
                Err(_elapsed) if self.answers.waits_for_client() => {
                    heard = Instant::now();
                    continue;
                }
                Err(_elapsed) => {
                    let refusal = Refusal::new(refusal::SERVER_SLOW, "the server fell silent");
                    return Over::Failed(refusal);
                }
                Ok(Err(error)) => return Over::Failed(error.into()),
                Ok(Ok(None)) => return self.ended(),
                Ok(Ok(Some(chunk))) => chunk,
            };
            let mut events = Vec::new();
            let read = reader.push(&chunk, |event| events.push(event));
            // While a request waits for its answer, a comment is no sign that it will come.
            if !waits(&self.answers) || events.iter().any(|event| event.data.is_some()) {
                heard = Instant::now();
            }
            for event in events {
                if self.pass_on(event).await.is_err() {
                    return Over::ClientGone;
                }
                if self.answers.is_foreign() {
                    let public = "the server answered another request on this stream";
                    return Over::Failed(Refusal::new(refusal::ANSWER_INVALID, public));
                }
            }
            if read.is_err() {
                let refusal = Refusal::new(refusal::ANSWER_TOO_LARGE, "an event is too large");
                return Over::Failed(refusal);
            }
        }
    }

    /// The server closed the stream. A client that has the id of an event resumes from there (MCP 2025-11-25,
    /// "Resumability and Redelivery"), so its answer is still to come.
    fn ended(&self) -> Over {
        let waits = waits(&self.answers) && !self.answers.is_done();
        match waits && !self.resumable {
            true => Over::Failed(Refusal::new(
                refusal::SERVER_DOWN,
                "the server ended before it answered",
            )),
            false => Over::Ended,
        }
    }

    async fn pass_on(&mut self, mut event: sse::Event) -> Result<(), net::Gone> {
        // MCP has messages alone: what a server names otherwise was judged as one, and goes on as one.
        event.name = None;
        if let Some(data) = event.data.take_if(|data| !data.is_empty()) {
            let mut messages = batch::of_server(&Bytes::from(data));
            let last = messages.pop().unwrap_or_default();
            for message in messages {
                let taken = self.answers.take(&self.shared.declared, &message);
                if let Some(message) = taken {
                    let event = sse::write(&sse::Event::message(&message));
                    self.sender.send(Bytes::from(event)).await?;
                }
            }
            let taken = self.answers.take(&self.shared.declared, &last);
            // A message that may not pass takes the id of its event along.
            let Some(message) = taken else { return Ok(()) };
            event.data = Some(message.to_vec());
        }
        // A stream of the modern era cannot be resumed.
        if let Some(id) = event.id.take().filter(|_| !self.answers.is_modern()) {
            self.resumable |= !id.is_empty();
            event.id = Some(self.token(id));
        }
        self.sender.send(Bytes::from(sse::write(&event))).await
    }

    /// The id of an event as the agent is given it.
    fn token(&self, event: String) -> String {
        if event.is_empty() {
            return event;
        }
        let passed = self.answers.passed();
        let tokens = self.shared.tokens(passed.agent(), server_of(passed));
        tokens.event(&Resume {
            event,
            asked: self.answers.asked(),
            ids: self.answers.ids().cloned(),
        })
    }
}

/// Ends a stream that cannot go on: with an error in place of the answer where one is due, and with a message of the log
/// where the stream answers nothing; else cut.
pub(crate) async fn cut(mut answers: Answers, refusal: &Refusal, sender: BodySender) {
    let due = !answers.is_done();
    let logged = || Bytes::from(refuse::logged(refusal, answers.call()));
    let logged = (!answers.is_for_request()).then(logged);
    match logged.or(answers.error(refusal).filter(|_| due)) {
        Some(data) => {
            let event = sse::Event::message(&data);
            let _ = sender.send(Bytes::from(sse::write(&event))).await;
        }
        None => sender.abort(),
    }
    answers.end(CallEnd::Cut, 200);
}

pub(super) fn is(fields: &HeaderMap, media_type: &str) -> bool {
    let value = fields
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(media_type)
}

fn plain(status: StatusCode) -> Response {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_compared_without_its_parameters() {
        let mut fields = HeaderMap::new();
        assert!(!is(&fields, "text/event-stream"));
        fields.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("Text/Event-Stream; charset=utf-8"),
        );
        assert!(is(&fields, "text/event-stream"));
    }
}
