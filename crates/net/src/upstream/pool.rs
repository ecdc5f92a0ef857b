//! Idle connections of one thread, kept for the next call.
//!
//! A connection comes back only after a complete answer, and is used again newest first, so that the rest
//! can grow old and be closed. It never waits for a free connection: a call that finds none dials.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Name;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::dial::RequestSender;
use super::targets::DialTarget;

/// How often connections that grew old are looked for while there are any, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// A connection that nobody uses.
struct Idle {
    sender: RequestSender,
    address: IpAddr,
    until: Instant,
}

/// The idle connections of one thread.
#[derive(Default)]
pub(super) struct Pool {
    idle: RefCell<HashMap<Name, Vec<Idle>>>,
    sweeping: Cell<bool>,
}

impl Pool {
    /// Takes the newest connection that is open and ready, and whose address `allowed` says yes to.
    pub(super) fn take(
        &self,
        name: &Name,
        allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<(RequestSender, IpAddr)> {
        let mut idle = self.idle.borrow_mut();
        let connections = idle.get_mut(name)?;
        while let Some(Idle {
            sender, address, ..
        }) = connections.pop()
        {
            if sender.is_ready() && allowed(address) {
                return Some((sender, address));
            }
        }
        None
    }

    /// Keeps a connection whose answer is complete. `sender` may need a moment to be ready.
    pub(super) fn keep(
        self: &Rc<Pool>,
        target: &Arc<DialTarget>,
        mut sender: RequestSender,
        address: IpAddr,
    ) {
        if sender.is_ready() {
            return self.put(target, sender, address);
        }
        let (pool, target) = (Rc::clone(self), Arc::clone(target));
        spawn_local(async move {
            // Ends as soon as the connection's task has run: it is ready or closed.
            if sender.ready().await.is_ok() {
                pool.put(&target, sender, address);
            }
        });
    }

    fn put(self: &Rc<Pool>, target: &DialTarget, sender: RequestSender, address: IpAddr) {
        let until = Instant::now() + Duration::from_millis(target.endpoint.idle_ms);
        let mut idle = self.idle.borrow_mut();
        let connections = match idle.get_mut(&target.name) {
            Some(connections) => connections,
            None => idle.entry(target.name.clone()).or_default(),
        };
        if connections.len() < target.endpoint.idle_max {
            connections.push(Idle {
                sender,
                address,
                until,
            });
        }
        if !self.sweeping.replace(true) {
            self.sweep();
        }
    }

    /// Closes old connections, until there is none left.
    fn sweep(self: &Rc<Pool>) {
        let pool = Rc::downgrade(self);
        spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(SWEEP_MS)).await;
                let Some(pool) = pool.upgrade() else { return };
                let now = Instant::now();
                let mut idle = pool.idle.borrow_mut();
                idle.retain(|_, connections| {
                    connections.retain(|idle| idle.until > now && !idle.sender.is_closed());
                    !connections.is_empty()
                });
                if idle.is_empty() {
                    pool.sweeping.set(false);
                    return;
                }
            }
        });
    }

    /// Idle connections of one target that are still open.
    pub(super) fn idle(&self, name: &Name) -> usize {
        let idle = self.idle.borrow();
        let connections = idle.get(name).map_or(&[][..], Vec::as_slice);
        connections
            .iter()
            .filter(|idle| !idle.sender.is_closed())
            .count()
    }
}
