//! The memory of a full table of replay windows is what its documentation says, however many senders come.
//!
//! It is a program of its own, so that nothing else is in the figures, which the kernel gives.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test asks the kernel for its memory, and prints"
)]

use base::Now;
use seal::replay::{Claim, Refused, Replay, SESSION_SENDERS_MAX, WINDOWS_DEFAULT};
use seal::{Attempt, PeerId, SenderId, Sid};

/// What the documentation says, in bytes.
const TABLE_BYTES_MAX: u64 = 40 << 20;

/// Bytes of memory that this process has in use.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

fn claim(number: usize, ctr: u64, now: Now) -> Claim {
    let mut sender = [0; 16];
    sender[..8].copy_from_slice(&(number as u64).to_be_bytes());
    Claim {
        peer_id: PeerId([1; 32]),
        sid: Sid([(number / SESSION_SENDERS_MAX as usize) as u8; 16]),
        attempt: Attempt {
            sender: SenderId(sender),
            ctr,
            ts_unix_ms: now.unix_ms,
        },
        retry_of: None,
    }
}

#[test]
fn a_full_table_is_as_large_as_it_says() {
    let now = Now {
        unix_ms: 1_700_000_000_000,
        mono_ms: 10_000,
    };
    let start = Now {
        unix_ms: now.unix_ms - 10_000,
        mono_ms: 0,
    };
    let replay = Replay::local(WINDOWS_DEFAULT, [7; 16], start);
    let Some(before) = resident_bytes() else {
        return;
    };
    for number in 0..WINDOWS_DEFAULT {
        assert!(replay.claim(&claim(number, 1, now), now).is_ok());
    }
    assert_eq!(replay.windows(), WINDOWS_DEFAULT);
    let full = resident_bytes().unwrap_or(0).saturating_sub(before);
    assert!(full <= TABLE_BYTES_MAX, "{full} bytes for a full table");
    for number in 0..10 * WINDOWS_DEFAULT {
        let result = replay.claim(&claim(WINDOWS_DEFAULT + number, 1, now), now);
        assert_eq!(result.err(), Some(Refused::Overload));
        let known = number % WINDOWS_DEFAULT;
        assert!(
            replay
                .claim(&claim(known, 2 + number as u64, now), now)
                .is_ok()
        );
    }
    let later = resident_bytes().unwrap_or(0).saturating_sub(before);
    assert!(
        later <= TABLE_BYTES_MAX,
        "{later} bytes after many senders more"
    );
    println!("{full} bytes when full, {later} later");
}
