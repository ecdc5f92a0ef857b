//! What happened, as the log keeps it: one record for each judgement, one for each outcome, and those of the gateway's
//! own life, which `process` has.
//!
//! A record is canonical JSON (RFC 8785: keys sorted, no white space), so that its bytes follow from what
//! it says. Secrets never enter it: findings carry fingerprints, arguments only where a policy names them.

use crate::clock::{Now, rfc3339};
use crate::limit::RECORD_ATTRIBUTE_BYTES_MAX;
use crate::{CallId, Digest, Name};

use json::RecordObject;
pub use process::{Admin, Lost, OpenCalls, ProcessStop, Snapshot, Start, Subject, parts};

mod json;
mod process;

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
    /// The agent's groups, as they were when it was judged.
    pub groups: &'a [Name],
    /// The person for whom the agent acts, where the credential says so.
    pub behalf: Option<&'a str>,
    /// SHA-256 of the credential's SHA-256: names it without being of use to a thief of the log.
    pub credential: Option<Digest>,
    /// The kind of the credential, such as `key`, `token`, `certificate` or `peer`.
    pub by: Option<&'a str>,
    /// The call that this one tries again at another target, or goes on with.
    pub first: Option<CallId>,
    /// The W3C `traceparent` that came with the call, once it was checked.
    pub trace: Option<&'a str>,
    pub lane: &'a str,
    pub action: &'a str,
    pub method: &'a str,
    /// The request id that the agent sent, if it did.
    pub request: Option<&'a str>,
    /// The id of the run that the call is of, if it is of one.
    pub run: Option<&'a str>,
    /// What the agent calls it by, to find it in the account of usage again: no policy and no budget reads them.
    pub tags: &'a [String],
    pub server: &'a str,
    /// What of it was named, after the word for it, which is its key: a tool, a prompt, a resource, a path.
    pub part: Option<(&'static str, &'a str)>,
    /// The ids of the policies that made the decision.
    pub policies: &'a [String],
    /// SHA-256 of the policies that were in force.
    pub policy_set: Digest,
    /// The context attributes that a loaded policy reads, as (name, JSON text).
    pub attributes: &'a [(String, String)],
    pub findings: &'a [Finding],
    /// Bytes of the message.
    pub bytes: u64,
    /// Tokens in and out that were reserved for it; none where both are 0.
    pub reserved: (u64, u64),
    /// The refusal's code and its private reason; absent where the call passed.
    pub refused: Option<(&'static str, &'a str)>,
    /// The code and reason of what it would have been refused for, where it passed because it is only observed.
    pub observed: Option<(&'static str, &'a str)>,
}

/// How a call that passed ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The whole answer reached the agent.
    Complete,
    /// The answer was not passed on, by a decision.
    Refused,
    /// The answer stopped in its middle: the agent or the server went away, or a decision cut it.
    Cut,
    /// The server failed, or we did.
    Failed,
}

impl CallEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            CallEnd::Complete => "complete",
            CallEnd::Refused => "refused",
            CallEnd::Cut => "cut",
            CallEnd::Failed => "failed",
        }
    }
}

/// What a model counted for a call, in tokens; 0 where it did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the input, without those that were read from or written to a cache.
    pub input: u64,
    pub cached_read: u64,
    pub cached_write: u64,
    /// Tokens of the output, with those of its reasoning.
    pub output: u64,
    pub reasoning: u64,
}

impl Usage {
    /// All tokens, in and out.
    pub fn total(&self) -> u64 {
        let input = self.input.saturating_add(self.cached_read);
        let input = input.saturating_add(self.cached_write);
        input.saturating_add(self.output)
    }
}

/// What became of a call that passed.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    pub call: CallId,
    pub at: Now,
    pub end: CallEnd,
    /// The HTTP status of the answer, or 0 where there was none.
    pub status: u16,
    /// Bytes of the answer, as they came from the server.
    pub bytes: u64,
    pub duration_ms: u64,
    /// How many calls were made under the judgement, where it was a grant.
    pub calls: Option<u64>,
    /// What a model counted, where one was asked.
    pub usage: Option<Usage>,
    /// The usage is all of it, although the answer did not go back.
    pub is_counted: bool,
    /// Tokens of output that the bytes of the answer stand for at least, where nothing counted all of them; else 0.
    pub output_least: u64,
    /// Nothing is billed for it: the provider was not reached, or refused the request.
    pub is_unbilled: bool,
    pub findings: &'a [Finding],
    /// The code of the refusal or error, and its private reason.
    pub why: Option<(&'static str, &'a str)>,
    /// The code and reason of what it would have been refused for, where it went on because it is only observed.
    pub observed: Option<(&'static str, &'a str)>,
}

/// That a person approved the definition of an item.
#[derive(Clone, Debug)]
pub struct Approval<'a> {
    pub at: Now,
    /// Who did, as the system knows them.
    pub by: &'a str,
    /// Who they logged in as, where the system keeps that.
    pub login: Option<&'a str>,
    pub server: &'a str,
    /// Its name, after the word for what it is, which is its key: `tool`, `prompt`, `resource`.
    pub item: (&'static str, &'a str),
    /// SHA-256 of the definition that is approved.
    pub digest: Digest,
    /// The same of the one that it replaces; absent where none was approved.
    pub before: Option<Digest>,
}

impl Approval<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            if let Some(before) = self.before {
                json.plain("before", before);
            }
            json.text("by", bounded(self.by));
            json.plain("digest", self.digest);
            json.text("kind", "approval");
            json.text_if("login", self.login.map(bounded));
            json.text("server", self.server);
            json.text(self.item.0, bounded(self.item.1));
        })
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
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.text("by", bounded(self.by));
            json.text("found", self.found);
            json.text("kind", "accepted");
            json.text_if("login", self.login.map(bounded));
            json.text("reason", self.reason);
            json.number("unsigned", self.unsigned);
        })
    }
}

impl Judgement<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("action", self.action);
            json.text_if("agent", self.agent);
            json.text("at", &rfc3339(self.at.unix_ms));
            if !self.attributes.is_empty() {
                json.object("attributes", |json| {
                    for (name, value) in self.attributes {
                        json.raw(name, bounded_json(value));
                    }
                });
            }
            json.text_if("behalf", self.behalf.map(bounded));
            json.text_if("by", self.by);
            json.number("bytes", self.bytes);
            json.plain("call", self.call);
            if let Some(credential) = self.credential {
                json.plain("credential", credential);
            }
            let passed = self.refused.is_none();
            json.text("decision", if passed { "pass" } else { "refuse" });
            findings(json, self.findings);
            if let Some(first) = self.first {
                json.plain("first", first);
            }
            if !self.groups.is_empty() {
                json.texts("groups", self.groups.iter().map(Name::as_str));
            }
            json.text("kind", "judgement");
            json.text("lane", self.lane);
            json.text("method", bounded(self.method));
            observed(json, self.observed);
            json.plain("peer", self.peer);
            if !self.policies.is_empty() {
                json.texts("policies", self.policies.iter().map(|p| bounded(p)));
            }
            json.plain("policy_set", self.policy_set);
            if let Some((code, private)) = self.refused {
                json.text("refusal", code);
                json.text("refusal_private", bounded(private));
            }
            json.text_if("request", self.request.map(bounded));
            if self.reserved != (0, 0) {
                json.object("reserved", |json| {
                    json.number("input", self.reserved.0);
                    json.number("output", self.reserved.1);
                });
            }
            json.text_if("run", self.run);
            json.text("server", self.server);
            if !self.tags.is_empty() {
                json.texts("tags", self.tags.iter().map(|tag| bounded(tag)));
            }
            let (key, name) = self.part.unzip();
            json.text_if(key.unwrap_or_default(), name.map(bounded));
            json.text_if("trace", self.trace.map(bounded));
        })
    }
}

impl Outcome<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.number("bytes", self.bytes);
            json.plain("call", self.call);
            if let Some(calls) = self.calls {
                json.number("calls", calls);
            }
            if self.is_counted {
                json.raw("counted", "true");
            }
            json.number("duration_ms", self.duration_ms);
            json.text("end", self.end.as_str());
            findings(json, self.findings);
            json.text("kind", "outcome");
            observed(json, self.observed);
            if self.output_least > 0 {
                json.number("output_least", self.output_least);
            }
            json.number("status", u64::from(self.status));
            if self.is_unbilled {
                json.raw("unbilled", "true");
            }
            if let Some(usage) = &self.usage {
                json.object("usage", |json| usage.fields(json));
            }
            if let Some((code, private)) = self.why {
                json.text("why", code);
                json.text("why_private", bounded(private));
            }
        })
    }
}

impl Usage {
    fn fields(&self, json: &mut RecordObject<'_, '_>) {
        let counts = [
            ("cached_read", self.cached_read),
            ("cached_write", self.cached_write),
            ("input", self.input),
            ("output", self.output),
            ("reasoning", self.reasoning),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts.for_each(|(name, count)| json.number(name, count));
    }
}

fn observed(json: &mut RecordObject<'_, '_>, observed: Option<(&'static str, &str)>) {
    if let Some((code, why)) = observed {
        json.text("observed", code);
        json.text("observed_why", bounded(why));
    }
}

fn findings(json: &mut RecordObject<'_, '_>, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    json.objects("findings", findings.iter(), |json, finding| {
        json.text("action", finding.action);
        if !finding.disguise.is_empty() {
            json.text("disguise", finding.disguise);
        }
        json.text_if("exempt", finding.exempt.as_deref().map(bounded));
        json.plain("fingerprint", format_args!("{:016x}", finding.fingerprint));
        json.text("path", bounded(&finding.path));
        json.text("rule", finding.rule);
        let (start, end) = finding.span;
        json.plain("span", format_args!("{start}..{end}"));
    });
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
            by: Some("key"),
            behalf: Some("ann"),
            groups: &[Name::new("engineers").expect("a name")],
            first: Some(CallId([7; 16])),
            trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            lane: "mcp",
            action: "mcp:call",
            method: "tools/call",
            request: Some("r-1"),
            tags: &[],
            run: Some("run-1"),
            server: "files",
            part: Some(("tool", "read \"it\"")),
            policies: &["starter".into()],
            policy_set: Digest([3; 32]),
            attributes: &[
                ("path".into(), "\"/tmp\"".into()),
                ("kind".into(), "{\"a\":1}".into()),
            ],
            findings: &findings,
            bytes: 9,
            reserved: (0, 4),
            refused: Some(("policy.forbidden", "why")),
            observed: Some(("scan.secret", "what")),
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
        assert_eq!(value["groups"][0], "engineers");
        assert_eq!(
            value["reserved"],
            serde_json::json!({ "input": 0, "output": 4 })
        );
        assert_eq!(value["first"], "07".repeat(16));
    }

    #[test]
    fn an_outcome_says_what_was_counted_and_no_zeros() {
        let mut outcome = Outcome {
            call: CallId([1; 16]),
            at: Now {
                unix_ms: 0,
                mono_ms: 0,
            },
            end: CallEnd::Complete,
            status: 200,
            bytes: 9,
            duration_ms: 3,
            calls: None,
            usage: Some(Usage {
                input: 12,
                output: 7,
                ..Usage::default()
            }),
            is_counted: true,
            output_least: 5,
            is_unbilled: true,
            findings: &[],
            why: Some(("upstream.failed", "it \"ended\"")),
            observed: Some(("scan.injection", "what")),
        };
        let value: serde_json::Value = serde_json::from_slice(&outcome.to_json()).expect("JSON");
        assert_eq!(
            value["usage"],
            serde_json::json!({ "input": 12, "output": 7 })
        );
        assert_eq!(value["output_least"], 5);
        assert_eq!(
            serde_json::to_vec(&sorted(value)).expect("JSON"),
            outcome.to_json()
        );
        outcome.usage = None;
        let text = String::from_utf8(outcome.to_json()).expect("text");
        assert!(!text.contains("usage"), "{text}");
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
            item: ("tool", "read \"it\""),
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
