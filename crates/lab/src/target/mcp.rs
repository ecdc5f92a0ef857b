//! A fake MCP server over streamable HTTP: revisions with sessions, and the stateless one, on one path.
//!
//! What a request is follows from what it carries: the revision 2026-07-28 in its header, or that revision's
//! fields in `_meta`, make it stateless; everything else belongs to a session or begins one. Nothing is ever
//! asked of the client, and no stream can be resumed.
//! Sources: MCP 2025-06-18 and 2025-11-25, "Transports"; MCP 2026-07-28, "Streamable HTTP".

mod message;
mod sessions;
mod stateless;
mod tools;

use std::rc::Rc;
use std::str::FromStr;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{Cut, Origin};
use super::body::Body;
use super::chance::{Purpose, draw};
use super::plain::stream;
use super::refuse::{Shape, read, refuse, typed};
use message::{Fault, Message};
pub(super) use sessions::Sessions;

/// The most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Revisions with sessions, the newest first.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const STATELESS: &str = "2026-07-28";
/// Who answers.
const SERVER: &str = r#"{"name":"weir-lab-target","version":"1.0.0"}"#;

/// In what form requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// `application/json`.
    #[default]
    Json,
    /// An event stream with one event.
    Sse,
    /// Either, by the draw of the request.
    Mixed,
}

impl FromStr for Answers {
    type Err = String;

    fn from_str(text: &str) -> Result<Answers, String> {
        match text {
            "json" => Ok(Answers::Json),
            "sse" => Ok(Answers::Sse),
            "mixed" => Ok(Answers::Mixed),
            other => Err(format!("'{other}' is none of json, sse and mixed")),
        }
    }
}

/// How the fake MCP server answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mcp {
    pub answers: Answers,
    /// Whether `GET` is answered 405 instead of a stream that stays open and empty.
    pub no_stream: bool,
}

/// Answers a request to `/mcp`.
pub(super) async fn answer(
    origin: &Rc<Origin>,
    nth: u64,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    if let Some(refused) = foreign(&head) {
        return Ok(refused);
    }
    let stateless = head
        .headers
        .get(VERSION)
        .is_some_and(|value| value == STATELESS);
    match head.method {
        Method::POST => {}
        Method::GET if !stateless => return Ok(listen(origin, &head)),
        Method::DELETE if !stateless => return Ok(end(origin, &head)),
        _ => {
            return Ok(only(if stateless {
                "POST"
            } else {
                "GET, POST, DELETE"
            }));
        }
    }
    if let Some(refused) = unreadable(&head) {
        return Ok(refused);
    }
    let Some(body) = read(body, MESSAGE_BYTES_MAX).await? else {
        let what = format!("the message is over {MESSAGE_BYTES_MAX} bytes");
        return Ok(refuse(Shape::JsonRpc, StatusCode::PAYLOAD_TOO_LARGE, &what));
    };
    let message = match message::read(&body) {
        Ok(message) => message,
        Err(fault) => return Ok(fault.answer(StatusCode::BAD_REQUEST, None)),
    };
    let outcome = if stateless || stateless::is(&message) {
        stateless::answer(origin, &head, &message).await
    } else {
        in_session(origin, &head, &message).await
    };
    Ok(match outcome {
        Outcome::Result(result) => framed(origin, nth, &message, &result, None),
        Outcome::Begun(result, session) => framed(origin, nth, &message, &result, Some(session)),
        Outcome::Accepted => bare(StatusCode::ACCEPTED),
        Outcome::Fault(status, fault) => fault.answer(status, message.id),
    })
}

/// What comes of a message.
enum Outcome {
    /// A result, as JSON.
    Result(String),
    /// A result, and the session that begins with it.
    Begun(String, HeaderValue),
    /// Nothing is to be answered.
    Accepted,
    Fault(StatusCode, Fault),
}

/// Answers a message of a revision with sessions.
async fn in_session(origin: &Origin, head: &Parts, message: &Message<'_>) -> Outcome {
    let bad = |what: &str| Outcome::Fault(StatusCode::BAD_REQUEST, Fault::invalid(what));
    if message.is("initialize") {
        return begin(origin, message);
    }
    if let Some(version) = head.headers.get(VERSION)
        && !REVISIONS.iter().any(|known| version == known)
    {
        return bad("MCP-Protocol-Version names a revision that this target does not speak");
    }
    let sessions = &origin.shared().sessions;
    match head.headers.get(SESSION) {
        None => return bad("Mcp-Session-Id is missing; it comes with the answer to initialize"),
        Some(id) if !sessions.has(id) => {
            let fault = Fault::new(-32001, "there is no such session");
            return Outcome::Fault(StatusCode::NOT_FOUND, fault);
        }
        Some(_) => {}
    }
    if message.id.is_none() || message.method.is_none() {
        return Outcome::Accepted;
    }
    let result = match message.method.as_deref() {
        Some("ping") => Ok("{}".to_owned()),
        Some("tools/list") => Ok(format!("{{{}}}", tools::LIST)),
        Some("tools/call") => tools::call(origin, message, "").await,
        _ => Err(Fault::new(
            -32601,
            "this target answers ping, tools/list and tools/call",
        )),
    };
    // In these revisions an error is an answer like others.
    result.map_or_else(
        |fault| Outcome::Fault(StatusCode::OK, fault),
        Outcome::Result,
    )
}

fn begin(origin: &Origin, message: &Message<'_>) -> Outcome {
    if message.id.is_none() {
        let fault = Fault::invalid("initialize must be a request");
        return Outcome::Fault(StatusCode::BAD_REQUEST, fault);
    }
    let wanted = match message::Initialize::of(message) {
        Ok(initialize) => initialize.protocol_version,
        Err(fault) => return Outcome::Fault(StatusCode::OK, fault),
    };
    // A revision that is not spoken is answered with one that is.
    let revision = REVISIONS.iter().find(|known| **known == wanted);
    let revision = revision.unwrap_or(&REVISIONS[0]);
    let Some(session) = origin.shared().sessions.begin(origin.settings().seed) else {
        let fault = Fault::new(-32000, "too many sessions are open; end some with DELETE");
        return Outcome::Fault(StatusCode::SERVICE_UNAVAILABLE, fault);
    };
    let result = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{"tools":{{"listChanged":false}}}},"serverInfo":{SERVER}}}"#
    );
    Outcome::Begun(result, session)
}

/// `GET`: a stream on which nothing ever comes.
fn listen(origin: &Origin, head: &Parts) -> Response<Body> {
    if origin.settings().mcp.no_stream {
        return only("POST, DELETE");
    }
    if !accepts(head, "text/event-stream") {
        let what = "Accept must have text/event-stream";
        return refuse(Shape::JsonRpc, StatusCode::NOT_ACCEPTABLE, what);
    }
    match known(origin, head) {
        Ok(_) => stream(Body::Open(Some(Bytes::from_static(b": open\n\n")))),
        Err(refused) => *refused,
    }
}

/// `DELETE`: ends the session.
fn end(origin: &Origin, head: &Parts) -> Response<Body> {
    match known(origin, head) {
        Ok(id) => {
            origin.shared().sessions.end(id);
            bare(StatusCode::OK)
        }
        Err(refused) => *refused,
    }
}

/// The session that the head names, when it is open.
fn known<'a>(origin: &Origin, head: &'a Parts) -> Result<&'a HeaderValue, Box<Response<Body>>> {
    let refused = |status, what| Err(Box::new(refuse(Shape::JsonRpc, status, what)));
    match head.headers.get(SESSION) {
        None => refused(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing"),
        Some(id) if !origin.shared().sessions.has(id) => {
            refused(StatusCode::NOT_FOUND, "there is no such session")
        }
        Some(id) => Ok(id),
    }
}

/// The answer to a request of a page of another origin, which a local server must not serve.
fn foreign(head: &Parts) -> Option<Response<Body>> {
    let from = head.headers.get(ORIGIN)?.to_str().unwrap_or_default();
    let host = from.split_once("://").map_or("", |(_, host)| host);
    let name = match host.rfind(':') {
        Some(at) if !host.ends_with(']') => &host[..at],
        _ => host,
    };
    if matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
        return None;
    }
    let what = "Origin is of another site";
    Some(refuse(Shape::JsonRpc, StatusCode::FORBIDDEN, what))
}

/// The answer to a POST whose head says that it cannot be understood.
fn unreadable(head: &Parts) -> Option<Response<Body>> {
    let kind = head.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let what = "Content-Type must be application/json";
        return Some(refuse(
            Shape::JsonRpc,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            what,
        ));
    }
    if accepts(head, "application/json") && accepts(head, "text/event-stream") {
        return None;
    }
    let what = "Accept must have application/json and text/event-stream";
    Some(refuse(Shape::JsonRpc, StatusCode::NOT_ACCEPTABLE, what))
}

fn accepts(head: &Parts, kind: &str) -> bool {
    let values = head.headers.get_all(ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .any(|range| range == "*/*" || range.eq_ignore_ascii_case(kind))
}

/// A result as the settings want it.
fn framed(
    origin: &Origin,
    nth: u64,
    message: &Message<'_>,
    result: &str,
    session: Option<HeaderValue>,
) -> Response<Body> {
    let id = message.id.map_or("null", |id| id.get());
    let events = match origin.settings().mcp.answers {
        Answers::Json => false,
        Answers::Sse => true,
        Answers::Mixed => draw(origin.settings().seed, nth, Purpose::Framing).bool(),
    };
    let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let mut response = if events {
        stream(Body::Whole(
            format!("event: message\ndata: {json}\n\n").into(),
        ))
    } else {
        typed(StatusCode::OK, "application/json", json.into())
    };
    if let Some(session) = session {
        response.headers_mut().insert(SESSION, session);
    }
    response
}

fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::EMPTY);
    *response.status_mut() = status;
    response
}

fn only(methods: &'static str) -> Response<Body> {
    let what = format!("here this path answers {methods}");
    let mut response = refuse(Shape::JsonRpc, StatusCode::METHOD_NOT_ALLOWED, &what);
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, methods);
    response
}
