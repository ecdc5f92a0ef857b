//! Load over everything that the hot path leaves out: TLS, HTTP/2, MCP, streams of models and of events.
//!
//! One runtime of one thread for each share, with hyper's connections and no pool: each connection is a place of
//! the load, and each stream of HTTP/2 is one. Everything of a thread lives in [`Thread`], which its tasks share
//! without locks. It follows the same schedule and counts in the same tallies as `fast`.

mod alarm;
mod check;
mod desk;
mod dial;
mod exchange;
mod fault;
mod link;
pub mod llm;
mod mcp;
mod message;
pub mod rpc;
pub mod sse;
mod stream;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_local};

use self::alarm::Alarm;
use self::desk::{Desk, Job, Offered};
use self::dial::Dialer;
use self::exchange::{Watch, carry_out, count_connection};
use self::fault::Bad;
use self::link::Link;
use self::message::Message;
use crate::engine::{Begin, Control, STOP_LOOK, Share, Tallies};
use crate::exit::Failure;
use crate::plan::{Ask, Flow, Model, Protocol, Request};
use crate::schedule::Sequence;
use crate::tally::Fault;
use crate::template::At;

/// Connections that one thread makes at once before the run: more would overrun a server's backlog.
const DIALS_MAX: usize = 32;
/// How often the thread looks at levels, at the interval's end, and whether to stop.
const LOOK: Duration = Duration::from_millis(STOP_LOOK.as_millis() as u64 / 10);
/// Task polls between two looks at the sockets and at the timer: few, so that arrivals are on time.
const POLLS_BETWEEN_LOOKS: u32 = 8;
/// Arrivals handed out before others get a turn.
const OFFERS_IN_A_ROW: u64 = 32;

/// What the tasks of one generator thread share.
pub struct Thread {
    pub flow: Arc<Flow>,
    /// By kind of request.
    pub messages: Vec<Message>,
    /// The kind under which sessions are opened.
    pub opening: usize,
    pub tallies: RefCell<Tallies>,
    pub desk: Desk,
    pub in_flight: Cell<u64>,
    /// Nothing is waited for any more.
    pub cut: Cell<bool>,
    /// The target has given an answer that is HTTP.
    pub spoken: Cell<bool>,
    control: Arc<Control>,
    number: u64,
    seed: u64,
    run: String,
    /// From where time counts: the thread's begin, and then the run's.
    origin: Cell<Instant>,
    begin: Cell<Option<Begin>>,
    /// Requests that closed places have begun.
    begun: Cell<u64>,
    failure: RefCell<Option<Failure>>,
}

impl Thread {
    fn new(share: &Share) -> Result<Thread, Failure> {
        let flow = share.flow.clone();
        let build = |request: &Request| Message::new(&flow, request);
        let messages = flow.requests.iter().map(build).collect::<Result<_, _>>()?;
        let opens = |request: &Request| matches!(request.ask, Some(Ask::Initialize));
        let queue_max = match flow.model {
            Model::Closed => 0,
            Model::Open { queue_max, .. } => queue_max.div_ceil(flow.threads),
        };
        let places = flow.connections_of(share.thread) * streams(&flow);
        Ok(Thread {
            messages,
            opening: flow.requests.iter().position(opens).unwrap_or(0),
            tallies: RefCell::new(Tallies::new(share)),
            desk: Desk::new(places, queue_max),
            in_flight: Cell::new(0),
            cut: Cell::new(false),
            spoken: Cell::new(false),
            control: share.control.clone(),
            number: share.thread as u64,
            seed: share.seed,
            run: share.run.clone(),
            origin: Cell::new(Instant::now()),
            begin: Cell::new(None),
            begun: Cell::new(0),
            failure: RefCell::new(None),
            flow,
        })
    }

    /// Nanoseconds since the run began; before that, since the thread did.
    pub fn now_ns(&self) -> u64 {
        self.origin.get().elapsed().as_nanos() as u64
    }

    /// Whether the run has begun.
    pub fn begun(&self) -> bool {
        self.begin.get().is_some()
    }

    /// Whether the last stage has ended.
    pub fn is_over(&self) -> bool {
        self.now_ns() >= self.flow.profile.end_ns()
    }

    /// What a request of this number is rendered from.
    pub fn at(&self, number: u64) -> At<'_> {
        let unix_ns = match self.begin.get() {
            Some(begin) => begin.unix_ns + self.now_ns(),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos() as u64),
        };
        At {
            seed: self.seed,
            run: &self.run,
            number,
            feeds: &self.flow.feeds,
            unix_ns,
        }
    }

    /// Ends the run. The first word stands. Gives what the request that found it is counted as.
    pub fn fail(&self, failure: Failure) -> Bad {
        self.failure.borrow_mut().get_or_insert(failure);
        self.cut.set(true);
        Bad::new(Fault::Unfinished, "the run ended first")
    }

    /// The next request of a place, when it is time for it; nothing when there will be none.
    async fn next(&self, place: usize, link: &Link) -> Option<Job> {
        let closed = self.flow.model == Model::Closed;
        poll_fn(|cx| {
            if self.cut.get() {
                return Poll::Ready(None);
            }
            if !closed {
                return self.desk.take(place, cx.waker());
            }
            let now_ns = self.now_ns();
            if now_ns >= self.flow.profile.end_ns() {
                return Poll::Ready(None);
            }
            if (link.number as f64) < self.flow.profile.level_at(now_ns) {
                return Poll::Ready(Some(self.job(now_ns)));
            }
            self.desk.watch(place, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// The next closed request. Threads take numbers in turn, so that no two have the same.
    fn job(&self, intended_ns: u64) -> Job {
        let begun = self.begun.replace(self.begun.get() + 1);
        Job {
            number: self.number + begun * self.flow.threads as u64,
            intended_ns,
        }
    }

    /// Counts an arrival that is never sent.
    fn lose(&self, job: Job, dropped: bool) {
        let (kind, step) = (
            self.flow.kind_of(job.number),
            self.flow.profile.step_at(job.intended_ns),
        );
        let mut tallies = self.tallies.borrow_mut();
        let tally = tallies.of(kind, step);
        if dropped {
            tally.dropped += 1;
        } else {
            tally.failed(Fault::Unfinished, job.intended_ns, self.now_ns());
        }
    }

    /// Counts an arrival that has to wait.
    fn queue(&self, job: Job) {
        let (kind, step) = (
            self.flow.kind_of(job.number),
            self.flow.profile.step_at(job.intended_ns),
        );
        self.tallies.borrow_mut().of(kind, step).queued += 1;
    }
}

/// Requests in flight on one connection.
fn streams(flow: &Flow) -> usize {
    match flow.protocol {
        Protocol::Http2 { streams } => streams.max(1),
        _ => 1,
    }
}

/// Carries out one thread's share. Calls `share.control.ready()` once its connections are made.
///
/// # Errors
///
/// The target cannot be reached before the run begins, or is not what it should be.
pub fn run(share: Share) -> Result<(), Failure> {
    // A platform that cannot do this has coarser timers, and the lag says so.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(POLLS_BETWEEN_LOOKS)
        .build_local(tokio::runtime::LocalOptions::default());
    let runtime = runtime.map_err(|error| {
        Failure::new(
            format!("a generator thread has no runtime: {error}"),
            "raise the limit of open files with `ulimit -n`",
        )
    })?;
    runtime.block_on(carry(share))
}

async fn carry(share: Share) -> Result<(), Failure> {
    let thread = Rc::new(Thread::new(&share)?);
    drop(share);
    let links = links(&thread)?;
    let driven = drive(&thread, &links).await;
    // Also where nothing was measured: what was opened is closed.
    farewell(&thread, &links).await;
    match driven? {
        true => finish(thread),
        false => Ok(()),
    }
}

/// Makes all connections and carries out the run. False where the run did not begin.
async fn drive(thread: &Rc<Thread>, links: &[Rc<Link>]) -> Result<bool, Failure> {
    prepare(thread, links).await?;
    if thread.control.stopped() {
        return Ok(false);
    }
    let alarm = Alarm::new().map_err(|error| {
        let what = format!("a timer cannot be made: {error}");
        Failure::new(what, "raise the limit of open files with `ulimit -n`")
    })?;
    thread.in_flight.set(0);
    let Some(begin) = thread.control.ready() else {
        return Ok(false);
    };
    thread.origin.set(begin.instant);
    thread.begin.set(Some(begin));
    let places = begin_places(thread, links);
    let look = spawn_local(look(thread.clone()));
    if let Model::Open { .. } = thread.flow.model {
        arrive(thread, &alarm).await;
    }
    places.join_all().await;
    for job in thread.desk.abandon() {
        thread.lose(job, false);
    }
    look.abort();
    let _ = look.await;
    Ok(true)
}

/// Begins a task for each place of each connection.
fn begin_places(thread: &Rc<Thread>, links: &[Rc<Link>]) -> JoinSet<()> {
    let (mut places, streams) = (JoinSet::new(), streams(&thread.flow));
    for (number, link) in links.iter().enumerate() {
        for stream in 0..streams {
            let (thread, link) = (thread.clone(), link.clone());
            places.spawn_local(work(thread, number * streams + stream, link));
        }
    }
    places
}

/// One place: request after request, as they come due.
async fn work(thread: Rc<Thread>, place: usize, link: Rc<Link>) {
    let mut watch = Watch::new(place);
    while let Some(job) = thread.next(place, &link).await {
        let pause = carry_out(&thread, &link, &mut watch, job).await;
        if thread.flow.reconnect {
            link.close();
        }
        if !pause.is_zero() {
            watch.rest(&thread, pause).await;
        }
    }
}

/// The places of connections, none of which is made yet.
fn links(thread: &Thread) -> Result<Vec<Rc<Link>>, Failure> {
    let flow = &thread.flow;
    let http2 = matches!(flow.protocol, Protocol::Http2 { .. });
    let dialers = flow
        .targets
        .iter()
        .map(|target| Dialer::new(target, flow.tls.as_ref(), http2, flow.timeout).map(Rc::new));
    let dialers = dialers.collect::<Result<Vec<_>, _>>()?;
    let links = (0..flow.connections_of(thread.number as usize)).map(|place| {
        let number = thread.number as usize + place * flow.threads;
        let target = number % dialers.len();
        Rc::new(Link::new(number, target, dialers[target].clone()))
    });
    Ok(links.collect())
}

/// Makes all connections, and opens all sessions.
async fn prepare(thread: &Rc<Thread>, links: &[Rc<Link>]) -> Result<(), Failure> {
    let (turns, mut tasks) = (Rc::new(Semaphore::new(DIALS_MAX)), JoinSet::new());
    for link in links {
        let (thread, link, turns) = (thread.clone(), link.clone(), turns.clone());
        tasks.spawn_local(async move {
            let _turn = turns.acquire().await;
            if thread.control.stopped() {
                return Ok(());
            }
            open(&thread, &link).await
        });
    }
    while let Some(opened) = tasks.join_next().await {
        if let Err(failure) = opened.expect("no task panics, and none is stopped") {
            tasks.shutdown().await;
            return Err(failure);
        }
    }
    Ok(())
}

/// Makes one connection, and its session where there are sessions.
async fn open(thread: &Thread, link: &Link) -> Result<(), Failure> {
    let made = link.connect().await;
    let made = made.map_err(|refused| Failure::new(refused.bad.what, refused.help))?;
    count_connection(thread, thread.opening, 0, made);
    let Protocol::Mcp(revision) = thread.flow.protocol else {
        return Ok(());
    };
    let target = &thread.flow.targets[link.target].authority;
    let opened = tokio::time::timeout(thread.flow.timeout, mcp::open(thread, link, revision)).await;
    if let Some(failure) = thread.failure.borrow_mut().take() {
        return Err(failure);
    }
    let bad = match opened {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(bad)) => bad.what,
        Err(_) => "no answer within the timeout".to_owned(),
    };
    Err(Failure::new(
        format!("{target} does not open an MCP session: {bad}"),
        "look at the path, the credentials and the revision",
    ))
}

/// Hands out arrivals when they are due, until the last one or the end of the run.
async fn arrive(thread: &Thread, alarm: &Alarm) {
    let flow = &thread.flow;
    let Model::Open { arrivals, .. } = flow.model else {
        return;
    };
    let number = thread.number as usize;
    let sequence = Sequence::new(&flow.profile, arrivals, thread.seed, number, flow.threads);
    for (turn, (number, intended_ns)) in (1..).zip(sequence) {
        if !wait(thread, alarm, intended_ns).await {
            break;
        }
        let job = Job {
            number,
            intended_ns,
        };
        match thread.desk.offer(job) {
            Offered::Taken => {}
            Offered::Queued => thread.queue(job),
            Offered::Dropped => thread.lose(job, true),
        }
        if turn % OFFERS_IN_A_ROW == 0 {
            tokio::task::yield_now().await;
        }
    }
    thread.desk.close();
}

/// Waits until an instant of the run; false if the run ends first.
async fn wait(thread: &Thread, alarm: &Alarm, until_ns: u64) -> bool {
    loop {
        let now_ns = thread.now_ns();
        if thread.cut.get() || now_ns >= until_ns {
            return !thread.cut.get();
        }
        let left_ns = (until_ns - now_ns).min(STOP_LOOK.as_nanos() as u64);
        if let Err(error) = alarm.wait(left_ns).await {
            thread.fail(Failure::new(format!("the timer fails: {error}"), ""));
        }
    }
}

/// Looks at the clock now and then: whether to stop, whether an interval has ended, whom the level reaches.
async fn look(thread: Rc<Thread>) {
    let mut every = tokio::time::interval(LOOK);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let timeout_ns = thread.flow.timeout.as_nanos() as u64;
    let last_ns = thread.flow.profile.end_ns().saturating_add(timeout_ns);
    let closed = thread.flow.model == Model::Closed;
    let streams = streams(&thread.flow);
    let (mut level, mut told) = (0.0, false);
    loop {
        every.tick().await;
        let now_ns = thread.now_ns();
        if thread.control.stopped() || now_ns > last_ns {
            thread.cut.set(true);
        }
        let waiting = thread.desk.waiting() as u64;
        thread
            .tallies
            .borrow_mut()
            .tick(now_ns, thread.in_flight.get(), waiting);
        if thread.cut.get() || (thread.is_over() && !told) {
            told = true;
            thread.desk.wake(|_| true);
            continue;
        }
        let now_level = thread.flow.profile.level_at(now_ns);
        if closed && now_level > level {
            let (number, threads) = (thread.number as usize, thread.flow.threads);
            let of = |place: usize| (number + place / streams * threads) as f64;
            thread
                .desk
                .wake(|place| of(place) >= level.floor() && of(place) < now_level);
        }
        level = now_level;
    }
}

/// Closes the sessions, many at once. Nothing of it is counted.
async fn farewell(thread: &Rc<Thread>, links: &[Rc<Link>]) {
    let Protocol::Mcp(revision) = thread.flow.protocol else {
        return;
    };
    let (turns, mut tasks) = (Rc::new(Semaphore::new(DIALS_MAX)), JoinSet::new());
    for link in links {
        let (thread, link, turns) = (thread.clone(), link.clone(), turns.clone());
        tasks.spawn_local(async move {
            let _turn = turns.acquire().await;
            mcp::close(&thread, &link, revision).await;
        });
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    // Sessions that cannot be closed in time expire at the server.
    let _ = tokio::time::timeout(mcp::FAREWELL_MAX, all).await;
    tasks.shutdown().await;
}

fn finish(thread: Rc<Thread>) -> Result<(), Failure> {
    let thread = Rc::into_inner(thread).expect("all tasks of the thread have ended");
    thread.tallies.into_inner().finish();
    match thread.failure.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}
