//! To a server over stdio: one child for each session, started at `initialize`, started again when it
//! ends and is called again.

use std::cell::Cell;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::record::CallEnd;
use base::{JsonValue, Refusal, refusal};
use bytes::Bytes;
use gate::Passed;
use http::StatusCode;
use net::{Body, BodySender, ChildIn, ChildOut, LineError, Response, children};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use super::http::cut;
use super::{Outgoing, look_every};
use crate::answers::Answers;
use crate::calls::own_id;
use crate::envelope::{Message, MessageText, Object, Params, Sender};
use crate::inbound::{accepted, event_stream, http_error, json, rpc_error};
use crate::lane::{McpLane, Server, ServerKind, Shared};
use crate::session::{ChildAnswer, ChildSession, LISTEN_SILENCE_MS};
use crate::sse;

/// Events that may wait for a slow client.
const EVENTS_MAX: usize = 16;
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
    let sessions = &lane.shared.sessions;
    let now_ms = crate::probe::mono_ms();
    let session = match sessions.begin(answers.passed(), server, now_ms) {
        Ok(session) => session,
        Err(refusal) => return http_error(answers, &refusal),
    };
    let begun = Begun {
        shared: &lane.shared,
        session: &session,
        keep: Cell::new(false),
    };
    *session
        .initialize
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = Some(one_line(&outgoing.message));
    let response = carry(lane, server, &session, answers, outgoing).await;
    begun
        .keep
        .set(response.headers().contains_key(crate::inbound::SESSION));
    response
}

/// A session whose client does not know it yet: ended unless it is kept, also where the client is gone
/// before it hears of it.
struct Begun<'a> {
    shared: &'a Shared,
    session: &'a ChildSession,
    keep: Cell<bool>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.keep.get() {
            self.shared.sessions.end(self.session, "it did not begin");
        }
    }
}

/// Carries one message, and its answer where it is a request.
pub(crate) async fn carry(
    lane: &McpLane,
    server: &Server,
    session: &Arc<ChildSession>,
    answers: Answers,
    outgoing: Outgoing,
) -> Response {
    session.used(crate::probe::mono_ms());
    let mut call = None;
    if let Some(client) = &outgoing.id {
        let own = own_id(answers.call());
        let (progress, takes_events) = (outgoing.progress.clone(), outgoing.takes_events);
        match session.wait(&own, client, progress, takes_events) {
            Ok(heard) => {
                call = Some(Heard {
                    session: Arc::clone(session),
                    own,
                    heard,
                });
            }
            Err(refusal) => return rpc_error(answers, &refusal),
        }
    }
    let sent = send(lane, server, session, &answers, &outgoing).await;
    match (sent, call) {
        (Ok(()), Some(call)) => {
            let named = outgoing.is_initialize.then(|| session.id.clone());
            answer(lane, answers, call, named).await
        }
        (Ok(()), None) => {
            if let Some(cancelled) = &outgoing.cancelled {
                session.forget(cancelled);
            }
            answers.end(CallEnd::Complete, 202);
            accepted()
        }
        (Err(refusal), _) => rpc_error(answers, &refusal),
    }
}

/// Opens the session's event stream.
pub(crate) fn listen(lane: &McpLane, session: &Arc<ChildSession>, answers: Answers) -> Response {
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
    let mut answers = answers;
    let shared = Arc::clone(&lane.shared);
    tokio::task::spawn_local(async move {
        for message in missed {
            if pass_on(&shared, &mut answers, &message, &sender)
                .await
                .is_err()
            {
                return answers.end(CallEnd::Cut, 200);
            }
        }
        let end = pump(
            &shared,
            &mut answers,
            &mut heard,
            &sender,
            LISTEN_SILENCE_MS,
        )
        .await;
        answers.end(end.map_or(CallEnd::Cut, |_| CallEnd::Complete), 200);
    });
    event_stream(body, None)
}

/// A call under way; forgotten by its session when this is dropped.
struct Heard {
    session: Arc<ChildSession>,
    /// The id that the child was given.
    own: String,
    heard: Receiver<ChildAnswer>,
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
    let message = match tokio::time::timeout(silence, call.heard.recv()).await {
        Err(_elapsed) => return rpc_error(answers, &slow()),
        Ok(said) => match message(said) {
            Ok(message) => message,
            Err(refusal) => return rpc_error(answers, &refusal),
        },
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
        if let Some(first) = first
            && send_event(first, &sender).await.is_err()
        {
            return answers.end(CallEnd::Cut, 200);
        }
        match pump(&shared, &mut answers, &mut call.heard, &sender, answer_ms).await {
            Ok(_) => answers.end(CallEnd::Complete, 200),
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
    heard: &mut Receiver<ChildAnswer>,
    sender: &BodySender,
    silence_ms: u64,
) -> Result<(), Option<Refusal>> {
    let silence = Duration::from_millis(silence_ms);
    let mut heard_at = Instant::now();
    let mut look = look_every();
    while !answers.is_done() {
        let said = tokio::select! {
            said = tokio::time::timeout_at(heard_at + silence, heard.recv()) => said,
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
        pass_on(shared, answers, &message, sender)
            .await
            .map_err(|_| None)?;
    }
    Ok(())
}

async fn pass_on(
    shared: &Shared,
    answers: &mut Answers,
    message: &Bytes,
    sender: &BodySender,
) -> Result<(), net::Gone> {
    match answers.take(&shared.declared, message) {
        Some(message) => send_event(message, sender).await,
        None => Ok(()),
    }
}

async fn send_event(message: Bytes, sender: &BodySender) -> Result<(), net::Gone> {
    let event = sse::Event::message(&message);
    sender.send(Bytes::from(sse::write(&event))).await
}

fn message(said: Option<ChildAnswer>) -> Result<Bytes, Refusal> {
    match said {
        Some(ChildAnswer::Message(message)) => Ok(message),
        Some(ChildAnswer::TooLarge) => Err(Refusal::new(
            refusal::ANSWER_TOO_LARGE,
            "the server's answer is too large",
        )),
        Some(ChildAnswer::Gone(why)) => {
            Err(Refusal::new(refusal::SERVER_DOWN, "the server stopped").with_private(why))
        }
        None => Err(Refusal::new(refusal::SERVER_DOWN, "the call was given up")
            .with_private("the client read too slowly, or the session ended")),
    }
}

fn slow() -> Refusal {
    Refusal::new(refusal::SERVER_SLOW, "the server did not answer in time")
}

/// Sends one message to the session's child, starting it where it does not run.
async fn send(
    lane: &McpLane,
    server: &Server,
    session: &Arc<ChildSession>,
    answers: &Answers,
    outgoing: &Outgoing,
) -> Result<(), Refusal> {
    let mut input = session.input.lock().await;
    let running = input.as_ref().filter(|child| !child.is_gone()).cloned();
    let child = match running {
        Some(child) => child,
        None if session.is_ended() => {
            return Err(Refusal::new(
                refusal::SESSION_UNKNOWN,
                "the session has ended",
            ));
        }
        None => {
            let replay = !outgoing.is_initialize;
            let child = start(lane, server, session, answers.passed(), replay).await?;
            *input = Some(child.clone());
            child
        }
    };
    drop(input);
    child
        .send(answers.passed(), one_line(&outgoing.message))
        .await
        .map_err(|error| {
            Refusal::new(refusal::SERVER_DOWN, "the server does not take messages")
                .with_private(error.to_string())
        })
}

/// Starts a child, and where it takes the place of another, says the session's `initialize` again.
async fn start(
    lane: &McpLane,
    server: &Server,
    session: &Arc<ChildSession>,
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
    let now_ms = crate::probe::mono_ms();
    {
        let mut restart = session
            .backoff
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if now_ms < restart.not_before_ms {
            let wait_ms = restart.not_before_ms - now_ms;
            return Err(
                down("it ended and waits to be started again".into()).with_retry_ms(wait_ms)
            );
        }
        restart.backoff.started(now_ms);
    }
    let spawned = children::spawn(passed, command, lane.settings().answer_bytes_max);
    let (child, out) = spawned.map_err(|error| {
        ended(
            &lane.shared,
            session,
            &format!("it cannot be started: {error}"),
        );
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
    session: &ChildSession,
    passed: &Passed,
    child: &ChildIn<Passed>,
    mut heard: Receiver<ChildAnswer>,
) -> Result<(), String> {
    let kept = session
        .initialize
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let kept = kept.ok_or("its session has no initialize")?;
    let text = std::str::from_utf8(&kept).map_err(|_| "not UTF-8")?;
    let mut object = Object::read(text).ok_or("not an object")?;
    object.set("id", REPLAY_ID.to_owned()).ok_or("no id")?;
    let said = |error: net::SendLineError| error.to_string();
    child
        .send(passed, Bytes::from(object.to_json()))
        .await
        .map_err(said)?;
    let wait = Duration::from_millis(INITIALIZE_MS_MAX);
    match tokio::time::timeout(wait, heard.recv()).await {
        Ok(Some(ChildAnswer::Message(_))) => {}
        _ => return Err("it did not answer initialize again".into()),
    }
    let done = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    child.send(passed, done).await.map_err(said)
}

/// Reads what a child says until it ends, and gives each message to whom it belongs.
async fn read(shared: Arc<Shared>, session: Arc<ChildSession>, mut out: ChildOut) {
    let mut garbage = 0;
    let why = loop {
        let closed = session_closed(&session);
        let line = tokio::select! {
            line = out.next() => line,
            () = closed => break "its session ended".to_owned(),
        };
        match line {
            Some(Ok(line)) => match dispatch(&session, line) {
                ChildLine::Mcp => {}
                ChildLine::NotMcp => garbage += 1,
                ChildLine::Foreign => break "it answered what it was not asked".into(),
            },
            Some(Err(LineError::TooLong)) => session.tell_all(&ChildAnswer::TooLarge),
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
    session.tell_all(&ChildAnswer::Gone(why));
}

/// Resolves when the session has ended.
async fn session_closed(session: &ChildSession) {
    loop {
        let over = session.over.notified();
        let mut over = std::pin::pin!(over);
        // Told of what happens from here on, so that an end between the two lines is not missed.
        over.as_mut().enable();
        if session.is_ended() {
            return;
        }
        over.await;
    }
}

/// What a line of a child is.
enum ChildLine {
    Mcp,
    NotMcp,
    /// An answer to a request that was not made, or is answered.
    Foreign,
}

/// Gives one line to whom it belongs.
fn dispatch(session: &ChildSession, line: Bytes) -> ChildLine {
    let text = MessageText::of(&line);
    let id = match text.read(Sender::Server) {
        Ok(Message::Response { id: Some(id), .. }) => id.0.to_owned(),
        Ok(Message::Response { id: None, .. }) => {
            tracing::warn!(server = %session.server, "the server says that it could not read a message");
            return ChildLine::NotMcp;
        }
        Ok(Message::Notification { params, .. } | Message::Request { params, .. }) => {
            let token = Params::read(params).ok().and_then(|p| p.progress_token);
            session.tell(line.clone(), token.map(JsonValue::text));
            return ChildLine::Mcp;
        }
        Err(why) => {
            tracing::warn!(server = %session.server, ?why, "the server printed what is not MCP");
            return ChildLine::NotMcp;
        }
    };
    match session.answer(&id, ChildAnswer::Message(line)) {
        true => ChildLine::Mcp,
        false => ChildLine::Foreign,
    }
}

fn ended(shared: &Shared, session: &ChildSession, why: &str) {
    let now_ms = crate::probe::mono_ms();
    let mut restart = session
        .backoff
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    restart.not_before_ms = now_ms + restart.backoff.ended(now_ms);
    drop(restart);
    if !session.is_ended() {
        tracing::warn!(server = %session.server, why, "a server's child ended");
        if let Some(health) = shared.health.get(&session.server) {
            health.set(Err(why.to_owned()));
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
