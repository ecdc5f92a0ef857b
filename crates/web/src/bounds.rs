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

    /// How many more bytes the agent may have.
    pub(crate) fn bytes_left(&self) -> u64 {
        let by_agent = &self.all.by_agent;
        let by_agent = by_agent.lock().unwrap_or_else(PoisonError::into_inner);
        let used = by_agent.get(&self.agent).map_or(0, |used| used.bytes);
        self.all.bounds.bytes_per_hour.saturating_sub(used)
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
