//! Anthropic's messages. Source: Anthropic API reference, "Messages".

use base::record::Usage;
use serde_json::{Map, Value, json};

use super::fields::{checked, given, items, known, text};
use super::talk::{
    AnswerFormat, Effort, ImageFrom, Said, Speaker, Stop, Talk, TalkBlock, TalkTool, ToolChoice,
    ToolUse,
};
use super::{Dialect, Unconvertible};
use crate::usage::counted_by_anthropic;

/// The bound of an answer where the client says none, which this dialect has to be told.
const MAX_TOKENS_DEFAULT: u64 = 4_096;
/// Least tokens that a model may be given to think.
const THINKING_MIN: u64 = 1_024;

pub(super) fn read(body: &Value) -> Result<Talk, Unconvertible> {
    let body = checked(body, Dialect::Messages)?;
    let mut talk = Talk {
        temperature: given(body, "temperature"),
        top_p: given(body, "top_p"),
        top_k: given(body, "top_k"),
        max_tokens: given(body, "max_tokens").and_then(|most| most.as_u64()),
        stop: super::chat::stops(body.get("stop_sequences"), "stop_sequences")?,
        ..Talk::default()
    };
    let user = body
        .get("metadata")
        .and_then(|metadata| metadata["user_id"].as_str());
    talk.user = user.map(str::to_owned);
    talk.effort = effort(body)?;
    talk.format = format(body)?;
    match body.get("system") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => talk.system.push(text.clone()),
        list => {
            for (i, block) in items(list, "system")?.iter().enumerate() {
                talk.system
                    .push(text(block.get("text"), &format!("system[{i}].text"))?);
            }
        }
    }
    for (i, tool) in items(body.get("tools"), "tools")?.iter().enumerate() {
        talk.tools.push(read_tool(tool, &format!("tools[{i}]"))?);
    }
    if let Some(choice) = body.get("tool_choice").filter(|choice| !choice.is_null()) {
        talk.choice = match choice["type"].as_str() {
            Some("auto") => ToolChoice::Auto,
            Some("none") => ToolChoice::Nothing,
            Some("any") => ToolChoice::Any,
            Some("tool") => ToolChoice::One(text(choice.get("name"), "tool_choice.name")?),
            _ => {
                return Err(Unconvertible::new(
                    "tool_choice.type",
                    "says what this provider has no word for",
                ));
            }
        };
        talk.parallel = choice["disable_parallel_tool_use"]
            .as_bool()
            .map(|off| !off);
    }
    for (i, message) in items(body.get("messages"), "messages")?.iter().enumerate() {
        let path = format!("messages[{i}]");
        known(message, &path, &["role", "content"])?;
        let speaker = match message["role"].as_str() {
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Assistant,
            _ => {
                return Err(Unconvertible::new(
                    format!("{path}.role"),
                    "is neither user nor assistant",
                ));
            }
        };
        talk.say(
            speaker,
            read_content(&message["content"], &format!("{path}.content"))?,
        );
    }
    Ok(talk)
}

fn effort(body: &Map<String, Value>) -> Result<Option<Effort>, Unconvertible> {
    let config = body
        .get("output_config")
        .and_then(|config| config["effort"].as_str());
    let word = config.map(|word| Effort::Word(word.to_owned()));
    let Some(thinking) = body.get("thinking").filter(|thinking| !thinking.is_null()) else {
        return Ok(word);
    };
    Ok(match thinking["type"].as_str() {
        Some("disabled") => None,
        // The model decides by itself.
        Some("adaptive") => word,
        Some("enabled") => thinking["budget_tokens"]
            .as_u64()
            .map(Effort::Tokens)
            .or(word),
        _ => {
            return Err(Unconvertible::new(
                "thinking.type",
                "says what this provider has no word for",
            ));
        }
    })
}

fn format(body: &Map<String, Value>) -> Result<AnswerFormat, Unconvertible> {
    if let Some(config) = body.get("output_config") {
        known(config, "output_config", &["effort", "format"])?;
    }
    let inner = body.get("output_config").map(|config| &config["format"]);
    let format = body
        .get("output_format")
        .or(inner)
        .filter(|format| !format.is_null());
    match format {
        None => Ok(AnswerFormat::Text),
        Some(format) if format["type"] == "json_schema" => Ok(AnswerFormat::Schema {
            name: "answer".to_owned(),
            schema: format["schema"].clone(),
            is_strict: Some(true),
        }),
        Some(_) => Err(Unconvertible::new(
            "output_format.type",
            "is a format that the provider does not have",
        )),
    }
}

fn read_tool(tool: &Value, path: &str) -> Result<TalkTool, Unconvertible> {
    if !matches!(tool["type"].as_str(), None | Some("custom")) {
        return Err(Unconvertible::new(
            format!("{path}.type"),
            "is a tool that the provider does not run",
        ));
    }
    let names = [
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "strict",
        "eager_input_streaming",
        "input_examples",
        "defer_loading",
    ];
    known(tool, path, &names)?;
    let schema = tool.get("input_schema").filter(|schema| !schema.is_null());
    Ok(TalkTool {
        name: text(tool.get("name"), &format!("{path}.name"))?,
        description: tool["description"].as_str().map(str::to_owned),
        schema: schema
            .cloned()
            .unwrap_or_else(|| json!({ "type": "object" })),
        is_strict: tool["strict"].as_bool(),
    })
}

fn read_content(content: &Value, path: &str) -> Result<Vec<TalkBlock>, Unconvertible> {
    if let Some(text) = content.as_str() {
        return Ok(vec![TalkBlock::Text(text.to_owned())]);
    }
    let mut blocks = Vec::new();
    for (i, block) in items(Some(content), path)?.iter().enumerate() {
        blocks.extend(read_block(block, &format!("{path}[{i}]"))?);
    }
    Ok(blocks)
}

fn read_block(block: &Value, at: &str) -> Result<Option<TalkBlock>, Unconvertible> {
    Ok(Some(match block["type"].as_str() {
        Some("text") => TalkBlock::Text(text(block.get("text"), at)?),
        Some("image") => TalkBlock::Image(read_image(&block["source"], at)?),
        Some("thinking") => TalkBlock::Thinking(text(block.get("thinking"), at)?),
        // It can be read by the provider that wrote it alone.
        Some("redacted_thinking") => return Ok(None),
        Some("tool_use") => TalkBlock::Call(ToolUse {
            id: text(block.get("id"), &format!("{at}.id"))?,
            name: text(block.get("name"), &format!("{at}.name"))?,
            input: block.get("input").cloned().unwrap_or_else(|| json!({})),
        }),
        Some("tool_result") => TalkBlock::Result {
            id: text(block.get("tool_use_id"), &format!("{at}.tool_use_id"))?,
            content: match &block["content"] {
                Value::Null => Vec::new(),
                content => read_content(content, &format!("{at}.content"))?,
            },
            is_error: block["is_error"].as_bool().unwrap_or(false),
        },
        _ => {
            return Err(Unconvertible::new(
                at,
                "is of a kind that the provider does not take",
            ));
        }
    }))
}

fn read_image(source: &Value, at: &str) -> Result<ImageFrom, Unconvertible> {
    match source["type"].as_str() {
        Some("url") => Ok(ImageFrom::Url(text(source.get("url"), at)?)),
        Some("base64") => Ok(ImageFrom::Data(
            text(source.get("media_type"), at)?,
            text(source.get("data"), at)?,
        )),
        _ => Err(Unconvertible::new(
            format!("{at}.source.type"),
            "is neither url nor base64",
        )),
    }
}

/// Tokens that the model may think, where it is to.
fn thinking(talk: &Talk) -> Option<u64> {
    let tokens = talk.effort.as_ref().map(Effort::tokens);
    let tokens = tokens.filter(|tokens| *tokens > 0);
    tokens.map(|tokens| tokens.max(THINKING_MIN))
}

/// Tokens that the answer may have. What is thought is of the bound; the client's bound is for what is said.
pub(super) fn output_max(talk: &Talk) -> u64 {
    let most = talk.max_tokens.unwrap_or(MAX_TOKENS_DEFAULT);
    match thinking(talk) {
        Some(tokens) => most.max(tokens.saturating_add(MAX_TOKENS_DEFAULT.min(most))),
        None => most,
    }
}

pub(super) fn write(talk: &Talk, model: &str) -> Result<Value, Unconvertible> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    let thinking = thinking(talk);
    if let Some(tokens) = thinking {
        set(
            "thinking",
            Some(json!({ "type": "enabled", "budget_tokens": tokens })),
        );
    }
    set("model", Some(model.into()));
    set("max_tokens", Some(output_max(talk).into()));
    set(
        "system",
        (!talk.system.is_empty()).then(|| talk.system.join("\n\n").into()),
    );
    // A model that thinks takes no temperature of the client's.
    set(
        "temperature",
        talk.temperature
            .clone()
            .filter(|_| thinking.is_none())
            .map(bounded),
    );
    set("top_p", talk.top_p.clone().filter(|_| thinking.is_none()));
    set("top_k", talk.top_k.clone());
    set(
        "stop_sequences",
        (!talk.stop.is_empty()).then(|| json!(talk.stop)),
    );
    set(
        "metadata",
        talk.user.as_ref().map(|user| json!({ "user_id": user })),
    );
    if !talk.tools.is_empty() {
        set("tools", Some(talk.tools.iter().map(write_tool).collect()));
    }
    set("tool_choice", write_choice(talk));
    match &talk.format {
        AnswerFormat::Text => {}
        AnswerFormat::Schema { schema, .. } => set(
            "output_config",
            Some(json!({ "format": { "type": "json_schema", "schema": schema } })),
        ),
        AnswerFormat::Json => {
            return Err(Unconvertible::new(
                "response_format",
                "asks for JSON without a schema, which the provider does not promise; give a json_schema",
            ));
        }
    }
    if talk.is_stream {
        set("stream", Some(true.into()));
    }
    let messages: Vec<Value> = talk
        .turns
        .iter()
        .map(|turn| {
            let role = match turn.speaker {
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            };
            let content: Vec<Value> = turn.blocks.iter().filter_map(write_block).collect();
            json!({ "role": role, "content": content })
        })
        .filter(|message| message["content"] != json!([]))
        .collect();
    set("messages", Some(messages.into()));
    Ok(Value::Object(body))
}

/// Anthropic's temperatures end at 1, others' at 2.
fn bounded(temperature: Value) -> Value {
    match temperature.as_f64() {
        Some(above) if above > 1.0 => json!(1.0),
        _ => temperature,
    }
}

fn write_choice(talk: &Talk) -> Option<Value> {
    if talk.tools.is_empty() {
        return None;
    }
    let mut choice = match &talk.choice {
        ToolChoice::Unsaid if talk.parallel.is_none() => return None,
        ToolChoice::Unsaid | ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::Nothing => return Some(json!({ "type": "none" })),
        ToolChoice::Any => json!({ "type": "any" }),
        ToolChoice::One(name) => json!({ "type": "tool", "name": name }),
    };
    if let Some(parallel) = talk.parallel {
        choice["disable_parallel_tool_use"] = (!parallel).into();
    }
    Some(choice)
}

fn write_tool(tool: &TalkTool) -> Value {
    let mut written = json!({ "name": tool.name, "input_schema": tool.schema });
    if let Some(description) = &tool.description {
        written["description"] = description.as_str().into();
    }
    if let Some(is_strict) = tool.is_strict {
        written["strict"] = is_strict.into();
    }
    written
}

/// A block; nothing for what a model thought, which another cannot read, and for a text without a letter, which is an error there.
fn write_block(block: &TalkBlock) -> Option<Value> {
    Some(match block {
        TalkBlock::Text(text) if text.trim().is_empty() => return None,
        TalkBlock::Text(text) => json!({ "type": "text", "text": text }),
        TalkBlock::Image(ImageFrom::Url(url)) => {
            json!({ "type": "image", "source": { "type": "url", "url": url } })
        }
        TalkBlock::Image(ImageFrom::Data(kind, data)) => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } })
        }
        TalkBlock::Thinking(_) => return None,
        TalkBlock::Call(call) => {
            json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.input })
        }
        TalkBlock::Result {
            id,
            content,
            is_error,
        } => {
            let content: Vec<Value> = content.iter().filter_map(write_block).collect();
            let mut result =
                json!({ "type": "tool_result", "tool_use_id": id, "content": content });
            if *is_error {
                result["is_error"] = true.into();
            }
            result
        }
    })
}

pub(super) fn read_answer(body: &Value) -> Result<Said, Unconvertible> {
    let mut blocks = Vec::new();
    if !body["content"].is_array() {
        return Err(Unconvertible::new(
            "content",
            "is missing from the provider's answer",
        ));
    }
    for (i, block) in items(body.get("content"), "content")?.iter().enumerate() {
        blocks.extend(read_block(block, &format!("content[{i}]"))?);
    }
    Ok(Said {
        id: body["id"].as_str().unwrap_or_default().to_owned(),
        blocks,
        stop: stop(body["stop_reason"].as_str(), body["stop_sequence"].as_str()),
        usage: counted_by_anthropic(&body["usage"]),
    })
}

pub(super) fn stop(reason: Option<&str>, sequence: Option<&str>) -> Stop {
    match reason {
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("tool_use") => Stop::Calls,
        Some("stop_sequence") => Stop::Sequence(sequence.map(str::to_owned)),
        Some("refusal") => Stop::Filtered,
        _ => Stop::End,
    }
}

pub(super) fn stop_word(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "end_turn",
        Stop::Length => "max_tokens",
        Stop::Calls => "tool_use",
        Stop::Sequence(_) => "stop_sequence",
        Stop::Filtered => "refusal",
    }
}

pub(super) fn write_answer(said: &Said, model: &str) -> Value {
    let content: Vec<Value> = said
        .blocks
        .iter()
        .filter_map(|block| match block {
            // It is shown to the client; no signature of the provider's own can be made for it.
            TalkBlock::Thinking(text) => {
                Some(json!({ "type": "thinking", "thinking": text, "signature": "" }))
            }
            block => write_block(block),
        })
        .collect();
    let sequence = match &said.stop {
        Stop::Sequence(sequence) => sequence.clone(),
        _ => None,
    };
    json!({
        "id": said.id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_word(&said.stop),
        "stop_sequence": sequence,
        "usage": write_usage(&said.usage),
    })
}

pub(super) fn write_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cached_read,
        "cache_creation_input_tokens": usage.cached_write,
        "output_tokens": usage.output,
    })
}
