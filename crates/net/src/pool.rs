//! Connections of one thread to what weir calls on behalf of agents: dialled with a permit, kept while they are idle.
//!
//! It is the one way out of this crate. Nothing is lent to whoever shows no permit, and nothing but the place that the
//! permit is for: a configured target, or a site that an agent named. An address is dialled only if the permit allows
//! it, and a kept connection's address is asked about again (I-04). The pool never sends a request and never retries
//! one; [`Upstreams::send`] does. Redirects are not followed: a redirect is a new call. Each thread has a pool of its
//! own, so nothing is locked.

mod links;
mod shelves;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Destination, Name, Permit, Refusal, Site, never, refusal};
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::dial::{DialTarget, Resolver, ShelfKey, Targets, dial};
use crate::h1::{ClientConnection, ConnectionSettings, Stream, Thread};
use crate::send::SendError;
use links::Http2Links;
use shelves::{Idle, Shelves};

/// How often connections that grew old are looked for while there are any, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The connections of one thread. What may be dialled is decided by whoever makes values of `P`.
pub struct Upstreams<P: Permit> {
    targets: Arc<Targets>,
    resolver: Rc<Resolver>,
    pool: Rc<Pool>,
    permit: PhantomData<fn(&P)>,
}

struct Pool {
    thread: Rc<Thread>,
    bounds: Rc<ConnectionSettings>,
    /// The same, where whoever waits bounds the wait.
    patient: Rc<ConnectionSettings>,
    shelves: RefCell<Shelves>,
    links: Http2Links,
    sweeping: Cell<bool>,
}

/// A connection that is lent. It goes back by itself if its exchange is whole, and is closed
/// otherwise.
pub struct Lease {
    client: Option<Box<ClientConnection<Stream>>>,
    address: IpAddr,
    is_fresh: bool,
    target: Arc<DialTarget>,
    pool: Rc<Pool>,
}

impl<P: Permit> Upstreams<P> {
    /// `bounds` hold for each connection; those of the waits for an answer for [`Self::take`] and [`Self::dial`]
    /// alone.
    pub fn new(
        targets: Arc<Targets>,
        thread: Rc<Thread>,
        bounds: ConnectionSettings,
    ) -> Upstreams<P> {
        let patient = ConnectionSettings {
            head_ms: u64::MAX,
            piece_ms: u64::MAX,
            answer_ms: u64::MAX,
            ..bounds.clone()
        };
        let pool = Rc::new(Pool {
            thread,
            links: Http2Links::new(&bounds),
            bounds: Rc::new(bounds),
            patient: Rc::new(patient),
            shelves: RefCell::default(),
            sweeping: Cell::new(false),
        });
        Self::of(targets, Rc::new(Resolver::new()), pool)
    }

    fn of(targets: Arc<Targets>, resolver: Rc<Resolver>, pool: Rc<Pool>) -> Upstreams<P> {
        Upstreams {
            targets,
            resolver,
            pool,
            permit: PhantomData,
        }
    }

    /// The same connections, and other targets.
    pub fn to(&self, targets: Arc<Targets>) -> Upstreams<P> {
        Self::of(targets, Rc::clone(&self.resolver), Rc::clone(&self.pool))
    }

    /// A connection to the place of the permit: an idle one that is silent, or a new one, within
    /// `deadline_ms` milliseconds.
    pub async fn take(&self, permit: &P, deadline_ms: u64) -> Result<Lease, SendError> {
        let target = self.target(permit)?;
        match self.idle_lease(&target, permit) {
            Some(lease) => Ok(lease),
            None => self.fresh_lease(&target, permit, after(deadline_ms)).await,
        }
    }

    /// A new connection to the place of the permit, within `deadline_ms` milliseconds.
    pub async fn dial(&self, permit: &P, deadline_ms: u64) -> Result<Lease, SendError> {
        let target = self.target(permit)?;
        self.fresh_lease(&target, permit, after(deadline_ms)).await
    }

    /// Idle connections to one configured target, for tests and metrics.
    pub fn idle(&self, name: &Name) -> usize {
        let target = self.targets.get(name);
        target.map_or(0, |target| self.pool.shelves.borrow().idle(&target.shelf))
    }

    /// The one place that this permit is for.
    /// Where the place of the permit is.
    pub fn endpoint(&self, permit: &P) -> Option<crate::Endpoint> {
        let target = self.target(permit).ok()?;
        Some(target.endpoint.clone())
    }

    pub(crate) fn target(&self, permit: &P) -> Result<Arc<DialTarget>, SendError> {
        let target = match permit.destination() {
            Destination::Configured(name) => self.targets.get(name).cloned(),
            Destination::Site(site) => return self.site(site),
            Destination::Gateway => None,
        };
        target.ok_or_else(|| {
            never!(
                "a permit for {}, which is not configured",
                permit.destination()
            );
            let public = "The permit is for a server that is not configured.";
            SendError::Refused(Refusal::new(refusal::SERVER_UNKNOWN, public))
        })
    }

    fn site(&self, site: &Site) -> Result<Arc<DialTarget>, SendError> {
        let origin: Arc<str> = site.to_string().into();
        let key = ShelfKey::Site(Arc::clone(&origin));
        if let Some(target) = self.pool.shelves.borrow().site(&key) {
            return Ok(target);
        }
        let target = self.targets.site(site, origin);
        let target = target.map_err(|why| SendError::Unreachable(format!("{site}: {why}")))?;
        Ok(Arc::new(target))
    }

    /// An idle connection whose address this permit, too, allows.
    pub(crate) fn idle_lease(&self, target: &Arc<DialTarget>, permit: &P) -> Option<Lease> {
        let Pool {
            thread, shelves, ..
        } = &*self.pool;
        let idle = shelves.borrow_mut().take(&target.shelf, |idle| {
            !idle.is_over(thread) && permit.dial(idle.address).is_ok()
        })?;
        Some(self.lend(target, idle.client, idle.address, false))
    }

    /// A new connection.
    pub(crate) async fn fresh_lease(
        &self,
        target: &Arc<DialTarget>,
        permit: &P,
        deadline: Instant,
    ) -> Result<Lease, SendError> {
        let (resolver, links) = (&*self.resolver, &self.pool.links);
        let (stream, address) = match target.endpoint.http2 {
            false => dial(target, permit, resolver, deadline).await?,
            true => {
                let dialled = dial(target, permit, resolver, deadline);
                // Its state is no burden to calls that speak HTTP/1.1.
                Box::pin(links.open(target, permit, dialled, deadline)).await?
            }
        };
        let Pool { thread, bounds, .. } = &*self.pool;
        let client = Box::new(ClientConnection::new(stream, thread, bounds));
        Ok(self.lend(target, client, address, true))
    }

    fn lend(
        &self,
        target: &Arc<DialTarget>,
        client: Box<ClientConnection<Stream>>,
        address: IpAddr,
        is_fresh: bool,
    ) -> Lease {
        Lease {
            client: Some(client),
            address,
            is_fresh,
            target: Arc::clone(target),
            pool: Rc::clone(&self.pool),
        }
    }
}

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

impl Lease {
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

    /// The connection itself, with its thread and bounds: it does not come back.
    pub(crate) fn into_client(
        mut self,
    ) -> (ClientConnection<Stream>, Rc<Thread>, Rc<ConnectionSettings>) {
        let client = self.client.take().expect("lent until it is dropped");
        let Pool { thread, bounds, .. } = &*self.pool;
        (*client, Rc::clone(thread), Rc::clone(bounds))
    }

    /// Lets the next answer take as long as it takes: whoever waits for it sets a bound.
    pub fn wait_patiently(&mut self) {
        let patient = Rc::clone(&self.pool.patient);
        self.set_bounds(patient);
    }
}

impl Deref for Lease {
    type Target = ClientConnection<Stream>;

    fn deref(&self) -> &ClientConnection<Stream> {
        self.client.as_ref().expect("lent until it is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut ClientConnection<Stream> {
        self.client.as_mut().expect("lent until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && client.is_reusable()
        {
            self.pool.keep(&self.target, client, self.address);
        }
    }
}

impl Pool {
    fn keep(
        self: &Rc<Pool>,
        target: &Arc<DialTarget>,
        mut client: Box<ClientConnection<Stream>>,
        address: IpAddr,
    ) {
        client.rest();
        client.set_bounds(Rc::clone(&self.bounds));
        let until = self.thread.after(target.endpoint.idle_ms);
        let idle = Idle {
            client,
            address,
            until,
        };
        self.shelves.borrow_mut().keep(target, idle);
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
                shelves.retain(|idle| !idle.is_over(&pool.thread));
                if shelves.is_empty() {
                    pool.sweeping.set(false);
                    return;
                }
            }
        });
    }
}
