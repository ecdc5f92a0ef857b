//! One call to an upstream: find the place of the permit, find or dial a connection, send, await the head.
//!
//! A request is sent a second time only if a kept connection took no byte of it: then the server cannot have seen it.
//! Every other failure is the caller's to know about.

mod answer;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::{Permit, Refusal, refusal};
use bytes::Bytes;
use http::HeaderValue;
use http::uri::PathAndQuery;
use tokio::time::Instant;

pub use answer::UpstreamAnswer;

use crate::dial::DialTarget;
use crate::h1::{Error, Framing, OUTPUT_BYTES_MAX};
use crate::pool::{Lease, Upstreams};

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum SendError {
    /// The permit said no to every address of the target, or is for no target that is configured.
    Refused(Refusal),
    /// No connection: the name, the addresses, or TLS. Nothing was sent.
    Unreachable(String),
    /// The deadline passed.
    Slow,
    /// The connection broke after something was sent, or what came is not HTTP.
    Broken(String),
    /// The answer is larger than the bound that was given.
    TooLarge,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Refused(refusal) => write!(f, "refused: {}", refusal.public),
            SendError::Unreachable(why) => write!(f, "the server cannot be reached: {why}"),
            SendError::Slow => f.write_str("the server did not answer in time"),
            SendError::Broken(why) => write!(f, "the connection to the server broke: {why}"),
            SendError::TooLarge => f.write_str("the server's answer is too large"),
        }
    }
}

impl std::error::Error for SendError {}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Refusal {
        match error {
            SendError::Refused(refusal) => refusal,
            SendError::Slow => {
                Refusal::new(refusal::SERVER_SLOW, "the server did not answer in time")
            }
            SendError::TooLarge => Refusal::new(
                refusal::ANSWER_TOO_LARGE,
                "the server's answer is too large",
            ),
            SendError::Unreachable(why) => {
                Refusal::new(refusal::SERVER_DOWN, "the server cannot be reached").with_private(why)
            }
            SendError::Broken(why) => {
                Refusal::new(refusal::SERVER_DOWN, "the server broke off").with_private(why)
            }
        }
    }
}

/// What broke off once something of the request was sent.
impl From<Error> for SendError {
    fn from(error: Error) -> SendError {
        match error {
            Error::Slow(_) => SendError::Slow,
            error => SendError::Broken(error.to_string()),
        }
    }
}

/// A request as it can be written to its target, more than once.
struct UpstreamRequest {
    head: http::request::Parts,
    host: HeaderValue,
    path: PathAndQuery,
    body: Bytes,
}

/// What is left to send of a request's body.
struct UnsentBody(Bytes);

/// How an attempt on one connection failed.
enum Failed {
    /// Nothing was written.
    Unsent(String),
    Begun(SendError),
}

impl<P: Permit> Upstreams<P> {
    /// Sends a request to the place of the permit, and waits for the head of its answer for at most
    /// `deadline_ms` milliseconds. Nothing else bounds that wait, nor those for the answer's body.
    ///
    /// The request's URI is a path and a query, put behind the endpoint's own path; `/` alone stands for
    /// that. Host and what frames the message are set here, whatever the request holds.
    pub async fn send(
        &self,
        permit: &P,
        request: http::Request<Bytes>,
        deadline_ms: u64,
    ) -> Result<UpstreamAnswer, SendError> {
        self.send_on(permit, None, request, deadline_ms, true).await
    }

    /// The same to a path and query at the place of the permit, which stand for themselves and not behind the endpoint's own.
    pub async fn send_to(
        &self,
        permit: &P,
        path: &PathAndQuery,
        request: http::Request<Bytes>,
        deadline_ms: u64,
    ) -> Result<UpstreamAnswer, SendError> {
        let path = Some(path.clone());
        self.send_on(permit, path, request, deadline_ms, true).await
    }

    /// The same on a new connection, where the answer cannot be told from the late answer to another call.
    pub async fn send_fresh(
        &self,
        permit: &P,
        request: http::Request<Bytes>,
        deadline_ms: u64,
    ) -> Result<UpstreamAnswer, SendError> {
        self.send_on(permit, None, request, deadline_ms, false)
            .await
    }

    async fn send_on(
        &self,
        permit: &P,
        whole: Option<PathAndQuery>,
        request: http::Request<Bytes>,
        deadline_ms: u64,
        pooled: bool,
    ) -> Result<UpstreamAnswer, SendError> {
        let target = self.target(permit)?;
        let (head, body) = request.into_parts();
        let path = whole.map_or_else(|| target.path(&head.uri), Ok);
        let request = UpstreamRequest {
            path: path.map_err(|error| SendError::Unreachable(format!("the path: {error}")))?,
            host: target.host.clone(),
            head,
            body,
        };
        let deadline = Instant::now() + Duration::from_millis(deadline_ms);
        let exchange = self.exchange(&target, permit, &request, deadline, pooled);
        tokio::time::timeout_at(deadline, exchange)
            .await
            .unwrap_or(Err(SendError::Slow))
    }

    async fn exchange(
        &self,
        target: &Arc<DialTarget>,
        permit: &P,
        request: &UpstreamRequest,
        deadline: Instant,
        pooled: bool,
    ) -> Result<UpstreamAnswer, SendError> {
        let kept = pooled.then(|| self.idle_lease(target, permit)).flatten();
        if let Some(lease) = kept {
            match request.ask(lease).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::Begun(error)) => return Err(error),
                // The connection ended while nobody used it.
                Err(Failed::Unsent(_)) => {}
            }
        }
        let lease = self.fresh_lease(target, permit, deadline).await?;
        request.ask(lease).await.map_err(|failed| match failed {
            Failed::Unsent(why) => SendError::Unreachable(why),
            Failed::Begun(error) => error,
        })
    }
}

impl Lease {
    /// Waits for the head of the final answer to a request that was sent by hand: all of it, or as much as the server
    /// took. Waits as long as the server does.
    ///
    /// # Errors
    /// `Broken`: what came is no HTTP, or nothing did.
    pub async fn into_answer(mut self) -> Result<UpstreamAnswer, SendError> {
        self.wait_patiently();
        while self.answer().await?.is_informational() {}
        UpstreamAnswer::new(self, None)
    }
}

impl UpstreamRequest {
    /// Sends it, and waits for the head of the final answer.
    async fn ask(&self, mut lease: Lease) -> Result<UpstreamAnswer, Failed> {
        lease.wait_patiently();
        self.write(&mut lease)
            .map_err(|error| Failed::Unsent(error.to_string()))?;
        let mut unsent = Some(UnsentBody(self.body.clone()));
        let answered = poll_fn(|context| poll_ask(&mut lease, &mut unsent, context)).await;
        match answered {
            Ok(()) => UpstreamAnswer::new(lease, unsent).map_err(Failed::Begun),
            Err(error) if lease.written() == 0 => Err(Failed::Unsent(error.to_string())),
            Err(error) => Err(Failed::Begun(error.into())),
        }
    }

    /// Writes the head into the output.
    fn write(&self, lease: &mut Lease) -> Result<(), Error> {
        let framing = match self.body.len() {
            0 => Framing::None,
            bytes => Framing::Length(bytes as u64),
        };
        let fields = self.head.headers.iter();
        let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let (method, path) = (self.head.method.as_str(), self.path.as_str());
        let (method, path) = (method.as_bytes(), path.as_bytes());
        lease.request(method, path, self.host.as_bytes(), fields, framing)
    }
}

/// Sends what is unsent, and reads heads up to the one of the final answer, which may come before all is sent.
fn poll_ask(
    lease: &mut Lease,
    unsent: &mut Option<UnsentBody>,
    context: &mut Context<'_>,
) -> Poll<Result<(), Error>> {
    if let Some(body) = unsent
        && let Poll::Ready(sent) = body.poll_send(lease, context)
    {
        *unsent = None;
        // A server that refuses a body may have answered before it closed its side.
        if lease.written() == 0 {
            sent?;
        }
    }
    loop {
        ready!(lease.poll_answer(context))?;
        if !lease.answered().is_informational() {
            return Poll::Ready(Ok(()));
        }
    }
}

impl UnsentBody {
    /// Sends all of it: with the head, as far as the output has room.
    fn poll_send(
        &mut self,
        lease: &mut Lease,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        loop {
            if !self.0.is_empty() {
                let room = OUTPUT_BYTES_MAX.saturating_sub(lease.unflushed());
                let part = self.0.split_to(room.min(self.0.len()));
                lease.body_with(|out| out.extend_from_slice(&part))?;
            }
            ready!(lease.poll_flush(context))?;
            if self.0.is_empty() {
                return Poll::Ready(lease.end());
            }
        }
    }
}
