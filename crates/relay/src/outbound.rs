//! The outbound side: plain HTTP/1.1 from applications, sealed to peers.
//!
//! It answers for the application: a request goes out at most three times and only where the protocol lets it, and an
//! answer that breaks off is never ended. Anything that a route sends on as it is passes as plain HTTP, by permit.

mod attempt;
mod desk;
mod exchange;
mod handshake;
mod kept;
mod link;
mod retry;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base::Name;
use gate::ports::Clock;
use gate::{Gate, Passed};
use net::h1::{ConnectionSettings, ServerConnection, Thread};
use net::{
    AcceptedConnection, ConnectionService, Drain, EdgeShared, Listener, ListenerSettings, Upstreams,
};
use tokio::task::spawn_local;

pub(crate) use desk::sender_id;
pub(crate) use exchange::{address, path_of};

use crate::callers::Known;
use crate::counters::{All, Snapshot};
use crate::generation::Generation;
use crate::routes::Routes;
use crate::settings::{OutboundSettings, PEERS_MAX, Problem};
use desk::Desk;
use link::Link;

/// An outbound, shared by all threads.
pub struct Outbound {
    live: ArcSwap<Live>,
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
    generation: Generation,
    counters: All,
    /// When the drain began, by the monotonic clock; 0 before.
    drained_mono_ms: AtomicU64,
    edge: ConnectionSettings,
    upstream: ConnectionSettings,
}

/// The settings in force.
struct Live {
    routes: Routes,
    callers: Known,
    links: Vec<Arc<Link>>,
    plain: Vec<Onward>,
    content_bytes_max: u64,
}

/// Where requests go that are not sealed.
struct Onward {
    name: Name,
    /// A peer by TLS with certificates on both sides.
    is_mutual: bool,
}

impl Outbound {
    /// Checks settings and makes everything that can fail before the first request.
    ///
    /// # Errors
    /// The first problem of the settings.
    pub fn new(
        settings: OutboundSettings,
        gate: Arc<Gate>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Outbound>, Problem> {
        let (edge, upstream) = (settings.edge.clone(), settings.upstream.clone());
        Ok(Arc::new(Outbound {
            live: ArcSwap::from_pointee(Live::new(settings, None)?),
            gate,
            clock,
            generation: Generation::default(),
            counters: All::default(),
            drained_mono_ms: AtomicU64::new(0),
            edge,
            upstream,
        }))
    }

    /// Puts other settings in force from the next request on. Bounds of connections and the set of endpoints stay
    /// as they were at the start. Sessions with peers of unchanged keys stay.
    ///
    /// # Errors
    /// The first problem; nothing was changed then.
    pub fn reload(&self, settings: OutboundSettings) -> Result<(), Problem> {
        self.prepare(settings).map(|take| take())
    }

    /// Checks other settings, and gives what puts them in force as [`Outbound::reload`] does: for who has more to check
    /// before anything changes.
    ///
    /// # Errors
    /// The first problem.
    pub fn prepare(&self, settings: OutboundSettings) -> Result<impl FnOnce() + '_, Problem> {
        let live = Live::new(settings, Some(&self.live.load()))?;
        Ok(move || self.live.store(Arc::new(live)))
    }

    /// Serves one listener on this thread until the drain is over. Must run inside a `LocalSet`. `upstreams` makes the
    /// connections that go out, for [`OutboundSettings::endpoints`].
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

    /// Whether requests are taken: until the drain, and while no session has run out without another.
    pub fn is_ready(&self) -> bool {
        if self.is_draining() {
            return false;
        }
        let now = self.clock.now();
        let live = self.live.load();
        live.links.iter().all(|link| {
            let session = link.session();
            session.is_none_or(|session| !session.is_expired(now))
        })
    }
}

impl Outbound {
    fn begin_drain(&self) {
        let now_ms = self.clock.now().mono_ms.max(1);
        self.drained_mono_ms.store(now_ms, Ordering::Relaxed);
    }

    fn is_draining(&self) -> bool {
        self.drained_mono_ms.load(Ordering::Relaxed) > 0
    }
}

impl Live {
    fn new(settings: OutboundSettings, before: Option<&Live>) -> Result<Live, Problem> {
        if settings.peers.len() + settings.plain.len() > PEERS_MAX {
            return Err(Problem::TooMany("peers"));
        }
        let onward = settings.plain.iter().map(|(name, endpoint)| Onward {
            name: name.clone(),
            is_mutual: endpoint.mutual.is_some(),
        });
        let onward: Vec<Onward> = onward.collect();
        let plain: Vec<&Name> = onward.iter().map(|to| &to.name).collect();
        let names = || settings.peers.iter().map(|peer| &peer.name);
        let all: Vec<&Name> = names().chain(plain.iter().copied()).collect();
        if let Some(twice) = (1..all.len()).find(|at| all[..*at].contains(&all[*at])) {
            return Err(Problem::NameTwice(all[twice].clone()));
        }
        let peers: Vec<&Name> = names().collect();
        let routes = Routes::new(&settings.routes, &peers, &plain)?;
        let callers = Known::new(&settings.callers)?;
        let links = settings.peers.into_iter().map(|peer| {
            let before =
                before.and_then(|live| live.links.iter().find(|link| link.name == peer.name));
            Link::new(peer, before.map(|link| &**link)).map(Arc::new)
        });
        Ok(Live {
            links: links.collect::<Result<_, _>>()?,
            routes,
            callers,
            plain: onward,
            content_bytes_max: settings.content_bytes_max,
        })
    }
}

struct Service(Rc<Desk>);

impl ConnectionService for Service {
    async fn connection(&self, accepted: AcceptedConnection) {
        let server = ServerConnection::new(accepted.stream, &accepted.thread, &accepted.bounds);
        exchange::connection(Rc::clone(&self.0), server, accepted.peer.address).await;
    }
}
