//! Calls that wait for their client to answer what a server asked.
//!
//! A client of 2026-07-28 is told the questions in the answer to its request, and asks again with what it says to them. Until
//! then its call is here, with what is left of the server's answer; it is found by a token that is sealed for the agent. Each
//! call is taken out once, so that nothing runs twice.
//!
//! Example: call 1 → the server asks for a name → the answer to 1 is the question and token T, the call is parked under T →
//! call 2 with T and the name → the parked call is taken, the server is told the name, and what it says then answers 2.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use base::{Name, Refusal, refusal};
use serde::{Deserialize, Serialize};

use super::talk::Talk;
use crate::upstream::lock;

/// Calls that are parked at once, in all and of one agent.
pub(super) const PARKED_MAX: usize = 10_000;
pub(super) const AGENT_PARKED_MAX: usize = 1_000;
/// How long a call waits for its client, in milliseconds.
pub(super) const PARKED_MS_MAX: u64 = 600_000;
/// How often one call may ask.
pub(super) const ROUNDS_MAX: u32 = 16;
/// When a client that found no place may try again, in milliseconds.
const RETRY_MS: u64 = 10_000;

/// What a token says, sealed for the agent and the URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ParkToken {
    /// The process that has the call.
    pub(super) process: String,
    /// The call's number there, another after each round.
    pub(super) number: u64,
    /// SHA-256 of what was asked first: the same is to be asked again.
    pub(super) digest: String,
    /// By the clock of that process.
    pub(super) until_ms: u64,
}

struct Parked<T> {
    agent: Name,
    until_ms: u64,
    call: T,
}

/// The calls that wait, of all threads. `T` is what is kept of one.
pub(crate) struct Park<T = Box<Talk>> {
    table: Mutex<ParkTable<T>>,
}

struct ParkTable<T> {
    calls: HashMap<u64, Parked<T>>,
    of_agents: HashMap<Name, usize>,
    next: u64,
}

impl<T> Default for Park<T> {
    fn default() -> Park<T> {
        let table = ParkTable {
            calls: HashMap::new(),
            of_agents: HashMap::new(),
            next: 1,
        };
        Park {
            table: Mutex::new(table),
        }
    }
}

impl<T> ParkTable<T> {
    fn remove(&mut self, number: u64) -> Option<Parked<T>> {
        let parked = self.calls.remove(&number)?;
        if let Some(count) = self.of_agents.get_mut(&parked.agent) {
            *count -= 1;
            if *count == 0 {
                self.of_agents.remove(&parked.agent);
            }
        }
        Some(parked)
    }
}

impl<T> Park<T> {
    fn table(&self) -> MutexGuard<'_, ParkTable<T>> {
        lock(&self.table)
    }

    /// Whether an agent may park a call.
    ///
    /// # Errors
    /// `mcp.park_full`.
    pub(super) fn has_room(&self, agent: &Name) -> Result<(), Refusal> {
        let table = self.table();
        let of_agent = table.of_agents.get(agent).copied().unwrap_or_default();
        match table.calls.len() < PARKED_MAX && of_agent < AGENT_PARKED_MAX {
            true => Ok(()),
            false => Err(Refusal::new(
                refusal::PARK_FULL,
                "as many calls wait for answers as may wait",
            )
            .with_retry_ms(RETRY_MS)),
        }
    }

    /// Parks a call; gives its number.
    pub(super) fn put(&self, agent: &Name, call: T, now_ms: u64) -> (u64, u64) {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        let until_ms = now_ms + PARKED_MS_MAX;
        *table.of_agents.entry(agent.clone()).or_default() += 1;
        let parked = Parked {
            agent: agent.clone(),
            until_ms,
            call,
        };
        table.calls.insert(number, parked);
        (number, until_ms)
    }

    /// Takes a call out. Who asks for it has shown its token.
    ///
    /// # Errors
    /// `mcp.park_gone` where another process has it, `mcp.park_expired`, `mcp.park_taken`.
    pub(super) fn take(
        &self,
        token: &ParkToken,
        process: &str,
        agent: &Name,
        now_ms: u64,
    ) -> Result<T, Refusal> {
        if token.process != process {
            let public = "the process that asked is gone; nothing went on";
            return Err(Refusal::new(refusal::PARK_GONE, public));
        }
        let mut table = self.table();
        let is_own = |parked: &Parked<T>| parked.agent == *agent && now_ms < parked.until_ms;
        if !table.calls.get(&token.number).is_some_and(is_own) {
            let is_late = now_ms >= token.until_ms;
            return Err(match is_late {
                true => Refusal::new(refusal::PARK_EXPIRED, "the time for an answer is over"),
                false => Refusal::new(refusal::PARK_TAKEN, "the call goes on already, or ended"),
            });
        }
        let parked = table.remove(token.number);
        let taken = || Refusal::new(refusal::PARK_TAKEN, "the call goes on already");
        parked.map(|parked| parked.call).ok_or_else(taken)
    }

    /// Takes out the calls whose time is over, or whose agent may not go on.
    pub(super) fn sweep(&self, now_ms: u64, stays: impl Fn(&Name) -> bool) -> Vec<T> {
        self.take_those(|parked| now_ms >= parked.until_ms || !stays(&parked.agent))
    }

    /// Takes out the calls that are not to stay.
    pub(super) fn retain(&self, stays: impl Fn(&T) -> bool) -> Vec<T> {
        self.take_those(|parked| !stays(&parked.call))
    }

    fn take_those(&self, over: impl Fn(&Parked<T>) -> bool) -> Vec<T> {
        let mut table = self.table();
        let calls = table.calls.iter();
        let those: Vec<u64> = calls
            .filter(|(_, parked)| over(parked))
            .map(|(number, _)| *number)
            .collect();
        let removed = those.into_iter().filter_map(|number| table.remove(number));
        removed.map(|parked| parked.call).collect()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.table().calls.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers that a seed repeats (Marsaglia 2003, "Xorshift RNGs").
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    fn code(refusal: &Refusal) -> &'static str {
        refusal.code.name
    }

    /// What is known of a call that was parked, by whoever drives the park.
    struct Known {
        token: ParkToken,
        agent: usize,
        taken: bool,
    }

    /// Steps of many clients, in an order that the seed gives, on a clock of its own: each call goes on once at most, nobody
    /// gets another's, and what does not go on has its code.
    #[test]
    fn a_call_goes_on_once_whatever_happens() {
        let agents = ["a", "b", "c"].map(|name| Name::new(name).unwrap());
        for seed in 1..=200 {
            let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            let (mut park, mut process) = (Park::<u64>::default(), 0_u64);
            let (mut now_ms, mut made) = (0, 0_u64);
            let mut all: Vec<Known> = Vec::new();
            for _ in 0..300 {
                match random.below(10) {
                    0..=3 => {
                        let agent = random.below(3) as usize;
                        let (number, until_ms) = park.put(&agents[agent], made, now_ms);
                        made += 1;
                        all.push(Known {
                            token: ParkToken {
                                process: process.to_string(),
                                number,
                                digest: String::new(),
                                until_ms,
                            },
                            agent,
                            taken: false,
                        });
                    }
                    4..=7 if !all.is_empty() => {
                        let at = random.below(all.len() as u64) as usize;
                        let who = random.below(3) as usize;
                        let known = &mut all[at];
                        let here = process.to_string();
                        let got = park.take(&known.token, &here, &agents[who], now_ms);
                        let is_due = !known.taken
                            && known.token.process == here
                            && who == known.agent
                            && now_ms < known.token.until_ms;
                        match got {
                            Ok(call) => {
                                assert!(is_due, "seed {seed}");
                                assert_eq!(call, at as u64, "seed {seed}");
                                known.taken = true;
                            }
                            Err(refusal) => {
                                assert!(!is_due, "seed {seed}");
                                let wanted = match () {
                                    () if known.token.process != here => "mcp.park_gone",
                                    () if now_ms >= known.token.until_ms => "mcp.park_expired",
                                    () => "mcp.park_taken",
                                };
                                assert_eq!(code(&refusal), wanted, "seed {seed}");
                            }
                        }
                    }
                    8 => {
                        now_ms += random.below(PARKED_MS_MAX / 2);
                        park.sweep(now_ms, |_| true);
                    }
                    9 if random.below(10) == 0 => {
                        // The process is ended, and another begins.
                        park = Park::default();
                        process += 1;
                    }
                    _ => {}
                }
            }
            let here = |known: &&Known| {
                known.token.process == process.to_string()
                    && !known.taken
                    && now_ms < known.token.until_ms
            };
            park.sweep(now_ms, |_| true);
            assert_eq!(park.len(), all.iter().filter(here).count(), "seed {seed}");
        }
    }

    #[test]
    fn an_agent_has_a_bound() {
        let [a, b] = ["a", "b"].map(|name| Name::new(name).unwrap());
        let park = Park::<()>::default();
        for _ in 0..AGENT_PARKED_MAX {
            park.has_room(&a).unwrap();
            park.put(&a, (), 0);
        }
        assert_eq!(code(&park.has_room(&a).unwrap_err()), "mcp.park_full");
        assert!(park.has_room(&b).is_ok());
        park.sweep(0, |agent| *agent != a);
        assert!(park.has_room(&a).is_ok() && park.len() == 0);
    }
}
