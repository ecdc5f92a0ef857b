//! How the gateway's own life is recorded in its log.
//!
//! A process says first that it started, then of each call that the one before left open that it was lost. The texts of
//! the policies and of the directory stand in the log before the first record that was made by them.

use base::record::{ProcessStop, Start, Subject};
use base::{Digest, Now};
use gate::ports::{RecordError, Recorder};
use identity::AgentState;
use serde_json::json;
use store::log::{Log, text_digest};

use crate::config::settings::{Agent, Settings};

/// The texts that are in force, as the log keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InForce {
    pub policies: String,
    pub directory: String,
}

impl InForce {
    pub(crate) fn new(policies: &policy::Policies, agents: &[Agent]) -> InForce {
        InForce {
            policies: policies.text().to_owned(),
            directory: directory(agents),
        }
    }

    pub(crate) fn policy_set(&self) -> Digest {
        text_digest(&self.policies)
    }

    pub(crate) fn directory(&self) -> Digest {
        text_digest(&self.directory)
    }

    fn texts(&self) -> [(Subject, &str); 2] {
        [
            (Subject::Directory, &self.directory),
            (Subject::Policies, &self.policies),
        ]
    }

    /// Has the texts in the log, as durable as its records are. Blocks for that long.
    pub(crate) fn keep(&self, log: &Log, now: Now) -> Result<(), RecordError> {
        let mut texts = self.texts().into_iter();
        texts.try_for_each(|(of, text)| log.keep_snapshot(of, text, now).map(drop))
    }
}

/// Who is known, as canonical JSON. Keys are named by their thumbprints, as judgements name them.
fn directory(agents: &[Agent]) -> String {
    let agents: Vec<_> = agents
        .iter()
        .map(|agent| {
            let keys = agent.keys.iter().map(identity::thumbprint);
            let keys: Vec<String> = keys.map(|key| key.to_string()).collect();
            let groups: Vec<&str> = agent.groups.iter().map(base::Name::as_str).collect();
            let expires = agent.expires_unix_ms.map(base::clock::rfc3339);
            let name = agent.name.as_str();
            let mut entry =
                json!({ "expires": expires, "groups": groups, "keys": keys, "name": name });
            if agent.state != AgentState::Active {
                entry["state"] = agent.state.as_str().into();
            }
            entry
        })
        .collect();
    json!({ "agents": agents }).to_string()
}

/// Records that this process starts, what the one before lost, and what is in force from now on.
pub(super) fn begin(
    log: &Log,
    settings: &Settings,
    in_force: &InForce,
    before: Option<&str>,
    now: Now,
) -> Result<(), String> {
    let lost = log.left_open();
    let start = Start {
        at: now,
        version: env!("CARGO_PKG_VERSION"),
        origin: log.origin(),
        pid: std::process::id(),
        durability: settings.log.durability.as_str(),
        policy_set: in_force.policy_set(),
        directory: in_force.directory(),
        lost,
        replica: settings.store.as_ref().map(|store| store.replica.as_str()),
        before,
    };
    log.note(start.to_json());
    log.tell_lost(now);
    if lost > 0 {
        tracing::warn!(
            lost,
            "calls were open when the last process ended without a word; the log says so"
        );
    }
    match in_force.keep(log, now) {
        Ok(()) => Ok(()),
        // No call passes while the disk is full. The texts wait with the outcomes, before whatever is judged later.
        Err(RecordError::Full) => {
            for (of, text) in in_force.texts() {
                log.note_snapshot(of, text, now);
            }
            Ok(())
        }
        Err(error) => Err(format!("the log in {}: {error}", log.path().display())),
    }
}

/// Records that this process ends by itself, and closes the log.
pub(super) fn end(log: &Log, now: Now) -> Result<(), RecordError> {
    if !matches!(log.trouble(), Some(RecordError::Failed(_))) {
        log.note(ProcessStop { at: now }.to_json());
    }
    log.close()
}
