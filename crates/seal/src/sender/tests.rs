use std::sync::Arc;

use base::Now;

use super::{CLOCK_STEP_MS, Moment, RequestSender, ResponseSender, SENDER_MS, Voice};
use crate::chunk::{BYTES_LIMIT, CHUNKS_LIMIT};
use crate::tests::fixture::{Pair, Setup, counting, moment};
use crate::{Error, Piece, Random, Suite};

fn pair() -> Pair {
    Pair::new(&Setup::new(Suite::AesGcm))
}

fn sender(pair: &Pair) -> RequestSender {
    RequestSender::new(
        Arc::clone(&pair.session),
        &Random::new(counting(0x10)),
        moment(0),
    )
}

#[test]
fn a_counter_is_taken_before_anything_is_sealed() {
    let pair = pair();
    let mut sender = sender(&pair);
    for ctr in 0..100 {
        // Nothing is sealed with it: it is gone all the same.
        let (attempt, _) = sender.begin(moment(0), None, &mut Vec::new()).unwrap();
        assert_eq!((attempt.ctr, attempt.sender.0), (ctr, counting(0x10)));
    }
}

#[test]
fn a_sender_is_spent_by_chunks_and_by_bytes() {
    let pair = pair();
    for (chunks, bytes, spent) in [
        (u64::from(CHUNKS_LIMIT) - 1, BYTES_LIMIT - 1, false),
        (u64::from(CHUNKS_LIMIT), 0, true),
        (0, BYTES_LIMIT, true),
    ] {
        let mut sender = sender(&pair);
        sender.sender.line.chunks.set(chunks);
        sender.sender.line.bytes.set(bytes);
        assert_eq!(sender.is_spent(moment(0)), spent);
        let begun = sender.begin(moment(0), None, &mut Vec::new());
        assert_eq!(begun.err(), spent.then_some(Error::Spent));
    }
}

#[test]
fn chunks_and_bytes_are_counted_over_all_messages() {
    let pair = pair();
    let mut sender = sender(&pair);
    let (mut out, mut sealing) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        sealing.push(sender.begin(moment(0), None, &mut out).unwrap().1);
    }
    for sealing in &mut sealing {
        sealing.push(&mut out, b"four", Piece::More).unwrap();
        sealing.push(&mut out, b"", Piece::Last).unwrap();
    }
    let line = &sender.sender.line;
    assert_eq!((line.chunks.get(), line.bytes.get()), (6, 3 * (20 + 16)));
}

#[test]
fn a_sender_is_spent_by_time_by_a_step_of_the_clock_and_by_a_clone() {
    let pair = pair();
    let began = moment(0);
    let at = |unix: i64, mono: i64, generation| Moment {
        now: Now {
            unix_ms: began.now.unix_ms.saturating_add_signed(unix),
            mono_ms: began.now.mono_ms.saturating_add_signed(mono),
        },
        generation,
    };
    let (life, step) = (SENDER_MS as i64, CLOCK_STEP_MS as i64);
    for (now, spent) in [
        (at(0, 0, 1), false),
        (at(life - 1, life - 1, 1), false),
        (at(life, life, 1), true),
        (at(5 + step - 1, 5, 1), false),
        (at(5 + step, 5, 1), true),
        (at(5 - step + 1, 5, 1), false),
        (at(5 - step, 5, 1), true),
        (at(-3_600_000, 5, 1), true),
        (at(5, 5, 2), true),
        (at(5, 5, 0), true),
    ] {
        let mut sender = sender(&pair);
        assert_eq!(sender.is_spent(now), spent, "{now:?}");
        let mut out = Vec::new();
        assert_eq!(
            sender.begin(now, None, &mut out).err(),
            spent.then_some(Error::Spent)
        );
        assert_eq!(out.is_empty(), spent);
    }
}

#[test]
fn a_message_already_begun_keeps_its_key_when_the_sender_is_gone() {
    let mut pair = pair();
    let mut out = Vec::new();
    let mut sender = sender(&pair);
    let (_, mut sealing) = sender.begin(moment(0), None, &mut out).unwrap();
    sealing.push(&mut out, b"before ", Piece::More).unwrap();
    assert!(sender.is_spent(moment(SENDER_MS)));
    drop(sender);
    sealing.push(&mut out, b"after", Piece::Last).unwrap();
    assert!(sealing.is_ended());
    assert_eq!(pair.receive(&out), Ok(b"before after".to_vec()));
}

#[test]
fn a_response_sender_is_of_one_session() {
    let (mut pair, mut other) = (pair(), Pair::new(&Setup::new(Suite::AesGcmSiv)));
    let (ours, theirs) = (pair.opened(0), other.opened(0));
    let mut sender = ResponseSender::new(&ours, &Random::new([1; 16]), moment(0));
    let mut out = Vec::new();
    assert!(
        sender
            .begin(moment(0), &ours, Voice::Origin, &mut out)
            .is_ok()
    );
    let begun = sender.begin(moment(0), &theirs, Voice::Origin, &mut out);
    assert_eq!(begun.err(), Some(Error::Session));
    let begun = sender.begin(moment(SENDER_MS), &ours, Voice::Origin, &mut out);
    assert_eq!(begun.err(), Some(Error::Spent));
    assert!(sender.is_spent(moment(SENDER_MS)) && out.len() == 32);
}

#[test]
fn the_time_of_a_message_is_the_inbounds() {
    let pair = pair();
    assert!(
        pair.session
            .set_clock(moment(0).now.unix_ms + 7_000, moment(0).now, moment(0).now)
    );
    let mut sender = sender(&pair);
    let (attempt, _) = sender.begin(moment(10), None, &mut Vec::new()).unwrap();
    assert_eq!(attempt.ts_unix_ms, moment(10).now.unix_ms + 7_000);
}
