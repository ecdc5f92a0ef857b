//! OpenAI's responses: an item for each block. Source: OpenAI API reference, "Responses" and its streaming events.

use std::fmt::Write as _;

use super::made::{Block, Events as StreamEvents, Finish, Made};
use super::quoted;

fn status(made: &Made) -> &'static str {
    match made.finish {
        Finish::Length => "incomplete",
        Finish::Stop | Finish::Tools => "completed",
    }
}

/// The response with a status, an output and a usage, each as JSON.
fn response(made: &Made, status: &str, output: &str, usage: &str) -> String {
    let incomplete = match status {
        "incomplete" => r#"{"reason":"max_output_tokens"}"#,
        _ => "null",
    };
    let completed = match status {
        "completed" => made.created.to_string(),
        _ => "null".to_owned(),
    };
    format!(
        r#"{{"id":"resp_{}","object":"response","created_at":{},"completed_at":{completed},"status":"{status}","background":false,"error":null,"incomplete_details":{incomplete},"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":{},"output":{output},"parallel_tool_calls":true,"presence_penalty":0.0,"frequency_penalty":0.0,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{{"effort":null,"summary":{}}},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#,
        made.id, made.created, made.model, made.summary
    )
}

fn usage(made: &Made) -> String {
    let usage = made.usage;
    format!(
        r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{}}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}}"#,
        usage.input,
        usage.cached,
        usage.output,
        usage.reasoning,
        usage.input.saturating_add(usage.output)
    )
}

fn output_text(text: &str) -> String {
    format!(
        r#"{{"type":"output_text","text":{},"annotations":[],"logprobs":[]}}"#,
        quoted(text)
    )
}

fn summary_text(text: &str) -> String {
    format!(r#"{{"type":"summary_text","text":{}}}"#, quoted(text))
}

/// The id of an item.
fn item_id(made: &Made, at: usize, block: &Block) -> String {
    let prefix = match block {
        Block::Reasoning(_) => "rs",
        Block::Text(_) => "msg",
        Block::Call { .. } => "fc",
    };
    format!("{prefix}_{}{at:02x}", made.id)
}

/// An item with what it says; None: nothing yet.
fn item(made: &Made, at: usize, block: &Block, said: Option<&str>, status: &str) -> String {
    let id = item_id(made, at, block);
    match block {
        Block::Reasoning(_) => format!(
            r#"{{"id":"{id}","type":"reasoning","summary":[{}]}}"#,
            said.map(summary_text).unwrap_or_default()
        ),
        Block::Text(_) => format!(
            r#"{{"id":"{id}","type":"message","status":"{status}","role":"assistant","content":[{}]}}"#,
            said.map(output_text).unwrap_or_default()
        ),
        Block::Call { name, .. } => format!(
            r#"{{"id":"{id}","type":"function_call","status":"{status}","call_id":{},"name":{},"arguments":{}}}"#,
            made.call_id(at, "call_"),
            quoted(name),
            quoted(said.unwrap_or_default())
        ),
    }
}

/// The status of the item at a place, when all is made: the last one is what was cut.
fn item_status(made: &Made, at: usize) -> &'static str {
    match at + 1 == made.blocks.len() {
        true => status(made),
        false => "completed",
    }
}

/// The response when all is made.
pub(super) fn whole(made: &Made) -> String {
    let blocks = made.blocks.iter().enumerate();
    let items: Vec<String> = blocks
        .map(|(at, block)| {
            let text = block.words().text();
            item(made, at, block, Some(&text), item_status(made, at))
        })
        .collect();
    let output = format!("[{}]", items.join(","));
    response(made, status(made), &output, &usage(made))
}

/// The events of a stream.
#[derive(Default)]
pub(super) struct Events {
    sequence: u64,
}

impl Events {
    fn event(&mut self, name: &str, rest: &str, out: &mut String) {
        write!(
            out,
            "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{}{rest}}}\n\n",
            self.sequence
        )
        .expect("a string takes all");
        self.sequence += 1;
    }
}

/// Where an item, or its one part, stands.
fn position(made: &Made, at: usize, block: &Block) -> String {
    let part = match block {
        Block::Reasoning(_) => r#","summary_index":0"#,
        Block::Text(_) => r#","content_index":0"#,
        Block::Call { .. } => "",
    };
    let id = item_id(made, at, block);
    format!(r#","item_id":"{id}","output_index":{at}{part}"#)
}

impl StreamEvents for Events {
    fn begin(&mut self, made: &Made, out: &mut String) {
        let response = response(made, "in_progress", "[]", "null");
        let begun = format!(r#","response":{response}"#);
        self.event("response.created", &begun, out);
        self.event("response.in_progress", &begun, out);
    }

    fn open(&mut self, made: &Made, at: usize, block: &Block, out: &mut String) {
        let item = item(made, at, block, None, "in_progress");
        let added = format!(r#","output_index":{at},"item":{item}"#);
        self.event("response.output_item.added", &added, out);
        let (name, part) = match block {
            Block::Reasoning(_) => ("response.reasoning_summary_part.added", summary_text("")),
            Block::Text(_) => ("response.content_part.added", output_text("")),
            Block::Call { .. } => return,
        };
        let added = format!(r#"{},"part":{part}"#, position(made, at, block));
        self.event(name, &added, out);
    }

    fn token(&mut self, made: &Made, at: usize, block: &Block, token: &str, out: &mut String) {
        let (name, more) = match block {
            Block::Reasoning(_) => ("response.reasoning_summary_text.delta", ""),
            Block::Text(_) => ("response.output_text.delta", r#","logprobs":[]"#),
            Block::Call { .. } => ("response.function_call_arguments.delta", ""),
        };
        let position = position(made, at, block);
        let delta = format!(r#"{position},"delta":{}{more}"#, quoted(token));
        self.event(name, &delta, out);
    }

    fn close(&mut self, made: &Made, at: usize, block: &Block, out: &mut String) {
        let (position, text) = (position(made, at, block), block.words().text());
        let said = quoted(&text);
        match block {
            Block::Reasoning(_) => {
                let done = format!(r#"{position},"text":{said}"#);
                self.event("response.reasoning_summary_text.done", &done, out);
                let done = format!(r#"{position},"part":{}"#, summary_text(&text));
                self.event("response.reasoning_summary_part.done", &done, out);
            }
            Block::Text(_) => {
                let done = format!(r#"{position},"text":{said},"logprobs":[]"#);
                self.event("response.output_text.done", &done, out);
                let done = format!(r#"{position},"part":{}"#, output_text(&text));
                self.event("response.content_part.done", &done, out);
            }
            Block::Call { name, .. } => {
                let done = format!(r#"{position},"name":{},"arguments":{said}"#, quoted(name));
                self.event("response.function_call_arguments.done", &done, out);
            }
        }
        let item = item(made, at, block, Some(&text), item_status(made, at));
        let done = format!(r#","output_index":{at},"item":{item}"#);
        self.event("response.output_item.done", &done, out);
    }

    fn end(&mut self, made: &Made, out: &mut String) {
        let name = match made.finish {
            Finish::Length => "response.incomplete",
            Finish::Stop | Finish::Tools => "response.completed",
        };
        self.event(name, &format!(r#","response":{}"#, whole(made)), out);
    }
}
