//! Conversions: golden requests and answers, generated conversations there and back, streams of every dialect in every other.

use serde_json::{Value, json};

use super::stream::StreamConversion;
use super::talk::{Said, Speaker, Stop, Talk, TalkBlock, TalkTool, ToolChoice, ToolUse, Turn};
use super::*;
use crate::stream::events::Splitter;

const ALL: [Dialect; 4] = [
    Dialect::Chat,
    Dialect::Messages,
    Dialect::Gemini,
    Dialect::Responses,
];
const PROVIDERS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Gemini];

fn convert(client: Dialect, provider: Dialect, body: &Value) -> Result<Value, Unconvertible> {
    Conversion { client, provider }.request(body, "m", false)
}

#[test]
fn a_coding_agents_request_becomes_chat() {
    let body = json!({
        "model": "claude", "max_tokens": 100, "stream": true, "metadata": { "user_id": "u1" },
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } }],
        "tools": [{ "name": "read", "description": "Reads", "input_schema": { "type": "object" }, "cache_control": { "type": "ephemeral" } }],
        "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
        "messages": [
            { "role": "user", "content": "look" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "s" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "t1", "name": "read", "input": { "path": "a" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": [{ "type": "text", "text": "gone" }], "is_error": true },
                { "type": "text", "text": "and now?" },
            ] },
        ],
    });
    let conversion = Conversion {
        client: Dialect::Messages,
        provider: Dialect::Chat,
    };
    assert_eq!(
        conversion.request(&body, "gpt", true).unwrap(),
        json!({
            "model": "gpt", "max_completion_tokens": 100, "user": "u1", "stream": true, "stream_options": { "include_usage": true },
            "tools": [{ "type": "function", "function": { "name": "read", "description": "Reads", "parameters": { "type": "object" } } }],
            "tool_choice": "auto", "parallel_tool_calls": false,
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "look" },
                { "role": "assistant", "content": "I look.", "tool_calls": [
                    { "id": "t1", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } },
                ] },
                { "role": "tool", "tool_call_id": "t1", "content": "Error: gone" },
                { "role": "user", "content": "and now?" },
            ],
        })
    );
}

#[test]
fn chat_becomes_messages_and_googles() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let body = json!({
        "model": "x", "temperature": 0.5, "stop": "END", "reasoning_effort": "low",
        "messages": [
            { "role": "system", "content": "One." }, { "role": "developer", "content": [{ "type": "text", "text": "Two." }] },
            { "role": "user", "content": [
                { "type": "text", "text": "what is it?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
            ] },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "c1", "type": "function", "function": { "name": "see", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "c1", "content": "a weir" },
        ],
        "tools": [{ "type": "function", "function": { "name": "see", "parameters": schema } }],
        "tool_choice": { "type": "function", "function": { "name": "see" } },
        "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": schema, "strict": true } },
    });
    let messages = convert(Dialect::Chat, Dialect::Messages, &body).unwrap();
    assert_eq!(messages["system"], "One.\n\nTwo.");
    assert_eq!(
        messages["thinking"],
        json!({ "type": "enabled", "budget_tokens": 1024 })
    );
    assert_eq!(messages["max_tokens"], 1024 + 4096);
    assert_eq!(messages["stop_sequences"], json!(["END"]));
    assert_eq!(
        messages["tool_choice"],
        json!({ "type": "tool", "name": "see" })
    );
    assert_eq!(messages["output_config"]["format"]["schema"], schema);
    assert_eq!(
        messages["messages"],
        json!([
            { "role": "user", "content": [
                { "type": "text", "text": "what is it?" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } },
            ] },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "c1", "name": "see", "input": {} }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": [{ "type": "text", "text": "a weir" }] }] },
        ])
    );
    let gemini = convert(Dialect::Chat, Dialect::Gemini, &body).unwrap();
    assert_eq!(
        gemini["systemInstruction"]["parts"],
        json!([{ "text": "One." }, { "text": "Two." }])
    );
    assert_eq!(
        gemini["toolConfig"]["functionCallingConfig"],
        json!({ "mode": "ANY", "allowedFunctionNames": ["see"] })
    );
    assert_eq!(
        gemini["contents"][2]["parts"][0]["functionResponse"],
        json!({ "name": "see", "response": { "result": "a weir" } })
    );
    assert_eq!(gemini["generationConfig"]["responseJsonSchema"], schema);
}

#[test]
fn responses_and_googles_become_chat() {
    let body = json!({
        "model": "x", "instructions": "Be brief.", "store": false, "include": ["reasoning.encrypted_content"], "reasoning": { "effort": "high", "summary": "auto" },
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "look" }] },
            { "type": "reasoning", "summary": [], "encrypted_content": "x" },
            { "type": "function_call", "call_id": "c1", "name": "see", "arguments": "{\"a\":1}" },
            { "type": "function_call_output", "call_id": "c1", "output": "a weir" },
        ],
        "tools": [{ "type": "function", "name": "see", "parameters": { "type": "object" }, "strict": false }],
    });
    let chat = convert(Dialect::Responses, Dialect::Chat, &body).unwrap();
    assert_eq!(chat["reasoning_effort"], "high");
    assert_eq!(
        chat["messages"][2]["tool_calls"][0]["function"]["arguments"],
        "{\"a\":1}"
    );
    assert_eq!(
        chat["messages"][3],
        json!({ "role": "tool", "tool_call_id": "c1", "content": "a weir" })
    );
    assert_eq!(chat["tools"][0]["function"]["strict"], false);
    let body = json!({
        "contents": [
            { "role": "user", "parts": [{ "text": "look" }] },
            { "role": "model", "parts": [{ "functionCall": { "name": "see", "args": {} } }, { "functionCall": { "name": "see", "args": { "a": 1 } } }] },
            { "role": "user", "parts": [
                { "functionResponse": { "name": "see", "response": { "result": "one" } } },
                { "functionResponse": { "name": "see", "response": { "height": 3 } } },
            ] },
        ],
        "tools": [{ "functionDeclarations": [{ "name": "see", "parameters": { "type": "OBJECT", "properties": { "a": { "type": "STRING" } } } }] }],
        "generationConfig": { "maxOutputTokens": 9, "thinkingConfig": { "thinkingBudget": 0 } },
    });
    let chat = convert(Dialect::Gemini, Dialect::Chat, &body).unwrap();
    assert_eq!(
        chat["tools"][0]["function"]["parameters"]["properties"]["a"]["type"],
        "string"
    );
    assert_eq!(
        (&chat["max_completion_tokens"], &chat["reasoning_effort"]),
        (&json!(9), &json!("none"))
    );
    assert_eq!(
        chat["messages"][2],
        json!({ "role": "tool", "tool_call_id": "call_1", "content": "one" })
    );
    assert_eq!(
        chat["messages"][3],
        json!({ "role": "tool", "tool_call_id": "call_2", "content": "{\"height\":3}" })
    );
}

#[test]
fn what_has_no_counterpart_is_refused_by_its_path() {
    let ask = |more: Value| {
        let mut body = json!({ "model": "x", "messages": [{ "role": "user", "content": "a" }] });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for (client, provider, body, path) in [
        (
            Dialect::Chat,
            Dialect::Messages,
            ask(json!({ "n": 2 })),
            "n",
        ),
        (
            Dialect::Chat,
            Dialect::Messages,
            ask(json!({ "logit_bias": { "1": 2 } })),
            "logit_bias",
        ),
        (
            Dialect::Chat,
            Dialect::Messages,
            ask(json!({ "brand_new": 1 })),
            "brand_new",
        ),
        (
            Dialect::Chat,
            Dialect::Messages,
            ask(json!({ "tools": [{ "type": "web_search" }] })),
            "tools[0].type",
        ),
        (
            Dialect::Chat,
            Dialect::Messages,
            ask(
                json!({ "messages": [{ "role": "user", "content": [{ "type": "input_audio" }] }] }),
            ),
            "messages[0].content[0]",
        ),
        (
            Dialect::Chat,
            Dialect::Messages,
            ask(json!({ "response_format": { "type": "json_object" } })),
            "response_format",
        ),
        (
            Dialect::Messages,
            Dialect::Chat,
            ask(json!({ "top_k": 5 })),
            "top_k",
        ),
        (
            Dialect::Messages,
            Dialect::Chat,
            ask(json!({ "tools": [{ "type": "bash_20250124", "name": "bash" }] })),
            "tools[0].type",
        ),
        (
            Dialect::Messages,
            Dialect::Gemini,
            ask(
                json!({ "messages": [{ "role": "user", "content": [{ "type": "image", "source": { "type": "url", "url": "https://a.example/b.png" } }] }] }),
            ),
            "messages",
        ),
        (
            Dialect::Messages,
            Dialect::Chat,
            ask(json!({ "mcp_servers": [{}] })),
            "mcp_servers",
        ),
        (
            Dialect::Gemini,
            Dialect::Chat,
            json!({ "contents": [], "cachedContent": "x" }),
            "cachedContent",
        ),
        (
            Dialect::Gemini,
            Dialect::Chat,
            json!({ "contents": [], "tools": [{ "googleSearch": {} }] }),
            "tools[0].googleSearch",
        ),
        (
            Dialect::Gemini,
            Dialect::Chat,
            json!({ "contents": [], "generationConfig": { "responseLogprobs": true } }),
            "generationConfig.responseLogprobs",
        ),
        (
            Dialect::Responses,
            Dialect::Chat,
            json!({ "model": "x", "input": "a", "previous_response_id": "r" }),
            "previous_response_id",
        ),
        (
            Dialect::Responses,
            Dialect::Messages,
            json!({ "model": "x", "input": [{ "type": "computer_call" }] }),
            "input[0].type",
        ),
    ] {
        let refused = convert(client, provider, &body).expect_err(&body.to_string());
        assert_eq!(refused.path, path, "{body}");
        assert_eq!(refused.refusal().code.name, "llm.unconvertible");
    }
}

#[test]
fn an_answer_is_said_in_each_dialect() {
    let chat = json!({
        "id": "a1", "choices": [{ "finish_reason": "tool_calls", "message": { "content": "I look.", "reasoning_content": "hm", "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "see", "arguments": "{\"a\":1}" } },
        ] } }],
        "usage": { "prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": { "cached_tokens": 3 } },
    });
    let say = |client| {
        Conversion {
            client,
            provider: Dialect::Chat,
        }
        .answer(&chat, "smart")
        .unwrap()
    };
    let messages = say(Dialect::Messages);
    assert_eq!(
        (&messages["model"], &messages["stop_reason"]),
        (&json!("smart"), &json!("tool_use"))
    );
    assert_eq!(
        messages["content"][2],
        json!({ "type": "tool_use", "id": "c1", "name": "see", "input": { "a": 1 } })
    );
    assert_eq!(
        messages["usage"],
        json!({ "input_tokens": 8, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0, "output_tokens": 7 })
    );
    let gemini = say(Dialect::Gemini);
    assert_eq!(
        gemini["candidates"][0]["content"]["parts"][0],
        json!({ "text": "hm", "thought": true })
    );
    assert_eq!(gemini["usageMetadata"]["promptTokenCount"], 11);
    let responses = say(Dialect::Responses);
    assert_eq!(responses["output"][1]["content"][0]["text"], "I look.");
    assert_eq!(
        (&responses["status"], &responses["output"][2]["call_id"]),
        (&json!("completed"), &json!("c1"))
    );
    for nothing in [json!({}), json!({ "choices": [] }), json!([])] {
        for provider in PROVIDERS {
            assert!(
                Conversion {
                    client: Dialect::Chat,
                    provider
                }
                .answer(&nothing, "m")
                .is_err()
            );
        }
    }
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn word(&mut self) -> String {
        let words = ["river", "weir \"high\"", "a\nb", "ü…", "<tag>", "{\"x\":1}"];
        words[self.below(6) as usize].to_owned()
    }

    /// A conversation that all dialects have words for.
    fn talk(&mut self) -> Talk {
        let mut talk = Talk {
            max_tokens: Some(1 + self.below(9)),
            ..Talk::default()
        };
        if self.below(2) == 0 {
            talk.system.push(self.word());
        }
        talk.tools = vec![TalkTool {
            name: "see".to_owned(),
            description: Some(self.word()),
            schema: json!({ "type": "object" }),
            is_strict: None,
        }];
        talk.choice = [ToolChoice::Auto, ToolChoice::Nothing, ToolChoice::Any]
            [self.below(3) as usize]
            .clone();
        for turn in 0..1 + self.below(4) {
            talk.turns.push(Turn {
                speaker: Speaker::User,
                blocks: vec![TalkBlock::Text(self.word())],
            });
            let call = ToolUse {
                id: format!("c{turn}"),
                name: "see".to_owned(),
                input: json!({ "what": self.word() }),
            };
            let blocks = vec![TalkBlock::Text(self.word()), TalkBlock::Call(call)];
            talk.turns.push(Turn {
                speaker: Speaker::Assistant,
                blocks,
            });
            let result = TalkBlock::Result {
                id: format!("c{turn}"),
                content: vec![TalkBlock::Text(self.word())],
                is_error: false,
            };
            talk.turns.push(Turn {
                speaker: Speaker::User,
                blocks: vec![result],
            });
            talk.turns.push(Turn {
                speaker: Speaker::Assistant,
                blocks: vec![TalkBlock::Text(self.word())],
            });
        }
        talk
    }
}

#[test]
fn conversations_mean_the_same_there_and_back() {
    let mut dice = Dice(7);
    for _ in 0..500 {
        let talk = dice.talk();
        let chat = chat::write(&talk, "m").unwrap();
        assert_eq!(chat::read(&chat).unwrap(), talk, "{chat}");
        let messages = messages::write(&talk, "m").unwrap();
        assert_eq!(messages::read(&messages).unwrap(), talk, "{messages}");
        // Google's calls have numbers in the place of ids.
        let google = gemini::read(&gemini::write(&talk).unwrap()).unwrap();
        assert_eq!(google.turns.len(), talk.turns.len());
        assert_eq!(
            messages::read(&convert(Dialect::Chat, Dialect::Messages, &chat).unwrap()).unwrap(),
            talk
        );
    }
}

/// What a client makes of a stream of its dialect.
fn gathered(client: Dialect, events: &str) -> Said {
    let mut said = Said::default();
    if client == Dialect::Responses {
        let last = events
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("data: "))
            .unwrap();
        let response = &serde_json::from_str::<Value>(last).unwrap()["response"];
        said.usage = base::record::Usage {
            input: response["usage"]["input_tokens"].as_u64().unwrap(),
            output: response["usage"]["output_tokens"].as_u64().unwrap(),
            ..Default::default()
        };
        for item in response["output"].as_array().unwrap() {
            said.blocks.push(match item["type"].as_str().unwrap() {
                "message" => {
                    TalkBlock::Text(item["content"][0]["text"].as_str().unwrap().to_owned())
                }
                "reasoning" => {
                    TalkBlock::Thinking(item["summary"][0]["text"].as_str().unwrap().to_owned())
                }
                _ => TalkBlock::Call(ToolUse {
                    id: item["call_id"].as_str().unwrap().to_owned(),
                    name: item["name"].as_str().unwrap().to_owned(),
                    input: serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap(),
                }),
            });
        }
        return said;
    }
    // Read as the same dialect's, and written as responses, which say all again at the end.
    let mut stream = StreamConversion::new(
        Conversion {
            client: Dialect::Responses,
            provider: client,
        },
        "m",
    );
    let mut out = Vec::new();
    stream.events(events.as_bytes(), &mut out);
    stream.end(&mut out);
    assert!(stream.is_ended());
    gathered(Dialect::Responses, std::str::from_utf8(&out).unwrap())
}

fn chat_stream() -> String {
    let chunk = |delta: Value, finish: Value| json!({ "id": "a1", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let events = [
        chunk(json!({ "role": "assistant", "content": "" }), Value::Null),
        chunk(json!({ "reasoning_content": "hm" }), Value::Null),
        chunk(json!({ "content": "I " }), Value::Null),
        chunk(json!({ "content": "look." }), Value::Null),
        chunk(
            json!({ "tool_calls": [{ "index": 0, "id": "c1", "function": { "name": "see", "arguments": "" } }] }),
            Value::Null,
        ),
        chunk(
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"a\":" } }] }),
            Value::Null,
        ),
        chunk(
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "1}" } }] }),
            Value::Null,
        ),
        chunk(
            json!({ "tool_calls": [{ "index": 1, "id": "c2", "function": { "name": "see", "arguments": "{}" } }] }),
            Value::Null,
        ),
        chunk(json!({}), json!("tool_calls")),
        json!({ "id": "a1", "choices": [], "usage": { "prompt_tokens": 11, "completion_tokens": 7 } }),
    ];
    let events: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    events.concat() + "data: [DONE]\n\n"
}

/// The same answer in a dialect.
fn in_dialect(dialect: Dialect) -> String {
    if dialect == Dialect::Chat {
        return chat_stream();
    }
    let mut stream = StreamConversion::new(
        Conversion {
            client: dialect,
            provider: Dialect::Chat,
        },
        "m",
    );
    let mut out = Vec::new();
    stream.events(chat_stream().as_bytes(), &mut out);
    stream.end(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_stream_says_the_same_in_each_dialect() {
    let wanted = gathered(Dialect::Chat, &chat_stream());
    assert_eq!(wanted.blocks.len(), 4);
    assert_eq!(wanted.blocks[1], TalkBlock::Text("I look.".to_owned()));
    assert_eq!((wanted.usage.input, wanted.usage.output), (11, 7));
    for provider in PROVIDERS {
        let given = in_dialect(provider);
        for client in ALL {
            let mut stream = StreamConversion::new(Conversion { client, provider }, "m");
            // One event after another, as they are let go.
            let mut out = Vec::new();
            for event in given.split_inclusive("\n\n") {
                stream.events(event.as_bytes(), &mut out);
            }
            stream.end(&mut out);
            let out = String::from_utf8(out).unwrap();
            let said = gathered(client, &out);
            assert_eq!(
                said.blocks, wanted.blocks,
                "{provider:?} to {client:?}: {out}"
            );
            assert_eq!(said.usage.output, 7);
        }
    }
    let messages = in_dialect(Dialect::Messages);
    let names: Vec<&str> = messages
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(
        (names[0], names[names.len() - 1]),
        ("message_start", "message_stop")
    );
    assert_eq!(
        names
            .iter()
            .filter(|name| **name == "content_block_start")
            .count(),
        4
    );
    assert_eq!(
        names
            .iter()
            .filter(|name| **name == "content_block_stop")
            .count(),
        4
    );
}

#[test]
fn a_stream_that_fails_or_breaks_off_is_not_whole() {
    for provider in PROVIDERS {
        for client in ALL {
            let conversion = Conversion { client, provider };
            let mut stream = StreamConversion::new(conversion, "m");
            let mut out = Vec::new();
            let given = in_dialect(provider);
            let first: String = given.split_inclusive("\n\n").take(3).collect();
            stream.events(first.as_bytes(), &mut out);
            stream.end(&mut out);
            assert!(!stream.is_ended(), "{provider:?} to {client:?}");
            let error = json!({ "type": "error", "error": { "message": "overloaded" } });
            stream.events(format!("data: {error}\n\n").as_bytes(), &mut out);
            assert!(stream.is_ended());
            let text = String::from_utf8(out.clone()).unwrap();
            assert!(
                text.contains("overloaded"),
                "{provider:?} to {client:?}: {text}"
            );
            let before = out.len();
            stream.events(given.as_bytes(), &mut out);
            stream.end(&mut out);
            assert_eq!(out.len(), before, "nothing is said after the end");
        }
    }
}

#[test]
fn what_two_readers_could_take_for_two_answers_is_refused() {
    let call =
        |call: Value| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
    let named = |index: u64, name: &str| {
        call(json!({ "index": index, "id": "c1", "function": { "name": name, "arguments": "{}" } }))
    };
    let filled = json!({ "type": "content_block_start", "index": 0, "content_block": {
        "type": "tool_use", "id": "c1", "name": "see", "input": { "a": 1 } } });
    let more = json!({ "type": "content_block_delta", "index": 0, "delta": {
        "type": "input_json_delta", "partial_json": "{}" } });
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": "AAAA" } });
    for (provider, events) in [
        (
            Dialect::Chat,
            vec![call(
                json!({ "function": { "name": "see", "arguments": "{}" } }),
            )],
        ),
        (Dialect::Chat, vec![named(0, "see"), named(0, "run")]),
        (
            Dialect::Chat,
            vec![json!({ "choices": [{ "index": 1, "delta": { "content": "x" } }] })],
        ),
        (
            Dialect::Chat,
            vec![
                json!({ "choices": [{ "index": 0, "delta": { "function_call": { "name": "run" } } }] }),
            ],
        ),
        (Dialect::Messages, vec![filled.clone(), more]),
        (
            Dialect::Gemini,
            vec![json!({ "candidates": [{ "content": { "parts": [image] } }] })],
        ),
    ] {
        let conversion = Conversion {
            client: Dialect::Responses,
            provider,
        };
        let mut stream = StreamConversion::new(conversion, "m");
        let mut out = Vec::new();
        for event in &events {
            assert!(!stream.is_ended());
            stream.events(format!("data: {event}\n\n").as_bytes(), &mut out);
        }
        let out = String::from_utf8(out).unwrap();
        assert!(
            stream.is_ended() && out.contains("llm.answer_invalid"),
            "{out}"
        );
    }
    // The same name once more, and arguments that stand whole in a call's beginning, can be read in one way.
    let conversion = Conversion {
        client: Dialect::Chat,
        provider: Dialect::Chat,
    };
    let mut stream = StreamConversion::new(conversion, "m");
    let mut out = Vec::new();
    for event in [named(0, "see"), named(0, "see"), named(1, "run")] {
        stream.events(format!("data: {event}\n\n").as_bytes(), &mut out);
    }
    let conversion = Conversion {
        client: Dialect::Chat,
        provider: Dialect::Messages,
    };
    let mut stream = StreamConversion::new(conversion, "m");
    stream.events(format!("data: {filled}\n\n").as_bytes(), &mut out);
    let out = String::from_utf8(out).unwrap();
    assert!(
        !out.contains("llm.answer_invalid") && out.contains(r#"{\"a\":1}"#),
        "{out}"
    );
}

#[test]
fn what_would_be_dropped_is_refused() {
    let path = |client, provider, body: &Value| convert(client, provider, body).unwrap_err().path;
    let shown = json!({ "contents": [{ "role": "model", "parts": [{ "inlineData": { "mimeType": "image/png", "data": "AAAA" } }] }] });
    assert_eq!(path(Dialect::Gemini, Dialect::Chat, &shown), "messages");
    let twice = json!({
        "systemInstruction": { "parts": [{ "text": "a" }] }, "system_instruction": { "parts": [{ "text": "b" }] },
        "contents": [{ "parts": [{ "text": "x" }] }],
    });
    assert_eq!(
        path(Dialect::Gemini, Dialect::Chat, &twice),
        "system_instruction"
    );
    let conversion = Conversion {
        client: Dialect::Chat,
        provider: Dialect::Gemini,
    };
    let answer = json!({ "candidates": [{ "content": { "parts": [{ "inlineData": { "mimeType": "image/png", "data": "AAAA" } }] } }] });
    assert_eq!(
        conversion.answer(&answer, "m").unwrap_err().path,
        "the answer"
    );
    let conversion = Conversion {
        client: Dialect::Messages,
        provider: Dialect::Chat,
    };
    let answer = json!({ "choices": [{ "message": { "content": null, "function_call": { "name": "run", "arguments": "{}" } } }] });
    assert!(conversion.answer(&answer, "m").is_err());
}

#[test]
fn what_a_model_may_answer_is_what_the_provider_is_told() {
    let conversion = Conversion {
        client: Dialect::Chat,
        provider: Dialect::Messages,
    };
    for (effort, wanted) in [(json!(null), 10), (json!("high"), 24_586)] {
        let body = json!({ "max_tokens": 10, "reasoning_effort": effort, "messages": [{ "role": "user", "content": "x" }] });
        assert_eq!(conversion.output_max(&body), Some(wanted));
        assert_eq!(
            conversion.request(&body, "m", false).unwrap()["max_tokens"],
            wanted
        );
    }
    let conversion = Conversion {
        client: Dialect::Messages,
        provider: Dialect::Chat,
    };
    assert_eq!(conversion.output_max(&json!({})), None);
}

#[test]
fn stops_are_said_in_each_dialects_words() {
    for (stop, chat_word, messages_word, gemini_word) in [
        (Stop::End, "stop", "end_turn", "STOP"),
        (Stop::Length, "length", "max_tokens", "MAX_TOKENS"),
        (Stop::Calls, "tool_calls", "tool_use", "STOP"),
        (Stop::Sequence(None), "stop", "stop_sequence", "STOP"),
        (Stop::Filtered, "content_filter", "refusal", "SAFETY"),
    ] {
        assert_eq!(chat::stop_word(&stop), chat_word);
        assert_eq!(messages::stop_word(&stop), messages_word);
        assert_eq!(gemini::stop_word(&stop), gemini_word);
    }
    assert_eq!(chat::stop(Some("stop"), true), Stop::Calls);
    assert_eq!(gemini::stop(Some("STOP"), true), Stop::Calls);
    assert_eq!(messages::stop(Some("brand_new"), None), Stop::End);
}

/// What a client is told of a stream that comes in these pieces, and whether the answer is whole.
fn told<'p>(conversion: Conversion, pieces: impl Iterator<Item = &'p [u8]>) -> (String, bool) {
    let mut splitter = Splitter::new(1 << 20);
    let mut stream = StreamConversion::new(conversion, "m");
    let mut out = Vec::new();
    for piece in pieces {
        splitter.push(piece).unwrap();
        while let Some(event) = splitter.next() {
            stream.events(&event, &mut out);
        }
    }
    stream.end(&mut out);
    (String::from_utf8(out).unwrap(), stream.is_ended())
}

#[test]
fn a_stream_says_the_same_wherever_it_is_cut_and_is_whole_only_to_its_end() {
    for (provider, client) in PROVIDERS
        .iter()
        .flat_map(|of| ALL.map(|client| (*of, client)))
    {
        let conversion = Conversion { client, provider };
        let last = match client {
            Dialect::Chat => "[DONE]",
            Dialect::Messages => "message_stop",
            Dialect::Gemini => "finishReason",
            Dialect::Responses => "response.completed",
        };
        for given in [
            in_dialect(provider),
            in_dialect(provider).replace('\n', "\r\n"),
        ] {
            let given = given.as_bytes();
            let (whole, is_whole) = told(conversion, std::iter::once(given));
            assert!(
                is_whole && whole.contains(last),
                "{provider:?} to {client:?}"
            );
            for at in 0..given.len() {
                let (one, other) = given.split_at(at);
                assert_eq!(
                    told(conversion, [one, other].into_iter()).0,
                    whole,
                    "cut at {at}"
                );
                // Where the provider breaks off, nobody is told that this was all.
                let (begun, is_ended) = told(conversion, std::iter::once(one));
                if !is_ended {
                    let is_begin = whole.starts_with(&begun) && !begun.contains(last);
                    assert!(is_begin, "{provider:?} to {client:?}, at {at}: {begun}");
                }
            }
        }
    }
}
