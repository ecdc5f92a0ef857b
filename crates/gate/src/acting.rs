//! Calls that the gateway makes for an agent which is not there to show its key: the steps of its run.
//!
//! Example: the run `run-7f…` of the agent `dev` lists tools. Its lane finds an [`ActingFor`] in the request and no key, and asks
//! here whether the credential that began the run is still the agent's. A request of the network never has one: it is a
//! value of this process, and no field of HTTP.

use std::sync::Arc;

use base::{Digest, Name, Refusal};
use identity::{Credential, Verified};

use crate::call::Call;
use crate::gate::Gate;

/// Whose run a call is a step of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActingFor {
    pub agent: Name,
    /// Names the credential that began the run; see [`Verified::thumbprint`].
    pub thumbprint: Digest,
    /// The run's id, for records.
    pub run: Arc<str>,
}

impl Gate {
    /// Recognises the agent of a run again, by the credential that began it.
    ///
    /// # Errors
    /// `agent.key_unknown`, `agent.key_expired`, `agent.suspended` and `agent.revoked`.
    pub fn recall(&self, acting: &ActingFor) -> Result<Verified, Refusal> {
        let directory = &self.ports.directory;
        let epoch = directory.epoch();
        self.knows(&acting.agent, &acting.thumbprint)?;
        let unknown = || {
            let public = "the agent's key is not known any more";
            Refusal::new(base::refusal::KEY_UNKNOWN, public)
        };
        let agent = directory.agent_by_thumbprint(&acting.thumbprint);
        let agent = agent.filter(|agent| agent.name == acting.agent);
        let agent = agent.ok_or_else(unknown)?;
        let thumbprint = Some(acting.thumbprint);
        Ok(Verified::by_lane(agent, Credential::Key, thumbprint, epoch))
    }

    /// As [`Gate::verify`], for a step of a run.
    ///
    /// # Errors
    /// The refusal, which is recorded where its budget allows that.
    pub async fn verify_acting(
        &self,
        call: &Call<'_>,
        acting: &ActingFor,
    ) -> Result<Verified, Refusal> {
        let verified = match self.recall(acting) {
            Ok(verified) => verified,
            Err(refusal) => return Err(self.reject(None, call, refusal).await),
        };
        let now = self.ports.clock.now();
        match self.budget(&verified, call, now, true).await {
            Ok(()) => Ok(verified),
            Err(refusal) => Err(self.flooded(Some(&verified), call, refusal).await),
        }
    }
}
