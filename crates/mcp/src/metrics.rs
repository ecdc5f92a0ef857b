//! What the MCP lane counts, for whoever shows it.

use base::Metric;

/// See [`crate::Shared::sessions`].
pub const SESSIONS: Metric = Metric {
    name: "weir_mcp_sessions",
    kind: "gauge",
    labels: "",
    help: "links to MCP servers that weir keeps: child processes, and event streams of HTTP+SSE",
};
/// See [`crate::Shared::health`].
pub const SERVER_UP: Metric = Metric {
    name: "weir_server_up",
    kind: "gauge",
    labels: "server",
    help: "1 where the server answered when it was last asked",
};
/// See [`crate::Shared::health`].
pub const SERVER_STARTING: Metric = Metric {
    name: "weir_server_starting",
    kind: "gauge",
    labels: "server",
    help: "1 where the server has not answered yet since it was configured or the gateway started, and was not seen to fail",
};
/// See [`crate::Shared::revisions`].
pub const SERVER_ERA: Metric = Metric {
    name: "weir_mcp_server_era",
    kind: "gauge",
    labels: "server, revision",
    help: "1 for each revision of MCP that the server was found to speak",
};
