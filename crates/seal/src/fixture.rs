//! A pair of weirs for tests: the keys, times and random bytes of the known answers.

use std::collections::HashMap;
use std::sync::Arc;

use base::Now;

use crate::head::{INIT_BYTES, REPLY_BYTES};
use crate::{
    Attempt, Guard, Identity, Inbox, Incoming, JoinToken, Mode, Moment, Outbound, Outbox, Peer,
    PeerId, Pending, Piece, Psk, Random, RequestSender, Responder, Session, Suite, Tek, TekRing,
    Today, initiate,
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
        let next = self.next_pin.then(|| identity(0x30).public().pin());
        let guard = Arc::new(Guard::default());
        Responder::new(vec![identity(0)], &tokens, 1 << 30, next, guard).unwrap()
    }

    pub(crate) fn outbound(&self) -> Arc<Outbound> {
        Arc::new(Outbound {
            identity: Arc::new(identity(0x20)),
            inbound: identity(0).public().clone(),
            suite: self.suite,
            token: self.token(),
            psks: self.psk().into_iter().collect(),
        })
    }

    pub(crate) fn peers(&self) -> HashMap<PeerId, Peer> {
        HashMap::from([self.peer(0x20)])
    }

    pub(crate) fn peer(&self, from: u8) -> (PeerId, Peer) {
        let public = identity(from).public().clone();
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
    Tek::new(
        id,
        counting(0xe0_u8.wrapping_add(id as u8 - 7)),
        begins_unix_ms,
    )
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
        for (at, text) in chunks.iter().enumerate() {
            let piece = match at + 1 == chunks.len() {
                true => Piece::Last,
                false => Piece::More,
            };
            sealing.push(&mut out, text, piece).unwrap();
        }
        (attempt, out)
    }

    /// Opens the head of a request, in an inbox of its own.
    pub(crate) fn incoming(&self, message: &[u8], ms: u64) -> Result<Incoming, crate::Refused> {
        let head = message.first_chunk().unwrap();
        Inbox::default().request(head, self.today(), after(ms))
    }
}
