//! Records on their way to the writer.
//!
//! Judgements are bounded in number and refused over it. Outcomes are not: each follows a judgement that
//! passed, so there are at most as many as calls in flight.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::limit::{RECORD_BYTES_MAX, RECORDS_WAITING_MAX};
use gate::ports::{Appended, RecordError};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::LogStats;
use super::ledger::Step;
use crate::entry::{ENTRY_EXTRA_BYTES, RECORD_BYTES_HARD_MAX};

/// Most bytes of the log that are kept for outcomes when judgements are refused.
const HEADROOM_BYTES_MAX: u64 = 16 << 20;

/// Where the answer to a judgement goes.
pub(super) type Answer = oneshot::Sender<Result<u64, RecordError>>;

/// Which bound of the log's size holds for a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// That of judgements.
    Bounded,
    /// That of outcomes, for which some room is kept.
    Kept,
}

/// One record that waits; an outcome has nobody who waits for it.
pub(super) struct Item {
    pub(super) record: Vec<u8>,
    pub(super) answer: Option<Answer>,
    pub(super) step: Option<Step>,
}

/// What the writer does, so that it is woken only where it has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Busy,
    /// Waits, but not for long: a judgement wakes it, an outcome can wait.
    Naps,
    Sleeps,
}

/// How the writer waits for records.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    /// For a judgement until then; outcomes are taken with it, or at the end.
    Nap(Instant),
    /// For anything, until then where that is said.
    Sleep(Option<Instant>),
}

struct State {
    items: Vec<Item>,
    judgements: usize,
    bytes: u64,
    closed: bool,
    writer: Writer,
    trouble: Option<RecordError>,
}

pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    /// Bytes of the log that judgements may fill.
    bytes_max: u64,
    stats: Arc<LogStats>,
}

impl Queue {
    pub(super) fn new(bytes_max: u64, stats: Arc<LogStats>) -> Queue {
        let state = State {
            items: Vec::new(),
            judgements: 0,
            bytes: 0,
            closed: false,
            writer: Writer::Busy,
            trouble: None,
        };
        let bytes_max = bytes_max - (bytes_max / 16).min(HEADROOM_BYTES_MAX);
        Queue {
            state: Mutex::new(state),
            wake: Condvar::new(),
            bytes_max,
            stats,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that may panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a record that is waited for. `room` says that it counts as one of the judgements, which are refused where
    /// the log reaches its bound.
    pub(super) fn append(&self, record: Vec<u8>, step: Option<Step>, room: Room) -> Appended {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state();
        if let Some(refusal) = self.refusal(&state, record.len(), room) {
            drop(state);
            let _ = answer.send(Err(refusal));
            return receiver;
        }
        state.judgements += 1;
        state.bytes += (record.len() + ENTRY_EXTRA_BYTES) as u64;
        state.items.push(Item {
            record,
            answer: Some(answer),
            step,
        });
        let wake = state.writer != Writer::Busy;
        state.writer = Writer::Busy;
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        receiver
    }

    fn refusal(&self, state: &State, len: usize, room: Room) -> Option<RecordError> {
        if let Some(RecordError::Failed(why)) = &state.trouble {
            return Some(RecordError::Failed(why.clone()));
        }
        if state.closed {
            return Some(RecordError::Failed("the log is closed".into()));
        }
        if len > RECORD_BYTES_HARD_MAX {
            let why = format!("a record of {len} bytes is over {RECORD_BYTES_HARD_MAX}");
            return Some(RecordError::Failed(why));
        }
        if state.judgements >= RECORDS_WAITING_MAX {
            return Some(RecordError::Busy);
        }
        let more = len + ENTRY_EXTRA_BYTES;
        let full = room == Room::Bounded && self.is_over(state, more);
        full.then_some(RecordError::Full)
    }

    fn is_over(&self, state: &State, more: usize) -> bool {
        let bytes = self.stats.bytes.load(Ordering::Relaxed) + state.bytes + more as u64;
        bytes > self.bytes_max
    }

    pub(super) fn note(&self, record: Vec<u8>, step: Option<Step>) {
        let record = if record.len() > RECORD_BYTES_HARD_MAX {
            oversized(&record, step)
        } else {
            record
        };
        let mut state = self.state();
        if state.closed || matches!(state.trouble, Some(RecordError::Failed(_))) {
            drop(state);
            count_lost(&self.stats.lost, 1);
            return;
        }
        state.bytes += (record.len() + ENTRY_EXTRA_BYTES) as u64;
        state.items.push(Item {
            record,
            answer: None,
            step,
        });
        let wake = state.writer == Writer::Sleeps;
        if wake {
            state.writer = Writer::Busy;
        }
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    pub(super) fn trouble(&self) -> Option<RecordError> {
        let state = self.state();
        let full = self.is_over(&state, RECORD_BYTES_MAX + ENTRY_EXTRA_BYTES);
        state.trouble.clone().or(full.then_some(RecordError::Full))
    }

    /// Sets or clears what is wrong. What failed stays failed.
    pub(super) fn set_trouble(&self, trouble: Option<RecordError>) {
        let mut state = self.state();
        if !matches!(state.trouble, Some(RecordError::Failed(_))) {
            state.trouble = trouble;
        }
    }

    /// Takes all that waits into the empty `into`, once a judgement came or the wait is over. False once the
    /// queue is closed and empty.
    pub(super) fn take(&self, into: &mut Vec<Item>, wait: Wait) -> bool {
        let (until, writer) = match wait {
            Wait::Nap(until) => (Some(until), Writer::Naps),
            Wait::Sleep(until) => (until, Writer::Sleeps),
        };
        let mut state = self.state();
        while state.judgements == 0 && !state.closed {
            if writer == Writer::Sleeps && !state.items.is_empty() {
                break;
            }
            state.writer = writer;
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    let waited = self.wake.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.writer = Writer::Busy;
        state.judgements = 0;
        std::mem::swap(&mut state.items, into);
        !(state.closed && into.is_empty())
    }

    /// Whether the writer waits for anything.
    #[cfg(test)]
    pub(super) fn sleeps(&self) -> bool {
        self.state().writer == Writer::Sleeps
    }

    /// The writer has put `bytes` of waiting records into the log, or refused them.
    pub(super) fn settle(&self, bytes: u64) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }
}

/// Adds to the outcomes that were lost, and tells the operator of the first.
pub(super) fn count_lost(lost: &AtomicU64, records: u64) {
    if records > 0 && lost.fetch_add(records, Ordering::Relaxed) == 0 {
        tracing::error!("the log failed; outcomes of calls that passed are not recorded");
    }
}

/// What stands in the log for an outcome that does not fit into an entry.
fn oversized(record: &[u8], step: Option<Step>) -> Vec<u8> {
    let sha256 = base::Digest(Sha256::digest(record).into());
    let bytes = record.len();
    let call = match step {
        Some(Step::Closes(call)) => format!(r#""call":"{call}","#),
        _ => String::new(),
    };
    format!(r#"{{"bytes":{bytes},{call}"kind":"oversized","sha256":"{sha256}"}}"#).into_bytes()
}
