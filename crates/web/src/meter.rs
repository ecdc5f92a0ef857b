//! What is counted of the lane: by the way in which a site was asked, never by its name, which is the agents' to choose.

use base::Metric;

/// How a site is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteWay {
    /// A page of `/fetch`.
    Fetch,
    /// Its robots.txt.
    Robots,
    /// A request of the proxy.
    Proxy,
    /// A request inside of a tunnel that is looked into.
    Inside,
    /// A tunnel into which nobody looks.
    Tunnel,
    /// A tunnel that is looked into.
    Intercept,
    /// A WebSocket.
    Socket,
    /// A request of a service behind the reverse proxy.
    Reverse,
}

impl SiteWay {
    /// As it stands in a label.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteWay::Fetch => "fetch",
            SiteWay::Robots => "robots",
            SiteWay::Proxy => "proxy",
            SiteWay::Inside => "inside",
            SiteWay::Tunnel => "tunnel",
            SiteWay::Intercept => "intercept",
            SiteWay::Socket => "socket",
            SiteWay::Reverse => "reverse",
        }
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteDecision {
    Passed,
    /// It passed only because the lane observes.
    Observed,
    Refused,
}

impl SiteDecision {
    /// As it stands in a label.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteDecision::Passed => "passed",
            SiteDecision::Observed => "observed",
            SiteDecision::Refused => "refused",
        }
    }
}

/// Counts.
pub trait SiteMeter: Send + Sync {
    /// A call was judged.
    fn judged(&self, way: SiteWay, decision: SiteDecision);
    /// Bytes of bodies, messages and tunnels went to a site, or came from it.
    fn bytes(&self, way: SiteWay, is_sent: bool, bytes: u64);
    /// A message of a WebSocket was judged, of the agent or of the site.
    fn message(&self, is_of_agent: bool, decision: SiteDecision);
    /// A call or tunnel began, or ended.
    fn open(&self, way: SiteWay, is_begun: bool);
}

/// The metrics, as [`SiteMeter`] is asked to count them.
pub const SITE_CALLS: Metric = Metric {
    name: "weir_web_calls",
    kind: "counter",
    labels: "way, decision",
    help: "Calls to sites judged: pages of `fetch`, their `robots`, requests of the `proxy` and `inside` of TLS, each `tunnel`, `intercept` and `socket`; `passed`, `observed` where it passed although it would be refused, `refused`",
};
pub const SITE_BYTES: Metric = Metric {
    name: "weir_web_bytes",
    kind: "counter",
    labels: "way, direction",
    help: "Bytes of bodies, messages and tunnels, `sent` to sites and `received` from them",
};
pub const SITE_OPEN: Metric = Metric {
    name: "weir_web_open",
    kind: "gauge",
    labels: "way",
    help: "Calls to sites, tunnels and WebSockets that are open now",
};
pub const SOCKET_MESSAGES: Metric = Metric {
    name: "weir_web_socket_messages",
    kind: "counter",
    labels: "side, decision",
    help: "Messages of WebSockets judged, by the side that sent them, `agent` or `site`",
};
pub const LEAVES: Metric = Metric {
    name: "weir_web_leaves",
    kind: "gauge",
    labels: "state",
    help: "Certificates for sites whose TLS is looked into: `made` since the start, and `kept` now",
};
