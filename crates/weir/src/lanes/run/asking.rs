//! Requests that this process makes of its own lanes, for a run: without a socket, and with no field by which a client could
//! make one.

use base::limit::ANSWER_BYTES_DEFAULT;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use net::{Body, Request, Response};
use run::{PortCaller, PortFailure};
use serde_json::Value;

/// When something that failed for a moment is tried again, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// Characters of a text of others that an error repeats.
const MESSAGE_CHARS_MAX: usize = 1_024;

/// A request for a lane, of the agent whose run it is.
pub(super) fn request(
    caller: &PortCaller,
    path: &'static str,
    fields: &[(&'static str, &str)],
    body: String,
) -> Option<Request> {
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::POST;
    head.uri = http::Uri::from_static(path);
    let json = HeaderValue::from_static("application/json");
    head.headers.insert(CONTENT_TYPE, json);
    let both = HeaderValue::from_static("application/json, text/event-stream");
    head.headers.insert(ACCEPT, both);
    for (name, value) in fields {
        let value = HeaderValue::try_from(*value).ok()?;
        head.headers.insert(HeaderName::from_static(name), value);
    }
    head.extensions.insert(caller.acting.clone());
    Some(Request::within(head, caller.peer, Bytes::from(body)))
}

/// The whole body of an answer, within a bound.
pub(super) async fn whole(response: Response) -> Result<(HeaderMap, u16, Vec<u8>), PortFailure> {
    let (head, body) = response.into_parts();
    let mut bytes = Vec::new();
    match body {
        Body::Full(full) => bytes.extend_from_slice(&full),
        Body::Empty | Body::Taken => {}
        Body::Stream(mut stream) => {
            while let Some(piece) = stream.next().await {
                bytes.extend_from_slice(&piece);
                if bytes.len() > ANSWER_BYTES_DEFAULT {
                    return Err(failure("mcp.answer_too_large", "the answer is too large"));
                }
            }
            if stream.was_cut() {
                return Err(failure("mcp.server_down", "the answer was cut"));
            }
        }
    }
    Ok((head.headers, head.status.as_u16(), bytes))
}

/// Something failed that is not tried again.
pub(super) fn failure(code: &str, message: &str) -> PortFailure {
    PortFailure {
        code: code.to_owned(),
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
        call: None,
        retry_ms: None,
    }
}

/// What a lane refused, of any of its forms: a problem, an error of JSON-RPC, or one of OpenAI's dialect.
pub(super) fn refused(
    fields: &HeaderMap,
    status: u16,
    body: &[u8],
    otherwise: &str,
) -> PortFailure {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = match &body["error"] {
        Value::Null => &body,
        error => error,
    };
    let code = [&error["data"]["code"], &error["code"]];
    let code = code.iter().find_map(|code| code.as_str());
    let message = [&error["message"], &error["title"]];
    let message = message.iter().find_map(|message| message.as_str());
    let message = message.map_or_else(|| format!("it answered {status}"), str::to_owned);
    // The dialect's message begins with the code already.
    let code = code.unwrap_or(otherwise);
    let message = message
        .strip_prefix(code)
        .and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(&message);
    let after = fields
        .get(RETRY_AFTER)
        .and_then(|after| after.to_str().ok());
    let after = after.and_then(|after| after.parse::<u64>().ok());
    let is_passing = matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529);
    PortFailure {
        retry_ms: is_passing.then(|| after.map_or(RETRY_MS, |s| s.saturating_mul(1_000))),
        ..failure(code, message)
    }
}

/// The same, of something that may pass in a moment.
pub(super) fn passing(code: &str, message: &str) -> PortFailure {
    PortFailure {
        retry_ms: Some(RETRY_MS),
        ..failure(code, message)
    }
}
