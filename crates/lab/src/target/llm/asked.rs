//! What is read of a request, in any dialect: as much as its answer needs. The rest is let be.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Dialect, Form};

/// How deep arguments are made by a tool's schema.
const DEPTH_MAX: usize = 8;

/// A request, as far as it decides the answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub model: String,
    pub stream: bool,
    /// The most tokens that it allows.
    pub max: Option<u64>,
    /// How often the model has spoken in it.
    pub turns: usize,
    pub include_usage: bool,
    /// The tool that has to be called.
    pub tool: Option<ToolCall>,
    /// Whether it asks for reasoning.
    pub reasons: bool,
    /// Which summary of the reasoning it asks for.
    pub summary: Option<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub name: String,
    pub id: Option<String>,
    /// JSON.
    pub arguments: String,
}

/// A request in OpenAI's or Anthropic's dialect.
#[derive(Deserialize)]
struct Request {
    model: String,
    #[serde(default)]
    stream: bool,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    messages: Option<Vec<Message>>,
    input: Option<Input>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    tool_choice: Value,
    #[serde(default)]
    reasoning_effort: Value,
    #[serde(default)]
    reasoning: Value,
    #[serde(default)]
    thinking: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Message>),
}

/// A message, or an item of an input.
#[derive(Deserialize)]
struct Message {
    role: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// A request in Google's dialect, whose names are taken in both spellings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequest {
    contents: Option<Vec<Message>>,
    #[serde(default)]
    tools: Value,
    #[serde(default, alias = "tool_config")]
    tool_config: Value,
    #[serde(alias = "generation_config")]
    generation_config: Option<GenerationConfig>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(alias = "max_output_tokens")]
    max_output_tokens: Option<u64>,
    #[serde(alias = "thinking_config")]
    thinking_config: Value,
}

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// What it lacks, or why it cannot be read.
    pub(super) fn read(dialect: &Dialect, body: &[u8]) -> Result<Asked, String> {
        let asked = match dialect {
            Dialect::Gemini { model, form } => gemini(model, *form, parsed(body)?)?,
            dialect => request(dialect, parsed(body)?)?,
        };
        match asked.max {
            Some(0) => Err("the most tokens must be at least 1".to_owned()),
            _ => Ok(asked),
        }
    }
}

/// Whether a body is a JSON object.
pub(super) fn is_object(body: &[u8]) -> Result<(), String> {
    parsed::<std::collections::BTreeMap<String, serde::de::IgnoredAny>>(body).map(drop)
}

pub(super) fn parsed<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("the request cannot be read: {error}"))
}

fn request(dialect: &Dialect, request: Request) -> Result<Asked, String> {
    let max = match dialect {
        Dialect::Chat => request.max_completion_tokens.or(request.max_tokens),
        Dialect::Responses => request.max_output_tokens,
        _ => request.max_tokens,
    };
    let messages = request.messages.unwrap_or_default();
    let items = match dialect {
        Dialect::Chat if request.n.is_some_and(|n| n != 1) => {
            return Err("n must be 1: this target makes one choice".into());
        }
        Dialect::Responses => match request.input {
            Some(Input::Text(text)) if !text.is_empty() => Vec::new(),
            Some(Input::Items(items)) if !items.is_empty() => items,
            _ => return Err("input: a text or a list of items is required".into()),
        },
        _ if messages.is_empty() => {
            return Err("messages: at least one message is required".into());
        }
        Dialect::Messages if max.is_none() => return Err("max_tokens: Field required".into()),
        _ => messages,
    };
    let summary = request.reasoning.get("summary").and_then(Value::as_str);
    Ok(Asked {
        model: request.model,
        stream: request.stream,
        max,
        turns: turns(&items),
        include_usage: request
            .stream_options
            .is_some_and(|options| options.include_usage),
        tool: forced(&request.tools, &request.tool_choice),
        reasons: summary.is_some()
            || is_effort(&request.reasoning_effort)
            || is_effort(&request.reasoning["effort"])
            || matches!(
                request.thinking["type"].as_str(),
                Some("enabled" | "adaptive")
            ),
        summary: summary.map(str::to_owned),
    })
}

fn gemini(model: &str, form: Form, request: GeminiRequest) -> Result<Asked, String> {
    let contents = request.contents.unwrap_or_default();
    if contents.is_empty() {
        return Err("contents: at least one is required".into());
    }
    let config = request.generation_config.unwrap_or_default();
    let either = |value: &Value, camel: &str, snake: &str| match value.get(camel) {
        Some(found) => found.clone(),
        None => value[snake].clone(),
    };
    let calling = either(
        &request.tool_config,
        "functionCallingConfig",
        "function_calling_config",
    );
    let is_any = calling["mode"].as_str() == Some("ANY");
    let thoughts = either(
        &config.thinking_config,
        "includeThoughts",
        "include_thoughts",
    );
    Ok(Asked {
        model: model.to_owned(),
        stream: form != Form::Whole,
        max: config.max_output_tokens,
        turns: turns(&contents),
        include_usage: true,
        tool: is_any.then(|| declared(&request.tools)).flatten(),
        reasons: thoughts == Value::Bool(true),
        summary: None,
    })
}

/// How often the model has spoken: runs of what it said, as one answer can be several items.
fn turns(items: &[Message]) -> usize {
    let said: Vec<bool> = items.iter().map(Message::is_models).collect();
    let begins = said.iter().enumerate();
    begins
        .filter(|(at, is_said)| **is_said && (*at == 0 || !said[*at - 1]))
        .count()
}

impl Message {
    fn is_models(&self) -> bool {
        let kind = self.kind.as_deref().unwrap_or_default();
        matches!(self.role.as_deref(), Some("assistant" | "model"))
            || kind == "reasoning"
            || kind.ends_with("_call")
    }
}

fn is_effort(value: &Value) -> bool {
    value.as_str().is_some_and(|effort| effort != "none")
}

/// The tool that a choice leaves no way around, of OpenAI's or Anthropic's tools.
fn forced(tools: &Value, choice: &Value) -> Option<ToolCall> {
    let named = choice["name"]
        .as_str()
        .or_else(|| choice["function"]["name"].as_str());
    let must = choice == "required" || choice["type"] == "any" || named.is_some();
    let all = must.then(|| tools.as_array())??;
    all.iter()
        .map(|tool| tool.get("function").unwrap_or(tool))
        .find(|tool| named.is_none_or(|named| tool["name"] == named))
        .and_then(|tool| {
            let schema = tool.get("parameters").or_else(|| tool.get("input_schema"));
            called(tool, schema)
        })
}

/// The first tool that a request in Google's dialect declares.
fn declared(tools: &Value) -> Option<ToolCall> {
    let all = tools.as_array()?.iter();
    let first = all
        .filter_map(|tool| tool.get("functionDeclarations"))
        .find_map(|all| all.get(0))?;
    let schema = first
        .get("parameters")
        .or_else(|| first.get("parametersJsonSchema"));
    called(first, schema)
}

fn called(tool: &Value, schema: Option<&Value>) -> Option<ToolCall> {
    Some(ToolCall {
        name: tool["name"].as_str()?.to_owned(),
        id: None,
        arguments: by_schema(schema.unwrap_or(&Value::Null), 0).to_string(),
    })
}

/// A value that a schema allows: what an object requires and no more.
fn by_schema(schema: &Value, depth: usize) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = schema["type"].as_str().unwrap_or("object");
    match kind.to_ascii_lowercase().as_str() {
        "string" => json!("weir"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "array" if depth < DEPTH_MAX => json!([by_schema(&schema["items"], depth + 1)]),
        "array" => json!([]),
        "null" => Value::Null,
        _ if depth == DEPTH_MAX => json!({}),
        _ => {
            let required = schema["required"].as_array().into_iter().flatten();
            let members = required.filter_map(Value::as_str).map(|name| {
                let of = &schema["properties"][name];
                (name.to_owned(), by_schema(of, depth + 1))
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dialect: &Dialect, body: Value) -> Result<Asked, String> {
        Asked::read(dialect, body.to_string().as_bytes())
    }

    #[test]
    fn turns_are_runs_of_what_the_model_said() {
        let user = json!({ "role": "user", "content": "x" });
        let model = json!({ "role": "assistant", "content": "x" });
        let chat = |all: Value| {
            read(&Dialect::Chat, json!({ "model": "m", "messages": all }))
                .unwrap()
                .turns
        };
        assert_eq!(chat(json!([user])), 0);
        assert_eq!(chat(json!([user, model, user])), 1);
        assert_eq!(chat(json!([user, model, user, model, user])), 2);
        let call = json!({ "type": "function_call", "name": "a" });
        let reasoning = json!({ "type": "reasoning", "summary": [] });
        let result = json!({ "type": "function_call_output", "output": "x" });
        let input = json!([user, reasoning, call, call, result, result, model]);
        let asked = read(&Dialect::Responses, json!({ "model": "m", "input": input }));
        assert_eq!(asked.unwrap().turns, 2);
    }

    #[test]
    fn a_tool_is_called_where_one_must_be() {
        let schema = json!({ "type": "object", "required": ["a", "b", "c"], "properties": {
            "a": { "type": "string" }, "b": { "enum": ["x", "y"] }, "d": {},
            "c": { "type": "ARRAY", "items": { "type": "INTEGER", "minimum": 3 } } } });
        let function = json!({ "name": "run", "parameters": schema });
        let tools = json!([{ "type": "function", "function": { "name": "first" } },
            { "type": "function", "function": function }]);
        let named = json!({ "type": "function", "function": { "name": "run" } });
        let call = forced(&tools, &named).unwrap();
        assert_eq!(call.arguments, r#"{"a":"weir","b":"x","c":[3]}"#);
        assert_eq!(forced(&tools, &json!("required")).unwrap().name, "first");
        assert_eq!(forced(&tools, &json!("auto")), None);
        assert_eq!(forced(&Value::Null, &json!("required")), None);
        let anthropic = json!([{ "name": "run", "input_schema": schema }]);
        assert_eq!(
            forced(&anthropic, &json!({ "type": "any" })),
            Some(call.clone())
        );
        let google = json!([{ "functionDeclarations": [function] }]);
        assert_eq!(declared(&google), Some(call));
        // A schema that is deeper than anybody's is not followed to its end.
        let mut deep = json!({ "type": "string" });
        for _ in 0..40 {
            deep = json!({ "type": "array", "items": deep });
        }
        assert!(by_schema(&deep, 0).to_string().len() < 64);
    }
}
