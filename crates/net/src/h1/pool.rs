//! Connections of one thread to configured targets: dialled with a permit, kept while they are
//! idle.
//!
//! It is the other way out of this crate beside `Upstreams`, and holds itself to the same: nothing
//! is lent to whoever shows no permit, an address is dialled only if that permit allows it, and a
//! pooled connection's address is asked about again (I-04). It never sends a request and never
//! retries one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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

use super::client::Client;
use super::stream::Stream;
use super::thread::Thread;
use crate::upstream::{SendError, Target, Targets, dial};

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
    idle: RefCell<HashMap<Name, Vec<Idle>>>,
    sweeping: Cell<bool>,
}

/// A connection that nobody uses.
struct Idle {
    client: Box<Client<Stream>>,
    address: IpAddr,
    until: u64,
}

/// A connection that is lent. It goes back by itself if its exchange is whole, and is closed
/// otherwise.
pub struct Wire {
    client: Option<Box<Client<Stream>>>,
    address: IpAddr,
    is_fresh: bool,
    target: Arc<Target>,
    pool: Rc<Pool>,
}

impl<P: Permit> Wires<P> {
    pub fn new(targets: Arc<Targets>, thread: Rc<Thread>) -> Wires<P> {
        Wires {
            targets,
            pool: Rc::new(Pool {
                thread,
                idle: RefCell::default(),
                sweeping: Cell::new(false),
            }),
            permit: PhantomData,
        }
    }

    /// A connection to the target of the permit: an idle one that is silent, or a new one, within
    /// `deadline_ms` milliseconds.
    pub async fn take(&self, permit: &P, deadline_ms: u64) -> Result<Wire, SendError> {
        let target = self.target(permit)?;
        match self
            .pool
            .take(&target.name, |address| permit.dial(address).is_ok())
        {
            Some(Idle {
                client, address, ..
            }) => Ok(self.lend(target, client, address, false)),
            None => self.dial(permit, deadline_ms).await,
        }
    }

    /// A new connection to the target of the permit, within `deadline_ms` milliseconds.
    pub async fn dial(&self, permit: &P, deadline_ms: u64) -> Result<Wire, SendError> {
        let target = self.target(permit)?;
        let deadline = Instant::now() + Duration::from_millis(deadline_ms);
        let (stream, address) = dial(target, permit, deadline, open).await?;
        let client = Box::new(Client::new(stream, &self.pool.thread));
        Ok(self.lend(target, client, address, true))
    }

    /// Idle connections to one target, for tests and metrics.
    pub fn idle(&self, name: &Name) -> usize {
        self.pool.idle.borrow().get(name).map_or(0, Vec::len)
    }

    fn target(&self, permit: &P) -> Result<&Arc<Target>, SendError> {
        self.targets.get(permit.target()).ok_or_else(|| {
            never!("a permit for {}, which is not configured", permit.target());
            let public = "The permit is for a server that is not configured.";
            SendError::Refused(Refusal::new(refusal::SERVER_UNKNOWN, public))
        })
    }

    fn lend(
        &self,
        target: &Arc<Target>,
        client: Box<Client<Stream>>,
        address: IpAddr,
        is_fresh: bool,
    ) -> Wire {
        Wire {
            client: Some(client),
            address,
            is_fresh,
            target: Arc::clone(target),
            pool: Rc::clone(&self.pool),
        }
    }
}

/// Connects to one address that the permit allowed.
async fn open(target: &Target, address: SocketAddr) -> Result<Stream, String> {
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
    type Target = Client<Stream>;

    fn deref(&self) -> &Client<Stream> {
        self.client.as_ref().expect("lent until it is dropped")
    }
}

impl DerefMut for Wire {
    fn deref_mut(&mut self) -> &mut Client<Stream> {
        self.client.as_mut().expect("lent until it is dropped")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && client.is_reusable()
        {
            self.pool.keep(&self.target, client, self.address);
        }
    }
}

impl Pool {
    /// Takes the newest connection that is silent, young enough, and whose address `allowed` says
    /// yes to. Others that it meets are closed.
    fn take(&self, name: &Name, allowed: impl Fn(IpAddr) -> bool) -> Option<Idle> {
        let mut idle = self.idle.borrow_mut();
        let connections = idle.get_mut(name)?;
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
        target: &Arc<Target>,
        mut client: Box<Client<Stream>>,
        address: IpAddr,
    ) {
        client.rest();
        let until = self.thread.after(target.endpoint.idle_ms);
        let mut idle = self.idle.borrow_mut();
        let connections = match idle.get_mut(&target.name) {
            Some(connections) => connections,
            None => idle.entry(target.name.clone()).or_default(),
        };
        if connections.len() < target.endpoint.idle_max {
            connections.push(Idle {
                client,
                address,
                until,
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
                let mut idle = pool.idle.borrow_mut();
                idle.retain(|_, connections| {
                    connections.retain_mut(|idle| {
                        !pool.thread.has_passed(idle.until) && idle.client.is_silent()
                    });
                    !connections.is_empty()
                });
                if idle.is_empty() {
                    pool.sweeping.set(false);
                    return;
                }
            }
        });
    }
}
