//! An answer: its head at once, its body as it comes.
//!
//! The connection goes back to the pool after the last byte of the body, and only if the caller said that the
//! answer is the one to its request ([`UpstreamAnswer::reuse`]): a server that answers twice is one answer ahead
//! from then on, and its next answer would be given to another caller. An answer that is dropped before that
//! takes its connection along.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;

use super::SendError;
use super::dial::RequestSender;
use super::pool::Pool;
use super::targets::DialTarget;

/// Bytes set aside for an answer in parts before more of it came.
const FIRST_BYTES: usize = 64 << 10;

/// An upstream's answer.
pub struct UpstreamAnswer {
    pub head: http::response::Parts,
    body: Incoming,
    lease: Option<Lease>,
    /// The whole body was read.
    done: bool,
    /// The caller knows that the answer is its own.
    own: bool,
}

/// A connection that is in use, and where it goes afterwards.
pub(super) struct Lease {
    pub(super) sender: RequestSender,
    pub(super) address: IpAddr,
    pub(super) target: Arc<DialTarget>,
    pub(super) pool: Rc<Pool>,
}

impl UpstreamAnswer {
    pub(super) fn new(response: http::Response<Incoming>, lease: Lease) -> UpstreamAnswer {
        let (head, body) = response.into_parts();
        let done = body.is_end_stream();
        UpstreamAnswer {
            head,
            body,
            lease: Some(lease),
            done,
            own: false,
        }
    }

    /// The answer is the one to the request, so its connection may be used again once the body was read.
    pub fn reuse(&mut self) {
        self.own = true;
        self.give_back();
    }

    /// The next bytes of the body; nothing after its end. Trailer fields are dropped.
    ///
    /// Waits as long as the upstream does: a caller that needs a bound sets one.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, SendError> {
        loop {
            match poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
                None => {
                    self.done = true;
                    self.give_back();
                    return Ok(None);
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => {
                    self.lease = None;
                    return Err(SendError::Broken(error.to_string()));
                }
            }
        }
    }

    /// The whole body, of at most `bytes_max` bytes, within `deadline_ms` milliseconds from now.
    pub async fn whole(&mut self, bytes_max: usize, deadline_ms: u64) -> Result<Bytes, SendError> {
        if self.body.is_end_stream() {
            return Ok(Bytes::new());
        }
        if self.body.size_hint().lower() > bytes_max as u64 {
            return Err(SendError::TooLarge);
        }
        let wait = Duration::from_millis(deadline_ms);
        tokio::time::timeout(wait, self.read(bytes_max))
            .await
            .unwrap_or(Err(SendError::Slow))
    }

    async fn read(&mut self, bytes_max: usize) -> Result<Bytes, SendError> {
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        if first.len() > bytes_max {
            return Err(SendError::TooLarge);
        }
        let Some(mut chunk) = self.chunk().await? else {
            return Ok(first);
        };
        let expected = first.len() as u64 + chunk.len() as u64 + self.body.size_hint().lower();
        let mut whole = BytesMut::with_capacity((expected as usize).min(FIRST_BYTES));
        whole.extend_from_slice(&first);
        loop {
            if whole.len() + chunk.len() > bytes_max {
                return Err(SendError::TooLarge);
            }
            whole.extend_from_slice(&chunk);
            match self.chunk().await? {
                Some(next) => chunk = next,
                None => return Ok(whole.freeze()),
            }
        }
    }

    fn give_back(&mut self) {
        if !(self.done && self.own) {
            return;
        }
        if let Some(Lease {
            sender,
            address,
            target,
            pool,
        }) = self.lease.take()
        {
            pool.keep(&target, sender, address);
        }
    }
}

impl fmt::Debug for UpstreamAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the head: its fields may be secrets.
        f.debug_struct("Answer")
            .field("status", &self.head.status)
            .finish_non_exhaustive()
    }
}
