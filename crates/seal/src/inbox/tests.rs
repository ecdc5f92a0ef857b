use std::collections::HashMap;
use std::sync::Arc;

use super::{Inbox, Today};
use crate::tests::fixture::{
    Failure, Heard, NOW, Pair, Setup, after, counting, init_random, moment, public, ring, tek,
};
use crate::ticket::TEK_MS;
use crate::{
    Answer, Attempt, Code, Error, Hint, Outbound, Random, Refused, RequestSender, SenderId,
    Session, Suite, TekRing, initiate,
};

fn pair() -> Pair {
    Pair::new(&Setup::new(Suite::AesGcm))
}

fn unknown(error: Error) -> Failure {
    Failure::Refused(Refused::new(Hint::UnknownTicket, error))
}

/// Another session with the same inbound.
fn session(pair: &Pair, byte: u8) -> Arc<Session> {
    let setup = Setup::new(Suite::AesGcm);
    let mut random = *init_random().bytes();
    random[0] = byte;
    let pending = initiate(setup.outbound(), NOW, Random::new(random)).unwrap();
    let drawn = || Random::new([byte; 156]);
    let init = pending.init();
    let reply = pair
        .responder
        .answer(init, NOW, drawn, &pair.ring, &pair.peers);
    Arc::new(pending.finish(&reply.unwrap()[..], NOW).unwrap())
}

/// A request of sender `s` in a session.
fn request(session: &Arc<Session>, s: u8, ctr: u64) -> Vec<u8> {
    let id = Random::new([s; 16]);
    let mut sender = RequestSender::new(Arc::clone(session), &id, moment(0));
    sender.set_ctr(ctr);
    let mut out = Vec::new();
    let (_, mut sealing) = sender.begin(moment(0), None, &mut out).unwrap();
    sealing.push(&mut out, b"text", crate::Piece::Last).unwrap();
    out
}

#[test]
fn a_message_of_another_kind_or_version_is_malformed() {
    let mut pair = pair();
    let (_, message) = pair.request(5, 1_000, None, &[b"x"]);
    let opened = pair.opened(6);
    let form = |error| Err(Failure::Refused(Refused::form(error)));
    for (at, value, error) in [
        (0, 2, Error::Version),
        (1, 2, Error::Head),
        (3, 3, Error::Head),
    ] {
        let mut bad = message.clone();
        bad[at] = value;
        assert_eq!(pair.receive(&bad), form(error));
    }
    assert_eq!(Refused::form(Error::Version).hint.status(), 426);
    assert_eq!(Refused::form(Error::Head).hint.status(), 400);
    // A response sent as a request, and a request as a response.
    let mut response = pair.response(&opened, 9, crate::Voice::Origin, &[b"x"]);
    response.resize(300, 0);
    assert_eq!(pair.receive(&response), form(Error::Head));
    let heard = pair.receive_response(opened.attempt(), &message);
    assert_eq!(heard, Err(Failure::Broken(Error::Head)));
    // The same with a type that fits: the keys of the two directions differ.
    response[1] = 1;
    response[7] = 144;
    response[24..40].copy_from_slice(&counting::<16>(0x10));
    response[8..24].copy_from_slice(&message[8..24]);
    response[56..200].copy_from_slice(&message[56..200]);
    response[200..].copy_from_slice(&[&[0x80, 0, 0, 17][..], &[0; 96]].concat());
    assert!(pair.receive(&response[..221]).is_err());
}

#[test]
fn a_ticket_of_another_session_does_not_open_a_message_and_harms_nobody() {
    let mut pair = pair();
    let (a, b) = (session(&pair, 1), session(&pair, 2));
    let (of_a, of_b) = (request(&a, 1, 0), request(&b, 1, 0));
    for warm in [false, true] {
        if warm {
            assert!(pair.receive(&of_a).is_ok() && pair.receive(&of_b).is_ok());
        }
        // The sid of A with the ticket of B.
        let mut mixed = of_a.clone();
        mixed[56..200].copy_from_slice(&of_b[56..200]);
        assert_eq!(pair.receive(&mixed), Err(unknown(Error::TicketSession)));
        // The sid and the ticket of B over the chunk of A.
        let mut mixed = of_b.clone();
        mixed[200..].copy_from_slice(&of_a[200..]);
        let failed = Failure::Refused(Refused::new(Hint::OpenFailed, Error::Open));
        assert_eq!(pair.receive(&mixed), Err(failed));
    }
    let sizes = pair.inbox.sizes();
    assert_eq!(pair.receive(&request(&a, 1, 1)), Ok(b"text".to_vec()));
    assert_eq!(pair.receive(&request(&b, 1, 1)), Ok(b"text".to_vec()));
    assert_eq!(pair.inbox.sizes(), sizes);
}

#[test]
fn a_sender_id_of_a_in_a_session_of_b_is_another_sender() {
    let mut pair = pair();
    let (a, b) = (session(&pair, 1), session(&pair, 2));
    assert!(pair.receive(&request(&a, 1, 0)).is_ok());
    assert!(pair.receive(&request(&b, 1, 0)).is_ok());
    assert_eq!(pair.inbox.sizes(), [2, 2, 0]);
    assert!(pair.receive(&request(&a, 1, 1)).is_ok());
    assert!(pair.receive(&request(&b, 1, 1)).is_ok());
    assert_eq!(pair.inbox.sizes(), [2, 2, 0]);
}

#[test]
fn the_suite_of_the_head_is_the_tickets() {
    let mut pair = pair();
    let (_, good) = pair.request(5, 1_000, None, &[b"x"]);
    for _cold_then_warm in 0..2 {
        for suite in [2, 4] {
            let mut message = good.clone();
            message[3] = suite;
            assert_eq!(pair.receive(&message), Err(unknown(Error::TicketSession)));
        }
        assert!(pair.receive(&good).is_ok());
    }
}

#[test]
fn what_is_cached_is_no_authority() {
    let mut pair = pair();
    let (_, message) = pair.request(5, 1_000, None, &[b"x"]);
    assert!(pair.receive(&message).is_ok());
    let head = *message.first_chunk().unwrap();
    let (mut inbox, other) = (std::mem::take(&mut pair.inbox), [public(1).kid()]);
    let gone = TekRing::new(vec![tek(8, NOW.unix_ms)]).unwrap();
    let nobody = HashMap::new();
    let mut ended = Setup::new(Suite::AesGcm).peers();
    ended.values_mut().next().unwrap().sessions_after_unix_ms = NOW.unix_ms + 1;
    let today = pair.today();
    for (today, ms, error) in [
        (today, 3_600_000, Error::TicketExpired),
        (
            Today {
                ring: &gone,
                ..today
            },
            0,
            Error::TicketKey,
        ),
        (today, 2 * TEK_MS, Error::TicketKey),
        (
            Today {
                kids: &other,
                ..today
            },
            0,
            Error::TicketSession,
        ),
        (
            Today {
                peers: &nobody,
                ..today
            },
            0,
            Error::Peer,
        ),
        (
            Today {
                peers: &ended,
                ..today
            },
            0,
            Error::TicketEnded,
        ),
    ] {
        let refused = inbox.request(&head, today, after(ms)).err();
        assert_eq!(refused, Some(Refused::new(Hint::UnknownTicket, error)));
    }
    assert!(inbox.request(&head, today, NOW).is_ok());
    assert_eq!(inbox.sizes(), [1, 1, 0]);
}

#[test]
fn nothing_is_cached_before_a_chunk_verified() {
    let mut pair = pair();
    let (_, mut message) = pair.request(5, 1_000, None, &[b"x"]);
    message[210] ^= 1;
    for s in 0..200 {
        message[24] = s;
        assert!(pair.receive(&message).is_err());
        assert_eq!(pair.inbox.sizes(), [0, 0, 0]);
    }
}

#[test]
fn a_cache_of_two_serves_ten_sessions() {
    let mut pair = pair();
    pair.inbox = Inbox::new(2, 3);
    let sessions: Vec<_> = (1..=10).map(|byte| session(&pair, byte)).collect();
    for ctr in 0..5 {
        for session in &sessions {
            for s in 0..3 {
                assert!(pair.receive(&request(session, s, ctr)).is_ok());
            }
            assert!(pair.inbox.sizes()[0] <= 2 && pair.inbox.sizes()[1] <= 3);
        }
    }
}

#[test]
fn a_sweep_forgets_what_is_over() {
    let mut pair = pair();
    let opened = pair.opened(0);
    let answer = Answer {
        code: Code::Draining,
        retry_after_ms: 1,
        server_unix_ms: 2,
    };
    let (mut out, id) = (Vec::new(), || Random::new([1; 16]));
    pair.inbox
        .answer(&opened, moment(0), id, answer, &mut out)
        .unwrap();
    assert_eq!(pair.inbox.sizes(), [1, 1, 1]);
    pair.inbox.sweep(moment(599_999));
    assert_eq!(pair.inbox.sizes(), [1, 1, 1]);
    pair.inbox.sweep(moment(600_000));
    assert_eq!(pair.inbox.sizes(), [1, 1, 0]);
    pair.inbox.sweep(moment(3_600_000));
    assert_eq!(pair.inbox.sizes(), [0, 0, 0]);
    let heard = pair.receive_response(opened.attempt(), &out);
    assert_eq!(heard, Ok(Heard::Weir(answer)));
}

#[test]
fn a_retry_names_the_first_attempt() {
    let mut pair = pair();
    let first = Attempt {
        sender: SenderId([9; 16]),
        ctr: 77,
        ts_unix_ms: NOW.unix_ms - 5,
    };
    let itself = Attempt {
        sender: SenderId(counting(0x10)),
        ctr: 5,
        ts_unix_ms: NOW.unix_ms,
    };
    for (retry_of, says) in [
        (None, Ok(None)),
        (Some(first), Ok(Some(first))),
        (Some(itself), Err(Error::Field)),
    ] {
        let (_, mut message) = pair.request(5, 1_000, retry_of, &[b"text"]);
        let incoming = pair.incoming(&message, 1_000).unwrap();
        let request = incoming
            .first(&mut pair.inbox, &mut message[200..])
            .unwrap();
        assert_eq!(
            (request.opened.retry_of(), &request.text[..]),
            (says, &b"text"[..])
        );
    }
}

/// The name of the first attempt is written by `seal` itself, so a message that lacks it is made by hand.
#[test]
fn a_retry_that_does_not_say_of_what_is_malformed() {
    let mut pair = pair();
    for bytes in [0, 31, 32] {
        let first = Attempt {
            sender: SenderId([0; 16]),
            ctr: 0,
            ts_unix_ms: 0,
        };
        let mut out = Vec::new();
        let mut sender = pair.sender(5);
        let (_, mut sealing) = sender.begin(moment(0), Some(first), &mut out).unwrap();
        assert_eq!(sealing.prefix_bytes(), 32);
        sealing.forget_retry_of();
        sealing
            .push(&mut out, &vec![0; bytes], crate::Piece::Last)
            .unwrap();
        let incoming = pair.incoming(&out, 1_000).unwrap();
        let request = incoming.first(&mut pair.inbox, &mut out[200..]).unwrap();
        let says = if bytes == 32 {
            Ok(Some(first))
        } else {
            Err(Error::Field)
        };
        assert_eq!((request.opened.retry_of(), request.text.len()), (says, 0));
    }
}

#[test]
fn a_session_of_one_instance_opens_on_another_with_the_same_ticket_keys() {
    let pair = pair();
    let (_, mut message) = pair.request(5, 1_000, None, &[b"x"]);
    let (other, ring) = (Setup::new(Suite::AesGcm).responder(), ring());
    let today = Today {
        ring: &ring,
        kids: other.kids(),
        peers: &pair.peers,
    };
    let mut inbox = Inbox::default();
    let incoming = inbox
        .request(message.first_chunk().unwrap(), today, NOW)
        .unwrap();
    assert!(incoming.first(&mut inbox, &mut message[200..]).is_ok());
}

#[test]
fn the_plain_case_of_an_outbound_is_public() {
    // What a relay holds can be shared by its threads.
    fn shared<T: Send + Sync>() {}
    shared::<Session>();
    shared::<Outbound>();
    shared::<crate::Responder>();
    shared::<TekRing>();
    shared::<crate::Peer>();
}

/// A sid is drawn at random, so this does not happen; if it did, it would be two sessions all the same.
#[test]
fn sessions_of_one_sid_are_still_two() {
    let mut pair = pair();
    let sessions = [1, 2].map(|byte| {
        let mut random = [0; 156];
        random[..128].fill(byte);
        let setup = Setup::new(Suite::AesGcm);
        let mut seed = *init_random().bytes();
        seed[0] = byte;
        let pending = initiate(setup.outbound(), NOW, Random::new(seed)).unwrap();
        let (init, drawn) = (pending.init(), || Random::new(random));
        let reply = pair
            .responder
            .answer(init, NOW, drawn, &pair.ring, &pair.peers);
        Arc::new(pending.finish(&reply.unwrap()[..], NOW).unwrap())
    });
    assert_eq!(sessions[0].sid(), sessions[1].sid());
    let mut inbox = Inbox::default();
    for ctr in 0..3 {
        for session in &sessions {
            let mut message = request(session, 1, ctr);
            let incoming = inbox.request(message.first_chunk().unwrap(), pair.today(), NOW);
            let request = incoming.unwrap().first(&mut inbox, &mut message[200..]);
            let (opened, mut out) = (request.unwrap().opened, Vec::new());
            let answer = Answer {
                code: Code::Draining,
                retry_after_ms: 1,
                server_unix_ms: 2,
            };
            let id = || Random::new([1; 16]);
            inbox
                .answer(&opened, moment(0), id, answer, &mut out)
                .unwrap();
            pair.session = Arc::clone(session);
            let heard = pair.receive_response(opened.attempt(), &out);
            assert_eq!(heard, Ok(Heard::Weir(answer)));
        }
    }
    assert_eq!(inbox.sizes(), [1, 1, 1]);
}
