//! One connection with an outbound, and each of its messages: handshakes, and requests that are opened, judged and
//! claimed before an origin is asked.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;

use base::{CallId, Now, Refusal, Resource, refusal};
use gate::{Call, GrantedCall};
use identity::Credential;
use net::h1::{Error, Framing, PeerAddress, ServerConnection, Stream};
use seal::bhttp::{Decoder, Reading};
use seal::head::{CHUNK_HEAD_BYTES, HEAD_BYTES, INIT_BYTES, Kind, REQUEST_BYTES, TAG_BYTES};
use seal::replay::{Claim, Claimed};
use seal::{ChunkHead, Code, Hint, Mode, Opened, Refused, Request};

use super::answer::Halt;
use super::desk::{Current, Desk};
use super::keys;
use super::reader::{Bad, Part, Reader, Shared, fill};
use crate::actions::PASS;
use crate::connection;
use crate::counters::Stages;
use crate::grants::{Asking, Caller};
use crate::once::Once;
use crate::outbound::{address, path_of};
use crate::plain::is_safe;
use crate::routes::Way;
use crate::{outer, random};

/// What a connection reuses from message to message.
pub(super) struct Tools {
    decoder: Decoder,
    /// The head of the answer as it is sealed.
    pub(super) head: Vec<u8>,
    /// A body of several chunks that is verified whole.
    pub(super) body: Vec<u8>,
}

/// Why a message was not opened.
enum Closed {
    Hint(Refused),
    Outer(Error),
}

/// Serves one connection to its end.
pub(super) async fn connection(
    desk: Rc<Desk>,
    server: ServerConnection<Stream>,
    peer: PeerAddress,
) {
    let limits = outer::limits(desk.current().live.content_bytes_max);
    let mut tools = Tools {
        decoder: Decoder::new(limits, Reading::Request),
        head: Vec::new(),
        body: Vec::new(),
    };
    connection::serve(server, async |server| {
        desk.exchange(server, peer, &mut tools).await
    })
    .await;
}

impl Desk {
    /// Answers one request of the outer connection. An error ends it; with one, an answer is owed if it has a status.
    async fn exchange(
        &self,
        server: &mut ServerConnection<Stream>,
        peer: PeerAddress,
        tools: &mut Tools,
    ) -> Result<(), Option<Error>> {
        if self.shared.is_draining() {
            server.close_after();
        }
        let request = server.request();
        let path = path_of(request.target());
        match request.method() {
            b"POST" if path.ends_with(outer::PATH) => self.message(server, peer, tools).await,
            b"GET" | b"HEAD" => self.public(server),
            _ => answer(server, 404, b""),
        }
    }

    /// What anyone may ask.
    fn public(&self, server: &mut ServerConnection<Stream>) -> Result<(), Option<Error>> {
        match path_of(server.request().target()) {
            path if path.ends_with(outer::KEYS_PATH) => {
                let current = self.current();
                let publics = current.live.responder.iter().flat_map(|r| r.publics());
                answer(server, 200, &keys::list(publics))
            }
            b"/health/live" => answer(server, 200, b"{\"live\":true}"),
            b"/health/ready" => match self.shared.is_ready() {
                true => answer(server, 200, b"{\"ready\":true}"),
                false => answer(server, 503, b"{\"ready\":false}"),
            },
            _ => answer(server, 404, b""),
        }
    }

    async fn message(
        &self,
        server: &mut ServerConnection<Stream>,
        peer: PeerAddress,
        tools: &mut Tools,
    ) -> Result<(), Option<Error>> {
        let current = self.current();
        let kind = server.fill(HEAD_BYTES).await.map_err(Some)?.get(1).copied();
        if kind == Some(Kind::Init as u8) {
            return self.handshake(&current, server).await;
        }
        self.counters.requests.one();
        let (now, stages) = (self.now(), Stages::begin(&self.counters));
        let Tools {
            decoder,
            head,
            body,
        } = tools;
        let server = RefCell::new(server);
        let (opened, mut reader) = match self.open(&current, &server, decoder, now).await {
            Ok(opened) => opened,
            Err(Closed::Outer(error)) => return Err(Some(error)),
            Err(Closed::Hint(refused)) => return self.hint(&mut server.borrow_mut(), refused),
        };
        let judged = match self.shared.is_drained(now) {
            true => Err(Halt::Code(Code::Draining)),
            false => {
                self.judge(&current, &server, peer, &opened, &mut reader)
                    .await
            }
        };
        let done = match judged {
            Ok((grant, claimed, once)) => {
                self.counters.passages.one();
                stages.sent();
                let mut leg = super::origin::Leg {
                    desk: self,
                    current: &current,
                    opened: &opened,
                    grant: &grant,
                    stages: &stages,
                    once,
                    head,
                    body,
                };
                leg.carry(&server, &mut reader, claimed).await
            }
            Err(halt) => Err(halt),
        };
        match done {
            Ok(()) => {
                self.counters.completed.one();
                stages.end(&self.counters);
                Ok(())
            }
            Err(Halt::Code(code)) => self.answer(&mut server.borrow_mut(), &opened, code),
            Err(Halt::Outer(error)) => Err(Some(error)),
            Err(Halt::Cut) => {
                self.counters.cut.one();
                Err(None)
            }
        }
    }

    async fn handshake(
        &self,
        current: &Current,
        server: &mut ServerConnection<Stream>,
    ) -> Result<(), Option<Error>> {
        // One byte more than there may be, so that a longer message is seen to be one.
        let init = server.fill(INIT_BYTES + 1).await.map_err(Some)?;
        let now = self.now();
        let made = match self.shared.lets_through(now) {
            true => {
                let ring = self.shared.teks.ring();
                let drawn = || random::draw().expect("the kernel's random source is seeded");
                let live = &current.live;
                let unknown = Refused {
                    hint: Hint::UnknownKid,
                    error: seal::Error::Kid,
                };
                let responder = live.responder.as_ref().ok_or(unknown);
                responder.and_then(|r| r.answer(init, now, drawn, &ring, &live.roll))
            }
            // A session that is begun now would only carry messages that are refused as stale.
            false => Err(Refused {
                hint: Hint::Overload,
                error: seal::Error::Budget,
            }),
        };
        match made {
            Ok(reply) => {
                self.counters.handshakes.one();
                let length = Framing::Length(reply.len() as u64);
                server.respond_as(&outer::ANSWER, length).map_err(Some)?;
                server
                    .body_with(|out| out.extend_from_slice(&reply[..]))
                    .map_err(Some)?;
                server.end().map_err(Some)
            }
            Err(refused) => {
                self.counters.handshakes_failed.one();
                self.shared.warn_refused(refused.error.message(), now);
                self.hint(server, refused)
            }
        }
    }

    /// Opens the ticket and the first chunk.
    async fn open<'d>(
        &self,
        current: &Current,
        server: &Shared<'_, ServerConnection<Stream>>,
        decoder: &'d mut Decoder,
        now: Now,
    ) -> Result<(Opened, Reader<'d>), Closed> {
        let short = |bad: Bad| match bad {
            Bad::Outer(error) => Closed::Outer(error),
            Bad::Cut | Bad::Malformed => Closed::Hint(Refused {
                hint: Hint::Malformed,
                error: seal::Error::Length,
            }),
        };
        fill(server, REQUEST_BYTES + CHUNK_HEAD_BYTES)
            .await
            .map_err(short)?;
        let (incoming, chunk) = {
            let mut server = server.borrow_mut();
            let data = server.filled();
            let (Some(head), Some(chunk)) = (
                data.first_chunk::<REQUEST_BYTES>(),
                data[REQUEST_BYTES..].first_chunk(),
            ) else {
                return Err(short(Bad::Cut));
            };
            let ring = self.shared.teks.ring();
            let live = &current.live;
            let kids = live.responder.as_ref().map_or(&[][..], |r| r.kids());
            let today = keys::today(&ring, kids, &live.roll);
            let mut inbox = self.inbox.borrow_mut();
            let incoming = inbox.request(head, today, now).map_err(Closed::Hint)?;
            let chunk = ChunkHead::read(*chunk).map_err(|error| {
                let hint = Hint::Malformed;
                Closed::Hint(Refused { hint, error })
            })?;
            (incoming, chunk)
        };
        let end = REQUEST_BYTES + chunk.bytes;
        fill(server, end).await.map_err(short)?;
        let mut server = server.borrow_mut();
        let bytes = &mut server.filled()[REQUEST_BYTES..end];
        let first = incoming.first(&mut self.inbox.borrow_mut(), bytes);
        let Request {
            opened,
            opening,
            text,
        } = first.map_err(Closed::Hint)?;
        self.counters.opened_bytes.add(text.len() as u64);
        let text = end - TAG_BYTES - text.len()..end - TAG_BYTES;
        decoder.begin(Reading::Request);
        Ok((opened, Reader::new(decoder, opening, text, end)))
    }

    /// Reads the head, asks the gate, and lets the request through once.
    async fn judge(
        &self,
        current: &Current,
        server: &Shared<'_, ServerConnection<Stream>>,
        peer: PeerAddress,
        opened: &Opened,
        reader: &mut Reader<'_>,
    ) -> Result<(GrantedCall, Claimed, Option<Once>), Halt> {
        let malformed = Halt::Code(Code::Malformed);
        let claim = Claim::of(opened).map_err(|refused| Halt::Code(refused.code()))?;
        if reader.next(server).await? != Part::Head {
            return Err(malformed);
        }
        let line = reader.decoder.request().ok_or(malformed)?;
        let live = &current.live;
        let Some(way) = live.routes.find(line.authority, line.path) else {
            return Err(self.no_route(peer).await);
        };
        let place = live.roll.place(&opened.peer_id());
        let place = place.ok_or(Halt::Code(Code::Refused))?;
        // Not that of the head: a chunk may have taken its time.
        let now = self.now();
        let (grant, claim_now) = match current.grants.kept((place, way), now) {
            Some(grant) => (grant, now),
            None => (self.grant(current, place, way, peer).await?, self.now()),
        };
        let is_safe = reader
            .decoder
            .request()
            .is_some_and(|line| is_safe(line.method));
        let once = match (opened.mode(), &self.shared.claims) {
            (Mode::Strict, Some(claims)) if !is_safe => {
                Some(Once::new(claims, opened.kid(), &claim))
            }
            (Mode::Strict, None) => return Err(Halt::Code(Code::Refused)),
            _ => None,
        };
        if let Some(once) = &once {
            self.may_claim(once, claim_now)?;
        }
        let claimed = self
            .shared
            .replay
            .claim(&claim, claim_now)
            .map_err(|refused| {
                self.counters
                    .replays
                    .add(u64::from(refused.code() == Code::Claimed));
                Halt::Code(refused.code())
            })?;
        Ok((grant, claimed, once))
    }

    /// Refuses a call that the store of all instances cannot be asked for, before anything of it is claimed.
    fn may_claim(&self, once: &Once, now: Now) -> Result<(), Halt> {
        let claims = self.shared.claims.as_ref();
        if claims.is_none_or(|claims| claims.state().problem.is_some()) {
            self.counters.claims_unasked.one();
            return Err(Halt::Code(Code::Overload));
        }
        match once.is_good(now) {
            true => Ok(()),
            false => Err(Halt::Code(Code::Stale)),
        }
    }

    async fn grant(
        &self,
        current: &Current,
        place: usize,
        way: Way,
        peer: PeerAddress,
    ) -> Result<GrantedCall, Halt> {
        let granted = self.ask(current, place, way, peer).await;
        granted.map_err(|_| Halt::Code(Code::Refused))
    }

    /// Asks the gate for what the agent at this place may do.
    pub(super) async fn ask(
        &self,
        current: &Current,
        place: usize,
        way: Way,
        peer: PeerAddress,
    ) -> Result<GrantedCall, Refusal> {
        let live = &current.live;
        let (agent, credential) = match &live.trust {
            Some(trust) => trust.agent(place),
            None => live.roll.agent(place),
        };
        let Way::Plain(origin) = way else {
            let public = "an inbound has no peers to seal for";
            return Err(Refusal::new(refusal::RELAY_ROUTE, public));
        };
        let asking = Asking {
            caller: Some(Caller {
                agent,
                by: Credential::Peer,
                thumbprint: Some(*credential),
            }),
            peer: address(peer),
            method: "http",
            target: &live.origins[origin],
        };
        let granted = current
            .grants
            .get((place, way), asking, || self.now())
            .await;
        granted.inspect_err(|_| self.counters.refused.one())
    }

    /// Records that a request was for no route.
    async fn no_route(&self, peer: PeerAddress) -> Halt {
        let refusal = Refusal::new(refusal::RELAY_ROUTE, "no route is for this host and path");
        self.reject(peer, refusal).await;
        Halt::Code(Code::Refused)
    }

    /// Records and counts a refusal of this lane's own.
    pub(super) async fn reject(&self, peer: PeerAddress, refusal: Refusal) -> Refusal {
        let relay = base::Name::new("relay").expect("relay is a name");
        let resource = Resource::Route(relay);
        let id = random::call_id().unwrap_or(CallId([0; 16]));
        let call = Call::new(id, address(peer), &PASS, &resource, "http");
        self.counters.refused.one();
        self.shared.gate.reject(None, &call, refusal).await
    }

    /// Says in plain, and in one word, why a message was not opened.
    fn hint(
        &self,
        server: &mut ServerConnection<Stream>,
        refused: Refused,
    ) -> Result<(), Option<Error>> {
        match refused.hint {
            Hint::UnknownTicket if refused.error == seal::Error::TicketMode => {
                self.shared
                    .warn_refused(refused.error.message(), self.now());
                &self.counters.other_mode
            }
            Hint::UnknownTicket => &self.counters.unknown_ticket,
            Hint::OpenFailed => &self.counters.open_failed,
            Hint::UnknownKid => &self.counters.unknown_kid,
            _ => &self.counters.other_hints,
        }
        .one();
        tracing::debug!(target: "relay", why = %refused, "a message was not opened");
        answer(
            server,
            refused.hint.status(),
            refused.hint.name().as_bytes(),
        )
    }
}

/// A plain answer.
fn answer(
    server: &mut ServerConnection<Stream>,
    status: u16,
    body: &[u8],
) -> Result<(), Option<Error>> {
    let kind: &[u8] = match body.first() {
        Some(b'{') => b"application/json",
        _ => b"text/plain",
    };
    let fields = [
        (&b"content-type"[..], kind),
        (b"cache-control", b"no-store"),
    ];
    let length = Framing::Length(body.len() as u64);
    server.respond(status, fields, length).map_err(Some)?;
    if !server.request().is_head() {
        server
            .body_with(|out| out.extend_from_slice(body))
            .map_err(Some)?;
    }
    server.end().map_err(Some)
}

/// Writes out what is in the output.
pub(super) async fn flush(server: &Shared<'_, ServerConnection<Stream>>) -> Result<(), Halt> {
    let flushed = poll_fn(|context| server.borrow_mut().poll_flush(context)).await;
    flushed.map_err(Halt::Outer)
}
