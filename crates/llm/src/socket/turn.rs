//! One turn: a message asked as the request over HTTP that it stands for, and the events of its answer as messages.
//!
//! What comes here was judged already. It is read once more for what the connection has to know: whether the response has ended,
//! and what it said.

use std::rc::Rc;

use base::{Json, JsonKind, JsonValue};
use bytes::Bytes;
use gate::Call;
use http::{HeaderMap, StatusCode};
use net::{Body, Response, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::SocketClient;
use super::message::{CreateMessage, KeptResponse, join};
use crate::lane::{KnownRequest, LlmLane, SocketWords};
use crate::stream::events::{Splitter, data_of};
use crate::wire::{Family, RESPONSES};

/// Room for what is written into an event that was read within its bound.
const EVENT_SLACK_BYTES: usize = 64 << 10;
/// Fields of an answer that a client of a refused turn is told.
const ERROR_FIELDS: &[&str] = &[
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "request-id",
];

/// One turn on its way.
pub(super) struct SocketTurn {
    pub(super) lane: LlmLane,
    pub(super) client: Rc<SocketClient>,
    pub(super) message: CreateMessage,
    pub(super) before: Option<Rc<KeptResponse>>,
    pub(super) messages: mpsc::Sender<String>,
}

/// How a turn ended.
pub(super) struct TurnEnding {
    pub(super) stream_id: Option<String>,
    /// What is to be kept of it.
    pub(super) kept: Option<KeptResponse>,
    /// The response before, which is not to be gone on with again.
    pub(super) failed: Option<String>,
}

impl SocketTurn {
    /// Asks, and sends what is answered. Messages that nobody takes any more are dropped, and what brings them with them.
    pub(super) async fn run(self) -> TurnEnding {
        let response = self.ask().await;
        let mut events = TurnEvents::new(self.message.stream_id.as_deref());
        self.answer(response, &mut events).await;
        let kept = events.said.take().filter(|_| !events.is_failed);
        let kept = kept.map(|(id, output)| {
            let mut items = self.message.items(self.before.as_deref());
            join(&mut items, &output);
            KeptResponse { id, items }
        });
        let failed = match events.is_failed {
            true => self.message.previous,
            false => None,
        };
        TurnEnding {
            stream_id: self.message.stream_id,
            kept,
            failed,
        }
    }

    async fn ask(&self) -> Response {
        let client = &self.client;
        let body = self.message.body(self.before.as_deref());
        let known = client.known(
            &self.lane,
            SocketWords {
                generates: self.message.generates,
                conversation: client.conversation,
            },
        );
        let settings = self.lane.settings();
        if body.len() > settings.body_bytes_max {
            return self.lane.no(&known, super::too_large(settings)).await;
        }
        self.lane
            .ask(&RESPONSES, None, known, Bytes::from(body))
            .await
    }

    async fn answer(&self, response: Response, events: &mut TurnEvents<'_>) {
        let (head, body) = response.into_parts();
        match body {
            Body::Stream(stream) => self.stream(stream, events).await,
            Body::Full(body) if head.status.is_success() => {
                for message in events.whole(&body) {
                    self.send(message).await;
                }
            }
            Body::Full(body) => {
                self.send(events.refused(head.status, &head.headers, &body))
                    .await
            }
            Body::Empty | Body::Taken => self.send(events.cut()).await,
        }
    }

    async fn stream(&self, mut stream: StreamBody, events: &mut TurnEvents<'_>) {
        let bytes_max = self.lane.settings().answer_bytes_max + EVENT_SLACK_BYTES;
        let mut splitter = Splitter::new(bytes_max);
        while let Some(chunk) = stream.next().await {
            if splitter.push(&chunk).is_err() {
                break;
            }
            while let Some(event) = splitter.next() {
                if !self.event(event, events).await {
                    return;
                }
            }
        }
        if let Some(rest) = splitter.rest()
            && !self.event(rest, events).await
        {
            return;
        }
        if !events.is_ended {
            self.send(events.cut()).await;
        }
    }

    /// Sends an event on; whether anybody still takes messages.
    async fn event(&self, event: Vec<u8>, events: &mut TurnEvents<'_>) -> bool {
        let (raw, data) = data_of(event);
        match events.message(&raw[data]) {
            Some(message) => self.messages.send(message).await.is_ok(),
            None => !self.messages.is_closed(),
        }
    }

    async fn send(&self, message: String) {
        // The client may be gone.
        let _ = self.messages.send(message).await;
    }
}

impl SocketClient {
    /// A request of this client, with an id of its own.
    pub(super) fn known<'a>(&'a self, lane: &LlmLane, socket: SocketWords) -> KnownRequest<'a> {
        let id = (lane.settings().new_id)();
        KnownRequest {
            verified: self.verified.clone(),
            head: &self.head,
            call: Call {
                request: self.request.as_deref(),
                trace: self.trace.as_deref(),
                ..Call::new(
                    id,
                    self.peer,
                    RESPONSES.action,
                    &self.resource,
                    RESPONSES.name,
                )
            },
            family: Family::OpenAi,
            socket: Some(socket),
        }
    }
}

/// Makes messages of one turn's events.
pub(crate) struct TurnEvents<'a> {
    stream_id: Option<&'a str>,
    /// The event that ends a response was there.
    pub(crate) is_ended: bool,
    pub(crate) is_failed: bool,
    /// The response's id and what it said, where no provider keeps it.
    pub(crate) said: Option<(String, String)>,
}

impl<'a> TurnEvents<'a> {
    pub(crate) fn new(stream_id: Option<&'a str>) -> TurnEvents<'a> {
        TurnEvents {
            stream_id,
            is_ended: false,
            is_failed: false,
            said: None,
        }
    }

    /// The message that an event's data is; nothing for what HTTP alone has.
    pub(crate) fn message(&mut self, data: &[u8]) -> Option<String> {
        if data.is_empty() || data == b"[DONE]" {
            return None;
        }
        let json = Json::read(data).ok()?;
        let root = json.root();
        let kind = root.get("type").and_then(JsonValue::as_str)?;
        match &*kind {
            "error" => {
                (self.is_ended, self.is_failed) = (true, true);
                if root.get("error").is_none() {
                    return Some(self.error(None, None, &flat_error(root)));
                }
            }
            "response.failed" => (self.is_ended, self.is_failed) = (true, true),
            "response.completed" | "response.incomplete" => {
                self.is_ended = true;
                self.said = root.get("response").and_then(said);
            }
            _ => {}
        }
        Some(self.named(root.text()))
    }

    /// An event with the name of its stream in it.
    fn named(&self, event: &str) -> String {
        let inside = event.strip_prefix('{');
        match (self.stream_id, inside) {
            (Some(id), Some(inside)) => {
                let comma = if inside.trim_start().starts_with('}') {
                    ""
                } else {
                    ","
                };
                format!("{{\"stream_id\":{}{comma}{inside}", Value::from(id))
            }
            _ => event.to_owned(),
        }
    }

    /// An answer that came whole, as the first and the last event of a response.
    fn whole(&mut self, body: &[u8]) -> Vec<String> {
        let response = String::from_utf8_lossy(body);
        let kinds = ["response.created", "response.completed"];
        let events = kinds.iter().enumerate().map(|(number, kind)| {
            format!("{{\"type\":\"{kind}\",\"sequence_number\":{number},\"response\":{response}}}")
        });
        let events: Vec<String> = events.collect();
        let messages: Option<Vec<String>> = events
            .iter()
            .map(|event| self.message(event.as_bytes()))
            .collect();
        messages.unwrap_or_else(|| vec![self.cut()])
    }

    /// What was refused, or failed before anything of a response came.
    pub(super) fn refused(
        &mut self,
        status: StatusCode,
        fields: &HeaderMap,
        body: &[u8],
    ) -> String {
        (self.is_ended, self.is_failed) = (true, true);
        let said: Option<Value> = serde_json::from_slice(body).ok();
        let said = said.and_then(|mut said| said.get_mut("error").map(Value::take));
        let error = match said {
            Some(error @ Value::Object(_)) => error,
            _ => {
                let message = format!("the provider answered {}", status.as_u16());
                json!({ "type": "api_error", "code": null, "message": message, "param": null })
            }
        };
        self.error(Some(status.as_u16()), Some(fields), &error)
    }

    /// The answer ended before the response did.
    fn cut(&mut self) -> String {
        (self.is_ended, self.is_failed) = (true, true);
        let code = base::refusal::LLM_PROVIDER_FAILED;
        let message = format!("{}: the response ended before it was complete", code.name);
        let error =
            json!({ "type": "api_error", "code": code.name, "message": message, "param": null });
        self.error(Some(code.status), None, &error)
    }

    fn error(&self, status: Option<u16>, fields: Option<&HeaderMap>, error: &Value) -> String {
        let mut error = error.clone();
        let told = ERROR_FIELDS.iter().filter_map(|name| {
            let value = fields?.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), Value::from(value)))
        });
        let told: serde_json::Map<String, Value> = told.collect();
        if !told.is_empty() {
            error["headers"] = Value::Object(told);
        }
        self.named(&error_event(status, &error))
    }
}

/// An error as the protocol has it on a WebSocket.
pub(super) fn error_event(status: Option<u16>, error: &Value) -> String {
    json!({ "type": "error", "status": status, "error": error }).to_string()
}

/// The error of an event as it is over HTTP, where its members stand in the event itself.
fn flat_error(event: JsonValue<'_>) -> Value {
    let word = |name: &str| event.get(name).and_then(JsonValue::as_str);
    json!({
        "type": "api_error",
        "code": word("code"),
        "message": word("message").unwrap_or_default(),
        "param": word("param"),
    })
}

/// The id of a response and the items that it said; nothing where its provider keeps it, and can be asked to go on with it.
fn said(response: JsonValue<'_>) -> Option<(String, String)> {
    if response.get("store").is_some_and(|is| is.text() == "true") {
        return None;
    }
    let id = response.get("id").and_then(JsonValue::as_str)?;
    let mut items = String::new();
    let output = response.get("output");
    for item in output.into_iter().flat_map(JsonValue::items) {
        if goes_on(item) {
            join(&mut items, item.text());
        }
    }
    Some((id.into_owned(), items))
}

/// Whether an item can be sent again. Reasoning that only its id stands for is known to nobody who keeps nothing.
fn goes_on(item: JsonValue<'_>) -> bool {
    let is_reasoning = item.get("type").and_then(JsonValue::as_str).as_deref() == Some("reasoning");
    let has_content = ["encrypted_content", "content"].iter().any(|name| {
        item.get(name)
            .is_some_and(|value| value.kind() != JsonKind::Null)
    });
    !is_reasoning || has_content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_message_with_the_name_of_its_stream() {
        let mut plain = TurnEvents::new(None);
        let event = r#"{"type":"response.output_text.delta", "delta":"x"}"#;
        assert_eq!(plain.message(event.as_bytes()).as_deref(), Some(event));
        let mut named = TurnEvents::new(Some("a\"b"));
        let message = named.message(event.as_bytes()).unwrap();
        assert_eq!(message, format!(r#"{{"stream_id":"a\"b",{}"#, &event[1..]));
        for none in ["", "[DONE]", "{}", "[]", "{"] {
            assert_eq!(plain.message(none.as_bytes()), None, "{none}");
        }
        assert!(!plain.is_ended && !plain.is_failed && plain.said.is_none());
    }

    #[test]
    fn a_response_is_kept_where_its_provider_does_not() {
        let reasoning = r#"{"type":"reasoning","id":"rs","summary":[]}"#;
        let sealed = r#"{"type":"reasoning","id":"rs","encrypted_content":"x"}"#;
        let said = r#"{"type":"message","content":[]}"#;
        let done = |store: &str| {
            let output = format!("[{reasoning},{sealed}, {said}]");
            let response = format!(r#"{{"id":"r1","store":{store},"output":{output}}}"#);
            let mut events = TurnEvents::new(None);
            let event = format!(r#"{{"type":"response.completed","response":{response}}}"#);
            assert!(events.message(event.as_bytes()).is_some() && events.is_ended);
            events.said
        };
        assert_eq!(done("true"), None);
        let kept = Some(("r1".to_owned(), format!("{sealed},{said}")));
        assert_eq!((done("false"), done("null")), (kept.clone(), kept));
    }

    #[test]
    fn errors_have_the_form_of_a_websocket() {
        let mut events = TurnEvents::new(None);
        let flat = br#"{"type":"error","code":"scan.secret","message":"m","param":null,"sequence_number":3}"#;
        let message: Value = serde_json::from_str(&events.message(flat).unwrap()).unwrap();
        assert_eq!(message["error"]["code"], "scan.secret");
        assert!(events.is_ended && events.is_failed);
        let mut fields = HeaderMap::new();
        fields.insert("retry-after", http::HeaderValue::from_static("7"));
        let body = br#"{"error":{"type":"t","code":"c","message":"m"}}"#;
        let message = events.refused(StatusCode::TOO_MANY_REQUESTS, &fields, body);
        let message: Value = serde_json::from_str(&message).unwrap();
        assert_eq!(
            (&message["status"], &message["type"]),
            (&json!(429), &json!("error"))
        );
        assert_eq!(message["error"]["headers"]["retry-after"], "7");
        let message = events.refused(StatusCode::BAD_GATEWAY, &fields, b"<html>");
        assert!(message.contains("answered 502"));
    }
}
