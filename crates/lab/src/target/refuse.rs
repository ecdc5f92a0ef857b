//! Errors in the shape that each route's clients read, and the reading of what they send.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::answer::Cut;
use super::body::Body;

/// How much of a body is read that nobody wants, so that the connection can be used again.
const DRAIN_BYTES_MAX: u64 = 1 << 20;
/// What a client is told to wait that is refused for a while, in seconds, where nobody says otherwise.
const RETRY_AFTER_S: u64 = 1;

/// Whose error shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    OpenAi,
    /// OpenAI's responses: their errors in a stream are events of their own.
    Responses,
    Anthropic,
    Gemini,
    JsonRpc,
}

/// What a provider calls an error, where a script says it: OpenAI's and Anthropic's `type`, Google's `status`; OpenAI's
/// `code`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorNames {
    pub kind: Option<String>,
    pub code: Option<String>,
}

impl Shape {
    /// The shape of the errors at a path.
    pub(super) fn of(path: &str) -> Shape {
        match path {
            "/mcp" => Shape::JsonRpc,
            "/v1/responses" => Shape::Responses,
            "/v1/messages" | "/v1/messages/count_tokens" => Shape::Anthropic,
            _ if path.starts_with("/v1beta/") => Shape::Gemini,
            _ if path.starts_with("/v1/models/") && path.contains(':') => Shape::Gemini,
            _ if path.starts_with("/v1/") => Shape::OpenAi,
            _ => Shape::Text,
        }
    }
}

/// An error answer.
pub(super) fn refuse(shape: Shape, status: StatusCode, what: &str) -> Response<Body> {
    refuse_with(shape, status, what, RETRY_AFTER_S, &ErrorNames::default())
}

/// An error answer with what the error is called, and with how many seconds to wait where that is said.
pub(super) fn refuse_with(
    shape: Shape,
    status: StatusCode,
    what: &str,
    retry_after: u64,
    names: &ErrorNames,
) -> Response<Body> {
    let is_for_a_while = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let mut response = match shape {
        Shape::Text => typed(
            status,
            "text/plain; charset=utf-8",
            format!("{what}\n").into(),
        ),
        _ => {
            let mut error = error(shape, status, what, names);
            if shape == Shape::Gemini && is_for_a_while {
                let kind = "type.googleapis.com/google.rpc.RetryInfo";
                let delay = format!("{retry_after}s");
                error["error"]["details"] = json!([{ "@type": kind, "retryDelay": delay }]);
            }
            typed(status, "application/json", error.to_string().into())
        }
    };
    if is_for_a_while {
        let seconds = HeaderValue::from(retry_after);
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// An error as the body of an answer.
fn error(shape: Shape, status: StatusCode, what: &str, names: &ErrorNames) -> Value {
    match shape {
        Shape::Text => json!(what),
        Shape::OpenAi | Shape::Responses => {
            let (kind, code) = openai(status);
            let kind = names.kind.as_deref().unwrap_or(kind);
            let code = names.code.as_deref().or(code);
            json!({ "error": { "message": what, "type": kind, "param": null, "code": code } })
        }
        Shape::Anthropic => {
            let kind = names.kind.as_deref().unwrap_or(anthropic(status));
            let error = json!({ "type": kind, "message": what });
            json!({ "type": "error", "error": error, "request_id": null })
        }
        Shape::Gemini => {
            let name = names.kind.as_deref().unwrap_or(google(status));
            json!({ "error": { "code": status.as_u16(), "message": what, "status": name } })
        }
        Shape::JsonRpc => {
            // A code that servers may choose. Source: JSON-RPC 2.0, section 5.1.
            let error = json!({ "code": -32000, "message": what });
            json!({ "jsonrpc": "2.0", "id": null, "error": error })
        }
    }
}

/// An error as an event of a stream that began well.
pub(super) fn event(shape: Shape, what: &str) -> Bytes {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let data = error(shape, status, what, &ErrorNames::default());
    let text = match shape {
        Shape::Anthropic => format!("event: error\ndata: {data}\n\n"),
        Shape::Responses => {
            let data = json!({ "type": "error", "sequence_number": 0, "code": "server_error",
                "message": what, "param": null });
            format!("event: error\ndata: {data}\n\n")
        }
        _ => format!("data: {data}\n\n"),
    };
    text.into()
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

/// The name of an error. Source: google.rpc.Code, and the Gemini API's "Troubleshooting guide".
fn google(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
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
