//! OpenAI's responses: one message of text. Source: OpenAI API reference, "Responses" and its streaming events.

use std::fmt::Write as _;

use super::{Made, scripted};
use crate::target::body::Script;

fn status(made: &Made) -> &'static str {
    if made.cut { "incomplete" } else { "completed" }
}

/// The response with a status, an output and a usage, each as JSON.
fn response(made: &Made, status: &str, output: &str, usage: &str) -> String {
    let incomplete = match status {
        "incomplete" => r#"{"reason":"max_output_tokens"}"#,
        _ => "null",
    };
    format!(
        r#"{{"id":"resp_{}","object":"response","created_at":{},"status":"{status}","background":false,"error":null,"incomplete_details":{incomplete},"instructions":null,"max_output_tokens":null,"model":{},"output":{output},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#,
        made.id, made.created, made.model
    )
}

fn usage(made: &Made) -> String {
    format!(
        r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
        made.prompt_tokens,
        made.tokens,
        made.prompt_tokens + made.tokens
    )
}

fn part(text: &str) -> String {
    format!(r#"{{"type":"output_text","text":"{text}","annotations":[],"logprobs":[]}}"#)
}

/// The one item of the output, with its status and its parts as JSON.
fn item(made: &Made, status: &str, parts: &str) -> String {
    format!(
        r#"{{"id":"msg_{}","type":"message","status":"{status}","role":"assistant","content":[{parts}]}}"#,
        made.id
    )
}

/// The response when all is made.
fn ended(made: &Made) -> String {
    let item = item(made, status(made), &part(&made.text()));
    response(made, status(made), &format!("[{item}]"), &usage(made))
}

pub(super) fn whole(made: &Made) -> String {
    ended(made)
}

pub(super) fn script(made: Made) -> Script {
    let place = format!(
        r#","item_id":"msg_{}","output_index":0,"content_index":0"#,
        made.id
    );
    let mut sequence = 0_u64;
    scripted(made, move |made, index, events| {
        let mut event = |name: &str, rest: &str| {
            write!(
                events,
                "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{sequence}{rest}}}\n\n"
            )
            .expect("a string takes all");
            sequence += 1;
        };
        if index == 0 {
            let begun = format!(
                r#","response":{}"#,
                response(made, "in_progress", "[]", "null")
            );
            event("response.created", &begun);
            event("response.in_progress", &begun);
            let item = item(made, "in_progress", "");
            let added = format!(r#","output_index":0,"item":{item}"#);
            event("response.output_item.added", &added);
            let added = format!(r#"{place},"part":{}"#, part(""));
            event("response.content_part.added", &added);
        }
        let delta = format!(r#"{place},"delta":"{}","logprobs":[]"#, made.token(index));
        event("response.output_text.delta", &delta);
        if !made.is_last(index) {
            return;
        }
        let text = made.text();
        let done = format!(r#"{place},"text":"{text}","logprobs":[]"#);
        event("response.output_text.done", &done);
        let done = format!(r#"{place},"part":{}"#, part(&text));
        event("response.content_part.done", &done);
        let item = item(made, status(made), &part(&text));
        let done = format!(r#","output_index":0,"item":{item}"#);
        event("response.output_item.done", &done);
        let name = match made.cut {
            true => "response.incomplete",
            false => "response.completed",
        };
        event(name, &format!(r#","response":{}"#, ended(made)));
    })
}
