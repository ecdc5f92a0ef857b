//! Errors in the shape that each route's clients read.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::answer::Cut;
use super::body::Body;

/// How much of a body is read that nobody wants, so that the connection can be used again.
const DRAIN_BYTES_MAX: u64 = 1 << 20;

/// Whose error shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
}

impl Shape {
    /// The shape of the errors at a path.
    pub(super) fn of(_path: &str) -> Shape {
        Shape::Text
    }
}

/// An error answer.
pub(super) fn refuse(shape: Shape, status: StatusCode, what: &str) -> Response<Body> {
    match shape {
        Shape::Text => typed(
            status,
            "text/plain; charset=utf-8",
            format!("{what}\n").into(),
        ),
    }
}

/// An answer with a body of a type.
pub(super) fn typed(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Reads a body to its end, or to [`DRAIN_BYTES_MAX`], and forgets it.
pub(super) async fn drain(mut body: Incoming) -> Result<(), Cut> {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(|_| Cut)?.into_data().unwrap_or_default();
        match left.checked_sub(data.len() as u64) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    Ok(())
}
