//! Grants: one recorded judgement for many calls of one agent to one target, within bounds.
//!
//! A lane whose content is sealed has nothing that could be judged call by call but who asks and whom: asking that
//! again for each call of a busy pair would cost more than the call. So [`Gate::grant`] judges once, has it written
//! down, and hands out a [`Grant`] that holds for a minute at most, for a bound of calls and bytes, and only while the
//! rules stand that it was judged by. What was counted under it is recorded when it ends. A refusal is never granted:
//! each refused call is judged and recorded by itself.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::record::End;
use base::{Action, CallId, Digest, Name, Now, Refusal, Target, refusal};
use policy::{Context, Principal};

use crate::inspect::Scanned;
use crate::pass::{Call, Gate, Rules};
use crate::passed::{Ending, Passed};
use crate::ports::Counted;
use crate::trail::Trail;

/// How long a grant holds, in milliseconds.
pub const GRANT_MS_MAX: u64 = 60_000;
/// Calls that one grant covers.
pub const GRANT_CALLS_MAX: u64 = 1 << 20;
/// Bytes of messages, both ways, after which a grant covers no further call.
pub const GRANT_BYTES_MAX: u64 = 1 << 36;

/// Who asks for a grant, as the lane recognised them.
#[derive(Clone, Copy, Debug)]
pub enum Who<'a> {
    /// An agent, by a credential of its own.
    Agent {
        name: &'a Name,
        groups: &'a [Name],
        /// Names the credential in the record without being of use to a thief of the log.
        credential: Option<Digest>,
    },
    /// The gateway itself, for traffic that the configuration asks for, with nothing of an agent's in it.
    Weir,
}

/// What a grant is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub id: CallId,
    pub peer: IpAddr,
    pub who: Who<'a>,
    pub action: Action,
    /// The protocol's own name for it.
    pub method: &'a str,
    pub target: &'a Target,
}

/// Leave for many calls of one thread. [`Gate::grant`] is the only function that hands one out; a call under it is an
/// [`Under`], which shows the grant's [`Passed`].
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
    /// Judges an agent's passage to a target once for many calls: may they, is there room, is it written down.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub async fn grant(self: &Arc<Self>, ask: Ask<'_>) -> Result<Grant, Refusal> {
        let rules = self.rules();
        let now = self.ports.clock.now();
        let call = Call {
            id: ask.id,
            peer: ask.peer,
            lane: ask.action.lane(),
            action: ask.action,
            method: ask.method,
            request: None,
            target: ask.target,
            params: None,
            root: "params",
            arguments: None,
            bytes: 0,
        };
        let mut trail = Trail::new(&call, None, &rules, now);
        let principal = principal(ask.who);
        trail.agent(principal.name.clone());
        if let Who::Agent { credential, .. } = ask.who {
            trail.credential(credential);
        }
        let judged = match ask.who {
            Who::Agent { .. } => self.judge(&rules, &principal, &call, now, &mut trail),
            Who::Weir => {
                trail.own(principal.name.clone());
                Ok(())
            }
        };
        let judged = judged.and_then(|()| known(&rules, ask.target));
        if let Err(refusal) = judged {
            return Err(self.record_refusal(trail, refusal).await);
        }
        let scanned = Scanned::default();
        let passed = self.append(trail, rules, principal, &call, scanned).await?;
        Ok(Grant {
            gate: Arc::clone(self),
            passed,
            began: now,
            calls: Cell::new(0),
            bytes: Cell::new(0),
        })
    }

    /// Policy, and the agent's limit, from which a grant takes one call.
    fn judge(
        &self,
        rules: &Rules,
        principal: &Arc<Principal>,
        call: &Call<'_>,
        now: Now,
        trail: &mut Trail<'_>,
    ) -> Result<(), Refusal> {
        let context = Context {
            lane: call.lane,
            method: call.method,
            peer: call.peer,
            unix_ms: now.unix_ms,
            arguments: None,
        };
        let slice = rules.policies.slice(principal, call.action, call.target);
        let admission = slice.admit(&context)?;
        trail.admitted(admission.policies, admission.attributes);
        if admission.pending {
            // A passage is not scanned, and what a policy cannot see is absent, never empty.
            let public =
                "only a policy that reads findings could permit this, and a passage is not scanned";
            return Err(Refusal::new(refusal::FORBIDDEN, public));
        }
        let agent = Counted::Agent(principal.name.clone());
        let per_minute = rules.agent_per_minute;
        self.ports
            .counters
            .take(&agent, per_minute, now)
            .map_err(|retry_ms| {
                let public = format!("this agent made more than {per_minute} calls a minute");
                Refusal::new(refusal::LIMIT_AGENT, public).with_retry_ms(retry_ms)
            })
    }
}

fn known(rules: &Rules, target: &Target) -> Result<(), Refusal> {
    if rules.reach.contains_key(&target.server) {
        return Ok(());
    }
    let public = "no such server is configured";
    Err(Refusal::new(refusal::SERVER_UNKNOWN, public))
}

fn principal(who: Who<'_>) -> Arc<Principal> {
    let (name, groups) = match who {
        Who::Agent { name, groups, .. } => (name.clone(), groups.to_vec()),
        Who::Weir => (Name::new("weir").expect("weir is a name"), Vec::new()),
    };
    Arc::new(Principal { name, groups })
}

impl Grant {
    /// Begins one call, if the grant still covers it. A call that was begun may go on after the grant is over.
    pub fn call(self: &Rc<Grant>, now: Now) -> Option<Under> {
        if !self.covers(now) {
            return None;
        }
        self.calls.set(self.calls.get() + 1);
        Some(Under(Rc::clone(self)))
    }

    /// Whether it covers a call now: its minute, its bounds, and the rules that it was judged by.
    pub fn covers(&self, now: Now) -> bool {
        Arc::ptr_eq(&self.passed.rules, &self.gate.rules.load())
            && now.mono_ms.saturating_sub(self.began.mono_ms) < GRANT_MS_MAX
            && self.calls.get() < GRANT_CALLS_MAX
            && self.bytes.get() < GRANT_BYTES_MAX
    }
}

/// One call under a grant. Only [`Grant::call`] makes one.
///
/// ```compile_fail,E0423
/// fn forge(grant: std::rc::Rc<gate::Grant>) -> gate::Under {
///     gate::Under(grant)
/// }
/// ```
pub struct Under(Rc<Grant>);

impl Under {
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
        self.passed.close(Ending {
            end: End::Complete,
            status: 0,
            bytes: self.bytes.get(),
            calls: Some(self.calls.get()),
            why: None,
        });
    }
}
