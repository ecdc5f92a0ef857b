//! One request: its head, its peer, and its body within bounds.
//!
//! The body is read only when it is asked for, so that a request which is refused for its head costs no
//! memory. A length that is announced is checked before the first byte is read.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Weak;
use std::task::{Context, Poll, ready};

use base::{Permit, Refusal, refusal};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri};

use super::connection::{AgentConnection, LentConnection, refusal_of};
use super::{EdgeSettings, Peer, PeerAddress};
use crate::h1::{Error, Fault, Framing, RequestView, Version, Wait};
use crate::takeover::{Switch, Tunnel};

/// Bytes set aside for a body before any of it came.
const FIRST_BYTES: usize = 64 << 10;

/// A request, as the edge hands it to the service.
pub struct Request {
    pub head: http::request::Parts,
    pub peer: Peer,
    lent: Weak<LentConnection>,
    body_bytes_max: usize,
    /// Bytes of the body that were read in pieces.
    body_bytes: usize,
    body_ms: u64,
    done: bool,
    /// The body of a request that this process makes of itself.
    own_body: Option<Bytes>,
}

impl Request {
    /// A request that this process makes of itself, for a service that answers it without a connection: its body is
    /// there, and it can be taken over by nobody.
    pub fn within(head: http::request::Parts, caller: IpAddr, body: Bytes) -> Request {
        let peer = Peer {
            caller,
            ..Peer::new(PeerAddress::Tcp((caller, 0).into()))
        };
        Request {
            own_body: Some(body),
            ..Request::new(head, peer, Weak::new(), &EdgeSettings::default(), false)
        }
    }

    pub(super) fn new(
        head: http::request::Parts,
        peer: Peer,
        lent: Weak<LentConnection>,
        settings: &EdgeSettings,
        done: bool,
    ) -> Request {
        Request {
            head,
            peer,
            lent,
            body_bytes_max: settings.body_bytes_max,
            body_bytes: 0,
            body_ms: settings.body_ms,
            done,
            own_body: None,
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
        if let Some(lent) = self.lent.upgrade() {
            lent.is_of_known_agent();
        }
    }

    /// Sets the largest body in place of the settings' own, in bytes.
    pub fn bound_body(&mut self, bytes_max: usize) {
        self.body_bytes_max = bytes_max;
    }

    /// Reads the next piece of the body, as it comes; nothing once all was read. Each piece has as long as a whole body
    /// has, and what is not read makes the client wait.
    ///
    /// Refuses as [`Request::body`] does; the pieces together have its bound.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.done {
            return Ok(None);
        }
        if let Some(body) = self.own_body.take() {
            self.done = true;
            return Ok((!body.is_empty()).then_some(body));
        }
        let Some(lent) = self.lent.upgrade() else {
            return Err(kept());
        };
        if lent.with(announced) > Some(self.body_bytes_max as u64) {
            return Err(too_large(self.body_bytes_max));
        }
        let read = poll_fn(|context| {
            let read = lent.with(|server| poll_chunk(server, context));
            read.unwrap_or_else(|| Poll::Ready(Err(cut("the call is over"))))
        });
        let piece = read.await?;
        self.body_bytes += piece.len();
        if self.body_bytes > self.body_bytes_max {
            return Err(too_large(self.body_bytes_max));
        }
        self.done = piece.is_empty();
        Ok((!self.done).then_some(piece))
    }

    /// Answers with what ends HTTP on this connection, and takes it over. The call lasts as long as what follows, and
    /// then answers with [`super::Body::Taken`].
    ///
    /// # Errors
    /// What ended the permit's call; `http.head_invalid` where the request does not ask for this, or has a body; and
    /// `http.body_cut` where the client is gone. After the last the answer reaches nobody.
    pub async fn take_over<P: Permit>(
        &mut self,
        permit: &P,
        switch: Switch<'_>,
    ) -> Result<Tunnel, Refusal> {
        permit.in_force()?;
        let lent = self.lent.upgrade();
        let lent = lent.ok_or_else(|| cut("the call is over"))?;
        let mut server = lent.take_over(switch.status).ok_or_else(not_asked)?;
        drop(lent);
        let (status, protocol) = (switch.status, switch.protocol.map(str::as_bytes));
        let fields = switch.fields.iter().copied();
        let gone = |error: Error| cut(error.to_string());
        server.switch(status, protocol, fields).map_err(gone)?;
        server.flush().await.map_err(gone)?;
        let (thread, bounds) = server.watched_by();
        let parts = server.into_parts().map_err(gone)?;
        Ok(Tunnel::new(parts, &thread, &bounds))
    }

    /// Reads the whole body; a second time it is empty.
    ///
    /// Refuses with `http.body_too_large`, `http.body_too_slow` or `http.body_cut`; the connection is then
    /// closed after the answer.
    pub async fn body(&mut self) -> Result<Bytes, Refusal> {
        if self.done {
            return Ok(Bytes::new());
        }
        if let Some(body) = self.own_body.take() {
            self.done = true;
            return Ok(body);
        }
        let Some(lent) = self.lent.upgrade() else {
            return Err(kept());
        };
        let (bytes_max, body_ms) = (self.body_bytes_max, self.body_ms);
        let announced = lent.with(|server| {
            server.bound_body(body_ms);
            announced(server)
        });
        if announced > Some(bytes_max as u64) {
            return Err(too_large(bytes_max));
        }
        let mut whole = Vec::new();
        let read = poll_fn(|context| {
            let read = lent.with(|server| poll_body(server, context, &mut whole, bytes_max));
            let over = || Poll::Ready(Err(cut("the call is over")));
            read.unwrap_or_else(over)
        });
        read.await?;
        self.done = true;
        Ok(Bytes::from(whole))
    }
}

/// The length of the body that the head announces; 0 where it announces none.
fn announced(server: &mut AgentConnection) -> u64 {
    match server.request().framing() {
        Framing::Length(length) => length,
        Framing::None | Framing::Chunked | Framing::UntilClose => 0,
    }
}

/// Reads what comes next of the body; nothing at its end.
fn poll_chunk(
    server: &mut AgentConnection,
    context: &mut Context<'_>,
) -> Poll<Result<Bytes, Refusal>> {
    ready!(server.poll_fill(context, 1)).map_err(unread)?;
    let piece = Bytes::copy_from_slice(server.filled());
    server.consume(piece.len());
    Poll::Ready(Ok(piece))
}

/// Reads what comes of the body to its end, and then forgets the request: what it says is copied.
fn poll_body(
    server: &mut AgentConnection,
    context: &mut Context<'_>,
    whole: &mut Vec<u8>,
    bytes_max: usize,
) -> Poll<Result<(), Refusal>> {
    loop {
        ready!(server.poll_fill(context, 1)).map_err(unread)?;
        let came = server.filled().len();
        if whole.len() + came > bytes_max {
            return Poll::Ready(Err(too_large(bytes_max)));
        }
        if whole.is_empty() {
            let announced = match server.request().framing() {
                Framing::Length(length) => length as usize,
                _ => came,
            };
            whole.reserve_exact(announced.min(FIRST_BYTES).max(came));
        }
        whole.extend_from_slice(server.filled());
        server.consume(came);
        if server.is_body_here() {
            server.forget_request();
            return Poll::Ready(Ok(()));
        }
    }
}

/// What a body that could not be read is refused with.
fn unread(error: Error) -> Refusal {
    match error {
        Error::Slow(Wait::Piece) => {
            Refusal::new(refusal::BODY_TOO_SLOW, "The request body took too long.")
        }
        error => cut(error.to_string()),
    }
}

fn kept() -> Refusal {
    cut("the request is kept longer than its call")
}

fn cut(why: impl Into<String>) -> Refusal {
    let public = "The request body ended before it was whole, or is not framed well";
    Refusal::new(refusal::BODY_CUT, public).with_private(why)
}

fn not_asked() -> Refusal {
    let public = "The request does not ask to switch to what is here, or it has a body";
    Refusal::new(refusal::HEAD_INVALID, public)
}

fn too_large(bytes_max: usize) -> Refusal {
    let public = format!("The request body is larger than {bytes_max} bytes");
    Refusal::new(refusal::BODY_TOO_LARGE, public)
}

/// The head of a request, copied once: what it says points into that copy.
pub(super) fn parts(view: RequestView<'_>) -> Result<http::request::Parts, Refusal> {
    let came = view.head();
    let copy = Bytes::copy_from_slice(came);
    let part = |part: &[u8]| {
        let start = part.as_ptr() as usize - came.as_ptr() as usize;
        copy.slice(start..start + part.len())
    };
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::from_bytes(view.method()).map_err(|_| refusal_of(Fault::NotHttp))?;
    head.uri =
        Uri::from_maybe_shared(part(view.target())).map_err(|_| refusal_of(Fault::Target))?;
    head.version = match view.version() {
        Version::Http10 => http::Version::HTTP_10,
        Version::Http11 => http::Version::HTTP_11,
    };
    head.headers = HeaderMap::with_capacity(view.fields().len());
    for field in view.fields().iter() {
        let name = HeaderName::from_bytes(field.name);
        let name = name.map_err(|_| refusal_of(Fault::FieldName))?;
        let value = HeaderValue::from_maybe_shared(part(field.value));
        let value = value.map_err(|_| refusal_of(Fault::FieldValue))?;
        head.headers.append(name, value);
    }
    match misdirected(&head.uri) {
        Some(refusal) => Err(refusal),
        None => Ok(head),
    }
}

/// A target in absolute form for a connection that is secured: it must not be answered on another (RFC 9110 §7.4).
/// 421 says that to a client, which may try again rightly.
fn misdirected(uri: &Uri) -> Option<Refusal> {
    let is_secured = *uri.scheme()? == http::uri::Scheme::HTTPS;
    let public = "The target is an https URL, and this connection is not secured.";
    is_secured.then(|| Refusal::new(refusal::MISDIRECTED, public))
}
