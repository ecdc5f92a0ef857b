//! The Cedar entities of a call: the agent with its groups, the action, the resource with its ancestors.

use std::collections::{HashMap, HashSet};

use base::{Action, Lane};
use cedar_policy::{
    Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression, Schema,
};

use crate::Principal;
use crate::scope::Uids;

/// Names of the schema, parsed once.
pub(crate) struct Types {
    agent: EntityTypeName,
    group: EntityTypeName,
    /// Of resources, as the lanes name them.
    kinds: HashMap<String, EntityTypeName>,
    actions: HashMap<&'static str, Entity>,
}

impl Types {
    pub(crate) fn new(schema: &Schema, lanes: &[&'static Lane]) -> Types {
        let name = |text: &str| text.parse().expect("a type name of the schema");
        let all = schema
            .action_entities()
            .expect("the schema's actions have no cycle");
        let action = |action: &&'static Action| {
            let id = EntityId::new(action.name);
            let uid = EntityUid::from_type_name_and_id(name("Action"), id);
            let entity = all.get(&uid).expect("a lane's schema has its actions");
            (action.name, entity.clone())
        };
        let kinds = schema.entity_types();
        Types {
            agent: name("Agent"),
            group: name("Group"),
            kinds: kinds.map(|kind| (kind.to_string(), kind.clone())).collect(),
            actions: lanes
                .iter()
                .flat_map(|lane| lane.actions.iter())
                .map(action)
                .collect(),
        }
    }

    /// The entities of one call, and which of them it is by, of and on. Nothing where the policies were loaded
    /// without the action's lane.
    pub(crate) fn call(
        &self,
        principal: &Principal,
        action: &'static Action,
        resource: &base::Entity<'_>,
    ) -> Option<(Uids, Entities)> {
        let groups = principal.groups.iter();
        let groups = groups.map(|group| uid(&self.group, group.as_str()));
        let name = principal.name.as_str();
        let agent = entity(
            uid(&self.agent, name),
            [("name", name)].into_iter(),
            groups.collect(),
        );
        let action = self.actions.get(action.name)?.clone();
        let mut entities = Vec::with_capacity(5);
        let uids = Uids {
            principal: agent.uid(),
            action: action.uid(),
            resource: self.add(resource, &mut entities)?,
        };
        entities.extend([agent, action]);
        // The same ancestor may be reached by two ways.
        let mut seen = HashSet::new();
        entities.retain(|entity| seen.insert(entity.uid()));
        let entities = Entities::from_entities(entities, None);
        Some((uids, entities.expect("different entities without a cycle")))
    }

    /// Adds a resource and its ancestors.
    fn add(&self, resource: &base::Entity<'_>, to: &mut Vec<Entity>) -> Option<EntityUid> {
        let own = uid(self.kinds.get(resource.kind)?, &resource.id);
        let mut parents = HashSet::new();
        for parent in &resource.parents {
            parents.insert(self.add(parent, to)?);
        }
        let attributes = resource.attributes.iter();
        let attributes = attributes.map(|(name, text)| (*name, &**text));
        to.push(entity(own.clone(), attributes, parents));
        Some(own)
    }
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn entity<'t>(
    uid: EntityUid,
    texts: impl Iterator<Item = (&'static str, &'t str)>,
    parents: HashSet<EntityUid>,
) -> Entity {
    let text = |(name, text): (&'static str, &str)| {
        let value = RestrictedExpression::new_string(text.into());
        (name.to_string(), value)
    };
    let attributes = texts.map(text).collect();
    Entity::new(uid, attributes, parents).expect("a string evaluates to itself")
}
