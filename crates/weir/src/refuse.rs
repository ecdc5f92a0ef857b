//! The form of refusals outside of any lane: an RFC 9457 problem.

use base::{CallId, Refusal};
use net::Response;
use serde_json::json;

/// A problem, with the refusal's code and what to do about it.
pub(crate) fn problem(refusal: &Refusal, call: CallId) -> Response {
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
