//! The gate's ports that `store` does not implement: the clock, the meter, and who is known now.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use base::record::CallEnd;
use base::{Digest, Now, Resource};
use identity::Agent;

use crate::metrics::Metrics;

/// The machine's clocks.
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }
}

impl gate::ports::Clock for Clock {
    fn now(&self) -> Now {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            unix_ms: millis(unix),
            mono_ms: millis(self.start.elapsed()),
        }
    }

    fn after(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// The machine's clocks, for who has no clock of the gateway's: the monotonic one begins when it is first asked.
pub(crate) fn now() -> Now {
    static START: LazyLock<Clock> = LazyLock::new(Clock::new);
    gate::ports::Clock::now(&*START)
}

/// Who is known now: replaced whole when the configuration is read again.
pub(crate) struct Known {
    agents: ArcSwap<store::Agents>,
    epoch: AtomicU64,
}

impl Known {
    pub(crate) fn new(agents: store::Agents) -> Known {
        Known {
            agents: ArcSwap::from_pointee(agents),
            epoch: AtomicU64::new(0),
        }
    }

    pub(crate) fn replace(&self, agents: store::Agents) {
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        self.agents.store(Arc::new(agents.at_epoch(epoch)));
    }
}

impl gate::ports::Directory for Known {
    fn epoch(&self) -> u64 {
        self.agents.load().epoch()
    }

    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>> {
        self.agents.load().agent_by_key(key)
    }

    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>> {
        self.agents.load().agent_by_thumbprint(thumbprint)
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl gate::ports::Meter for Metrics {
    fn judged(&self, resource: &Resource, code: Option<&'static str>) {
        self.count_judgement(resource, code.unwrap_or("passed"));
    }

    fn ended(&self, resource: &Resource, end: CallEnd, duration_ms: u64) {
        self.count_outcome(resource, end, duration_ms);
    }

    fn found(&self, rule: &'static str, action: &'static str) {
        self.count_finding(rule, action);
    }
}
