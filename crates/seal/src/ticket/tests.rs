use std::collections::HashMap;

use base::Now;

use super::{SESSION_MS, TEK_MS, TICKET_KEYS_MAX, Tek, TekRing, Ticket};
use crate::head::TICKET_BYTES;
use crate::key::{Kid, PeerId, Sid};
use crate::schedule::Secret;
use crate::tests::fixture::{NOW, Setup, after, counting, public, tek};
use crate::{Error, Mode, Peer, Suite};

fn ticket() -> Ticket {
    Ticket {
        mode: Mode::Strict,
        suite: Suite::AesGcm,
        kid: public(0).kid(),
        issued_unix_ms: NOW.unix_ms,
        expires_unix_ms: NOW.unix_ms + SESSION_MS,
        sid: Sid(counting(0x60)),
        peer_id: public(0x20).peer_id(),
        secret: Secret::new(counting(1)),
    }
}

fn ring(keys: Vec<Tek>) -> TekRing {
    TekRing::new(keys).unwrap()
}

fn mint(ticket: &Ticket, ring: &TekRing) -> [u8; TICKET_BYTES] {
    let tek = ring.minting(NOW).unwrap();
    ring.mint(ticket, tek, counting(0xd0)).unwrap()
}

/// What an inbound with this ring says of a ticket.
struct Inbound {
    ring: TekRing,
    kids: Vec<Kid>,
    peers: HashMap<PeerId, Peer>,
}

impl Inbound {
    fn new() -> Inbound {
        Inbound {
            ring: ring(vec![tek(7, NOW.unix_ms)]),
            kids: vec![public(1).kid(), public(0).kid()],
            peers: Setup::new(Suite::AesGcm).peers(),
        }
    }

    fn open(&self, sealed: &[u8; TICKET_BYTES], now: Now) -> Result<(), Error> {
        let head = (Suite::AesGcm, Sid(counting(0x60)));
        Ticket::open(sealed, &self.ring, head, &self.kids, &self.peers, now).map(|_| ())
    }

    fn says(&self, ticket: &Ticket) -> Result<(), Error> {
        self.open(&mint(ticket, &self.ring), NOW)
    }
}

#[test]
fn a_ticket_opens_to_what_it_was() {
    let mut inbound = Inbound::new();
    for mode in [Mode::Local, Mode::Strict] {
        for peer in inbound.peers.values_mut() {
            peer.mode = mode;
        }
        for suite in Suite::ALL {
            let given = Ticket {
                mode,
                suite,
                ..ticket()
            };
            let sealed = mint(&given, &inbound.ring);
            let head = (suite, given.sid);
            let opened = Ticket::open(
                &sealed,
                &inbound.ring,
                head,
                &inbound.kids,
                &inbound.peers,
                NOW,
            );
            let opened = opened.ok().unwrap();
            assert_eq!((opened.mode, opened.suite), (mode, suite));
            assert_eq!((opened.kid, opened.sid), (given.kid, given.sid));
            assert_eq!(opened.peer_id, given.peer_id);
            assert_eq!(opened.issued_unix_ms, given.issued_unix_ms);
            assert_eq!(opened.expires_unix_ms, given.expires_unix_ms);
            assert_eq!(opened.secret, given.secret);
        }
    }
}

#[test]
fn a_ticket_of_another_promise_is_refused() {
    let mut inbound = Inbound::new();
    for (promised, kept) in [(Mode::Local, Mode::Strict), (Mode::Strict, Mode::Local)] {
        for peer in inbound.peers.values_mut() {
            peer.mode = kept;
        }
        let given = Ticket {
            mode: promised,
            ..ticket()
        };
        assert_eq!(inbound.says(&given), Err(Error::TicketMode));
    }
}

#[test]
fn a_ticket_with_any_bit_flipped_is_refused() {
    let inbound = Inbound::new();
    let mut sealed = mint(&ticket(), &inbound.ring);
    for bit in 0..TICKET_BYTES * 8 {
        sealed[bit / 8] ^= 1 << (bit % 8);
        let error = if bit < 32 {
            Error::TicketKey
        } else {
            Error::TicketOpen
        };
        assert_eq!(inbound.open(&sealed, NOW), Err(error), "bit {bit}");
        sealed[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(inbound.open(&sealed, NOW), Ok(()));
}

#[test]
fn the_id_of_the_key_is_under_the_seal() {
    // Two ids of one key: the ticket of one does not open as the other's.
    let two = |id| Tek::new(id, counting(9), NOW.unix_ms);
    let inbound = Inbound {
        ring: ring(vec![two(7), two(8)]),
        ..Inbound::new()
    };
    let mut sealed = mint(&ticket(), &inbound.ring);
    assert_eq!(inbound.open(&sealed, NOW), Ok(()));
    sealed[3] ^= 7 ^ 8;
    assert_eq!(inbound.open(&sealed, NOW), Err(Error::TicketOpen));
}

#[test]
fn a_ticket_is_of_one_session_suite_key_and_peer() {
    let inbound = Inbound::new();
    let good = ticket;
    assert_eq!(inbound.says(&good()), Ok(()));
    let other = |ticket| inbound.says(&ticket).unwrap_err();
    assert_eq!(
        other(Ticket {
            sid: Sid([0; 16]),
            ..good()
        }),
        Error::TicketSession
    );
    assert_eq!(
        other(Ticket {
            suite: Suite::ChaCha,
            ..good()
        }),
        Error::TicketSession
    );
    assert_eq!(
        other(Ticket {
            kid: public(2).kid(),
            ..good()
        }),
        Error::TicketSession
    );
    assert_eq!(
        other(Ticket {
            peer_id: PeerId([0; 32]),
            ..good()
        }),
        Error::Peer
    );
    let revoked = Inbound {
        peers: HashMap::new(),
        ..Inbound::new()
    };
    assert_eq!(revoked.says(&good()), Err(Error::Peer));
}

#[test]
fn a_ticket_has_its_time() {
    let inbound = Inbound::new();
    let at = NOW.unix_ms;
    for (issued, expires, says) in [
        (at, at + 1, Ok(())),
        (at, at, Err(Error::TicketExpired)),
        (at - 10, at - 1, Err(Error::TicketExpired)),
        (at + 2_000, at + 9_000, Ok(())),
        (at + 2_001, at + 9_000, Err(Error::TicketEarly)),
        (u64::MAX, u64::MAX, Err(Error::TicketEarly)),
    ] {
        let given = Ticket {
            issued_unix_ms: issued,
            expires_unix_ms: expires,
            ..ticket()
        };
        assert_eq!(inbound.says(&given), says, "{issued} {expires}");
    }
    let sealed = mint(&ticket(), &inbound.ring);
    assert_eq!(inbound.open(&sealed, after(SESSION_MS - 1)), Ok(()));
    assert_eq!(
        inbound.open(&sealed, after(SESSION_MS)),
        Err(Error::TicketExpired)
    );
}

#[test]
fn sessions_of_a_peer_can_be_ended() {
    let mut inbound = Inbound::new();
    for (ended, says) in [(0, Ok(())), (1, Err(Error::TicketEnded))] {
        let peer = inbound.peers.values_mut().next().unwrap();
        peer.sessions_after_unix_ms = NOW.unix_ms + ended;
        assert_eq!(inbound.says(&ticket()), says);
    }
}

#[test]
fn reserved_bytes_of_a_ticket_are_as_they_must_be() {
    let inbound = Inbound::new();
    for (at, value, says) in [
        (0, 0x02, Err(Error::Field)),
        (1, 0x02, Err(Error::Field)),
        (1, 0x81, Err(Error::Field)),
        (2, 0x01, Err(Error::Field)),
        (3, 0x03, Err(Error::Field)),
        (4, 1, Err(Error::Field)),
        (7, 1, Err(Error::Field)),
        (1, 0x00, Ok(())),
    ] {
        let mut plain = [0; 112];
        ticket().write(&mut plain);
        plain[at] = value;
        let read = Ticket::read(&plain).map(|_| ());
        assert_eq!(read, says, "{at} {value}");
    }
    assert_eq!(Ticket::read(&[0; 111]).err(), Some(Error::Length));
    assert_eq!(inbound.says(&ticket()), Ok(()));
}

#[test]
fn a_key_mints_for_an_hour_and_opens_for_one_more() {
    let at = |ms: u64| Now {
        unix_ms: NOW.unix_ms + ms,
        ..NOW
    };
    let ring = ring(vec![tek(7, NOW.unix_ms)]);
    assert!(
        ring.minting(Now {
            unix_ms: NOW.unix_ms - 1,
            ..NOW
        })
        .is_none()
    );
    for (ms, mints, opens) in [
        (0, true, true),
        (TEK_MS - 1, true, true),
        (TEK_MS, false, true),
        (2 * TEK_MS - 1, false, true),
        (2 * TEK_MS, false, false),
    ] {
        assert_eq!(ring.minting(at(ms)).is_some(), mints, "{ms}");
        assert_eq!(ring.opens(7, at(ms)), opens, "{ms}");
        assert!(!ring.opens(8, at(ms)));
    }
    // A clock that lags behind the one that made the key still opens.
    assert!(ring.opens(7, at(0)));
}

#[test]
fn no_ticket_outlives_its_key() {
    let tek = tek(7, NOW.unix_ms);
    for ms in [0, 1, TEK_MS - 1, TEK_MS, TEK_MS + 1, 2 * TEK_MS - 1] {
        let expires = tek.expires_unix_ms(after(ms));
        assert!(expires <= tek.ends_unix_ms() && expires <= NOW.unix_ms + ms + SESSION_MS);
    }
    assert_eq!(tek.expires_unix_ms(NOW), NOW.unix_ms + SESSION_MS);
    assert_eq!(
        tek.expires_unix_ms(after(2 * TEK_MS - 1)),
        tek.ends_unix_ms()
    );
    assert_eq!(Tek::new(1, [0; 32], u64::MAX).ends_unix_ms(), u64::MAX);
}

#[test]
fn keys_turn_over_and_every_ticket_opens_in_its_hour() {
    let hour = |n: u64| tek(n as u32, NOW.unix_ms + n * TEK_MS);
    let keys = |n: u64| (n.saturating_sub(1)..=n + 1).map(hour).collect();
    let mut open: Vec<(u64, [u8; TICKET_BYTES])> = Vec::new();
    let step_ms = TEK_MS / 12;
    for step in 0..60 {
        let now = after(step * step_ms);
        let inbound = Inbound {
            ring: ring(keys(step / 12)),
            ..Inbound::new()
        };
        let tek = inbound.ring.minting(now).unwrap();
        assert_eq!(u64::from(tek.id()), step / 12);
        let given = Ticket {
            issued_unix_ms: now.unix_ms,
            expires_unix_ms: tek.expires_unix_ms(now),
            ..ticket()
        };
        assert_eq!(given.expires_unix_ms, now.unix_ms + SESSION_MS);
        let sealed = inbound
            .ring
            .mint(&given, tek, counting(step as u8))
            .unwrap();
        open.push((given.expires_unix_ms, sealed));
        for (expires, sealed) in &open {
            let opens = inbound.open(sealed, now).is_ok();
            assert_eq!(opens, now.unix_ms < *expires, "step {step}");
        }
    }
}

#[test]
fn of_several_keys_in_their_hour_the_youngest_mints() {
    let [one, two, three] = [(1, 5), (2, 9), (3, 7)].map(|(id, ago)| tek(id, NOW.unix_ms - ago));
    assert_eq!(ring(vec![one, two, three]).minting(NOW).unwrap().id(), 1);
}

#[test]
fn a_ring_has_bounds() {
    let keys = |n: usize| (0..n).map(|id| tek(id as u32, 0)).collect::<Vec<_>>();
    assert!(TekRing::new(keys(1)).is_ok() && TekRing::new(keys(TICKET_KEYS_MAX)).is_ok());
    assert_eq!(TekRing::new(keys(0)).err(), Some(Error::Ring));
    assert_eq!(
        TekRing::new(keys(TICKET_KEYS_MAX + 1)).err(),
        Some(Error::Ring)
    );
    assert_eq!(
        TekRing::new(vec![tek(1, 0), tek(2, 0), tek(1, 9)]).err(),
        Some(Error::Ring)
    );
}
