//! The target: one fake server to measure against, with exact counts of what it saw.
//!
//! A load test needs an origin that costs little, misbehaves on purpose and knows exactly how often it did.
//! This one is thread per core (a listener, a runtime and a timer for each), and all its routes are on one
//! address: fixed bodies, an echo, event streams, the dialects of three providers of models and MCP. It is not a server for anything
//! else: it keeps nothing, and no answer of it means anything.
//!
//! ```no_run
//! let running = lab::target::start(lab::target::Settings::default())?;
//! println!("http://{}", running.address());
//! assert_eq!(running.counts().requests, 0);
//! running.stop();
//! # Ok::<(), lab::target::Error>(())
//! ```

pub mod chance;
pub mod counts;
pub mod faults;
pub mod llm;
pub mod mcp;

mod answer;
mod body;
mod guard;
mod leak;
mod plain;
mod refuse;
mod route;
mod serve;
mod timer;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::JoinHandle;

pub use chance::Distribution;
pub use counts::{Corrupted, Counts, RunCounts};
pub use faults::{Behaviour, Break, Chance, Every, Fault, Freeze, Zero};
pub use guard::Auth;
pub use leak::Leak;
pub use llm::Llm;
pub use mcp::{Answers, Mcp};

/// The most threads of one target.
pub const THREADS_MAX: usize = 256;
/// The most connections open at once, over all threads. One more is closed when it is accepted.
pub const CONNECTIONS_MAX: usize = 65_536;
/// The largest body that the target makes, in bytes. What it echoes has no bound, as it keeps none of it.
pub const BODY_BYTES_MAX: u64 = 64 << 20;
/// The size of the body of `GET /`, in bytes, unless it is said.
pub const BODY_BYTES_DEFAULT: u64 = 128;

/// What a target is and how it behaves.
#[derive(Clone)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one. Nothing here refuses an outside address: the command does.
    pub listen: SocketAddr,
    /// From 1 to [`THREADS_MAX`], each with its own listener and runtime.
    pub threads: usize,
    /// What everything drawn depends on.
    pub seed: u64,
    /// The size of the body of `GET /`, at most [`BODY_BYTES_MAX`].
    pub body_bytes: u64,
    pub behaviour: Behaviour,
    pub llm: Llm,
    pub mcp: Mcp,
    /// Memory that is kept more and more.
    pub leak: Option<Leak>,
    /// None: plain HTTP/1.1, and HTTP/2 by prior knowledge.
    pub tls: Option<Tls>,
    /// What a request must carry; without it the answer is 401.
    pub auth: Option<Auth>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            seed: 1,
            body_bytes: BODY_BYTES_DEFAULT,
            behaviour: Behaviour::default(),
            llm: Llm::default(),
            mcp: Mcp::default(),
            leak: None,
            tls: None,
            auth: None,
        }
    }
}

/// How the target speaks TLS. HTTP/2 and HTTP/1.1 are offered by ALPN.
#[derive(Clone, Debug)]
pub struct Tls {
    /// PEM files of the certificate chain and of its key. None: made at the start for `localhost`, `127.0.0.1`
    /// and `::1`, by an authority of its own ([`Running::ca_pem`]).
    pub files: Option<(PathBuf, PathBuf)>,
    /// A PEM file of authorities; then each client must show a certificate by one of them.
    pub client_ca: Option<PathBuf>,
}

/// Why a target cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A setting cannot be.
    Setting(String),
    /// A certificate, a key or an authority cannot be used.
    Tls(String),
    /// The address cannot be listened on.
    Listen(String),
    /// The machine refuses a thread, a timer or a descriptor.
    Machine(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Setting(what)
            | Error::Tls(what)
            | Error::Listen(what)
            | Error::Machine(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

/// A target that runs. Dropping it stops it.
pub struct Running {
    address: SocketAddr,
    ca_pem: Option<String>,
    shared: std::sync::Arc<answer::Shared>,
    stop: tokio::sync::watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority that signed the target's certificate, as PEM, when the target made it.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// What it saw and did since the start or the last reset.
    pub fn counts(&self) -> Counts {
        self.shared.tables().read()
    }

    /// Sets every count, the numbers of requests and the time zero back, as `POST /lab/reset` does.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Closes every connection and ends the threads. Nothing in them blocks, so this takes no longer than the
    /// piece of work that each of them is at.
    pub fn stop(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already, and there is nothing left to end.
            let _ = thread.join();
        }
    }
}

/// Starts a target. It listens when this returns.
pub fn start(settings: Settings) -> Result<Running, Error> {
    check(&settings)?;
    let tls = settings.tls.as_ref().map(tls::server).transpose()?;
    let (tls, ca_pem) = tls.map_or((None, None), |tls| (Some(tls.config), tls.ca_pem));
    let listeners = serve::listen(settings.listen, settings.threads)?;
    let address = listeners
        .first()
        .and_then(|listener| listener.local_addr().ok())
        .ok_or_else(|| Error::Machine("the listener has no address".into()))?;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut running = Running {
        address,
        ca_pem,
        shared: answer::Shared::new(settings),
        stop,
        threads: Vec::new(),
    };
    if let Some(leak) = running.shared.settings.leak {
        let thread = leak.start(stopped.clone())?;
        running.threads.push(thread);
    }
    for (index, listener) in listeners.into_iter().enumerate() {
        let thread = serve::Thread {
            index,
            listener,
            tls: tls.clone(),
            shared: std::sync::Arc::clone(&running.shared),
            stopped: stopped.clone(),
        };
        // When one thread cannot start, dropping `running` ends the others.
        running.threads.push(thread.start()?);
    }
    Ok(running)
}

fn check(settings: &Settings) -> Result<(), Error> {
    if !(1..=THREADS_MAX).contains(&settings.threads) {
        return Err(Error::Setting(format!(
            "threads must be from 1 to {THREADS_MAX}, not {}",
            settings.threads
        )));
    }
    if settings.body_bytes > BODY_BYTES_MAX {
        return Err(Error::Setting(format!(
            "a body of {} bytes is over the bound of {BODY_BYTES_MAX}",
            settings.body_bytes
        )));
    }
    settings.llm.check().map_err(Error::Setting)?;
    settings.behaviour.check().map_err(Error::Setting)
}
