//! OpenAI's chat completions. Source: OpenAI API reference, "Chat" and "Chat streaming".

use std::fmt::Write as _;

use super::{Made, scripted};
use crate::target::body::Script;

fn finish(made: &Made) -> &'static str {
    if made.cut { "length" } else { "stop" }
}

fn usage(made: &Made) -> String {
    format!(
        r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}}"#,
        made.prompt_tokens,
        made.tokens,
        made.prompt_tokens + made.tokens
    )
}

/// What every object of the dialect begins with.
fn begin(made: &Made, object: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-{}","object":"{object}","created":{},"model":{},"service_tier":"default","system_fingerprint":"fp_lab""#,
        made.id, made.created, made.model
    )
}

pub(super) fn whole(made: &Made) -> String {
    format!(
        r#"{},"choices":[{{"index":0,"message":{{"role":"assistant","content":"{}","refusal":null,"annotations":[]}},"logprobs":null,"finish_reason":"{}"}}],"usage":{}}}"#,
        begin(made, "chat.completion"),
        made.text(),
        finish(made),
        usage(made)
    )
}

pub(super) fn script(made: Made) -> Script {
    let begin = format!("data: {}", begin(&made, "chat.completion.chunk"));
    let none = if made.include_usage {
        r#","usage":null"#
    } else {
        ""
    };
    scripted(made, move |made, index, events| {
        let mut chunk = |delta: &str, finish: &str| {
            events.push_str(&begin);
            events.push_str(r#","choices":[{"index":0,"delta":"#);
            events.push_str(delta);
            events.push_str(r#","logprobs":null,"finish_reason":"#);
            events.push_str(finish);
            events.push_str("}]");
            events.push_str(none);
            events.push_str("}\n\n");
        };
        if index == 0 {
            chunk(
                r#"{"role":"assistant","content":"","refusal":null}"#,
                "null",
            );
        }
        chunk(&format!(r#"{{"content":"{}"}}"#, made.token(index)), "null");
        if !made.is_last(index) {
            return;
        }
        chunk("{}", &format!("\"{}\"", finish(made)));
        if made.include_usage {
            write!(
                events,
                "{begin},\"choices\":[],\"usage\":{}}}\n\n",
                usage(made)
            )
            .expect("a string takes all");
        }
        events.push_str("data: [DONE]\n\n");
    })
}
