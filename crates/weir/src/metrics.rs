//! What `/metrics` shows, in the OpenMetrics text format.
//!
//! Labels are route templates, codes and names from the configuration: what an agent sends never becomes
//! a label, so nobody outside can make a series. The tables of [`all`] are the reference page too.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base::record::CallEnd;
use base::{Destination, Metric, Name, Resource};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use store::log::Log;

use crate::assemble::Replica;
use crate::lanes::{self, Running};

macro_rules! docs {
    ($($constant:ident $name:literal $kind:literal $labels:literal $help:literal;)*) => {
        $(const $constant: Metric =
            Metric { name: $name, kind: $kind, labels: $labels, help: $help };)*
    };
}

docs! {
    REQUESTS "weir_requests" "counter" "route, status" "Requests answered, by route template and HTTP status";
    JUDGEMENTS "weir_judgements" "counter" "server, code" "Calls judged; code is `passed` or the refusal's";
    OUTCOMES "weir_outcomes" "counter" "server, end" "Calls that passed and have ended, by how";
    CALL_SECONDS "weir_call_seconds" "histogram" "server" "Time from judgement to outcome of a call";
    FINDINGS "weir_findings" "counter" "rule, action" "What the scan found, and what was done about it";
    RELOADS "weir_reloads" "counter" "result" "Times that the configuration was read again; `done`, or `refused` where the running settings stayed";
    CONNECTIONS "weir_connections" "gauge" "" "Connections of agents open now";
    ACCEPTED "weir_connections_accepted" "gauge" "" "Connections accepted since the start";
    REFUSED "weir_connections_refused" "gauge" "" "Connections refused since the start, because all places or those of their address were taken";
    UNOPENED "weir_connections_unopened" "gauge" "" "Connections since the start whose TLS handshake or PROXY header failed";
    CLOSED "weir_connections_closed_silent" "gauge" "" "Connections without a good key closed since the start, because they asked nothing while all places were taken";
    ENTRIES "weir_log_entries" "gauge" "" "Records in the log";
    LOG_BYTES "weir_log_bytes" "gauge" "" "Bytes of the log on the disk";
    COMMITS "weir_log_commits" "gauge" "" "Group commits of the log since the start";
    COMMIT_SECONDS "weir_log_commit_last_seconds" "gauge" "" "How long the last commit of the log took";
    STORE_BEHIND "weir_store_behind_entries" "gauge" "" "Entries of the log that are not in the store yet; 0 without a store";
    STORE_STUCK "weir_store_behind_seconds" "gauge" "" "For how long records wait for the store without progress";
    STORE_SILENT "weir_store_silent_seconds" "gauge" "" "For how long nothing was heard of the store";
    STORE_CLOCK "weir_store_clock_ahead_seconds" "gauge" "" "How far the store's clock is ahead of this machine's";
    LOST "weir_log_outcomes_lost" "gauge" "" "Outcomes that a failed log could not take";
    NEVERS "weir_nevers" "gauge" "" "Impossible states that were reached; anything but 0 is a bug";
}

/// Those that no lane brings, in the order that `/metrics` shows them.
const OWN: &[Metric] = &[
    REQUESTS,
    JUDGEMENTS,
    OUTCOMES,
    CALL_SECONDS,
    FINDINGS,
    RELOADS,
    CONNECTIONS,
    ACCEPTED,
    REFUSED,
    UNOPENED,
    CLOSED,
    ENTRIES,
    LOG_BYTES,
    COMMITS,
    COMMIT_SECONDS,
    STORE_BEHIND,
    STORE_STUCK,
    STORE_SILENT,
    STORE_CLOCK,
    LOST,
    NEVERS,
];

/// Every metric, in the order that `/metrics` shows them.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    let lanes = lanes::ALL.iter().flat_map(|row| row.metrics);
    OWN.iter().chain(lanes)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Judged {
    server: Arc<str>,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    server: Arc<str>,
    end: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Server {
    server: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Found {
    rule: &'static str,
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reloaded {
    result: &'static str,
}

/// What can come of a reload: done, or not.
const RELOAD_RESULTS: [&str; 2] = ["done", "refused"];

type Float = Gauge<f64, AtomicU64>;

/// All metrics of a process.
pub(crate) struct Metrics {
    registry: Registry,
    /// The names that are labels of their own.
    servers: ArcSwap<HashSet<Arc<str>>>,
    other: Arc<str>,
    requests: Family<Request, Counter>,
    judgements: Family<Judged, Counter>,
    outcomes: Family<Ended, Counter>,
    call_seconds: Family<Server, Histogram, fn() -> Histogram>,
    findings: Family<Found, Counter>,
    reloads: Family<Reloaded, Counter>,
    connections: Gauge,
    accepted: Gauge,
    refused: Gauge,
    unopened: Gauge,
    closed: Gauge,
    entries: Gauge,
    log_bytes: Gauge,
    commits: Gauge,
    commit_seconds: Float,
    store_behind: Gauge,
    store_stuck: Float,
    store_silent: Float,
    store_clock: Float,
    lost: Gauge,
    nevers: Gauge,
}

/// Bounds of the call histogram, in seconds: each four times the last.
fn histogram() -> Histogram {
    Histogram::new([0.001, 0.004, 0.016, 0.064, 0.256, 1.0, 4.0, 16.0, 64.0])
}

fn labels(servers: impl Iterator<Item = Name>) -> HashSet<Arc<str>> {
    servers.map(|name| name.as_str().into()).collect()
}

impl Metrics {
    pub(crate) fn new(servers: impl Iterator<Item = Name>) -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::default(),
            servers: ArcSwap::from_pointee(labels(servers)),
            other: "(other)".into(),
            requests: Family::default(),
            judgements: Family::default(),
            outcomes: Family::default(),
            call_seconds: Family::new_with_constructor(histogram),
            findings: Family::default(),
            reloads: Family::default(),
            connections: Gauge::default(),
            accepted: Gauge::default(),
            refused: Gauge::default(),
            unopened: Gauge::default(),
            closed: Gauge::default(),
            entries: Gauge::default(),
            log_bytes: Gauge::default(),
            commits: Gauge::default(),
            commit_seconds: Float::default(),
            store_behind: Gauge::default(),
            store_stuck: Float::default(),
            store_silent: Float::default(),
            store_clock: Float::default(),
            lost: Gauge::default(),
            nevers: Gauge::default(),
        };
        metrics.register();
        // Both are there from the start, so that the first refusal is a rise.
        for result in RELOAD_RESULTS {
            metrics
                .reloads
                .get_or_create(&Reloaded { result })
                .inc_by(0);
        }
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        macro_rules! register {
            ($($doc:path, $metric:ident;)*) => {$({
                let Metric { name, help, .. } = $doc;
                registry.register(name, help, self.$metric.clone());
            })*};
        }
        register! {
            REQUESTS, requests;
            JUDGEMENTS, judgements;
            OUTCOMES, outcomes;
        }
        let seconds = CALL_SECONDS.name.trim_end_matches("_seconds");
        let metric = self.call_seconds.clone();
        registry.register_with_unit(seconds, CALL_SECONDS.help, Unit::Seconds, metric);
        register! {
            FINDINGS, findings;
            RELOADS, reloads;
            CONNECTIONS, connections;
            ACCEPTED, accepted;
            REFUSED, refused;
            UNOPENED, unopened;
            CLOSED, closed;
            ENTRIES, entries;
            LOG_BYTES, log_bytes;
            COMMITS, commits;
            COMMIT_SECONDS, commit_seconds;
            STORE_BEHIND, store_behind;
            STORE_STUCK, store_stuck;
            STORE_SILENT, store_silent;
            STORE_CLOCK, store_clock;
            LOST, lost;
            NEVERS, nevers;
        }
    }

    /// A configured name as a label; every other name is one label.
    fn label(&self, resource: &Resource) -> Arc<str> {
        match resource.destination() {
            Destination::Configured(name) => self.label_of(name),
            Destination::Site(_) | Destination::Gateway => self.other.clone(),
        }
    }

    fn label_of(&self, name: &Name) -> Arc<str> {
        let servers = self.servers.load();
        servers.get(name.as_str()).unwrap_or(&self.other).clone()
    }

    /// The names that are labels of their own from now on. What was counted of others stays.
    pub(crate) fn know(&self, servers: impl Iterator<Item = Name>) {
        self.servers.store(Arc::new(labels(servers)));
    }

    pub(crate) fn count_request(&self, route: &'static str, status: u16) {
        self.requests
            .get_or_create(&Request { route, status })
            .inc();
    }

    pub(crate) fn count_judgement(&self, resource: &Resource, code: &'static str) {
        self.judgements
            .get_or_create(&Judged {
                server: self.label(resource),
                code,
            })
            .inc();
    }

    pub(crate) fn count_outcome(&self, resource: &Resource, end: CallEnd, duration_ms: u64) {
        let server = self.label(resource);
        let seconds = duration_ms as f64 / 1000.0;
        self.call_seconds
            .get_or_create(&Server {
                server: server.clone(),
            })
            .observe(seconds);
        self.outcomes
            .get_or_create(&Ended {
                server,
                end: end.as_str(),
            })
            .inc();
    }

    pub(crate) fn count_finding(&self, rule: &'static str, action: &'static str) {
        self.findings.get_or_create(&Found { rule, action }).inc();
    }

    /// The configuration was read again, and is in force or was refused.
    pub(crate) fn count_reload(&self, done: bool) {
        let result = RELOAD_RESULTS[usize::from(!done)];
        self.reloads.get_or_create(&Reloaded { result }).inc();
    }

    /// The page. What is counted elsewhere is read now.
    pub(crate) fn page(
        &self,
        edge: &net::EdgeShared,
        log: &Log,
        replica: Option<&Replica>,
        lanes: &[Arc<dyn Running>],
    ) -> String {
        let stats = log.stats();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as i64;
        self.connections.set(edge.connections() as i64);
        self.accepted.set(edge.accepted() as i64);
        self.refused.set(edge.refused_busy() as i64);
        self.unopened.set(edge.unopened() as i64);
        self.closed.set(edge.closed_silent() as i64);
        self.entries.set(read(&stats.entries));
        self.log_bytes.set(read(&stats.bytes));
        self.commits.set(read(&stats.commits));
        self.commit_seconds
            .set(read(&stats.commit_us_last) as f64 / 1e6);
        if let Some(replica) = replica {
            let standing = replica.standing();
            self.store_behind.set(replica.behind(log) as i64);
            self.store_stuck.set(standing.stuck_ms() as f64 / 1e3);
            self.store_silent.set(standing.silent_ms() as f64 / 1e3);
            self.store_clock.set(standing.clock_ahead_ms() as f64 / 1e3);
        }
        self.lost.set(read(&stats.lost));
        self.nevers.set(read(&base::never::NEVERS));
        let mut page = String::new();
        let written = text::encode_registry(&mut page, &self.registry);
        for lane in lanes {
            lane.show_metrics(&mut page);
        }
        let written = written.and_then(|()| text::encode_eof(&mut page));
        written.expect("a string takes all that is written");
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_configured_share_one_label() {
        let name = |text: &str| Name::new(text).unwrap();
        let metrics = Metrics::new([name("files")].into_iter());
        metrics.count_judgement(&Resource::server(name("files")), "passed");
        metrics.count_judgement(&Resource::server(name("a")), "mcp.server_unknown");
        metrics.count_judgement(&Resource::server(name("b")), "mcp.server_unknown");
        let mut page = String::new();
        text::encode(&mut page, &metrics.registry).unwrap();
        assert!(
            page.contains(r#"weir_judgements_total{server="files",code="passed"} 1"#),
            "{page}"
        );
        assert!(
            page.contains(r#"{server="(other)",code="mcp.server_unknown"} 2"#),
            "{page}"
        );
    }

    #[test]
    fn every_metric_of_the_gateways_own_is_on_the_page() {
        let metrics = Metrics::new(std::iter::empty());
        // A family shows nothing before it has a member.
        let server = Resource::server(Name::new("files").unwrap());
        metrics.count_request("/health", 200);
        metrics.count_judgement(&server, "passed");
        metrics.count_outcome(&server, CallEnd::Complete, 1);
        metrics.count_finding("rule", "warn");
        let mut page = String::new();
        text::encode(&mut page, &metrics.registry).unwrap();
        for doc in OWN {
            assert!(
                page.contains(&format!("# TYPE {} {}", doc.name, doc.kind)),
                "{}",
                doc.name
            );
        }
    }
}
