//! Which path leads where, and who may ask. The third hop: from a request to its lane.

use std::sync::Arc;

use base::{CallId, Name, Refusal, refusal};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use net::{Body, Drain, EdgeShared, Request, Response};
use store::log::Log;

use crate::assemble::relay::Sides;
use crate::health::{self, Health};
use crate::metrics::Metrics;
use crate::refuse;

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
    Mcp,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// Agents that the gate knows.
    Agents,
    /// Everyone, for this reason.
    Everyone(&'static str),
    /// Whoever is on this machine, for this reason.
    ThisMachine(&'static str),
}

/// One row of the table.
pub(crate) struct Route {
    /// The path; `*` stands for one segment.
    pub template: &'static str,
    pub open: Open,
    pub answers: Answers,
}

const PROBES: Open =
    Open::Everyone("orchestrators probe without credentials; it says one word to them");

/// Every route. `docs/reference/routes.md` is made from it, and a test tries each as a stranger.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        template: "/mcp/*",
        open: Open::Agents,
        answers: Answers::Mcp,
    },
    Route {
        template: "/health/live",
        open: PROBES,
        answers: Answers::Live,
    },
    Route {
        template: "/health/ready",
        open: PROBES,
        answers: Answers::Ready,
    },
    Route {
        template: "/health",
        open: PROBES,
        answers: Answers::Ready,
    },
    Route {
        template: "/metrics",
        open: Open::ThisMachine(
            "scrapers of this machine; the names of servers are not for others",
        ),
        answers: Answers::Metrics,
    },
];

/// The route of a path, and what stood for its `*`.
pub(crate) fn find(path: &str) -> Option<(&'static Route, &str)> {
    ROUTES
        .iter()
        .find_map(|route| match route.template.strip_suffix('*') {
            None => (route.template == path).then_some((route, "")),
            Some(stem) => {
                let rest = path.strip_prefix(stem)?;
                (!rest.is_empty() && !rest.contains('/')).then_some((route, rest))
            }
        })
}

/// The routes on one thread.
pub(crate) struct Routes {
    pub mcp: mcp::McpLane,
    pub mcp_shared: Arc<mcp::Shared>,
    pub gate: Arc<gate::Gate>,
    pub metrics: Arc<Metrics>,
    pub edge: Arc<EdgeShared>,
    pub log: Arc<Log>,
    pub drain: Drain,
    pub relay: Sides,
}

impl net::Service for Routes {
    async fn call(&self, request: Request) -> Response {
        let id = new_call_id();
        let named = request.id().and_then(|id| HeaderValue::try_from(id).ok());
        let method = request.head.method.clone();
        let path = request.head.uri.path().to_owned();
        let (template, mut response) = match find(&path) {
            Some((route, rest)) => (route.template, self.answer(route, rest, request, id).await),
            None => {
                let refusal = Refusal::new(refusal::NOT_FOUND, "there is nothing at this path");
                ("(none)", refuse::problem(&refusal, id))
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

    fn refuse(&self, refusal: &Refusal) -> Response {
        self.metrics.count_request("(none)", refusal.code.status);
        refuse::problem(refusal, new_call_id())
    }
}

impl Routes {
    async fn answer(&self, route: &Route, rest: &str, request: Request, id: CallId) -> Response {
        let near = is_near(&request);
        if near && !self.mcp_shared.is_trusted_host(&request.head) {
            let public = "the Host of this request is not a name of this gateway";
            return refuse::problem(&Refusal::new(refusal::HOST, public), id);
        }
        if let Open::ThisMachine(why) = route.open
            && !near
        {
            let refusal = Refusal::new(refusal::FORBIDDEN, "this page answers its machine only");
            return refuse::problem(&refusal.with_private(why), id);
        }
        if route.answers == Answers::Mcp {
            let Some(server) = Name::new(rest) else {
                let refusal = Refusal::new(refusal::NOT_FOUND, "that cannot be a server's name");
                return refuse::problem(&refusal, id);
            };
            return self.mcp.serve(server, request, id).await;
        }
        if !matches!(request.head.method, Method::GET | Method::HEAD) {
            let refusal = Refusal::new(refusal::METHOD, "this page is only read");
            let mut response = refuse::problem(&refusal, id);
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(http::header::ALLOW, allow);
            return response;
        }
        match route.answers {
            Answers::Live => health::live(),
            Answers::Ready => Health {
                gate: &self.gate,
                mcp: &self.mcp_shared,
                drain: &self.drain,
                relay: &self.relay,
            }
            .ready(near),
            Answers::Metrics | Answers::Mcp => self.metrics_page(),
        }
    }

    fn metrics_page(&self) -> Response {
        let page = self
            .metrics
            .page(&self.edge, &self.mcp_shared, &self.log, &self.relay);
        let mut response = Response::new(Body::Full(Bytes::from(page)));
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

/// Whether a program on this machine asks, for itself. What a proxy passes on is asked by someone else.
fn is_near(request: &Request) -> bool {
    let fields = &request.head.headers;
    let is_passed_on = PASSED_ON.iter().any(|name| fields.contains_key(*name));
    request.peer.address.ip().to_canonical().is_loopback() && !is_passed_on
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
    use super::find;

    #[test]
    fn a_path_is_one_route_or_none() {
        let route = |path| find(path).map(|(route, rest)| (route.template, rest));
        assert_eq!(route("/mcp/files"), Some(("/mcp/*", "files")));
        assert_eq!(route("/health/live"), Some(("/health/live", "")));
        for none in [
            "/",
            "/mcp",
            "/mcp/",
            "/mcp/a/b",
            "/health/",
            "//health",
            "/metrics/x",
        ] {
            assert_eq!(route(none), None, "{none}");
        }
    }
}
