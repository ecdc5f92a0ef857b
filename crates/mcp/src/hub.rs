//! `/mcp` and `/mcp/@SET`: all servers that an agent may use, or a chosen set of them, behind one URL.
//!
//! What is asked of the URL itself (`initialize`, `server/discover`, lists, streams of changes) weir answers. What is asked of
//! one item goes to the server that has it, as a call of that server: judged, recorded and answered as at `/mcp/<server>`, in
//! the era that the server speaks. Example: `tools/call` of `search`, which the server `web` lists and no other does, is the
//! call of the tool `search` of the server `web`.

mod across;
mod audience;
mod cancel;
mod feed;
mod lists;
mod names;
mod park;
mod route;
mod say;
mod search;
mod sessions;
mod subscribe;
mod talk;
mod turns;
mod watch;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use base::record::CallEnd;
use base::{Action, CallId, Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{ActingFor, Call, CallEnding, ContentPart, PartContent, Passed, Role};
use http::request::Parts;
use http::{Method, StatusCode};
use identity::Verified;
use net::{Request, Response};

use audience::{Audience, Subscribed};
use lists::ListCache;
use names::Names;
use park::Park;
use sessions::SetSessions;
use turns::Questions;
use watch::ChangeKinds;

pub(crate) use across::Bridge;
pub(crate) use turns::sweep;

use crate::actions::{LIST, USE};
use crate::batch;
use crate::envelope::{Id, Message, MessageText, splice};
use crate::era::{Era, MessageEra};
use crate::inbound::{self, SESSION, TRACE, accepted, accepts, check_post, json};
use crate::incoming::{self, AskedItem, Parsed};
use crate::lane::{McpLane, Server, Toolset};
use crate::listing::ListKind;
use crate::methods;
use crate::refuse;
use crate::upstream::lock;
use crate::upstream::own::OwnLinks;
use sessions::SetSession;

/// Names of which it is told that several servers have them.
const CLASHES_MAX: usize = 1_000;

/// The set of all servers.
pub const ALL: &str = "mcp";

/// What is kept for the clients of many servers, of all threads.
pub(crate) struct HubState {
    pub(crate) lists: ListCache,
    /// What was begun with servers.
    pub(crate) own: OwnLinks,
    /// The streams of changes that clients have open, and what they are subscribed to.
    pub(crate) audience: Audience,
    /// Calls that wait for what their clients say, and what others of them were asked.
    park: Park,
    questions: Questions,
    sessions: SetSessions,
    /// The process, by a random text: a session with it is over when it is.
    process: String,
    /// Names that several servers have, as far as they were told.
    clashes: Mutex<HashSet<String>>,
}

impl HubState {
    /// `process` tells this process from all others.
    pub(crate) fn new(process: CallId) -> HubState {
        HubState {
            lists: ListCache::default(),
            own: OwnLinks::default(),
            audience: Audience::default(),
            park: Park::default(),
            questions: Questions::default(),
            sessions: SetSessions::default(),
            process: process.to_string(),
            clashes: Mutex::default(),
        }
    }

    /// Forgets what is known of servers that were changed or taken out, and ends the calls that wait with them.
    pub(crate) fn servers_changed(&self, is_changed: impl Fn(&Name) -> bool) {
        self.lists.stale(&is_changed);
        self.own.forget(&is_changed);
        drop(self.park.retain(|talk| !is_changed(&talk.server)));
        self.changed();
    }

    /// Asks for all lists again before one is shown: what policy hides may be another.
    pub(crate) fn list_again(&self) {
        self.lists.judge_again();
        self.changed();
    }

    /// Tells all clients that a server came, went, or lists something else.
    pub(crate) fn changed(&self) {
        self.audience.note(ChangeKinds::ALL);
    }

    /// Tells, once, of each name that several servers have.
    fn tell_clashes(&self, set: &Name, names: &Names) {
        let mut told = lock(&self.clashes);
        for (name, long) in names.clashes() {
            if told.len() < CLASHES_MAX && told.insert(format!("{set} {name}")) {
                let long = long.join(", ");
                tracing::warn!(%set, name, long, "several servers have a tool of this name: each gets its long name");
            }
        }
    }
}

/// One request to the URL, and whose it is.
pub(crate) struct Asking<'a> {
    pub(crate) lane: &'a McpLane,
    /// The name of the set.
    pub(crate) name: &'a Name,
    pub(crate) set: Option<&'a Toolset>,
    pub(crate) head: &'a Parts,
    pub(crate) verified: Verified,
    pub(crate) peer: IpAddr,
    pub(crate) id: CallId,
    /// The request's id and its trace, as the agent sent them.
    pub(crate) request: Option<&'a str>,
    pub(crate) trace: Option<&'a str>,
}

impl McpLane {
    /// Answers one request to `/mcp`, or where `set` is named, to `/mcp/@<set>`.
    pub async fn serve_set(&self, set: Option<Name>, mut request: Request, id: CallId) -> Response {
        let name = set.clone().unwrap_or_else(all);
        let resource = Resource::toolset(name.clone());
        let method = request.head.method.clone();
        let peer = request.peer.caller;
        let request_id = request.id().map(str::to_owned);
        let trace = inbound::field(&request.head, &TRACE).map(str::to_owned);
        let run = request.head.extensions.get::<ActingFor>();
        let run = run.map(|of| Arc::clone(&of.run));
        let call = Call {
            request: request_id.as_deref(),
            trace: trace.as_deref(),
            run: run.as_deref(),
            ..Call::new(id, peer, &USE, &resource, method.as_str())
        };
        let known = self.who(&call, &request.head, &request.peer).await;
        let settings = self.settings();
        let known = match (known, &set) {
            (Ok(verified), Some(name)) if !settings.toolsets.contains_key(name) => {
                let what = format!("no set of servers is named {name}");
                let refusal = Refusal::new(refusal::SERVER_UNKNOWN, what);
                Err(self
                    .shared
                    .gate
                    .reject(Some(&verified), &call, refusal)
                    .await)
            }
            (known, _) => known,
        };
        let verified = match known {
            Ok(verified) => verified,
            Err(refusal) => return refuse::refuse_http(&refusal, id, None),
        };
        request.is_of_known_agent();
        let body = match method {
            Method::POST => match check_post(&request.head) {
                Ok(()) => request.body().await.map(Some),
                Err(refusal) => Err(refusal),
            },
            _ => Ok(None),
        };
        let asking = Asking {
            lane: self,
            name: &name,
            set: match request.head.extensions.get() {
                Some(own) => Some(own),
                None => set.as_ref().and_then(|name| settings.toolsets.get(name)),
            },
            head: &request.head,
            verified,
            peer,
            id,
            request: request_id.as_deref(),
            trace: trace.as_deref(),
        };
        match (body, method) {
            (Err(refusal), _) => asking.no(refusal, None).await,
            (Ok(Some(body)), _) => asking.post(body).await,
            (Ok(None), Method::GET) => asking.get().await,
            (Ok(None), Method::DELETE) => asking.delete().await,
            (Ok(None), _) => {
                let refusal = Refusal::new(refusal::METHOD, "MCP has no such method");
                asking.no(refusal, None).await
            }
        }
    }
}

/// The name of the set of all servers.
pub(crate) fn all() -> Name {
    Name::new(ALL).expect("mcp is a name")
}

impl Asking<'_> {
    /// The servers of the set, by name.
    pub(crate) fn servers(&self) -> Vec<&Server> {
        let servers = &self.lane.settings().servers;
        let is_in = |server: &&Server| self.set.is_none_or(|set| set.has(&server.name));
        let mut those: Vec<&Server> = servers.values().filter(is_in).collect();
        those.sort_by(|one, other| one.name.cmp(&other.name));
        those
    }

    pub(crate) fn agent(&self) -> &Name {
        &self.verified.agent().name
    }

    /// Whether the set came with the request, and has no name of the configuration.
    pub(crate) fn is_own_set(&self) -> bool {
        let named = self.lane.settings().toolsets.get(self.name);
        self.set
            .is_some_and(|set| named.is_none_or(|named| !std::ptr::eq(named, set)))
    }

    /// The run that the request is a step of.
    pub(crate) fn run(&self) -> Option<&str> {
        let acting = self.head.extensions.get::<ActingFor>();
        acting.map(|of| &*of.run)
    }

    /// A call that is asked of the URL itself.
    fn call<'c>(
        &'c self,
        action: &'static Action,
        resource: &'c Resource,
        method: &'c str,
    ) -> Call<'c> {
        Call {
            request: self.request,
            trace: self.trace,
            run: self.run(),
            ..Call::new(self.id, self.peer, action, resource, method)
        }
    }

    /// Records a refusal that was found before the gate was asked, and says it with its HTTP status.
    async fn no(&self, refusal: Refusal, id: Option<Id<'_>>) -> Response {
        let resource = Resource::toolset(self.name.clone());
        let call = self.call(&USE, &resource, self.head.method.as_str());
        let gate = &self.lane.shared.gate;
        let refusal = gate.reject(Some(&self.verified), &call, refusal).await;
        let mut response = refuse::refuse_http(&refusal, self.id, id);
        inbound::allow_post(&refusal, &mut response);
        response
    }

    /// Records that no server was found for the item that a request names, as the call that it is, and answers it by an error.
    /// The exchange is sound: a name that a model made up does not end its session.
    async fn no_item(
        &self,
        method: &str,
        asked: AskedItem,
        refusal: Refusal,
        (id, body): (Id<'_>, &Bytes),
    ) -> Response {
        let resource = Resource::Toolset {
            set: self.name.clone(),
            item: Some(asked.item),
        };
        let call = Call {
            bytes: body.len() as u64,
            ..self.call(asked.action, &resource, method)
        };
        let gate = &self.lane.shared.gate;
        let refusal = gate.reject(Some(&self.verified), &call, refusal).await;
        self.judged(&refusal, id)
    }

    /// Judges what is asked of the URL itself.
    async fn pass(
        &self,
        action: &'static Action,
        method: &str,
        message: Option<(&Bytes, &Parsed<'_>)>,
    ) -> Result<Passed, Refusal> {
        let resource = Resource::toolset(self.name.clone());
        let part = message.map(|(_, parsed)| ContentPart {
            role: Role::Argument,
            path: "",
            content: PartContent::Json(parsed.whole()),
        });
        let call = Call {
            content: part.as_slice(),
            bytes: message.map_or(0, |(body, _)| body.len() as u64),
            ..self.call(action, &resource, method)
        };
        let gate = &self.lane.shared.gate;
        gate.pass(self.verified.clone(), call).await
    }

    async fn post(&self, body: Bytes) -> Response {
        let is_batch = inbound::has_batches(self.head).then(|| batch::of_client(&body));
        let messages = match is_batch.transpose() {
            Ok(Some(Some(messages))) => messages,
            Ok(_) => return self.message(body).await,
            Err(refusal) => return self.no(refusal, None).await,
        };
        let each: Vec<Asking<'_>> = messages
            .iter()
            .map(|_| Asking {
                id: (self.lane.settings().new_id)(),
                verified: self.verified.clone(),
                ..*self
            })
            .collect();
        let answered = each.iter().zip(messages);
        Box::pin(batch::each(
            answered.map(|(asking, message)| asking.message(message)),
        ))
        .await
    }

    /// Answers one message.
    async fn message(&self, body: Bytes) -> Response {
        let text = MessageText::of(&body);
        let parsed = match incoming::parse(&text) {
            Ok(parsed) => parsed,
            Err(refusal) => return self.no(refusal, None).await,
        };
        let id = match &parsed.message {
            Message::Request { id, .. } => Some(*id),
            _ => None,
        };
        let era = MessageEra::read(Some(&self.head.headers), &parsed.message);
        let era = era.and_then(|era| self.check_session(&era, &parsed.message).map(|()| era));
        let era = match era {
            Ok(era) => era,
            Err(refusal) => return self.no(refusal, id).await,
        };
        let (method, is_request) = match &parsed.message {
            Message::Request { method, .. } => (method, true),
            Message::Notification { method, .. } => (method, false),
            Message::Response { id, .. } => return self.answered(*id, &body, &parsed).await,
        };
        if let Err(refusal) = methods::read(method, is_request) {
            return self.no(refusal, id).await;
        }
        match id {
            Some(id) => self.request(method, id, &body, &parsed, era).await,
            None if method == "notifications/cancelled" => self.cancel(&body, &parsed).await,
            None => match self.pass(&USE, method, Some((&body, &parsed))).await {
                Ok(passed) => {
                    end(passed, 202);
                    accepted()
                }
                Err(refusal) => refuse::refuse_http(&refusal, self.id, None),
            },
        }
    }

    /// Takes what a client of the legacy era says to a question. It is judged here, and again for the server that asked.
    async fn answered(&self, id: Option<Id<'_>>, body: &Bytes, parsed: &Parsed<'_>) -> Response {
        let passed = match self.pass(&USE, "response", Some((body, parsed))).await {
            Ok(passed) => passed,
            Err(refusal) => return refuse::refuse_http(&refusal, self.id, None),
        };
        let questions = &self.lane.shared.hub.questions;
        let session = self.session().ok().flatten().map(|(given, _)| given);
        let whose = (self.agent(), session);
        let is_asked = id.is_some_and(|id| questions.answered(whose, id.0, body.clone()));
        end(passed, 202);
        if !is_asked {
            tracing::debug!(agent = %self.agent(), "an answer to a question that is not open");
        }
        accepted()
    }

    /// A session that a client of the legacy era names has to be one of this URL.
    fn check_session(&self, era: &MessageEra, message: &Message<'_>) -> Result<(), Refusal> {
        let begins = matches!(message, Message::Request { method, .. } if method == "initialize");
        if era.era() == Era::Modern || begins {
            return Ok(());
        }
        self.session().map(|_| ())
    }

    async fn request(
        &self,
        method: &str,
        id: Id<'_>,
        body: &Bytes,
        parsed: &Parsed<'_>,
        era: MessageEra,
    ) -> Response {
        if let Some(kind) = ListKind::of(method) {
            return self
                .own(&LIST, method, id, (body, parsed), async |passed| {
                    self.list(kind, era.era(), passed).await
                })
                .await;
        }
        let message = (body, parsed);
        match (method, era.era()) {
            ("initialize", _) => self.initialize(id, message).await,
            ("logging/setLevel", Era::Legacy) => {
                let set = async |_: &Passed| self.set_level(parsed);
                self.own(&USE, method, id, message, set).await
            }
            ("ping", Era::Legacy) => {
                self.own(&USE, method, id, message, async |_| Ok("{}".to_owned()))
                    .await
            }
            ("server/discover", Era::Modern) => {
                self.own(&USE, method, id, message, async |_| Ok(self.discover()))
                    .await
            }
            ("subscriptions/listen", Era::Modern) => self.subscribe(id, message).await,
            (subscribe::SUBSCRIBE, Era::Legacy) => self.subscribe_resource(id, message).await,
            (subscribe::UNSUBSCRIBE, Era::Legacy) => self.unsubscribe_resource(id, message).await,
            ("tools/call", _) if self.searches() => self.search(id, message, era).await,
            _ => self.routed(method, id, message, era).await,
        }
    }

    /// A request that is for one server of the set: of an agent that may use the set.
    async fn routed(
        &self,
        method: &str,
        id: Id<'_>,
        message: (&Bytes, &Parsed<'_>),
        era: MessageEra,
    ) -> Response {
        let set = Resource::toolset(self.name.clone());
        if !self.lane.shared.gate.may(&self.verified, &USE, &set) {
            // The judgement of the set itself says why, and is recorded.
            if let Err(refusal) = self.pass(&USE, method, Some(message)).await {
                return self.judged(&refusal, id);
            }
        }
        self.route(method, id, message, era).await
    }

    /// A call where tools are found by search: of one of the three that do that, or of a tool by its own name.
    async fn search(
        &self,
        id: Id<'_>,
        (body, parsed): (&Bytes, &Parsed<'_>),
        era: MessageEra,
    ) -> Response {
        let params = parsed.params();
        let name = params.and_then(|params| params.get("name"));
        let name = name.and_then(base::JsonValue::as_str);
        match (params, name.as_deref()) {
            (_, Some(tool @ (search::FIND | search::DESCRIBE))) => {
                let found = async |passed: &Passed| {
                    let (shown, _) = self.shown(ListKind::Tools, passed).await;
                    let mut found = self.found(tool, params, &shown);
                    if era.era() == Era::Modern {
                        found["resultType"] = "complete".into();
                    }
                    Ok(found.to_string())
                };
                self.own(&LIST, "tools/call", id, (body, parsed), found)
                    .await
            }
            (Some(params), Some(search::CALL)) => {
                let called = match search::called(params) {
                    Ok(called) => called,
                    Err(refusal) => {
                        let asked = AskedItem::tool(search::CALL);
                        return self.no_item("tools/call", asked, refusal, (id, body)).await;
                    }
                };
                let body = splice(body, params.span(), &called);
                let text = MessageText::of(&body);
                match incoming::parse(&text) {
                    Ok(parsed) => self.routed("tools/call", id, (&body, &parsed), era).await,
                    Err(refusal) => self.no(refusal, Some(id)).await,
                }
            }
            _ => self.routed("tools/call", id, (body, parsed), era).await,
        }
    }

    /// Judges and answers a request that weir itself answers.
    async fn own(
        &self,
        action: &'static Action,
        method: &str,
        id: Id<'_>,
        message: (&Bytes, &Parsed<'_>),
        result: impl AsyncFnOnce(&Passed) -> Result<String, Refusal>,
    ) -> Response {
        let passed = match self.pass(action, method, Some(message)).await {
            Ok(passed) => passed,
            Err(refusal) => return self.judged(&refusal, id),
        };
        match result(&passed).await {
            Ok(result) => {
                end(passed, 200);
                json(StatusCode::OK, answer(id, &result), None)
            }
            Err(refusal) => {
                passed.end(CallEnding {
                    status: 200,
                    why: Some((refusal.code.name, &refusal.public)),
                    ..CallEnding::of(CallEnd::Failed)
                });
                self.judged(&refusal, id)
            }
        }
    }

    /// The error that answers a request which was judged.
    fn judged(&self, refusal: &Refusal, id: Id<'_>) -> Response {
        let error = refuse::error(refusal, self.id, Some(id));
        json(StatusCode::OK, Bytes::from(error), None)
    }

    async fn get(&self) -> Response {
        if !accepts(self.head, "text/event-stream") {
            let refusal = Refusal::new(refusal::NOT_ACCEPTED, "GET gives an event stream");
            return self.no(refusal, None).await;
        }
        let checked = inbound::check_revision(self.head).and_then(|()| self.session());
        if let Err(refusal) = checked {
            return self.no(refusal, None).await;
        }
        match self.pass(&USE, "GET", None).await {
            Ok(passed) => self.stream(passed, ChangeKinds::ALL, Subscribed::new(), None),
            Err(refusal) => refuse::refuse_http(&refusal, self.id, None),
        }
    }

    /// Sets the level of the log that the session's client wants.
    fn set_level(&self, parsed: &Parsed<'_>) -> Result<String, Refusal> {
        let level = parsed.params().and_then(|params| params.get("level"));
        let level = level.and_then(base::JsonValue::as_str).unwrap_or_default();
        let (sessions, session) = (&self.lane.shared.hub.sessions, self.session()?);
        match session {
            Some((_, session)) if !sessions.set_level(&session, &level) => {
                let public = "there is no such level of a log";
                Err(Refusal::new(refusal::MESSAGE_INVALID, public))
            }
            _ => Ok("{}".to_owned()),
        }
    }

    /// The end of a session.
    async fn delete(&self) -> Response {
        let checked = inbound::check_revision(self.head).and_then(|()| self.session());
        let session = match checked {
            Ok(session) => session,
            Err(refusal) => return self.no(refusal, None).await,
        };
        match self.pass(&USE, "DELETE", None).await {
            Ok(passed) => {
                if let Some((_, session)) = session {
                    self.lane.shared.hub.sessions.end(&session);
                    self.end_subscriptions(&session).await;
                }
                end(passed, 200);
                Response::new(net::Body::Empty)
            }
            Err(refusal) => refuse::refuse_http(&refusal, self.id, None),
        }
    }

    /// The session that the request names, and what its client is capable of; nothing where it names none.
    pub(crate) fn session(&self) -> Result<Option<(&str, SetSession)>, Refusal> {
        let Some(given) = inbound::field(self.head, &SESSION) else {
            return Ok(None);
        };
        let shared = &self.lane.shared;
        let tokens = shared.tokens(self.agent(), self.name);
        let inside = tokens.open_session(given);
        let known = inside.and_then(|inside| SetSession::of(&inside, &shared.hub.process));
        let known = known.filter(|session| !shared.hub.sessions.is_ended(session));
        match known {
            Some(session) => Ok(Some((given, session))),
            None => Err(crate::upstream::unknown()),
        }
    }
}

fn end(passed: Passed, status: u16) {
    passed.end(CallEnding {
        status,
        ..CallEnding::of(CallEnd::Complete)
    });
}

/// An answer as a message.
pub(crate) fn answer(id: Id<'_>, result: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        id.0
    ))
}
