//! What happened, as the log keeps it: one record for each judgement, one for each outcome.
//!
//! A record is canonical JSON (RFC 8785: keys sorted, no white space), so that its bytes follow from what
//! it says. Secrets never enter it: findings carry fingerprints, arguments only where a policy names them.

use crate::clock::{Now, rfc3339};
use crate::limit::RECORD_ATTRIBUTE_BYTES_MAX;
use crate::{Action, CallId, Digest, Lane};

/// What the scan saw, without what it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id, such as `github_token`.
    pub rule: &'static str,
    /// Where in the message: a path such as `params.arguments.text`.
    pub path: String,
    /// `refuse`, `redact` or `warn`.
    pub action: &'static str,
    /// Keyed hash of what matched, so that two records of one secret can be joined.
    pub fingerprint: u64,
    /// First byte and the one past the last, of what was scanned.
    pub span: (usize, usize),
    /// What was undone to see it, such as `base64`; empty where nothing was.
    pub disguise: &'static str,
    /// Why the operator lets it pass, where they do.
    pub exempt: Option<String>,
}

/// The gate's answer to a call.
#[derive(Clone, Debug)]
pub struct Judgement<'a> {
    pub call: CallId,
    pub at: Now,
    pub peer: std::net::IpAddr,
    /// The agent's name; absent where nobody was recognised.
    pub agent: Option<&'a str>,
    /// SHA-256 of the credential's SHA-256: names it without being of use to a thief of the log.
    pub credential: Option<Digest>,
    pub lane: Lane,
    pub action: Action,
    pub method: &'a str,
    /// The request id that the agent sent, if it did.
    pub request: Option<&'a str>,
    pub server: &'a str,
    pub tool: Option<&'a str>,
    /// The ids of the policies that made the decision.
    pub policies: &'a [String],
    /// SHA-256 of the policies that were in force.
    pub policy_set: Digest,
    /// The context attributes that a loaded policy reads, as (name, JSON text).
    pub attributes: &'a [(String, String)],
    pub findings: &'a [Finding],
    /// Bytes of the message.
    pub bytes: u64,
    /// The refusal's code and its private reason; absent where the call passed.
    pub refused: Option<(&'static str, &'a str)>,
}

/// How a call that passed ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The whole answer reached the agent.
    Complete,
    /// The answer was not passed on, by a decision.
    Refused,
    /// The answer stopped in its middle: the agent or the server went away, or a decision cut it.
    Cut,
    /// The server failed, or we did.
    Failed,
}

impl End {
    pub fn as_str(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Refused => "refused",
            End::Cut => "cut",
            End::Failed => "failed",
        }
    }
}

/// What became of a call that passed.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    pub call: CallId,
    pub at: Now,
    pub end: End,
    /// The HTTP status of the answer, or 0 where there was none.
    pub status: u16,
    /// Bytes of the answer, as they came from the server.
    pub bytes: u64,
    pub duration_ms: u64,
    /// How many calls were made under the judgement, where it was a grant.
    pub calls: Option<u64>,
    pub findings: &'a [Finding],
    /// The code of the refusal or error, and its private reason.
    pub why: Option<(&'static str, &'a str)>,
}

/// That a person approved the definition of a tool.
#[derive(Clone, Debug)]
pub struct Approval<'a> {
    pub at: Now,
    /// Who did, as the system knows them.
    pub by: &'a str,
    /// Who they logged in as, where the system keeps that.
    pub login: Option<&'a str>,
    pub server: &'a str,
    pub tool: &'a str,
    /// SHA-256 of the definition that is approved.
    pub digest: Digest,
    /// The same of the one that it replaces; absent where none was approved.
    pub before: Option<Digest>,
}

impl Approval<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Object::new();
        json.text("at", &rfc3339(self.at.unix_ms));
        if let Some(before) = self.before {
            json.text("before", &before.to_string());
        }
        json.text("by", bounded(self.by));
        json.text("digest", &self.digest.to_string());
        json.text("kind", "approval");
        if let Some(login) = self.login {
            json.text("login", bounded(login));
        }
        json.text("server", self.server);
        json.text("tool", bounded(self.tool));
        json.close()
    }
}

/// That an operator went on with a log whose end nothing proves.
#[derive(Clone, Debug)]
pub struct Accepted<'a> {
    pub at: Now,
    /// Who did, as the system knows them.
    pub by: &'a str,
    /// Who they logged in as, where the system keeps that.
    pub login: Option<&'a str>,
    /// What was found, in words.
    pub found: &'a str,
    pub reason: &'a str,
    /// Entries before this one that no checkpoint covered.
    pub unsigned: u64,
}

impl Accepted<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Object::new();
        json.text("at", &rfc3339(self.at.unix_ms));
        json.text("by", bounded(self.by));
        json.text("found", self.found);
        json.text("kind", "accepted");
        if let Some(login) = self.login {
            json.text("login", bounded(login));
        }
        json.text("reason", self.reason);
        json.number("unsigned", self.unsigned);
        json.close()
    }
}

impl Judgement<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Object::new();
        json.text("action", self.action.as_str());
        if let Some(agent) = self.agent {
            json.text("agent", agent);
        }
        json.text("at", &rfc3339(self.at.unix_ms));
        if !self.attributes.is_empty() {
            json.key("attributes");
            let mut inner = Object::new();
            for (name, value) in self.attributes {
                inner.key(name);
                inner.0.extend_from_slice(bounded_json(value).as_bytes());
            }
            json.0.extend_from_slice(&inner.close());
        }
        json.number("bytes", self.bytes);
        json.text("call", &self.call.to_string());
        if let Some(credential) = self.credential {
            json.text("credential", &credential.to_string());
        }
        json.text(
            "decision",
            if self.refused.is_some() {
                "refuse"
            } else {
                "pass"
            },
        );
        json.findings(self.findings);
        json.text("kind", "judgement");
        json.text("lane", self.lane.as_str());
        json.text("method", bounded(self.method));
        json.text("peer", &self.peer.to_string());
        if !self.policies.is_empty() {
            json.key("policies");
            json.array(self.policies.iter().map(|p| bounded(p)));
        }
        json.text("policy_set", &self.policy_set.to_string());
        if let Some((code, private)) = self.refused {
            json.text("refusal", code);
            json.text("refusal_private", bounded(private));
        }
        if let Some(request) = self.request {
            json.text("request", bounded(request));
        }
        json.text("server", self.server);
        if let Some(tool) = self.tool {
            json.text("tool", bounded(tool));
        }
        json.close()
    }
}

impl Outcome<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Object::new();
        json.text("at", &rfc3339(self.at.unix_ms));
        json.number("bytes", self.bytes);
        json.text("call", &self.call.to_string());
        if let Some(calls) = self.calls {
            json.number("calls", calls);
        }
        json.number("duration_ms", self.duration_ms);
        json.text("end", self.end.as_str());
        json.findings(self.findings);
        json.text("kind", "outcome");
        json.number("status", u64::from(self.status));
        if let Some((code, private)) = self.why {
            json.text("why", code);
            json.text("why_private", bounded(private));
        }
        json.close()
    }
}

/// The start of a text, at most [`RECORD_ATTRIBUTE_BYTES_MAX`] bytes, cut between characters.
fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(RECORD_ATTRIBUTE_BYTES_MAX)]
}

/// JSON text that fits, or a marker that is still JSON.
fn bounded_json(text: &str) -> &str {
    if text.len() <= RECORD_ATTRIBUTE_BYTES_MAX {
        text
    } else {
        "\"(longer than 256 bytes)\""
    }
}

/// Writes one JSON object; the caller gives the keys in sorted order.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Object {
        let mut bytes = Vec::with_capacity(512);
        bytes.push(b'{');
        Object(bytes)
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.string(key);
        self.0.push(b':');
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        self.0.extend_from_slice(value.to_string().as_bytes());
    }

    fn array<'t>(&mut self, values: impl Iterator<Item = &'t str>) {
        self.0.push(b'[');
        for (i, value) in values.enumerate() {
            if i > 0 {
                self.0.push(b',');
            }
            self.string(value);
        }
        self.0.push(b']');
    }

    fn findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        self.key("findings");
        self.0.push(b'[');
        for (i, finding) in findings.iter().enumerate() {
            if i > 0 {
                self.0.push(b',');
            }
            let mut json = Object::new();
            json.text("action", finding.action);
            if !finding.disguise.is_empty() {
                json.text("disguise", finding.disguise);
            }
            if let Some(reason) = &finding.exempt {
                json.text("exempt", bounded(reason));
            }
            json.text("fingerprint", &format!("{:016x}", finding.fingerprint));
            json.text("path", bounded(&finding.path));
            json.text("rule", finding.rule);
            let (start, end) = finding.span;
            json.text("span", &format!("{start}..{end}"));
            let bytes = json.close();
            self.0.extend_from_slice(&bytes);
        }
        self.0.push(b']');
    }

    fn string(&mut self, value: &str) {
        serde_json::to_writer(&mut self.0, value).expect("a string always serializes");
    }

    fn close(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_canonical_json() {
        let findings = vec![Finding {
            rule: "github_token",
            path: "params.arguments.text".into(),
            action: "warn",
            fingerprint: 7,
            span: (3, 9),
            disguise: "base64",
            exempt: Some("a sample".into()),
        }];
        let judgement = Judgement {
            call: CallId([1; 16]),
            at: Now {
                unix_ms: 0,
                mono_ms: 0,
            },
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
            agent: Some("dev"),
            credential: Some(Digest([2; 32])),
            lane: Lane::Mcp,
            action: Action::McpCall,
            method: "tools/call",
            request: Some("r-1"),
            server: "files",
            tool: Some("read \"it\""),
            policies: &["starter".into()],
            policy_set: Digest([3; 32]),
            attributes: &[("path".into(), "\"/tmp\"".into())],
            findings: &findings,
            bytes: 9,
            refused: Some(("policy.forbidden", "why")),
        };
        let json = judgement.to_json();
        let value: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(
            serde_json::to_vec(&sorted(value.clone())).expect("JSON"),
            json
        );
        assert_eq!(value["tool"], "read \"it\"");
        assert_eq!(value["attributes"]["path"], "/tmp");
        assert_eq!(value["findings"][0]["span"], "3..9");
        assert_eq!(value["findings"][0]["exempt"], "a sample");
    }

    #[test]
    fn an_approval_is_canonical_json() {
        let mut approval = Approval {
            at: Now {
                unix_ms: 0,
                mono_ms: 0,
            },
            by: "root (0)",
            login: Some("dev (1000)"),
            server: "files",
            tool: "read \"it\"",
            digest: Digest([2; 32]),
            before: Some(Digest([1; 32])),
        };
        let json = approval.to_json();
        let value: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(
            serde_json::to_vec(&sorted(value.clone())).expect("JSON"),
            json
        );
        assert_eq!(value["kind"], "approval");
        assert_eq!(value["before"], "01".repeat(32));
        (approval.login, approval.before) = (None, None);
        let value: serde_json::Value = serde_json::from_slice(&approval.to_json()).expect("JSON");
        assert!(value.get("before").is_none() && value.get("login").is_none());
    }

    /// The value with the keys of every object in order, whichever map serde_json was built with.
    fn sorted(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(map) => {
                let mut fields: Vec<_> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                serde_json::Value::Object(fields.into_iter().collect())
            }
            serde_json::Value::Array(items) => items.into_iter().map(sorted).collect(),
            other => other,
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(400);
        assert_eq!(bounded(&long).len(), 256);
        assert_eq!(bounded_json(&long), "\"(longer than 256 bytes)\"");
    }
}
