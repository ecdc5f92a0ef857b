//! The outbound's side of messages, for one thread: seals requests, opens responses.
//!
//! It exists to hold what a thread may forget: request senders and the receive keys of responses. It
//! refuses a response to another request, and never takes an origin's words for the inbound's.

use std::rc::Rc;
use std::sync::Arc;

use crate::answer::Answer;
use crate::chunk::{Aad, Line, Opening, Sealing};
use crate::error::Error;
use crate::head::{Head, Kind, RESPONSE_BYTES, part};
use crate::key::{SenderId, Sid};
use crate::random::IdRandom;
use crate::schedule::Way;
use crate::sender::{Attempt, Moment, RequestSender};
use crate::session::Session;
use crate::table::Table;

/// Most sessions of which one thread of an outbound keeps a sender.
pub(crate) const SENDERS_MAX: usize = 256;
/// Most inbound senders of which one thread of an outbound keeps the receive key.
pub(crate) const RETURNS_MAX: usize = 4_096;

/// Everything that one thread of an outbound keeps about messages.
pub struct Outbox {
    senders: Table<Sid, RequestSender>,
    returns: Table<(Sid, SenderId), Return>,
}

/// A receive key, with the session that it was made of: another inbound may have chosen the same sid.
struct Return {
    session: Arc<Session>,
    line: Rc<Line>,
}

/// A response whose first chunk did not open yet.
pub struct Answering {
    session: Arc<Session>,
    opening: Opening,
    weir_made: bool,
}

/// What the first chunk of a response yields.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives on the stack for a moment; a box would be an allocation a message"
)]
pub enum Response<'a> {
    /// The origin's: Binary HTTP, and what opens the chunks after it.
    Origin(Opening, &'a mut [u8]),
    /// The inbound's own. It is whole.
    Weir(Answer),
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new(SENDERS_MAX, RETURNS_MAX)
    }
}

impl Outbox {
    /// An empty one with these bounds.
    pub fn new(senders_max: usize, returns_max: usize) -> Outbox {
        Outbox {
            senders: Table::new(senders_max),
            returns: Table::new(returns_max),
        }
    }

    /// Begins a request with this thread's sender for the session; `id` is called for a new one.
    ///
    /// # Errors
    /// Those of [`RequestSender::begin`], which a fresh sender does not give.
    pub fn request(
        &mut self,
        session: &Arc<Session>,
        now: Moment,
        id: impl FnOnce() -> IdRandom,
        retry_of: Option<Attempt>,
        out: &mut Vec<u8>,
    ) -> Result<(Attempt, Sealing), Error> {
        let usable = |sender: &&mut RequestSender| sender.is_of(session) && !sender.is_spent(now);
        if self.senders.get(&session.sid()).filter(usable).is_none() {
            let sender = RequestSender::new(Arc::clone(session), &id(), now);
            self.senders.put(session.sid(), sender);
        }
        let sender = self.senders.get(&session.sid()).ok_or(Error::Session)?;
        sender.begin(now, retry_of, out)
    }

    /// Reads the 32 bytes before a response's first chunk; `to` is the request that it must answer.
    ///
    /// # Errors
    /// [`Error::Version`] or [`Error::Head`]. As with every error here, the answer counts as lost.
    pub fn response(
        &mut self,
        session: &Arc<Session>,
        to: Attempt,
        head: &[u8; RESPONSE_BYTES],
    ) -> Result<Answering, Error> {
        let Head { suite, flag, .. } = Head::read(part(head, 0), Kind::Response)?;
        if suite != session.suite() {
            return Err(Error::Head);
        }
        let sender = SenderId(part(head, 8));
        let ctr = u64::from_be_bytes(part(head, 24));
        let line = match self.returns.get(&(session.sid(), sender)) {
            Some(known) if Arc::ptr_eq(&known.session, session) => Rc::clone(&known.line),
            _ => Rc::new(Line::new(&session.way(Way::Response), suite, sender)),
        };
        Ok(Answering {
            session: Arc::clone(session),
            opening: Opening::new(line, ctr, Aad::response(head, to.sender, to.ctr)),
            weir_made: flag,
        })
    }

    /// Enters what a verified chunk proved.
    fn enter(&mut self, session: Arc<Session>, line: &Rc<Line>) {
        let key = (session.sid(), line.id);
        let same = |known: &mut Return| Rc::ptr_eq(&known.line, line);
        if !self.returns.get(&key).is_some_and(same) {
            let line = Rc::clone(line);
            self.returns.put(key, Return { session, line });
        }
    }

    /// Forgets senders that are spent. To be called now and then.
    pub fn sweep(&mut self, now: Moment) {
        self.senders.retain(|_, sender| !sender.is_spent(now));
    }

    /// Forgets the keys of a session that is over.
    pub fn forget(&mut self, session: &Session) {
        let sid = session.sid();
        self.senders.retain(|of, _| *of != sid);
        self.returns.retain(|(of, _), _| *of != sid);
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.senders.len(), self.returns.len()]
    }
}

impl Answering {
    /// Opens the first chunk, and only then enters the key into the cache.
    ///
    /// # Errors
    /// Those of [`Opening::open`], and [`Error::Answer`] for a weir-made answer that is not one, or not
    /// whole.
    pub fn first<'a>(
        mut self,
        outbox: &mut Outbox,
        chunk: &'a mut [u8],
    ) -> Result<Response<'a>, Error> {
        let text = self.opening.open(chunk)?;
        outbox.enter(self.session, self.opening.line());
        match (self.weir_made, self.opening.is_ended()) {
            (false, _) => Ok(Response::Origin(self.opening, text)),
            (true, true) => Answer::from_bytes(text).map(Response::Weir),
            (true, false) => Err(Error::Answer),
        }
    }
}

#[cfg(test)]
mod tests;
