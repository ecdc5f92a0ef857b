//! Anthropic's messages. Source: Anthropic API reference, "Messages" and "Streaming messages".

use std::fmt::Write as _;

use super::{Made, scripted};
use crate::target::body::Script;

fn stop(made: &Made) -> &'static str {
    if made.cut { "max_tokens" } else { "end_turn" }
}

fn usage(made: &Made, tokens: u64) -> String {
    format!(
        r#"{{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{tokens},"service_tier":"standard"}}"#,
        made.prompt_tokens
    )
}

/// A message with a content, and why it stopped, both as JSON.
fn message(made: &Made, content: &str, stop: &str, tokens: u64) -> String {
    format!(
        r#"{{"id":"msg_{}","type":"message","role":"assistant","model":{},"content":{content},"stop_reason":{stop},"stop_sequence":null,"usage":{}}}"#,
        made.id,
        made.model,
        usage(made, tokens)
    )
}

pub(super) fn whole(made: &Made) -> String {
    let content = format!(r#"[{{"type":"text","text":"{}"}}]"#, made.text());
    let stop = format!("\"{}\"", stop(made));
    message(made, &content, &stop, made.tokens)
}

pub(super) fn script(made: Made) -> Script {
    scripted(made, |made, index, events| {
        // Each event's name is its type.
        let mut event = |name: &str, rest: &str| {
            write!(
                events,
                "event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n"
            )
            .expect("a string takes all");
        };
        if index == 0 {
            let message = message(made, "[]", "null", 1);
            event("message_start", &format!(r#","message":{message}"#));
            event(
                "content_block_start",
                r#","index":0,"content_block":{"type":"text","text":""}"#,
            );
            event("ping", "");
        }
        let delta = format!(
            r#","index":0,"delta":{{"type":"text_delta","text":"{}"}}"#,
            made.token(index)
        );
        event("content_block_delta", &delta);
        if made.is_last(index) {
            event("content_block_stop", r#","index":0"#);
            let last = format!(
                r#","delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{{"output_tokens":{}}}"#,
                stop(made),
                made.tokens
            );
            event("message_delta", &last);
            event("message_stop", "");
        }
    })
}
