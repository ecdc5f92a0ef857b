//! The port of tools, over the lane of MCP: all servers at one URL, of which a run is shown those tools that its agent has.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use base::Name;
use http::HeaderMap;
use net::sse::Reader;
use run::{PortCaller, PortFailure, PortFuture, ToolAnswer, ToolCall, ToolOffer, Tools};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use super::asking::{failure, passing, refused, request, whole};
use crate::lanes::OnThread;
use crate::routes::new_call_id;

const PATH: &str = "/mcp";
/// The revision in which each request says all of itself.
const REVISION: &str = "2026-07-28";
/// Longest name of a function that models take, and what they take beside letters and digits.
const NAME_CHARS_MAX: usize = 64;
/// Tools whose names are not good for models, that are remembered.
const RENAMED_MAX: usize = 10_000;
/// Characters of the hash that stands behind such a name.
const HASH_CHARS: usize = 8;
/// How often is asked for the tools of servers that are not there yet, and after which time, in milliseconds.
const LIST_TRIES_MAX: usize = 4;
const LIST_MS: u64 = 500;
/// The code of an error of a server that names none.
const SERVER: &str = "mcp.server_error";

/// The tools of one thread.
pub(super) struct LaneTools {
    lane: Rc<dyn OnThread>,
    /// By the name that models are told: the one at `/mcp`, where that is another.
    renamed: RefCell<HashMap<String, String>>,
}

impl LaneTools {
    pub(super) fn new(lane: Rc<dyn OnThread>) -> LaneTools {
        LaneTools {
            lane,
            renamed: RefCell::default(),
        }
    }

    /// The name that models are told of a tool.
    fn told(&self, name: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.chars().all(is_plain) && (1..=NAME_CHARS_MAX).contains(&name.len()) {
            return name.to_owned();
        }
        let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
        let plain: String = plain.take(NAME_CHARS_MAX - HASH_CHARS - 1).collect();
        let hash = base::hex::encode(&Sha256::digest(name));
        let told = format!("{plain}_{}", &hash[..HASH_CHARS]);
        let mut renamed = self.renamed.borrow_mut();
        if renamed.len() >= RENAMED_MAX {
            renamed.clear();
        }
        renamed.insert(told.clone(), name.to_owned());
        told
    }
}

/// The URL of all servers, as far as one run's patterns reach.
#[derive(Clone)]
struct ToolsUrl {
    lane: Rc<dyn OnThread>,
    caller: PortCaller,
    patterns: Vec<String>,
}

/// One message, and how long its answer may be waited for is the lane's.
struct ToolsMessage<'m> {
    /// Of a request: its id is nobody else's, so that it alone is cancelled by it.
    id: Option<&'m str>,
    method: &'static str,
    name: Option<&'m str>,
    params: Value,
}

impl ToolsUrl {
    fn new(lane: &Rc<dyn OnThread>, caller: &PortCaller, patterns: &[String]) -> ToolsUrl {
        ToolsUrl {
            lane: Rc::clone(lane),
            caller: caller.clone(),
            patterns: patterns.to_vec(),
        }
    }

    async fn send(&self, said: ToolsMessage<'_>) -> Result<(HeaderMap, u16, Vec<u8>), PortFailure> {
        let mut params = said.params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "weir", "version": env!("CARGO_PKG_VERSION") },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut message = json!({ "jsonrpc": "2.0", "method": said.method, "params": params });
        if let Some(id) = said.id {
            message["id"] = id.into();
        }
        let mut fields = vec![
            ("mcp-protocol-version", REVISION),
            ("mcp-method", said.method),
        ];
        fields.extend(said.name.map(|name| ("mcp-name", name)));
        let request = request(&self.caller, PATH, &fields, message.to_string());
        let unsaid = || failure("mcp.item_unknown", "the tool's name cannot be sent");
        let mut request = request.ok_or_else(unsaid)?;
        request.head.extensions.insert(toolset(&self.patterns));
        whole(self.lane.answer("", request, new_call_id()).await).await
    }

    /// Sends a request, and gives its result.
    async fn ask(&self, said: ToolsMessage<'_>) -> Result<Value, PortFailure> {
        let id = json!(said.id);
        let (fields, status, body) = self.send(said).await?;
        let Some(message) = answer_in(&body, &id) else {
            return Err(match status {
                200..300 => passing(SERVER, "the server answered something that is not MCP"),
                _ => refused(&fields, status, &body, SERVER),
            });
        };
        match message.get("result") {
            Some(result) => Ok(result.clone()),
            None => {
                let text = message.to_string();
                Err(refused(&fields, status, text.as_bytes(), SERVER))
            }
        }
    }
}

/// A call under way: where it is given up, its server is told.
struct ToolUnderWay {
    url: ToolsUrl,
    id: String,
    task: JoinHandle<Result<Value, PortFailure>>,
    is_over: bool,
}

impl ToolUnderWay {
    fn begin(url: ToolsUrl, name: String, arguments: Value) -> ToolUnderWay {
        let id = format!("run-{}", new_call_id());
        let (asked, own) = (url.clone(), id.clone());
        let task = tokio::task::spawn_local(async move {
            let said = ToolsMessage {
                id: Some(&own),
                method: "tools/call",
                name: Some(&name),
                params: json!({ "name": name, "arguments": arguments }),
            };
            asked.ask(said).await
        });
        ToolUnderWay {
            url,
            id,
            task,
            is_over: false,
        }
    }

    async fn end(mut self) -> Result<Value, PortFailure> {
        let ended = (&mut self.task).await;
        self.is_over = true;
        ended.unwrap_or_else(|error| Err(failure(SERVER, &error.to_string())))
    }
}

impl Drop for ToolUnderWay {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (url, id, task) = (self.url.clone(), self.id.clone(), self.task.abort_handle());
        tokio::task::spawn_local(async move {
            let said = ToolsMessage {
                id: None,
                method: "notifications/cancelled",
                name: None,
                params: json!({ "requestId": id, "reason": "the run was ended" }),
            };
            // A server that cannot be told hears of it as of any client that is gone.
            let _ = url.send(said).await;
            task.abort();
        });
    }
}

/// The servers and tools of these patterns.
fn toolset(patterns: &[String]) -> mcp::Toolset {
    let servers = patterns.iter().filter_map(|pattern| {
        let (server, _) = pattern.split_once('/')?;
        Name::new(server)
    });
    let mut servers: Vec<Name> = servers.collect();
    servers.sort();
    servers.dedup();
    mcp::Toolset {
        servers,
        tools: Some(patterns.to_vec()),
        search: false,
    }
}

/// The answer in a body: one message, or the last of a stream of events.
fn answer_in(body: &[u8], id: &Value) -> Option<Value> {
    let is_answer = |message: &Value| message["id"] == *id && message.get("method").is_none();
    if let Ok(message) = serde_json::from_slice::<Value>(body) {
        return is_answer(&message).then_some(message);
    }
    let mut found = None;
    let mut reader = Reader::default();
    let read = reader.push(body, |event| {
        let message = event
            .data
            .and_then(|data| serde_json::from_slice(&data).ok());
        found = message.filter(is_answer).or(found.take());
    });
    read.ok()?;
    found
}

impl Tools for LaneTools {
    fn list<'a>(
        &'a self,
        caller: &'a PortCaller,
        patterns: &'a [String],
    ) -> PortFuture<'a, Result<Vec<ToolOffer>, PortFailure>> {
        Box::pin(async move {
            let url = ToolsUrl::new(&self.lane, caller, patterns);
            let mut result = Value::Null;
            for _ in 0..LIST_TRIES_MAX {
                let id = format!("run-{}", new_call_id());
                let said = ToolsMessage {
                    id: Some(&id),
                    method: "tools/list",
                    name: None,
                    params: json!({}),
                };
                result = url.ask(said).await?;
                // A server that is down takes no other away, and one that only starts is waited for.
                let missing = &result["_meta"]["weir/missing"];
                if missing.as_array().is_none_or(Vec::is_empty) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(LIST_MS)).await;
            }
            let tools = result["tools"].as_array().into_iter().flatten();
            Ok(tools.filter_map(|tool| self.offer(tool)).collect())
        })
    }

    fn call<'a>(
        &'a self,
        caller: &'a PortCaller,
        patterns: &'a [String],
        call: &'a ToolCall,
    ) -> PortFuture<'a, Result<ToolAnswer, PortFailure>> {
        Box::pin(async move {
            let name = self.renamed.borrow().get(&call.tool).cloned();
            let name = name.unwrap_or_else(|| call.tool.clone());
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let url = ToolsUrl::new(&self.lane, caller, patterns);
            let under_way = ToolUnderWay::begin(url, name, arguments);
            Ok(answer(&under_way.end().await?))
        })
    }
}

impl LaneTools {
    fn offer(&self, tool: &Value) -> Option<ToolOffer> {
        let hint = |name: &str| tool["annotations"][name] == json!(true);
        let schema = tool.get("inputSchema");
        Some(ToolOffer {
            name: self.told(tool["name"].as_str()?),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            schema: schema.map_or_else(|| r#"{"type":"object"}"#.to_owned(), Value::to_string),
            is_repeatable: hint("readOnlyHint") || hint("idempotentHint"),
        })
    }
}

/// What a tool answered, as a text for a model.
fn answer(result: &Value) -> ToolAnswer {
    if result["resultType"] == json!("input_required") {
        return ToolAnswer {
            content: "the tool asks a person something, and a run has none to ask".to_owned(),
            is_error: true,
        };
    }
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<String> = parts.map(part).collect();
    let structured = result.get("structuredContent");
    let content = match structured.filter(|_| texts.is_empty()) {
        Some(structured) => structured.to_string(),
        None => texts.join("\n"),
    };
    ToolAnswer {
        content,
        is_error: result["isError"] == json!(true),
    }
}

fn part(part: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let resource = &part["resource"];
    let kind = part["type"].as_str().unwrap_or("part");
    text(&part["text"])
        .or_else(|| text(&resource["text"]))
        .or_else(|| text(&part["uri"]).map(|uri| format!("({kind}: {uri})")))
        .unwrap_or_else(|| format!("(a part of type {kind} that is no text)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_text() {
        let said = json!({ "content": [
            { "type": "text", "text": "a" }, { "type": "image", "data": "…" },
            { "type": "resource", "resource": { "uri": "u", "text": "b" } },
        ]});
        assert_eq!(
            answer(&said).content,
            "a\n(a part of type image that is no text)\nb"
        );
        let structured = json!({ "structuredContent": { "a": 1 }, "isError": true });
        assert_eq!(
            answer(&structured),
            ToolAnswer {
                content: "{\"a\":1}".into(),
                is_error: true,
            }
        );
        assert!(answer(&json!({ "resultType": "input_required" })).is_error);
    }

    #[test]
    fn the_answer_is_found_in_one_message_and_among_events() {
        let (one, id) = (br#"{"jsonrpc":"2.0","id":"1","result":{}}"#, json!("1"));
        assert!(answer_in(one, &id).is_some());
        let events =
            b"data: {\"method\":\"notifications/progress\"}\n\ndata: {\"id\":\"1\",\"error\":{}}\n\n";
        assert!(answer_in(events, &id).unwrap().get("error").is_some());
        assert!(answer_in(b"data: {\"id\":1}\n\n", &id).is_none());
        assert!(answer_in(br#"{"code":"agent.key_unknown"}"#, &id).is_none());
    }
}
