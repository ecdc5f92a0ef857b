//! The life of a request: counted, marked, held up or broken as the behaviour or a script says, and answered by its route.
//!
//! A request for a fixed body on a target that does not misbehave is answered at once, without a future on the
//! heap: that is the path whose cost is the ceiling that `calibrate` states.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use super::body::{Body, Broken, Corrupt};
use super::chance::{Purpose, draw};
use super::counts::{Id, Shard, Tables, add};
use super::faults::{Break, Fault, Zero};
use super::guard::Guard;
use super::mcp::Sessions;
use super::refuse::{ErrorNames, Shape, drain, event, refuse, refuse_with};
use super::route::Route;
use super::timer::Timer;
use super::{Settings, plain};
use crate::engine::thread_cpu_ns;

/// The header that names a request: `RUN-SEQ`. It comes back in the answer.
pub(super) const ID: HeaderName = HeaderName::from_static("weir-lab-id");
/// What the control routes begin with. They are neither counted nor held up nor broken.
const CONTROL: &str = "/lab/";
/// The counts as JSON.
pub(super) const COUNTS: &str = "/lab/counts";
/// A body that no route has.
const GARBAGE: &str = "<html><body>502 Bad Gateway</body></html>\n";

/// What all threads have in common.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) connections: AtomicUsize,
    pub(super) sessions: Sessions,
    guard: Option<Guard>,
    /// Places for requests that are worked on, where there are so many only; the others wait in order.
    pool: Option<tokio::sync::Semaphore>,
    /// Whether a request may be answered at once.
    plain: bool,
    started: Instant,
    /// Rises with each reset, so that threads look at `tables` again.
    generation: AtomicU64,
    tables: Mutex<Arc<Tables>>,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Arc<Shared> {
        let started = Instant::now();
        let guard = settings.auth.as_ref().map(Guard::new);
        Arc::new(Shared {
            connections: AtomicUsize::new(0),
            sessions: Sessions::default(),
            plain: settings.behaviour.is_plain() && guard.is_none(),
            pool: settings.behaviour.pool.map(tokio::sync::Semaphore::new),
            guard,
            started,
            generation: AtomicU64::new(0),
            tables: Mutex::new(fresh(&settings, started)),
            settings,
        })
    }

    pub(super) fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to count anew. A request in flight still counts as it did when it came.
    pub(super) fn reset(&self) {
        let fresh = fresh(&self.settings, self.started);
        *self.tables.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.generation.fetch_add(1, Ordering::Release);
    }
}

fn fresh(settings: &Settings, started: Instant) -> Arc<Tables> {
    let zero = match settings.behaviour.zero {
        Zero::FirstRequest => None,
        Zero::Start => Some(started),
    };
    Tables::new(settings.threads, zero)
}

/// The tables that a request counts in, and the thread's place in them.
pub(super) struct Seen {
    pub(super) tables: Arc<Tables>,
    index: usize,
}

impl Seen {
    pub(super) fn shard(&self) -> &Shard {
        &self.tables.shards[self.index]
    }
}

/// What one thread answers with.
pub(super) struct Origin {
    shared: Arc<Shared>,
    timer: Timer,
    index: usize,
    generation: Cell<u64>,
    seen: RefCell<Rc<Seen>>,
}

impl Origin {
    pub(super) fn new(shared: Arc<Shared>, index: usize, timer: Timer) -> Rc<Origin> {
        let generation = shared.generation.load(Ordering::Acquire);
        let tables = shared.tables();
        Rc::new(Origin {
            shared,
            timer,
            index,
            generation: Cell::new(generation),
            seen: RefCell::new(Rc::new(Seen { tables, index })),
        })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(super) fn timer(&self) -> &Timer {
        &self.timer
    }

    fn seen(&self) -> Rc<Seen> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        if generation != self.generation.get() {
            self.generation.set(generation);
            self.seen.replace(Rc::new(Seen {
                tables: self.shared.tables(),
                index: self.index,
            }));
        }
        Rc::clone(&self.seen.borrow())
    }

    /// The first moment from `at` on that is in no freeze.
    pub(super) fn thawed(&self, seen: &Seen, at: Instant) -> Instant {
        let behaviour = &self.settings().behaviour;
        if behaviour.freezes.is_empty() {
            return at;
        }
        let zero = seen.tables.zero(at);
        let since = at.saturating_duration_since(zero);
        at + (behaviour.thawed(since) - since)
    }
}

/// What is known of one connection.
#[derive(Default)]
pub(super) struct Connection {
    /// Whether it is to end with RST.
    pub(super) reset: Cell<bool>,
}

/// A request's connection was cut on purpose, or its client went away.
#[derive(Debug)]
pub(super) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection was cut")
    }
}

impl std::error::Error for Cut {}

/// What answers the requests of one connection.
pub(super) struct Served {
    origin: Rc<Origin>,
    connection: Rc<Connection>,
}

impl Served {
    pub(super) fn new(origin: Rc<Origin>, connection: Rc<Connection>) -> Served {
        Served { origin, connection }
    }
}

impl hyper::service::Service<Request<Incoming>> for Served {
    type Response = Response<Body>;
    type Error = Cut;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let origin = &self.origin;
        if request.uri().path().starts_with(CONTROL) {
            // Whoever can reach the target may see the counts; to set them back takes the credential.
            let stranger = match request.uri().path() {
                COUNTS => None,
                _ => stranger(origin, &request),
            };
            let response = stranger
                .unwrap_or_else(|| plain::control(origin, request.method(), request.uri().path()));
            return Answering::Ready(Some(response));
        }
        let seen = origin.seen();
        add(&seen.shard().requests);
        let route = Route::of(request.method(), request.uri());
        let (true, Route::Fixed(bytes)) = (origin.shared.plain, &route) else {
            let arrived = Arrived {
                origin: Rc::clone(origin),
                connection: Rc::clone(&self.connection),
                seen,
                at: Instant::now(),
                frozen: Cell::new(false),
            };
            return Answering::Later(Box::pin(arrived.answered(route, request)));
        };
        let mut response = plain::fixed(bytes.unwrap_or(origin.settings().body_bytes));
        if let Some(id) = request.headers().get(&ID) {
            match mark(&seen, id) {
                Some(refused) => response = refused,
                None => drop(response.headers_mut().insert(ID, id.clone())),
            }
        }
        Answering::Ready(Some(tallied(&seen, response)))
    }
}

/// An answer, there already or on its way.
pub(super) enum Answering {
    Ready(Option<Response<Body>>),
    Later(Pin<Box<dyn Future<Output = Result<Response<Body>, Cut>>>>),
}

impl Future for Answering {
    type Output = Result<Response<Body>, Cut>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answering::Ready(response) => Poll::Ready(response.take().ok_or(Cut)),
            Answering::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// Uses so much CPU time of this thread.
fn work(time: Duration) {
    if !time.is_zero() {
        let end = thread_cpu_ns() + time.as_nanos() as u64;
        while thread_cpu_ns() < end {
            std::hint::spin_loop();
        }
    }
}

/// A request that is counted and not answered yet.
struct Arrived {
    origin: Rc<Origin>,
    connection: Rc<Connection>,
    seen: Rc<Seen>,
    at: Instant,
    /// Whether a freeze held it up.
    frozen: Cell<bool>,
}

impl Arrived {
    async fn answered(
        self,
        route: Route,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Cut> {
        let pending = Pending(Some(&self.seen));
        let behaviour = &self.origin.settings().behaviour;
        let seed = self.origin.settings().seed;
        let nth = self.seen.tables.number();
        let id = request.headers().get(&ID).cloned();
        if let Some(refused) = self.refused(&request, id.as_ref()) {
            self.hold(Duration::ZERO).await;
            pending.over();
            return Ok(refused);
        }
        // Who waits for a place is not worked on yet: the delay counts from when there is one.
        let (place, since) = match &self.origin.shared.pool {
            Some(pool) => (pool.acquire().await.ok(), Instant::now()),
            None => (None, self.at),
        };
        let bytes = request.body().size_hint().exact().unwrap_or(0);
        self.hold_since(since, behaviour.delay_for(seed, nth, bytes))
            .await;
        work(behaviour.work_for(bytes));
        drop(place);
        let shape = Shape::of(request.uri().path());
        let version = request.version();
        let drawn = behaviour.fault(seed, nth);
        let (fault, answered) = self.made(drawn, route, nth, request).await?;
        if !matches!(fault, Some(Fault::Close | Fault::Reset)) {
            self.thaw().await;
        }
        let mut response = match fault {
            None => tallied(&self.seen, answered),
            Some(Fault::Corrupt) => self.corrupt(answered, nth, id.as_ref()),
            Some(Fault::Garbage) => self.garbage(answered),
            Some(Fault::Break(how, events)) => self.broken(answered, (how, events), shape, version),
            Some(Fault::Status(status)) => {
                self.seen.tables.injected(status);
                let after = self.origin.settings().llm.retry_after;
                let what = "injected by the lab's target";
                refuse_with(shape, status, what, after, &ErrorNames::default())
            }
            Some(cut @ (Fault::Close | Fault::Reset)) => {
                pending.over();
                return Err(self.cut(cut, version));
            }
        };
        if let Some(id) = id {
            response.headers_mut().insert(ID, id);
        }
        pending.over();
        Ok(response)
    }

    /// What goes wrong, and the answer of the route, which is not asked where nothing of it would be seen.
    async fn made(
        &self,
        drawn: Option<Fault>,
        route: Route,
        nth: u64,
        request: Request<Incoming>,
    ) -> Result<(Option<Fault>, Response<Body>), Cut> {
        if let Some(Fault::Status(_) | Fault::Close | Fault::Reset) = drawn {
            if matches!(drawn, Some(Fault::Status(_))) {
                drain(request.into_body()).await?;
            }
            return Ok((drawn, Response::new(Body::EMPTY)));
        }
        let answer = route.answer(&self.origin, &self.seen, nth, request);
        let mut response = answer.await?;
        // What a script says goes behind what was drawn.
        let scripted = response.extensions_mut().remove::<Fault>();
        Ok((drawn.or(scripted), response))
    }

    /// Marks that the request came; gives the answer when it may not be answered by its route.
    fn refused(
        &self,
        request: &Request<Incoming>,
        id: Option<&HeaderValue>,
    ) -> Option<Response<Body>> {
        let refused = stranger(&self.origin, request);
        if refused.is_some() {
            add(&self.seen.shard().unauthorized);
            return refused;
        }
        let refused = mark(&self.seen, id?)?;
        Some(tallied(&self.seen, refused))
    }

    /// Waits for the delay and for the end of freezes.
    async fn hold(&self, delay: Duration) {
        self.hold_since(self.at, delay).await;
    }

    /// The same, from an instant on.
    async fn hold_since(&self, since: Instant, delay: Duration) {
        if !delay.is_zero() {
            add(&self.seen.shard().delays);
        }
        let due = self.thawed(self.thawed(since) + delay);
        if due > self.at {
            self.origin.timer.until(due).await;
        }
    }

    /// Waits for the end of a freeze that began while the answer was made.
    async fn thaw(&self) {
        if !self.origin.settings().behaviour.freezes.is_empty() {
            let due = self.thawed(Instant::now());
            self.origin.timer.until(due).await;
        }
    }

    /// The first moment from `at` on that is in no freeze. Counts the request when that is another.
    fn thawed(&self, at: Instant) -> Instant {
        let thawed = self.origin.thawed(&self.seen, at);
        if thawed > at && !self.frozen.replace(true) {
            add(&self.seen.shard().frozen);
        }
        thawed
    }

    fn corrupt(
        &self,
        response: Response<Body>,
        nth: u64,
        id: Option<&HeaderValue>,
    ) -> Response<Body> {
        let rng = draw(self.origin.settings().seed, nth, Purpose::Offset);
        let id = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        let (head, body) = response.into_parts();
        match Corrupt::body(body, rng, &self.seen, nth, id) {
            Ok(body) => {
                add(&self.seen.shard().corrupt);
                Response::from_parts(head, body)
            }
            // There is no byte to change.
            Err(body) => tallied(&self.seen, Response::from_parts(head, body)),
        }
    }

    /// The answer with a body that no route has.
    fn garbage(&self, response: Response<Body>) -> Response<Body> {
        add(&self.seen.shard().garbage);
        response.map(|_| Body::Whole(GARBAGE.into()))
    }

    /// The answer, to be broken off.
    fn broken(
        &self,
        response: Response<Body>,
        at: (Break, u64),
        shape: Shape,
        version: Version,
    ) -> Response<Body> {
        let is_whole = http_body::Body::size_hint(response.body())
            .exact()
            .is_some();
        if is_whole && matches!(at.0, Break::Error) {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            self.seen.tables.injected(status);
            return refuse(shape, status, "injected by the lab's target");
        }
        if is_whole && matches!(at.0, Break::Garbage) {
            return self.garbage(response);
        }
        add(&self.seen.shard().broken);
        let error = event(shape, "injected by the lab's target");
        let connection = (version < Version::HTTP_2).then(|| Rc::clone(&self.connection));
        response.map(|body| Broken::body(body, at, error, &self.origin, connection))
    }

    fn cut(&self, fault: Fault, version: Version) -> Cut {
        if fault == Fault::Reset {
            add(&self.seen.shard().reset);
            // Other streams share an HTTP/2 connection: there the error resets the stream alone.
            self.connection.reset.set(version < Version::HTTP_2);
        } else {
            add(&self.seen.shard().close);
        }
        Cut
    }
}

/// Counts a request as abandoned unless it is over.
struct Pending<'a>(Option<&'a Seen>);

impl Pending<'_> {
    fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(seen) = self.0 {
            add(&seen.shard().abandoned);
        }
    }
}

/// The answer, counted by its status.
fn tallied(seen: &Seen, response: Response<Body>) -> Response<Body> {
    let shard = seen.shard();
    add(if response.status().as_u16() < 400 {
        &shard.ok
    } else {
        &shard.refused
    });
    response
}

/// The answer to a request that does not carry what the settings ask for.
fn stranger(origin: &Origin, request: &Request<Incoming>) -> Option<Response<Body>> {
    let guard = origin.shared.guard.as_ref()?;
    if guard.admits(request.headers()) {
        return None;
    }
    let mut refused = refuse(
        Shape::of(request.uri().path()),
        StatusCode::UNAUTHORIZED,
        "this target asks for a credential, and the request has none or another",
    );
    let challenge = HeaderValue::from_static(guard.challenge());
    refused.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    Some(refused)
}

/// Marks a request's id, or gives the answer when it is none.
fn mark(seen: &Seen, id: &HeaderValue) -> Option<Response<Body>> {
    match Id::read(id.as_bytes()) {
        Some(id) => {
            seen.tables.mark(seen.shard(), id);
            None
        }
        None => Some(refuse(
            Shape::Text,
            StatusCode::BAD_REQUEST,
            "weir-lab-id must be RUN-SEQ: up to 16 hexadecimal digits, a hyphen, a number below 2^64",
        )),
    }
}
