//! One thing to judge, as a line of JSON says it: a URL, a text, a call, a message, or a labelled case.
//!
//! The command line and the tests read their inputs here, so that both judge as the lanes do.

use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;

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
    #[serde(default, alias = "input")]
    text: Value,
    url: Option<String>,
    tool: Option<Value>,
    #[serde(default)]
    args: Value,
    #[serde(default)]
    message: Value,
    direction: Option<String>,
    /// A labelled case says its kind so, and has the rest in `payload`.
    input_type: Option<String>,
    #[serde(default)]
    payload: Value,
}

/// One part of a subject, as the engine is asked about it.
enum Part {
    Url(String),
    Text(Direction, String, &'static str),
    Bytes(Direction, Vec<u8>),
    Json(Direction, Value),
    Call(Value),
    Message(Direction, Value),
}

impl Subject {
    /// Reads a line. Errors: what is wrong with it.
    pub fn read(line: &str) -> Result<Subject, String> {
        let subject: Subject =
            serde_json::from_str(line).map_err(|error| format!("not a subject: {error}"))?;
        subject.parts().map(drop)?;
        Ok(subject)
    }

    /// A subject of one kind, from a text alone. Errors: a kind that is JSON, and a text that is not.
    pub fn of(kind: SubjectKind, text: &str) -> Result<Subject, String> {
        let json = || {
            serde_json::from_str::<Value>(text)
                .map_err(|error| format!("a {} is JSON: {error}", kind.as_str()))
        };
        let mut subject = Subject {
            id: Value::Null,
            kind: Some(kind.as_str().to_owned()),
            text: Value::String(text.to_owned()),
            url: None,
            tool: None,
            args: Value::Null,
            message: Value::Null,
            direction: None,
            input_type: None,
            payload: Value::Null,
        };
        match kind {
            SubjectKind::Tool => subject.tool = Some(json()?),
            SubjectKind::Message => subject.message = json()?,
            SubjectKind::Call => {
                let call = json()?;
                subject.tool = call.get("tool").or_else(|| call.get("name")).cloned();
                let args = call.get("args").or_else(|| call.get("arguments"));
                subject.args = args.cloned().unwrap_or_default();
            }
            SubjectKind::Url | SubjectKind::Text | SubjectKind::Response => {}
        }
        subject.parts().map(drop)?;
        Ok(subject)
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
        let text = || match (&self.text, &self.url) {
            (Value::String(text), _) => Ok(text.clone()),
            (_, Some(url)) => Ok(url.clone()),
            _ => Err(format!("a {kind} needs a `text`")),
        };
        let found = SubjectKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind);
        let part = match found {
            Some(SubjectKind::Url) => Part::Url(text()?),
            Some(SubjectKind::Text) => Part::Text(Direction::Outgoing, text()?, ""),
            Some(SubjectKind::Response) => Part::Text(Direction::Incoming, text()?, ""),
            Some(SubjectKind::Tool) => match self.tool.clone() {
                Some(tool) => Part::Json(Direction::Description, tool),
                None => Part::Json(Direction::Description, self.json_text()?),
            },
            Some(SubjectKind::Call) => {
                let tool = self.tool.clone().ok_or("a call needs a `tool`")?;
                Part::Call(serde_json::json!({ "name": tool, "arguments": self.args }))
            }
            Some(SubjectKind::Message) => {
                let message = match &self.message {
                    Value::Null => self.json_text()?,
                    message => message.clone(),
                };
                let direction = match self.direction.as_deref() {
                    None => direction_of(&message),
                    Some("outgoing" | "request" | "out") => Direction::Outgoing,
                    Some("incoming" | "response" | "in") => Direction::Incoming,
                    Some(other) => {
                        return Err(format!("`direction` is outgoing or incoming, not {other}"));
                    }
                };
                Part::Message(direction, message)
            }
            None => {
                let known = SubjectKind::ALL.map(SubjectKind::as_str).join(", ");
                return Err(format!("`kind` is one of {known}, not {kind}"));
            }
        };
        Ok(vec![part])
    }

    /// The text as JSON, or the JSON that stands in its place.
    fn json_text(&self) -> Result<Value, String> {
        match &self.text {
            Value::Null => Err("there is nothing to judge".to_owned()),
            Value::String(text) => {
                serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
            }
            value => Ok(value.clone()),
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
            Part::Json(direction, json) => {
                engine.json(towards(direction), json.to_string().as_bytes(), "")
            }
            Part::Call(params) => {
                let params = params.to_string();
                engine.call(
                    towards(Direction::Outgoing),
                    params.as_bytes(),
                    "",
                    Some(session),
                )
            }
            Part::Message(direction, message) => {
                let message = message.to_string();
                engine.message(towards(direction), message.as_bytes(), Some(session))
            }
        }
    }
}

/// A request goes out; an answer comes back.
fn direction_of(message: &Value) -> Direction {
    let first = message.get(0).unwrap_or(message);
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
    }
    for (key, direction) in [
        ("body", Direction::Outgoing),
        ("response_body", Direction::Incoming),
        ("content", Direction::Incoming),
    ] {
        if let Some(body) = text(key) {
            parts.push(match serde_json::from_str::<Value>(&body) {
                Ok(json) if json.is_object() || json.is_array() => Part::Json(direction, json),
                _ => Part::Text(direction, body, key),
            });
        }
    }
    if let Some(card) = payload.get("agent_card") {
        parts.push(Part::Json(Direction::Description, card.clone()));
    }
    for key in ["jsonrpc_messages", "messages"] {
        if let Some(Value::Array(messages)) = payload.get(key) {
            let message = |message: &Value| Part::Message(direction_of(message), message.clone());
            parts.extend(messages.iter().map(message));
        }
    }
    if let Some(Value::Array(frames)) = payload.get("frames") {
        parts.extend(frame_parts(frames)?);
    }
    if parts.is_empty() {
        let direction = match input_type {
            "mcp_tool_definition" | "a2a_agent_card" => Direction::Description,
            _ if incoming => Direction::Incoming,
            _ => Direction::Outgoing,
        };
        parts.push(match payload {
            Value::Null => return Err(format!("a case of the type {input_type} has no payload")),
            payload => Part::Json(direction, payload.clone()),
        });
    }
    Ok(parts)
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
                return Err(format!("a frame in an unknown encoding: {other}"));
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
