//! Amounts of a day, a month and of calls under way, exact across threads, in memory.
//!
//! What is kept is of the operator's budgets alone, and of the agents that the configuration names: it is never forgotten, since that
//! would spend it twice. What was spent before this process began is counted by [`Windows::add`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::clock::{civil, days_of};
use gate::ports::{BudgetLine, Counted, Per, Unit};

const DAY_MS: u64 = 86_400_000;
/// When a call under way may be at its end, for who asks again, in milliseconds: nobody knows it better.
const AT_ONCE_MS: u64 = 1_000;

type Key = (Counted, Unit, Per);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amounts {
    /// The window that they are of, by its begin in Unix milliseconds.
    begin_ms: u64,
    spent: u64,
    reserved: u64,
}

/// How a budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetStanding {
    pub spent: u64,
    pub reserved: u64,
    /// When it begins anew, in Unix milliseconds; absent for calls under way.
    pub until_unix_ms: Option<u64>,
}

/// All windows of one process. One lock: it is held for a few additions.
#[derive(Default)]
pub(crate) struct Windows {
    amounts: Mutex<HashMap<Key, Amounts>>,
}

impl Windows {
    fn amounts(&self) -> MutexGuard<'_, HashMap<Key, Amounts>> {
        // A panic cannot leave an amount half changed, so a poisoned lock is still right.
        self.amounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one line. On refusal: milliseconds until there is enough, and `u64::MAX` where there never is.
    pub(crate) fn take(&self, line: &BudgetLine, unix_ms: u64) -> Result<(), u64> {
        let mut all = self.amounts();
        let amounts = current(&mut all, key(line), unix_ms);
        let taken = amounts.spent.saturating_add(amounts.reserved);
        if taken.saturating_add(line.amount) <= line.bound {
            amounts.reserved += line.amount;
            return Ok(());
        }
        Err(match window(line.per, unix_ms) {
            _ if line.amount > line.bound => u64::MAX,
            Some((_, end)) => end.saturating_sub(unix_ms).max(1),
            None => AT_ONCE_MS,
        })
    }

    /// Puts what was spent in the place of what a line took at that time.
    pub(crate) fn settle(&self, line: &BudgetLine, spent: u64, taken_ms: u64, unix_ms: u64) {
        let mut all = self.amounts();
        let amounts = current(&mut all, key(line), unix_ms);
        let begin_ms = window(line.per, taken_ms).map_or(0, |(begin, _)| begin);
        if begin_ms != amounts.begin_ms {
            return;
        }
        amounts.reserved = amounts.reserved.saturating_sub(line.amount);
        if line.per != Per::AtOnce {
            amounts.spent = amounts.spent.saturating_add(spent);
        }
    }

    /// Counts what was spent at that time, before it was known here.
    pub(crate) fn add(
        &self,
        counted: &Counted,
        unit: Unit,
        per: Per,
        spent: u64,
        at_ms: u64,
        unix_ms: u64,
    ) {
        let Some((begin_ms, _)) = window(per, at_ms) else {
            return;
        };
        let mut all = self.amounts();
        let amounts = current(&mut all, (counted.clone(), unit, per), unix_ms);
        if amounts.begin_ms == begin_ms {
            amounts.spent = amounts.spent.saturating_add(spent);
        }
    }

    pub(crate) fn set(&self, line: &BudgetLine, unix_ms: u64) {
        let mut all = self.amounts();
        current(&mut all, key(line), unix_ms).spent = line.amount;
    }

    pub(crate) fn standing(
        &self,
        counted: &Counted,
        unit: Unit,
        per: Per,
        unix_ms: u64,
    ) -> BudgetStanding {
        let mut all = self.amounts();
        let amounts = *current(&mut all, (counted.clone(), unit, per), unix_ms);
        BudgetStanding {
            spent: amounts.spent,
            reserved: amounts.reserved,
            until_unix_ms: window(per, unix_ms).map(|(_, end)| end),
        }
    }
}

fn key(line: &BudgetLine) -> Key {
    (line.counted.clone(), line.unit, line.per)
}

/// The amounts of the window that is now: a clock that steps back stays in the later one.
fn current(all: &mut HashMap<Key, Amounts>, key: Key, unix_ms: u64) -> &mut Amounts {
    let begin_ms = window(key.2, unix_ms).map_or(0, |(begin, _)| begin);
    let amounts = all.entry(key).or_default();
    if amounts.begin_ms < begin_ms {
        *amounts = Amounts {
            begin_ms,
            ..Amounts::default()
        };
    }
    amounts
}

/// When the window that holds a time begins and ends, in Unix milliseconds; nothing for what has none.
fn window(per: Per, unix_ms: u64) -> Option<(u64, u64)> {
    let day = unix_ms / DAY_MS;
    match per {
        Per::Day => Some((day * DAY_MS, (day + 1) * DAY_MS)),
        Per::Month => {
            let (year, month, _) = civil(day);
            let (next_year, next) = match month {
                12 => (year + 1, 1),
                _ => (year, month + 1),
            };
            let begin = days_of(year, month, 1) * DAY_MS;
            Some((begin, days_of(next_year, next, 1) * DAY_MS))
        }
        Per::Minute | Per::AtOnce => None,
    }
}

/// When the month that holds a time begins, in Unix milliseconds.
pub fn month_begin(unix_ms: u64) -> u64 {
    window(Per::Month, unix_ms).map_or(0, |(begin, _)| begin)
}

#[cfg(test)]
mod tests {
    use base::Name;

    use super::*;

    fn line(amount: u64, bound: u64, per: Per) -> BudgetLine {
        BudgetLine {
            counted: Counted::Budget {
                name: Name::new("month").unwrap(),
                agent: None,
            },
            unit: Unit::Money,
            amount,
            bound,
            per,
        }
    }

    /// 2026-11-30T23:59:59Z.
    const LATE: u64 = 1_796_083_199_000;

    #[test]
    fn a_month_ends_with_its_last_second() {
        assert_eq!(base::clock::rfc3339(LATE), "2026-11-30T23:59:59.000Z");
        let windows = Windows::default();
        let month = |amount| line(amount, 100, Per::Month);
        assert_eq!(windows.take(&month(60), LATE), Ok(()));
        assert_eq!(windows.take(&month(41), LATE), Err(1_000));
        assert_eq!(windows.take(&month(101), LATE), Err(u64::MAX));
        windows.settle(&month(60), 10, LATE, LATE);
        assert_eq!(windows.take(&month(90), LATE), Ok(()));
        // What was taken in November is not of December.
        assert_eq!(windows.take(&month(100), LATE + 1_000), Ok(()));
        windows.settle(&month(90), 90, LATE, LATE + 1_000);
        windows.settle(&month(100), 0, LATE + 1_000, LATE + 1_000);
        assert_eq!(windows.take(&month(100), LATE + 2_000), Ok(()));
        // A clock that steps back gives nothing twice.
        assert!(windows.take(&month(1), LATE).is_err());
    }

    #[test]
    fn calls_under_way_are_given_back() {
        let windows = Windows::default();
        let one = line(1, 2, Per::AtOnce);
        assert_eq!(windows.take(&one, LATE), Ok(()));
        assert_eq!(windows.take(&one, LATE), Ok(()));
        assert_eq!(windows.take(&one, LATE), Err(AT_ONCE_MS));
        windows.settle(&one, 1, LATE, LATE + DAY_MS);
        assert_eq!(windows.take(&one, LATE + DAY_MS), Ok(()));
        assert!(windows.take(&one, LATE + DAY_MS).is_err());
    }

    #[test]
    fn what_was_spent_before_counts_where_it_belongs() {
        let windows = Windows::default();
        let day = line(10, 10, Per::Day);
        windows.add(&day.counted, day.unit, day.per, 7, LATE - DAY_MS, LATE);
        assert_eq!(windows.take(&day, LATE), Ok(()));
        windows.settle(&day, 0, LATE, LATE);
        windows.add(&day.counted, day.unit, day.per, 7, LATE - 5, LATE);
        assert!(windows.take(&day, LATE).is_err());
        let standing = windows.standing(&day.counted, day.unit, day.per, LATE);
        assert_eq!((standing.spent, standing.reserved), (7, 0));
        assert_eq!(standing.until_unix_ms, Some(LATE + 1_000));
    }

    #[test]
    fn threads_spend_to_the_last_unit_and_no_more() {
        let windows = Windows::default();
        let taken = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for seed in 0..16_u64 {
                let (windows, taken) = (&windows, &taken);
                scope.spawn(move || {
                    let mut state = seed * 7_919 + 1;
                    for _ in 0..625 {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let amount = 1 + (state >> 33) % 50;
                        let line = line(amount, 100_000, Per::Day);
                        if windows.take(&line, LATE).is_ok() {
                            let spent = amount.min(1 + (state >> 40) % 50);
                            windows.settle(&line, spent, LATE, LATE);
                            taken.fetch_add(spent, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let line = line(0, 0, Per::Day);
        let standing = windows.standing(&line.counted, line.unit, line.per, LATE);
        assert_eq!((standing.spent, standing.reserved), (taken.into_inner(), 0));
        assert!(
            standing.spent <= 100_000 && standing.spent > 90_000,
            "{standing:?}"
        );
    }
}
