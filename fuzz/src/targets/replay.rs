//! The replay window, under clocks that do what they like: nothing is let through twice.

use base::Now;
use seal::replay::{Claim, Replay};
use seal::{Attempt, PeerId, SenderId, Sid};

const START_MS: u64 = 1_700_000_000_000;
/// Messages that one input makes.
const MESSAGES: usize = 16;

/// The first bytes make messages, of eight each; the others say which of them comes when.
pub fn seal_replay(data: &[u8]) {
    let Some((made, steps)) = data.split_at_checked(MESSAGES * 8) else {
        return;
    };
    let start = Now {
        unix_ms: START_MS - 10_000,
        mono_ms: 0,
    };
    let replay = Replay::local(5, [9; 16], start);
    let claims: Vec<Claim> = made.chunks_exact(8).map(claim).collect();
    let mut taken: Vec<(SenderId, u64)> = Vec::new();
    let mut mono_ms = 10_000;
    for step in steps.chunks_exact(4) {
        let [which, forward, wall, action] = *step else {
            return;
        };
        mono_ms += u64::from(forward) * 200;
        // The wall clock goes by itself, forwards or backwards.
        let now = Now {
            unix_ms: START_MS + u64::from(wall) * 500,
            mono_ms,
        };
        if action == 0 {
            replay.sweep(now);
        }
        let claim = &claims[usize::from(which) % MESSAGES];
        if replay.claim(claim, now).is_ok() {
            for attempt in [Some(claim.attempt), claim.retry_of].into_iter().flatten() {
                let name = (attempt.sender, attempt.ctr);
                assert!(!taken.contains(&name), "let through twice");
                taken.push(name);
            }
        }
    }
}

/// A message: its time belongs to its sender and counter, as it does under a seal.
fn claim(bytes: &[u8]) -> Claim {
    let attempt = |sender: u8, ctr: u8| {
        let ctr = u64::from(ctr % 4) * 10_000 + u64::from(ctr);
        let ts_unix_ms = START_MS + (u64::from(sender) * 31 + ctr * 7) % 128 * 1_000;
        Attempt {
            sender: SenderId([sender % 8; 16]),
            ctr,
            ts_unix_ms,
        }
    };
    let [sender, ctr, is_retry, first_sender, first_ctr, session, ..] = *bytes else {
        unreachable!("eight bytes")
    };
    Claim {
        peer_id: PeerId([1; 32]),
        sid: Sid([session % 3; 16]),
        attempt: attempt(sender % 8, ctr),
        retry_of: (is_retry % 2 == 1).then(|| attempt(first_sender % 8, first_ctr)),
    }
}
