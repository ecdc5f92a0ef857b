//! Names of members that two parsers may read as one.
//!
//! Some parsers match members without regard to case, and take the last that matches: Go's `encoding/json`
//! reads `Name`, `NAME` and `name` into one field. So of two members that are equal when their case is
//! folded, which one counts depends on who reads, and a member in another spelling counts for some readers
//! only. Example: `{"name":"echo","Name":"delete"}` asks weir for `echo`, and such a server for `delete`.

use base::fold::equal_folded;

/// Members of `params` and `result` that weir, a server or a client gives meaning to.
///
/// Source: the schemas of MCP 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.
const BODY: &[&str] = &[
    "_meta",
    "action",
    "argument",
    "arguments",
    "capabilities",
    "clientInfo",
    "code",
    "content",
    "context",
    "cursor",
    "data",
    "elicitationId",
    "inputResponses",
    "level",
    "message",
    "model",
    "name",
    "progress",
    "progressToken",
    "protocolVersion",
    "reason",
    "ref",
    "requestId",
    "requestState",
    "role",
    "roots",
    "stopReason",
    "task",
    "taskId",
    "total",
    "uri",
];

/// Members of `_meta`, without their prefix.
const META: &[&str] = &[
    "progressToken",
    "traceparent",
    "tracestate",
    "baggage",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/related-task",
    "io.modelcontextprotocol/subscriptionId",
];

/// Members of a tool's definition.
pub(crate) const TOOL: &[&str] = &[
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
    "_meta",
];

/// Members of a prompt's definition.
pub(crate) const PROMPT: &[&str] = &[
    "name",
    "title",
    "description",
    "arguments",
    "icons",
    "_meta",
];

/// Members of the definition of a resource, or of a template of URIs.
pub(crate) const RESOURCE: &[&str] = &[
    "uri",
    "uriTemplate",
    "name",
    "title",
    "description",
    "mimeType",
    "size",
    "annotations",
    "icons",
    "_meta",
];

/// Members of the answer that is a list, beside the list itself.
pub(crate) const LIST: &[&str] = &["nextCursor", "ttlMs", "cacheScope", "_meta"];

/// Where in a message an object stands, as far as its members have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Envelope,
    /// `params` or `result`.
    Body,
    Meta,
    /// The `arguments` of a call, and all that is inside of them: a tool's schema says what they mean.
    Arguments,
    Other,
}

impl Position {
    /// The position of the value of a member.
    pub(super) fn below(self, member: &str) -> Position {
        match (self, member) {
            (Position::Envelope, "params" | "result") => Position::Body,
            (Position::Body, "_meta") => Position::Meta,
            (Position::Body, "arguments") | (Position::Arguments, _) => Position::Arguments,
            _ => Position::Other,
        }
    }

    /// Whether a member is a known one in another spelling.
    pub(super) fn misspells(self, member: &str) -> bool {
        match self {
            Position::Body => misspells(member, BODY),
            Position::Meta => misspells(member, META),
            Position::Envelope | Position::Arguments | Position::Other => false,
        }
    }
}

/// Whether a name is one of `known` in another spelling.
pub(crate) fn misspells(name: &str, known: &[&str]) -> bool {
    let alike = |known: &&&str| equal_folded(name, known);
    known.iter().find(alike).is_some_and(|known| *known != name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_name_is_known_in_one_spelling() {
        assert!(misspells("Name", BODY) && misspells("URI", BODY));
        assert!(!misspells("name", BODY) && !misspells("other", BODY));
        assert!(Position::Meta.misspells("progresstoken"));
        assert!(!Position::Other.misspells("Name"));
    }
}
