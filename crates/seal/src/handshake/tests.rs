use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base::Now;

use super::testing::Forged;
use super::{Budget, CT1_PEER, CT1_TIME, CT2, ENC2, INIT_CLOCK_MS, MAC1, initiate, transcript};
use crate::head::{INIT_BYTES, REPLY_BYTES};
use crate::tests::fixture::{
    NOW, Pair, Setup, after, counting, identity, init_random, public, reply_random, ring, tek,
};
use crate::{
    Error, Guard, Hint, JoinToken, Mode, Outbound, Peer, PeerId, Psk, Refused, Responder, Suite,
    TekRing,
};

/// An inbound with no end to its budget.
fn patient(own: &[u8], tokens: &[JoinToken]) -> Responder {
    let guard = Arc::new(Guard::new(Budget::new(u64::MAX / 1_000_000)));
    let own = own.iter().map(|from| identity(*from)).collect();
    Responder::new(own, tokens, 1 << 30, None, guard).unwrap()
}

fn ask(
    responder: &Responder,
    init: &[u8],
    setup: &Setup,
) -> Result<Box<[u8; REPLY_BYTES]>, Refused> {
    ask_at(responder, init, setup, NOW)
}

fn ask_at(
    responder: &Responder,
    init: &[u8],
    setup: &Setup,
    now: Now,
) -> Result<Box<[u8; REPLY_BYTES]>, Refused> {
    let ring = TekRing::new(vec![tek(7, now.unix_ms)]).unwrap();
    responder.answer(init, now, reply_random, &ring, &setup.peers())
}

fn failed(error: Error) -> Result<Box<[u8; REPLY_BYTES]>, Refused> {
    Err(Refused::new(Hint::OpenFailed, error))
}

#[test]
fn a_handshake_makes_one_session_of_two_sides() {
    for suite in Suite::ALL {
        for (token, psk, mode, next_pin) in [
            (None, None, Mode::Local, false),
            (Some(vec![9; 16]), None, Mode::Strict, true),
            (None, Some([8; 32]), Mode::Strict, false),
            (Some(vec![9; 64]), Some([8; 32]), Mode::Local, true),
        ] {
            let setup = Setup {
                suite,
                token,
                psk,
                mode,
                next_pin,
            };
            let mut pair = Pair::new(&setup);
            let session = Arc::clone(&pair.session);
            assert_eq!((session.suite(), session.mode()), (suite, mode));
            assert_eq!(session.longest_bytes(), 1 << 30);
            assert_eq!(session.inbound(), public(0).pin());
            let next = next_pin.then(|| public(0x30).pin());
            assert_eq!(session.next_pin(), next);
            assert!(!session.is_expired(after(3_599_999)) && session.is_expired(after(3_600_000)));

            let (attempt, mut message) = pair.request(0, 5, None, &[b"hello"]);
            let incoming = pair.incoming(&message, 7).unwrap();
            let first = incoming
                .first(&mut pair.inbox, &mut message[200..])
                .unwrap();
            assert_eq!(first.text, b"hello");
            let opened = &first.opened;
            assert_eq!(opened.peer_id(), public(0x20).peer_id());
            assert_eq!(opened.kid(), public(0).kid());
            assert_eq!((opened.sid(), opened.mode()), (session.sid(), mode));
            assert_eq!((opened.attempt(), opened.suite()), (attempt, suite));
            assert_eq!(opened.expires_unix_ms(), NOW.unix_ms + 3_600_000);
        }
    }
}

#[test]
fn an_init_of_another_length_is_no_init() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0], &[]));
    let pending = setup.initiate();
    let longer = [&pending.init()[..], &[0]].concat();
    let refused = Err(Refused::new(Hint::Malformed, Error::Length));
    assert_eq!(ask(&responder, &longer, &setup), refused);
    for length in 0..INIT_BYTES {
        let cut = &pending.init()[..length];
        assert_eq!(ask(&responder, cut, &setup), refused, "{length}");
    }
}

/// Every bit, as a stranger would flip it: mac1 catches it, or the head does.
#[test]
fn an_init_with_any_bit_flipped_is_refused() {
    for suite in Suite::ALL {
        let (setup, responder) = (Setup::new(suite), patient(&[0], &[]));
        let pending = setup.initiate();
        let mut init = *pending.init();
        for bit in 0..INIT_BYTES * 8 {
            init[bit / 8] ^= 1 << (bit % 8);
            let refused = ask(&responder, &init, &setup).unwrap_err();
            let error = match bit / 8 {
                0 => Error::Version,
                1 | 4..8 => Error::Head,
                // The other suites share a bit with none but 0, so most numbers are none at all.
                2 | 3 if refused.error == Error::Head => Error::Head,
                8..16 => Error::Kid,
                _ => Error::Mac,
            };
            assert_eq!(refused.error, error, "bit {bit}");
            init[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(ask(&responder, &init, &setup).is_ok());
    }
}

/// Every byte, as someone who knows the join token would change it.
#[test]
fn an_init_changed_below_a_good_mac1_does_not_open() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0], &[]));
    let pending = setup.initiate();
    for at in 16..MAC1 {
        let mut init = *pending.init();
        init[at] ^= 1 << (at % 8);
        Forged::sign(&mut init);
        assert_eq!(
            ask(&responder, &init, &setup),
            failed(Error::Open),
            "byte {at}"
        );
    }
    for number in [2, 4] {
        let mut init = *pending.init();
        init[3] = number;
        Forged::sign(&mut init);
        assert_eq!(ask(&responder, &init, &setup), failed(Error::Open));
    }
}

#[test]
fn an_init_is_opened_once() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0], &[]));
    let pending = setup.initiate();
    assert!(ask(&responder, pending.init(), &setup).is_ok());
    assert_eq!(
        ask(&responder, pending.init(), &setup),
        failed(Error::Repeated)
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has threads of its own")]
fn of_threads_with_one_init_one_opens_it() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0], &[]));
    let pending = setup.initiate();
    let opened = std::thread::scope(|scope| {
        let thread = || ask(&responder, pending.init(), &setup).is_ok();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(thread)).collect();
        threads
            .into_iter()
            .filter(|_| true)
            .map(|t| t.join().unwrap())
            .filter(|ok| *ok)
            .count()
    });
    assert_eq!(opened, 1);
}

#[test]
fn an_init_to_another_key_is_told_so() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[1, 2], &[]));
    let refused = Err(Refused::new(Hint::UnknownKid, Error::Kid));
    assert_eq!(ask(&responder, setup.initiate().init(), &setup), refused);
    // With the right id on it, mac1 is of another key, and so would be the seal.
    let mut init = *setup.initiate().init();
    init[8..16].copy_from_slice(&public(2).kid().0);
    assert_eq!(ask(&responder, &init, &setup), failed(Error::Mac));
    Forged::sign_for(&mut init, &public(2));
    assert_eq!(ask(&responder, &init, &setup), failed(Error::Open));
}

#[test]
fn each_of_two_static_keys_answers() {
    let responder = patient(&[1, 0, 3], &[]);
    for own in [0, 1, 3] {
        let setup = Setup::new(Suite::AesGcm);
        let outbound = Outbound {
            identity: Arc::new(identity(0x20)),
            inbound: public(own),
            suite: Suite::AesGcm,
            token: None,
            psks: Vec::new(),
        };
        let pending = initiate(Arc::new(outbound), NOW, init_random()).unwrap();
        let reply = ask(&responder, pending.init(), &setup).unwrap();
        let session = pending.finish(&reply[..], NOW).unwrap();
        assert_eq!(session.inbound(), public(own).pin());
    }
}

#[test]
fn keys_and_tokens_of_an_inbound_have_bounds() {
    let token = || JoinToken::new(&[1; 16]).unwrap();
    let new = |own: &[u8], tokens: usize| {
        let tokens: Vec<JoinToken> = (0..tokens).map(|_| token()).collect();
        let own = own.iter().map(|from| identity(*from)).collect();
        Responder::new(own, &tokens, 0, None, Arc::default()).is_ok()
    };
    assert!(new(&[1], 0) && new(&[1, 2, 3, 4], 2));
    assert!(!new(&[], 0) && !new(&[1, 2, 1], 0) && !new(&[1, 2, 3, 4, 5], 0) && !new(&[1], 3));
}

#[test]
fn a_join_token_is_asked_of_all_if_there_is_one() {
    let token = |byte| JoinToken::new(&[byte; 16]).unwrap();
    let with = |byte: Option<u8>| Setup {
        token: byte.map(|byte| vec![byte; 16]),
        ..Setup::new(Suite::AesGcm)
    };
    for (tokens, sent, good) in [
        (vec![], None, true),
        (vec![], Some(1), false),
        (vec![token(1)], Some(1), true),
        (vec![token(1)], None, false),
        (vec![token(1)], Some(2), false),
        (vec![token(1), token(2)], Some(1), true),
        (vec![token(1), token(2)], Some(2), true),
        (vec![token(1), token(2)], Some(3), false),
    ] {
        let setup = with(sent);
        let answer = ask(&patient(&[0], &tokens), setup.initiate().init(), &setup);
        match good {
            true => assert!(answer.is_ok()),
            false => assert_eq!(answer, failed(Error::Mac)),
        }
    }
    for bad in [&[1; 15][..], &[1; 65], &[0; 32], &[]] {
        assert_eq!(JoinToken::new(bad).err(), Some(Error::Token));
    }
}

#[test]
fn a_handshake_is_of_now() {
    let setup = Setup::new(Suite::AesGcm);
    for (unix_ms, good) in [
        (NOW.unix_ms - INIT_CLOCK_MS, true),
        (NOW.unix_ms - INIT_CLOCK_MS - 1, false),
        (NOW.unix_ms + INIT_CLOCK_MS, true),
        (NOW.unix_ms + INIT_CLOCK_MS + 1, false),
        (0, false),
        (u64::MAX / 2, false),
    ] {
        let now = Now { unix_ms, ..NOW };
        let answer = ask_at(&patient(&[0], &[]), setup.initiate().init(), &setup, now);
        match good {
            true => assert!(answer.is_ok(), "{unix_ms}"),
            false => assert_eq!(answer, failed(Error::Clock), "{unix_ms}"),
        }
    }
}

#[test]
fn who_is_not_enrolled_is_refused_whoever_it_is() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0, 0x20], &[]));
    let answer = |init: &[u8], peers: &HashMap<PeerId, Peer>| {
        responder.answer(init, NOW, reply_random, &ring(), peers)
    };
    // One of our own keys as a peer.
    assert_eq!(
        answer(setup.initiate().init(), &setup.peers()),
        failed(Error::Own)
    );
    let responder = patient(&[0], &[]);
    let answer = |init: &[u8], peers: &HashMap<PeerId, Peer>| {
        responder.answer(init, NOW, reply_random, &ring(), peers)
    };
    let none = HashMap::new();
    assert_eq!(answer(setup.initiate().init(), &none), failed(Error::Peer));
    let forged = Forged::init(|plain| plain[CT1_PEER] ^= 1);
    assert_eq!(answer(&forged, &setup.peers()), failed(Error::Peer));
    // An entry under the name of another key.
    let (_, other) = setup.peer(0x21);
    let wrong = HashMap::from([(public(0x20).peer_id(), other)]);
    let forged = Forged::init(|plain| plain[CT1_TIME + 7] ^= 1);
    assert_eq!(answer(&forged, &wrong), failed(Error::Peer));
    // Ourselves, from the outbound's side.
    let own = Outbound {
        identity: Arc::new(identity(0)),
        inbound: public(0),
        suite: Suite::AesGcm,
        token: None,
        psks: Vec::new(),
    };
    assert_eq!(
        initiate(Arc::new(own), NOW, init_random()).err(),
        Some(Error::Own)
    );
}

/// FIPS 203 §7.2: each of the 768 coefficients of an encapsulation key is below 3329.
#[test]
fn an_ephemeral_key_out_of_range_is_refused() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0], &[]));
    for pair in [0, 1, 200, 383] {
        let high = Forged::init(|plain| plain[pair * 3..pair * 3 + 3].fill(0xff));
        assert_eq!(
            ask(&responder, &high, &setup),
            failed(Error::PublicKey),
            "{pair}"
        );
        let modulus = Forged::init(|plain| {
            plain[pair * 3] = 0x01;
            plain[pair * 3 + 1] = plain[pair * 3 + 1] & 0xf0 | 0x0d;
        });
        assert_eq!(
            ask(&responder, &modulus, &setup),
            failed(Error::PublicKey),
            "{pair}"
        );
        let below = Forged::init(|plain| {
            plain[pair * 3] = 0x00;
            plain[pair * 3 + 1] = plain[pair * 3 + 1] & 0xf0 | 0x0d;
        });
        assert!(ask(&responder, &below, &setup).is_ok(), "{pair}");
    }
}

#[test]
fn junk_costs_neither_budget_nor_random_bytes() {
    let setup = Setup::new(Suite::AesGcm);
    let guard = Arc::new(Guard::new(Budget::new(0)));
    let responder = Responder::new(vec![identity(0)], &[], 0, None, guard).unwrap();
    let (ring, peers) = (ring(), setup.peers());
    let never = || panic!("random bytes for junk");
    let mut junk = *setup.initiate().init();
    junk[MAC1] ^= 1;
    for _ in 0..10_000 {
        let refused = responder.answer(&junk, NOW, never, &ring, &peers);
        assert_eq!(refused, failed(Error::Mac));
    }
    // The one handshake of this second, and the next one's.
    assert!(ask(&responder, setup.initiate().init(), &setup).is_ok());
    let spent = Err(Refused::new(Hint::Overload, Error::Budget));
    let other = Forged::init(|plain| plain[CT1_TIME + 7] ^= 1);
    assert_eq!(ask(&responder, &other, &setup), spent);
    // Of an empty budget even junk learns only that.
    assert_eq!(ask(&responder, &junk, &setup), spent);
    assert!(ask_at(&responder, &other, &setup, after(1_000)).is_ok());
}

#[test]
fn with_no_ticket_key_in_its_hour_there_is_no_session() {
    let (setup, responder) = (Setup::new(Suite::AesGcm), patient(&[0], &[]));
    let busy = Err(Refused::new(Hint::Overload, Error::NoTicketKey));
    for begins in [NOW.unix_ms + 1, NOW.unix_ms - 3_600_000] {
        let ring = TekRing::new(vec![tek(7, begins)]).unwrap();
        let init = Forged::init(|plain| plain[CT1_TIME + 7] = begins as u8);
        let answer = responder.answer(&init, NOW, reply_random, &ring, &setup.peers());
        assert_eq!(answer, busy);
    }
}

#[test]
fn a_reply_of_another_length_is_no_reply() {
    let pair = Pair::new(&Setup::new(Suite::AesGcm));
    let longer = [&pair.reply[..], &[0]].concat();
    let lengths = (0..REPLY_BYTES).map(|length| &pair.reply[..length]);
    let pending = Setup::new(Suite::AesGcm).initiate();
    for reply in lengths.chain([&longer[..]]) {
        assert_eq!(pending.try_finish(reply, NOW).err(), Some(Error::Length));
    }
}

/// Every bit of what is not an encapsulation, and a bit of each byte of what is.
#[test]
fn a_reply_with_any_bit_flipped_is_refused() {
    for suite in Suite::ALL {
        let pair = Pair::new(&Setup::new(suite));
        let pending = Setup::new(suite).initiate();
        let mut reply = *pair.reply;
        for bit in 0..REPLY_BYTES * 8 {
            let is_encapsulation = (ENC2..CT2).contains(&(bit / 8));
            let step = match (suite, is_encapsulation) {
                (Suite::AesGcm, false) => 1,
                (Suite::AesGcm, true) => 9,
                _ => 49,
            };
            if bit % step != 0 {
                continue;
            }
            reply[bit / 8] ^= 1 << (bit % 8);
            let error = pending.try_finish(&reply, NOW).err();
            let expected = match bit / 8 {
                0 => Error::Version,
                1..8 => Error::Head,
                _ => Error::Open,
            };
            assert_eq!(error, Some(expected), "bit {bit}");
            reply[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(pending.try_finish(&reply, NOW).is_ok());
    }
}

/// The other bits of the encapsulations: each is in th, and th is in the key and under the tag of ct2.
#[test]
fn every_bit_of_both_messages_is_in_the_transcript() {
    let pair = Pair::new(&Setup::new(Suite::AesGcm));
    let (mut init, mut reply) = (*pair.init, *pair.reply);
    let th = |init: &[u8], reply: &[u8]| transcript(&public(0), &public(0x20), init, reply);
    let good = th(&init, &reply);
    for bit in 0..INIT_BYTES * 8 {
        init[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(th(&init, &reply), good, "init, bit {bit}");
        init[bit / 8] ^= 1 << (bit % 8);
    }
    for bit in 0..CT2 * 8 {
        reply[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(th(&init, &reply), good, "reply, bit {bit}");
        reply[bit / 8] ^= 1 << (bit % 8);
    }
    assert_ne!(transcript(&public(1), &public(0x20), &init, &reply), good);
    assert_ne!(transcript(&public(0), &public(0x21), &init, &reply), good);
}

/// The inbound is trusted with every request, but not to be free of bugs.
#[test]
fn a_reply_that_verifies_and_makes_no_sense_is_refused() {
    let pair = Pair::new(&Setup::new(Suite::AesGcm));
    let server = NOW.unix_ms.to_be_bytes();
    for (at, bytes, good) in [
        (0, &[][..], true),
        (32, &[0], true),
        (32, &[2], false),
        (32, &[0x81], false),
        (33, &[1], false),
        (34, &[0, 143], false),
        (34, &[0, 0], false),
        (34, &[1, 144], false),
        // Expires with its beginning, before it, after more than an hour, and after just one.
        (24, &server, false),
        (24, &(NOW.unix_ms - 1).to_be_bytes(), false),
        (24, &(NOW.unix_ms + 3_600_001).to_be_bytes(), false),
        (24, &(NOW.unix_ms + 3_600_000).to_be_bytes(), true),
        (16, &u64::MAX.to_be_bytes(), false),
        (36, &u64::MAX.to_be_bytes(), true),
    ] {
        let reply = Forged::reply(&pair, |text| {
            text[at..at + bytes.len()].copy_from_slice(bytes)
        });
        let error = Setup::new(Suite::AesGcm)
            .initiate()
            .finish(&reply, NOW)
            .err();
        assert_eq!(error, (!good).then_some(Error::Field), "{at} {bytes:?}");
    }
}

#[test]
fn a_reply_answers_one_init_of_one_key() {
    let setup = Setup::new(Suite::AesGcm);
    let reply = Pair::new(&setup).reply;
    // Another init: one millisecond later, with the same ephemeral key.
    let later = initiate(setup.outbound(), after(1), init_random()).unwrap();
    assert_eq!(later.finish(&reply[..], NOW).err(), Some(Error::Open));
    // The same init, but enc3 is to a key that is not ours.
    let mut other = setup.initiate();
    other.swap_identity(identity(0x21));
    assert_eq!(other.finish(&reply[..], NOW).err(), Some(Error::Open));
    // Two replies to one init do not mix.
    let second = ask(&patient(&[0], &[]), setup.initiate().init(), &setup).unwrap();
    let responder = patient(&[0], &[]);
    let random = || crate::Random::new([7; 156]);
    let init = setup.initiate();
    let third = responder.answer(init.init(), NOW, random, &ring(), &setup.peers());
    let mut mixed = *second;
    mixed[2248..].copy_from_slice(&third.unwrap()[2248..]);
    assert_eq!(
        setup.initiate().finish(&mixed, NOW).err(),
        Some(Error::Open)
    );
    // A reply in another suite.
    let four = Pair::new(&Setup::new(Suite::AesGcmSiv)).reply;
    assert_eq!(
        setup.initiate().finish(&four[..], NOW).err(),
        Some(Error::Head)
    );
}

#[test]
fn a_psk_is_on_both_sides_or_on_none() {
    let with = |psk: Option<u8>| Setup {
        psk: psk.map(|byte| [byte; 32]),
        ..Setup::new(Suite::AesGcm)
    };
    for (inbound, outbound) in [(None, Some(1)), (Some(1), None), (Some(1), Some(2))] {
        let reply = Pair::new(&with(inbound)).reply;
        let finished = with(outbound).initiate().finish(&reply[..], NOW);
        assert_eq!(
            finished.err(),
            Some(Error::Open),
            "{inbound:?} {outbound:?}"
        );
    }
    assert_eq!(Psk::new([0; 32]).err(), Some(Error::PskZeros));
}

#[test]
fn while_a_psk_turns_over_the_outbound_has_two() {
    let psk = |byte| Psk::new([byte; 32]).unwrap();
    let with = |byte| Setup {
        psk: Some([byte; 32]),
        ..Setup::new(Suite::AesGcm)
    };
    for inbound in [1, 2, 3] {
        let reply = Pair::new(&with(inbound)).reply;
        let outbound = Outbound {
            psks: vec![psk(1), psk(2), psk(3)],
            ..Arc::into_inner(with(1).outbound()).unwrap()
        };
        let pending = initiate(Arc::new(outbound), NOW, init_random()).unwrap();
        let finished = pending.finish(&reply[..], NOW);
        // A third one is over the bound.
        assert_eq!(finished.is_ok(), inbound < 3, "{inbound}");
    }
}

#[test]
fn the_clock_is_taken_from_a_short_round_trip_only() {
    let setup = Setup::new(Suite::AesGcm);
    let reply = Pair::new(&setup).reply;
    for (took_ms, wall_ms, server_ms) in [
        (40, 40, NOW.unix_ms),
        (40, 500_000, NOW.unix_ms),
        (9_999, 9_999, NOW.unix_ms),
        (10_000, 10_000, NOW.unix_ms + 10_000),
        (10_000, 500_000, NOW.unix_ms + 500_000),
    ] {
        let received = Now {
            unix_ms: NOW.unix_ms + wall_ms,
            mono_ms: NOW.mono_ms + took_ms,
        };
        let session = setup.initiate().finish(&reply[..], received).unwrap();
        assert_eq!(
            session.server_unix_ms(received),
            server_ms,
            "{took_ms} {wall_ms}"
        );
    }
}

#[test]
fn a_session_corrects_its_clock_by_sealed_times_of_short_round_trips() {
    let session = Pair::new(&Setup::new(Suite::AesGcm)).session;
    assert!(session.set_clock(NOW.unix_ms + 70_000, after(0), after(100)));
    assert_eq!(session.server_unix_ms(after(100)), NOW.unix_ms + 70_000);
    assert!(!session.set_clock(0, after(0), after(10_000)));
    assert!(!session.set_clock(u64::MAX, after(0), after(1)));
    assert_eq!(session.server_unix_ms(after(100)), NOW.unix_ms + 70_000);
}

#[test]
fn a_session_is_old_at_four_fifths_of_its_life() {
    let session = Pair::new(&Setup::new(Suite::AesGcm)).session;
    for (jitter, old_ms) in [(0, 2_700_000), (255, 3_060_000)] {
        assert!(!session.is_old(after(old_ms - 1), jitter), "{jitter}");
        assert!(session.is_old(after(old_ms), jitter), "{jitter}");
    }
}

#[test]
fn mac1_is_hmac_over_the_hash_of_key_and_token() {
    let setup = Setup {
        token: Some(counting::<24>(0x50).to_vec()),
        ..Setup::new(Suite::AesGcm)
    };
    let pending = setup.initiate();
    let own = identity(0);
    let key = [
        &b"shr1 mac1"[..],
        own.public().bytes(),
        &counting::<24>(0x50),
    ]
    .concat();
    let key = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &key);
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    let tag = hmac::sign(&key, &pending.init()[..MAC1]);
    assert_eq!(pending.init()[MAC1..], tag.as_ref()[..16]);
}
