//! Budgets of requests, which are taken before anything is judged.
//!
//! Strangers (requests without a key that is known) have a budget for each address, so that they use up nobody's
//! but their own. Requests of an agent have one for the agent, because those that are refused do not
//! count against its limit of calls. What is over a budget is refused, counted in the metrics, and
//! recorded once in an interval with its number: a flood must not fill the log.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Action, CallId, Lane, Name, Now, Refusal, Resource, ScanAs, limit, refusal};
use identity::Verified;

use crate::call::Call;
use crate::gate::Gate;
use crate::ports::{BudgetLine, BudgetSpent, Counted, Per, Unit};
use crate::reserve;
use crate::trail::Trail;

/// The gateway itself, where a record is of no lane.
static GATEWAY: Lane = Lane {
    name: "gateway",
    is_scanned: false,
    actions: &[],
    schema: "",
};

/// What is recorded of requests that no record tells of by itself.
static FLOOD: Action = Action {
    lane: &GATEWAY,
    name: "gateway:flood",
    method: "over a budget",
    entity: |_| None,
    has_arguments: false,
    scan_as: ScanAs::Message,
    is_pinned: false,
};

/// Refusals over a budget that no record tells of yet.
#[derive(Default)]
pub(crate) struct Flood {
    /// When the next record is due, in milliseconds since the process started.
    due_ms: AtomicU64,
    untold: AtomicU64,
}

impl Flood {
    /// The number that is still to be recorded, where a record is due or the last one has to be written now.
    fn rest(&self, now: Now, last: bool) -> Option<u64> {
        let is_due = last || now.mono_ms >= self.due_ms.load(Ordering::Relaxed);
        let untold = is_due.then(|| self.untold.swap(0, Ordering::Relaxed));
        untold.filter(|untold| *untold > 0)
    }

    /// Counts one refusal. Where a record is due, exactly one caller is given the number to record.
    fn count(&self, now: Now) -> Option<u64> {
        self.untold.fetch_add(1, Ordering::Relaxed);
        let due = self.due_ms.load(Ordering::Relaxed);
        let next = now.mono_ms.saturating_add(limit::FLOOD_RECORD_MS);
        let is_ours = now.mono_ms >= due
            && self
                .due_ms
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        is_ours.then(|| self.untold.swap(0, Ordering::Relaxed))
    }
}

impl Gate {
    /// Refuses a request that shows no key that is known, or that a page of another site makes. It counts against
    /// the strangers' budget of its address; over that, the refusal is `limit.strangers`.
    pub async fn turn_away(&self, call: &Call<'_>, refusal: Refusal) -> Refusal {
        let per_minute = self.rules.load().rates.strangers_per_minute;
        let stranger = Counted::Stranger(call.peer);
        let now = self.ports.clock.now();
        match self.spend(vec![(stranger, per_minute)], now).await {
            Ok(Ok(())) => self.reject(None, call, refusal).await,
            Ok(Err((_, retry_ms))) => {
                let public = format!(
                    "more than {per_minute} requests a minute without a good key from this address"
                );
                let over = Refusal::new(refusal::LIMIT_STRANGERS, public).with_retry_ms(retry_ms);
                self.flooded(None, call, over).await
            }
            Err(silent) => self.reject(None, call, silent).await,
        }
    }

    /// Takes a request of a known agent from the budgets that it has before it is judged. One that may not call spends
    /// only what is its own: the budget of an address is for all the agents there.
    pub(crate) async fn budget(
        &self,
        verified: &Verified,
        call: &Call<'_>,
        now: Now,
        may_call: bool,
    ) -> Result<(), Refusal> {
        let rates = self.rules.load().rates;
        let agent = Counted::Requests(verified.agent().name.clone());
        let requests = rates
            .agent_per_minute
            .saturating_mul(limit::REQUESTS_PER_CALL_MAX);
        let mut budgets = vec![(agent, requests)];
        budgets.extend(
            rates
                .address_per_minute
                .filter(|_| may_call)
                .map(|per_minute| (Counted::Address(call.peer), per_minute)),
        );
        let over = match self.spend(budgets, now).await? {
            Ok(()) => return Ok(()),
            Err(over) => over,
        };
        let (budget, retry_ms) = over;
        let refusal = match budget {
            (Counted::Address(_), per_minute) => {
                let public = format!("more than {per_minute} calls a minute from this address");
                Refusal::new(refusal::LIMIT_ADDRESS, public)
            }
            (_, per_minute) => {
                let public = format!(
                    "this agent made more than {per_minute} requests a minute, with those that were refused"
                );
                Refusal::new(refusal::LIMIT_AGENT, public)
            }
        };
        Err(refusal.with_retry_ms(retry_ms))
    }

    /// Takes one from each of these budgets for good, or none. Where one is spent: which, and when there is one again.
    async fn spend(
        &self,
        budgets: Vec<(Counted, u32)>,
        now: Now,
    ) -> Result<Result<(), ((Counted, u32), u64)>, Refusal> {
        let line = |(counted, per_minute): &(Counted, u32)| BudgetLine {
            counted: counted.clone(),
            unit: Unit::Calls,
            amount: 1,
            bound: u64::from(*per_minute),
            per: Per::Minute,
        };
        let lines = budgets.iter().map(line).collect();
        let reply = self.ports.budgets.reserve(lines, now);
        match reserve::answer(self, reply).await? {
            Ok(ticket) => {
                let spent = BudgetSpent {
                    calls: 1,
                    ..BudgetSpent::default()
                };
                self.ports.budgets.settle(ticket, spent, now);
                Ok(Ok(()))
            }
            Err(over) => Ok(Err((budgets[over.line].clone(), over.retry_ms))),
        }
    }

    /// Records how many refusals over a budget no record tells of yet, once one is due; `last` is for the end of
    /// the process. To be called every second or so: a flood that has stopped brings no record about.
    pub fn tell_of_floods(&self, last: bool) {
        let now = self.ports.clock.now();
        let Some(number) = self.flood.rest(now, last) else {
            return;
        };
        let resource = Resource::Setting(Name::new("weir").expect("weir is a name"));
        let peer = Ipv4Addr::UNSPECIFIED.into();
        let call = Call::new(CallId([0; 16]), peer, &FLOOD, &resource, FLOOD.method);
        let told = format!("requests over a budget since the last record of one: {number}");
        let refusal = Refusal::new(refusal::LIMIT_STRANGERS, told);
        let rules = self.rules();
        let mut trail = Trail::new(&call, None, &rules, now);
        let record = trail.refused(&refusal).to_json(&rules.engine);
        self.ports.recorder.note(record);
    }

    /// Records a refusal that a lane found itself, such as a message that is not of its protocol, and
    /// gives it back.
    pub async fn reject(
        &self,
        verified: Option<&Verified>,
        call: &Call<'_>,
        refusal: Refusal,
    ) -> Refusal {
        let trail = Trail::new(call, verified, &self.rules(), self.ports.clock.now());
        self.record_refusal(trail, refusal).await
    }

    /// Nothing passes either way, so a refusal stands even where it cannot be recorded; the log's
    /// trouble is then the health check's to tell.
    pub(crate) async fn record_refusal(&self, mut trail: Trail<'_>, refusal: Refusal) -> Refusal {
        self.ports
            .meter
            .judged(trail.resource(), Some(refusal.code.name));
        self.count(&trail);
        let record = trail.refused(&refusal).to_json(&self.rules.load().engine);
        drop(trail);
        let _ = self.ports.recorder.append(record).await;
        refusal
    }

    pub(crate) fn count(&self, trail: &Trail<'_>) {
        for finding in trail.findings() {
            self.ports.meter.found(finding.rule, finding.action);
        }
    }

    /// Refuses what is over a budget: always counted, and recorded where a record is due.
    pub(crate) async fn flooded(
        &self,
        verified: Option<&Verified>,
        call: &Call<'_>,
        refusal: Refusal,
    ) -> Refusal {
        let now = self.ports.clock.now();
        let Some(number) = self.flood.count(now) else {
            let code = Some(refusal.code.name);
            self.ports.meter.judged(call.resource, code);
            return refusal;
        };
        let told = format!(
            "{}; requests over a budget since the last record of one, with this one: {number}",
            refusal.public
        );
        let trail = Trail::new(call, verified, &self.rules(), now);
        self.record_refusal(trail, refusal.with_private(told)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64) -> Now {
        Now {
            unix_ms: 0,
            mono_ms,
        }
    }

    #[test]
    fn a_flood_is_told_once_in_an_interval_and_with_its_number() {
        let flood = Flood::default();
        assert_eq!(flood.count(at(5)), Some(1));
        for _ in 0..41 {
            assert_eq!(flood.count(at(6)), None);
        }
        let later = 5 + limit::FLOOD_RECORD_MS;
        assert_eq!(flood.count(at(later - 1)), None);
        assert_eq!(flood.count(at(later)), Some(43));
        assert_eq!(flood.count(at(later)), None);
        // A flood that stopped.
        assert_eq!(flood.rest(at(later + 1), false), None);
        assert_eq!(flood.rest(at(later + 1), true), Some(1));
        assert_eq!(flood.rest(at(u64::MAX), false), None);
        assert_eq!(flood.count(at(later + 2)), None);
        assert_eq!(flood.rest(at(u64::MAX), false), Some(1));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test has threads of its own")]
    fn threads_tell_of_each_refusal_once() {
        let (flood, told) = (Flood::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for i in 0..500 {
                        let now = at(i * limit::FLOOD_RECORD_MS / 10);
                        let number = flood.count(now).unwrap_or(0);
                        told.fetch_add(number, Ordering::Relaxed);
                    }
                });
            }
        });
        let last = flood.count(at(u64::MAX)).unwrap_or(0);
        assert_eq!(told.into_inner() + last, 8 * 500 + 1);
    }
}
