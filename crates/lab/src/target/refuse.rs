//! Errors in the shape that each route's clients read, and the reading of what they send.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

use super::answer::Cut;
use super::body::Body;

/// How much of a body is read that nobody wants, so that the connection can be used again.
const DRAIN_BYTES_MAX: u64 = 1 << 20;
/// What a client is told to wait that is refused for a while, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// Whose error shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    OpenAi,
    Anthropic,
    JsonRpc,
}

impl Shape {
    /// The shape of the errors at a path.
    pub(super) fn of(path: &str) -> Shape {
        match path {
            "/mcp" => Shape::JsonRpc,
            "/v1/messages" => Shape::Anthropic,
            _ if path.starts_with("/v1/") => Shape::OpenAi,
            _ => Shape::Text,
        }
    }
}

/// An error answer.
pub(super) fn refuse(shape: Shape, status: StatusCode, what: &str) -> Response<Body> {
    let mut response = match shape {
        Shape::Text => typed(
            status,
            "text/plain; charset=utf-8",
            format!("{what}\n").into(),
        ),
        Shape::OpenAi => {
            let (kind, code) = openai(status);
            let error = json!({ "message": what, "type": kind, "param": null, "code": code });
            typed_json(status, &json!({ "error": error }))
        }
        Shape::Anthropic => {
            let error = json!({ "type": anthropic(status), "message": what });
            typed_json(
                status,
                &json!({ "type": "error", "error": error, "request_id": null }),
            )
        }
        Shape::JsonRpc => {
            // A code that servers may choose. Source: JSON-RPC 2.0, section 5.1.
            let error = json!({ "code": -32000, "message": what });
            typed_json(
                status,
                &json!({ "jsonrpc": "2.0", "id": null, "error": error }),
            )
        }
    };
    if matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// The type and the code of an error. Source: OpenAI API reference, "Error codes".
fn openai(status: StatusCode) -> (&'static str, Option<&'static str>) {
    match status.as_u16() {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    }
}

/// The type of an error. Source: Anthropic API reference, "Errors".
fn anthropic(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

fn typed_json(status: StatusCode, json: &serde_json::Value) -> Response<Body> {
    typed(status, "application/json", json.to_string().into())
}

/// An answer with a body of a type.
pub(super) fn typed(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Reads a body of at most so many bytes. None when it is longer.
pub(super) async fn read(mut body: Incoming, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Ok(None);
    }
    let mut whole = Bytes::new();
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(|_| Cut)?.into_data().unwrap_or_default();
        whole = joined(whole, data);
        if whole.len() > bytes_max {
            return Ok(None);
        }
    }
    Ok(Some(whole))
}

/// Both, without a copy when the first is empty.
pub(super) fn joined(first: Bytes, second: Bytes) -> Bytes {
    if first.is_empty() {
        return second;
    }
    let mut both = BytesMut::from(first);
    both.extend_from_slice(&second);
    both.freeze()
}

/// Reads a body to its end, or to [`DRAIN_BYTES_MAX`], and forgets it.
pub(super) async fn drain(mut body: Incoming) -> Result<(), Cut> {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(|_| Cut)?.into_data().unwrap_or_default();
        match left.checked_sub(data.len() as u64) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    Ok(())
}
