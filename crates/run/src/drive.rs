//! The loop: a model is asked, its calls are made, and it is asked again, until it has no more to call or a bound is met.
//!
//! All that happens is told as an event first and done then; where an event cannot be kept the run waits. What ends a run is looked
//! for while anything is under way: a cancellation, a stop, a key that is taken back, its time, the end of the gateway.

use std::sync::Arc;
use std::time::Duration;

use base::Name;
use base::refusal::{self, Code};
use gate::ActingFor;

use crate::actions::LANE;
use crate::callback::call_back;
use crate::conversation::{CONVERSATION_BYTES_MAX, Conversation, LoadedRun, PendingCall, history};
use crate::event::{RunEvent, RunHead, RunMessage};
use crate::lane::RunShared;
use crate::live::{LiveRun, NotTold, RunState};
use crate::ports::{
    ModelAnswer, ModelAsk, ModelPiece, PortCaller, PortFailure, RunPorts, ToolAnswer, ToolOffer,
};
use crate::steps::{CALLS_MAX, StepSaid};

/// How often a step is tried whose model fails in a way that may pass.
const MODEL_TRIES_MAX: u32 = 4;
/// Longest wait before it is tried again, in milliseconds.
const RETRY_MS_MAX: u64 = 30_000;
/// How often is looked whether the run may go on, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// How long a call of a tool may go on once the gateway stops, in milliseconds: it is not known how it ended otherwise.
const PARK_MS: u64 = 3_000;
/// When an event is tried again that the disk did not take, in milliseconds.
const DISK_MS: u64 = 500;
/// How often the same call is made in a row, and after how many in a row the run is ended.
const SAME_CALLS_MADE: u64 = 3;
const SAME_CALLS_MAX: u64 = 6;
/// Bytes of a tool's answer that a model is given.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Why a run goes no further.
enum Halt {
    Failed { code: String, message: String },
    Cancelled,
    Parked(&'static str),
}

/// Whoever drives one run, on one thread.
struct RunDriver {
    shared: Arc<RunShared>,
    ports: RunPorts,
    run: Arc<LiveRun>,
    head: RunHead,
    caller: PortCaller,
    /// What was said before this run: instructions, thread, input.
    before: Vec<RunMessage>,
    talk: Conversation,
    /// What it cost before this process drove it, in billionths of a dollar.
    money_before: u64,
}

/// Drives a run to its end, or until it is parked.
pub(crate) async fn drive(shared: Arc<RunShared>, ports: RunPorts, run: Arc<LiveRun>) {
    let loaded = {
        // What is said to it meanwhile waits, and is heard once.
        let _quiet = run.quiet().await;
        run.take_added();
        LoadedRun::read(&shared.book.files, &run.id)
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!(run = &*run.id, %error, "a run cannot be read");
            return;
        }
    };
    let acting = ActingFor {
        agent: run.owner.clone(),
        thumbprint: run.thumbprint,
        run: Arc::clone(&run.id),
    };
    let mut driver = RunDriver {
        caller: PortCaller {
            acting,
            peer: loaded.head.peer,
        },
        before: Vec::new(),
        money_before: loaded.talk.totals.money_nanos,
        shared,
        ports,
        run,
        head: loaded.head,
        talk: loaded.talk,
    };
    let end = match driver.work().await {
        Ok(output) => RunEvent::Completed {
            output,
            usage: driver.talk.totals,
        },
        Err(Halt::Cancelled) => RunEvent::Cancelled {
            usage: driver.talk.totals,
        },
        Err(Halt::Failed { code, message }) => RunEvent::Failed {
            code,
            message,
            usage: driver.talk.totals,
        },
        Err(Halt::Parked(why)) => {
            let parked = RunEvent::Parked { why: why.into() };
            let now = driver.shared.now();
            // Where it cannot be told it is parked all the same.
            let _ = driver
                .run
                .tell(&driver.shared.book.files, now, &parked)
                .await;
            driver.run.set_state(RunState::Parked);
            return;
        }
    };
    driver.end(end).await;
    if driver.run.state().is_final() {
        call_back(&driver.shared, &driver.ports, &driver.run, &driver.caller).await;
    }
}

impl RunDriver {
    /// Tells the last event. A run that is complete and is said something goes on.
    async fn end(&mut self, mut end: RunEvent) {
        loop {
            match self.try_tell(&end).await {
                Ok(()) | Err(Some(NotTold::Ended)) => break,
                Err(Some(NotTold::Added)) => match self.go_on().await {
                    Ok(output) => {
                        let usage = self.talk.totals;
                        end = RunEvent::Completed { output, usage };
                    }
                    Err(halt) => match self.of_halt(halt) {
                        Some(event) => end = event,
                        None => return,
                    },
                },
                // A failure is no large event.
                Err(Some(NotTold::TooLarge)) => match self.of_halt(too_large()) {
                    Some(event) if event.name() != end.name() => end = event,
                    _ => return,
                },
                Err(_) => return,
            }
        }
        self.ports.models.forget(&self.run.id);
        self.shared.book.ended(&self.shared.settings, &self.run);
    }

    fn of_halt(&self, halt: Halt) -> Option<RunEvent> {
        let usage = self.talk.totals;
        match halt {
            Halt::Cancelled => Some(RunEvent::Cancelled { usage }),
            Halt::Failed { code, message } => Some(RunEvent::Failed {
                code,
                message,
                usage,
            }),
            Halt::Parked(_) => {
                self.run.set_state(RunState::Parked);
                None
            }
        }
    }

    async fn work(&mut self) -> Result<String, Halt> {
        self.wait_for_turn().await?;
        self.run.set_state(RunState::Running);
        let begin = match self.talk.is_started {
            false => RunEvent::Started {
                run: self.run.id.to_string(),
                agent: self.head.agent.clone(),
            },
            true => RunEvent::Resumed {
                step: self.talk.step,
            },
        };
        self.tell(begin).await?;
        self.go_on().await
    }

    /// Waits for the run of its thread that was before, and takes what was said until then.
    async fn wait_for_turn(&mut self) -> Result<(), Halt> {
        if !self.head.instructions.is_empty() {
            let content = self.head.instructions.clone();
            self.before.push(RunMessage::System { content });
        }
        if let Some(after) = self.head.after.clone() {
            let owner = &self.run.owner;
            if let Some(before) = self.shared.book.find(owner, &after) {
                if !before.state().is_final() {
                    self.run.set_state(RunState::Queued);
                }
                self.unless_halted(before.ended(), false).await?;
            }
            let said = history(&self.shared.book.files, &after);
            self.before.extend(said);
        }
        self.before.extend(self.head.input.clone());
        Ok(())
    }

    async fn go_on(&mut self) -> Result<String, Halt> {
        let tools = self.tools().await?;
        self.make_calls(&tools).await?;
        loop {
            self.hear();
            // What was read again may be all that there was to say.
            if self.is_answered() {
                return Ok(self.talk.last_text());
            }
            self.check_bounds()?;
            let step = self.talk.totals.steps + 1;
            self.tell(RunEvent::StepStarted { step }).await?;
            self.ask_model(step, &tools).await?;
            self.make_calls(&tools).await?;
        }
    }

    /// Takes what was said to the run.
    fn hear(&mut self) {
        for added in self.run.take_added() {
            self.talk.apply(&added);
        }
    }

    /// The model said its last word, and nobody said anything since.
    fn is_answered(&self) -> bool {
        let last = self.talk.messages.last();
        let is_word = matches!(last, Some(RunMessage::Assistant { calls, .. }) if calls.is_empty());
        is_word && !self.talk.has_added()
    }

    async fn tools(&mut self) -> Result<Vec<ToolOffer>, Halt> {
        if self.head.tools.is_empty() {
            return Ok(Vec::new());
        }
        let mut tries = 0;
        loop {
            let listed = self.ports.tools.list(&self.caller, &self.head.tools);
            match self.unless_halted(listed, false).await? {
                Ok(tools) => return Ok(tools),
                Err(failure) => self.again(failure, &mut tries).await?,
            }
        }
    }

    /// Tells that something failed, and waits until it may be tried again.
    async fn again(&mut self, failure: PortFailure, tries: &mut u32) -> Result<(), Halt> {
        *tries += 1;
        let step = self.talk.step;
        let PortFailure {
            code,
            message,
            retry_ms,
            ..
        } = failure;
        let Some(retry_ms) = retry_ms.filter(|ms| *ms <= RETRY_MS_MAX && *tries < MODEL_TRIES_MAX)
        else {
            return Err(Halt::Failed { code, message });
        };
        self.tell(RunEvent::Refused {
            step,
            code,
            message,
        })
        .await?;
        let wait = Duration::from_millis(retry_ms);
        self.unless_halted(tokio::time::sleep(wait), false).await
    }

    fn check_bounds(&self) -> Result<(), Halt> {
        let (limits, totals) = (&self.head.limits, &self.talk.totals);
        let tokens = totals.input_tokens + totals.output_tokens;
        let money = self.money();
        let before = self.before.iter().chain(&self.talk.messages);
        let bytes: usize = before.map(RunMessage::bytes).sum();
        let over = if totals.steps >= limits.steps {
            format!("steps: it asked its model {} times", limits.steps)
        } else if limits.tokens.is_some_and(|most| tokens >= most) {
            format!("tokens: it used {tokens}")
        } else if limits.money.is_some_and(|most| money >= most) {
            "money: it cost as much as it may".to_owned()
        } else if bytes > CONVERSATION_BYTES_MAX {
            format!("what was said in it is larger than {CONVERSATION_BYTES_MAX} bytes")
        } else {
            return Ok(());
        };
        Err(failed(
            refusal::RUN_SPENT,
            format!("the run met its limit of {over}"),
        ))
    }

    /// What it cost so far, in billionths of a dollar.
    fn money(&self) -> u64 {
        self.money_before
            .saturating_add(self.ports.models.spent(&self.run.id))
    }

    /// Asks the model until it has said all of a step.
    async fn ask_model(&mut self, step: u64, tools: &[ToolOffer]) -> Result<(), Halt> {
        let mut tries = 0;
        loop {
            match self.try_model(step, tools).await? {
                Ok(message) => return self.tell(message).await,
                Err(failure) => {
                    self.again(failure, &mut tries).await?;
                    self.tell(RunEvent::StepStarted { step }).await?;
                }
            }
        }
    }

    async fn try_model(
        &mut self,
        step: u64,
        tools: &[ToolOffer],
    ) -> Result<Result<RunEvent, PortFailure>, Halt> {
        let ask = ModelAsk {
            model: &self.head.model,
            before: &self.before,
            messages: &self.talk.messages,
            tools,
        };
        let asked = self.ports.models.ask(&self.caller, ask);
        let mut answer = match self.unless_halted(asked, false).await? {
            Ok(answer) => answer,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut said = StepSaid::default();
        loop {
            let piece = match self.piece(&mut *answer).await? {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(failure) => return Ok(Err(failure)),
            };
            if let Err(failure) = said.take(&piece) {
                return Ok(Err(failure));
            }
            match piece {
                ModelPiece::Text(text) => self.tell(RunEvent::Text { step, text }).await?,
                ModelPiece::Reasoning(text) => {
                    self.tell(RunEvent::Reasoning { step, text }).await?;
                }
                ModelPiece::Call { .. } | ModelPiece::Usage(_) => {}
            }
        }
        drop(answer);
        let calls = match said.calls(step) {
            Ok(calls) => calls,
            Err(failure) => return Ok(Err(failure)),
        };
        if said.left_out {
            let (code, message) = (
                refusal::RUN_MODEL.name,
                format!(
                    "the model made more than {CALLS_MAX} calls in one step; the others are left out"
                ),
            );
            let code = code.to_owned();
            self.tell(RunEvent::Refused {
                step,
                code,
                message,
            })
            .await?;
        }
        Ok(Ok(RunEvent::Message {
            step,
            text: said.text,
            calls,
            usage: said.usage,
            money_nanos: self.money(),
        }))
    }

    async fn piece(
        &self,
        answer: &mut dyn ModelAnswer,
    ) -> Result<Result<Option<ModelPiece>, PortFailure>, Halt> {
        self.unless_halted(answer.next(), false).await
    }

    /// Makes the calls that have no answer yet, one after another.
    async fn make_calls(&mut self, tools: &[ToolOffer]) -> Result<(), Halt> {
        while let Some(pending) = self.talk.pending.front().cloned() {
            let (content, is_error, code) = match self.why_not(&pending, tools)? {
                Some((code, why)) => (why, true, Some(code.to_owned())),
                None => match self.make_call(&pending, tools).await? {
                    Ok(answer) => (bounded(answer.content), answer.is_error, None),
                    Err(failure) => {
                        let content = format!("{}: {}", failure.code, failure.message);
                        (content, true, Some(failure.code))
                    }
                },
            };
            self.tell(RunEvent::Answer {
                step: self.talk.step,
                call: pending.call.id,
                tool: pending.call.tool,
                content,
                is_error,
                code,
            })
            .await?;
        }
        Ok(())
    }

    async fn make_call(
        &mut self,
        pending: &PendingCall,
        tools: &[ToolOffer],
    ) -> Result<Result<ToolAnswer, PortFailure>, Halt> {
        let call = &pending.call;
        let offer = tools.iter().find(|offer| offer.name == call.tool);
        self.tell(RunEvent::Call {
            step: self.talk.step,
            call: call.clone(),
            is_repeatable: offer.is_some_and(|offer| offer.is_repeatable),
        })
        .await?;
        let made = self.ports.tools.call(&self.caller, &self.head.tools, call);
        self.unless_halted(made, true).await
    }

    /// Why a call is not made, for the model: the code and what to do.
    fn why_not(
        &self,
        pending: &PendingCall,
        tools: &[ToolOffer],
    ) -> Result<Option<(&'static str, String)>, Halt> {
        let call = &pending.call;
        if pending.begun == Some(false) {
            let why = "weir was stopped while this call was under way: whether it was done is not known, and it is not made again. \
                       Look what there is before you repeat it.";
            return Ok(Some((refusal::CANCELLED.name, why.to_owned())));
        }
        let same = self.talk.same_calls(call);
        if same >= SAME_CALLS_MAX {
            let why = format!(
                "the model made the same call of {} again and again",
                call.tool
            );
            return Err(failed(refusal::RUN_LOOP, why));
        }
        if same >= SAME_CALLS_MADE {
            let why = format!(
                "this very call was made {same} times in a row, and is not made again: use what it answered, or do something else"
            );
            return Ok(Some((refusal::RUN_LOOP.name, why)));
        }
        if !tools.iter().any(|offer| offer.name == call.tool) {
            let why = format!("there is no tool named {:?}", call.tool);
            return Ok(Some((refusal::ITEM_UNKNOWN.name, why)));
        }
        let read = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(&call.arguments);
        Ok(read.err().map(|error| {
            let why = format!("the arguments are no JSON object: {error}");
            (refusal::JSON_INVALID.name, why)
        }))
    }

    /// Tells an event, and takes it into account. Where the disk takes nothing the run waits until it does.
    async fn tell(&mut self, event: RunEvent) -> Result<(), Halt> {
        match self.try_tell(&event).await {
            Ok(()) => {
                self.talk.apply(&event);
                Ok(())
            }
            Err(Some(NotTold::Ended)) => Err(Halt::Cancelled),
            Err(Some(NotTold::TooLarge)) => Err(too_large()),
            Err(_) => Err(Halt::Parked("its events cannot be kept")),
        }
    }

    /// The same, without that; nothing where the gateway stops before the disk takes it.
    async fn try_tell(&self, event: &RunEvent) -> Result<(), Option<NotTold>> {
        let mut is_parked = false;
        loop {
            let (shared, run) = (&self.shared, &self.run);
            match run.tell(&shared.book.files, shared.now(), event).await {
                Ok(()) if is_parked => {
                    shared.is_mended();
                    run.set_state(RunState::Running);
                    return Ok(());
                }
                Ok(()) => return Ok(()),
                Err(NotTold::Disk(error)) => {
                    shared.is_in_trouble(&error.0);
                    is_parked = true;
                    run.set_state(RunState::Parked);
                    let wait = tokio::time::sleep(Duration::from_millis(DISK_MS));
                    tokio::select! {
                        () = shared.drain.started() => return Err(None),
                        () = wait => {}
                    }
                }
                Err(other) => return Err(Some(other)),
            }
        }
    }

    /// Does what may take long, unless something ends the run. `has_grace` is for what has effects: it may go on for a moment once
    /// the gateway stops.
    async fn unless_halted<T>(
        &self,
        work: impl Future<Output = T>,
        has_grace: bool,
    ) -> Result<T, Halt> {
        let mut work = std::pin::pin!(work);
        let mut cancelled = self.run.cancellation();
        let drained = async {
            self.shared.drain.started().await;
            if has_grace {
                tokio::time::sleep(Duration::from_millis(PARK_MS)).await;
            }
        };
        let mut drained = std::pin::pin!(drained);
        loop {
            let wait = self.may_go_on()?;
            tokio::select! {
                biased;
                _ = cancelled.wait_for(|is| *is) => return Err(Halt::Cancelled),
                () = &mut drained => return Err(Halt::Parked("the gateway stopped")),
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
            }
        }
    }

    /// Whether the run is in force and in time, and when to look again, in milliseconds.
    fn may_go_on(&self) -> Result<u64, Halt> {
        let (owner, key): (&Name, _) = (&self.run.owner, Some(&self.run.thumbprint));
        let stays = self.shared.gate.lets_stay(LANE.name, owner, key);
        stays.map_err(|refusal| failed(refusal.code, refusal.public))?;
        let until = self
            .head
            .created_ms
            .saturating_add(self.head.limits.time_ms);
        let left = until.saturating_sub(self.shared.now().unix_ms);
        match left {
            0 => Err(failed(
                refusal::RUN_SPENT,
                format!(
                    "the run met its limit of time: {} ms",
                    self.head.limits.time_ms
                ),
            )),
            left => Ok(left.min(LOOK_MS)),
        }
    }
}

fn failed(code: &'static Code, message: String) -> Halt {
    Halt::Failed {
        code: code.name.to_owned(),
        message,
    }
}

fn too_large() -> Halt {
    let message = "the run met its limit of what is kept: its events are too large".to_owned();
    failed(refusal::RUN_SPENT, message)
}

/// What a model is given of a tool's answer.
fn bounded(mut content: String) -> String {
    if content.len() > ANSWER_BYTES_MAX {
        content.truncate(content.floor_char_boundary(ANSWER_BYTES_MAX));
        content.push_str("\n(the rest is left out: the answer is larger than 256 KiB)");
    }
    content
}

#[cfg(test)]
mod tests;
