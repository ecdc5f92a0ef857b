//! A request that is passed on as it is: HTTP/1.1 in, HTTP/1.1 out, streamed both ways.
//!
//! It serves what an outbound does not seal, and both sides where TLS with certificates takes the place of the seal. It
//! sends again only what nobody can have seen.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use base::{Code, Refusal, limit, refusal};
use gate::Passed;
use net::h1::{Error, Fields, Framing, ServerConnection, Stream};
use net::{Lease, SendError, Upstreams};

use crate::outbound::path_of;
use crate::refuse;

/// What whoever asked is told where there is no answer.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    /// Nobody can have seen the request.
    pub(crate) unsent: &'static Code,
    /// It may have been executed.
    pub(crate) lost: &'static Code,
    /// Whether the other end is a weir that we know by its certificate: then it may answer in weir's own words.
    pub(crate) is_weir: bool,
}

impl Told {
    pub(crate) const PLAIN: Told = Told {
        unsent: refusal::RELAY_PLAIN,
        lost: refusal::RELAY_PLAIN,
        is_weir: false,
    };

    /// What follows a request by TLS to another weir: as after a sealed message.
    pub(crate) fn peer(method: &[u8]) -> Told {
        Told {
            is_weir: true,
            ..Told::mutual(method, refusal::RELAY_DOWN)
        }
    }

    /// The same of a request that came by TLS and goes to its origin.
    pub(crate) fn origin(method: &[u8]) -> Told {
        Told::mutual(method, refusal::RELAY_ORIGIN)
    }

    fn mutual(method: &[u8], unsent: &'static Code) -> Told {
        let lost = match is_safe(method) {
            true => refusal::RELAY_FAILED,
            false => refusal::RELAY_MAYBE,
        };
        Told {
            unsent,
            lost,
            is_weir: false,
        }
    }
}

/// Methods that may be executed again (RFC 9110 §9.2.1), of those that weir repeats.
pub(crate) fn is_safe(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS")
}

/// How it ended.
pub(crate) enum Ended {
    Done,
    /// Nothing was answered; this is what to say.
    Refused(Refusal),
    /// The application is gone, or its request is broken.
    App(Error),
    /// The answer broke off.
    Cut,
}

/// How it ended, and the bytes of both bodies.
pub(crate) struct Done {
    pub(crate) ended: Ended,
    pub(crate) bytes: u64,
}

type Shared<'a, T> = RefCell<&'a mut T>;

/// Passes one request on. `ours` says which fields are for this relay alone.
pub(crate) async fn pass(
    server: &mut ServerConnection<Stream>,
    upstreams: &Upstreams<Passed>,
    permit: &Passed,
    ours: &dyn Fn(&[u8]) -> bool,
    told: Told,
) -> Done {
    let mut bytes = 0;
    let ended = match try_pass(server, upstreams, permit, ours, told, &mut bytes).await {
        Ok(()) => Ended::Done,
        Err(ended) => ended,
    };
    Done { ended, bytes }
}

async fn try_pass(
    server: &mut ServerConnection<Stream>,
    upstreams: &Upstreams<Passed>,
    permit: &Passed,
    ours: &dyn Fn(&[u8]) -> bool,
    told: Told,
    bytes: &mut u64,
) -> Result<(), Ended> {
    let mut wire = upstreams
        .take(permit, limit::DIAL_MS_MAX)
        .await
        .map_err(|error| unreachable(error, told))?;
    begin(server, &mut wire, ours)?;
    // A body of which nothing was read yet: the request can go out by another connection.
    if wire.flush().await.is_err() && wire.written() == 0 && !wire.is_fresh() {
        wire = upstreams
            .dial(permit, limit::DIAL_MS_MAX)
            .await
            .map_err(|error| unreachable(error, told))?;
        begin(server, &mut wire, ours)?;
    }
    let counted = std::cell::Cell::new(0);
    let done = {
        let (server, wire) = (RefCell::new(server), RefCell::new(&mut wire));
        let mut up = pin!(up(&server, &wire, &counted));
        let mut down = pin!(down(&server, &wire, told, &counted));
        let mut going_up = true;
        poll_fn(|context| {
            if let Poll::Ready(done) = down.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            if going_up && let Poll::Ready(sent) = up.as_mut().poll(context) {
                going_up = false;
                if let Err(Some(error)) = sent {
                    return Poll::Ready(Err(Ended::App(error)));
                }
                return down.as_mut().poll(context);
            }
            Poll::Pending
        })
        .await
    };
    *bytes += counted.get();
    done
}

fn unreachable(error: SendError, told: Told) -> Ended {
    Ended::Refused(match error {
        SendError::Refused(refusal) => refusal,
        error => failed(told.unsent).with_private(error.to_string()),
    })
}

fn failed(code: &'static Code) -> Refusal {
    Refusal::new(code, "the server did not answer")
}

/// Writes the head of the request.
fn begin(
    server: &ServerConnection<Stream>,
    wire: &mut Lease,
    ours: &dyn Fn(&[u8]) -> bool,
) -> Result<(), Ended> {
    let request = server.request();
    let fields = request.fields();
    let fields = fields.passed_on().filter(|(name, _)| !ours(name));
    let (method, target) = (request.method(), path_of(request.target()));
    let framing = request.framing();
    let begun = wire.request(method, target, request.authority(), fields, framing);
    begun.map_err(|_| {
        let public = "the request cannot be passed on";
        Ended::Refused(Refusal::new(refusal::RELAY_FORM, public))
    })
}

/// The request's body. An error without one of the application's is the server's, which may have answered.
async fn up(
    server: &Shared<'_, ServerConnection<Stream>>,
    wire: &Shared<'_, Lease>,
    counted: &std::cell::Cell<u64>,
) -> Result<(), Option<Error>> {
    loop {
        poll_fn(|context| {
            let filled = server.borrow_mut().poll_fill(context, 1);
            if filled.is_pending()
                && let Poll::Ready(Err(_)) = wire.borrow_mut().poll_flush(context)
            {
                return Poll::Ready(Err(None));
            }
            filled.map_err(Some)
        })
        .await?;
        let is_last = {
            let (mut server, mut wire) = (server.borrow_mut(), wire.borrow_mut());
            let data = server.filled();
            let bytes = data.len();
            let data: &[u8] = data;
            wire.body_with(|out| out.extend_from_slice(data))
                .map_err(|_| None)?;
            server.consume(bytes);
            counted.set(counted.get() + bytes as u64);
            let is_last = server.is_body_here();
            if is_last {
                wire.end_with(server.trailers().passed_on())
                    .map_err(|_| None)?;
            }
            is_last
        };
        poll_fn(|context| wire.borrow_mut().poll_flush(context))
            .await
            .map_err(|_| None)?;
        if is_last {
            return Ok(());
        }
    }
}

/// Those fields for whoever asked that may pass.
fn passed<'f>(
    fields: Fields<'f>,
    may_pass: impl Fn(&[u8]) -> bool,
) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    fields.passed_on().filter(move |(name, _)| may_pass(name))
}

/// The answer.
async fn down(
    server: &Shared<'_, ServerConnection<Stream>>,
    wire: &Shared<'_, Lease>,
    told: Told,
    counted: &std::cell::Cell<u64>,
) -> Result<(), Ended> {
    let lost = |_| Ended::Refused(failed(told.lost));
    let may_pass = |name: &[u8]| told.is_weir || !refuse::is_ours(name);
    loop {
        let answered = poll_fn(|context| wire.borrow_mut().poll_answer(context)).await;
        if answered.is_err() && wire.borrow().written() == 0 {
            return Err(Ended::Refused(failed(told.unsent)));
        }
        answered.map_err(lost)?;
        let (mut server, wire) = (server.borrow_mut(), wire.borrow());
        let answer = wire.answered();
        let (status, fields) = (answer.status(), answer.fields());
        if !answer.is_informational() {
            let framing = match (answer.framing(), answer.length()) {
                (Framing::UntilClose, _) => Framing::Chunked,
                (Framing::None, Some(bytes)) if status != 204 => Framing::Length(bytes),
                (framing, _) => framing,
            };
            // A status that no answer may have.
            let responded = server.respond(status, passed(fields, may_pass), framing);
            responded.map_err(lost)?;
            break;
        }
        if status != 100 || server.request().expects_continue() {
            let informed = server.inform(status, passed(fields, may_pass));
            informed.map_err(lost)?;
        }
    }
    loop {
        flush(server).await?;
        let filled = poll_fn(|context| wire.borrow_mut().poll_fill(context, 1)).await;
        filled.map_err(|_| Ended::Cut)?;
        let (mut server, mut wire) = (server.borrow_mut(), wire.borrow_mut());
        let data: &[u8] = wire.filled();
        let bytes = data.len();
        server
            .body_with(|out| out.extend_from_slice(data))
            .map_err(|_| Ended::Cut)?;
        wire.consume(bytes);
        counted.set(counted.get() + bytes as u64);
        if wire.is_body_here() {
            let ended = server.end_with(passed(wire.trailers(), may_pass));
            ended.map_err(|_| Ended::Cut)?;
            break;
        }
    }
    flush(server).await
}

async fn flush(server: &Shared<'_, ServerConnection<Stream>>) -> Result<(), Ended> {
    let flushed = poll_fn(|context| server.borrow_mut().poll_flush(context)).await;
    flushed.map_err(Ended::App)
}
