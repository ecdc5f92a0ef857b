//! What the connections of one thread share: their buffers, one clock, and the word to stop. Bounds
//! are a connection's own, so that agents and servers of one thread can have different ones.
//!
//! A timer for each wait costs more than the parsing of a head. So a connection that has to wait
//! notes a tick at which it is too late; one task looks at all of them a few times a second and
//! wakes those that are late. A bound is met at the earliest when its time has passed and at the
//! latest two ticks after. Nothing is armed for what need not wait.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::spawn_local;

use super::ConnectionSettings;
use super::buffer::Buffers;

const NEVER: u64 = u64::MAX;
/// Bytes of a date.
pub(super) const DATE_BYTES: usize = 29;
/// Ticks between two times at which buffers that nobody needed are given back.
const TRIM_TICKS: u64 = 8;

/// The state of one thread that its connections share. Made once for each thread, inside a
/// `LocalSet`.
pub struct Thread {
    pub(crate) buffers: Buffers,
    tick_ms: u64,
    now: Cell<u64>,
    ticking: Cell<bool>,
    /// The tick at which idle connections end, once the thread drains.
    idle_end: Cell<u64>,
    slots: RefCell<Vec<Option<Rc<Slot>>>>,
    free: RefCell<Vec<usize>>,
    /// The second of the day's time that is written down, and how.
    date: Cell<(u64, [u8; DATE_BYTES])>,
}

/// Until when one connection waits, and whom to wake.
#[derive(Debug)]
struct Slot {
    read_due: Cell<u64>,
    write_due: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Thread {
    /// `tick_ms` is the shortest [`ConnectionSettings::tick_ms`] of its connections.
    pub fn new(tick_ms: u64) -> Rc<Thread> {
        Rc::new(Thread {
            tick_ms,
            buffers: Buffers::default(),
            now: Cell::new(0),
            ticking: Cell::new(false),
            idle_end: Cell::new(NEVER),
            slots: RefCell::default(),
            free: RefCell::default(),
            date: Cell::new((NEVER, [0; DATE_BYTES])),
        })
    }

    /// Tells every server connection to end after the answer that it owes. One that owes none waits
    /// `idle_ms` for a request that may be on its way: to close before it would look to the
    /// client as if the request were lost, and a client may not send every request twice.
    pub fn drain(&self, idle_ms: u64) {
        self.idle_end.set(self.after(idle_ms));
        for slot in self.slots.borrow().iter().flatten() {
            slot.wake();
        }
    }

    pub fn is_draining(&self) -> bool {
        self.idle_end.get() != NEVER
    }

    /// Buffers that this thread keeps for whoever comes next, for tests and metrics.
    pub fn buffers_kept(&self) -> usize {
        self.buffers.kept()
    }

    /// The time of day as an answer says it (RFC 9110 §5.6.7).
    pub(super) fn date(&self) -> [u8; DATE_BYTES] {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (written, mut date) = self.date.get();
        if written != second {
            let text = httpdate::fmt_http_date(now);
            date.copy_from_slice(text.as_bytes());
            self.date.set((second, date));
        }
        date
    }

    /// The tick that is this many milliseconds from now, or later.
    pub(crate) fn after(&self, ms: u64) -> u64 {
        // One more, because the current tick may be nearly over.
        let ticks = ms.div_ceil(self.tick_ms).saturating_add(1);
        self.now.get().saturating_add(ticks)
    }

    pub(crate) fn has_passed(&self, tick: u64) -> bool {
        self.now.get() >= tick
    }

    /// Sees to it that ticks are counted, for as long as there are connections.
    pub(crate) fn keep_ticking(self: &Rc<Thread>) {
        if !self.ticking.replace(true) {
            spawn_local(tick(Rc::downgrade(self), self.tick_ms));
        }
    }

    fn check(&self) -> bool {
        let now = self.now.get() + 1;
        self.now.set(now);
        let mut any = false;
        for slot in self.slots.borrow().iter().flatten() {
            any = true;
            if now >= slot.read_due.get().min(slot.write_due.get()) {
                slot.wake();
            }
        }
        if !any || now.is_multiple_of(TRIM_TICKS) {
            self.buffers.trim();
        }
        any
    }
}

async fn tick(thread: Weak<Thread>, tick_ms: u64) {
    loop {
        tokio::time::sleep(Duration::from_millis(tick_ms)).await;
        let Some(thread) = thread.upgrade() else {
            return;
        };
        if !thread.check() {
            thread.ticking.set(false);
            return;
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl Slot {
    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// One connection's place among those of its thread; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Watch {
    slot: Rc<Slot>,
    index: usize,
    pub(crate) thread: Rc<Thread>,
    pub(crate) bounds: Rc<ConnectionSettings>,
}

impl Watch {
    pub(crate) fn new(thread: &Rc<Thread>, bounds: &Rc<ConnectionSettings>) -> Watch {
        let slot = Rc::new(Slot {
            read_due: Cell::new(NEVER),
            write_due: Cell::new(NEVER),
            waker: RefCell::new(None),
        });
        let mut slots = thread.slots.borrow_mut();
        let index = match thread.free.borrow_mut().pop() {
            Some(index) => index,
            None => {
                slots.push(None);
                slots.len() - 1
            }
        };
        slots[index] = Some(Rc::clone(&slot));
        Watch {
            slot,
            index,
            thread: Rc::clone(thread),
            bounds: Rc::clone(bounds),
        }
    }

    /// Bounds the wait for bytes, from now.
    pub(crate) fn read_within(&self, ms: u64) {
        self.slot.read_due.set(self.thread.after(ms));
    }

    /// Bounds the wait for a request that has not begun: it is not waited for much longer once the
    /// thread drains.
    pub(super) fn read_until_drained(&self) {
        self.read_by(self.thread.idle_end.get());
    }

    /// Bounds the wait for bytes by a tick, too.
    pub(crate) fn read_by(&self, tick: u64) {
        let due = self.slot.read_due.get();
        self.slot.read_due.set(due.min(tick));
    }

    pub(crate) fn is_reading_bounded(&self) -> bool {
        self.slot.read_due.get() != NEVER
    }

    pub(crate) fn read_done(&self) {
        self.slot.read_due.set(NEVER);
    }

    pub(crate) fn is_read_late(&self) -> bool {
        self.thread.has_passed(self.slot.read_due.get())
    }

    /// Bounds the wait for the other side to take bytes, from now, if that is not bounded yet.
    pub(crate) fn write_within(&self, ms: u64) {
        if self.slot.write_due.get() == NEVER {
            self.slot.write_due.set(self.thread.after(ms));
        }
    }

    pub(crate) fn write_done(&self) {
        self.slot.write_due.set(NEVER);
    }

    pub(crate) fn is_write_late(&self) -> bool {
        self.thread.has_passed(self.slot.write_due.get())
    }

    /// Remembers whom to wake when a wait is over.
    pub(crate) fn wake_later(&self, waker: &Waker) {
        self.thread.keep_ticking();
        let mut kept = self.slot.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.thread.slots.borrow_mut()[self.index] = None;
        self.thread.free.borrow_mut().push(self.index);
    }
}
