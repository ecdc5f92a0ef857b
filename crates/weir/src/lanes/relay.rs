//! The row of the sealed relay: its outbound and its inbound, each with a listener of its own.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{CallId, Name, Refusal, refusal};
use config::Listen;
use gate::{Passed, Reach};
use net::h1::ConnectionSettings;
use net::{Drain, EdgeShared, Listener, Request, Response, Targets, Upstreams};
use relay::counters::{self, Snapshot};
use relay::{Claims, InboundSettings};

use super::{Local, OnThread, Opened, Parts, Row, Running, Take};
use crate::assemble::WayOut;
use crate::assemble::relay as told;
use crate::config::settings::relay::{Outbound, Place};
use crate::config::{Problem, Settings};
use crate::health::{LaneHealth, Readiness};
use crate::listen::{address, listen};
use crate::ports::Clock;
use crate::refuse;
use crate::reload::named;
use crate::shared_store::{SharedStores, StoredClaims};

mod shown;

use shown::ShownMetrics;

/// The mode of a socket's file that this user alone may speak to.
const OWNER_ALONE: u32 = 0o600;
/// How often an inbound that is not ready yet is looked at.
const READY_EVERY: Duration = Duration::from_millis(20);

pub(crate) const ROW: Row = Row {
    lane: &relay::LANE,
    routes: &[],
    metrics: &[
        counters::EVENTS,
        counters::BYTES,
        counters::STAGES,
        counters::READY,
    ],
    endpoints: |settings| told::endpoints(&settings.relay),
    reach,
    only_at_start,
    reloaded: |_, _| Vec::new(),
    open,
};

/// The sides of the relay that the configuration asks for.
struct Relay {
    outbound: Option<Arc<relay::Outbound>>,
    inbound: Option<Arc<relay::Inbound>>,
    outbound_edge: Arc<EdgeShared>,
    inbound_edge: Arc<EdgeShared>,
    targets: Arc<Targets>,
    clock: Arc<Clock>,
    stores: SharedStores,
    drain: Drain,
    shown: ShownMetrics,
    /// Those that no thread has taken yet.
    listeners: Mutex<Vec<Listeners>>,
    /// Where they listen.
    addresses: Mutex<Addresses>,
}

/// What one thread listens on.
#[derive(Default)]
struct Listeners {
    outbound: Option<Listener>,
    inbound: Option<Listener>,
}

#[derive(Default)]
struct Addresses {
    outbound: Option<Listen>,
    inbound: Option<Listen>,
}

/// How one side is.
struct Side {
    name: &'static str,
    is_ready: bool,
    counted: Snapshot,
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let now = gate::ports::Clock::now(&**parts.clock);
    let clock = || Arc::clone(parts.clock) as Arc<dyn gate::ports::Clock>;
    let failed = |side: &str, error: relay::Problem| format!("relay.{side}: {error}");
    let outbound = settings.relay.outbound.as_ref().map(|side| {
        let told = told::outbound(side, settings, now.unix_ms);
        relay::Outbound::new(told, Arc::clone(parts.gate), clock())
    });
    let outbound = outbound.transpose();
    let inbound = settings.relay.inbound.as_ref().map(|side| {
        let told = told::inbound(side, settings);
        let told = InboundSettings {
            claims: parts.stores.relay.clone().map(claims),
            ..told
        };
        relay::Inbound::new(told, Arc::clone(parts.gate), clock())
    });
    let inbound = inbound.transpose();
    Ok(Arc::new(Relay {
        outbound: outbound.map_err(|error| failed("outbound", error))?,
        inbound: inbound.map_err(|error| failed("inbound", error))?,
        outbound_edge: Arc::default(),
        inbound_edge: Arc::default(),
        targets: Arc::clone(parts.targets),
        clock: Arc::clone(parts.clock),
        stores: parts.stores.clone(),
        drain: parts.drain.clone(),
        shown: ShownMetrics::new(),
        listeners: Mutex::default(),
        addresses: Mutex::default(),
    }))
}

/// A store, as the inbound asks it.
fn claims(store: Arc<cache::SharedCache>) -> Arc<dyn Claims> {
    Arc::new(StoredClaims(store))
}

impl Relay {
    /// Each side that there is, as it is now.
    fn sides(&self) -> Vec<Side> {
        let outbound = self.outbound.iter().map(|side| Side {
            name: "outbound",
            is_ready: side.is_ready(),
            counted: side.counters(),
        });
        let inbound = self.inbound.iter().map(|side| Side {
            name: "inbound",
            is_ready: side.is_ready(),
            counted: side.counters(),
        });
        outbound.chain(inbound).collect()
    }
}

impl Running for Relay {
    fn listen(&self, settings: &Settings, threads: usize) -> Result<(), String> {
        let mut listeners: Vec<Listeners> = Vec::new();
        listeners.resize_with(threads, Listeners::default);
        if let Some(side) = &settings.relay.outbound {
            let sockets = listen(&side.listen, threads, OWNER_ALONE, net::bind)?;
            for (thread, socket) in listeners.iter_mut().zip(sockets) {
                thread.outbound = Some(socket);
            }
        }
        if let Some(side) = &settings.relay.inbound {
            let sockets = listen(&side.listen, threads, OWNER_ALONE, net::reserve)?;
            for (thread, socket) in listeners.iter_mut().zip(sockets) {
                thread.inbound = Some(socket);
            }
        }
        let first = listeners.first();
        *lock(&self.addresses) = Addresses {
            outbound: first.and_then(|first| address(first.outbound.as_ref()?)),
            inbound: first.and_then(|first| address(first.inbound.as_ref()?)),
        };
        *lock(&self.listeners) = listeners;
        Ok(())
    }

    fn say_started(&self, settings: &Settings, _url: Option<&str>) {
        let addresses = lock(&self.addresses);
        if let (Some(side), Some(address)) = (&settings.relay.outbound, &addresses.outbound) {
            let peers = side.peers.len();
            match &side.key {
                Some(key) => {
                    let (peer_id, _) = told::names(key);
                    tracing::info!(%address, %peer_id, peers, "relay outbound");
                }
                None => tracing::info!(%address, transport = "mtls", peers, "relay outbound"),
            }
        }
        if let (Some(side), Some(address)) = (&settings.relay.inbound, &addresses.inbound) {
            if side.mutual.is_some() {
                let allowed = side.certified.len();
                tracing::info!(%address, transport = "mtls", allowed, "relay inbound");
            }
            for key in &side.keys {
                let (_, pin) = told::names(key);
                tracing::info!(%address, %pin, allowed = side.allow.len(), "relay inbound");
            }
        }
    }

    fn thread(&self, _out: &WayOut) -> Rc<dyn OnThread> {
        let listeners = lock(&self.listeners).pop().unwrap_or_default();
        Rc::new(RelayThread {
            outbound: Cell::new(self.outbound.clone().zip(listeners.outbound)),
            inbound: Cell::new(self.inbound.clone().zip(listeners.inbound)),
            outbound_edge: Arc::clone(&self.outbound_edge),
            inbound_edge: Arc::clone(&self.inbound_edge),
            stores: self.stores.clone(),
            targets: Arc::clone(&self.targets),
            drain: self.drain.clone(),
        })
    }

    /// An outbound without its peer still passes on what goes elsewhere; an inbound lets nothing through yet.
    fn health(&self) -> Option<LaneHealth> {
        let sides = self.sides();
        let waits = |name| sides.iter().any(|side| side.name == name && !side.is_ready);
        let readiness = match () {
            () if waits("inbound") => Readiness::NotReady,
            () if waits("outbound") => Readiness::Degraded,
            () => Readiness::Ready,
        };
        let word = |ready| if ready { "ready" } else { "not ready" };
        let store = self.inbound.iter().filter_map(|side| {
            let code = side.store_problem()?;
            Some(("store".to_owned(), code))
        });
        let sides = sides.iter();
        let parts: Vec<_> = sides
            .map(|side| (side.name.to_owned(), word(side.is_ready)))
            .chain(store)
            .collect();
        (!parts.is_empty()).then_some(LaneHealth {
            known: None,
            title: "relay",
            parts,
            readiness,
        })
    }

    fn show_metrics(&self, page: &mut String) {
        for side in self.sides() {
            self.shown.set(side.name, side.is_ready, &side.counted);
        }
        self.shown.write(page);
    }

    /// Keys, peers, routes and callers. Sides and places are those that it started with.
    fn prepare(&self, settings: &Settings) -> Result<Take<'_>, Vec<Problem>> {
        let problem = |message: String| {
            vec![Problem {
                file: settings.file.display().to_string(),
                line: 0,
                column: 0,
                key: "relay".to_owned(),
                message,
                help: "What the relay listens on and where it goes takes a restart.".to_owned(),
            }]
        };
        let now = gate::ports::Clock::now(&*self.clock);
        let mut takes: Vec<Take<'_>> = Vec::new();
        if let (Some(running), Some(side)) = (&self.outbound, &settings.relay.outbound) {
            let told = told::outbound(side, settings, now.unix_ms);
            let renewals = told::renewals(side, &self.targets).map_err(|peer| {
                problem(format!("{peer} was not spoken to by mtls when this began"))
            })?;
            let take = running.prepare(told);
            let take = take.map_err(|error| problem(error.to_string()))?;
            takes.push(Box::new(move || {
                take();
                renewals.iter().for_each(told::Renewal::apply);
            }));
        }
        if let (Some(running), Some(side)) = (&self.inbound, &settings.relay.inbound) {
            let take = running.prepare(told::inbound(side, settings));
            takes.push(Box::new(take.map_err(|error| problem(error.to_string()))?));
        }
        Ok(Box::new(|| takes.into_iter().for_each(|take| take())))
    }
}

/// The relay on one thread, with what it listens on there.
struct RelayThread {
    outbound: Cell<Option<(Arc<relay::Outbound>, Listener)>>,
    inbound: Cell<Option<(Arc<relay::Inbound>, Listener)>>,
    outbound_edge: Arc<EdgeShared>,
    inbound_edge: Arc<EdgeShared>,
    stores: SharedStores,
    targets: Arc<Targets>,
    drain: Drain,
}

impl OnThread for RelayThread {
    /// It has no route where the gateway listens.
    fn answer<'a>(&'a self, _rest: &'a str, _request: Request, id: CallId) -> Local<'a, Response> {
        let refusal = Refusal::new(refusal::NOT_FOUND, "there is nothing at this path");
        Box::pin(std::future::ready(refuse::problem(&refusal, id)))
    }

    fn serve(self: Rc<Self>, _first: bool) -> Local<'static, io::Result<()>> {
        Box::pin(async move {
            for store in self.stores.each() {
                store.warm();
                store.watch();
            }
            let (outbound, inbound) = tokio::join!(self.serve_outbound(), self.serve_inbound());
            outbound.and(inbound)
        })
    }
}

impl RelayThread {
    fn upstreams(
        &self,
    ) -> impl FnOnce(Rc<net::h1::Thread>, ConnectionSettings) -> Upstreams<Passed> + use<> {
        crate::assemble::upstreams(&self.targets)
    }

    async fn serve_outbound(&self) -> io::Result<()> {
        let Some((side, listener)) = self.outbound.take() else {
            return Ok(());
        };
        let (edge, drain) = (Arc::clone(&self.outbound_edge), self.drain.clone());
        side.serve(listener, self.upstreams(), edge, drain).await
    }

    async fn serve_inbound(&self) -> io::Result<()> {
        let Some((side, listener)) = self.inbound.take() else {
            return Ok(());
        };
        // It refuses everything until it is ready. A port that is closed so long says that in every balancer's words:
        // it asks another instance, and no call is lost to one that has just started.
        while !side.is_ready() {
            if self.drain.is_started() {
                return Ok(());
            }
            side.share().await;
            tokio::time::sleep(READY_EVERY).await;
        }
        listener.open()?;
        let (edge, drain) = (Arc::clone(&self.inbound_edge), self.drain.clone());
        side.serve(listener, self.upstreams(), edge, drain).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where it goes is read at the start alone.
fn reach(started: &Settings, _: &Settings) -> Vec<(Name, Reach)> {
    let places = started.relay.places();
    places
        .map(|place| (place.name.clone(), place.reach()))
        .collect()
}

fn only_at_start(old: &Settings, new: &Settings) -> Vec<String> {
    [outbounds(old, new), inbounds(old, new)].concat()
}

/// What of an outbound is read at the start alone: whether there is one, where it listens, and where it goes.
fn outbounds(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = match (&old.relay.outbound, &new.relay.outbound) {
        (Some(old), Some(new)) => (old, new),
        (None, None) => return Vec::new(),
        _ => return vec!["relay.outbound".to_owned()],
    };
    fn peers(side: &Outbound) -> impl Iterator<Item = (&Name, (&Place, bool))> {
        let peers = side.peers.iter();
        peers.map(|peer| (&peer.place.name, (&peer.place, peer.mutual.is_some())))
    }
    let mut keys = Vec::new();
    if old.listen != new.listen {
        keys.push("relay.outbound.listen".to_owned());
    }
    keys.extend(named("relay.outbound.peers", peers(old), peers(new)));
    keys.extend(named(
        "relay.outbound.plain",
        places(&old.plain),
        places(&new.plain),
    ));
    keys
}

/// The same of an inbound, and how many senders it tells apart.
fn inbounds(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = match (&old.relay.inbound, &new.relay.inbound) {
        (Some(old), Some(new)) => (old, new),
        (None, None) => return Vec::new(),
        _ => return vec!["relay.inbound".to_owned()],
    };
    let single = [
        ("listen", old.listen != new.listen),
        ("transport", old.mutual.is_some() != new.mutual.is_some()),
        ("windows_max", old.windows_max != new.windows_max),
        ("replay", old.mode != new.mode),
        (
            "ticket_keys",
            old.fleet_key.is_some() != new.fleet_key.is_some(),
        ),
    ];
    let single = single.into_iter().filter(|(_, differs)| *differs);
    let mut keys: Vec<String> = single
        .map(|(key, _)| format!("relay.inbound.{key}"))
        .collect();
    keys.extend(named(
        "relay.inbound.origins",
        places(&old.origins),
        places(&new.origins),
    ));
    keys
}

fn places(places: &[Place]) -> impl Iterator<Item = (&Name, &Place)> {
    places.iter().map(|place| (&place.name, place))
}
