//! A call in which the server may ask its client something before it answers.
//!
//! The eras differ in how that goes. A server of the legacy era sends a request in the middle of its answer, and waits for the
//! response; one of the modern era answers with its questions, and is asked again with what was said to them. So it is with
//! clients. A [`Talk`] is the server's side of one call, in steps that are alike for both; `turns.rs` is the client's side.
//!
//! Source: MCP 2026-07-28, "Multi Round-Trip Requests"; MCP 2025-11-25, "Elicitation", "Sampling" and "Roots".

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{CallId, Json, JsonKind, JsonValue, Name, Resource};
use bytes::Bytes;
use gate::Call;
use http::StatusCode;
use identity::Verified;
use net::{Body, Response, StreamBody, sse};
use serde_json::{Value, json};

use super::across::{Bridge, with_token};
use super::park::ROUNDS_MAX;
use super::route::RestatedWay;
use crate::actions::USE;
use crate::calls::own_token;
use crate::drive::{Refused, drive};
use crate::envelope::Object;
use crate::era::{CapabilitySet, Era, MessageEra};
use crate::lane::{McpLane, Server};
use crate::upstream::own::{self, OwnWay};

/// Questions of one round.
const QUESTIONS_MAX: usize = 16;
/// How long a server that asked something is listened to for more questions, in milliseconds.
const GATHER_MS: u64 = 20;
const METHOD_UNKNOWN: i64 = -32601;

/// Who asks: what each call of a talk needs of its client.
#[derive(Clone)]
pub(super) struct Speaker {
    pub(super) lane: McpLane,
    pub(super) verified: Verified,
    pub(super) peer: IpAddr,
    /// The client's session with weir.
    pub(super) session: Option<String>,
    /// The request's id and its trace, as the agent sent them.
    pub(super) request: Option<String>,
    pub(super) trace: Option<String>,
    /// The run that its calls are steps of.
    pub(super) run: Option<String>,
}

/// One thing that a server asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerQuestion {
    /// By which name its answer is given: the server's own in the modern era, else ours.
    pub(super) key: String,
    /// The id of the server's request as it was written; nothing in the modern era.
    pub(super) id: Option<String>,
    pub(super) method: String,
    /// As JSON.
    pub(super) params: String,
}

/// The server's side of one call.
pub(crate) struct Talk {
    pub(super) server: Name,
    pub(super) method: &'static str,
    /// What the item is called by its server, where it is called otherwise at this URL.
    pub(super) renamed: Option<(&'static str, String)>,
    pub(super) to: MessageEra,
    pub(super) can: CapabilitySet,
    pub(super) bridge: Bridge,
    /// The request as the server got it, to be asked again.
    pub(super) request: Bytes,
    /// SHA-256 of what its client asks.
    pub(super) digest: String,
    /// The call that it began with.
    pub(super) first: CallId,
    pub(super) questions: Vec<ServerQuestion>,
    way: OwnWay,
    rest: AnswerRest,
    /// Questions that came while others waited for the client.
    later: VecDeque<Bytes>,
    /// By which a server of the modern era knows the request again, sealed.
    state: Option<String>,
    rounds: u32,
}

/// What comes next of a call.
#[derive(Debug)]
pub(super) enum TalkStep {
    /// A notification.
    Said(Bytes),
    /// The server waits for answers to [`Talk::questions`].
    Asked,
    /// The answer, and its HTTP status.
    Last(Bytes, StatusCode),
    /// There is no answer.
    Cut,
}

/// A call that is begun.
pub(super) struct Begun {
    pub(super) server: Name,
    pub(super) method: &'static str,
    pub(super) renamed: Option<(&'static str, String)>,
    pub(super) to: MessageEra,
    pub(super) can: CapabilitySet,
    pub(super) bridge: Bridge,
    pub(super) request: Bytes,
    pub(super) digest: String,
    pub(super) call: CallId,
}

impl Speaker {
    fn call<'c>(&'c self, id: CallId, resource: &'c Resource, method: &'c str) -> Call<'c> {
        Call {
            request: self.request.as_deref(),
            trace: self.trace.as_deref(),
            run: self.run.as_deref(),
            ..Call::new(id, self.peer, &USE, resource, method)
        }
    }

    fn server(&self, name: &Name) -> Option<&Server> {
        self.lane.settings().servers.get(name)
    }

    /// Begins a call.
    ///
    /// # Errors
    /// What was refused, to be said to the client.
    pub(super) async fn begin(&self, begun: Begun) -> Result<Talk, Refused> {
        let mut talk = Talk {
            way: OwnWay::default(),
            rest: AnswerRest::default(),
            later: VecDeque::new(),
            questions: Vec::new(),
            state: None,
            rounds: 0,
            first: begun.call,
            server: begun.server,
            method: begun.method,
            renamed: begun.renamed,
            to: begun.to,
            can: begun.can,
            bridge: begun.bridge,
            request: begun.request,
            digest: begun.digest,
        };
        let request = talk.request.clone();
        let response = self.ask(&mut talk, begun.call, &request).await?;
        talk.rest = AnswerRest::of(response);
        if talk.to.era() == Era::Legacy {
            // It is not asked again, so its body is not kept while it waits.
            talk.request = Bytes::new();
        }
        Ok(talk)
    }

    /// Judges a request of the talk, and sends it.
    async fn ask(&self, talk: &mut Talk, id: CallId, body: &Bytes) -> Result<Response, Refused> {
        let Some(server) = self.server(&talk.server) else {
            return Err(super::route::server_gone());
        };
        let resource = Resource::server(server.name.clone());
        let call = Call {
            first: (id != talk.first).then_some(talk.first),
            ..self.call(id, &resource, talk.method)
        };
        let way = RestatedWay::new(talk.to.clone());
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        let driven = drive(shared, &way, server, verified, call, body).await?;
        let Some(mut outgoing) = driven.outgoing else {
            return Err(super::route::server_gone());
        };
        outgoing.takes_events = true;
        if outgoing.progress.is_some() {
            let own = own_token(id);
            outgoing.message = with_token(&outgoing.message, &own);
            outgoing.progress = Some(own);
        }
        let answers = driven.answers.across(talk.bridge.clone());
        match own::way(
            &self.lane,
            server,
            answers.passed(),
            outgoing.era(),
            talk.can,
        ) {
            Ok(way) => talk.way = way,
            Err(refusal) => return Err(Refused::passed(answers, refusal, driven.to)),
        }
        let session = self.session.as_deref();
        Ok(own::carry(&self.lane, server, &talk.way, answers, outgoing, session).await)
    }

    /// Tells a server of the legacy era what its question is answered: `said` is the member `result` or `error`.
    async fn tell(&self, talk: &Talk, id: &str, said: &str) {
        let Some(server) = self.server(&talk.server) else {
            return;
        };
        let body = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},{said}}}"#));
        let resource = Resource::server(server.name.clone());
        let call = (self.lane.shared.settings.new_id)();
        let call = Call {
            first: Some(talk.first),
            ..self.call(call, &resource, "response")
        };
        let way = RestatedWay::new(talk.to.clone());
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        let driven = drive(shared, &way, server, verified, call, &body).await;
        match driven.map(|driven| (driven.outgoing, driven.answers)) {
            Ok((Some(outgoing), answers)) => {
                let answers = answers.unregistered();
                own::carry(&self.lane, server, &talk.way, answers, outgoing, None).await;
            }
            Ok((None, _)) => {}
            // The server is not left to wait for what may not pass.
            Err(_) if said.starts_with(r#""result""#) => {
                let error = r#""error":{"code":-32603,"message":"the answer may not pass"}"#;
                Box::pin(self.tell(talk, id, error)).await;
            }
            Err(_) => {}
        }
    }
}

impl Talk {
    /// What the server says while its question waits, and whether that answers the request. Further questions wait.
    pub(super) async fn said(&mut self) -> Option<(Bytes, bool)> {
        loop {
            let message = self.rest.next().await?;
            match SaidKind::of(&message) {
                SaidKind::Notification => return Some((message, false)),
                SaidKind::ServerQuestion(_) if self.later.len() < QUESTIONS_MAX => {
                    self.later.push_back(message);
                }
                SaidKind::ServerQuestion(_) => return None,
                SaidKind::Questions(..) | SaidKind::Invalid | SaidKind::Answer => {
                    return Some((message, true));
                }
            }
        }
    }

    /// The capability that a question needs and the client has not.
    pub(super) fn check(&self, question: &ServerQuestion) -> Result<(), String> {
        let params = Json::read(question.params.as_bytes());
        let params = params.as_ref().ok().map(Json::root);
        let missing = self.can.check(&question.method, params);
        missing.map_err(str::to_owned)
    }

    /// What comes next. What the client cannot be asked is answered with an error that names the capability.
    pub(super) async fn step(&mut self, speaker: &Speaker) -> TalkStep {
        loop {
            let message = match self.later.pop_front() {
                Some(message) => Some(message),
                None => self.rest.next().await,
            };
            let Some(message) = message else {
                return TalkStep::Cut;
            };
            match SaidKind::of(&message) {
                SaidKind::Invalid => return TalkStep::Cut,
                SaidKind::Notification => return TalkStep::Said(message),
                SaidKind::Answer => return TalkStep::Last(message, self.rest.status),
                SaidKind::Questions(questions, state) => {
                    self.rounds += 1;
                    if self.rounds > ROUNDS_MAX || questions.len() > QUESTIONS_MAX {
                        return TalkStep::Cut;
                    }
                    (self.questions, self.state) = (questions, state);
                    return TalkStep::Asked;
                }
                SaidKind::ServerQuestion(question) => {
                    if self.is_for_client(speaker, question).await {
                        self.rounds += 1;
                        self.gather(speaker).await;
                        return match self.rounds > ROUNDS_MAX {
                            true => TalkStep::Cut,
                            false => TalkStep::Asked,
                        };
                    }
                }
            }
        }
    }

    /// Keeps a question that the client can be asked; answers another. Whether it is kept.
    async fn is_for_client(&mut self, speaker: &Speaker, mut question: ServerQuestion) -> bool {
        let id = question.id.clone().unwrap_or_default();
        if question.method == "ping" {
            speaker.tell(self, &id, r#""result":{}"#).await;
            return false;
        }
        let params = Json::read(question.params.as_bytes());
        let params = params.as_ref().ok().map(Json::root);
        let missing = self
            .can
            .check(&question.method, params)
            .err()
            .map(str::to_owned);
        if let Some(missing) = missing {
            let message = format!("the client does not have the capability {missing}");
            let error = json!({ "code": METHOD_UNKNOWN, "message": message });
            speaker
                .tell(self, &id, &format!(r#""error":{error}"#))
                .await;
            return false;
        }
        question.key = format!(
            "q{}",
            self.rounds * QUESTIONS_MAX as u32 + self.questions.len() as u32 + 1
        );
        self.questions.push(question);
        self.bridge.waits().store(true, Ordering::Release);
        true
    }

    /// Takes further questions that come at once.
    async fn gather(&mut self, speaker: &Speaker) {
        while self.questions.len() < QUESTIONS_MAX {
            let wait = Duration::from_millis(GATHER_MS);
            let Ok(Some(message)) = tokio::time::timeout(wait, self.rest.next()).await else {
                return;
            };
            match SaidKind::of(&message) {
                SaidKind::ServerQuestion(question) => {
                    self.is_for_client(speaker, question).await;
                }
                _ => return self.rest.ready.push_front(message),
            }
        }
    }

    /// Gives the server the answers that there are, as JSON by the key of their question; what is left of the questions stays.
    ///
    /// # Errors
    /// What was refused where the server had to be asked again.
    pub(super) async fn answer(
        &mut self,
        speaker: &Speaker,
        answers: &[(String, String)],
    ) -> Result<(), Refused> {
        let find = |key: &str| {
            answers
                .iter()
                .find(|(of, _)| of == key)
                .map(|(_, said)| said)
        };
        if self.to.era() == Era::Modern {
            return self.ask_again(speaker, answers).await;
        }
        let questions = std::mem::take(&mut self.questions);
        let mut left = Vec::new();
        for question in questions {
            match (find(&question.key), &question.id) {
                (Some(said), Some(id)) => {
                    speaker.tell(self, id, &format!(r#""result":{said}"#)).await;
                }
                _ => left.push(question),
            }
        }
        self.questions = left;
        if self.questions.is_empty() {
            self.bridge.waits().store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Tells a server of the legacy era that its client refused to answer.
    pub(super) async fn refuse(&mut self, speaker: &Speaker, key: &str, error: &str) {
        let at = self
            .questions
            .iter()
            .position(|question| question.key == key);
        let question = at.map(|at| self.questions.remove(at));
        if let Some(id) = question.and_then(|question| question.id) {
            speaker
                .tell(self, &id, &format!(r#""error":{error}"#))
                .await;
        }
        if self.questions.is_empty() {
            self.bridge.waits().store(false, Ordering::Release);
        }
    }

    async fn ask_again(
        &mut self,
        speaker: &Speaker,
        answers: &[(String, String)],
    ) -> Result<(), Refused> {
        self.questions.clear();
        let put = || {
            let mut request = Object::read(std::str::from_utf8(&self.request).ok()?)?;
            let params = request.get("params")?.get().to_owned();
            let mut params = Object::read(&params)?;
            let said = answers
                .iter()
                .map(|(key, said)| format!("{}:{said}", Value::from(key.as_str())));
            let said: Vec<String> = said.collect();
            params.put("inputResponses", format!("{{{}}}", said.join(",")))?;
            match &self.state {
                Some(state) => {
                    params.put("requestState", Value::from(state.as_str()).to_string())?
                }
                None => params.remove(&["requestState"]),
            }
            request.put("params", params.to_json())?;
            Some(Bytes::from(request.to_json()))
        };
        let Some(request) = put() else {
            return Err(super::route::server_gone());
        };
        let id = (speaker.lane.shared.settings.new_id)();
        let response = speaker.ask(self, id, &request).await?;
        self.rest = AnswerRest::of(response);
        Ok(())
    }
}

/// What a message of a server is.
enum SaidKind {
    Notification,
    /// One request of a server of the legacy era.
    ServerQuestion(ServerQuestion),
    /// All that a server of the modern era asks, and its state.
    Questions(Vec<ServerQuestion>, Option<String>),
    /// Questions that are none.
    Invalid,
    Answer,
}

impl SaidKind {
    fn of(message: &Bytes) -> SaidKind {
        let Ok(json) = Json::read(message) else {
            return SaidKind::Answer;
        };
        let root = json.root();
        let text = |value: JsonValue<'_>| value.as_str().map(|text| text.into_owned());
        let params = |of: JsonValue<'_>| {
            let params = of
                .get("params")
                .filter(|params| params.kind() == JsonKind::Object);
            params.map_or("{}", JsonValue::text).to_owned()
        };
        if let Some(method) = root.get("method").and_then(text) {
            return match root.get("id") {
                Some(id) => SaidKind::ServerQuestion(ServerQuestion {
                    key: String::new(),
                    id: Some(id.text().to_owned()),
                    method,
                    params: params(root),
                }),
                None => SaidKind::Notification,
            };
        }
        let Some(result) = root.get("result") else {
            return SaidKind::Answer;
        };
        if result.get("resultType").and_then(text).as_deref() != Some("input_required") {
            return SaidKind::Answer;
        }
        let state = result.get("requestState").and_then(text);
        let asked = result.get("inputRequests");
        let mut questions = Vec::new();
        for (key, asked) in asked.into_iter().flat_map(JsonValue::members) {
            let Some(method) = asked.get("method").and_then(text) else {
                return SaidKind::Invalid;
            };
            questions.push(ServerQuestion {
                key: key.name().into_owned(),
                id: None,
                method,
                params: params(asked),
            });
        }
        let is_list = asked.is_none_or(|asked| asked.kind() == JsonKind::Object);
        match is_list && (state.is_some() || !questions.is_empty()) {
            true => SaidKind::Questions(questions, state),
            false => SaidKind::Invalid,
        }
    }
}

/// What is left of an answer. It can go from one thread to another: who feeds it stays where it is.
#[derive(Default)]
struct AnswerRest {
    stream: Option<StreamBody>,
    reader: sse::Reader,
    ready: VecDeque<Bytes>,
    status: StatusCode,
}

impl AnswerRest {
    fn of(response: Response) -> AnswerRest {
        let mut rest = AnswerRest {
            status: response.status(),
            ..AnswerRest::default()
        };
        match response.into_body() {
            Body::Full(message) if !message.is_empty() => rest.ready.push_back(message),
            Body::Stream(stream) => rest.stream = Some(stream),
            _ => {}
        }
        rest
    }

    /// The next message; nothing where there is none any more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let chunk = self.stream.as_mut()?.next().await?;
            let ready = &mut self.ready;
            let read = self.reader.push(&chunk, |event| {
                let data = event.data.filter(|data| !data.is_empty());
                ready.extend(data.map(Bytes::from));
            });
            read.ok()?;
        }
    }
}

/// Set while a server waits for its client, whom nobody hurries.
pub(crate) type Waits = Arc<AtomicBool>;
