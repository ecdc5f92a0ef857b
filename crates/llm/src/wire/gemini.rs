//! Google's Gemini API.

use base::{JsonKind, JsonValue};
use gate::Role;

use super::read::{AskedModel, amount, number};
use crate::answer::{AnswerSaid, Delta, TextKind, ToolCall};
use crate::usage;

pub(super) fn read<'j>(body: JsonValue<'j>, asked: &mut AskedModel<'j>) {
    for (key, value) in body.members() {
        let name = key.name();
        match &*name {
            "contents" | "content" => read_contents(value, &name, asked),
            "requests" if value.kind() == JsonKind::Array => {
                for (i, request) in value.items().enumerate() {
                    asked.add(Role::User, format!("requests[{i}]"), request);
                }
            }
            // What would be asked, where its tokens are counted.
            "generateContentRequest" if value.kind() == JsonKind::Object => read(value, asked),
            "systemInstruction" | "system_instruction" | "tools" => {
                asked.add(Role::System, name.into_owned(), value);
            }
            "generationConfig" | "generation_config" => {
                // Of two spellings nobody knows which the provider takes: the larger is reserved.
                for name in ["maxOutputTokens", "max_output_tokens"] {
                    let most = value.get(name).and_then(amount);
                    asked.output_max = asked.output_max.max(most);
                }
                for name in ["candidateCount", "candidate_count"] {
                    let answers = value.get(name).and_then(amount);
                    asked.answers = asked.answers.max(answers);
                }
                asked.add(Role::User, name.into_owned(), value);
            }
            _ => asked.add(Role::User, name.into_owned(), value),
        }
    }
}

fn read_contents<'j>(value: JsonValue<'j>, name: &str, asked: &mut AskedModel<'j>) {
    if value.kind() != JsonKind::Array {
        return read_content(value, name.to_owned(), asked);
    }
    for (i, content) in value.items().enumerate() {
        read_content(content, format!("{name}[{i}]"), asked);
    }
}

fn read_content<'j>(content: JsonValue<'j>, path: String, asked: &mut AskedModel<'j>) {
    let role = content.get("role").and_then(JsonValue::as_str);
    let role = match role.as_deref() {
        Some("model") => Role::Assistant,
        Some("function") => Role::ToolResult,
        Some("system") => Role::System,
        None | Some("user") => Role::User,
        Some(_) => Role::ToolResult,
    };
    let parts = content.get("parts");
    if parts.is_none_or(|parts| parts.kind() != JsonKind::Array) {
        return asked.add(role, path, content);
    }
    for (key, value) in content.members() {
        let name = key.name();
        if &*name != "parts" {
            asked.add(role, format!("{path}.{name}"), value);
            continue;
        }
        for (i, part) in value.items().enumerate() {
            let came_in = [
                "functionResponse",
                "function_response",
                "codeExecutionResult",
            ];
            let came_in = came_in.iter().any(|name| part.get(name).is_some());
            let role = if came_in { Role::ToolResult } else { role };
            asked.add(role, format!("{path}.parts[{i}]"), part);
        }
    }
}

pub(super) fn answer<'j>(answer: JsonValue<'j>, said: &mut AnswerSaid<'j>) {
    said.usage = answer.get("usageMetadata").and_then(usage::of_gemini);
    each_part(answer, |path, _, part| {
        said.calls.extend(calls(part, &path));
    });
}

/// The calls of a part, in either spelling.
fn calls<'j>(part: JsonValue<'j>, path: &str) -> impl Iterator<Item = ToolCall<'j>> {
    let calls = ["functionCall", "function_call"].map(|name| part.get(name));
    let path = path.to_owned();
    let calls = calls.into_iter().flatten();
    calls.filter_map(move |call| ToolCall::of(path.clone(), call.get("name"), call.get("args")))
}

/// Pieces of a call whose arguments come in several events (`streamFunctionCallArguments`): the texts that its arguments get,
/// one after another. A call of another name in the same candidate is refused, since nothing says which of the two goes on.
fn call_in_pieces<'j>(part: JsonValue<'j>, candidate: u64, delta: &mut Delta<'j>) -> bool {
    let call = part.get("functionCall").or(part.get("function_call"));
    let Some(call) = call else { return false };
    let pieces = call.get("partialArgs").or(call.get("partial_args"));
    let goes_on = call.get("willContinue").or(call.get("will_continue"));
    if pieces.is_none() && goes_on.is_none_or(|goes_on| goes_on.text() != "true") {
        return false;
    }
    delta.call(
        TextKind::Input,
        (candidate, 0),
        call.get("name"),
        call.get("id"),
    );
    for piece in pieces.into_iter().flat_map(JsonValue::items) {
        let text = piece.get("stringValue").or(piece.get("string_value"));
        if let Some(text) = text.filter(|text| text.kind() == JsonKind::String) {
            delta.text(TextKind::Input, (candidate, 0), text);
        }
    }
    true
}

/// One event is an answer by itself; a call of a tool is mostly whole in one.
pub(super) fn answer_event<'j>(event: JsonValue<'j>, delta: &mut Delta<'j>) {
    delta.usage = event.get("usageMetadata").and_then(usage::of_gemini);
    delta.is_error = event.get("error").is_some();
    let candidates = event.get("candidates");
    for (i, candidate) in candidates
        .into_iter()
        .flat_map(JsonValue::items)
        .enumerate()
    {
        if candidate.get("finishReason").is_some() {
            let index = candidate.get("index").and_then(number);
            delta.ends(index.unwrap_or(i as u64));
        }
    }
    each_part(event, |path, candidate, part| {
        let is_thought = part
            .get("thought")
            .is_some_and(|value| value.text() == "true");
        if let Some(text) = part.get("text").filter(|v| v.kind() == JsonKind::String) {
            let kind = match is_thought {
                true => TextKind::Reasoning,
                false => TextKind::Content,
            };
            delta.text(kind, (candidate, 0), text);
        }
        if !call_in_pieces(part, candidate, delta) {
            delta.whole_calls.extend(calls(part, &path));
        }
    });
}

fn each_part<'j>(answer: JsonValue<'j>, mut each: impl FnMut(String, u64, JsonValue<'j>)) {
    let candidates = answer.get("candidates");
    for (i, candidate) in candidates
        .into_iter()
        .flat_map(JsonValue::items)
        .enumerate()
    {
        let index = candidate.get("index").and_then(number).unwrap_or(i as u64);
        let parts = candidate
            .get("content")
            .and_then(|content| content.get("parts"));
        for (j, part) in parts.into_iter().flat_map(JsonValue::items).enumerate() {
            each(format!("candidates[{i}].content.parts[{j}]"), index, part);
        }
    }
}
