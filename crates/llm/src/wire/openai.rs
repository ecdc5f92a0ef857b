//! The dialects of OpenAI: chat completions, responses, embeddings.

use base::{JsonKind, JsonValue};
use gate::Role;

use super::read::AskedModel;
use crate::answer::{AnswerSaid, Delta, TextKind, ToolCall};
use crate::usage;

/// Who says a message with this role.
fn role_of(item: JsonValue<'_>) -> Role {
    match item.get("role").and_then(JsonValue::as_str).as_deref() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("user") => Role::User,
        // What says nothing of who speaks is nobody's order, as is what a tool answered.
        _ => Role::ToolResult,
    }
}

pub(super) fn read_chat<'j>(body: JsonValue<'j>, asked: &mut AskedModel<'j>) {
    for (key, value) in body.members() {
        let name = key.name();
        asked.common(&name, value);
        match &*name {
            "messages" if value.kind() == JsonKind::Array => {
                for (i, message) in value.items().enumerate() {
                    asked.add(role_of(message), format!("messages[{i}]"), message);
                }
            }
            "tools" | "functions" => asked.add(Role::System, name.into_owned(), value),
            _ => asked.add(Role::User, name.into_owned(), value),
        }
    }
}

pub(super) fn read_embeddings<'j>(body: JsonValue<'j>, asked: &mut AskedModel<'j>) {
    for (key, value) in body.members() {
        let name = key.name();
        asked.common(&name, value);
        asked.add(Role::User, name.into_owned(), value);
    }
}

pub(super) fn read_response<'j>(body: JsonValue<'j>, asked: &mut AskedModel<'j>) {
    for (key, value) in body.members() {
        let name = key.name();
        asked.common(&name, value);
        match &*name {
            "input" if value.kind() == JsonKind::Array => {
                for (i, item) in value.items().enumerate() {
                    asked.add(role_of_item(item), format!("input[{i}]"), item);
                }
            }
            "instructions" | "tools" => asked.add(Role::System, name.into_owned(), value),
            _ => asked.add(Role::User, name.into_owned(), value),
        }
    }
}

/// Who says an item of `input`: what tools answered, also those that the provider runs, comes in.
fn role_of_item(item: JsonValue<'_>) -> Role {
    let kind = item.get("type").and_then(JsonValue::as_str);
    match kind.as_deref() {
        None | Some("message") => role_of(item),
        Some("input_text" | "input_image" | "input_file") => Role::User,
        Some("reasoning") => Role::Assistant,
        Some(kind) if client_runs(kind) => Role::Assistant,
        Some(_) => Role::ToolResult,
    }
}

/// Calls that the provider runs itself: what they bring is of the answer, and is judged as such.
const PROVIDER_RUNS: &[&str] = &[
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
];

/// Whether an item of this type is a call that the client runs, also one that is not known here.
fn client_runs(kind: &str) -> bool {
    kind.ends_with("_call") && !PROVIDER_RUNS.contains(&kind)
}

pub(super) fn chat_answer<'j>(answer: JsonValue<'j>, said: &mut AnswerSaid<'j>) {
    said.usage = answer.get("usage").and_then(usage::of_openai);
    let choices = answer.get("choices");
    for (i, choice) in choices.into_iter().flat_map(JsonValue::items).enumerate() {
        let Some(message) = choice.get("message") else {
            continue;
        };
        let calls = message.get("tool_calls");
        for (j, call) in calls.into_iter().flat_map(JsonValue::items).enumerate() {
            let path = format!("choices[{i}].message.tool_calls[{j}]");
            said.calls.extend(chat_call(call, &path));
        }
        if let Some(call) = message.get("function_call") {
            let path = format!("choices[{i}].message.function_call");
            said.calls
                .extend(ToolCall::of(path, call.get("name"), call.get("arguments")));
        }
    }
}

/// The calls that an item of `tool_calls` is: of a function, and of a tool that is given a text. One that is both is judged as both.
fn chat_call<'j>(call: JsonValue<'j>, path: &str) -> impl Iterator<Item = ToolCall<'j>> {
    let of = |name: &str| call.get(name);
    let function = of("function").and_then(|of| {
        let arguments = of.get("arguments").or(of.get("input"));
        ToolCall::of(path.to_owned(), of.get("name"), arguments)
    });
    let custom = of("custom").and_then(|of| {
        let input = of.get("input").or(of.get("arguments"));
        ToolCall::of_text(path.to_owned(), of.get("name"), input)
    });
    function.into_iter().chain(custom)
}

pub(super) fn chat_event<'j>(event: JsonValue<'j>, delta: &mut Delta<'j>) {
    delta.usage = event.get("usage").and_then(usage::of_openai);
    delta.is_error = event.get("error").is_some();
    let choices = event.get("choices");
    for choice in choices.into_iter().flat_map(JsonValue::items) {
        let index = choice.get("index").and_then(super::read::number);
        let index = index.unwrap_or_default();
        if let Some(said) = choice.get("delta") {
            for (key, value) in said.members().filter(|(_, v)| v.kind() == JsonKind::String) {
                let kind = match &*key.name() {
                    "content" => TextKind::Content,
                    "reasoning_content" | "reasoning" => TextKind::Reasoning,
                    "refusal" => TextKind::Refusal,
                    _ => continue,
                };
                delta.text(kind, (index, 0), value);
            }
            let calls = said.get("tool_calls");
            for call in calls.into_iter().flat_map(JsonValue::items) {
                chat_call_delta(index, call, delta);
            }
            if let Some(call) = said.get("function_call") {
                let call = (call, TextKind::Arguments);
                function_delta((index, FUNCTION_CALL), call, None, delta);
            }
        }
        let finish = choice.get("finish_reason");
        if finish.is_some_and(|finish| finish.kind() == JsonKind::String) {
            delta.ends(index);
        }
    }
}

/// A piece of a completed text.
pub(super) fn completion_event<'j>(event: JsonValue<'j>, delta: &mut Delta<'j>) {
    delta.usage = event.get("usage").and_then(usage::of_openai);
    delta.is_error = event.get("error").is_some();
    let choices = event.get("choices");
    for choice in choices.into_iter().flat_map(JsonValue::items) {
        let index = choice.get("index").and_then(super::read::number);
        let index = index.unwrap_or_default();
        if let Some(text) = choice.get("text") {
            delta.text(TextKind::Content, (index, 0), text);
        }
        let finish = choice.get("finish_reason");
        if finish.is_some_and(|finish| finish.kind() == JsonKind::String) {
            delta.ends(index);
        }
    }
}

/// What an image took: counted as responses are.
pub(super) fn image_answer<'j>(answer: JsonValue<'j>, said: &mut AnswerSaid<'j>) {
    said.usage = answer.get("usage").and_then(usage::of_responses);
}

/// The number of the one call that a choice has in the older form.
const FUNCTION_CALL: u64 = u64::MAX;

/// A piece of a call. A call of another index begins where the one before has ended.
fn chat_call_delta<'j>(choice: u64, call: JsonValue<'j>, delta: &mut Delta<'j>) {
    let Some(index) = call.get("index").and_then(super::read::number) else {
        // Clients differ in which call they take it for.
        delta.invalid = Some("a piece of a call of a tool has no index");
        return;
    };
    if call.get("function").is_some() && call.get("custom").is_some() {
        delta.invalid = Some("a call of a tool is of two kinds");
    }
    if let Some(function) = call.get("function") {
        function_delta(
            (choice, index),
            (function, TextKind::Arguments),
            call.get("id"),
            delta,
        );
    } else if let Some(custom) = call.get("custom") {
        function_delta(
            (choice, index),
            (custom, TextKind::Input),
            call.get("id"),
            delta,
        );
    }
}

fn function_delta<'j>(
    number: (u64, u64),
    (function, kind): (JsonValue<'j>, TextKind),
    id: Option<JsonValue<'j>>,
    delta: &mut Delta<'j>,
) {
    if function.kind() != JsonKind::Object {
        return;
    }
    delta.call(kind, number, function.get("name"), id);
    if let Some(arguments) = function.get("arguments").or(function.get("input")) {
        delta.text(kind, number, arguments);
    }
}

pub(super) fn response_answer<'j>(answer: JsonValue<'j>, said: &mut AnswerSaid<'j>) {
    said.usage = answer.get("usage").and_then(usage::of_responses);
    let is_stored = answer.get("store").is_some_and(|is| is.text() == "true");
    said.stored = answer.get("id").filter(|_| is_stored);
    let output = answer.get("output");
    for (i, item) in output.into_iter().flat_map(JsonValue::items).enumerate() {
        said.calls
            .extend(response_call(item, format!("output[{i}]")));
    }
}

/// A call that an item of `output` is.
fn response_call(item: JsonValue<'_>, path: String) -> Option<ToolCall<'_>> {
    let kind = item.get("type").and_then(JsonValue::as_str)?;
    match &*kind {
        "function_call" => ToolCall::of(path, item.get("name"), item.get("arguments")),
        "custom_tool_call" => ToolCall::of_text(path, item.get("name"), item.get("input")),
        // What a client is to run or to change stands under names of their own: all of it is judged.
        kind if client_runs(kind) => {
            ToolCall::of(path, item.get("name").or(item.get("type")), Some(item))
        }
        _ => None,
    }
}

pub(super) fn response_event<'j>(event: JsonValue<'j>, delta: &mut Delta<'j>) {
    let Some(kind) = event.get("type").and_then(JsonValue::as_str) else {
        return;
    };
    let index = |name| event.get(name).and_then(super::read::number);
    let output = index("output_index").unwrap_or_default();
    let part = index("content_index").or(index("summary_index"));
    let number = (output, part.unwrap_or_default());
    if let Some(text) = event.get("delta").filter(|v| v.kind() == JsonKind::String) {
        match &*kind {
            "response.output_text.delta" => delta.text(TextKind::Content, number, text),
            "response.refusal.delta" => delta.text(TextKind::Refusal, number, text),
            kind if is_of_call(kind) => delta.text(kind_of(kind), (output, 0), text),
            _ => delta.text(TextKind::Reasoning, number, text),
        }
    }
    match &*kind {
        "response.output_item.added" => {
            if let Some(item) = event.get("item") {
                let kind = item.get("type").and_then(JsonValue::as_str);
                if let Some(kind) = kind.filter(|kind| client_runs(kind)) {
                    let name = item.get("name").or(item.get("type"));
                    delta.call(kind_of(&kind), (output, 0), name, item.get("call_id"));
                }
            }
        }
        "response.output_item.done" => {
            let item = event.get("item");
            let call = item.and_then(|item| response_call(item, "item".to_owned()));
            delta.whole_calls.extend(call);
            delta.ends(output);
        }
        "error" => delta.is_error = true,
        _ => {}
    }
    // A call may stand in what a response ends with alone.
    if let Some(response) = event.get("response") {
        let mut said = AnswerSaid::default();
        response_answer(response, &mut said);
        delta.usage = said.usage;
        delta.stored = said.stored;
        delta.whole_calls.extend(said.calls);
    }
}

/// What the pieces of a call are: JSON of a function, a text of all else.
fn kind_of(item: &str) -> TextKind {
    let item = item.strip_prefix("response.").unwrap_or(item);
    match item.starts_with("function_call") {
        true => TextKind::Arguments,
        false => TextKind::Input,
    }
}

/// Whether an event of this type has a piece of a call that the client runs: `response.shell_call_command.delta`.
fn is_of_call(kind: &str) -> bool {
    let item = kind.strip_prefix("response.").unwrap_or(kind);
    let at = item.find("_call");
    at.is_some_and(|at| client_runs(&item[..at + "_call".len()]))
}
