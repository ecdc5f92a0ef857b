//! From an HTTP request to a call: who, which server, which session, what message.
//!
//! Source: MCP 2025-11-25, "Transports", section "Streamable HTTP". Nothing of the body is read before
//! the caller is known.

use base::record::CallEnd;
use base::{CallId, Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use identity::{Presented, Verified};
use net::{Body, Request, Response};

use crate::actions::USE;
use crate::answers::{Answers, AskedMethod};
use crate::calls::{CallClient, own_id};
use crate::envelope::{Id, Message, MessageText};
use crate::incoming::{self, Incoming, Parsed};
use crate::lane::{McpLane, Server, ServerKind, server_of};
use crate::outbound::{self, Outgoing};
use crate::token::{Resume, Tokens};
use crate::{origin, refuse, session};

/// The proof of a key that a token is bound to (RFC 9449 §4.1).
const PROOF: HeaderName = HeaderName::from_static("dpop");
/// W3C Trace Context, section 3.2.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Revisions that a client may name. 2025-03-26 is what the absence of the field means.
pub(crate) const REVISIONS: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26"];

/// Characters of a revision that is not known which an answer repeats.
const REVISION_CHARS_MAX: usize = 64;

/// Who asked what of which server, once the request's head is judged.
struct Asking<'a> {
    id: CallId,
    verified: Verified,
    server: &'a Server,
    call: Call<'a>,
}

impl McpLane {
    /// Answers one request to `/mcp/<server>`.
    pub async fn serve(&self, name: Name, mut request: Request, id: CallId) -> Response {
        let resource = Resource::server(name.clone());
        let method = request.head.method.clone();
        let request_id = request.id().map(str::to_owned);
        let trace = field(&request.head, &TRACE).map(str::to_owned);
        let peer = request.peer.address.ip();
        let call = Call {
            request: request_id.as_deref(),
            trace: trace.as_deref(),
            ..Call::new(id, peer, &USE, &resource, method.as_str())
        };
        let asking = match self.know(call, &name, &request.head).await {
            Ok(asking) => asking,
            Err(refusal) => return refuse::refuse_http(&refusal, id, None),
        };
        request.is_of_known_agent();
        match method {
            Method::POST => self.post(asking, &mut request).await,
            Method::GET => self.get(asking, &request.head).await,
            Method::DELETE => self.delete(asking, &request.head).await,
            _ => {
                let refusal = Refusal::new(refusal::METHOD, "MCP has no such method");
                self.say_no(&asking, refusal, None).await
            }
        }
    }

    /// Origin, then who, then which server: in this order, so that a page of another site learns nothing
    /// and a stranger does not learn which servers there are.
    async fn know<'a>(
        &'a self,
        call: Call<'a>,
        server: &Name,
        head: &Parts,
    ) -> Result<Asking<'a>, Refusal> {
        if let Err(refusal) = self.check_origin(head) {
            return Err(self.shared.gate.turn_away(&call, refusal).await);
        }
        let presented = Presented {
            proof: field(head, &PROOF),
            method: head.method.as_str(),
            target: head.uri.path(),
            ..Presented::bearer(field(head, &AUTHORIZATION), call.peer)
        };
        let verified = self.shared.gate.verify(&call, &presented).await?;
        match self.settings().servers.get(server) {
            Some(server) => Ok(Asking {
                id: call.id,
                verified,
                server,
                call,
            }),
            None => {
                let what = format!("no server is named {server}");
                let refusal = Refusal::new(refusal::SERVER_UNKNOWN, what);
                Err(self
                    .shared
                    .gate
                    .reject(Some(&verified), &call, refusal)
                    .await)
            }
        }
    }

    fn check_origin(&self, head: &Parts) -> Result<(), Refusal> {
        origin::check(head, &self.settings().origins)
    }

    async fn post(&self, asking: Asking<'_>, request: &mut Request) -> Response {
        if let Err(refusal) = check_post(&request.head) {
            return self.say_no(&asking, refusal, None).await;
        }
        let body = match request.body().await {
            Ok(body) => body,
            Err(refusal) => return self.say_no(&asking, refusal, None).await,
        };
        let text = MessageText::of(&body);
        match incoming::parse(&text) {
            Ok(parsed) => self.message(asking, &request.head, &body, &parsed).await,
            Err(refusal) => self.say_no(&asking, refusal, None).await,
        }
    }

    async fn message(
        &self,
        asking: Asking<'_>,
        head: &Parts,
        body: &Bytes,
        parsed: &Parsed<'_>,
    ) -> Response {
        let id = match &parsed.message {
            Message::Request { id, .. } => Some(*id),
            Message::Notification { .. } | Message::Response { .. } => None,
        };
        let declared = &self.shared.declared;
        let read = check_revision(head)
            .and_then(|()| Incoming::read(parsed, &asking.server.name, declared));
        let incoming = match read {
            Ok(incoming) => incoming,
            Err(refusal) => return self.say_no(&asking, refusal, id).await,
        };
        let resource = incoming.resource(&asking.server.name);
        let call = incoming.call(asking.call, &resource, body);
        let session = match self.session(&asking, head, incoming.method == "initialize") {
            Ok(session) => session,
            Err(refusal) => return self.say_no(&Asking { call, ..asking }, refusal, id).await,
        };
        let passed = match self.shared.gate.pass(asking.verified, call).await {
            Ok(passed) => passed,
            Err(refusal) => return say(&refusal, asking.id, id),
        };
        let cancelled = incoming
            .cancels()
            .map(|id| self.under_way(&passed, &session, id));
        let cancels = cancelled.as_ref().and_then(|own| own.as_deref());
        let message = incoming.message(&passed, body, cancels);
        let answers = incoming.answers(passed);
        if matches!(cancelled, Some(None)) {
            // The request was answered, or never made: the server has nothing to cancel.
            answers.end(CallEnd::Complete, 202);
            return accepted();
        }
        let message = match message {
            Ok(message) => message,
            Err(refusal) => return rpc_error(answers, &refusal),
        };
        let outgoing = Outgoing {
            message,
            id: id.map(|id| id.0.to_owned()),
            progress: incoming.progress(),
            cancelled: cancelled.flatten(),
            is_initialize: incoming.method == "initialize",
            revision: field(head, &outbound::http::REVISION).map(str::to_owned),
            takes_events: accepts(head, "text/event-stream"),
        };
        self.send_on(asking.server, session, answers, outgoing)
            .await
    }

    /// The id that the server was given for a request of the client that is under way.
    fn under_way(&self, passed: &Passed, session: &Session, id: &str) -> Option<String> {
        let upstream = match session {
            Session::Child(session) => return session.under_way(id),
            Session::NewChild => return None,
            Session::Upstream(id) => Some(id.as_str()),
            Session::None => None,
        };
        let client = CallClient {
            agent: passed.agent(),
            server: server_of(passed),
            session: upstream,
        };
        self.shared.calls.find(client, id).map(own_id)
    }

    async fn send_on(
        &self,
        server: &Server,
        session: Session,
        answers: Answers,
        outgoing: Outgoing,
    ) -> Response {
        match session {
            Session::None => outbound::http::carry(self, server, answers, outgoing, None).await,
            Session::Upstream(id) => {
                outbound::http::carry(self, server, answers, outgoing, Some(id)).await
            }
            Session::NewChild => outbound::child::open(self, server, answers, outgoing).await,
            Session::Child(session) => {
                outbound::child::carry(self, server, &session, answers, outgoing).await
            }
        }
    }

    async fn get(&self, asking: Asking<'_>, head: &Parts) -> Response {
        if !accepts(head, "text/event-stream") {
            let refusal = Refusal::new(refusal::NOT_ACCEPTED, "GET gives an event stream");
            return self.say_no(&asking, refusal, None).await;
        }
        let resume = match self.resume(&asking, head) {
            Ok(resume) => resume,
            Err(refusal) => return self.say_no(&asking, refusal, None).await,
        };
        let (passed, session, server) = match self.pass_bare(asking, head).await {
            Ok(passed) => passed,
            Err(response) => return response,
        };
        let (asked, ids, after) = match resume {
            Some(Resume { event, asked, ids }) => (asked, ids, Some(event)),
            None => (AskedMethod::Other, None, None),
        };
        let upstream = match session {
            Session::Child(session) => {
                let answers = Answers::new(passed, AskedMethod::Other, None);
                return outbound::child::listen(self, &session, answers);
            }
            Session::Upstream(id) => Some(id),
            Session::None | Session::NewChild => None,
        };
        let answers = Answers::resumed(passed, asked, ids);
        let revision = head.headers.get(&outbound::http::REVISION);
        outbound::http::listen(self, server, answers, upstream, revision, after.as_deref()).await
    }

    /// The event after which a stream is to be resumed, if the client names one.
    fn resume(&self, asking: &Asking<'_>, head: &Parts) -> Result<Option<Resume>, Refusal> {
        let Some(given) = head.headers.get(&outbound::http::LAST_EVENT) else {
            return Ok(None);
        };
        let tokens = self.tokens(asking);
        let known = given
            .to_str()
            .ok()
            .and_then(|given| tokens.open_event(given));
        let unknown = || Refusal::new(refusal::EVENT_UNKNOWN, "no stream gave this event id");
        known.map(Some).ok_or_else(unknown)
    }

    fn tokens<'a>(&'a self, asking: &'a Asking<'_>) -> Tokens<'a> {
        Tokens {
            key: &self.settings().session_key,
            agent: &asking.verified.agent().name,
            server: &asking.server.name,
        }
    }

    async fn delete(&self, asking: Asking<'_>, head: &Parts) -> Response {
        let (passed, session, server) = match self.pass_bare(asking, head).await {
            Ok(passed) => passed,
            Err(response) => return response,
        };
        let answers = Answers::new(passed, AskedMethod::Other, None);
        match session {
            Session::Child(session) => {
                self.shared.sessions.end(&session, "its client ended it");
                answers.end(CallEnd::Complete, 200);
                Response::new(Body::Empty)
            }
            Session::Upstream(id) => outbound::http::end(self, server, answers, Some(id)).await,
            Session::None | Session::NewChild => {
                outbound::http::end(self, server, answers, None).await
            }
        }
    }

    /// Judges a request that has no message: the event stream, and the end of a session.
    async fn pass_bare<'a>(
        &self,
        asking: Asking<'a>,
        head: &Parts,
    ) -> Result<(Passed, Session, &'a Server), Response> {
        let session = check_revision(head).and_then(|()| self.session(&asking, head, false));
        let session = match session {
            Ok(session) => session,
            Err(refusal) => return Err(self.say_no(&asking, refusal, None).await),
        };
        match self.shared.gate.pass(asking.verified, asking.call).await {
            Ok(passed) => Ok((passed, session, asking.server)),
            Err(refusal) => Err(refuse::refuse_http(&refusal, asking.id, None)),
        }
    }

    /// The session that the request names, if it is this agent's.
    fn session(
        &self,
        asking: &Asking<'_>,
        head: &Parts,
        is_initialize: bool,
    ) -> Result<Session, Refusal> {
        let agent = &asking.verified.agent().name;
        let unknown = || Refusal::new(refusal::SESSION_UNKNOWN, "there is no such session");
        let given = field(head, &SESSION);
        match (&asking.server.kind, given) {
            (ServerKind::Url { .. }, None) => Ok(Session::None),
            (ServerKind::Url { .. }, Some(_)) if is_initialize => Ok(Session::None),
            (ServerKind::Url { .. }, Some(given)) => self
                .tokens(asking)
                .open_session(given)
                .map(Session::Upstream)
                .ok_or_else(unknown),
            (ServerKind::Child(_), _) if is_initialize => Ok(Session::NewChild),
            (ServerKind::Child(_), None) => Err(Refusal::new(
                refusal::SESSION_MISSING,
                "this server needs a session",
            )),
            (ServerKind::Child(_), Some(given)) => self
                .shared
                .sessions
                .find(given, agent, &asking.server.name)
                .map(Session::Child)
                .ok_or_else(unknown),
        }
    }

    /// Records a refusal that the lane found, and says it; `id` is the request's, where it was read.
    async fn say_no(&self, asking: &Asking<'_>, refusal: Refusal, id: Option<Id<'_>>) -> Response {
        let refusal = self
            .shared
            .gate
            .reject(Some(&asking.verified), &asking.call, refusal)
            .await;
        refuse::refuse_http(&refusal, asking.id, id)
    }
}

/// Where a message goes.
enum Session {
    /// To a server over HTTP, without a session.
    None,
    /// To a server over HTTP, in the session that it named.
    Upstream(String),
    /// To a child that is to be started.
    NewChild,
    Child(std::sync::Arc<session::ChildSession>),
}

fn check_post(head: &Parts) -> Result<(), Refusal> {
    let content_type = field(head, &CONTENT_TYPE).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::new(
            refusal::CONTENT_TYPE,
            "the body is not said to be JSON",
        ));
    }
    if !accepts(head, "application/json") {
        return Err(Refusal::new(refusal::NOT_ACCEPTED, "an answer may be JSON"));
    }
    Ok(())
}

fn check_revision(head: &Parts) -> Result<(), Refusal> {
    match head.headers.get(&outbound::http::REVISION) {
        Some(value) if !REVISIONS.iter().any(|known| value == known) => {
            let named = value.to_str().unwrap_or_default();
            let named: String = named.chars().take(REVISION_CHARS_MAX).collect();
            let public = "that revision of MCP is not spoken here";
            Err(Refusal::new(refusal::REVISION, public).with_private(named))
        }
        _ => Ok(()),
    }
}

fn accepts(head: &Parts, media_type: &str) -> bool {
    let mut any = false;
    for value in head.headers.get_all(ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',') {
            any = true;
            let range = range.split(';').next().unwrap_or_default().trim();
            let kind = media_type.split('/').next().unwrap_or_default();
            let all = range == "*/*" || range.strip_suffix("/*") == Some(kind);
            if all || range.eq_ignore_ascii_case(media_type) {
                return true;
            }
        }
    }
    !any
}

fn field<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    head.headers.get(name).and_then(|v| v.to_str().ok())
}

/// A refusal of a call that was judged: as its JSON-RPC answer where it has an id.
fn say(refusal: &Refusal, call: CallId, id: Option<Id<'_>>) -> Response {
    match id {
        Some(id) => json(
            StatusCode::OK,
            Bytes::from(refuse::error(refusal, call, Some(id))),
            None,
        ),
        None => refuse::refuse_http(refusal, call, None),
    }
}

/// A refusal that is one of the exchange, with its HTTP status.
pub(crate) fn http_error(mut answers: Answers, refusal: &Refusal) -> Response {
    let call = answers.call();
    let client = answers.ids().map(|ids| ids.client.clone());
    answers.error(refusal);
    answers.end(CallEnd::Failed, refusal.code.status);
    refuse::refuse_http(refusal, call, client.as_deref().map(Id))
}

/// A refusal of what came back, or of the way there.
pub(crate) fn rpc_error(mut answers: Answers, refusal: &Refusal) -> Response {
    let call = answers.call();
    let message = answers.error(refusal);
    answers.end(CallEnd::Failed, 0);
    match message {
        Some(message) => json(StatusCode::OK, message, None),
        None => refuse::refuse_http(refusal, call, None),
    }
}

pub(crate) fn accepted() -> Response {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

pub(crate) fn json(status: StatusCode, message: Bytes, session: Option<&str>) -> Response {
    let mut response = Response::new(Body::Full(message));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(session) = session.and_then(|s| HeaderValue::try_from(s).ok()) {
        fields.insert(SESSION, session);
    }
    response
}

pub(crate) fn event_stream(body: Body, session: Option<&str>) -> Response {
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    fields.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if let Some(session) = session.and_then(|s| HeaderValue::try_from(s).ok()) {
        fields.insert(SESSION, session);
    }
    response
}
