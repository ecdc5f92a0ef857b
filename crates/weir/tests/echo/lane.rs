//! The smallest lane: text that an agent posts to `/echo/<name>` goes to one HTTP server, and its answer comes back.
//!
//! It exists in tests alone. `docs/adding-a-lane.md` walks through it, and a test counts what it touches.

use std::rc::Rc;
use std::sync::Arc;

use base::record::CallEnd;
use base::{Action, CallId, Entity, Lane, Name, Refusal, Resource, ScanAs, refusal};
use bytes::Bytes;
use gate::{Call, CallEnding, Channel, ContentPart, Gate, PartContent, Passed, Reach, Role};
use http::Method;
use http::header::AUTHORIZATION;
use identity::{Presented, Verified};
use net::{Body, Request, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::assemble::{WayOut, endpoint};
use crate::lanes::{Local, OnThread, Row, Running};
use crate::refuse;
use crate::routes::{Answers, Open, Route};

mod takeover;
#[cfg(test)]
mod tests;

const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The `echo:` section of the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// Where the text goes.
    #[schemars(required, example = &"http://127.0.0.1:9000")]
    pub url: ::config::Url,
}

// docs: table
static LANE: Lane = Lane {
    name: "echo",
    is_scanned: true,
    actions: &[&SEND],
    schema: include_str!("echo.cedarschema"),
};

static SEND: Action = Action {
    lane: &LANE,
    name: "echo:send",
    method: "send",
    entity: |resource| match resource {
        Resource::Server { server, .. } => Some(Entity::named("Server", server.as_str())),
        _ => None,
    },
    has_arguments: false,
    scan_as: ScanAs::Message,
    is_pinned: false,
};
// docs: end

/// Largest text that is sent, in bytes.
const ECHO_BYTES_MAX: usize = 4096;

// docs: row
pub(crate) const ROW: Row = Row {
    lane: &LANE,
    routes: &[
        route("/echo/*", &[Method::POST, Method::GET]),
        // CONNECT names a host and a port, and no path.
        route("", &[Method::CONNECT]),
    ],
    metrics: &[],
    endpoints: |settings| {
        let echo = settings.echo.iter();
        echo.map(|echo| (own_name(), endpoint(&echo.url, None)))
            .collect()
    },
    reach: |started, _| {
        let echo = started.echo.iter();
        echo.map(|_| (own_name(), Reach::loopback())).collect()
    },
    only_at_start: |old, new| match old.echo == new.echo {
        true => Vec::new(),
        false => vec!["echo".to_owned()],
    },
    reloaded: |_, _| Vec::new(),
    open: |settings, parts| {
        Ok(Arc::new(Echo {
            gate: Arc::clone(parts.gate),
            is_configured: settings.echo.is_some(),
            answer_ms: settings.limits.answer_ms,
        }))
    },
};
// docs: end

const fn route(template: &'static str, methods: &'static [Method]) -> Route {
    Route {
        template,
        methods,
        open: Open::Agents,
        body_bytes_max: Some(ECHO_BYTES_MAX),
        refuse: refuse::problem,
        answers: Answers::Lane,
    }
}

/// There is one server, and the lane calls it so.
fn own_name() -> Name {
    Name::new("echo").expect("echo is a name")
}

/// The lane of one process.
#[derive(Clone)]
struct Echo {
    gate: Arc<Gate>,
    is_configured: bool,
    answer_ms: u64,
}

impl Running for Echo {
    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread> {
        let (lane, out) = (self.clone(), out.clone());
        Rc::new(EchoThread { lane, out })
    }
}

struct EchoThread {
    lane: Echo,
    out: WayOut,
}

impl OnThread for EchoThread {
    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        Box::pin(async move {
            let sent = match takeover::is_asked(rest, &request.head.method) {
                true => self.take_over(request, id).await,
                false => self.send(rest, request, id).await,
            };
            sent.unwrap_or_else(|refusal| refuse::problem(&refusal, id))
        })
    }
}

impl EchoThread {
    // docs: send
    async fn send(
        &self,
        rest: &str,
        mut request: Request,
        id: CallId,
    ) -> Result<Response, Refusal> {
        let unknown = || Refusal::new(refusal::NOT_FOUND, "that cannot be a server's name");
        let resource = Resource::server(Name::new(rest).ok_or_else(unknown)?);
        let peer = request.peer.caller;
        let call = Call::new(id, peer, &SEND, &resource, "send");
        let shown = Presented::bearer(request.field(&AUTHORIZATION), peer);
        let verified = self.lane.gate.verify(&call, &shown).await?;
        request.is_of_known_agent();
        let (verified, body) = self.body(verified, &call, rest, &mut request).await?;
        let content = [ContentPart {
            role: Role::Body,
            path: "body",
            content: PartContent::Text(&body),
        }];
        let call = Call {
            content: &content,
            bytes: body.len() as u64,
            ..call
        };
        let mut passed = self.lane.gate.pass(verified, call).await?;
        let told = passed.redacted(0).map(Bytes::copy_from_slice);
        let answer = self.exchange(&mut passed, told.unwrap_or(body)).await;
        passed.end(match &answer {
            Ok(answer) => CallEnding {
                status: 200,
                bytes: answer.len() as u64,
                ..CallEnding::of(CallEnd::Complete)
            },
            Err(refusal) => CallEnding {
                why: Some((refusal.code.name, &refusal.private)),
                ..CallEnding::of(CallEnd::Failed)
            },
        });
        answer.map(|answer| Response::new(Body::Full(answer.into())))
    }
    // docs: end

    // docs: body
    /// What is sent, of a caller that is known: refusals of the lane itself are recorded.
    async fn body(
        &self,
        verified: Verified,
        call: &Call<'_>,
        rest: &str,
        request: &mut Request,
    ) -> Result<(Verified, Bytes), Refusal> {
        let is_ours = self.lane.is_configured && rest == "echo";
        let read = match (is_ours, &request.head.method) {
            (false, _) => Err(Refusal::new(
                refusal::SERVER_UNKNOWN,
                "no server has this name",
            )),
            (true, &Method::POST) => request.body().await,
            (true, _) => Err(Refusal::new(refusal::METHOD, "text is posted here")),
        };
        match read {
            Ok(body) => Ok((verified, body)),
            Err(refusal) => Err(self.lane.gate.reject(Some(&verified), call, refusal).await),
        }
    }
    // docs: end

    // docs: exchange
    /// There and back. What comes is scanned as it comes.
    async fn exchange(&self, passed: &mut Passed, text: Bytes) -> Result<Vec<u8>, Refusal> {
        let request = http::Request::post("/")
            .body(text)
            .expect("it has no fields");
        let upstreams = self.out.upstreams();
        let mut answer = upstreams.send(passed, request, self.lane.answer_ms).await?;
        let whole = answer.whole(ANSWER_BYTES_MAX, self.lane.answer_ms).await?;
        answer.reuse();
        let (mut channel, mut out) = (Channel::new(Role::ToolResult, "answer"), Vec::new());
        for piece in whole.chunks(4096) {
            channel.push(passed, piece, &mut out)?;
        }
        channel.finish(passed, &mut out)?;
        Ok(out)
    }
    // docs: end
}
