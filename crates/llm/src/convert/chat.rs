//! OpenAI's chat completions. Source: OpenAI API reference, "Chat".

use serde_json::{Map, Value, json};

use super::fields::{checked, given, items, known, text};
use super::talk::{
    AnswerFormat, Effort, ImageFrom, Said, Speaker, Stop, Talk, TalkBlock, TalkTool, ToolChoice,
    ToolUse, Turn,
};
use super::{Dialect, Unconvertible, all_input};
use crate::usage::counted_by_openai;

pub(super) fn read(body: &Value) -> Result<Talk, Unconvertible> {
    let body = checked(body, Dialect::Chat)?;
    let mut talk = Talk {
        temperature: given(body, "temperature"),
        top_p: given(body, "top_p"),
        parallel: body.get("parallel_tool_calls").and_then(Value::as_bool),
        stop: stops(body.get("stop"), "stop")?,
        effort: effort(body.get("reasoning_effort")),
        ..Talk::default()
    };
    let user = given(body, "safety_identifier").or(given(body, "user"));
    talk.user = user.and_then(|user| user.as_str().map(str::to_owned));
    let most = given(body, "max_completion_tokens").or(given(body, "max_tokens"));
    talk.max_tokens = most.and_then(|most| most.as_u64());
    for (i, tool) in items(body.get("tools"), "tools")?.iter().enumerate() {
        talk.tools.push(read_tool(tool, &format!("tools[{i}]"))?);
    }
    talk.choice = choice(body.get("tool_choice"), "tool_choice")?;
    talk.format = format(body.get("response_format"), "response_format")?;
    for (i, message) in items(body.get("messages"), "messages")?.iter().enumerate() {
        read_message(&mut talk, message, &format!("messages[{i}]"))?;
    }
    Ok(talk)
}

pub(super) fn stops(value: Option<&Value>, path: &str) -> Result<Vec<String>, Unconvertible> {
    match value {
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        list => items(list, path)?
            .iter()
            .map(|item| text(Some(item), path))
            .collect(),
    }
}

pub(super) fn effort(value: Option<&Value>) -> Option<Effort> {
    value
        .and_then(Value::as_str)
        .map(|word| Effort::Word(word.to_owned()))
}

fn read_tool(tool: &Value, path: &str) -> Result<TalkTool, Unconvertible> {
    if tool["type"] != "function" {
        return Err(Unconvertible::new(
            format!("{path}.type"),
            "is not function, and the provider has no such tool",
        ));
    }
    known(tool, path, &["type", "function"])?;
    function(&tool["function"], &format!("{path}.function"))
}

/// A function with its name, description, parameters and strictness.
pub(super) fn function(function: &Value, path: &str) -> Result<TalkTool, Unconvertible> {
    known(
        function,
        path,
        &["type", "name", "description", "parameters", "strict"],
    )?;
    let schema = function
        .get("parameters")
        .filter(|schema| !schema.is_null());
    Ok(TalkTool {
        name: text(function.get("name"), &format!("{path}.name"))?,
        description: function["description"].as_str().map(str::to_owned),
        schema: schema
            .cloned()
            .unwrap_or_else(|| json!({ "type": "object" })),
        is_strict: function["strict"].as_bool(),
    })
}

pub(super) fn choice(value: Option<&Value>, path: &str) -> Result<ToolChoice, Unconvertible> {
    let unknown = || Unconvertible::new(path, "says what this provider has no word for");
    Ok(match value {
        None | Some(Value::Null) => ToolChoice::Unsaid,
        Some(Value::String(word)) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::Nothing,
            "required" => ToolChoice::Any,
            _ => return Err(unknown()),
        },
        Some(one) if one["type"] == "function" => {
            let name = one["function"].get("name").or(one.get("name"));
            ToolChoice::One(text(name, path)?)
        }
        Some(_) => return Err(unknown()),
    })
}

pub(super) fn format(value: Option<&Value>, path: &str) -> Result<AnswerFormat, Unconvertible> {
    let Some(format) = value.filter(|value| !value.is_null()) else {
        return Ok(AnswerFormat::Text);
    };
    match format["type"].as_str() {
        Some("text") => Ok(AnswerFormat::Text),
        Some("json_object") => Ok(AnswerFormat::Json),
        // Chat has the schema in a member of its own, responses beside the type.
        Some("json_schema") => {
            let inner = format.get("json_schema").unwrap_or(format);
            Ok(AnswerFormat::Schema {
                name: inner["name"].as_str().unwrap_or("answer").to_owned(),
                schema: inner["schema"].clone(),
                is_strict: inner["strict"].as_bool(),
            })
        }
        _ => Err(Unconvertible::new(
            path,
            "is a format that the provider does not have",
        )),
    }
}

fn read_message(talk: &mut Talk, message: &Value, path: &str) -> Result<(), Unconvertible> {
    let content = format!("{path}.content");
    match message["role"].as_str() {
        Some("system" | "developer") => {
            known(message, path, &["role", "content", "name"])?;
            let blocks = read_content(&message["content"], &content)?;
            talk.system.extend(texts_of(blocks, &content)?);
        }
        Some("user") => {
            known(message, path, &["role", "content", "name"])?;
            let blocks = read_content(&message["content"], &content)?;
            talk.say(Speaker::User, blocks);
        }
        Some("assistant") => {
            let names = [
                "role",
                "content",
                "name",
                "refusal",
                "tool_calls",
                "annotations",
                "audio",
                "reasoning_content",
                "reasoning",
            ];
            known(message, path, &names)?;
            if !message["audio"].is_null() {
                return Err(Unconvertible::new(
                    format!("{path}.audio"),
                    "is of no other provider",
                ));
            }
            let thoughts = message["reasoning_content"]
                .as_str()
                .or(message["reasoning"].as_str());
            let mut blocks: Vec<TalkBlock> = thoughts
                .map(|text| TalkBlock::Thinking(text.to_owned()))
                .into_iter()
                .collect();
            blocks.extend(read_content(&message["content"], &content)?);
            for (i, call) in items(message.get("tool_calls"), path)?.iter().enumerate() {
                let at = format!("{path}.tool_calls[{i}]");
                blocks.push(TalkBlock::Call(read_call(call, &at)?));
            }
            talk.say(Speaker::Assistant, blocks);
        }
        Some("tool") => {
            known(message, path, &["role", "content", "tool_call_id", "name"])?;
            let block = TalkBlock::Result {
                id: text(message.get("tool_call_id"), &format!("{path}.tool_call_id"))?,
                content: read_content(&message["content"], &content)?,
                is_error: false,
            };
            talk.say(Speaker::User, vec![block]);
        }
        _ => {
            return Err(Unconvertible::new(
                format!("{path}.role"),
                "is none that the provider knows",
            ));
        }
    }
    Ok(())
}

impl Talk {
    /// Adds to the turn of this speaker, or begins one: dialects that take one message a turn get one.
    pub(super) fn say(&mut self, speaker: Speaker, blocks: Vec<TalkBlock>) {
        match self.turns.last_mut().filter(|turn| turn.speaker == speaker) {
            Some(turn) => turn.blocks.extend(blocks),
            None => self.turns.push(Turn { speaker, blocks }),
        }
    }
}

fn read_call(call: &Value, path: &str) -> Result<ToolUse, Unconvertible> {
    let function = &call["function"];
    Ok(ToolUse {
        id: text(call.get("id"), &format!("{path}.id"))?,
        name: text(function.get("name"), &format!("{path}.function.name"))?,
        input: arguments(
            function["arguments"].as_str(),
            &format!("{path}.function.arguments"),
        )?,
    })
}

/// Arguments that are JSON in a text.
pub(super) fn arguments(text: Option<&str>, path: &str) -> Result<Value, Unconvertible> {
    match text.map(str::trim) {
        None | Some("") => Ok(json!({})),
        Some(text) => serde_json::from_str(text)
            .map_err(|_| Unconvertible::new(path, "is no JSON, which the provider asks for")),
    }
}

fn read_content(content: &Value, path: &str) -> Result<Vec<TalkBlock>, Unconvertible> {
    if let Some(text) = content.as_str() {
        return Ok(vec![TalkBlock::Text(text.to_owned())]);
    }
    let mut blocks = Vec::new();
    for (i, part) in items(Some(content), path)?.iter().enumerate() {
        let at = format!("{path}[{i}]");
        blocks.push(match part["type"].as_str() {
            Some("text") => TalkBlock::Text(text(part.get("text"), &at)?),
            Some("refusal") => TalkBlock::Text(text(part.get("refusal"), &at)?),
            Some("image_url") => {
                TalkBlock::Image(image(&text(part["image_url"].get("url"), &at)?, &at)?)
            }
            _ => {
                return Err(Unconvertible::new(
                    at,
                    "is of a kind that the provider does not take",
                ));
            }
        });
    }
    Ok(blocks)
}

/// An image that a URL names, or holds (RFC 2397).
pub(super) fn image(url: &str, path: &str) -> Result<ImageFrom, Unconvertible> {
    let Some(data) = url.strip_prefix("data:") else {
        return Ok(ImageFrom::Url(url.to_owned()));
    };
    let coded = data.split_once(";base64,");
    let coded = coded.map(|(kind, data)| ImageFrom::Data(kind.to_owned(), data.to_owned()));
    coded.ok_or_else(|| Unconvertible::new(path, "is a data URL that is not base64"))
}

pub(super) fn texts_of(blocks: Vec<TalkBlock>, path: &str) -> Result<Vec<String>, Unconvertible> {
    let text = |block| match block {
        TalkBlock::Text(text) => Ok(text),
        _ => Err(Unconvertible::new(path, "may hold texts alone")),
    };
    blocks.into_iter().map(text).collect()
}

pub(super) fn write(talk: &Talk, model: &str) -> Result<Value, Unconvertible> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    if talk.top_k.is_some() {
        return Err(Unconvertible::new(
            "top_k",
            "has no counterpart at this provider; leave it out",
        ));
    }
    let shows = |turn: &Turn| {
        let mut blocks = turn.blocks.iter();
        turn.speaker == Speaker::Assistant
            && blocks.any(|block| matches!(block, TalkBlock::Image(_)))
    };
    if talk.turns.iter().any(shows) {
        return Err(Unconvertible::new(
            "messages",
            "have an image that the assistant shows, which this provider does not take",
        ));
    }
    set("model", Some(model.into()));
    set("messages", Some(write_messages(talk)));
    set("temperature", talk.temperature.clone());
    set("top_p", talk.top_p.clone());
    set("max_completion_tokens", talk.max_tokens.map(Value::from));
    set("stop", (!talk.stop.is_empty()).then(|| json!(talk.stop)));
    set("user", talk.user.clone().map(Value::from));
    set(
        "reasoning_effort",
        talk.effort.as_ref().map(|effort| effort.word().into()),
    );
    if !talk.tools.is_empty() {
        set("tools", Some(talk.tools.iter().map(write_tool).collect()));
        set("parallel_tool_calls", talk.parallel.map(Value::from));
    }
    set(
        "tool_choice",
        match &talk.choice {
            ToolChoice::Unsaid => None,
            ToolChoice::Auto => Some("auto".into()),
            ToolChoice::Nothing => Some("none".into()),
            ToolChoice::Any => Some("required".into()),
            ToolChoice::One(name) => {
                Some(json!({ "type": "function", "function": { "name": name } }))
            }
        },
    );
    set(
        "response_format",
        match &talk.format {
            AnswerFormat::Text => None,
            AnswerFormat::Json => Some(json!({ "type": "json_object" })),
            AnswerFormat::Schema {
                name,
                schema,
                is_strict,
            } => {
                let mut inner = json!({ "name": name, "schema": schema });
                if let Some(is_strict) = is_strict {
                    inner["strict"] = (*is_strict).into();
                }
                Some(json!({ "type": "json_schema", "json_schema": inner }))
            }
        },
    );
    if talk.is_stream {
        set("stream", Some(true.into()));
        set("stream_options", Some(json!({ "include_usage": true })));
    }
    Ok(Value::Object(body))
}

fn write_tool(tool: &TalkTool) -> Value {
    let mut function = json!({ "name": tool.name, "parameters": tool.schema });
    if let Some(description) = &tool.description {
        function["description"] = description.as_str().into();
    }
    if let Some(is_strict) = tool.is_strict {
        function["strict"] = is_strict.into();
    }
    json!({ "type": "function", "function": function })
}

fn write_messages(talk: &Talk) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if !talk.system.is_empty() {
        messages.push(json!({ "role": "system", "content": talk.system.join("\n\n") }));
    }
    for turn in &talk.turns {
        match turn.speaker {
            Speaker::User => write_user(&turn.blocks, &mut messages),
            Speaker::Assistant => messages.push(write_assistant(&turn.blocks)),
        }
    }
    messages.into()
}

/// What tools answered goes first, each as a message of its own, as chat wants it behind the calls.
fn write_user(blocks: &[TalkBlock], messages: &mut Vec<Value>) {
    let mut images = Vec::new();
    for block in blocks {
        if let TalkBlock::Result {
            id,
            content,
            is_error,
        } = block
        {
            let texts: Vec<&str> = content.iter().filter_map(as_text).collect();
            let text = texts.join("\n");
            // Chat has no word for it.
            let text = if *is_error {
                format!("Error: {text}")
            } else {
                text
            };
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": text }));
            // A tool's message takes texts alone: its images are shown by the user's.
            images.extend(
                content
                    .iter()
                    .filter(|block| matches!(block, TalkBlock::Image(_))),
            );
        }
    }
    let said = blocks
        .iter()
        .filter(|block| !matches!(block, TalkBlock::Result { .. }));
    let parts: Vec<Value> = images
        .into_iter()
        .chain(said)
        .filter_map(write_part)
        .collect();
    match parts.as_slice() {
        [] => {}
        [one] if one["type"] == "text" => {
            messages.push(json!({ "role": "user", "content": one["text"] }))
        }
        _ => messages.push(json!({ "role": "user", "content": parts })),
    }
}

fn as_text(block: &TalkBlock) -> Option<&str> {
    match block {
        TalkBlock::Text(text) => Some(text),
        _ => None,
    }
}

fn write_part(block: &TalkBlock) -> Option<Value> {
    Some(match block {
        TalkBlock::Text(text) => json!({ "type": "text", "text": text }),
        TalkBlock::Image(image) => {
            let url = match image {
                ImageFrom::Url(url) => url.clone(),
                ImageFrom::Data(kind, data) => format!("data:{kind};base64,{data}"),
            };
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        TalkBlock::Thinking(_) | TalkBlock::Call(_) | TalkBlock::Result { .. } => return None,
    })
}

fn write_assistant(blocks: &[TalkBlock]) -> Value {
    let texts: Vec<&str> = blocks.iter().filter_map(as_text).collect();
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            TalkBlock::Call(call) => Some(write_call(call)),
            _ => None,
        })
        .collect();
    let mut message = json!({ "role": "assistant" });
    message["content"] = match texts.is_empty() {
        true => Value::Null,
        false => texts.concat().into(),
    };
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn write_call(call: &ToolUse) -> Value {
    let function = json!({ "name": call.name, "arguments": call.input.to_string() });
    json!({ "id": call.id, "type": "function", "function": function })
}

pub(super) fn read_answer(body: &Value) -> Result<Said, Unconvertible> {
    let choice = &body["choices"][0];
    let message = &choice["message"];
    if !message.is_object() {
        return Err(Unconvertible::new(
            "choices[0].message",
            "is missing from the provider's answer",
        ));
    }
    if !message["function_call"].is_null() {
        return Err(Unconvertible::new(
            "choices[0].message.function_call",
            "was not asked for, and stands for a call in an older form",
        ));
    }
    let mut blocks = Vec::new();
    let thoughts = message["reasoning_content"]
        .as_str()
        .or(message["reasoning"].as_str());
    blocks.extend(
        thoughts
            .filter(|text| !text.is_empty())
            .map(|text| TalkBlock::Thinking(text.to_owned())),
    );
    for text in [&message["content"], &message["refusal"]] {
        let text = text.as_str().filter(|text| !text.is_empty());
        blocks.extend(text.map(|text| TalkBlock::Text(text.to_owned())));
    }
    for (i, call) in items(message.get("tool_calls"), "tool_calls")?
        .iter()
        .enumerate()
    {
        let path = format!("choices[0].message.tool_calls[{i}]");
        blocks.push(TalkBlock::Call(read_call(call, &path)?));
    }
    Ok(Said {
        id: body["id"].as_str().unwrap_or_default().to_owned(),
        stop: stop(
            choice["finish_reason"].as_str(),
            blocks
                .iter()
                .any(|block| matches!(block, TalkBlock::Call(_))),
        ),
        blocks,
        usage: counted_by_openai(&body["usage"]),
    })
}

/// What an answer ended by. Some providers say `stop` where tools are called.
pub(super) fn stop(reason: Option<&str>, has_calls: bool) -> Stop {
    match reason {
        Some("length") => Stop::Length,
        Some("tool_calls" | "function_call") => Stop::Calls,
        Some("content_filter") => Stop::Filtered,
        _ if has_calls => Stop::Calls,
        _ => Stop::End,
    }
}

pub(super) fn stop_word(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) => "stop",
        Stop::Length => "length",
        Stop::Calls => "tool_calls",
        Stop::Filtered => "content_filter",
    }
}

pub(super) fn write_answer(said: &Said, model: &str) -> Value {
    let mut message = write_assistant(&said.blocks);
    message["refusal"] = Value::Null;
    let thinking = said.thinking();
    if !thinking.is_empty() {
        message["reasoning_content"] = thinking.into();
    }
    json!({
        "id": said.id,
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{
            "index": 0,
            "message": message,
            "finish_reason": stop_word(&said.stop),
            "logprobs": null,
        }],
        "usage": usage(said),
    })
}

fn usage(said: &Said) -> Value {
    write_usage(&said.usage)
}

pub(super) fn write_usage(usage: &base::record::Usage) -> Value {
    json!({
        "prompt_tokens": all_input(usage),
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cached_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}
