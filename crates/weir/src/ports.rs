//! The gate's ports that `store` does not implement: the clock and the meter.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base::record::End;
use base::{Name, Now};

use crate::metrics::Metrics;

/// The machine's clocks.
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn new() -> Clock {
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
