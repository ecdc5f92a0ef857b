//! One attempt: the request goes up sealed, the answer comes down and is opened into the application's connection.
//!
//! A request that is at hand goes up as one chunk in one write. Any other goes up piece by piece while the answer may
//! already come down. Nothing of an answer is written before its tag has verified, and its end only after the final
//! chunk has: what breaks off is cut, and the connection with it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::{Now, Refusal, limit};
use gate::GrantedCall;
use net::h1::{self, Error, Framing, ServerConnection, Stream};
use net::{Lease, SendError};
use seal::bhttp::{Decoder, Encoder, Event, Length, Reading, Scheme, request_line};
use seal::head::{
    CHUNK_EXTRA_BYTES, CHUNK_HEAD_BYTES, CHUNK_PLAIN_BYTES_MAX, REQUEST_BYTES, RESPONSE_BYTES,
    RETRY_OF_BYTES,
};
use seal::{
    Advice, Attempt, ChunkHead, Moment, Opening, Piece, Response, Sealing, Session, padding_bytes,
};

use super::desk::{Desk, sender_id};
use super::exchange::{Ended, Job, Tools, refusal_of};
use super::kept::Kept;
use super::retry::{Call, Fate};
use crate::counters::Stages;
use crate::outer::{self, GATHER_BYTES_MAX};
use crate::refuse::theirs;

/// How long an application that expects 100 (Continue) is let wait for the origin's, in milliseconds.
const CONTINUE_MS: u64 = 1_000;

/// A request's connection and a peer's, which both directions use in turns.
type Shared<'a, T> = RefCell<&'a mut T>;

/// What an answer is read with.
struct Down<'a> {
    grant: &'a GrantedCall,
    stages: &'a Stages,
    session: &'a Arc<Session>,
    attempt: Attempt,
    sent: Now,
    /// Set once the origin asks for the body.
    go: &'a Cell<bool>,
    expects: bool,
    is_head: bool,
}

impl Desk {
    pub(super) async fn attempt(
        &self,
        server: &mut ServerConnection<Stream>,
        tools: &mut Tools,
        job: &Job<'_>,
        call: &mut Call,
        session: &Arc<Session>,
    ) -> Ended {
        let permit = job.grant.permit();
        let taken = match call.is_first() {
            true => self.upstreams.take(permit, limit::DIAL_MS_MAX).await,
            // A connection that was kept may be the reason why there is a second attempt.
            false => self.upstreams.dial(permit, limit::DIAL_MS_MAX).await,
        };
        let mut wire = match taken {
            Ok(wire) => wire,
            Err(SendError::Refused(refusal)) => return Ended::Refused(refusal),
            Err(_) => return Ended::Fate(Fate::Unsent),
        };
        let (encoder, is_whole) = match self.encode_head(server, tools, job, call, session) {
            Ok(encoded) => encoded,
            Err(refusal) => return Ended::Refused(refusal),
        };
        let request = server.request();
        let (is_head, expects) = (request.is_head(), expects_far(&request));
        let moment = self.moment();
        let sent = moment.now;
        let begun = match is_whole {
            true => self.write_whole(
                server, &mut wire, tools, job, call, session, encoder, moment,
            ),
            false => self.write_head(&mut wire, tools, job, call, session, encoder, moment),
        };
        let (attempt, stream) = match begun {
            Ok(begun) => begun,
            Err(error) => return Ended::App(error),
        };
        job.stages.sent();
        let go = Cell::new(false);
        let down = Down {
            grant: job.grant,
            stages: job.stages,
            session,
            attempt,
            sent,
            go: &go,
            expects,
            is_head,
        };
        match stream {
            None => {
                self.ask_whole(server, &mut wire, &mut tools.decoder, down)
                    .await
            }
            Some((encoder, sealing)) => {
                let up = Up {
                    encoder,
                    sealing,
                    expects,
                };
                let known = length(&server.request());
                if call.can_repeat && tools.kept.is_none() {
                    tools.kept = known.and_then(|bytes| self.room.keep(bytes));
                }
                // What is taken from the application and not kept is gone.
                call.can_repeat = tools.kept.is_some();
                self.ask_stream(server, &mut wire, tools, down, up).await
            }
        }
    }

    /// Writes the head of the request as Binary HTTP; says whether all of the message fits one chunk.
    fn encode_head(
        &self,
        server: &ServerConnection<Stream>,
        tools: &mut Tools,
        job: &Job<'_>,
        call: &Call,
        session: &Session,
    ) -> Result<(Encoder, bool), Refusal> {
        let request = server.request();
        let authority = Some(request.authority());
        let (method, target) = (request.method(), request.target());
        let line = request_line(method, target, authority, Scheme::Http).map_err(refusal_of)?;
        let fields = || {
            request
                .fields()
                .passed_on()
                .filter(|(name, _)| !(job.ours)(name))
        };
        let longest = job.content_bytes_max.min(session.longest_bytes());
        let limits = outer::limits(longest);
        tools.head.clear();
        if let Some(bytes) = job.whole {
            let length = Length::Whole(bytes as u64);
            let encoder = Encoder::request(&mut tools.head, &limits, &line, fields(), None, length);
            let encoder = encoder.map_err(refusal_of)?;
            let prefix = call.retry_of().map_or(0, |_| RETRY_OF_BYTES);
            if prefix + tools.head.len() + bytes < CHUNK_PLAIN_BYTES_MAX {
                return Ok((encoder, true));
            }
            tools.head.clear();
        }
        let known = length(&request);
        let expect = expects_far(&request).then_some((&b"expect"[..], &b"100-continue"[..]));
        let fields = fields().chain(expect);
        let encoder = Encoder::request(
            &mut tools.head,
            &limits,
            &line,
            fields,
            known,
            Length::Stream,
        );
        Ok((encoder.map_err(refusal_of)?, false))
    }

    /// Seals the whole message into the output.
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one message, each used once"
    )]
    fn write_whole(
        &self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
        tools: &Tools,
        job: &Job<'_>,
        call: &mut Call,
        session: &Arc<Session>,
        mut encoder: Encoder,
        moment: Moment,
    ) -> Result<(Attempt, Option<(Encoder, Sealing)>), Error> {
        let retry_of = call.retry_of();
        let body = server.filled();
        // The 1 is the length of trailers that are not there.
        let prefix = retry_of.map_or(0, |_| RETRY_OF_BYTES);
        let plain = prefix + tools.head.len() + body.len() + 1;
        let padding = match job.link.padding {
            true => padding_bytes(plain as u64) as usize,
            false => 0,
        };
        let total = REQUEST_BYTES + CHUNK_EXTRA_BYTES + plain + padding;
        let length = Framing::Length(total as u64);
        wire.request_as(&job.link.post, length)?;
        let attempt = wire.body_with(|out| {
            out.reserve(total);
            let mut outbox = self.outbox.borrow_mut();
            let begun = outbox.request(session, moment, sender_id, retry_of, out);
            let (attempt, mut sealing) = begun.map_err(|_| NEVER_SEALED)?;
            let at = sealing.begin_chunk(out);
            out.extend_from_slice(&tools.head);
            encoder.content(out, body).map_err(|_| NEVER_SEALED)?;
            encoder.finish(out, []).map_err(|_| NEVER_SEALED)?;
            out.resize(out.len() + padding, 0);
            let sealed = sealing.end_chunk(out, at, Piece::Last);
            sealed.map_err(|_| NEVER_SEALED)?;
            Ok::<_, Error>(attempt)
        })??;
        wire.end()?;
        self.counters.sealed_bytes.add(total as u64);
        job.grant.count_bytes(total as u64);
        call.sealed(attempt, moment.now.mono_ms);
        Ok((attempt, None))
    }

    /// Seals the head alone into the output, as the first chunk of a stream.
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one message, each used once"
    )]
    fn write_head(
        &self,
        wire: &mut Lease,
        tools: &Tools,
        job: &Job<'_>,
        call: &mut Call,
        session: &Arc<Session>,
        encoder: Encoder,
        moment: Moment,
    ) -> Result<(Attempt, Option<(Encoder, Sealing)>), Error> {
        wire.request_as(&job.link.post, Framing::Chunked)?;
        let retry_of = call.retry_of();
        let (attempt, sealing) = wire.body_with(|out| {
            let mut outbox = self.outbox.borrow_mut();
            let begun = outbox.request(session, moment, sender_id, retry_of, out);
            let (attempt, mut sealing) = begun.map_err(|_| NEVER_SEALED)?;
            let sealed = sealing.push(out, &tools.head, Piece::More);
            sealed.map_err(|_| NEVER_SEALED)?;
            Ok::<_, Error>((attempt, sealing))
        })??;
        call.sealed(attempt, moment.now.mono_ms);
        Ok((attempt, Some((encoder, sealing))))
    }

    /// Sends a request that is in the output, and passes the answer on.
    async fn ask_whole(
        &self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
        decoder: &mut Decoder,
        down: Down<'_>,
    ) -> Ended {
        // A peer that refuses may have said so before it closed its side.
        if wire.send().await.is_err() && wire.written() == 0 {
            return Ended::Fate(Fate::Unsent);
        }
        let (server, wire) = (RefCell::new(server), RefCell::new(wire));
        self.down(&server, &wire, decoder, down).await
    }

    /// Sends a request piece by piece, and passes the answer on as it comes.
    async fn ask_stream(
        &self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
        tools: &mut Tools,
        down: Down<'_>,
        up: Up,
    ) -> Ended {
        let (go, grant) = (down.go, down.grant);
        let Tools { decoder, kept, .. } = tools;
        let (server, wire) = (RefCell::new(server), RefCell::new(wire));
        let mut up = pin!(self.up(&server, &wire, up, kept, go, grant));
        let mut down = pin!(self.down(&server, &wire, decoder, down));
        let mut going_up = true;
        let ended = poll_fn(|context| {
            if let Poll::Ready(ended) = down.as_mut().poll(context) {
                return Poll::Ready(ended);
            }
            if going_up {
                match up.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => going_up = false,
                    Poll::Ready(Err(Broken::App(error))) => return Poll::Ready(Ended::App(error)),
                    // The peer may have answered before it stopped to listen.
                    Poll::Ready(Err(Broken::Peer)) => going_up = false,
                }
                // What is over on the way up may be what the way down waits for.
                return down.as_mut().poll(context);
            }
            Poll::Pending
        })
        .await;
        let unsent = wire.borrow().written() == 0;
        match ended {
            Ended::Fate(Fate::Lost) if unsent => Ended::Fate(Fate::Unsent),
            ended => ended,
        }
    }

    /// The body, piece by piece, each sealed as it comes.
    async fn up(
        &self,
        server: &Shared<'_, ServerConnection<Stream>>,
        wire: &Shared<'_, Lease>,
        up: Up,
        kept: &mut Option<Kept>,
        go: &Cell<bool>,
        grant: &GrantedCall,
    ) -> Result<(), Broken> {
        let Up {
            encoder,
            mut sealing,
            expects,
        } = up;
        let mut encoder = Some(encoder);
        if let Some(kept) = kept {
            kept.again();
        }
        if expects {
            flush(wire).await?;
            let asked = poll_fn(|_| {
                if go.get() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            // Whether it was asked for or the time is over: the body is taken now.
            let _ = tokio::time::timeout(Duration::from_millis(CONTINUE_MS), asked).await;
        }
        while encoder.is_some() {
            poll_fn(|context| {
                if kept.as_ref().is_some_and(|kept| !kept.rest().is_empty()) {
                    return Poll::Ready(Ok(()));
                }
                let filled = server.borrow_mut().poll_fill(context, 1);
                if filled.is_pending() && wire.borrow().unflushed() > 0 {
                    // What is written need not wait for what comes.
                    let flushed = wire.borrow_mut().poll_flush(context);
                    if let Poll::Ready(Err(_)) = flushed {
                        return Poll::Ready(Err(Broken::Peer));
                    }
                }
                filled.map_err(Broken::App)
            })
            .await?;
            self.seal_piece(
                &mut server.borrow_mut(),
                &mut wire.borrow_mut(),
                kept,
                &mut encoder,
                &mut sealing,
                grant,
            )?;
            flush(wire).await?;
        }
        Ok(())
    }

    /// Seals what is here of the body as one chunk, the last one if that is all.
    fn seal_piece(
        &self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
        kept: &mut Option<Kept>,
        encoder: &mut Option<Encoder>,
        sealing: &mut Sealing,
        grant: &GrantedCall,
    ) -> Result<(), Broken> {
        let is_here = server.is_body_here();
        let sealed = wire.body_with(|out| {
            let at = sealing.begin_chunk(out);
            let here = server.filled();
            // What came before the last attempt ended goes first.
            let again = kept.as_ref().map_or(&[][..], Kept::rest);
            let data = if again.is_empty() { &*here } else { again };
            let bytes = data.len().min(outer::PIECE_BYTES_MAX);
            let is_all = bytes == data.len() && (again.is_empty() || here.is_empty());
            let is_last = is_here && is_all;
            if let Some(encoder) = encoder {
                encoder.content(out, &data[..bytes]).map_err(|_| ())?;
            }
            let is_again = !again.is_empty();
            match kept {
                Some(kept) if is_again => kept.sent(bytes),
                Some(kept) => kept.add(&here[..bytes]),
                None => {}
            }
            if !is_again {
                server.consume(bytes);
            }
            let piece = match is_last {
                true => Piece::Last,
                false => Piece::More,
            };
            if is_last && let Some(encoder) = encoder.take() {
                let trailers = server.trailers();
                let finished = encoder.finish(out, trailers.passed_on());
                finished.map_err(|_| ())?;
            }
            let sealed = sealing.end_chunk(out, at, piece);
            self.counters.sealed_bytes.add(bytes as u64);
            grant.count_bytes(bytes as u64);
            sealed.map_err(|_| ())
        });
        match sealed {
            Ok(Ok(())) => {}
            // Content that is longer or shorter than it said, or trailers that cannot be passed on.
            Ok(Err(())) => return Err(Broken::App(Error::Cut)),
            Err(_) => return Err(Broken::Peer),
        }
        if encoder.is_none() {
            wire.end().map_err(|_| Broken::Peer)?;
        }
        Ok(())
    }

    /// The answer: opened chunk by chunk into the application's connection.
    async fn down(
        &self,
        server: &Shared<'_, ServerConnection<Stream>>,
        wire: &Shared<'_, Lease>,
        decoder: &mut Decoder,
        down: Down<'_>,
    ) -> Ended {
        let lost = Ended::Fate(Fate::Lost);
        loop {
            if poll_fn(|context| wire.borrow_mut().poll_answer(context))
                .await
                .is_err()
            {
                return lost;
            }
            if !wire.borrow().answered().is_informational() {
                break;
            }
        }
        match wire.borrow().answered().status() {
            200 => {}
            status => return Ended::Fate(Fate::Plain(Advice::after(status))),
        }
        let Some(chunk) = next_chunk(wire, RESPONSE_BYTES).await else {
            return lost;
        };
        down.stages.answered();
        decoder.begin(match down.is_head {
            true => Reading::ResponseToHead,
            false => Reading::Response,
        });
        let mut passing = Passing {
            decoder,
            down,
            is_begun: false,
        };
        let first = self.first(
            &mut server.borrow_mut(),
            &mut wire.borrow_mut(),
            chunk,
            &mut passing,
        );
        let mut opening = match first {
            Ok(opening) => opening,
            Err(ended) => return ended,
        };
        while !opening.is_ended() {
            if let Err(error) = poll_fn(|context| server.borrow_mut().poll_flush(context)).await {
                return Ended::App(error);
            }
            let Some(chunk) = next_chunk(wire, 0).await else {
                return passing.broken();
            };
            let (mut server, mut wire) = (server.borrow_mut(), wire.borrow_mut());
            let opened = opening.open(&mut wire.filled()[..chunk]);
            let passed = match opened {
                Ok(text) => {
                    self.counters.opened_bytes.add(text.len() as u64);
                    passing.down.grant.count_bytes(text.len() as u64);
                    passing.pass(&mut server, text)
                }
                Err(_) => Err(passing.broken()),
            };
            if let Err(ended) = passed {
                return ended;
            }
            wire.consume(chunk);
        }
        if let Err(ended) = passing.end(&mut server.borrow_mut()) {
            return ended;
        }
        if let Err(error) = poll_fn(|context| server.borrow_mut().poll_flush(context)).await {
            return Ended::App(error);
        }
        // The end of the outer message, if it is here, lets the connection be used again.
        poll_fn(|context| {
            let mut wire = wire.borrow_mut();
            let _ = wire.poll_fill(context, 1);
            if !wire.filled().is_empty() {
                // Nothing is read behind the final chunk, and what put it there may put more.
                wire.close_after();
            }
            Poll::Ready(())
        })
        .await;
        Ended::Done
    }

    /// The first chunk of an answer, which says who speaks.
    fn first(
        &self,
        server: &mut ServerConnection<Stream>,
        wire: &mut Lease,
        chunk: usize,
        passing: &mut Passing<'_>,
    ) -> Result<Opening, Ended> {
        let lost = || Ended::Fate(Fate::Lost);
        let Down {
            session,
            attempt,
            sent,
            ..
        } = passing.down;
        let bytes = RESPONSE_BYTES + chunk;
        let message = &mut wire.filled()[..bytes];
        let (head, chunk) = message.split_first_chunk_mut().ok_or_else(lost)?;
        let mut outbox = self.outbox.borrow_mut();
        let answering = outbox
            .response(session, attempt, head)
            .map_err(|_| lost())?;
        let opening = match answering.first(&mut outbox, chunk).map_err(|_| lost())? {
            Response::Weir(answer) => {
                session.set_clock(answer.server_unix_ms, sent, self.now());
                wire.consume(bytes);
                return Err(Ended::Fate(Fate::Weir(answer)));
            }
            Response::Origin(opening, text) => {
                self.counters.opened_bytes.add(text.len() as u64);
                passing.down.grant.count_bytes(text.len() as u64);
                passing.pass(server, text)?;
                opening
            }
        };
        wire.consume(bytes);
        Ok(opening)
    }
}

/// What is left of a request that goes up piece by piece.
struct Up {
    encoder: Encoder,
    sealing: Sealing,
    expects: bool,
}

/// Why a request cannot go on.
enum Broken {
    App(Error),
    Peer,
}

/// An answer that is being passed on.
struct Passing<'a> {
    decoder: &'a mut Decoder,
    down: Down<'a>,
    /// Whether the application has been given the head.
    is_begun: bool,
}

impl Passing<'_> {
    /// Writes what a chunk holds into the application's connection.
    fn pass(&mut self, server: &mut ServerConnection<Stream>, text: &[u8]) -> Result<(), Ended> {
        let mut input = text;
        loop {
            let Ok(event) = self.decoder.read(&mut input) else {
                return Err(self.broken());
            };
            let written = match event {
                Event::More => return Ok(()),
                Event::Interim => self.interim(server),
                Event::Head => self.head(server),
                Event::Content(piece) => server.body_with(|out| out.extend_from_slice(piece)),
                Event::Done => Ok(()),
            };
            if written.is_err() {
                return Err(self.broken());
            }
        }
    }

    fn interim(&mut self, server: &mut ServerConnection<Stream>) -> Result<(), Error> {
        let status = self.decoder.status().unwrap_or_default();
        if status == 100 {
            self.down.go.set(true);
            // Whoever did not ask is not told.
            if !self.down.expects {
                return Ok(());
            }
        }
        server.inform(status, theirs(self.decoder.fields().passed_on()))
    }

    fn head(&mut self, server: &mut ServerConnection<Stream>) -> Result<(), Error> {
        let status = self.decoder.status().unwrap_or_default();
        let is_empty = self.down.is_head || matches!(status, 204 | 304);
        let framing = match (
            is_empty,
            self.decoder.content_length(),
            self.decoder.length(),
        ) {
            (true, Some(bytes), _) if status != 204 => Framing::Length(bytes),
            (true, ..) => Framing::None,
            (false, _, Some(bytes)) => Framing::Length(bytes),
            (false, _, None) => Framing::Chunked,
        };
        server.respond(status, theirs(self.decoder.fields().passed_on()), framing)?;
        self.is_begun = true;
        Ok(())
    }

    /// Ends the answer, now that its final chunk has verified.
    fn end(&mut self, server: &mut ServerConnection<Stream>) -> Result<(), Ended> {
        if self.decoder.end().is_err() {
            return Err(self.broken());
        }
        let ended = server.end_with(theirs(self.decoder.trailers().passed_on()));
        ended.map_err(|_| self.broken())
    }

    /// What an answer that breaks off is: lost if the application saw none of it.
    fn broken(&self) -> Ended {
        match self.is_begun {
            true => Ended::Cut,
            false => Ended::Fate(Fate::Lost),
        }
    }
}

/// The length of the body, where it is known.
fn length(request: &h1::RequestView<'_>) -> Option<u64> {
    match request.framing() {
        Framing::Length(bytes) => Some(bytes),
        _ => None,
    }
}

/// Whether the origin is asked before the body is taken. A body that the inbound verifies whole before the origin sees
/// any of it is taken at once, because whoever waits for the origin's word would wait for nothing.
fn expects_far(request: &h1::RequestView<'_>) -> bool {
    let gathered = matches!(request.framing(), Framing::Length(bytes) if bytes <= GATHER_BYTES_MAX);
    request.expects_continue() && !gathered
}

/// Waits for a whole chunk behind `before` bytes: its length with its head; nothing if there is none.
async fn next_chunk(wire: &Shared<'_, Lease>, before: usize) -> Option<usize> {
    let filled = async |bytes: usize| {
        let filled = poll_fn(|context| wire.borrow_mut().poll_fill(context, bytes)).await;
        (filled.is_ok() && wire.borrow_mut().filled().len() >= bytes).then_some(())
    };
    filled(before + CHUNK_HEAD_BYTES).await?;
    let head = *wire.borrow_mut().filled()[before..].first_chunk()?;
    let head = ChunkHead::read(head).ok()?;
    filled(before + head.bytes).await?;
    Some(head.bytes)
}

async fn flush(wire: &Shared<'_, Lease>) -> Result<(), Broken> {
    let flushed = poll_fn(|context| wire.borrow_mut().poll_flush(context)).await;
    flushed.map_err(|_| Broken::Peer)
}

/// A fresh sender seals, and what was counted before is what is written.
const NEVER_SEALED: Error = Error::Misuse("a message could not be sealed");
