//! Listening sockets: one for each thread of each place that the settings name, and the certificates of those that speak
//! TLS, which can be renewed while serving.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use config::Listen;
use net::tls::EdgeTls;
use net::{Listener, ListenerSettings};

use crate::config::listen::Listener as Told;
use crate::config::{Problem, Settings};

/// Longest path of a Unix socket (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The admin socket that the state folder has where nothing else is written.
const ADMIN_SOCKET: &str = "admin.sock";

/// A socket of one thread, and how it takes connections.
pub(crate) type OnThread = (Listener, ListenerSettings);

/// What a process listens on for agents and for the operator.
#[derive(Default)]
pub(crate) struct Listening {
    agents: Vec<Place>,
    admin: Option<Place>,
}

/// One place, with a socket for each thread.
struct Place {
    told: Told,
    tls: Option<Arc<EdgeTls>>,
    /// Where it is: with the port that it got.
    address: Listen,
    sockets: Vec<Listener>,
}

impl Place {
    fn open(told: &Told, threads: usize) -> Result<Place, String> {
        let sockets = listen(&told.at, threads, told.mode, net::bind)?;
        let tls = told.tls.as_ref().map(|tls| tls.edge());
        let tls = tls.transpose().map_err(|problem| problem.to_string())?;
        Ok(Place {
            address: sockets.first().and_then(address).unwrap_or(told.at.clone()),
            told: told.clone(),
            tls: tls.map(|tls| match told.http2 {
                true => Arc::new(tls.with_http2()),
                false => Arc::new(tls),
            }),
            sockets,
        })
    }

    fn take(&mut self) -> Option<OnThread> {
        let settings = ListenerSettings {
            http2: self.told.http2,
            tls: self.tls.clone(),
            proxies: self.told.proxies.clone(),
        };
        Some((self.sockets.pop()?, settings))
    }

    /// The URL of what it serves; nothing where it is no address.
    fn url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match &self.address {
            Listen::Tcp(address) => Some(format!("{scheme}://{address}")),
            Listen::Unix(_) => None,
        }
    }
}

impl Listening {
    /// Listens for agents on each of the places of the settings.
    pub(crate) fn for_agents(&mut self, settings: &Settings, threads: usize) -> Result<(), String> {
        for told in &settings.listen {
            self.agents.push(Place::open(told, threads)?);
        }
        Ok(())
    }

    /// Listens for the operator. A state folder that is too deep for a socket has none; that is said.
    pub(crate) fn for_the_operator(&mut self, settings: &Settings) -> Result<(), String> {
        let admin = &settings.admin;
        if let Some(told) = &admin.listener {
            self.admin = Some(Place::open(told, 1)?);
            return Ok(());
        }
        let path = settings.state.join(ADMIN_SOCKET);
        if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            tracing::warn!(
                "the state folder's path is too long for a socket in it, so there are no pages for the operator; \
                 write admin: {{ listen: 127.0.0.1:9090 }}"
            );
            return Ok(());
        }
        let told = Told {
            mode: admin.mode,
            ..Told::plain(Listen::Unix(path))
        };
        self.admin = Some(Place::open(&told, 1)?);
        Ok(())
    }

    /// Takes the files of its Unix sockets away, once nobody listens there.
    pub(crate) fn remove_sockets(&self) {
        for place in self.agents.iter().chain(&self.admin) {
            // Whoever listens there by now has put a socket of its own in this place.
            if let Listen::Unix(path) = &place.told.at
                && std::os::unix::net::UnixStream::connect(path).is_err()
            {
                // One that stays is found dead at the next start.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// What one thread serves agents on.
    pub(crate) fn take(&mut self) -> Vec<OnThread> {
        self.agents.iter_mut().filter_map(Place::take).collect()
    }

    /// What one thread serves the operator on; the first that asks has it.
    pub(crate) fn take_admin(&mut self) -> Option<OnThread> {
        self.admin.as_mut()?.take()
    }

    /// The certificates that can be renewed.
    pub(crate) fn certificates(&self) -> Certificates {
        let of = |place: &Place| Shown {
            at: place.told.at.clone(),
            tls: place.tls.clone(),
        };
        Certificates {
            agents: self.agents.iter().map(of).collect(),
            admin: self.admin.as_ref().map(of),
        }
    }

    /// The URL by which agents reach the gateway, as far as it is known.
    pub(crate) fn url(&self, settings: &Settings) -> Option<String> {
        let own = || self.agents.iter().find_map(Place::url);
        settings.public_url.clone().or_else(own)
    }

    /// Says where it listens. The line of the last address of agents is the last.
    pub(crate) fn say(&self) {
        if let Some(place) = &self.admin {
            let (address, tls) = (&place.address, place.tls.is_some());
            tracing::info!(%address, tls, "pages for the operator");
        }
        for place in &self.agents {
            let (address, tls) = (&place.address, place.tls.is_some());
            tracing::info!(%address, tls, "listening");
        }
    }
}

/// The certificates that are shown now.
#[derive(Default)]
pub(crate) struct Certificates {
    /// In the order in which the places were written.
    agents: Vec<Shown>,
    admin: Option<Shown>,
}

/// A place, with what is shown there.
struct Shown {
    at: Listen,
    tls: Option<Arc<EdgeTls>>,
}

impl Shown {
    /// Whether this is the place.
    fn is_at(&self, told: &Told) -> bool {
        self.at == told.at
    }
}

impl Certificates {
    /// Reads those of other settings, and gives what puts them in force. A place that is not listened on yet, or that is
    /// to be none any more, takes a restart; so does a list whose places stand in another order where they are the same
    /// by what is written, such as two of port 0.
    pub(crate) fn prepare(&self, settings: &Settings) -> Result<Vec<impl FnOnce()>, Vec<Problem>> {
        let agents = self
            .agents
            .iter()
            .enumerate()
            .filter_map(|(number, shown)| {
                let here = settings.listen.get(number).filter(|told| shown.is_at(told));
                let one = |told: &&Told| {
                    self.agents.iter().filter(|other| other.is_at(told)).count() == 1
                };
                let moved = || {
                    settings
                        .listen
                        .iter()
                        .find(|told| shown.is_at(told))
                        .filter(one)
                };
                Some((shown, here.or_else(moved)?))
            });
        let admin = self.admin.iter().zip(&settings.admin.listener);
        let admin = admin.filter(|(shown, told)| shown.is_at(told));
        let mut takes = Vec::new();
        for (shown, told) in agents.chain(admin) {
            let (Some(tls), Some(renewed)) = (&shown.tls, &told.tls) else {
                continue;
            };
            let take = renewed.renew(tls).map_err(|problem| {
                vec![Problem {
                    file: settings.file.display().to_string(),
                    line: 0,
                    column: 0,
                    key: "listen".to_owned(),
                    message: format!("{}: {problem}", shown.at),
                    help: "Name certificates that fit their keys.".to_owned(),
                }]
            })?;
            takes.push(take);
        }
        Ok(takes)
    }
}

/// One listener for each thread; of TCP by [`net::bind`] or [`net::reserve`]. `mode` is that of a Unix socket's file.
pub(crate) fn listen(
    listen: &Listen,
    threads: usize,
    mode: u32,
    make: fn(SocketAddr) -> io::Result<TcpListener>,
) -> Result<Vec<Listener>, String> {
    match listen {
        Listen::Tcp(address) => {
            let listeners: Vec<TcpListener> = sockets(*address, threads, make)?;
            Ok(listeners.into_iter().map(Listener::Tcp).collect())
        }
        Listen::Unix(path) => {
            let failed = |error: io::Error| unlistenable(path, &error);
            let mut listeners = vec![Listener::unix(path, mode).map_err(failed)?];
            for _ in 1..threads {
                listeners.push(listeners[0].share().map_err(failed)?);
            }
            Ok(listeners)
        }
    }
}

/// One socket for each thread, all on one port: the kernel spreads connections over them.
fn sockets(
    address: SocketAddr,
    threads: usize,
    make: fn(SocketAddr) -> io::Result<TcpListener>,
) -> Result<Vec<TcpListener>, String> {
    let wrong = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address} is in use; stop what listens there, or set another listen")
        }
        _ => format!("{address} cannot be listened on: {error}; set another listen"),
    };
    let bind = |address| make(address).map_err(wrong);
    // Held until the first of ours is there: sockets that share a port would share another program's too.
    let alone = (address.port() != 0).then(|| net::bind_alone(address));
    let alone = alone.transpose().map_err(wrong)?;
    let first = bind(address)?;
    drop(alone);
    let address = first.local_addr().map_err(|error| error.to_string())?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(bind(address)?);
    }
    Ok(listeners)
}

/// Why there can be no socket at this path, and what to write.
fn unlistenable(path: &Path, error: &io::Error) -> String {
    let is_socket = || {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| found.file_type().is_socket())
    };
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            "its folder does not exist; make the folder, or write another path".to_owned()
        }
        io::ErrorKind::AddrInUse if is_socket() => {
            "another process listens there; stop it, or write another path".to_owned()
        }
        io::ErrorKind::AddrInUse => {
            "what stands there is no socket; write a path where nothing stands".to_owned()
        }
        io::ErrorKind::InvalidInput => {
            format!(
                "the path is too long for a socket; write one of at most {SOCKET_PATH_BYTES_MAX} bytes"
            )
        }
        io::ErrorKind::PermissionDenied => {
            "this user may not make files in its folder; write a path in a folder of this user's"
                .to_owned()
        }
        _ => format!("{error}; write another path"),
    };
    format!("unix:{} cannot be listened on: {why}", path.display())
}

/// Where a socket listens.
pub(crate) fn address(listener: &Listener) -> Option<Listen> {
    match listener {
        Listener::Tcp(listener) => Some(Listen::Tcp(listener.local_addr().ok()?)),
        Listener::Unix(listener) => {
            let address = listener.local_addr().ok()?;
            Some(Listen::Unix(address.as_pathname()?.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_program_is_not_shared() {
        let at = |address: SocketAddr| listen(&Listen::Tcp(address), 2, 0o600, net::bind);
        let first = at("127.0.0.1:0".parse().unwrap()).unwrap();
        let Some(Listen::Tcp(address)) = address(&first[0]) else {
            panic!("{first:?}");
        };
        let said = at(address).map(drop).unwrap_err();
        assert!(
            said.starts_with(&format!("{address} is in use; stop")),
            "{said}"
        );
        // A socket on all addresses takes those of this one too.
        let everywhere = SocketAddr::from(([0; 4], address.port()));
        assert!(at(everywhere).is_err());
        // One that is bound and does not listen is reserved for its owner alone, and goes when it does.
        drop(first);
        assert_eq!(at(address).map(|of| of.len()), Ok(2));
    }

    #[test]
    fn a_socket_that_cannot_be_says_why_and_what_to_write() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| {
            let at = Listen::Unix(path.to_owned());
            listen(&at, 1, 0o600, net::bind).map(drop).unwrap_err()
        };
        let taken = dir.path().join("taken.sock");
        let _listens = std::os::unix::net::UnixListener::bind(&taken).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, why) in [
            (taken, "another process listens there; stop it"),
            (file, "what stands there is no socket; write a path"),
            (
                dir.path().join("no/a.sock"),
                "its folder does not exist; make",
            ),
            (dir.path().join("a".repeat(108)), "at most 107 bytes"),
        ] {
            let said = said(&path);
            assert!(said.contains(why), "{said}");
            assert!(said.starts_with("unix:/"), "{said}");
        }
    }
}
