//! To a server over stdio: one child for each session, started at `initialize`, started again when it
//! ends and is called again.

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{Refusal, refusal};
use bytes::Bytes;
use gate::Passed;
use http::StatusCode;
use net::{Body, BodySender, ChildIn, ChildOut, LineError, Response, children, sse};
use tokio::time::Instant;

use super::http::cut;
use super::{Outgoing, look_every, while_in_force};
use crate::answers::Answers;
use crate::calls::own_id;
use crate::inbound::{accepted, event_stream, http_error, json, rpc_error};
use crate::lane::{McpLane, Server, ServerKind, Shared};
use crate::upstream::{self, ChildAnswer, LISTEN_SILENCE_MS, Link, Messages, lock};
use crate::waiting::{BadLine, cancelled_by_client, gone, slow, too_large};

/// Events that may wait for a slow client.
pub(super) const EVENTS_MAX: usize = 16;
/// Lines that are not MCP, after which a child is ended. Some servers print a greeting.
const GARBAGE_LINES_MAX: usize = 64;
/// How long a child that was started again may take for its `initialize`, in milliseconds.
const INITIALIZE_MS_MAX: u64 = 10_000;
/// The id of that `initialize`; no client's, since it is in no client's session.
const REPLAY_ID: &str = "\"weir:initialize\"";

/// Begins a session: starts a child and says the client's `initialize` to it.
pub(crate) async fn open(
    lane: &McpLane,
    server: &Server,
    answers: Answers,
    outgoing: Outgoing,
) -> Response {
    let (sessions, passed) = (&lane.shared.sessions, answers.passed());
    let now_ms = crate::probe::mono_ms();
    let session = match sessions.begin(passed.agent(), passed.thumbprint(), server, now_ms) {
        Ok(session) => session,
        Err(refusal) => return http_error(answers, &refusal),
    };
    let mut begun = Begun {
        shared: &lane.shared,
        session: &session,
        keep: false,
    };
    let _ = session.initialize.set(one_line(&outgoing.message));
    let response = carry(lane, server, &session, answers, outgoing).await;
    begun.keep = response.headers().contains_key(crate::inbound::SESSION);
    response
}

/// A session whose client does not know it yet: ended unless it is kept, also where the client is gone
/// before it hears of it.
struct Begun<'a> {
    shared: &'a Shared,
    session: &'a Link,
    keep: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.keep {
            let why = gone("it did not begin");
            self.shared.sessions.end(self.session, &why);
        }
    }
}

/// Carries one message, and its answer where it is a request.
pub(crate) async fn carry(
    lane: &McpLane,
    server: &Server,
    session: &Arc<Link>,
    answers: Answers,
    outgoing: Outgoing,
) -> Response {
    session.used(crate::probe::mono_ms());
    let named = outgoing.is_initialize.then(|| session.id.clone());
    match begin(lane, server, session, &answers, &outgoing).await {
        Ok(Some(call)) => answer(lane, answers, call, named).await,
        Ok(None) => {
            if let Some(cancelled) = &outgoing.cancelled {
                session.end_call(&cancelled.own, cancelled_by_client());
            }
            answers.end(CallEnd::Complete, 202);
            accepted()
        }
        Err(refusal) => rpc_error(answers, &refusal),
    }
}

/// Sends one message; gives the call that is under way then, where it is a request.
async fn begin(
    lane: &McpLane,
    server: &Server,
    session: &Arc<Link>,
    answers: &Answers,
    outgoing: &Outgoing,
) -> Result<Option<Heard>, Refusal> {
    let mut call = None;
    if let Some(client) = &outgoing.id {
        let own = own_id(answers.call());
        let (progress, takes_events) = (outgoing.progress.clone(), outgoing.takes_events);
        call = Some(Heard {
            heard: session.wait(&own, client, progress, takes_events)?,
            session: Arc::clone(session),
            own,
        });
    }
    send(lane, server, session, answers, outgoing).await?;
    Ok(call)
}

/// Opens the session's event stream.
pub(crate) fn listen(lane: &McpLane, session: &Arc<Link>, mut answers: Answers) -> Response {
    session.used(crate::probe::mono_ms());
    let (mut heard, missed) = match session.listen() {
        Ok(heard) => heard,
        Err(refusal) => {
            let call = answers.call();
            answers.end(CallEnd::Failed, refusal.code.status);
            return crate::refuse::refuse_http(&refusal, call, None);
        }
    };
    let (sender, body) = Body::stream(EVENTS_MAX);
    let shared = Arc::clone(&lane.shared);
    tokio::task::spawn_local(async move {
        let said = async {
            for message in missed {
                pass_on(answers.take(&shared.declared, &message), &sender).await?;
            }
            let silence_ms = LISTEN_SILENCE_MS;
            pump(&shared, &mut answers, &mut heard, &sender, silence_ms).await
        };
        match said.await {
            Ok(()) => answers.end(CallEnd::Complete, 200),
            Err(Some(refusal)) => cut(answers, &refusal, sender).await,
            Err(None) => answers.end(CallEnd::Cut, 200),
        }
    });
    event_stream(body, None)
}

/// A call under way; forgotten by its session when this is dropped.
struct Heard {
    session: Arc<Link>,
    /// The id that the child was given.
    own: String,
    heard: Messages,
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.session.forget(&self.own);
    }
}

/// The answer as JSON where it is the first thing that the child says about the call, else as a stream.
async fn answer(
    lane: &McpLane,
    mut answers: Answers,
    mut call: Heard,
    named: Option<String>,
) -> Response {
    let (shared, answer_ms) = (Arc::clone(&lane.shared), lane.settings().answer_ms);
    let silence = Duration::from_millis(answer_ms);
    let said = tokio::time::timeout(silence, call.heard.next());
    let said = while_in_force(answers.passed(), said).await;
    let said = said.and_then(|said| said.map_err(|_elapsed| slow()));
    let message = match said.and_then(message) {
        Ok(message) => message,
        Err(refusal) => return rpc_error(answers, &refusal),
    };
    let first = answers.take(&shared.declared, &message);
    if answers.is_done() {
        answers.end(CallEnd::Complete, 200);
        return match first {
            Some(first) => json(StatusCode::OK, first, named.as_deref()),
            None => json(StatusCode::BAD_GATEWAY, Bytes::new(), None),
        };
    }
    let (sender, body) = Body::stream(EVENTS_MAX);
    tokio::task::spawn_local(async move {
        let said = async {
            pass_on(first, &sender).await?;
            pump(&shared, &mut answers, &mut call.heard, &sender, answer_ms).await
        };
        match said.await {
            Ok(()) => answers.end(CallEnd::Complete, 200),
            Err(Some(refusal)) => cut(answers, &refusal, sender).await,
            Err(None) => answers.end(CallEnd::Cut, 200),
        }
    });
    event_stream(body, named.as_deref())
}

/// Passes on what is heard until the answer came or the session ended; `Err(None)`: the client is gone.
async fn pump(
    shared: &Shared,
    answers: &mut Answers,
    heard: &mut Messages,
    sender: &BodySender,
    silence_ms: u64,
) -> Result<(), Option<Refusal>> {
    let silence = Duration::from_millis(silence_ms);
    let mut heard_at = Instant::now();
    let mut look = look_every();
    while !answers.is_done() {
        let said = tokio::select! {
            said = tokio::time::timeout_at(heard_at + silence, heard.next()) => said,
            () = sender.closed() => return Err(None),
            _ = look.tick() => match answers.passed().in_force() {
                Ok(()) => continue,
                Err(ended) => return Err(Some(ended)),
            },
        };
        heard_at = Instant::now();
        let message = match said {
            Err(_elapsed) => return Err(Some(slow())),
            Ok(None) if !answers.is_for_request() => return Ok(()),
            Ok(said) => message(said).map_err(Some)?,
        };
        pass_on(answers.take(&shared.declared, &message), sender).await?;
    }
    Ok(())
}

pub(super) async fn pass_on(
    message: Option<Bytes>,
    sender: &BodySender,
) -> Result<(), Option<Refusal>> {
    let Some(message) = message else {
        return Ok(());
    };
    let event = sse::write(&sse::Event::message(&message));
    sender.send(Bytes::from(event)).await.map_err(|_gone| None)
}

pub(super) fn message(said: Option<ChildAnswer>) -> ChildAnswer {
    said.unwrap_or_else(|| {
        let refusal = Refusal::new(refusal::SERVER_DOWN, "the call was given up");
        Err(refusal.with_private("the session ended"))
    })
}

/// Sends one message to the session's child, starting it where it does not run.
async fn send(
    lane: &McpLane,
    server: &Server,
    session: &Arc<Link>,
    answers: &Answers,
    outgoing: &Outgoing,
) -> Result<(), Refusal> {
    let child = child_of(
        lane,
        server,
        session,
        answers.passed(),
        !outgoing.is_initialize,
    )
    .await?;
    write(&child, answers.passed(), &outgoing.message).await
}

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
    let initialized = replay
        .then(|| session.wait(REPLAY_ID, REPLAY_ID, None, false))
        .transpose()?;
    tokio::task::spawn_local(read(Arc::clone(&lane.shared), Arc::clone(session), out));
    if let Some(heard) = initialized {
        let said = initialize(session, passed, &child, heard).await;
        session.forget(REPLAY_ID);
        said.map_err(down)?;
    }
    Ok(child)
}

async fn initialize(
    session: &Link,
    passed: &Passed,
    child: &ChildIn<Passed>,
    mut heard: Messages,
) -> Result<(), String> {
    let kept = session.initialize.get();
    let kept = kept.ok_or("its session has no initialize")?;
    let text = std::str::from_utf8(kept).map_err(|_| "not UTF-8")?;
    let mut object = crate::envelope::Object::read(text).ok_or("not an object")?;
    object.set("id", REPLAY_ID.to_owned()).ok_or("no id")?;
    let said = |error: net::SendLineError| error.to_string();
    child
        .send(passed, Bytes::from(object.to_json()))
        .await
        .map_err(said)?;
    let wait = Duration::from_millis(INITIALIZE_MS_MAX);
    match tokio::time::timeout(wait, heard.next()).await {
        Ok(Some(Ok(_))) => {}
        _ => return Err("it did not answer initialize again".into()),
    }
    let done = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    child.send(passed, done).await.map_err(said)
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
