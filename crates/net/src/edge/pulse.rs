//! What each connection of a thread waits for, and one clock for all of them.
//!
//! A tokio timer for each request costs more than the parsing of its head. So each connection notes a tick
//! at which it is too late, in a cell; one task for each thread looks at all of them a few times a second and
//! wakes those that are late. A deadline is met at the earliest when its time has passed and at the latest
//! two ticks after. It does not act on a connection itself: it sets a flag and wakes its task.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::EdgeSettings;
use super::places::Guest;
use super::strict::FaultKind;

const NEVER: u64 = u64::MAX;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of a head.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body.
    Body,
    /// The answer, for which the service has bounds of its own.
    Answer,
}

/// How far the answer to the last head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerProgress {
    /// All answers are flushed. What hyper writes now is its own word on a bad head.
    Nothing,
    /// The service is asked, or its body is being read.
    Answer,
    /// hyper has the whole answer and flushes it.
    Flush,
}

/// Why a connection has to stop at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing came; there is nobody to tell.
    Unused,
    /// The head took too long.
    SlowHead,
    /// The client takes nothing of its answer, or the drain is over.
    Kill,
}

/// The bounds of [`EdgeSettings`] in ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    head: u64,
    body: u64,
    idle: u64,
    write: u64,
}

/// The state that a connection's task, its I/O and the clock share.
#[derive(Debug)]
pub(super) struct Pulse {
    now: Rc<Cell<u64>>,
    guest: Arc<Guest>,
    ticks: Ticks,
    phase: Cell<Phase>,
    due: Cell<u64>,
    write_due: Cell<u64>,
    owed: Cell<AnswerProgress>,
    stop: Cell<Option<Stop>>,
    draining: Cell<bool>,
    late_body: Cell<bool>,
    unread: Cell<bool>,
    old: Cell<bool>,
    /// Heads that the service was asked for.
    heads: Cell<u64>,
    /// A bad head, and how many good ones came before it.
    fault: Cell<Option<(FaultKind, u64)>>,
    task: RefCell<Option<Waker>>,
    reader: RefCell<Option<Waker>>,
}

impl Pulse {
    fn new(now: Rc<Cell<u64>>, ticks: Ticks, guest: Arc<Guest>) -> Pulse {
        let due = now.get() + ticks.head;
        Pulse {
            now,
            guest,
            ticks,
            phase: Cell::new(Phase::Idle),
            due: Cell::new(due),
            write_due: Cell::new(NEVER),
            owed: Cell::new(AnswerProgress::Nothing),
            stop: Cell::new(None),
            draining: Cell::new(false),
            late_body: Cell::new(false),
            unread: Cell::new(false),
            old: Cell::new(false),
            heads: Cell::new(0),
            fault: Cell::new(None),
            task: RefCell::new(None),
            reader: RefCell::new(None),
        }
    }

    fn enter(&self, phase: Phase, ticks: u64) {
        self.phase.set(phase);
        self.due.set(self.now.get().saturating_add(ticks));
    }

    /// Bytes came from the client.
    pub(super) fn has_read(&self) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head, self.ticks.head);
        }
    }

    /// A whole head has come for the service; `old` says that it is older than HTTP/1.1. False where the
    /// connection has to close for another.
    pub(super) fn has_head(&self, old: bool) -> bool {
        self.old.set(old);
        self.heads.set(self.heads.get() + 1);
        self.phase.set(Phase::Answer);
        self.due.set(NEVER);
        self.owed.set(AnswerProgress::Answer);
        self.guest.asks()
    }

    /// What came is bad, after this many good heads.
    pub(super) fn has_fault(&self, what: FaultKind, heads: u64) {
        self.fault.set(Some((what, heads)));
    }

    /// A bad head, once the requests before it have their answers.
    pub(super) fn fault(&self) -> Option<FaultKind> {
        let (what, heads) = self.fault.get()?;
        let is_next = !self.owes() && self.heads.get() >= heads;
        (is_next && !matches!(what, FaultKind::Body(_))).then_some(what)
    }

    /// The request was of a known agent.
    pub(super) fn is_known(&self) {
        self.guest.is_known();
    }

    /// The service starts to read the body.
    pub(super) fn body_starts(&self) {
        self.enter(Phase::Body, self.ticks.body);
    }

    /// The service stops reading the body.
    pub(super) fn body_ends(&self) {
        if self.phase.get() == Phase::Body {
            self.phase.set(Phase::Answer);
            self.due.set(NEVER);
        }
    }

    /// hyper let go of the answer's body: all of it is in hyper's buffer.
    pub(super) fn has_answer(&self) {
        self.owed.set(AnswerProgress::Flush);
    }

    /// hyper's buffer is on its way.
    pub(super) fn has_flushed(&self) {
        if self.owed.get() == AnswerProgress::Flush {
            self.owed.set(AnswerProgress::Nothing);
            self.enter(Phase::Idle, self.ticks.idle);
            self.guest.is_silent();
        }
    }

    /// Whether what hyper writes now belongs to an answer of the service.
    pub(super) fn owes(&self) -> bool {
        self.owed.get() != AnswerProgress::Nothing
    }

    /// The socket takes nothing more for now.
    pub(super) fn write_blocked(&self) {
        if self.write_due.get() == NEVER {
            self.write_due
                .set(self.now.get().saturating_add(self.ticks.write));
            self.guest.is_silent();
        }
    }

    /// The socket took some bytes.
    pub(super) fn has_written(&self) {
        if self.write_due.replace(NEVER) != NEVER && self.owes() {
            self.guest.is_busy();
        }
    }

    /// A part of the request stays unread: the connection cannot be used again.
    pub(super) fn leave_unread(&self) {
        self.unread.set(true);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.unread.get()
    }

    /// Whether the last head was older than HTTP/1.1.
    pub(super) fn is_old(&self) -> bool {
        self.old.get()
    }

    pub(super) fn is_body_late(&self) -> bool {
        self.late_body.get()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    pub(super) fn stop(&self) -> Option<Stop> {
        self.stop.get()
    }

    /// Waits until the connection has to end now.
    pub(super) async fn killed(&self) {
        poll_fn(|context| {
            self.watch_task(context.waker());
            match self.stop() {
                Some(Stop::Kill) => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
    }

    /// Remembers whom to wake: the connection's task.
    pub(super) fn watch_task(&self, waker: &Waker) {
        keep(&self.task, waker);
    }

    /// Remembers whom to wake: who reads the body.
    pub(super) fn watch_reader(&self, waker: &Waker) {
        keep(&self.reader, waker);
    }

    fn wake(&self) {
        for slot in [&self.task, &self.reader] {
            if let Some(waker) = &*slot.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    fn check(&self) {
        let now = self.now.get();
        if now >= self.write_due.get() {
            return self.halt(Stop::Kill);
        }
        if now < self.due.get() {
            return;
        }
        match self.phase.get() {
            Phase::Idle => self.halt(Stop::Unused),
            Phase::Head => self.halt(Stop::SlowHead),
            Phase::Body => {
                self.late_body.set(true);
                self.due.set(NEVER);
                self.wake();
            }
            Phase::Answer => {}
        }
    }

    fn halt(&self, stop: Stop) {
        self.stop.set(Some(stop));
        self.due.set(NEVER);
        self.wake();
    }
}

fn keep(slot: &RefCell<Option<Waker>>, waker: &Waker) {
    let mut slot = slot.borrow_mut();
    if !slot.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
        *slot = Some(waker.clone());
    }
}

/// The connections of one thread, and their clock.
#[derive(Debug)]
pub(super) struct Pulses {
    now: Rc<Cell<u64>>,
    tick_ms: u64,
    ticks: Ticks,
    next: Cell<u64>,
    open: RefCell<HashMap<u64, Rc<Pulse>>>,
    changed: Notify,
}

impl Pulses {
    pub(super) fn new(settings: &EdgeSettings) -> Pulses {
        let shortest = settings
            .head_ms
            .min(settings.body_ms)
            .min(settings.write_ms);
        let tick_ms = (shortest / 8).clamp(10, 250);
        // One more, because the current tick may be nearly over.
        let ticks = |ms: u64| ms.div_ceil(tick_ms) + 1;
        Pulses {
            now: Rc::new(Cell::new(0)),
            tick_ms,
            ticks: Ticks {
                head: ticks(settings.head_ms),
                body: ticks(settings.body_ms),
                idle: ticks(settings.idle_ms),
                write: ticks(settings.write_ms),
            },
            next: Cell::new(0),
            open: RefCell::new(HashMap::new()),
            changed: Notify::new(),
        }
    }

    /// Takes in a connection; it counts as open until what this returns is dropped.
    pub(super) fn open(self: &Rc<Pulses>, guest: Arc<Guest>) -> OpenConnection {
        let id = self.next.get();
        self.next.set(id + 1);
        let pulse = Rc::new(Pulse::new(Rc::clone(&self.now), self.ticks, guest));
        self.open.borrow_mut().insert(id, Rc::clone(&pulse));
        self.changed.notify_one();
        OpenConnection {
            id,
            pulse,
            pulses: Rc::clone(self),
        }
    }

    /// Ticks for ever; sleeps while no connection is open.
    pub(super) async fn tick(&self) {
        loop {
            if self.open.borrow().is_empty() {
                self.changed.notified().await;
            }
            tokio::time::sleep(Duration::from_millis(self.tick_ms)).await;
            self.now.set(self.now.get() + 1);
            self.open.borrow().values().for_each(|pulse| pulse.check());
        }
    }

    /// Tells every connection to end after the answer that it owes.
    pub(super) fn drain(&self) {
        for pulse in self.open.borrow().values() {
            pulse.draining.set(true);
            pulse.wake();
        }
    }

    /// Tells every connection to end now.
    pub(super) fn kill(&self) {
        self.open
            .borrow()
            .values()
            .for_each(|pulse| pulse.halt(Stop::Kill));
    }

    /// Waits until no connection is open.
    pub(super) async fn emptied(&self) {
        while !self.open.borrow().is_empty() {
            self.changed.notified().await;
        }
    }
}

/// One open connection's place among [`Pulses`].
pub(super) struct OpenConnection {
    id: u64,
    pub(super) pulse: Rc<Pulse>,
    pulses: Rc<Pulses>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.pulses.open.borrow_mut().remove(&self.id);
        self.pulses.changed.notify_one();
    }
}
