//! A provider's events as pieces.

use std::collections::HashMap;

use base::record::Usage;
use serde_json::Value;

use super::super::talk::{Piece, Stop};
use super::super::{Dialect, chat, gemini, messages};
use crate::usage::{self, counted_by_anthropic, counted_by_gemini, counted_by_openai};

/// Calls of one answer that are told apart.
const CALLS_MAX: usize = 1_024;

/// Reads one stream.
pub(super) struct PieceReader {
    dialect: Dialect,
    has_begun: bool,
    has_calls: bool,
    calls: usize,
    /// The names of a chat's calls that have begun, by their number; of a message's, those whose arguments stood in their
    /// beginning.
    begun: HashMap<u64, String>,
    stop: Option<Stop>,
    usage: Usage,
}

impl PieceReader {
    pub(super) fn new(dialect: Dialect) -> PieceReader {
        PieceReader {
            dialect,
            has_begun: false,
            has_calls: false,
            calls: 0,
            begun: HashMap::new(),
            stop: None,
            usage: Usage::default(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// How the answer ends, once.
    pub(super) fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take()
    }

    pub(super) fn read(&mut self, event: &Value) -> Vec<Piece> {
        let mut pieces = Vec::new();
        match self.dialect {
            Dialect::Chat => self.chat(event, &mut pieces),
            Dialect::Messages => self.messages(event, &mut pieces),
            Dialect::Gemini => self.gemini(event, &mut pieces),
            // No provider is read in it.
            Dialect::Responses => {}
        }
        pieces
    }

    fn begin(&mut self, id: &Value, pieces: &mut Vec<Piece>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let id = id.as_str().unwrap_or_default().to_owned();
            pieces.push(Piece::Begin { id });
        }
    }

    fn count(&mut self, more: Usage) {
        self.usage = usage::merge(Some(self.usage), Some(more)).unwrap_or_default();
    }

    fn failed(error: &Value, pieces: &mut Vec<Piece>) {
        let message = error["message"].as_str().or(error.as_str());
        pieces.push(Piece::Failed(
            message.unwrap_or("the provider failed").to_owned(),
        ));
    }

    fn chat(&mut self, event: &Value, pieces: &mut Vec<Piece>) {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            return Self::failed(error, pieces);
        }
        self.begin(&event["id"], pieces);
        let choices = event["choices"].as_array().map_or(&[][..], Vec::as_slice);
        let is_first = |choice: &Value| choice["index"].as_u64().unwrap_or_default() == 0;
        if choices.len() > 1 || !choices.iter().all(is_first) {
            return Self::ambiguous("the answer has several choices", pieces);
        }
        let choice = &event["choices"][0];
        let delta = &choice["delta"];
        for (text, is_thought) in [
            (
                delta["reasoning_content"]
                    .as_str()
                    .or(delta["reasoning"].as_str()),
                true,
            ),
            (
                delta["content"].as_str().or(delta["refusal"].as_str()),
                false,
            ),
        ] {
            let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
            pieces.extend(text.map(|text| match is_thought {
                true => Piece::Thinking(text),
                false => Piece::Text(text),
            }));
        }
        if !delta["function_call"].is_null() {
            return Self::ambiguous("a call of a tool has the form of functions", pieces);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.chat_call(call, pieces);
        }
        if event["usage"].is_object() {
            self.count(counted_by_openai(&event["usage"]));
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(chat::stop(Some(reason), self.has_calls));
        }
    }

    /// A piece of a call, as the judge of the stream reads it: by its index alone, and under one name.
    fn chat_call(&mut self, call: &Value, pieces: &mut Vec<Piece>) {
        let Some(index) = call["index"].as_u64() else {
            return Self::ambiguous("a piece of a call of a tool has no index", pieces);
        };
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or_default();
        match self.begun.get(&index) {
            Some(known) if name.is_empty() || known == name => {}
            Some(_) => return Self::ambiguous("a call of a tool has two names", pieces),
            None if self.begun.len() >= CALLS_MAX => {
                return Self::ambiguous("the answer has more calls of tools than are read", pieces);
            }
            None => {
                self.begun.insert(index, name.to_owned());
                self.has_calls = true;
                pieces.push(Piece::CallBegins {
                    id: call["id"]
                        .as_str()
                        .map_or_else(|| format!("call_{index}"), str::to_owned),
                    name: name.to_owned(),
                });
            }
        }
        let more = function["arguments"]
            .as_str()
            .filter(|more| !more.is_empty());
        pieces.extend(more.map(|more| Piece::Arguments(more.to_owned())));
    }

    /// What two readers could take for two answers goes to none.
    fn ambiguous(why: &str, pieces: &mut Vec<Piece>) {
        let code = base::refusal::LLM_ANSWER_INVALID.name;
        pieces.push(Piece::Failed(format!("{code}: {why}")));
    }

    fn messages(&mut self, event: &Value, pieces: &mut Vec<Piece>) {
        match event["type"].as_str() {
            Some("message_start") => {
                let message = &event["message"];
                if message["content"]
                    .as_array()
                    .is_some_and(|content| !content.is_empty())
                {
                    return Self::ambiguous("the answer begins with what it has said", pieces);
                }
                self.begin(&message["id"], pieces);
                self.count(counted_by_anthropic(&message["usage"]));
            }
            Some("content_block_start") => {
                let block = &event["content_block"];
                match block["type"].as_str() {
                    Some("tool_use") => {
                        let name = block["name"].as_str().unwrap_or_default();
                        pieces.push(Piece::CallBegins {
                            id: block["id"].as_str().unwrap_or_default().to_owned(),
                            name: name.to_owned(),
                        });
                        let input = &block["input"];
                        if !input.is_null() && *input != serde_json::json!({}) {
                            pieces.push(Piece::Arguments(input.to_string()));
                            let index = event["index"].as_u64().unwrap_or_default();
                            self.begun.insert(index, name.to_owned());
                        }
                    }
                    Some("text") => {
                        let text = block["text"].as_str().filter(|text| !text.is_empty());
                        pieces.extend(text.map(|text| Piece::Text(text.to_owned())));
                    }
                    _ => {}
                }
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                let index = event["index"].as_u64().unwrap_or_default();
                if delta["type"] == "input_json_delta" && self.begun.contains_key(&index) {
                    return Self::ambiguous("a call of a tool has its arguments twice", pieces);
                }
                let text = |name: &str| delta[name].as_str().unwrap_or_default().to_owned();
                pieces.extend(match delta["type"].as_str() {
                    Some("text_delta") => Some(Piece::Text(text("text"))),
                    Some("thinking_delta") => Some(Piece::Thinking(text("thinking"))),
                    Some("input_json_delta") => Some(Piece::Arguments(text("partial_json"))),
                    _ => None,
                });
            }
            Some("message_delta") => {
                self.count(counted_by_anthropic(&event["usage"]));
                let delta = &event["delta"];
                if let Some(reason) = delta["stop_reason"].as_str() {
                    let sequence = delta["stop_sequence"].as_str();
                    self.stop = Some(messages::stop(Some(reason), sequence));
                }
            }
            Some("error") => Self::failed(&event["error"], pieces),
            _ => {}
        }
    }

    fn gemini(&mut self, event: &Value, pieces: &mut Vec<Piece>) {
        if let Some(error) = event.get("error") {
            return Self::failed(error, pieces);
        }
        self.begin(&event["responseId"], pieces);
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if let Some(text) = part["text"].as_str() {
                pieces.push(match part["thought"].as_bool() {
                    Some(true) => Piece::Thinking(text.to_owned()),
                    _ => Piece::Text(text.to_owned()),
                });
            }
            if ["inlineData", "inline_data", "fileData", "function_call"]
                .iter()
                .any(|name| part.get(name).is_some())
            {
                return Self::ambiguous("the answer has what cannot be said in words", pieces);
            }
            let call = &part["functionCall"];
            if call.is_object() && self.calls < CALLS_MAX {
                self.calls += 1;
                self.has_calls = true;
                let id = call["id"]
                    .as_str()
                    .map_or_else(|| format!("call_{}", self.calls), str::to_owned);
                let name = call["name"].as_str().unwrap_or_default().to_owned();
                pieces.push(Piece::CallBegins { id, name });
                let arguments = call
                    .get("args")
                    .map_or_else(|| "{}".to_owned(), ToString::to_string);
                pieces.push(Piece::Arguments(arguments));
            }
        }
        if event["usageMetadata"].is_object() {
            self.count(counted_by_gemini(&event["usageMetadata"]));
        }
        let blocked = event["promptFeedback"]["blockReason"]
            .as_str()
            .map(|_| "SAFETY");
        if let Some(reason) = candidate["finishReason"].as_str().or(blocked) {
            self.stop = Some(gemini::stop(Some(reason), self.has_calls));
        }
    }
}
