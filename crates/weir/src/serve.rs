//! Serving: a thread for each core, each with its own listener, runtime and upstream connections.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use net::h1::Listener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tracing_subscriber::EnvFilter;

use crate::assemble::{self, Gateway};
use crate::config::settings::{LogFormat, Logs};
use crate::config::{Seen, Settings};
use crate::coverage::Coverage;
use crate::reload::{By, Load, Reload};
use crate::routes::{Routes, new_call_id};

/// "File size limit exceeded" (POSIX); 25 on every Linux that Rust is built for but MIPS.
pub(crate) const SIGXFSZ: i32 = 25;
/// How often an inbound that is not ready yet is looked at.
const READY_EVERY: Duration = Duration::from_millis(20);
/// How often the files of the configuration are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves until it is told to stop, then lets calls in flight end. The error is for the operator.
pub(crate) fn run(settings: Settings, seen: Seen) -> Result<(), String> {
    let file = settings.file.clone();
    let load = move |seen: &mut Seen| crate::config::load(&file, &crate::cli::variable, seen);
    let process = Process {
        edge: true,
        logs: 1,
        load: Box::new(load),
    };
    run_as(settings, seen, process)
}

/// How a process serves what its settings say.
pub(crate) struct Process {
    /// Whether agents and probes are listened for, where `listen` says.
    pub edge: bool,
    /// Logs that processes of one state may have: each writes one.
    pub logs: usize,
    /// Reads the settings again.
    pub load: Load,
}

/// The same, as a process of this kind.
pub(crate) fn run_as(settings: Settings, seen: Seen, process: Process) -> Result<(), String> {
    write_logs(&settings.logs);
    let gateway = Arc::new(Gateway::with_logs(&settings, process.logs)?);
    let listening = Listening::new(&settings, process.edge)?;
    let addresses = listening.addresses();

    let mut serving = Vec::new();
    for (i, listeners) in listening.threads.into_iter().enumerate() {
        let gateway = Arc::clone(&gateway);
        let thread = std::thread::Builder::new().name(format!("core-{i}"));
        let body = move || serve(&gateway, listeners, i == 0);
        serving.push(
            thread
                .spawn(body)
                .map_err(|error| format!("a thread: {error}"))?,
        );
    }
    say_started(&settings, &gateway, &addresses);
    let reload = Reload::new(Arc::clone(&gateway), settings, seen, process.load);
    wait_for_end(gateway.gate(), reload)?;
    tracing::info!("draining");
    gateway.drain.start();
    let joined: Vec<Result<(), String>> = serving.into_iter().map(join).collect();
    if let Some(pins) = &gateway.pins {
        pins.close();
    }
    gateway.gate().tell_of_floods(true);
    let closed = gateway
        .close()
        .map_err(|error| format!("the log: {error:?}"));
    tracing::info!(entries = gateway.log.size(), "stopped");
    joined.into_iter().chain([closed]).collect()
}

fn threads(settings: &Settings) -> usize {
    match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// One listening socket for each thread, all on one port: the kernel spreads connections over them.
pub(crate) fn listen(address: SocketAddr, threads: usize) -> Result<Vec<TcpListener>, String> {
    sockets(address, threads, net::bind)
}

/// One socket for each thread, made by [`net::bind`] or [`net::reserve`].
pub(crate) fn sockets(
    address: SocketAddr,
    threads: usize,
    make: fn(SocketAddr) -> std::io::Result<TcpListener>,
) -> Result<Vec<TcpListener>, String> {
    let bind = |address| {
        make(address).map_err(|error| {
            format!("{address} cannot be listened on: {error}; is something else using the port?")
        })
    };
    if address.port() != 0 && std::net::TcpStream::connect(address).is_ok() {
        return Err(format!(
            "{address} is in use; stop what listens there, or set another listen"
        ));
    }
    let first = bind(address)?;
    let address = first.local_addr().map_err(|error| error.to_string())?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(bind(address)?);
    }
    Ok(listeners)
}

pub(crate) fn runtime() -> Result<Runtime, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build()
        .map_err(|error| format!("a runtime: {error}"))
}

/// What one thread listens on.
#[derive(Default)]
struct Listeners {
    edge: Option<TcpListener>,
    outbound: Option<Listener>,
    inbound: Option<Listener>,
}

/// What all threads listen on.
struct Listening {
    threads: Vec<Listeners>,
}

impl Listening {
    fn new(settings: &Settings, edge: bool) -> Result<Listening, String> {
        let count = threads(settings);
        let mut threads: Vec<Listeners> = Vec::new();
        threads.resize_with(count, Listeners::default);
        if edge {
            let listeners = listen(settings.listen, count)?.into_iter();
            threads
                .iter_mut()
                .zip(listeners)
                .for_each(|(thread, listener)| thread.edge = Some(listener));
        }
        if let Some(side) = &settings.relay.outbound {
            let listeners = assemble::relay::listen(&side.listen, count, net::bind)?.into_iter();
            threads
                .iter_mut()
                .zip(listeners)
                .for_each(|(thread, listener)| thread.outbound = Some(listener));
        }
        if let Some(side) = &settings.relay.inbound {
            let listeners = assemble::relay::listen(&side.listen, count, net::reserve)?.into_iter();
            threads
                .iter_mut()
                .zip(listeners)
                .for_each(|(thread, listener)| thread.inbound = Some(listener));
        }
        Ok(Listening { threads })
    }

    fn addresses(&self) -> Addresses {
        let of = |listener: &Option<Listener>| match listener.as_ref()? {
            Listener::Tcp(listener) => Some(listener.local_addr().ok()?.to_string()),
            Listener::Unix(listener) => {
                let address = listener.local_addr().ok()?;
                Some(format!("unix:{}", address.as_pathname()?.display()))
            }
        };
        let first = &self.threads[0];
        Addresses {
            edge: first
                .edge
                .as_ref()
                .and_then(|listener| listener.local_addr().ok()),
            outbound: of(&first.outbound),
            inbound: of(&first.inbound),
        }
    }
}

/// Where the first thread listens, and so all of them.
struct Addresses {
    edge: Option<SocketAddr>,
    outbound: Option<String>,
    inbound: Option<String>,
}

fn serve(gateway: &Gateway, listeners: Listeners, first: bool) -> Result<(), String> {
    let runtime = runtime()?;
    let local = LocalSet::new();
    let routes: Rc<Routes> = Rc::new(gateway.thread());
    let edge_settings = Rc::new(gateway.edge_settings.clone());
    runtime.block_on(local.run_until(async {
        if first {
            mcp::probe(&routes.mcp, new_call_id);
        }
        let edge = async {
            let Some(listener) = listeners.edge else {
                return Ok(());
            };
            let drain = gateway.drain.clone();
            net::serve(listener, routes, edge_settings, gateway.edge(), drain).await
        };
        let outbound = outbound(gateway, listeners.outbound);
        let inbound = inbound(gateway, listeners.inbound);
        let (edge, outbound, inbound) = tokio::join!(edge, outbound, inbound);
        let served = edge.and(outbound).and(inbound);
        served.map_err(|error| format!("the listener: {error}"))
    }))
}

async fn outbound(gateway: &Gateway, listener: Option<Listener>) -> std::io::Result<()> {
    let (Some(side), Some(listener)) = (&gateway.sides.outbound, listener) else {
        return Ok(());
    };
    let (edge, drain) = (gateway.outbound_edge(), gateway.drain.clone());
    side.serve(listener, gateway.wires(), edge, drain).await
}

async fn inbound(gateway: &Gateway, listener: Option<Listener>) -> std::io::Result<()> {
    let (Some(side), Some(listener)) = (&gateway.sides.inbound, listener) else {
        return Ok(());
    };
    // It refuses everything until it is ready. A port that is closed so long says that in every balancer's words: it
    // asks another instance, and no call is lost to one that has just started.
    while !side.is_ready() {
        if gateway.drain.is_started() {
            return Ok(());
        }
        tokio::time::sleep(READY_EVERY).await;
    }
    listener.open()?;
    let (edge, drain) = (gateway.inbound_edge(), gateway.drain.clone());
    side.serve(listener, gateway.wires(), edge, drain).await
}

fn join(thread: JoinHandle<Result<(), String>>) -> Result<(), String> {
    thread
        .join()
        .unwrap_or_else(|_| Err("a thread failed; see the messages above".into()))
}

/// Until it is told to stop: reads the configuration again when it is told to, or when its files change.
fn wait_for_end(gate: &gate::Gate, mut reload: Reload) -> Result<(), String> {
    runtime()?.block_on(async {
        let failed = |error: std::io::Error| format!("signals: {error}");
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // A file over the process's limit is then an error of one write, which the log reports, not the
        // end of the process.
        let _file_size = signal(SignalKind::from_raw(SIGXFSZ)).map_err(failed)?;
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                _ = hangup.recv() => reload.now(By::Signal),
                _ = look.tick() => {
                    gate.tell_of_floods(false);
                    reload.look();
                }
            }
        }
    })
}

fn say_started(settings: &Settings, gateway: &Gateway, addresses: &Addresses) {
    tracing::info!(
        agents = settings.agents.len(),
        servers = settings.servers.len(),
        log = %gateway.log.path().display(),
        log_key = gateway.log.vkey(),
        "assembled"
    );
    for warning in &settings.warnings {
        tracing::warn!(%warning, "configuration");
    }
    // A process that only relays scans nothing.
    if !settings.servers.is_empty() || settings.relay.places().next().is_none() {
        for line in Coverage::new(settings).lines() {
            tracing::info!("coverage: {line}");
        }
    }
    if let (Some(side), Some(address)) = (&settings.relay.outbound, &addresses.outbound) {
        let peers = side.peers.len();
        match &side.key {
            Some(key) => {
                let (peer_id, _) = assemble::relay::names(key);
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
            let (_, pin) = assemble::relay::names(key);
            tracing::info!(%address, %pin, allowed = side.allow.len(), "relay inbound");
        }
    }
    let Some(address) = addresses.edge else {
        return;
    };
    for server in &settings.servers {
        tracing::info!(server = %server.name, url = %format!("http://{address}/mcp/{}", server.name), "server");
    }
    tracing::info!(%address, "listening");
}

/// The gateway's own messages go to standard error.
pub(crate) fn write_logs(logs: &Logs) {
    let filter = EnvFilter::new(logs.level.as_str());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let set = match logs.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => {
            use std::io::IsTerminal;
            builder
                .with_ansi(std::io::stderr().is_terminal())
                .try_init()
        }
    };
    // Only a second call in one process can fail, and the first one's writer is as good.
    let _ = set;
}
