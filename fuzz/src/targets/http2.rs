//! HTTP/2: a head becomes exactly one head of HTTP/1.1, or none; heads of frames are found in any pieces.

use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use net::http2::fuzzing::{frame_heads, translated};

/// The bytes that part a case: none of them can stand in a field.
const BREAK: u8 = 0xff;

/// A head of these pieces: method, URI, and names with values.
pub fn net_http2(data: &[u8]) {
    frames(data);
    let (has_ended, data) = match data.split_first() {
        Some((first, rest)) => (first & 1 == 1, rest),
        None => return,
    };
    let mut pieces = data.split(|byte| *byte == BREAK);
    let method = pieces.next().and_then(|piece| Method::from_bytes(piece).ok());
    let uri = pieces.next().and_then(|piece| Uri::try_from(piece).ok());
    let (Some(method), Some(uri)) = (method, uri) else {
        return;
    };
    let (mut head, ()) = Request::new(()).into_parts();
    (head.method, head.uri) = (method, uri);
    while let (Some(name), Some(value)) = (pieces.next(), pieces.next()) {
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value);
        if let (Ok(name), Ok(value)) = (name, value) {
            head.headers.append(name, value);
        }
    }
    let Some(told) = translated(&head, has_ended) else {
        return;
    };
    one_head(&told, &head);
}

fn one_head(told: &[u8], head: &http::request::Parts) {
    let mut whole = told.to_vec();
    whole.extend_from_slice(b"\r\n");
    let mut fields = [httparse::EMPTY_HEADER; 256];
    let mut request = httparse::Request::new(&mut fields);
    let read = request.parse(&whole);
    let Ok(httparse::Status::Complete(bytes)) = read else {
        // More fields than it has room for are refused by the engine.
        assert!(head.headers.len() > 200, "no head of HTTP/1.1: {read:?}");
        return;
    };
    assert_eq!(bytes, whole.len(), "more than one head");
    assert_eq!(request.method, Some(head.method.as_str()));
    let named = |name: &str| {
        let fields = request.headers.iter();
        fields.filter(|field| field.name.eq_ignore_ascii_case(name)).count()
    };
    assert_eq!(named("host"), 1);
    for name in ["connection", "transfer-encoding", "upgrade", "te", "keep-alive", "content-length"] {
        assert_eq!(named(name), 0, "{name} is the engine's own");
    }
    assert!(named("cookie") <= 1);
}

/// Heads of frames do not depend on the pieces that they come in.
fn frames(data: &[u8]) {
    let whole = frame_heads(&[data]);
    for size in [1, 2, 9, 10, 17] {
        let pieces: Vec<&[u8]> = data.chunks(size).collect();
        assert_eq!(frame_heads(&pieces), whole);
    }
}
