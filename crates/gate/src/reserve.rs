//! Is there room: the agent's limit, taken before the record and given back if the call does not pass.

use base::{Now, Refusal, refusal};
use identity::Verified;

use crate::pass::Rules;
use crate::ports::{Counted, Ports};

/// The proof that a call was taken from the agent's limit. Dropped without [`Reserved::keep`], it gives
/// the call back.
pub(crate) struct Reserved<'a> {
    ports: &'a Ports,
    agent: Option<Counted>,
    per_minute: u32,
    now: Now,
}

pub(crate) fn reserve<'a>(
    ports: &'a Ports,
    rules: &Rules,
    verified: &Verified,
    now: Now,
) -> Result<Reserved<'a>, Refusal> {
    let agent = Counted::Agent(verified.agent().name.clone());
    let per_minute = rules.agent_per_minute;
    match ports.counters.take(&agent, per_minute, now) {
        Ok(()) => Ok(Reserved {
            ports,
            agent: Some(agent),
            per_minute,
            now,
        }),
        Err(retry_ms) => {
            let public = format!("this agent made more than {per_minute} calls a minute");
            Err(Refusal::new(refusal::LIMIT_AGENT, public).with_retry_ms(retry_ms))
        }
    }
}

impl Reserved<'_> {
    pub(crate) fn keep(mut self) {
        self.agent = None;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            self.ports
                .counters
                .give_back(&agent, self.per_minute, self.now);
        }
    }
}
