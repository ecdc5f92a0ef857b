//! OpenAI's chat completions. Source: OpenAI API reference, "Chat" and "Chat streaming". Reasoning stands in
//! `reasoning_content`, as DeepSeek and vLLM send it: OpenAI itself only counts it.

use std::fmt::Write as _;

use super::made::{Block, Events as StreamEvents, Finish, Made};
use super::quoted;

fn finish(made: &Made) -> &'static str {
    match made.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Tools => "tool_calls",
    }
}

fn usage(made: &Made) -> String {
    let usage = made.usage;
    format!(
        r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{},"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":{},"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}}"#,
        usage.input,
        usage.output,
        usage.input.saturating_add(usage.output),
        usage.cached,
        usage.reasoning
    )
}

/// What every object of the dialect begins with.
fn start(made: &Made, object: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-{}","object":"{object}","created":{},"model":{},"service_tier":"default","system_fingerprint":"fp_lab""#,
        made.id, made.created, made.model
    )
}

/// A call with its arguments, without the brace that ends it.
fn call(made: &Made, at: usize, name: &str, arguments: &str) -> String {
    format!(
        r#""id":{},"type":"function","function":{{"name":{},"arguments":{}}}"#,
        made.call_id(at, "call_"),
        quoted(name),
        quoted(arguments)
    )
}

pub(super) fn whole(made: &Made) -> String {
    let calls: Vec<String> = made
        .blocks
        .iter()
        .enumerate()
        .filter_map(|(at, block)| match block {
            Block::Call {
                name, arguments, ..
            } => Some(format!("{{{}}}", call(made, at, name, &arguments.text()))),
            _ => None,
        })
        .collect();
    let text = made.text();
    let content = match text.is_empty() && !calls.is_empty() {
        true => "null".to_owned(),
        false => quoted(&text),
    };
    let mut more = String::new();
    if let Some(reasoning) = made.reasoning() {
        more += &format!(r#","reasoning_content":{}"#, quoted(&reasoning));
    }
    if !calls.is_empty() {
        more += &format!(r#","tool_calls":[{}]"#, calls.join(","));
    }
    format!(
        r#"{},"choices":[{{"index":0,"message":{{"role":"assistant","content":{content},"refusal":null,"annotations":[]{more}}},"logprobs":null,"finish_reason":"{}"}}],"usage":{}}}"#,
        start(made, "chat.completion"),
        finish(made),
        usage(made)
    )
}

/// The chunks of a stream.
#[derive(Default)]
pub(super) struct Events {
    /// What each chunk begins with.
    start: String,
    /// What each but the last ends with.
    usage: &'static str,
    /// How many calls there were.
    calls: usize,
}

impl Events {
    fn chunk(&self, delta: &str, finish: &str, out: &mut String) {
        out.push_str(&self.start);
        out.push_str(r#","choices":[{"index":0,"delta":"#);
        out.push_str(delta);
        out.push_str(r#","logprobs":null,"finish_reason":"#);
        out.push_str(finish);
        out.push_str("}]");
        out.push_str(self.usage);
        out.push_str("}\n\n");
    }
}

impl StreamEvents for Events {
    fn begin(&mut self, made: &Made, out: &mut String) {
        self.start = format!("data: {}", start(made, "chat.completion.chunk"));
        if made.include_usage {
            self.usage = r#","usage":null"#;
        }
        let delta = r#"{"role":"assistant","content":"","refusal":null}"#;
        self.chunk(delta, "null", out);
    }

    fn open(&mut self, made: &Made, at: usize, block: &Block, out: &mut String) {
        if let Block::Call { name, .. } = block {
            let call = call(made, at, name, "");
            let delta = format!(r#"{{"tool_calls":[{{"index":{},{call}}}]}}"#, self.calls);
            self.chunk(&delta, "null", out);
        }
    }

    fn token(&mut self, _: &Made, _: usize, block: &Block, token: &str, out: &mut String) {
        let token = quoted(token);
        let delta = match block {
            Block::Reasoning(_) => format!(r#"{{"reasoning_content":{token}}}"#),
            Block::Text(_) => format!(r#"{{"content":{token}}}"#),
            Block::Call { .. } => format!(
                r#"{{"tool_calls":[{{"index":{},"function":{{"arguments":{token}}}}}]}}"#,
                self.calls
            ),
        };
        self.chunk(&delta, "null", out);
    }

    fn close(&mut self, _: &Made, _: usize, block: &Block, _: &mut String) {
        self.calls += usize::from(matches!(block, Block::Call { .. }));
    }

    fn end(&mut self, made: &Made, out: &mut String) {
        self.chunk("{}", &format!("\"{}\"", finish(made)), out);
        if made.include_usage {
            let (start, usage) = (&self.start, usage(made));
            write!(out, "{start},\"choices\":[],\"usage\":{usage}}}\n\n")
                .expect("a string takes all");
        }
        out.push_str("data: [DONE]\n\n");
    }
}
