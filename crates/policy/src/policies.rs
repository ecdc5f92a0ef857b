//! All policies in force, and the slice of them that a call needs.
//!
//! It exists so that policies are checked once and asked often. A set that did not load is
//! [`Policies::broken`], which refuses everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::refusal::FORBIDDEN;
use base::{Action, Digest, Entity, Lane, Name, Refusal, Resource};
use cedar_policy::Entities;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::cache::{Cache, SliceKey};
use crate::class::Named;
use crate::entities::Types;
use crate::load::{self, Loaded, Rule};
use crate::part::Parts;
use crate::schema::schema_text;
use crate::scope::Uids;
use crate::{ArgumentType, Problem, Slice};

/// One policy file, read by the caller.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// As problems and unnamed policies show it.
    pub file: &'a str,
    pub text: &'a str,
}

/// Who asks: an agent's name and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: Name,
    pub groups: Vec<Name>,
}

/// The policies in force. Shared by all threads.
pub struct Policies {
    /// The texts and the schema, as one JSON text, and its SHA-256.
    text: String,
    digest: Digest,
    /// False where a text did not load: everything is refused.
    pub(crate) loaded: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) arguments: BTreeMap<String, ArgumentType>,
    pub(crate) parts: Parts,
    pub(crate) types: Arc<Types>,
    named: Named,
    cache: Cache,
}

impl Policies {
    /// Loads policy texts that speak of these lanes. `arguments` declares which arguments of calls policies may
    /// read.
    ///
    /// # Errors
    /// Every problem of every text: of syntax, of types, of names, and what Cedar's validator warns of.
    pub fn load(
        lanes: &[&'static Lane],
        sources: &[Source<'_>],
        arguments: &BTreeMap<String, ArgumentType>,
    ) -> Result<Policies, Vec<Problem>> {
        let Loaded {
            schema,
            rules,
            named,
        } = load::load(lanes, sources, arguments)?;
        let text = text(lanes, sources, arguments);
        Ok(Policies {
            digest: digest(&text),
            text,
            loaded: true,
            rules,
            arguments: arguments.clone(),
            types: Arc::new(Types::new(&schema, lanes)),
            named,
            cache: Cache::new(),
            parts: Parts::default(),
        })
    }

    /// What is in force where the policies did not load: each call is refused with `policy.broken`.
    pub fn broken(lanes: &[&'static Lane]) -> Policies {
        let schema = load::schema(lanes, &BTreeMap::new());
        let schema = schema.expect("the schema without arguments is valid");
        let text = "weir: broken policies".to_owned();
        Policies {
            digest: digest(&text),
            text,
            loaded: false,
            rules: Vec::new(),
            arguments: BTreeMap::new(),
            types: Arc::new(Types::new(&schema, lanes)),
            named: Named::default(),
            cache: Cache::new(),
            parts: Parts::default(),
        }
    }

    /// SHA-256 of [`Policies::text`].
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The texts with their names, and the schema with the declared arguments, as canonical JSON:
    /// `{"files":[{"file":…,"text":…}],"schema":…}`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many policies there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The policies that can matter to this call. Kept for all resources that policies cannot tell apart, so that
    /// the next such call finds it made.
    ///
    /// # Errors
    /// `policy.forbidden` where the resource is none that the action goes with.
    pub fn slice(
        &self,
        principal: &Arc<Principal>,
        action: &'static Action,
        resource: &Resource,
    ) -> Result<Arc<Slice>, Refusal> {
        let mismatch = || refusal(principal, action, resource, "it does not say of what");
        let entity = (action.entity)(resource).ok_or_else(mismatch)?;
        let key = SliceKey {
            principal,
            action,
            kind: entity.kind,
            class: self.named.class(&entity),
        };
        self.cache
            .get(key, |key| {
                let (uids, entities) = self.call(principal, action, &entity)?;
                let rules = self.select(&uids, &entities);
                Some(Slice::new(key, uids, entities, &rules, self))
            })
            .ok_or_else(mismatch)
    }

    /// The rules whose scope can match.
    pub(crate) fn select(&self, uids: &Uids, entities: &Entities) -> Vec<&Rule> {
        self.rules
            .iter()
            .filter(|rule| rule.scope.matches(uids, entities))
            .collect()
    }

    pub(crate) fn call(
        &self,
        principal: &Principal,
        action: &'static Action,
        resource: &Entity<'_>,
    ) -> Option<(Uids, Entities)> {
        self.types.call(principal, action, resource)
    }

    #[cfg(test)]
    pub(crate) fn slices(&self) -> usize {
        self.cache.len()
    }
}

/// A refusal that says what was asked and what came of it.
pub(crate) fn refusal(
    principal: &Principal,
    action: &Action,
    resource: &Resource,
    why: &str,
) -> Refusal {
    let asked = format!(
        "agent {} may not {} on {resource}: {why}",
        principal.name, action.name
    );
    Refusal::new(FORBIDDEN, asked)
}

fn text(
    lanes: &[&'static Lane],
    sources: &[Source<'_>],
    arguments: &BTreeMap<String, ArgumentType>,
) -> String {
    let files: Vec<_> = sources
        .iter()
        .map(|source| json!({ "file": source.file, "text": source.text }))
        .collect();
    json!({ "files": files, "schema": schema_text(lanes, arguments) }).to_string()
}

fn digest(text: &str) -> Digest {
    Digest(Sha256::digest(text).into())
}
