//! The HTTP answer of a refusal, whatever form a lane gives its body.

use base::{Refusal, refusal as codes};
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION, WWW_AUTHENTICATE,
};

use super::{Body, Response};

/// The same as text, where nothing says in which form.
pub(crate) fn refused_in_words(refusal: &Refusal) -> Response {
    let body = format!("{}: {}\n", refusal.code.name, refusal.public);
    refused(refusal, "text/plain; charset=utf-8", body)
}

/// An answer with the refusal's status, what a client has to know to mend it, and this body.
pub fn refused(refusal: &Refusal, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::Full(Bytes::from(body)));
    *response.status_mut() =
        StatusCode::from_u16(refusal.code.status).expect("the table holds statuses");
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in &refusal.fields {
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.append(*name, value);
        }
    }
    if refusal.code.status == 401 && !fields.contains_key(WWW_AUTHENTICATE) {
        let challenge = HeaderValue::from_static("Bearer realm=\"weir\"");
        fields.insert(WWW_AUTHENTICATE, challenge);
    }
    if refusal.code == codes::WEBSOCKET {
        fields.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    if let Some(retry_ms) = refusal.retry_ms {
        fields.insert(RETRY_AFTER, retry_ms.div_ceil(1000).max(1).into());
    }
    response
}
