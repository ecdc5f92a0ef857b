//! The way to the origin and back: plain HTTP/1.1, streamed both ways.
//!
//! A body known to be at most a megabyte is verified whole before the origin sees a byte of it. A longer one goes on as
//! its chunks verify, and if it breaks off the origin's connection is closed. A request is sent again only where the
//! origin cannot have seen any of it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

use base::limit;
use gate::GrantedCall;
use net::h1::{Framing, ServerConnection, Stream};
use net::{Lease, SendError};
use seal::replay::Claimed;
use seal::session::STREAM_AFTER_MS;
use seal::{Code, Opened, Peers};

use super::answer::{Halt, Reply, cut};
use super::desk::{Current, Desk};
use super::exchange::flush;
use super::reader::{Bad, Part, Reader, Shared};
use crate::counters::Stages;
use crate::once::{NotOnce, Once};
use crate::outer::{self, GATHER_BYTES_MAX};

/// Room for a gathered body that a connection keeps, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// One request on its way.
pub(super) struct Leg<'a> {
    pub(super) desk: &'a Desk,
    pub(super) current: &'a Current,
    pub(super) opened: &'a Opened,
    pub(super) grant: &'a GrantedCall,
    pub(super) stages: &'a Stages,
    /// Where no other instance may have let it through, either.
    pub(super) once: Option<Once>,
    pub(super) head: &'a mut Vec<u8>,
    pub(super) body: &'a mut Vec<u8>,
}

/// Where a body is that was verified whole.
enum Body {
    /// In the connection's buffer.
    Here(Range<usize>),
    Gathered,
}

impl<'a> Leg<'a> {
    fn watch(&self) -> Watch<'a> {
        Watch {
            grant: self.grant,
            stages: self.stages,
            desk: self.desk,
            opened: self.opened,
        }
    }

    /// Carries a request that was let through to its origin, and the answer back.
    pub(super) async fn carry(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
        reader: &mut Reader<'_>,
        claimed: Claimed,
    ) -> Result<(), Halt> {
        // The proof is used up: whatever becomes of the request, it is not let through again.
        let _ = claimed;
        let done = match reader.decoder.length() {
            Some(bytes) if bytes <= GATHER_BYTES_MAX => {
                let body = self.gather(server, reader, bytes as usize).await?;
                self.whole(server, reader, body).await
            }
            _ => self.stream(server, reader).await,
        };
        if self.body.capacity() > KEPT_BYTES_MAX {
            *self.body = Vec::new();
        }
        done
    }

    /// Reads the request to its end.
    async fn gather(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
        reader: &mut Reader<'_>,
        bytes: usize,
    ) -> Result<Body, Halt> {
        self.body.clear();
        let mut here = 0..0;
        loop {
            match reader.next(server).await {
                Ok(Part::Content(place)) if place.len() == bytes && reader.is_here() => {
                    here = place
                }
                Ok(Part::Content(place)) => {
                    self.body
                        .extend_from_slice(&server.borrow_mut().filled()[place]);
                }
                Ok(Part::End) if here.len() == bytes => return Ok(Body::Here(here)),
                Ok(Part::End) => return Ok(Body::Gathered),
                Ok(Part::Head) => return Err(Halt::Code(Code::Malformed)),
                Err(bad) => return Err(bad.into()),
            }
        }
    }

    /// Sends a request whose body is at hand.
    async fn whole(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
        reader: &mut Reader<'_>,
        body: Body,
    ) -> Result<(), Halt> {
        let mut wire = self.first_wire().await?;
        self.write_whole(server, reader, &mut wire, &body)?;
        if wire.send().await.is_err() && wire.written() == 0 && !wire.is_fresh() {
            wire = self.wire(true).await?;
            self.write_whole(server, reader, &mut wire, &body)?;
            if wire.send().await.is_err() && wire.written() == 0 {
                return Err(Halt::Code(Code::NotReached));
            }
        }
        // It is not sent again from here on, and the answer may take its time.
        server.borrow_mut().forget_request();
        let wire = RefCell::new(&mut wire);
        self.down(server, &wire, self.is_head(reader), false).await
    }

    fn write_whole(
        &self,
        server: &Shared<'_, ServerConnection<Stream>>,
        reader: &Reader<'_>,
        wire: &mut Lease,
        body: &Body,
    ) -> Result<(), Halt> {
        let mut server = server.borrow_mut();
        let body: &[u8] = match body {
            Body::Here(place) => &server.filled()[place.clone()],
            Body::Gathered => self.body,
        };
        let framing = match body.len() {
            0 => Framing::None,
            bytes => Framing::Length(bytes as u64),
        };
        self.write_head(reader, wire, framing, false)?;
        let malformed = |_| Halt::Code(Code::Malformed);
        wire.body_with(|out| out.extend_from_slice(body))
            .map_err(malformed)?;
        wire.end().map_err(malformed)?;
        self.grant.count_bytes(body.len() as u64);
        Ok(())
    }

    /// Writes the head of the request; what HTTP/1.1 cannot say is refused.
    fn write_head(
        &self,
        reader: &Reader<'_>,
        wire: &mut Lease,
        framing: Framing,
        may_expect: bool,
    ) -> Result<(), Halt> {
        let malformed = Halt::Code(Code::Malformed);
        let line = reader.decoder.request().ok_or(malformed)?;
        let fields = reader.decoder.fields().passed_on();
        let fields = fields.filter(|(name, _)| may_expect || *name != b"expect");
        let written = wire.request(line.method, line.path, line.authority, fields, framing);
        written.map_err(|_| malformed)
    }

    fn is_head(&self, reader: &Reader<'_>) -> bool {
        let line = reader.decoder.request();
        line.is_some_and(|line| line.method == b"HEAD")
    }

    /// A connection to the origin for a request of which nothing was sent: claimed in the store of all instances, where
    /// that has to be, while the origin is dialled. It is sent only if the claim was fresh.
    async fn first_wire(&self) -> Result<Lease, Halt> {
        let Some(once) = &self.once else {
            return self.wire(false).await;
        };
        let claim = once.claim(|| self.desk.now());
        let (wire, claimed) = tokio::join!(self.wire(false), claim);
        let counters = &self.desk.counters;
        match claimed {
            Ok(()) => counters.claims_fresh.one(),
            Err(NotOnce::Taken) => {
                counters.claims_taken.one();
                return Err(Halt::Code(Code::Claimed));
            }
            Err(NotOnce::Unknown) => {
                counters.claims_unknown.one();
                return Err(Halt::Code(Code::Claimed));
            }
            Err(NotOnce::Stale) => return Err(Halt::Code(Code::Stale)),
        }
        wire
    }

    /// A connection to the origin.
    async fn wire(&self, fresh: bool) -> Result<Lease, Halt> {
        let permit = self.grant.permit();
        let upstreams = &self.desk.upstreams;
        let wire = match fresh {
            false => upstreams.take(permit, limit::DIAL_MS_MAX).await,
            true => upstreams.dial(permit, limit::DIAL_MS_MAX).await,
        };
        wire.map_err(|error| match error {
            SendError::Refused(_) => Halt::Code(Code::Refused),
            _ => Halt::Code(Code::NotReached),
        })
    }

    /// Sends a request piece by piece, while its answer may already come.
    async fn stream(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
        reader: &mut Reader<'_>,
    ) -> Result<(), Halt> {
        let framing = match reader.decoder.length() {
            Some(bytes) => Framing::Length(bytes),
            None => Framing::Chunked,
        };
        let mut expects = reader.decoder.fields();
        let expects = expects.any(|(name, _)| name == b"expect");
        let is_head = self.is_head(reader);
        let mut wire = self.first_wire().await?;
        self.write_head(reader, &mut wire, framing, true)?;
        if wire.flush().await.is_err() && wire.written() == 0 && !wire.is_fresh() {
            wire = self.wire(true).await?;
            self.write_head(reader, &mut wire, framing, true)?;
        }
        let (wire, grant) = (RefCell::new(&mut wire), self.grant);
        let watch = self.watch();
        let mut up = pin!(up(server, &wire, reader, grant, &watch));
        let mut down = pin!(self.down(server, &wire, is_head, expects));
        let mut going_up = true;
        poll_fn(|context| {
            if let Poll::Ready(done) = down.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            if going_up && let Poll::Ready(sent) = up.as_mut().poll(context) {
                going_up = false;
                match sent {
                    // The origin may have answered before it stopped to listen.
                    Ok(()) | Err(Stopped::Origin) => {}
                    Err(Stopped::Peer(Bad::Outer(error))) => {
                        return Poll::Ready(Err(Halt::Outer(error)));
                    }
                    Err(Stopped::Peer(Bad::Cut | Bad::Malformed)) => {
                        return Poll::Ready(Err(Halt::Code(Code::Cut)));
                    }
                }
                return down.as_mut().poll(context);
            }
            Poll::Pending
        })
        .await
    }

    /// The answer of the origin, sealed as it comes.
    async fn down(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
        wire: &Shared<'_, Lease>,
        is_head: bool,
        expects: bool,
    ) -> Result<(), Halt> {
        let live = &self.current.live;
        let limits = outer::limits(live.content_bytes_max);
        let (desk, opened, watch) = (self.desk, self.opened, self.watch());
        let mut reply = Reply::new(desk, opened, limits, live.padding, is_head, self.head);
        let done = self::down(server, wire, &mut reply, expects, &watch).await;
        match done {
            // What was begun cannot be answered in other words.
            Err(Halt::Code(_)) if reply.is_begun() => Err(Halt::Cut),
            done => done,
        }
    }
}

/// Whether a stream may go on.
struct Watch<'a> {
    grant: &'a GrantedCall,
    stages: &'a Stages,
    desk: &'a Desk,
    opened: &'a Opened,
}

impl Watch<'_> {
    /// A peer that is no longer enrolled is cut, and so is what outlives its session by an hour.
    fn may_go_on(&self) -> bool {
        let current = self.desk.current();
        let enrolled = current.live.roll.peer(&self.opened.peer_id()).is_some();
        let until = self
            .opened
            .expires_unix_ms()
            .saturating_add(STREAM_AFTER_MS);
        enrolled && self.desk.now().unix_ms < until
    }
}

/// Why a request cannot go on.
enum Stopped {
    Peer(Bad),
    Origin,
}

/// The request's body, piece by piece.
async fn up(
    server: &Shared<'_, ServerConnection<Stream>>,
    wire: &Shared<'_, Lease>,
    reader: &mut Reader<'_>,
    grant: &GrantedCall,
    watch: &Watch<'_>,
) -> Result<(), Stopped> {
    loop {
        let part = reader.next(server).await.map_err(Stopped::Peer)?;
        if !watch.may_go_on() {
            return Err(Stopped::Peer(Bad::Cut));
        }
        let is_end = part == Part::End;
        {
            let (mut server, mut wire) = (server.borrow_mut(), wire.borrow_mut());
            match part {
                Part::Content(place) => {
                    grant.count_bytes(place.len() as u64);
                    let data: &[u8] = &server.filled()[place];
                    let written = wire.body_with(|out| out.extend_from_slice(data));
                    written.map_err(|_| Stopped::Origin)?;
                }
                Part::End => {
                    let trailers = reader.decoder.trailers().passed_on();
                    wire.end_with(trailers).map_err(|_| Stopped::Origin)?;
                }
                Part::Head => return Err(Stopped::Peer(Bad::Cut)),
            }
        }
        let flushed = poll_fn(|context| wire.borrow_mut().poll_flush(context)).await;
        flushed.map_err(|_| Stopped::Origin)?;
        if is_end {
            return Ok(());
        }
    }
}

async fn down(
    server: &Shared<'_, ServerConnection<Stream>>,
    wire: &Shared<'_, Lease>,
    reply: &mut Reply<'_>,
    expects: bool,
    watch: &Watch<'_>,
) -> Result<(), Halt> {
    let failed = |_| Halt::Code(Code::Failed);
    let framing = loop {
        let answered = poll_fn(|context| wire.borrow_mut().poll_answer(context)).await;
        answered.map_err(failed)?;
        {
            let wire = wire.borrow();
            let answer = wire.answered();
            if !answer.is_informational() {
                watch.stages.answered();
                break answer.framing();
            }
            // Whoever did not ask for 100 (Continue) need not hear of it.
            if answer.status() == 100 && !expects {
                continue;
            }
            reply.interim(&mut server.borrow_mut(), answer.status(), answer.fields())?;
        }
        flush(server).await?;
    };
    if let (Some(bytes), false) = (outer::whole(framing), reply.is_begun()) {
        let filled = poll_fn(|context| wire.borrow_mut().poll_fill(context, bytes)).await;
        filled.map_err(failed)?;
        if reply.whole(&mut server.borrow_mut(), &mut wire.borrow_mut())? {
            wire.borrow_mut().consume(bytes);
            watch.grant.count_bytes(bytes as u64);
            return flush(server).await;
        }
    }
    reply.head(&mut server.borrow_mut(), &wire.borrow())?;
    loop {
        poll_fn(|context| {
            let filled = wire.borrow_mut().poll_fill(context, 1);
            if filled.is_pending() && server.borrow().unflushed() > 0 {
                // What is sealed need not wait for what comes.
                let flushed = server.borrow_mut().poll_flush(context);
                if let Poll::Ready(Err(error)) = flushed {
                    return Poll::Ready(Err(Halt::Outer(error)));
                }
            }
            filled.map_err(cut)
        })
        .await?;
        if !watch.may_go_on() {
            return Err(Halt::Cut);
        }
        let here = wire.borrow_mut().filled().len();
        let is_last = reply.piece(&mut server.borrow_mut(), &mut wire.borrow_mut())?;
        let taken = here - wire.borrow_mut().filled().len();
        watch.grant.count_bytes(taken as u64);
        flush(server).await?;
        if is_last {
            return Ok(());
        }
    }
}
