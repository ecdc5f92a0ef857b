//! What is in an event, and what the engine says of it, in words for a model and for a person.

use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base::refusal;
use scan::{Action, Bound, Class, Direction, Engine, Place, Report};
use serde_json::Value;
use serde_json::value::RawValue;
use terminal::{Failure, visible};

use super::record::{Decided, EventRecord};
use crate::ReadSettings;
use crate::with::{With, place};

/// Bytes of an event; a larger one is refused.
const EVENT_BYTES_MAX: u64 = 16 << 20;
/// Findings that a reason names.
const NAMED_MAX: usize = 5;
/// Tools that say what they replace. That is in the file already, and may be a secret that is taken out.
const EDITS: [&str; 6] = [
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "StrReplace",
    "search_replace",
    "edit_file",
];
/// Tools that fetch a page.
const FETCHES: [&str; 4] = ["WebFetch", "web_fetch", "Fetch", "fetch"];

/// Reads the event. Errors: it cannot be read, or is too large.
pub(super) fn read() -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock().take(EVENT_BYTES_MAX + 1);
    let read = stdin.read_to_end(&mut bytes);
    read.map_err(|error| format!("the event cannot be read: {error}"))?;
    if bytes.len() as u64 > EVENT_BYTES_MAX {
        return Err(format!("the event has more than {EVENT_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the event is not UTF-8".to_owned())
}

/// Runs the engine over an event. A mistake of ours is an error too, for it must not let anything pass.
pub(super) fn guarded<R>(body: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err("weir failed".to_owned()))
}

/// The MCP server that a tool is of, which is empty for a tool of the coding agent's own, and the tool's own name.
pub(super) fn server_and_tool(tool: &str) -> (&str, &str) {
    let of_server = tool.strip_prefix("mcp__").and_then(|t| t.split_once("__"));
    of_server.unwrap_or(("", tool))
}

/// What is wrong with an event, without any of it.
pub(super) fn complaint(error: &serde_json::Error) -> String {
    let at = error.column();
    match error.classify() {
        serde_json::error::Category::Data => {
            format!("the event has a field of another type, or twice, or none, at column {at}")
        }
        _ => format!("the event is not JSON: {error}"),
    }
}

/// The engine, and what was found so far that must not pass.
pub(super) struct Judge<'r> {
    engine: Engine,
    record: &'r mut EventRecord,
    /// What it is, where it is, and what to do about it.
    found: Vec<String>,
    refused: bool,
}

impl Judge<'_> {
    /// The engine that `with` asks for. What it finds is noted in the record, with fingerprints of this key.
    pub(super) fn new<'r>(
        with: &With,
        read_settings: ReadSettings,
        key: [u8; 32],
        record: &'r mut EventRecord,
    ) -> Result<Judge<'r>, Failure> {
        Ok(Judge {
            engine: with.engine(read_settings, key)?,
            record,
            found: Vec::new(),
            refused: false,
        })
    }

    /// Judges the call of a tool with its input, as JSON.
    pub(super) fn tool(&mut self, tool: &str, input: &RawValue) {
        let (server, name) = server_and_tool(tool);
        let place = Place {
            target: server,
            ..place(Direction::Outgoing)
        };
        let input = match EDITS.contains(&tool) {
            true => without_old(input),
            false => input.get().to_owned(),
        };
        let params = format!("{{\"name\":{},\"arguments\":{input}}}", Value::from(name));
        let report = self.engine.call(place, params.as_bytes(), "", None);
        self.add(report, |_| true);
        if FETCHES.contains(&tool)
            && let Ok(Value::Object(input)) = serde_json::from_str(&input)
            && let Some(Value::String(url)) = input.get("url")
        {
            let report = self.engine.url(place, url, None);
            self.add(report, |_| true);
        }
    }

    /// Judges what came back, as JSON; answers it with what must be hidden replaced.
    pub(super) fn answer(&mut self, response: &RawValue) -> Option<Box<RawValue>> {
        let json = response.get();
        let report = self
            .engine
            .json(place(Direction::Incoming), json.as_bytes(), "");
        let redacted = match &report {
            Ok(report) if report.action == Action::Redact => report.redacted(json.as_bytes()),
            _ => Vec::new(),
        };
        self.add(report, |_| true);
        serde_json::from_slice(&redacted).ok()
    }

    /// Judges a text that comes back.
    pub(super) fn text(&mut self, text: &str) {
        let report = self.engine.text(place(Direction::Incoming), text, "");
        self.add(report, |_| true);
    }

    /// Judges what a person typed: it may say what it likes, and must not hold a secret.
    pub(super) fn prompt(&mut self, text: &str) {
        let report = self.engine.text(place(Direction::Outgoing), text, "");
        self.add(report, |class| class == Class::Secret);
    }

    fn add(&mut self, report: Result<Report, Bound>, counts: impl Fn(Class) -> bool) {
        let report = match report {
            Ok(report) => report,
            Err(bound) => {
                self.refused = true;
                self.record.refusal.get_or_insert(refusal::SCAN_BOUND.name);
                self.record.decision = Decided::Refuse;
                return self
                    .found
                    .push(format!("it could not be wholly scanned: {bound}"));
            }
        };
        for finding in report.findings {
            let rule = finding.rule;
            if !counts(rule.class) {
                continue;
            }
            self.record.find(&finding);
            if finding.action < Action::Redact {
                continue;
            }
            self.refused |= finding.action == Action::Refuse;
            let decided = match finding.action {
                Action::Refuse => Decided::Refuse,
                _ => Decided::Redact,
            };
            self.record.decision = self.record.decision.max(decided);
            let at = match finding.path.as_str() {
                "" => String::new(),
                path => format!(" at {}", visible(path)),
            };
            let undone = match finding.disguise {
                "" => String::new(),
                disguise => format!(" ({disguise})"),
            };
            let (what, remedy) = (rule.summary, rule.remedy);
            let line = format!("{}{at}{undone}: {what} {remedy}", rule.id);
            if !self.found.contains(&line) {
                self.found.push(line);
            }
        }
    }

    /// Why it must not pass; nothing where it may.
    pub(super) fn reason(&self, what: &str) -> Option<String> {
        let named = self.found.iter().take(NAMED_MAX);
        let named: Vec<&str> = named.map(|line| line.trim_end()).collect();
        let more = match self.found.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" And {more} more."),
        };
        match named.is_empty() {
            true => None,
            false => Some(format!("weir {what}: {}{more}", named.join(" "))),
        }
    }

    /// Says what is done about what was found, where that is not what the rules say of themselves.
    pub(super) fn decide(&mut self, decided: Decided) {
        if !self.found.is_empty() {
            self.record.decision = decided;
        }
    }

    /// Whether something was found that is refused, rather than hidden.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }
}

/// The input of a tool that edits, without what it replaces.
fn without_old(input: &RawValue) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(input.get()) else {
        return input.get().to_owned();
    };
    let forget = |value: &mut Value| {
        if let Value::Object(fields) = value {
            fields.remove("old_string");
        }
    };
    forget(&mut value);
    if let Some(Value::Array(edits)) = value.get_mut("edits") {
        edits.iter_mut().for_each(forget);
    }
    value.to_string()
}
