//! What the events of a model's stream mean, in the dialects of OpenAI and Anthropic.
//!
//! Only what is measured is read: whether an event carries content, whether it is the last one, whether it is an
//! error, and how many tokens were counted. All else is skipped, so a new field breaks nothing. A stream counts
//! as whole only when its own last event came.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::{Bad, quoted};
use super::sse::Event;
use crate::tally::Fault;

/// Whose names are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Openai,
    Anthropic,
}

/// What one event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Some content: text, reasoning, or a part of a tool call.
    Token,
    /// The stream's last event.
    End,
    /// Anything else.
    Other,
}

/// Reads one answer.
pub struct Reader {
    dialect: Dialect,
    /// Output tokens as the server counted them, where it did.
    pub counted: Option<u64>,
    /// The last event has come.
    pub ended: bool,
}

#[derive(Deserialize)]
struct OpenaiEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    /// A text in the Responses API.
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    usage: Option<Usage>,
    response: Option<Counted>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

/// Fields that carry content, whatever their type.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    usage: Option<Usage>,
    message: Option<Counted>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Counted {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    completion_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Usage {
    fn output(&self) -> Option<u64> {
        self.completion_tokens.or(self.output_tokens)
    }
}

impl Delta<'_> {
    fn has_content(&self) -> bool {
        let fields = [
            self.content,
            self.reasoning_content,
            self.reasoning,
            self.refusal,
            self.tool_calls,
            self.text,
            self.thinking,
            self.partial_json,
        ];
        fields.into_iter().any(is_content)
    }
}

/// Whether a JSON value is neither absent nor empty.
fn is_content(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| !matches!(value.get(), "null" | "\"\"" | "[]" | "{}"))
}

/// A JSON text without escapes, as the names of events are.
fn plain(value: Option<&RawValue>) -> &str {
    value.map_or("", |value| value.get().trim_matches('"'))
}

impl Reader {
    pub fn new(dialect: Dialect) -> Reader {
        Reader {
            dialect,
            counted: None,
            ended: false,
        }
    }

    /// Reads one event of a stream.
    ///
    /// # Errors
    ///
    /// It is an error event, or not what the dialect has.
    pub fn event(&mut self, event: Event) -> Result<Seen, Bad> {
        let seen = match self.dialect {
            Dialect::Openai => self.openai(event)?,
            Dialect::Anthropic => self.anthropic(event)?,
        };
        self.ended |= seen == Seen::End;
        Ok(seen)
    }

    fn openai(&mut self, event: Event) -> Result<Seen, Bad> {
        if event.data == b"[DONE]" {
            return Ok(Seen::End);
        }
        let read: OpenaiEvent = serde_json::from_slice(event.data).map_err(not_json)?;
        let kind = plain(read.kind);
        if read.error.is_some() || matches!(kind, "error" | "response.failed") {
            return Err(told(read.error.map_or(kind, RawValue::get)));
        }
        self.count(read.usage.as_ref());
        self.count(read.response.as_ref().and_then(|r| r.usage.as_ref()));
        if matches!(kind, "response.completed" | "response.incomplete") {
            return Ok(Seen::End);
        }
        let mut choices = read.choices.iter().flatten();
        let chat = choices.any(|c| c.delta.as_ref().is_some_and(Delta::has_content));
        let response = kind.ends_with(".delta") && is_content(read.delta);
        Ok(if chat || response {
            Seen::Token
        } else {
            Seen::Other
        })
    }

    fn anthropic(&mut self, event: Event) -> Result<Seen, Bad> {
        let read: AnthropicEvent = serde_json::from_slice(event.data).map_err(not_json)?;
        let kind = plain(read.kind);
        if event.name == b"error" || kind == "error" {
            return Err(told(read.error.map_or("error", RawValue::get)));
        }
        self.count(read.message.as_ref().and_then(|m| m.usage.as_ref()));
        self.count(read.usage.as_ref());
        Ok(match kind {
            "message_stop" => Seen::End,
            "content_block_delta" if read.delta.as_ref().is_some_and(Delta::has_content) => {
                Seen::Token
            }
            _ => Seen::Other,
        })
    }

    fn count(&mut self, usage: Option<&Usage>) {
        self.counted = usage.and_then(Usage::output).or(self.counted);
    }

    /// Reads an answer that is no stream.
    ///
    /// # Errors
    ///
    /// It is not a JSON object, or carries an error.
    pub fn whole(&mut self, body: &[u8]) -> Result<(), Bad> {
        #[derive(Deserialize)]
        struct Whole<'a> {
            usage: Option<Usage>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
        }
        let read: Whole = serde_json::from_slice(body)
            .map_err(|e| Bad::new(Fault::Protocol, format!("the answer is not JSON: {e}")))?;
        if let Some(error) = read.error {
            let what = format!("the answer is an error: {}", quoted(error.get()));
            return Err(Bad::new(Fault::Check, what));
        }
        self.count(read.usage.as_ref());
        self.ended = true;
        Ok(())
    }
}

fn not_json(error: serde_json::Error) -> Bad {
    let what = format!("an event of the stream is not what the dialect has: {error}");
    Bad::new(Fault::Stream, quoted(&what))
}

fn told(error: &str) -> Bad {
    let what = format!("the stream carried an error: {}", quoted(error));
    Bad::new(Fault::Stream, what)
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Reader, Seen};
    use crate::engine::wire::sse::Parser;
    use crate::tally::Fault;

    /// Reads a stream; gives what each event was, and the tokens that the server counted.
    fn read(dialect: Dialect, stream: &str) -> (Vec<Result<Seen, Fault>>, Option<u64>, bool) {
        let (mut reader, mut seen) = (Reader::new(dialect), Vec::new());
        let shown = Parser::new().push(stream.as_bytes(), |event| {
            seen.push(reader.event(event).map_err(|bad| bad.fault));
        });
        shown.unwrap();
        (seen, reader.counted, reader.ended)
    }

    #[test]
    fn a_chat_completion() {
        let stream = r#"data: {"choices":[{"delta":{"role":"assistant","content":""}}]}

data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}

data: [DONE]

"#;
        use Seen::{End, Other, Token};
        let expected = [Other, Token, Token, Other, Other, End].map(Ok).to_vec();
        assert_eq!(read(Dialect::Openai, stream), (expected, Some(7), true));
    }

    #[test]
    fn a_response() {
        let stream = r#"event: response.created
data: {"type":"response.created","response":{"usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hi"}

event: response.completed
data: {"type":"response.completed","response":{"usage":{"output_tokens":4}}}

"#;
        let expected = [Seen::Other, Seen::Token, Seen::End].map(Ok).to_vec();
        assert_eq!(read(Dialect::Openai, stream), (expected, Some(4), true));
    }

    #[test]
    fn a_message() {
        let stream = r#"event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;
        use Seen::{End, Other, Token};
        let expected = [Other, Other, Token, Other, Other, End].map(Ok).to_vec();
        assert_eq!(read(Dialect::Anthropic, stream), (expected, Some(5), true));
    }

    #[test]
    fn errors_are_no_tokens() {
        let bad = vec![Err(Fault::Stream)];
        let openai = |stream| read(Dialect::Openai, stream).0;
        assert_eq!(openai("data: {\"error\":{\"message\":\"x\"}}\n\n"), bad);
        assert_eq!(openai("data: {\"type\":\"response.failed\"}\n\n"), bad);
        assert_eq!(openai("data: hello\n\n"), bad);
        let stream = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"x\"}}\n\n";
        assert_eq!(read(Dialect::Anthropic, stream), (bad, None, false));
    }

    #[test]
    fn an_answer_that_is_no_stream() {
        let mut reader = Reader::new(Dialect::Anthropic);
        let body = br#"{"content":[],"usage":{"output_tokens":12}}"#;
        assert_eq!(reader.whole(body), Ok(()));
        assert_eq!(reader.counted, Some(12));
        let fault = |body: &[u8]| Reader::new(Dialect::Openai).whole(body).unwrap_err().fault;
        assert_eq!(fault(b"{\"error\":{}}"), Fault::Check);
        assert_eq!(fault(b"<html>"), Fault::Protocol);
    }
}
