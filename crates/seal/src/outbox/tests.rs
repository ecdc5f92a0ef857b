use std::sync::Arc;

use super::Outbox;
use crate::tests::fixture::{Failure, Heard, Pair, Setup, counting, moment};
use crate::{Answer, Attempt, Code, Error, Piece, Random, SenderId, Suite, Voice};

fn pair() -> Pair {
    Pair::new(&Setup::new(Suite::AesGcm))
}

const ANSWER: Answer = Answer {
    code: Code::Stale,
    retry_after_ms: 3,
    server_unix_ms: 4,
};

#[test]
fn a_response_answers_one_request() {
    let mut pair = pair();
    let opened = pair.opened(5);
    let right = opened.attempt();
    for message in [
        pair.response(&opened, 9, Voice::Origin, &[b"x"]),
        pair.response(&opened, 10, Voice::Weir, &[&ANSWER.to_bytes()]),
    ] {
        for wrong in [
            Attempt { ctr: 6, ..right },
            Attempt {
                sender: SenderId([0; 16]),
                ..right
            },
        ] {
            let heard = pair.receive_response(wrong, &message);
            assert_eq!(heard, Err(Failure::Broken(Error::Open)));
        }
        assert!(pair.receive_response(right, &message).is_ok());
    }
}

#[test]
fn a_response_of_another_session_does_not_open() {
    let mut pair = pair();
    let mut other = Pair::new(&Setup {
        psk: Some([1; 32]),
        ..Setup::new(Suite::AesGcm)
    });
    let opened = other.opened(5);
    let message = other.response(&opened, 9, Voice::Origin, &[b"x"]);
    let heard = pair.receive_response(opened.attempt(), &message);
    assert_eq!(heard, Err(Failure::Broken(Error::Open)));
    // One of another suite is not even tried.
    let mut other = Pair::new(&Setup::new(Suite::ChaCha));
    let opened = other.opened(5);
    let message = other.response(&opened, 9, Voice::Origin, &[b"x"]);
    let heard = pair.receive_response(opened.attempt(), &message);
    assert_eq!(heard, Err(Failure::Broken(Error::Head)));
}

#[test]
fn a_response_is_not_reflected_from_the_request() {
    let mut pair = pair();
    let (attempt, request) = pair.request(5, 1_000, None, &[b"x"]);
    // S in the place of R, and the request's own chunk.
    let head = [
        &[1, 2, 0, 1, 0, 0, 0, 0][..],
        &counting::<16>(0x10),
        &5_u64.to_be_bytes(),
    ];
    let reflected = [&head.concat(), &request[200..]].concat();
    let heard = pair.receive_response(attempt, &reflected);
    assert_eq!(heard, Err(Failure::Broken(Error::Open)));
    assert_eq!(pair.outbox.sizes(), [0, 0]);
}

/// The origin may say what it likes: only a sealed bit makes words ours.
#[test]
fn an_origin_does_not_speak_for_the_weir() {
    let mut pair = pair();
    let opened = pair.opened(5);
    let words = ANSWER.to_bytes();
    let message = pair.response(&opened, 9, Voice::Origin, &[&words]);
    let heard = pair.receive_response(opened.attempt(), &message);
    assert_eq!(heard, Ok(Heard::Origin(words.to_vec())));
    let mut flagged = message;
    flagged[5] = 1;
    let heard = pair.receive_response(opened.attempt(), &flagged);
    assert_eq!(heard, Err(Failure::Broken(Error::Open)));
}

#[test]
fn a_weir_made_answer_is_one_final_chunk_of_16_bytes() {
    let mut pair = pair();
    let opened = pair.opened(5);
    let good = ANSWER.to_bytes();
    for (ctr, chunks) in [
        &[&good[..15]][..],
        &[&[&good[..], &[0]].concat()],
        &[b""],
        &[&good, b""],
        &[&[0; 16]],
    ]
    .into_iter()
    .enumerate()
    {
        let message = pair.response(&opened, ctr as u64, Voice::Weir, chunks);
        let heard = pair.receive_response(opened.attempt(), &message);
        assert_eq!(heard, Err(Failure::Broken(Error::Answer)), "{ctr}");
    }
}

#[test]
fn a_thread_has_one_sender_a_session_until_it_is_spent() {
    let mut pair = pair();
    let mut drawn = 0;
    let mut ids = Vec::new();
    for (ms, generation) in [
        (0, 1),
        (1, 1),
        (599_999, 1),
        (600_000, 1),
        (600_001, 1),
        (600_002, 2),
    ] {
        let id = || {
            drawn += 1;
            Random::new([drawn; 16])
        };
        let now = crate::Moment {
            generation,
            ..moment(ms)
        };
        let mut out = Vec::new();
        let request = pair.outbox.request(&pair.session, now, id, None, &mut out);
        let (attempt, mut sealing) = request.unwrap();
        sealing.push(&mut out, b"x", Piece::Last).unwrap();
        ids.push((attempt.sender.0[0], attempt.ctr));
    }
    assert_eq!(ids, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0)]);
    pair.outbox.sweep(moment(0));
    assert_eq!(pair.outbox.sizes()[0], 0);
}

#[test]
fn what_an_outbound_keeps_is_bounded_and_forgotten() {
    let mut pair = pair();
    pair.outbox = Outbox::new(2, 3);
    for r in 0..20 {
        let opened = pair.opened(r);
        let (mut out, id) = (Vec::new(), || Random::new([r as u8; 16]));
        let mut sender = crate::ResponseSender::new(&opened, &id(), moment(0));
        let mut sealing = sender
            .begin(moment(0), &opened, Voice::Origin, &mut out)
            .unwrap();
        sealing.push(&mut out, b"x", Piece::Last).unwrap();
        assert!(pair.receive_response(opened.attempt(), &out).is_ok());
        assert!(pair.outbox.sizes()[1] <= 3);
    }
    let session = Arc::clone(&pair.session);
    pair.outbox.forget(&session);
    assert_eq!(pair.outbox.sizes(), [0, 0]);
}

/// Sids are chosen by inbounds; two that choose the same do not get into each other's keys.
#[test]
fn sessions_of_one_sid_are_still_two() {
    let mut ours = pair();
    let mut theirs = Pair::new(&Setup {
        psk: Some([1; 32]),
        ..Setup::new(Suite::AesGcm)
    });
    assert_eq!(ours.session.sid(), theirs.session.sid());
    // One thread of an outbound that talks to both.
    let mut outbox = Outbox::default();
    let mut drawn = 0;
    for ctr in 0..3 {
        for pair in [&mut ours, &mut theirs] {
            let id = || {
                drawn += 1;
                Random::new([drawn; 16])
            };
            let mut out = Vec::new();
            let request = outbox.request(&pair.session, moment(1_000), id, None, &mut out);
            let (_, mut sealing) = request.unwrap();
            sealing.push(&mut out, b"text", Piece::Last).unwrap();
            assert_eq!(pair.receive(&out), Ok(b"text".to_vec()));

            // The same R from both.
            let opened = pair.opened(ctr);
            let message = pair.response(&opened, ctr, Voice::Origin, &[b"text"]);
            std::mem::swap(&mut outbox, &mut pair.outbox);
            let heard = pair.receive_response(opened.attempt(), &message);
            std::mem::swap(&mut outbox, &mut pair.outbox);
            assert_eq!(heard, Ok(Heard::Origin(b"text".to_vec())));
        }
    }
    assert_eq!(outbox.sizes(), [1, 1]);
}
