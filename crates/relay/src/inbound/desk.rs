//! What one thread of an inbound works with: connections, opened tickets, grants, counters.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use base::Now;
use gate::Passed;
use net::Upstreams;
use seal::{Inbox, Moment};
use tokio::task::spawn_local;

use super::{Inbound, Live};
use crate::counters::Counters;
use crate::grants::Grants;

/// How often a thread looks for what is over, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The settings in force, as one thread uses them. Grants are by place in their lists, so they change with them.
pub(super) struct Current {
    pub(super) live: Arc<Live>,
    pub(super) grants: Grants,
}

pub(super) struct Desk {
    pub(super) shared: Arc<Inbound>,
    pub(super) counters: Arc<Counters>,
    pub(super) upstreams: Upstreams<Passed>,
    pub(super) inbox: RefCell<Inbox>,
    current: RefCell<Rc<Current>>,
}

impl Desk {
    pub(super) fn new(shared: &Arc<Inbound>, upstreams: Upstreams<Passed>) -> Rc<Desk> {
        let current = Current::new(shared, shared.live.load_full());
        Rc::new(Desk {
            shared: Arc::clone(shared),
            counters: shared.counters.thread(),
            upstreams,
            inbox: RefCell::default(),
            current: RefCell::new(Rc::new(current)),
        })
    }

    /// The settings in force now.
    pub(super) fn current(&self) -> Rc<Current> {
        let live = self.shared.live.load();
        if !Arc::ptr_eq(&live, &self.current.borrow().live) {
            let current = Current::new(&self.shared, Arc::clone(&live));
            self.current.replace(Rc::new(current));
        }
        Rc::clone(&self.current.borrow())
    }

    pub(super) fn now(&self) -> Now {
        self.shared.clock.now()
    }

    pub(super) fn moment(&self) -> Moment {
        Moment {
            now: self.now(),
            generation: self.shared.generation.now(),
        }
    }

    /// Looks after what is over until the thread has ended.
    pub(super) fn keep(self: &Rc<Desk>) {
        let desk = Rc::downgrade(self);
        spawn_local(keep(desk));
    }

    fn sweep(&self) {
        let now = self.now();
        self.inbox.borrow_mut().sweep(self.moment());
        self.current().grants.sweep(now);
        self.shared.replay.sweep(now);
        if self.shared.teks.turn(now).is_err() {
            tracing::error!(target: "relay", "no new ticket key: the kernel gives no random bytes");
        }
    }
}

async fn keep(desk: Weak<Desk>) {
    loop {
        tokio::time::sleep(Duration::from_millis(SWEEP_MS)).await;
        let Some(desk) = desk.upgrade() else { return };
        desk.sweep();
        desk.shared.share().await;
    }
}

impl Current {
    fn new(shared: &Inbound, live: Arc<Live>) -> Current {
        Current {
            live,
            grants: Grants::new(Arc::clone(&shared.gate)),
        }
    }
}
