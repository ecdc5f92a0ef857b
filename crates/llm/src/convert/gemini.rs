//! Google's `generateContent`. Source: Gemini API reference, "Generating content".

use std::collections::HashMap;

use base::record::Usage;
use serde_json::{Map, Value, json};

use super::fields::{checked, items, known, text};
use super::talk::{
    AnswerFormat, Effort, ImageFrom, Said, Speaker, Stop, Talk, TalkBlock, TalkTool, ToolChoice,
    ToolUse,
};
use super::{Dialect, Unconvertible, all_input};
use crate::usage::counted_by_gemini;

/// A member by either of its spellings.
///
/// # Errors
/// Both stand there: two readers could take two values.
fn either<'v>(of: &'v Value, camel: &str, snake: &str) -> Result<Option<&'v Value>, Unconvertible> {
    match (of.get(camel), of.get(snake)) {
        (Some(_), Some(_)) => Err(Unconvertible::new(
            snake,
            format!("stands beside {camel}, which is the same; leave one out"),
        )),
        (one, other) => Ok(one.or(other).filter(|value| !value.is_null())),
    }
}

pub(super) fn read(body: &Value) -> Result<Talk, Unconvertible> {
    checked(body, Dialect::Gemini)?;
    let mut talk = Talk::default();
    if let Some(system) = either(body, "systemInstruction", "system_instruction")? {
        for (i, part) in items(system.get("parts"), "systemInstruction.parts")?
            .iter()
            .enumerate()
        {
            talk.system.push(text(
                part.get("text"),
                &format!("systemInstruction.parts[{i}].text"),
            )?);
        }
    }
    for (i, tool) in items(body.get("tools"), "tools")?.iter().enumerate() {
        let path = format!("tools[{i}]");
        known(
            tool,
            &path,
            &["functionDeclarations", "function_declarations"],
        )?;
        let declared = either(tool, "functionDeclarations", "function_declarations")?;
        for (j, function) in items(declared, &path)?.iter().enumerate() {
            talk.tools.push(read_tool(
                function,
                &format!("{path}.functionDeclarations[{j}]"),
            )?);
        }
    }
    if let Some(config) = either(body, "toolConfig", "tool_config")? {
        talk.choice = read_choice(config)?;
    }
    if let Some(config) = either(body, "generationConfig", "generation_config")? {
        read_config(&mut talk, config)?;
    }
    // Google's calls have no ids: they are numbered, and an answer is that of the first call of its name that has none.
    let mut calls = Numbered::default();
    for (i, content) in items(body.get("contents"), "contents")?.iter().enumerate() {
        let path = format!("contents[{i}]");
        let speaker = match content["role"].as_str() {
            None | Some("user" | "function") => Speaker::User,
            Some("model") => Speaker::Assistant,
            Some(_) => {
                return Err(Unconvertible::new(
                    format!("{path}.role"),
                    "is neither user nor model",
                ));
            }
        };
        let mut blocks = Vec::new();
        for (j, part) in items(content.get("parts"), &path)?.iter().enumerate() {
            blocks.push(read_part(part, &format!("{path}.parts[{j}]"), &mut calls)?);
        }
        talk.say(speaker, blocks);
    }
    Ok(talk)
}

#[derive(Default)]
struct Numbered {
    count: usize,
    /// Ids of calls without an answer, by name.
    open: HashMap<String, Vec<String>>,
}

impl Numbered {
    fn call(&mut self, name: &str, id: Option<&str>) -> String {
        self.count += 1;
        let id = id.map_or_else(|| format!("call_{}", self.count), str::to_owned);
        self.open
            .entry(name.to_owned())
            .or_default()
            .push(id.clone());
        id
    }

    fn answer(&mut self, name: &str) -> Option<String> {
        let open = self.open.get_mut(name).filter(|open| !open.is_empty());
        open.map(|open| open.remove(0))
    }
}

fn read_tool(function: &Value, path: &str) -> Result<TalkTool, Unconvertible> {
    let names = [
        "name",
        "description",
        "parameters",
        "parametersJsonSchema",
        "parameters_json_schema",
        "behavior",
    ];
    known(function, path, &names)?;
    let schema = either(function, "parametersJsonSchema", "parameters_json_schema")?;
    let schema = schema
        .cloned()
        .or_else(|| function.get("parameters").map(plain_schema));
    Ok(TalkTool {
        name: text(function.get("name"), &format!("{path}.name"))?,
        description: function["description"].as_str().map(str::to_owned),
        schema: schema.unwrap_or_else(|| json!({ "type": "object" })),
        is_strict: None,
    })
}

/// Google's schemas write types in capitals.
fn plain_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let plain = members.iter().map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("type", Value::String(kind)) => kind.to_ascii_lowercase().into(),
                    (_, value) => plain_schema(value),
                };
                (name.clone(), value)
            });
            Value::Object(plain.collect())
        }
        Value::Array(items) => items.iter().map(plain_schema).collect(),
        other => other.clone(),
    }
}

fn read_choice(config: &Value) -> Result<ToolChoice, Unconvertible> {
    let path = "toolConfig.functionCallingConfig";
    let Some(calling) = either(config, "functionCallingConfig", "function_calling_config")? else {
        return Ok(ToolChoice::Unsaid);
    };
    let named = either(calling, "allowedFunctionNames", "allowed_function_names")?;
    let named = items(named, path)?;
    Ok(match (calling["mode"].as_str(), named) {
        (None | Some("AUTO" | "MODE_UNSPECIFIED"), []) => ToolChoice::Auto,
        (Some("NONE"), _) => ToolChoice::Nothing,
        (Some("ANY"), []) => ToolChoice::Any,
        (Some("ANY"), [one]) => ToolChoice::One(text(Some(one), path)?),
        _ => {
            return Err(Unconvertible::new(
                path,
                "says what this provider has no word for",
            ));
        }
    })
}

fn read_config(talk: &mut Talk, config: &Value) -> Result<(), Unconvertible> {
    let names = [
        "temperature",
        "topP",
        "top_p",
        "topK",
        "top_k",
        "maxOutputTokens",
        "max_output_tokens",
        "stopSequences",
        "stop_sequences",
        "responseMimeType",
        "response_mime_type",
        "responseSchema",
        "response_schema",
        "responseJsonSchema",
        "response_json_schema",
        "thinkingConfig",
        "thinking_config",
        "candidateCount",
        "candidate_count",
    ];
    known(config, "generationConfig", &names)?;
    if either(config, "candidateCount", "candidate_count")?.is_some_and(|count| *count != json!(1))
    {
        return Err(Unconvertible::new(
            "generationConfig.candidateCount",
            "may be 1 alone",
        ));
    }
    talk.temperature = config.get("temperature").cloned();
    talk.top_p = either(config, "topP", "top_p")?.cloned();
    talk.top_k = either(config, "topK", "top_k")?.cloned();
    talk.max_tokens =
        either(config, "maxOutputTokens", "max_output_tokens")?.and_then(Value::as_u64);
    talk.stop = super::chat::stops(
        either(config, "stopSequences", "stop_sequences")?,
        "generationConfig.stopSequences",
    )?;
    let schema = either(config, "responseJsonSchema", "response_json_schema")?.cloned();
    let other = either(config, "responseSchema", "response_schema")?;
    let schema = schema.or_else(|| other.map(plain_schema));
    let kind = either(config, "responseMimeType", "response_mime_type")?.and_then(Value::as_str);
    talk.format = match (kind, schema) {
        (_, Some(schema)) => AnswerFormat::Schema {
            name: "answer".to_owned(),
            schema,
            is_strict: None,
        },
        (None | Some("text/plain"), None) => AnswerFormat::Text,
        (Some("application/json"), None) => AnswerFormat::Json,
        _ => {
            return Err(Unconvertible::new(
                "generationConfig.responseMimeType",
                "is a format that the provider does not have",
            ));
        }
    };
    if let Some(thinking) = either(config, "thinkingConfig", "thinking_config")? {
        let tokens = either(thinking, "thinkingBudget", "thinking_budget")?.and_then(Value::as_i64);
        let level = either(thinking, "thinkingLevel", "thinking_level")?.and_then(Value::as_str);
        talk.effort = match (tokens, level) {
            (Some(tokens), _) => u64::try_from(tokens).ok().map(Effort::Tokens),
            (None, level) => level.map(|level| Effort::Word(level.to_ascii_lowercase())),
        };
    }
    Ok(())
}

fn read_part(part: &Value, at: &str, calls: &mut Numbered) -> Result<TalkBlock, Unconvertible> {
    if let Some(said) = part["text"].as_str() {
        return Ok(match part["thought"].as_bool() {
            Some(true) => TalkBlock::Thinking(said.to_owned()),
            _ => TalkBlock::Text(said.to_owned()),
        });
    }
    if let Some(data) = either(part, "inlineData", "inline_data")? {
        let kind = either(data, "mimeType", "mime_type")?;
        return Ok(TalkBlock::Image(ImageFrom::Data(
            text(kind, at)?,
            text(data.get("data"), at)?,
        )));
    }
    if let Some(call) = either(part, "functionCall", "function_call")? {
        let name = text(call.get("name"), &format!("{at}.functionCall.name"))?;
        return Ok(TalkBlock::Call(ToolUse {
            id: calls.call(&name, call["id"].as_str()),
            input: call.get("args").cloned().unwrap_or_else(|| json!({})),
            name,
        }));
    }
    if let Some(answer) = either(part, "functionResponse", "function_response")? {
        let name = text(answer.get("name"), &format!("{at}.functionResponse.name"))?;
        let numbered = calls.answer(&name);
        let id = answer["id"].as_str().map(str::to_owned).or(numbered);
        let id =
            id.ok_or_else(|| Unconvertible::new(at, "answers a function that was not called"))?;
        let response = &answer["response"];
        // What a program gave as a text is one; all else is JSON.
        let only = response
            .get("result")
            .or(response.get("output"))
            .filter(|_| response.as_object().is_some_and(|all| all.len() == 1));
        let said = match only.and_then(Value::as_str) {
            Some(said) => said.to_owned(),
            None => response.to_string(),
        };
        return Ok(TalkBlock::Result {
            id,
            content: vec![TalkBlock::Text(said)],
            is_error: response.get("error").is_some(),
        });
    }
    Err(Unconvertible::new(
        at,
        "is of a kind that the provider does not take",
    ))
}

pub(super) fn write(talk: &Talk) -> Result<Value, Unconvertible> {
    let mut body = Map::new();
    if !talk.system.is_empty() {
        let parts: Vec<Value> = talk
            .system
            .iter()
            .map(|text| json!({ "text": text }))
            .collect();
        body.insert("systemInstruction".to_owned(), json!({ "parts": parts }));
    }
    if !talk.tools.is_empty() {
        let functions: Vec<Value> = talk.tools.iter().map(write_tool).collect();
        body.insert(
            "tools".to_owned(),
            json!([{ "functionDeclarations": functions }]),
        );
        let mode = match &talk.choice {
            ToolChoice::Unsaid => None,
            ToolChoice::Auto => Some(json!({ "mode": "AUTO" })),
            ToolChoice::Nothing => Some(json!({ "mode": "NONE" })),
            ToolChoice::Any => Some(json!({ "mode": "ANY" })),
            ToolChoice::One(name) => Some(json!({ "mode": "ANY", "allowedFunctionNames": [name] })),
        };
        if let Some(mode) = mode {
            body.insert(
                "toolConfig".to_owned(),
                json!({ "functionCallingConfig": mode }),
            );
        }
    }
    let config = write_config(talk);
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(config));
    }
    let mut names = HashMap::new();
    let mut contents = Vec::new();
    for turn in &talk.turns {
        let mut parts = Vec::new();
        for block in &turn.blocks {
            parts.extend(write_part(block, &mut names)?);
        }
        let role = match turn.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "model",
        };
        if !parts.is_empty() {
            contents.push(json!({ "role": role, "parts": parts }));
        }
    }
    body.insert("contents".to_owned(), contents.into());
    Ok(Value::Object(body))
}

fn write_tool(tool: &TalkTool) -> Value {
    let mut function = json!({ "name": tool.name, "parametersJsonSchema": tool.schema });
    if let Some(description) = &tool.description {
        function["description"] = description.as_str().into();
    }
    function
}

fn write_config(talk: &Talk) -> Map<String, Value> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    set("temperature", talk.temperature.clone());
    set("topP", talk.top_p.clone());
    set("topK", talk.top_k.clone());
    set("maxOutputTokens", talk.max_tokens.map(Value::from));
    set(
        "stopSequences",
        (!talk.stop.is_empty()).then(|| json!(talk.stop)),
    );
    let thinking = talk
        .effort
        .as_ref()
        .map(|effort| json!({ "thinkingBudget": effort.tokens() }));
    set("thinkingConfig", thinking);
    match &talk.format {
        AnswerFormat::Text => {}
        AnswerFormat::Json => set("responseMimeType", Some("application/json".into())),
        AnswerFormat::Schema { schema, .. } => {
            set("responseMimeType", Some("application/json".into()));
            set("responseJsonSchema", Some(schema.clone()));
        }
    }
    config
}

fn write_part(
    block: &TalkBlock,
    names: &mut HashMap<String, String>,
) -> Result<Vec<Value>, Unconvertible> {
    Ok(match block {
        TalkBlock::Text(text) => vec![json!({ "text": text })],
        TalkBlock::Image(ImageFrom::Data(kind, data)) => {
            vec![json!({ "inlineData": { "mimeType": kind, "data": data } })]
        }
        TalkBlock::Image(ImageFrom::Url(_)) => {
            return Err(Unconvertible::new(
                "messages",
                "show an image by a URL, which the provider does not fetch; send it in base64",
            ));
        }
        TalkBlock::Thinking(_) => Vec::new(),
        TalkBlock::Call(call) => {
            names.insert(call.id.clone(), call.name.clone());
            vec![json!({ "functionCall": { "name": call.name, "args": call.input } })]
        }
        TalkBlock::Result {
            id,
            content,
            is_error,
        } => {
            let name = names.get(id).ok_or_else(|| {
                Unconvertible::new(
                    "messages",
                    "hold an answer of a tool that was not called before",
                )
            })?;
            let texts: Vec<&str> = content
                .iter()
                .filter_map(|block| match block {
                    TalkBlock::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            let key = if *is_error { "error" } else { "result" };
            let mut parts = vec![
                json!({ "functionResponse": { "name": name, "response": { key: texts.join("\n") } } }),
            ];
            for image in content
                .iter()
                .filter(|block| matches!(block, TalkBlock::Image(_)))
            {
                parts.extend(write_part(image, names)?);
            }
            parts
        }
    })
}

pub(super) fn read_answer(body: &Value) -> Result<Said, Unconvertible> {
    let candidate = &body["candidates"][0];
    if !candidate.is_object() && body["promptFeedback"]["blockReason"].is_null() {
        return Err(Unconvertible::new(
            "candidates[0]",
            "is missing from the provider's answer",
        ));
    }
    let mut calls = Numbered::default();
    let mut blocks = Vec::new();
    for (i, part) in items(candidate["content"].get("parts"), "parts")?
        .iter()
        .enumerate()
    {
        blocks.push(read_part(
            part,
            &format!("candidates[0].content.parts[{i}]"),
            &mut calls,
        )?);
    }
    let has_calls = blocks
        .iter()
        .any(|block| matches!(block, TalkBlock::Call(_)));
    let reason = match candidate.is_object() {
        true => candidate["finishReason"].as_str(),
        false => Some("SAFETY"),
    };
    Ok(Said {
        id: body["responseId"].as_str().unwrap_or_default().to_owned(),
        blocks,
        stop: stop(reason, has_calls),
        usage: counted_by_gemini(&body["usageMetadata"]),
    })
}

pub(super) fn stop(reason: Option<&str>, has_calls: bool) -> Stop {
    match reason {
        Some("MAX_TOKENS") => Stop::Length,
        Some(
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY",
        ) => Stop::Filtered,
        _ if has_calls => Stop::Calls,
        _ => Stop::End,
    }
}

pub(super) fn stop_word(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Calls | Stop::Sequence(_) => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Filtered => "SAFETY",
    }
}

pub(super) fn write_answer(said: &Said, model: &str) -> Value {
    let parts: Vec<Value> = said
        .blocks
        .iter()
        .filter_map(|block| match block {
            TalkBlock::Text(text) => Some(json!({ "text": text })),
            TalkBlock::Thinking(text) => Some(json!({ "text": text, "thought": true })),
            TalkBlock::Call(call) => Some(
                json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.input } }),
            ),
            TalkBlock::Image(_) | TalkBlock::Result { .. } => None,
        })
        .collect();
    json!({
        "candidates": [{
            "content": { "role": "model", "parts": parts },
            "finishReason": stop_word(&said.stop),
            "index": 0,
        }],
        "usageMetadata": write_usage(&said.usage),
        "modelVersion": model,
        "responseId": said.id,
    })
}

pub(super) fn write_usage(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": all_input(usage),
        "cachedContentTokenCount": usage.cached_read,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total(),
    })
}
