//! Connections of one thread to configured targets: dialled with a permit, kept while they are
//! idle.
//!
//! It is the other way out of this crate beside `Upstreams`, and holds itself to the same: nothing
//! is lent to whoever shows no permit, an address is dialled only if that permit allows it, and a
//! pooled connection's address is asked about again (I-04). It never sends a request and never
//! retries one.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Name, Permit, Refusal, never, refusal};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_rustls::{TlsConnector, TlsStream};

use super::ConnectionSettings;
use super::client::ClientConnection;
use super::stream::Stream;
use super::thread::Thread;
use crate::upstream::{DialTarget, SendError, Targets, dial};

/// How often connections that grew old are looked for while there are any, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The connections of one thread. What may be dialled is decided by whoever makes values of `P`.
pub struct Wires<P: Permit> {
    targets: Arc<Targets>,
    pool: Rc<Pool>,
    permit: PhantomData<fn(&P)>,
}

struct Pool {
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    shelves: RefCell<Vec<Shelf>>,
    /// The shelf that was asked for last: most calls are for the target of the one before.
    last: Cell<usize>,
    sweeping: Cell<bool>,
}

/// The idle connections to one target. A target has its shelf from its first call on.
struct Shelf {
    target: Arc<DialTarget>,
    idle: Vec<Idle>,
}

/// A connection that nobody uses.
struct Idle {
    client: Box<ClientConnection<Stream>>,
    address: IpAddr,
    until: u64,
}

/// A connection that is lent. It goes back by itself if its exchange is whole, and is closed
/// otherwise.
pub struct Wire {
    client: Option<Box<ClientConnection<Stream>>>,
    address: IpAddr,
    is_fresh: bool,
    target: Arc<DialTarget>,
    /// The place of the target's shelf.
    shelf: usize,
    pool: Rc<Pool>,
}

impl<P: Permit> Wires<P> {
    pub fn new(targets: Arc<Targets>, thread: Rc<Thread>, bounds: ConnectionSettings) -> Wires<P> {
        Wires {
            targets,
            pool: Rc::new(Pool {
                thread,
                bounds: Rc::new(bounds),
                shelves: RefCell::default(),
                last: Cell::new(0),
                sweeping: Cell::new(false),
            }),
            permit: PhantomData,
        }
    }

    /// A connection to the target of the permit: an idle one that is silent, or a new one, within
    /// `deadline_ms` milliseconds.
    pub async fn take(&self, permit: &P, deadline_ms: u64) -> Result<Wire, SendError> {
        let (target, shelf) = self.target(permit)?;
        let idle = self
            .pool
            .take(shelf, |address| permit.dial(address).is_ok());
        match idle {
            Some(idle) => Ok(self.lend(target, shelf, idle.client, idle.address, false)),
            None => self.dial(permit, deadline_ms).await,
        }
    }

    /// A new connection to the target of the permit, within `deadline_ms` milliseconds.
    pub async fn dial(&self, permit: &P, deadline_ms: u64) -> Result<Wire, SendError> {
        let (target, shelf) = self.target(permit)?;
        let deadline = Instant::now() + Duration::from_millis(deadline_ms);
        let (stream, address) = dial(&target, permit, deadline, open).await?;
        let Pool { thread, bounds, .. } = &*self.pool;
        let client = Box::new(ClientConnection::new(stream, thread, bounds));
        Ok(self.lend(target, shelf, client, address, true))
    }

    /// Idle connections to one target, for tests and metrics.
    pub fn idle(&self, name: &Name) -> usize {
        let shelves = self.pool.shelves.borrow();
        let shelf = shelves.iter().find(|shelf| shelf.target.name == *name);
        shelf.map_or(0, |shelf| shelf.idle.len())
    }

    /// The target of a permit, and the place of its shelf.
    fn target(&self, permit: &P) -> Result<(Arc<DialTarget>, usize), SendError> {
        let unknown = || {
            never!(
                "a permit for {}, which is not configured",
                permit.destination()
            );
            let public = "The permit is for a server that is not configured.";
            SendError::Refused(Refusal::new(refusal::SERVER_UNKNOWN, public))
        };
        let name = permit.target().ok_or_else(unknown)?;
        let last = self.pool.last.get();
        let mut shelves = self.pool.shelves.borrow_mut();
        if let Some(shelf) = shelves.get(last)
            && shelf.target.name == *name
        {
            return Ok((Arc::clone(&shelf.target), last));
        }
        let target = self.targets.get(name).ok_or_else(unknown)?;
        let found = shelves
            .iter()
            .position(|shelf| Arc::ptr_eq(&shelf.target, target));
        let place = found.unwrap_or_else(|| {
            let target = Arc::clone(target);
            let idle = Vec::new();
            shelves.push(Shelf { target, idle });
            shelves.len() - 1
        });
        self.pool.last.set(place);
        Ok((Arc::clone(target), place))
    }

    fn lend(
        &self,
        target: Arc<DialTarget>,
        shelf: usize,
        client: Box<ClientConnection<Stream>>,
        address: IpAddr,
        is_fresh: bool,
    ) -> Wire {
        Wire {
            client: Some(client),
            address,
            is_fresh,
            target,
            shelf,
            pool: Rc::clone(&self.pool),
        }
    }
}

/// Connects to one address that the permit allowed.
async fn open(target: &DialTarget, address: SocketAddr) -> Result<Stream, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let Some(tls) = &target.tls else {
        return Ok(Stream::Tcp(stream));
    };
    let connector = TlsConnector::from(tls.config());
    let stream = connector.connect(tls.server.clone(), stream).await;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    Ok(Stream::Tls(Box::new(TlsStream::Client(stream))))
}

impl Wire {
    /// The address at the other end.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether nothing was asked on this connection before.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The Host field of the target, as the configuration says it.
    pub fn host(&self) -> &[u8] {
        self.target.host.as_bytes()
    }
}

impl Deref for Wire {
    type Target = ClientConnection<Stream>;

    fn deref(&self) -> &ClientConnection<Stream> {
        self.client.as_ref().expect("lent until it is dropped")
    }
}

impl DerefMut for Wire {
    fn deref_mut(&mut self) -> &mut ClientConnection<Stream> {
        self.client.as_mut().expect("lent until it is dropped")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && client.is_reusable()
        {
            self.pool.keep(self.shelf, client, self.address);
        }
    }
}

impl Pool {
    /// Takes the newest connection that is silent, young enough, and whose address `allowed` says
    /// yes to. Others that it meets are closed.
    fn take(&self, shelf: usize, allowed: impl Fn(IpAddr) -> bool) -> Option<Idle> {
        let mut shelves = self.shelves.borrow_mut();
        let connections = &mut shelves.get_mut(shelf)?.idle;
        while let Some(mut idle) = connections.pop() {
            if !self.thread.has_passed(idle.until)
                && idle.client.is_silent()
                && allowed(idle.address)
            {
                return Some(idle);
            }
        }
        None
    }

    fn keep(
        self: &Rc<Pool>,
        shelf: usize,
        mut client: Box<ClientConnection<Stream>>,
        address: IpAddr,
    ) {
        client.rest();
        let mut shelves = self.shelves.borrow_mut();
        let Some(Shelf { target, idle }) = shelves.get_mut(shelf) else {
            never!("a connection without a shelf");
            return;
        };
        if idle.len() < target.endpoint.idle_max {
            idle.push(Idle {
                client,
                address,
                until: self.thread.after(target.endpoint.idle_ms),
            });
        }
        if !self.sweeping.replace(true) {
            self.thread.keep_ticking();
            self.sweep();
        }
    }

    /// Closes connections that are old, ended, or not silent, until there is none left.
    fn sweep(self: &Rc<Pool>) {
        let pool = Rc::downgrade(self);
        spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(SWEEP_MS)).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut shelves = pool.shelves.borrow_mut();
                for shelf in shelves.iter_mut() {
                    shelf.idle.retain_mut(|idle| {
                        !pool.thread.has_passed(idle.until) && idle.client.is_silent()
                    });
                }
                if shelves.iter().all(|shelf| shelf.idle.is_empty()) {
                    pool.sweeping.set(false);
                    return;
                }
            }
        });
    }
}
