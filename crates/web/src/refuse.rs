//! How a refusal is said: as an RFC 9457 problem, and by the proxy with the status that clients of proxies understand.

use base::{CallId, Refusal};
use http::StatusCode;
use http::header::{HeaderValue, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use net::Response;
use serde_json::json;

/// A problem, with the refusal's code and what to do about it.
pub fn problem(refusal: &Refusal, call: CallId) -> Response {
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

/// The same by the proxy: who is not known is told so by 407 (RFC 9110 §15.5.8).
pub(crate) fn by_proxy(refusal: &Refusal, call: CallId) -> Response {
    let mut response = problem(refusal, call);
    if response.status() == StatusCode::UNAUTHORIZED {
        *response.status_mut() = StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        let fields = response.headers_mut();
        fields.remove(WWW_AUTHENTICATE);
        for challenge in ["Basic realm=\"weir\"", "Bearer realm=\"weir\""] {
            fields.append(PROXY_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
    }
    response
}
