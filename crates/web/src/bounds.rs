//! What one agent may use at once and in an hour: calls and tunnels that are open, hosts, bytes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Name, Refusal, refusal};

use crate::meter::{SiteMeter, SiteWay};

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
    meter: Arc<dyn SiteMeter>,
    used: Mutex<AllUsed>,
}

struct AllUsed {
    bounds: AgentBounds,
    by_agent: HashMap<Name, UsedByAgent>,
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
    way: SiteWay,
}

/// Bytes of an hour that a tunnel may carry.
pub(crate) struct ReservedBytes {
    pub(crate) bytes: u64,
    /// When that hour began.
    hour_ms: u64,
}

impl AgentUse {
    pub(crate) fn new(bounds: AgentBounds, meter: Arc<dyn SiteMeter>) -> AgentUse {
        let by_agent = HashMap::new();
        AgentUse {
            meter,
            used: Mutex::new(AllUsed { bounds, by_agent }),
        }
    }

    /// Other bounds from now on, for what is used already too.
    pub(crate) fn set_bounds(&self, bounds: AgentBounds) {
        self.lock().bounds = bounds;
    }

    fn lock(&self) -> MutexGuard<'_, AllUsed> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a call to this host.
    ///
    /// # Errors
    /// `web.bound`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        agent: &Name,
        host: &str,
        way: SiteWay,
        now_ms: u64,
    ) -> Result<AgentPlace, Refusal> {
        let mut all = self.lock();
        let bounds = all.bounds;
        let used = all.by_agent.entry(agent.clone()).or_default();
        if now_ms.saturating_sub(used.since_ms) >= HOUR_MS {
            (used.since_ms, used.bytes) = (now_ms, 0);
            used.hosts.clear();
        }
        let left_ms = HOUR_MS - now_ms.saturating_sub(used.since_ms);
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
        self.meter.open(way, true);
        Ok(AgentPlace {
            all: Arc::clone(self),
            agent: agent.clone(),
            way,
        })
    }
}

impl AgentPlace {
    /// Counts bytes that the agent sends.
    ///
    /// # Errors
    /// `web.bound` where there are more than the agent may have in an hour: the call is to be cut.
    pub(crate) fn sent(&self, bytes: u64) -> Result<(), Refusal> {
        self.all.meter.bytes(self.way, true, bytes);
        self.spend(bytes)
    }

    /// Counts bytes that came for the agent.
    ///
    /// # Errors
    /// As [`AgentPlace::sent`].
    pub(crate) fn came(&self, bytes: u64) -> Result<(), Refusal> {
        self.all.meter.bytes(self.way, false, bytes);
        self.spend(bytes)
    }

    fn spend(&self, bytes: u64) -> Result<(), Refusal> {
        let mut all = self.all.lock();
        let most = all.bounds.bytes_per_hour;
        let Some(used) = all.by_agent.get_mut(&self.agent) else {
            return Ok(());
        };
        used.bytes = used.bytes.saturating_add(bytes);
        match used.bytes > most {
            true => Err(over("bytes an hour", most, 60_000)),
            false => Ok(()),
        }
    }

    /// Takes bytes for a tunnel before they flow, so that tunnels beside each other have no more than the hour's. One
    /// tunnel has at most half of what is left, so that there is some for the next.
    pub(crate) fn reserve(&self, bytes_max: u64) -> ReservedBytes {
        let mut all = self.all.lock();
        let most = all.bounds.bytes_per_hour;
        let used = all.by_agent.entry(self.agent.clone()).or_default();
        let left = most.saturating_sub(used.bytes);
        let bytes = bytes_max.min(left.div_ceil(2));
        used.bytes += bytes;
        ReservedBytes {
            bytes,
            hour_ms: used.since_ms,
        }
    }

    /// Gives back what was taken and did not flow, of the bytes that went up and those that came down.
    pub(crate) fn settle(&self, reserved: ReservedBytes, up: u64, down: u64) {
        self.all.meter.bytes(self.way, true, up);
        self.all.meter.bytes(self.way, false, down);
        let flowed = up.saturating_add(down);
        let mut all = self.all.lock();
        let used = all.by_agent.get_mut(&self.agent);
        // An hour that is over has forgotten what was taken.
        if let Some(used) = used.filter(|used| used.since_ms == reserved.hour_ms) {
            let unused = reserved.bytes.saturating_sub(flowed);
            used.bytes = used.bytes.saturating_sub(unused);
        }
    }
}

impl Drop for AgentPlace {
    fn drop(&mut self) {
        self.all.meter.open(self.way, false);
        if let Some(used) = self.all.lock().by_agent.get_mut(&self.agent) {
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
    use crate::meter::SiteDecision;

    /// Counts what is open.
    #[derive(Default)]
    struct Open(std::sync::atomic::AtomicI64);

    impl SiteMeter for Open {
        fn judged(&self, _way: SiteWay, _decision: SiteDecision) {}
        fn bytes(&self, _way: SiteWay, _is_sent: bool, _bytes: u64) {}
        fn message(&self, _is_of_agent: bool, _decision: SiteDecision) {}
        fn open(&self, _way: SiteWay, is_begun: bool) {
            let more = if is_begun { 1 } else { -1 };
            self.0.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn used(bounds: AgentBounds) -> Arc<AgentUse> {
        Arc::new(AgentUse::new(bounds, Arc::new(Open::default())))
    }

    const WAY: SiteWay = SiteWay::Proxy;

    #[test]
    fn tunnels_beside_each_other_share_the_hour() {
        let bounds = AgentBounds {
            open_max: 9,
            hosts_per_hour: 9,
            bytes_per_hour: 100,
        };
        let (all, dev) = (used(bounds), Name::new("dev").unwrap());
        let place = all.enter(&dev, "a", WAY, 0).unwrap();
        let (one, two) = (place.reserve(80), place.reserve(80));
        assert_eq!((one.bytes, two.bytes), (50, 25));
        place.settle(one, 4, 6);
        assert_eq!(place.reserve(80).bytes, 33);
        // What an hour gave is not given back in the next.
        drop(all.enter(&dev, "a", WAY, HOUR_MS).unwrap());
        place.sent(40).unwrap();
        place.settle(two, 0, 0);
        assert_eq!(place.reserve(80).bytes, 30);
    }

    #[test]
    fn an_agent_has_its_bounds_and_no_other_agents() {
        let bounds = AgentBounds {
            open_max: 2,
            hosts_per_hour: 2,
            bytes_per_hour: 100,
        };
        let all = used(bounds);
        let (dev, eve) = (Name::new("dev").unwrap(), Name::new("eve").unwrap());
        let one = all.enter(&dev, "a", WAY, 0).unwrap();
        let two = all.enter(&dev, "b", WAY, 0).unwrap();
        assert!(all.enter(&dev, "a", WAY, 0).is_err());
        assert!(all.enter(&eve, "a", WAY, 0).is_ok());
        drop(two);
        assert!(all.enter(&dev, "c", WAY, 0).is_err(), "a third host");
        assert!(all.enter(&dev, "c", WAY, HOUR_MS).is_ok(), "an hour later");
        let three = all.enter(&dev, "a", WAY, HOUR_MS).unwrap();
        assert!(one.sent(60).is_ok() && three.came(60).is_err());
        drop((one, three));
        assert!(
            all.enter(&dev, "a", WAY, HOUR_MS).is_err(),
            "its bytes are used up"
        );
    }

    #[test]
    fn other_bounds_hold_for_what_is_used_already() {
        let bounds = AgentBounds {
            open_max: 2,
            hosts_per_hour: 2,
            bytes_per_hour: 100,
        };
        let open = Arc::new(Open::default());
        let meter = Arc::clone(&open) as Arc<dyn SiteMeter>;
        let (all, dev) = (
            Arc::new(AgentUse::new(bounds, meter)),
            Name::new("dev").unwrap(),
        );
        let one = all.enter(&dev, "a", WAY, 0).unwrap();
        all.set_bounds(AgentBounds {
            open_max: 1,
            ..bounds
        });
        assert!(all.enter(&dev, "a", WAY, 0).is_err());
        assert_eq!(open.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        drop(one);
        assert_eq!(open.0.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert!(all.enter(&dev, "a", WAY, 0).is_ok());
    }
}
