//! How a refusal is said: as a JSON-RPC error where a request can carry it, with its HTTP status where it cannot.
//!
//! A call that was judged and refused is answered 200 with a JSON-RPC error, because that is what MCP
//! clients hand to their caller; what is wrong with the HTTP exchange itself (who, the session, the
//! body) has its HTTP status, as the transport's specification asks.

use base::{CallId, Refusal, refusal};
use net::Response;
use serde_json::json;

use crate::envelope::Id;

/// The form of a refusal of this lane before any message of the request is read.
pub fn refuse(refusal: &Refusal, call: CallId) -> Response {
    refuse_http(refusal, call, None)
}

/// A JSON-RPC error with the refusal's HTTP status: for what is wrong with the exchange. The id is the
/// request's, where it was read.
pub(crate) fn refuse_http(refusal: &Refusal, call: CallId, id: Option<Id<'_>>) -> Response {
    net::refused(refusal, "application/json", error(refusal, call, id))
}

/// A refusal as a message of a server's log (MCP 2025-11-25, "Logging"), for a stream that answers no request.
pub(crate) fn logged(refusal: &Refusal, call: CallId) -> String {
    let data = json!({
        "code": refusal.code.name,
        "call": call.to_string(),
        "message": refusal.public,
        "mend": refusal.mend(),
    });
    let params = json!({ "level": "error", "logger": "weir", "data": data });
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }).to_string()
}

/// A JSON-RPC error that answers a request.
pub(crate) fn error(refusal: &Refusal, call: CallId, id: Option<Id<'_>>) -> String {
    let code = refusal.code.rpc;
    let mut data = json!({
        "code": refusal.code.name,
        "call": call.to_string(),
        "mend": refusal.mend(),
    });
    if let Some(retry_ms) = refusal.retry_ms {
        data["retry_ms"] = retry_ms.into();
    }
    if refusal.code == refusal::REVISION {
        data["supported"] = refusal.supported.clone().into();
        data["requested"] = refusal.private.as_str().into();
    }
    let message = format!(
        "{}: {}. {}",
        refusal.code.name,
        refusal.public,
        refusal.mend()
    );
    let error = json!({ "code": code, "message": message, "data": data });
    let id = id.map_or("null", |id| id.0);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

#[cfg(test)]
mod tests {
    use base::refusal::ALL;

    #[test]
    fn codes_of_json_rpc_are_ours_to_give() {
        // What MCP and JSON-RPC define themselves; the rest of their range is reserved.
        let defined = [
            -32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022,
        ];
        // A2A has codes of its own in that range.
        for code in ALL.iter().filter(|code| !code.name.starts_with("a2a.")) {
            let reserved = (-32768..=-32000).contains(&code.rpc);
            assert!(!reserved || defined.contains(&code.rpc), "{}", code.name);
        }
    }
}
