//! What `/metrics` shows of the web. A host is never a label: agents may ask for any.

use base::Metric;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use web::{
    LEAVES, SITE_BYTES, SITE_CALLS, SITE_OPEN, SOCKET_MESSAGES, SiteDecision, SiteMeter, SiteWay,
};

pub(super) const ALL: &[Metric] = &[SITE_CALLS, SITE_BYTES, SITE_OPEN, SOCKET_MESSAGES, LEAVES];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDecision {
    way: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBytes {
    way: &'static str,
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWay {
    way: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSide {
    side: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

/// The metrics of the web.
pub(super) struct WebMetrics {
    registry: Registry,
    calls: Family<OfDecision, Counter>,
    bytes: Family<OfBytes, Counter>,
    open: Family<OfWay, Gauge>,
    messages: Family<OfSide, Counter>,
    leaves: Family<OfState, Gauge>,
}

impl WebMetrics {
    pub(super) fn new() -> WebMetrics {
        let mut metrics = WebMetrics {
            registry: Registry::default(),
            calls: Family::default(),
            bytes: Family::default(),
            open: Family::default(),
            messages: Family::default(),
            leaves: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(SITE_CALLS.name, SITE_CALLS.help, metrics.calls.clone());
        registry.register(SITE_BYTES.name, SITE_BYTES.help, metrics.bytes.clone());
        registry.register(SITE_OPEN.name, SITE_OPEN.help, metrics.open.clone());
        let messages = metrics.messages.clone();
        registry.register(SOCKET_MESSAGES.name, SOCKET_MESSAGES.help, messages);
        registry.register(LEAVES.name, LEAVES.help, metrics.leaves.clone());
        metrics
    }

    /// Appends the metrics to a page, with how many certificates were made and are kept.
    pub(super) fn write(&self, leaves: Option<(u64, usize)>, page: &mut String) {
        if let Some((made, kept)) = leaves {
            let of = |state| self.leaves.get_or_create(&OfState { state });
            of("made").set(i64::try_from(made).unwrap_or(i64::MAX));
            of("kept").set(i64::try_from(kept).unwrap_or(i64::MAX));
        }
        text::encode_registry(page, &self.registry).expect("a string takes all that is written");
    }
}

impl SiteMeter for WebMetrics {
    fn judged(&self, way: SiteWay, decision: SiteDecision) {
        let (way, decision) = (way.as_str(), decision.as_str());
        self.calls
            .get_or_create(&OfDecision { way, decision })
            .inc();
    }

    fn bytes(&self, way: SiteWay, is_sent: bool, bytes: u64) {
        if bytes > 0 {
            let direction = if is_sent { "sent" } else { "received" };
            let of = OfBytes {
                way: way.as_str(),
                direction,
            };
            self.bytes.get_or_create(&of).inc_by(bytes);
        }
    }

    fn message(&self, is_of_agent: bool, decision: SiteDecision) {
        let side = if is_of_agent { "agent" } else { "site" };
        let decision = decision.as_str();
        self.messages
            .get_or_create(&OfSide { side, decision })
            .inc();
    }

    fn open(&self, way: SiteWay, is_begun: bool) {
        let of = OfWay { way: way.as_str() };
        let more = if is_begun { 1 } else { -1 };
        self.open.get_or_create(&of).inc_by(more);
    }
}
