//! The routes without a protocol of their own: fixed bodies, the echo, event streams, and the counts.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::answer::{COUNTS, Cut, Origin, Seen};
use super::body::{Body, Paced, fill};
use super::refuse::{Shape, joined, refuse, typed};

/// A body up to this many bytes is read whole before the echo begins, so that a client that writes first and
/// reads then is not held up, and head and body go in one write. A longer one is echoed as it comes.
const ECHO_WHOLE_MAX: usize = 256 << 10;
/// The most events of `/sse`.
const EVENTS_MAX: u64 = 1_000_000;
/// The longest gap between two events, in milliseconds.
const GAP_MS_MAX: u64 = 60_000;
/// The most bytes of one event's data.
const EVENT_BYTES_MAX: u64 = 64 << 10;

/// A body of so many bytes.
pub(super) fn fixed(bytes: u64) -> Response<Body> {
    let mut response = Response::new(Body::of_size(bytes));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The request's body, byte for byte, with its content type.
pub(super) async fn echo(request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (head, mut body) = request.into_parts();
    let kind = head
        .headers
        .get(CONTENT_TYPE)
        .cloned()
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let announced = body.size_hint().exact();
    let long = announced.is_some_and(|bytes| bytes > ECHO_WHOLE_MAX as u64);
    let mut first = Bytes::new();
    let body = loop {
        if long || first.len() > ECHO_WHOLE_MAX {
            break Body::Echo { first, rest: body };
        }
        let Some(frame) = body.frame().await else {
            break Body::Whole(first);
        };
        let data = frame.map_err(|_| Cut)?.into_data().unwrap_or_default();
        first = joined(first, data);
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// `/sse?events=N&gap_ms=M&bytes=K`: an event stream.
pub(super) fn events(origin: &Rc<Origin>, seen: &Rc<Seen>, query: Option<&str>) -> Response<Body> {
    let (mut events, mut gap_ms, mut bytes) = (10, 0, 64);
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (place, most) = match name {
            "events" => (&mut events, EVENTS_MAX),
            "gap_ms" => (&mut gap_ms, GAP_MS_MAX),
            "bytes" => (&mut bytes, EVENT_BYTES_MAX),
            _ => return unfit("/sse takes events, gap_ms and bytes"),
        };
        match value.parse() {
            Ok(value) if value <= most => *place = value,
            _ => return unfit(&format!("{name} must be a number from 0 to {most}")),
        }
    }
    // Data in an event is a line, so it has no line ends.
    let data: String = fill(bytes)
        .iter()
        .map(|byte| match byte {
            b'\n' => '-',
            byte => char::from(*byte),
        })
        .collect();
    let mut nth = 0;
    let script = move || {
        (nth < events).then(|| {
            let mut event = String::with_capacity(data.len() + 40);
            write!(event, "id: {nth}\ndata: {data}\n\n").expect("a string takes all");
            nth += 1;
            Bytes::from(event)
        })
    };
    let gap = Duration::from_millis(gap_ms);
    stream(Paced::body(
        origin,
        seen,
        Duration::ZERO,
        gap,
        Box::new(script),
    ))
}

/// An answer that is an event stream.
pub(super) fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// An answer that is a JSON array and grows.
pub(super) fn array(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn unfit(what: &str) -> Response<Body> {
    refuse(Shape::Text, StatusCode::BAD_REQUEST, what)
}

/// `GET /lab/counts` and `POST /lab/reset`.
pub(super) fn control(origin: &Origin, method: &Method, path: &str) -> Response<Body> {
    let shared = origin.shared();
    match (path, method) {
        (COUNTS, &Method::GET) => match serde_json::to_vec(&shared.tables().read()) {
            Ok(json) => typed(StatusCode::OK, "application/json", json.into()),
            Err(error) => refuse(
                Shape::Text,
                StatusCode::INTERNAL_SERVER_ERROR,
                &error.to_string(),
            ),
        },
        ("/lab/reset", &Method::POST) => {
            shared.reset();
            let mut response = Response::new(Body::EMPTY);
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        (COUNTS, _) => only("GET"),
        ("/lab/reset", _) => only("POST"),
        _ => refuse(
            Shape::Text,
            StatusCode::NOT_FOUND,
            "there are /lab/counts and /lab/reset",
        ),
    }
}

fn only(method: &'static str) -> Response<Body> {
    let mut response = refuse(
        Shape::Text,
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("this is for {method}"),
    );
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(method));
    response
}
