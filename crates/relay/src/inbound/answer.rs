//! The answer to a request, sealed: whole where all of it is here, piece by piece elsewhere, or in our own words.

use net::Lease;
use net::h1::{Error, Fields, Framing, ServerConnection, Stream};
use seal::bhttp::{Answering, Encoder, Fault, Length, Limits};
use seal::head::{CHUNK_EXTRA_BYTES, CHUNK_PLAIN_BYTES_MAX, RESPONSE_BYTES};
use seal::{Answer, Code, Opened, Piece, Sealing, Voice, padding_bytes};

use super::desk::Desk;
use super::reader::Bad;
use crate::outbound::sender_id;
use crate::outer;
use crate::refuse::theirs;

/// How long whoever is told that there is no room should wait, in milliseconds.
const OVERLOAD_MS: u32 = 200;

/// Why a request has no answer of its origin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// This is said instead, sealed.
    Code(Code),
    /// The outer connection broke.
    Outer(Error),
    /// The answer was begun and cannot be ended.
    Cut,
}

impl From<Bad> for Halt {
    fn from(bad: Bad) -> Halt {
        match bad {
            Bad::Outer(error) => Halt::Outer(error),
            // The origin saw nothing of it.
            Bad::Cut => Halt::Code(Code::NotReached),
            Bad::Malformed => Halt::Code(Code::Malformed),
        }
    }
}

/// What cannot go on once an answer was begun.
pub(super) fn cut<E>(_: E) -> Halt {
    Halt::Cut
}

impl Desk {
    /// Answers in our own words.
    pub(super) fn answer(
        &self,
        server: &mut ServerConnection<Stream>,
        opened: &Opened,
        code: Code,
    ) -> Result<(), Option<Error>> {
        self.count(code);
        let moment = self.moment();
        let answer = Answer {
            code,
            retry_after_ms: match code {
                Code::Overload => OVERLOAD_MS,
                _ => 0,
            },
            server_unix_ms: moment.now.unix_ms,
        };
        let total = RESPONSE_BYTES + CHUNK_EXTRA_BYTES + seal::answer::ANSWER_BYTES;
        let length = Framing::Length(total as u64);
        server.respond_as(&outer::ANSWER, length).map_err(Some)?;
        let mut inbox = self.inbox.borrow_mut();
        let sealed = server.body_with(|out| inbox.answer(opened, moment, sender_id, answer, out));
        sealed.map_err(Some)?.map_err(|_| None)?;
        server.end().map_err(Some)
    }

    fn count(&self, code: Code) {
        let counters = &self.counters;
        match code {
            Code::Claimed => &counters.claimed,
            Code::Stale => &counters.stale,
            Code::Draining => &counters.draining,
            Code::Overload => &counters.overload,
            Code::Malformed => &counters.malformed,
            Code::Refused => &counters.forbidden,
            Code::NotReached => &counters.not_reached,
            Code::Failed => &counters.failed,
            Code::Cut => &counters.cut_requests,
        }
        .one();
    }
}

/// An answer that is being sealed.
pub(super) struct Reply<'a> {
    pub(super) desk: &'a Desk,
    pub(super) opened: &'a Opened,
    pub(super) limits: Limits,
    pub(super) padding: bool,
    pub(super) is_head: bool,
    pub(super) head: &'a mut Vec<u8>,
    begun: Option<Begun>,
}

/// An answer that is sent piece by piece.
struct Begun {
    sealing: Sealing,
    answering: Option<Answering>,
    encoder: Option<Encoder>,
}

impl<'a> Reply<'a> {
    pub(super) fn new(
        desk: &'a Desk,
        opened: &'a Opened,
        limits: Limits,
        padding: bool,
        is_head: bool,
        head: &'a mut Vec<u8>,
    ) -> Reply<'a> {
        let begun = None;
        Reply {
            desk,
            opened,
            limits,
            padding,
            is_head,
            head,
            begun,
        }
    }

    pub(super) fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Seals an answer of which all is here: false if it does not fit one chunk, and nothing was done.
    pub(super) fn whole(
        &mut self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
    ) -> Result<bool, Halt> {
        let failed = |_: Fault| Halt::Code(Code::Failed);
        let bytes = wire.filled().len();
        let answer = wire.answered();
        let length = self.length(answer.status(), answer.length());
        self.head.clear();
        let answering = Encoder::response(self.head, &self.limits, Length::Whole(bytes as u64));
        let fields = theirs(answer.fields().passed_on());
        let encoder = answering.head(self.head, answer.status(), fields, length, self.is_head);
        let mut encoder = encoder.map_err(failed)?;
        // The 1 is the length of trailers that are not there.
        let plain = self.head.len() + bytes + 1;
        if plain > CHUNK_PLAIN_BYTES_MAX {
            return Ok(false);
        }
        let padding = match self.padding {
            true => padding_bytes(plain as u64) as usize,
            false => 0,
        };
        let total = RESPONSE_BYTES + CHUNK_EXTRA_BYTES + plain + padding;
        let framing = Framing::Length(total as u64);
        server
            .respond_as(&outer::ANSWER, framing)
            .map_err(Halt::Outer)?;
        let (body, moment) = (wire.filled(), self.desk.moment());
        let mut inbox = self.desk.inbox.borrow_mut();
        let sealed = server.body_with(|out| {
            out.reserve(total);
            let begun = inbox.respond(self.opened, moment, sender_id, Voice::Origin, out);
            let mut sealing = begun.map_err(cut)?;
            let at = sealing.begin_chunk(out);
            out.extend_from_slice(self.head);
            encoder.content(out, body).map_err(cut)?;
            encoder.finish(out, []).map_err(cut)?;
            out.resize(out.len() + padding, 0);
            sealing.end_chunk(out, at, Piece::Last).map_err(cut)
        });
        sealed.map_err(cut)??;
        server.end().map_err(cut)?;
        self.desk.counters.sealed_bytes.add(total as u64);
        Ok(true)
    }

    /// Seals an informational answer; the answer is sent piece by piece from here on.
    pub(super) fn interim(
        &mut self,
        server: &mut ServerConnection<Stream>,
        status: u16,
        fields: Fields<'_>,
    ) -> Result<(), Halt> {
        self.begin(server)?;
        self.head.clear();
        let begun = self.begun.as_mut().ok_or(Halt::Cut)?;
        if begun.answering.is_none() {
            begun.answering = Some(Encoder::response(self.head, &self.limits, Length::Stream));
        }
        let answering = begun.answering.as_mut().ok_or(Halt::Cut)?;
        let written = answering.interim(self.head, status, theirs(fields.passed_on()));
        written.map_err(cut)?;
        self.push_head(server)
    }

    /// Seals the head of an answer whose body follows piece by piece.
    pub(super) fn head(
        &mut self,
        server: &mut ServerConnection<Stream>,
        wire: &Lease,
    ) -> Result<(), Halt> {
        let answer = wire.answered();
        let length = match answer.framing() {
            Framing::Length(bytes) => Some(bytes),
            _ => self.length(answer.status(), answer.length()),
        };
        self.head.clear();
        let answering = self.begun.as_mut().and_then(|begun| begun.answering.take());
        let answering =
            answering.unwrap_or_else(|| Encoder::response(self.head, &self.limits, Length::Stream));
        let fields = theirs(answer.fields().passed_on());
        let encoder = answering.head(self.head, answer.status(), fields, length, self.is_head);
        // Before anything was sent this can still be said in our own words.
        let encoder = match (encoder, self.is_begun()) {
            (Ok(encoder), _) => encoder,
            (Err(_), true) => return Err(Halt::Cut),
            (Err(_), false) => return Err(Halt::Code(Code::Failed)),
        };
        self.begin(server)?;
        self.begun.as_mut().ok_or(Halt::Cut)?.encoder = Some(encoder);
        self.push_head(server)
    }

    /// Seals what is here of the origin's body; says whether that was the end.
    pub(super) fn piece(
        &mut self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
    ) -> Result<bool, Halt> {
        let Some(Begun {
            sealing, encoder, ..
        }) = &mut self.begun
        else {
            return Err(Halt::Cut);
        };
        let is_here = wire.is_body_here();
        let mut is_last = false;
        let sealed = server.body_with(|out| {
            let at = sealing.begin_chunk(out);
            let data = wire.filled();
            let bytes = data.len().min(outer::PIECE_BYTES_MAX);
            is_last = is_here && bytes == data.len();
            let content = encoder.as_mut().ok_or(Halt::Cut)?;
            content.content(out, &data[..bytes]).map_err(cut)?;
            wire.consume(bytes);
            self.desk.counters.sealed_bytes.add(bytes as u64);
            if !is_last {
                return sealing.end_chunk(out, at, Piece::More).map_err(cut);
            }
            let encoder = encoder.take().ok_or(Halt::Cut)?;
            encoder
                .finish(out, theirs(wire.trailers().passed_on()))
                .map_err(cut)?;
            sealing.end_chunk(out, at, Piece::Last).map_err(cut)
        });
        sealed.map_err(cut)??;
        if is_last {
            server.end().map_err(cut)?;
        }
        Ok(is_last)
    }

    /// Content-Length where it is not that of what follows.
    fn length(&self, status: u16, said: Option<u64>) -> Option<u64> {
        said.filter(|_| (self.is_head || status == 304) && status != 204)
    }

    /// Writes the outer head, and what stands before the first chunk.
    fn begin(&mut self, server: &mut ServerConnection<Stream>) -> Result<(), Halt> {
        if self.is_begun() {
            return Ok(());
        }
        let begun = server.respond(200, outer::STREAM_FIELDS, Framing::Chunked);
        begun.map_err(Halt::Outer)?;
        let moment = self.desk.moment();
        let mut inbox = self.desk.inbox.borrow_mut();
        let sealing = server
            .body_with(|out| inbox.respond(self.opened, moment, sender_id, Voice::Origin, out));
        self.begun = Some(Begun {
            sealing: sealing.map_err(cut)?.map_err(cut)?,
            answering: None,
            encoder: None,
        });
        Ok(())
    }

    fn push_head(&mut self, server: &mut ServerConnection<Stream>) -> Result<(), Halt> {
        let begun = self.begun.as_mut().ok_or(Halt::Cut)?;
        let sealed = server.body_with(|out| begun.sealing.push(out, self.head, Piece::More));
        sealed.map_err(cut)?.map_err(cut)
    }
}
