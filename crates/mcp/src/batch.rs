//! Batches of 2025-03-26: an array of messages in the place of one (JSON-RPC 2.0, section 6).
//!
//! Each message of a batch is a call of its own, judged and recorded as if it had come alone. Later revisions have none.
//!
//! Source: MCP 2025-03-26, "Transports", section "Sending Messages to the Server".

use std::rc::Rc;

use base::{Json, JsonKind, JsonValue, Refusal, refusal};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use http::StatusCode;
use net::{Body, Response, StreamBody, sse};

use crate::inbound::{accepted, event_stream, json};

/// Messages of one batch, and how many of them are under way at once.
const MESSAGES_MAX: usize = 50;
pub(crate) const AT_ONCE_MAX: usize = 8;
/// Events that may wait for a slow client.
const EVENTS_MAX: usize = 16;

/// The messages of a batch; nothing where the body is none.
///
/// # Errors
/// `mcp.batch_invalid`.
pub(crate) fn of_client(body: &Bytes) -> Result<Option<Vec<Bytes>>, Refusal> {
    let invalid = |public: &'static str| Err(Refusal::new(refusal::BATCH_INVALID, public));
    let Ok(json) = Json::read(body) else {
        return Ok(None);
    };
    let root = json.root();
    if root.kind() != JsonKind::Array {
        return Ok(None);
    }
    let begins = |message: JsonValue<'_>| {
        let method = message.get("method").and_then(JsonValue::as_str);
        method.as_deref() == Some("initialize")
    };
    let mut messages = Vec::new();
    for message in root.items() {
        if message.kind() != JsonKind::Object {
            return invalid("a batch holds messages alone");
        }
        if begins(message) {
            return invalid("initialize stands in no batch");
        }
        if messages.len() == MESSAGES_MAX {
            return invalid("the batch has too many messages");
        }
        messages.push(body.slice(message.span()));
    }
    match messages.is_empty() {
        true => invalid("the batch is empty"),
        false => Ok(Some(messages)),
    }
}

/// What a server says in one text: a message, or those of a batch.
pub(crate) fn of_server(text: &Bytes) -> Vec<Bytes> {
    let is_array = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let json = is_array.then(|| Json::read(text).ok()).flatten();
    let messages = json.map(|json| {
        let items = json.root().items().take(MESSAGES_MAX + 1);
        items
            .map(|item| text.slice(item.span()))
            .collect::<Vec<_>>()
    });
    match messages {
        Some(messages) if (1..=MESSAGES_MAX).contains(&messages.len()) => messages,
        _ => vec![text.clone()],
    }
}

/// The answers to the messages of a batch as one: an array, or events where one of them is a stream.
pub(crate) fn gather(responses: Vec<Response>) -> Response {
    let (mut whole, mut streams) = (Vec::new(), Vec::new());
    for response in responses {
        match response.into_body() {
            Body::Full(message) if !message.is_empty() => whole.push(message),
            Body::Stream(stream) => streams.push(stream),
            _ => {}
        }
    }
    if !streams.is_empty() {
        return stream_all(whole, streams);
    }
    if whole.is_empty() {
        return accepted();
    }
    let array = [b"[", &*whole.join(&b','), b"]"].concat();
    json(StatusCode::OK, Bytes::from(array), None)
}

fn stream_all(whole: Vec<Bytes>, streams: Vec<StreamBody>) -> Response {
    let (sender, body) = Body::stream(EVENTS_MAX);
    tokio::task::spawn_local(async move {
        for message in whole {
            let event = sse::write(&sse::Event::message(&message));
            if sender.send(Bytes::from(event)).await.is_err() {
                return;
            }
        }
        let sender = Rc::new(sender);
        let passed_on = streams.into_iter().map(|mut stream| {
            let sender = Rc::clone(&sender);
            async move {
                while let Some(chunk) = stream.next().await {
                    if sender.send(chunk).await.is_err() {
                        return;
                    }
                }
            }
        });
        join_all(passed_on).await;
    });
    event_stream(body, None)
}

/// Answers each message of a batch, some at once, in their order.
pub(crate) async fn each<F: Future<Output = Response>>(
    messages: impl Iterator<Item = F>,
) -> Response {
    let answered = futures_util::stream::iter(messages).buffered(AT_ONCE_MAX);
    gather(answered.collect().await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<usize>, &'static str> {
        let messages = of_client(&Bytes::from(text.to_owned()));
        let count = messages.map(|messages| messages.map(|messages| messages.len()));
        count.map_err(|refusal| refusal.code.name)
    }

    #[test]
    fn what_is_a_batch() {
        let many = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read("["), Ok(None));
        assert_eq!(read(r#" [{"a":1}, {"b":[2]}] "#), Ok(Some(2)));
        assert_eq!(read(&many(MESSAGES_MAX)), Ok(Some(MESSAGES_MAX)));
        for wrong in [
            "[]",
            "[1]",
            "[[]]",
            r#"[{"method":"initialize"}]"#,
            &many(MESSAGES_MAX + 1),
        ] {
            assert_eq!(read(wrong), Err("mcp.batch_invalid"), "{wrong}");
        }
        let text = Bytes::from_static(br#"[{"a":1},{"b":2}]"#);
        assert_eq!(of_server(&text), [r#"{"a":1}"#, r#"{"b":2}"#]);
        for alone in ["{}", "[]", "[", "x"] {
            let alone = Bytes::from_static(alone.as_bytes());
            assert_eq!(of_server(&alone), std::slice::from_ref(&alone));
        }
    }
}
