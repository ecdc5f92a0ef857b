//! From an HTTP request to a call: who, which server, which session, what message.
//!
//! Source: MCP 2025-11-25, "Transports", section "Streamable HTTP". Nothing of the body is read before
//! the caller is known.

use std::net::IpAddr;
use std::sync::Arc;

use base::record::CallEnd;
use base::{CallId, Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue,
};
use http::request::Parts;
use http::{Method, StatusCode};
use identity::{Presented, Verified};
use net::{Body, Peer, Request, Response};

use crate::actions::USE;
use crate::answers::{Answers, AskedMethod};
use crate::calls::{CallClient, own_id};
use crate::drive::{ClientWay, Refused, To, drive, failed};
use crate::envelope::{Id, Message};
use crate::era::{self, Era, MessageEra, Revision, fields};
use crate::incoming::Incoming;
use crate::lane::{McpLane, Server};
use crate::token::Resume;
use crate::upstream::http::SessionOf;
use crate::waiting::gone;
use crate::{batch, origin, refuse, upstream};

/// The proof of a key that a token is bound to (RFC 9449 §4.1).
const PROOF: HeaderName = HeaderName::from_static("dpop");
/// W3C Trace Context, section 3.2.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Who asked what of which server, once the request's head is judged.
struct Asking<'a> {
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
        let peer = request.peer.caller;
        let call = Call {
            request: request_id.as_deref(),
            trace: trace.as_deref(),
            ..Call::new(id, peer, &USE, &resource, method.as_str())
        };
        let asking = match self.know(call, &name, &request.head, &request.peer).await {
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
                self.say_no(&asking, refusal).await
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
        peer: &Peer,
    ) -> Result<Asking<'a>, Refusal> {
        let gate = &self.shared.gate;
        let verified = self.who(&call, head, peer).await?;
        if let Some(server) = self.settings().servers.get(server) {
            return Ok(Asking {
                verified,
                server,
                call,
            });
        }
        let what = format!("no server is named {server}");
        let refusal = Refusal::new(refusal::SERVER_UNKNOWN, what);
        Err(gate.reject(Some(&verified), &call, refusal).await)
    }

    /// Whose request it is, once it comes from no other site's page.
    pub(crate) async fn who(
        &self,
        call: &Call<'_>,
        head: &Parts,
        peer: &Peer,
    ) -> Result<Verified, Refusal> {
        let gate = &self.shared.gate;
        if let Some(acting) = head.extensions.get() {
            return gate.verify_acting(call, acting).await;
        }
        if let Err(refusal) = origin::check(head, peer.is_tls, &self.settings().origins) {
            return Err(gate.turn_away(call, refusal).await);
        }
        let mut presented = presented(head, call.peer);
        presented.peer.certificate = peer.certificate();
        gate.verify(call, &presented).await
    }

    async fn post(&self, asking: Asking<'_>, request: &mut Request) -> Response {
        if let Err(refusal) = check_post(&request.head) {
            return self.say_no(&asking, refusal).await;
        }
        let body = match request.body().await {
            Ok(body) => body,
            Err(refusal) => return self.say_no(&asking, refusal).await,
        };
        let head = &request.head;
        let messages = match has_batches(head)
            .then(|| batch::of_client(&body))
            .transpose()
        {
            Ok(messages) => messages.flatten(),
            Err(refusal) => return self.say_no(&asking, refusal).await,
        };
        match messages {
            None => self.message(asking, head, &body).await,
            Some(messages) => Box::pin(self.batch(asking, head, messages)).await,
        }
    }

    /// Answers a batch: each message as a call of its own.
    async fn batch(&self, asking: Asking<'_>, head: &Parts, messages: Vec<Bytes>) -> Response {
        let answered = messages.iter().enumerate().map(|(i, message)| {
            let id = match i {
                0 => asking.call.id,
                _ => (self.settings().new_id)(),
            };
            let asking = Asking {
                verified: asking.verified.clone(),
                server: asking.server,
                call: Call { id, ..asking.call },
            };
            self.message(asking, head, message)
        });
        batch::each(answered).await
    }

    /// Answers one message.
    async fn message(&self, asking: Asking<'_>, head: &Parts, body: &Bytes) -> Response {
        let lane = self;
        let Asking { server, call, .. } = asking;
        let (id, link) = (call.id, Exchange { lane, server, head });
        let driven = drive(&self.shared, &link, server, asking.verified, call, body).await;
        let driven = match driven {
            Ok(driven) => driven,
            Err(refused) => return say(&refused, id),
        };
        let answers = driven.answers;
        let Some(mut outgoing) = driven.outgoing else {
            answers.end(CallEnd::Complete, 202);
            return accepted();
        };
        outgoing.takes_events = accepts(head, "text/event-stream");
        match driven.way {
            Session::Http(id) => {
                let session = SessionOf::Client(id);
                upstream::http::carry(self, server, answers, outgoing, session).await
            }
            Session::NewKept => upstream::session::open(self, server, answers, outgoing).await,
            Session::Shared => upstream::shared::carry(self, server, answers, outgoing).await,
            Session::Kept(session) => {
                upstream::session::carry(self, server, &session, answers, outgoing).await
            }
        }
    }

    async fn get(&self, asking: Asking<'_>, head: &Parts) -> Response {
        let resume = match self.resume(&asking, head) {
            Ok(resume) => resume,
            Err(refusal) => return self.say_no(&asking, refusal).await,
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
            Session::Kept(session) => {
                let answers = Answers::new(passed, AskedMethod::Other, None);
                return upstream::session::listen(self, &session, answers);
            }
            Session::Http(id) => id,
            Session::NewKept | Session::Shared => None,
        };
        let answers = Answers::resumed(passed, asked, ids);
        let revision = head.headers.get(&fields::REVISION);
        upstream::http::listen(self, server, answers, upstream, revision, after.as_deref()).await
    }

    /// The event after which the stream that is asked for is to be resumed, if the client names one.
    fn resume(&self, asking: &Asking<'_>, head: &Parts) -> Result<Option<Resume>, Refusal> {
        if !accepts(head, "text/event-stream") {
            let public = "GET gives an event stream";
            return Err(Refusal::new(refusal::NOT_ACCEPTED, public));
        }
        let Some(given) = head.headers.get(&upstream::http::LAST_EVENT) else {
            return Ok(None);
        };
        let agent = &asking.verified.agent().name;
        let tokens = self.shared.tokens(agent, &asking.server.name);
        let known = given
            .to_str()
            .ok()
            .and_then(|given| tokens.open_event(given));
        let unknown = || Refusal::new(refusal::EVENT_UNKNOWN, "no stream gave this event id");
        known.map(Some).ok_or_else(unknown)
    }

    async fn delete(&self, asking: Asking<'_>, head: &Parts) -> Response {
        let (passed, session, server) = match self.pass_bare(asking, head).await {
            Ok(passed) => passed,
            Err(response) => return response,
        };
        let answers = Answers::new(passed, AskedMethod::Other, None);
        match session {
            Session::Kept(session) => {
                let why = gone("its client ended it");
                self.shared.sessions.end(&session, &why);
                answers.end(CallEnd::Complete, 200);
                Response::new(Body::Empty)
            }
            Session::Http(id) => upstream::http::end(self, server, answers, id).await,
            Session::NewKept | Session::Shared => {
                upstream::http::end(self, server, answers, None).await
            }
        }
    }

    /// Judges a request that has no message: the event stream, and the end of a session.
    async fn pass_bare<'a>(
        &self,
        asking: Asking<'a>,
        head: &Parts,
    ) -> Result<(Passed, Session, &'a Server), Response> {
        let Asking { server, call, .. } = asking;
        let (lane, id) = (self, call.id);
        let link = Exchange { lane, server, head };
        let checked = check_revision(head);
        let session = checked.and_then(|()| link.session(&asking.verified, false));
        let session = match session {
            Ok(session) => session,
            Err(refusal) => return Err(self.say_no(&asking, refusal).await),
        };
        match self.shared.gate.pass(asking.verified, asking.call).await {
            Ok(passed) => Ok((passed, session, server)),
            Err(refusal) => Err(refuse::refuse_http(&refusal, id, None)),
        }
    }

    /// Records a refusal that the lane found, and says it.
    async fn say_no(&self, asking: &Asking<'_>, refusal: Refusal) -> Response {
        let gate = &self.shared.gate;
        let refusal = gate.reject(Some(&asking.verified), &asking.call, refusal);
        let refusal = refusal.await;
        let mut response = refuse::refuse_http(&refusal, asking.call.id, None);
        allow_post(&refusal, &mut response);
        response
    }
}

/// Says which method there is, where another was used (RFC 9110, section 15.5.6).
pub(crate) fn allow_post(refusal: &Refusal, response: &mut Response) {
    if refusal.code == refusal::METHOD {
        let post = HeaderValue::from_static("POST");
        response.headers_mut().insert(ALLOW, post);
    }
}

/// One HTTP request to a server: the way that its message came.
struct Exchange<'a> {
    lane: &'a McpLane,
    server: &'a Server,
    head: &'a Parts,
}

impl ClientWay for Exchange<'_> {
    type Way = Session;

    fn era(&self, message: &Message<'_>) -> Result<MessageEra, Refusal> {
        MessageEra::read(Some(&self.head.headers), message)
    }

    fn begin(&self, verified: &Verified, said: &Incoming<'_>) -> Result<Session, Refusal> {
        if said.era.era() == Era::Modern {
            return self.stateless(said);
        }
        self.session(verified, said.method == "initialize")
    }

    fn under_way(&self, session: &Session, passed: &Passed, client: &str) -> Option<String> {
        let upstream = match session {
            Session::Kept(session) => return session.under_way(client),
            Session::NewKept | Session::Shared => return None,
            Session::Http(id) => id.as_deref(),
        };
        let whose = CallClient {
            agent: passed.agent(),
            server: &self.server.name,
            session: upstream,
        };
        self.lane.shared.calls.find(whose, client).map(own_id)
    }
}

impl Exchange<'_> {
    /// The way of a message that says all of itself. A session that it names has no meaning.
    fn stateless(&self, said: &Incoming<'_>) -> Result<Session, Refusal> {
        if said.method == "subscriptions/listen" && !accepts(self.head, "text/event-stream") {
            let public = "a subscription is an event stream";
            return Err(Refusal::new(refusal::NOT_ACCEPTED, public));
        }
        if !self.lane.shared.keeps_sessions(self.server) {
            return Ok(Session::Http(None));
        }
        upstream::shared::check(&self.lane.shared, self.server, said.era)?;
        Ok(Session::Shared)
    }

    /// The session that the request names, if it is this agent's.
    fn session(&self, verified: &Verified, is_initialize: bool) -> Result<Session, Refusal> {
        let (shared, agent) = (&self.lane.shared, &verified.agent().name);
        let server = &self.server.name;
        match (
            shared.keeps_sessions(self.server),
            field(self.head, &SESSION),
        ) {
            (false, Some(given)) if !is_initialize => {
                let opened = shared.tokens(agent, server).open_session(given);
                Ok(Session::Http(Some(opened.ok_or_else(upstream::unknown)?)))
            }
            (false, _) => Ok(Session::Http(None)),
            (true, _) if is_initialize => Ok(Session::NewKept),
            (true, None) => Err(Refusal::new(
                refusal::SESSION_MISSING,
                "this server needs a session",
            )),
            (true, Some(given)) => {
                if let Some(session) = shared.sessions.find(given, agent, server) {
                    return Ok(Session::Kept(session));
                }
                // A stop ends sessions: while it is in force, that is why there is none.
                let (lane, key) = (crate::LANE.name, verified.thumbprint());
                shared.gate.lets_stay(lane, agent, key.as_ref())?;
                Err(upstream::unknown())
            }
        }
    }
}

/// Where a message goes.
enum Session {
    /// To a server over HTTP, in the session that it named, if it named one.
    Http(Option<String>),
    /// In a session that weir keeps, and that begins with it.
    NewKept,
    /// To the child that all calls of the modern era share.
    Shared,
    /// In a session that weir keeps.
    Kept(Arc<upstream::Link>),
}

/// What a request presents of who sent it.
fn presented(head: &Parts, peer: IpAddr) -> Presented<'_> {
    Presented {
        proof: field(head, &PROOF),
        method: head.method.as_str(),
        target: head.uri.path(),
        ..Presented::bearer(field(head, &AUTHORIZATION), peer)
    }
}

pub(crate) fn check_post(head: &Parts) -> Result<(), Refusal> {
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

/// Whether the body of a request may be a batch: the revision that has them, which has no field to say so.
pub(crate) fn has_batches(head: &Parts) -> bool {
    match fields::revision(&head.headers) {
        Ok(named) => named.is_none_or(|date| Revision::of(date).is_some_and(|of| of.has_batches)),
        Err(_) => false,
    }
}

/// Judges the revision that a request without a message names.
pub(crate) fn check_revision(head: &Parts) -> Result<(), Refusal> {
    let named = fields::revision(&head.headers)?;
    match named.map(|named| (named, Revision::of(named))) {
        None => Ok(()),
        Some((_, Some(revision))) if revision.era == Era::Legacy => Ok(()),
        Some((_, Some(_))) => Err(Refusal::new(
            refusal::METHOD,
            "2026-07-28 has no request but POST",
        )),
        Some((named, None)) => Err(era::unknown(named, Era::Legacy)),
    }
}

pub(crate) fn accepts(head: &Parts, media_type: &str) -> bool {
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

pub(crate) fn field<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    let mut values = head.headers.get_all(name).iter();
    // Of two, each reader would choose its own.
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// A refusal of a message: where it was judged, as the answer to its request.
pub(crate) fn say(refused: &Refused, call: CallId) -> Response {
    let Refused { refusal, to, .. } = refused;
    let id = match to {
        To::Client(id) => id.as_deref().map(Id),
        To::Server(_) | To::Nobody => None,
    };
    match id {
        // A missing scope is told as HTTP tells it, so that the client asks for another token (RFC 6750 §3.1).
        Some(id) if refused.is_judged && refusal.code != refusal::SCOPE => {
            let error = refuse::error(refusal, call, Some(id));
            json(StatusCode::OK, Bytes::from(error), None)
        }
        id => refuse::refuse_http(refusal, call, id),
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
pub(crate) fn rpc_error(answers: Answers, refusal: &Refusal) -> Response {
    let call = answers.call();
    match failed(answers, refusal) {
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
