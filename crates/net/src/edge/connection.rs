//! One connection of an agent, from its first byte to its close.
//!
//! hyper frames the messages. What it cannot do is done here: refuse a bad or slow head in weir's words, and
//! close so that the client can read the last answer.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use base::{Refusal, limit, refusal};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HOST, HeaderValue};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::body::{Body, CutShort};
use super::io::EdgeIo;
use super::pulse::{Pulse, Stop};
use super::strict::FaultKind;
use super::{Peer, Request, Response, Service};

/// How a connection stopped being hyper's.
enum Ended {
    Stopped(Stop),
    /// What came next must not be read.
    Bad(FaultKind),
    Done,
    Failed(hyper::Error),
}

/// The settings of hyper that every connection has.
pub(super) fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Fields are bounded by hyper's own 100 (`limit::HEAD_FIELDS_MAX`): naming it would cost an allocation.
    builder
        .max_header_size(limit::HEAD_BYTES_MAX)
        .header_read_timeout(None);
    builder
}

/// Serves one connection to its end.
pub(super) async fn run<S: Service>(
    stream: TcpStream,
    peer: Peer,
    builder: &http1::Builder,
    service: &Rc<S>,
    body_bytes_max: usize,
    pulse: &Rc<Pulse>,
    refused_heads: &AtomicU64,
) {
    let io = EdgeIo::new(stream, Rc::clone(pulse));
    let answer = |request| {
        answer(
            Rc::clone(service),
            request,
            peer,
            body_bytes_max,
            Rc::clone(pulse),
        )
    };
    let mut connection = builder.serve_connection(io, service_fn(answer));
    let mut told = false;
    let ended = poll_fn(|context| {
        pulse.watch_task(context.waker());
        if let Some(stop) = pulse.stop() {
            return Poll::Ready(Ended::Stopped(stop));
        }
        if pulse.is_draining() && !told {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let polled = Pin::new(&mut connection).poll(context);
        match (polled, pulse.fault()) {
            (Poll::Ready(Ok(())), _) => Poll::Ready(Ended::Done),
            (Poll::Ready(Err(error)), _) => Poll::Ready(Ended::Failed(error)),
            (Poll::Pending, Some(what)) => Poll::Ready(Ended::Bad(what)),
            (Poll::Pending, None) => Poll::Pending,
        }
    })
    .await;
    // The call in flight, if any, is dropped here.
    let stream = connection.into_parts().io.into_inner();
    tokio::select! {
        () = finish(stream, ended, &**service, pulse, refused_heads) => {}
        () = pulse.killed() => {}
    }
}

/// Says the last word on a connection that hyper has let go of.
async fn finish<S: Service>(
    stream: TcpStream,
    ended: Ended,
    service: &S,
    pulse: &Pulse,
    refused_heads: &AtomicU64,
) {
    // Who was too slow once is not waited for.
    let is_slow = matches!(ended, Ended::Stopped(Stop::SlowHead)) || pulse.is_body_late();
    let linger_ms = match is_slow {
        true => limit::LINGER_QUIET_MS_MAX,
        false => limit::LINGER_MS_MAX,
    };
    let refusal = match ended {
        Ended::Stopped(Stop::SlowHead) => Some(Refusal::new(
            refusal::HEAD_TOO_SLOW,
            "The request head took too long.",
        )),
        Ended::Stopped(Stop::Unused | Stop::Kill) => return,
        Ended::Bad(FaultKind::Large) => Some(too_large()),
        Ended::Bad(FaultKind::Head(why) | FaultKind::Body(why)) => Some(unclear(why)),
        Ended::Failed(error) if !pulse.owes() => head_refusal(&error),
        Ended::Failed(_) => return cut(&stream, pulse),
        Ended::Done => None,
    };
    if let Some(refusal) = refusal {
        refused_heads.fetch_add(1, Ordering::Relaxed);
        refuse(stream, service.refuse(&refusal), linger_ms).await;
    } else if pulse.is_unread() {
        linger(stream, linger_ms).await;
    }
}

/// Makes sure that an answer which was cut does not look whole. Without chunks, the end of the connection is
/// the end of the body: there, a cut has to be a reset.
fn cut(stream: &TcpStream, pulse: &Pulse) {
    if pulse.is_old() {
        // An error means that the connection is gone already.
        let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }
}

/// What a bad head is refused with; nothing for a connection that merely broke.
fn head_refusal(error: &hyper::Error) -> Option<Refusal> {
    if error.is_parse_too_large() {
        return Some(too_large());
    }
    if error.is_parse() {
        return Some(invalid(error));
    }
    None
}

fn too_large() -> Refusal {
    let public = format!(
        "The request head has more than {} bytes or {} fields, or too long a target.",
        limit::HEAD_BYTES_MAX,
        limit::HEAD_FIELDS_MAX
    );
    Refusal::new(refusal::HEAD_TOO_LARGE, public)
}

/// What is no mistake of the bytes, but could be framed in two ways.
fn unclear(why: &str) -> Refusal {
    let public = format!("The request head could be read in two ways: {why}.");
    Refusal::new(refusal::HEAD_INVALID, public)
}

fn invalid(why: impl ToString) -> Refusal {
    Refusal::new(refusal::HEAD_INVALID, "The request head is not HTTP/1.1.")
        .with_private(why.to_string())
}

/// Writes an answer by hand, then closes within `linger_ms`.
pub(super) async fn refuse(mut stream: TcpStream, response: Response, linger_ms: u64) {
    let bytes = encode(response);
    let wait = Duration::from_millis(limit::LINGER_QUIET_MS_MAX);
    if let Ok(Ok(())) = tokio::time::timeout(wait, stream.write_all(&bytes)).await {
        linger(stream, linger_ms).await;
    }
}

/// An answer as bytes, for a connection that hyper does not hold any more.
fn encode(response: Response) -> Vec<u8> {
    let (mut head, body) = response.into_parts();
    let body = match body {
        Body::Full(bytes) => bytes,
        Body::Empty => Bytes::new(),
        Body::Stream(_) => {
            base::never!("a refusal with a stream for a body");
            Bytes::new()
        }
    };
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    head.headers
        .insert(CONNECTION, HeaderValue::from_static("close"));
    head.headers
        .insert(DATE, HeaderValue::try_from(date).expect("a date is ASCII"));
    let mut bytes = Vec::with_capacity(256 + body.len());
    bytes.extend_from_slice(format!("HTTP/1.1 {}\r\n", head.status).as_bytes());
    for (name, value) in &head.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

/// Closes so that the client can read what was written: a socket that is closed with unread bytes in it is
/// reset, and a reset takes the answer with it (RFC 9112 §9.6). Many clients send all of a body before they
/// read, so what is still on its way is thrown away for as long as it comes, within bounds.
async fn linger(mut stream: TcpStream, linger_ms: u64) {
    let wait = Duration::from_millis(linger_ms);
    let drain = async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut buffer = [0; 16 << 10];
        let mut left = limit::LINGER_BYTES_MAX;
        let quiet = Duration::from_millis(limit::LINGER_QUIET_MS_MAX);
        while let Ok(Ok(read @ 1..)) = tokio::time::timeout(quiet, stream.read(&mut buffer)).await {
            let Some(rest) = left.checked_sub(read) else {
                return;
            };
            left = rest;
        }
    };
    // A client that neither closes nor stops sending is cut off after the wait.
    let _ = tokio::time::timeout(wait, drain).await;
}

async fn answer<S: Service>(
    service: Rc<S>,
    request: http::Request<Incoming>,
    peer: Peer,
    body_bytes_max: usize,
    pulse: Rc<Pulse>,
) -> Result<http::Response<Tracked>, Infallible> {
    let is_in_time = pulse.has_head(request.version() < http::Version::HTTP_11);
    let fault = match is_in_time {
        true => fault(&request).or_else(|| misdirected(&request)),
        // Nobody reads this: the connection closes without a word.
        false => Some(malformed("The connection gave up its place.")),
    };
    let request = Request::new(request, peer, body_bytes_max, Rc::clone(&pulse));
    let mut response = match fault {
        None => service.call(request).await,
        Some(refusal) => {
            drop(request);
            pulse.leave_unread();
            service.refuse(&refusal)
        }
    };
    if pulse.is_unread() {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Tracked { body, pulse }))
}

/// What hyper lets pass and RFC 9112 §3.2 does not: an HTTP/1.1 head without exactly one Host, or a Host that is
/// none. An empty one is allowed.
fn fault<B>(request: &http::Request<B>) -> Option<Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let fault = match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            let is_host = host.is_empty() || crate::h1::is_authority(host.as_bytes());
            (!is_host).then_some("The Host field is not a host and a port.")
        }
        (None, _) if request.version() < http::Version::HTTP_11 => None,
        (None, _) => Some("The request has no Host field."),
        (Some(_), Some(_)) => Some("The request has more than one Host field."),
    };
    fault.map(malformed)
}

fn malformed(public: &'static str) -> Refusal {
    Refusal::new(refusal::HEAD_INVALID, public)
}

/// A target in absolute form whose scheme is not that of this connection. An `https` URL asks for a connection that is
/// secured, and it must not be answered on another (RFC 9110 §7.4): 421 says that to a client, which may try again
/// rightly. A URL of another scheme is no target of HTTP at all (RFC 9112 §3.2.2).
fn misdirected<B>(request: &http::Request<B>) -> Option<Refusal> {
    let scheme = request.uri().scheme()?;
    if *scheme == http::uri::Scheme::HTTP {
        return None;
    }
    if *scheme == http::uri::Scheme::HTTPS {
        let public = "The target is an https URL, and this connection is not secured.";
        return Some(Refusal::new(refusal::MISDIRECTED, public));
    }
    Some(malformed(
        "The target is a URL of another scheme than http.",
    ))
}

/// An answer's body that tells the pulse when hyper is done with it.
struct Tracked {
    body: Body,
    pulse: Rc<Pulse>,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.pulse.has_answer();
    }
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
