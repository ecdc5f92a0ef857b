//! A wake-up that is on time: the runtime's own timer counts milliseconds, and an arrival is due at a nanosecond.
//!
//! A timer of the kernel is a descriptor, and the runtime already waits for descriptors. It has no slack.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// One timer of the kernel, armed for one instant at a time.
pub(super) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// Makes the timer. It must be made inside a runtime.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub(super) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "its successor is unsafe for types that may give another descriptor; OwnedFd does not"
        )]
        Ok(Alarm(AsyncFd::new(descriptor)?))
    }

    /// Waits so many nanoseconds.
    ///
    /// # Errors
    ///
    /// The kernel refuses the timer.
    pub(super) async fn wait(&self, ns: u64) -> io::Result<()> {
        let span = |ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        let setting = Itimerspec {
            it_interval: span(0),
            // Zero would disarm it.
            it_value: span(ns.max(1)),
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        loop {
            let mut guard = self.0.readable().await?;
            let mut count = [0_u8; 8];
            match rustix::io::read(self.0.get_ref(), &mut count) {
                Ok(_) => {
                    guard.clear_ready();
                    return Ok(());
                }
                Err(error) if error == rustix::io::Errno::AGAIN => guard.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
