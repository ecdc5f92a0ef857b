//! All policies in force, and the slice of them that a call needs.
//!
//! It exists so that policies are checked once and asked often. A set that did not load is
//! [`Policies::broken`], which refuses everything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use base::{Action, Digest, Name, Target};
use cedar_policy::{
    Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression, Schema,
};
use sha2::{Digest as _, Sha256};

use crate::cache::Cache;
use crate::load::{self, Rule};
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
    digest: Digest,
    /// False where a text did not load: everything is refused.
    pub(crate) loaded: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) arguments: BTreeMap<String, ArgumentType>,
    pub(crate) parts: Parts,
    types: Types,
    cache: Cache,
}

impl Policies {
    /// Loads policy texts. `arguments` declares which arguments of tool calls policies may read.
    ///
    /// # Errors
    /// Every problem of every text: of syntax, of types, of names, and what Cedar's validator warns of.
    pub fn load(
        sources: &[Source<'_>],
        arguments: &BTreeMap<String, ArgumentType>,
    ) -> Result<Policies, Vec<Problem>> {
        let (schema, rules) = load::load(sources, arguments)?;
        Ok(Policies {
            digest: digest(sources, arguments),
            loaded: true,
            rules,
            arguments: arguments.clone(),
            types: Types::new(&schema),
            cache: Cache::new(),
            parts: Parts::default(),
        })
    }

    /// What is in force where the policies did not load: each call is refused with `policy.broken`.
    pub fn broken() -> Policies {
        let schema = load::schema(&BTreeMap::new()).expect("the schema without arguments is valid");
        Policies {
            digest: Digest(Sha256::digest(b"weir: broken policies").into()),
            loaded: false,
            rules: Vec::new(),
            arguments: BTreeMap::new(),
            types: Types::new(&schema),
            cache: Cache::new(),
            parts: Parts::default(),
        }
    }

    /// SHA-256 over the texts, their names, and the schema with the declared arguments.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many policies there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The policies that can matter to this call. Kept, so that the next such call finds it made.
    pub fn slice(&self, principal: &Arc<Principal>, action: Action, target: &Target) -> Arc<Slice> {
        self.cache.get(principal, action, target, || {
            let (uids, entities) = self.types.call(principal, action, target);
            let rules = self.select(&uids, &entities);
            let asked = (principal.clone(), action, target.clone());
            Slice::new(asked, uids, entities, &rules, self)
        })
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
        action: Action,
        target: &Target,
    ) -> (Uids, Entities) {
        self.types.call(principal, action, target)
    }

    #[cfg(test)]
    pub(crate) fn slices(&self) -> usize {
        self.cache.len()
    }
}

fn digest(sources: &[Source<'_>], arguments: &BTreeMap<String, ArgumentType>) -> Digest {
    let mut hash = Sha256::new();
    let schema = schema_text(arguments);
    let texts = sources.iter().flat_map(|source| [source.file, source.text]);
    for text in texts.chain([schema.as_str()]) {
        // The length first, so that no two lists of texts are the same bytes.
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    Digest(hash.finalize().into())
}

/// Names of the schema, parsed once.
struct Types {
    agent: EntityTypeName,
    group: EntityTypeName,
    server: EntityTypeName,
    tool: EntityTypeName,
    actions: HashMap<Action, Entity>,
}

impl Types {
    fn new(schema: &Schema) -> Types {
        let name = |text: &str| text.parse().expect("a type name of the schema");
        let all = schema
            .action_entities()
            .expect("the schema's actions have no cycle");
        let action = |action: &Action| {
            let uid =
                EntityUid::from_type_name_and_id(name("Action"), EntityId::new(action.as_str()));
            (
                *action,
                all.get(&uid).expect("the schema has every action").clone(),
            )
        };
        Types {
            agent: name("Agent"),
            group: name("Group"),
            server: name("Server"),
            tool: name("Tool"),
            actions: Action::ALL.iter().map(action).collect(),
        }
    }

    /// The entities of one call, and which of them it is by, of and on.
    fn call(&self, principal: &Principal, action: Action, target: &Target) -> (Uids, Entities) {
        let groups = principal
            .groups
            .iter()
            .map(|group| uid(&self.group, group.as_str()));
        let agent = principal.name.as_str();
        let agent = entity(
            uid(&self.agent, agent),
            &[("name", agent)],
            groups.collect(),
        );
        let name = target.server.as_str();
        let server = entity(uid(&self.server, name), &[("name", name)], HashSet::new());
        let action = self.actions[&action].clone();
        let mut uids = Uids {
            principal: agent.uid(),
            action: action.uid(),
            resource: server.uid(),
        };
        let mut entities = vec![agent, action, server];
        if uids.action.id().unescaped() == Action::McpCall.as_str() {
            let tool = target.tool.as_deref().unwrap_or_default();
            let id = uid(&self.tool, &format!("{name}/{tool}"));
            let parents = HashSet::from([uids.resource]);
            let tool = entity(id, &[("name", tool), ("server", name)], parents);
            uids.resource = tool.uid();
            entities.push(tool);
        }
        let entities = Entities::from_entities(entities, None);
        (
            uids,
            entities.expect("an agent, an action, a server and a tool are four entities"),
        )
    }
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn entity(uid: EntityUid, texts: &[(&str, &str)], parents: HashSet<EntityUid>) -> Entity {
    let text = |(name, text): &(&str, &str)| {
        (
            (*name).to_string(),
            RestrictedExpression::new_string((*text).into()),
        )
    };
    let attributes = texts.iter().map(text).collect();
    Entity::new(uid, attributes, parents).expect("a string evaluates to itself")
}
