//! The life of one request: due, sent, answered or failed, counted once.
//!
//! Whatever happens, a request that was begun is counted with exactly one outcome, under the step in which it was
//! due. The clock is read when a request leaves and when a piece of its answer arrives.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use base::hex;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustls::AlertDescription;
use tokio::time::Sleep;

use super::check::{Asked, Checker, head};
use super::desk::Job;
use super::dial::{Body, tls_words};
use super::fault::Bad;
use super::link::{Link, Unsent};
use super::{Thread, mcp, stream};
use crate::exit::Failure;
use crate::plan::Protocol;
use crate::result::Note;
use crate::tally::{Fault, Metric, Tally};

/// Pause after a connection that could not be made, which doubles each time.
const BACKOFF: Duration = Duration::from_millis(10);
/// Most doublings of it.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;

/// What is known of one request while it lives. Instants are nanoseconds from the start.
pub(super) struct Life {
    pub kind: usize,
    pub step: usize,
    pub number: u64,
    intended_ns: u64,
    sent_ns: Cell<Option<u64>>,
    /// How long it waited for its connection to be made, before it was sent.
    dial_ns: Cell<u64>,
    /// When the answer was complete, where that is before its stream's end.
    pub done_ns: Cell<Option<u64>>,
    deadline_ns: Cell<u64>,
    /// The last answer was read to its end, so the connection can carry another.
    pub clean: Cell<bool>,
}

impl Life {
    pub(super) fn new(kind: usize, step: usize, job: Job) -> Life {
        Life {
            kind,
            step,
            number: job.number,
            intended_ns: job.intended_ns,
            sent_ns: Cell::new(None),
            dial_ns: Cell::new(0),
            done_ns: Cell::new(None),
            deadline_ns: Cell::new(u64::MAX),
            clean: Cell::new(true),
        }
    }

    /// When it was sent.
    pub(super) fn sent_ns(&self) -> u64 {
        self.sent_ns.get().unwrap_or(self.intended_ns)
    }
}

/// Why a request was not waited for any more.
enum Cut {
    Timeout,
    Stopped,
}

/// The timer of one place. It is set rarely: all requests have the same timeout, so one that fires too early is
/// set again, and one that was answered costs nothing.
pub(super) struct Watch {
    place: usize,
    sleep: Pin<Box<Sleep>>,
}

impl Watch {
    pub(super) fn new(place: usize) -> Watch {
        Watch {
            place,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    async fn guard<T>(
        &mut self,
        thread: &Thread,
        life: &Life,
        future: impl Future<Output = T>,
    ) -> Result<T, Cut> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            if thread.cut.get() {
                return Poll::Ready(Err(Cut::Stopped));
            }
            thread.desk.watch(self.place, cx.waker());
            while self.sleep.as_mut().poll(cx).is_ready() {
                let left_ns = life.deadline_ns.get().saturating_sub(thread.now_ns());
                if left_ns == 0 {
                    return Poll::Ready(Err(Cut::Timeout));
                }
                let left = Duration::from_nanos(left_ns).min(thread.flow.timeout);
                self.sleep
                    .as_mut()
                    .reset(tokio::time::Instant::now() + left);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a while, or until nothing more is to be sent.
    pub(super) async fn rest(&mut self, thread: &Thread, lasting: Duration) {
        let mut sleep = pin!(tokio::time::sleep(lasting));
        poll_fn(|cx| {
            if thread.cut.get() || thread.is_over() {
                return Poll::Ready(());
            }
            thread.desk.watch(self.place, cx.waker());
            sleep.as_mut().poll(cx)
        })
        .await;
    }
}

/// Sends one request, reads its answer, counts it. Gives how long the place should pause.
pub(super) async fn carry_out(
    thread: &Thread,
    link: &Link,
    watch: &mut Watch,
    job: Job,
) -> Duration {
    let flow = &thread.flow;
    let step = flow.profile.step_at(job.intended_ns);
    let life = Life::new(flow.kind_of(job.number), step, job);
    let outcome = watch
        .guard(thread, &life, converse(thread, link, &life))
        .await;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Cut::Timeout) => Err(Bad::new(Fault::Timeout, "no answer within the timeout")),
        Err(Cut::Stopped) => Err(Bad::new(Fault::Unfinished, "the run ended first")),
    };
    if outcome.is_err() && (!life.clean.get() || life.sent_ns.get().is_none()) {
        link.spoil();
    }
    settle(thread, link, &life, outcome);
    match link.refused() {
        0 => flow.pause,
        times => flow
            .pause
            .max(BACKOFF * 2_u32.pow((times - 1).min(BACKOFF_DOUBLINGS_MAX))),
    }
}

async fn converse(thread: &Thread, link: &Link, life: &Life) -> Result<(), Bad> {
    match &thread.flow.protocol {
        Protocol::Mcp(revision) => mcp::converse(thread, link, life, *revision).await,
        Protocol::Http1 | Protocol::Http2 { .. } => plain(thread, link, life).await,
        Protocol::Sse | Protocol::Openai | Protocol::Anthropic => {
            stream::converse(thread, link, life).await
        }
    }
}

/// Renders and sends the request of a kind that needs no dialogue.
///
/// # Errors
///
/// It cannot be rendered, sent, or is not answered.
pub(super) async fn ask(
    thread: &Thread,
    link: &Link,
    life: &Life,
) -> Result<(Response<Incoming>, Asked), Bad> {
    let message = &thread.messages[life.kind];
    let built = message.build(link.target, &thread.at(life.number));
    let (request, asked) = built.map_err(|failure| thread.fail(failure))?;
    let answer = send(thread, link, life, request).await?;
    Ok((answer, asked))
}

async fn plain(thread: &Thread, link: &Link, life: &Life) -> Result<(), Bad> {
    let (answer, asked) = ask(thread, link, life).await?;
    let expect = &thread.flow.requests[life.kind].expect;
    let (parts, body) = answer.into_parts();
    let judged = head(expect, &asked, &parts);
    let mut checker = Checker::new(expect, &asked);
    read(life, body, |piece| checker.push(piece)).await?;
    judged.and_then(|()| checker.finish())
}

/// Reads a body to its end.
///
/// # Errors
///
/// It does not come whole.
pub(super) async fn read(
    life: &Life,
    mut body: Incoming,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Bad> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Bad::of(&error))?;
        if let Some(piece) = frame.data_ref() {
            take(piece);
        }
    }
    life.clean.set(true);
    Ok(())
}

/// Sends one request of a life, over a new connection if the old one is gone, and gives the head of its answer.
///
/// # Errors
///
/// It cannot be sent, or is not answered.
pub(super) async fn send(
    thread: &Thread,
    link: &Link,
    life: &Life,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, Bad> {
    // The second time is for a connection that the server closed just before the request would have left.
    for _ in 0..2 {
        connect(thread, link, life).await?;
        if life.sent_ns.get().is_none() {
            let now_ns = thread.now_ns();
            life.sent_ns.set(Some(now_ns));
            let timeout_ns = thread.flow.timeout.as_nanos() as u64;
            life.deadline_ns.set(now_ns.saturating_add(timeout_ns));
            thread.in_flight.set(thread.in_flight.get() + 1);
            thread.tallies.borrow_mut().of(life.kind, life.step).sent += 1;
        }
        life.clean.set(false);
        match link.send(request).await {
            Ok(answer) => {
                thread.spoken.set(true);
                count_status(thread, life, answer.status());
                return Ok(answer);
            }
            Err(Unsent::Back(back)) => request = *back,
            Err(Unsent::Failed(bad)) => return Err(thread.stranger(link, bad)),
        }
    }
    Err(Bad::new(
        Fault::Closed,
        "the server closes connections before a request can be sent",
    ))
}

/// Makes sure that the connection can take a request.
async fn connect(thread: &Thread, link: &Link, life: &Life) -> Result<(), Bad> {
    if link.ready().await {
        return Ok(());
    }
    let begun_ns = thread.now_ns();
    let made = link.connect().await.map_err(|refused| refused.bad)?;
    if life.sent_ns.get().is_none() {
        let lasted_ns = thread.now_ns().saturating_sub(begun_ns);
        life.dial_ns.set(life.dial_ns.get() + lasted_ns);
    }
    count_connection(thread, life.kind, life.step, made);
    if link.ready().await {
        return Ok(());
    }
    let bad = Bad::new(Fault::Closed, "the server closes connections at once");
    Err(thread.stranger(link, bad))
}

/// Counts a connection that was made, with its times.
pub(super) fn count_connection(
    thread: &Thread,
    kind: usize,
    step: usize,
    made: Option<(u64, Option<u64>)>,
) {
    let Some((connect_ns, tls_ns)) = made else {
        return;
    };
    let mut tallies = thread.tallies.borrow_mut();
    let tally = tallies.of(kind, step);
    tally.connections += 1;
    tally.record(Metric::Connect, connect_ns);
    if let Some(tls_ns) = tls_ns {
        tally.record(Metric::Tls, tls_ns);
    }
}

fn count_status(thread: &Thread, life: &Life, status: StatusCode) {
    let mut tallies = thread.tallies.borrow_mut();
    tallies.of(life.kind, life.step).status(status.as_u16());
}

/// Counts a request's end.
pub(super) fn settle(thread: &Thread, link: &Link, life: &Life, outcome: Result<(), Bad>) {
    let now_ns = thread.now_ns();
    let done_ns = life.done_ns.get().unwrap_or(now_ns);
    let (written, read) = link.meter.take();
    if life.sent_ns.get().is_some() {
        thread
            .in_flight
            .set(thread.in_flight.get().saturating_sub(1));
    }
    let mut tallies = thread.tallies.borrow_mut();
    let tally = tallies.of(life.kind, life.step);
    tally.bytes_out += written;
    tally.bytes_in += read;
    match outcome {
        Ok(()) => good(tally, life, done_ns),
        Err(bad) => {
            tally.failed(bad.fault, life.intended_ns, now_ns);
            if is_noteworthy(thread, bad.fault) {
                tallies.note(|| note(thread, life, bad, now_ns));
            }
        }
    }
    if thread.begun() {
        tallies.tick(now_ns, thread.in_flight.get(), thread.desk.waiting() as u64);
    }
}

/// Counts a good answer. The time in which a connection was made is the target's: it is in the response, and not
/// in the generator's lag.
fn good(tally: &mut Tally, life: &Life, done_ns: u64) {
    let waited_ns = life.sent_ns().saturating_sub(life.intended_ns);
    tally.completed += 1;
    tally.good += 1;
    tally.record(Metric::Response, done_ns.saturating_sub(life.intended_ns));
    tally.record(Metric::Service, done_ns.saturating_sub(life.sent_ns()));
    tally.record(Metric::Lag, waited_ns.saturating_sub(life.dial_ns.get()));
}

/// Whether a fault needs words. A status speaks for itself, but for MCP, whose errors are in the body.
fn is_noteworthy(thread: &Thread, fault: Fault) -> bool {
    match fault {
        _ if thread.flow.names_failures => true,
        Fault::Limited | Fault::Client | Fault::Server | Fault::Status => {
            matches!(thread.flow.protocol, Protocol::Mcp(_))
        }
        fault => fault.has_answer() || fault == Fault::Protocol,
    }
}

fn note(thread: &Thread, life: &Life, bad: Bad, now_ns: u64) -> Note {
    let spot = bad.spot.as_ref();
    Note {
        flow: thread.flow.name.clone(),
        fault: bad.fault.as_str().to_owned(),
        number: life.number,
        t_s: now_ns as f64 / 1e9,
        what: bad.what,
        offset: spot.map(|spot| spot.offset),
        expected_hex: spot.map(|spot| hex::encode(&spot.expected)),
        received_hex: spot.map(|spot| hex::encode(&spot.received)),
    }
}

impl Thread {
    /// Ends the run if the very first answer shows that this is no HTTP, or that TLS refuses us after all.
    fn stranger(&self, link: &Link, bad: Bad) -> Bad {
        if self.spoken.get() {
            return bad;
        }
        let target = &self.flow.targets[link.target].authority;
        let version = match self.flow.protocol {
            Protocol::Http2 { .. } => "HTTP/2",
            _ => "HTTP/1.1",
        };
        match bad.fault {
            Fault::Tls => {
                let alert = AlertDescription::CertificateRequired;
                let (_, help) = tls_words(&rustls::Error::AlertReceived(alert), target);
                let what = format!("{target} refuses the client: {}", bad.what);
                self.fail(Failure::new(what, help));
            }
            // HTTP/2 begins with a frame of the server's; who ends the connection instead does not speak it.
            Fault::Protocol | Fault::Closed | Fault::Reset
                if bad.fault == Fault::Protocol || version == "HTTP/2" =>
            {
                self.fail(Failure::new(
                    format!("{target} does not speak {version}: {}", bad.what),
                    "look at the port, at the scheme, and at the version that it speaks",
                ));
            }
            _ => {}
        }
        bad
    }
}
