//! The slices that were made, found again by agent, action and target.
//!
//! It exists because making a slice costs as much as several decisions, and the same few are asked for
//! again and again. It holds at most `SLICES_MAX`; where a shard is full, one of its slices gives way, so
//! that whoever asks for ever new tools costs time and no memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use base::limit::SLICES_MAX;
use base::{Action, Target};

use crate::{Principal, Slice};

/// Threads that look up at once seldom meet in one of so many.
const SHARDS: usize = 64;

/// Keyed hash to slice. Two keys of one hash take turns: a slice is used only if it is of this very call.
pub(crate) struct Cache {
    hasher: RandomState,
    shards: Vec<RwLock<HashMap<u64, Arc<Slice>>>>,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Cache {
            hasher: RandomState::new(),
            shards,
        }
    }

    /// The slice of this call; made if there is none.
    pub(crate) fn get(
        &self,
        principal: &Arc<Principal>,
        action: Action,
        target: &Target,
        make: impl FnOnce() -> Slice,
    ) -> Arc<Slice> {
        let hash = self.hash(principal, action, target);
        let shard = &self.shards[hash as usize % SHARDS];
        let known = shard
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&hash)
            .cloned();
        match known {
            Some(slice) if slice.is_of(principal, action, target) => slice,
            _ => {
                let slice = Arc::new(make());
                let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
                if shard.len() >= SLICES_MAX / SHARDS && !shard.contains_key(&hash) {
                    let victim = shard.keys().next().copied();
                    victim.and_then(|victim| shard.remove(&victim));
                }
                shard.insert(hash, slice.clone());
                slice
            }
        }
    }

    /// Groups are left out: an agent whose groups changed gets a new slice in the place of the old one.
    fn hash(&self, principal: &Principal, action: Action, target: &Target) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(principal.name.as_str().as_bytes());
        hasher.write_u8(0);
        hasher.write_u8(action as u8);
        hasher.write(target.server.as_str().as_bytes());
        hasher.write_u8(0);
        hasher.write(target.tool.as_deref().unwrap_or_default().as_bytes());
        hasher.finish()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().unwrap().len())
            .sum()
    }
}
