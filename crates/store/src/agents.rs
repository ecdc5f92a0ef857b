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
