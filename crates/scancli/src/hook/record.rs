//! The record of one event: who asked what, what was found, and what the hook answered. Never the text itself.
//!
//! The log is the caller's: it gives a [`HookLog`]. A record is canonical JSON (RFC 8785: keys sorted, no white space),
//! as all records of a log are, and has bounds: texts are cut, and findings beyond the first are counted.

use std::io::Read as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base::clock::rfc3339;
use base::limit::{RECORD_ATTRIBUTE_BYTES_MAX, RECORD_BYTES_MAX};
use base::{CallId, Code, refusal};
use clap::ValueEnum;
use scan::Class;
use serde::Serialize;

use super::Options;

/// Findings of an event that its record names; of more, it has the number.
const RECORD_FINDINGS_MAX: usize = 32;

/// What is said of an event that is not recorded.
const UNRECORDED: &str = "the record of this event cannot be written";

/// Where records of events are kept.
pub trait HookLog {
    /// The key that fingerprints in records are made with. An error says why there is none.
    fn key(&self) -> Result<[u8; 32], String>;
    /// Keeps a record for good before it returns. An error says why it is not kept, and where it would be.
    fn keep(&self, record: &[u8]) -> Result<(), String>;
}

/// Finds the log: in this state folder, or in that of this configuration, or where it is by default.
pub type OpenHookLog =
    fn(state: Option<&Path>, config: Option<&Path>) -> Result<Box<dyn HookLog>, String>;

/// What is done about an event whose record cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Recording {
    /// It is refused
    #[default]
    Required,
    /// It passes as if it had been recorded, and the person is told
    Optional,
    /// No event is recorded
    Off,
}

impl Recording {
    /// As the command line writes it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Recording::Required => "required",
            Recording::Optional => "optional",
            Recording::Off => "off",
        }
    }
}

type LogWithKey = (Box<dyn HookLog>, [u8; 32]);

/// The log of one run of the hook, opened when it is needed.
pub(super) struct Records<'o> {
    options: &'o Options,
    open: OpenHookLog,
    /// The log with its key, or why there is none.
    log: Option<Result<LogWithKey, String>>,
}

impl<'o> Records<'o> {
    pub(super) fn new(options: &'o Options, open: OpenHookLog) -> Records<'o> {
        let log = None;
        Records { options, open, log }
    }

    fn log(&mut self) -> &Result<LogWithKey, String> {
        let (state, config) = (self.options.state.as_deref(), self.options.with.config());
        self.log.get_or_insert_with(|| {
            let log = (self.open)(state, config)?;
            let key = log.key()?;
            Ok((log, key))
        })
    }

    /// The key of fingerprints. Where there is no log nothing shows them, so they need none.
    pub(super) fn key(&mut self) -> [u8; 32] {
        match self.options.record {
            Recording::Off => [0; 32],
            _ => self.log().as_ref().map_or([0; 32], |(_, key)| *key),
        }
    }

    /// Keeps the record of an event that was judged, or could not be. Gives why it is not kept, where it should be.
    pub(super) fn keep(&mut self, record: &mut EventRecord) -> Option<String> {
        if self.options.record == Recording::Off || !record.judged {
            return None;
        }
        let kept = match self.log() {
            Ok((log, _)) => call_id().and_then(|call| log.keep(&record.finish(call))),
            Err(why) => Err(why.clone()),
        };
        kept.err().map(|why| format!("{UNRECORDED}: {why}"))
    }

    /// Whether an event that is not recorded is refused.
    pub(super) fn are_required(&self) -> bool {
        self.options.record == Recording::Required
    }
}

/// A new id. From the kernel: to begin the generator of the cryptographic library takes longer than all else here.
fn call_id() -> Result<CallId, String> {
    let mut id = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut id));
    read.map_err(|error| format!("the kernel gives no random bytes: {error}"))?;
    Ok(CallId(id))
}

/// What the hook answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Decided {
    #[default]
    Pass,
    /// The person is asked.
    Ask,
    /// Something must be hidden, and nothing else is wrong.
    Redact,
    Refuse,
}

/// One event. Its fields are written in this order, which is that of their names.
#[derive(Debug, Default, Serialize)]
pub(super) struct EventRecord {
    pub(super) action: &'static str,
    pub(super) agent: String,
    at: String,
    /// Whether the event is one that is judged; others are not recorded.
    #[serde(skip)]
    pub(super) judged: bool,
    /// Bytes of the event.
    pub(super) bytes: u64,
    call: String,
    pub(super) decision: Decided,
    /// What the coding agent calls the event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) event: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) findings: Vec<EventFinding>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) findings_more: u64,
    kind: &'static str,
    lane: &'static str,
    /// The code of the first refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) refusal_private: String,
    /// The MCP server; empty where the tool is the coding agent's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) server: String,
    /// The session, as the coding agent names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) session: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tool: String,
}

/// A finding, with the fields that findings of the gateway's records have.
#[derive(Debug, Serialize)]
pub(super) struct EventFinding {
    action: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    disguise: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt: Option<String>,
    fingerprint: String,
    path: String,
    rule: &'static str,
    span: String,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The start of a text, cut between characters.
fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(RECORD_ATTRIBUTE_BYTES_MAX)].to_owned()
}

impl EventRecord {
    /// Of an event of this agent that nothing is known of yet.
    pub(super) fn new(agent: &str) -> EventRecord {
        EventRecord {
            action: "hook:event",
            agent: bounded(agent),
            kind: "hook",
            lane: "hook",
            ..EventRecord::default()
        }
    }

    /// Takes what the event says of itself.
    pub(super) fn describe(&mut self, event: &str, session: Option<&str>, tool: Option<&str>) {
        self.event = bounded(event);
        self.session = bounded(session.unwrap_or_default());
        let (server, tool) = super::event::server_and_tool(tool.unwrap_or_default());
        (self.server, self.tool) = (bounded(server), bounded(tool));
    }

    /// Notes what was found, and why it is refused where it is.
    pub(super) fn find(&mut self, finding: &scan::Finding) {
        if finding.action >= scan::Action::Redact {
            self.refusal.get_or_insert(code(finding.rule.class).name);
        }
        if self.findings.len() == RECORD_FINDINGS_MAX {
            self.findings_more += 1;
            return;
        }
        self.findings.push(EventFinding {
            action: finding.action.as_str(),
            disguise: finding.disguise,
            exempt: finding.exempt.as_deref().map(bounded),
            fingerprint: format!("{:016x}", finding.fingerprint),
            path: bounded(&finding.path),
            rule: finding.rule.id,
            span: format!("{}..{}", finding.span.start, finding.span.end),
        });
    }

    /// Notes that the event is refused because it could not be read or judged.
    pub(super) fn fail(&mut self, why: &str) {
        self.judged = true;
        self.decision = Decided::Refuse;
        self.refusal = Some("hook.unjudged");
        self.refusal_private = bounded(why);
    }

    /// Canonical JSON, with this id, as of now.
    pub(super) fn finish(&mut self, call: CallId) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_millis());
        self.at = rfc3339(u64::try_from(now).unwrap_or(u64::MAX));
        self.call = call.to_string();
        if matches!(self.decision, Decided::Pass | Decided::Redact) {
            self.refusal = None;
        }
        loop {
            let json = serde_json::to_vec(self).expect("a record is JSON");
            // Texts that JSON has to escape can be six times as long.
            if json.len() <= RECORD_BYTES_MAX || self.findings.pop().is_none() {
                return json;
            }
            self.findings_more += 1;
        }
    }
}

/// The code of the gate's refusal for a finding of this class.
fn code(class: Class) -> &'static Code {
    match class {
        Class::Secret => refusal::SECRET,
        Class::Injection => refusal::INJECTION,
        Class::Personal => refusal::PERSONAL,
        Class::Command => refusal::COMMAND,
        Class::Url => refusal::URL,
        Class::Tool => refusal::TOOL_CHANGED,
        Class::Chain => refusal::CHAIN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    fn finding(path: &str) -> EventFinding {
        EventFinding {
            action: "refuse",
            disguise: "base64",
            exempt: Some("a sample".into()),
            fingerprint: format!("{:016x}", 7),
            path: bounded(path),
            rule: "github_token",
            span: "3..9".into(),
        }
    }

    #[test]
    fn a_record_is_canonical_json() {
        let mut record = EventRecord::new("claude");
        record.describe("PreToolUse", Some("s-1"), Some("mcp__vault__read \"it\""));
        record.findings.push(finding("arguments.text"));
        record.findings_more = 1;
        record.fail("why");
        let json = record.finish(CallId([1; 16]));
        let fields: BTreeMap<String, Value> = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(serde_json::to_vec(&fields).expect("JSON"), json);
        assert_eq!(fields.len(), 16, "each field is there: {fields:?}");
        assert_eq!(
            (&fields["server"], &fields["tool"]),
            (&"vault".into(), &"read \"it\"".into())
        );
        assert_eq!(fields["call"], "01".repeat(16));
    }

    #[test]
    fn a_record_has_a_bound() {
        let mut record = EventRecord::new("claude");
        let long = "\u{1}".repeat(400);
        record.describe(&long, Some(&long), Some(&long));
        record.findings = (0..RECORD_FINDINGS_MAX).map(|_| finding(&long)).collect();
        let json = record.finish(CallId([1; 16]));
        assert!(json.len() <= RECORD_BYTES_MAX, "{}", json.len());
        let value: Value = serde_json::from_slice(&json).expect("JSON");
        let kept = value["findings"].as_array().expect("findings").len();
        assert_eq!(value["findings_more"], RECORD_FINDINGS_MAX - kept);
        assert!((1..RECORD_FINDINGS_MAX).contains(&kept), "{kept}");
    }
}
