//! Records of the gateway's own life: that it started and stopped, what came into force, what was administered, and
//! which calls were open.
//!
//! With them the log explains itself: a judgement names the policies that made it by a digest whose text stands before
//! it, and each call that passed ends in an outcome, or in the word that its process died.

use super::{bounded, json};
use crate::clock::{Now, rfc3339};
use crate::limit::{OPEN_CALLS_PART_MAX, SNAPSHOT_PART_BYTES_MAX};
use crate::{CallId, Digest};

/// That a process began to write the log: its first record.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    pub at: Now,
    /// The version of weir.
    pub version: &'a str,
    /// The log's origin, as its checkpoints have it.
    pub origin: &'a str,
    /// The process id, which tells processes of one machine apart for a while.
    pub pid: u32,
    /// When a record counts as kept: `fsync` or `os`.
    pub durability: &'a str,
    /// The policies that are in force from now on.
    pub policy_set: Digest,
    /// The agents that are known from now on.
    pub directory: Digest,
    /// Calls that were open when the process before ended; a `lost` of each follows.
    pub lost: u64,
    /// What it is called among replicas, where there are any.
    pub replica: Option<&'a str>,
    /// The origin of the log that this replica wrote before this one, where it has another disk since.
    pub before: Option<&'a str>,
}

impl Start<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.text_if("before", self.before);
            json.plain("directory", self.directory);
            json.text("durability", self.durability);
            json.text("kind", "start");
            json.number("lost", self.lost);
            json.text("origin", self.origin);
            json.number("pid", u64::from(self.pid));
            json.plain("policy_set", self.policy_set);
            json.text_if("replica", self.replica);
            json.text("version", self.version);
        })
    }
}

/// That a process ended by itself, and wrote all that it had.
#[derive(Clone, Copy, Debug)]
pub struct ProcessStop {
    pub at: Now,
}

impl ProcessStop {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.text("kind", "stop");
        })
    }
}

/// That the process died in which a call was open, so that nobody knows how it ended. Stands for its outcome.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    pub call: CallId,
    /// When that was found, at the next start.
    pub at: Now,
}

impl Lost {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.plain("call", self.call);
            json.text("kind", "lost");
        })
    }
}

/// What a snapshot is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Agents, their groups, the thumbprints of their keys, and until when these are good.
    Directory,
    /// The texts of the policies and the schema that they were checked against.
    Policies,
}

impl Subject {
    pub const ALL: &[Subject] = &[Subject::Directory, Subject::Policies];

    pub fn as_str(self) -> &'static str {
        match self {
            Subject::Directory => "directory",
            Subject::Policies => "policies",
        }
    }

    /// The subject of this name.
    pub fn of(name: &str) -> Option<Subject> {
        Subject::ALL.iter().copied().find(|of| of.as_str() == name)
    }
}

/// One part of a text that comes into force. SHA-256 of all parts together is the digest that records name it by.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    pub at: Now,
    pub of: Subject,
    pub digest: Digest,
    /// Which part this is, from 1.
    pub part: u64,
    pub parts: u64,
    pub text: &'a str,
}

impl Snapshot<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.plain("digest", self.digest);
            json.text("kind", "snapshot");
            json.text("of", self.of.as_str());
            json.number("part", self.part);
            json.number("parts", self.parts);
            json.text("text", self.text);
        })
    }
}

/// A text in pieces that fit into one record each, cut between characters; at least one.
pub fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, character) in text.char_indices() {
        // As JSON writes it: the most is `\u0000`.
        let width = match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            '\0'..='\u{1f}' => 6,
            _ => character.len_utf8(),
        };
        if bytes + width > SNAPSHOT_PART_BYTES_MAX {
            parts.push(&text[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += width;
    }
    parts.push(&text[start..]);
    parts
}

/// That something administrative was done, or refused.
#[derive(Clone, Debug)]
pub struct Admin<'a> {
    pub at: Now,
    /// What was done, such as `reload`.
    pub what: &'a str,
    /// Who did it or, where nobody says that, what asked for it.
    pub by: &'a str,
    /// The keys of the settings that changed, never their values.
    pub changed: &'a [String],
    /// Keys that changed and take a restart.
    pub waiting: &'a [String],
    /// The policies and the agents that are in force from now on, where it was done and is about them.
    pub policy_set: Option<Digest>,
    pub directory: Option<Digest>,
    /// Why it was not done, where it was not.
    pub refused: Option<&'a str>,
}

impl Admin<'_> {
    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            json.text("at", &rfc3339(self.at.unix_ms));
            json.text("by", bounded(self.by));
            if !self.changed.is_empty() {
                json.texts("changed", self.changed.iter().map(|key| bounded(key)));
            }
            if let Some(directory) = self.directory {
                json.plain("directory", directory);
            }
            json.text("kind", "admin");
            if let Some(policy_set) = self.policy_set {
                json.plain("policy_set", policy_set);
            }
            json.text_if("refused", self.refused.map(bounded));
            if !self.waiting.is_empty() {
                json.texts("waiting", self.waiting.iter().map(|key| bounded(key)));
            }
            json.text("what", self.what);
        })
    }
}

/// What a reader who begins here has to know of the records before: the log's writer puts it at the beginning of each
/// segment, so that the next start reads one segment only.
#[derive(Clone, Debug)]
pub struct OpenCalls<'a> {
    /// When it was written, as the records beside it say.
    pub at: Option<Now>,
    /// Calls that passed and have not ended.
    pub calls: &'a [CallId],
    /// The newest snapshot of each subject that stands before.
    pub snapshots: &'a [(Subject, Digest)],
    /// Which part this is, from 1.
    pub part: u64,
    pub parts: u64,
}

impl OpenCalls<'_> {
    /// The records that say it all, in order.
    pub fn all(at: Option<Now>, calls: &[CallId], snapshots: &[(Subject, Digest)]) -> Vec<Vec<u8>> {
        let parts = calls.len().div_ceil(OPEN_CALLS_PART_MAX).max(1);
        let part = |part: usize| {
            let calls = calls.chunks(OPEN_CALLS_PART_MAX).nth(part).unwrap_or(&[]);
            let open = OpenCalls {
                at,
                calls,
                snapshots,
                part: part as u64 + 1,
                parts: parts as u64,
            };
            open.to_json()
        };
        (0..parts).map(part).collect()
    }

    /// Canonical JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json::object(|json| {
            if let Some(at) = self.at {
                json.text("at", &rfc3339(at.unix_ms));
            }
            json.text("kind", "open");
            json.plains("open", self.calls.iter());
            json.number("part", self.part);
            json.number("parts", self.parts);
            json.object("snapshots", |json| {
                for (of, digest) in self.snapshots {
                    json.plain(of.as_str(), digest);
                }
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Now = Now {
        unix_ms: 0,
        mono_ms: 0,
    };

    fn text(json: Vec<u8>) -> String {
        String::from_utf8(json).expect("text")
    }

    #[test]
    fn each_kind_is_canonical_json() {
        let start = Start {
            at: AT,
            version: "0.1.0",
            origin: "weir.local/0123",
            pid: 7,
            durability: "fsync",
            policy_set: Digest([1; 32]),
            directory: Digest([2; 32]),
            lost: 1,
            replica: None,
            before: None,
        };
        let (one, two) = ("01".repeat(32), "02".repeat(32));
        assert_eq!(
            text(start.to_json()),
            format!(
                r#"{{"at":"1970-01-01T00:00:00.000Z","directory":"{two}","durability":"fsync","kind":"start","lost":1,"origin":"weir.local/0123","pid":7,"policy_set":"{one}","version":"0.1.0"}}"#
            )
        );
        let call = CallId([3; 16]);
        assert_eq!(
            text(Lost { call, at: AT }.to_json()),
            r#"{"at":"1970-01-01T00:00:00.000Z","call":"03030303030303030303030303030303","kind":"lost"}"#
        );
        assert_eq!(
            text(ProcessStop { at: AT }.to_json()),
            r#"{"at":"1970-01-01T00:00:00.000Z","kind":"stop"}"#
        );
        let admin = Admin {
            at: AT,
            what: "reload",
            by: "files",
            changed: &["policy".into()],
            waiting: &[],
            policy_set: Some(Digest([1; 32])),
            directory: None,
            refused: None,
        };
        assert_eq!(
            text(admin.to_json()),
            format!(
                r#"{{"at":"1970-01-01T00:00:00.000Z","by":"files","changed":["policy"],"kind":"admin","policy_set":"{one}","what":"reload"}}"#
            )
        );
        let open = OpenCalls::all(None, &[call], &[(Subject::Policies, Digest([1; 32]))]);
        assert_eq!(
            open.into_iter().map(text).collect::<Vec<_>>(),
            [format!(
                r#"{{"kind":"open","open":["03030303030303030303030303030303"],"part":1,"parts":1,"snapshots":{{"policies":"{one}"}}}}"#
            )]
        );
    }

    #[test]
    fn what_is_open_is_told_in_parts_that_fit() {
        let calls = vec![CallId([3; 16]); OPEN_CALLS_PART_MAX + 1];
        let open = OpenCalls::all(Some(AT), &calls, &[]);
        assert_eq!(open.len(), 2);
        assert!(open.iter().all(|part| part.len() < 65_000));
        assert_eq!(OpenCalls::all(None, &[], &[]).len(), 1);
    }

    #[test]
    fn a_text_is_cut_into_parts_that_fit_and_give_it_again() {
        for text in ["", "a", &"\"\n\u{1}é😀".repeat(20_000)] {
            let parts = parts(text);
            assert_eq!(parts.concat(), text);
            for part in parts {
                let json = serde_json::to_string(part).expect("JSON");
                assert!(json.len() <= SNAPSHOT_PART_BYTES_MAX + 2, "{}", json.len());
            }
        }
    }
}
