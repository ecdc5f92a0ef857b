//! What one thread of an outbound works with: connections, senders, grants, counters.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use base::Now;
use gate::Passed;
use net::Upstreams;
use seal::{IdRandom, Moment, Outbox};
use tokio::task::spawn_local;

use super::kept::Room;
use super::{Live, Outbound};
use crate::counters::Counters;
use crate::grants::Grants;
use crate::random;

/// How often a thread looks for what is over, and for sessions to renew, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The settings in force, as one thread uses them. Grants are by place in their lists, so they change with them.
pub(super) struct Current {
    pub(super) live: Arc<Live>,
    pub(super) grants: Grants,
}

pub(super) struct Desk {
    pub(super) shared: Arc<Outbound>,
    pub(super) counters: Arc<Counters>,
    pub(super) upstreams: Upstreams<Passed>,
    pub(super) outbox: RefCell<Outbox>,
    /// For bodies that may have to go again.
    pub(super) room: Room,
    current: RefCell<Rc<Current>>,
}

impl Desk {
    pub(super) fn new(shared: &Arc<Outbound>, upstreams: Upstreams<Passed>) -> Rc<Desk> {
        let current = Current::new(shared, shared.live.load_full());
        Rc::new(Desk {
            shared: Arc::clone(shared),
            counters: shared.counters.thread(),
            upstreams,
            outbox: RefCell::default(),
            room: Room::default(),
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

    /// Looks after what is over, and renews sessions, until the thread has ended.
    pub(super) fn keep(self: &Rc<Desk>) {
        let desk = Rc::downgrade(self);
        spawn_local(keep(desk));
    }

    fn sweep(&self) {
        self.outbox.borrow_mut().sweep(self.moment());
        self.current().grants.sweep(self.now());
    }

    /// Renews the sessions that are old; only the thread that finds nobody at it does.
    async fn renew(&self) {
        let current = self.current();
        for link in &current.live.links {
            let old = link.session();
            if link.is_old(self.now()) && link.shaking.try_lock().is_ok() {
                // A failure is logged, and the old session is used as long as it is good.
                let _ = self.session(link, old.as_ref()).await;
            }
        }
    }
}

async fn keep(desk: Weak<Desk>) {
    loop {
        tokio::time::sleep(Duration::from_millis(SWEEP_MS)).await;
        let Some(desk) = desk.upgrade() else { return };
        desk.sweep();
        desk.renew().await;
    }
}

impl Current {
    fn new(shared: &Outbound, live: Arc<Live>) -> Current {
        Current {
            live,
            grants: Grants::new(Arc::clone(&shared.gate)),
        }
    }
}

/// The random id of a new sender.
pub(crate) fn sender_id() -> IdRandom {
    random::draw().expect("the kernel's random source does not fail once it is seeded")
}
