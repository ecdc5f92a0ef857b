//! May this agent do this: policy, asked before the scan and, where a policy reads findings, after it.

use std::sync::Arc;

use base::{Json, Refusal, refusal};
use identity::Verified;
use policy::{Context, Principal, Slice};

use crate::judge::{Asker, Case};

/// The proof that no stop is in force, and that policy permits the call or that only a policy which reads findings can
/// say.
pub struct Permitted {
    pub(crate) asker: Asker,
    pub(crate) principal: Arc<Principal>,
    /// Absent for the gateway's own calls, which no policy is asked about, and for those that pass although policies refuse them.
    slice: Option<Arc<Slice>>,
    is_pending: bool,
}

impl Case<'_> {
    /// Asks the agent's state, the stops, and the policies that do not read findings.
    ///
    /// # Errors
    /// `agent.suspended`, `agent.revoked`, `agent.key_unknown`, `agent.key_expired`, `gate.stopped`, and the refusals of
    /// policy; `mcp.server_unknown` for a call of the gateway's own to what the configuration does not name.
    pub fn admit(&mut self, asker: Asker) -> Result<Permitted, Refusal> {
        let (lane, agent) = (self.call.action.lane, asker.agent());
        // A lane that recognises its callers by itself leaves their state to be asked here.
        agent.map_or(Ok(()), |verified| verified.agent().state.check())?;
        agent.map_or(Ok(()), |verified| self.gate.recognises(verified))?;
        agent.map_or(Ok(()), |verified| self.in_scope(verified))?;
        let name = agent.map(|verified| &verified.agent().name);
        self.gate.stops.borrow().check(lane.name, name)?;
        let principal = principal(&asker);
        if agent.is_none() {
            return match self.rules.is_configured(self.call.resource) {
                true => Ok(Permitted {
                    asker,
                    principal,
                    slice: None,
                    is_pending: false,
                }),
                false => Err(unknown()),
            };
        }
        let (slice, is_pending) = match self.permit(&principal) {
            Ok((slice, is_pending)) => (Some(slice), is_pending),
            Err(refusal) => {
                self.objects(refusal)?;
                (None, false)
            }
        };
        Ok(Permitted {
            asker,
            principal,
            slice,
            is_pending,
        })
    }

    /// Asks the policies that do not read findings.
    fn permit(&mut self, principal: &Arc<Principal>) -> Result<(Arc<Slice>, bool), Refusal> {
        let policies = &self.rules.policies;
        let slice = policies.slice(principal, self.call.action, self.call.resource)?;
        let admission = slice.admit(self.call.resource, &self.context())?;
        let is_pending = admission.pending || slice.has_late();
        self.trail
            .admitted(admission.policies, admission.attributes);
        if is_pending && !self.call.action.lane.is_scanned {
            // What a policy cannot see is absent, never empty.
            let public = "a policy that reads findings speaks of this, and the lane is not scanned";
            return Err(Refusal::new(refusal::FORBIDDEN, public));
        }
        Ok((slice, is_pending))
    }

    /// Asks the scopes of a token: one is the name of an action, or of a lane for all its actions.
    fn in_scope(&self, verified: &Verified) -> Result<(), Refusal> {
        let Some(scopes) = verified.scopes() else {
            return Ok(());
        };
        let (action, lane) = (self.call.action.name, self.call.action.lane.name);
        if scopes
            .iter()
            .any(|scope| **scope == *action || **scope == *lane)
        {
            return Ok(());
        }
        let refusal = Refusal::new(refusal::SCOPE, format!("the token has no scope {action}"));
        let trust = self.gate.ports.directory.trust();
        Err(match trust {
            Some(trust) => {
                let challenge = identity::recognise::scope_challenge(&trust, "", action);
                refusal.with_field("www-authenticate", challenge)
            }
            None => refusal,
        })
    }

    fn context(&self) -> Context<'_> {
        Context {
            method: self.call.method,
            peer: self.call.peer,
            unix_ms: self.now.unix_ms,
            arguments: self.call.arguments,
        }
    }

    /// Asks again, now that the findings are known. Costs nothing where no policy of the slice reads them.
    pub(crate) fn decide_late(&mut self, permitted: &Permitted) -> Result<(), Refusal> {
        let Some(slice) = permitted.slice.as_ref().filter(|_| permitted.is_pending) else {
            return Ok(());
        };
        let policies = slice.decide(self.call.resource, &self.context(), &self.trail.rules())?;
        self.trail.decided(policies);
        Ok(())
    }

    /// Asks all policies again about the arguments as the scan redacted them, because these are what is sent: a
    /// permit may depend on what was taken out.
    pub(crate) fn admit_redacted(
        &self,
        permitted: &Permitted,
        redacted: &[u8],
    ) -> Result<(), Refusal> {
        let Some(slice) = &permitted.slice else {
            return Ok(());
        };
        let unread = |_| Refusal::new(refusal::SECRET, "the arguments cannot be redacted");
        let params = Json::read(redacted).map_err(unread)?;
        let context = Context {
            arguments: params.root().get("arguments"),
            ..self.context()
        };
        slice.admit(self.call.resource, &context)?;
        if permitted.is_pending {
            slice.decide(self.call.resource, &context, &self.trail.rules())?;
        }
        Ok(())
    }
}

fn unknown() -> Refusal {
    Refusal::new(refusal::SERVER_UNKNOWN, "no such server is configured")
}

fn principal(asker: &Asker) -> Arc<Principal> {
    let groups = asker
        .agent()
        .map(|verified| verified.agent().groups.clone());
    Arc::new(Principal {
        name: asker.name(),
        groups: groups.unwrap_or_default(),
    })
}
