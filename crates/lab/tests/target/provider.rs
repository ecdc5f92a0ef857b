//! What the fake provider has beside words: tools, reasoning, usage, vectors, Google's dialect, scripts and breaks.

use std::io::Read;
use std::sync::Arc;

use lab::target::llm::Script;
use lab::target::{Behaviour, Llm, Running, Settings};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::started;

const ANTHROPIC: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];
const SCRIPT: &str = r#"
models:
  coder:
    - reasoning: Look at it first.
      words: I read it.
      tools:
        - { name: read_file, arguments: { path: notes.txt } }
        - { name: run, arguments: { command: "grep \"déjà\" notes.txt" }, id: call_own }
      usage: { input: 100, cached: 60, output: 20, reasoning: 5 }
    - { words: It is done. }
  limited: [{ error: { status: 429, message: slow down, retry_after: 7s } }]
  broken: [{ words: one two three four, fault: error@3 }]
"#;

fn with(llm: Llm) -> Running {
    started(Settings {
        llm,
        ..Settings::default()
    })
}

fn scripted() -> Running {
    with(Llm {
        script: Some(Arc::new(Script::read("turns.yaml", SCRIPT).unwrap())),
        ..Llm::default()
    })
}

/// A way to ask: its path, its fields and its request for a model.
struct Dialect {
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    ask: fn(&str, bool) -> Value,
}

const CHAT: Dialect = Dialect {
    path: "/v1/chat/completions",
    headers: &[],
    ask: |model, stream| {
        json!({ "model": model, "stream": stream, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "hi" }] })
    },
};
const RESPONSES: Dialect = Dialect {
    path: "/v1/responses",
    headers: &[],
    ask: |model, stream| json!({ "model": model, "stream": stream, "input": "hi" }),
};
const MESSAGES: Dialect = Dialect {
    path: "/v1/messages",
    headers: ANTHROPIC,
    ask: |model, stream| {
        json!({ "model": model, "stream": stream, "max_tokens": 9000,
            "messages": [{ "role": "user", "content": "hi" }] })
    },
};

impl Dialect {
    fn post(&self, client: &mut Client, model: &str, stream: bool) -> Answer {
        let body = (self.ask)(model, stream).to_string();
        client.post(self.path, self.headers, body)
    }
}

fn gemini(client: &mut Client, model: &str, verb: &str) -> Answer {
    let ask = json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] });
    let path = format!("/v1beta/models/{model}:{verb}");
    client.post(&path, &[], ask.to_string())
}

/// The data of a stream's events that are JSON.
fn data(answer: &Answer) -> Vec<Value> {
    let events = answer.events().into_iter();
    events
        .filter_map(|(_, data)| serde_json::from_str(&data).ok())
        .collect()
}

/// The texts at a pointer, one behind the other.
fn joined<'a>(all: impl IntoIterator<Item = &'a Value>, pointer: &str) -> String {
    let texts = all
        .into_iter()
        .filter_map(|one| one.pointer(pointer)?.as_str());
    texts.collect()
}

const COMMAND: &str = r#"{"command":"grep \"déjà\" notes.txt"}"#;

#[test]
fn chat_says_what_its_script_says_whole_and_streamed() {
    let target = scripted();
    let mut client = Client::to(target.address());
    let whole = CHAT.post(&mut client, "coder", false).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "I read it.");
    assert_eq!(message["reasoning_content"], "Look at it first.");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["function"]["arguments"], r#"{"path":"notes.txt"}"#);
    assert_eq!(calls[1]["id"], "call_own");
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
    for (name, count) in usage.as_object().unwrap() {
        assert_eq!(&whole["usage"][name], count);
    }
    assert_eq!(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 60);
    assert_eq!(
        whole["usage"]["completion_tokens_details"]["reasoning_tokens"],
        5
    );

    let chunks = data(&CHAT.post(&mut client, "coder", true));
    let delta = "/choices/0/delta/";
    assert_eq!(joined(&chunks, &format!("{delta}content")), "I read it.");
    assert_eq!(
        joined(&chunks, &format!("{delta}reasoning_content")),
        "Look at it first."
    );
    let pieces: Vec<&Value> = chunks
        .iter()
        .filter_map(|chunk| chunk.pointer(&format!("{delta}tool_calls/0")))
        .collect();
    for (index, arguments) in [(0, r#"{"path":"notes.txt"}"#), (1, COMMAND)] {
        let own = pieces
            .iter()
            .copied()
            .filter(|piece| piece["index"] == index);
        assert_eq!(joined(own, "/function/arguments"), arguments);
    }
    assert_eq!(
        joined(pieces.iter().copied(), "/function/name"),
        "read_filerun"
    );
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 20);
}

#[test]
fn messages_say_what_their_script_says_whole_and_streamed() {
    let target = scripted();
    let mut client = Client::to(target.address());
    let whole = MESSAGES.post(&mut client, "coder", false).json();
    let kinds: Vec<&str> = whole["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(
        whole["content"][3]["input"]["command"],
        "grep \"déjà\" notes.txt"
    );
    assert_eq!(
        (&whole["stop_reason"], &whole["content"][3]["id"]),
        (&json!("tool_use"), &json!("call_own"))
    );
    assert_eq!(whole["usage"]["input_tokens"], 40);
    assert_eq!(whole["usage"]["cache_read_input_tokens"], 60);

    let events = data(&MESSAGES.post(&mut client, "coder", true));
    let of = |index: u64| events.iter().filter(move |event| event["index"] == index);
    assert_eq!(joined(of(0), "/delta/thinking"), "Look at it first.");
    assert_eq!(
        joined(of(0), "/delta/signature"),
        whole["content"][0]["signature"].as_str().unwrap().replace(
            whole["id"].as_str().unwrap().trim_start_matches("msg_"),
            events[0]["message"]["id"]
                .as_str()
                .unwrap()
                .trim_start_matches("msg_")
        )
    );
    assert_eq!(joined(of(1), "/delta/text"), "I read it.");
    assert_eq!(joined(of(3), "/delta/partial_json"), COMMAND);
    assert_eq!(joined(of(3), "/content_block/name"), "run");
    assert_eq!(events[events.len() - 2]["usage"]["output_tokens"], 20);
}

#[test]
fn responses_say_what_their_script_says_whole_and_streamed() {
    let target = scripted();
    let mut client = Client::to(target.address());
    let whole = RESPONSES.post(&mut client, "coder", false).json();
    assert_eq!(
        whole["output"][0]["summary"][0]["text"],
        "Look at it first."
    );
    assert_eq!(whole["output"][1]["content"][0]["text"], "I read it.");
    assert_eq!(whole["output"][3]["arguments"], COMMAND);
    assert_eq!(whole["output"][3]["call_id"], "call_own");
    assert_eq!(
        whole["usage"]["output_tokens_details"]["reasoning_tokens"],
        5
    );

    let events = data(&RESPONSES.post(&mut client, "coder", true));
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let deltas = |index: u64| {
        let deltas = events.iter().filter(|event| event["delta"].is_string());
        let own = deltas.filter(|event| event["output_index"] == index);
        joined(own, "/delta")
    };
    assert_eq!(
        [deltas(0), deltas(1), deltas(3)],
        ["Look at it first.", "I read it.", COMMAND]
    );
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    let output = events.last().unwrap()["response"]["output"]
        .as_array()
        .unwrap();
    assert_eq!(done, output.iter().collect::<Vec<_>>());
}

#[test]
fn gemini_says_what_its_script_says_whole_streamed_and_as_an_array() {
    let target = scripted();
    let mut client = Client::to(target.address());
    let whole = gemini(&mut client, "coder", "generateContent").json();
    let parts = whole["candidates"][0]["content"]["parts"]
        .as_array()
        .unwrap();
    assert_eq!(
        (&parts[0]["thought"], &parts[0]["text"]),
        (&json!(true), &json!("Look at it first."))
    );
    assert_eq!(
        parts[3]["functionCall"]["args"]["command"],
        "grep \"déjà\" notes.txt"
    );
    assert_eq!(whole["candidates"][0]["finishReason"], "STOP");
    let usage = &whole["usageMetadata"];
    assert_eq!(usage["candidatesTokenCount"], 15);
    assert_eq!(
        (
            &usage["thoughtsTokenCount"],
            &usage["cachedContentTokenCount"]
        ),
        (&json!(5), &json!(60))
    );

    let answer = gemini(&mut client, "coder", "streamGenerateContent?alt=sse");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = data(&answer);
    let array = gemini(&mut client, "coder", "streamGenerateContent");
    assert_eq!(array.header("content-type"), Some("application/json"));
    assert_eq!(array.json().as_array().unwrap().len(), events.len());
    let part = "/candidates/0/content/parts/0";
    let is_thought = |event: &&Value| event.pointer(&format!("{part}/thought")).is_some();
    let texts = |thought: bool| {
        let own = events.iter().filter(|event| is_thought(event) == thought);
        joined(own, &format!("{part}/text"))
    };
    assert_eq!(
        [texts(true), texts(false)],
        ["Look at it first.", "I read it."]
    );
    let mut calls = events
        .iter()
        .filter_map(|event| event.pointer(&format!("{part}/functionCall")));
    assert_eq!(calls.next_back().unwrap()["id"], "call_own");
    let last = events.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"], *usage);
}

#[test]
fn a_script_goes_on_with_the_turns_of_the_request() {
    let target = scripted();
    let mut client = Client::to(target.address());
    let ask = json!({ "model": "coder", "messages": [{ "role": "user", "content": "hi" },
        { "role": "assistant", "content": "x" }, { "role": "user", "content": "go on" }] });
    let answer = client.post(CHAT.path, &[], ask.to_string()).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "It is done.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let contents = json!([{ "role": "user", "parts": [] }, { "role": "model", "parts": [] }]);
    let ask = json!({ "contents": contents }).to_string();
    let answer = client
        .post("/v1beta/models/coder:generateContent", &[], ask)
        .json();
    assert_eq!(
        answer["candidates"][0]["content"]["parts"][0]["text"],
        "It is done."
    );
    // What the script does not name is made up.
    let other = CHAT.post(&mut client, "other", false).json();
    assert_eq!(other["usage"]["completion_tokens"], 32);
    let names = client.get("/v1/models").json();
    let ids: Vec<&Value> = names["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, ["lab-1", "broken", "coder", "limited"]);
}

#[test]
fn errors_have_the_providers_own_form() {
    let target = scripted();
    let mut client = Client::to(target.address());
    for dialect in [CHAT, RESPONSES, MESSAGES] {
        let answer = dialect.post(&mut client, "limited", true);
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (429, Some("7"))
        );
        assert_eq!(answer.json()["error"]["message"], "slow down");
        let kind = &answer.json()["error"]["type"];
        assert_eq!(kind == "rate_limit_error", dialect.path == MESSAGES.path);
    }
    let answer = gemini(&mut client, "limited", "streamGenerateContent?alt=sse");
    let error = &answer.json()["error"];
    assert_eq!(
        (&error["code"], &error["status"]),
        (&json!(429), &json!("RESOURCE_EXHAUSTED"))
    );
    assert_eq!(error["details"][0]["retryDelay"], "7s");
}

#[test]
fn a_stream_ends_in_an_error_of_its_dialect() {
    let target = scripted();
    let mut client = Client::to(target.address());
    for (dialect, last) in [
        (CHAT, "/error/type"),
        (RESPONSES, "/code"),
        (MESSAGES, "/error/type"),
    ] {
        let events = dialect.post(&mut client, "broken", true).events();
        assert_eq!(events.len(), 4, "{events:?}");
        let error: Value = serde_json::from_str(&events[3].1).unwrap();
        let kind = error.pointer(last).unwrap();
        assert!(kind == "server_error" || kind == "api_error", "{error}");
    }
    let answer = gemini(&mut client, "broken", "streamGenerateContent?alt=sse");
    assert_eq!(data(&answer)[3]["error"]["status"], "INTERNAL");
    // What is no stream has nothing to break but itself.
    assert_eq!(CHAT.post(&mut client, "broken", false).status, 500);
    let counts = target.counts();
    assert_eq!(counts.injected_errors["broken"], 4);
    assert_eq!(counts.injected_errors["500"], 1);
}

fn breaking(rules: &[&str]) -> Running {
    started(Settings {
        behaviour: Behaviour {
            every: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
            ..Behaviour::default()
        },
        ..Settings::default()
    })
}

#[test]
fn a_stream_is_cut_after_so_many_events() {
    for (rule, is_reset) in [("reset@3:1", true), ("close@3:1", false)] {
        let target = breaking(&[rule]);
        let mut client = Client::to(target.address());
        let body = (CHAT.ask)("m", true).to_string();
        let length = body.len();
        client.send(format!(
            "POST {} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}",
            CHAT.path
        ));
        let mut bytes = Vec::new();
        let end = client.stream.read_to_end(&mut bytes);
        assert_eq!(end.is_err(), is_reset, "{rule}: {end:?}");
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("data: ").count(), 3, "{rule}: {text}");
        assert!(!text.ends_with("0\r\n\r\n"), "it has no end");
        assert_eq!(target.counts().injected_errors["broken"], 1);
    }
}

#[test]
fn a_stream_stalls_until_the_client_goes() {
    let target = breaking(&["stall@2:1"]);
    let mut client = Client::to(target.address());
    let body = (CHAT.ask)("m", true).to_string();
    let length = body.len();
    client.send(format!(
        "POST {} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}",
        CHAT.path
    ));
    let patience = Some(std::time::Duration::from_millis(300));
    client.stream.set_read_timeout(patience).unwrap();
    let mut bytes = Vec::new();
    let end = client.stream.read_to_end(&mut bytes).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(
        String::from_utf8(bytes).unwrap().matches("data: ").count(),
        2
    );
}

#[test]
fn what_is_no_stream_breaks_after_half_of_its_bytes() {
    let target = breaking(&["reset@0:1"]);
    let mut client = Client::to(target.address());
    let body = (CHAT.ask)("m", false).to_string();
    let length = body.len();
    client.send(format!(
        "POST {} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}",
        CHAT.path
    ));
    let mut bytes = Vec::new();
    assert!(client.stream.read_to_end(&mut bytes).is_err());
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    assert_eq!(body.len(), length.unwrap().parse::<usize>().unwrap() / 2);
}

#[test]
fn garbage_is_not_what_the_dialect_has() {
    let target = breaking(&["garbage@1:2", "garbage:1"]);
    let mut client = Client::to(target.address());
    let answer = CHAT.post(&mut client, "m", false);
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    assert!(serde_json::from_slice::<Value>(&answer.body).is_err());
    let events = CHAT.post(&mut client, "m", true).events();
    assert_eq!(events.len(), 2);
    assert!(serde_json::from_str::<Value>(&events[1].1).is_err());
    assert_eq!(target.counts().injected_errors["garbage"], 1);
}

#[test]
fn reasoning_comes_where_it_is_asked_for() {
    let target = with(Llm {
        tokens: 4,
        reasoning: 6,
        ..Llm::default()
    });
    let mut client = Client::to(target.address());
    let mut ask = |path: &str, more: Value| {
        let mut body = json!({ "model": "m", "max_tokens": 99, "input": "hi",
            "messages": [{ "role": "user", "content": "hi" }] });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.post(path, ANTHROPIC, body.to_string()).json()
    };
    let plain = ask("/v1/chat/completions", json!({}));
    assert_eq!(plain["usage"]["completion_tokens"], 4);
    let chat = ask("/v1/chat/completions", json!({ "reasoning_effort": "low" }));
    assert_eq!(chat["usage"]["completion_tokens"], 10);
    assert_eq!(
        chat["usage"]["completion_tokens_details"]["reasoning_tokens"],
        6
    );
    let response = ask(
        "/v1/responses",
        json!({ "reasoning": { "summary": "auto" } }),
    );
    assert_eq!(response["output"][0]["type"], "reasoning");
    assert_eq!(response["reasoning"]["summary"], "auto");
    let message = ask(
        "/v1/messages",
        json!({ "thinking": { "type": "adaptive" } }),
    );
    assert_eq!(message["content"][0]["type"], "thinking");
    // Reasoning counts to what the request allows.
    let cut = ask(
        "/v1/messages",
        json!({ "thinking": { "type": "enabled" }, "max_tokens": 3 }),
    );
    assert_eq!(
        (&cut["stop_reason"], &cut["usage"]["output_tokens"]),
        (&json!("max_tokens"), &json!(3))
    );
    let ask = json!({ "contents": [{}], "generationConfig": { "thinkingConfig": { "includeThoughts": true } } });
    let answer = client
        .post("/v1beta/models/m:generateContent", &[], ask.to_string())
        .json();
    assert_eq!(answer["usageMetadata"]["thoughtsTokenCount"], 6);
}

#[test]
fn a_usage_can_have_a_cache_and_lie() {
    let target = with(Llm {
        tokens: 10,
        cached: 0.5,
        usage_times: 3.0,
        ..Llm::default()
    });
    let mut client = Client::to(target.address());
    let body = (CHAT.ask)("m", false).to_string();
    let prompt = body.len().div_ceil(4);
    let usage = client.post(CHAT.path, &[], body).json()["usage"].clone();
    assert_eq!(usage["prompt_tokens"], prompt * 3);
    assert_eq!(usage["completion_tokens"], 30);
    assert_eq!(
        usage["prompt_tokens_details"]["cached_tokens"],
        prompt / 2 * 3
    );
}

#[test]
fn tools_are_called_where_they_must_be() {
    let target = with(Llm::default());
    let mut client = Client::to(target.address());
    let schema = json!({ "type": "object", "required": ["location"],
        "properties": { "location": { "type": "string" } } });
    let declared = json!({ "name": "get_weather", "parameters": schema });
    let ask = json!({ "contents": [{}], "tools": [{ "functionDeclarations": [declared] }],
        "tool_config": { "function_calling_config": { "mode": "ANY" } } });
    let answer = client
        .post("/v1beta/models/m:generateContent", &[], ask.to_string())
        .json();
    let call = &answer["candidates"][0]["content"]["parts"][0]["functionCall"];
    assert_eq!(
        (&call["name"], &call["args"]),
        (&json!("get_weather"), &json!({ "location": "weir" }))
    );
    let tools = json!([{ "name": "get_weather", "input_schema": schema }]);
    let ask = json!({ "model": "m", "max_tokens": 99, "messages": [{}], "tools": tools,
        "tool_choice": { "type": "tool", "name": "get_weather" } });
    let answer = client
        .post(MESSAGES.path, ANTHROPIC, ask.to_string())
        .json();
    assert_eq!(answer["content"][0]["input"], json!({ "location": "weir" }));
    assert_eq!(answer["stop_reason"], "tool_use");
}

#[test]
fn texts_become_vectors_in_both_dialects() {
    let target = with(Llm::default());
    let mut client = Client::to(target.address());
    let mut ask = |more: Value| {
        let mut body = json!({ "model": "m", "input": ["a", "b", "a"] });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.post("/v1/embeddings", &[], body.to_string())
    };
    let floats = ask(json!({ "dimensions": 8 })).json();
    let vectors = |json: &Value| -> Vec<Value> {
        let data = json["data"].as_array().unwrap().iter();
        data.map(|one| one["embedding"].clone()).collect()
    };
    let all = vectors(&floats);
    assert_eq!((all.len(), all[0].as_array().unwrap().len()), (3, 8));
    assert!(all[0] == all[2] && all[0] != all[1]);
    assert!(floats["usage"]["prompt_tokens"].as_u64() > Some(0));
    let packed = vectors(&ask(json!({ "dimensions": 8, "encoding_format": "base64" })).json());
    // Eight numbers of four bytes in base64.
    assert_eq!(packed[0].as_str().unwrap().len(), 44);
    assert_eq!(ask(json!({ "input": [] })).status, 400);
    let content = json!({ "parts": [{ "text": "a" }] });
    let one = json!({ "content": content, "outputDimensionality": 8 });
    let answer = client
        .post("/v1beta/models/m:embedContent", &[], one.to_string())
        .json();
    assert_eq!(answer["embedding"]["values"], all[0]);
    let both = json!({ "requests": [one, one] }).to_string();
    let answer = client
        .post("/v1beta/models/m:batchEmbedContents", &[], both)
        .json();
    assert_eq!(answer["embeddings"][1]["values"], all[0]);
}

#[test]
fn requests_are_counted_and_models_told_in_each_dialect() {
    let target = scripted();
    let mut client = Client::to(target.address());
    let answer = client.post("/v1/messages/count_tokens", ANTHROPIC, "{\"a\":1} ");
    assert_eq!(answer.json(), json!({ "input_tokens": 2 }));
    let answer = client.post("/v1beta/models/m:countTokens", &[], "{\"a\":1} ");
    assert_eq!(answer.json()["totalTokens"], 2);
    assert_eq!(
        client
            .post("/v1/messages/count_tokens", ANTHROPIC, "[]")
            .status,
        400
    );
    let models = client.get("/v1beta/models").json();
    assert_eq!(models["models"][2]["name"], "models/coder");
    assert_eq!(
        client.get("/v1beta/models/coder").json()["name"],
        "models/coder"
    );
    assert_eq!(client.get("/v1/models/coder").json()["id"], "coder");
    assert_eq!(
        client.post("/v1beta/models/m:unheardOf", &[], "{}").status,
        405
    );
    let lacking = client.post("/v1beta/models/m:generateContent", &[], "{}");
    assert_eq!(lacking.json()["error"]["status"], "INVALID_ARGUMENT");
    assert_eq!(client.get("/v1beta/models/m:generateContent").status, 405);
}
