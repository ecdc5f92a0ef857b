//! When requests begin: closed, by the number of connections at an instant; open, by the schedule.

use std::collections::VecDeque;

use crate::engine::Share;
use crate::plan::Model;
use crate::schedule::{Profile, Sequence};
use crate::tally::Fault;

use super::Worker;
use super::slot::Phase;

/// How often the level of a ramp is looked at, in nanoseconds.
const RAMP_LOOK_NS: u64 = 1_000_000;

/// What decides when this thread's requests begin.
pub(super) enum Load<'a> {
    Closed(Closed<'a>),
    Open(Open<'a>),
}

/// Connections send their next request when they have their answer.
pub(super) struct Closed<'a> {
    profile: &'a Profile,
    /// Connections that are in use now are those with a lower number.
    pub active: usize,
    /// When the level may be another.
    look_ns: u64,
    /// The number of the next request, and the step to the one after it.
    next: u64,
    threads: u64,
    thread: u64,
}

/// Requests begin when they are due.
pub(super) struct Open<'a> {
    sequence: Sequence<'a>,
    next: Option<(u64, u64)>,
    /// Due, and without a connection: number and instant, the oldest first.
    waiting: VecDeque<(u64, u64)>,
    waiting_max: usize,
    /// Connections without a request, connected or not, the longest idle first.
    pub free: VecDeque<u32>,
}

impl<'a> Load<'a> {
    pub(super) fn new(share: &'a Share) -> Load<'a> {
        let (flow, thread) = (&share.flow, share.thread);
        match flow.model {
            Model::Closed => Load::Closed(Closed {
                profile: &flow.profile,
                active: 0,
                look_ns: 0,
                next: thread as u64,
                threads: flow.threads as u64,
                thread: thread as u64,
            }),
            Model::Open {
                arrivals,
                queue_max,
            } => {
                let profile = &flow.profile;
                let mut sequence =
                    Sequence::new(profile, arrivals, share.seed, thread, flow.threads);
                let connections = flow.connections_of(thread) as u32;
                Load::Open(Open {
                    next: sequence.next(),
                    sequence,
                    waiting: VecDeque::new(),
                    waiting_max: (queue_max + flow.threads - 1 - thread) / flow.threads,
                    free: (0..connections).collect(),
                })
            }
        }
    }

    /// When the level must be looked at again.
    pub(super) fn look_ns(&self) -> u64 {
        match self {
            Load::Closed(closed) => closed.look_ns,
            Load::Open(_) => u64::MAX,
        }
    }

    /// When the next request is due.
    pub(super) fn next_ns(&self) -> u64 {
        match self {
            Load::Closed(_) => u64::MAX,
            Load::Open(open) => open.next.map_or(u64::MAX, |(_, due)| due),
        }
    }

    /// Requests that are due and wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Load::Closed(_) => 0,
            Load::Open(open) => open.waiting.len(),
        }
    }

    /// Whether no request will begin any more, but for those that may be under way.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Load::Closed(_) => true,
            Load::Open(open) => open.next.is_none() && open.waiting.is_empty(),
        }
    }

    /// The oldest request that waits.
    pub(super) fn take_waiting(&mut self) -> Option<(u64, u64)> {
        match self {
            Load::Closed(_) => None,
            Load::Open(open) => open.take_waiting(),
        }
    }
}

impl Closed<'_> {
    /// The number of the next request of this thread in the flow.
    pub(super) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += self.threads;
        number
    }

    /// How many connections of this thread are in use at an instant: the flow's connection `j` is if `j` is less
    /// than the level, and this thread has each `threads`-th.
    fn active_at(&self, now: u64) -> usize {
        let over = self.profile.level_at(now) - self.thread as f64;
        (over / self.threads as f64).ceil().max(0.0) as usize
    }
}

impl Open<'_> {
    /// The oldest request that waits.
    pub(super) fn take_waiting(&mut self) -> Option<(u64, u64)> {
        self.waiting.pop_front()
    }

    /// The next arrival that is due.
    fn due(&mut self, now: u64) -> Option<(u64, u64)> {
        let arrival = self.next.filter(|(_, due)| *due <= now)?;
        self.next = self.sequence.next();
        Some(arrival)
    }
}

impl Worker<'_> {
    /// Begins what the load asks for at this instant.
    pub(super) fn follow_load(&mut self, now: u64) {
        match &self.load {
            Load::Closed(closed) if now < closed.look_ns => {}
            Load::Closed(_) => self.follow_level(now),
            Load::Open(_) => self.follow_arrivals(now),
        }
    }

    fn follow_level(&mut self, now: u64) {
        let Load::Closed(closed) = &mut self.load else {
            return;
        };
        let active = closed.active_at(now).min(self.slots.len());
        let before = std::mem::replace(&mut closed.active, active);
        let steps = closed.profile.steps();
        let step = &steps[closed.profile.step_at(now)];
        closed.look_ns = match () {
            () if now >= self.end_ns => u64::MAX,
            () if step.is_hold() => step.end_ns,
            () => step.end_ns.min(now + RAMP_LOOK_NS),
        };
        for slot in before..active {
            if self.slots[slot].phase == Phase::Idle {
                self.begin_closed(slot, now, now);
            }
        }
    }

    fn follow_arrivals(&mut self, now: u64) {
        loop {
            let Load::Open(open) = &mut self.load else {
                return;
            };
            if let Some(slot) = open.free.pop_front() {
                let oldest = open.waiting.pop_front();
                match oldest.or_else(|| open.due(now)) {
                    Some((number, due)) => {
                        self.begin_request(slot as usize, number, due, self.begin.ns())
                    }
                    None => return open.free.push_front(slot),
                }
                continue;
            }
            let Some((number, due)) = open.due(now) else {
                return;
            };
            let has_room = open.waiting.len() < open.waiting_max;
            if has_room {
                open.waiting.push_back((number, due));
            }
            let (kind, step) = (self.flow.kind_of(number), self.step_at(due));
            let tally = self.tallies.of(kind, step);
            tally.queued += u64::from(has_room);
            tally.dropped += u64::from(!has_room);
        }
    }

    /// Begins the next request of a connection, if the level asks for it.
    pub(super) fn begin_closed(&mut self, slot: usize, intended: u64, now: u64) {
        let Load::Closed(closed) = &mut self.load else {
            return;
        };
        if slot < closed.active && now < self.end_ns {
            let number = closed.number();
            self.begin_request(slot, number, intended, now);
        }
    }

    /// Ends the run here: what is under way, and what waits, is counted as unfinished.
    pub(super) fn abandon(&mut self, now: u64) {
        for slot in 0..self.slots.len() {
            if matches!(self.slots[slot].phase, Phase::Busy | Phase::Dialing) {
                self.count_fault(slot, Fault::Unfinished, now);
                self.leave(slot);
                self.slots[slot].hang_up();
            }
        }
        while let Some((number, due)) = self.load.take_waiting() {
            let (kind, step) = (self.flow.kind_of(number), self.step_at(due));
            let tally = self.tallies.of(kind, step);
            tally.failed(Fault::Unfinished, due, now);
        }
    }
}
