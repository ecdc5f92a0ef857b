//! OpenAI's responses, of clients. Source: OpenAI API reference, "Responses".

use base::record::Usage;
use serde_json::{Value, json};

use super::chat::{arguments, choice, effort, format, function, image};
use super::fields::{checked, given, items, known, text};
use super::talk::{Said, Speaker, Stop, Talk, TalkBlock, ToolUse};
use super::{Dialect, Unconvertible, all_input};

pub(super) fn read(body: &Value) -> Result<Talk, Unconvertible> {
    let body = checked(body, Dialect::Responses)?;
    let mut talk = Talk {
        temperature: given(body, "temperature"),
        top_p: given(body, "top_p"),
        parallel: body.get("parallel_tool_calls").and_then(Value::as_bool),
        max_tokens: given(body, "max_output_tokens").and_then(|most| most.as_u64()),
        choice: choice(body.get("tool_choice"), "tool_choice")?,
        ..Talk::default()
    };
    let user = given(body, "safety_identifier").or(given(body, "user"));
    talk.user = user.and_then(|user| user.as_str().map(str::to_owned));
    if let Some(reasoning) = given(body, "reasoning") {
        known(
            &reasoning,
            "reasoning",
            &["effort", "summary", "generate_summary"],
        )?;
        talk.effort = effort(reasoning.get("effort"));
    }
    if let Some(text) = given(body, "text") {
        known(&text, "text", &["format", "verbosity"])?;
        talk.format = format(text.get("format"), "text.format")?;
    }
    for (i, tool) in items(body.get("tools"), "tools")?.iter().enumerate() {
        let path = format!("tools[{i}]");
        if tool["type"] != "function" {
            return Err(Unconvertible::new(
                format!("{path}.type"),
                "is not function, and the provider has no such tool",
            ));
        }
        talk.tools.push(function(tool, &path)?);
    }
    if let Some(instructions) = given(body, "instructions") {
        talk.system.push(text(Some(&instructions), "instructions")?);
    }
    match body.get("input") {
        Some(Value::String(said)) => talk.say(Speaker::User, vec![TalkBlock::Text(said.clone())]),
        list => {
            for (i, item) in items(list, "input")?.iter().enumerate() {
                read_item(&mut talk, item, &format!("input[{i}]"))?;
            }
        }
    }
    Ok(talk)
}

fn read_item(talk: &mut Talk, item: &Value, path: &str) -> Result<(), Unconvertible> {
    match item["type"].as_str() {
        None | Some("message") => {
            let blocks = read_content(&item["content"], &format!("{path}.content"))?;
            match item["role"].as_str() {
                Some("system" | "developer") => {
                    talk.system.extend(super::chat::texts_of(blocks, path)?)
                }
                Some("assistant") => talk.say(Speaker::Assistant, blocks),
                Some("user") => talk.say(Speaker::User, blocks),
                _ => {
                    return Err(Unconvertible::new(
                        format!("{path}.role"),
                        "is none that the provider knows",
                    ));
                }
            }
        }
        Some("function_call") => {
            let call = ToolUse {
                id: text(item.get("call_id"), &format!("{path}.call_id"))?,
                name: text(item.get("name"), &format!("{path}.name"))?,
                input: arguments(item["arguments"].as_str(), &format!("{path}.arguments"))?,
            };
            talk.say(Speaker::Assistant, vec![TalkBlock::Call(call)]);
        }
        Some("function_call_output") => {
            let block = TalkBlock::Result {
                id: text(item.get("call_id"), &format!("{path}.call_id"))?,
                content: read_content(&item["output"], &format!("{path}.output"))?,
                is_error: false,
            };
            talk.say(Speaker::User, vec![block]);
        }
        // It can be read by the provider that wrote it alone.
        Some("reasoning") => {}
        Some(_) => {
            return Err(Unconvertible::new(
                format!("{path}.type"),
                "is of a kind that the provider does not take",
            ));
        }
    }
    Ok(())
}

fn read_content(content: &Value, path: &str) -> Result<Vec<TalkBlock>, Unconvertible> {
    if let Some(text) = content.as_str() {
        return Ok(vec![TalkBlock::Text(text.to_owned())]);
    }
    let mut blocks = Vec::new();
    for (i, part) in items(Some(content), path)?.iter().enumerate() {
        let at = format!("{path}[{i}]");
        blocks.push(match part["type"].as_str() {
            Some("input_text" | "output_text" | "text") => {
                TalkBlock::Text(text(part.get("text"), &at)?)
            }
            Some("refusal") => TalkBlock::Text(text(part.get("refusal"), &at)?),
            Some("input_image") => {
                TalkBlock::Image(image(&text(part.get("image_url"), &at)?, &at)?)
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

/// The items that an answer's blocks become, in their order.
fn write_items(said: &Said) -> Vec<Value> {
    let mut output = Vec::new();
    let thinking = said.thinking();
    if !thinking.is_empty() {
        output.push(reasoning_item(&thinking));
    }
    let words = said.text();
    if !words.is_empty() {
        output.push(message_item(&words, "completed"));
    }
    output.extend(
        said.calls()
            .map(|call| call_item(&call.id, &call.name, &call.input.to_string(), "completed")),
    );
    output
}

pub(super) fn reasoning_item(thinking: &str) -> Value {
    json!({ "id": "rs_0", "type": "reasoning", "summary": [{ "type": "summary_text", "text": thinking }] })
}

pub(super) fn message_item(words: &str, status: &str) -> Value {
    let content = match words {
        "" => json!([]),
        words => {
            json!([{ "type": "output_text", "text": words, "annotations": [], "logprobs": [] }])
        }
    };
    json!({ "id": "msg_0", "type": "message", "role": "assistant", "status": status, "content": content })
}

pub(super) fn call_item(id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({
        "id": format!("fc_{id}"),
        "type": "function_call",
        "status": status,
        "call_id": id,
        "name": name,
        "arguments": arguments,
    })
}

/// A response with these items.
pub(super) fn response(
    id: &str,
    model: &str,
    output: Vec<Value>,
    stop: Option<&Stop>,
    usage: Option<&Usage>,
) -> Value {
    let (status, incomplete) = match stop {
        None => ("in_progress", Value::Null),
        Some(Stop::Length) => ("incomplete", json!({ "reason": "max_output_tokens" })),
        Some(Stop::Filtered) => ("incomplete", json!({ "reason": "content_filter" })),
        Some(_) => ("completed", Value::Null),
    };
    json!({
        "id": format!("resp_{id}"),
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": null,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": true,
        "temperature": null,
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "usage": usage.map(write_usage),
    })
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": all_input(usage),
        "input_tokens_details": { "cached_tokens": usage.cached_read },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.total(),
    })
}

pub(super) fn write_answer(said: &Said, model: &str) -> Value {
    response(
        &said.id,
        model,
        write_items(said),
        Some(&said.stop),
        Some(&said.usage),
    )
}
