//! One request: its head, its peer, and its body within bounds.
//!
//! The body is read only when it is asked for, so that a request which is refused for its head costs no
//! memory. A length that is announced is checked before the first byte is read.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use base::{Refusal, refusal};
use bytes::{Bytes, BytesMut};
use http::header::HeaderName;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::Peer;
use super::pulse::Pulse;

/// Bytes set aside for a body in parts before any of it came.
const FIRST_BYTES: usize = 64 << 10;

/// A request, as the edge hands it to the service.
pub struct Request {
    pub head: http::request::Parts,
    pub peer: Peer,
    body: Incoming,
    body_bytes_max: usize,
    done: bool,
    pulse: Rc<Pulse>,
}

impl Request {
    pub(super) fn new(
        request: http::Request<Incoming>,
        peer: Peer,
        body_bytes_max: usize,
        pulse: Rc<Pulse>,
    ) -> Request {
        let (head, body) = request.into_parts();
        let done = body.is_end_stream();
        Request {
            head,
            peer,
            body,
            body_bytes_max,
            done,
            pulse,
        }
    }

    /// The request id that the client sent, if it is one that can be kept: 1 to 64 letters, digits, `.`, `_`, `-`.
    pub fn id(&self) -> Option<&str> {
        let id = self.head.headers.get("x-request-id")?.to_str().ok()?;
        let plain = id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        (plain && (1..=64).contains(&id.len())).then_some(id)
    }

    /// The value of a field that stands once in the head, where it is text (RFC 9110 §5.5).
    pub fn field(&self, name: &HeaderName) -> Option<&str> {
        let mut values = self.head.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            _ => None,
        }
    }

    /// Says that this request is of a known agent: its connection is no stranger's from now on.
    pub fn is_of_known_agent(&self) {
        self.pulse.is_known();
    }

    /// Reads the whole body; a second time it is empty.
    ///
    /// Refuses with `http.body_too_large`, `http.body_too_slow` or `http.body_cut`; the connection is then
    /// closed after the answer.
    pub async fn body(&mut self) -> Result<Bytes, Refusal> {
        if self.done {
            return Ok(Bytes::new());
        }
        if self.body.size_hint().lower() > self.body_bytes_max as u64 {
            return Err(self.too_large());
        }
        self.pulse.body_starts();
        let body = self.read().await;
        self.pulse.body_ends();
        self.done = body.is_ok();
        body
    }

    async fn read(&mut self) -> Result<Bytes, Refusal> {
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        if first.len() > self.body_bytes_max {
            return Err(self.too_large());
        }
        let Some(mut chunk) = self.chunk().await? else {
            return Ok(first);
        };
        let expected = first.len() as u64 + chunk.len() as u64 + self.body.size_hint().lower();
        let mut whole = BytesMut::with_capacity((expected as usize).min(FIRST_BYTES));
        whole.extend_from_slice(&first);
        loop {
            if whole.len() + chunk.len() > self.body_bytes_max {
                return Err(self.too_large());
            }
            whole.extend_from_slice(&chunk);
            match self.chunk().await? {
                Some(next) => chunk = next,
                None => return Ok(whole.freeze()),
            }
        }
    }

    /// The next bytes of the body; trailer fields are dropped.
    async fn chunk(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            match poll_fn(|context| self.poll_frame(context)).await? {
                None => return Ok(None),
                Some(frame) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => continue,
                },
            }
        }
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, Refusal>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Ok(Some(frame))),
            Poll::Ready(Some(Err(error))) => {
                let public = "The request body ended before it was whole, or is not framed well.";
                let refusal = Refusal::new(refusal::BODY_CUT, public);
                Poll::Ready(Err(refusal.with_private(error.to_string())))
            }
            Poll::Pending if self.pulse.is_body_late() => {
                let public = "The request body took too long.";
                Poll::Ready(Err(Refusal::new(refusal::BODY_TOO_SLOW, public)))
            }
            Poll::Pending => {
                self.pulse.watch_reader(context.waker());
                Poll::Pending
            }
        }
    }

    fn too_large(&self) -> Refusal {
        let max = self.body_bytes_max;
        let public = format!("The request body is larger than {max} bytes.");
        Refusal::new(refusal::BODY_TOO_LARGE, public)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.done {
            self.pulse.leave_unread();
        }
    }
}
