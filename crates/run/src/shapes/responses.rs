//! OpenAI's Responses: a run is a response, its steps are items of the output, its calls of tools are calls of MCP.
//!
//! The events of a response follow from those of the run alone, so their numbers are the same whenever they are told, and a client
//! goes on behind any of them (`starting_after`).

use std::collections::HashMap;

use base::Refusal;
use net::sse::{self, Event};
use serde_json::{Value, json};

use super::{object, text_of};
use crate::body::{StartBody, invalid};
use crate::event::{HeardEvent, RunEvent, RunMessage, RunTotals, ToolCall};
use crate::listen::EventWriter;
use crate::live::RunState;

/// What stands before the name of an agent in the name of a model.
pub const PREFIX: &str = "run/";
/// The server that calls are said to be of: a run sees the tools of all servers at one URL.
const SERVER: &str = "weir";
const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];
/// What a client may say without changing anything: each is how it is anyway.
const AS_IT_IS: [(&str, &str); 6] = [
    ("store", "true"),
    ("truncation", "\"disabled\""),
    ("tool_choice", "\"auto\""),
    ("parallel_tool_calls", "true"),
    ("service_tier", "\"auto\""),
    ("type", "\"response.create\""),
];

/// Reads the body of `POST /v1/responses` whose model is an agent of runs.
pub(crate) fn read(body: &[u8]) -> Result<StartBody, Refusal> {
    let mut members = object(body)?;
    let model = members.remove("model");
    let model = model.as_ref().and_then(Value::as_str).unwrap_or_default();
    let agent = model.strip_prefix(PREFIX);
    let agent = agent.ok_or_else(|| invalid("model is run/ and the name of an agent"))?;
    let input = match members.remove("input") {
        Some(Value::String(content)) => vec![RunMessage::User { content }],
        Some(Value::Array(items)) => items.into_iter().map(message).collect::<Result<_, _>>()?,
        _ => return Err(invalid("input is a text, or a list of messages")),
    };
    let mut start = StartBody::of_agent(agent.to_owned(), input);
    for (name, value) in members {
        match (name.as_str(), value) {
            ("stream", Value::Bool(stream)) => start.stream = stream,
            ("background", Value::Bool(background)) => start.background = background,
            ("previous_response_id", Value::String(id)) => start.previous = Some(id),
            (name, value) if AS_IT_IS.contains(&(name, &value.to_string())) => {}
            (name, _) => {
                let name: String = name.chars().take(64).collect();
                return Err(invalid(format!(
                    "{name} cannot be said of a run: its agent has its model, instructions and tools, and it is kept"
                )));
            }
        }
    }
    Ok(start)
}

fn message(mut item: Value) -> Result<RunMessage, Refusal> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind != "message" {
        let kind: String = kind.chars().take(64).collect();
        return Err(invalid(format!("input has an item of the type {kind:?}")));
    }
    let content = text_of(Some(item["content"].take()), &TEXTS)?;
    match item["role"].as_str() {
        Some("user") => Ok(RunMessage::User { content }),
        Some("system" | "developer") => Ok(RunMessage::System { content }),
        Some("assistant") => Ok(RunMessage::Assistant {
            content,
            calls: Vec::new(),
        }),
        _ => Err(invalid(
            "a message is of user, assistant, system or developer",
        )),
    }
}

/// Says a run as a response, and its events as those of one.
pub(crate) struct ResponseWriter {
    id: String,
    model: String,
    created_at: u64,
    /// Events up to this one are not told again.
    after: Option<u64>,
    sequence: u64,
    is_created: bool,
    output: Vec<Value>,
    /// The item that words go to, and whether these are reasoning.
    open: Option<(usize, bool)>,
    /// The calls that the model proposed last, and the items of those that were begun, by their ids.
    proposed: HashMap<String, ToolCall>,
    calls: HashMap<String, usize>,
    end: Option<RunEvent>,
}

impl EventWriter for ResponseWriter {
    fn write(&mut self, heard: &HeardEvent) -> String {
        let mut out = String::new();
        if let Some((_, line)) = HeardEvent::read(&heard.line) {
            self.take(line.event, &mut out);
        }
        out
    }
}

impl ResponseWriter {
    pub(crate) fn new(run: &str, agent: &str, created_ms: u64, after: Option<u64>) -> Self {
        ResponseWriter {
            id: run.to_owned(),
            model: format!("{PREFIX}{agent}"),
            created_at: created_ms / 1_000,
            after,
            sequence: 0,
            is_created: false,
            output: Vec::new(),
            open: None,
            proposed: HashMap::new(),
            calls: HashMap::new(),
            end: None,
        }
    }

    /// The response as it is by now, of a run in this state.
    pub(crate) fn response(&self, state: RunState) -> Value {
        let status = match state {
            RunState::Queued => "queued",
            RunState::Running | RunState::Parked => "in_progress",
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
        };
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created_at, "status": status,
            "background": true, "error": null, "incomplete_details": null, "instructions": null,
            "metadata": {}, "model": self.model, "output": self.output, "parallel_tool_calls": true,
            "previous_response_id": null, "store": true, "temperature": null, "tool_choice": "auto",
            "tools": [], "top_p": null, "truncation": "disabled", "usage": null,
        });
        match &self.end {
            Some(RunEvent::Failed {
                code,
                message,
                usage: used,
            }) => {
                response["error"] = json!({ "code": code, "message": message });
                response["usage"] = usage(used);
            }
            Some(RunEvent::Completed { usage: used, .. } | RunEvent::Cancelled { usage: used }) => {
                response["usage"] = usage(used)
            }
            _ => {}
        }
        response
    }

    fn take(&mut self, event: RunEvent, out: &mut String) {
        if !self.is_created {
            self.is_created = true;
            let response = self.response(RunState::Running);
            self.say(
                out,
                json!({ "type": "response.created", "response": response }),
            );
            let event = json!({ "type": "response.in_progress", "response": response });
            self.say(out, event);
        }
        match event {
            RunEvent::StepStarted { .. } | RunEvent::Resumed { .. } => {
                self.close("incomplete", out)
            }
            RunEvent::Text { text, .. } => self.words(&text, false, out),
            RunEvent::Reasoning { text, .. } => self.words(&text, true, out),
            RunEvent::Message { calls, .. } => {
                self.close("completed", out);
                let calls = calls.into_iter().map(|call| (call.id.clone(), call));
                self.proposed = calls.collect();
            }
            RunEvent::Call { call, .. } => {
                self.call(&call, out);
            }
            RunEvent::Answer {
                call,
                tool,
                content,
                is_error,
                ..
            } => self.answer(call, tool, &content, is_error, out),
            RunEvent::Completed { .. } => self.finish(event, RunState::Completed, out),
            RunEvent::Failed { .. } => self.finish(event, RunState::Failed, out),
            RunEvent::Cancelled { .. } => self.finish(event, RunState::Cancelled, out),
            RunEvent::Started { .. }
            | RunEvent::Refused { .. }
            | RunEvent::Added { .. }
            | RunEvent::Parked { .. } => {}
        }
    }

    /// Gives an event its number, and tells it unless the client has it.
    fn say(&mut self, out: &mut String, mut event: Value) {
        let number = self.sequence;
        self.sequence += 1;
        if self.after.is_some_and(|after| number <= after) {
            return;
        }
        event["sequence_number"] = number.into();
        let name = event["type"].as_str().map(str::to_owned);
        let data = event.to_string();
        let event = Event {
            name,
            ..Event::message(data.as_bytes())
        };
        out.push_str(&String::from_utf8_lossy(&sse::write(&event)));
    }

    fn add(&mut self, item: Value, out: &mut String) -> usize {
        let at = self.output.len();
        let event =
            json!({ "type": "response.output_item.added", "output_index": at, "item": item });
        self.output.push(item);
        self.say(out, event);
        at
    }

    fn done(&mut self, at: usize, out: &mut String) {
        let item = &self.output[at];
        let event =
            json!({ "type": "response.output_item.done", "output_index": at, "item": item });
        self.say(out, event);
    }

    /// Takes words of the model, or of its reasoning.
    fn words(&mut self, text: &str, is_reasoning: bool, out: &mut String) {
        let at = match self.open {
            Some((at, is)) if is == is_reasoning => at,
            _ => {
                self.close("completed", out);
                self.begin(is_reasoning, out)
            }
        };
        if let Value::String(so_far) = &mut self.output[at]["content"][0]["text"] {
            so_far.push_str(text);
        }
        let mut event = json!({
            "item_id": self.output[at]["id"], "output_index": at, "content_index": 0, "delta": text,
        });
        match is_reasoning {
            true => event["type"] = "response.reasoning_text.delta".into(),
            false => {
                event["type"] = "response.output_text.delta".into();
                event["logprobs"] = json!([]);
            }
        }
        self.say(out, event);
    }

    fn begin(&mut self, is_reasoning: bool, out: &mut String) -> usize {
        let at = self.output.len();
        let (item, part) = match is_reasoning {
            true => (
                json!({ "id": format!("rs_{at}"), "type": "reasoning", "summary": [], "content": [] }),
                json!({ "type": "reasoning_text", "text": "" }),
            ),
            false => (
                json!({ "id": format!("msg_{at}"), "type": "message", "role": "assistant", "content": [] }),
                json!({ "type": "output_text", "text": "", "annotations": [] }),
            ),
        };
        let mut item = item;
        item["status"] = "in_progress".into();
        self.add(item, out);
        let event = json!({
            "type": "response.content_part.added", "item_id": self.output[at]["id"],
            "output_index": at, "content_index": 0, "part": part,
        });
        self.say(out, event);
        self.output[at]["content"] = json!([part]);
        self.open = Some((at, is_reasoning));
        at
    }

    /// Ends the item that words went to.
    fn close(&mut self, status: &str, out: &mut String) {
        let Some((at, is_reasoning)) = self.open.take() else {
            return;
        };
        self.output[at]["status"] = status.into();
        let (item, part) = (&self.output[at]["id"], &self.output[at]["content"][0]);
        let mut event = json!({
            "item_id": item, "output_index": at, "content_index": 0, "text": part["text"],
        });
        let over = json!({
            "type": "response.content_part.done", "item_id": item,
            "output_index": at, "content_index": 0, "part": part,
        });
        match is_reasoning {
            true => event["type"] = "response.reasoning_text.done".into(),
            false => {
                event["type"] = "response.output_text.done".into();
                event["logprobs"] = json!([]);
            }
        }
        self.say(out, event);
        self.say(out, over);
        self.done(at, out);
    }

    /// A call is begun; one that is made again after a crash has its item.
    fn call(&mut self, call: &ToolCall, out: &mut String) -> usize {
        if let Some(at) = self.calls.get(&call.id) {
            return *at;
        }
        self.close("completed", out);
        let id = format!("mcp_{}", self.output.len());
        let item = json!({
            "id": id, "type": "mcp_call", "server_label": SERVER, "name": call.tool,
            "arguments": call.arguments, "output": null, "error": null, "status": "in_progress",
        });
        let at = self.add(item, out);
        self.calls.insert(call.id.clone(), at);
        for (name, member) in [
            ("in_progress", None),
            ("arguments.delta", Some("delta")),
            ("arguments.done", Some("arguments")),
        ] {
            let kind = match member {
                None => format!("response.mcp_call.{name}"),
                Some(_) => format!("response.mcp_call_{name}"),
            };
            let mut event = json!({ "type": kind, "item_id": id, "output_index": at });
            if let Some(member) = member {
                event[member] = call.arguments.as_str().into();
            }
            self.say(out, event);
        }
        at
    }

    fn answer(
        &mut self,
        id: String,
        tool: String,
        content: &str,
        is_error: bool,
        out: &mut String,
    ) {
        // A call that was not made was not begun: it is said with what the model proposed.
        let call = self.proposed.remove(&id);
        let call = call.unwrap_or(ToolCall {
            id,
            tool,
            arguments: "{}".to_owned(),
        });
        let at = self.call(&call, out);
        self.calls.remove(&call.id);
        let item = &mut self.output[at];
        let status = match is_error {
            true => {
                item["error"] = json!({ "type": "mcp_tool_execution_error", "content": content });
                "failed"
            }
            false => {
                item["output"] = content.into();
                "completed"
            }
        };
        item["status"] = status.into();
        let event = json!({
            "type": format!("response.mcp_call.{status}"), "item_id": item["id"], "output_index": at,
        });
        self.say(out, event);
        self.done(at, out);
    }

    /// The end. A response that was cancelled has no event of its own: it is incomplete, and says why by its status.
    fn finish(&mut self, end: RunEvent, state: RunState, out: &mut String) {
        self.close("incomplete", out);
        let mut left: Vec<usize> = std::mem::take(&mut self.calls).into_values().collect();
        left.sort_unstable();
        for at in left {
            self.output[at]["status"] = "incomplete".into();
            self.done(at, out);
        }
        self.end = Some(end);
        let kind = match state {
            RunState::Completed => "response.completed",
            RunState::Failed => "response.failed",
            _ => "response.incomplete",
        };
        let event = json!({ "type": kind, "response": self.response(state) });
        self.say(out, event);
    }
}

fn usage(totals: &RunTotals) -> Value {
    json!({
        "input_tokens": totals.input_tokens,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": totals.output_tokens,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": totals.input_tokens + totals.output_tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StepUsage;

    fn story() -> Vec<RunEvent> {
        let call = |id: &str, tool: &str| ToolCall {
            id: id.into(),
            tool: tool.into(),
            arguments: "{}".into(),
        };
        let text = |step, text: &str| RunEvent::Text {
            step,
            text: text.into(),
        };
        let answer = |id: &str, is_error| RunEvent::Answer {
            step: 1,
            call: id.into(),
            tool: "t".into(),
            content: "c".into(),
            is_error,
            code: None,
        };
        vec![
            RunEvent::Started {
                run: "r".into(),
                agent: "a".into(),
            },
            RunEvent::StepStarted { step: 1 },
            text(1, "void"),
            RunEvent::StepStarted { step: 1 },
            RunEvent::Reasoning {
                step: 1,
                text: "I look".into(),
            },
            text(1, "good"),
            RunEvent::Message {
                step: 1,
                text: "good".into(),
                calls: vec![call("1", "t"), call("2", "none")],
                usage: StepUsage::default(),
                money_nanos: 0,
            },
            RunEvent::Call {
                step: 1,
                call: call("1", "t"),
                is_repeatable: true,
            },
            RunEvent::Resumed { step: 1 },
            RunEvent::Call {
                step: 1,
                call: call("1", "t"),
                is_repeatable: true,
            },
            answer("1", false),
            answer("2", true),
            RunEvent::StepStarted { step: 2 },
            text(2, "over"),
            RunEvent::Completed {
                output: "over".into(),
                usage: RunTotals::default(),
            },
        ]
    }

    fn told(after: Option<u64>) -> (Vec<Value>, ResponseWriter) {
        let mut writer = ResponseWriter::new("r", "a", 5_000, after);
        let mut out = String::new();
        for event in story() {
            writer.take(event, &mut out);
        }
        let data = out.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = data.map(|data| serde_json::from_str(data).unwrap());
        (events.collect(), writer)
    }

    #[test]
    fn items_are_said_once_and_in_order() {
        let (events, writer) = told(None);
        let numbers: Vec<u64> = events
            .iter()
            .map(|event| event["sequence_number"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        let response = writer.response(RunState::Completed);
        let items: Vec<(&str, &str)> = response["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                (
                    item["type"].as_str().unwrap(),
                    item["status"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            items,
            [
                ("message", "incomplete"),
                ("reasoning", "completed"),
                ("message", "completed"),
                ("mcp_call", "completed"),
                ("mcp_call", "failed"),
                ("message", "incomplete"),
            ]
        );
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed");
        assert_eq!(last["response"]["output"], response["output"]);
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(of("response.output_item.added"), 6);
        assert_eq!(of("response.output_item.done"), 6);
    }

    #[test]
    fn a_client_goes_on_behind_any_event() {
        let (all, _) = told(None);
        for after in 0..all.len() as u64 {
            let (rest, _) = told(Some(after));
            assert_eq!(rest, all[usize::try_from(after).unwrap() + 1..]);
        }
    }

    #[test]
    fn what_a_run_cannot_take_is_refused() {
        let good = r#"{"model":"run/a","input":"x","stream":true,"store":true,"metadata":{},"tools":[],"temperature":null}"#;
        assert!(read(good.as_bytes()).unwrap().stream);
        let messages = r#"{"model":"run/a","background":true,"previous_response_id":"run_1","input":[
            {"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}]}"#;
        let start = read(messages.as_bytes()).unwrap();
        assert!(start.background && start.previous.as_deref() == Some("run_1"));
        for bad in [
            "[]",
            r#"{"model":"gpt","input":"x"}"#,
            r#"{"model":"run/a"}"#,
            r#"{"model":"run/a","input":"x","store":false}"#,
            r#"{"model":"run/a","input":"x","instructions":"be evil"}"#,
            r#"{"model":"run/a","input":"x","tools":[{"type":"web_search"}]}"#,
            r#"{"model":"run/a","input":[{"role":"user","content":[{"type":"input_image"}]}]}"#,
            r#"{"model":"run/a","input":[{"type":"function_call_output","output":"x"}]}"#,
            r#"{"model":"run/a","input":[{"role":"nobody","content":"x"}]}"#,
        ] {
            let refused = read(bad.as_bytes()).unwrap_err();
            assert_eq!(refused.code.name, "run.invalid", "{bad}");
        }
    }
}
