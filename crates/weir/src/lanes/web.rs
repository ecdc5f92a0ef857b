//! The row of the web: pages as text at `/fetch`, the judge of texts, and the forward proxy on a listener of its own.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use base::{CallId, Name};
use config::Listen;
use gate::{ActingFor, Reach};
use http::Method;
use net::{Drain, EdgeShared, Endpoint, Listener, ListenerSettings, Request, Response};
use tokio::task::JoinSet;
use web::{Intercept, ProxyService, ReverseProxy, ReverseService, Shared, WebLane};

use super::{Local, OnThread, Opened, Parts, Row, Running};
use crate::assemble::{WayOut, edge_settings, endpoint};
use crate::config::Settings;
use crate::listen::{address, listen};
use crate::routes::{Answers, Open, Route, new_call_id};

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
    metrics: &[],
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
    only_at_start: |old, new| match old.web == new.web {
        true => Vec::new(),
        false => vec!["web".to_owned()],
    },
    reloaded: |_, _| Vec::new(),
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

/// The lane of one process.
struct Web {
    shared: Arc<Shared>,
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

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let written = &settings.web;
    let intercept = written.intercept.as_ref().map(|of| Intercept {
        authority: Arc::clone(&of.authority),
        pass: of.pass.clone(),
    });
    let told = web::Settings {
        is_on: written.is_on,
        fetch: written.fetch.clone(),
        body_bytes_max: written.body_bytes_max,
        answer_ms: written.answer_ms,
        silence_ms: written.silence_ms,
        tunnel: written.tunnel,
        socket: written.socket,
        agent: written.agent,
        credentials: written.credentials.clone().into(),
        intercept,
        edge: edge_settings(settings),
        origins: settings.origins.clone(),
        new_id: new_call_id,
        now_ms,
    };
    Ok(Arc::new(Web {
        shared: Arc::new(Shared::new(told, Arc::clone(parts.gate))),
        edge: Arc::default(),
        drain: parts.drain.clone(),
        listeners: Mutex::default(),
        address: Mutex::default(),
        reverse: Mutex::default(),
    }))
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
        match &settings.web.intercept {
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

    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread> {
        let mut reverse = lock(&self.reverse);
        let reverse = reverse.iter_mut().filter_map(|of| {
            let listener = of.listeners.pop()?;
            Some((Arc::clone(&of.service), listener))
        });
        Rc::new(WebThread {
            reverse: Cell::new(reverse.collect()),
            lane: WebLane::new(Arc::clone(&self.shared), out.upstreams()),
            edge: Arc::clone(&self.edge),
            drain: self.drain.clone(),
            listener: Cell::new(lock(&self.listeners).pop()),
        })
    }
}

/// The lane on one thread, with what the proxy listens on there.
struct WebThread {
    lane: WebLane,
    edge: Arc<EdgeShared>,
    drain: Drain,
    listener: Cell<Option<Listener>>,
    /// The services behind the reverse proxy.
    reverse: Cell<Vec<(Arc<ReverseService>, Listener)>>,
}

impl OnThread for WebThread {
    fn answer<'a>(&'a self, _rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        Box::pin(async move {
            if request.head.extensions.get::<ActingFor>().is_some() {
                // A run asks for a site as a client of the proxy does.
                let proxy = ProxyService::new(self.lane.clone(), Arc::clone(&self.edge));
                return net::Service::call(&proxy, request).await;
            }
            match request.head.uri.path() {
                "/fetch" => self.lane.fetch(request, id).await,
                "/ws" => self.lane.web_socket(request, id).await,
                "/v1/scan" => self.lane.scan(request, id).await,
                _ => self.lane.scan_for_pipelock(request, id).await,
            }
        })
    }

    fn serve(self: Rc<Self>, _first: bool) -> Local<'static, io::Result<()>> {
        Box::pin(async move {
            let mut serving = JoinSet::new();
            for (service, listener) in self.reverse.take() {
                let proxy = ReverseProxy::new(self.lane.clone(), service);
                serving.spawn_local(self.serve_on(listener, proxy));
            }
            if let Some(listener) = self.listener.take() {
                let proxy = ProxyService::new(self.lane.clone(), Arc::clone(&self.edge));
                serving.spawn_local(self.serve_on(listener, proxy));
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
        let settings = Rc::new(self.lane.edge_settings().clone());
        let (edge, drain) = (Arc::clone(&self.edge), self.drain.clone());
        net::serve(listeners, Rc::new(service), settings, edge, drain)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
