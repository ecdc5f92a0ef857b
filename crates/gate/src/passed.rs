//! The proof that a call was judged and recorded: the only thing that `net` sends anything for.

use std::net::IpAddr;
use std::sync::Arc;

use base::record::{End, Finding, Outcome};
use base::{Action, CallId, Digest, Lane, Name, Now, Permit, Refusal, Target, refusal};
use policy::Principal;
use scan::{Direction, Fragments, Place};

use crate::inspect::{self, Scanned};
use crate::pass::{Call, Gate, Rules};

/// A call that passed. [`Gate::pass`] is the only function that hands one out.
///
/// It ends once, by [`Passed::end`]; dropped without that, its outcome is recorded as cut.
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
    principal: Arc<Principal>,
    call: CallId,
    lane: Lane,
    target: Target,
    started: Now,
    /// The thumbprint of the agent's key; absent for the gateway's own calls.
    thumbprint: Option<Digest>,
    redacted: Option<Vec<u8>>,
    pub(crate) findings: Vec<Finding>,
    /// Ends of what came, where the answer comes in several messages.
    pub(crate) fragments: Option<Fragments>,
    open: bool,
}

/// How a call ended, as its lane saw it.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    pub end: End,
    /// The HTTP status of the answer, or 0 where there was none.
    pub status: u16,
    /// Bytes that the server answered; of a grant those of all its calls, both ways.
    pub bytes: u64,
    /// How many calls there were under a grant; absent for a call that was judged by itself.
    pub calls: Option<u64>,
    /// The code and private reason of what went wrong.
    pub why: Option<(&'static str, &'a str)>,
}

impl Passed {
    pub(crate) fn new(
        gate: Arc<Gate>,
        rules: Arc<Rules>,
        principal: Arc<Principal>,
        call: &Call<'_>,
        scanned: Scanned,
        started: Now,
        thumbprint: Option<Digest>,
    ) -> Passed {
        Passed {
            gate,
            rules,
            principal,
            call: call.id,
            lane: call.lane,
            target: call.target.clone(),
            started,
            thumbprint,
            redacted: scanned.redacted,
            findings: Vec::new(),
            fragments: None,
            open: true,
        }
    }

    /// The agent's name.
    pub fn agent(&self) -> &Name {
        &self.principal.name
    }

    /// The thumbprint of the agent's key; absent for the gateway's own calls.
    pub fn thumbprint(&self) -> Option<Digest> {
        self.thumbprint
    }

    /// Whether the key that the call was made with is still its agent's. A call that lasts is asked now and
    /// then, and ended where it is not.
    pub fn is_agent_known(&self) -> bool {
        self.thumbprint
            .is_none_or(|thumbprint| self.gate.knows(self.agent(), &thumbprint))
    }

    /// The answer comes in several messages: what is split over them is looked for too.
    pub fn more_to_come(&mut self) {
        self.fragments.get_or_insert_default();
    }

    /// Where a text that answers this call stands.
    pub(crate) fn place(&self, direction: Direction, now: Now) -> Place<'_> {
        let agent = self.principal.name.as_str();
        inspect::place(direction, self.lane, &self.target.server, agent, now)
    }

    /// The server that the call is asked of.
    pub fn server(&self) -> &Name {
        &self.target.server
    }

    /// What is to be sent in place of the call's `params`, where the scan redacted something.
    pub fn take_redacted(&mut self) -> Option<Vec<u8>> {
        self.redacted.take()
    }

    /// Whether policy lets this agent call a tool of the call's server, with some arguments. A tool that
    /// it may not call is not shown to it.
    pub fn may_list(&self, tool: &str) -> bool {
        let target = Target {
            server: self.target.server.clone(),
            tool: Some(tool.to_owned()),
        };
        self.rules
            .policies
            .slice(&self.principal, Action::McpCall, &target)
            .listable()
    }

    /// Records the outcome.
    pub fn end(mut self, ending: Ending<'_>) {
        self.close(ending);
    }

    /// Takes back a `Passed` whose judgement was not recorded: it never passed, so it has no outcome.
    pub(crate) fn void(&mut self) {
        self.open = false;
    }

    pub(crate) fn now(&self) -> Now {
        self.gate.ports.clock.now()
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn close(&mut self, ending: Ending<'_>) {
        if !std::mem::take(&mut self.open) {
            return;
        }
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
            findings: &self.findings,
            why: ending.why,
        };
        self.gate.ports.recorder.note(outcome.to_json());
        self.gate
            .ports
            .meter
            .ended(&self.target.server, ending.end, duration_ms);
    }
}

impl Permit for Passed {
    fn call(&self) -> CallId {
        self.call
    }

    fn target(&self) -> &Name {
        &self.target.server
    }

    fn dial(&self, address: IpAddr) -> Result<(), Refusal> {
        match self.rules.reach.get(&self.target.server) {
            Some(reach) if reach.allows(address) => Ok(()),
            _ => Err(Refusal::new(
                refusal::ADDRESS,
                "the server is at an address that is not allowed",
            )
            .with_private(format!("{} resolved to {address}", self.target.server))),
        }
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.close(Ending {
            end: End::Cut,
            status: 0,
            bytes: 0,
            calls: None,
            why: None,
        });
    }
}
