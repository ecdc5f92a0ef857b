//! AG-UI 1.0: an application that shows an agent at work posts all messages of its conversation, and is told of the run as it happens.
//!
//! The client holds the conversation, so each run has a thread of its own and nothing is said twice.

use std::collections::HashSet;

use base::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{object, text_of};
use crate::body::{StartBody, invalid};
use crate::event::{HeardEvent, RunEvent, RunMessage, ToolCall};
use crate::listen::EventWriter;

/// Longest name that a client gives a run or a conversation.
const ID_CHARS_MAX: usize = 256;
/// What a client may bring beside its messages only where it is empty: nothing of it reaches a run.
const EMPTY: [&str; 4] = ["state", "tools", "context", "forwardedProps"];
const TEXTS: [&str; 1] = ["text"];

/// How the client names its conversation and this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgUiNames {
    thread: String,
    run: String,
}

/// Reads a `RunAgentInput` for this agent.
pub(crate) fn read(body: &[u8], agent: &str) -> Result<(StartBody, AgUiNames), Refusal> {
    let mut members = object(body)?;
    let mut word = |name: &str| match members.remove(name) {
        Some(Value::String(text)) if (1..=ID_CHARS_MAX).contains(&text.chars().count()) => Ok(text),
        _ => Err(invalid(format!(
            "{name} is a text of 1 to {ID_CHARS_MAX} characters"
        ))),
    };
    let names = AgUiNames {
        thread: word("threadId")?,
        run: word("runId")?,
    };
    for name in EMPTY {
        if members.contains_key(name) {
            return Err(invalid(format!(
                "{name} has to be empty: a run has the tools and instructions of its agent alone"
            )));
        }
    }
    let messages = match members.remove("messages") {
        Some(Value::Array(messages)) => messages,
        _ => return Err(invalid("messages is a list that ends with one of the user")),
    };
    let messages = messages
        .into_iter()
        .filter_map(|one| message(one).transpose());
    let input = messages.collect::<Result<Vec<_>, _>>()?;
    Ok((StartBody::of_agent(agent.to_owned(), input), names))
}

#[derive(Deserialize)]
struct ClientCall {
    id: String,
    function: ClientFunction,
}

#[derive(Deserialize)]
struct ClientFunction {
    name: String,
    arguments: String,
}

/// A message; nothing for what models are not told again.
fn message(mut one: Value) -> Result<Option<RunMessage>, Refusal> {
    let content = one["content"].take();
    let text = || text_of(Some(content), &TEXTS);
    let message = match one["role"].as_str() {
        Some("user") => RunMessage::User { content: text()? },
        Some("system" | "developer") => RunMessage::System { content: text()? },
        Some("assistant") => {
            let calls = match one["toolCalls"].take() {
                Value::Null => Vec::new(),
                calls => serde_json::from_value::<Vec<ClientCall>>(calls)
                    .map_err(|error| invalid(format!("toolCalls: {error}")))?,
            };
            let calls = calls.into_iter().map(|call| ToolCall {
                id: call.id,
                tool: call.function.name,
                arguments: call.function.arguments,
            });
            RunMessage::Assistant {
                content: text()?,
                calls: calls.collect(),
            }
        }
        Some("tool") => RunMessage::Tool {
            call: one["toolCallId"].as_str().unwrap_or_default().to_owned(),
            is_error: one["error"].is_string(),
            content: text()?,
        },
        Some("reasoning" | "activity") => return Ok(None),
        _ => {
            return Err(invalid(
                "a message is of user, assistant, system, developer, tool, reasoning or activity",
            ));
        }
    };
    Ok(Some(message))
}

/// What is open, which has to be ended before the run is.
enum OpenMessage {
    Text(String),
    Reasoning(String),
}

/// Says a run's events as those of AG-UI.
pub(crate) struct AgUiWriter {
    names: AgUiNames,
    run: String,
    is_started: bool,
    step: Option<String>,
    open: Option<OpenMessage>,
    /// The message to which the calls of this step belong, where it said words.
    said: Option<String>,
    messages: u64,
    /// Ids of calls, each of which the client knows once.
    calls: HashSet<String>,
    /// The model's ids of the calls of this step, and what the client knows them by.
    step_calls: Vec<(String, String)>,
}

impl EventWriter for AgUiWriter {
    fn write(&mut self, heard: &HeardEvent) -> String {
        let mut events = Vec::new();
        if let Some((_, line)) = HeardEvent::read(&heard.line) {
            self.take(line.event, &mut events);
        }
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        events.collect()
    }
}

impl AgUiWriter {
    pub(crate) fn new(names: AgUiNames, run: &str) -> AgUiWriter {
        AgUiWriter {
            names,
            run: run.to_owned(),
            is_started: false,
            step: None,
            open: None,
            said: None,
            messages: 0,
            calls: HashSet::new(),
            step_calls: Vec::new(),
        }
    }

    fn take(&mut self, event: RunEvent, out: &mut Vec<Value>) {
        let (thread, run) = (self.names.thread.clone(), self.names.run.clone());
        if !self.is_started {
            self.is_started = true;
            out.push(json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run }));
        }
        match event {
            RunEvent::StepStarted { step } => {
                self.end_step(out);
                let name = format!("step {step}");
                out.push(json!({ "type": "STEP_STARTED", "stepName": name }));
                self.step = Some(name);
            }
            RunEvent::Text { text, .. } if !text.is_empty() => {
                let id = self.words(false, out);
                out.push(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text }));
            }
            RunEvent::Reasoning { text, .. } if !text.is_empty() => {
                let id = self.words(true, out);
                out.push(
                    json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": text }),
                );
            }
            RunEvent::Message { calls, .. } => self.propose(calls, out),
            RunEvent::Answer { call, content, .. } => self.answer(&call, &content, out),
            RunEvent::Completed { output, .. } => {
                self.end_step(out);
                out.push(json!({
                    "type": "RUN_FINISHED", "threadId": thread, "runId": run, "result": output,
                    "outcome": { "type": "success" },
                }));
            }
            RunEvent::Failed { code, message, .. } => {
                self.end_step(out);
                out.push(json!({ "type": "RUN_ERROR", "message": message, "code": code }));
            }
            RunEvent::Cancelled { .. } => {
                self.end_step(out);
                out.push(json!({
                    "type": "RUN_FINISHED", "threadId": thread, "runId": run,
                    "outcome": { "type": "cancelled" },
                }));
            }
            RunEvent::Resumed { .. } => self.close(out),
            RunEvent::Started { .. }
            | RunEvent::Text { .. }
            | RunEvent::Reasoning { .. }
            | RunEvent::Call { .. }
            | RunEvent::Refused { .. }
            | RunEvent::Added { .. }
            | RunEvent::Parked { .. } => {}
        }
    }

    fn new_id(&mut self) -> String {
        self.messages += 1;
        format!("{}-{}", self.run, self.messages)
    }

    /// The message that words go to.
    fn words(&mut self, is_reasoning: bool, out: &mut Vec<Value>) -> String {
        match &self.open {
            Some(OpenMessage::Text(id)) if !is_reasoning => return id.clone(),
            Some(OpenMessage::Reasoning(id)) if is_reasoning => return id.clone(),
            _ => self.close(out),
        }
        let id = self.new_id();
        self.open = Some(match is_reasoning {
            true => {
                out.push(json!({ "type": "REASONING_START", "messageId": id }));
                out.push(json!({
                    "type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning",
                }));
                OpenMessage::Reasoning(id.clone())
            }
            false => {
                out.push(json!({
                    "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant",
                }));
                self.said = Some(id.clone());
                OpenMessage::Text(id.clone())
            }
        });
        id
    }

    fn close(&mut self, out: &mut Vec<Value>) {
        match self.open.take() {
            Some(OpenMessage::Text(id)) => {
                out.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
            }
            Some(OpenMessage::Reasoning(id)) => {
                out.push(json!({ "type": "REASONING_MESSAGE_END", "messageId": id }));
                out.push(json!({ "type": "REASONING_END", "messageId": id }));
            }
            None => {}
        }
    }

    fn end_step(&mut self, out: &mut Vec<Value>) {
        self.close(out);
        self.said = None;
        if let Some(name) = self.step.take() {
            out.push(json!({ "type": "STEP_FINISHED", "stepName": name }));
        }
    }

    /// All that the model wants to call in a step; each is answered before the next step.
    fn propose(&mut self, calls: Vec<ToolCall>, out: &mut Vec<Value>) {
        self.close(out);
        self.step_calls.clear();
        if calls.is_empty() {
            return;
        }
        let parent = self.said.clone().unwrap_or_else(|| self.new_id());
        for call in calls {
            // Models name calls anew in each step, and some use the same names.
            let id = match self.calls.contains(&call.id) {
                true => self.new_id(),
                false => call.id.clone(),
            };
            self.calls.insert(id.clone());
            out.push(json!({
                "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": call.tool,
                "parentMessageId": parent,
            }));
            let arguments = call.arguments;
            out.push(json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments }));
            out.push(json!({ "type": "TOOL_CALL_END", "toolCallId": id }));
            self.step_calls.push((call.id, id));
        }
    }

    fn answer(&mut self, call: &str, content: &str, out: &mut Vec<Value>) {
        let known = self.step_calls.iter().find(|(id, _)| id == call);
        let call = known.map_or_else(|| call.to_owned(), |(_, id)| id.clone());
        let id = self.new_id();
        out.push(json!({
            "type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call, "content": content,
            "role": "tool",
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{RunTotals, StepUsage};

    fn kinds(events: Vec<RunEvent>) -> Vec<String> {
        let names = AgUiNames {
            thread: "t".into(),
            run: "r".into(),
        };
        let mut writer = AgUiWriter::new(names, "run_1");
        let mut out = Vec::new();
        for event in events {
            writer.take(event, &mut out);
        }
        let kinds = out.iter().map(|event| event["type"].as_str().unwrap());
        kinds.map(str::to_owned).collect()
    }

    #[test]
    fn all_that_is_begun_is_ended() {
        let text = |text: &str| RunEvent::Text {
            step: 1,
            text: text.into(),
        };
        let usage = RunTotals::default();
        let said = kinds(vec![
            RunEvent::StepStarted { step: 1 },
            RunEvent::Reasoning {
                step: 1,
                text: "r".into(),
            },
            text("a"),
            RunEvent::Message {
                step: 1,
                text: "a".into(),
                calls: vec![ToolCall {
                    id: "c".into(),
                    tool: "t".into(),
                    arguments: "{}".into(),
                }],
                usage: StepUsage::default(),
                money_nanos: 0,
            },
            RunEvent::Answer {
                step: 1,
                call: "c".into(),
                tool: "t".into(),
                content: "x".into(),
                is_error: false,
                code: None,
            },
            RunEvent::StepStarted { step: 2 },
            text("b"),
            RunEvent::Cancelled { usage },
        ]);
        assert_eq!(
            said,
            [
                "RUN_STARTED",
                "STEP_STARTED",
                "REASONING_START",
                "REASONING_MESSAGE_START",
                "REASONING_MESSAGE_CONTENT",
                "REASONING_MESSAGE_END",
                "REASONING_END",
                "TEXT_MESSAGE_START",
                "TEXT_MESSAGE_CONTENT",
                "TEXT_MESSAGE_END",
                "TOOL_CALL_START",
                "TOOL_CALL_ARGS",
                "TOOL_CALL_END",
                "TOOL_CALL_RESULT",
                "STEP_FINISHED",
                "STEP_STARTED",
                "TEXT_MESSAGE_START",
                "TEXT_MESSAGE_CONTENT",
                "TEXT_MESSAGE_END",
                "STEP_FINISHED",
                "RUN_FINISHED",
            ]
        );
        let failed = kinds(vec![RunEvent::Failed {
            code: "run.spent".into(),
            message: "m".into(),
            usage,
        }]);
        assert_eq!(failed, ["RUN_STARTED", "RUN_ERROR"]);
    }

    #[test]
    fn an_input_is_messages_and_nothing_else() {
        let good = r#"{"threadId":"t","runId":"r","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[
            {"id":"1","role":"user","content":"x"},
            {"id":"2","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},
            {"id":"3","role":"tool","toolCallId":"c","content":"y"},
            {"id":"4","role":"reasoning","content":"z"},
            {"id":"5","role":"user","content":[{"type":"text","text":"go on"}]}]}"#;
        let (start, names) = read(good.as_bytes(), "triage").unwrap();
        let plan = start.plan(&crate::body::tests::settings()).unwrap();
        assert_eq!((plan.input.len(), names.run.as_str()), (4, "r"));
        for bad in [
            "[]",
            r#"{"messages":[]}"#,
            r#"{"threadId":"t","runId":"r"}"#,
            r#"{"threadId":"t","runId":"r","tools":[{"name":"x"}],"messages":[{"role":"user","content":"x"}]}"#,
            r#"{"threadId":"t","runId":"r","state":{"a":1},"messages":[{"role":"user","content":"x"}]}"#,
            r#"{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"image"}]}]}"#,
            r#"{"threadId":"t","runId":"r","messages":[{"role":"nobody"}]}"#,
        ] {
            let refused = read(bad.as_bytes(), "triage").unwrap_err();
            assert_eq!(refused.code.name, "run.invalid", "{bad}");
        }
    }
}
