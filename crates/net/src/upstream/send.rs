//! One call to an upstream: find the target of the permit, find or dial a connection, send, await the head.
//!
//! A request is sent a second time only if hyper says that nothing of the first was written: then the server
//! cannot have seen it. Every other failure is the caller's to know about.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Name, Permit, Refusal, never, refusal};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http_body_util::Full;
use tokio::time::Instant;

use super::answer::Lease;
use super::dial::{RequestSender, dial, open};
use super::pool::Pool;
use super::targets::{DialTarget, Targets};
use super::{SendError, UpstreamAnswer};

/// The upstreams of one thread. What may be sent is decided by whoever makes values of `P`.
pub struct Upstreams<P: Permit> {
    targets: Arc<Targets>,
    pool: Rc<Pool>,
    permit: PhantomData<fn(&P)>,
}

/// How an attempt on one connection failed.
enum Failed {
    /// Nothing was written: the request is as it was.
    Unsent(Box<http::Request<Full<Bytes>>>, String),
    Broken(String),
}

impl<P: Permit> Upstreams<P> {
    pub fn new(targets: Arc<Targets>) -> Upstreams<P> {
        Upstreams {
            targets,
            pool: Rc::default(),
            permit: PhantomData,
        }
    }

    /// Sends a request to the target of the permit, and waits for the head of its answer for at most
    /// `deadline_ms` milliseconds.
    ///
    /// The request's URI is a path and a query, put behind the endpoint's own path; `/` alone stands for
    /// that. Host and the framing fields are set here, whatever the request holds.
    pub async fn send(
        &self,
        permit: &P,
        request: http::Request<Bytes>,
        deadline_ms: u64,
    ) -> Result<UpstreamAnswer, SendError> {
        self.send_on(permit, request, deadline_ms, true).await
    }

    /// As [`Upstreams::send`], on a connection that was not used before: for an answer that nothing tells
    /// from the answer to another request.
    pub async fn send_fresh(
        &self,
        permit: &P,
        request: http::Request<Bytes>,
        deadline_ms: u64,
    ) -> Result<UpstreamAnswer, SendError> {
        self.send_on(permit, request, deadline_ms, false).await
    }

    async fn send_on(
        &self,
        permit: &P,
        request: http::Request<Bytes>,
        deadline_ms: u64,
        pooled: bool,
    ) -> Result<UpstreamAnswer, SendError> {
        let target = permit.target().and_then(|name| self.targets.get(name));
        let Some(target) = target else {
            never!(
                "a permit for {}, which is not configured",
                permit.destination()
            );
            let public = "The permit is for a server that is not configured.";
            return Err(SendError::Refused(Refusal::new(
                refusal::SERVER_UNKNOWN,
                public,
            )));
        };
        let request = prepare(target, request)?;
        let deadline = Instant::now() + Duration::from_millis(deadline_ms);
        let exchange = self.exchange(target, permit, request, deadline, pooled);
        tokio::time::timeout_at(deadline, exchange)
            .await
            .unwrap_or(Err(SendError::Slow))
    }

    /// Idle connections of one target that are still open, for tests and metrics.
    pub fn idle(&self, name: &Name) -> usize {
        self.pool.idle(name)
    }

    async fn exchange(
        &self,
        target: &Arc<DialTarget>,
        permit: &P,
        mut request: http::Request<Full<Bytes>>,
        deadline: Instant,
        pooled: bool,
    ) -> Result<UpstreamAnswer, SendError> {
        // A pooled connection was judged for another call: this permit is asked about its address, too.
        let allowed = |address| permit.dial(address).is_ok();
        let pooled = pooled
            .then(|| self.pool.take(&target.name, allowed))
            .flatten();
        if let Some((sender, address)) = pooled {
            match self.attempt(target, sender, address, request).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::Broken(why)) => return Err(SendError::Broken(why)),
                Err(Failed::Unsent(unsent, _)) => request = *unsent,
            }
        }
        let (sender, address) = dial(target, permit, deadline, open).await?;
        self.attempt(target, sender, address, request)
            .await
            .map_err(|failed| match failed {
                Failed::Unsent(_, why) => SendError::Unreachable(why),
                Failed::Broken(why) => SendError::Broken(why),
            })
    }

    async fn attempt(
        &self,
        target: &Arc<DialTarget>,
        mut sender: RequestSender,
        address: IpAddr,
        request: http::Request<Full<Bytes>>,
    ) -> Result<UpstreamAnswer, Failed> {
        // A pooled connection is ready; a new one is as soon as its task has run.
        if let Err(error) = poll_fn(|context| sender.poll_ready(context)).await {
            return Err(Failed::Unsent(Box::new(request), error.to_string()));
        }
        match sender.try_send_request(request).await {
            Ok(response) => {
                let (target, pool) = (Arc::clone(target), Rc::clone(&self.pool));
                Ok(UpstreamAnswer::new(
                    response,
                    Lease {
                        sender,
                        address,
                        target,
                        pool,
                    },
                ))
            }
            Err(mut failed) => Err(match failed.take_message() {
                Some(request) => Failed::Unsent(Box::new(request), failed.error().to_string()),
                None => Failed::Broken(failed.error().to_string()),
            }),
        }
    }
}

/// Makes the request fit for this target: its path behind the endpoint's, Host, framing by hyper alone.
fn prepare(
    target: &DialTarget,
    request: http::Request<Bytes>,
) -> Result<http::Request<Full<Bytes>>, SendError> {
    let (mut head, body) = request.into_parts();
    let path = target.path(&head.uri);
    let path = path.map_err(|error| SendError::Unreachable(format!("the path: {error}")))?;
    head.uri = http::Uri::from(path);
    head.version = http::Version::HTTP_11;
    for field in [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION] {
        head.headers.remove(field);
    }
    head.headers.insert(HOST, target.host.clone());
    Ok(http::Request::from_parts(head, Full::new(body)))
}
