//! Anthropic's messages. Source: Anthropic API reference, "Messages", "Streaming messages" and "Count message tokens".

use std::fmt::Write as _;

use super::made::{Block, Events as StreamEvents, Finish, Made};
use super::quoted;

fn stop(made: &Made) -> &'static str {
    match made.finish {
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
        Finish::Tools => "tool_use",
    }
}

/// The tokens that the cache had are no part of the input, as the API counts them.
fn usage(made: &Made, output: u64) -> String {
    format!(
        r#"{{"input_tokens":{},"cache_creation":{{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0}},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},"inference_geo":null,"output_tokens":{output},"output_tokens_details":{{"thinking_tokens":{}}},"server_tool_use":null,"service_tier":"standard"}}"#,
        made.usage.input.saturating_sub(made.usage.cached),
        made.usage.cached,
        made.usage.reasoning.min(output)
    )
}

/// A message with a content, and why it stopped, both as JSON.
fn message(made: &Made, content: &str, stop: &str, output: u64) -> String {
    format!(
        r#"{{"id":"msg_{}","type":"message","role":"assistant","model":{},"content":[{content}],"stop_reason":{stop},"stop_sequence":null,"stop_details":null,"container":null,"usage":{}}}"#,
        made.id,
        made.model,
        usage(made, output)
    )
}

/// What a client sends back with the reasoning. It signs nothing.
fn signature(made: &Made) -> String {
    format!("\"bGFi{}\"", made.id)
}

/// A block, whole.
fn content(made: &Made, at: usize, block: &Block) -> String {
    match block {
        Block::Reasoning(words) => format!(
            r#"{{"type":"thinking","thinking":{},"signature":{}}}"#,
            quoted(&words.text()),
            signature(made)
        ),
        Block::Text(words) => format!(
            r#"{{"type":"text","text":{},"citations":null}}"#,
            quoted(&words.text())
        ),
        Block::Call {
            name, arguments, ..
        } => call(made, at, name, &arguments.text()),
    }
}

fn call(made: &Made, at: usize, name: &str, input: &str) -> String {
    format!(
        r#"{{"type":"tool_use","id":{},"name":{},"input":{input},"caller":{{"type":"direct"}}}}"#,
        made.call_id(at, "toolu_"),
        quoted(name)
    )
}

pub(super) fn whole(made: &Made) -> String {
    let blocks = made.blocks.iter().enumerate();
    let contents: Vec<String> = blocks.map(|(at, block)| content(made, at, block)).collect();
    let stop = format!("\"{}\"", stop(made));
    message(made, &contents.join(","), &stop, made.usage.output)
}

/// The answer to `count_tokens`.
pub(super) fn count(tokens: u64) -> String {
    format!(r#"{{"input_tokens":{tokens}}}"#)
}

/// The events of a stream.
pub(super) struct Events;

/// Writes an event. Its name is its type.
fn event(name: &str, rest: &str, out: &mut String) {
    write!(
        out,
        "event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n"
    )
    .expect("a string takes all");
}

fn delta(at: usize, kind: &str, member: &str, value: &str, out: &mut String) {
    let delta = format!(r#","index":{at},"delta":{{"type":"{kind}","{member}":{value}}}"#);
    event("content_block_delta", &delta, out);
}

impl StreamEvents for Events {
    fn begin(&mut self, made: &Made, out: &mut String) {
        let message = message(made, "", "null", 1);
        event("message_start", &format!(r#","message":{message}"#), out);
    }

    fn open(&mut self, made: &Made, at: usize, block: &Block, out: &mut String) {
        let empty = match block {
            Block::Reasoning(_) => r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
            Block::Text(_) => r#"{"type":"text","text":"","citations":null}"#.to_owned(),
            Block::Call { name, .. } => call(made, at, name, "{}"),
        };
        let start = format!(r#","index":{at},"content_block":{empty}"#);
        event("content_block_start", &start, out);
        if at == 0 {
            event("ping", "", out);
        }
    }

    fn token(&mut self, _: &Made, at: usize, block: &Block, token: &str, out: &mut String) {
        let (kind, member) = match block {
            Block::Reasoning(_) => ("thinking_delta", "thinking"),
            Block::Text(_) => ("text_delta", "text"),
            Block::Call { .. } => ("input_json_delta", "partial_json"),
        };
        delta(at, kind, member, &quoted(token), out);
    }

    fn close(&mut self, made: &Made, at: usize, block: &Block, out: &mut String) {
        if matches!(block, Block::Reasoning(_)) {
            delta(at, "signature_delta", "signature", &signature(made), out);
        }
        event("content_block_stop", &format!(r#","index":{at}"#), out);
    }

    fn end(&mut self, made: &Made, out: &mut String) {
        let last = format!(
            r#","delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{{"output_tokens":{}}}"#,
            stop(made),
            made.usage.output
        );
        event("message_delta", &last, out);
        event("message_stop", "", out);
    }
}
