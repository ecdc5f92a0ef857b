//! The row of the web: pages as text at `/fetch`, the judge of texts, and the forward proxy on a listener of its own.

mod metrics;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use base::{CallId, Name};
use config::Listen;
use gate::{ActingFor, Reach};
use http::Method;
use net::{Drain, EdgeShared, Endpoint, Listener, ListenerSettings, Request, Response};
use tokio::task::JoinSet;
use web::{
    Intercept, LaneNow, ProxyService, ReverseProxy, ReverseService, Shared, SiteMeter, WebLane,
    WebMode,
};

use super::{Local, OnThread, Opened, Parts, Row, Running, Take};
use crate::assemble::{WayOut, edge_settings, endpoint};
use crate::config::settings::{Web as WebSettings, WebIntercept};
use crate::config::{Problem, Settings};
use crate::listen::{address, listen};
use crate::reload::named;
use crate::routes::{Answers, Open, Route, new_call_id};
use metrics::WebMetrics;

/// The mode of a socket's file that this user alone may speak to.
const OWNER_ALONE: u32 = 0o600;

pub(crate) const ROW: Row = Row {
    lane: &web::LANE,
    routes: &[
        route("/fetch", &[Method::GET, Method::POST]),
        route("/ws", &[Method::GET]),
        route("/v1/scan", &[Method::POST]),
        route("/api/v1/scan", &[Method::POST]),
    ],
    metrics: metrics::ALL,
    endpoints: |settings: &Settings| -> Vec<(Name, Endpoint)> {
        let services = settings.web.reverse.iter();
        let services = services.map(|of| {
            let endpoint = endpoint(&of.url, of.ca.as_ref());
            (of.told.name.clone(), endpoint)
        });
        services.collect()
    },
    reach: |started: &Settings, _: &Settings| -> Vec<(Name, Reach)> {
        let services = started.web.reverse.iter();
        services
            .map(|of| (of.told.name.clone(), of.reach()))
            .collect()
    },
    only_at_start,
    reloaded,
    open,
};

const fn route(template: &'static str, methods: &'static [Method]) -> Route {
    Route {
        template,
        methods,
        open: Open::Agents,
        body_bytes_max: None,
        refuse: web::problem,
        answers: Answers::Lane,
    }
}

/// Milliseconds on a clock that only goes on.
fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Where the proxy listens, and whom sites' certificates are trusted by, is settled at the start.
fn only_at_start(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = (&old.web, &new.web);
    let differ = [
        ("web.listen", old.listen != new.listen),
        ("web.ca", old.ca != new.ca),
        ("web.reverse", old.reverse != new.reverse),
    ];
    let differ = differ.into_iter().filter(|(_, differs)| *differs);
    differ.map(|(key, _)| key.to_owned()).collect()
}

/// The keys that differ of all others, of credentials by name.
fn reloaded(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = (&old.web, &new.web);
    let credentials = |of: &'_ WebSettings| -> Vec<_> { of.credentials.clone() };
    let (before, after) = (credentials(old), credentials(new));
    let mut keys = named(
        "web.credentials",
        before.iter().map(|of| (&of.name, of)),
        after.iter().map(|of| (&of.name, of)),
    );
    let differ = [
        ("web", old.is_on != new.is_on),
        ("web.mode", old.mode != new.mode),
        ("web.intercept", old.intercept != new.intercept),
        ("web.fetch", old.fetch != new.fetch),
        ("web.tunnel", old.tunnel != new.tunnel),
        ("web.socket", old.socket != new.socket),
        ("web.agent", old.agent != new.agent),
        (
            "web.body_bytes_max",
            old.body_bytes_max != new.body_bytes_max,
        ),
        ("web.answer_ms", old.answer_ms != new.answer_ms),
        ("web.silence_ms", old.silence_ms != new.silence_ms),
    ];
    let differ = differ.into_iter().filter(|(_, differs)| *differs);
    keys.extend(differ.map(|(key, _)| key.to_owned()));
    keys
}

/// The lane of one process.
struct Web {
    means: Means,
    current: Arc<ArcSwap<Generation>>,
    edge: Arc<EdgeShared>,
    drain: Drain,
    /// Those that no thread has taken yet.
    listeners: Mutex<Vec<Listener>>,
    /// Where the proxy listens.
    address: Mutex<Option<Listen>>,
    /// The same of each service behind the reverse proxy.
    reverse: Mutex<Vec<ReverseListener>>,
}

/// Where one service behind the reverse proxy is reached.
struct ReverseListener {
    service: Arc<ReverseService>,
    address: Option<Listen>,
    /// Those that no thread has taken yet.
    listeners: Vec<Listener>,
}

/// One state of the settings of the web. A call, a tunnel and a WebSocket go on by that in which they began; what is asked
/// inside of a tunnel is a call of its own.
struct Generation {
    shared: Arc<Shared>,
    settings: WebSettings,
}

/// What all generations share.
struct Means {
    metrics: Arc<WebMetrics>,
    edge: net::EdgeSettings,
    origins: Vec<String>,
}

impl Means {
    /// What the lane is told of the settings.
    fn told(&self, settings: &WebSettings) -> web::Settings {
        let intercept = settings.intercept.as_ref().map(|of| Intercept {
            authority: Arc::clone(&of.authority),
            pass: of.pass.clone(),
        });
        web::Settings {
            is_on: settings.is_on,
            mode: settings.mode,
            fetch: settings.fetch.clone(),
            body_bytes_max: settings.body_bytes_max,
            answer_ms: settings.answer_ms,
            silence_ms: settings.silence_ms,
            tunnel: settings.tunnel,
            socket: settings.socket,
            agent: settings.agent,
            credentials: settings.credentials.clone().into(),
            intercept,
            edge: self.edge.clone(),
            origins: self.origins.clone(),
            meter: Arc::clone(&self.metrics) as Arc<dyn SiteMeter>,
            new_id: new_call_id,
            now_ms,
        }
    }
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let means = Means {
        metrics: Arc::new(WebMetrics::new()),
        edge: edge_settings(settings),
        origins: settings.origins.clone(),
    };
    let told = means.told(&settings.web);
    let generation = Generation {
        shared: Arc::new(Shared::new(told, Arc::clone(parts.gate))),
        settings: settings.web.clone(),
    };
    Ok(Arc::new(Web {
        means,
        current: Arc::new(ArcSwap::from_pointee(generation)),
        edge: Arc::default(),
        drain: parts.drain.clone(),
        listeners: Mutex::default(),
        address: Mutex::default(),
        reverse: Mutex::default(),
    }))
}

/// Tells the operator what is seen of TLS.
fn say_seen(intercept: Option<&WebIntercept>) {
    match intercept {
        Some(intercept) => {
            let authority = intercept.authority.fingerprint();
            tracing::info!(
                authority,
                "web proxy: TLS is looked into, but for the hosts of web.intercept.pass"
            );
        }
        None => tracing::warn!(
            "web proxy: of https only the host is seen, judged and recorded; paths, bodies and answers are not, \
             and no credential is put in. Write web.intercept to have them seen"
        ),
    }
}

/// Tells the operator where nothing is refused.
fn say_mode(settings: &WebSettings) {
    if settings.is_on && settings.mode == WebMode::Observe {
        tracing::warn!(
            "web.mode is observe: what policies and the scan refuse passes, and is only recorded. Unknown callers, stops, bounds, \
             placeholders of credentials and addresses inside are refused as ever"
        );
    }
}

impl Running for Web {
    fn listen(&self, settings: &Settings, threads: usize) -> Result<(), String> {
        for service in &settings.web.reverse {
            let sockets = listen(&service.listen, threads, OWNER_ALONE, net::bind)?;
            lock(&self.reverse).push(ReverseListener {
                service: Arc::clone(&service.told),
                address: sockets.first().and_then(address),
                listeners: sockets,
            });
        }
        let Some(at) = &settings.web.listen else {
            return Ok(());
        };
        let sockets = listen(at, threads, OWNER_ALONE, net::bind)?;
        *lock(&self.address) = sockets.first().and_then(address);
        *lock(&self.listeners) = sockets;
        Ok(())
    }

    fn say_started(&self, settings: &Settings, _url: Option<&str>) {
        say_mode(&settings.web);
        for of in lock(&self.reverse).iter() {
            if let Some(address) = &of.address {
                tracing::info!(service = %of.service.name, %address, "reverse proxy");
            }
        }
        let Some(address) = &*lock(&self.address) else {
            return;
        };
        let credentials = settings.web.credentials.len();
        tracing::info!(%address, credentials, "web proxy");
        say_seen(settings.web.intercept.as_ref());
    }

    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread> {
        let generation = self.current.load_full();
        let lane = WebLane::new(Arc::clone(&generation.shared), out.upstreams());
        let mut reverse = lock(&self.reverse);
        let reverse = reverse.iter_mut().filter_map(|of| {
            let listener = of.listeners.pop()?;
            Some((Arc::clone(&of.service), listener))
        });
        Rc::new(WebThread {
            reverse: Cell::new(reverse.collect()),
            now: Rc::new(LaneInForce {
                current: Arc::clone(&self.current),
                out: out.clone(),
                held: RefCell::new((generation, lane)),
            }),
            edge: Arc::clone(&self.edge),
            drain: self.drain.clone(),
            listener: Cell::new(lock(&self.listeners).pop()),
        })
    }

    /// All but where the proxy listens and whom it trusts. Calls under way go on by the settings in which they began.
    fn prepare(&self, settings: &Settings) -> Result<Take<'_>, Vec<Problem>> {
        let old = self.current.load_full();
        let mut new = settings.web.clone();
        if let (Some(old), Some(new)) = (&old.settings.intercept, &mut new.intercept)
            && old.authority.fingerprint() == new.authority.fingerprint()
        {
            // Its certificates for hosts are kept with it.
            new.authority = Arc::clone(&old.authority);
        }
        if old.settings == new {
            return Ok(Box::new(|| ()));
        }
        Ok(Box::new(move || {
            let shared = Arc::new(old.shared.next(self.means.told(&new)));
            if old.settings.mode != new.mode {
                say_mode(&new);
            }
            if old.settings.intercept != new.intercept && lock(&self.address).is_some() {
                say_seen(new.intercept.as_ref());
            }
            self.current.store(Arc::new(Generation {
                shared,
                settings: new,
            }));
        }))
    }

    fn show_metrics(&self, page: &mut String) {
        let current = self.current.load();
        let intercept = current.settings.intercept.as_ref();
        let leaves = intercept.map(|of| of.authority.leaves());
        self.means.metrics.write(leaves, page);
    }
}

/// The lane on one thread, by the settings that are in force.
struct LaneInForce {
    current: Arc<ArcSwap<Generation>>,
    out: WayOut,
    /// The lane by the settings of the last call, as long as these are in force.
    held: RefCell<(Arc<Generation>, WebLane)>,
}

impl LaneInForce {
    fn lane(&self) -> WebLane {
        let current = self.current.load();
        let mut held = self.held.borrow_mut();
        if !Arc::ptr_eq(&held.0, &current) {
            let lane = WebLane::new(Arc::clone(&current.shared), self.out.upstreams());
            *held = (Arc::clone(&current), lane);
        }
        held.1.clone()
    }
}

/// The lane on one thread, with what the proxy listens on there.
struct WebThread {
    now: Rc<LaneInForce>,
    edge: Arc<EdgeShared>,
    drain: Drain,
    listener: Cell<Option<Listener>>,
    /// The services behind the reverse proxy.
    reverse: Cell<Vec<(Arc<ReverseService>, Listener)>>,
}

impl WebThread {
    fn proxy(&self) -> ProxyService {
        ProxyService::new(self.lane_now(), Arc::clone(&self.edge))
    }

    fn lane_now(&self) -> LaneNow {
        let now = Rc::clone(&self.now);
        Rc::new(move || now.lane())
    }
}

impl OnThread for WebThread {
    fn answer<'a>(&'a self, _rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        Box::pin(async move {
            if request.head.extensions.get::<ActingFor>().is_some() {
                // A run asks for a site as a client of the proxy does.
                return net::Service::call(&self.proxy(), request).await;
            }
            let lane = self.now.lane();
            match request.head.uri.path() {
                "/fetch" => lane.fetch(request, id).await,
                "/ws" => lane.web_socket(request, id).await,
                "/v1/scan" => lane.scan(request, id).await,
                _ => lane.scan_for_pipelock(request, id).await,
            }
        })
    }

    fn serve(self: Rc<Self>, _first: bool) -> Local<'static, io::Result<()>> {
        Box::pin(async move {
            let mut serving = JoinSet::new();
            for (service, listener) in self.reverse.take() {
                let proxy = ReverseProxy::new(self.lane_now(), service);
                serving.spawn_local(self.serve_on(listener, proxy));
            }
            if let Some(listener) = self.listener.take() {
                serving.spawn_local(self.serve_on(listener, self.proxy()));
            }
            while let Some(served) = serving.join_next().await {
                served.unwrap_or_else(|error| Err(io::Error::other(error)))?;
            }
            Ok(())
        })
    }
}

impl WebThread {
    /// Serves what comes to one listener, until the gateway drains.
    fn serve_on<S: net::Service + 'static>(
        &self,
        listener: Listener,
        service: S,
    ) -> impl Future<Output = io::Result<()>> + use<S> {
        let listeners = vec![(listener, Rc::new(ListenerSettings::default()))];
        let settings = Rc::new(self.now.lane().edge_settings().clone());
        let (edge, drain) = (Arc::clone(&self.edge), self.drain.clone());
        net::serve(listeners, Rc::new(service), settings, edge, drain)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
