//! The row of identities: tokens, enrolment, metadata, and what the operator does about agents while serving.
//!
//! It is no lane that goes anywhere: what is asked here is answered here. Whoever shows no good credential is counted and recorded
//! as any stranger is. Each change of the directory stands in the log before it is in force. Without `identity:` in the
//! configuration only the operator's routes for keys answer.

mod admin;
mod enrol;
mod issuers;
mod metadata;
mod shared;
mod token;

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use base::{Action, CallId, Entity, Lane, Name, Refusal, Resource, ScanAs, refusal};
use bytes::Bytes;
use gate::Call;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use identity::{Presented, PresentedPeer, Verified};
use net::{Body, Request, Response};
use serde_json::{Value, json};

use super::{Local, OnThread, Opened, Parts, Row, Running};
use crate::assemble::WayOut;
use crate::config::Settings;
use crate::health::{LaneHealth, Readiness};
use crate::refuse;
use crate::routes::{Answers, Open, Route};

use shared::IdentityShared;

/// What the gateway does for identities.
static LANE: Lane = Lane {
    name: "identity",
    is_scanned: false,
    actions: &[&WHOAMI, &ENROL, &TOKEN],
    schema: include_str!("identity.cedarschema"),
};

static WHOAMI: Action = action("identity:whoami", "whoami");
static ENROL: Action = action("identity:enrol", "enrol");
static TOKEN: Action = action("identity:token", "token");

const fn action(name: &'static str, method: &'static str) -> Action {
    Action {
        lane: &LANE,
        name,
        method,
        entity: |resource| match resource {
            Resource::Setting(name) => Some(Entity::named("Identity", name.as_str())),
            _ => None,
        },
        has_arguments: false,
        scan_as: ScanAs::Message,
        is_pinned: false,
    }
}

/// Largest body of a request here, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
const READ: &[Method] = &[Method::GET, Method::HEAD];
const POST: &[Method] = &[Method::POST];
const KEYS: Open = Open::Everyone("public keys, and where they are used, are for all");
const CLIENT: Open = Open::Applicants("the client proves who it is in the request, as OAuth asks");
const INVITED: Open = Open::Applicants("the invite, or the certificate before, is in the request");
const ADMIN: Open = Open::Operator("who may call is the operator's to say");

pub(crate) const ROW: Row = Row {
    lane: &LANE,
    routes: &[
        route("/.well-known/oauth-authorization-server", READ, KEYS),
        route("/.well-known/oauth-protected-resource", READ, KEYS),
        route("/.well-known/oauth-protected-resource/**", READ, KEYS),
        route("/oauth/jwks", READ, KEYS),
        route("/oauth/token", POST, CLIENT),
        route("/oauth/introspect", POST, CLIENT),
        route("/oauth/revoke", POST, CLIENT),
        route("/enrol", POST, INVITED),
        route("/enrol/renew", POST, INVITED),
        route("/whoami", &[Method::GET], Open::Agents),
        route("/admin/agents", &[Method::GET, Method::POST], ADMIN),
        route(
            "/admin/agents/**",
            &[Method::GET, Method::POST, Method::DELETE],
            ADMIN,
        ),
    ],
    metrics: &[],
    endpoints: |_| Vec::new(),
    reach: |_, _| Vec::new(),
    only_at_start: |_, _| Vec::new(),
    reloaded: |_, _| Vec::new(),
    open,
};

const fn route(template: &'static str, methods: &'static [Method], open: Open) -> Route {
    Route {
        template,
        methods,
        open,
        body_bytes_max: Some(BODY_BYTES_MAX),
        refuse: refuse::problem,
        answers: Answers::Lane,
    }
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    Ok(Arc::new(IdentityLane(Arc::new(IdentityShared::new(
        settings, parts,
    )?))))
}

/// What all threads share.
struct IdentityLane(Arc<IdentityShared>);

impl Running for IdentityLane {
    fn say_started(&self, settings: &Settings, url: Option<&str>) {
        self.0.trust_tokens(settings, url);
        issuers::follow(&self.0);
    }

    fn thread(&self, _out: &WayOut) -> Rc<dyn OnThread> {
        Rc::new(IdentityThread(Arc::clone(&self.0)))
    }

    /// How the store of used proofs is, where there is one: without it no proof is taken, and keys and certificates are.
    fn health(&self) -> Option<LaneHealth> {
        let problem = self.0.store.as_ref()?.state().problem;
        Some(LaneHealth {
            title: "identity",
            parts: vec![(
                "store".to_owned(),
                problem.map_or("ready", |problem| problem.code()),
            )],
            known: None,
            readiness: match problem {
                None => Readiness::Ready,
                Some(_) => Readiness::Degraded,
            },
        })
    }
}

struct IdentityThread(Arc<IdentityShared>);

impl OnThread for IdentityThread {
    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        Box::pin(async move { self.0.serve(rest, request, id).await })
    }

    fn serve(self: Rc<Self>, _first: bool) -> Local<'static, io::Result<()>> {
        if let Some(store) = &self.0.store {
            store.warm();
            store.watch();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One request, as its handler sees it.
struct Asked<'a> {
    id: CallId,
    /// The path from the route's first `*` on.
    rest: &'a str,
    request: &'a mut Request,
}

impl IdentityShared {
    async fn serve(&self, rest: &str, mut request: Request, id: CallId) -> Response {
        let path = request.head.uri.path().to_owned();
        let method = request.head.method.clone();
        let is_admin = path.starts_with("/admin/");
        let asked = Asked {
            id,
            rest,
            request: &mut request,
        };
        let is_read = method == Method::GET || method == Method::HEAD;
        let answered = match path.as_str() {
            "/whoami" => self.whoami(asked).await,
            _ if is_admin => admin::serve(self, asked).await,
            _ if self.trust().is_none() => {
                let public = "this gateway has no identities of its own";
                Err(Refusal::new(refusal::IDENTITY_OFF, public))
            }
            "/oauth/token" if method == Method::POST => return token::serve(self, asked).await,
            "/oauth/revoke" if method == Method::POST => return token::revoke(self, asked).await,
            "/oauth/introspect" if method == Method::POST => {
                return token::introspect(self, asked).await;
            }
            "/enrol" if method == Method::POST => enrol::enrol(self, asked).await,
            "/enrol/renew" if method == Method::POST => enrol::renew(self, asked).await,
            "/oauth/jwks" if is_read => Ok(answer(StatusCode::OK, &self.jwks())),
            "/.well-known/oauth-authorization-server" if is_read => {
                Ok(answer(StatusCode::OK, &metadata::server(self)))
            }
            path if path.starts_with("/.well-known/") && is_read => {
                Ok(answer(StatusCode::OK, &metadata::resource(self, path)))
            }
            _ => Err(Refusal::new(
                refusal::METHOD,
                "this route has no such method",
            )),
        };
        answered.unwrap_or_else(|refusal| refuse::problem(&refusal, id))
    }

    /// Says to an agent who it is, and by what.
    async fn whoami(&self, asked: Asked<'_>) -> Result<Response, Refusal> {
        let verified = self.verify(&asked, &WHOAMI).await?;
        asked.request.is_of_known_agent();
        if asked.request.head.method != Method::GET {
            return Err(Refusal::new(refusal::METHOD, "this page is only read"));
        }
        let agent = verified.agent();
        let expires = verified.expires_unix_ms().map(base::clock::rfc3339);
        let groups: Vec<&str> = agent.groups.iter().map(Name::as_str).collect();
        let mut said = json!({
            "agent": agent.name.as_str(),
            "groups": groups,
            "by": verified.by().as_str(),
            "expires": expires,
        });
        if let Some(behalf) = verified.behalf() {
            said["behalf"] = behalf.into();
        }
        if let Some(scopes) = verified.scopes() {
            said["scopes"] = scopes.iter().map(|scope| &**scope).collect();
        }
        if let Some(thumbprint) = verified.thumbprint() {
            said["credential"] = thumbprint.to_string()[..16].into();
        }
        Ok(answer(StatusCode::OK, &said))
    }

    /// Who asks, by the gate: counted and recorded as any call.
    async fn verify(
        &self,
        asked: &Asked<'_>,
        action: &'static Action,
    ) -> Result<Verified, Refusal> {
        let request = &asked.request;
        let resource = resource();
        let method = request.head.method.as_str();
        let call = Call::new(asked.id, request.peer.caller, action, &resource, method);
        let presented = Presented {
            authorization: field(request, "authorization"),
            proof: field(request, "dpop"),
            fields: &[],
            method,
            target: request.head.uri.path(),
            peer: PresentedPeer {
                address: request.peer.caller,
                certificate: request.peer.certificate(),
            },
        };
        let verified = self.gate.verify(&call, &presented).await?;
        // Nothing is judged afterwards, so the stops are asked here.
        let may = self.gate.lets_stay(LANE.name, &verified.agent().name, None);
        match may {
            Ok(()) => Ok(verified),
            Err(refusal) => Err(self.gate.reject(Some(&verified), &call, refusal).await),
        }
    }

    /// Counts and records a refusal of who is not known.
    async fn turn_away(
        &self,
        asked: &Asked<'_>,
        action: &'static Action,
        refusal: Refusal,
    ) -> Refusal {
        let resource = resource();
        let request = &asked.request;
        let method = request.head.method.as_str();
        let call = Call::new(asked.id, request.peer.caller, action, &resource, method);
        self.gate.turn_away(&call, refusal).await
    }
}

fn resource() -> Resource {
    Resource::Setting(Name::new("identity").expect("identity is a name"))
}

/// A field that is there once.
fn field<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let mut values = request.head.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// An answer that nobody keeps.
fn answer(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::Full(Bytes::from(format!("{value}\n"))));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body as JSON.
async fn json_body(request: &mut Request) -> Result<Value, Refusal> {
    let body = request.body().await?;
    let read = identity::jose::strict_object(&body).map(drop).ok();
    let value = read.and_then(|()| serde_json::from_slice(&body).ok());
    value.ok_or_else(|| Refusal::new(refusal::IDENTITY_INVALID, "the body is no JSON object"))
}
