//! Grants: one recorded judgement for many calls of one agent to one target, within bounds.
//!
//! A lane whose content is sealed has nothing that could be judged call by call but who asks and whom: asking that
//! again for each call of a busy pair would cost more than the call. So [`Gate::grant`] judges once, has it written
//! down, and hands out a [`Grant`] that holds for a minute at most, for a bound of calls and bytes, and only while the
//! rules and the agents stand that it was judged by. What was counted under it is recorded when it ends. A refusal is never granted:
//! each refused call is judged and recorded by itself.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use base::record::CallEnd;
use base::{Now, Refusal};

use crate::call::Call;
use crate::gate::Gate;
use crate::judge::Asker;
use crate::passed::{CallEnding, Passed};

/// How long a grant holds, in milliseconds.
pub const GRANT_MS_MAX: u64 = 60_000;
/// Calls that one grant covers.
pub const GRANT_CALLS_MAX: u64 = 1 << 20;
/// Bytes of messages, both ways, after which a grant covers no further call.
pub const GRANT_BYTES_MAX: u64 = 1 << 36;

/// Leave for many calls of one thread. [`Gate::grant`] is the only function that hands one out; a call under it is an
/// [`GrantedCall`], which shows the grant's [`Passed`].
///
/// ```compile_fail
/// fn twice(grant: gate::Grant) -> (gate::Grant, gate::Grant) {
///     (grant.clone(), grant)
/// }
/// ```
pub struct Grant {
    gate: Arc<Gate>,
    passed: Passed,
    began: Now,
    calls: Cell<u64>,
    bytes: Cell<u64>,
}

impl Gate {
    /// Judges an agent's passage to a resource once for many calls: as [`Gate::pass`] does a call without content. It
    /// takes one call from the agent's limit.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub async fn grant(self: &Arc<Self>, asker: Asker, call: Call<'_>) -> Result<Grant, Refusal> {
        let began = self.ports.clock.now();
        let passed = self.judge(asker, call).await?;
        Ok(Grant {
            gate: Arc::clone(self),
            passed,
            began,
            calls: Cell::new(0),
            bytes: Cell::new(0),
        })
    }
}

impl Grant {
    /// Begins one call, if the grant still covers it. A call that was begun may go on after the grant is over.
    pub fn call(self: &Rc<Grant>, now: Now) -> Option<GrantedCall> {
        if !self.covers(now) {
            return None;
        }
        self.calls.set(self.calls.get() + 1);
        Some(GrantedCall(Rc::clone(self)))
    }

    /// Whether it covers a call now: its minute, its bounds, the rules and the agents that it was judged by, and no
    /// stop.
    pub fn covers(&self, now: Now) -> bool {
        let epoch = self.passed.asker.agent().map(identity::Verified::epoch);
        epoch.is_none_or(|epoch| epoch == self.gate.epoch())
            && self.passed.is_in_force()
            && Arc::ptr_eq(&self.passed.rules, &self.gate.rules.load())
            && now.mono_ms.saturating_sub(self.began.mono_ms) < GRANT_MS_MAX
            && self.calls.get() < GRANT_CALLS_MAX
            && self.bytes.get() < GRANT_BYTES_MAX
    }
}

/// One call under a grant. Only [`Grant::call`] makes one.
///
/// ```compile_fail,E0423
/// fn forge(grant: std::rc::Rc<gate::Grant>) -> gate::GrantedCall {
///     gate::GrantedCall(grant)
/// }
/// ```
pub struct GrantedCall(Rc<Grant>);

impl GrantedCall {
    /// What `net` asks for.
    pub fn permit(&self) -> &Passed {
        &self.0.passed
    }

    /// Counts bytes of the call's messages.
    pub fn count_bytes(&self, bytes: u64) {
        let sum = self.0.bytes.get().saturating_add(bytes);
        self.0.bytes.set(sum);
    }
}

/// Records what was counted. Calls that are still under way keep their grant, so nothing is missing.
impl Drop for Grant {
    fn drop(&mut self) {
        self.passed.close(CallEnding {
            bytes: self.bytes.get(),
            calls: Some(self.calls.get()),
            ..CallEnding::of(CallEnd::Complete)
        });
    }
}
