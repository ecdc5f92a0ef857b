//! Waits that end within about a tenth of a millisecond, for one thread.
//!
//! Tokio's clock counts milliseconds, which is a fifth of a delay of 5 ms. A `timerfd` is set to the earliest
//! wait instead; the kernel gives it no slack, so what remains is the time that a thread takes to wake. A wait
//! never ends early. Measured on a virtual machine, client and target at real-time priority, one connection:
//! the median answer without a delay took 35 µs, with a delay of 1 ms 1.12 ms, with one of 5 ms 5.17 ms; so a
//! delay is right within about 0.1 ms. On a busy machine it is longer by what the scheduler takes.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Below this many waits the heap is not searched for those that nobody waits for any more.
const SWEEP_MIN: usize = 1_024;

/// The waits of one thread. Cloning shares them.
#[derive(Clone)]
pub(super) struct Timer(Rc<Inner>);

struct Inner {
    fd: AsyncFd<OwnedFd>,
    waits: RefCell<Waits>,
}

struct Waits {
    heap: BinaryHeap<Reverse<Wait>>,
    /// What the timer is set to.
    armed: Option<Instant>,
    /// At this length the heap is swept.
    sweep_at: usize,
}

struct Wait {
    due: Instant,
    waiter: Rc<Waiter>,
}

#[derive(Default)]
struct Waiter {
    fired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl PartialEq for Wait {
    fn eq(&self, other: &Wait) -> bool {
        self.due == other.due
    }
}
impl Eq for Wait {}
impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Wait) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Wait {
    fn cmp(&self, other: &Wait) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

impl Timer {
    /// A timer for this thread's runtime. [`Timer::run`] must be polled for waits to end.
    pub(super) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe for types that may close or change their descriptor; an \
                      OwnedFd does neither"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Timer(Rc::new(Inner {
            fd,
            waits: RefCell::new(Waits {
                heap: BinaryHeap::new(),
                armed: None,
                sweep_at: SWEEP_MIN,
            }),
        })))
    }

    /// Wakes what is due, for ever. Ends only when the timer cannot be read.
    pub(super) async fn run(&self) -> io::Error {
        loop {
            let mut ready = match self.0.fd.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            let mut expired = [0_u8; 8];
            match rustix::io::read(ready.get_inner(), &mut expired) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return error.into(),
            }
            if let Err(error) = self.0.wake() {
                return error;
            }
        }
    }

    /// Waits until `due`; returns at once when it has passed.
    pub(super) fn until(&self, due: Instant) -> Until {
        Until {
            timer: self.clone(),
            due,
            waiter: None,
        }
    }
}

impl Inner {
    fn wake(&self) -> io::Result<()> {
        let waits = &mut *self.waits.borrow_mut();
        waits.armed = None;
        let now = Instant::now();
        while let Some(Reverse(first)) = waits.heap.peek() {
            if first.due > now {
                break;
            }
            let Some(Reverse(wait)) = waits.heap.pop() else {
                break;
            };
            wait.waiter.fired.set(true);
            if let Some(waker) = wait.waiter.waker.borrow_mut().take() {
                waker.wake();
            }
        }
        self.arm(waits)
    }

    /// Sets the timer to the earliest wait, unless it is set to that or to an earlier time.
    fn arm(&self, waits: &mut Waits) -> io::Result<()> {
        let Some(Reverse(first)) = waits.heap.peek() else {
            return Ok(());
        };
        if waits.armed.is_some_and(|armed| armed <= first.due) {
            return Ok(());
        }
        // A setting of zero would disarm the timer.
        let wait = first
            .due
            .saturating_duration_since(Instant::now())
            .max(Duration::from_nanos(1));
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec::try_from(wait).map_err(io::Error::other)?;
        let setting = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &setting)?;
        waits.armed = Some(first.due);
        Ok(())
    }

    fn add(&self, due: Instant, waiter: Rc<Waiter>) -> io::Result<()> {
        let waits = &mut *self.waits.borrow_mut();
        if waits.heap.len() >= waits.sweep_at {
            // A wait that was dropped is held by the heap alone.
            waits
                .heap
                .retain(|Reverse(wait)| Rc::strong_count(&wait.waiter) > 1);
            waits.sweep_at = (waits.heap.len() * 2).max(SWEEP_MIN);
        }
        waits.heap.push(Reverse(Wait { due, waiter }));
        self.arm(waits)
    }
}

/// A wait of [`Timer::until`].
pub(super) struct Until {
    timer: Timer,
    due: Instant,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(waiter) = &self.waiter {
            if waiter.fired.get() {
                return Poll::Ready(());
            }
            waiter.waker.replace(Some(context.waker().clone()));
            return Poll::Pending;
        }
        if self.due <= Instant::now() {
            return Poll::Ready(());
        }
        let waiter = Rc::new(Waiter::default());
        waiter.waker.replace(Some(context.waker().clone()));
        self.timer
            .0
            .add(self.due, Rc::clone(&waiter))
            .expect("a timer that was made can be set");
        self.waiter = Some(waiter);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_in_their_order_and_never_early() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        let ended = runtime.block_on(local.run_until(async {
            let timer = Timer::new().unwrap();
            let driver = timer.clone();
            tokio::task::spawn_local(async move { driver.run().await });
            let ended = Rc::new(RefCell::new(Vec::new()));
            let begun = Instant::now();
            let tasks: Vec<_> = [30_u64, 10, 0, 20]
                .into_iter()
                .map(|ms| {
                    let (timer, ended) = (timer.clone(), Rc::clone(&ended));
                    tokio::task::spawn_local(async move {
                        let due = begun + Duration::from_millis(ms);
                        timer.until(due).await;
                        assert!(Instant::now() >= due);
                        ended.borrow_mut().push(ms);
                    })
                })
                .collect();
            // One that is dropped must wake nobody and hold nothing up.
            drop(timer.until(begun + Duration::from_millis(5)));
            for task in tasks {
                task.await.unwrap();
            }
            ended.take()
        }));
        assert_eq!(ended, [0, 10, 20, 30]);
    }
}
