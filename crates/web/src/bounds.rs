//! What one agent may use at once and in an hour: calls and tunnels that are open, hosts, bytes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Name, Refusal, refusal};

const HOUR_MS: u64 = 3_600_000;

/// Bounds of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentBounds {
    /// Calls and tunnels open at once.
    pub open_max: usize,
    /// Different hosts in an hour.
    pub hosts_per_hour: usize,
    /// Bytes of bodies in an hour, both ways together.
    pub bytes_per_hour: u64,
}

/// What agents use now. Agents are the configuration's, so their number is bounded by it.
pub(crate) struct AgentUse {
    bounds: AgentBounds,
    by_agent: Mutex<HashMap<Name, UsedByAgent>>,
}

#[derive(Default)]
struct UsedByAgent {
    open: usize,
    /// When its hour began.
    since_ms: u64,
    hosts: HashSet<Box<str>>,
    bytes: u64,
}

/// One call or tunnel of an agent, counted until it is dropped.
pub(crate) struct AgentPlace {
    all: Arc<AgentUse>,
    agent: Name,
}

/// Bytes of an hour that a tunnel may carry.
pub(crate) struct ReservedBytes {
    pub(crate) bytes: u64,
    /// When that hour began.
    hour_ms: u64,
}

impl AgentUse {
    pub(crate) fn new(bounds: AgentBounds) -> AgentUse {
        AgentUse {
            bounds,
            by_agent: Mutex::default(),
        }
    }

    /// A place for a call to this host.
    ///
    /// # Errors
    /// `web.bound`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        agent: &Name,
        host: &str,
        now_ms: u64,
    ) -> Result<AgentPlace, Refusal> {
        let mut by_agent = self.by_agent.lock().unwrap_or_else(PoisonError::into_inner);
        let used = by_agent.entry(agent.clone()).or_default();
        if now_ms.saturating_sub(used.since_ms) >= HOUR_MS {
            (used.since_ms, used.bytes) = (now_ms, 0);
            used.hosts.clear();
        }
        let left_ms = HOUR_MS - now_ms.saturating_sub(used.since_ms);
        let bounds = &self.bounds;
        if used.open >= bounds.open_max {
            return Err(over(
                "calls and tunnels open at once",
                bounds.open_max as u64,
                1_000,
            ));
        }
        if used.bytes >= bounds.bytes_per_hour {
            return Err(over("bytes an hour", bounds.bytes_per_hour, left_ms));
        }
        if !used.hosts.contains(host) {
            if used.hosts.len() >= bounds.hosts_per_hour {
                return Err(over("hosts an hour", bounds.hosts_per_hour as u64, left_ms));
            }
            used.hosts.insert(host.into());
        }
        used.open += 1;
        Ok(AgentPlace {
            all: Arc::clone(self),
            agent: agent.clone(),
        })
    }
}

impl AgentPlace {
    /// Counts bytes that passed.
    ///
    /// # Errors
    /// `web.bound` where there are more than the agent may have in an hour: the call is to be cut.
    pub(crate) fn spend(&self, bytes: u64) -> Result<(), Refusal> {
        let by_agent = &self.all.by_agent;
        let mut by_agent = by_agent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(used) = by_agent.get_mut(&self.agent) else {
            return Ok(());
        };
        used.bytes = used.bytes.saturating_add(bytes);
        let most = self.all.bounds.bytes_per_hour;
        match used.bytes > most {
            true => Err(over("bytes an hour", most, 60_000)),
            false => Ok(()),
        }
    }

    /// Takes bytes for a tunnel before they flow, so that tunnels beside each other have no more than the hour's. One
    /// tunnel has at most half of what is left, so that there is some for the next.
    pub(crate) fn reserve(&self, bytes_max: u64) -> ReservedBytes {
        let by_agent = &self.all.by_agent;
        let mut by_agent = by_agent.lock().unwrap_or_else(PoisonError::into_inner);
        let used = by_agent.entry(self.agent.clone()).or_default();
        let left = self.all.bounds.bytes_per_hour.saturating_sub(used.bytes);
        let bytes = bytes_max.min(left.div_ceil(2));
        used.bytes += bytes;
        ReservedBytes {
            bytes,
            hour_ms: used.since_ms,
        }
    }

    /// Gives back what was taken and did not flow.
    pub(crate) fn settle(&self, reserved: ReservedBytes, flowed: u64) {
        let by_agent = &self.all.by_agent;
        let mut by_agent = by_agent.lock().unwrap_or_else(PoisonError::into_inner);
        let used = by_agent.get_mut(&self.agent);
        // An hour that is over has forgotten what was taken.
        if let Some(used) = used.filter(|used| used.since_ms == reserved.hour_ms) {
            let unused = reserved.bytes.saturating_sub(flowed);
            used.bytes = used.bytes.saturating_sub(unused);
        }
    }
}

impl Drop for AgentPlace {
    fn drop(&mut self) {
        let by_agent = &self.all.by_agent;
        let mut by_agent = by_agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = by_agent.get_mut(&self.agent) {
            used.open = used.open.saturating_sub(1);
        }
    }
}

fn over(what: &str, most: u64, retry_ms: u64) -> Refusal {
    let public = format!("the agent has as many {what} as it may have, {most}");
    Refusal::new(refusal::WEB_BOUND, public).with_retry_ms(retry_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_beside_each_other_share_the_hour() {
        let bounds = AgentBounds {
            open_max: 9,
            hosts_per_hour: 9,
            bytes_per_hour: 100,
        };
        let (all, dev) = (Arc::new(AgentUse::new(bounds)), Name::new("dev").unwrap());
        let place = all.enter(&dev, "a", 0).unwrap();
        let (one, two) = (place.reserve(80), place.reserve(80));
        assert_eq!((one.bytes, two.bytes), (50, 25));
        place.settle(one, 10);
        assert_eq!(place.reserve(80).bytes, 33);
        // What an hour gave is not given back in the next.
        drop(all.enter(&dev, "a", HOUR_MS).unwrap());
        place.spend(40).unwrap();
        place.settle(two, 0);
        assert_eq!(place.reserve(80).bytes, 30);
    }

    #[test]
    fn an_agent_has_its_bounds_and_no_other_agents() {
        let bounds = AgentBounds {
            open_max: 2,
            hosts_per_hour: 2,
            bytes_per_hour: 100,
        };
        let all = Arc::new(AgentUse::new(bounds));
        let (dev, eve) = (Name::new("dev").unwrap(), Name::new("eve").unwrap());
        let one = all.enter(&dev, "a", 0).unwrap();
        let two = all.enter(&dev, "b", 0).unwrap();
        assert!(all.enter(&dev, "a", 0).is_err());
        assert!(all.enter(&eve, "a", 0).is_ok());
        drop(two);
        assert!(all.enter(&dev, "c", 0).is_err(), "a third host");
        assert!(all.enter(&dev, "c", HOUR_MS).is_ok(), "an hour later");
        let three = all.enter(&dev, "a", HOUR_MS).unwrap();
        assert!(one.spend(60).is_ok() && three.spend(60).is_err());
        drop((one, three));
        assert!(
            all.enter(&dev, "a", HOUR_MS).is_err(),
            "its bytes are used up"
        );
    }
}
