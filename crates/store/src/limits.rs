//! Amounts of a minute, exact across threads, in memory.
//!
//! Each counted thing has a bucket for each unit that holds a minute's amount and drains evenly, so that a burst is
//! allowed and a steady excess is not. At most [`COUNTED_MAX`] buckets are kept: the longest unseen goes first, which is
//! also the one that has drained most. Amounts of a day or a month are in `windows.rs`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use base::Now;
use base::limit::COUNTED_MAX;
use gate::ports::{
    BudgetLine, BudgetSpent, Budgets, Counted, OverBudget, Per, Reply, Ticket, Unit,
};

use crate::windows::{BudgetStanding, Windows};

/// Maps that the counted are spread over, so that threads seldom meet.
const SHARDS: usize = 64;
/// What one of a unit fills. A budget of `n` drains `n` of these each millisecond: one unit for each 60,000 / n ms.
const ONE: u64 = 60_000;

#[derive(Clone, Copy)]
struct Bucket {
    /// What has not drained yet, in parts of which [`ONE`] is one unit.
    level: u64,
    /// When it was last seen, in milliseconds since the process started.
    seen_ms: u64,
}

type Key = (Counted, Unit);

/// The budgets of one process.
pub struct Limits {
    windows: Windows,
    shards: Vec<Mutex<HashMap<Key, Bucket>>>,
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
            windows: Windows::default(),
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

    /// Runs `change` on the drained bucket of a line, which is made where it is missing.
    fn with<T>(&self, line: &BudgetLine, now: Now, change: impl FnOnce(&mut u64) -> T) -> T {
        let counted = (by_network(&line.counted), line.unit);
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
            .saturating_mul(rate_of(line));
        bucket.level = bucket.level.saturating_sub(drained);
        bucket.seen_ms = bucket.seen_ms.max(now.mono_ms);
        change(&mut bucket.level)
    }

    /// Counts what was spent at that time, before this process began or before the budget was there.
    pub fn add(&self, line: &BudgetLine, at_unix_ms: u64, now: Now) {
        match line.per {
            Per::Minute => {
                let ago_ms = now.unix_ms.saturating_sub(at_unix_ms);
                let drained = ago_ms.saturating_mul(rate_of(line));
                let amount = line.amount.saturating_mul(ONE).saturating_sub(drained);
                self.with(line, now, |level| *level = level.saturating_add(amount));
            }
            per => {
                let (counted, unit) = (&line.counted, line.unit);
                self.windows
                    .add(counted, unit, per, line.amount, at_unix_ms, now.unix_ms);
            }
        }
    }

    /// What was spent of a day's or a month's budget is this from now on; what is reserved stays so.
    pub fn set(&self, line: &BudgetLine, now: Now) {
        self.windows.set(line, now.unix_ms);
    }

    /// How a budget stands; of one of a minute what has not drained yet.
    pub fn standing(&self, line: &BudgetLine, now: Now) -> BudgetStanding {
        match line.per {
            Per::Minute => BudgetStanding {
                spent: self.with(line, now, |level| level.div_ceil(ONE)),
                reserved: 0,
                until_unix_ms: None,
            },
            per => self
                .windows
                .standing(&line.counted, line.unit, per, now.unix_ms),
        }
    }

    /// Takes one line. On refusal: milliseconds until there is enough.
    fn take(&self, line: &BudgetLine, now: Now) -> Result<(), u64> {
        if line.per != Per::Minute {
            return self.windows.take(line, now.unix_ms);
        }
        let rate = rate_of(line);
        let amount = line.amount.saturating_mul(ONE);
        self.with(line, now, |level| {
            match level
                .saturating_add(amount)
                .checked_sub(rate.saturating_mul(ONE))
            {
                None | Some(0) => {
                    *level += amount;
                    Ok(())
                }
                // More than a minute holds is never there.
                Some(_) if rate > 0 && line.amount > rate => Err(u64::MAX),
                Some(over) => Err(over.checked_div(rate).map_or(ONE, |_| over.div_ceil(rate))),
            }
        })
    }

    fn settle_line(&self, line: &BudgetLine, spent: u64, taken_ms: u64, now: Now) {
        match line.per {
            Per::Minute if spent == line.amount => {}
            Per::Minute => self.correct(line, spent, now),
            _ => self.windows.settle(line, spent, taken_ms, now.unix_ms),
        }
    }

    /// Puts an amount in the place of the one that a line took.
    fn correct(&self, line: &BudgetLine, spent: u64, now: Now) {
        let (took, spent) = (line.amount.saturating_mul(ONE), spent.saturating_mul(ONE));
        self.with(line, now, |level| {
            *level = level.saturating_sub(took.saturating_sub(spent));
            *level = level.saturating_add(spent.saturating_sub(took));
        });
    }
}

impl Budgets for Limits {
    fn reserve(&self, lines: Vec<BudgetLine>, now: Now) -> Reply<Result<Ticket, OverBudget>> {
        for (number, line) in lines.iter().enumerate() {
            if let Err(retry_ms) = self.take(line, now) {
                for taken in &lines[..number] {
                    self.settle_line(taken, 0, now.unix_ms, now);
                }
                let line = number;
                return Reply::Ready(Err(OverBudget { line, retry_ms }));
            }
        }
        Reply::Ready(Ok(Ticket {
            lines,
            at_unix_ms: now.unix_ms,
        }))
    }

    fn settle(&self, ticket: Ticket, spent: BudgetSpent, now: Now) {
        for line in &ticket.lines {
            self.settle_line(line, spent.of(line.unit), ticket.at_unix_ms, now);
        }
    }
}

/// What drains in a millisecond, in parts of which [`ONE`] is one unit.
fn rate_of(line: &BudgetLine) -> u64 {
    line.bound
}

/// IPv6 counts by its /64, IPv4 in IPv6 as IPv4; everything else as it is.
fn by_network(counted: &Counted) -> Counted {
    match counted {
        Counted::Address(address) => Counted::Address(base::network(*address)),
        Counted::Stranger(address) => Counted::Stranger(base::network(*address)),
        Counted::Agent(_) | Counted::Requests(_) | Counted::Budget { .. } => counted.clone(),
    }
}

fn forget_longest_unseen(buckets: &mut HashMap<Key, Bucket>) {
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

    fn line(counted: &Counted, amount: u64, per_minute: u32) -> BudgetLine {
        BudgetLine {
            counted: counted.clone(),
            unit: Unit::Calls,
            amount,
            bound: u64::from(per_minute),
            per: Per::Minute,
        }
    }

    fn reserve(limits: &Limits, lines: Vec<BudgetLine>, now: Now) -> Result<Ticket, OverBudget> {
        match limits.reserve(lines, now) {
            Reply::Ready(ticket) => ticket,
            Reply::Later(_) => panic!("memory answers at once"),
        }
    }

    fn take(limits: &Limits, counted: &Counted, per_minute: u32, now: Now) -> Result<(), u64> {
        let ticket = reserve(limits, vec![line(counted, 1, per_minute)], now);
        ticket.map(drop).map_err(|over| over.retry_ms)
    }

    fn give_back(limits: &Limits, counted: &Counted, per_minute: u32, now: Now) {
        let lines = vec![line(counted, 1, per_minute)];
        let at_unix_ms = now.unix_ms;
        limits.settle(Ticket { lines, at_unix_ms }, BudgetSpent::default(), now);
    }

    #[test]
    fn several_lines_are_taken_together_or_not_at_all() {
        let limits = Limits::new();
        let (dev, eve) = (agent("dev"), agent("eve"));
        let tokens = |amount| BudgetLine {
            unit: Unit::Tokens,
            ..line(&dev, amount, 1_000)
        };
        let both = |amount| vec![line(&dev, 1, 2), tokens(amount)];
        let first = reserve(&limits, both(900), at(0)).unwrap();
        let over = reserve(&limits, both(200), at(0)).unwrap_err();
        assert_eq!((over.line, over.retry_ms), (1, 6_000));
        // The refused call took nothing: there is room for one more, and no more than that.
        let second = reserve(&limits, both(100), at(0)).unwrap();
        assert_eq!(reserve(&limits, both(0), at(0)).unwrap_err().line, 0);
        assert_eq!(take(&limits, &eve, 2, at(0)), Ok(()));
        // Less was used than was reserved, and then more: the budget owes, and drains before it gives again.
        let spent = |tokens| BudgetSpent {
            calls: 1,
            tokens,
            money: 0,
        };
        limits.settle(first, spent(500), at(0));
        limits.settle(second, spent(700), at(0));
        let over = reserve(&limits, vec![tokens(1)], at(0)).unwrap_err();
        assert_eq!(over.retry_ms, 201 * 60);
        assert!(reserve(&limits, vec![tokens(1)], at(201 * 60)).is_ok());
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
            assert_eq!(take(&limits, &dev, 600, at(5)), Ok(()));
        }
        assert_eq!(take(&limits, &dev, 600, at(5)), Err(100));
        assert_eq!(take(&limits, &dev, 600, at(104)), Err(1));
        assert_eq!(take(&limits, &dev, 600, at(105)), Ok(()));
        assert_eq!(take(&limits, &dev, 600, at(105)), Err(100));
        assert_eq!(take(&limits, &agent("other"), 600, at(105)), Ok(()));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let limits = Limits::new();
        let dev = agent("dev");
        assert_eq!(take(&limits, &dev, 1, at(0)), Ok(()));
        assert_eq!(take(&limits, &dev, 1, at(0)), Err(60_000));
        give_back(&limits, &dev, 1, at(0));
        assert_eq!(take(&limits, &dev, 1, at(0)), Ok(()));
        give_back(&limits, &dev, 1, at(0));
        give_back(&limits, &dev, 1, at(0));
        assert_eq!(take(&limits, &dev, 1, at(0)), Ok(()));
        assert!(take(&limits, &dev, 1, at(0)).is_err());
    }

    #[test]
    fn odd_limits_hold() {
        let limits = Limits::new();
        assert_eq!(take(&limits, &agent("none"), 0, at(0)), Err(60_000));
        for _ in 0..7 {
            assert_eq!(take(&limits, &agent("seven"), 7, at(0)), Ok(()));
        }
        let wait = take(&limits, &agent("seven"), 7, at(0)).unwrap_err();
        assert!(take(&limits, &agent("seven"), 7, at(wait - 1)).is_err());
        assert_eq!(take(&limits, &agent("seven"), 7, at(wait)), Ok(()));
        assert_eq!(
            take(&limits, &agent("most"), u32::MAX, at(u64::MAX)),
            Ok(())
        );
        assert_eq!(take(&limits, &agent("most"), u32::MAX, at(0)), Ok(()));
    }

    #[test]
    fn a_host_is_one_whatever_address_it_takes() {
        let limits = Limits::new();
        assert_eq!(take(&limits, &address("2001:db8:0:1::1"), 1, at(0)), Ok(()));
        assert!(take(&limits, &address("2001:db8:0:1:ffff::2"), 1, at(0)).is_err());
        assert_eq!(take(&limits, &address("2001:db8:0:2::1"), 1, at(0)), Ok(()));
        assert_eq!(take(&limits, &address("192.0.2.1"), 1, at(0)), Ok(()));
        assert!(take(&limits, &address("::ffff:192.0.2.1"), 1, at(0)).is_err());
        assert_eq!(take(&limits, &address("192.0.2.2"), 1, at(0)), Ok(()));
        // Strangers at an address are counted beside its agents, by the same rule.
        assert_eq!(take(&limits, &stranger("192.0.2.1"), 1, at(0)), Ok(()));
        assert!(take(&limits, &stranger("::ffff:192.0.2.1"), 1, at(0)).is_err());
        let networks = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"];
        let room = networks.map(|text| take(&limits, &stranger(text), 1, at(0)).is_ok());
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
                        if take(&limits, &agent("dev"), 1000, at(7)).is_ok() {
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
        assert_eq!(take(&limits, &kept, 1, at(0)), Ok(()));
        for i in 0..5000_u64 {
            assert!(take(&limits, &kept, 1, at(i)).is_err(), "{i}");
            let v4 = std::net::Ipv4Addr::from_bits(i as u32);
            assert_eq!(
                take(&limits, &Counted::Address(v4.into()), 1, at(i)),
                Ok(())
            );
        }
        assert!(limits.counted() <= SHARDS * 4);
    }
}
