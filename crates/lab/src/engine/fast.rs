//! The hot path: plain HTTP/1.1 from one thread that owns its connections, its schedule and its tallies.
//!
//! It is epoll and prepared bytes, without a runtime, since each microsecond that the generator takes from a
//! shared machine is one that the target lacks. It does not retry, does not follow redirects and does not
//! pipeline: one request is one request.
//!
//! What the three histograms hold. *Response* counts from the intended start: in an open load the instant of the
//! schedule, in a closed one the instant at which the connection's last answer was read (and the pause was
//! over). *Service* counts from the instant before the first byte was written. *Lag* is what lies between the
//! two, without the time in which the connection was made, as that is the target's and counts in the response:
//! in an open load waiting for a free connection and late wake-ups, in a closed one late wake-ups after a
//! pause and the making of the request's bytes.

pub mod answer;
mod dial;
mod exchange;
mod judge;
mod load;
mod prepare;
mod slot;
mod warm;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::engine::{Begin, STOP_LOOK, Share, Tallies};
use crate::exit::Failure;
use crate::plan::Flow;

use answer::Remembered;
use load::Load;
use prepare::Prepared;
use slot::{Phase, Slot};

/// Most events of one wake-up.
const EVENTS_MAX: usize = 512;
/// Bytes that are read at once. All connections of a thread share the buffer.
const READ_BYTES: usize = 64 << 10;
/// Longest time for making one connection.
const DIAL_MAX: Duration = Duration::from_secs(10);
/// The tag of the timer among the events; connections have their numbers.
const TIMER: u64 = u64::MAX;

/// Carries out one thread's share. Calls `share.control.ready()` once its connections are made.
///
/// # Errors
///
/// A target cannot be reached before the run begins, or does not speak HTTP/1.1; a request cannot be made.
pub fn run(share: Share) -> Result<(), Failure> {
    let mut worker = Worker::new(&share)?;
    worker.warm()?;
    let Some(begin) = share.control.ready() else {
        worker.tallies.finish();
        return Ok(());
    };
    worker.begin = begin;
    worker.work();
    worker.tallies.finish();
    worker.failure.map_or(Ok(()), Err)
}

/// One generator thread.
struct Worker<'a> {
    share: &'a Share,
    flow: &'a Flow,
    /// For each kind of request, for each target.
    prepared: Vec<Prepared>,
    begin: Begin,
    epoll: OwnedFd,
    /// Wakes to the nanosecond; the waiting of epoll itself is to the millisecond.
    timer: OwnedFd,
    timer_ns: u64,
    slots: Vec<Slot>,
    load: Load<'a>,
    tallies: Tallies,
    remembered: Remembered,
    buffer: Vec<u8>,
    spare: Vec<u8>,
    /// The stage of the last intended start that was looked up, with its begin and end.
    step: (usize, u64, u64),
    /// Connections that rest, by when they wake. Each is in it at most once.
    resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Connections with more to read than is read at once.
    again: Vec<u32>,
    busy: usize,
    dialing: usize,
    /// When to look for requests that are overdue, and how often.
    overdue_ns: u64,
    overdue_every_ns: u64,
    timeout_ns: u64,
    dial_timeout_ns: u64,
    end_ns: u64,
    /// The address of each target that answered.
    addresses: Vec<usize>,
    /// Some answer was HTTP.
    answered: bool,
    failure: Option<Failure>,
}

impl<'a> Worker<'a> {
    fn new(share: &'a Share) -> Result<Worker<'a>, Failure> {
        let flow: &Flow = &share.flow;
        if flow.profile.steps().is_empty() || flow.requests.is_empty() {
            return Err(Failure::new(
                format!("the flow `{}` has nothing to do", flow.name),
                "give it a stage and a request",
            ));
        }
        let pairs = flow.requests.iter().flat_map(|request| {
            let targets = flow.targets.iter();
            targets.map(move |target| Prepared::new(request, target, flow.reconnect))
        });
        let place = |k| (k * flow.threads + share.thread) % flow.targets.len();
        let slots = (0..flow.connections_of(share.thread)).map(|k| Slot::new(place(k)));
        let timeout_ns = flow.timeout.as_nanos() as u64;
        Ok(Worker {
            share,
            flow,
            prepared: pairs.collect::<Result<_, _>>()?,
            begin: Begin {
                instant: Instant::now(),
                unix_ns: 0,
            },
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_descriptor)?,
            timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)
                .map_err(no_descriptor)?,
            timer_ns: u64::MAX,
            slots: slots.collect(),
            load: Load::new(share),
            tallies: Tallies::new(share),
            remembered: Remembered::default(),
            buffer: vec![0; READ_BYTES],
            spare: Vec::new(),
            step: (0, 0, 0),
            resting: BinaryHeap::new(),
            again: Vec::new(),
            busy: 0,
            dialing: 0,
            overdue_ns: 0,
            overdue_every_ns: (timeout_ns / 16).clamp(1_000_000, STOP_LOOK.as_nanos() as u64),
            timeout_ns,
            dial_timeout_ns: timeout_ns.min(DIAL_MAX.as_nanos() as u64),
            end_ns: flow.profile.end_ns(),
            addresses: vec![0; flow.targets.len()],
            answered: false,
            failure: None,
        })
    }

    /// From the begin of the run to its last answer.
    fn work(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let added = epoll::add(
            &self.epoll,
            &self.timer,
            epoll::EventData::new_u64(TIMER),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        );
        if let Err(error) = added {
            self.failure = Some(no_descriptor(error));
        }
        loop {
            let now = self.begin.ns();
            self.due(now);
            let waiting = self.load.waiting() + self.dialing;
            self.tallies.tick(now, self.busy as u64, waiting as u64);
            if self.is_over(now) {
                return self.abandon(now);
            }
            let timeout = self.wait(now);
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => self.failure = Some(no_descriptor(error)),
            }
            for event in &events {
                let (tag, flags) = (event.data.u64(), event.flags);
                if tag != TIMER {
                    self.ready(tag as u32 as usize, (tag >> 32) as u32, flags);
                }
            }
            for slot in std::mem::take(&mut self.again) {
                self.read(slot as usize);
            }
        }
    }

    /// Does what is due: timeouts, connections that rested long enough, arrivals, changes of the level.
    fn due(&mut self, now: u64) {
        if now >= self.overdue_ns {
            self.overdue_ns = now + self.overdue_every_ns;
            self.give_up_overdue(now);
        }
        while let Some(Reverse((wake, slot))) = self.resting.peek().copied()
            && wake <= now
        {
            self.resting.pop();
            self.rested(slot as usize, wake, now);
        }
        self.follow_load(now);
    }

    fn is_over(&self, now: u64) -> bool {
        let is_done = now >= self.end_ns && self.load.is_done() && self.busy + self.dialing == 0;
        let is_late = now >= self.end_ns + self.timeout_ns;
        is_done || is_late || self.failure.is_some() || self.share.control.stopped()
    }

    /// How long to wait for events. Sets the timer if something is due sooner than the next look around.
    fn wait(&mut self, now: u64) -> Timespec {
        let mut coarse = (now + STOP_LOOK.as_nanos() as u64)
            .min(self.tallies.due_ns())
            .min(self.load.look_ns());
        if self.busy + self.dialing > 0 {
            coarse = coarse.min(self.overdue_ns);
        }
        let rested = self.resting.peek().map(|Reverse((wake, _))| *wake);
        let exact = rested.unwrap_or(u64::MAX).min(self.load.next_ns());
        if !self.again.is_empty() || exact.min(coarse) <= now {
            return Timespec::default();
        }
        if exact < coarse && exact != self.timer_ns {
            self.timer_ns = exact;
            let settings = Itimerspec {
                it_interval: Timespec::default(),
                it_value: timespec(exact - now),
            };
            let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &settings);
            if set.is_err() {
                coarse = exact;
            }
        }
        timespec(coarse - now)
    }

    /// The stage in which an instant lies.
    fn step_at(&mut self, ns: u64) -> usize {
        let (step, begin, end) = self.step;
        if (begin..end).contains(&ns) {
            return step;
        }
        let step = self.flow.profile.step_at(ns);
        let found = &self.flow.profile.steps()[step];
        self.step = (step, found.begin_ns, found.end_ns);
        step
    }

    /// Takes a connection out of what it is doing, and counts it there no more.
    fn leave(&mut self, slot: usize) {
        match std::mem::replace(&mut self.slots[slot].phase, Phase::Idle) {
            Phase::Busy => self.busy -= 1,
            Phase::Dialing => self.dialing -= 1,
            Phase::Idle | Phase::Resting => {}
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

fn no_descriptor(error: Errno) -> Failure {
    Failure::new(
        format!("a generator thread cannot wait for its connections: {error}"),
        "raise the limit of open files (`ulimit -n`)",
    )
}
