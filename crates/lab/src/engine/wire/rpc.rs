//! JSON-RPC messages as MCP has them: requests made, answers read.
//!
//! Answers are read for what is judged (whose answer, error or result, the next page) and no further.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::{Bad, quoted};
use crate::plan::McpRevision;
use crate::tally::Fault;
use crate::template::decimal;

/// The `_meta` of every request in the stateless revision, but for the revision itself.
const META: &str = concat!(
    r#""io.modelcontextprotocol/clientInfo":{"name":"weir-lab","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"io.modelcontextprotocol/clientCapabilities":{}"#
);

/// What a request asks, rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    Initialize,
    /// A page of `tools/list`, from a cursor on.
    List(Option<&'a str>),
    Call {
        tool: &'a str,
        /// A JSON object.
        arguments: &'a [u8],
    },
    Ping,
}

impl Question<'_> {
    pub fn method(&self) -> &'static str {
        match self {
            Question::Initialize => "initialize",
            Question::List(_) => "tools/list",
            Question::Call { .. } => "tools/call",
            Question::Ping => "ping",
        }
    }

    /// The request as it is sent.
    pub fn bytes(&self, revision: McpRevision, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        decimal(id, &mut out);
        out.extend_from_slice(b",\"method\":\"");
        out.extend_from_slice(self.method().as_bytes());
        out.extend_from_slice(b"\",\"params\":{");
        let begin = out.len();
        self.params(revision, &mut out);
        if let McpRevision::Stateless(version) = revision {
            if out.len() > begin {
                out.push(b',');
            }
            out.extend_from_slice(b"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":");
            text(version, &mut out);
            out.push(b',');
            out.extend_from_slice(META.as_bytes());
            out.push(b'}');
        }
        out.extend_from_slice(b"}}");
        out
    }

    fn params(&self, revision: McpRevision, out: &mut Vec<u8>) {
        match self {
            Question::Initialize => {
                out.extend_from_slice(b"\"protocolVersion\":");
                text(version_of(revision), out);
                out.extend_from_slice(b",\"capabilities\":{},\"clientInfo\":");
                out.extend_from_slice(b"{\"name\":\"weir-lab\",\"version\":");
                text(env!("CARGO_PKG_VERSION"), out);
                out.push(b'}');
            }
            Question::List(Some(cursor)) => {
                out.extend_from_slice(b"\"cursor\":");
                text(cursor, out);
            }
            Question::Call { tool, arguments } => {
                out.extend_from_slice(b"\"name\":");
                text(tool, out);
                out.extend_from_slice(b",\"arguments\":");
                let blank = arguments.trim_ascii().is_empty();
                out.extend_from_slice(if blank { b"{}" } else { arguments });
            }
            Question::List(None) | Question::Ping => {}
        }
    }
}

/// The revision's name.
pub fn version_of(revision: McpRevision) -> &'static str {
    match revision {
        McpRevision::Session(version) | McpRevision::Stateless(version) => version,
    }
}

/// What follows the answer to `initialize`.
pub const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Appends a JSON text.
fn text(value: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a text can be written to memory");
}

/// A message of the server.
#[derive(Deserialize)]
struct Message<'a> {
    jsonrpc: Option<Version>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
enum Version {
    #[serde(rename = "2.0")]
    Two,
}

/// What of a result is judged.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub next_cursor: Option<String>,
    is_error: Option<bool>,
    result_type: Option<String>,
    pub protocol_version: Option<String>,
}

/// Reads a message. Nothing if it is a notification or a request of the server's own.
///
/// # Errors
///
/// It is no JSON-RPC, answers another request, is an error, or is a tool's failure.
pub fn answer(bytes: &[u8], id: u64) -> Result<Option<Outcome>, Bad> {
    let broken = |what: String| Bad::new(Fault::Protocol, quoted(&what));
    let message: Message = serde_json::from_slice(bytes)
        .map_err(|e| broken(format!("the answer is not JSON-RPC: {e}")))?;
    let Some(Version::Two) = message.jsonrpc else {
        return Err(broken("the answer does not say JSON-RPC 2.0".to_owned()));
    };
    if message.method.is_some() {
        return Ok(None);
    }
    let found = message.id.map(RawValue::get);
    if let (Some(error), None | Some("null")) = (message.error, found) {
        return Err(told(error));
    }
    if found.and_then(|found| found.parse().ok()) != Some(id) {
        let found = found.unwrap_or("absent");
        return Err(broken(format!("the answer's id is {found}, not {id}")));
    }
    match (message.error, message.result) {
        (Some(error), _) => Err(told(error)),
        (None, Some(result)) => read(result).map(Some),
        (None, None) => Err(broken("the answer has no result and no error".to_owned())),
    }
}

fn read(result: &RawValue) -> Result<Outcome, Bad> {
    let outcome: Outcome = serde_json::from_str(result.get()).map_err(|e| {
        let what = format!("the result is not what the protocol has: {e}");
        Bad::new(Fault::Protocol, quoted(&what))
    })?;
    if outcome.is_error == Some(true) {
        let what = format!("the tool failed: {}", quoted(result.get()));
        return Err(Bad::new(Fault::Tool, what));
    }
    if outcome.result_type.as_deref() == Some("input_required") {
        return Err(Bad::new(
            Fault::Tool,
            "the tool asks for input, which a load test cannot give",
        ));
    }
    Ok(outcome)
}

fn told(error: &RawValue) -> Bad {
    let what = format!("JSON-RPC error: {}", quoted(error.get()));
    Bad::new(Fault::Rpc, what)
}

#[cfg(test)]
mod tests {
    use super::{Question, answer};
    use crate::plan::McpRevision;
    use crate::tally::Fault;

    const SESSION: McpRevision = McpRevision::Session("2025-11-25");
    const STATELESS: McpRevision = McpRevision::Stateless("2026-07-28");

    #[test]
    fn requests_are_json() {
        let call = Question::Call {
            tool: "say \"hi\"",
            arguments: b" ",
        };
        let questions = [
            Question::Initialize,
            Question::List(None),
            Question::List(Some("a\"b")),
            Question::Ping,
            call,
        ];
        for revision in [SESSION, STATELESS] {
            for question in questions {
                let bytes = question.bytes(revision, 7);
                let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(read["id"], 7);
                assert_eq!(read["method"], question.method());
                let meta = &read["params"]["_meta"];
                let version = &meta["io.modelcontextprotocol/protocolVersion"];
                match revision {
                    McpRevision::Session(_) => assert!(meta.is_null()),
                    McpRevision::Stateless(own) => assert_eq!(version, own),
                }
            }
        }
        let bytes = call.bytes(SESSION, 1);
        let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read["params"]["name"], "say \"hi\"");
        assert_eq!(read["params"]["arguments"], serde_json::json!({}));
    }

    #[test]
    fn answers_are_judged() {
        let fault = |text: &str| answer(text.as_bytes(), 7).map_err(|bad| bad.fault);
        let good = fault(r#"{"jsonrpc":"2.0","id":7,"result":{"nextCursor":"p2"}}"#);
        assert_eq!(good.unwrap().unwrap().next_cursor.unwrap(), "p2");
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
        assert_eq!(fault(notification), Ok(None));
        let request = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        assert_eq!(fault(request), Ok(None));
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, Fault::Protocol),
            (r#"{"jsonrpc":"2.0","id":"7","result":{}}"#, Fault::Protocol),
            (r#"{"jsonrpc":"2.0","result":{}}"#, Fault::Protocol),
            (r#"{"jsonrpc":"2.0","id":7}"#, Fault::Protocol),
            (r#"{"id":7,"result":{}}"#, Fault::Protocol),
            (r#"{"jsonrpc":"2.0","id":7,"result":3}"#, Fault::Protocol),
            ("<html>", Fault::Protocol),
            (
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1}}"#,
                Fault::Rpc,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1}}"#,
                Fault::Rpc,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"isError":true}}"#,
                Fault::Tool,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required"}}"#,
                Fault::Tool,
            ),
        ] {
            assert_eq!(fault(text), Err(expected), "{text}");
        }
    }
}
