//! The inbound's side of messages, for one thread: opens requests, seals responses.
//!
//! It exists to hold what a thread may forget: opened tickets, receive keys, response senders. Nothing is
//! entered before a first chunk verified, so junk pushes nothing out; and what is cached is only work, not
//! authority: keys, peers and times are asked again on every message.

use std::rc::Rc;

use base::Now;

use crate::answer::Answer;
use crate::chunk::{Aad, Line, Opening, Piece, Sealing};
use crate::error::{Error, Refused};
use crate::head::{Head, Kind, REQUEST_BYTES, RETRY_OF_BYTES, TICKET_BYTES, part};
use crate::hint::Hint;
use crate::key::{Kid, PeerId, SenderId, Sid};
use crate::peers::Peers;
use crate::random::IdRandom;
use crate::schedule::{Secret, Way, way_secret};
use crate::sender::{Attempt, Moment, ResponseSender, Voice};
use crate::suite::Suite;
use crate::table::Table;
use crate::ticket::{Mode, TekRing, Ticket, tek_id};

/// Most sessions of which one thread keeps the opened ticket, and of which it keeps a response sender.
pub(crate) const SESSIONS_MAX: usize = 4_096;
/// Most senders of which one thread keeps the receive key.
pub(crate) const LINES_MAX: usize = 4_096;

/// What is true of an inbound now; asked on every message.
#[derive(Clone, Copy)]
pub struct Today<'a> {
    pub ring: &'a TekRing,
    /// The ids of our keys: [`crate::Responder::kids`].
    pub kids: &'a [Kid],
    pub peers: &'a dyn Peers,
}

/// A ticket that opened.
pub(crate) struct Seat {
    sealed: [u8; TICKET_BYTES],
    ticket: Ticket,
}

/// A receive key, with the ticket that it was made of.
struct Receiver {
    seat: Rc<Seat>,
    line: Rc<Line>,
}

/// Everything that one thread of an inbound keeps about sessions.
pub struct Inbox {
    seats: Table<Sid, Rc<Seat>>,
    receivers: Table<(Sid, SenderId), Receiver>,
    senders: Table<Sid, ResponseSender>,
}

/// A request whose ticket opened, and whose first chunk did not yet.
pub struct Incoming {
    seat: Rc<Seat>,
    opening: Opening,
    attempt: Attempt,
    is_retry: bool,
}

/// A request whose first chunk opened: who sealed it, and what it is called. Only [`Incoming::first`]
/// makes one:
///
/// ```compile_fail,E0451
/// fn forge(other: seal::Opened) -> seal::Opened {
///     seal::Opened { retry_of: None, ..other }
/// }
/// ```
pub struct Opened {
    seat: Rc<Seat>,
    attempt: Attempt,
    retry_of: Result<Option<Attempt>, Error>,
}

/// What the first chunk of a request yields.
pub struct Request<'a> {
    pub opened: Opened,
    /// Opens the chunks after it.
    pub opening: Opening,
    /// Its plaintext: Binary HTTP.
    pub text: &'a mut [u8],
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new(SESSIONS_MAX, LINES_MAX)
    }
}

impl Inbox {
    /// An empty one with these bounds.
    pub fn new(sessions_max: usize, lines_max: usize) -> Inbox {
        Inbox {
            seats: Table::new(sessions_max),
            receivers: Table::new(lines_max),
            senders: Table::new(sessions_max),
        }
    }

    /// Reads the 200 bytes before a request's first chunk and opens their ticket.
    ///
    /// # Errors
    /// 400 or 426 for another form, 409 for a ticket that does not open, or that today's keys, peers and
    /// time refuse.
    pub fn request(
        &mut self,
        head: &[u8; REQUEST_BYTES],
        today: Today<'_>,
        now: Now,
    ) -> Result<Incoming, Refused> {
        let Head { suite, flag, .. } =
            Head::read(part(head, 0), Kind::Request).map_err(Refused::form)?;
        let sid = Sid(part(head, 8));
        let attempt = Attempt {
            sender: SenderId(part(head, 24)),
            ctr: u64::from_be_bytes(part(head, 40)),
            ts_unix_ms: u64::from_be_bytes(part(head, 48)),
        };
        let seat = self.seat(suite, sid, &part(head, 56), today, now);
        let seat = seat.map_err(|error| Refused::new(Hint::UnknownTicket, error))?;
        let line = self.line(&seat, attempt.sender);
        Ok(Incoming {
            seat,
            opening: Opening::new(line, attempt.ctr, Aad::request(head)),
            attempt,
            is_retry: flag,
        })
    }

    /// The opened ticket: from the cache if all of it is the same, and else with the ticket key.
    fn seat(
        &mut self,
        suite: Suite,
        sid: Sid,
        sealed: &[u8; TICKET_BYTES],
        today: Today<'_>,
        now: Now,
    ) -> Result<Rc<Seat>, Error> {
        let known = self.seats.get(&sid).filter(|seat| seat.sealed == *sealed);
        let Some(seat) = known else {
            let head = (suite, sid);
            let ticket = Ticket::open(sealed, today.ring, head, today.kids, today.peers, now)?;
            let sealed = *sealed;
            return Ok(Rc::new(Seat { sealed, ticket }));
        };
        if seat.ticket.suite != suite {
            return Err(Error::TicketSession);
        }
        if !today.ring.opens(tek_id(sealed), now) {
            return Err(Error::TicketKey);
        }
        seat.ticket.check(today.kids, today.peers, now)?;
        Ok(Rc::clone(seat))
    }

    fn line(&mut self, seat: &Rc<Seat>, sender: SenderId) -> Rc<Line> {
        let known = self.receivers.get(&(seat.ticket.sid, sender));
        match known {
            Some(receiver) if Rc::ptr_eq(&receiver.seat, seat) => Rc::clone(&receiver.line),
            _ => {
                let way = seat.way(Way::Request);
                Rc::new(Line::new(&way, seat.ticket.suite, sender))
            }
        }
    }

    /// Enters what a verified chunk proved.
    fn enter(&mut self, seat: &Rc<Seat>, line: &Rc<Line>) {
        let sid = seat.ticket.sid;
        let same = |known: &mut Rc<Seat>| Rc::ptr_eq(known, seat);
        if !self.seats.get(&sid).is_some_and(same) {
            self.seats.put(sid, Rc::clone(seat));
        }
        let same = |known: &mut Receiver| Rc::ptr_eq(&known.line, line);
        if !self.receivers.get(&(sid, line.id)).is_some_and(same) {
            let receiver = Receiver {
                seat: Rc::clone(seat),
                line: Rc::clone(line),
            };
            self.receivers.put((sid, line.id), receiver);
        }
    }

    /// Begins a response with this thread's sender for the session; `id` is called for a new one.
    ///
    /// # Errors
    /// Those of [`ResponseSender::begin`], which a fresh sender does not give.
    pub fn respond(
        &mut self,
        to: &Opened,
        now: Moment,
        id: impl FnOnce() -> IdRandom,
        voice: Voice,
        out: &mut Vec<u8>,
    ) -> Result<Sealing, Error> {
        let usable = |sender: &&mut ResponseSender| sender.is_of(to) && !sender.is_spent(now);
        if self.senders.get(&to.sid()).filter(usable).is_none() {
            let sender = ResponseSender::new(to, &id(), now);
            self.senders.put(to.sid(), sender);
        }
        let sender = self.senders.get(&to.sid()).ok_or(Error::Session)?;
        sender.begin(now, to, voice, out)
    }

    /// Writes a whole answer of our own.
    ///
    /// # Errors
    /// As [`Inbox::respond`].
    pub fn answer(
        &mut self,
        to: &Opened,
        now: Moment,
        id: impl FnOnce() -> IdRandom,
        answer: Answer,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut sealing = self.respond(to, now, id, Voice::Weir, out)?;
        sealing.push(out, &answer.to_bytes(), Piece::Last)
    }

    /// Forgets the keys of sessions that have expired, and senders that are spent. To be called now and
    /// then, so that they do not outlive their time in an idle thread.
    pub fn sweep(&mut self, now: Moment) {
        let lives = |seat: &Rc<Seat>| now.now.unix_ms < seat.ticket.expires_unix_ms;
        self.senders.retain(|_, sender| !sender.is_spent(now));
        self.seats.retain(|_, seat| lives(seat));
        self.receivers.retain(|_, receiver| lives(&receiver.seat));
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.seats.len(), self.receivers.len(), self.senders.len()]
    }
}

impl Seat {
    /// Whether both are of one ticket: it may have been forgotten and opened again between them.
    pub(crate) fn is_same(&self, other: &Seat) -> bool {
        self.sealed == other.sealed
    }

    fn way(&self, way: Way) -> Secret {
        way_secret(&self.ticket.secret, self.ticket.suite, self.ticket.sid, way)
    }
}

impl Incoming {
    /// Opens the first chunk, and only then enters what was opened into the cache.
    ///
    /// # Errors
    /// 400 for a chunk of another form, 403 for one that does not verify.
    pub fn first<'a>(
        mut self,
        inbox: &mut Inbox,
        chunk: &'a mut [u8],
    ) -> Result<Request<'a>, Refused> {
        let opened = self.opening.open(chunk);
        let text = opened.map_err(|error| match error {
            Error::Open => Refused::new(Hint::OpenFailed, error),
            _ => Refused::form(error),
        })?;
        inbox.enter(&self.seat, self.opening.line());
        let (retry_of, text) = match self.is_retry {
            true => split_retry_of(text, self.attempt),
            false => (Ok(None), text),
        };
        let opened = Opened {
            seat: self.seat,
            attempt: self.attempt,
            retry_of,
        };
        Ok(Request {
            opened,
            opening: self.opening,
            text,
        })
    }
}

/// Takes the name of the first attempt from the beginning of a plaintext. It must be whole in the first
/// chunk, and name another message.
fn split_retry_of(text: &mut [u8], own: Attempt) -> (Result<Option<Attempt>, Error>, &mut [u8]) {
    match text.split_first_chunk_mut::<RETRY_OF_BYTES>() {
        None => (Err(Error::Field), &mut []),
        Some((name, rest)) => {
            let first = Attempt {
                sender: SenderId(part(name, 0)),
                ctr: u64::from_be_bytes(part(name, 16)),
                ts_unix_ms: u64::from_be_bytes(part(name, 24)),
            };
            let itself = (first.sender, first.ctr) == (own.sender, own.ctr);
            let first = if itself {
                Err(Error::Field)
            } else {
                Ok(Some(first))
            };
            (first, rest)
        }
    }
}

impl Opened {
    /// Who sealed it. What this peer may do is looked up, today, by this id.
    pub fn peer_id(&self) -> PeerId {
        self.seat.ticket.peer_id
    }

    /// Which of our keys the session was made with.
    pub fn kid(&self) -> Kid {
        self.seat.ticket.kid
    }

    pub fn sid(&self) -> Sid {
        self.seat.ticket.sid
    }

    pub fn suite(&self) -> Suite {
        self.seat.ticket.suite
    }

    /// What the session was promised about replays.
    pub fn mode(&self) -> Mode {
        self.seat.ticket.mode
    }

    /// When the session ends, in Unix milliseconds.
    pub fn expires_unix_ms(&self) -> u64 {
        self.seat.ticket.expires_unix_ms
    }

    /// The message's own name.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The name of the call's first attempt, if this is another.
    ///
    /// # Errors
    /// [`Error::Field`] if it claims to be another attempt and does not say of what, or of itself: the
    /// answer is a sealed [`crate::Code::Malformed`].
    pub fn retry_of(&self) -> Result<Option<Attempt>, Error> {
        self.retry_of
    }

    pub(crate) fn seat(&self) -> &Rc<Seat> {
        &self.seat
    }

    pub(crate) fn way(&self, way: Way) -> Secret {
        self.seat.way(way)
    }
}

#[cfg(test)]
mod tests;
