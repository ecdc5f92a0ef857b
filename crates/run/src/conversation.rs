//! Where a run stands, made of its events: the same for a run under way and for one that is read again after a crash.
//!
//! Example: after `message.done` with two calls, one `tool.call` and a crash, the first call's end is not known and the second was
//! not begun. Words of a step that has no `message.done` are void.

use std::collections::VecDeque;
use std::io;

use store::runs::RunFiles;

use crate::event::{EventLine, HeardEvent, RunEvent, RunHead, RunMessage, RunTotals, ToolCall};

/// Runs of one thread whose messages a later one is given; older ones are left out.
const THREAD_RUNS_MAX: usize = 64;
/// Bytes of all that was said in a run and before it in its thread.
pub(crate) const CONVERSATION_BYTES_MAX: usize = 16 << 20;

/// A call of the last message that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingCall {
    pub(crate) call: ToolCall,
    /// It was begun, and whether it may be made again.
    pub(crate) begun: Option<bool>,
}

/// Where a run stands.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// What was said since the run's input.
    pub(crate) messages: Vec<RunMessage>,
    pub(crate) totals: RunTotals,
    /// The step that was begun last.
    pub(crate) step: u64,
    pub(crate) pending: VecDeque<PendingCall>,
    /// What was said to the run since its step began.
    added: Vec<String>,
    last_call: Option<(String, String)>,
    /// How often the last call was answered in a row.
    same: u64,
    pub(crate) is_started: bool,
}

impl Conversation {
    pub(crate) fn apply(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { .. } => self.is_started = true,
            RunEvent::StepStarted { step } => {
                self.step = *step;
                let added = std::mem::take(&mut self.added).into_iter();
                let added = added.map(|content| RunMessage::User { content });
                self.messages.extend(added);
            }
            RunEvent::Message {
                text,
                calls,
                usage,
                money_nanos,
                ..
            } => {
                self.totals.steps += 1;
                self.totals.input_tokens += usage.input;
                self.totals.output_tokens += usage.output;
                self.totals.money_nanos = *money_nanos;
                self.messages.push(RunMessage::Assistant {
                    content: text.clone(),
                    calls: calls.clone(),
                });
                let pending = calls.iter().map(|call| PendingCall {
                    call: call.clone(),
                    begun: None,
                });
                self.pending = pending.collect();
            }
            RunEvent::Call {
                call,
                is_repeatable,
                ..
            } => {
                let pending = self.pending.iter_mut();
                if let Some(pending) = { pending }.find(|of| of.call.id == call.id) {
                    self.totals.tool_calls += u64::from(pending.begun.is_none());
                    pending.begun = Some(*is_repeatable);
                }
            }
            RunEvent::Answer {
                call,
                content,
                is_error,
                ..
            } => self.answered(call, content, *is_error),
            RunEvent::Added { content } => self.added.push(content.clone()),
            RunEvent::Text { .. }
            | RunEvent::Reasoning { .. }
            | RunEvent::Refused { .. }
            | RunEvent::Parked { .. }
            | RunEvent::Resumed { .. }
            | RunEvent::Completed { .. }
            | RunEvent::Failed { .. }
            | RunEvent::Cancelled { .. } => {}
        }
    }

    fn answered(&mut self, call: &str, content: &str, is_error: bool) {
        let at = self.pending.iter().position(|of| of.call.id == call);
        let Some(done) = at.and_then(|at| self.pending.remove(at)) else {
            return;
        };
        let key = (done.call.tool, done.call.arguments);
        self.same = match self.last_call.as_ref() == Some(&key) {
            true => self.same + 1,
            false => 1,
        };
        self.last_call = Some(key);
        self.messages.push(RunMessage::Tool {
            call: call.to_owned(),
            content: content.to_owned(),
            is_error,
        });
    }

    /// How often this very call was answered just before, in a row.
    pub(crate) fn same_calls(&self, call: &ToolCall) -> u64 {
        let last = self.last_call.as_ref();
        let is_same = last
            .is_some_and(|(tool, arguments)| *tool == call.tool && *arguments == call.arguments);
        if is_same { self.same } else { 0 }
    }

    /// Something was said to the run that its model has not heard.
    pub(crate) fn has_added(&self) -> bool {
        !self.added.is_empty()
    }

    /// The text that the model said last.
    pub(crate) fn last_text(&self) -> String {
        let said = self
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
                RunMessage::Assistant { content, .. } => Some(content.clone()),
                _ => None,
            });
        said.unwrap_or_default()
    }
}

/// A run as its file has it.
pub(crate) struct LoadedRun {
    pub(crate) head: RunHead,
    pub(crate) talk: Conversation,
    /// The number of its last event.
    pub(crate) last: u64,
    pub(crate) end: Option<RunEvent>,
}

impl LoadedRun {
    /// Reads a run's file.
    ///
    /// # Errors
    /// Those of the disk, and `InvalidData` where the file has no head.
    pub(crate) fn read(files: &RunFiles, run: &str) -> io::Result<LoadedRun> {
        let mut lines = files.lines(run, 0)?;
        let head = lines.first().and_then(|(line, _)| head_of(line.as_bytes()));
        let head = head.ok_or(io::ErrorKind::InvalidData)?;
        let mut loaded = LoadedRun {
            head,
            talk: Conversation::default(),
            last: 0,
            end: None,
        };
        let mut waiting: Option<EventLine> = None;
        while let Some(next) = lines.last().map(|(_, end)| *end) {
            for (_, line) in lines.iter().filter_map(|(line, _)| HeardEvent::read(line)) {
                // A line whose sync failed was written again: the later one is good.
                if waiting.as_ref().is_none_or(|waiting| line.id >= waiting.id)
                    && let Some(before) = waiting.replace(line)
                    && waiting.as_ref().is_some_and(|now| now.id > before.id)
                {
                    loaded.take(before);
                }
            }
            lines = files.lines(run, next)?;
        }
        waiting.into_iter().for_each(|last| loaded.take(last));
        Ok(loaded)
    }

    fn take(&mut self, line: EventLine) {
        self.last = line.id;
        self.talk.apply(&line.event);
        if line.event.is_final() {
            self.end = Some(line.event);
        }
    }

    /// All that was said in it.
    pub(crate) fn messages(self) -> Vec<RunMessage> {
        let mut messages = self.head.input;
        messages.extend(self.talk.messages);
        messages
    }
}

/// The head of a run's file.
pub(crate) fn head_of(line: &[u8]) -> Option<RunHead> {
    serde_json::from_slice(line).ok()
}

/// What was said in a thread up to and with this run. A call that has no answer, because its run was ended before, is left out
/// with what belongs to it. Runs that are not kept any more are left out.
pub(crate) fn history(files: &RunFiles, run: &str) -> Vec<RunMessage> {
    let mut chain = Vec::new();
    let mut bytes = 0;
    let mut next = Some(run.to_owned());
    // Where it is too much the run fails, and what is still older does not matter.
    while let Some(run) = next.take()
        && chain.len() < THREAD_RUNS_MAX
        && bytes <= CONVERSATION_BYTES_MAX
    {
        let Ok(loaded) = LoadedRun::read(files, &run) else {
            break;
        };
        next.clone_from(&loaded.head.after);
        let said = loaded.head.input.iter().chain(&loaded.talk.messages);
        bytes += said.map(RunMessage::bytes).sum::<usize>();
        chain.push(loaded);
    }
    let mut messages = Vec::new();
    for loaded in chain.into_iter().rev() {
        let is_open = !loaded.talk.pending.is_empty();
        let mut said = loaded.messages();
        if is_open {
            let asked = said.iter().rposition(
                |message| matches!(message, RunMessage::Assistant { calls, .. } if !calls.is_empty()),
            );
            said.truncate(asked.unwrap_or(said.len()));
        }
        messages.extend(said);
    }
    messages.retain(|message| !matches!(message, RunMessage::System { .. }));
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StepUsage;

    fn call(id: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            tool: "read".into(),
            arguments: arguments.into(),
        }
    }

    fn message(calls: Vec<ToolCall>) -> RunEvent {
        RunEvent::Message {
            step: 1,
            text: "t".into(),
            calls,
            usage: StepUsage {
                input: 3,
                output: 2,
            },
            money_nanos: 5,
        }
    }

    fn begun(call: &ToolCall, is_repeatable: bool) -> RunEvent {
        RunEvent::Call {
            step: 1,
            call: call.clone(),
            is_repeatable,
        }
    }

    fn answer(id: &str) -> RunEvent {
        RunEvent::Answer {
            step: 1,
            call: id.into(),
            tool: "read".into(),
            content: "c".into(),
            is_error: false,
            code: None,
        }
    }

    #[test]
    fn a_call_is_pending_until_it_is_answered() {
        let mut talk = Conversation::default();
        let (one, two) = (call("1", "{}"), call("2", "{}"));
        talk.apply(&RunEvent::StepStarted { step: 1 });
        talk.apply(&message(vec![one.clone(), two.clone()]));
        talk.apply(&begun(&one, false));
        assert_eq!(talk.pending[0].begun, Some(false));
        assert_eq!(talk.pending[1].begun, None);
        talk.apply(&answer("1"));
        talk.apply(&answer("nobody's"));
        assert_eq!(talk.pending.len(), 1);
        assert_eq!(talk.totals.tool_calls, 1);
        assert_eq!(talk.messages.len(), 2);
        assert_eq!((talk.totals.input_tokens, talk.totals.money_nanos), (3, 5));
    }

    #[test]
    fn the_same_call_is_counted_in_a_row() {
        let mut talk = Conversation::default();
        for id in ["1", "2", "3"] {
            let same = call(id, "{\"a\":1}");
            talk.apply(&message(vec![same.clone()]));
            talk.apply(&answer(id));
        }
        assert_eq!(talk.same_calls(&call("4", "{\"a\":1}")), 3);
        assert_eq!(talk.same_calls(&call("4", "{\"a\":2}")), 0);
        talk.apply(&message(vec![call("5", "{}")]));
        talk.apply(&answer("5"));
        assert_eq!(talk.same_calls(&call("6", "{\"a\":1}")), 0);
    }

    #[test]
    fn what_is_said_to_a_run_is_heard_at_its_next_step() {
        let mut talk = Conversation::default();
        talk.apply(&RunEvent::StepStarted { step: 1 });
        talk.apply(&RunEvent::Added {
            content: "stop".into(),
        });
        talk.apply(&message(Vec::new()));
        assert!(talk.has_added());
        talk.apply(&RunEvent::StepStarted { step: 2 });
        assert!(!talk.has_added());
        let last = talk.messages.last().unwrap();
        assert!(matches!(last, RunMessage::User { content } if content == "stop"));
        assert_eq!(talk.last_text(), "t");
    }
}
