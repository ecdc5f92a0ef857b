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
    {
        let now_ms = crate::probe::mono_ms();
        let mut restart = lock(&session.backoff);
        if now_ms < restart.not_before_ms {
            let wait_ms = restart.not_before_ms - now_ms;
            let refusal = down("it ended and waits to be started again".into());
            return Err(refusal.with_retry_ms(wait_ms));
        }
        restart.backoff.started(now_ms);
    }
    let spawned = children::spawn(passed, command, lane.settings().answer_bytes_max);
    let (child, out) = spawned.map_err(|error| {
        let why = format!("it cannot be started: {error}");
        ended(&lane.shared, session, &why);
        down(error.to_string())
    })?;
    session.started();
    let initialized = replay
        .then(|| session.wait(REPLAY_ID, REPLAY_ID, None, false))
        .transpose()?;
    tokio::task::spawn_local(read(Arc::clone(&lane.shared), Arc::clone(session), out));
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

/// Reads what a child says until it ends, and gives each message to whom it belongs.
async fn read(shared: Arc<Shared>, session: Arc<Link>, mut out: ChildOut) {
    let mut garbage = 0;
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
                Ok(()) => {}
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
    ended(&shared, &session, &why);
    // Where the session ended, its calls are told why by what ended it.
    if !session.is_ended() {
        session.end_calls(&gone(why));
    }
}

fn ended(shared: &Shared, session: &Link, why: &str) {
    let now_ms = crate::probe::mono_ms();
    let mut restart = lock(&session.backoff);
    restart.not_before_ms = now_ms + restart.backoff.ended(now_ms);
    drop(restart);
    if !session.is_ended() {
        tracing::warn!(server = %session.server, why, "a server's child ended");
        if let Some(health) = shared.health.get(&session.server) {
            health.failed(why);
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
