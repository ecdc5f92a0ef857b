//! Some policies that are asked together, and what they read; one of each such set is kept.
//!
//! It exists because many agents share few sets of policies: without sharing, each slice of each agent
//! would hold the same ones again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base::limit::PARTS_MAX;
use cedar_policy::PolicySet;

use crate::load::Rule;
use crate::reads::Reads;

/// Some policies, and what they read.
#[derive(Default)]
pub(crate) struct PolicyPart {
    pub set: PolicySet,
    pub reads: Reads,
}

impl PolicyPart {
    fn of(rules: &[&Rule]) -> PolicyPart {
        let mut part = PolicyPart::default();
        for rule in rules {
            part.reads.merge(&rule.reads);
            let added = part.set.add(rule.policy.clone());
            added.expect("policies were given different ids when they were loaded");
        }
        part
    }
}

/// The sets made so far, by their rules' places in loading order.
#[derive(Default)]
pub(crate) struct Parts(Mutex<HashMap<Vec<u32>, Arc<PolicyPart>>>);

impl Parts {
    /// The set of these rules, the one that others have where there is one.
    pub(crate) fn of(&self, rules: &[&Rule]) -> Arc<PolicyPart> {
        let key: Vec<u32> = rules.iter().map(|rule| rule.index).collect();
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.get(&key) {
            return part.clone();
        }
        if parts.len() >= PARTS_MAX {
            parts.clear();
        }
        let part = Arc::new(PolicyPart::of(rules));
        parts.insert(key, part.clone());
        part
    }
}
