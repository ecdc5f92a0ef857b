//! Which path leads where, by which methods, and who may ask. The third hop: from a request to its lane.

use std::rc::Rc;
use std::sync::Arc;

use base::{CallId, Refusal, refusal};
use bytes::Bytes;
use gate::Gate;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use net::{Body, Drain, EdgeShared, Request, Response, origin};
use store::log::Log;

use crate::admin::access::AdminAccess;
use crate::admin::body::json_bytes;
use crate::admin::shapes::{StopsBody, StopsView};
use crate::admin::{AdminActor, openapi};
use crate::assemble::Replica;
use crate::health::{self, Health};
use crate::lanes::{self, OnThread, Running};
use crate::metrics::Metrics;
use crate::refuse;
use crate::stopping::{self, Stopping};

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Fields that proxies add.
const PASSED_ON: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];
const CALL: HeaderName = HeaderName::from_static("weir-call");

/// What answers a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    Live,
    Ready,
    Metrics,
    /// What is stopped, and the word to stop.
    Stops,
    /// What can be asked at the admin listener.
    OpenApi,
    /// The lane whose row it stands in.
    Lane,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// Agents that the gate knows.
    Agents,
    /// Everyone, for this reason.
    Everyone(&'static str),
    /// Whoever shows in the request itself that it may have what it asks for, as this says.
    Applicants(&'static str),
    /// The operator, on the admin listener, for this reason.
    Operator(&'static str),
}

/// One row of the table.
pub(crate) struct Route {
    /// The path: `*` stands for one segment, `**` at its end for one or more.
    pub template: &'static str,
    /// The methods that it answers. A lane refuses others itself, once it knows who asks.
    pub methods: &'static [Method],
    pub open: Open,
    /// Largest request body, in bytes, where it is not `limits.body_bytes_max` of the configuration.
    pub body_bytes_max: Option<usize>,
    /// The form of what is refused before the lane is asked.
    pub refuse: fn(&Refusal, CallId) -> Response,
    pub answers: Answers,
}

const PROBES: Open =
    Open::Everyone("orchestrators probe without credentials; it says one word to them");

/// The routes that no lane brings.
const OWN: &[Route] = &[
    page("/health/live", PROBES, Answers::Live),
    page("/health/ready", PROBES, Answers::Ready),
    page("/health", PROBES, Answers::Ready),
    page(
        "/metrics",
        Open::Operator("the names of servers and agents are not for who only calls"),
        Answers::Metrics,
    ),
    page(
        "/admin/openapi.json",
        Open::Operator("what can be asked here is for who asks here"),
        Answers::OpenApi,
    ),
    Route {
        methods: &[Method::GET, Method::PUT, Method::DELETE],
        body_bytes_max: Some(STOPS_BYTES_MAX),
        ..page(
            "/stops",
            Open::Operator("whoever stops agents is their operator"),
            Answers::Stops,
        )
    },
];

/// Bytes of what is to be stopped.
const STOPS_BYTES_MAX: usize = 64 << 10;

/// A page that is only read.
const fn page(template: &'static str, open: Open, answers: Answers) -> Route {
    Route {
        template,
        methods: &[Method::GET, Method::HEAD],
        open,
        body_bytes_max: Some(0),
        refuse: refuse::problem,
        answers,
    }
}

/// Every route, with the place of its lane in [`lanes::ALL`]. `docs/reference/routes.md` is made from it, and a test
/// tries each as a stranger.
pub(crate) fn all() -> impl Iterator<Item = (&'static Route, Option<usize>)> {
    let of_lanes = lanes::ALL.iter().enumerate();
    let of_lanes =
        of_lanes.flat_map(|(i, row)| row.routes.iter().map(move |route| (route, Some(i))));
    of_lanes.chain(OWN.iter().map(|route| (route, None)))
}

/// What a path leads to.
struct Found<'p> {
    route: &'static Route,
    /// The place of the lane that answers.
    lane: Option<usize>,
    /// The path from the first `*` of the route on.
    rest: &'p str,
}

/// The route of a path.
fn find(path: &str) -> Option<Found<'_>> {
    all().find_map(|(route, lane)| {
        let rest = rest_of(route.template, path)?;
        Some(Found { route, lane, rest })
    })
}

/// The form of what is refused at a path that has no route: that of the lane whose prefix it has, because who asks there
/// reads no other.
fn form(path: &str) -> fn(&Refusal, CallId) -> Response {
    let is_below = |route: &Route| {
        let stem = route.template.split_once('*').map(|(stem, _)| stem);
        stem.is_some_and(|stem| {
            path.starts_with(stem) || stem.strip_suffix('/').is_some_and(|stem| stem == path)
        })
    };
    let found = all().find(|(route, _)| is_below(route));
    found.map_or(refuse::problem, |(route, _)| route.refuse)
}

/// Whether a template takes a path.
#[cfg(test)]
pub(crate) fn leads_to(template: &str, path: &str) -> bool {
    rest_of(template, path).is_some()
}

/// The path from the template's first `*` on, where it has the template's form. `/web/*/**` takes `/web/a/b/c` and
/// gives `a/b/c`; an empty segment stands for nothing.
fn rest_of<'p>(template: &str, path: &'p str) -> Option<&'p str> {
    let Some(stem) = template.find('*') else {
        return (template == path).then_some("");
    };
    let (stem, stars) = template.split_at(stem);
    let rest = path.strip_prefix(stem)?;
    let (many, stars) = match stars.strip_suffix("**") {
        Some(stars) => (true, stars),
        None => (false, stars),
    };
    let mut segments = rest.split('/');
    let mut fits = |star: &str| {
        let segment = segments.next().unwrap_or_default();
        !segment.is_empty() && (star == "*" || star == segment)
    };
    let mut stars = stars.split('/').filter(|star| !star.is_empty());
    let all_fit = stars.all(&mut fits);
    let more = segments.next();
    let ends_well = match many {
        true => more.is_some_and(|segment| !segment.is_empty()),
        false => more.is_none(),
    };
    (all_fit && ends_well).then_some(rest)
}

/// The routes on one thread.
pub(crate) struct Routes {
    /// In the order of [`lanes::ALL`].
    pub lanes: Vec<Rc<dyn OnThread>>,
    pub running: Arc<[Arc<dyn Running>]>,
    pub gate: Arc<Gate>,
    pub metrics: Arc<Metrics>,
    pub edge: Arc<EdgeShared>,
    pub log: Arc<Log>,
    pub replica: Option<Arc<Replica>>,
    pub drain: Drain,
    /// Sites whose pages may call.
    pub origins: Arc<[String]>,
    pub stopping: Arc<Stopping>,
}

/// Who asks, by the listener that it came to.
#[derive(Clone, Copy)]
enum At<'a> {
    /// That of agents.
    Agents,
    /// That of the operator.
    Admin(&'a AdminAccess),
}

impl net::Service for Routes {
    async fn call(&self, request: Request) -> Response {
        self.serve(request, At::Agents).await
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        self.metrics.count_request("(none)", refusal.code.status);
        refuse::problem(refusal, new_call_id())
    }
}

/// The routes that the operator asks for, on the admin listener.
pub(crate) struct AdminPages {
    pub(crate) routes: Rc<Routes>,
    /// Who may ask for what, but for the pages of probes.
    pub(crate) access: Arc<AdminAccess>,
}

impl net::Service for AdminPages {
    async fn call(&self, request: Request) -> Response {
        self.routes.serve(request, At::Admin(&self.access)).await
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        self.routes.refuse(refusal)
    }
}

impl Routes {
    async fn serve(&self, request: Request, at: At<'_>) -> Response {
        let id = new_call_id();
        let named = request.id().and_then(|id| HeaderValue::try_from(id).ok());
        let method = request.head.method.clone();
        let path = request.head.uri.path().to_owned();
        let (template, mut response) = match find(&path) {
            Some(found) => (
                found.route.template,
                self.answer(found, request, id, at).await,
            ),
            None => {
                let refusal = Refusal::new(refusal::NOT_FOUND, "there is nothing at this path");
                ("(none)", form(&path)(&refusal, id))
            }
        };
        let status = response.status().as_u16();
        self.metrics.count_request(template, status);
        tracing::debug!(call = %id, %method, route = template, status, "answered");
        let call = HeaderValue::try_from(id.to_string()).expect("hex digits are visible");
        response
            .headers_mut()
            .insert(REQUEST_ID, named.unwrap_or_else(|| call.clone()));
        response.headers_mut().insert(CALL, call);
        response
    }

    async fn answer(
        &self,
        found: Found<'_>,
        mut request: Request,
        id: CallId,
        at: At<'_>,
    ) -> Response {
        let Found { route, lane, rest } = found;
        let near = is_near(&request);
        // By TLS a browser has seen a certificate for the name.
        let is_checked = near && !request.peer.is_tls;
        if is_checked && !origin::is_trusted_host(&request.head, &self.origins) {
            let public = "the Host of this request is not a name of this gateway";
            return (route.refuse)(&Refusal::new(refusal::HOST, public), id);
        }
        match may_ask(route, &request, near, at) {
            Ok(Some(actor)) => drop(request.head.extensions.insert(actor)),
            Ok(None) => {}
            Err(refusal) => return (route.refuse)(&refusal, id),
        }
        if let Err(refusal) = self.may_change(route, &request) {
            return (route.refuse)(&refusal, id);
        }
        if let Some(bytes_max) = route.body_bytes_max {
            request.bound_body(bytes_max);
        }
        if let Some(lane) = lane {
            let mut response = self.lanes[lane].answer(rest, request, id).await;
            let is_said = response.headers().contains_key(ALLOW);
            if response.status() == StatusCode::METHOD_NOT_ALLOWED && !is_said {
                allow(route, &mut response);
            }
            return response;
        }
        if !route.methods.contains(&request.head.method) {
            let refusal = Refusal::new(refusal::METHOD, "this page is not asked so");
            let mut response = (route.refuse)(&refusal, id);
            allow(route, &mut response);
            return response;
        }
        match route.answers {
            Answers::Live => health::live(),
            Answers::Ready => self.health().ready(near),
            Answers::Metrics | Answers::Lane => self.metrics_page(),
            Answers::OpenApi => json_response(&openapi::document()),
            Answers::Stops => match self.stops(request).await {
                Ok(response) => response,
                Err(refusal) => (route.refuse)(&refusal, id),
            },
        }
    }

    /// Refuses what two readers could take in two ways: several credentials of one kind (RFC 9449 §4.3). And where the
    /// operator's routes change something, pages of other sites.
    fn may_change(&self, route: &Route, request: &Request) -> Result<(), Refusal> {
        let fields = &request.head.headers;
        let is_open = matches!(route.open, Open::Everyone(_));
        let are_several = |name: &str| fields.get_all(name).iter().nth(1).is_some();
        if !is_open && are_several("authorization") {
            let public = "the request has several Authorization fields";
            return Err(Refusal::new(refusal::KEY_MALFORMED, public));
        }
        if !is_open && are_several("dpop") {
            let public = "the request has several proofs";
            return Err(Refusal::new(refusal::PROOF_INVALID, public));
        }
        match is_changing(route) {
            true => origin::check(&request.head, request.peer.is_tls, &[]),
            false => Ok(()),
        }
    }

    /// Says what is stopped, once it is what the operator wants: PUT names all of it, DELETE lifts it.
    async fn stops(&self, mut request: Request) -> Result<Response, Refusal> {
        let wanted = match request.head.method {
            Method::PUT => Some(wanted_stops(&json_bytes(&mut request).await?)?),
            Method::DELETE => Some(gate::Stops::default()),
            _ => None,
        };
        let actor = request.head.extensions.get::<AdminActor>();
        let by = actor.map_or("api", |actor| actor.by.as_str());
        if let Some(stops) = wanted {
            self.stopping.ask(&stops, by).map_err(|error| {
                let public = "the stops cannot be written into the state folder";
                Refusal::new(refusal::FAILED, public).with_private(error.to_string())
            })?;
        }
        let stopped = StopsView {
            stopped: self.stopping.in_force(),
        };
        Ok(json_response(&serde_json::json!(stopped)))
    }

    fn health(&self) -> Health<'_> {
        Health {
            gate: &self.gate,
            drain: &self.drain,
            lanes: self
                .running
                .iter()
                .filter_map(|lane| lane.health())
                .collect(),
            replica: self
                .replica
                .as_ref()
                .map(|replica| replica.health(&self.log)),
        }
    }

    fn metrics_page(&self) -> Response {
        let page = self.metrics.page(
            &self.edge,
            &self.log,
            self.replica.as_deref(),
            &self.running,
        );
        let mut response = Response::new(Body::Full(Bytes::from(page)));
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

/// The stops that a body names: `{"stop": ["all", "lane:web", "agent:dev"]}`.
fn wanted_stops(body: &[u8]) -> Result<gate::Stops, Refusal> {
    let bad = |why: String| Refusal::new(refusal::STOPS_INVALID, why);
    let wanted: StopsBody = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    let mut stops = gate::Stops::default();
    for word in &wanted.stop {
        let stop = crate::config::file::stopped(word);
        stopping::add(
            &mut stops,
            stop.map_err(|why| bad(format!("{word:?} {why}")))?,
        );
    }
    Ok(stops)
}

/// Whether a route is there for who asks; who that is, at the admin listener.
fn may_ask(
    route: &Route,
    request: &Request,
    near: bool,
    at: At<'_>,
) -> Result<Option<AdminActor>, Refusal> {
    let elsewhere = |public| Err(Refusal::new(refusal::NOT_FOUND, public));
    match (route.open, at) {
        (Open::Everyone(_), _) | (Open::Agents | Open::Applicants(_), At::Agents) => Ok(None),
        (Open::Agents | Open::Applicants(_), At::Admin(_)) => {
            elsewhere("agents are answered where listen says")
        }
        (Open::Operator(_), At::Agents) => {
            elsewhere("this page is at the admin listener; see admin.listen of the configuration")
        }
        (Open::Operator(_), At::Admin(access)) => access.admit(request, near).map(Some),
    }
}

/// Whether a route of the operator is more than read.
fn is_changing(route: &Route) -> bool {
    let is_read = |method: &Method| method == Method::GET || method == Method::HEAD;
    matches!(route.open, Open::Operator(_)) && !route.methods.iter().all(is_read)
}

/// Says which methods a route has, as a 405 has to (RFC 9110 §15.5.6).
fn allow(route: &Route, response: &mut Response) {
    let methods: Vec<&str> = route.methods.iter().map(Method::as_str).collect();
    let methods = HeaderValue::try_from(methods.join(", ")).expect("methods are visible");
    response.headers_mut().insert(ALLOW, methods);
}

/// Whether a program on this machine asks, for itself. What a proxy passes on is asked by someone else.
fn is_near(request: &Request) -> bool {
    let fields = &request.head.headers;
    let is_passed_on = PASSED_ON.iter().any(|name| fields.contains_key(*name));
    let peer = &request.peer;
    peer.caller.to_canonical().is_loopback() && !peer.is_unnamed && !is_passed_on
}

pub(crate) fn json_response(value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::Full(Bytes::from(value.to_string())));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// 128 random bits. Without randomness there are no ids, and nothing can be recorded: the process stops.
pub(crate) fn new_call_id() -> CallId {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system gives random bytes");
    CallId(bytes)
}

#[cfg(test)]
mod tests {
    use super::{find, rest_of};

    #[test]
    fn a_path_is_one_route_or_none() {
        let route = |path| find(path).map(|found| (found.route.template, found.rest));
        assert_eq!(route("/mcp/files"), Some(("/mcp/*", "files")));
        assert_eq!(route("/mcp"), Some(("/mcp", "")));
        assert_eq!(route("/health/live"), Some(("/health/live", "")));
        for none in [
            "/",
            "/mcp/",
            "/mcp/a/b",
            "/health/",
            "//health",
            "/metrics/x",
        ] {
            assert_eq!(route(none), None, "{none}");
        }
    }

    #[test]
    fn stars_stand_for_segments() {
        for (template, path, rest) in [
            ("/llm/*/v1/chat", "/llm/a/v1/chat", Some("a/v1/chat")),
            ("/llm/*/v1/chat", "/llm/a/v2/chat", None),
            ("/llm/*/v1/chat", "/llm//v1/chat", None),
            ("/llm/*/v1/chat", "/llm/a/v1/chat/x", None),
            ("/web/**", "/web/a/b", Some("a/b")),
            ("/web/**", "/web/a", Some("a")),
            ("/web/**", "/web/", None),
            ("/web/*/**", "/web/a/b/c", Some("a/b/c")),
            ("/web/*/**", "/web/a", None),
            ("/web/*/**", "/web/a/", None),
        ] {
            assert_eq!(rest_of(template, path), rest, "{template} {path}");
        }
    }
}
