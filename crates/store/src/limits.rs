//! Limits of calls a minute, exact across threads, in memory.
//!
//! Each counted thing has a bucket that holds a minute's calls and drains evenly, so that a burst is
//! allowed and a steady excess is not. Nothing here survives a restart. At most [`COUNTED_MAX`] buckets
//! are kept: the longest unseen goes first, which is also the one that has drained most.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use base::Now;
use base::limit::COUNTED_MAX;
use gate::ports::{Counted, Counters};

/// Maps that the counted are spread over, so that threads seldom meet.
const SHARDS: usize = 64;
/// What one call fills. A limit of `n` drains `n` units each millisecond: one call for each 60,000 / n ms.
const CALL: u64 = 60_000;

#[derive(Clone, Copy)]
struct Bucket {
    /// Units of [`CALL`] that have not drained yet.
    level: u64,
    /// When it was last seen, in milliseconds since the process started.
    seen_ms: u64,
}

/// The counters of one process.
pub struct Limits {
    shards: Vec<Mutex<HashMap<Counted, Bucket>>>,
    spread: RandomState,
    shard_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::new()
    }
}

impl Limits {
    /// Remembers at most [`COUNTED_MAX`] agents and addresses.
    pub fn new() -> Limits {
        Limits::with_room(COUNTED_MAX)
    }

    fn with_room(counted_max: usize) -> Limits {
        Limits {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            spread: RandomState::new(),
            shard_max: counted_max.div_ceil(SHARDS).max(1),
        }
    }

    /// How many are remembered now.
    pub fn counted(&self) -> usize {
        let len = |shard: &Mutex<HashMap<_, _>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.shards.iter().map(len).sum()
    }

    /// Runs `change` on the drained bucket of `counted`, which is made where it is missing.
    fn with<T>(
        &self,
        counted: &Counted,
        per_minute: u32,
        now: Now,
        change: impl FnOnce(&mut u64) -> T,
    ) -> T {
        let counted = by_network(counted);
        let shard = &self.shards[self.spread.hash_one(&counted) as usize % SHARDS];
        // A panic cannot leave a bucket half changed, so a poisoned lock is still right.
        let mut buckets = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(&counted) && buckets.len() >= self.shard_max {
            forget_longest_unseen(&mut buckets);
        }
        let fresh = Bucket {
            level: 0,
            seen_ms: now.mono_ms,
        };
        let bucket = buckets.entry(counted).or_insert(fresh);
        let drained = now
            .mono_ms
            .saturating_sub(bucket.seen_ms)
            .saturating_mul(u64::from(per_minute));
        bucket.level = bucket.level.saturating_sub(drained);
        bucket.seen_ms = bucket.seen_ms.max(now.mono_ms);
        change(&mut bucket.level)
    }
}

impl Counters for Limits {
    fn take(&self, counted: &Counted, per_minute: u32, now: Now) -> Result<(), u64> {
        let rate = u64::from(per_minute);
        self.with(counted, per_minute, now, |level| {
            match (*level + CALL).checked_sub(rate * CALL) {
                None | Some(0) => {
                    *level += CALL;
                    Ok(())
                }
                Some(over) => Err(over.checked_div(rate).map_or(CALL, |_| over.div_ceil(rate))),
            }
        })
    }

    fn give_back(&self, counted: &Counted, per_minute: u32, now: Now) {
        self.with(counted, per_minute, now, |level| {
            *level = level.saturating_sub(CALL)
        });
    }
}

/// IPv6 counts by its /64, IPv4 in IPv6 as IPv4; everything else as it is.
fn by_network(counted: &Counted) -> Counted {
    match counted {
        Counted::Address(address) => Counted::Address(base::network(*address)),
        Counted::Stranger(address) => Counted::Stranger(base::network(*address)),
        Counted::Agent(_) | Counted::Requests(_) => counted.clone(),
    }
}

fn forget_longest_unseen(buckets: &mut HashMap<Counted, Bucket>) {
    let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.seen_ms);
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        buckets.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use base::Name;

    use super::*;

    fn at(mono_ms: u64) -> Now {
        Now {
            unix_ms: 0,
            mono_ms,
        }
    }

    fn agent(name: &str) -> Counted {
        Counted::Agent(Name::new(name).unwrap())
    }

    fn address(text: &str) -> Counted {
        Counted::Address(text.parse().unwrap())
    }

    fn stranger(text: &str) -> Counted {
        Counted::Stranger(text.parse().unwrap())
    }

    #[test]
    fn a_minute_holds_its_calls_and_drains_evenly() {
        let limits = Limits::new();
        let dev = agent("dev");
        for _ in 0..600 {
            assert_eq!(limits.take(&dev, 600, at(5)), Ok(()));
        }
        assert_eq!(limits.take(&dev, 600, at(5)), Err(100));
        assert_eq!(limits.take(&dev, 600, at(104)), Err(1));
        assert_eq!(limits.take(&dev, 600, at(105)), Ok(()));
        assert_eq!(limits.take(&dev, 600, at(105)), Err(100));
        assert_eq!(limits.take(&agent("other"), 600, at(105)), Ok(()));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let limits = Limits::new();
        let dev = agent("dev");
        assert_eq!(limits.take(&dev, 1, at(0)), Ok(()));
        assert_eq!(limits.take(&dev, 1, at(0)), Err(60_000));
        limits.give_back(&dev, 1, at(0));
        assert_eq!(limits.take(&dev, 1, at(0)), Ok(()));
        limits.give_back(&dev, 1, at(0));
        limits.give_back(&dev, 1, at(0));
        assert_eq!(limits.take(&dev, 1, at(0)), Ok(()));
        assert!(limits.take(&dev, 1, at(0)).is_err());
    }

    #[test]
    fn odd_limits_hold() {
        let limits = Limits::new();
        assert_eq!(limits.take(&agent("none"), 0, at(0)), Err(60_000));
        for _ in 0..7 {
            assert_eq!(limits.take(&agent("seven"), 7, at(0)), Ok(()));
        }
        let wait = limits.take(&agent("seven"), 7, at(0)).unwrap_err();
        assert!(limits.take(&agent("seven"), 7, at(wait - 1)).is_err());
        assert_eq!(limits.take(&agent("seven"), 7, at(wait)), Ok(()));
        assert_eq!(limits.take(&agent("most"), u32::MAX, at(u64::MAX)), Ok(()));
        assert_eq!(limits.take(&agent("most"), u32::MAX, at(0)), Ok(()));
    }

    #[test]
    fn a_host_is_one_whatever_address_it_takes() {
        let limits = Limits::new();
        assert_eq!(limits.take(&address("2001:db8:0:1::1"), 1, at(0)), Ok(()));
        assert!(
            limits
                .take(&address("2001:db8:0:1:ffff::2"), 1, at(0))
                .is_err()
        );
        assert_eq!(limits.take(&address("2001:db8:0:2::1"), 1, at(0)), Ok(()));
        assert_eq!(limits.take(&address("192.0.2.1"), 1, at(0)), Ok(()));
        assert!(limits.take(&address("::ffff:192.0.2.1"), 1, at(0)).is_err());
        assert_eq!(limits.take(&address("192.0.2.2"), 1, at(0)), Ok(()));
        // Strangers at an address are counted beside its agents, by the same rule.
        assert_eq!(limits.take(&stranger("192.0.2.1"), 1, at(0)), Ok(()));
        assert!(
            limits
                .take(&stranger("::ffff:192.0.2.1"), 1, at(0))
                .is_err()
        );
        let networks = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"];
        let room = networks.map(|text| limits.take(&stranger(text), 1, at(0)).is_ok());
        assert_eq!(room, [true, false, true]);
    }

    #[test]
    fn threads_count_exactly() {
        let limits = Limits::new();
        let passed = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if limits.take(&agent("dev"), 1000, at(7)).is_ok() {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 1000);
    }

    #[test]
    fn the_longest_unseen_is_forgotten() {
        let limits = Limits::with_room(SHARDS * 4);
        let kept = agent("kept");
        assert_eq!(limits.take(&kept, 1, at(0)), Ok(()));
        for i in 0..5000_u64 {
            assert!(limits.take(&kept, 1, at(i)).is_err(), "{i}");
            let v4 = std::net::Ipv4Addr::from_bits(i as u32);
            assert_eq!(limits.take(&Counted::Address(v4.into()), 1, at(i)), Ok(()));
        }
        assert!(limits.counted() <= SHARDS * 4);
    }
}
