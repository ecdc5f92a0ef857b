//! The slices that were made, found again by agent, action and the resource's class.
//!
//! It exists because making a slice costs as much as several decisions, and the same few are asked for
//! again and again. Agents cannot make ever new ones, because a class holds nothing that they choose; agents
//! and classes are still bounded together by `SLICES_MAX`, and where a shard is full, one of its slices gives way.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use base::Action;
use base::limit::SLICES_MAX;

use crate::class::Class;
use crate::{Principal, Slice};

/// Threads that look up at once seldom meet in one of so many.
const SHARDS: usize = 64;

/// What calls have one slice.
pub(crate) struct SliceKey<'a> {
    pub(crate) principal: &'a Arc<Principal>,
    pub(crate) action: &'static Action,
    /// The resource's entity type.
    pub(crate) kind: &'static str,
    pub(crate) class: Class,
}

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
        key: SliceKey<'_>,
        make: impl FnOnce(SliceKey<'_>) -> Option<Slice>,
    ) -> Option<Arc<Slice>> {
        let hash = self.hash(&key);
        let shard = &self.shards[hash as usize % SHARDS];
        let known = shard
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&hash)
            .cloned();
        match known {
            Some(slice) if slice.is_of(&key) => Some(slice),
            _ => {
                let slice = Arc::new(make(key)?);
                let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
                if shard.len() >= SLICES_MAX / SHARDS && !shard.contains_key(&hash) {
                    let victim = shard.keys().next().copied();
                    victim.and_then(|victim| shard.remove(&victim));
                }
                shard.insert(hash, slice.clone());
                Some(slice)
            }
        }
    }

    /// Groups are left out: an agent whose groups changed gets a new slice in the place of the old one.
    fn hash(&self, key: &SliceKey<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key.principal.name.as_str().as_bytes());
        hasher.write_u8(0);
        hasher.write(key.action.name.as_bytes());
        hasher.write_u8(0);
        hasher.write(key.kind.as_bytes());
        for number in &key.class {
            hasher.write_u32(*number);
        }
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
