//! The proof that a call was judged and recorded: the only thing that `net` sends anything for.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use base::permit::LineMask;
use base::record::{CallEnd, Finding, Outcome, Usage};
use base::{Action, CallId, Destination, Digest, Name, Now, Permit, Refusal, Resource, refusal};
use policy::Principal;
use scan::{Direction, Fragments};

use crate::call::{Call, Cost};
use crate::gate::Gate;
use crate::inspect::Redacted;
use crate::judge::Asker;
use crate::ports::{BudgetSpent, UsedTokens};
use crate::reserve::{Reservation, Reserved};
use crate::rules::Rules;

/// A call that passed. [`Gate::pass`], [`Gate::own`] and [`Gate::again`] hand one out, for one judge.
///
/// It ends once, by [`Passed::end`]; dropped without that, its outcome is recorded as cut. What was reserved for it is
/// settled then.
///
/// ```compile_fail
/// let forged = gate::Passed { ticket: todo!() };
/// ```
/// ```compile_fail
/// fn twice(passed: gate::Passed) -> (gate::Passed, gate::Passed) {
///     (passed.clone(), passed)
/// }
/// ```
pub struct Passed {
    gate: Arc<Gate>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) asker: Asker,
    pub(crate) principal: Arc<Principal>,
    call: CallId,
    action: &'static Action,
    resource: Resource,
    started: Now,
    /// The run that it is a step of.
    run: Option<Arc<str>>,
    tags: Box<[String]>,
    pub(crate) redacted: Redacted,
    /// SHA-256 of the content and what was found in it, where the call may be repeated.
    pub(crate) content: Option<(Digest, Vec<Finding>)>,
    pub(crate) findings: Vec<Finding>,
    /// Ends of what came, where the answer comes in several messages.
    pub(crate) fragments: Option<Fragments>,
    /// What the call was expected to use.
    pub(crate) cost: Cost,
    /// Absent once it is settled.
    reservation: Option<Reservation>,
    /// What would be refused of it passes, and is recorded.
    observes: bool,
    /// Its judgement would have been a refusal.
    is_objected: bool,
    /// What its answer would have been refused for.
    observed: Option<(&'static str, String)>,
    is_open: bool,
}

/// By what [`Passed::may_list`] decides: the rules that were in force, and the agent with its groups. Calls of equal sight are
/// shown the same.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Kept without what it points to: rules that were replaced do not stay in memory for it.
    rules: Weak<Rules>,
    principal: Arc<Principal>,
}

impl PartialEq for Sight {
    fn eq(&self, other: &Sight) -> bool {
        Weak::ptr_eq(&self.rules, &other.rules) && self.principal == other.principal
    }
}

/// How a call ended, as its lane saw it.
#[derive(Clone, Copy, Debug)]
pub struct CallEnding<'a> {
    pub end: CallEnd,
    /// The HTTP status of the answer, or 0 where there was none.
    pub status: u16,
    /// Bytes that the server answered; of a grant those of all its calls, both ways.
    pub bytes: u64,
    /// How many calls there were under a grant; absent for a call that was judged by itself.
    pub calls: Option<u64>,
    /// What a model counted, where one was asked.
    pub usage: Option<Usage>,
    /// The usage is all of it, although the answer did not go back.
    pub is_counted: bool,
    /// Tokens of output that the bytes of the answer stand for at least. It is for calls of which nothing counted all.
    pub output_least: u64,
    /// Nothing is billed for it: the provider was not reached, or refused the request.
    pub is_unbilled: bool,
    /// The code and private reason of what went wrong.
    pub why: Option<(&'static str, &'a str)>,
}

impl CallEnding<'_> {
    /// An ending of which no more is known.
    pub fn of(end: CallEnd) -> CallEnding<'static> {
        CallEnding {
            end,
            status: 0,
            bytes: 0,
            calls: None,
            usage: None,
            is_counted: false,
            output_least: 0,
            is_unbilled: false,
            why: None,
        }
    }
}

impl Passed {
    pub(crate) fn new(
        gate: &Arc<Gate>,
        rules: Arc<Rules>,
        call: &Call<'_>,
        reserved: Reserved,
        started: Now,
    ) -> Passed {
        let Reserved {
            scanned,
            reservation,
        } = reserved;
        let tags = call.tags.iter();
        let tags = tags.map(|tag| crate::trail::clean(&rules.engine, tag).into_owned());
        let tags = tags.collect();
        Passed {
            gate: Arc::clone(gate),
            rules,
            asker: scanned.permitted.asker,
            principal: scanned.permitted.principal,
            call: call.id,
            action: call.action,
            resource: call.resource.clone(),
            started,
            run: call.run.map(Arc::from),
            tags,
            redacted: scanned.redacted,
            content: scanned.content,
            findings: Vec::new(),
            fragments: None,
            cost: call.cost,
            reservation: Some(reservation),
            observes: false,
            is_objected: false,
            observed: None,
            is_open: true,
        }
    }

    /// How it was judged: whether its refusals are only noted, and whether there was one.
    pub(crate) fn judged_with(&mut self, observes: bool, is_objected: bool) {
        (self.observes, self.is_objected) = (observes, is_objected);
    }

    pub(crate) fn observes(&self) -> bool {
        self.observes
    }

    /// Whether it passed, or went on, only because it is observed.
    pub fn is_objected(&self) -> bool {
        self.is_objected || self.observed.is_some()
    }

    /// Refuses, or only notes the refusal where the call is observed.
    pub(crate) fn objects(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        match self.observes {
            true => {
                self.observed
                    .get_or_insert((refusal.code.name, refusal.public));
                Ok(())
            }
            false => Err(refusal),
        }
    }

    /// The run that the call is a step of, where it is one.
    pub fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// The agent's name.
    pub fn agent(&self) -> &Name {
        &self.principal.name
    }

    /// What the call is asked of.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The thumbprint of the agent's credential; absent for the gateway's own calls.
    pub fn thumbprint(&self) -> Option<Digest> {
        self.asker.agent()?.thumbprint()
    }

    /// Whether the call could still go on: no stop is in force for it, and its credential is still its agent's and has
    /// not expired. A call that lasts is asked now and then, and ended where it is not.
    pub fn is_in_force(&self) -> bool {
        Permit::in_force(self).is_ok()
    }

    /// The same, with what ended the call.
    ///
    /// # Errors
    /// `gate.stopped`, `agent.suspended`, `agent.revoked`, `agent.key_unknown`, `agent.key_expired`.
    pub fn in_force(&self) -> Result<(), Refusal> {
        Permit::in_force(self)
    }

    /// The answer comes in several messages: what is split over them is looked for too.
    pub fn more_to_come(&mut self) {
        self.fragments.get_or_insert_default();
    }

    /// Where a text that answers this call stands.
    pub(crate) fn place(&self, direction: Direction, now: Now) -> scan::Place<'_> {
        scan::Place {
            direction,
            lane: self.action.lane.name,
            target: self.resource.place(),
            agent: self.principal.name.as_str(),
            now_s: now.unix_ms / 1000,
        }
    }

    /// What is to be sent in place of a part of the call, by its number, where the scan redacted something.
    pub fn redacted(&self, part: usize) -> Option<&[u8]> {
        let mut redacted = self.redacted.iter();
        let (_, bytes) = redacted.find(|(number, _)| *number == part)?;
        Some(bytes)
    }

    /// Whether policy lets this agent do something with this resource, in some call. What it may not do is not shown
    /// to it.
    pub fn may_list(&self, action: &'static Action, resource: &Resource) -> bool {
        let slice = self.rules.policies.slice(&self.principal, action, resource);
        slice.is_ok_and(|slice| slice.listable(resource))
    }

    /// By what [`Passed::may_list`] decides.
    pub fn sight(&self) -> Sight {
        Sight {
            rules: Arc::downgrade(&self.rules),
            principal: Arc::clone(&self.principal),
        }
    }

    /// Records the outcome, and settles what was reserved.
    pub fn end(mut self, ending: CallEnding<'_>) {
        self.close(ending);
    }

    /// Takes back a `Passed` whose judgement was not recorded: it never passed, so it has no outcome, and what was
    /// reserved for it is given back.
    pub(crate) fn void(&mut self) {
        self.is_open = false;
        self.reservation = None;
    }

    pub(crate) fn now(&self) -> Now {
        self.gate.ports.clock.now()
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(crate) fn close(&mut self, ending: CallEnding<'_>) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        self.settle(&ending);
        let now = self.gate.ports.clock.now();
        let duration_ms = now.mono_ms.saturating_sub(self.started.mono_ms);
        let outcome = Outcome {
            call: self.call,
            at: now,
            end: ending.end,
            status: ending.status,
            bytes: ending.bytes,
            duration_ms,
            calls: ending.calls,
            usage: ending.usage,
            is_counted: ending.is_counted,
            output_least: ending.output_least,
            is_unbilled: ending.is_unbilled,
            findings: &self.findings,
            why: ending.why,
            observed: self.observed.as_ref().map(|(code, why)| (*code, &**why)),
        };
        let recorder = &self.gate.ports.recorder;
        let record = outcome.to_json();
        match ending.end {
            CallEnd::Refused => {
                let agent = &self.principal.name;
                recorder.ends_refused(self.call, record, agent, &self.resource);
            }
            CallEnd::Complete | CallEnd::Cut | CallEnd::Failed => recorder.ends(self.call, record),
        }
        self.gate
            .ports
            .meter
            .ended(&self.resource, ending.end, duration_ms);
    }

    /// A call that is complete costs what was counted. Of one that is not, what was counted may be a part only, so it
    /// costs the larger of that and what was reserved, and never less than the text that came.
    fn settle(&mut self, ending: &CallEnding<'_>) {
        let Some(reservation) = self.reservation.take() else {
            return;
        };
        let is_whole = ending.end == CallEnd::Complete || ending.is_counted;
        let (usage, is_estimated) = spent(&self.cost, ending, is_whole);
        let counted = self.cost.price.map_or(0, |price| price.of(&usage));
        let money = match is_estimated {
            true => counted.max(self.cost.money()),
            false => counted,
        };
        reservation.settle(BudgetSpent {
            calls: 1,
            tokens: usage.total(),
            money,
        });
        if let (Some(accounts), Resource::Model { provider, model }) =
            (&self.gate.ports.accounts, &self.resource)
        {
            accounts.used(&UsedTokens {
                at_unix_ms: self.started.unix_ms,
                agent: &self.principal.name,
                groups: &self.principal.groups,
                provider,
                model,
                usage,
                is_estimated,
                money: self.cost.price.map(|_| money),
                run: self.run.as_deref(),
                tags: &self.tags,
            });
        }
    }
}

/// What a call used, and whether that is what was reserved for it and not what was counted.
fn spent(cost: &Cost, ending: &CallEnding<'_>, is_whole: bool) -> (Usage, bool) {
    match ending.usage {
        Some(usage) if is_whole => (usage, false),
        None if ending.is_unbilled => (Usage::default(), false),
        counted => {
            let larger = counted.filter(|usage| usage.total() >= cost.tokens());
            let reserved = Usage {
                input: cost.input,
                output: cost.output,
                ..Usage::default()
            };
            let mut usage = larger.unwrap_or(reserved);
            usage.output = usage.output.max(ending.output_least);
            (usage, larger.is_none() && usage.total() > 0)
        }
    }
}

impl Permit for Passed {
    fn call(&self) -> CallId {
        self.call
    }

    fn destination(&self) -> Destination<'_> {
        self.resource.destination()
    }

    fn dial(&self, address: IpAddr) -> Result<(), Refusal> {
        match self.rules.may_dial(&self.resource, address) {
            true => Ok(()),
            false => Err(Refusal::new(
                refusal::ADDRESS,
                "the server is at an address that is not allowed",
            )
            .with_private(format!("{} resolved to {address}", self.resource.place()))),
        }
    }

    fn in_force(&self) -> Result<(), Refusal> {
        let stops = self.gate.stops.borrow();
        let lane = self.action.lane.name;
        match &self.asker {
            Asker::Agent(verified) => {
                stops.check(lane, Some(&verified.agent().name))?;
                self.gate.recognises(verified)
            }
            Asker::Gateway => stops.check(lane, None),
        }
    }

    fn line_mask(&self) -> LineMask {
        let gate = Arc::clone(&self.gate);
        // By the rules that are in force when the line comes.
        Box::new(move |line| crate::trail::masked_line(&gate.rules.load().engine, line))
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.close(CallEnding::of(CallEnd::Cut));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_nobody_counted_costs_what_was_reserved_or_its_text_if_that_is_more() {
        let cost = Cost {
            input: 90,
            output: 10,
            price: None,
        };
        let used = |output| Usage {
            input: 90,
            output,
            ..Usage::default()
        };
        let ending = |end, usage, output_least| CallEnding {
            usage,
            output_least,
            ..CallEnding::of(end)
        };
        let complete = ending(CallEnd::Complete, None, 4_000);
        assert_eq!(spent(&cost, &complete, true), (used(4_000), true));
        let short = ending(CallEnd::Complete, None, 4);
        assert_eq!(spent(&cost, &short, true), (used(10), true));
        let cut = ending(CallEnd::Cut, Some(used(1)), 4_000);
        assert_eq!(spent(&cost, &cut, false), (used(4_000), true));
        let counted = ending(CallEnd::Cut, Some(used(50)), 70);
        assert_eq!(spent(&cost, &counted, false), (used(70), false));
        // What the provider counted to the end is right, however long its words are.
        let whole = ending(CallEnd::Complete, Some(used(50)), 70);
        assert_eq!(spent(&cost, &whole, true), (used(50), false));
        let unbilled = CallEnding {
            is_unbilled: true,
            ..CallEnding::of(CallEnd::Failed)
        };
        assert_eq!(spent(&cost, &unbilled, false), (Usage::default(), false));
    }
}
