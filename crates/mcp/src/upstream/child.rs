//! To a server over stdio: a child process, started when a link needs it first, and again when it ended and is called again.

use std::sync::Arc;

use base::{Refusal, refusal};
use bytes::Bytes;
use gate::Passed;
use net::{ChildIn, ChildOut, LineError, children};

use super::session::{REPLAY_ID, initialize_again};
use crate::lane::{McpLane, Server, ServerKind, Shared};
use crate::upstream::{self, Link, lock};
use crate::waiting::{BadLine, gone, too_large};

/// Lines that are not MCP, after which a child is ended. Some servers print a greeting.
const GARBAGE_LINES_MAX: usize = 64;

/// The input of a link's child, which is started where it does not run; `replay` says that the link's `initialize` is to be
/// said to it again.
pub(super) async fn child_of(
    lane: &McpLane,
    server: &Server,
    link: &Arc<Link>,
    passed: &Passed,
    replay: bool,
) -> Result<ChildIn<Passed>, Refusal> {
    let mut input = link.input.lock().await;
    let running = input.as_ref().filter(|child| !child.is_gone()).cloned();
    match running {
        Some(child) => Ok(child),
        None if link.is_ended() => {
            passed.in_force()?;
            Err(upstream::unknown())
        }
        None => {
            let child = start(lane, server, link, passed, replay).await?;
            *input = Some(child.clone());
            Ok(child)
        }
    }
}

/// Gives a child one message.
pub(crate) async fn write(
    child: &ChildIn<Passed>,
    passed: &Passed,
    message: &Bytes,
) -> Result<(), Refusal> {
    let sent = child.send(passed, one_line(message)).await;
    sent.map_err(|error| {
        let refusal = Refusal::new(refusal::SERVER_DOWN, "the server does not take messages");
        refusal.with_private(error.to_string())
    })
}

/// Starts a child, and where it takes the place of another, says the session's `initialize` again.
async fn start(
    lane: &McpLane,
    server: &Server,
    session: &Arc<Link>,
    passed: &Passed,
    replay: bool,
) -> Result<ChildIn<Passed>, Refusal> {
    let down = |why: String| {
        Refusal::new(refusal::SERVER_DOWN, "the server cannot be started").with_private(why)
    };
    let ServerKind::Child(command) = &server.kind else {
        base::never!("a session of a server that is no child");
        return Err(down("not a child".into()));
    };
    let command = server.command_for(command, &session.agent);
    let began = begin(&lane.shared, session).map_err(|wait_ms| {
        let refusal = down("it ended and waits to be started again".into());
        refusal.with_retry_ms(wait_ms)
    })?;
    let spawned = children::spawn(passed, &command, lane.settings().answer_bytes_max);
    let (child, out) = spawned.map_err(|error| {
        let why = format!("it cannot be started: {error}");
        ended(&lane.shared, session, &why, Some(began));
        down(error.to_string())
    })?;
    session.started();
    let initialized = replay
        .then(|| session.wait(REPLAY_ID, REPLAY_ID, None, false))
        .transpose()?;
    let (shared, reading) = (Arc::clone(&lane.shared), Arc::clone(session));
    tokio::task::spawn_local(read(shared, reading, out, began));
    if let Some(heard) = initialized {
        let say = async |message: Bytes| {
            let sent = child.send(passed, message).await;
            sent.map_err(|error| error.to_string())
        };
        let said = initialize_again(session, heard, say).await;
        session.forget(REPLAY_ID);
        said.map_err(down)?;
    }
    Ok(child)
}

/// Asks whether a child may be started now, for this link and for its server; gives when it is.
///
/// # Errors
/// How long to wait, in milliseconds.
fn begin(shared: &Shared, session: &Link) -> Result<u64, u64> {
    let now_ms = crate::probe::mono_ms();
    let mut restart = lock(&session.backoff);
    if now_ms < restart.not_before_ms {
        return Err(restart.not_before_ms - now_ms);
    }
    if let Some(health) = shared.health.get(&session.server) {
        lock(&health.starts).begin(now_ms)?;
    }
    restart.backoff.started(now_ms);
    Ok(now_ms)
}

/// Reads what a child says until it ends, and gives each message to whom it belongs. `began` is when it was started.
async fn read(shared: Arc<Shared>, session: Arc<Link>, mut out: ChildOut, began: u64) {
    let mut garbage = 0;
    let mut silent_since = Some(began);
    let mut over = session.over.subscribe();
    let why = loop {
        let line = tokio::select! {
            line = out.next() => line,
            _ = over.wait_for(|over| *over) => break "its session ended".to_owned(),
        };
        match line {
            Some(Ok(line)) => match tokio::select! {
                heard = session.hear(line) => heard,
                _ = over.wait_for(|over| *over) => break "its session ended".to_owned(),
            } {
                Ok(()) => {
                    if silent_since.take().is_some()
                        && let Some(health) = shared.health.get(&session.server)
                    {
                        lock(&health.starts).spoke();
                    }
                }
                Err(BadLine::NotMcp(why)) => {
                    garbage += 1;
                    tracing::warn!(server = %session.server, why, "the server printed what is not MCP");
                }
                Err(BadLine::Foreign) => break "it answered what it was not asked".into(),
            },
            Some(Err(LineError::TooLong)) => session.end_calls(&too_large()),
            Some(Err(LineError::Exited(status))) => {
                break status.map_or("it ended".into(), |status| format!("it ended: {status}"));
            }
            None => break "it ended".into(),
        }
        if garbage > GARBAGE_LINES_MAX {
            break "it says what is not MCP".into();
        }
    };
    ended(&shared, &session, &why, silent_since);
    // Where the session ended, its calls are told why by what ended it.
    if !session.is_ended() {
        session.end_calls(&gone(why));
    }
}

/// Notes that a child ended, or could not be started. `silent_since` is when it was, where it had said nothing.
fn ended(shared: &Shared, session: &Link, why: &str, silent_since: Option<u64>) {
    let now_ms = crate::probe::mono_ms();
    let mut restart = lock(&session.backoff);
    restart.not_before_ms = now_ms + restart.backoff.ended(now_ms);
    drop(restart);
    if !session.is_ended() {
        tracing::warn!(server = %session.server, why, "a server's child ended");
        if let Some(health) = shared.health.get(&session.server) {
            if let Some(began) = silent_since {
                lock(&health.starts).ended_silent(began, now_ms);
            }
            // Whether the server works for others is for the next probe to say.
            health.doubt();
        }
    }
}

/// A message without line breaks: stdio ends a message with one. In JSON they stand between tokens only.
pub(crate) fn one_line(message: &Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', message).is_none() {
        return message.clone();
    }
    let spaced = message
        .iter()
        .map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b });
    spaced.collect()
}
