//! The fuzzer: one binary, one target for each parser of outside bytes, named by `WEIR_FUZZ`.
//!
//! One binary is linked once, which is most of what a short run costs. It refuses to start without a name
//! that it knows, so that a mistyped target is not a pass. To add a target, add a row to [`TARGETS`].
#![no_main]

mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

/// Every target, by its name. `run.sh` reads the names from these lines.
const TARGETS: &[(&str, Target)] = &[
    ("scan_json", targets::scan_json),
    ("scan_text", targets::scan_text),
    ("scan_tool", targets::scan_tool),
    ("scan_url", targets::scan_url),
    ("scan_call", targets::scan_call),
    ("scan_stream", targets::scan_stream),
    ("scan_subject", targets::scan_subject),
    ("scan_rules", targets::scan_rules),
    ("json", targets::json),
    ("config_edit", targets::config_edit),
    ("mcp_envelope", targets::mcp_envelope),
    ("net_sse", targets::net_sse),
    ("cache_replies", targets::cache_replies),
    ("net_ws", targets::net_ws),
    ("mcp_arguments", targets::mcp_arguments),
    ("mcp_fields", targets::mcp_fields),
    ("mcp_era", targets::mcp_era),
    ("mcp_params", targets::mcp_params),
    ("mcp_batch", targets::mcp_batch),
    ("llm_dialect", targets::llm_dialect),
    ("llm_events", targets::llm_events),
    ("llm_frames", targets::llm_frames),
    ("llm_socket", targets::llm_socket),
    ("web_socket", targets::web_socket),
    ("web_robots", targets::web_robots),
    ("a2a_messages", targets::a2a_messages),
    ("run_start", targets::run_start),
    ("run_events", targets::run_events),
    ("identity_key", targets::identity_key),
    ("identity_field", targets::identity_field),
    ("identity_jose", targets::identity_jose),
    ("identity_proof", targets::identity_proof),
    ("identity_x509", targets::identity_x509),
    ("policy_arguments", targets::policy_arguments),
    ("seal_bhttp", targets::seal_bhttp),
    ("seal_target", targets::seal_target),
    ("seal_replay", targets::seal_replay),
    ("seal_init", targets::seal_init),
    ("seal_reply", targets::seal_reply),
    ("seal_request", targets::seal_request_opening),
    ("seal_response", targets::seal_response_opening),
    ("seal_ticket", targets::seal_ticket),
    ("store_note", targets::store_note),
    ("store_log", targets::store_log),
    ("lab_sse", targets::lab_sse),
    ("lab_scenario", targets::lab_scenario),
    ("lab_answer", targets::lab_answer),
    ("lab_facts", targets::lab_facts),
    ("lab_k6", targets::lab_k6),
    ("h1_request", targets::h1_request),
    ("h1_response", targets::h1_response),
    ("h1_chunked", targets::h1_chunked),
    ("h1_beside_hyper_server", targets::h1_beside_hyper_server),
    ("h1_beside_hyper_client", targets::h1_beside_hyper_client),
    ("net_http2", targets::net_http2),
    ("net_proxy", targets::net_proxy),
    ("net_forwarded", targets::net_forwarded),
    ("flow_documents", targets::flow_documents),
    ("flow_import", targets::flow_import),
    ("code_parse", targets::code_parse),
    ("code_wire", targets::code_wire),
    ("code_desk", targets::code_desk),
    ("code_embedding", targets::code_embedding),
];

static CHOSEN: OnceLock<Target> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let target = CHOSEN.get_or_init(|| {
        let name = std::env::var("WEIR_FUZZ").expect("WEIR_FUZZ names a target");
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        found.expect("WEIR_FUZZ names a target of the table").1
    });
    target(data);
});
