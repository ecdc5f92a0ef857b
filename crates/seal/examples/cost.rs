//! What each operation costs, in CPU time of this thread.
//!
//! `cargo run --release -p seal --example cost`. It prints and judges nothing: these numbers are of the
//! machine that it runs on. A junk init should be under 10 µs, and sealing 10 KB about 2.

#![expect(clippy::disallowed_macros, reason = "an example prints")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use base::Now;
use rustix::time::{ClockId, clock_gettime};
use seal::{
    Budget, Guard, Identity, Inbox, Mode, Moment, Outbound, Outbox, Peer, Piece, Random, Responder,
    Suite, Tek, TekRing, Today, Voice, initiate,
};

const UNIX_MS: u64 = 1_700_000_000_000;
const NOW: Now = Now {
    unix_ms: UNIX_MS,
    mono_ms: 1,
};
const MOMENT: Moment = Moment {
    now: NOW,
    generation: 0,
};

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The best of five rounds, which is the one that other processes disturbed least.
fn measure(what: &str, times: u32, mut operation: impl FnMut()) {
    let round = |_| {
        let begin = cpu();
        (0..times).for_each(|_| operation());
        cpu() - begin
    };
    let best = (0..5).map(round).min().expect("five rounds");
    let each = best.as_secs_f64() * 1e6 / f64::from(times);
    println!("{what:48} {each:9.3} µs");
}

/// Random enough for this: no two are the same.
fn draw<const N: usize>(count: &mut u64) -> Random<N> {
    *count += 1;
    let mut bytes = [0; N];
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = (*count * 31 + at as u64).to_be_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    Random::new(bytes)
}

fn main() {
    for suite in Suite::ALL {
        println!("\n{}", suite.name());
        handshake(suite);
        messages(suite);
    }
}

struct Sides {
    outbound: Arc<Outbound>,
    responder: Responder,
    ring: TekRing,
    peers: HashMap<seal::PeerId, Peer>,
}

fn sides(suite: Suite) -> Sides {
    let (own, peer) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
    let entry = Peer {
        public: peer.public().clone(),
        psk: None,
        mode: Mode::Local,
        sessions_after_unix_ms: 0,
    };
    let outbound = Outbound {
        inbound: own.public().clone(),
        suite,
        token: None,
        psks: Vec::new(),
        identity: Arc::new(peer),
    };
    let guard = Arc::new(Guard::new(Budget::new(1_000_000_000)));
    Sides {
        peers: HashMap::from([(entry.public.peer_id(), entry)]),
        outbound: Arc::new(outbound),
        responder: Responder::new(vec![own], &[], 1 << 30, None, guard).expect("one key"),
        ring: TekRing::new(vec![Tek::new(1, [3; 32], UNIX_MS)]).expect("one key"),
    }
}

fn handshake(suite: Suite) {
    let sides = sides(suite);
    let mut count = 0;
    let mut begin = || initiate(Arc::clone(&sides.outbound), NOW, draw(&mut count)).expect("a key");
    let mut junk = *begin().init();
    junk[2_431] ^= 1;
    let answer = |init: &[u8]| {
        let random = || Random::new([9; 156]);
        sides
            .responder
            .answer(init, NOW, random, &sides.ring, &sides.peers)
    };
    measure("junk init: mac1 is wrong", 20_000, || {
        assert!(answer(black_box(&junk)).is_err());
    });
    measure("outbound: init", 100, || {
        black_box(begin());
    });
    // Each init opens once, so they are made before the clock runs.
    let pending: Vec<_> = (0..500).map(|_| begin()).collect();
    let mut replies = Vec::new();
    let mut next = pending.iter();
    measure("inbound: init to reply", 100, || {
        let init = next.next().expect("five rounds of 100").init();
        replies.push(answer(init).expect("a reply"));
    });
    let mut all = pending.into_iter().zip(replies);
    measure("outbound: reply to session", 100, || {
        let (pending, reply) = all.next().expect("five rounds of 100");
        black_box(pending.finish(&reply[..], NOW).expect("a session"));
    });
}

fn messages(suite: Suite) {
    let sides = sides(suite);
    let mut count = 0;
    let pending = initiate(Arc::clone(&sides.outbound), NOW, draw(&mut count)).expect("a key");
    let random = || Random::new([9; 156]);
    let reply = sides
        .responder
        .answer(pending.init(), NOW, random, &sides.ring, &sides.peers)
        .expect("a reply");
    let session = Arc::new(pending.finish(&reply[..], NOW).expect("a session"));
    let today = Today {
        ring: &sides.ring,
        kids: sides.responder.kids(),
        peers: &sides.peers,
    };
    for bytes in [0, 10_240, 65_536] {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        let text = vec![b'x'; bytes];
        let mut wire = Vec::with_capacity(70_000);
        let id = || Random::new([7; 16]);
        let mut seal = |wire: &mut Vec<u8>| {
            wire.clear();
            let request = outbox.request(&session, MOMENT, id, None, wire);
            let (attempt, mut sealing) = request.expect("a sender");
            let at = sealing.begin_chunk(wire);
            wire.extend_from_slice(&text);
            sealing.end_chunk(wire, at, Piece::Last).expect("a chunk");
            attempt
        };
        measure(
            &format!("seal a request of {bytes} bytes (with a copy)"),
            20_000,
            || {
                black_box(seal(&mut wire));
            },
        );
        let attempt = seal(&mut wire);
        let sealed = wire.clone();
        let mut copy = sealed.clone();
        measure("open it, cached (with a copy)", 20_000, || {
            copy.copy_from_slice(&sealed);
            let head = copy.first_chunk().expect("200 bytes");
            let incoming = inbox.request(head, today, NOW).expect("a ticket");
            black_box(
                incoming
                    .first(&mut inbox, &mut copy[200..])
                    .expect("a chunk"),
            );
        });
        measure("open it, nothing cached (with a copy)", 5_000, || {
            let mut inbox = Inbox::new(1, 1);
            copy.copy_from_slice(&sealed);
            let head = copy.first_chunk().expect("200 bytes");
            let incoming = inbox.request(head, today, NOW).expect("a ticket");
            black_box(
                incoming
                    .first(&mut inbox, &mut copy[200..])
                    .expect("a chunk"),
            );
        });
        copy.copy_from_slice(&sealed);
        let head = copy.first_chunk().expect("200 bytes");
        let incoming = inbox.request(head, today, NOW).expect("a ticket");
        let opened = incoming
            .first(&mut inbox, &mut copy[200..])
            .expect("a chunk")
            .opened;
        let mut respond = |wire: &mut Vec<u8>| {
            wire.clear();
            let sealing = inbox.respond(&opened, MOMENT, id, Voice::Origin, wire);
            let mut sealing = sealing.expect("a sender");
            let at = sealing.begin_chunk(wire);
            wire.extend_from_slice(&text);
            sealing.end_chunk(wire, at, Piece::Last).expect("a chunk");
        };
        measure("seal its response, as long (with a copy)", 20_000, || {
            respond(&mut wire)
        });
        respond(&mut wire);
        let sealed = wire.clone();
        measure("open that (with a copy)", 20_000, || {
            wire.copy_from_slice(&sealed);
            let head = wire.first_chunk().expect("32 bytes");
            let answering = outbox.response(&session, attempt, head).expect("a head");
            black_box(answering.first(&mut outbox, &mut wire[32..]).is_ok());
        });
    }
}
