//! Each dialect, event by event.

use lab::target::{Behaviour, Llm, Running, Settings};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::started;

const ANTHROPIC: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

fn provider(tokens: u64) -> Running {
    started(Settings {
        llm: Llm {
            tokens,
            ..Llm::default()
        },
        ..Settings::default()
    })
}

fn chat(more: Value) -> String {
    let mut ask = json!({ "model": "m\"1", "messages": [{ "role": "user", "content": "hi" }] });
    ask.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    ask.to_string()
}

fn data(answer: &Answer) -> Vec<Value> {
    let events = answer.events().into_iter();
    events
        .map(|(_, data)| serde_json::from_str(&data).unwrap_or(Value::from(data)))
        .collect()
}

/// The events' names, with runs of the same one shortened.
fn names(answer: &Answer) -> Vec<String> {
    let mut names: Vec<String> = answer.events().into_iter().map(|(name, _)| name).collect();
    names.dedup();
    names
}

#[test]
fn chat_is_answered_whole() {
    let target = provider(5);
    let mut client = Client::to(target.address());
    let body = chat(json!({}));
    let answer = client.post("/v1/chat/completions", &[], &body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let json = answer.json();
    assert_eq!(json["object"], "chat.completion");
    assert_eq!(json["model"], "m\"1");
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    let content = json["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(content.split(' ').count(), 5);
    let prompt = body.len().div_ceil(4);
    assert_eq!(json["usage"]["prompt_tokens"], prompt);
    assert_eq!(json["usage"]["completion_tokens"], 5);
    assert_eq!(json["usage"]["total_tokens"], prompt + 5);
}

#[test]
fn fewer_tokens_end_by_length() {
    let target = provider(5);
    let mut client = Client::to(target.address());
    for name in ["max_tokens", "max_completion_tokens"] {
        let json = client
            .post("/v1/chat/completions", &[], chat(json!({ name: 3 })))
            .json();
        assert_eq!(json["usage"]["completion_tokens"], 3);
        assert_eq!(json["choices"][0]["finish_reason"], "length");
    }
    let json = client
        .post("/v1/messages", ANTHROPIC, chat(json!({ "max_tokens": 2 })))
        .json();
    assert_eq!(json["stop_reason"], "max_tokens");
    assert_eq!(json["usage"]["output_tokens"], 2);
    let ask = json!({ "model": "m", "input": "hi", "max_output_tokens": 1 }).to_string();
    let json = client.post("/v1/responses", &[], &ask).json();
    assert_eq!(json["status"], "incomplete");
    assert_eq!(json["incomplete_details"]["reason"], "max_output_tokens");
}

#[test]
fn a_chat_stream_has_a_role_the_tokens_an_end_and_done() {
    let target = provider(4);
    let mut client = Client::to(target.address());
    let answer = client.post("/v1/chat/completions", &[], chat(json!({ "stream": true })));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let chunks = data(&answer);
    assert_eq!(chunks.len(), 1 + 4 + 1 + 1);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    for chunk in &chunks[1..5] {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert!(chunk["choices"][0]["delta"]["content"].is_string());
        assert!(chunk["choices"][0]["finish_reason"].is_null());
        assert!(chunk.get("usage").is_none());
    }
    assert_eq!(chunks[5]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[5]["choices"][0]["delta"], json!({}));
    assert_eq!(chunks[6], "[DONE]");
    assert!(names(&answer).iter().all(|name| name == "message"));
}

#[test]
fn a_chat_stream_has_usage_when_it_is_asked_for() {
    let target = provider(3);
    let mut client = Client::to(target.address());
    let ask = chat(json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let chunks = data(&client.post("/v1/chat/completions", &[], ask));
    let (last, others) = chunks[..chunks.len() - 1].split_last().unwrap();
    assert!(
        others
            .iter()
            .all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some())
    );
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["completion_tokens"], 3);
}

#[test]
fn messages_are_answered_whole_and_streamed() {
    let target = provider(3);
    let mut client = Client::to(target.address());
    let whole = client
        .post("/v1/messages", ANTHROPIC, chat(json!({ "max_tokens": 9 })))
        .json();
    assert_eq!(
        (&whole["type"], &whole["role"]),
        (&json!("message"), &json!("assistant"))
    );
    assert_eq!(whole["content"][0]["type"], "text");
    assert_eq!(whole["stop_reason"], "end_turn");
    let ask = chat(json!({ "max_tokens": 9, "stream": true }));
    let answer = client.post("/v1/messages", ANTHROPIC, ask);
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names(&answer), expected);
    for (name, data) in answer.events() {
        assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["type"], name);
    }
    let data = data(&answer);
    assert_eq!(data[0]["message"]["stop_reason"], Value::Null);
    assert!(data[0]["message"]["usage"]["input_tokens"].as_u64() > Some(0));
    let deltas = data
        .iter()
        .filter(|event| event["type"] == "content_block_delta");
    let text: String = deltas
        .map(|event| event["delta"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(text.split(' ').count(), 3);
    let delta = &data[data.len() - 2];
    assert_eq!(delta["delta"]["stop_reason"], "end_turn");
    assert_eq!(delta["usage"]["output_tokens"], 3);
}

#[test]
fn responses_are_answered_whole_and_streamed() {
    let target = provider(3);
    let mut client = Client::to(target.address());
    let whole = client
        .post("/v1/responses", &[], r#"{"model":"m","input":[{}]}"#)
        .json();
    assert_eq!(
        (&whole["object"], &whole["status"]),
        (&json!("response"), &json!("completed"))
    );
    assert_eq!(whole["usage"]["output_tokens"], 3);
    let text = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.split(' ').count(), 3);
    let ask = r#"{"model":"m","input":"hi","stream":true}"#;
    let answer = client.post("/v1/responses", &[], ask);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names(&answer), expected);
    let data = data(&answer);
    for (at, event) in data.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let deltas = data
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta");
    let text: String = deltas
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    let last = &data[data.len() - 1]["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], text);
    assert_eq!(last["id"], data[0]["response"]["id"]);
    let cut = r#"{"model":"m","input":"hi","stream":true,"max_output_tokens":1}"#;
    let answer = client.post("/v1/responses", &[], cut);
    assert_eq!(names(&answer).last().unwrap(), "response.incomplete");
}

#[test]
fn models_are_named_in_each_dialect() {
    let target = provider(1);
    let mut client = Client::to(target.address());
    let openai = client.get("/v1/models").json();
    assert_eq!(
        (&openai["object"], &openai["data"][0]["object"]),
        (&json!("list"), &json!("model"))
    );
    let anthropic = client.ask("GET", "/v1/models", ANTHROPIC, b"").json();
    assert_eq!(anthropic["data"][0]["type"], "model");
    assert_eq!(anthropic["has_more"], false);
}

#[test]
fn tokens_come_at_their_pace() {
    let target = started(Settings {
        llm: Llm {
            first_token: "50ms".parse().unwrap(),
            tokens_per_second: 100.0,
            tokens: 6,
            ..Llm::default()
        },
        ..Settings::default()
    });
    let mut client = Client::to(target.address());
    for stream in [true, false] {
        let begun = std::time::Instant::now();
        client.post(
            "/v1/chat/completions",
            &[],
            chat(json!({ "stream": stream })),
        );
        // The first at 50 ms and five gaps of 10 ms. Never earlier; how much later is the machine's affair.
        assert!(begun.elapsed() >= std::time::Duration::from_millis(100));
    }
}

#[test]
fn wrong_requests_are_refused_in_the_dialect() {
    let target = provider(1);
    let mut client = Client::to(target.address());
    let some = json!([{}]);
    let cases = [
        ("/v1/chat/completions", json!({ "messages": some }), "model"),
        ("/v1/chat/completions", json!({ "model": "m" }), "messages"),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": [] }),
            "messages",
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": some, "n": 2 }),
            "n must be 1",
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": some, "max_tokens": 0 }),
            "1",
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": some, "max_tokens": -1 }),
            "read",
        ),
        ("/v1/responses", json!({ "model": "m" }), "input"),
        (
            "/v1/responses",
            json!({ "model": "m", "input": "" }),
            "input",
        ),
    ];
    for (path, ask, says) in cases {
        let answer = client.post(path, &[], ask.to_string());
        assert_eq!(answer.status, 400, "{ask}");
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    let lacks = |client: &mut Client, headers, ask: &str, says: &str| {
        let answer = client.post("/v1/messages", headers, ask);
        assert_eq!(answer.status, 400);
        let json = answer.json();
        assert_eq!(
            (&json["type"], &json["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        assert!(
            json["error"]["message"].as_str().unwrap().contains(says),
            "{json}"
        );
    };
    lacks(&mut client, &[], "{}", "anthropic-version");
    lacks(&mut client, ANTHROPIC, "{", "read");
    lacks(
        &mut client,
        ANTHROPIC,
        r#"{"model":"m","messages":[{}]}"#,
        "max_tokens",
    );
    assert_eq!(client.get("/v1/messages").status, 405);
    // The length is refused before any of the body is sent.
    client.send("POST /v1/responses HTTP/1.1\r\nhost: t\r\ncontent-length: 8388609\r\n\r\n");
    let answer = client.answer(false);
    assert_eq!(
        (answer.status, &answer.json()["error"]["type"]),
        (413, &json!("invalid_request_error"))
    );
}

#[test]
fn injected_errors_have_the_shape_of_the_dialect() {
    let target = started(Settings {
        behaviour: Behaviour {
            every: vec!["529:2".parse().unwrap(), "429:1".parse().unwrap()],
            ..Behaviour::default()
        },
        ..Settings::default()
    });
    let mut client = Client::to(target.address());
    let answer = client.post("/v1/chat/completions", &[], chat(json!({})));
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("1"))
    );
    assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    let answer = client.post("/v1/messages", &[], "{}");
    assert_eq!(answer.status, 529);
    assert_eq!(answer.json()["error"]["type"], "overloaded_error");
    let answer = client.post("/mcp", &[], "{}");
    assert_eq!(answer.json()["error"]["code"], -32000);
}
