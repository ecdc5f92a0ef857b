//! Tests of the replay window: beside a plain model, over real threads, and each promise by itself.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::SenderId;

/// When instances start in tests: long before anything happens.
const START: Now = Now {
    unix_ms: 1_700_000_000_000,
    mono_ms: 0,
};
const HOUR_MS: u64 = 3_600_000;

fn at(ms: u64) -> Now {
    Now {
        unix_ms: START.unix_ms + ms,
        mono_ms: START.mono_ms + ms,
    }
}

fn replay(windows_max: usize) -> Replay {
    Replay::local(windows_max, *b"0123456789abcdef", START)
}

fn attempt(sender: u64, ctr: u64, ms: u64) -> Attempt {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&sender.to_be_bytes());
    Attempt {
        sender: SenderId(id),
        ctr,
        ts_unix_ms: START.unix_ms + ms,
    }
}

fn claim(peer: u8, sender: u64, ctr: u64, ms: u64) -> Claim {
    Claim {
        peer_id: PeerId([peer; 32]),
        sid: Sid([peer; 16]),
        attempt: attempt(sender, ctr, ms),
        retry_of: None,
    }
}

fn retry(own: (u64, u64, u64), first: (u64, u64, u64)) -> Claim {
    let mut claim = claim(1, own.0, own.1, own.2);
    claim.retry_of = Some(attempt(first.0, first.1, first.2));
    claim
}

fn take(replay: &Replay, claim: Claim, now_ms: u64) -> Result<(), Refused> {
    replay.claim(&claim, at(now_ms)).map(|Claimed(())| ())
}

#[test]
fn a_request_is_let_through_once() {
    let replay = replay(100);
    for ctr in [5, 0, 6, 4, 100, 7] {
        assert_eq!(take(&replay, claim(1, 1, ctr, 10_000), 10_000), Ok(()));
    }
    for now in [10_000, 20_000, 40_000] {
        for ctr in [0, 4, 5, 6, 7, 100] {
            assert_eq!(
                take(&replay, claim(1, 1, ctr, 10_000), now),
                Err(Refused::Claimed)
            );
        }
    }
    assert_eq!(
        take(&replay, claim(1, 1, 5, 10_000), 40_001),
        Err(Refused::Stale)
    );
}

#[test]
fn peers_and_senders_have_windows_of_their_own() {
    let replay = replay(100);
    for peer in 1..4 {
        for sender in 0..4 {
            assert_eq!(
                take(&replay, claim(peer, sender, 9, HOUR_MS), HOUR_MS),
                Ok(())
            );
        }
    }
    assert_eq!(replay.windows(), 12);
    // The sender of A in a session of B leaves A's window alone.
    let mut foreign = claim(2, 77, 1, HOUR_MS);
    assert_eq!(take(&replay, claim(1, 77, 1, HOUR_MS), HOUR_MS), Ok(()));
    assert_eq!(take(&replay, foreign, HOUR_MS), Ok(()));
    foreign.attempt.ctr = 1 << 40;
    assert_eq!(take(&replay, foreign, HOUR_MS), Ok(()));
    assert_eq!(take(&replay, claim(1, 77, 2, HOUR_MS), HOUR_MS), Ok(()));
    // And another session of the same peer cannot begin the sender's window anew.
    let mut other_session = claim(1, 77, 2, HOUR_MS);
    other_session.sid = Sid([200; 16]);
    assert_eq!(take(&replay, other_session, HOUR_MS), Err(Refused::Claimed));
}

#[test]
fn older_than_the_window_is_claimed() {
    let replay = replay(100);
    let ok = |ctr| take(&replay, claim(1, 1, ctr, HOUR_MS), HOUR_MS);
    assert_eq!(ok(WINDOW_BITS), Ok(()));
    assert_eq!(ok(0), Err(Refused::Claimed));
    assert_eq!(ok(1), Ok(()));
    assert_eq!(ok(1), Err(Refused::Claimed));
    assert_eq!(ok(u64::MAX), Ok(()));
    assert_eq!(ok(u64::MAX - WINDOW_BITS), Err(Refused::Claimed));
    assert_eq!(ok(u64::MAX - WINDOW_BITS + 1), Ok(()));
}

#[test]
fn times_have_bounds_on_both_sides() {
    let replay = replay(100);
    let now = HOUR_MS;
    let mut ctr = 0;
    let mut ok = |ms: u64| {
        ctr += 1;
        take(&replay, claim(1, 1, ctr, ms), now)
    };
    assert_eq!(ok(now - PAST_MS_MAX - 1), Err(Refused::Stale));
    assert_eq!(ok(now - PAST_MS_MAX), Ok(()));
    assert_eq!(ok(now + FUTURE_MS_MAX), Ok(()));
    assert_eq!(ok(now + FUTURE_MS_MAX + 1), Err(Refused::Stale));
    let mut odd = claim(1, 1, 500, 0);
    for ts in [0, 1, u64::MAX] {
        odd.attempt.ts_unix_ms = ts;
        assert_eq!(take(&replay, odd, now), Err(Refused::Stale));
    }
    // What was stale has taken nothing.
    assert_eq!(take(&replay, claim(1, 1, 1, now), now), Ok(()));
}

#[test]
fn what_an_earlier_run_may_have_seen_is_stale() {
    let replay = replay(100);
    assert_eq!(take(&replay, claim(1, 1, 1, 0), 0), Err(Refused::Stale));
    assert_eq!(
        take(&replay, claim(1, 1, 1, START_MS), START_MS),
        Err(Refused::Stale)
    );
    assert_eq!(
        take(&replay, claim(1, 1, 1, START_MS), 10_000),
        Err(Refused::Stale)
    );
    let ready = replay.ready_unix_ms() - START.unix_ms;
    assert_eq!(ready, START_MS + 1);
    assert_eq!(take(&replay, claim(1, 1, 1, ready), ready), Ok(()));
    // The first attempt of a retry, too: an earlier run may have let it through.
    let late = retry((2, 1, 10_000), (3, 1, START_MS));
    assert_eq!(take(&replay, late, 10_000), Err(Refused::Stale));
}

#[test]
fn a_retry_takes_both_places_or_neither() {
    let t = HOUR_MS;
    let replay = replay(100);
    // Both free: both taken, the first attempt's in a window that is made for it.
    assert_eq!(take(&replay, retry((1, 5, t), (2, 9, t - 1)), t), Ok(()));
    assert_eq!(replay.windows(), 2);
    assert_eq!(take(&replay, claim(1, 1, 5, t), t), Err(Refused::Claimed));
    assert_eq!(
        take(&replay, claim(1, 2, 9, t - 1), t),
        Err(Refused::Claimed)
    );
    // Only its own free: another retry of the same call takes nothing.
    assert_eq!(
        take(&replay, retry((1, 6, t), (2, 9, t - 1)), t),
        Err(Refused::Claimed)
    );
    assert_eq!(take(&replay, claim(1, 1, 6, t), t), Ok(()));
    // Only the first's free: nothing is taken either.
    assert_eq!(
        take(&replay, retry((1, 6, t), (2, 10, t)), t),
        Err(Refused::Claimed)
    );
    assert_eq!(take(&replay, claim(1, 2, 10, t), t), Ok(()));
    // Of the same sender, near and far.
    assert_eq!(take(&replay, retry((3, 8, t), (3, 7, t)), t), Ok(()));
    assert_eq!(take(&replay, claim(1, 3, 7, t), t), Err(Refused::Claimed));
    assert_eq!(take(&replay, claim(1, 3, 6, t), t), Ok(()));
    assert_eq!(take(&replay, retry((3, 1 << 30, t), (3, 9, t)), t), Ok(()));
    assert_eq!(take(&replay, claim(1, 3, 9, t), t), Err(Refused::Claimed));
    // Itself, and what its sender had not made yet.
    for first in [8, 9, u64::MAX] {
        let odd = retry((4, 8, t), (4, first, t));
        assert_eq!(take(&replay, odd, t), Err(Refused::Malformed));
    }
    assert_eq!(replay.windows(), 3);
}

#[test]
fn a_first_attempt_is_held_to_the_same_times() {
    let (t, replay) = (HOUR_MS, replay(100));
    let old = retry((1, 1, t), (2, 1, t - PAST_MS_MAX - 1));
    assert_eq!(take(&replay, old, t), Err(Refused::Stale));
    let ahead = retry((1, 1, t), (2, 1, t + FUTURE_MS_MAX + 1));
    assert_eq!(take(&replay, ahead, t), Err(Refused::Stale));
    assert_eq!(replay.windows(), 0);
    assert_eq!(
        take(&replay, retry((1, 1, t), (2, 1, t - PAST_MS_MAX)), t),
        Ok(())
    );
}

/// A first attempt that was let through early, and its retry, captured and refused late: the retry must not run when
/// the first attempt's window would have been forgotten.
#[test]
fn a_refused_retry_stays_refused_for_as_long_as_it_is_good() {
    let (t, replay) = (HOUR_MS, replay(100));
    assert_eq!(take(&replay, claim(1, 2, 1, t), t), Ok(()));
    let captured = retry((1, 1, t + 30_000), (2, 1, t));
    assert_eq!(take(&replay, captured, t + 30_000), Err(Refused::Claimed));
    for later in (30_000..=70_000).step_by(500) {
        replay.sweep(at(t + later));
        assert!(
            take(&replay, captured, t + later).is_err(),
            "{later} ms after"
        );
    }
}

#[test]
fn windows_are_kept_for_35_seconds_and_no_longer() {
    let (t, replay) = (HOUR_MS, replay(100));
    assert_eq!(take(&replay, claim(1, 1, 1, t), t), Ok(()));
    assert_eq!(take(&replay, claim(1, 1, 2, t + 5_000), t + 5_000), Ok(()));
    replay.sweep(at(t + 5_000 + KEPT_MS - 1));
    assert_eq!(replay.windows(), 1);
    replay.sweep(at(t + 5_000 + KEPT_MS));
    assert_eq!(replay.windows(), 0);
    // A sender that goes on after a pause has a window again.
    let later = t + 60_000;
    assert_eq!(take(&replay, claim(1, 1, 3, later), later), Ok(()));
    assert_eq!(
        take(&replay, claim(1, 1, 3, later), later),
        Err(Refused::Claimed)
    );
}

/// What was let through is not let through again when the clock goes back past the life of its window.
#[test]
fn a_clock_that_goes_back_opens_nothing() {
    for back_ms in [1_000, 10_000, 34_000, HOUR_MS / 2] {
        let (t, replay) = (HOUR_MS, replay(100));
        let taken = claim(1, 1, 1, t);
        assert_eq!(take(&replay, taken, t), Ok(()));
        replay.sweep(at(t + KEPT_MS));
        assert_eq!(replay.windows(), 0);
        let now = Now {
            unix_ms: at(t + KEPT_MS - back_ms).unix_ms,
            mono_ms: at(t + KEPT_MS).mono_ms,
        };
        assert_eq!(replay.claim(&taken, now), Err(Refused::Stale));
        // Nor by a thread that looked at its clock long ago.
        assert_eq!(take(&replay, taken, t), Err(Refused::Stale));
        if back_ms < 30_000 {
            let mut fresh = taken;
            fresh.attempt.ts_unix_ms = now.unix_ms;
            assert!(replay.claim(&fresh, now).is_ok(), "{back_ms}");
        }
    }
}

/// Clocks that go as they like, table too small, retries across each other: nothing runs twice.
#[test]
fn whatever_the_clocks_do_nothing_is_let_through_twice() {
    let mut let_through = 0;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (replay, mut taken, mut mono_ms) = (replay(6), HashSet::new(), HOUR_MS);
        // A message's time belongs to its sender and counter, as it does under a seal.
        let made = |random: &mut fastrand::Rng| {
            let (sender, ctr) = (random.u64(..8), random.u64(..4) * 9_000);
            (sender, ctr, HOUR_MS + (sender * 31 + ctr * 7) % 100 * 1_000)
        };
        for _ in 0..600 {
            let (own, first) = (made(&mut random), made(&mut random));
            let one = if random.bool() {
                retry(own, first)
            } else {
                claim(1, own.0, own.1, own.2)
            };
            mono_ms += random.u64(..3_000);
            let now = Now {
                unix_ms: at(HOUR_MS + random.u64(..100_000)).unix_ms,
                mono_ms,
            };
            if replay.claim(&one, now).is_ok() {
                let_through += 1;
                for attempt in [Some(one.attempt), one.retry_of].into_iter().flatten() {
                    assert!(taken.insert((attempt.sender, attempt.ctr)), "seed {seed}");
                }
            }
        }
    }
    assert!(let_through > 1_000, "{let_through}");
}

#[test]
fn a_full_table_refuses_new_senders_and_forgets_none() {
    let (t, replay) = (HOUR_MS, replay(10));
    for sender in 0..10 {
        assert_eq!(take(&replay, claim(1, sender, 1, t), t), Ok(()));
    }
    assert_eq!(take(&replay, claim(2, 10, 1, t), t), Err(Refused::Overload));
    assert_eq!(
        take(&replay, retry((0, 2, t), (11, 1, t)), t),
        Err(Refused::Overload)
    );
    for sender in 0..10 {
        assert_eq!(
            take(&replay, claim(1, sender, 1, t), t),
            Err(Refused::Claimed)
        );
        assert_eq!(take(&replay, claim(1, sender, 2, t), t), Ok(()));
    }
    // Room comes back by itself, all at once or as it is needed.
    let later = t + KEPT_MS;
    assert_eq!(take(&replay, claim(2, 10, 1, later), later), Ok(()));
    for sender in 20..29 {
        assert_eq!(take(&replay, claim(3, sender, 1, later), later), Ok(()));
    }
    assert_eq!(
        take(&replay, claim(3, 30, 1, later), later),
        Err(Refused::Overload)
    );
    assert_eq!(replay.windows(), 10);
}

#[test]
fn one_session_cannot_fill_the_table() {
    let (t, replay) = (HOUR_MS, replay(10_000));
    let max = u64::from(SESSION_SENDERS_MAX);
    for sender in 0..max {
        assert_eq!(take(&replay, claim(1, sender, 1, t), t), Ok(()));
    }
    assert_eq!(
        take(&replay, claim(1, max, 1, t), t),
        Err(Refused::Overload)
    );
    assert_eq!(
        take(&replay, retry((0, 2, t), (max, 1, t)), t),
        Err(Refused::Overload)
    );
    assert_eq!(take(&replay, claim(1, 0, 2, t), t), Ok(()));
    assert_eq!(take(&replay, claim(2, max, 1, t), t), Ok(()));
    let mut other_session = claim(1, max, 1, t);
    other_session.sid = Sid([99; 16]);
    assert_eq!(take(&replay, other_session, t), Ok(()));
    // A session's room comes back with its windows.
    replay.sweep(at(t + KEPT_MS));
    assert_eq!(replay.windows(), 0);
    for sender in 0..max {
        let later = t + KEPT_MS;
        assert_eq!(take(&replay, claim(1, sender, 1, later), later), Ok(()));
    }
}

/// What a replay window means, as plainly as can be: sets that grow, and nothing is forgotten but by time.
#[derive(Default)]
struct Model {
    taken: HashSet<(u64, u64)>,
    tops: HashMap<u64, u64>,
    seen_ms: HashMap<u64, u64>,
}

impl Model {
    fn is_taken(&self, (sender, ctr, _): (u64, u64, u64)) -> bool {
        let top = self.tops.get(&sender).copied().unwrap_or(0);
        self.taken.contains(&(sender, ctr)) || ctr + WINDOW_BITS <= top
    }

    fn take(&mut self, (sender, ctr, _): (u64, u64, u64), now_ms: u64) {
        assert!(self.taken.insert((sender, ctr)), "let through twice");
        let top = self.tops.entry(sender).or_insert(0);
        *top = ctr.max(*top);
        self.seen_ms.insert(sender, now_ms);
    }

    fn forget(&mut self, now_ms: u64) {
        let gone = |sender: &u64| self.seen_ms[sender] + KEPT_MS <= now_ms;
        // Only the highest counter is forgotten: what is too old is told by its time.
        self.tops.retain(|sender, _| !gone(sender));
    }
}

#[test]
fn it_agrees_with_a_plain_model() {
    let mut results = [0_u32; 3];
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (replay, mut model, mut now) = (replay(1_000), Model::default(), HOUR_MS);
        let mut sent: Vec<Claim> = Vec::new();
        let mut next = [0_u64; 6];
        for _ in 0..3_000 {
            now += [0, 1, 20, 500, 9_000][random.usize(..5)] * u64::from(random.u8(..40) == 0);
            let mut make = |random: &mut fastrand::Rng| {
                let sender = random.usize(..next.len());
                next[sender] +=
                    1 + random.u64(..3) * random.u64(..9_000) * u64::from(random.u8(..20) == 0);
                (sender as u64, next[sender], now - random.u64(..8_000))
            };
            // A new request, a new one that is sealed before and sent later, a retry of any, or a replay of any.
            let kind = random.u8(..10);
            let fresh = make(&mut random);
            let mut one = claim(1, fresh.0, fresh.1, fresh.2);
            match kind {
                0..3 => {
                    if let Some(other) = random.choice(&sent) {
                        one.retry_of = Some(other.attempt)
                            .filter(|f| f.sender != one.attempt.sender || f.ctr < one.attempt.ctr);
                    }
                }
                3..6 => {
                    if let Some(old) = random.choice(&sent) {
                        one = *old;
                    }
                }
                _ => {}
            }
            sent.push(one);
            if kind == 9 {
                continue;
            }
            if random.u8(..50) == 0 {
                replay.sweep(at(now));
            }
            model.forget(now);
            let plain = |a: Attempt| {
                let sender = u64::from_be_bytes(*a.sender.0.first_chunk().unwrap());
                (sender, a.ctr, a.ts_unix_ms - START.unix_ms)
            };
            let parts: Vec<_> = [Some(one.attempt), one.retry_of]
                .into_iter()
                .flatten()
                .map(plain)
                .collect();
            let is_stale = parts.iter().any(|part| part.2 + PAST_MS_MAX < now);
            let is_taken = parts.iter().any(|part| model.is_taken(*part));
            let result = take(&replay, one, now);
            results[usize::from(is_stale) * 2 + usize::from(is_taken && !is_stale)] += 1;
            match (is_stale, is_taken) {
                (true, _) => assert_eq!(result, Err(Refused::Stale), "seed {seed}"),
                // A window may be kept for longer than it must: then its top still counts.
                (_, true) => assert_eq!(result, Err(Refused::Claimed), "seed {seed}"),
                (_, false) if result == Err(Refused::Claimed) => {
                    panic!("seed {seed}: {parts:?} at {now} was not taken")
                }
                _ => assert_eq!(result, Ok(()), "seed {seed}"),
            }
            if result.is_ok() {
                for part in parts.iter().rev() {
                    model.take(*part, now);
                }
            }
        }
    }
    assert!(results.iter().all(|count| *count > 10_000), "{results:?}");
}

/// Every connection on a thread of its own, all with the same messages: each is let through once.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test has threads of its own")]
fn it_is_exact_over_threads() {
    const THREADS: u64 = 8;
    const SENDERS: u64 = 5;
    const CTRS: u64 = 20_000;
    let replay = replay(1_000);
    let counts: Vec<AtomicU32> = (0..SENDERS * CTRS).map(|_| AtomicU32::new(0)).collect();
    let start = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (replay, counts, start) = (&replay, &counts, &start);
            scope.spawn(move || {
                start.wait();
                for step in 0..SENDERS * CTRS {
                    // Near each other, each thread in an order of its own.
                    let order = step ^ (thread * 3);
                    if order >= SENDERS * CTRS {
                        continue;
                    }
                    let (sender, ctr) = (order % SENDERS, order / SENDERS);
                    if take(replay, claim(1, sender, ctr, HOUR_MS), HOUR_MS).is_ok() {
                        counts[order as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let twice = counts
        .iter()
        .filter(|count| count.load(Ordering::Relaxed) > 1)
        .count();
    let never = counts
        .iter()
        .filter(|count| count.load(Ordering::Relaxed) == 0)
        .count();
    // A thread that is late by a whole window finds its messages claimed, by whoever was first.
    assert_eq!((twice, never), (0, 0));
}

/// First attempts and many retries of each, by all threads at once, across each other: one of them runs, and nobody
/// waits for ever.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test has threads of its own")]
fn retries_are_exact_over_threads() {
    const THREADS: u64 = 6;
    const CALLS: u64 = 4_000;
    let replay = replay(1_000);
    let runs: Vec<AtomicU32> = (0..CALLS).map(|_| AtomicU32::new(0)).collect();
    let start = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (replay, runs, start) = (&replay, &runs, &start);
            scope.spawn(move || {
                start.wait();
                let t = HOUR_MS;
                for call in 0..CALLS {
                    // The first attempt is by sender `call % 7`; thread 0 sends it, the others retry it by
                    // senders of their own and, so that locks are taken both ways, by those of first attempts.
                    let first = (call % 7, call, t);
                    let own = (100 + thread * 7 + (call + thread) % 7, call, t);
                    let crossed = ((call + thread) % 7, CALLS + call * THREADS + thread, t);
                    let one = match (thread, call % 2) {
                        (0, _) => claim(1, first.0, first.1, t),
                        (_, 0) => retry(own, first),
                        _ => retry(crossed, first),
                    };
                    if take(replay, one, t).is_ok() {
                        runs[call as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let twice = runs
        .iter()
        .filter(|count| count.load(Ordering::Relaxed) > 1)
        .count();
    assert_eq!(twice, 0);
}

/// New senders, sweeps and a full table, from all threads: the room is counted right.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test has threads of its own")]
fn room_is_counted_right_over_threads() {
    let replay = replay(500);
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let replay = &replay;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for step in 0..20_000_u64 {
                    let t = HOUR_MS + step * 10;
                    let _ = take(
                        replay,
                        claim(random.u8(..4), random.u64(..2_000), step, t),
                        t,
                    );
                    assert!(replay.windows() <= 500);
                    if step % 100 == 0 {
                        replay.sweep(at(t));
                    }
                }
            });
        }
    });
    assert!(replay.windows() > 0);
    replay.sweep(at(2 * HOUR_MS));
    assert_eq!(replay.windows(), 0);
    for sender in 0..500 {
        assert_eq!(
            take(&replay, claim(9, sender, 1, 2 * HOUR_MS), 2 * HOUR_MS),
            Ok(())
        );
    }
    assert_eq!(
        take(&replay, claim(9, 500, 1, 2 * HOUR_MS), 2 * HOUR_MS),
        Err(Refused::Overload)
    );
}
