//! Serving: a thread for each core, each with its own listener, runtime and upstream connections.

use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use net::EdgeShared;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;
use tracing_subscriber::EnvFilter;

use crate::admin::break_glass;
use crate::assemble::Gateway;
use crate::config::settings::{LogFormat, Logs};
use crate::config::{Seen, Settings};
use crate::coverage::Coverage;
use crate::listen::{Listening, OnThread};
use crate::reload::{By, Load, Reload};
use crate::routes::{AdminPages, Routes};

/// "File size limit exceeded" (POSIX); 25 on every Linux that Rust is built for but MIPS.
pub(crate) const SIGXFSZ: i32 = 25;
/// How often the files of the configuration are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the file of stops is looked at.
const STOPS_LOOK_EVERY: Duration = Duration::from_millis(100);

/// Serves until it is told to stop, then lets calls in flight end. The error is for the operator.
pub(crate) fn run(signals: Signals, settings: Settings, seen: Seen) -> Result<(), String> {
    let file = settings.file.clone();
    let load = move |seen: &mut Seen| crate::config::load_again(&file, &crate::cli::variable, seen);
    let process = Process {
        agents: true,
        admin: true,
        logs: 1,
        load: Box::new(load),
    };
    run_as(signals, settings, seen, process)
}

/// How a process serves what its settings say.
pub(crate) struct Process {
    /// Whether agents are listened for.
    pub agents: bool,
    /// Whether the operator is listened for.
    pub admin: bool,
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
    gateway.notices.begin();
    let threads = threads(&settings);
    let mut listening = Listening::default();
    if process.agents {
        listening.for_agents(&settings, threads)?;
    }
    if process.admin {
        listening.for_the_operator(&settings)?;
        show_break_glass(&settings, &gateway)?;
    }
    for lane in &*gateway.lanes {
        lane.listen(&settings, threads)?;
    }

    let mut serving = Vec::new();
    for i in 0..threads {
        let gateway = Arc::clone(&gateway);
        let (listeners, admin) = (listening.take(), listening.take_admin());
        let thread = std::thread::Builder::new().name(format!("core-{i}"));
        let body = move || serve(&gateway, listeners, admin, i == 0);
        serving.push(
            thread
                .spawn(body)
                .map_err(|error| format!("a thread: {error}"))?,
        );
    }
    say_started(&settings, &gateway, &listening);
    let certificates = listening.certificates();
    let reload = Reload::new(
        Arc::clone(&gateway),
        certificates,
        settings,
        seen,
        process.load,
    );
    signals.wait_for_end(&gateway, reload);
    tracing::info!("draining");
    gateway.drain.start();
    let joined: Vec<Result<(), String>> = serving.into_iter().map(join).collect();
    listening.remove_sockets();
    if let Some(pins) = &gateway.pins {
        pins.close();
    }
    gateway.gate().tell_of_floods(true);
    gateway.notices.tell_rest(true);
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
    listeners: Vec<OnThread>,
    admin: Option<OnThread>,
    first: bool,
) -> Result<(), String> {
    let runtime = runtime()?;
    let local = LocalSet::new();
    let routes: Rc<Routes> = Rc::new(gateway.thread());
    runtime.block_on(local.run_until(async {
        let lanes: Vec<_> = routes
            .lanes
            .iter()
            .map(|lane| Rc::clone(lane).serve(first))
            .collect();
        let lanes: Vec<_> = lanes.into_iter().map(tokio::task::spawn_local).collect();
        let pages = Rc::new(AdminPages {
            routes: Rc::clone(&routes),
            access: Arc::clone(&gateway.admin),
        });
        let (agents, operator) = tokio::join!(
            edge(gateway, listeners, routes, gateway.edge()),
            edge(gateway, admin, pages, Arc::default()),
        );
        let mut served = agents.and(operator);
        for lane in lanes {
            served = served.and(
                lane.await
                    .unwrap_or_else(|error| Err(std::io::Error::other(error))),
            );
        }
        served.map_err(|error| format!("the listener: {error}"))
    }))
}

/// Serves these listeners by this service until the gateway drains.
async fn edge<S: net::Service>(
    gateway: &Gateway,
    listeners: impl IntoIterator<Item = OnThread>,
    service: Rc<S>,
    shared: Arc<EdgeShared>,
) -> std::io::Result<()> {
    let listeners = listeners.into_iter();
    let listeners = listeners.map(|(listener, settings)| (listener, Rc::new(settings)));
    let (bounds, drain) = (
        Rc::new(gateway.edge_settings.clone()),
        gateway.drain.clone(),
    );
    net::serve(listeners.collect(), service, bounds, shared, drain).await
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
    /// Stops everything.
    stop: Signal,
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
        let stop = of(SignalKind::user_defined1())?;
        let file_size = of(SignalKind::from_raw(SIGXFSZ))?;
        drop(entered);
        Ok(Signals {
            runtime,
            terminate,
            interrupt,
            hangup,
            stop,
            _file_size: file_size,
        })
    }

    /// Until it is told to stop: reads the configuration again when it is told to, or when its files change.
    fn wait_for_end(mut self, gateway: &Gateway, mut reload: Reload) {
        self.runtime.block_on(async {
            let mut look = tokio::time::interval(LOOK_EVERY);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut stops = tokio::time::interval(STOPS_LOOK_EVERY);
            stops.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = stops.tick() => gateway.stopping.look("file"),
                    _ = self.stop.recv() => stop_all(gateway),
                    _ = self.terminate.recv() => return,
                    _ = self.interrupt.recv() => return,
                    _ = self.hangup.recv() => reload.now(By::Signal),
                    _ = look.tick() => {
                        gateway.gate().tell_of_floods(false);
                        gateway.notices.tell_rest(false);
                        reload.look();
                    }
                }
            }
        });
    }
}

/// Stops everything, as the signal asks. Where that cannot be written down, it is in force all the same until the end of
/// this process.
fn stop_all(gateway: &Gateway) {
    let all = gate::Stops {
        all: true,
        ..gate::Stops::default()
    };
    if let Err(error) = gateway.stopping.ask(&all, "signal") {
        tracing::error!(%error, "the stop cannot be written into the state folder; it ends with this process");
        gateway.stopping.configured(all);
    }
}

/// Makes the break-glass secret where there is none, and shows it: once, on standard output, and in no log.
fn show_break_glass(settings: &Settings, gateway: &Gateway) -> Result<(), String> {
    let (digest, made) = break_glass::open(&settings.state)?;
    gateway.admin.open_by(digest);
    let Some(secret) = made else { return Ok(()) };
    let mut out = std::io::stdout().lock();
    let said = writeln!(
        out,
        "break-glass secret of the admin API, shown once:  {}\nkeep it where it is found when nothing else opens; to have another one, remove {}",
        secret.expose(),
        break_glass::file(&settings.state).display()
    );
    if let Err(error) = said.and_then(|()| out.flush()) {
        tracing::warn!(%error, "the break-glass secret could not be shown; remove its file and start again to have another one");
    }
    Ok(())
}

fn say_started(settings: &Settings, gateway: &Gateway, listening: &Listening) {
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
    let url = listening.url(settings);
    for lane in &*gateway.lanes {
        lane.say_started(settings, url.as_deref());
    }
    listening.say();
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
