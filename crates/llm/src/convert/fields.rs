//! Which members of a request are understood, and which may be left out, by dialect. What stands in no row is refused by its name.
//!
//! The page docs/reference/conversion.md is made of these tables.

use serde_json::{Map, Value};

use super::{Dialect, Unconvertible};

/// What becomes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// It is said in the other dialect too: as what.
    Said(&'static str),
    /// It is left out, which changes no answer: why.
    LeftOut(&'static str),
    /// It is left out where it has one of these values as JSON, which is what it would be anyway.
    Only(&'static [&'static str]),
}

/// A member at the top of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRow {
    pub(crate) dialect: Dialect,
    pub(crate) name: &'static str,
    pub(crate) becomes: Becomes,
}

const fn said(dialect: Dialect, name: &'static str, what: &'static str) -> FieldRow {
    FieldRow {
        dialect,
        name,
        becomes: Becomes::Said(what),
    }
}

const fn out(dialect: Dialect, name: &'static str, why: &'static str) -> FieldRow {
    FieldRow {
        dialect,
        name,
        becomes: Becomes::LeftOut(why),
    }
}

const fn only(dialect: Dialect, name: &'static str, values: &'static [&'static str]) -> FieldRow {
    FieldRow {
        dialect,
        name,
        becomes: Becomes::Only(values),
    }
}

const CACHE: &str = "a hint for the provider's cache; others cache by themselves";
const LABEL: &str = "a label for the provider's own pages";
const STORED: &str = "nothing is stored where the dialect is converted";

/// All rows.
pub(crate) const FIELDS: &[FieldRow] = &[
    said(Dialect::Chat, "model", "the model of the route"),
    said(Dialect::Chat, "messages", "the conversation"),
    said(Dialect::Chat, "tools", "tools of the kind function"),
    said(Dialect::Chat, "tool_choice", "which tool is to be called"),
    said(
        Dialect::Chat,
        "parallel_tool_calls",
        "whether several calls come at once; not to Google's dialect",
    ),
    said(Dialect::Chat, "max_tokens", "the bound of the answer"),
    said(
        Dialect::Chat,
        "max_completion_tokens",
        "the bound of the answer",
    ),
    said(Dialect::Chat, "temperature", "itself"),
    said(Dialect::Chat, "top_p", "itself"),
    said(Dialect::Chat, "stop", "texts at which the answer ends"),
    said(Dialect::Chat, "stream", "whether the answer streams"),
    said(
        Dialect::Chat,
        "user",
        "the user's word for itself; not to Google's dialect",
    ),
    said(Dialect::Chat, "safety_identifier", "the same"),
    said(
        Dialect::Chat,
        "response_format",
        "JSON, or JSON by a schema",
    ),
    said(
        Dialect::Chat,
        "reasoning_effort",
        "how long the model may think",
    ),
    out(
        Dialect::Chat,
        "stream_options",
        "what was used is always told",
    ),
    out(Dialect::Chat, "metadata", LABEL),
    out(Dialect::Chat, "store", STORED),
    out(Dialect::Chat, "prompt_cache_key", CACHE),
    out(Dialect::Chat, "prompt_cache_retention", CACHE),
    only(Dialect::Chat, "n", &["1", "null"]),
    only(Dialect::Chat, "logprobs", &["false", "null"]),
    only(Dialect::Chat, "top_logprobs", &["0", "null"]),
    only(Dialect::Chat, "frequency_penalty", &["0", "0.0", "null"]),
    only(Dialect::Chat, "presence_penalty", &["0", "0.0", "null"]),
    only(Dialect::Chat, "logit_bias", &["{}", "null"]),
    only(
        Dialect::Chat,
        "service_tier",
        &["\"auto\"", "\"default\"", "null"],
    ),
    only(Dialect::Chat, "modalities", &["[\"text\"]", "null"]),
    only(Dialect::Chat, "verbosity", &["\"medium\"", "null"]),
    only(Dialect::Chat, "seed", &["null"]),
    said(Dialect::Messages, "model", "the model of the route"),
    said(Dialect::Messages, "messages", "the conversation"),
    said(Dialect::Messages, "system", "what the system says"),
    said(Dialect::Messages, "tools", "tools with an input_schema"),
    said(
        Dialect::Messages,
        "tool_choice",
        "which tool is to be called, and whether several at once",
    ),
    said(Dialect::Messages, "max_tokens", "the bound of the answer"),
    said(Dialect::Messages, "temperature", "itself"),
    said(Dialect::Messages, "top_p", "itself"),
    said(
        Dialect::Messages,
        "top_k",
        "itself; not to OpenAI's dialects",
    ),
    said(
        Dialect::Messages,
        "stop_sequences",
        "texts at which the answer ends",
    ),
    said(Dialect::Messages, "stream", "whether the answer streams"),
    said(
        Dialect::Messages,
        "metadata",
        "its user_id is the user's word for itself",
    ),
    said(
        Dialect::Messages,
        "thinking",
        "how long the model may think",
    ),
    said(
        Dialect::Messages,
        "output_config",
        "its effort and its format",
    ),
    said(Dialect::Messages, "output_format", "JSON by a schema"),
    out(Dialect::Messages, "cache_control", CACHE),
    out(
        Dialect::Messages,
        "context_management",
        "the provider's own way to shorten a conversation; others are sent all of it",
    ),
    only(
        Dialect::Messages,
        "service_tier",
        &["\"auto\"", "\"standard_only\"", "null"],
    ),
    only(Dialect::Messages, "container", &["null"]),
    only(Dialect::Messages, "mcp_servers", &["[]", "null"]),
    said(Dialect::Gemini, "contents", "the conversation"),
    said(Dialect::Gemini, "systemInstruction", "what the system says"),
    said(Dialect::Gemini, "system_instruction", "the same"),
    said(Dialect::Gemini, "tools", "function declarations"),
    said(Dialect::Gemini, "toolConfig", "which tool is to be called"),
    said(Dialect::Gemini, "tool_config", "the same"),
    said(
        Dialect::Gemini,
        "generationConfig",
        "bounds, format and thinking",
    ),
    said(Dialect::Gemini, "generation_config", "the same"),
    out(
        Dialect::Gemini,
        "safetySettings",
        "other providers have rules of their own",
    ),
    out(
        Dialect::Gemini,
        "safety_settings",
        "other providers have rules of their own",
    ),
    out(Dialect::Gemini, "labels", LABEL),
    only(Dialect::Gemini, "cachedContent", &["null", "\"\""]),
    said(Dialect::Responses, "model", "the model of the route"),
    said(Dialect::Responses, "input", "the conversation"),
    said(Dialect::Responses, "instructions", "what the system says"),
    said(Dialect::Responses, "tools", "tools of the kind function"),
    said(
        Dialect::Responses,
        "tool_choice",
        "which tool is to be called",
    ),
    said(
        Dialect::Responses,
        "parallel_tool_calls",
        "whether several calls come at once; not to Google's dialect",
    ),
    said(
        Dialect::Responses,
        "max_output_tokens",
        "the bound of the answer",
    ),
    said(Dialect::Responses, "temperature", "itself"),
    said(Dialect::Responses, "top_p", "itself"),
    said(Dialect::Responses, "stream", "whether the answer streams"),
    said(
        Dialect::Responses,
        "user",
        "the user's word for itself; not to Google's dialect",
    ),
    said(Dialect::Responses, "safety_identifier", "the same"),
    said(
        Dialect::Responses,
        "reasoning",
        "its effort: how long the model may think",
    ),
    said(
        Dialect::Responses,
        "text",
        "its format: JSON, or JSON by a schema",
    ),
    out(Dialect::Responses, "metadata", LABEL),
    out(Dialect::Responses, "client_metadata", LABEL),
    out(Dialect::Responses, "store", STORED),
    out(
        Dialect::Responses,
        "include",
        "what a provider keeps for itself between turns; others have no such thing",
    ),
    out(
        Dialect::Responses,
        "stream_options",
        "what was used is always told",
    ),
    out(Dialect::Responses, "prompt_cache_key", CACHE),
    out(Dialect::Responses, "prompt_cache_retention", CACHE),
    only(Dialect::Responses, "previous_response_id", &["null"]),
    only(Dialect::Responses, "conversation", &["null"]),
    only(Dialect::Responses, "background", &["false", "null"]),
    only(Dialect::Responses, "truncation", &["\"disabled\"", "null"]),
    only(
        Dialect::Responses,
        "service_tier",
        &["\"auto\"", "\"default\"", "null"],
    ),
    only(Dialect::Responses, "max_tool_calls", &["null"]),
    only(Dialect::Responses, "top_logprobs", &["0", "null"]),
];

/// The tables as rows of a page: the dialect, the member, and what becomes of it.
pub fn conversion_rows() -> Vec<[String; 3]> {
    let row = |row: &FieldRow| {
        let dialect = match row.dialect {
            Dialect::Chat => "chat completions",
            Dialect::Messages => "messages",
            Dialect::Gemini => "generateContent",
            Dialect::Responses => "responses",
        };
        let becomes = match row.becomes {
            Becomes::Said(what) => what.to_owned(),
            Becomes::LeftOut(why) => format!("left out: {why}"),
            Becomes::Only(values) => {
                format!("left out where it is {}, else refused", values.join(" or "))
            }
        };
        [dialect.to_owned(), row.name.to_owned(), becomes]
    };
    FIELDS.iter().map(row).collect()
}

/// The members of a request; all of them are understood.
///
/// # Errors
/// The first that is not.
pub(super) fn checked(
    body: &Value,
    dialect: Dialect,
) -> Result<&Map<String, Value>, Unconvertible> {
    let body = body
        .as_object()
        .ok_or_else(|| Unconvertible::new("the body", "is no object"))?;
    for (name, value) in body {
        let row = FIELDS
            .iter()
            .find(|row| row.dialect == dialect && row.name == name);
        match row.map(|row| row.becomes) {
            Some(Becomes::Said(_) | Becomes::LeftOut(_)) => {}
            Some(Becomes::Only(values)) if values.contains(&value.to_string().as_str()) => {}
            Some(Becomes::Only(_)) => {
                return Err(Unconvertible::new(
                    name,
                    "has no counterpart at this provider with that value; leave it out",
                ));
            }
            None => {
                return Err(Unconvertible::new(
                    name,
                    "has no counterpart at this provider; leave it out",
                ));
            }
        }
    }
    Ok(body)
}

/// Names the first member that is not among these.
pub(super) fn known(value: &Value, path: &str, names: &[&str]) -> Result<(), Unconvertible> {
    let members = value.as_object().into_iter().flatten();
    for (name, value) in members {
        if !names.contains(&name.as_str()) && !value.is_null() {
            let path = format!("{path}.{name}");
            return Err(Unconvertible::new(
                path,
                "has no counterpart at this provider; leave it out",
            ));
        }
    }
    Ok(())
}

/// A text at a path.
pub(super) fn text(value: Option<&Value>, path: &str) -> Result<String, Unconvertible> {
    let text = value.and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| Unconvertible::new(path, "is no text"))
}

/// The items of a list at a path; none where it is absent.
pub(super) fn items<'v>(
    value: Option<&'v Value>,
    path: &str,
) -> Result<&'v [Value], Unconvertible> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Unconvertible::new(path, "is no list")),
    }
}

/// A member that is there and not null.
pub(super) fn given(of: &Map<String, Value>, name: &str) -> Option<Value> {
    of.get(name).filter(|value| !value.is_null()).cloned()
}
