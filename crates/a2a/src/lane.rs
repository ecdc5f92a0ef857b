//! The lane: what it is told, and from an HTTP request to a call that the gate judges.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use base::{CallId, Json, JsonValue, Name, Refusal, Resource, Secret, refusal};
use bytes::Bytes;
use gate::{Call, ContentPart, Gate, PartContent, Passed, Role};
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use identity::{Presented, PresentedPeer, Verified};
use net::{Request, Response, Upstreams, origin};
use store::{OwnedKind, TaskClaim, TaskOwners};

use crate::actions::{CARD, READ};
use crate::method::{Asks, Version};
use crate::request::{self, Asked, NotAsked};
use crate::{answer, look, refuse, send};

/// The path of a card below its agent (RFC 8615; A2A 1.0, section 8.2).
const CARD_BELOW: &str = ".well-known/agent-card.json";
/// The proof of a key that a token is bound to (RFC 9449 §4.1).
const PROOF: &str = "dpop";
/// W3C Trace Context, section 3.2.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// Fields of a client that go on: the version and the extensions that it speaks (A2A 1.0, section 3.2.6; 0.3, section 3.1).
pub(crate) const PASSED_ON: &[&str] = &["a2a-version", "a2a-extensions", "x-a2a-extensions"];
/// Longest of them, in bytes.
const FIELD_BYTES_MAX: usize = 2048;

/// One agent of others.
#[derive(Clone, PartialEq)]
pub struct RemoteAgent {
    pub name: Name,
    /// Path of its card at its host.
    pub card: PathAndQuery,
    pub token: Option<Secret>,
    pub answer_ms: u64,
    pub silence_ms: u64,
}

/// What the lane is told.
pub struct Settings {
    pub agents: Vec<RemoteAgent>,
    pub origins: Vec<String>,
    /// The URL by which clients reach the gateway, where one is configured.
    pub public_url: Option<String>,
    pub answer_bytes_max: usize,
    /// Makes the id of a call.
    pub new_id: fn() -> CallId,
    /// The monotonic clock, in milliseconds.
    pub now_ms: fn() -> u64,
}

/// What all threads share.
pub struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    /// Absent where no agent is configured.
    pub(crate) owners: Option<TaskOwners>,
    /// When each agent's card was seen and found good, in milliseconds from the clock's start plus one; 0 is never.
    pub(crate) cards_seen: Vec<AtomicU64>,
}

impl Shared {
    pub fn new(settings: Settings, gate: Arc<Gate>, owners: Option<TaskOwners>) -> Shared {
        Shared {
            cards_seen: settings.agents.iter().map(|_| AtomicU64::new(0)).collect(),
            settings,
            gate,
            owners,
        }
    }

    /// Whether something of an agent of others may be named by this caller: a task has to be its own, a context must not be
    /// another's, since clients may choose a new one's id.
    fn may_name(&self, server: &Name, asked: &Asked<'_>, caller: &Name) -> bool {
        let Some(owners) = &self.owners else {
            return false;
        };
        let mut tasks = asked.tasks.iter();
        let context = asked.context.as_deref();
        let owner = context.and_then(|id| owners.owner(server, OwnedKind::Context, id));
        tasks.all(|task| owners.owner(server, OwnedKind::Task, task).as_ref() == Some(caller))
            && owner.is_none_or(|owner| owner == *caller)
    }

    /// Whether a task that an answer names is the caller's. One that nobody has yet becomes its own where `begins`.
    ///
    /// # Errors
    /// `a2a.answer_foreign`, `a2a.tasks_full`.
    pub(crate) fn own(
        &self,
        server: &Name,
        (kind, id): (OwnedKind, &str),
        caller: &Name,
        begins: bool,
    ) -> Result<(), Refusal> {
        let foreign = || {
            let public = "the agent answered with a task that is not this caller's";
            Refusal::new(refusal::A2A_ANSWER_FOREIGN, public)
        };
        let owners = self.owners.as_ref().ok_or_else(foreign)?;
        if !begins && owners.owner(server, kind, id).is_none() {
            return Err(foreign());
        }
        match owners.claim(server, kind, id, caller) {
            TaskClaim::Own => Ok(()),
            TaskClaim::Foreign => Err(foreign()),
            TaskClaim::Full => {
                let public = "there is no room to remember whose task it is";
                Err(Refusal::new(refusal::A2A_TASKS_FULL, public))
            }
        }
    }

    /// Whether a task in a list is the caller's.
    pub(crate) fn is_own_task(&self, server: &Name, task: &str, caller: &Name) -> bool {
        let owners = self.owners.as_ref();
        let owner = owners.and_then(|owners| owners.owner(server, OwnedKind::Task, task));
        owner.as_ref() == Some(caller)
    }
}

/// The lane on one thread.
#[derive(Clone)]
pub struct A2aLane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) upstreams: Rc<Upstreams<Passed>>,
}

impl A2aLane {
    pub fn new(shared: Arc<Shared>, upstreams: Rc<Upstreams<Passed>>) -> A2aLane {
        A2aLane { shared, upstreams }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Answers one request; `rest` is its path behind `/a2a/`.
    pub async fn serve(&self, rest: &str, mut request: Request, id: CallId) -> Response {
        let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
        let place = self.settings().agents.iter();
        let place = place.enumerate().find(|(_, of)| of.name.as_str() == name);
        let resource = match place {
            Some((_, agent)) => Resource::card(agent.name.clone()),
            None => Resource::Setting(Name::new("a2a").expect("a2a is a name")),
        };
        let request_id = request.id().map(str::to_owned);
        let trace = request.field(&TRACE).map(str::to_owned);
        let peer = request.peer.caller;
        let action = if below.is_empty() { &READ } else { &CARD };
        let call = Call {
            request: request_id.as_deref(),
            trace: trace.as_deref(),
            ..Call::new(id, peer, action, &resource, action.method)
        };
        let verified = match self.who(&call, &request).await {
            Ok(verified) => verified,
            Err(refusal) => return refuse::refuse(&refusal, id),
        };
        request.is_of_known_agent();
        let Some((at, agent)) = place else {
            let what = "no agent of this name is configured";
            let refusal = Refusal::new(refusal::A2A_AGENT_UNKNOWN, what);
            return self.no(&verified, &call, refusal).await;
        };
        let method = request.head.method.clone();
        match (below, method) {
            (CARD_BELOW, Method::GET | Method::HEAD) => {
                match self.mount(&request.head, request.peer.is_tls, name) {
                    Ok(url) => look::show(self, agent, verified, call, &url).await,
                    Err(refusal) => self.no(&verified, &call, refusal).await,
                }
            }
            ("", Method::POST) => {
                let read = match check_post(&request.head) {
                    Ok(()) => request.body().await,
                    Err(refusal) => Err(refusal),
                };
                match read {
                    Ok(body) => {
                        let known = Known {
                            at,
                            agent,
                            verified,
                        };
                        self.ask(known, call, &request.head, body).await
                    }
                    Err(refusal) => self.no(&verified, &call, refusal).await,
                }
            }
            ("" | CARD_BELOW, _) => {
                let what = "requests are posted, and the card is read by GET";
                let refusal = Refusal::new(refusal::METHOD, what);
                self.no(&verified, &call, refusal).await
            }
            _ => {
                let what = "an agent has its URL and its card, and nothing else below";
                let refusal = Refusal::new(refusal::NOT_FOUND, what);
                self.no(&verified, &call, refusal).await
            }
        }
    }

    /// Whose request it is, once it comes from no other site's page.
    async fn who(&self, call: &Call<'_>, request: &Request) -> Result<Verified, Refusal> {
        let (gate, head) = (&self.shared.gate, &request.head);
        if let Err(refusal) = origin::check(head, request.peer.is_tls, &self.settings().origins) {
            return Err(gate.turn_away(call, refusal).await);
        }
        let one = |name: &str| head.headers.get(name)?.to_str().ok();
        let presented = Presented {
            authorization: one(AUTHORIZATION.as_str()),
            proof: one(PROOF),
            fields: &[],
            method: head.method.as_str(),
            target: head.uri.path(),
            peer: PresentedPeer {
                address: call.peer,
                certificate: request.peer.certificate(),
            },
        };
        gate.verify(call, &presented).await
    }

    /// The URL by which a client reaches an agent: by the one that is configured, or by the host that it asked.
    fn mount(&self, head: &Parts, is_tls: bool, name: &str) -> Result<String, Refusal> {
        if let Some(origin) = &self.settings().public_url {
            return Ok(format!("{origin}/a2a/{name}"));
        }
        let mut hosts = head.headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
            _ => None,
        };
        let host = host.filter(|host| !host.as_str().contains('@'));
        let scheme = if is_tls { "https" } else { "http" };
        host.map(|host| format!("{scheme}://{host}/a2a/{name}"))
            .ok_or_else(|| Refusal::new(refusal::HEAD_INVALID, "the request names no host"))
    }

    /// Records a refusal that the lane found, and says it with its HTTP status.
    pub(crate) async fn no(
        &self,
        verified: &Verified,
        call: &Call<'_>,
        refusal: Refusal,
    ) -> Response {
        let gate = &self.shared.gate;
        let refusal = gate.reject(Some(verified), call, refusal).await;
        refuse::refuse(&refusal, call.id)
    }

    /// Reads what is asked of an agent, has it judged, and carries it.
    async fn ask(&self, known: Known<'_>, call: Call<'_>, head: &Parts, body: Bytes) -> Response {
        let gate = &self.shared.gate;
        let call = Call {
            bytes: body.len() as u64,
            ..call
        };
        let read = Json::read(&body).map_err(request::not_json);
        let json = match read {
            Ok(json) => json,
            Err(refusal) => {
                let refusal = gate.reject(Some(&known.verified), &call, refusal).await;
                return refuse::respond(&refusal, call.id, None, Version::One);
            }
        };
        let asked = match request::read(json.root()) {
            Ok(asked) => asked,
            Err(no) => {
                let NotAsked {
                    id,
                    method,
                    refusal,
                } = *no;
                let call = Call {
                    action: method.map_or(call.action, |method| method.action),
                    method: method.map_or(call.method, |method| method.name),
                    ..call
                };
                let version = method.map_or(Version::One, |method| method.version);
                let refusal = gate.reject(Some(&known.verified), &call, refusal).await;
                return refuse::respond(&refusal, call.id, id, version);
            }
        };
        let (id, version) = (asked.id, asked.method.version);
        let call = Call {
            action: asked.method.action,
            method: asked.method.name,
            ..call
        };
        let message = (&asked, json.root(), &body);
        match self.judge(known, call, message, head).await {
            Ok((passed, asking)) => send::carry(self, passed, asking).await,
            Err(refusal) => refuse::respond(&refusal, call.id, Some(id), version),
        }
    }

    /// Has a request judged.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    async fn judge<'r>(
        &self,
        known: Known<'r>,
        call: Call<'_>,
        (asked, json, body): (&Asked<'r>, JsonValue<'_>, &Bytes),
        head: &Parts,
    ) -> Result<(Passed, send::Asking<'r>), Refusal> {
        let gate = &self.shared.gate;
        let Known {
            at,
            agent,
            verified,
        } = known;
        if !self
            .shared
            .may_name(&agent.name, asked, &verified.agent().name)
        {
            let what = "no task or context of this id is the caller's";
            let refusal = Refusal::new(refusal::A2A_TASK_UNKNOWN, what);
            return Err(gate.reject(Some(&verified), &call, refusal).await);
        }
        if asked.method.action.is_pinned
            && let Err(refusal) = look::look(self, at, call.peer).await
        {
            // Without pins nothing else holds what the scan refuses.
            return Err(gate.reject(Some(&verified), &call, refusal).await);
        }
        let fields = match passed_on(head) {
            Ok(fields) => fields,
            Err(refusal) => return Err(gate.reject(Some(&verified), &call, refusal).await),
        };
        let mut content = vec![ContentPart {
            role: Role::Body,
            path: "",
            content: PartContent::Json(json),
        }];
        content.extend(fields.iter().map(|(name, value)| ContentPart {
            role: Role::Header,
            path: name,
            content: PartContent::Text(value.as_bytes()),
        }));
        let call = Call {
            content: &content,
            ..call
        };
        let passed = gate.pass(verified, call).await?;
        // Before it leaves: two callers who choose one context at once are told apart here.
        if let Some(context) = asked
            .context
            .as_deref()
            .filter(|_| asked.method.asks == Asks::Send)
        {
            let of = (OwnedKind::Context, context);
            if let Err(refusal) = self.shared.own(&agent.name, of, passed.agent(), true) {
                answer::end_refused(passed, 0, 0, &refusal);
                return Err(refusal);
            }
        }
        let told = passed.redacted(0).map(Bytes::copy_from_slice);
        let told = told.unwrap_or_else(|| body.clone());
        Ok((
            passed,
            send::Asking {
                agent,
                id: asked.id,
                method: asked.method,
                body: told,
                fields,
            },
        ))
    }
}

/// A request of a known caller, to an agent by its place in the settings.
struct Known<'r> {
    at: usize,
    agent: &'r RemoteAgent,
    verified: Verified,
}

/// Fields that go on to the agent, each once.
fn passed_on(head: &Parts) -> Result<Vec<(&'static str, HeaderValue)>, Refusal> {
    let mut fields = Vec::new();
    for name in PASSED_ON {
        let mut values = head.headers.get_all(*name).iter();
        match (values.next(), values.next()) {
            (None, _) => {}
            (Some(value), None) if value.len() <= FIELD_BYTES_MAX && value.to_str().is_ok() => {
                fields.push((*name, value.clone()));
            }
            _ => {
                let what = format!("the field {name} has to stand once, and be short");
                return Err(Refusal::new(refusal::A2A_REQUEST_INVALID, what));
            }
        }
    }
    Ok(fields)
}

/// A page of another site could send anything else without asking.
fn check_post(head: &Parts) -> Result<(), Refusal> {
    let kind = head.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Refusal::new(
            refusal::CONTENT_TYPE,
            "the body is not said to be JSON",
        )),
    }
}
