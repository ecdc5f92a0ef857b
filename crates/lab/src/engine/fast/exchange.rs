//! One request after another on one connection: begin, write, read, count.
//!
//! Whoever fails is counted with its class and gets a new connection. Nothing is sent twice: RFC 9112, section
//! 9.3.1, allows a client to retry, and an instrument that did would hide what it is there to show.

use std::io;

use base::hex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::result::Note;
use crate::tally::{Fault, Metric};
use crate::template::At;

use super::answer::Wrong;
use super::judge::{Difference, Judge};
use super::load::Load;
use super::slot::{Phase, Slot, sent};
use super::{READ_BYTES, Worker, dial};

use std::cmp::Reverse;

/// Most reads of one connection before the others have their turn.
const READS_MAX: usize = 16;
/// How long a closed connection rests after its first failure to connect, and at most, in nanoseconds.
const BACKOFF_FIRST_NS: u64 = 1_000_000;
const BACKOFF_MAX_NS: u64 = 256_000_000;

impl Worker<'_> {
    /// Begins a request on a connection that has none; makes the connection if there is none.
    pub(super) fn begin_request(&mut self, slot: usize, number: u64, intended: u64, now: u64) {
        let (kind, step) = (self.flow.kind_of(number), self.step_at(intended));
        let s = &mut self.slots[slot];
        (s.number, s.kind, s.step) = (number, kind, step);
        (s.intended_ns, s.dial_ns, s.bytes_in) = (intended, 0, 0);
        if s.ending {
            s.hang_up();
        }
        if s.stream.is_some() {
            self.send(slot, now);
        } else if let Err(error) = self.dial(slot, now) {
            self.undialed(slot, dial::fault(&error));
        }
    }

    /// Begins to make a connection.
    pub(super) fn dial(&mut self, slot: usize, now: u64) -> io::Result<()> {
        let s = &mut self.slots[slot];
        let target = &self.flow.targets[s.target];
        let Some(address) = target.addresses.get(self.addresses[s.target]) else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let stream = dial::begin(*address)?;
        let tag = EventData::new_u64(u64::from(s.generation) << 32 | slot as u64);
        // Edges only: a connection that was read to its end is not looked at again until something comes.
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &stream, tag, interest)?;
        s.stream = Some(stream);
        s.phase = Phase::Dialing;
        s.dialed_ns = now;
        s.deadline_ns = now + self.dial_timeout_ns;
        self.dialing += 1;
        Ok(())
    }

    /// Counts a connection that is made.
    ///
    /// # Errors
    ///
    /// It could not be made.
    pub(super) fn dialed(&mut self, slot: usize) -> io::Result<()> {
        let now = self.begin.ns();
        let s = &mut self.slots[slot];
        if let Some(error) = s.stream.as_ref().map_or(Ok(None), |s| s.take_error())? {
            return Err(error);
        }
        s.dial_ns = now.saturating_sub(s.dialed_ns);
        s.backoff_ns = 0;
        let tally = self.tallies.of(s.kind, s.step);
        tally.connections += 1;
        tally.record(Metric::Connect, s.dial_ns);
        self.leave(slot);
        Ok(())
    }

    /// Counts a request whose connection could not be made.
    fn undialed(&mut self, slot: usize, fault: Fault) {
        let now = self.begin.ns();
        self.count_fault(slot, fault, now);
        self.leave(slot);
        let s = &mut self.slots[slot];
        s.hang_up();
        match &mut self.load {
            Load::Open(open) => open.free.push_back(slot as u32),
            Load::Closed(_) => {
                // A target that is gone must not cost the machine a core.
                s.backoff_ns = (s.backoff_ns * 2).clamp(BACKOFF_FIRST_NS, BACKOFF_MAX_NS);
                let wake = now + s.backoff_ns;
                self.rest(slot, wake);
            }
        }
    }

    fn rest(&mut self, slot: usize, wake: u64) {
        self.slots[slot].phase = Phase::Resting;
        self.resting.push(Reverse((wake, slot as u32)));
    }

    /// Begins the next request of a connection that has rested.
    pub(super) fn rested(&mut self, slot: usize, wake: u64, now: u64) {
        self.slots[slot].phase = Phase::Idle;
        self.begin_closed(slot, wake, now);
    }

    /// Makes the request's bytes and begins to write them.
    fn send(&mut self, slot: usize, now: u64) {
        let s = &mut self.slots[slot];
        let prepared = &self.prepared[s.kind * self.flow.targets.len() + s.target];
        s.sent_ns = now;
        if prepared.fixed().is_none() {
            let at = At {
                seed: self.share.seed,
                run: &self.share.run,
                number: s.number,
                feeds: &self.flow.feeds,
                unix_ns: self.begin.unix_ns + now,
            };
            let request = &self.flow.requests[s.kind];
            match prepared.render(request, &at, &mut s.out, &mut self.spare) {
                Ok(places) => s.places = places,
                Err(failure) => {
                    self.failure.get_or_insert(failure);
                    return;
                }
            }
            s.sent_ns = self.begin.ns();
        }
        s.reader.begin(prepared.is_head);
        s.findings.clear();
        s.written = 0;
        s.deadline_ns = s.sent_ns + self.timeout_ns;
        s.phase = Phase::Busy;
        self.busy += 1;
        self.tallies.of(s.kind, s.step).sent += 1;
        self.write(slot);
    }

    /// Writes as much of the request as goes.
    fn write(&mut self, slot: usize) {
        let s = &mut self.slots[slot];
        let prepared = &self.prepared[s.kind * self.flow.targets.len() + s.target];
        let bytes = prepared.fixed().unwrap_or(&s.out);
        let before = s.written;
        let failed = loop {
            let Some(stream) = s.stream.as_ref().filter(|_| s.written < bytes.len()) else {
                break None;
            };
            match send(stream, &bytes[s.written..], SendFlags::NOSIGNAL) {
                Ok(count) => s.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break None,
                Err(error) => break Some(error),
            }
        };
        let count = (s.written - before) as u64;
        self.tallies.of(s.kind, s.step).bytes_out += count;
        if let Some(error) = failed {
            // The server may have answered before it closed.
            s.ending = true;
            let generation = s.generation;
            self.read(slot);
            if self.slots[slot].generation == generation {
                self.lost(slot, dial::broken(error));
            }
        }
    }

    /// Does what an event says.
    pub(super) fn ready(&mut self, slot: usize, generation: u32, flags: EventFlags) {
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let s = &mut self.slots[slot];
        if s.generation != generation {
            return;
        }
        if s.phase == Phase::Dialing {
            if !flags.intersects(EventFlags::OUT | gone) {
                return;
            }
            if let Err(error) = self.dialed(slot) {
                return self.undialed(slot, dial::fault(&error));
            }
            self.send(slot, self.begin.ns());
            if !flags.intersects(EventFlags::IN | gone) {
                return;
            }
        }
        let s = &mut self.slots[slot];
        if s.generation != generation {
            return;
        }
        s.ending |= flags.intersects(gone);
        if flags.contains(EventFlags::OUT) && s.phase == Phase::Busy && !self.is_written(slot) {
            self.write(slot);
        }
        if flags.intersects(EventFlags::IN | gone) && self.slots[slot].generation == generation {
            self.read(slot);
        }
    }

    fn is_written(&self, slot: usize) -> bool {
        let s = &self.slots[slot];
        let prepared = &self.prepared[s.kind * self.flow.targets.len() + s.target];
        s.written >= s.request(prepared).len()
    }

    /// Reads what has come on a connection, as long as it is the same one.
    pub(super) fn read(&mut self, slot: usize) {
        let generation = self.slots[slot].generation;
        for _ in 0..READS_MAX {
            let s = &self.slots[slot];
            // What goes wrong while it is being made is for `dialed` to say.
            let is_same = s.generation == generation && s.phase != Phase::Dialing;
            let Some(stream) = s.stream.as_ref().filter(|_| is_same) else {
                return;
            };
            match recv(stream, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) => return self.ended(slot),
                Ok((count, _)) => {
                    self.take(slot, count);
                    // Less than was asked for is all there is; what comes later is another edge.
                    if count < READ_BYTES && !self.slots[slot].ending {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => return self.lost(slot, dial::broken(error)),
            }
        }
        self.again.push(slot as u32);
    }

    /// Takes bytes that were read.
    fn take(&mut self, slot: usize, count: usize) {
        let s = &mut self.slots[slot];
        if s.phase != Phase::Busy {
            return self.unasked(slot, count);
        }
        s.bytes_in += count as u64;
        let mut judge = Judge {
            expect: &self.flow.requests[s.kind].expect,
            sent: sent(&s.out, &s.places),
            findings: &mut s.findings,
        };
        let bytes = &self.buffer[..count];
        match s.reader.feed(bytes, &mut self.remembered, &mut judge) {
            Ok(fed) if !fed.done => {}
            Ok(fed) if fed.used == count => self.finish(slot),
            Ok(fed) => {
                let surplus = "is followed by bytes that no request asked for";
                self.not_an_answer(slot, surplus, fed.used, count);
            }
            Err(Wrong::Answer(why)) => self.not_an_answer(slot, why, 0, count),
            Err(Wrong::NotHttp) if self.answered => {
                self.not_an_answer(slot, "does not begin as HTTP/1.1 does", 0, count);
            }
            Err(Wrong::NotHttp) => {
                let target = &self.flow.targets[s.target];
                let failure = dial::not_http(target, "it answers with", bytes);
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Bytes that came while no request was under way. The connection is of no use any more.
    fn unasked(&mut self, slot: usize, count: usize) {
        let bytes = &self.buffer[..count];
        let s = &mut self.slots[slot];
        if self.answered {
            let mut note = note(&self.flow.name, s, self.begin.ns());
            note.fault = Fault::Protocol.as_str().to_owned();
            note.what = "the server sent bytes that no request asked for".to_owned();
            note.received_hex = Some(hex::encode(&bytes[..count.min(32)]));
            self.tallies.note(|| note);
        } else {
            let target = &self.flow.targets[s.target];
            let failure = dial::not_http(target, "it speaks first, with", bytes);
            self.failure.get_or_insert(failure);
        }
        s.hang_up();
    }

    /// The connection's end was read.
    fn ended(&mut self, slot: usize) {
        let s = &mut self.slots[slot];
        s.ending = true;
        if s.phase == Phase::Busy && s.reader.ends_by_close() {
            self.finish(slot);
        } else {
            self.lost(slot, Fault::Closed);
        }
    }

    /// The answer is complete.
    fn finish(&mut self, slot: usize) {
        let now = self.begin.ns();
        self.answered = true;
        self.count_answer(slot, now);
        let is_written = self.is_written(slot);
        self.leave(slot);
        let s = &mut self.slots[slot];
        if self.flow.reconnect || s.ending || !is_written || !s.reader.keeps_connection() {
            s.hang_up();
        }
        match &mut self.load {
            Load::Closed(_) if !self.flow.pause.is_zero() => {
                let wake = now + self.flow.pause.as_nanos() as u64;
                self.rest(slot, wake);
            }
            Load::Closed(_) => self.begin_closed(slot, now, now),
            Load::Open(open) => match open.take_waiting() {
                Some((number, due)) => self.begin_request(slot, number, due, now),
                None => open.free.push_back(slot as u32),
            },
        }
    }

    fn count_answer(&mut self, slot: usize, now: u64) {
        let s = &mut self.slots[slot];
        let expect = &self.flow.requests[s.kind].expect;
        let tally = self.tallies.of(s.kind, s.step);
        tally.bytes_in += s.bytes_in;
        tally.status(s.findings.status);
        let verdict = s.findings.verdict(expect, &sent(&s.out, &s.places));
        let difference = match verdict {
            Ok(()) => {
                tally.completed += 1;
                tally.good += 1;
                tally.record(Metric::Response, now.saturating_sub(s.intended_ns));
                tally.record(Metric::Service, now.saturating_sub(s.sent_ns));
                let waited = s.sent_ns.saturating_sub(s.intended_ns);
                return tally.record(Metric::Lag, waited.saturating_sub(s.dial_ns));
            }
            Err(None) => {
                let fault = Fault::of_status(s.findings.status);
                tally.failed(fault, s.intended_ns, now);
                let what = format!("it was answered {}", s.findings.status);
                return self.note_failure(slot, fault, &what, now);
            }
            Err(Some(difference)) => difference,
        };
        tally.failed(difference.fault, s.intended_ns, now);
        let note = note(&self.flow.name, s, now);
        self.tallies.note(|| describe(note, *difference));
    }

    /// Counts a request that failed without an answer.
    pub(super) fn count_fault(&mut self, slot: usize, fault: Fault, now: u64) {
        let s = &self.slots[slot];
        let tally = self.tallies.of(s.kind, s.step);
        tally.bytes_in += s.bytes_in;
        tally.failed(fault, s.intended_ns, now);
        self.note_failure(slot, fault, "it was not answered", now);
    }

    /// Notes a failure that says all by its class, where the flow asks for the numbers of such requests.
    fn note_failure(&mut self, slot: usize, fault: Fault, what: &str, now: u64) {
        if self.flow.names_failures {
            let mut note = note(&self.flow.name, &self.slots[slot], now);
            note.fault = fault.as_str().to_owned();
            note.what = what.to_owned();
            self.tallies.note(|| note);
        }
    }

    /// What came is no answer; `from` is where in the bytes it is wrong.
    fn not_an_answer(&mut self, slot: usize, why: &str, from: usize, count: usize) {
        let mut note = note(&self.flow.name, &self.slots[slot], self.begin.ns());
        note.fault = Fault::Protocol.as_str().to_owned();
        note.what = format!("the answer {why}");
        note.received_hex = Some(hex::encode(&self.buffer[from..count.min(from + 32)]));
        self.tallies.note(|| note);
        self.lost(slot, Fault::Protocol);
    }

    /// The connection is of no use any more; its request, if there is one, failed.
    fn lost(&mut self, slot: usize, fault: Fault) {
        let had_request = self.slots[slot].phase == Phase::Busy;
        let now = self.begin.ns();
        if had_request {
            self.count_fault(slot, fault, now);
            self.leave(slot);
        }
        self.slots[slot].hang_up();
        match &mut self.load {
            _ if !had_request => {}
            Load::Closed(_) => self.begin_closed(slot, now, now),
            Load::Open(open) => open.free.push_back(slot as u32),
        }
    }

    /// Gives up what takes longer than it may.
    pub(super) fn give_up_overdue(&mut self, now: u64) {
        if self.busy + self.dialing == 0 {
            return;
        }
        for slot in 0..self.slots.len() {
            let s = &self.slots[slot];
            match s.phase {
                Phase::Busy if s.deadline_ns <= now => self.lost(slot, Fault::Timeout),
                Phase::Dialing if s.deadline_ns <= now => {
                    self.undialed(slot, Fault::ConnectTimeout);
                }
                _ => {}
            }
        }
    }
}

/// A note on the request of a connection, without what was wrong.
fn note(flow: &str, slot: &Slot, now: u64) -> Note {
    Note {
        flow: flow.to_owned(),
        number: slot.number,
        t_s: now as f64 / 1e9,
        ..Note::default()
    }
}

fn describe(mut note: Note, difference: Difference) -> Note {
    note.fault = difference.fault.as_str().to_owned();
    note.what = difference.what;
    if let Some((offset, expected, received)) = difference.at {
        note.offset = Some(offset);
        note.expected_hex = Some(hex::encode(&expected));
        note.received_hex = Some(hex::encode(&received));
    }
    note
}
