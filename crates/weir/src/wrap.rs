//! Wrapping: one server over stdio behind the gate, for a client that starts this process in its place.
//!
//! The same gateway as `serve` runs, without a listener: standard input and output are its one connection.
//! Nothing but JSON-RPC is written to standard output; what the gateway has to say goes to standard error.

use std::io::{Read, Write};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use base::{Name, Refusal, Secret};
use bytes::Bytes;
use mcp::stdio::{Client, ClientLine, Lines, Over};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::assemble::Gateway;
use crate::config::{Seen, Settings};
use crate::lanes::mcp::Mcp;
use crate::listen::Certificates;
use crate::reload::{Load, Reload};
use crate::routes::new_call_id;
use crate::serve;

/// Processes that may wrap the same server at once: each writes a log of its own.
const LOGS_MAX: usize = base::limit::LOGS_MAX;
/// Lines of the client that were read and are not judged yet.
const LINES_WAITING_MAX: usize = 4;
/// Messages that the client has not taken yet.
const OUT_WAITING_MAX: usize = 64;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// How long the client may take for what is still to be written at the end, in milliseconds.
const LAST_MS_MAX: u64 = 2_000;

/// Why nothing was served; for the operator.
pub(crate) enum Failed {
    /// The gate said no.
    Refused(Refusal),
    Error(String),
}

impl From<String> for Failed {
    fn from(error: String) -> Failed {
        Failed::Error(error)
    }
}

/// Serves the client at standard input until it ends, or the server does; gives how the server ended where
/// it was the first. `key` is the key of the one agent in the settings.
///
/// `again` says which files the settings came from, and reads them again when one of them changed.
pub(crate) fn run(
    settings: &Settings,
    server: &Name,
    key: &Secret,
    again: Option<(Seen, Load)>,
) -> Result<Option<ExitStatus>, Failed> {
    serve::write_logs(&settings.logs);
    let gateway = Arc::new(Gateway::with_logs(settings, LOGS_MAX)?);
    let _looks = again
        .map(|(seen, load)| look(&gateway, settings, seen, load))
        .transpose()?;
    tracing::info!(server = %server, log = %gateway.log.path().display(), "wrapping");
    let (lines, client_lines) = mpsc::channel(LINES_WAITING_MAX);
    let (out, client_out) = mpsc::channel(OUT_WAITING_MAX);
    let bytes_max = settings.limits.body_bytes_max;
    thread("input", move || read(bytes_max, &lines))?;
    let written = thread("output", move || write(client_out))?;
    let client = Client {
        lines: client_lines,
        out,
        authorization: Secret::new(format!("Bearer {}", key.expose())),
        new_id: new_call_id,
        drain_ms: settings.limits.drain_ms,
    };
    let over = serve(&gateway, server, client);
    // Nothing is lost where the client takes it; one that does not is not waited for.
    let _ = written.recv_timeout(Duration::from_millis(LAST_MS_MAX));
    if let Some(pins) = &gateway.pins {
        pins.close();
    }
    let closed = gateway.close();
    closed.map_err(|error| format!("the log: {error:?}"))?;
    match over? {
        Over::Child(status) => Ok(status),
        Over::Client => Ok(None),
    }
}

fn serve(gateway: &Gateway, server: &Name, client: Client) -> Result<Over, Failed> {
    let runtime = serve::runtime()?;
    let mcp = gateway.lane::<Mcp>().expect("every gateway has the lane");
    let mcp = mcp.on_thread(&gateway.way_out());
    LocalSet::new().block_on(&runtime, async {
        let failed = |error: std::io::Error| format!("signals: {error}");
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        // As in `serve`: an error of one write, not the end of the process.
        let _file_size = signal(SignalKind::from_raw(serve::SIGXFSZ)).map_err(failed)?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
        };
        mcp.stdio(server, client, stop)
            .await
            .map_err(Failed::Refused)
    })
}

/// Looks at the files of the settings as `serve` does, until what it gives back is dropped.
fn look(
    gateway: &Arc<Gateway>,
    settings: &Settings,
    seen: Seen,
    load: Load,
) -> Result<std::sync::mpsc::Sender<()>, String> {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (gateway, started) = (Arc::clone(gateway), settings.clone());
    thread("reload", move || {
        let mut reload = Reload::new(gateway, Certificates::default(), started, seen, load);
        while stopped.recv_timeout(serve::LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            reload.look();
        }
    })?;
    Ok(stop)
}

/// Starts a thread; what it gives back is done when the thread is.
fn thread(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<std::sync::mpsc::Receiver<()>, String> {
    let (done, ended) = std::sync::mpsc::channel();
    let body = move || {
        body();
        drop(done);
    };
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
    started.map_err(|error| format!("a thread: {error}"))?;
    Ok(ended)
}

/// Reads standard input to its end.
fn read(bytes_max: usize, to: &mpsc::Sender<ClientLine>) {
    let mut stdin = std::io::stdin().lock();
    let mut lines = Lines::new(bytes_max);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => lines.push(&buffer[..read], |line| {
                // Closed when the session is over: nobody is left to judge the rest.
                let _ = to.blocking_send(line);
            }),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "standard input cannot be read");
                break;
            }
        }
        if to.is_closed() {
            return;
        }
    }
    if let Some(line) = lines.end() {
        let _ = to.blocking_send(line);
    }
}

/// Writes each message as one line until there are no more, or the client has gone away.
fn write(mut messages: mpsc::Receiver<Bytes>) {
    let mut stdout = std::io::stdout().lock();
    while let Some(message) = messages.blocking_recv() {
        let line = [message.as_ref(), b"\n"].concat();
        if let Err(error) = stdout.write_all(&line).and_then(|()| stdout.flush()) {
            tracing::warn!(%error, "standard output cannot be written");
            return;
        }
    }
}
