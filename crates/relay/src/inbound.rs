//! The inbound side: sealed requests, opened, let through once, and passed on to origins as plain HTTP/1.1.
//!
//! Nothing reaches an origin that was not opened, judged and claimed. What cannot be opened is told in plain and in
//! one word; everything else is answered under the seal.

mod answer;
mod desk;
mod exchange;
mod keys;
mod mutual;
mod origin;
mod reader;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base::{Name, Now};
use gate::ports::Clock;
use gate::{Gate, Passed};
use net::h1::{ConnectionSettings, ServerConnection, Thread};
use net::{
    AcceptedConnection, ConnectionService, Drain, EdgeShared, Listener, ListenerSettings, Upstreams,
};
use seal::replay::Replay;
use seal::{Budget, Guard, Mode, Responder};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;

use crate::counters::{All, Snapshot};
use crate::generation::Generation;
use crate::once::Claims;
use crate::random;
use crate::routes::Routes;
use crate::said::Said;
use crate::settings::{InboundSettings, Problem};
use desk::Desk;
use keys::{Roll, Teks};
use mutual::Trust;

/// What was sealed this long ago may only now arrive, in milliseconds. Whoever calls itself ready has to take it: an
/// outbound cannot tell a request that came too early from one that was executed before, and gives its call up.
const ON_ITS_WAY_MS: u64 = 500;

/// An inbound, shared by all threads.
pub struct Inbound {
    live: ArcSwap<Live>,
    teks: Teks,
    replay: Replay,
    /// What sessions are promised about replays.
    mode: Mode,
    /// The store of all instances.
    claims: Option<Arc<dyn Claims>>,
    guard: Arc<Guard>,
    /// When the drain began, by the monotonic clock; 0 before.
    drained_mono_ms: AtomicU64,
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
    generation: Generation,
    /// The places of TLS handshakes that are under way.
    shaking: Semaphore,
    counters: All,
    said: Mutex<Said>,
    edge: ConnectionSettings,
    upstream: ConnectionSettings,
}

/// The settings in force.
struct Live {
    routes: Routes,
    origins: Vec<Name>,
    /// Who opens handshakes; nobody where TLS takes the place of the seal.
    responder: Option<Responder>,
    roll: Roll,
    trust: Option<Trust>,
    content_bytes_max: u64,
    padding: bool,
}

impl Inbound {
    /// Checks settings and makes everything that can fail before the first request. Its start, from which replays are
    /// counted, is now.
    ///
    /// # Errors
    /// The first problem of the settings.
    pub fn new(
        mut settings: InboundSettings,
        gate: Arc<Gate>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Inbound>, Problem> {
        let now = clock.now();
        if settings.mode == Mode::Strict && settings.claims.is_none() {
            return Err(Problem::NoStore);
        }
        let guard = Arc::new(Guard::new(Budget::new(settings.handshake_cpu_us_per_s)));
        let mut hash_key = [0; 16];
        random::fill(&mut hash_key).map_err(|_| Problem::Random)?;
        let settings_mode = settings.mode;
        Ok(Arc::new(Inbound {
            teks: Teks::new(&settings, now)?,
            mode: settings.mode,
            claims: settings.claims.clone(),
            replay: Replay::local(settings.windows_max, hash_key, now),
            live: ArcSwap::from_pointee(Live::new(&mut settings, &guard, settings_mode)?),
            guard,
            drained_mono_ms: AtomicU64::new(0),
            gate,
            clock,
            generation: Generation::default(),
            shaking: Semaphore::new(mutual::SHAKING_MAX),
            counters: All::default(),
            said: Mutex::default(),
            edge: settings.edge,
            upstream: settings.upstream,
        }))
    }

    /// Puts other settings in force from the next message on: keys, peers, tokens, ticket keys, routes. Bounds of
    /// connections and the set of endpoints stay as they were at the start, and so do replay windows.
    ///
    /// # Errors
    /// The first problem; nothing was changed then.
    pub fn reload(&self, settings: InboundSettings) -> Result<(), Problem> {
        self.prepare(settings).map(|take| take())
    }

    /// Checks other settings, and gives what puts them in force as [`Inbound::reload`] does: for who has more to check
    /// before anything changes.
    ///
    /// # Errors
    /// The first problem.
    pub fn prepare(&self, mut settings: InboundSettings) -> Result<impl FnOnce() + '_, Problem> {
        let live = Live::new(&mut settings, &self.guard, self.mode)?;
        let keys = self.teks.prepare(&settings.ticket_keys, self.clock.now())?;
        Ok(move || {
            self.teks.take(keys);
            self.live.store(Arc::new(live));
        })
    }

    /// Serves one listener on this thread until the drain is over. Must run inside a `LocalSet`. `upstreams` makes the
    /// connections that go out, for [`InboundSettings::endpoints`].
    ///
    /// # Errors
    /// The listener cannot be used at all.
    pub async fn serve(
        self: &Arc<Self>,
        listener: Listener,
        upstreams: impl FnOnce(Rc<Thread>, ConnectionSettings) -> Upstreams<Passed>,
        shared: Arc<EdgeShared>,
        drain: Drain,
    ) -> io::Result<()> {
        let thread = Thread::new(self.edge.tick_ms().min(self.upstream.tick_ms()));
        let upstreams = upstreams(Rc::clone(&thread), self.upstream.clone());
        let desk = Desk::new(self, upstreams);
        desk.keep();
        self.generation.watch();
        let (relay, told) = (Arc::clone(self), drain.clone());
        let watching = spawn_local(async move {
            told.started().await;
            relay.begin_drain();
        });
        let (service, bounds) = (Rc::new(Service(desk)), Rc::new(self.edge.clone()));
        let listener = (listener, Rc::new(ListenerSettings::default()));
        let served = net::serve_connections(listener, service, thread, bounds, shared, drain).await;
        watching.abort();
        served
    }

    /// What was counted.
    pub fn counters(&self) -> Snapshot {
        self.counters.snapshot()
    }

    /// Replay windows that are kept now.
    pub fn windows(&self) -> usize {
        self.replay.windows()
    }

    /// Whether requests are let through: from two and a half seconds after the start, until the drain. By TLS from the
    /// start.
    pub fn is_ready(&self) -> bool {
        let now = self.clock.now();
        let unix_ms = now.unix_ms.saturating_sub(ON_ITS_WAY_MS);
        let lets_through = || self.lets_through(Now { unix_ms, ..now });
        let is_sealed = self.live.load().trust.is_none();
        !self.is_draining() && (!is_sealed || lets_through() && self.store_problem().is_none())
    }

    /// Why what is promised cannot be kept, by the store that instances share: a code.
    pub fn store_problem(&self) -> Option<&'static str> {
        let now = self.clock.now();
        if self.teks.is_of_other_fleet() {
            return Some("relay.fleet_key");
        }
        let claims = self.claims.as_ref()?;
        let state = claims.state();
        if self.mode == Mode::Strict {
            let late_ms = now.unix_ms.saturating_sub(ON_ITS_WAY_MS);
            if state.problem.is_some() {
                return state.problem;
            }
            if late_ms <= state.refuses_until_unix_ms {
                return Some("cache.changed");
            }
        }
        match self.teks.is_ready(now) {
            true => None,
            false => state.problem.or(Some("relay.no_ticket_key")),
        }
    }

    /// Looks after what is shared with other instances. Whoever waits until the inbound is ready calls it again and
    /// again; whoever serves need not.
    pub async fn share(&self) {
        if let Err(problem) = self.teks.share(self.clock.now()).await {
            tracing::error!(target: "relay", %problem, "no new ticket key");
        }
    }

    /// Says why a handshake was refused: each reason now and then, because anybody can cause one.
    fn warn_refused(&self, why: &str, now: Now) {
        // Whoever finds it taken need not wait to say the same.
        let Ok(mut said) = self.said.try_lock() else {
            return;
        };
        if let Some(times) = said.may_say(why, now.mono_ms) {
            tracing::warn!(target: "relay", why, times, "handshakes were refused");
        }
    }

    fn begin_drain(&self) {
        let now_ms = self.clock.now().mono_ms.max(1);
        self.drained_mono_ms.store(now_ms, Ordering::Relaxed);
    }

    fn is_draining(&self) -> bool {
        self.drained_mono_ms.load(Ordering::Relaxed) > 0
    }

    /// Whether the drain has gone on for longer than what was on its way when it began can have taken.
    fn is_drained(&self, now: Now) -> bool {
        let since_ms = self.drained_mono_ms.load(Ordering::Relaxed);
        since_ms > 0 && now.mono_ms.saturating_sub(since_ms) > self.edge.drain_idle_ms
    }

    /// Whether messages that are sealed now can be let through.
    fn lets_through(&self, now: Now) -> bool {
        now.unix_ms >= self.replay.ready_unix_ms()
    }
}

impl Live {
    fn new(
        settings: &mut InboundSettings,
        guard: &Arc<Guard>,
        mode: Mode,
    ) -> Result<Live, Problem> {
        let names = settings.origins.iter().map(|(name, _)| name.clone());
        let origins: Vec<Name> = names.collect();
        if let Some(twice) = (1..origins.len()).find(|at| origins[..*at].contains(&origins[*at])) {
            return Err(Problem::NameTwice(origins[twice].clone()));
        }
        let plain: Vec<&Name> = origins.iter().collect();
        let is_mutual = settings.mutual.is_some();
        Ok(Live {
            routes: Routes::new(&settings.routes, &[], &plain)?,
            roll: Roll::new(std::mem::take(&mut settings.peers), mode)?,
            trust: settings.mutual.take().map(Trust::new).transpose()?,
            responder: match is_mutual {
                true => None,
                false => Some(keys::responder(settings, Arc::clone(guard))?),
            },
            origins,
            content_bytes_max: settings.content_bytes_max,
            padding: settings.padding,
        })
    }
}

struct Service(Rc<Desk>);

impl ConnectionService for Service {
    async fn connection(&self, accepted: AcceptedConnection) {
        let desk = Rc::clone(&self.0);
        match desk.current().live.trust.is_some() {
            true => mutual::connection(desk, accepted).await,
            false => {
                let server =
                    ServerConnection::new(accepted.stream, &accepted.thread, &accepted.bounds);
                exchange::connection(desk, server, accepted.peer.address).await;
            }
        }
    }

    /// By certificates it shakes hands itself, and bounds how many do so at once.
    fn takes_bare(&self) -> bool {
        self.0.current().live.trust.is_some()
    }
}
