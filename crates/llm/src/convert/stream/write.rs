//! Pieces as a client's events.

use base::record::Usage;
use serde_json::{Value, json};

use super::super::talk::{Piece, Stop};
use super::super::{Dialect, chat, gemini, messages, responses};

/// Most bytes of an answer that are kept, since the dialect says all of it again at the end.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// What is being said now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Thinking,
    Call,
}

/// A call as far as it came.
#[derive(Default)]
struct OpenCall {
    id: String,
    name: String,
    arguments: String,
}

/// Writes one stream.
pub(super) struct PieceWriter {
    dialect: Dialect,
    model: String,
    id: String,
    open: Open,
    /// The number of the block, call or item that is open, or of the next.
    index: u64,
    calls: u64,
    sequence: u64,
    /// What is said again when it has ended, of what is open.
    text: String,
    call: OpenCall,
    /// Items that have ended, where the dialect lists them all at the end.
    output: Vec<Value>,
    has_begun: bool,
    is_ended: bool,
}

fn sse(name: Option<&str>, data: &Value, out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}

impl PieceWriter {
    pub(super) fn new(dialect: Dialect, model: &str) -> PieceWriter {
        PieceWriter {
            dialect,
            model: model.to_owned(),
            id: String::new(),
            open: Open::Nothing,
            index: 0,
            calls: 0,
            sequence: 0,
            text: String::new(),
            call: OpenCall::default(),
            output: Vec::new(),
            has_begun: false,
            is_ended: false,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(super) fn write(&mut self, piece: Piece, out: &mut Vec<u8>) {
        if self.is_ended {
            return;
        }
        if let Piece::Begin { id } = &piece {
            self.id.clone_from(id);
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(out);
        }
        match piece {
            Piece::Begin { .. } => {}
            Piece::Text(text) if text.is_empty() => {}
            Piece::Text(text) => {
                self.turn_to(Open::Text, out);
                self.keep_text(&text);
                self.delta(&text, out);
            }
            Piece::Thinking(text) => {
                self.turn_to(Open::Thinking, out);
                self.keep_text(&text);
                self.delta(&text, out);
            }
            Piece::CallBegins { id, name } => {
                self.close(out);
                self.call = OpenCall {
                    id,
                    name,
                    arguments: String::new(),
                };
                self.open(Open::Call, out);
            }
            Piece::Arguments(more) => {
                if self.call.arguments.len() + more.len() <= KEPT_BYTES_MAX {
                    self.call.arguments.push_str(&more);
                }
                self.delta(&more, out);
            }
            Piece::Failed(message) => self.fail(&message, out),
        }
    }

    fn keep_text(&mut self, text: &str) {
        if self.dialect == Dialect::Responses && self.text.len() + text.len() <= KEPT_BYTES_MAX {
            self.text.push_str(text);
        }
    }

    fn turn_to(&mut self, what: Open, out: &mut Vec<u8>) {
        if self.open != what {
            self.close(out);
            self.open(what, out);
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Chat => self.chunk(json!({ "role": "assistant", "content": "" }), None, out),
            Dialect::Messages => {
                let message = json!({
                    "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": messages::write_usage(&Usage::default()),
                });
                sse(
                    Some("message_start"),
                    &json!({ "type": "message_start", "message": message }),
                    out,
                );
            }
            Dialect::Gemini => {}
            Dialect::Responses => {
                let response = responses::response(&self.id, &self.model, Vec::new(), None, None);
                self.event("response.created", json!({ "response": response }), out);
                self.event("response.in_progress", json!({ "response": response }), out);
            }
        }
    }

    /// One event of responses.
    fn event(&mut self, kind: &str, mut data: Value, out: &mut Vec<u8>) {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        sse(Some(kind), &data, out);
    }

    /// One chunk of chat.
    fn chunk(&self, delta: Value, finish: Option<&str>, out: &mut Vec<u8>) {
        let choice =
            json!({ "index": 0, "delta": delta, "finish_reason": finish, "logprobs": null });
        sse(None, &self.chat_event(json!([choice])), out);
    }

    fn chat_event(&self, choices: Value) -> Value {
        json!({ "id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model, "choices": choices })
    }

    fn open(&mut self, what: Open, out: &mut Vec<u8>) {
        self.open = what;
        self.text.clear();
        let call = &self.call;
        match self.dialect {
            Dialect::Chat if what == Open::Call => {
                let function = json!({ "name": call.name, "arguments": "" });
                let begun = json!({ "index": self.calls, "id": call.id, "type": "function", "function": function });
                self.chunk(json!({ "tool_calls": [begun] }), None, out);
            }
            Dialect::Chat | Dialect::Gemini => {}
            Dialect::Messages => {
                let block = match what {
                    Open::Call => {
                        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} })
                    }
                    Open::Thinking => {
                        json!({ "type": "thinking", "thinking": "", "signature": "" })
                    }
                    Open::Text | Open::Nothing => json!({ "type": "text", "text": "" }),
                };
                let event = json!({ "type": "content_block_start", "index": self.index, "content_block": block });
                sse(Some("content_block_start"), &event, out);
            }
            Dialect::Responses => {
                let item = match what {
                    Open::Call => responses::call_item(&call.id, &call.name, "", "in_progress"),
                    Open::Thinking => json!({ "id": "rs_0", "type": "reasoning", "summary": [] }),
                    Open::Text | Open::Nothing => responses::message_item("", "in_progress"),
                };
                let at = self.index;
                self.event(
                    "response.output_item.added",
                    json!({ "output_index": at, "item": item }),
                    out,
                );
                let part = match what {
                    Open::Text => Some((
                        "response.content_part.added",
                        "content_index",
                        json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] }),
                    )),
                    Open::Thinking => Some((
                        "response.reasoning_summary_part.added",
                        "summary_index",
                        json!({ "type": "summary_text", "text": "" }),
                    )),
                    Open::Call | Open::Nothing => None,
                };
                if let Some((kind, index, part)) = part {
                    self.event(kind, json!({ "item_id": item["id"], "output_index": at, index: 0, "part": part }), out);
                }
            }
        }
    }

    /// More of what is open.
    fn delta(&mut self, more: &str, out: &mut Vec<u8>) {
        let what = self.open;
        match self.dialect {
            Dialect::Chat => {
                let delta = match what {
                    Open::Call => {
                        json!({ "tool_calls": [{ "index": self.calls, "function": { "arguments": more } }] })
                    }
                    Open::Thinking => json!({ "reasoning_content": more }),
                    Open::Text | Open::Nothing => json!({ "content": more }),
                };
                self.chunk(delta, None, out);
            }
            Dialect::Messages => {
                let delta = match what {
                    Open::Call => json!({ "type": "input_json_delta", "partial_json": more }),
                    Open::Thinking => json!({ "type": "thinking_delta", "thinking": more }),
                    Open::Text | Open::Nothing => json!({ "type": "text_delta", "text": more }),
                };
                let event =
                    json!({ "type": "content_block_delta", "index": self.index, "delta": delta });
                sse(Some("content_block_delta"), &event, out);
            }
            // A call is whole in one event.
            Dialect::Gemini if what == Open::Call => {}
            Dialect::Gemini => {
                let part = match what {
                    Open::Thinking => json!({ "text": more, "thought": true }),
                    _ => json!({ "text": more }),
                };
                self.candidate(&part, None, None, out);
            }
            Dialect::Responses => {
                let at = self.index;
                let (kind, data) = match what {
                    Open::Call => (
                        "response.function_call_arguments.delta",
                        json!({ "item_id": format!("fc_{}", self.call.id), "output_index": at, "delta": more }),
                    ),
                    Open::Thinking => (
                        "response.reasoning_summary_text.delta",
                        json!({ "item_id": "rs_0", "output_index": at, "summary_index": 0, "delta": more }),
                    ),
                    Open::Text | Open::Nothing => (
                        "response.output_text.delta",
                        json!({ "item_id": "msg_0", "output_index": at, "content_index": 0, "delta": more, "logprobs": [] }),
                    ),
                };
                self.event(kind, data, out);
            }
        }
    }

    /// One event of Google's.
    fn candidate(
        &self,
        part: &Value,
        stop: Option<&Stop>,
        usage: Option<&Usage>,
        out: &mut Vec<u8>,
    ) {
        let parts = if part.is_null() {
            json!([])
        } else {
            json!([part])
        };
        let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
        if let Some(stop) = stop {
            candidate["finishReason"] = gemini::stop_word(stop).into();
        }
        let mut event =
            json!({ "candidates": [candidate], "modelVersion": self.model, "responseId": self.id });
        if let Some(usage) = usage {
            event["usageMetadata"] = gemini::write_usage(usage);
        }
        sse(None, &event, out);
    }

    /// What is open has ended.
    fn close(&mut self, out: &mut Vec<u8>) {
        let what = std::mem::replace(&mut self.open, Open::Nothing);
        if what == Open::Nothing {
            return;
        }
        match self.dialect {
            Dialect::Chat => {}
            Dialect::Messages => {
                let event = json!({ "type": "content_block_stop", "index": self.index });
                sse(Some("content_block_stop"), &event, out);
            }
            Dialect::Gemini if what == Open::Call => {
                let arguments: Value =
                    serde_json::from_str(&self.call.arguments).unwrap_or_else(|_| json!({}));
                let call = json!({ "id": self.call.id, "name": self.call.name, "args": arguments });
                self.candidate(&json!({ "functionCall": call }), None, None, out);
            }
            Dialect::Gemini => {}
            Dialect::Responses => self.close_item(what, out),
        }
        self.index += 1;
        self.calls += u64::from(what == Open::Call);
    }

    fn close_item(&mut self, what: Open, out: &mut Vec<u8>) {
        let (at, text) = (self.index, std::mem::take(&mut self.text));
        let item = match what {
            Open::Call => {
                let call = std::mem::take(&mut self.call);
                let item = responses::call_item(&call.id, &call.name, &call.arguments, "completed");
                let done = json!({ "item_id": item["id"], "output_index": at, "name": call.name, "arguments": call.arguments });
                self.event("response.function_call_arguments.done", done, out);
                item
            }
            Open::Thinking => {
                let place = json!({ "item_id": "rs_0", "output_index": at, "summary_index": 0 });
                let mut done = place.clone();
                done["text"] = text.as_str().into();
                self.event("response.reasoning_summary_text.done", done, out);
                let mut done = place;
                done["part"] = json!({ "type": "summary_text", "text": text });
                self.event("response.reasoning_summary_part.done", done, out);
                responses::reasoning_item(&text)
            }
            Open::Text | Open::Nothing => {
                let place = json!({ "item_id": "msg_0", "output_index": at, "content_index": 0 });
                let mut done = place.clone();
                done["text"] = text.as_str().into();
                done["logprobs"] = json!([]);
                self.event("response.output_text.done", done, out);
                let item = responses::message_item(&text, "completed");
                let mut done = place;
                done["part"] = item["content"][0].clone();
                self.event("response.content_part.done", done, out);
                item
            }
        };
        self.event(
            "response.output_item.done",
            json!({ "output_index": at, "item": item }),
            out,
        );
        self.output.push(item);
    }

    /// The answer has ended.
    pub(super) fn end(&mut self, stop: Stop, usage: &Usage, out: &mut Vec<u8>) {
        if self.is_ended {
            return;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(out);
        }
        self.close(out);
        self.is_ended = true;
        match self.dialect {
            Dialect::Chat => {
                self.chunk(json!({}), Some(chat::stop_word(&stop)), out);
                let mut event = self.chat_event(json!([]));
                event["usage"] = chat::write_usage(usage);
                sse(None, &event, out);
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            Dialect::Messages => {
                let sequence = match &stop {
                    Stop::Sequence(sequence) => sequence.clone(),
                    _ => None,
                };
                let delta =
                    json!({ "stop_reason": messages::stop_word(&stop), "stop_sequence": sequence });
                let event = json!({ "type": "message_delta", "delta": delta, "usage": messages::write_usage(usage) });
                sse(Some("message_delta"), &event, out);
                sse(
                    Some("message_stop"),
                    &json!({ "type": "message_stop" }),
                    out,
                );
            }
            Dialect::Gemini => self.candidate(&Value::Null, Some(&stop), Some(usage), out),
            Dialect::Responses => {
                let output = std::mem::take(&mut self.output);
                let response =
                    responses::response(&self.id, &self.model, output, Some(&stop), Some(usage));
                let kind = match stop {
                    Stop::Length | Stop::Filtered => "response.incomplete",
                    _ => "response.completed",
                };
                self.event(kind, json!({ "response": response }), out);
            }
        }
    }

    /// The provider failed in the middle.
    fn fail(&mut self, message: &str, out: &mut Vec<u8>) {
        self.is_ended = true;
        match self.dialect {
            Dialect::Chat => sse(
                None,
                &json!({ "error": { "message": message, "type": "api_error", "code": null } }),
                out,
            ),
            Dialect::Messages => {
                let error = json!({ "type": "api_error", "message": message });
                sse(
                    Some("error"),
                    &json!({ "type": "error", "error": error }),
                    out,
                );
            }
            Dialect::Gemini => {
                sse(
                    None,
                    &json!({ "error": { "code": 500, "message": message, "status": "INTERNAL" } }),
                    out,
                );
            }
            Dialect::Responses => {
                let event = json!({ "code": "server_error", "message": message, "param": null });
                self.event("error", event, out);
            }
        }
    }
}
