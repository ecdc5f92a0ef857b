//! Makes the connections before the run, so that the first second is not the target's accept queue.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use crate::engine::{STOP_LOOK, WARM_MAX};
use crate::exit::Failure;
use crate::tally::Fault;

use super::slot::Phase;
use super::{EVENTS_MAX, Worker, dial, no_descriptor, timespec};

/// Most connections that one thread makes at once. Half of a small accept queue.
const DIALS_MAX: usize = 64;

impl Worker<'_> {
    /// Makes all connections; with a new one for each request, one to each target, to see that it is there.
    ///
    /// # Errors
    ///
    /// A target takes no connection, this machine has no descriptor or port for them, or the target speaks first.
    pub(super) fn warm(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + WARM_MAX * 9 / 10;
        let targets = self.flow.targets.len();
        for target in 0..targets {
            if let Some(slot) = self.slots.iter().position(|s| s.target == target) {
                self.find_address(slot)?;
            }
        }
        if !self.flow.reconnect {
            let rest = |slot: &usize| self.slots[*slot].stream.is_none();
            let rest = (0..self.slots.len()).filter(rest).collect();
            self.make_all(rest, until)?;
        }
        self.hear_first();
        if self.flow.reconnect {
            self.slots.iter_mut().for_each(|slot| slot.hang_up());
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Makes a target's first connection, to the first of its addresses that takes one.
    fn find_address(&mut self, slot: usize) -> Result<(), Failure> {
        let target = self.slots[slot].target;
        let count = self.flow.targets[target].addresses.len();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in 0..count {
            self.addresses[target] = address;
            match self.make_one(slot) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
            if self.share.control.stopped() {
                break;
            }
        }
        Err(dial::failure(&self.flow.targets[target], &last))
    }

    fn make_one(&mut self, slot: usize) -> io::Result<()> {
        self.dial(slot, self.begin.ns())?;
        let mut first = None;
        while self.dialing > 0 && first.is_none() {
            self.wait_for_dials(&mut first)?;
        }
        first.map_or(Ok(()), Err)
    }

    /// Makes connections, some at once. Those that cannot be made are made when they are needed.
    fn make_all(&mut self, mut rest: VecDeque<usize>, until: Instant) -> Result<(), Failure> {
        let mut first = None;
        while !(rest.is_empty() && self.dialing == 0) {
            while self.dialing < DIALS_MAX
                && let Some(slot) = rest.pop_front()
            {
                if let Err(error) = self.dial(slot, self.begin.ns()) {
                    first.get_or_insert((slot, error));
                }
            }
            let mut failed = None;
            let waited = self.wait_for_dials(&mut failed);
            if let Some(error) = failed.or(waited.err()) {
                first.get_or_insert((0, error));
            }
            if let Some((slot, error)) = &first
                && matches!(dial::fault(error), Fault::Descriptors | Fault::Ports)
            {
                let target = self.slots[*slot].target;
                return Err(dial::failure(&self.flow.targets[target], error));
            }
            if Instant::now() >= until || self.share.control.stopped() {
                break;
            }
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].phase == Phase::Dialing {
                self.leave(slot);
                self.slots[slot].hang_up();
            }
        }
        Ok(())
    }

    /// Waits until some dialing ends, or is to be given up. Says the first error of them.
    fn wait_for_dials(&mut self, failed: &mut Option<io::Error>) -> io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let timeout = timespec(STOP_LOOK.as_nanos() as u64);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let slot = event.data.u64() as u32 as usize;
            let (is_dialing, flags) = (self.slots[slot].phase == Phase::Dialing, event.flags);
            if is_dialing && let Err(error) = self.dialed(slot) {
                self.give_up(slot, error, failed);
            } else if flags.contains(EventFlags::IN) {
                self.read(slot);
            }
        }
        let (now, stopped) = (self.begin.ns(), self.share.control.stopped());
        for slot in 0..self.slots.len() {
            let s = &self.slots[slot];
            if s.phase == Phase::Dialing && (stopped || s.deadline_ns <= now) {
                let error = io::Error::from(io::ErrorKind::TimedOut);
                self.give_up(slot, error, failed);
            }
        }
        Ok(())
    }

    fn give_up(&mut self, slot: usize, error: io::Error, failed: &mut Option<io::Error>) {
        self.leave(slot);
        self.slots[slot].hang_up();
        failed.get_or_insert(error);
    }

    /// Looks whether a target speaks before it is asked.
    fn hear_first(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if let Err(error) = epoll::wait(&self.epoll, buffer, Some(&timespec(0))) {
            self.failure = Some(no_descriptor(error));
        }
        for event in &events {
            let flags = event.flags;
            if flags.contains(EventFlags::IN) {
                self.read(event.data.u64() as u32 as usize);
            }
        }
    }
}
