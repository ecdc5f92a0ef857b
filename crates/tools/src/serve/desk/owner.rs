//! Who owns a data folder: a lock that the kernel gives back when its process ends, and a socket beside it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};

use super::{Desk, LOCK, Place, SOCKET, answer};
use crate::serve::Service;
use crate::serve::call::Problem;

/// Connections of other processes at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 1024;

/// Makes a folder that only this user can look into.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Waits for the folder's lock on a thread of its own, and then opens the engine.
pub(super) fn start<S: Service>(
    settings: S::Settings,
    dir: PathBuf,
    says: watch::Sender<Place<S::Engine>>,
    desk: Desk<S>,
) -> io::Result<()> {
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(dir.join(LOCK))?;
    let (owned, ours) = oneshot::channel();
    tokio::spawn(async move {
        if let Ok(listener) = ours.await
            && let Err(error) = answer_others(listener, desk).await
        {
            tracing::error!(%error, "other sessions are not answered any more");
        }
    });
    // A thread and no task: it waits in the kernel for as long as another process lives.
    let body = move || own::<S>(&settings, &dir, lock, &says, owned);
    std::thread::Builder::new()
        .name("owner".to_owned())
        .spawn(body)?;
    Ok(())
}

fn own<S: Service>(
    settings: &S::Settings,
    dir: &Path,
    lock: File,
    says: &watch::Sender<Place<S::Engine>>,
    owned: oneshot::Sender<std::os::unix::net::UnixListener>,
) {
    let opened = lock
        .lock()
        .map_err(|error| Problem::ours(format!("the lock of the data folder: {error}")))
        .and_then(|()| S::open(settings));
    let engine = match opened {
        Ok(engine) => engine,
        Err(problem) => {
            tracing::error!(
                problem = problem.message,
                "the data folder cannot be opened"
            );
            says.send_replace(Place::Failed(problem));
            return;
        }
    };
    says.send_replace(Place::Here(engine.clone()));
    match listen(dir) {
        Ok(listener) => drop(owned.send(listener)),
        Err(error) => tracing::error!(%error, "other sessions cannot be answered"),
    }
    S::begin(settings, &engine);
    // The lock is held until the process ends: a thread that ended would give it back.
    loop {
        std::thread::park();
        let _ = &lock;
    }
}

/// The address of a socket, however long the folder's path: a Unix address has 108 bytes. The folder has to stay open
/// meanwhile.
fn address(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

fn listen(dir: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    // That of an owner that ended: the lock is ours.
    match std::fs::remove_file(dir.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let folder = File::open(dir)?;
    let listener = std::os::unix::net::UnixListener::bind(address(&folder))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to the owner.
pub(super) async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let folder = File::open(socket.parent().unwrap_or(Path::new("/")))?;
    UnixStream::connect(address(&folder)).await
}

/// Refuses the processes of others. The folder is closed to them already.
pub(super) fn same_user(stream: &UnixStream) -> io::Result<()> {
    let other = stream.peer_cred()?.uid();
    if other == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

async fn answer_others<S: Service>(
    listener: std::os::unix::net::UnixListener,
    desk: Desk<S>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let connections = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await;
        let (stream, _) = listener.accept().await?;
        let desk = desk.clone();
        tokio::spawn(async move {
            // One that breaks off has nobody to be told.
            let _ = answer(desk, stream).await;
            drop(permit);
        });
    }
}
