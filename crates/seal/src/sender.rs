//! Senders: who counts, so that no nonce is used twice.
//!
//! It exists as one struct that holds id, key, IV and counter together, and is dropped as a whole: whoever
//! loses it draws a new random id and can therefore never count from a number that was used. It is neither
//! `Copy` nor `Clone` nor `Send`, and it refuses to begin a message once it is spent.

use std::rc::Rc;
use std::sync::Arc;

use base::Now;

use crate::chunk::{Aad, BYTES_LIMIT, CHUNKS_LIMIT, Line, Sealing};
use crate::error::Error;
use crate::head::{Head, Kind, REQUEST_BYTES, RESPONSE_BYTES, RETRY_OF_BYTES};
use crate::inbox::{Opened, Seat};
use crate::key::{SenderId, Sid};
use crate::random::IdRandom;
use crate::schedule::{Secret, Way};
use crate::session::Session;
use crate::suite::Suite;

/// How long a sender is used, in milliseconds.
pub(crate) const SENDER_MS: u64 = 600_000;
/// How far the wall clock may step against the monotonic clock in that time, in milliseconds.
pub(crate) const CLOCK_STEP_MS: u64 = 1_000;

/// When something is sealed, and on which copy of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Now,
    /// A number that changes when the machine was cloned or restored; always the same where there is none.
    pub generation: u64,
}

impl Moment {
    /// Whether a sender that began at `self` must not begin a message now.
    fn is_past(&self, now: Moment) -> bool {
        let step = |now: Now| i128::from(now.unix_ms) - i128::from(now.mono_ms);
        let stepped = step(now.now).abs_diff(step(self.now));
        now.generation != self.generation
            || stepped >= u128::from(CLOCK_STEP_MS)
            || now.now.mono_ms.saturating_sub(self.now.mono_ms) >= SENDER_MS
    }
}

/// The name of a message: by it an answer is bound to it, and a later attempt says what it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub sender: SenderId,
    pub ctr: u64,
    /// The inbound's time, as the outbound knew it, in Unix milliseconds.
    pub ts_unix_ms: u64,
}

impl Attempt {
    pub(crate) fn to_bytes(self) -> [u8; RETRY_OF_BYTES] {
        let mut bytes = [0; RETRY_OF_BYTES];
        bytes[..16].copy_from_slice(&self.sender.0);
        bytes[16..24].copy_from_slice(&self.ctr.to_be_bytes());
        bytes[24..].copy_from_slice(&self.ts_unix_ms.to_be_bytes());
        bytes
    }
}

/// What senders of both directions share.
struct Sender {
    line: Rc<Line>,
    next_ctr: u64,
    suite: Suite,
    sid: Sid,
    began: Moment,
}

impl Sender {
    fn new(way: &Secret, suite: Suite, sid: Sid, id: &IdRandom, began: Moment) -> Sender {
        let id = SenderId(*id.bytes());
        Sender {
            line: Rc::new(Line::new(way, suite, id)),
            next_ctr: 0,
            suite,
            sid,
            began,
        }
    }

    fn is_spent(&self, now: Moment) -> bool {
        self.line.chunks.get() >= u64::from(CHUNKS_LIMIT)
            || self.line.bytes.get() >= BYTES_LIMIT
            || self.began.is_past(now)
    }

    /// Takes a counter. It is gone, whatever becomes of the message.
    fn take(&mut self, now: Moment) -> Result<u64, Error> {
        if self.is_spent(now) {
            return Err(Error::Spent);
        }
        let ctr = self.next_ctr;
        self.next_ctr = ctr.checked_add(1).ok_or(Error::Spent)?;
        Ok(ctr)
    }
}

/// An outbound's sender, for one thread and one session.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<seal::RequestSender>();
/// ```
/// ```compile_fail,E0277
/// fn clone<T: Clone>() {}
/// clone::<seal::RequestSender>();
/// ```
pub struct RequestSender {
    sender: Sender,
    session: Arc<Session>,
}

impl RequestSender {
    /// A new sender with a new random id.
    pub fn new(session: Arc<Session>, id: &IdRandom, now: Moment) -> RequestSender {
        let way = session.way(Way::Request);
        RequestSender {
            sender: Sender::new(&way, session.suite(), session.sid(), id, now),
            session,
        }
    }

    /// Whether a new one is due.
    pub fn is_spent(&self, now: Moment) -> bool {
        self.sender.is_spent(now)
    }

    /// Whether it seals for this very session.
    pub fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Begins a request: takes a counter, and appends the 200 bytes before its first chunk. `retry_of` names
    /// the first attempt of the call, if this is another.
    ///
    /// # Errors
    /// [`Error::Spent`]: nothing was written; drop this sender and draw a new one.
    pub fn begin(
        &mut self,
        now: Moment,
        retry_of: Option<Attempt>,
        out: &mut Vec<u8>,
    ) -> Result<(Attempt, Sealing), Error> {
        let ctr = self.sender.take(now)?;
        let attempt = Attempt {
            sender: self.sender.line.id,
            ctr,
            ts_unix_ms: self.session.server_unix_ms(now.now),
        };
        let head = Head {
            kind: Kind::Request,
            suite: self.sender.suite,
            flag: retry_of.is_some(),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..8].copy_from_slice(&head.to_bytes());
        bytes[8..24].copy_from_slice(&self.sender.sid.0);
        bytes[24..56].copy_from_slice(&attempt.to_bytes());
        bytes[56..].copy_from_slice(self.session.ticket());
        out.extend_from_slice(&bytes);
        let line = Rc::clone(&self.sender.line);
        let retry_of = retry_of.map(Attempt::to_bytes);
        let sealing = Sealing::new(line, ctr, Aad::request(&bytes), retry_of);
        Ok((attempt, sealing))
    }

    #[cfg(test)]
    pub(crate) fn set_ctr(&mut self, ctr: u64) {
        self.sender.next_ctr = ctr;
    }
}

/// An inbound's sender, for one thread and one session.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<seal::ResponseSender>();
/// ```
/// ```compile_fail,E0277
/// fn clone<T: Clone>() {}
/// clone::<seal::ResponseSender>();
/// ```
pub struct ResponseSender {
    sender: Sender,
    seat: Rc<Seat>,
}

/// Who speaks in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The origin: the plaintext is Binary HTTP.
    Origin,
    /// This weir: the plaintext is an [`crate::Answer`].
    Weir,
}

impl ResponseSender {
    /// A new sender with a new random id, for the session of this request.
    pub fn new(to: &Opened, id: &IdRandom, now: Moment) -> ResponseSender {
        let way = to.way(Way::Response);
        ResponseSender {
            sender: Sender::new(&way, to.suite(), to.sid(), id, now),
            seat: Rc::clone(to.seat()),
        }
    }

    /// Whether a new one is due.
    pub fn is_spent(&self, now: Moment) -> bool {
        self.sender.is_spent(now)
    }

    /// Whether it seals for the session of this request.
    pub fn is_of(&self, to: &Opened) -> bool {
        self.seat.is_same(to.seat())
    }

    /// Begins a response: takes a counter, and appends the 32 bytes before its first chunk.
    ///
    /// # Errors
    /// [`Error::Session`] for a request of another session, [`Error::Spent`]. Nothing was written.
    pub fn begin(
        &mut self,
        now: Moment,
        to: &Opened,
        voice: Voice,
        out: &mut Vec<u8>,
    ) -> Result<Sealing, Error> {
        if !self.is_of(to) {
            return Err(Error::Session);
        }
        let ctr = self.sender.take(now)?;
        let head = Head {
            kind: Kind::Response,
            suite: self.sender.suite,
            flag: voice == Voice::Weir,
        };
        let mut bytes = [0; RESPONSE_BYTES];
        bytes[..8].copy_from_slice(&head.to_bytes());
        bytes[8..24].copy_from_slice(&self.sender.line.id.0);
        bytes[24..].copy_from_slice(&ctr.to_be_bytes());
        out.extend_from_slice(&bytes);
        let request = to.attempt();
        let aad = Aad::response(&bytes, request.sender, request.ctr);
        Ok(Sealing::new(Rc::clone(&self.sender.line), ctr, aad, None))
    }

    #[cfg(test)]
    pub(crate) fn set_ctr(&mut self, ctr: u64) {
        self.sender.next_ctr = ctr;
    }
}

#[cfg(test)]
mod tests;
