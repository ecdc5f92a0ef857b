//! Why a call would pass or not, policy by policy, for `weir policy explain`.
//!
//! It exists so that an operator sees more than the policies that decided: those that were looked at and
//! did not apply too. It is slow and plain, and it decides nothing: the decision is the slice's own.

use std::sync::Arc;

use base::{Action, Refusal, Resource};
use cedar_policy::{Authorizer, Effect, Entities, PolicySet, Request};

use crate::load::Rule;
use crate::scope::Uids;
use crate::{Context, Policies, Principal, Slice};

/// What came of it.
#[derive(Clone, Debug)]
pub enum Decision {
    Permitted,
    /// Permitted so far; the policies of [`Explanation::late`] are asked after the scan.
    AfterScan,
    Refused(Refusal),
}

/// A decision and its reasons. Lists hold the ids of policies, in the order in which they were loaded.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub decision: Decision,
    /// Satisfied `permit` policies.
    pub permitted: Vec<String>,
    /// Satisfied `forbid` policies.
    pub forbade: Vec<String>,
    /// In scope, with a condition that does not hold.
    pub unsatisfied: Vec<String>,
    /// In scope, and asked only after the scan, because they read findings.
    pub late: Vec<String>,
    /// Policies that could not be evaluated, with Cedar's message; each refuses the call.
    pub errors: Vec<(String, String)>,
}

impl Policies {
    /// Explains what [`Slice::admit`] says of a call.
    pub fn explain(
        &self,
        principal: &Arc<Principal>,
        action: &'static Action,
        resource: &Resource,
        context: &Context<'_>,
    ) -> Explanation {
        let slice = self.slice(principal, action, resource);
        let mut explanation = Explanation {
            decision: decision(&slice, resource, context),
            permitted: Vec::new(),
            forbade: Vec::new(),
            unsatisfied: Vec::new(),
            late: Vec::new(),
            errors: Vec::new(),
        };
        let entity = (action.entity)(resource);
        let call = entity.and_then(|entity| self.call(principal, action, &entity));
        let (Ok(slice), Some((uids, entities))) = (slice, call) else {
            return explanation;
        };
        for rule in self.select(&uids, &entities) {
            if rule.reads.late() {
                explanation.late.push(rule.id.clone());
                continue;
            }
            let context = slice.context(&rule.reads, context);
            match context.and_then(|context| satisfied(rule, &uids, &entities, context)) {
                Ok(true) if rule.effect == Effect::Permit => {
                    explanation.permitted.push(rule.id.clone());
                }
                Ok(true) => explanation.forbade.push(rule.id.clone()),
                Ok(false) => explanation.unsatisfied.push(rule.id.clone()),
                Err(error) => explanation.errors.push((rule.id.clone(), error)),
            }
        }
        explanation
    }
}

fn decision(
    slice: &Result<Arc<Slice>, Refusal>,
    resource: &Resource,
    context: &Context<'_>,
) -> Decision {
    let slice = slice.as_ref().map_err(Refusal::clone);
    match slice.and_then(|slice| slice.admit(resource, context)) {
        Ok(admission) if admission.pending => Decision::AfterScan,
        Ok(_) => Decision::Permitted,
        Err(refusal) => Decision::Refused(refusal),
    }
}

/// Whether one policy's condition holds, asked alone.
fn satisfied(
    rule: &Rule,
    uids: &Uids,
    entities: &Entities,
    context: cedar_policy::Context,
) -> Result<bool, String> {
    let Uids {
        principal,
        action,
        resource,
    } = uids.clone();
    let request = Request::new(principal, action, resource, context, None);
    let request = request.map_err(|error| error.to_string())?;
    let mut set = PolicySet::new();
    set.add(rule.policy.clone())
        .map_err(|error| error.to_string())?;
    let response = Authorizer::new().is_authorized(&request, &set, entities);
    match response.diagnostics().errors().next() {
        Some(error) => Err(error.to_string()),
        None => Ok(response.diagnostics().reason().next().is_some()),
    }
}
