//! Keys of Pipelock without a counterpart, and why.

use config::{Path, Step};

/// Each key, or group of keys, with the reason that a person is told.
const WITHOUT: &[(&str, &str)] = &[
    (
        "adaptive_enforcement",
        "weir does not score sessions and does not lock agents out by a score; suspend one with agents.*.state or weir stop --agent",
    ),
    (
        "address_protection",
        "addresses of chains of blocks are no concern of this gateway",
    ),
    (
        "airlock",
        "there is no quarantine; weir stop --agent NAME stops one agent",
    ),
    (
        "behavioral_baseline",
        "weir learns no profiles; what an agent may do stands in its policies",
    ),
    (
        "bind_default_agent_identity",
        "an agent is known by its key, never by what it says of itself",
    ),
    (
        "browser_shield",
        "weir rewrites no pages but for secrets that it takes out of them",
    ),
    (
        "cross_request_detection",
        "what is split over requests is always looked for, within bounds of its own",
    ),
    (
        "emit",
        "events go to no other service; the log can be followed with weir audit show",
    ),
    (
        "explain_blocks",
        "a refusal always says its code and what to do about it",
    ),
    (
        "fetch_proxy.monitoring.entropy_threshold",
        "how random a part of a URL may be follows from its length; scan.urls.entropy: false looks at none",
    ),
    (
        "fetch_proxy.monitoring.subdomain_entropy_threshold",
        "as entropy_threshold",
    ),
    (
        "fetch_proxy.monitoring.query_entropy_exclusions",
        "write scan.overrides for the rule url_entropy_query and the host",
    ),
    (
        "fetch_proxy.monitoring.path_entropy_exclusions",
        "write scan.overrides for the rule url_entropy_path and the host",
    ),
    (
        "fetch_proxy.monitoring.query_entropy_param_exclusions",
        "write scan.overrides for the rule url_entropy_query and the host",
    ),
    (
        "file_sentry",
        "weir watches no files; weir hook judges what coding agents write",
    ),
    (
        "flight_recorder",
        "the log is always written and signed, in the folder state; weir audit verifies it",
    ),
    (
        "forward_proxy.redirect_websocket_hosts",
        "the proxy carries WebSockets itself",
    ),
    (
        "git_protection",
        "weir hook judges commands of git; a push is judged as any request",
    ),
    ("health_watchdog", "/health says it"),
    (
        "kill_switch.allowlist_ips",
        "a stop is for everybody but the operator's own listener",
    ),
    (
        "kill_switch.api_exempt",
        "the operator's listener answers during a stop",
    ),
    (
        "kill_switch.api_listen",
        "write admin.listen; its /stops stops and lets go",
    ),
    (
        "kill_switch.api_token",
        "write admin.key or admin.operators; the file names a secret here, which is not copied",
    ),
    ("kill_switch.health_exempt", "health answers during a stop"),
    (
        "kill_switch.message",
        "a refusal says its code and what to do about it",
    ),
    ("kill_switch.metrics_exempt", "metrics answer during a stop"),
    (
        "learn",
        "weir learns no profiles; what an agent may do stands in its policies",
    ),
    ("learn_lock", "as learn"),
    ("license_file", "weir needs no licence"),
    ("license_key", "weir needs no licence"),
    ("license_public_key", "weir needs no licence"),
    ("logging.include_allowed", "every call is recorded"),
    ("logging.include_blocked", "every call is recorded"),
    (
        "mcp_binary_integrity",
        "weir starts the command that mcp.*.command names, and checks no hash of it",
    ),
    (
        "mcp_session_binding",
        "a tool that was not approved is held by scan.pins",
    ),
    (
        "mcp_tool_provenance",
        "tools are approved by their definition, with scan.pins",
    ),
    (
        "mcp_ws_listener",
        "MCP over WebSocket is no transport of its specification",
    ),
    (
        "media_policy",
        "bytes that are no text are passed; of those in requests the texts are judged",
    ),
    (
        "mediation_envelope",
        "weir adds no field to requests and signs none",
    ),
    (
        "redaction",
        "a secret in an answer is always taken out; in a request it is refused, or taken out where scan.secrets.outgoing is redact",
    ),
    (
        "request_policy",
        "write it as a Cedar policy: of a resource that is Site, resource.host, resource.path and context.method are there",
    ),
    (
        "rules",
        "signed bundles are not read; scan.folder takes rules of your own",
    ),
    ("sandbox", "weir runs no agents in a sandbox"),
    (
        "scan_api",
        "POST /api/v1/scan stands at listen, takes the keys of agents, and has the bounds of every route",
    ),
    ("sentry", "weir sends no reports to anybody"),
    (
        "session_profiling",
        "weir scores no sessions; web.agent bounds hosts and bytes of each agent",
    ),
    (
        "suppress",
        "write scan.exempt: it names the rule of weir, a host or an agent, a reason, and when it ends",
    ),
    ("taint", "weir does not escalate by what a session has read"),
    (
        "tls_interception.cert_cache_size",
        "1,024 certificates are kept",
    ),
    (
        "tls_interception.cert_ttl",
        "certificates of sites last as weir makes them",
    ),
    (
        "tls_interception.max_response_bytes",
        "longer answers are judged as they flow",
    ),
    (
        "tool_chain_detection.custom_patterns",
        "chains of your own cannot be written; scan.chains decides about the known ones",
    ),
    (
        "tool_chain_detection.max_gap",
        "what counts as a chain is fixed",
    ),
    (
        "tool_chain_detection.pattern_overrides",
        "write scan.rules for the rule of the chain",
    ),
    (
        "tool_chain_detection.tool_categories",
        "weir knows tools by what they are asked to do",
    ),
    (
        "tool_chain_detection.window_seconds",
        "a chain is of the last two minutes",
    ),
    ("tool_chain_detection.window_size", "as window_seconds"),
    (
        "websocket_proxy.max_concurrent_connections",
        "web.agent.open_max bounds what one agent has open",
    ),
    (
        "internal",
        "which addresses are inside is fixed, and they are always refused; name those that may be asked in scan.urls.internal",
    ),
    (
        "seed_phrase_detection.min_words",
        "phrases of each length that the standard has are found",
    ),
    (
        "seed_phrase_detection.verify_checksum",
        "the check-sum is always verified",
    ),
    (
        "response_scanning.ask_timeout_seconds",
        "a person is not asked; what would wait is refused",
    ),
    (
        "response_scanning.sse_streaming",
        "streams of events are always judged, event by event and over them",
    ),
    ("request_body_scanning.header_mode", "every field is judged"),
    (
        "request_body_scanning.sensitive_headers",
        "every field is judged",
    ),
    (
        "request_body_scanning.ignore_headers",
        "every field is judged; let one rule pass with scan.overrides",
    ),
    ("dlp.min_env_secret_length", "as dlp.scan_env"),
    (
        "mcp_input_scanning.on_parse_error",
        "what is no JSON-RPC is refused",
    ),
    (
        "mcp_tool_scanning.new_tool_admission",
        "a tool that is new is trusted when it is first seen, and held when it changes",
    ),
    (
        "mcp_tool_policy.redirect_profiles",
        "a call is permitted or refused, never sent to another program",
    ),
    ("mcp_tool_policy.quarantine_dir", "as redirect_profiles"),
];

/// Why a key has no counterpart; nothing where it is not in the table.
pub(super) fn reason(path: &Path) -> Option<&'static str> {
    let keys: Option<Vec<&str>> = path
        .0
        .iter()
        .map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
        .collect();
    let dotted = keys?.join(".");
    let found = WITHOUT.iter().find(|(key, _)| **key == *dotted);
    found.map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_stands_there_once() {
        let mut keys: Vec<&str> = WITHOUT.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), WITHOUT.len());
        assert!(reason(&Path::of("airlock")).is_some() && reason(&Path::of("mode")).is_none());
    }
}
