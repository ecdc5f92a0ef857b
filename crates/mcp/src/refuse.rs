//! How a refusal is said: as a JSON-RPC error where a request can carry it, as a problem where it cannot.
//!
//! A call that was judged and refused is answered 200 with a JSON-RPC error, because that is what MCP
//! clients hand to their caller; what is wrong with the HTTP exchange itself (who, the session, the
//! body) has its HTTP status, as the transport's specification asks.

use base::{CallId, Refusal, refusal};
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use net::{Body, Response};
use serde_json::json;

use crate::envelope::Id;
use crate::inbound::REVISIONS;

/// JSON-RPC code of every refusal; `data.code` says which. In the range that JSON-RPC leaves to servers.
pub(crate) const REFUSED: i64 = -32050;

/// JSON-RPC code for a revision that is not spoken (MCP 2026-07-28, "Versioning"); `data.supported` says
/// which are, `data.requested` which one was named.
const UNSUPPORTED_REVISION: i64 = -32022;

/// An RFC 9457 problem.
pub fn problem(refusal: &Refusal, call: CallId) -> Response {
    let body = json!({
        "type": format!("urn:weir:refusal:{}", refusal.code.name),
        "title": refusal.public,
        "status": refusal.code.status,
        "detail": refusal.code.mend,
        "code": refusal.code.name,
        "call": call.to_string(),
    });
    with_fields(refusal, "application/problem+json", body.to_string())
}

/// A JSON-RPC error with the refusal's HTTP status: for what is wrong with the exchange. The id is the
/// request's, where it was read.
pub(crate) fn refuse_http(refusal: &Refusal, call: CallId, id: Option<Id<'_>>) -> Response {
    with_fields(refusal, "application/json", error(refusal, call, id))
}

/// A JSON-RPC error that answers a request.
pub(crate) fn error(refusal: &Refusal, call: CallId, id: Option<Id<'_>>) -> String {
    let code = match refusal.code.name {
        "mcp.json_invalid" => -32700,
        "mcp.json_duplicate"
        | "mcp.name_spelling"
        | "mcp.json_deep"
        | "mcp.message_invalid"
        | "mcp.batch" => -32600,
        "mcp.revision" => UNSUPPORTED_REVISION,
        _ => REFUSED,
    };
    let mut data = json!({
        "code": refusal.code.name,
        "call": call.to_string(),
        "mend": refusal.code.mend,
    });
    if let Some(retry_ms) = refusal.retry_ms {
        data["retry_ms"] = retry_ms.into();
    }
    if refusal.code == refusal::REVISION {
        data["supported"] = REVISIONS.into();
        data["requested"] = refusal.private.as_str().into();
    }
    let message = format!(
        "{}: {}. {}",
        refusal.code.name, refusal.public, refusal.code.mend
    );
    let error = json!({ "code": code, "message": message, "data": data });
    let id = id.map_or("null", |id| id.0);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

fn with_fields(refusal: &Refusal, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::Full(Bytes::from(body)));
    *response.status_mut() =
        http::StatusCode::from_u16(refusal.code.status).expect("the table holds statuses");
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if refusal.code.status == 401 {
        fields.insert(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"weir\""),
        );
    }
    if refusal.code == refusal::METHOD {
        fields.insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
    }
    if let Some(retry_ms) = refusal.retry_ms {
        fields.insert(RETRY_AFTER, retry_ms.div_ceil(1000).max(1).into());
    }
    response
}
