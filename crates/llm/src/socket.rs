//! Responses over a WebSocket (OpenAI API, "WebSocket mode"): one connection, and a call for each `response.create` on it.
//!
//! The connection is a call of its own (`llm:connect`), which ends with a stop, a revocation or the drain. A message is asked as the
//! request over HTTP that it stands for: read, judged, recorded and routed by the same path; the events of its answer become
//! messages. Responses of one `stream_id` come one after another, others beside them. What a provider does not keep
//! of a response the connection keeps, so that `previous_response_id` works with each of them.
//!
//! It refuses to speak WebSocket with a provider: what is asked there is HTTP.

mod message;
mod turn;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::record::CallEnd;
use base::{CallId, Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Call, CallEnding, Passed};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use identity::Verified;
use net::{
    Body, Request, Response, TunnelStop, WebSocket, WebSocketBounds, WebSocketEnd,
    WebSocketMessage, WebSocketOffer,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::actions::CONNECT;
use crate::lane::{KnownRequest, LlmLane, Settings, SocketWords, resource};
use crate::refuse;
use crate::route::Candidate;
use crate::upstream::Sending;

use message::KeptResponses;
pub(crate) use message::{CreateMessage, KeptResponse};
pub(crate) use turn::TurnEvents;
use turn::{SocketTurn, TurnEnding, error_event};

/// Responses of one connection at once. Source: OpenAI API, "WebSocket mode".
const TURNS_MAX: usize = 16;
/// Messages of one connection that wait for a response before them to end.
const WAITING_MAX: usize = 16;
/// Messages that wait for a client that does not read.
const MESSAGES_WAITING_MAX: usize = 16;
/// How long a connection takes messages, in milliseconds. Source: OpenAI API, "WebSocket mode".
const SOCKET_MS_MAX: u64 = 3_600_000;
/// How much longer than the longest answer may take nothing may move on a connection, in milliseconds.
const THINKING_SLACK_MS: u64 = 60_000;
/// Room for the envelope of a message, in bytes.
const ENVELOPE_BYTES: usize = 64 << 10;
/// How the protocol names the end of that time; clients connect anew then.
const LIMIT_REACHED: &str = "websocket_connection_limit_reached";
/// What a client asks of the transport, which a provider that is asked by HTTP does not have.
const BETA: HeaderName = HeaderName::from_static("openai-beta");
const BETA_SOCKET: &str = "responses_websockets";

/// Answers a request for a WebSocket; the call lasts as long as the connection.
pub(crate) async fn serve(
    lane: &LlmLane,
    mut request: Request,
    known: KnownRequest<'_>,
    in_force: &dyn Fn() -> LlmLane,
) -> Response {
    let offer = match WebSocketOffer::read(&request.head) {
        Ok(offer) => offer,
        Err(refusal) => return lane.no(&known, refusal).await,
    };
    let client = Rc::new(SocketClient::new(&known));
    let call = Call {
        action: &CONNECT,
        method: CONNECT.method,
        resource: &client.resource,
        ..known.call
    };
    let id = call.id;
    let passed = match lane.shared.gate.pass(known.verified, call).await {
        Ok(passed) => passed,
        Err(refusal) => return refuse::respond(known.family, &refusal, id),
    };
    let settings = lane.settings();
    let bounds = WebSocketBounds {
        // A model may think, and a client that does not read is not waited for longer than that.
        idle_ms: settings
            .socket_idle_ms
            .max(settings.answer_ms)
            .max(settings.silence_ms)
            .saturating_add(THINKING_SLACK_MS),
        whole_ms: SOCKET_MS_MAX.saturating_add(settings.answer_ms),
        message_bytes_max: settings
            .body_bytes_max
            .max(settings.answer_bytes_max)
            .saturating_add(ENVELOPE_BYTES),
    };
    let accepted = WebSocket::accept(&mut request, &passed, &offer, None, bounds).await;
    let socket = match accepted {
        Ok(socket) => socket,
        Err(refusal) => {
            let why = Some((refusal.code.name, refusal.private.as_str()));
            passed.end(CallEnding {
                why,
                ..CallEnding::of(CallEnd::Failed)
            });
            return refuse::respond(known.family, &refusal, id);
        }
    };
    ResponsesSocket::new(in_force, client, socket, passed)
        .run()
        .await;
    let mut taken = Response::new(Body::Taken);
    *taken.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    taken
}

/// Who is at the other end, as the handshake showed it.
struct SocketClient {
    verified: Verified,
    head: Parts,
    peer: IpAddr,
    request: Option<String>,
    trace: Option<String>,
    resource: Resource,
    /// A number for the conversation: a connection stays with its provider and key.
    conversation: u64,
}

impl SocketClient {
    fn new(known: &KnownRequest<'_>) -> SocketClient {
        let mut head = known.head.clone();
        leave_out_transport(&mut head.headers);
        let call = &known.call;
        let id = call.id.to_string();
        SocketClient {
            verified: known.verified.clone(),
            head,
            peer: call.peer,
            request: call.request.map(str::to_owned),
            trace: call.trace.map(str::to_owned),
            resource: Resource::Setting(Name::new("models").expect("models is a name")),
            conversation: crate::lane::hash_of(&id),
        }
    }
}

/// Takes the words for this transport out of the fields that go on.
fn leave_out_transport(fields: &mut HeaderMap) {
    let values: Vec<HeaderValue> = fields.get_all(BETA).iter().cloned().collect();
    fields.remove(BETA);
    for value in values {
        let words = value.to_str().unwrap_or_default().split(',').map(str::trim);
        let words: Vec<&str> = words
            .filter(|word| !word.starts_with(BETA_SOCKET))
            .collect();
        if let Some(value) = HeaderValue::from_str(&words.join(","))
            .ok()
            .filter(|value| !value.is_empty())
        {
            fields.append(BETA, value);
        }
    }
}

/// One connection.
struct ResponsesSocket<'l> {
    /// Gives the lane by the settings that are in force: each message is asked by those.
    in_force: &'l dyn Fn() -> LlmLane,
    client: Rc<SocketClient>,
    socket: WebSocket,
    passed: Passed,
    kept: KeptResponses,
    /// Messages that wait for the response before them on the same stream, or for a place.
    waiting: VecDeque<CreateMessage>,
    /// The streams that have a response on its way.
    busy: Vec<Option<String>>,
    turns: JoinSet<TurnEnding>,
    to_turns: mpsc::Sender<String>,
    from_turns: mpsc::Receiver<String>,
    begun: Instant,
    /// When nothing was going on last.
    quiet: Instant,
    bytes: u64,
}

/// What comes next on a connection.
enum SocketEvent {
    Came(Result<Option<WebSocketMessage>, WebSocketEnd>),
    Goes(String),
    Ended(Result<TurnEnding, JoinError>),
    Idle,
}

/// Why a connection is to end: the code of RFC 6455, section 7.4.1, and the reason.
type SocketClose = (u16, &'static str);

impl<'l> ResponsesSocket<'l> {
    fn new(
        in_force: &'l dyn Fn() -> LlmLane,
        client: Rc<SocketClient>,
        socket: WebSocket,
        passed: Passed,
    ) -> ResponsesSocket<'l> {
        let (to_turns, from_turns) = mpsc::channel(MESSAGES_WAITING_MAX);
        ResponsesSocket {
            kept: KeptResponses::new(in_force().settings().body_bytes_max),
            in_force,
            client,
            socket,
            passed,
            waiting: VecDeque::new(),
            busy: Vec::new(),
            turns: JoinSet::new(),
            to_turns,
            from_turns,
            begun: Instant::now(),
            quiet: Instant::now(),
            bytes: 0,
        }
    }

    /// Carries messages until an end; what is on its way then is given up.
    async fn run(mut self) {
        let ended = loop {
            let done = match self.next().await {
                SocketEvent::Came(Ok(Some(WebSocketMessage::Text(text)))) => self.take(text).await,
                SocketEvent::Came(Ok(Some(WebSocketMessage::Binary(_)))) => {
                    Ok(Some((1003, "messages are texts")))
                }
                SocketEvent::Came(Ok(None)) => break None,
                SocketEvent::Came(Err(end)) => Err(end),
                SocketEvent::Goes(message) => self.send(message).await.map(|()| None),
                SocketEvent::Ended(ended) => self.turn_ended(ended).map(|()| None),
                SocketEvent::Idle => Ok(Some((1000, "nothing was asked for too long"))),
            };
            match done {
                Ok(None) => {}
                Ok(Some((code, reason))) => {
                    self.socket.close(code, reason).await;
                    break None;
                }
                Err(end) => break Some(end),
            }
        };
        let (end, why) = match &ended {
            None => (CallEnd::Complete, None),
            Some(end) => (CallEnd::Cut, Some((code_of(end), end.to_string()))),
        };
        self.passed.end(CallEnding {
            status: StatusCode::SWITCHING_PROTOCOLS.as_u16(),
            bytes: self.bytes,
            why: why.as_ref().map(|(code, why)| (*code, why.as_str())),
            ..CallEnding::of(end)
        });
    }

    async fn next(&mut self) -> SocketEvent {
        let is_quiet = self.turns.is_empty();
        let idle = Duration::from_millis((self.in_force)().settings().socket_idle_ms);
        tokio::select! {
            Some(message) = self.from_turns.recv() => SocketEvent::Goes(message),
            Some(ended) = self.turns.join_next() => SocketEvent::Ended(ended),
            came = self.socket.next(&self.passed) => SocketEvent::Came(came),
            () = tokio::time::sleep_until(self.quiet + idle), if is_quiet => SocketEvent::Idle,
        }
    }

    async fn send(&mut self, message: String) -> Result<(), WebSocketEnd> {
        self.bytes += message.len() as u64;
        let message = WebSocketMessage::Text(message);
        self.socket.send(&self.passed, message).await
    }

    /// Takes a message: asks it, has it wait, or refuses it.
    async fn take(&mut self, text: String) -> Result<Option<SocketClose>, WebSocketEnd> {
        self.quiet = Instant::now();
        if self.begun.elapsed() > Duration::from_millis(SOCKET_MS_MAX) {
            let message = "this connection is an hour old; open another";
            let error = json!({
                "type": "invalid_request_error", "code": LIMIT_REACHED, "message": message, "param": null,
            });
            self.send(error_event(Some(400), &error)).await?;
            return Ok(Some((1001, "the connection is an hour old")));
        }
        let lane = (self.in_force)();
        let settings = lane.settings();
        let waits: usize = self.waiting.iter().map(CreateMessage::bytes).sum();
        let is_full = self.waiting.len() >= WAITING_MAX || waits > settings.body_bytes_max;
        let read = match text.len() > settings.body_bytes_max {
            true => Err(too_large(settings)),
            false => CreateMessage::read(text),
        };
        let refusal = match read {
            Ok(message) if !is_full => {
                self.waiting.push_back(message);
                self.start();
                return Ok(None);
            }
            Ok(_) => Refusal::new(
                refusal::LLM_TURNS,
                "too many messages wait on this connection",
            ),
            Err(refusal) => refusal,
        };
        let words = SocketWords {
            generates: false,
            conversation: self.client.conversation,
        };
        let known = self.client.known(&lane, words);
        let (head, body) = lane.no(&known, refusal).await.into_parts();
        let mut events = TurnEvents::new(None);
        if let Body::Full(body) = body {
            let message = events.refused(head.status, &head.headers, &body);
            self.send(message).await?;
        }
        Ok(None)
    }

    /// Begins what waits and need not wait any longer.
    fn start(&mut self) {
        while self.busy.len() < TURNS_MAX {
            let mut waiting = self.waiting.iter();
            let free = waiting.position(|message| !self.busy.contains(&message.stream_id));
            let Some(message) = free.and_then(|at| self.waiting.remove(at)) else {
                return;
            };
            self.busy.push(message.stream_id.clone());
            let before = message.previous.as_deref().and_then(|id| self.kept.get(id));
            let turn = SocketTurn {
                lane: (self.in_force)(),
                client: Rc::clone(&self.client),
                message,
                before,
                messages: self.to_turns.clone(),
            };
            self.turns.spawn_local(turn.run());
        }
    }

    fn turn_ended(&mut self, ended: Result<TurnEnding, JoinError>) -> Result<(), WebSocketEnd> {
        // A turn that panicked has told its client nothing; the connection says it by its end.
        let ended = ended.map_err(|_| WebSocketEnd::Broken("a turn was lost".to_owned()))?;
        self.busy.retain(|stream_id| *stream_id != ended.stream_id);
        if let Some(previous) = ended.failed {
            self.kept.failed(&previous);
        }
        if let Some(response) = ended.kept {
            self.kept.keep(ended.stream_id, response);
        }
        self.quiet = Instant::now();
        self.start();
        Ok(())
    }
}

/// The code of the refusal that an end is in a record.
fn code_of(end: &WebSocketEnd) -> &'static str {
    let code = match end {
        WebSocketEnd::Stopped(TunnelStop::Ended(refusal)) => refusal.code,
        WebSocketEnd::Stopped(TunnelStop::Drained) => refusal::DRAINING,
        WebSocketEnd::TooLarge => refusal::BODY_TOO_LARGE,
        WebSocketEnd::NotText | WebSocketEnd::Invalid(_) => refusal::WEBSOCKET,
        _ => refusal::BODY_CUT,
    };
    code.name
}

fn too_large(settings: &Settings) -> Refusal {
    let public = format!(
        "the request is larger than {} bytes",
        settings.body_bytes_max
    );
    Refusal::new(refusal::BODY_TOO_LARGE, public)
}

/// Answers a request that a model is not to say anything to (`generate: false`): it is judged, and kept for the next. Nobody is asked.
pub(crate) async fn make_ready(
    lane: &LlmLane,
    known: KnownRequest<'_>,
    sending: &Sending<'_>,
    candidates: &[Candidate],
) -> Response {
    let mut refused = Refusal::new(refusal::LLM_NONE_LEFT, "no provider is left");
    for candidate in candidates {
        let resource = resource(lane.settings(), candidate);
        let call = Call {
            resource: &resource,
            content: sending.content,
            ..known.call
        };
        match lane.shared.gate.pass(known.verified.clone(), call).await {
            Ok(passed) => {
                passed.end(CallEnding {
                    status: 200,
                    ..CallEnding::of(CallEnd::Complete)
                });
                return ready(known.call.id, &candidate.model);
            }
            Err(refusal) => refused = refusal,
        }
        // Who may not ask this one may be permitted the next.
        if refused.code != refusal::FORBIDDEN {
            break;
        }
    }
    refuse::respond(known.family, &refused, known.call.id)
}

/// A response that says nothing.
fn ready(id: CallId, model: &str) -> Response {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let response: Value = json!({
        "id": format!("resp_weir_{id}"),
        "object": "response",
        "created_at": since.unwrap_or_default().as_secs(),
        "status": "completed",
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": true,
        "store": false,
        "temperature": null,
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "usage": null,
    });
    let mut answer = Response::new(Body::Full(Bytes::from(response.to_string())));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_transport_stay_here() {
        let mut fields = HeaderMap::new();
        for value in [
            "responses_websockets=2026-02-06",
            "a=1, responses_websockets=x, b=2",
        ] {
            fields.append(BETA, HeaderValue::from_static(value));
        }
        leave_out_transport(&mut fields);
        let left: Vec<&HeaderValue> = fields.get_all(BETA).iter().collect();
        assert_eq!(left, ["a=1,b=2"]);
    }
}
