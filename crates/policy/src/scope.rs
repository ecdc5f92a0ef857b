//! Whether a policy's scope can match a call: the slicing rule.
//!
//! It exists so that a call is judged by the few policies that can matter to it. It is sound: a policy
//! whose scope does not match is not satisfied, so leaving it out changes no decision. The same entities
//! answer `in` here and in the evaluation.

use cedar_policy::{
    ActionConstraint, Entities, EntityUid, Policy, PrincipalConstraint, ResourceConstraint,
};

/// A policy's scope, read once when it is loaded.
#[derive(Debug)]
pub(crate) struct Scope {
    principal: PrincipalConstraint,
    action: ActionConstraint,
    resource: ResourceConstraint,
}

impl Scope {
    pub(crate) fn of(policy: &Policy) -> Scope {
        Scope {
            principal: policy.principal_constraint(),
            action: policy.action_constraint(),
            resource: policy.resource_constraint(),
        }
    }

    pub(crate) fn resource(&self) -> &ResourceConstraint {
        &self.resource
    }

    /// Whether a call by, of and on these can be in scope.
    pub(crate) fn matches(&self, call: &Uids, entities: &Entities) -> bool {
        let is_in = |entity: &EntityUid, group: &EntityUid| {
            entity == group || entities.is_ancestor_of(group, entity)
        };
        let principal = &call.principal;
        let principal = match &self.principal {
            PrincipalConstraint::Any => true,
            PrincipalConstraint::Eq(uid) => uid == principal,
            PrincipalConstraint::In(uid) => is_in(principal, uid),
            PrincipalConstraint::Is(kind) => kind == principal.type_name(),
            PrincipalConstraint::IsIn(kind, uid) => {
                kind == principal.type_name() && is_in(principal, uid)
            }
        };
        let action = match &self.action {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(uid) => *uid == call.action,
            ActionConstraint::In(uids) => uids.iter().any(|uid| is_in(&call.action, uid)),
        };
        let resource = &call.resource;
        let resource = match &self.resource {
            ResourceConstraint::Any => true,
            ResourceConstraint::Eq(uid) => uid == resource,
            ResourceConstraint::In(uid) => is_in(resource, uid),
            ResourceConstraint::Is(kind) => kind == resource.type_name(),
            ResourceConstraint::IsIn(kind, uid) => {
                kind == resource.type_name() && is_in(resource, uid)
            }
        };
        principal && action && resource
    }
}

/// Who asks, for what, of what.
#[derive(Clone, Debug)]
pub(crate) struct Uids {
    pub principal: EntityUid,
    pub action: EntityUid,
    pub resource: EntityUid,
}
