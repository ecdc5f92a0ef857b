//! A pair of weirs for tests: the keys, times and random bytes of the known answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use base::Now;

use crate::head::{INIT_BYTES, REPLY_BYTES};
use crate::{
    Answer, Attempt, ChunkHead, Error, Guard, Identity, Inbox, Incoming, JoinToken, Mode, Moment,
    Opened, Opening, Outbound, Outbox, Peer, PeerId, Pending, Piece, Psk, Public, Random, Refused,
    RequestSender, Responder, Response, ResponseSender, Sealing, Session, Suite, Tek, TekRing,
    Today, Voice, initiate,
};

pub(crate) const NOW: Now = Now {
    unix_ms: 1_700_000_000_000,
    mono_ms: 5_000_000,
};

/// So much later by both clocks.
pub(crate) fn after(ms: u64) -> Now {
    Now {
        unix_ms: NOW.unix_ms + ms,
        mono_ms: NOW.mono_ms + ms,
    }
}

pub(crate) fn moment(ms: u64) -> Moment {
    Moment {
        now: after(ms),
        generation: 1,
    }
}

/// Bytes that count up from one.
pub(crate) fn counting<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from.wrapping_add(at as u8))
}

pub(crate) fn identity(from: u8) -> Identity {
    Identity::from_seed(&counting(from))
}

/// Its public half, made once: a test asks for it many thousand times.
pub(crate) fn public(from: u8) -> Public {
    static MADE: Mutex<BTreeMap<u8, Public>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let public = made.entry(from);
    public
        .or_insert_with(|| identity(from).public().clone())
        .clone()
}

/// What differs from the plain case.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) suite: Suite,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) psk: Option<[u8; 32]>,
    pub(crate) mode: Mode,
    pub(crate) next_pin: bool,
}

impl Setup {
    pub(crate) fn new(suite: Suite) -> Setup {
        Setup {
            suite,
            token: None,
            psk: None,
            mode: Mode::Strict,
            next_pin: false,
        }
    }

    fn token(&self) -> Option<JoinToken> {
        self.token.as_ref().map(|t| JoinToken::new(t).unwrap())
    }

    fn psk(&self) -> Option<Psk> {
        self.psk.map(|psk| Psk::new(psk).unwrap())
    }

    pub(crate) fn responder(&self) -> Responder {
        let tokens: Vec<JoinToken> = self.token().into_iter().collect();
        let next = self.next_pin.then(|| public(0x30).pin());
        let guard = Arc::new(Guard::default());
        Responder::new(vec![identity(0)], &tokens, 1 << 30, next, guard).unwrap()
    }

    pub(crate) fn outbound(&self) -> Arc<Outbound> {
        Arc::new(Outbound {
            identity: Arc::new(identity(0x20)),
            inbound: public(0),
            suite: self.suite,
            token: self.token(),
            psks: self.psk().into_iter().collect(),
        })
    }

    pub(crate) fn peers(&self) -> HashMap<PeerId, Peer> {
        HashMap::from([self.peer(0x20)])
    }

    pub(crate) fn peer(&self, from: u8) -> (PeerId, Peer) {
        let public = public(from);
        let peer = Peer {
            psk: self.psk(),
            mode: self.mode,
            sessions_after_unix_ms: 0,
            public,
        };
        (peer.public.peer_id(), peer)
    }

    pub(crate) fn initiate(&self) -> Pending {
        initiate(self.outbound(), NOW, init_random()).unwrap()
    }
}

pub(crate) fn init_random() -> Random<96> {
    let mut bytes = [0; 96];
    bytes[..32].copy_from_slice(&counting::<32>(0x40));
    bytes[32..].copy_from_slice(&counting::<64>(0x80));
    Random::new(bytes)
}

pub(crate) fn reply_random() -> Random<156> {
    let mut bytes = [0; 156];
    bytes[..64].copy_from_slice(&counting::<64>(0xa0));
    bytes[64..128].copy_from_slice(&counting::<64>(0xc0));
    bytes[128..144].copy_from_slice(&counting::<16>(0x60));
    bytes[144..].copy_from_slice(&counting::<12>(0xd0));
    Random::new(bytes)
}

pub(crate) fn tek(id: u32, begins_unix_ms: u64) -> Tek {
    Tek::new(id, counting(0xd9_u8.wrapping_add(id as u8)), begins_unix_ms)
}

pub(crate) fn ring() -> TekRing {
    TekRing::new(vec![tek(7, NOW.unix_ms)]).unwrap()
}

/// Two weirs with a session between them.
pub(crate) struct Pair {
    pub(crate) responder: Responder,
    pub(crate) ring: TekRing,
    pub(crate) peers: HashMap<PeerId, Peer>,
    pub(crate) session: Arc<Session>,
    pub(crate) init: Box<[u8; INIT_BYTES]>,
    pub(crate) reply: Box<[u8; REPLY_BYTES]>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
}

impl Pair {
    pub(crate) fn new(setup: &Setup) -> Pair {
        let (responder, ring, peers) = (setup.responder(), ring(), setup.peers());
        let pending = setup.initiate();
        let init = Box::new(*pending.init());
        let reply = responder.answer(&init[..], NOW, reply_random, &ring, &peers);
        let reply = reply.unwrap();
        let session = Arc::new(pending.finish(&reply[..], NOW).unwrap());
        Pair {
            responder,
            ring,
            peers,
            session,
            init,
            reply,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
        }
    }

    pub(crate) fn today(&self) -> Today<'_> {
        Today {
            ring: &self.ring,
            kids: self.responder.kids(),
            peers: &self.peers,
        }
    }

    /// A sender S of the known answers, that counts on from here.
    pub(crate) fn sender(&self, ctr: u64) -> RequestSender {
        let id = Random::new(counting(0x10));
        let mut sender = RequestSender::new(Arc::clone(&self.session), &id, moment(0));
        sender.set_ctr(ctr);
        sender
    }

    /// A request of these chunks.
    pub(crate) fn request(
        &self,
        ctr: u64,
        ms: u64,
        retry_of: Option<Attempt>,
        chunks: &[&[u8]],
    ) -> (Attempt, Vec<u8>) {
        let mut out = Vec::new();
        let mut sender = self.sender(ctr);
        let (attempt, mut sealing) = sender.begin(moment(ms), retry_of, &mut out).unwrap();
        push_all(&mut sealing, chunks, &mut out);
        (attempt, out)
    }

    /// Reads the head of a request in an inbox of its own.
    pub(crate) fn incoming(&self, message: &[u8], ms: u64) -> Result<Incoming, Refused> {
        let head = message.first_chunk().unwrap();
        Inbox::default().request(head, self.today(), after(ms))
    }

    /// What a relay makes of a request that came as these bytes and then ended.
    pub(crate) fn receive(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let received = self.receive_in(&mut inbox, message);
        self.inbox = inbox;
        received
    }

    fn receive_in(&self, inbox: &mut Inbox, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let head = message.first_chunk().ok_or(Failure::Cut)?;
        let incoming = inbox.request(head, self.today(), after(1_000));
        let incoming = incoming.map_err(Failure::Refused)?;
        let mut rest = message[200..].to_vec();
        let mut chunk = next_chunk(&mut rest).map_err(|error| match error {
            Error::Cut => Failure::Cut,
            error => Failure::Refused(Refused::form(error)),
        })?;
        let first = incoming
            .first(inbox, &mut chunk)
            .map_err(Failure::Refused)?;
        let (mut text, mut opening) = (first.text.to_vec(), first.opening);
        read_on(&mut opening, rest, &mut text)?;
        Ok(text)
    }

    /// What a relay makes of a response to this request that came as these bytes and then ended.
    pub(crate) fn receive_response(
        &mut self,
        to: Attempt,
        message: &[u8],
    ) -> Result<Heard, Failure> {
        let head = message.first_chunk().ok_or(Failure::Cut)?;
        let answering = self.outbox.response(&self.session, to, head)?;
        let mut rest = message[32..].to_vec();
        let mut chunk = next_chunk(&mut rest)?;
        match answering.first(&mut self.outbox, &mut chunk)? {
            Response::Weir(_) if !rest.is_empty() => Err(Failure::Broken(Error::AfterFinal)),
            Response::Weir(answer) => Ok(Heard::Weir(answer)),
            Response::Origin(mut opening, text) => {
                let mut text = text.to_vec();
                read_on(&mut opening, rest, &mut text)?;
                Ok(Heard::Origin(text))
            }
        }
    }

    /// Opens a request of one chunk, and gives the proof.
    pub(crate) fn opened(&mut self, ctr: u64) -> Opened {
        let (_, mut message) = self.request(ctr, 1_000, None, &[b"x"]);
        let incoming = self.incoming(&message, 1_000).unwrap();
        let request = incoming.first(&mut self.inbox, &mut message[200..]);
        request.unwrap().opened
    }

    /// A response of R to an opened request.
    pub(crate) fn response(
        &self,
        to: &Opened,
        ctr: u64,
        voice: Voice,
        chunks: &[&[u8]],
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sender = ResponseSender::new(to, &Random::new(counting(0x30)), moment(1_000));
        sender.set_ctr(ctr);
        let mut sealing = sender.begin(moment(1_000), to, voice, &mut out).unwrap();
        push_all(&mut sealing, chunks, &mut out);
        out
    }
}

/// What a response said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Origin(Vec<u8>),
    Weir(Answer),
}

/// How a message that was not whole and ours fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It ended too soon.
    Cut,
    /// Before the first chunk opened.
    Refused(Refused),
    /// After it.
    Broken(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Cut => Failure::Cut,
            error => Failure::Broken(error),
        }
    }
}

/// Seals these texts as the chunks of a whole message.
pub(crate) fn push_all(sealing: &mut Sealing, chunks: &[&[u8]], out: &mut Vec<u8>) {
    for (at, text) in chunks.iter().enumerate() {
        let piece = match at + 1 == chunks.len() {
            true => Piece::Last,
            false => Piece::More,
        };
        sealing.push(out, text, piece).unwrap();
    }
}

/// Takes one chunk from the beginning of what came.
fn next_chunk(rest: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
    let head = rest.first_chunk().ok_or(Error::Cut)?;
    let head = ChunkHead::read(*head)?;
    let left = rest.split_off(rest.len().min(head.bytes));
    let chunk = std::mem::replace(rest, left);
    match chunk.len() == head.bytes {
        true => Ok(chunk),
        false => Err(Error::Cut),
    }
}

fn read_on(opening: &mut Opening, mut rest: Vec<u8>, text: &mut Vec<u8>) -> Result<(), Failure> {
    while !opening.is_ended() {
        let mut chunk = next_chunk(&mut rest)?;
        text.extend_from_slice(opening.open(&mut chunk)?);
    }
    opening.end()?;
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Failure::Broken(Error::AfterFinal)),
    }
}
