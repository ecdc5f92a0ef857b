//! How a refusal is said: an RFC 9457 problem, with the code, the call's id and what to do.

use base::{CallId, Refusal};
use net::Response;
use serde_json::json;

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
