//! Stops: what an operator wants nothing to pass for, from now on and in what runs.
//!
//! Example: a stop of the agent `dev` refuses its next call, and ends its open streams when they next look
//! ([`crate::Passed::is_in_force`]) or are woken by [`crate::Gate::stops`].

use base::{Digest, Name, Refusal, refusal};

use crate::gate::Gate;

/// All stops that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Nothing passes.
    pub all: bool,
    /// Lanes, by their names.
    pub lanes: Vec<String>,
    pub agents: Vec<Name>,
}

impl Stops {
    /// Refuses what is stopped, with `gate.stopped`. `agent` is absent for the gateway's own calls, which only a stop of all ends, or of
    /// their lane.
    pub fn check(&self, lane: &str, agent: Option<&Name>) -> Result<(), Refusal> {
        let what = if self.all {
            "everything"
        } else if self.lanes.iter().any(|stopped| stopped == lane) {
            "this lane"
        } else if agent.is_some_and(|agent| self.agents.contains(agent)) {
            "this agent"
        } else {
            return Ok(());
        };
        let public = format!("the operator stopped {what}");
        Err(Refusal::new(refusal::STOPPED, public))
    }
}

impl Gate {
    /// Whether a session of this agent may stay open in a lane: no stop ends it, and the key with this thumbprint is
    /// still the agent's. Without a thumbprint only the stops are asked.
    ///
    /// # Errors
    /// What ends it, as [`crate::Passed::in_force`] says it of a call.
    pub fn lets_stay(
        &self,
        lane: &str,
        agent: &Name,
        thumbprint: Option<&Digest>,
    ) -> Result<(), Refusal> {
        self.stops.borrow().check(lane, Some(agent))?;
        thumbprint.map_or(Ok(()), |thumbprint| self.knows(agent, thumbprint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_of_all_of_a_lane_or_of_an_agent() {
        let name = |text: &str| Name::new(text).expect("a name");
        let (dev, eve) = (name("dev"), name("eve"));
        let none = Stops::default();
        let lane = Stops {
            lanes: vec!["relay".into()],
            ..Stops::default()
        };
        let agent = Stops {
            agents: vec![dev.clone()],
            ..Stops::default()
        };
        let all = Stops {
            all: true,
            ..Stops::default()
        };
        let passes =
            |stops: &Stops, lane: &str, agent: Option<&Name>| stops.check(lane, agent).is_ok();
        assert!(passes(&none, "mcp", Some(&dev)));
        assert!(passes(&lane, "mcp", Some(&dev)) && !passes(&lane, "relay", None));
        assert!(!passes(&agent, "mcp", Some(&dev)) && passes(&agent, "mcp", Some(&eve)));
        assert!(passes(&agent, "mcp", None) && !passes(&all, "mcp", None));
    }
}
