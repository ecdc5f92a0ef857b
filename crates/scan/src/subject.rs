//! One thing to judge, as a line of JSON says it: a URL, a text, a call, a message, or a labelled case.
//!
//! The command line and the tests read their inputs here, so that both judge as the lanes do.

use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::engine::Engine;
use crate::place::Place;
use crate::report::{Bound, Finding, Report};
use crate::rule::{Action, Direction};
use crate::sessions::Session;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// A URL that is about to be asked.
    Url,
    /// A text that goes out.
    Text,
    /// A text that comes back.
    Response,
    /// The definition of an MCP tool.
    Tool,
    /// A call of a tool: `tool` and `args`.
    Call,
    /// A JSON-RPC message, with its direction.
    Message,
}

impl SubjectKind {
    pub const ALL: [SubjectKind; 6] = [
        SubjectKind::Url,
        SubjectKind::Text,
        SubjectKind::Response,
        SubjectKind::Tool,
        SubjectKind::Call,
        SubjectKind::Message,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            SubjectKind::Url => "url",
            SubjectKind::Text => "text",
            SubjectKind::Response => "response",
            SubjectKind::Tool => "tool",
            SubjectKind::Call => "call",
            SubjectKind::Message => "message",
        }
    }
}

/// Whether something may pass as it is.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Something was found that is refused or replaced, or a bound was reached.
    pub block: bool,
    pub findings: Vec<Finding>,
    /// The bound that was reached.
    pub bound: Option<Bound>,
}

/// One line to judge.
#[derive(Debug, Deserialize)]
pub struct Subject {
    /// Given back as it came; absent where none was given.
    #[serde(default)]
    pub id: Value,
    kind: Option<String>,
    /// The text, for the kinds that are one; `input` is another name for it.
    #[serde(alias = "input")]
    text: Option<Box<RawValue>>,
    url: Option<String>,
    /// JSON is kept as it was written: spans count in it, and no key of two that are the same is lost.
    tool: Option<Box<RawValue>>,
    args: Option<Box<RawValue>>,
    message: Option<Box<RawValue>>,
    direction: Option<String>,
    /// A labelled case says its kind so, and has the rest in `payload`.
    input_type: Option<String>,
    #[serde(default)]
    payload: Value,
}

/// What a call is, where it stands alone.
#[derive(Deserialize)]
struct Call {
    #[serde(alias = "name")]
    tool: Option<Box<RawValue>>,
    #[serde(alias = "arguments")]
    args: Option<Box<RawValue>>,
}

/// One part of a subject, as the engine is asked about it.
enum Part {
    Url(String),
    Text(Direction, String, &'static str),
    Bytes(Direction, Vec<u8>),
    Json(Direction, String),
    /// The tool's name and the arguments, each as JSON.
    Call(String, String),
    Message(Direction, String),
}

impl Subject {
    /// Reads a line. Errors: what is wrong with it.
    pub fn read(line: &str) -> Result<Subject, String> {
        let subject: Subject = serde_json::from_str(line).map_err(|error| complaint(&error))?;
        subject.parts().map(drop)?;
        Ok(subject)
    }

    /// A subject of one kind, from a text alone. Errors: a kind that is JSON, and a text that is not.
    pub fn of(kind: SubjectKind, text: &str) -> Result<Subject, String> {
        let json =
            || serde_json::from_str::<Box<RawValue>>(text).map_err(|error| complaint(&error));
        let mut subject = Subject {
            id: Value::Null,
            kind: Some(kind.as_str().to_owned()),
            text: None,
            url: None,
            tool: None,
            args: None,
            message: None,
            direction: None,
            input_type: None,
            payload: Value::Null,
        };
        match kind {
            SubjectKind::Tool => subject.tool = Some(json()?),
            SubjectKind::Message => subject.message = Some(json()?),
            SubjectKind::Call => {
                let call: Call = serde_json::from_str(text).map_err(|error| complaint(&error))?;
                (subject.tool, subject.args) = (call.tool, call.args);
            }
            SubjectKind::Url | SubjectKind::Text | SubjectKind::Response => {
                subject.text = to_raw_value(text).ok();
            }
        }
        subject.parts().map(drop)?;
        Ok(subject)
    }

    /// Which way it goes; of several parts, which way the first does.
    pub fn direction(&self) -> Direction {
        let parts = self.parts().unwrap_or_default();
        match parts.first() {
            Some(Part::Text(direction, ..) | Part::Bytes(direction, _)) => *direction,
            Some(Part::Json(direction, _) | Part::Message(direction, _)) => *direction,
            Some(Part::Url(_) | Part::Call(..)) | None => Direction::Outgoing,
        }
    }

    /// Judges it. What came before it in the same session counts, where a session is given.
    pub fn judge(
        &self,
        engine: &Engine,
        place: Place<'_>,
        mut session: Option<(&mut Session, u64)>,
    ) -> Verdict {
        let mut verdict = Verdict {
            block: false,
            findings: Vec::new(),
            bound: None,
        };
        // A sequence of messages is one session, also where none is given.
        let mut own = Session::default();
        let parts = self.parts().unwrap_or_default();
        for (i, part) in (0u64..).zip(parts) {
            let session = match &mut session {
                Some((session, now_ms)) => (&mut **session, *now_ms + i),
                None => (&mut own, i * 1000),
            };
            match part.judge(engine, place, session) {
                Ok(report) => {
                    verdict.block |= report.action >= Action::Redact;
                    verdict.findings.extend(report.findings);
                }
                Err(bound) => {
                    verdict.block = true;
                    verdict.bound = Some(bound);
                }
            }
        }
        verdict
    }

    fn parts(&self) -> Result<Vec<Part>, String> {
        if let Some(input_type) = &self.input_type {
            return case(input_type, &self.payload);
        }
        let kind = self.kind.as_deref().unwrap_or("text");
        let text = || {
            let text = self.text.as_ref();
            let text = text.and_then(|text| serde_json::from_str::<String>(text.get()).ok());
            text.or_else(|| self.url.clone())
                .ok_or_else(|| format!("a {kind} needs a `text`"))
        };
        let found = SubjectKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind);
        let part = match found {
            Some(SubjectKind::Url) => Part::Url(text()?),
            Some(SubjectKind::Text) => Part::Text(Direction::Outgoing, text()?, ""),
            Some(SubjectKind::Response) => Part::Text(Direction::Incoming, text()?, ""),
            Some(SubjectKind::Tool) => {
                Part::Json(Direction::Description, self.json_of(self.tool.as_deref())?)
            }
            Some(SubjectKind::Call) => {
                let tool = self.tool.as_ref().ok_or("a call needs a `tool`")?;
                let args = self.args.as_ref().map_or("null", |args| args.get());
                Part::Call(tool.get().to_owned(), args.to_owned())
            }
            Some(SubjectKind::Message) => {
                let message = self.json_of(self.message.as_deref())?;
                let direction = match self.direction.as_deref() {
                    None => direction_of(&serde_json::from_str(&message).unwrap_or_default()),
                    Some("outgoing" | "request" | "out") => Direction::Outgoing,
                    Some("incoming" | "response" | "in") => Direction::Incoming,
                    Some(_) => return Err("`direction` is outgoing or incoming".to_owned()),
                };
                Part::Message(direction, message)
            }
            None => {
                let known = SubjectKind::ALL.map(SubjectKind::as_str).join(", ");
                return Err(format!("`kind` is one of {known}"));
            }
        };
        Ok(vec![part])
    }

    /// The JSON that was given, or the text as JSON, or the JSON that stands in its place.
    fn json_of(&self, given: Option<&RawValue>) -> Result<String, String> {
        if let Some(given) = given {
            return Ok(given.get().to_owned());
        }
        let json = self.text.as_ref().ok_or("there is nothing to judge")?.get();
        let Ok(text) = serde_json::from_str::<String>(json) else {
            return Ok(json.to_owned());
        };
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(_) => Ok(text),
            Err(error) => Err(complaint(&error)),
        }
    }
}

impl Part {
    fn judge(
        self,
        engine: &Engine,
        place: Place<'_>,
        session: (&mut Session, u64),
    ) -> Result<Report, Bound> {
        let towards = |direction| Place { direction, ..place };
        match self {
            Part::Url(url) => engine.url(towards(Direction::Outgoing), &url, Some(session)),
            Part::Text(direction, text, path) => engine.text(towards(direction), &text, path),
            Part::Bytes(direction, bytes) => engine.bytes(towards(direction), &bytes, ""),
            Part::Json(direction, json) => engine.json(towards(direction), json.as_bytes(), ""),
            Part::Call(tool, args) => {
                let place = towards(Direction::Outgoing);
                call(engine, place, &tool, &args, session)
            }
            Part::Message(direction, message) => {
                engine.message(towards(direction), message.as_bytes(), Some(session))
            }
        }
    }
}

/// Judges a call. Spans of its findings count in the tool's name or in the arguments, as their paths say.
fn call(
    engine: &Engine,
    place: Place<'_>,
    tool: &str,
    args: &str,
    session: (&mut Session, u64),
) -> Result<Report, Bound> {
    const HEAD: &str = "{\"name\":";
    let before = format!("{HEAD}{tool},\"arguments\":");
    let params = format!("{before}{args}}}");
    let mut report = engine.call(place, params.as_bytes(), "", Some(session))?;
    for Finding { span, .. } in &mut report.findings {
        let from = if span.start < before.len() {
            HEAD.len()
        } else {
            before.len()
        };
        *span = span.start.saturating_sub(from)..span.end.saturating_sub(from);
    }
    Ok(report)
}

/// What is wrong with a JSON, without any of it.
fn complaint(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => {
            format!(
                "a field is missing or of another type, at column {}",
                error.column()
            )
        }
        _ => format!("not JSON: {error}"),
    }
}

/// A request goes out; an answer comes back, and so does what a server asks of a client.
fn direction_of(message: &Value) -> Direction {
    let first = message.get(0).unwrap_or(message);
    let method = first.get("method").and_then(Value::as_str);
    if let Some("sampling/createMessage" | "elicitation/create") = method {
        return Direction::Incoming;
    }
    match first.get("result").or(first.get("error")) {
        Some(_) => Direction::Incoming,
        None => Direction::Outgoing,
    }
}

/// The parts of a labelled case of the agent-egress-bench format.
fn case(input_type: &str, payload: &Value) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let text = |key: &str| payload.get(key).and_then(Value::as_str).map(str::to_owned);
    let incoming = matches!(input_type, "response_content" | "mcp_tool_result");
    // The address of an answer was asked already.
    if let Some(url) = text("url").filter(|_| !incoming) {
        parts.push(Part::Url(url));
    }
    if let Some(Value::Object(headers)) = payload.get("headers") {
        let text = |(name, value): (&String, &Value)| {
            let line = format!("{name}: {}", value.as_str()?);
            Some(Part::Text(Direction::Outgoing, line, "headers"))
        };
        parts.extend(headers.iter().filter_map(text));
        let values: Vec<&Value> = headers.values().collect();
        parts.extend(together(&values));
    }
    for (key, direction) in [
        ("body", Direction::Outgoing),
        ("response_body", Direction::Incoming),
        ("content", Direction::Incoming),
    ] {
        if let Some(body) = text(key) {
            parts.push(match serde_json::from_str::<Value>(&body) {
                Ok(json) if json.is_object() || json.is_array() => Part::Json(direction, body),
                _ => Part::Text(direction, body, key),
            });
        }
    }
    if let Some(card) = payload.get("agent_card") {
        parts.push(Part::Json(Direction::Description, card.to_string()));
    }
    for key in ["jsonrpc_messages", "messages"] {
        if let Some(Value::Array(messages)) = payload.get(key) {
            let message =
                |message: &Value| Part::Message(direction_of(message), message.to_string());
            parts.extend(messages.iter().map(message));
        }
    }
    if let Some(Value::Array(frames)) = payload.get("frames") {
        parts.extend(frame_parts(frames)?);
        let texts = frames
            .iter()
            .filter(|frame| frame.get("encoding").is_none());
        let texts: Vec<&Value> = texts.filter_map(|frame| frame.get("payload")).collect();
        parts.extend(together(&texts));
    }
    if parts.is_empty() {
        let direction = match input_type {
            "mcp_tool_definition" | "a2a_agent_card" => Direction::Description,
            _ if incoming => Direction::Incoming,
            _ => Direction::Outgoing,
        };
        parts.push(match payload {
            Value::Null => return Err("a case without a payload".to_owned()),
            payload => Part::Json(direction, payload.to_string()),
        });
    }
    Ok(parts)
}

/// What is sent in several strings, as one document: what is split over them is found where they are joined.
fn together(values: &[&Value]) -> Option<Part> {
    let several = values.len() > 1;
    several.then(|| {
        Part::Json(
            Direction::Outgoing,
            Value::from_iter(values.iter().copied().cloned()).to_string(),
        )
    })
}

/// WebSocket messages, put together from their frames (RFC 6455, 5.4).
fn frame_parts(frames: &[Value]) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut message = Vec::new();
    for frame in frames {
        let payload = frame
            .get("payload")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match frame.get("encoding").and_then(Value::as_str) {
            Some("base64") => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(payload);
                message.extend(bytes.map_err(|error| format!("a frame: {error}"))?);
            }
            Some(other) if other != "utf8" && other != "text" => {
                return Err("a frame in an unknown encoding".to_owned());
            }
            _ => message.extend_from_slice(payload.as_bytes()),
        }
        if frame.get("fin").and_then(Value::as_bool) != Some(false) {
            parts.push(Part::Bytes(
                Direction::Outgoing,
                std::mem::take(&mut message),
            ));
        }
    }
    if !message.is_empty() {
        parts.push(Part::Bytes(Direction::Outgoing, message));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn spans(line: &str) -> Vec<(&'static str, String, Range<usize>)> {
        let engine = Engine::new(Default::default(), [7; 32]);
        let verdict = Subject::read(line)
            .unwrap()
            .judge(&engine, Direction::Outgoing.into(), None);
        let findings = verdict.findings.into_iter();
        findings.map(|f| (f.rule.id, f.path, f.span)).collect()
    }

    #[test]
    fn spans_count_in_what_was_written() {
        let secret = "AKIAQ3EGRZ7PLM5KWXTN";
        for (kind, value) in [
            (
                "tool",
                format!("{{ \"b\": 1, \"description\":  \"key {secret}\"}}"),
            ),
            (
                "message",
                format!("{{ \"result\": {{\"a\" :\"é {secret}\"}}}}"),
            ),
        ] {
            let found = spans(&format!("{{\"kind\":\"{kind}\",\"{kind}\":{value}}}"));
            assert_eq!(&value[found[0].2.clone()], secret, "{kind}");
        }
        let args = format!("{{ \"command\": \"echo {secret}\" }}");
        let found = spans(&format!(
            "{{\"kind\":\"call\",\"tool\":\"sh\",\"args\":{args}}}"
        ));
        assert_eq!(found[0].1, "arguments.command");
        assert_eq!(&args[found[0].2.clone()], secret);
    }

    #[test]
    fn what_is_split_over_headers_or_frames_is_put_together() {
        let halves = ["ghp_9fKq2mZx7Lw4Bv8R", "t3Yc6Hn1Jd5Sg0Pa2WeU"];
        let frame = |text: &str| serde_json::json!({ "opcode": "text", "payload": text });
        for payload in [
            serde_json::json!({ "headers": { "X-A": halves[0], "X-B": halves[1] } }),
            serde_json::json!({ "frames": halves.map(frame) }),
        ] {
            let case = serde_json::json!({ "input_type": "header", "payload": payload });
            let found = spans(&case.to_string());
            assert!(found.iter().any(|(id, ..)| *id == "github_token"), "{case}");
        }
    }

    #[test]
    fn of_two_keys_that_are_the_same_both_are_read() {
        let line = r#"{"kind":"call","tool":"t","args":{"a":"AKIAIOSFODNN7EXAMPLE","a":"x"}}"#;
        assert_eq!(spans(line)[0].0, "aws_access_key_id");
    }
}
