//! How a refusal is said: as the error of the dialect that the client speaks, with the code, the call's id, and what to do.

use base::{CallId, Refusal};
use net::Response;
use serde_json::{Value, json};

use crate::wire::{Family, Wire};

/// The form of a refusal before the dialect is known: OpenAI's, which most clients of this lane read.
pub fn refuse(refusal: &Refusal, call: CallId) -> Response {
    respond(Family::OpenAi, refusal, call)
}

/// The form of a refusal at one of Anthropic's paths, and at one of Google's.
pub fn refuse_anthropic(refusal: &Refusal, call: CallId) -> Response {
    respond(Family::Anthropic, refusal, call)
}

pub fn refuse_gemini(refusal: &Refusal, call: CallId) -> Response {
    respond(Family::Gemini, refusal, call)
}

pub(crate) fn respond(family: Family, refusal: &Refusal, call: CallId) -> Response {
    net::refused(
        refusal,
        "application/json",
        error(family, refusal, call).to_string(),
    )
}

/// The refusal as an error object of the dialect.
fn error(family: Family, refusal: &Refusal, call: CallId) -> Value {
    let (code, status, call) = (refusal.code.name, refusal.code.status, call.to_string());
    let message = format!(
        "{code}: {}. {} (call {call})",
        refusal.public.trim_end_matches('.'),
        refusal.mend()
    );
    let kind = kind(status);
    match family {
        Family::OpenAi => json!({
            "error": { "message": message, "type": kind, "param": null, "code": code, "call": call },
        }),
        Family::Anthropic => json!({
            "type": "error",
            "error": { "type": kind, "message": message, "code": code },
            "request_id": call,
        }),
        Family::Gemini => json!({
            "error": {
                "code": status,
                "message": message,
                "status": google_status(status),
                "details": [{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": code,
                    "domain": "weir",
                    "metadata": { "call": call },
                }],
            },
        }),
    }
}

/// The refusal in the middle of a stream that has begun, as events of the dialect.
pub(crate) fn event(wire: &Wire, refusal: &Refusal, call: CallId) -> String {
    let error = error(wire.family, refusal, call);
    match wire.name {
        "responses" | "stored_response" => {
            let inner = &error["error"];
            let event = json!({
                "type": "error",
                "code": inner["code"],
                "message": inner["message"],
                "param": null,
                "sequence_number": 0,
            });
            format!("event: error\ndata: {event}\n\n")
        }
        _ if wire.family == Family::Anthropic => format!("event: error\ndata: {error}\n\n"),
        _ => format!("data: {error}\n\n"),
    }
}

/// A provider's error, in the words of another dialect.
pub(crate) fn provider_error(family: Family, status: u16, error: &Value) -> Value {
    let inner = error.get("error").unwrap_or(error);
    let message = inner["message"].as_str().or(inner.as_str());
    let message = message.unwrap_or("the provider says no more");
    let word = inner["type"].as_str().unwrap_or(kind(status));
    match family {
        Family::OpenAi => json!({
            "error": { "message": message, "type": word, "param": null, "code": inner["code"] },
        }),
        Family::Anthropic => json!({
            "type": "error",
            "error": { "type": kind(status), "message": message },
        }),
        Family::Gemini => json!({
            "error": { "code": status, "message": message, "status": google_status(status) },
        }),
    }
}

/// The word that OpenAI and Anthropic have for an error of this status.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// Google's word (google.rpc.Code).
fn google_status(status: u16) -> &'static str {
    match status {
        400 | 405 | 413 | 415 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        501 => "UNIMPLEMENTED",
        502 | 503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}
