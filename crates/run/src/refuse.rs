//! How a refusal is said: an RFC 9457 problem or an error object, with the code, the call's id and what to do.

use base::{CallId, Refusal};
use net::Response;
use serde_json::{Value, json};

/// A refusal of this lane.
pub fn refuse(refusal: &Refusal, call: CallId) -> Response {
    let body = json!({
        "type": format!("urn:weir:refusal:{}", refusal.code.name),
        "title": refusal.public,
        "status": refusal.code.status,
        "detail": refusal.mend(),
        "code": refusal.code.name,
        "call": call.to_string(),
    });
    net::refused(refusal, "application/problem+json", body.to_string())
}

/// The same as an error object, which clients of Responses and of AgentZero's chat read.
pub fn refuse_error(refusal: &Refusal, call: CallId) -> Response {
    net::refused(
        refusal,
        "application/json",
        error(refusal, call).to_string(),
    )
}

/// The error object of a refusal.
pub(crate) fn error(refusal: &Refusal, call: CallId) -> Value {
    let (code, call) = (refusal.code.name, call.to_string());
    let public = refusal.public.trim_end_matches('.');
    let message = format!("{code}: {public}. {} (call {call})", refusal.mend());
    let kind = match refusal.code.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        status if status >= 500 => "server_error",
        _ => "invalid_request_error",
    };
    json!({
        "error": { "message": message, "type": kind, "param": null, "code": code, "call": call },
    })
}
