//! The routes of the target, all on one address.

use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;

use std::rc::Rc;

use super::answer::{Cut, Origin, Seen};
use super::body::Body;
use super::llm::{self, Aside, Dialect, Form};
use super::refuse::{Shape, drain, refuse};
use super::{BODY_BYTES_MAX, mcp, plain};

/// What answers a request.
pub(super) enum Route {
    /// So many bytes; None: as many as the settings say.
    Fixed(Option<u64>),
    Echo,
    Events,
    Models,
    Llm(Dialect),
    Aside(Aside),
    Mcp,
    Refused(StatusCode, String),
}

impl Route {
    pub(super) fn of(method: &Method, uri: &Uri) -> Route {
        let path = uri.path();
        let reads = method == Method::GET || method == Method::HEAD;
        if let Some(route) = posted(path, uri.query()) {
            return match *method {
                Method::POST => route,
                _ => Route::Refused(
                    StatusCode::METHOD_NOT_ALLOWED,
                    format!("{path} answers POST"),
                ),
            };
        }
        let route = match path {
            "/" => Route::Fixed(None),
            "/echo" => return Route::Echo,
            "/mcp" => return Route::Mcp,
            "/sse" => Route::Events,
            "/v1/models" | "/v1beta/models" => Route::Models,
            _ if named(path).is_some_and(|name| !name.is_empty()) => Route::Models,
            _ => match path.strip_prefix("/bytes/") {
                Some(count) => fixed(count),
                None => return Route::Refused(StatusCode::NOT_FOUND, unknown(path)),
            },
        };
        if reads {
            route
        } else {
            let what = format!("{path} answers GET and HEAD; /echo answers any method");
            Route::Refused(StatusCode::METHOD_NOT_ALLOWED, what)
        }
    }

    pub(super) async fn answer(
        self,
        origin: &Rc<Origin>,
        seen: &Rc<Seen>,
        nth: u64,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Cut> {
        match self {
            Route::Fixed(bytes) => Ok(plain::fixed(bytes.unwrap_or(origin.settings().body_bytes))),
            Route::Echo => plain::echo(request).await,
            Route::Events => Ok(plain::events(origin, seen, request.uri().query())),
            Route::Models => Ok(llm::models(origin, &request)),
            Route::Aside(aside) => llm::aside(aside, origin, request).await,
            Route::Llm(dialect) => llm::answer(dialect, origin, seen, nth, request).await,
            Route::Mcp => mcp::answer(origin, nth, request).await,
            Route::Refused(status, what) => {
                let shape = Shape::of(request.uri().path());
                // Read, so that the connection can be used again.
                drain(request.into_body()).await?;
                Ok(refuse(shape, status, &what))
            }
        }
    }
}

/// What is behind `models/` in a path.
fn named(path: &str) -> Option<&str> {
    let version = ["/v1/models/", "/v1beta/models/"];
    version.iter().find_map(|start| path.strip_prefix(start))
}

/// What models are asked for by POST.
fn posted(path: &str, query: Option<&str>) -> Option<Route> {
    let dialect = match path {
        "/v1/chat/completions" => Dialect::Chat,
        "/v1/responses" => Dialect::Responses,
        "/v1/messages" => Dialect::Messages,
        "/v1/messages/count_tokens" => return Some(Route::Aside(Aside::CountMessages)),
        "/v1/embeddings" => return Some(Route::Aside(Aside::Embeddings)),
        _ => return gemini(path, query),
    };
    Some(Route::Llm(dialect))
}

/// What Google's dialect has behind a model's name.
fn gemini(path: &str, query: Option<&str>) -> Option<Route> {
    let (model, verb) = named(path)?.rsplit_once(':')?;
    let is_events = query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
    let form = match (verb, is_events) {
        ("generateContent", _) => Form::Whole,
        ("streamGenerateContent", true) => Form::Events,
        ("streamGenerateContent", false) => Form::Array,
        ("countTokens", _) => return Some(Route::Aside(Aside::CountGemini)),
        ("embedContent", _) => return Some(Route::Aside(Aside::EmbedOne)),
        ("batchEmbedContents", _) => return Some(Route::Aside(Aside::EmbedBatch)),
        _ => return None,
    };
    let model = model.to_owned();
    Some(Route::Llm(Dialect::Gemini { model, form }))
}

fn fixed(count: &str) -> Route {
    match count.parse() {
        Ok(bytes @ 0..=BODY_BYTES_MAX) => Route::Fixed(Some(bytes)),
        _ => Route::Refused(
            StatusCode::BAD_REQUEST,
            format!("/bytes/N takes a number of bytes from 0 to {BODY_BYTES_MAX}"),
        ),
    }
}

fn unknown(path: &str) -> String {
    // The path comes back in part only, as it may be long.
    let shown: String = path.chars().take(80).collect();
    format!(
        "there is no {shown}; there are /, /bytes/N, /echo, /sse, /v1/chat/completions, /v1/responses, \
         /v1/embeddings, /v1/models, /v1/messages, /v1/messages/count_tokens, /v1beta/models, \
         /v1beta/models/M:VERB, /mcp, /lab/counts and /lab/reset"
    )
}
