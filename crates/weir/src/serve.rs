//! Serving: a thread for each core, each with its own listener, runtime and upstream connections.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;
use tracing_subscriber::EnvFilter;

use crate::assemble::Gateway;
use crate::config::settings::{LogFormat, Logs};
use crate::config::{Seen, Settings};
use crate::coverage::Coverage;
use crate::reload::{By, Load, Reload};
use crate::routes::Routes;

/// "File size limit exceeded" (POSIX); 25 on every Linux that Rust is built for but MIPS.
pub(crate) const SIGXFSZ: i32 = 25;
/// How often the files of the configuration are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves until it is told to stop, then lets calls in flight end. The error is for the operator.
pub(crate) fn run(signals: Signals, settings: Settings, seen: Seen) -> Result<(), String> {
    let file = settings.file.clone();
    let load = move |seen: &mut Seen| crate::config::load(&file, &crate::cli::variable, seen);
    let process = Process {
        edge: true,
        logs: 1,
        load: Box::new(load),
    };
    run_as(signals, settings, seen, process)
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
pub(crate) fn run_as(
    signals: Signals,
    settings: Settings,
    seen: Seen,
    process: Process,
) -> Result<(), String> {
    write_logs(&settings.logs);
    let gateway = Arc::new(Gateway::with_logs(&settings, process.logs)?);
    let threads = threads(&settings);
    let mut listeners = match process.edge {
        true => listen(settings.listen, threads)?,
        false => Vec::new(),
    };
    let address = listeners.first().and_then(|first| first.local_addr().ok());
    for lane in &*gateway.lanes {
        lane.listen(&settings, threads)?;
    }

    let mut serving = Vec::new();
    for i in 0..threads {
        let (gateway, listener) = (Arc::clone(&gateway), listeners.pop());
        let thread = std::thread::Builder::new().name(format!("core-{i}"));
        let body = move || serve(&gateway, listener, i == 0);
        serving.push(
            thread
                .spawn(body)
                .map_err(|error| format!("a thread: {error}"))?,
        );
    }
    say_started(&settings, &gateway, address);
    let reload = Reload::new(Arc::clone(&gateway), settings, seen, process.load);
    signals.wait_for_end(gateway.gate(), reload);
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

/// Serves on one thread until the gateway drains.
pub(crate) fn serve(
    gateway: &Gateway,
    listener: Option<TcpListener>,
    first: bool,
) -> Result<(), String> {
    let runtime = runtime()?;
    let local = LocalSet::new();
    let routes: Rc<Routes> = Rc::new(gateway.thread());
    let edge_settings = Rc::new(gateway.edge_settings.clone());
    runtime.block_on(local.run_until(async {
        let lanes: Vec<_> = routes
            .lanes
            .iter()
            .map(|lane| Rc::clone(lane).serve(first))
            .collect();
        let lanes: Vec<_> = lanes.into_iter().map(tokio::task::spawn_local).collect();
        let edge = async {
            let Some(listener) = listener else {
                return Ok(());
            };
            let drain = gateway.drain.clone();
            let listener = (net::Listener::Tcp(listener), Rc::default());
            net::serve(vec![listener], routes, edge_settings, gateway.edge(), drain).await
        };
        let mut served = edge.await;
        for lane in lanes {
            served = served.and(
                lane.await
                    .unwrap_or_else(|error| Err(std::io::Error::other(error))),
            );
        }
        served.map_err(|error| format!("the listener: {error}"))
    }))
}

fn join(thread: JoinHandle<Result<(), String>>) -> Result<(), String> {
    thread
        .join()
        .unwrap_or_else(|_| Err("a thread failed; see the messages above".into()))
}

/// What the process is told from outside. Make them before anything is read or opened: from then on a signal waits until
/// it is looked at, and none ends the process with its log open or its configuration half read.
pub(crate) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// A file over the process's limit is then an error of one write, which the log reports, not the end of the
    /// process.
    _file_size: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals, String> {
        let runtime = runtime()?;
        let entered = runtime.enter();
        let of = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
        let (terminate, interrupt) = (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
        let hangup = of(SignalKind::hangup())?;
        let file_size = of(SignalKind::from_raw(SIGXFSZ))?;
        drop(entered);
        Ok(Signals {
            runtime,
            terminate,
            interrupt,
            hangup,
            _file_size: file_size,
        })
    }

    /// Until it is told to stop: reads the configuration again when it is told to, or when its files change.
    fn wait_for_end(mut self, gate: &gate::Gate, mut reload: Reload) {
        self.runtime.block_on(async {
            let mut look = tokio::time::interval(LOOK_EVERY);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = self.terminate.recv() => return,
                    _ = self.interrupt.recv() => return,
                    _ = self.hangup.recv() => reload.now(By::Signal),
                    _ = look.tick() => {
                        gate.tell_of_floods(false);
                        reload.look();
                    }
                }
            }
        });
    }
}

fn say_started(settings: &Settings, gateway: &Gateway, address: Option<SocketAddr>) {
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
    for lane in &*gateway.lanes {
        lane.say_started(settings, address);
    }
    if let Some(address) = address {
        tracing::info!(%address, "listening");
    }
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
