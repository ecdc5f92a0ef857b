//! Asks a child of its own, which ends when it was asked.

use std::time::Duration;

use bytes::Bytes;
use gate::Passed;
use net::{ChildIn, ChildOut, LineError, children};
use serde_json::Value;

use super::{Spoken, Transport, begun, discover, discovered, id_of, initialize};
use crate::lane::McpLane;

/// How long a child may be silent before it is taken for one that does not know the modern era, in milliseconds. The
/// specification gives no time; a server of the older era answers at once, or never.
const SILENT_MS_MAX: u64 = 5_000;

/// A child that is asked.
struct ProbedChild {
    child: ChildIn<Passed>,
    out: ChildOut,
}

/// Why there is no answer.
enum NoAnswer {
    Silent,
    Ended(String),
}

impl From<NoAnswer> for String {
    fn from(why: NoAnswer) -> String {
        match why {
            NoAnswer::Silent => "it did not answer in time".to_owned(),
            NoAnswer::Ended(why) => why,
        }
    }
}

/// Asks the modern era first, since a server may take its first request for the one that decides. One that did not answer it
/// is asked to begin a session; where it ended, or is bound to the modern era now, another is.
pub(super) async fn find(
    lane: &McpLane,
    passed: &Passed,
    command: &children::Command,
) -> Result<Spoken, String> {
    let mut asked = ProbedChild::start(lane, passed, command)?;
    let silent = Duration::from_millis(SILENT_MS_MAX);
    let answer = tokio::time::timeout(silent, asked.ask("server/discover", discover(), passed));
    let answer = answer.await.unwrap_or(Err(NoAnswer::Silent));
    let modern = match &answer {
        Ok(answer) => discovered(answer),
        Err(_) => Vec::new(),
    };
    if !modern.is_empty() || matches!(answer, Err(NoAnswer::Ended(_))) {
        drop(asked);
        asked = ProbedChild::start(lane, passed, command)?;
    }
    let answer = asked
        .ask(
            "initialize",
            initialize(crate::era::CapabilitySet::default()),
            passed,
        )
        .await;
    let legacy = match answer {
        Ok(answer) => begun(&answer),
        Err(_) if !modern.is_empty() => None,
        Err(why) => return Err(why.into()),
    };
    if modern.is_empty() && legacy.is_none() {
        return Err("it refuses initialize".to_owned());
    }
    Ok(Spoken {
        modern,
        legacy,
        transport: Transport::Stdio,
    })
}

impl ProbedChild {
    fn start(
        lane: &McpLane,
        passed: &Passed,
        command: &children::Command,
    ) -> Result<ProbedChild, String> {
        let bytes_max = lane.settings().answer_bytes_max;
        let spawned = children::spawn(passed, command, bytes_max);
        let (child, out) = spawned.map_err(|error| format!("it cannot be started: {error}"))?;
        Ok(ProbedChild { child, out })
    }

    async fn ask(
        &mut self,
        method: &str,
        message: String,
        passed: &Passed,
    ) -> Result<Value, NoAnswer> {
        let ended = |why: String| NoAnswer::Ended(why);
        let sent = self.child.send(passed, Bytes::from(message)).await;
        sent.map_err(|error| ended(error.to_string()))?;
        loop {
            match self.out.next().await {
                Some(Ok(line)) => {
                    let answer: Option<Value> = serde_json::from_slice(&line).ok();
                    let own = answer.filter(|answer| answer["id"] == id_of(method));
                    if let Some(answer) = own.filter(|answer| answer.get("method").is_none()) {
                        return Ok(answer);
                    }
                }
                Some(Err(LineError::TooLong)) => {
                    return Err(ended("its answer is too large".to_owned()));
                }
                Some(Err(LineError::Exited(status))) => {
                    let why = status.map_or("it ended".into(), |s| format!("it ended: {s}"));
                    return Err(ended(why));
                }
                None => return Err(ended("it ended".to_owned())),
            }
        }
    }
}
