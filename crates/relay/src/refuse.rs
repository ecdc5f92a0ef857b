//! What an application is told in place of an answer: a problem (RFC 9457) with weir's code.
//!
//! Nothing of what came from the other side is in it.

use base::{Code, Refusal};
use net::h1::{Error, Framing, ServerConnection, Socket};

/// The field that says of an answer that it is weir's own, and its code.
const FIELD: &[u8] = b"weir-refusal";

/// Fields of an answer that is somebody else's: none of them says that it is ours.
pub(crate) fn theirs<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    fields.filter(|(name, _)| !is_ours(name))
}

/// Whether a field says that an answer is ours.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(FIELD)
}

/// Answers the request that is owed an answer, and keeps the connection if that can be.
pub(crate) fn answer<S: Socket>(
    server: &mut ServerConnection<S>,
    refusal: &Refusal,
) -> Result<(), Error> {
    let Code {
        name, status, mend, ..
    } = *refusal.code;
    let body = serde_json::json!({
        "type": format!("urn:weir:refusal:{name}"),
        "status": status,
        "title": refusal.public,
        "detail": mend,
        "code": name,
    })
    .to_string();
    let retry_after = refusal.retry_ms.map(|ms| ms.div_ceil(1000).to_string());
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b"content-type", b"application/problem+json"),
        (b"cache-control", b"no-store"),
        (FIELD, name.as_bytes()),
    ];
    if let Some(seconds) = &retry_after {
        fields.push((b"retry-after", seconds.as_bytes()));
    }
    if status == 407 {
        fields.push((b"proxy-authenticate", b"Bearer"));
    }
    server.respond(status, fields, Framing::Length(body.len() as u64))?;
    if !server.request().is_head() {
        server.body_with(|out| out.extend_from_slice(body.as_bytes()))?;
    }
    server.end()
}
