//! The heart: what happens to a call, from top to bottom.
//!
//! There is one judge for the calls of agents, the gateway's own, and grants. Each step takes the proof of the step
//! before ([`crate::judge`]). A step that cannot be done is a refusal, and so is a judgement that cannot be recorded:
//! the gate never acts unrecorded.

use std::sync::Arc;

use base::{Now, Refusal};
use identity::{KnownCallers, Presented, Recognised, Verified};

use crate::append::Decided;
use crate::call::Call;
use crate::gate::Gate;
use crate::judge::{Asker, Case};
use crate::passed::Passed;

impl Gate {
    /// **Who**: asked before the body of a request is read. A stranger is refused within the budget of strangers at its
    /// address; an agent that may not call, within its own. Both are recorded, the agent by its name.
    ///
    /// # Errors
    /// The refusal, which is recorded where its budget allows that.
    pub async fn verify(
        &self,
        call: &Call<'_>,
        presented: &Presented<'_>,
    ) -> Result<Verified, Refusal> {
        let now = self.ports.clock.now();
        let Recognised { verified, once } = match self.recognise(presented, now) {
            Ok(recognised) => recognised,
            Err(refusal) => return Err(self.turn_away(call, refusal).await),
        };
        let may_call = verified.check(now);
        let spent = self.budget(&verified, call, now, may_call.is_ok());
        if let Err(refusal) = spent.await {
            return Err(self.flooded(Some(&verified), call, refusal).await);
        }
        let may_call = match (may_call, once) {
            (Ok(()), Some(once)) => self.use_once(&once.id, once.until_unix_ms).await,
            (may_call, _) => may_call,
        };
        match may_call {
            Ok(()) => Ok(verified),
            Err(refusal) => Err(self.reject(Some(&verified), call, refusal).await),
        }
    }

    /// As [`Gate::verify`], for a client that its lane recognised itself and whose request is not judged afterwards, such as
    /// one of the token service: it spends the agent's budget, and a stop refuses it.
    ///
    /// # Errors
    /// The refusal, which is recorded where its budget allows that.
    pub async fn verify_client(
        &self,
        verified: Verified,
        call: &Call<'_>,
    ) -> Result<Verified, Refusal> {
        let now = self.ports.clock.now();
        let lane = call.action.lane.name;
        let may_call = verified
            .check(now)
            .and_then(|()| self.lets_stay(lane, &verified.agent().name, None));
        let spent = self.budget(&verified, call, now, may_call.is_ok());
        if let Err(refusal) = spent.await {
            return Err(self.flooded(Some(&verified), call, refusal).await);
        }
        match may_call {
            Ok(()) => Ok(verified),
            Err(refusal) => Err(self.reject(Some(&verified), call, refusal).await),
        }
    }

    /// Recognises who shows this, and records nothing. The state of the directory is read before it is asked.
    fn recognise(&self, presented: &Presented<'_>, now: Now) -> Result<Recognised, Refusal> {
        let directory = &self.ports.directory;
        let epoch = directory.epoch();
        let trust = directory.trust();
        let known = KnownCallers {
            by_key: &|key| directory.agent_by_key(key),
            by_thumbprint: &|name| directory.agent_by_thumbprint(name),
            is_revoked: &|id| directory.is_revoked(id),
            trust: trust.as_deref(),
            epoch,
            now_unix_ms: now.unix_ms,
        };
        identity::recognise(presented, &known)
    }

    /// **May they, is it safe, is there room, is it written down**: in this order.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub async fn pass(
        self: &Arc<Self>,
        verified: Verified,
        call: Call<'_>,
    ) -> Result<Passed, Refusal> {
        self.judge(Asker::Agent(verified), call).await
    }

    /// A call of the gateway's own, by the agent `weir`: only to what the configuration names, with nothing of an
    /// agent's in it, and recorded like any other.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub async fn own(self: &Arc<Self>, call: Call<'_>) -> Result<Passed, Refusal> {
        self.judge(Asker::Gateway, call).await
    }

    pub(crate) async fn judge(
        self: &Arc<Self>,
        asker: Asker,
        call: Call<'_>,
    ) -> Result<Passed, Refusal> {
        let mut case = Case::new(self, &asker, call);
        match steps(&mut case, asker).await {
            Ok(decided) => case.append(decided).await,
            Err(refusal) => Err(case.refuse(refusal).await),
        }
    }
}

/// The steps before the record.
async fn steps(case: &mut Case<'_>, asker: Asker) -> Result<Decided, Refusal> {
    let permitted = case.admit(asker)?;
    let approved = case.approve(permitted)?;
    let scanned = case.inspect(approved)?;
    let reserved = case.reserve(scanned).await?;
    case.decide(reserved).await
}
