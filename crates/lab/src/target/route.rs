//! The routes of the target, all on one address.

use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;

use std::rc::Rc;

use super::answer::{Cut, Origin, Seen};
use super::body::Body;
use super::llm::{self, Dialect};
use super::refuse::{Shape, refuse};
use super::{BODY_BYTES_MAX, mcp, plain};

/// What answers a request.
pub(super) enum Route {
    /// So many bytes; None: as many as the settings say.
    Fixed(Option<u64>),
    Echo,
    Events,
    Models,
    Llm(Dialect),
    Mcp,
    Refused(StatusCode, String),
}

impl Route {
    pub(super) fn of(method: &Method, uri: &Uri) -> Route {
        let path = uri.path();
        let reads = method == Method::GET || method == Method::HEAD;
        let dialect = match path {
            "/v1/chat/completions" => Some(Dialect::Chat),
            "/v1/responses" => Some(Dialect::Responses),
            "/v1/messages" => Some(Dialect::Messages),
            _ => None,
        };
        if let Some(dialect) = dialect {
            return match *method {
                Method::POST => Route::Llm(dialect),
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
            "/v1/models" => Route::Models,
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
            Route::Models => Ok(llm::models(&request)),
            Route::Llm(dialect) => llm::answer(dialect, origin, seen, nth, request).await,
            Route::Mcp => mcp::answer(origin, nth, request).await,
            Route::Refused(status, what) => {
                let shape = Shape::of(request.uri().path());
                Ok(refuse(shape, status, &what))
            }
        }
    }
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
         /v1/models, /v1/messages, /mcp, /lab/counts and /lab/reset"
    )
}
