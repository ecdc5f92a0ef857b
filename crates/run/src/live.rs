//! A run as all threads see it: its state, its last events, and whoever waits for the next.
//!
//! An event is put on disk, and only then told. Listeners take events from the tail that is kept in memory, or where they are behind
//! from the disk, so none of them can slow the run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::clock::rfc3339;
use base::{Digest, Name, Now};
use serde_json::{Value, json};
use store::runs::{LINE_BYTES_MAX, RunFileError, RunFiles};
use tokio::sync::watch;

use crate::event::{EventLine, HeardEvent, RunEvent, RunHead, RunTotals};

/// Bytes of events that are kept in memory for listeners; older ones are read from the disk.
const TAIL_BYTES_MAX: usize = 16 << 10;

/// Bytes of a run's events; what ends it is kept beyond them.
const RUN_BYTES_MAX: u64 = 64 << 20;

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunState {
    /// Another run of its thread has to end before.
    Queued,
    Running,
    /// It goes on when the gateway starts again, or when its disk has room.
    Parked,
    Completed,
    Failed,
    Cancelled,
}

impl RunState {
    /// Every state.
    pub const ALL: [RunState; 6] = [
        RunState::Queued,
        RunState::Running,
        RunState::Parked,
        RunState::Completed,
        RunState::Failed,
        RunState::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Queued => "queued",
            RunState::Running => "running",
            RunState::Parked => "parked",
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
        }
    }

    /// Nothing follows it.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            RunState::Completed | RunState::Failed | RunState::Cancelled
        )
    }
}

/// Why an event was not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotTold {
    /// The run has ended.
    Ended,
    /// Something was said to the run before it could be complete.
    Added,
    /// It is larger than an event is kept, or the run's events are more than are.
    TooLarge,
    Disk(RunFileError),
}

/// A run.
pub(crate) struct LiveRun {
    pub(crate) id: Arc<str>,
    pub(crate) owner: Name,
    pub(crate) thumbprint: Digest,
    pub(crate) agent: Name,
    pub(crate) thread: String,
    pub(crate) created_ms: u64,
    pub(crate) key: Option<(String, String)>,
    status: Mutex<LiveStatus>,
    changed: watch::Sender<u64>,
    cancelled: watch::Sender<bool>,
    /// Whether its head is on disk, once that is known.
    kept: watch::Sender<Option<bool>>,
    /// One event at a time gets a number.
    turn: tokio::sync::Mutex<()>,
}

struct LiveStatus {
    state: RunState,
    last: u64,
    tail: VecDeque<HeardEvent>,
    tail_bytes: usize,
    bytes: u64,
    ended_ms: Option<u64>,
    totals: RunTotals,
    failure: Option<(String, String)>,
    /// What was said to it and its driver has not taken.
    added: Vec<RunEvent>,
}

impl LiveRun {
    /// Of a run's head; nothing where that names nobody.
    pub(crate) fn new(head: &RunHead, state: RunState) -> Option<LiveRun> {
        Some(LiveRun {
            id: head.run.as_str().into(),
            owner: Name::new(&head.owner)?,
            thumbprint: Digest::from_hex(&head.thumbprint)?,
            agent: Name::new(&head.agent)?,
            thread: head.thread.clone(),
            created_ms: head.created_ms,
            key: head.key.clone(),
            status: Mutex::new(LiveStatus {
                state,
                last: 0,
                tail: VecDeque::new(),
                tail_bytes: 0,
                bytes: 0,
                ended_ms: None,
                totals: RunTotals::default(),
                failure: None,
                added: Vec::new(),
            }),
            changed: watch::Sender::new(0),
            cancelled: watch::Sender::new(false),
            kept: watch::Sender::new(None),
            turn: tokio::sync::Mutex::new(()),
        })
    }

    fn status(&self) -> MutexGuard<'_, LiveStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> RunState {
        self.status().state
    }

    /// Says that it is at work, or waits; a run that has ended stays so.
    pub(crate) fn set_state(&self, state: RunState) {
        let mut status = self.status();
        if !status.state.is_final() {
            status.state = state;
        }
    }

    /// The number of its last event.
    pub(crate) fn last(&self) -> u64 {
        self.status().last
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.status().bytes
    }

    pub(crate) fn ended_ms(&self) -> Option<u64> {
        self.status().ended_ms
    }

    /// Takes what its file says: how many events it has, and how it ended.
    pub(crate) fn found(&self, last: u64, bytes: u64, end: Option<(&RunEvent, u64)>) {
        let mut status = self.status();
        (status.last, status.bytes) = (last, bytes);
        if let Some((end, at_ms)) = end {
            status.end(end, at_ms);
        }
        drop(status);
        self.changed.send_replace(last);
        self.kept.send_replace(Some(true));
    }

    /// Takes whether its head was put on disk, and of how many bytes it is.
    pub(crate) fn has_head(&self, bytes: usize, is_kept: bool) {
        self.status().bytes += bytes as u64;
        self.kept.send_replace(Some(is_kept));
    }

    /// Waits until its head is on disk; false where it could not be put there.
    pub(crate) async fn is_kept(&self) -> bool {
        let mut kept = self.kept.subscribe();
        let known = kept.wait_for(Option::is_some).await;
        known.is_ok_and(|kept| *kept == Some(true))
    }

    /// Puts an event on disk, and tells it. Not to be given up before it is done: a line that was written has its number.
    ///
    /// # Errors
    /// Where the run has ended, where its events are too large, and where the disk takes nothing.
    pub(crate) async fn tell(
        &self,
        files: &RunFiles,
        now: Now,
        event: &RunEvent,
    ) -> Result<(), NotTold> {
        let _turn = self.turn.lock().await;
        let id = {
            let status = self.status();
            if status.state.is_final() {
                return Err(NotTold::Ended);
            }
            if matches!(event, RunEvent::Completed { .. }) && !status.added.is_empty() {
                return Err(NotTold::Added);
            }
            if status.bytes > RUN_BYTES_MAX && !event.is_final() {
                return Err(NotTold::TooLarge);
            }
            status.last + 1
        };
        let line = EventLine {
            id,
            at: rfc3339(now.unix_ms),
            event: event.clone(),
        };
        let line = serde_json::to_string(&line)
            .map_err(|error| NotTold::Disk(RunFileError(error.to_string())))?;
        if line.len() > LINE_BYTES_MAX {
            return Err(NotTold::TooLarge);
        }
        let kept = files.append(&self.id, &line, event.is_durable()).await;
        kept.map_err(NotTold::Disk)?;
        let heard = HeardEvent {
            id,
            name: event.name(),
            line: line.into(),
        };
        let mut status = self.status();
        status.take(heard);
        if let RunEvent::Added { .. } = event {
            status.added.push(event.clone());
        }
        if event.is_final() {
            status.end(event, now.unix_ms);
        }
        drop(status);
        self.changed.send_replace(id);
        Ok(())
    }

    /// Keeps events from being told meanwhile.
    pub(crate) async fn quiet(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// What was said to it since this was asked last.
    pub(crate) fn take_added(&self) -> Vec<RunEvent> {
        std::mem::take(&mut self.status().added)
    }

    /// The events after this one, from memory; nothing where they have to be read from the disk.
    pub(crate) fn after(&self, id: u64) -> Option<Vec<HeardEvent>> {
        let status = self.status();
        if id >= status.last {
            return Some(Vec::new());
        }
        let first = status.tail.front()?;
        (first.id <= id + 1).then(|| {
            let later = status.tail.iter().filter(|event| event.id > id);
            later.cloned().collect()
        })
    }

    /// Is told the number of each event.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        let mut changes = self.changes();
        while !self.state().is_final() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Asks it to end.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    pub(crate) fn cancellation(&self) -> watch::Receiver<bool> {
        self.cancelled.subscribe()
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> Value {
        let status = self.status();
        let mut shown = json!({
            "id": &*self.id,
            "object": "run",
            "agent": self.agent.as_str(),
            "thread": self.thread,
            "state": status.state.as_str(),
            "created_at": rfc3339(self.created_ms),
            "events": status.last,
        });
        if let Some(ended_ms) = status.ended_ms {
            shown["ended_at"] = rfc3339(ended_ms).into();
            shown["usage"] = usage(&status.totals);
        }
        if let Some((code, message)) = &status.failure {
            shown["error"] = json!({ "code": code, "message": message });
        }
        shown
    }
}

/// What a run used, as it is shown.
pub(crate) fn usage(totals: &RunTotals) -> Value {
    json!({
        "steps": totals.steps,
        "tool_calls": totals.tool_calls,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "money_nanos": totals.money_nanos,
    })
}

impl LiveStatus {
    fn take(&mut self, heard: HeardEvent) {
        self.last = heard.id;
        self.bytes += heard.line.len() as u64 + 1;
        self.tail_bytes += heard.line.len();
        self.tail.push_back(heard);
        while self.tail_bytes > TAIL_BYTES_MAX && self.tail.len() > 1 {
            if let Some(old) = self.tail.pop_front() {
                self.tail_bytes -= old.line.len();
            }
        }
    }

    fn end(&mut self, event: &RunEvent, at_ms: u64) {
        let (state, totals) = match event {
            RunEvent::Completed { usage, .. } => (RunState::Completed, usage),
            RunEvent::Cancelled { usage } => (RunState::Cancelled, usage),
            RunEvent::Failed {
                code,
                message,
                usage,
            } => {
                self.failure = Some((code.clone(), message.clone()));
                (RunState::Failed, usage)
            }
            _ => return,
        };
        (self.state, self.totals, self.ended_ms) = (state, *totals, Some(at_ms));
    }
}
