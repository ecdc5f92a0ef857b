//! What happens in a run, as it is kept and as listeners hear it: one line of JSON for each event.
//!
//! The first line of a run's file is its head, which says what it was started with and is shown to nobody as it is. Events are
//! numbered from 1. An event that is known is good for ever: a run that was kept by an older weir is read by a newer one.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::settings::RunLimits;

/// What a run was started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunHead {
    pub(crate) run: String,
    /// The agent whose run it is.
    pub(crate) owner: String,
    /// Names the credential that began it, in hex.
    pub(crate) thumbprint: String,
    pub(crate) peer: IpAddr,
    pub(crate) created_ms: u64,
    /// The agent of the configuration, or `own`.
    pub(crate) agent: String,
    pub(crate) thread: String,
    /// The run of the thread that has to end before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
    pub(crate) model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) instructions: String,
    pub(crate) tools: Vec<String>,
    pub(crate) limits: RunLimits,
    pub(crate) input: Vec<RunMessage>,
    /// The caller's key for it, and the SHA-256 of the body that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<(String, String)>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum RunMessage {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    Tool {
        call: String,
        content: String,
        #[serde(default, skip_serializing_if = "is_false")]
        is_error: bool,
    },
}

impl RunMessage {
    /// Bytes of what it says.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            RunMessage::System { content }
            | RunMessage::User { content }
            | RunMessage::Tool { content, .. } => content.len(),
            RunMessage::Assistant { content, calls } => {
                let calls = calls.iter().map(|call| call.arguments.len());
                content.len() + calls.sum::<usize>()
            }
        }
    }
}

/// A call of a tool that a model proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's name for this call.
    pub id: String,
    pub tool: String,
    /// As the model wrote them: JSON, where it wrote JSON.
    pub arguments: String,
}

/// Tokens of one step, as the model counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepUsage {
    pub input: u64,
    pub output: u64,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunTotals {
    pub(crate) steps: u64,
    pub(crate) tool_calls: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// In billionths of a dollar.
    pub(crate) money_nanos: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum RunEvent {
    #[serde(rename = "run.started")]
    Started { run: String, agent: String },
    #[serde(rename = "step.started")]
    StepStarted { step: u64 },
    #[serde(rename = "text.delta")]
    Text { step: u64, text: String },
    #[serde(rename = "reasoning.delta")]
    Reasoning { step: u64, text: String },
    /// The model has said all of a step.
    #[serde(rename = "message.done")]
    Message {
        step: u64,
        text: String,
        calls: Vec<ToolCall>,
        usage: StepUsage,
        money_nanos: u64,
    },
    /// A call is about to be made; on disk before it is.
    #[serde(rename = "tool.call")]
    Call {
        step: u64,
        call: ToolCall,
        is_repeatable: bool,
    },
    #[serde(rename = "tool.result")]
    Answer {
        step: u64,
        call: String,
        tool: String,
        content: String,
        is_error: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// Something was refused or failed, and the run goes on.
    #[serde(rename = "refusal")]
    Refused {
        step: u64,
        code: String,
        message: String,
    },
    /// Somebody said something to the run.
    #[serde(rename = "message.added")]
    Added { content: String },
    #[serde(rename = "run.parked")]
    Parked { why: String },
    /// It goes on: what a step that has no `message.done` said before is void.
    #[serde(rename = "run.resumed")]
    Resumed { step: u64 },
    #[serde(rename = "run.completed")]
    Completed { output: String, usage: RunTotals },
    #[serde(rename = "run.failed")]
    Failed {
        code: String,
        message: String,
        usage: RunTotals,
    },
    #[serde(rename = "run.cancelled")]
    Cancelled { usage: RunTotals },
}

impl RunEvent {
    /// By which listeners tell events apart.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            RunEvent::Started { .. } => "run.started",
            RunEvent::StepStarted { .. } => "step.started",
            RunEvent::Text { .. } => "text.delta",
            RunEvent::Reasoning { .. } => "reasoning.delta",
            RunEvent::Message { .. } => "message.done",
            RunEvent::Call { .. } => "tool.call",
            RunEvent::Answer { .. } => "tool.result",
            RunEvent::Refused { .. } => "refusal",
            RunEvent::Added { .. } => "message.added",
            RunEvent::Parked { .. } => "run.parked",
            RunEvent::Resumed { .. } => "run.resumed",
            RunEvent::Completed { .. } => "run.completed",
            RunEvent::Failed { .. } => "run.failed",
            RunEvent::Cancelled { .. } => "run.cancelled",
        }
    }

    /// Nothing comes after it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            RunEvent::Completed { .. } | RunEvent::Failed { .. } | RunEvent::Cancelled { .. }
        )
    }

    /// Words alone may be lost with the machine's power: the step is said again then.
    pub(crate) fn is_durable(&self) -> bool {
        !matches!(self, RunEvent::Text { .. } | RunEvent::Reasoning { .. })
    }
}

/// An event with its number, as it stands in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EventLine {
    pub(crate) id: u64,
    pub(crate) at: String,
    #[serde(flatten)]
    pub(crate) event: RunEvent,
}

/// An event as listeners get it.
#[derive(Clone, Debug)]
pub(crate) struct HeardEvent {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) line: Arc<str>,
}

impl HeardEvent {
    /// Of a line of a run's file; nothing where it is none.
    pub(crate) fn read(line: &str) -> Option<(HeardEvent, EventLine)> {
        let read: EventLine = serde_json::from_str(line).ok()?;
        let heard = HeardEvent {
            id: read.id,
            name: read.event.name(),
            line: line.into(),
        };
        Some((heard, read))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_it_was_written_and_says_its_name() {
        let all = [
            RunEvent::Started {
                run: "r".into(),
                agent: "a".into(),
            },
            RunEvent::Text {
                step: 1,
                text: "a\nb".into(),
            },
            RunEvent::Answer {
                step: 1,
                call: "c".into(),
                tool: "t".into(),
                content: "x".into(),
                is_error: true,
                code: Some("policy.forbidden".into()),
            },
            RunEvent::Completed {
                output: "o".into(),
                usage: RunTotals::default(),
            },
        ];
        for event in all {
            let line = EventLine {
                id: 7,
                at: "2026-11-26T00:00:00.000Z".into(),
                event: event.clone(),
            };
            let text = serde_json::to_string(&line).unwrap();
            assert!(!text.contains('\n'));
            let (heard, read) = HeardEvent::read(&text).unwrap();
            assert_eq!((heard.id, read.event), (7, event.clone()));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["type"], event.name());
        }
        assert!(HeardEvent::read("{}").is_none());
    }
}
