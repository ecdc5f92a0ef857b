//! What `/metrics` shows of the relay.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use relay::counters::{BYTES, EVENTS, READY, STAGES, Shown, Snapshot};

/// The labels of what a side counts: which side, and what tells it from the others of the metric.
type OfSide = [(&'static str, &'static str); 2];

/// The relay's metrics.
pub(super) struct ShownMetrics {
    registry: Registry,
    events: Family<OfSide, Counter>,
    bytes: Family<OfSide, Counter>,
    stages: Family<OfSide, Counter<f64, AtomicU64>>,
    ready: Family<[(&'static str, &'static str); 1], Gauge>,
}

impl ShownMetrics {
    pub(super) fn new() -> ShownMetrics {
        let mut metrics = ShownMetrics {
            registry: Registry::default(),
            events: Family::default(),
            bytes: Family::default(),
            stages: Family::default(),
            ready: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(EVENTS.name, EVENTS.help, metrics.events.clone());
        registry.register(BYTES.name, BYTES.help, metrics.bytes.clone());
        let seconds = STAGES.name.trim_end_matches("_seconds");
        let stages = metrics.stages.clone();
        registry.register_with_unit(seconds, STAGES.help, Unit::Seconds, stages);
        registry.register(READY.name, READY.help, metrics.ready.clone());
        metrics
    }

    /// Takes over what a side counted by itself: its counters only grow, as these do.
    pub(super) fn set(&self, side: &'static str, is_ready: bool, counted: &Snapshot) {
        let ready = self.ready.get_or_create(&[("side", side)]);
        ready.set(i64::from(is_ready));
        let labels = |name, value| [("side", side), (name, value)];
        for (shown, value) in counted.all() {
            match shown {
                Shown::Event(event) => {
                    let counter = self.events.get_or_create(&labels("event", event));
                    counter.inner().store(value, Ordering::Relaxed);
                }
                Shown::Bytes(way) => {
                    let counter = self.bytes.get_or_create(&labels("way", way));
                    counter.inner().store(value, Ordering::Relaxed);
                }
                Shown::Stage(stage) => {
                    let seconds = value as f64 / 1e9;
                    let counter = self.stages.get_or_create(&labels("stage", stage));
                    counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
                }
            }
        }
    }

    /// Appends the metrics to a page.
    pub(super) fn write(&self, page: &mut String) {
        text::encode_registry(page, &self.registry).expect("a string takes all that is written");
    }
}
