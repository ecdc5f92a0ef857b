//! Who is known, as a snapshot in memory that is replaced as a whole when the configuration changes.
//!
//! It holds the hashes of keys and never a key.

use std::collections::HashMap;
use std::sync::Arc;

use base::Digest;
use gate::ports::Directory;
use identity::Agent;

/// The agents of one configuration.
#[derive(Default)]
pub struct Agents {
    /// By the SHA-256 of their keys.
    by_key: HashMap<Digest, Arc<Agent>>,
    /// By the thumbprints of their keys.
    by_thumbprint: HashMap<Digest, Arc<Agent>>,
    epoch: u64,
}

impl Agents {
    /// An agent may have several keys. Where two agents give one key, the later wins; the configuration
    /// refuses that before it comes here.
    pub fn new(agents: impl Iterator<Item = (Digest, Arc<Agent>)>) -> Agents {
        let by_key: HashMap<_, _> = agents.collect();
        let thumbprints = by_key
            .iter()
            .map(|(key, agent)| (identity::thumbprint(key), Arc::clone(agent)));
        Agents {
            by_thumbprint: thumbprints.collect(),
            by_key,
            epoch: 0,
        }
    }

    /// The same agents, as the state of the directory that has this number.
    pub fn at_epoch(self, epoch: u64) -> Agents {
        Agents { epoch, ..self }
    }
}

impl Directory for Agents {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>> {
        self.by_key.get(key).cloned()
    }

    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>> {
        self.by_thumbprint.get(thumbprint).cloned()
    }
}

#[cfg(test)]
mod tests {
    use base::Name;

    use super::*;

    #[test]
    fn an_agent_is_found_by_any_of_its_keys_and_by_no_other() {
        let name = Name::new("dev").unwrap();
        let agent = Arc::new(Agent {
            name,
            groups: Vec::new(),
            state: identity::AgentState::Active,
            expires_unix_ms: None,
        });
        let keys = [Digest([1; 32]), Digest([2; 32])];
        let agents = Agents::new(keys.into_iter().map(|key| (key, Arc::clone(&agent))));
        for key in keys {
            assert_eq!(
                agents.agent_by_key(&key).map(|found| found.name.clone()),
                Some(agent.name.clone())
            );
            let thumbprint = identity::thumbprint(&key);
            assert!(agents.agent_by_thumbprint(&thumbprint).is_some());
            assert!(agents.agent_by_thumbprint(&key).is_none());
        }
        assert!(agents.agent_by_key(&Digest([3; 32])).is_none());
        assert!(Agents::default().agent_by_key(&keys[0]).is_none());
    }
}
