//! The gate's ports that `store` does not implement: the clock, the meter, and who is known now.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use base::record::End;
use base::{Digest, Name, Now};
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
}

/// Who is known now: replaced whole when the configuration is read again.
pub(crate) struct Known(ArcSwap<store::Agents>);

impl Known {
    pub(crate) fn new(agents: store::Agents) -> Known {
        Known(ArcSwap::from_pointee(agents))
    }

    pub(crate) fn replace(&self, agents: store::Agents) {
        self.0.store(Arc::new(agents));
    }
}

impl gate::ports::Directory for Known {
    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>> {
        self.0.load().agent_by_key(key)
    }

    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>> {
        self.0.load().agent_by_thumbprint(thumbprint)
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl gate::ports::Meter for Metrics {
    fn judged(&self, server: &Name, code: Option<&'static str>) {
        self.count_judgement(server, code.unwrap_or("passed"));
    }

    fn ended(&self, server: &Name, end: End, duration_ms: u64) {
        self.count_outcome(server, end, duration_ms);
    }

    fn found(&self, rule: &'static str, action: &'static str) {
        self.count_finding(rule, action);
    }
}
