//! The port of models, over the lane of models: chat completions, as OpenAI's dialect has them, streamed.
//!
//! It knows one dialect, so a run's model has to speak it. What the model says was judged by the lane before it comes here.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::limit::ANSWER_BYTES_DEFAULT;
use net::sse::Reader;
use net::{Body, Response};
use run::{
    ModelAnswer, ModelAsk, ModelPiece, Models, PortCaller, PortFailure, PortFuture, RunMessage,
    StepUsage, ToolOffer,
};
use serde_json::{Value, json};

use super::asking::{failure, passing, refused, request, whole};
use crate::assemble::RunMoney;
use crate::lanes::OnThread;
use crate::routes::new_call_id;

const PATH: &str = "/v1/chat/completions";
/// What the end of a stream says.
const DONE: &[u8] = b"[DONE]";
/// The code of an error of a provider that names none.
const PROVIDER: &str = "llm.provider_failed";

/// The models of one thread.
pub(super) struct LaneModels {
    lane: Rc<dyn OnThread>,
    money: Arc<RunMoney>,
}

impl LaneModels {
    pub(super) fn new(lane: Rc<dyn OnThread>, money: Arc<RunMoney>) -> LaneModels {
        LaneModels { lane, money }
    }
}

impl Models for LaneModels {
    fn ask<'a>(
        &'a self,
        caller: &'a PortCaller,
        ask: ModelAsk<'a>,
    ) -> PortFuture<'a, Result<Box<dyn ModelAnswer>, PortFailure>> {
        Box::pin(async move {
            let request = request(caller, PATH, &[], body(&ask).to_string());
            let request = request.ok_or_else(|| failure("run.failed", "it cannot be asked"))?;
            let response = self.lane.answer("", request, new_call_id()).await;
            let answer = ChatAnswer::of(response).await?;
            Ok(Box::new(answer) as Box<dyn ModelAnswer>)
        })
    }

    fn spent(&self, run: &str) -> u64 {
        self.money.of(run)
    }

    fn forget(&self, run: &str) {
        self.money.forget(run);
    }
}

fn body(ask: &ModelAsk<'_>) -> Value {
    let messages = ask.before.iter().chain(ask.messages).map(message);
    let mut body = json!({
        "model": ask.model,
        "messages": messages.collect::<Vec<_>>(),
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !ask.tools.is_empty() {
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

fn message(message: &RunMessage) -> Value {
    match message {
        RunMessage::System { content } => json!({ "role": "system", "content": content }),
        RunMessage::User { content } => json!({ "role": "user", "content": content }),
        RunMessage::Tool { call, content, .. } => {
            json!({ "role": "tool", "tool_call_id": call, "content": content })
        }
        RunMessage::Assistant { content, calls } => {
            let mut said = json!({ "role": "assistant", "content": content });
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| {
                    json!({
                        "id": call.id,
                        "type": "function",
                        "function": { "name": call.tool, "arguments": call.arguments },
                    })
                });
                said["tool_calls"] = calls.collect();
            }
            said
        }
    }
}

fn tool(offer: &ToolOffer) -> Value {
    let schema: Value = serde_json::from_str(&offer.schema).unwrap_or_else(|_| json!({}));
    json!({
        "type": "function",
        "function": {
            "name": offer.name,
            "description": offer.description,
            "parameters": schema,
        },
    })
}

/// An answer of a model, as it comes.
struct ChatAnswer {
    /// What of it is read and was not taken.
    pieces: VecDeque<Result<ModelPiece, PortFailure>>,
    /// Absent where all of it came at once.
    body: Option<net::StreamBody>,
    reader: Reader,
    is_whole: bool,
}

impl ChatAnswer {
    async fn of(response: Response) -> Result<ChatAnswer, PortFailure> {
        let is_good = response.status().is_success();
        let mut answer = ChatAnswer {
            pieces: VecDeque::new(),
            body: None,
            reader: Reader::new(ANSWER_BYTES_DEFAULT),
            is_whole: false,
        };
        if is_good && matches!(response.body(), Body::Stream(_)) {
            if let Body::Stream(body) = response.into_body() {
                answer.body = Some(body);
            }
            return Ok(answer);
        }
        let (fields, status, body) = whole(response).await?;
        if !is_good {
            return Err(refused(&fields, status, &body, PROVIDER));
        }
        // A provider may answer whole where a stream was asked for.
        answer.take(&body);
        answer.is_whole = true;
        Ok(answer)
    }

    /// Takes one JSON text of the answer.
    fn take(&mut self, text: &[u8]) {
        if text == DONE {
            self.is_whole = true;
            return;
        }
        let Ok(said) = serde_json::from_slice::<Value>(text) else {
            let wrong = failure("run.model", "the model answered something that is no JSON");
            return self.pieces.push_back(Err(wrong));
        };
        if said["error"].is_object() {
            let error = refused(&http::HeaderMap::new(), 200, text, PROVIDER);
            return self.pieces.push_back(Err(error));
        }
        let choice = &said["choices"][0];
        let delta = match &choice["delta"] {
            Value::Null => &choice["message"],
            delta => delta,
        };
        for key in ["reasoning_content", "reasoning"] {
            self.text(&delta[key], ModelPiece::Reasoning);
        }
        for key in ["content", "refusal"] {
            self.text(&delta[key], ModelPiece::Text);
        }
        let calls = delta["tool_calls"].as_array().into_iter().flatten();
        for (number, call) in calls.enumerate() {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let function = &call["function"];
            self.pieces.push_back(Ok(ModelPiece::Call {
                index: call["index"].as_u64().unwrap_or(number as u64),
                id: text(&call["id"]),
                name: text(&function["name"]),
                arguments: text(&function["arguments"]).unwrap_or_default(),
            }));
        }
        if let Some(usage) = said["usage"].as_object() {
            let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
            self.pieces.push_back(Ok(ModelPiece::Usage(StepUsage {
                input: count("prompt_tokens"),
                output: count("completion_tokens"),
            })));
        }
        self.is_whole |= choice["finish_reason"].is_string();
    }

    fn text(&mut self, value: &Value, piece: fn(String) -> ModelPiece) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.pieces.push_back(Ok(piece(text.to_owned())));
        }
    }

    async fn read(&mut self) -> Result<Option<ModelPiece>, PortFailure> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return piece.map(Some);
            }
            let Some(body) = &mut self.body else {
                return Ok(None);
            };
            let Some(came) = body.next().await else {
                let was_cut = body.was_cut();
                self.body = None;
                if was_cut || !self.is_whole {
                    return Err(passing(PROVIDER, "the model broke off"));
                }
                continue;
            };
            let mut texts = Vec::new();
            let read = self.reader.push(&came, |event| texts.extend(event.data));
            read.map_err(|_| failure("run.model", "the model said more at once than is read"))?;
            texts.iter().for_each(|text| self.take(text));
        }
    }
}

impl ModelAnswer for ChatAnswer {
    fn next(&mut self) -> PortFuture<'_, Result<Option<ModelPiece>, PortFailure>> {
        Box::pin(self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> ChatAnswer {
        ChatAnswer {
            pieces: VecDeque::new(),
            body: None,
            reader: Reader::default(),
            is_whole: false,
        }
    }

    #[test]
    fn pieces_are_read_of_what_models_say() {
        let mut answer = answer();
        answer.take(br#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#);
        answer.take(br#"{"choices":[{"delta":{"reasoning_content":"hm","content":"a"}}]}"#);
        answer.take(
            br#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c","function":{"name":"n","arguments":"{"}}]}}]}"#,
        );
        answer.take(br#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":null}"#);
        answer.take(br#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#);
        let pieces: Vec<ModelPiece> = answer.pieces.drain(..).map(Result::unwrap).collect();
        assert_eq!(
            pieces,
            [
                ModelPiece::Reasoning("hm".into()),
                ModelPiece::Text("a".into()),
                ModelPiece::Call {
                    index: 1,
                    id: Some("c".into()),
                    name: Some("n".into()),
                    arguments: "{".into(),
                },
                ModelPiece::Usage(StepUsage {
                    input: 3,
                    output: 2,
                }),
            ]
        );
        assert!(answer.is_whole);
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        for (text, code) in [
            (&b"no json"[..], "run.model"),
            (
                br#"{"error":{"code":"scan.secret","message":"scan.secret: a key"}}"#,
                "scan.secret",
            ),
            (br#"{"error":{"message":"overloaded"}}"#, PROVIDER),
        ] {
            let mut answer = answer();
            answer.take(text);
            let failed = answer.pieces.pop_front().unwrap().unwrap_err();
            assert_eq!(failed.code, code);
        }
    }
}
