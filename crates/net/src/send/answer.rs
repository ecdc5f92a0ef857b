//! An answer: its head at once, its body as it comes.
//!
//! The connection goes back to the pool after the last byte of the body, and only if the caller said that the
//! answer is the one to its request ([`UpstreamAnswer::reuse`]): a server that answers twice is one answer ahead
//! from then on, and its next answer would be given to another caller. An answer that is dropped before that
//! takes its connection along.

use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use super::{SendError, UnsentBody};
use crate::h1::{AnswerView, Framing};
use crate::pool::Lease;

/// Bytes set aside for an answer before more of it came.
const FIRST_BYTES: usize = 64 << 10;

/// An upstream's answer.
pub struct UpstreamAnswer {
    /// Without the fields that are for the connection alone.
    pub head: http::response::Parts,
    /// The body's length, where the head says it.
    length: Option<u64>,
    /// The length that the head announces, also where there is no body: of an answer to HEAD.
    announced: Option<u64>,
    /// Absent once the connection went back.
    lease: Option<Lease>,
    /// The server began to answer before it took all of the request.
    unsent: Option<UnsentBody>,
    /// The whole body was read.
    done: bool,
    /// The caller knows that the answer is its own.
    own: bool,
}

impl UpstreamAnswer {
    /// The answer whose head the connection has read.
    pub(super) fn new(
        mut lease: Lease,
        unsent: Option<UnsentBody>,
    ) -> Result<UpstreamAnswer, SendError> {
        let answer = lease.answered();
        let length = match answer.framing() {
            Framing::Length(bytes) => Some(bytes),
            _ => None,
        };
        let announced = answer.length();
        let head = owned(&answer)?;
        // What waits for the rest of a body need not hold a buffer for it.
        lease.forget_answer();
        Ok(UpstreamAnswer {
            head,
            length,
            announced,
            done: lease.is_body_here(),
            lease: Some(lease),
            unsent,
            own: false,
        })
    }

    /// The answer is the one to the request, so its connection may be used again once the body was read.
    pub fn reuse(&mut self) {
        self.own = true;
        self.give_back();
    }

    /// The body's length, where the head says it.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The length that the head announces, also of an answer that has no body since HEAD asked for it.
    pub fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Whether all of the body was read, or there is none.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The next bytes of the body; nothing after its end. Trailer fields are dropped.
    ///
    /// Waits as long as the upstream does: a caller that needs a bound sets one.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, SendError> {
        Ok(self.piece().await?.map(Bytes::copy_from_slice))
    }

    /// The whole body, of at most `bytes_max` bytes, within `deadline_ms` milliseconds from now.
    pub async fn whole(&mut self, bytes_max: usize, deadline_ms: u64) -> Result<Bytes, SendError> {
        if self.done {
            return Ok(Bytes::new());
        }
        if self.length.is_some_and(|bytes| bytes > bytes_max as u64) {
            return Err(SendError::TooLarge);
        }
        let wait = Duration::from_millis(deadline_ms);
        tokio::time::timeout(wait, self.read(bytes_max))
            .await
            .unwrap_or(Err(SendError::Slow))
    }

    async fn read(&mut self, bytes_max: usize) -> Result<Bytes, SendError> {
        let expected = self.length.unwrap_or_default();
        let mut whole = Vec::with_capacity(expected.min(FIRST_BYTES as u64) as usize);
        while let Some(piece) = self.piece().await? {
            if whole.len() + piece.len() > bytes_max {
                return Err(SendError::TooLarge);
            }
            whole.extend_from_slice(piece);
        }
        Ok(whole.into())
    }

    /// The next bytes of the body, in the connection's buffer.
    async fn piece(&mut self) -> Result<Option<&[u8]>, SendError> {
        if let Some(lease) = &mut self.lease {
            let unsent = &mut self.unsent;
            let filled = poll_fn(|context| {
                // Whether a server that has answered takes the rest of the request is its own matter.
                if let Some(body) = unsent
                    && body.poll_send(lease, context).is_ready()
                {
                    *unsent = None;
                }
                lease.poll_fill(context, 1)
            });
            filled.await?;
            self.done = lease.filled().is_empty();
        }
        if self.done {
            self.give_back();
        }
        match &mut self.lease {
            Some(lease) if !self.done => Ok(Some(lease.use_up())),
            _ => Ok(None),
        }
    }

    fn give_back(&mut self) {
        if self.done && self.own {
            self.lease = None;
        }
    }
}

impl Drop for UpstreamAnswer {
    fn drop(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.close_after();
        }
    }
}

/// A head that outlives the buffer that it was read into.
fn owned(answer: &AnswerView<'_>) -> Result<http::response::Parts, SendError> {
    let (mut head, ()) = http::Response::new(()).into_parts();
    let broken = |error: http::Error| SendError::Broken(error.to_string());
    let status = StatusCode::from_u16(answer.status());
    head.status = status.map_err(|error| broken(error.into()))?;
    head.headers.reserve(answer.fields().len());
    for (name, value) in answer.fields().passed_on() {
        let name = HeaderName::from_bytes(name).map_err(|error| broken(error.into()))?;
        let value = HeaderValue::from_bytes(value).map_err(|error| broken(error.into()))?;
        head.headers.append(name, value);
    }
    Ok(head)
}

impl fmt::Debug for UpstreamAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the head: its fields may be secrets.
        f.debug_struct("Answer")
            .field("status", &self.head.status)
            .finish_non_exhaustive()
    }
}
