//! The nonce audit: of all seals of a pair of weirs under evictions, restarts, clock steps and renewals, no two
//! have the same key and nonce.
//!
//! One test alone in its process, because the audit is of the whole process.

use std::collections::HashMap;
use std::sync::Arc;

use base::Now;
use seal::{
    Attempt, Guard, IdRandom, Identity, Inbox, Mode, Moment, Outbound, Outbox, Peer, PeerId, Piece,
    Random, Responder, Session, Suite, Tek, TekRing, Today, Voice, audit, initiate,
};

const SEALS_MIN: u64 = 1_000_000;
const SESSIONS: usize = 12;

/// Bytes that do not repeat: a counter, which is all that the audit needs of randomness.
struct Draw(u64);

impl Draw {
    fn random<const N: usize>(&mut self) -> Random<N> {
        self.0 += 1;
        let mut bytes = [0; N];
        for (byte, value) in bytes.iter_mut().zip(self.0.to_be_bytes().iter().cycle()) {
            *byte = *value;
        }
        Random::new(bytes)
    }

    fn id(&mut self) -> IdRandom {
        self.random()
    }
}

struct World {
    responder: Responder,
    ring: TekRing,
    peers: HashMap<PeerId, Peer>,
    outbound: Vec<Arc<Outbound>>,
    draw: Draw,
    now: Moment,
}

impl World {
    fn new() -> World {
        let (own, peer) = (
            Identity::from_seed(&[1; 32]),
            Arc::new(Identity::from_seed(&[2; 32])),
        );
        let outbound = |suite| {
            Arc::new(Outbound {
                identity: Arc::clone(&peer),
                inbound: own.public().clone(),
                suite,
                token: None,
                psks: Vec::new(),
            })
        };
        let outbound = Suite::ALL.map(outbound).to_vec();
        let entry = Peer {
            public: peer.public().clone(),
            psk: None,
            mode: Mode::Local,
            sessions_after_unix_ms: 0,
        };
        let unix_ms = 1_700_000_000_000;
        World {
            responder: Responder::new(vec![own], &[], 1 << 30, None, Arc::new(Guard::default()))
                .expect("one key"),
            ring: TekRing::new(vec![Tek::new(1, [3; 32], unix_ms)]).expect("one key"),
            peers: HashMap::from([(peer.public().peer_id(), entry)]),
            outbound,
            draw: Draw(0),
            now: Moment {
                now: Now {
                    unix_ms,
                    mono_ms: 9,
                },
                generation: 1,
            },
        }
    }

    fn session(&mut self, number: usize) -> Arc<Session> {
        let outbound = Arc::clone(&self.outbound[number % self.outbound.len()]);
        let pending = initiate(outbound, self.now.now, self.draw.random()).expect("another key");
        let reply = self.draw.random();
        let answer = self.responder.answer(
            pending.init(),
            self.now.now,
            || reply,
            &self.ring,
            &self.peers,
        );
        let session = pending.finish(&answer.expect("a reply")[..], self.now.now);
        Arc::new(session.expect("a session"))
    }

    /// A request of `chunks` chunks and its response of as many.
    fn exchange(
        &mut self,
        outbox: &mut Outbox,
        inbox: &mut Inbox,
        session: &Arc<Session>,
        chunks: usize,
    ) {
        let mut wire = Vec::new();
        let retry_of = (chunks == 3).then_some(Attempt {
            sender: seal::SenderId([0xff; 16]),
            ctr: 1,
            ts_unix_ms: 1,
        });
        let draw = &mut self.draw;
        let (_, mut sealing) = outbox
            .request(session, self.now, || draw.id(), retry_of, &mut wire)
            .expect("a sender");
        for chunk in 1..=chunks {
            let piece = if chunk == chunks {
                Piece::Last
            } else {
                Piece::More
            };
            sealing.push(&mut wire, b"text", piece).expect("a chunk");
        }
        let today = Today {
            ring: &self.ring,
            kids: self.responder.kids(),
            peers: &self.peers,
        };
        let head = wire.first_chunk().expect("200 bytes");
        let incoming = inbox.request(head, today, self.now.now).expect("a ticket");
        let first_bytes = 24 + if chunks == 3 { 32 } else { 0 };
        let request = incoming
            .first(inbox, &mut wire[200..200 + first_bytes])
            .expect("a first chunk");
        let draw = &mut self.draw;
        let mut out = Vec::new();
        let mut sealing = inbox
            .respond(
                &request.opened,
                self.now,
                || draw.id(),
                Voice::Origin,
                &mut out,
            )
            .expect("a sender");
        for chunk in 1..=chunks {
            let piece = if chunk == chunks {
                Piece::Last
            } else {
                Piece::More
            };
            sealing.push(&mut out, b"text", piece).expect("a chunk");
        }
    }
}

#[test]
fn no_key_and_nonce_seal_twice() {
    audit::begin();
    let mut world = World::new();
    let mut sessions: Vec<Arc<Session>> = (0..SESSIONS).map(|n| world.session(n)).collect();
    // Two threads of each side, with room for half of the sessions: senders are evicted all the time.
    let mut outboxes: Vec<Outbox> = (0..2).map(|_| Outbox::new(SESSIONS / 2, 4)).collect();
    let mut inboxes: Vec<Inbox> = (0..2).map(|_| Inbox::new(SESSIONS / 2, 4)).collect();
    let mut turn = 0_usize;
    while turn < 300_000 {
        turn += 1;
        let session = Arc::clone(&sessions[turn * 7 % SESSIONS]);
        let (o, i) = (turn % 2, turn / 2 % 2);
        world.exchange(&mut outboxes[o], &mut inboxes[i], &session, 1 + turn % 3);
        match turn % 1_000 {
            // A thread is lost with everything it knew.
            100 => outboxes[o] = Outbox::new(SESSIONS / 2, 4),
            200 => inboxes[i] = Inbox::new(SESSIONS / 2, 4),
            // The wall clock steps back, or the machine is restored.
            300 => world.now.now.unix_ms -= 1_500,
            400 => world.now.generation += 1,
            500 => world.now.now.mono_ms += 700_000,
            600 => world.now.now.unix_ms += 1_500,
            // A session is renewed.
            700 => sessions[turn / 1_000 % SESSIONS] = world.session(turn / 1_000),
            800 => outboxes[o].sweep(world.now),
            900 => inboxes[i].sweep(world.now),
            _ => world.now.now.mono_ms += 1,
        }
    }
    let audit = audit::end().expect("it was begun");
    assert!(audit.seals >= SEALS_MIN, "{} seals", audit.seals);
    assert_eq!(audit.repeats, 0, "of {} seals", audit.seals);

    // And the audit does see a repeat: two senders of one id, which no kernel draws.
    audit::begin();
    for _ in 0..2 {
        let mut wire = Vec::new();
        let id = || Random::new([7; 16]);
        let request = Outbox::default().request(&sessions[0], world.now, id, None, &mut wire);
        let (_, mut sealing) = request.expect("a sender");
        sealing
            .push(&mut wire, b"text", Piece::Last)
            .expect("a chunk");
    }
    let audit = audit::end().expect("it was begun");
    assert_eq!((audit.seals, audit.repeats), (2, 1));
}
