//! Anthropic's messages.

use base::{JsonKind, JsonValue};
use gate::Role;

use super::read::{AskedModel, number};
use crate::answer::{AnswerSaid, Delta, TextKind, ToolCall};
use crate::usage;

pub(super) fn read<'j>(body: JsonValue<'j>, asked: &mut AskedModel<'j>) {
    for (key, value) in body.members() {
        let name = key.name();
        asked.common(&name, value);
        match &*name {
            "messages" if value.kind() == JsonKind::Array => {
                for (i, message) in value.items().enumerate() {
                    read_message(message, format!("messages[{i}]"), asked);
                }
            }
            "system" | "tools" => asked.add(Role::System, name.into_owned(), value),
            "metadata" => {
                let user = value.get("user_id").and_then(JsonValue::as_str);
                asked.conversation = user.or(asked.conversation.take());
                asked.add(Role::User, name.into_owned(), value);
            }
            _ => asked.add(Role::User, name.into_owned(), value),
        }
    }
}

fn read_message<'j>(message: JsonValue<'j>, path: String, asked: &mut AskedModel<'j>) {
    let role = message.get("role").and_then(JsonValue::as_str);
    let role = match role.as_deref() {
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some("user") => Role::User,
        // What says nothing of who speaks is nobody's order.
        _ => Role::ToolResult,
    };
    let content = message.get("content");
    if content.is_none_or(|content| content.kind() != JsonKind::Array) {
        return asked.add(role, path, message);
    }
    for (key, value) in message.members() {
        let name = key.name();
        if &*name != "content" {
            asked.add(role, format!("{path}.{name}"), value);
            continue;
        }
        for (i, block) in value.items().enumerate() {
            let kind = block.get("type").and_then(JsonValue::as_str);
            let role = match kind.as_deref() {
                Some(kind) if kind.ends_with("tool_result") => Role::ToolResult,
                Some("search_result" | "document") => Role::ToolResult,
                _ => role,
            };
            asked.add(role, format!("{path}.content[{i}]"), block);
        }
    }
}

pub(super) fn answer<'j>(answer: JsonValue<'j>, said: &mut AnswerSaid<'j>) {
    said.usage = answer.get("usage").and_then(usage::of_anthropic);
    let content = answer.get("content");
    for (i, block) in content.into_iter().flat_map(JsonValue::items).enumerate() {
        let kind = block.get("type").and_then(JsonValue::as_str);
        // Of blocks that are not known here too: a client may run what is called so.
        if kind.is_some_and(|kind| kind.ends_with("tool_use")) {
            let path = format!("content[{i}]");
            let call = ToolCall::of(path, block.get("name"), block.get("input"));
            said.calls.extend(call);
        }
    }
}

fn is_empty(input: JsonValue<'_>) -> bool {
    match input.kind() {
        JsonKind::Object => input.members().next().is_none(),
        kind => kind == JsonKind::Null,
    }
}

pub(super) fn event<'j>(event: JsonValue<'j>, delta: &mut Delta<'j>) {
    let Some(kind) = event.get("type").and_then(JsonValue::as_str) else {
        return;
    };
    let index = event.get("index").and_then(number).unwrap_or_default();
    match &*kind {
        "message_start" => {
            if let Some(message) = event.get("message") {
                let mut said = AnswerSaid::default();
                answer(message, &mut said);
                delta.usage = said.usage;
                delta.whole_calls = said.calls;
            }
        }
        "message_delta" => delta.usage = event.get("usage").and_then(usage::of_anthropic),
        "content_block_start" => {
            let Some(block) = event.get("content_block") else {
                return;
            };
            let kind = block.get("type").and_then(JsonValue::as_str);
            if kind.is_some_and(|kind| kind.ends_with("tool_use")) {
                delta.call(
                    TextKind::Arguments,
                    (index, 0),
                    block.get("name"),
                    block.get("id"),
                );
                // Its arguments mostly come in pieces; here they may stand already.
                if let Some(input) = block.get("input").filter(|input| !is_empty(*input)) {
                    let path = "content_block".to_owned();
                    let call = ToolCall::of(path, block.get("name"), Some(input));
                    delta.whole_calls.extend(call);
                }
            }
            if let Some(text) = block.get("text").filter(|v| v.kind() == JsonKind::String) {
                delta.text(TextKind::Content, (index, 0), text);
            }
        }
        "content_block_delta" => {
            let Some(said) = event.get("delta") else {
                return;
            };
            for (key, value) in said.members().filter(|(_, v)| v.kind() == JsonKind::String) {
                match &*key.name() {
                    "text" => delta.text(TextKind::Content, (index, 0), value),
                    "thinking" => delta.text(TextKind::Reasoning, (index, 0), value),
                    "partial_json" => delta.text(TextKind::Arguments, (index, 0), value),
                    _ => {}
                }
            }
        }
        "content_block_stop" => delta.ends(index),
        "error" => delta.is_error = true,
        _ => {}
    }
}
