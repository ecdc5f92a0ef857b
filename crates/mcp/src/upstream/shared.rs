//! To a child of 2026-07-28: one for all calls that an agent makes with one key, since each call says all of itself.
//!
//! Clients choose ids and tokens by themselves, so the child is given ids and tokens of ours, and what it says is given the
//! client's again. What it says of no call is for nobody. A client that closes its connection cancels its call; the child
//! is told by `notifications/cancelled`.
//!
//! Source: MCP 2026-07-28, "Transports", section "stdio", and "Cancellation".

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{Json, Refusal};
use bytes::Bytes;
use gate::Passed;
use http::StatusCode;
use net::{Body, BodySender, ChildIn, Response};
use tokio::time::{Instant, MissedTickBehavior};

use super::child::{child_of, write};
use super::http::cut;
use super::link::SharedCaller;
use super::session::{EVENTS_MAX, message, pass_on};
use super::{LISTEN_SILENCE_MS, Link, Messages, Outgoing, look_every, while_in_force};
use crate::answers::{Answers, AskedMethod};
use crate::calls::own_id;
use crate::envelope::splice;
use crate::era::{self, Era, MessageEra};
use crate::inbound::{accepted, event_stream, json, rpc_error};
use crate::lane::{McpLane, Server, Shared};
use crate::waiting::{CANCELLED, cancelled_by_client, slow};

/// How often the stream of a subscription says that it is open, in milliseconds.
const COMMENT_MS: u64 = 15_000;
/// Errors of JSON-RPC and MCP that say that the request was wrong: 400 over HTTP (MCP 2026-07-28, "Streamable HTTP").
const REQUEST_WRONG: [i64; 6] = [-32700, -32600, -32602, -32020, -32021, -32022];
const METHOD_UNKNOWN: i64 = -32601;

/// Refuses a message of the modern era to a server that was found not to speak it.
///
/// # Errors
/// `mcp.revision`, with what the server speaks.
pub(crate) fn check(shared: &Shared, server: &Server, said: &MessageEra) -> Result<(), Refusal> {
    match shared.spoken(&server.name) {
        Some(spoken) if !spoken.speaks(Era::Modern) => {
            let named = said.revision().map_or("", |revision| revision.date);
            let refusal = era::unknown(named, Era::Legacy);
            Err(refusal.with_supported(spoken.dates().collect()))
        }
        _ => Ok(()),
    }
}

/// Carries one message, and its answer where it is a request.
pub(crate) async fn carry(
    lane: &McpLane,
    server: &Server,
    answers: Answers,
    outgoing: Outgoing,
) -> Response {
    let (links, passed) = (&lane.shared.sessions, answers.passed());
    let now_ms = crate::probe::mono_ms();
    let link = match links.share(passed.agent(), passed.thumbprint(), server, now_ms) {
        Ok(link) => link,
        Err(refusal) => return rpc_error(answers, &refusal),
    };
    if outgoing.id.is_none() {
        return match tell(lane, server, &link, passed, &outgoing.message).await {
            Ok(()) => {
                answers.end(CallEnd::Complete, 202);
                accepted()
            }
            Err(refusal) => rpc_error(answers, &refusal),
        };
    }
    let takes = SharedCaller {
        takes_events: outgoing.takes_events,
        is_listen: answers.asked() == AskedMethod::Listen,
        wants_log: outgoing.wants_log,
    };
    let own = own_id(answers.call());
    let messages = match link.wait_shared(&own, takes, server.agent_sessions_max) {
        Ok(messages) => messages,
        Err(refusal) => return rpc_error(answers, &refusal),
    };
    let mut call = SharedCall {
        answers: Some(answers),
        link,
        own,
        token: outgoing.progress,
        messages,
        child: None,
    };
    match call.send(lane, server, &outgoing.message).await {
        Ok(()) => answer(lane, call, takes.is_listen).await,
        Err(refusal) => rpc_error(call.into_answers(), &refusal),
    }
}

/// Sends what has no answer.
async fn tell(
    lane: &McpLane,
    server: &Server,
    link: &Arc<Link>,
    passed: &Passed,
    message: &Bytes,
) -> Result<(), Refusal> {
    let child = child_of(lane, server, link, passed, false).await?;
    write(&child, passed, message).await
}

/// A call under way. Where it is dropped before it was answered, its child is told that nobody waits.
struct SharedCall {
    /// Absent once the call ends.
    answers: Option<Answers>,
    link: Arc<Link>,
    /// The id that the child was given, which is its token of progress as well.
    own: String,
    /// The client's token.
    token: Option<String>,
    messages: Messages,
    /// Absent until the child was given the message.
    child: Option<ChildIn<Passed>>,
}

impl Drop for SharedCall {
    fn drop(&mut self) {
        if let Some(answers) = self.answers.take() {
            self.leave(&answers);
        }
        self.link.forget(&self.own);
    }
}

impl SharedCall {
    /// Its answers, to be ended.
    fn into_answers(mut self) -> Answers {
        let answers = self.answers.take().expect("a call ends once");
        self.leave(&answers);
        answers
    }

    fn leave(&self, answers: &Answers) {
        let child = self.child.as_ref().filter(|child| !child.is_gone());
        if let (false, Some(child)) = (answers.is_done(), child) {
            let own = &self.own;
            let cancelled = format!(
                r#"{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{own},"reason":"nobody waits"}}}}"#
            );
            // A child that does not even take this works on it for nobody, as it would over a slow network.
            let _ = child.try_send(answers.passed(), Bytes::from(cancelled));
        }
    }

    fn passed(&self) -> &Passed {
        self.answers
            .as_ref()
            .expect("the call is under way")
            .passed()
    }

    async fn send(
        &mut self,
        lane: &McpLane,
        server: &Server,
        message: &Bytes,
    ) -> Result<(), Refusal> {
        let child = child_of(lane, server, &self.link, self.passed(), false).await?;
        let message = match self.token {
            Some(_) => with_own_token(message, &self.own),
            None => message.clone(),
        };
        // From here on the child may work on it.
        let child = self.child.insert(child).clone();
        write(&child, self.passed(), &message).await
    }

    /// Judges a message of the child; gives it as the client is to have it.
    fn take(&mut self, shared: &Shared, message: Bytes) -> Option<Bytes> {
        let message = match &self.token {
            Some(token) => with_client_token(&message, &self.own, token),
            None => message,
        };
        let answers = self.answers.as_mut().expect("the call is under way");
        answers.take(&shared.declared, &message)
    }

    fn is_done(&self) -> bool {
        self.answers.as_ref().is_none_or(Answers::is_done)
    }
}

/// The answer as JSON where it is the first thing that the child says about the call, else as a stream.
async fn answer(lane: &McpLane, mut call: SharedCall, is_listen: bool) -> Response {
    let (shared, answer_ms) = (Arc::clone(&lane.shared), lane.settings().answer_ms);
    let said = {
        let SharedCall {
            answers, messages, ..
        } = &mut call;
        let passed = answers.as_ref().expect("the call is under way").passed();
        let wait = Duration::from_millis(answer_ms);
        let said = while_in_force(passed, tokio::time::timeout(wait, messages.next()));
        tokio::select! {
            said = said => said.and_then(|said| said.map_err(|_elapsed| slow())),
            () = cancelled(answers) => Err(cancelled_by_client()),
        }
    };
    let first = match said.and_then(message) {
        Ok(first) => call.take(&shared, first),
        Err(refusal) => return rpc_error(call.into_answers(), &refusal),
    };
    if call.is_done() {
        let answers = call.into_answers();
        let first = first.unwrap_or_default();
        // What weir says in place of the answer is said as its own refusals are.
        let status = match answers.is_refused() {
            true => StatusCode::OK,
            false => status_of(&first),
        };
        answers.end(CallEnd::Complete, status.as_u16());
        return json(status, first, None);
    }
    let (sender, body) = Body::stream(EVENTS_MAX);
    tokio::task::spawn_local(async move {
        let silence_ms = match is_listen {
            true => LISTEN_SILENCE_MS,
            false => answer_ms,
        };
        let said = async {
            pass_on(first, &sender).await?;
            pump(&shared, &mut call, &sender, silence_ms, is_listen).await
        };
        match said.await {
            Ok(()) => call.into_answers().end(CallEnd::Complete, 200),
            Err(Some(refusal)) => cut(call.into_answers(), &refusal, sender).await,
            Err(None) => call.into_answers().end(CallEnd::Cut, 200),
        }
    });
    event_stream(body, None)
}

/// Passes on what the child says of the call until it is answered; `Err(None)`: the client is gone.
async fn pump(
    shared: &Shared,
    call: &mut SharedCall,
    sender: &BodySender,
    silence_ms: u64,
    is_listen: bool,
) -> Result<(), Option<Refusal>> {
    let silence = Duration::from_millis(silence_ms);
    let mut heard_at = Instant::now();
    let mut look = look_every();
    let every = Duration::from_millis(COMMENT_MS);
    let mut comment = tokio::time::interval_at(heard_at + every, every);
    comment.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !call.is_done() {
        let said = tokio::select! {
            said = tokio::time::timeout_at(heard_at + silence, call.messages.next()) => said,
            () = sender.closed() => return Err(None),
            () = cancelled(&call.answers) => return Err(Some(cancelled_by_client())),
            _ = look.tick() => match call.passed().in_force() {
                Ok(()) => continue,
                Err(ended) => return Err(Some(ended)),
            },
            _ = comment.tick(), if is_listen => {
                let open = Bytes::from_static(b": open\n\n");
                sender.send(open).await.map_err(|_gone| None)?;
                continue;
            }
        };
        heard_at = Instant::now();
        let said = match said {
            Err(_elapsed) => return Err(Some(slow())),
            // The child ended the subscription.
            Ok(None) if is_listen => return Ok(()),
            Ok(said) => message(said).map_err(Some)?,
        };
        let judged = call.take(shared, said);
        pass_on(judged, sender).await?;
    }
    Ok(())
}

/// Waits until the client cancels the call.
async fn cancelled(answers: &Option<Answers>) {
    match answers {
        Some(answers) => answers.cancelled().await,
        None => std::future::pending().await,
    }
}

/// The status of an answer that came without one.
pub(crate) fn status_of(answer: &Bytes) -> StatusCode {
    let code = || {
        let json = Json::read(answer).ok()?;
        let code = json.root().get("error")?.get("code")?;
        code.text().parse::<i64>().ok()
    };
    match code() {
        Some(METHOD_UNKNOWN) => StatusCode::NOT_FOUND,
        Some(code) if REQUEST_WRONG.contains(&code) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A request with our token of progress in the place of the client's.
fn with_own_token(message: &Bytes, own: &str) -> Bytes {
    let put = || {
        let json = Json::read(message).ok()?;
        let token = json
            .root()
            .get("params")?
            .get("_meta")?
            .get("progressToken")?;
        Some(splice(message, token.span(), own))
    };
    put().unwrap_or_else(|| message.clone())
}

/// A notification of progress with the client's token in the place of ours.
fn with_client_token(message: &Bytes, own: &str, client: &str) -> Bytes {
    let put = || {
        let json = Json::read(message).ok()?;
        let token = json.root().get("params")?.get("progressToken")?;
        (token.text() == own).then(|| splice(message, token.span(), client))
    };
    put().unwrap_or_else(|| message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_an_answer() {
        let error = |code: &str| Bytes::from(format!(r#"{{"id":1,"error":{{"code":{code}}}}}"#));
        for (answer, status) in [
            (error("-32601"), 404),
            (error("-32700"), 400),
            (error("-32602"), 400),
            (error("-32022"), 400),
            (error("-32000"), 200),
            (error("-32603"), 200),
            (error("\"-32601\""), 200),
            (Bytes::from_static(br#"{"id":1,"result":{}}"#), 200),
            (Bytes::from_static(b"{"), 200),
        ] {
            assert_eq!(status_of(&answer).as_u16(), status, "{answer:?}");
        }
    }

    #[test]
    fn a_token_is_ours_on_the_way_there_and_the_clients_on_the_way_back() {
        let asked = r#"{"params":{"_meta":{"progressToken":7},"arguments":{"progressToken":7}}}"#;
        let sent = with_own_token(&asked.into(), "\"w1\"");
        let wanted = asked.replacen("7", "\"w1\"", 1);
        assert_eq!(sent, Bytes::from(wanted));
        let told = r#"{"method":"notifications/progress","params":{"progressToken":"w1"}}"#;
        let heard = with_client_token(&told.into(), "\"w1\"", "7");
        assert_eq!(heard, Bytes::from(told.replace("\"w1\"", "7")));
        let other = told.replace("w1", "w2");
        assert_eq!(
            with_client_token(&other.clone().into(), "\"w1\"", "7"),
            Bytes::from(other)
        );
    }
}
