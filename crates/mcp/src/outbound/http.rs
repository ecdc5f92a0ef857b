//! To a server over streamable HTTP (MCP 2025-11-25, "Streamable HTTP").
//!
//! The agent's credential never goes on: the server gets the token that the configuration names for it.
//! Its session id is passed on inside a signed one, so that it is of use to the same agent only.

use base::record::End;
use base::{Refusal, refusal};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use net::{Body, BodySender, Response};

use super::{Outgoing, refusal_of};
use crate::answers::Answers;
use crate::inbound::{SESSION, accepted, event_stream, json, rpc_error};
use crate::lane::{Lane, Server, ServerKind};
use crate::{session, sse};

pub(crate) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Chunks that may wait for a slow client before the server is made to wait.
const CHUNKS_WAITING_MAX: usize = 16;

/// Carries one message and its answer.
pub(crate) async fn carry(
    lane: &Lane,
    server: &Server,
    answers: Answers,
    outgoing: Outgoing,
    upstream_session: Option<String>,
) -> Response {
    let is_request = outgoing.id.is_some();
    let mut fields = fields(server, &answers, upstream_session.as_deref());
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    if let Some(revision) = outgoing.revision.as_deref().and_then(|r| r.parse().ok()) {
        fields.insert(REVISION, revision);
    }
    let request = request(Method::POST, fields, outgoing.message);
    match send(lane, &answers, request).await {
        Ok(answer) if !is_request => {
            let ok = answer.head.status.is_success();
            let end = if ok { End::Complete } else { End::Failed };
            answers.end(end, answer.head.status.as_u16());
            accepted()
        }
        Ok(answer) => read(lane, server, answers, answer, outgoing.takes_events).await,
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Opens the stream on which a server sends what answers no request.
pub(crate) async fn listen(
    lane: &Lane,
    server: &Server,
    answers: Answers,
    upstream_session: Option<String>,
    headers: &HeaderMap,
) -> Response {
    let mut fields = fields(server, &answers, upstream_session.as_deref());
    fields.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    for name in [REVISION, HeaderName::from_static("last-event-id")] {
        if let Some(value) = headers.get(&name) {
            fields.insert(name, value.clone());
        }
    }
    let request = request(Method::GET, fields, Bytes::new());
    match send(lane, &answers, request).await {
        Ok(answer) if is(&answer.head.headers, "text/event-stream") => {
            stream(lane, answers, answer, None)
        }
        Ok(answer) => {
            // 405: a server that has no such stream says so, and the client goes on without.
            answers.end(End::Complete, answer.head.status.as_u16());
            plain(StatusCode::METHOD_NOT_ALLOWED)
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Ends the server's session.
pub(crate) async fn end(
    lane: &Lane,
    server: &Server,
    answers: Answers,
    upstream_session: Option<String>,
) -> Response {
    let fields = fields(server, &answers, upstream_session.as_deref());
    let request = request(Method::DELETE, fields, Bytes::new());
    match send(lane, &answers, request).await {
        Ok(answer) => {
            let status = answer.head.status;
            answers.end(End::Complete, status.as_u16());
            plain(if status.is_success() {
                StatusCode::OK
            } else {
                status
            })
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

fn fields(server: &Server, answers: &Answers, session: Option<&str>) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(8);
    let token = match &server.kind {
        ServerKind::Url { token } => token.as_ref(),
        ServerKind::Child(_) => None,
    };
    let bearer = token.and_then(|t| HeaderValue::try_from(format!("Bearer {}", t.expose())).ok());
    if let Some(mut value) = bearer {
        value.set_sensitive(true);
        fields.insert(AUTHORIZATION, value);
    }
    if let Some(value) = session.and_then(|s| HeaderValue::try_from(s).ok()) {
        fields.insert(SESSION, value);
    }
    if let Ok(value) = HeaderValue::try_from(answers.call().to_string()) {
        fields.insert(REQUEST_ID, value);
    }
    fields
}

/// The URI stays `/`: the target's own path.
fn request(method: Method, fields: HeaderMap, body: Bytes) -> http::Request<Bytes> {
    let mut request = http::Request::new(body);
    *request.method_mut() = method;
    *request.headers_mut() = fields;
    request
}

async fn send(
    lane: &Lane,
    answers: &Answers,
    request: http::Request<Bytes>,
) -> Result<net::Answer, Refusal> {
    let answer_ms = lane.settings().answer_ms;
    let answer = lane
        .upstreams
        .send(answers.passed(), request, answer_ms)
        .await
        .map_err(refusal_of)?;
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
    lane: &Lane,
    server: &Server,
    mut answers: Answers,
    answer: net::Answer,
    takes_events: bool,
) -> Response {
    let status = answer.head.status;
    if status == StatusCode::NOT_FOUND {
        // The transport's way to say that the session is over; the client has to see it as such.
        answers.end(End::Complete, status.as_u16());
        return plain(status);
    }
    let session = answer
        .head
        .headers
        .get(SESSION)
        .and_then(|v| v.to_str().ok())
        .map(|upstream| {
            session::sign(
                &lane.settings().session_key,
                answers.passed().agent(),
                &server.name,
                upstream,
            )
        });
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
    match answer
        .whole(settings.answer_bytes_max, settings.answer_ms)
        .await
        .map_err(refusal_of)
    {
        Ok(message) => {
            let message = answers.take(&message);
            answers.end(End::Complete, status.as_u16());
            match message {
                Some(message) => json(StatusCode::OK, message, session.as_deref()),
                None => plain(StatusCode::BAD_GATEWAY),
            }
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Passes an event stream on, each message judged as it comes.
fn stream(lane: &Lane, answers: Answers, answer: net::Answer, session: Option<String>) -> Response {
    let (sender, body) = Body::stream(CHUNKS_WAITING_MAX);
    let settings = lane.settings();
    // A stream that answers a request may not be silent for longer than an answer may take; one that
    // answers none may be silent for as long as a session may.
    let silence_ms = if answers.is_for_request() {
        settings.answer_ms
    } else {
        session::LISTEN_SILENCE_MS
    };
    let bytes_max = settings.answer_bytes_max;
    tokio::task::spawn_local(pump(answers, answer, sender, silence_ms, bytes_max));
    event_stream(body, session.as_deref())
}

async fn pump(
    mut answers: Answers,
    mut answer: net::Answer,
    sender: BodySender,
    silence_ms: u64,
    bytes_max: usize,
) {
    let mut reader = sse::Reader::new(bytes_max);
    let silence = std::time::Duration::from_millis(silence_ms);
    let why = loop {
        let chunk = tokio::select! {
            chunk = tokio::time::timeout(silence, answer.chunk()) => chunk,
            () = sender.closed() => return answers.end(End::Cut, 200),
        };
        let mut events = Vec::new();
        let step = match chunk {
            Err(_elapsed) => Err(Refusal::new(refusal::SERVER_SLOW, "the server fell silent")),
            Ok(Err(error)) => Err(refusal_of(error)),
            Ok(Ok(None)) if answers.is_for_request() && !answers.is_done() => Err(Refusal::new(
                refusal::SERVER_DOWN,
                "the server ended before it answered",
            )),
            Ok(Ok(None)) => return answers.end(End::Complete, 200),
            Ok(Ok(Some(chunk))) => reader
                .push(&chunk, |event| events.push(event))
                .map_err(|_| Refusal::new(refusal::ANSWER_TOO_LARGE, "an event is too large")),
        };
        for event in events {
            if pass_on(&mut answers, event, &sender).await.is_err() {
                return answers.end(End::Cut, 200);
            }
        }
        if let Err(refusal) = step {
            break refusal;
        }
    };
    cut(answers, &why, sender).await;
}

async fn pass_on(
    answers: &mut Answers,
    event: sse::Event,
    sender: &BodySender,
) -> Result<(), net::Gone> {
    if event.data.is_empty() {
        // 2025-11-25: an event with an id and no data, from which a client may resume.
        return sender.send(Bytes::from(sse::write(&event))).await;
    }
    match answers.take(&Bytes::from(event.data)) {
        Some(data) => {
            let event = sse::Event {
                id: event.id,
                data: data.to_vec(),
            };
            sender.send(Bytes::from(sse::write(&event))).await
        }
        None => Ok(()),
    }
}

/// Ends a stream that cannot go on: with an error in place of the answer where one is due, else cut.
pub(crate) async fn cut(mut answers: Answers, refusal: &Refusal, sender: BodySender) {
    let due = !answers.is_done();
    match answers.error(refusal).filter(|_| due) {
        Some(data) => {
            let event = sse::Event {
                id: None,
                data: data.to_vec(),
            };
            let _ = sender.send(Bytes::from(sse::write(&event))).await;
        }
        None => sender.abort(),
    }
    answers.end(End::Cut, 200);
}

fn is(fields: &HeaderMap, media_type: &str) -> bool {
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
