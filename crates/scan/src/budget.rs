//! How much an agent may send to one owner of names: requests, bytes, and what looks random.
//!
//! A secret that is cut small enough passes every rule about one text; what it cannot pass is a
//! count. A window slides: what was spent in the minute before counts by the share of it that is
//! still within sixty seconds. What is remembered is bounded, and the oldest is forgotten first. No
//! clock is read; the time is given.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Length of a window, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Pairs of agent and domain that are counted at once.
const BUDGET_KEYS_MAX: usize = 65_536;

/// What may be spent in a minute. Zero means that there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Requests, for one agent and one registrable domain.
    pub requests: u32,
    /// Bytes of URLs and bodies, for one agent and one registrable domain.
    pub bytes: u64,
    /// Bits of what looks random in URLs, for one agent over all domains.
    pub random_bits: u64,
}

impl Default for Allowance {
    /// Far over what browsing and calling of APIs take: 5 requests a second, 10 MiB, and 4 KiB of
    /// noise.
    fn default() -> Allowance {
        Allowance {
            requests: 300,
            bytes: 10 << 20,
            random_bits: 32 << 10,
        }
    }
}

/// Spent amounts by key, over all agents of one gateway.
#[derive(Debug)]
pub struct Budget {
    allowance: Allowance,
    keys_max: usize,
    spent: HashMap<u64, Spent>,
    /// Keys by the time of their first spending, oldest first.
    order: VecDeque<u64>,
}

/// What one key spent in the window that began at `window × WINDOW_MS`, and in the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    window: u64,
    now: Amount,
    before: Amount,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    requests: u64,
    bytes: u64,
    bits: u64,
}

impl Budget {
    pub fn new(allowance: Allowance) -> Budget {
        Budget {
            allowance,
            keys_max: BUDGET_KEYS_MAX,
            spent: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Another allowance from now on; what was spent stays spent.
    pub fn allow(&mut self, allowance: Allowance) {
        self.allowance = allowance;
    }

    /// The key of an agent and a registrable domain, or of an agent alone (an empty domain).
    pub fn key(agent: &str, domain: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (agent, domain).hash(&mut hasher);
        hasher.finish()
    }

    /// Takes one request of so many bytes. What is refused is not counted.
    ///
    /// Errors: the rule whose bound it would pass: `url_rate` or `url_data`.
    pub fn take(&mut self, key: u64, bytes: u64, now_ms: u64) -> Result<(), &'static str> {
        let Allowance {
            requests: requests_max,
            bytes: bytes_max,
            ..
        } = self.allowance;
        let spent = self.at(key, now_ms);
        let over = |max: u64, spent: u64, more: u64| max > 0 && spent.saturating_add(more) > max;
        if over(
            requests_max.into(),
            spent.slid(now_ms, |amount| amount.requests),
            1,
        ) {
            return Err("url_rate");
        }
        if over(bytes_max, spent.slid(now_ms, |amount| amount.bytes), bytes) {
            return Err("url_data");
        }
        spent.now.requests += 1;
        spent.now.bytes = spent.now.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Takes so many bits of what looks random, by the key of an agent. What is refused is not
    /// counted.
    ///
    /// Errors: the rule whose bound it would pass: `budget_entropy`.
    pub fn take_random(&mut self, key: u64, bits: u32, now_ms: u64) -> Result<(), &'static str> {
        let max = self.allowance.random_bits;
        if bits == 0 || max == 0 {
            return Ok(());
        }
        let spent = self.at(key, now_ms);
        let before = spent.slid(now_ms, |amount| amount.bits);
        if before.saturating_add(bits.into()) > max {
            return Err("budget_entropy");
        }
        spent.now.bits += u64::from(bits);
        Ok(())
    }

    /// What this key spent, with its window moved to now.
    fn at(&mut self, key: u64, now_ms: u64) -> &mut Spent {
        let window = now_ms / WINDOW_MS;
        if !self.spent.contains_key(&key) {
            self.forget(window);
            self.order.push_back(key);
        }
        let spent = self.spent.entry(key).or_default();
        // A clock that goes back stays in the window that was reached.
        if window > spent.window {
            let next = window == spent.window + 1;
            spent.before = if next { spent.now } else { Amount::default() };
            spent.now = Amount::default();
            spent.window = window;
        }
        spent
    }

    /// Makes room for one more key: what no longer counts goes, or else the oldest.
    fn forget(&mut self, window: u64) {
        while let Some(oldest) = self.order.front().copied() {
            let ended = self
                .spent
                .get(&oldest)
                .is_none_or(|spent| spent.window + 1 < window);
            if !ended && self.order.len() < self.keys_max {
                return;
            }
            self.order.pop_front();
            self.spent.remove(&oldest);
        }
    }
}

impl Spent {
    /// What counts of an amount at this time.
    fn slid(&self, now_ms: u64, amount: fn(&Amount) -> u64) -> u64 {
        let into = now_ms
            .saturating_sub(self.window * WINDOW_MS)
            .min(WINDOW_MS);
        let share = u128::from(amount(&self.before)) * u128::from(WINDOW_MS - into);
        // A share of what was a u64 is one.
        amount(&self.now).saturating_add((share / u128::from(WINDOW_MS)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = 1;

    fn budget() -> Budget {
        Budget::new(Allowance {
            requests: 3,
            bytes: 100,
            random_bits: 50,
        })
    }

    #[test]
    fn a_bound_is_reached_and_slides_away() {
        let mut budget = budget();
        for _ in 0..3 {
            assert_eq!(budget.take(ONE, 10, 60_000), Ok(()));
        }
        assert_eq!(budget.take(ONE, 10, 61_000), Err("url_rate"));
        assert_eq!(budget.take(2, 10, 61_000), Ok(()), "another key");
        // A third of the window later two of the three still count.
        assert_eq!(budget.take(ONE, 10, 140_000), Ok(()));
        assert_eq!(budget.take(ONE, 10, 140_000), Err("url_rate"));
        assert_eq!(budget.take(ONE, 10, 300_000), Ok(()));
    }

    #[test]
    fn bytes_and_noise_have_bounds_of_their_own() {
        let mut budget = budget();
        assert_eq!(budget.take(ONE, 101, 0), Err("url_data"));
        assert_eq!(budget.take(ONE, u64::MAX, 0), Err("url_data"));
        assert_eq!(budget.take(ONE, 100, 0), Ok(()));
        assert_eq!(budget.take(ONE, 1, 0), Err("url_data"));
        assert_eq!(budget.take_random(2, 50, 0), Ok(()));
        assert_eq!(budget.take_random(2, 1, 0), Err("budget_entropy"));
        assert_eq!(budget.take_random(2, 0, 0), Ok(()));
        assert_eq!(budget.take_random(2, 1, 120_000), Ok(()));
    }

    #[test]
    fn time_that_goes_back_gives_nothing_away() {
        let mut budget = budget();
        for _ in 0..3 {
            assert_eq!(budget.take(ONE, 0, 600_000), Ok(()));
        }
        assert_eq!(budget.take(ONE, 0, 0), Err("url_rate"));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut budget = budget();
        budget.keys_max = 4;
        for key in 0..4 {
            for _ in 0..3 {
                assert_eq!(budget.take(key, 0, 0), Ok(()));
            }
        }
        assert_eq!(budget.take(9, 0, 1), Ok(()));
        assert_eq!(budget.spent.len(), 4);
        assert_eq!(
            budget.take(3, 0, 1),
            Err("url_rate"),
            "the youngest is known"
        );
        assert_eq!(budget.take(0, 0, 1), Ok(()), "the oldest was forgotten");
        // Two windows later nothing of it counts.
        assert_eq!(budget.take(7, 0, 200_000), Ok(()));
        assert!(budget.spent.len() <= 3, "{}", budget.spent.len());
    }

    #[test]
    fn no_bound_is_no_bound() {
        let mut budget = Budget::new(Allowance {
            requests: 0,
            bytes: 0,
            random_bits: 0,
        });
        for _ in 0..1000 {
            assert_eq!(budget.take(ONE, u64::MAX, 0), Ok(()));
            assert_eq!(budget.take_random(ONE, u32::MAX, 0), Ok(()));
        }
    }
}
