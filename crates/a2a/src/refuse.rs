//! How a refusal is said: as a JSON-RPC error with the code, the call's id and what to do about it in `data`.
//!
//! `data` has the form of the version that the request is of: in 1.0 a list of typed details (section 9.5), of which clients
//! read `google.rpc.ErrorInfo`; in 0.3 an object.

use base::{CallId, Refusal};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use net::{Body, Response};
use serde_json::{Value, json};

use crate::method::Version;

/// The form of a refusal before a request was read, and of one of a card, with its HTTP status. No version is known then.
pub fn refuse(refusal: &Refusal, call: CallId) -> Response {
    let error = error(refusal, call, None, Version::Old);
    net::refused(refusal, "application/json", error)
}

/// The answer to a request that was read: HTTP 200, which is what clients look into.
pub(crate) fn respond(
    refusal: &Refusal,
    call: CallId,
    id: Option<&str>,
    version: Version,
) -> Response {
    let error = error(refusal, call, id, version);
    let mut response = Response::new(Body::Full(Bytes::from(error)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The error as a JSON text. `id` is the request's, as it is written.
pub(crate) fn error(refusal: &Refusal, call: CallId, id: Option<&str>, version: Version) -> String {
    let mut told = json!({
        "code": refusal.code.name,
        "call": call.to_string(),
        "mend": refusal.mend(),
    });
    if let Some(retry_ms) = refusal.retry_ms {
        // Metadata of an ErrorInfo are texts.
        told["retry_ms"] = match version {
            Version::One => retry_ms.to_string().into(),
            Version::Old => retry_ms.into(),
        };
    }
    let data: Value = match version {
        Version::One => json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refusal.code.name.replace('.', "_").to_ascii_uppercase(),
            "domain": "weir",
            "metadata": told,
        }]),
        Version::Old => told,
    };
    let message = format!(
        "{}: {}. {}",
        refusal.code.name,
        refusal.public.trim_end_matches('.'),
        refusal.mend()
    );
    let error = json!({ "code": refusal.code.rpc, "message": message, "data": data });
    let id = id.unwrap_or("null");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}
