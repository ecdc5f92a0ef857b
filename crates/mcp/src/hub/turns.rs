//! The client's side of a call in which the server may ask something: in the era of the client.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{CallId, Json, JsonKind, JsonValue, Name, Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::StatusCode;
use net::{Body, BodySender, Response, sse};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::park::{PARKED_MS_MAX, ParkToken};
use super::route::with_status;
use super::talk::{Begun, ServerQuestion, Speaker, Talk, TalkStep};
use super::{Asking, say};
use crate::calls::CallClient;
use crate::drive::Refused;
use crate::envelope::{Id, MessageText, splice};
use crate::era::{Era, MessageEra};
use crate::inbound::{accepts, event_stream, json, say as say_refused};
use crate::incoming::{self, Parsed};
use crate::lane::Shared;
use crate::probe::mono_ms;
use crate::refuse;
use crate::upstream::lock;
use crate::waiting::cancelled_by_client;

/// Events that may wait for a slow client.
const EVENTS_MAX: usize = 16;
const STATE: &str = "requestState";
const RESPONSES: &str = "inputResponses";

/// What a client says to a question, as JSON, after the question's key.
type GivenAnswer = (String, String);

/// The agent, the client's session with weir, and the id of a question.
type QuestionKey = (Name, Option<String>, String);
/// The agent and the client's session.
type Whose<'a> = (&'a Name, Option<&'a str>);

fn key((agent, session): Whose<'_>, id: &str) -> QuestionKey {
    (agent.clone(), session.map(str::to_owned), id.to_owned())
}

/// Questions that clients of the legacy era were asked and have not answered, by agent and id.
#[derive(Default)]
pub(crate) struct Questions {
    open: Mutex<HashMap<QuestionKey, oneshot::Sender<Bytes>>>,
    next: AtomicU64,
}

impl Questions {
    /// A new question to a client of the agent: its id as JSON, and its answer.
    fn ask(&self, whose: Whose<'_>) -> (String, oneshot::Receiver<Bytes>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("\"weir-{number}\"");
        let (answer, answered) = oneshot::channel();
        lock(&self.open).insert(key(whose, &id), answer);
        (id, answered)
    }

    /// Takes the answer of a client. Whether it was asked.
    pub(super) fn answered(&self, whose: Whose<'_>, id: &str, message: Bytes) -> bool {
        let asked = lock(&self.open).remove(&key(whose, id));
        asked.is_some_and(|answer| answer.send(message).is_ok())
    }

    fn forget(&self, whose: Whose<'_>, id: &str) {
        lock(&self.open).remove(&key(whose, id));
    }
}

/// Ends the calls whose clients let their time pass, or may not go on.
pub(crate) fn sweep(shared: &Shared) {
    let stays = |agent: &Name| {
        let lane = crate::LANE.name;
        shared.gate.lets_stay(lane, agent, None).is_ok()
    };
    drop(shared.hub.park.sweep(mono_ms(), stays));
}

impl Asking<'_> {
    fn speaker(&self) -> Speaker {
        Speaker {
            lane: self.lane.clone(),
            verified: self.verified.clone(),
            peer: self.peer,
            session: self
                .session()
                .ok()
                .flatten()
                .map(|(given, _)| given.to_owned()),
            request: self.request.map(str::to_owned),
            trace: self.trace.map(str::to_owned),
            run: self.run().map(str::to_owned),
        }
    }

    /// Carries a call whose server may ask.
    pub(super) async fn talk(&self, begun: Begun, id: Id<'_>, client: Era) -> Response {
        let speaker = self.speaker();
        let talk = match speaker.begin(begun).await {
            Ok(talk) => Box::new(talk),
            Err(refused) => return say_refused(&refused, self.id),
        };
        self.deliver(talk, speaker, id.0.to_owned(), client).await
    }

    /// The answer as it comes: JSON where it is the first thing, else events.
    async fn deliver(
        &self,
        mut talk: Box<Talk>,
        speaker: Speaker,
        id: String,
        client: Era,
    ) -> Response {
        let takes_events = accepts(self.head, "text/event-stream");
        let mut turn = Turn {
            speaker,
            set: self.name.clone(),
            call: self.id,
            id,
            client,
        };
        loop {
            let step = talk.step(&turn.speaker).await;
            match step {
                TalkStep::Last(message, status) => {
                    let answer = json(status, turn.with_id(message), None);
                    return with_status(answer, client);
                }
                TalkStep::Cut => return turn.cut(),
                TalkStep::Asked if client == Era::Modern => {
                    let asked = turn.park(talk);
                    return json(StatusCode::OK, asked, None);
                }
                TalkStep::Said(_) if !takes_events => {}
                TalkStep::Asked if !takes_events => {
                    let public =
                        "the server asks the client something, and it takes no event stream";
                    let refusal = Refusal::new(refusal::CAPABILITY_MISSING, public);
                    return json(StatusCode::OK, turn.error(&refusal), None);
                }
                step => {
                    let (sender, body) = Body::stream(EVENTS_MAX);
                    tokio::task::spawn_local(async move {
                        // A client that is gone takes its call with it.
                        let _ = turn.run(talk, step, &sender).await;
                    });
                    return event_stream(body, None);
                }
            }
        }
    }

    /// The call that a request goes on with, where it brings the state of one that is parked.
    pub(super) fn parked(
        &self,
        method: &str,
        parsed: &Parsed<'_>,
        era: &MessageEra,
    ) -> Option<ParkToken> {
        crate::era::may_ask(method).filter(|_| era.era() == Era::Modern)?;
        let given = parsed.params()?.get(STATE)?.as_str()?;
        let tokens = self.lane.shared.tokens(self.agent(), self.name);
        let inside = tokens.open_parked(&given)?;
        serde_json::from_str(&inside).ok()
    }

    /// Goes on with a parked call.
    pub(super) async fn resume(
        &self,
        token: ParkToken,
        method: &str,
        id: Id<'_>,
        (body, parsed): (&Bytes, &Parsed<'_>),
    ) -> Response {
        let resumed = self.take(&token, method, parsed);
        let (talk, answers) = match resumed {
            Ok(resumed) => resumed,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        self.go_on(talk, answers, id, (body, parsed)).await
    }

    fn take(
        &self,
        token: &ParkToken,
        method: &str,
        parsed: &Parsed<'_>,
    ) -> Result<(Box<Talk>, Vec<GivenAnswer>), Refusal> {
        if digest(method, parsed.params()) != token.digest {
            let public = "the request is another than the one that was asked about";
            return Err(Refusal::new(refusal::STATE_INVALID, public));
        }
        let answers = answers(parsed.params())?;
        let shared = &self.lane.shared;
        let talk = shared
            .hub
            .park
            .take(token, &shared.hub.process, self.agent(), mono_ms())?;
        Ok((talk, answers))
    }

    /// Judges the request that brings answers as the call that it is, and gives the answers to the server.
    async fn go_on(
        &self,
        mut talk: Box<Talk>,
        answers: Vec<GivenAnswer>,
        id: Id<'_>,
        (body, parsed): (&Bytes, &Parsed<'_>),
    ) -> Response {
        let speaker = self.speaker();
        let state = parsed.params().and_then(|params| params.get(STATE));
        let bare = state.map_or_else(|| body.clone(), |state| splice(body, state.span(), "\"\""));
        let text = MessageText::of(&bare);
        let judged = match incoming::parse(&text) {
            Ok(parsed) => self.judge_again(&talk, &parsed).await,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        if let Err(refused) = judged {
            return say_refused(&refused, self.id);
        }
        if let Err(refused) = talk.answer(&speaker, &answers).await {
            return say_refused(&refused, self.id);
        }
        if !talk.questions.is_empty() {
            let turn = Turn {
                speaker,
                set: self.name.clone(),
                call: self.id,
                id: id.0.to_owned(),
                client: Era::Modern,
            };
            return json(StatusCode::OK, turn.park(talk), None);
        }
        self.deliver(talk, speaker, id.0.to_owned(), Era::Modern)
            .await
    }
}

/// A client's turn in a talk.
struct Turn {
    speaker: Speaker,
    set: Name,
    /// The call of the client's request.
    call: CallId,
    /// The id of that request, as it was written.
    id: String,
    client: Era,
}

impl Turn {
    /// Passes on what comes of a call until it ends, asks a modern client, or its client is gone.
    async fn run(
        &mut self,
        mut talk: Box<Talk>,
        mut step: TalkStep,
        sender: &BodySender,
    ) -> Result<(), net::Gone> {
        loop {
            match step {
                TalkStep::Said(message) => say_event(sender, &message).await?,
                TalkStep::Last(message, _) => {
                    return say_event(sender, &self.with_id(message)).await;
                }
                TalkStep::Cut => {
                    let error = self.error(&ended());
                    return say_event(sender, &error).await;
                }
                TalkStep::Asked if self.client == Era::Modern => {
                    let asked = self.park(talk);
                    return say_event(sender, &asked).await;
                }
                TalkStep::Asked => {
                    if let Err(error) = self.ask(&mut talk, sender).await? {
                        return say_event(sender, &error).await;
                    }
                }
            }
            step = tokio::select! {
                step = talk.step(&self.speaker) => step,
                () = sender.closed() => return Err(net::Gone),
            };
        }
    }

    /// Asks a client of the legacy era what the server wants to know, and gives the server the answers. The error is what
    /// answers the client's request where that cannot go on.
    async fn ask(
        &self,
        talk: &mut Talk,
        sender: &BodySender,
    ) -> Result<Result<(), Bytes>, net::Gone> {
        let agent = &self.speaker.verified.agent().name;
        let whose = (agent, self.speaker.session.as_deref());
        let questions = &self.speaker.lane.shared.hub.questions;
        let mut answers = Vec::new();
        for question in talk.questions.clone() {
            if let Err(missing) = talk.check(&question) {
                let public = format!("the server asks for {missing}, which the client has not");
                let refusal = Refusal::new(refusal::CAPABILITY_MISSING, public);
                return Ok(Err(self.error(&refusal)));
            }
            let (id, answered) = questions.ask(whose);
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{}}}"#,
                Value::from(question.method.as_str()),
                question.params
            );
            let asked = say_event(sender, &Bytes::from(message)).await;
            let answer = self.wait_for(talk, answered, sender).await;
            questions.forget(whose, &id);
            asked?;
            let answer = match answer? {
                Ok(answer) => answer,
                Err(last) => return Ok(Err(last)),
            };
            match said_to(&question, &answer) {
                Ok(result) => answers.push((question.key, result)),
                Err(error) if talk.to.era() == Era::Legacy => {
                    talk.refuse(&self.speaker, &question.key, &error).await;
                }
                Err(_) => {
                    let public = format!("the client refused {}", question.method);
                    let refusal = Refusal::new(refusal::CAPABILITY_MISSING, public);
                    return Ok(Err(self.error(&refusal)));
                }
            }
        }
        let given = talk.answer(&self.speaker, &answers).await;
        Ok(given.map_err(|Refused { refusal, .. }| self.error(&refusal)))
    }

    /// Waits for the client's answer to a question. The error is what answers its request where that comes first: the client
    /// cancels it, the server ends it, or the time is over.
    async fn wait_for(
        &self,
        talk: &mut Talk,
        answered: oneshot::Receiver<Bytes>,
        sender: &BodySender,
    ) -> Result<Result<Bytes, Bytes>, net::Gone> {
        let shared = &self.speaker.lane.shared;
        let client = CallClient {
            agent: &self.speaker.verified.agent().name,
            server: &talk.server.clone(),
            session: self.speaker.session.as_deref(),
        };
        let is_modern = talk.to.era() == Era::Modern;
        // Of a server of the modern era no call is under way now, by which a cancellation would find it.
        let under_way = is_modern.then(|| shared.calls.resume(client, &self.id, self.call));
        let cancelled = async {
            match &under_way {
                Some(under_way) => under_way.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let mut cancelled = std::pin::pin!(cancelled);
        let wait = Duration::from_millis(PARKED_MS_MAX);
        let mut answered = std::pin::pin!(tokio::time::timeout(wait, answered));
        loop {
            tokio::select! {
                answer = &mut answered => {
                    let answer = answer.ok().and_then(Result::ok);
                    let public = "the client did not answer what the server asks";
                    let late = || self.error(&Refusal::new(refusal::PARK_EXPIRED, public));
                    return Ok(answer.ok_or_else(late));
                }
                () = sender.closed() => return Err(net::Gone),
                () = &mut cancelled => return Ok(Err(self.error(&cancelled_by_client()))),
                said = talk.said(), if !is_modern => match said {
                    Some((message, false)) => say_event(sender, &message).await?,
                    Some((message, true)) => return Ok(Err(self.with_id(message))),
                    None => return Ok(Err(self.error(&ended()))),
                },
            }
        }
    }

    /// Parks a call that asks a modern client, and gives the answer that says so.
    fn park(&self, talk: Box<Talk>) -> Bytes {
        let shared = &self.speaker.lane.shared;
        let agent = &self.speaker.verified.agent().name;
        if let Err(refusal) = shared.hub.park.has_room(agent) {
            return self.error(&refusal);
        }
        let mut asked = serde_json::Map::new();
        for question in &talk.questions {
            let params: Value = serde_json::from_str(&question.params).unwrap_or_default();
            let asks = json!({ "method": question.method, "params": params });
            asked.insert(question.key.clone(), asks);
        }
        let digest = talk.digest.clone();
        let (number, until_ms) = shared.hub.park.put(agent, talk, mono_ms());
        let token = ParkToken {
            process: shared.hub.process.clone(),
            number,
            digest,
            until_ms,
        };
        let inside = serde_json::to_string(&token).expect("a token is JSON");
        let sealed = shared.tokens(agent, &self.set).parked(&inside);
        let result = json!({
            "resultType": "input_required",
            "inputRequests": asked,
            "requestState": sealed,
            "_meta": { say::SERVER_INFO: say::info() },
        });
        super::answer(Id(&self.id), &result.to_string())
    }

    /// A message that answers the first request of the talk, as the answer to this one.
    fn with_id(&self, message: Bytes) -> Bytes {
        let at = Json::read(&message)
            .ok()
            .and_then(|json| Some(json.root().get("id")?.span()));
        at.map_or(message.clone(), |at| splice(&message, at, &self.id))
    }

    fn error(&self, refusal: &Refusal) -> Bytes {
        Bytes::from(refuse::error(refusal, self.call, Some(Id(&self.id))))
    }

    fn cut(&self) -> Response {
        json(StatusCode::OK, self.error(&ended()), None)
    }
}

fn ended() -> Refusal {
    Refusal::new(
        refusal::SERVER_DOWN,
        "the server ended before it answered, or asks without end",
    )
}

async fn say_event(sender: &BodySender, message: &Bytes) -> Result<(), net::Gone> {
    let event = sse::write(&sse::Event::message(message));
    sender.send(Bytes::from(event)).await
}

/// What a client said to a question: its result, or its error. To refuse a form is an answer to it.
fn said_to(question: &ServerQuestion, answer: &Bytes) -> Result<String, String> {
    let text = |value: JsonValue<'_>| value.text().to_owned();
    let json = Json::read(answer).ok();
    let root = json.as_ref().map(Json::root);
    let member = |name: &str| root.and_then(|root| root.get(name));
    match (member("result"), member("error")) {
        (Some(result), _) if result.kind() == JsonKind::Object => Ok(text(result)),
        (_, Some(_)) if question.id.is_none() && question.method == "elicitation/create" => {
            Ok(r#"{"action":"decline"}"#.to_owned())
        }
        (_, error) => Err(error.map_or_else(|| "{}".to_owned(), text)),
    }
}

/// The answers that a request brings, as JSON by the key of their question.
fn answers(params: Option<JsonValue<'_>>) -> Result<Vec<GivenAnswer>, Refusal> {
    let invalid = || {
        let public = "inputResponses is not an object of objects";
        Refusal::new(refusal::ANSWERS_INVALID, public)
    };
    let Some(given) = params.and_then(|params| params.get(RESPONSES)) else {
        return Ok(Vec::new());
    };
    if given.kind() != JsonKind::Object {
        return Err(invalid());
    }
    let all = given.members().map(|(key, said)| match said.kind() {
        JsonKind::Object => Ok((key.name().into_owned(), said.text().to_owned())),
        _ => Err(invalid()),
    });
    all.collect()
}

/// SHA-256 of what a request asks, whatever it says of itself and to questions, and in whatever order.
pub(super) fn digest(method: &str, params: Option<JsonValue<'_>>) -> String {
    let params = params.map_or("{}", JsonValue::text);
    let mut params: Value = serde_json::from_str(params).unwrap_or_default();
    if let Some(members) = params.as_object_mut() {
        members.retain(|key, _| !["_meta", STATE, RESPONSES].contains(&&**key));
    }
    let mut text = format!("{method}\n");
    write_sorted(&params, &mut text);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    URL_SAFE_NO_PAD.encode(digest)
}

fn write_sorted(value: &Value, to: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            to.push('{');
            for (key, value) in members {
                *to += &Value::from(key.as_str()).to_string();
                to.push(':');
                write_sorted(value, to);
                to.push(',');
            }
            to.push('}');
        }
        Value::Array(items) => {
            to.push('[');
            for item in items {
                write_sorted(item, to);
                to.push(',');
            }
            to.push(']');
        }
        other => *to += &other.to_string(),
    }
}
