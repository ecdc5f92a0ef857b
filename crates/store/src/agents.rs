//! Who is known, as a snapshot in memory that is replaced as a whole when the configuration changes.
//!
//! It holds the hashes of keys and never a key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::Digest;
use gate::ports::Directory;
use identity::Agent;

/// The agents of one configuration.
#[derive(Default)]
pub struct Agents {
    /// By the SHA-256 of their keys.
    by_key: HashMap<Digest, Arc<Agent>>,
    /// By the thumbprints of their keys and of their other credentials.
    by_thumbprint: HashMap<Digest, Arc<Agent>>,
    /// Ids of tokens that were taken back.
    revoked: HashSet<Digest>,
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
            revoked: HashSet::new(),
            epoch: 0,
        }
    }

    /// The same agents with credentials that are no keys of weir, by their digests: of a certificate, a public key, a
    /// subject of an issuer. They are found by thumbprint alone, so that none of them is taken for a key.
    #[must_use]
    pub fn with_credentials(
        mut self,
        credentials: impl Iterator<Item = (Digest, Arc<Agent>)>,
    ) -> Agents {
        let credentials = credentials.map(|(digest, agent)| (identity::thumbprint(&digest), agent));
        self.by_thumbprint.extend(credentials);
        self
    }

    /// The same agents, with these tokens taken back.
    #[must_use]
    pub fn with_revoked(self, revoked: impl Iterator<Item = Digest>) -> Agents {
        Agents {
            revoked: revoked.collect(),
            ..self
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

    fn is_revoked(&self, token: &Digest) -> bool {
        self.revoked.contains(token)
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
