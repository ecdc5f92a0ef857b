//! Messages of a session that weir keeps: its client knows it by an id of weir's, and its server by a link of its own.
//!
//! The server is a child process, or one over HTTP+SSE. Both say on one channel what they say to the session, and each
//! message finds the call there that it belongs to.

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{Refusal, refusal};
use bytes::Bytes;
use http::StatusCode;
use net::{Body, BodySender, Response, sse};
use tokio::time::Instant;

use super::child::{child_of, one_line, write};
use super::http::cut;
use super::{Outgoing, events, look_every, while_in_force};
use crate::answers::Answers;
use crate::calls::own_id;
use crate::inbound::{accepted, event_stream, http_error, json, rpc_error};
use crate::lane::{McpLane, Server, ServerKind, Shared};
use crate::upstream::{ChildAnswer, LISTEN_SILENCE_MS, Link, Messages};
use crate::waiting::{cancelled_by_client, gone, slow};

/// Events that may wait for a slow client.
pub(super) const EVENTS_MAX: usize = 16;
/// How long a server may take for the `initialize` that is said to it again, in milliseconds.
const INITIALIZE_MS_MAX: u64 = 10_000;
/// The id of that `initialize`; no client's, since it is in no client's session.
pub(super) const REPLAY_ID: &str = "\"weir:initialize\"";

/// Begins a session: begins a link to its server and says the client's `initialize` to it.
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

/// Sends one message to the session's server, to which a link is begun where there is none.
async fn send(
    lane: &McpLane,
    server: &Server,
    session: &Arc<Link>,
    answers: &Answers,
    outgoing: &Outgoing,
) -> Result<(), Refusal> {
    let replay = !outgoing.is_initialize;
    match &server.kind {
        ServerKind::Child(_) => {
            let child = child_of(lane, server, session, answers.passed(), replay).await?;
            write(&child, answers.passed(), &outgoing.message).await
        }
        ServerKind::Url { .. } => {
            let message = outgoing.message.clone();
            events::send(lane, server, session, answers, message, replay).await
        }
    }
}

/// Says the session's `initialize` to a server that takes the place of another, or has forgotten the session.
pub(super) async fn initialize_again(
    session: &Link,
    mut heard: Messages,
    say: impl AsyncFn(Bytes) -> Result<(), String>,
) -> Result<(), String> {
    let kept = session.initialize.get();
    let kept = kept.ok_or("its session has no initialize")?;
    let text = std::str::from_utf8(kept).map_err(|_| "not UTF-8")?;
    let mut object = crate::envelope::Object::read(text).ok_or("not an object")?;
    object.set("id", REPLAY_ID.to_owned()).ok_or("no id")?;
    say(Bytes::from(object.to_json())).await?;
    let wait = Duration::from_millis(INITIALIZE_MS_MAX);
    match tokio::time::timeout(wait, heard.next()).await {
        Ok(Some(Ok(_))) => {}
        _ => return Err("it did not answer initialize again".into()),
    }
    let done = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    say(done).await
}
