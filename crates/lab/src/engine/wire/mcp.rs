//! MCP over streamable HTTP: sessions where the revision has them, questions, and pages of answers.
//!
//! Each connection has a session of its own. One that the server has forgotten is opened again once, as the
//! standard asks (2025-11-25, Streamable HTTP, session management), and that is counted. Requests that the server
//! makes of its client are counted as events and not answered: this client declares no capability.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::check::{Asked, Checker, head};
use super::desk::Job;
use super::dial::Body;
use super::exchange::{self, Life};
use super::fault::{Bad, quoted};
use super::link::Link;
use super::message::{VERSION, arguments};
use super::rpc::{self, Outcome, Question, version_of};
use super::sse::Parser;
use super::stream::{Media, kept};
use super::{Thread, exchange::settle};
use crate::plan::{Ask, Expect, McpRevision};
use crate::tally::Fault;

/// Most pages of one list.
pub(super) const PAGES_MAX: usize = 1000;
/// How long a stream may go on after its answer has come. After that the connection is given up, which is no fault.
const TAIL_MAX: Duration = Duration::from_millis(250);
/// How long the farewell to all sessions may take: a server may end a process for each of them.
pub(super) const FAREWELL_MAX: Duration = Duration::from_secs(5);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The state of one session.
#[derive(Default)]
pub(super) struct Session {
    id: Option<HeaderValue>,
    /// Requests made in it; the last one's id.
    asked: Cell<u64>,
}

/// Why a question has no answer.
enum Trouble {
    /// The server does not know the session any more.
    Expired,
    Bad(Bad),
}

impl From<Bad> for Trouble {
    fn from(bad: Bad) -> Trouble {
        Trouble::Bad(bad)
    }
}

/// Asks what the request's kind asks, to the last page.
///
/// # Errors
///
/// It is not answered, or not as it should be.
pub(super) async fn converse(
    thread: &Thread,
    link: &Link,
    life: &Life,
    revision: McpRevision,
) -> Result<(), Bad> {
    match questions(thread, link, life, revision).await {
        Ok(()) => Ok(()),
        Err(Trouble::Bad(bad)) => Err(bad),
        Err(Trouble::Expired) => {
            reopen(thread, link, life.step, revision).await?;
            match questions(thread, link, life, revision).await {
                Ok(()) => Ok(()),
                Err(Trouble::Bad(bad)) => Err(bad),
                Err(Trouble::Expired) => {
                    let what = "status 404, and again in a new session";
                    Err(Bad::new(Fault::Client, what))
                }
            }
        }
    }
}

async fn questions(
    thread: &Thread,
    link: &Link,
    life: &Life,
    revision: McpRevision,
) -> Result<(), Trouble> {
    let request = &thread.flow.requests[life.kind];
    let asked = Asked::default();
    let mut checker = Checker::new(&request.expect, &asked);
    let talk = Talk {
        thread,
        link,
        life,
        revision,
        expect: &request.expect,
    };
    match &request.ask {
        Some(Ask::List) => talk.list(&mut checker).await?,
        Some(Ask::Ping) => drop(talk.ask(Question::Ping, &mut checker).await?),
        Some(Ask::Call {
            tool,
            arguments: template,
        }) => {
            let arguments = arguments(template, &thread.at(life.number));
            let question = Question::Call {
                tool,
                arguments: &arguments,
            };
            talk.ask(question, &mut checker).await?;
        }
        Some(Ask::Initialize) | None => {
            return Err(Bad::new(Fault::Check, "this kind of request asks nothing").into());
        }
    }
    Ok(checker.finish()?)
}

/// Opens a link's session before the run begins, and counts that.
///
/// # Errors
///
/// The server does not open one, or speaks another revision.
pub(super) async fn open(thread: &Thread, link: &Link, revision: McpRevision) -> Result<(), Bad> {
    if let McpRevision::Stateless(_) = revision {
        return Ok(());
    }
    reopen(thread, link, 0, revision).await
}

/// Opens a session anew, and counts that under the kind that the plan has for it.
async fn reopen(
    thread: &Thread,
    link: &Link,
    step: usize,
    revision: McpRevision,
) -> Result<(), Bad> {
    let life = Life::new(
        thread.opening,
        step,
        Job {
            number: 0,
            intended_ns: thread.now_ns(),
        },
    );
    let expect = Expect::default();
    let talk = Talk {
        thread,
        link,
        life: &life,
        revision,
        expect: &expect,
    };
    *link.session.borrow_mut() = Session::default();
    let outcome = talk.initialize().await;
    settle(thread, link, &life, outcome.clone());
    outcome
}

/// Takes leave of a link's session, over a new connection where the old one ended. It is not counted.
pub(super) async fn close(thread: &Thread, link: &Link, revision: McpRevision) {
    let Some(id) = link.session.borrow_mut().id.take() else {
        return;
    };
    let message = &thread.messages[thread.opening];
    let Ok(mut request) = message.with(link.target, &thread.at(0), Bytes::new()) else {
        return;
    };
    *request.method_mut() = Method::DELETE;
    let headers = request.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.insert(SESSION, id);
    let version = HeaderValue::from_static(version_of(revision));
    headers.entry(VERSION).or_insert(version);
    if link.connect().await.is_ok()
        && link.ready().await
        && let Ok(answer) = link.send(request).await
    {
        // An end that does not come is not worth a word: the run is over.
        let _ = answer.into_body().collect().await;
    }
}

/// One dialogue.
struct Talk<'a> {
    thread: &'a Thread,
    link: &'a Link,
    life: &'a Life,
    revision: McpRevision,
    expect: &'a Expect,
}

impl Talk<'_> {
    async fn initialize(&self) -> Result<(), Bad> {
        let asked = Asked::default();
        let mut checker = Checker::new(self.expect, &asked);
        let outcome = match self.ask(Question::Initialize, &mut checker).await {
            Ok(outcome) => outcome,
            Err(Trouble::Bad(bad)) => return Err(bad),
            Err(Trouble::Expired) => return Err(Bad::new(Fault::Client, "status 404")),
        };
        let version = version_of(self.revision);
        let spoken = outcome.protocol_version.unwrap_or_default();
        if spoken != version {
            let what = format!("the server speaks MCP `{}`, not {version}", quoted(&spoken));
            return Err(Bad::new(Fault::Protocol, what));
        }
        let body = Bytes::from_static(rpc::INITIALIZED);
        let request = self.request(body, true)?;
        let answer = exchange::send(self.thread, self.link, self.life, request).await?;
        let status = answer.status();
        exchange::read(self.life, answer.into_body(), |_| {}).await?;
        if status.is_success() {
            return Ok(());
        }
        let what = format!("status {} to `notifications/initialized`", status.as_u16());
        Err(Bad::new(Fault::of_status(status.as_u16()), what))
    }

    async fn list(&self, checker: &mut Checker<'_>) -> Result<(), Trouble> {
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let page = self.ask(Question::List(cursor.as_deref()), checker).await?;
            match page.next_cursor {
                None => return Ok(()),
                next if next == cursor => break,
                next => cursor = next,
            }
        }
        Err(Bad::new(Fault::Protocol, "the list's pages have no end").into())
    }

    /// Asks one question and reads its answer.
    async fn ask(
        &self,
        question: Question<'_>,
        checker: &mut Checker<'_>,
    ) -> Result<Outcome, Trouble> {
        self.life.done_ns.set(None);
        let id = {
            let session = self.link.session.borrow();
            session.asked.set(session.asked.get() + 1);
            session.asked.get()
        };
        let body = Bytes::from(question.bytes(self.revision, id));
        let opening = question == Question::Initialize;
        let request = self.request(body, !opening)?;
        let named = request.headers().contains_key(SESSION);
        let answer = exchange::send(self.thread, self.link, self.life, request).await?;
        let (parts, body) = answer.into_parts();
        let judged = head(self.expect, &Asked::default(), &parts);
        if named && parts.status == StatusCode::NOT_FOUND {
            exchange::read(self.life, body, |_| {}).await?;
            return Err(Trouble::Expired);
        }
        if let Err(mut bad) = judged {
            let told = kept(self.life, body, checker).await?;
            if !told.is_empty() {
                bad.what = format!("{}: {}", bad.what, quoted(&String::from_utf8_lossy(&told)));
            }
            return Err(bad.into());
        }
        if opening {
            self.link.session.borrow_mut().id = parts.headers.get(SESSION).cloned();
        }
        Ok(match Media::of(&parts) {
            Media::Json => {
                let body = kept(self.life, body, checker).await?;
                let missing = || {
                    Bad::new(
                        Fault::Protocol,
                        "the answer is a message that answers nothing",
                    )
                };
                rpc::answer(&body, id)?.ok_or_else(missing)?
            }
            Media::Events => self.events(body, id, checker).await?,
            Media::Other => {
                exchange::read(self.life, body, |_| {}).await?;
                let what = "the answer is neither an event stream nor JSON by its content type";
                return Err(Bad::new(Fault::Protocol, what).into());
            }
        })
    }

    /// The request for a message; within a session it names it.
    fn request(&self, body: Bytes, within: bool) -> Result<Request<Body>, Bad> {
        let message = &self.thread.messages[self.life.kind];
        let at = self.thread.at(self.life.number);
        let made = message.with(self.link.target, &at, body);
        let mut request = made.map_err(|failure| self.thread.fail(failure))?;
        let headers = request.headers_mut();
        if within {
            let version = version_of(self.revision);
            headers
                .entry(VERSION)
                .or_insert(HeaderValue::from_static(version));
            if let Some(id) = &self.link.session.borrow().id {
                headers.insert(SESSION, id.clone());
            }
        }
        Ok(request)
    }

    /// Reads events up to the one with the answer. What follows is waited for shortly, so that the connection can
    /// be used again, and is no part of the answer's time.
    async fn events(
        &self,
        mut body: Incoming,
        id: u64,
        checker: &mut Checker<'_>,
    ) -> Result<Outcome, Bad> {
        let (mut parser, mut found, mut others) = (Parser::new(), None, 0);
        while found.is_none() {
            let Some(frame) = body.frame().await else {
                self.life.clean.set(true);
                found = Some(Err(Bad::new(
                    Fault::Stream,
                    "the stream ended without the answer",
                )));
                break;
            };
            let frame = frame.map_err(|error| cut(Bad::of(&error)));
            let Ok(piece) = frame?.into_data() else {
                continue;
            };
            checker.push(&piece);
            let pushed = parser.push(&piece, |event| {
                if found.is_some() || event.data.is_empty() {
                    return;
                }
                match rpc::answer(event.data, id) {
                    Ok(Some(outcome)) => found = Some(Ok(outcome)),
                    Ok(None) => others += 1,
                    Err(bad) => found = Some(Err(bad)),
                }
            });
            if let Err(long) = pushed {
                found = found.or(Some(Err(Bad::new(Fault::Protocol, long.to_string()))));
            }
        }
        self.life.done_ns.set(Some(self.thread.now_ns()));
        {
            let mut tallies = self.thread.tallies.borrow_mut();
            tallies.of(self.life.kind, self.life.step).tokens += others;
        }
        let tail = exchange::read(self.life, body, |_| {});
        if !matches!(tokio::time::timeout(TAIL_MAX, tail).await, Ok(Ok(()))) {
            self.link.spoil();
        }
        found.expect("the loop ends when something was found")
    }
}

/// A stream that is cut has not answered, which is more than a closed connection.
fn cut(bad: Bad) -> Bad {
    match bad.fault {
        Fault::Closed => Bad::new(Fault::Stream, "the stream was cut before the answer"),
        _ => bad,
    }
}
