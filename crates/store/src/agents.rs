//! Who is known, as a snapshot in memory that is replaced as a whole when the configuration changes.
//!
//! It holds the hashes of keys and never a key.

use std::collections::HashMap;
use std::sync::Arc;

use base::Digest;
use gate::ports::Directory;
use identity::Agent;

/// The agents of one configuration, by the SHA-256 of their keys.
#[derive(Default)]
pub struct Agents(HashMap<Digest, Arc<Agent>>);

impl Agents {
    /// An agent may have several keys. Where two agents give one key, the later wins; the configuration
    /// refuses that before it comes here.
    pub fn new(agents: impl Iterator<Item = (Digest, Arc<Agent>)>) -> Agents {
        Agents(agents.collect())
    }
}

impl Directory for Agents {
    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>> {
        self.0.get(key).cloned()
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
            expires_unix_ms: None,
        });
        let keys = [Digest([1; 32]), Digest([2; 32])];
        let agents = Agents::new(keys.into_iter().map(|key| (key, Arc::clone(&agent))));
        for key in keys {
            assert_eq!(
                agents.agent_by_key(&key).map(|found| found.name.clone()),
                Some(agent.name.clone())
            );
        }
        assert!(agents.agent_by_key(&Digest([3; 32])).is_none());
        assert!(Agents::default().agent_by_key(&keys[0]).is_none());
    }
}
