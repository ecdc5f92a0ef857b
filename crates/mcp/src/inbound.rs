//! From an HTTP request to a call: who, which server, which session, what message.
//!
//! Source: MCP 2025-11-25, "Transports", section "Streamable HTTP". Nothing of the body is read before
//! the caller is known.

use base::record::End;
use base::{Action, CallId, Name, Refusal, Target, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
};
use http::request::Parts;
use http::{Method, StatusCode};
use identity::Verified;
use net::{Body, Request, Response};
use serde_json::value::RawValue;

use crate::answers::{Answers, Asked};
use crate::envelope::{Id, Invalid, Message, Object, Params};
use crate::lane::{Lane, Server, ServerKind};
use crate::outbound::{self, Outgoing};
use crate::{refuse, session};

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Revisions that a client may name. 2025-03-26 is what the absence of the field means.
const REVISIONS: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26"];

/// Who asked what of which server, once the request's head is judged.
struct Asking<'a> {
    id: CallId,
    verified: Verified,
    server: &'a Server,
    call: Call<'a>,
}

impl Lane {
    /// Answers one request to `/mcp/<server>`.
    pub async fn serve(&self, server: &str, mut request: Request, id: CallId) -> Response {
        let Some(name) = Name::new(server) else {
            let refusal = Refusal::new(refusal::NOT_FOUND, "that cannot be a server's name");
            return refuse::problem(&refusal, id);
        };
        let target = Target {
            server: name,
            tool: None,
        };
        let method = request.head.method.clone();
        let request_id = request_id(&request.head).map(str::to_owned);
        let call = Call {
            id,
            peer: request.peer.address.ip(),
            lane: base::Lane::Mcp,
            action: Action::McpUse,
            method: method.as_str(),
            request: request_id.as_deref(),
            target: &target,
            params: None,
            arguments: None,
            bytes: 0,
        };
        let asking = match self.know(call, &request.head).await {
            Ok(asking) => asking,
            Err(refusal) => return refuse::refuse_http(&refusal, id),
        };
        match method {
            Method::POST => self.post(asking, &mut request).await,
            Method::GET => self.get(asking, &request.head).await,
            Method::DELETE => self.delete(asking, &request.head).await,
            _ => {
                let refusal = Refusal::new(refusal::METHOD, "MCP has no such method");
                self.say_no(&asking, refusal).await
            }
        }
    }

    /// Origin, then who, then which server: in this order, so that a page of another site learns nothing
    /// and a stranger does not learn which servers there are.
    async fn know<'a>(&'a self, call: Call<'a>, head: &Parts) -> Result<Asking<'a>, Refusal> {
        if let Err(refusal) = self.check_origin(head) {
            return Err(self.shared.gate.reject(None, &call, refusal).await);
        }
        let authorization = head
            .headers
            .get(AUTHORIZATION)
            .and_then(|v| v.to_str().ok());
        let verified = self.shared.gate.verify(&call, authorization).await?;
        match self.settings().servers.get(&call.target.server) {
            Some(server) => Ok(Asking {
                id: call.id,
                verified,
                server,
                call,
            }),
            None => {
                let what = format!("no server is named {}", call.target.server);
                let refusal = Refusal::new(refusal::SERVER_UNKNOWN, what);
                Err(self
                    .shared
                    .gate
                    .reject(Some(&verified), &call, refusal)
                    .await)
            }
        }
    }

    /// A browser names the site whose page calls. Only the gateway's own address and the sites that are
    /// configured may (DNS rebinding).
    fn check_origin(&self, head: &Parts) -> Result<(), Refusal> {
        let Some(origin) = head.headers.get(ORIGIN) else {
            return Ok(());
        };
        let origin = origin.to_str().unwrap_or_default();
        if self
            .settings()
            .origins
            .iter()
            .any(|known| known.eq_ignore_ascii_case(origin))
        {
            return Ok(());
        }
        let host = head
            .headers
            .get(HOST)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let own = origin
            .strip_prefix("http://")
            .is_some_and(|o| o.eq_ignore_ascii_case(host));
        if own && is_loopback(host) {
            return Ok(());
        }
        Err(Refusal::new(
            refusal::ORIGIN,
            "a page of another site may not call this gateway",
        ))
    }

    async fn post(&self, asking: Asking<'_>, request: &mut Request) -> Response {
        if let Err(refusal) = check_post(&request.head) {
            return self.say_no(&asking, refusal).await;
        }
        let body = match request.body().await {
            Ok(body) => body,
            Err(refusal) => return self.say_no(&asking, refusal).await,
        };
        match Message::parse(&body) {
            Ok(message) => self.message(asking, &request.head, &body, message).await,
            Err(invalid) => self.say_no(&asking, refusal_of(invalid)).await,
        }
    }

    async fn message(
        &self,
        asking: Asking<'_>,
        head: &Parts,
        body: &Bytes,
        message: Message<'_>,
    ) -> Response {
        let said = match Said::read(&message) {
            Ok(said) => said,
            Err(refusal) => return self.say_no(&asking, refusal).await,
        };
        let target = said.target(asking.call.target);
        let call = said.call(asking.call, &target, body);
        let session = match self.session(&asking, head, said.method == "initialize") {
            Ok(session) => session,
            Err(refusal) => return self.say_no(&Asking { call, ..asking }, refusal).await,
        };
        let mut passed = match self.shared.gate.pass(asking.verified, call).await {
            Ok(passed) => passed,
            Err(refusal) => return say(&refusal, asking.id, said.id),
        };
        let message = said.message(&mut passed, body);
        let answers = said.answers(passed);
        let message = match message {
            Ok(message) => message,
            Err(refusal) => return rpc_error(answers, &refusal),
        };
        let outgoing = said.outgoing(message, head);
        self.send_on(asking.server, session, answers, outgoing)
            .await
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
            return self.say_no(&asking, refusal).await;
        }
        let (answers, session, server) = match self.pass_bare(asking, head).await {
            Ok(passed) => passed,
            Err(response) => return response,
        };
        match session {
            Session::Child(session) => outbound::child::listen(&session, answers),
            Session::Upstream(id) => {
                outbound::http::listen(self, server, answers, Some(id), &head.headers).await
            }
            Session::None | Session::NewChild => {
                outbound::http::listen(self, server, answers, None, &head.headers).await
            }
        }
    }

    async fn delete(&self, asking: Asking<'_>, head: &Parts) -> Response {
        let (answers, session, server) = match self.pass_bare(asking, head).await {
            Ok(passed) => passed,
            Err(response) => return response,
        };
        match session {
            Session::Child(session) => {
                self.shared.sessions.end(&session, "its client ended it");
                answers.end(End::Complete, 200);
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
    ) -> Result<(Answers, Session, &'a Server), Response> {
        let session = check_revision(head).and_then(|()| self.session(&asking, head, false));
        let session = match session {
            Ok(session) => session,
            Err(refusal) => return Err(self.say_no(&asking, refusal).await),
        };
        match self.shared.gate.pass(asking.verified, asking.call).await {
            Ok(passed) => Ok((
                Answers::new(passed, Asked::Other, None),
                session,
                asking.server,
            )),
            Err(refusal) => Err(refuse::refuse_http(&refusal, asking.id)),
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
            (ServerKind::Url { .. }, Some(given)) => session::open(
                &self.settings().session_key,
                agent,
                &asking.server.name,
                given,
            )
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

    /// Records a refusal that the lane found, and says it.
    async fn say_no(&self, asking: &Asking<'_>, refusal: Refusal) -> Response {
        let refusal = self
            .shared
            .gate
            .reject(Some(&asking.verified), &asking.call, refusal)
            .await;
        refuse::refuse_http(&refusal, asking.id)
    }
}

/// What a message says, as far as it is judged.
pub(crate) struct Said<'m> {
    pub(crate) method: &'m str,
    pub(crate) id: Option<Id<'m>>,
    /// The field that is the agent's to write, and its value: scanned.
    field: &'static str,
    content: Option<&'m RawValue>,
    pub(crate) params: Params<'m>,
    tool: Option<String>,
}

impl<'m> Said<'m> {
    pub(crate) fn read(message: &'m Message<'m>) -> Result<Said<'m>, Refusal> {
        let (method, id, field, content) = match message {
            Message::Request { id, method, params } => (&**method, Some(*id), "params", *params),
            Message::Notification { method, params } => (&**method, None, "params", *params),
            Message::Response {
                result: Some(result),
                ..
            } => ("response", None, "result", Some(*result)),
            Message::Response { error, .. } => ("response", None, "error", *error),
        };
        let (params, tool) = if action(method, id.is_some()) == Action::McpCall {
            let params = Params::read(content).map_err(refusal_of)?;
            let tool = tool(&params)?;
            (params, Some(tool))
        } else {
            // Other methods may use the same names for something else.
            (Params::read(content).unwrap_or_default(), None)
        };
        Ok(Said {
            method,
            id,
            field,
            content,
            params,
            tool,
        })
    }

    /// What the message is asked of: the server, and the tool that it names.
    pub(crate) fn target(&self, bare: &Target) -> Target {
        Target {
            tool: self.tool.clone(),
            ..bare.clone()
        }
    }

    /// The call that the message is; `bare` says what is known of it without the message.
    pub(crate) fn call<'c>(&'c self, bare: Call<'c>, target: &'c Target, body: &Bytes) -> Call<'c> {
        Call {
            action: action(self.method, self.id.is_some()),
            method: self.method,
            target,
            params: self.content.map(|p| p.get().as_bytes()),
            arguments: self.params.arguments.map(|a| a.get().as_bytes()),
            bytes: body.len() as u64,
            ..bare
        }
    }

    /// The bytes to send on: those that came, or what the scan redacted in them.
    pub(crate) fn message(&self, passed: &mut Passed, body: &Bytes) -> Result<Bytes, Refusal> {
        match passed.take_redacted() {
            Some(json) => with_field(body, self.field, json),
            None => Ok(body.clone()),
        }
    }

    /// What judges the answers.
    pub(crate) fn answers(&self, passed: Passed) -> Answers {
        let asked = match self.method {
            "tools/list" => Asked::ToolsList,
            _ => Asked::Other,
        };
        Answers::new(passed, asked, self.id.map(|id| id.0.to_owned()))
    }

    /// The token under which the request wants progress, as it was written.
    pub(crate) fn progress(&self) -> Option<String> {
        let meta = self.params.meta.as_ref();
        meta.and_then(|m| m.progress_token)
            .map(|t| t.get().to_owned())
    }

    fn outgoing(&self, message: Bytes, head: &Parts) -> Outgoing {
        Outgoing {
            message,
            id: self.id.map(|id| id.0.to_owned()),
            progress: self.progress(),
            is_initialize: self.method == "initialize",
            revision: field(head, &outbound::http::REVISION).map(str::to_owned),
            takes_events: accepts(head, "text/event-stream"),
        }
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

/// What policies call a method. Only requests can list, call, read or prompt.
fn action(method: &str, is_request: bool) -> Action {
    match method {
        _ if !is_request => Action::McpUse,
        "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
            Action::McpList
        }
        "tools/call" => Action::McpCall,
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Action::McpRead,
        "prompts/get" => Action::McpPrompt,
        _ => Action::McpUse,
    }
}

fn tool(params: &Params<'_>) -> Result<String, Refusal> {
    let name = params.name.as_deref().unwrap_or_default();
    if name.is_empty() || name.chars().count() > base::limit::TOOL_NAME_CHARS_MAX {
        let what = "tools/call without params.name, or with one of more than 256 characters";
        return Err(Refusal::new(refusal::MESSAGE_INVALID, what));
    }
    Ok(name.to_owned())
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
    check_revision(head)
}

fn check_revision(head: &Parts) -> Result<(), Refusal> {
    match head.headers.get(&outbound::http::REVISION) {
        Some(value) if !REVISIONS.iter().any(|known| value == known) => Err(Refusal::new(
            refusal::REVISION,
            "that revision of MCP is not spoken here",
        )),
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

/// The request id that a client sent, if it is one that can be kept: 1 to 64 letters, digits, `.`, `_`, `-`.
pub fn request_id(head: &Parts) -> Option<&str> {
    let id = field(head, &HeaderName::from_static("x-request-id"))?;
    let plain = id
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    (plain && (1..=64).contains(&id.len())).then_some(id)
}

fn field<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    head.headers.get(name).and_then(|v| v.to_str().ok())
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => host.split(':').next().unwrap_or_default(),
    };
    let address: Option<std::net::IpAddr> = name.parse().ok();
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|a| a.is_loopback())
}

/// The message with another value in one field, as the scan redacted it.
fn with_field(body: &Bytes, name: &str, json: Vec<u8>) -> Result<Bytes, Refusal> {
    let replaced = || {
        let mut object = Object::read(std::str::from_utf8(body).ok()?)?;
        object.set(name, String::from_utf8(json).ok()?)?;
        Some(Bytes::from(object.to_json()))
    };
    replaced().ok_or_else(|| {
        base::never!("a redacted message is not JSON");
        Refusal::new(refusal::FAILED, "the message could not be redacted")
    })
}

pub(crate) fn refusal_of(invalid: Invalid) -> Refusal {
    let (code, what) = match invalid {
        Invalid::Json => (refusal::JSON_INVALID, "the body is not JSON"),
        Invalid::Duplicate => (refusal::JSON_DUPLICATE, "an object has a key twice"),
        Invalid::Deep => (
            refusal::JSON_DEEP,
            "the JSON is too deep, or an object too wide",
        ),
        Invalid::Batch => (refusal::BATCH, "the body is a batch"),
        Invalid::Message(why) => (refusal::MESSAGE_INVALID, why),
    };
    Refusal::new(code, what)
}

/// A refusal of a call that was judged: as its JSON-RPC answer where it has an id.
fn say(refusal: &Refusal, call: CallId, id: Option<Id<'_>>) -> Response {
    match id {
        Some(id) => json(
            StatusCode::OK,
            Bytes::from(refuse::error(refusal, call, Some(id))),
            None,
        ),
        None => refuse::refuse_http(refusal, call),
    }
}

/// A refusal of what came back, or of the way there.
pub(crate) fn rpc_error(mut answers: Answers, refusal: &Refusal) -> Response {
    let call = answers.call();
    let message = answers.error(refusal);
    answers.end(End::Failed, 0);
    match message {
        Some(message) => json(StatusCode::OK, message, None),
        None => refuse::refuse_http(refusal, call),
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
