//! Google's `generateContent`. Source: Gemini API reference, "Generating content" and "Counting tokens".

use std::fmt::Write as _;

use super::made::{Block, Events as StreamEvents, Finish, Made};
use super::quoted;

fn finish(made: &Made) -> &'static str {
    match made.finish {
        Finish::Length => "\"MAX_TOKENS\"",
        Finish::Stop | Finish::Tools => "\"STOP\"",
    }
}

/// The tokens of reasoning are no part of the candidate's, as the API counts them.
fn usage(made: &Made) -> String {
    let usage = made.usage;
    let mut text = format!(
        r#"{{"promptTokenCount":{},"candidatesTokenCount":{},"totalTokenCount":{},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":{}}}]"#,
        usage.input,
        usage.output.saturating_sub(usage.reasoning),
        usage.input.saturating_add(usage.output),
        usage.input
    );
    for (name, tokens) in [
        ("cachedContentTokenCount", usage.cached),
        ("thoughtsTokenCount", usage.reasoning),
    ] {
        if tokens > 0 {
            write!(text, r#","{name}":{tokens}"#).expect("a string takes all");
        }
    }
    text + "}"
}

/// A part of a block that says this text. A call is whole whatever it is asked with.
fn part(made: &Made, at: usize, block: &Block, text: &str) -> String {
    match block {
        Block::Reasoning(_) => format!(r#"{{"text":{},"thought":true}}"#, quoted(text)),
        Block::Text(_) => format!(r#"{{"text":{}}}"#, quoted(text)),
        Block::Call {
            name, arguments, ..
        } => format!(
            r#"{{"functionCall":{{"id":{},"name":{},"args":{}}}}}"#,
            made.call_id(at, "call_"),
            quoted(name),
            arguments.text()
        ),
    }
}

/// An answer, or a piece of one. The last has why it ended and the usage.
fn answer(made: &Made, parts: &str, is_last: bool) -> String {
    let (finish, usage) = match is_last {
        true => (
            format!(r#","finishReason":{}"#, finish(made)),
            format!(r#","usageMetadata":{}"#, usage(made)),
        ),
        false => (String::new(), String::new()),
    };
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{finish},"index":0}}]{usage},"modelVersion":{},"responseId":"{}"}}"#,
        made.model, made.id
    )
}

pub(super) fn whole(made: &Made) -> String {
    let blocks = made.blocks.iter().enumerate();
    let parts: Vec<String> = blocks
        .map(|(at, block)| part(made, at, block, &block.words().text()))
        .collect();
    answer(made, &parts.join(","), true)
}

/// The answer to `countTokens`.
pub(super) fn count(tokens: u64) -> String {
    format!(
        r#"{{"totalTokens":{tokens},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":{tokens}}}]}}"#
    )
}

/// The answers of a stream: events, or the members of one array.
pub(super) struct Events {
    is_array: bool,
    is_first: bool,
}

impl Events {
    pub(super) fn new(is_array: bool) -> Events {
        Events {
            is_array,
            is_first: true,
        }
    }

    fn answer(&mut self, answer: &str, out: &mut String) {
        let (before, after) = match (self.is_array, self.is_first) {
            (false, _) => ("data: ", "\n\n"),
            (true, true) => ("[", ""),
            (true, false) => ("\n,\n", ""),
        };
        out.extend([before, answer, after]);
        self.is_first = false;
    }
}

impl StreamEvents for Events {
    fn begin(&mut self, _: &Made, _: &mut String) {}

    fn open(&mut self, _: &Made, _: usize, _: &Block, _: &mut String) {}

    fn token(&mut self, made: &Made, at: usize, block: &Block, token: &str, out: &mut String) {
        if !matches!(block, Block::Call { .. }) {
            self.answer(&answer(made, &part(made, at, block, token), false), out);
        }
    }

    /// A call comes whole.
    fn close(&mut self, made: &Made, at: usize, block: &Block, out: &mut String) {
        if matches!(block, Block::Call { .. }) {
            self.answer(&answer(made, &part(made, at, block, ""), false), out);
        }
    }

    fn end(&mut self, made: &Made, out: &mut String) {
        self.answer(&answer(made, r#"{"text":""}"#, true), out);
        if self.is_array {
            out.push(']');
        }
    }
}
