//! The policies that can matter to one agent's one action on one class of resources, ready to be asked.
//!
//! It exists because asking all policies costs over 100 µs a call. What reads neither the context nor the resource
//! itself is answered when the slice is made; what reads findings is asked after the scan. It refuses where Cedar
//! goes on: a policy that cannot be evaluated refuses the call, since it may have been a `forbid`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::refusal::POLICY_BROKEN;
use base::{Action, Refusal, Resource};
use cedar_policy::{Authorizer, Decision, Effect, Entities, Request};

use crate::arguments::{self, Argument};
use crate::cache::SliceKey;
use crate::class::Class;
use crate::entities::Types;
use crate::load::Rule;
use crate::part::PolicyPart;
use crate::policies::refusal;
use crate::reads::Reads;
use crate::scope::Uids;
use crate::{ArgumentType, Context, Policies, Principal};

/// The policies of one kind of call.
pub struct Slice {
    principal: Arc<Principal>,
    action: &'static Action,
    kind: &'static str,
    class: Class,
    /// Of the resource that the slice was made for: it stands for all of its class.
    uids: Uids,
    /// Empty where no policy is left to ask: most slices are like that, and entities are large.
    entities: Entities,
    types: Arc<Types>,
    /// The ids of the policies that permit whatever the context and the resource, or why the call is refused.
    fixed: Result<Vec<String>, Denied>,
    /// Policies that have to be asked, but not those that read findings.
    early: Arc<PolicyPart>,
    /// Policies that have to be asked, with those that read findings.
    all: Arc<PolicyPart>,
    late: bool,
    late_permits: bool,
    /// A policy that has to be asked permits.
    may_permit: bool,
    /// Policies that have to be asked about the resource, and read nothing of the context.
    of_resource: Arc<PolicyPart>,
    /// Every declared argument, sorted by name: each is checked, whether or not a policy here reads it.
    declared: Vec<(String, ArgumentType)>,
    /// Those among them that a policy here reads.
    names: Vec<String>,
}

/// Why policies do not permit a call.
#[derive(Clone)]
enum Denied {
    Broken,
    /// For the agent, and what only the record keeps.
    Because(&'static str, String),
}

impl Denied {
    fn nothing_permits() -> Denied {
        Denied::Because("no policy permits it", String::new())
    }

    fn failed(private: String) -> Denied {
        Denied::Because("a policy cannot be evaluated", private)
    }
}

/// What policy says before the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The ids of the policies that permit, sorted.
    pub policies: Vec<String>,
    /// A policy that reads findings has still to be asked, with [`Slice::decide`].
    pub pending: bool,
    /// The arguments that policies read, as (name, JSON text), for the record.
    pub attributes: Vec<(String, String)>,
}

impl Slice {
    pub(crate) fn new(
        key: SliceKey<'_>,
        uids: Uids,
        entities: Entities,
        rules: &[&Rule],
        policies: &Policies,
    ) -> Slice {
        let those = |which: &dyn Fn(&Reads) -> bool| -> Vec<&Rule> {
            let rules = rules.iter().copied();
            rules.filter(|rule| which(&rule.reads)).collect()
        };
        let free = those(&|reads| !reads.any());
        let all = those(&Reads::any);
        let early = those(&|reads| reads.any() && !reads.late());
        let late = those(&Reads::late);
        let of_resource = those(&|reads| reads.any() && reads.attributes.is_empty());
        let permits = |rules: &[&Rule]| rules.iter().any(|rule| rule.effect == Effect::Permit);
        let part = policies.parts.of(&all);
        let declared = policies.arguments.iter();
        let declared = declared.map(|(name, kind)| (name.clone(), *kind)).collect();
        let mut slice = Slice {
            principal: Arc::clone(key.principal),
            action: key.action,
            kind: key.kind,
            class: key.class,
            uids,
            entities,
            types: Arc::clone(&policies.types),
            fixed: Err(Denied::Broken),
            early: policies.parts.of(&early),
            late: !late.is_empty(),
            late_permits: permits(&late),
            may_permit: permits(&all),
            of_resource: policies.parts.of(&of_resource),
            names: names(&part.reads, &policies.arguments),
            declared,
            all: part,
        };
        if policies.loaded {
            let free = policies.parts.of(&free);
            let asked = (&slice.uids, &slice.entities);
            slice.fixed = ask(&free, asked, cedar_policy::Context::empty());
        }
        if all.is_empty() {
            slice.entities = Entities::empty();
        }
        slice
    }

    /// Who asks.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Whether some call of this kind can pass: a policy permits it or may, depending on the context, and
    /// none forbids it whatever the context. A tool that is not listable is hidden.
    pub fn listable(&self, resource: &Resource) -> bool {
        let empty = cedar_policy::Context::empty;
        let more = match self.of_resource.set.is_empty() {
            true => Ok(Vec::new()),
            false => self.ask(&self.of_resource, resource, empty()),
        };
        let (Ok(fixed), Ok(more)) = (&self.fixed, more) else {
            return false;
        };
        !fixed.is_empty() || !more.is_empty() || self.may_permit
    }

    /// The names of the arguments that policies here read, sorted.
    pub fn arguments(&self) -> &[String] {
        &self.names
    }

    /// Whether a policy here reads findings.
    pub fn has_late(&self) -> bool {
        self.late
    }

    /// Asks the policies that need no findings.
    ///
    /// # Errors
    /// `policy.forbidden` where a policy forbids the call, none permits it, or one cannot be evaluated;
    /// `policy.argument_type` and `policy.argument_bound` where an argument cannot be judged;
    /// `policy.broken` where the policies did not load. The ids of forbidding policies are private.
    pub fn admit(&self, resource: &Resource, context: &Context<'_>) -> Result<Admission, Refusal> {
        let mut policies = self.fixed(resource)?;
        let arguments = self.arguments_of(context)?;
        if !self.early.set.is_empty() {
            policies.extend(self.ask_with(&self.early, resource, context, &arguments, None)?);
            policies.sort_unstable();
        }
        if policies.is_empty() && !self.late_permits {
            return Err(self.refusal(resource, Denied::nothing_permits()));
        }
        let attributes = arguments
            .iter()
            .map(|(name, argument)| (name.clone(), argument.json()));
        Ok(Admission {
            policies,
            pending: self.late,
            attributes: attributes.collect(),
        })
    }

    /// Asks every policy of the slice, with the ids of the scan's rules that matched. Gives the ids of
    /// the policies that permit, sorted.
    ///
    /// # Errors
    /// As [`Slice::admit`].
    pub fn decide(
        &self,
        resource: &Resource,
        context: &Context<'_>,
        findings: &[&str],
    ) -> Result<Vec<String>, Refusal> {
        let mut policies = self.fixed(resource)?;
        let arguments = self.arguments_of(context)?;
        if !self.all.set.is_empty() {
            policies.extend(self.ask_with(
                &self.all,
                resource,
                context,
                &arguments,
                Some(findings),
            )?);
            policies.sort_unstable();
        }
        if policies.is_empty() {
            Err(self.refusal(resource, Denied::nothing_permits()))
        } else {
            Ok(policies)
        }
    }

    pub(crate) fn is_of(&self, key: &SliceKey<'_>) -> bool {
        let who = key.principal;
        (Arc::ptr_eq(&self.principal, who) || self.principal == *who)
            && self.action == key.action
            && self.kind == key.kind
            && self.class == key.class
    }

    fn fixed(&self, resource: &Resource) -> Result<Vec<String>, Refusal> {
        let fixed = self.fixed.clone();
        fixed.map_err(|denied| self.refusal(resource, denied))
    }

    /// The arguments that policies here read, after every declared one was found to be of its type.
    fn arguments_of(&self, context: &Context<'_>) -> Result<Vec<(String, Argument)>, Refusal> {
        if !self.action.has_arguments {
            return Ok(Vec::new());
        }
        let mut arguments = arguments::read(&self.declared, context.arguments)?;
        arguments.retain(|(name, _)| self.names.binary_search(name).is_ok());
        Ok(arguments)
    }

    fn ask_with(
        &self,
        part: &PolicyPart,
        resource: &Resource,
        context: &Context<'_>,
        arguments: &[(String, Argument)],
        findings: Option<&[&str]>,
    ) -> Result<Vec<String>, Refusal> {
        let arguments = self.action.has_arguments.then_some(arguments);
        let context = context.cedar(self.action.lane, &part.reads, arguments, findings);
        context
            .map_err(Denied::failed)
            .and_then(|context| self.ask(part, resource, context))
            .map_err(|denied| self.refusal(resource, denied))
    }

    /// The context before the scan, for policies that read this.
    pub(crate) fn context(
        &self,
        reads: &Reads,
        context: &Context<'_>,
    ) -> Result<cedar_policy::Context, String> {
        let arguments = self
            .arguments_of(context)
            .map_err(|refusal| refusal.public)?;
        let arguments = self.action.has_arguments.then_some(arguments);
        context.cedar(self.action.lane, reads, arguments.as_deref(), None)
    }

    /// The ids of the policies that permit, or why the call is refused. What an opaque policy is asked about is the
    /// resource itself; the others cannot tell it from the one that the slice was made for.
    fn ask(
        &self,
        part: &PolicyPart,
        resource: &Resource,
        context: cedar_policy::Context,
    ) -> Result<Vec<String>, Denied> {
        if !part.reads.is_opaque {
            return ask(part, (&self.uids, &self.entities), context);
        }
        let entity = (self.action.entity)(resource);
        let call = entity.and_then(|of| self.types.call(&self.principal, self.action, &of));
        match call {
            Some((uids, entities)) => ask(part, (&uids, &entities), context),
            None => Err(Denied::failed(
                "the resource is not one of the action".into(),
            )),
        }
    }

    fn refusal(&self, resource: &Resource, denied: Denied) -> Refusal {
        match denied {
            Denied::Broken => Refusal::new(POLICY_BROKEN, "the policies cannot be read"),
            Denied::Because(public, private) => {
                refusal(&self.principal, self.action, resource, public).with_private(private)
            }
        }
    }
}

/// The ids of the policies that permit, or why the call is refused.
fn ask(
    part: &PolicyPart,
    (uids, entities): (&Uids, &Entities),
    context: cedar_policy::Context,
) -> Result<Vec<String>, Denied> {
    let Uids {
        principal,
        action,
        resource,
    } = uids.clone();
    let request = Request::new(principal, action, resource, context, None);
    let request = request.map_err(|error| Denied::failed(error.to_string()))?;
    let response = Authorizer::new().is_authorized(&request, &part.set, entities);
    let reasons = response.diagnostics().reason();
    let mut ids: Vec<String> = reasons.map(|id| AsRef::<str>::as_ref(id).into()).collect();
    ids.sort_unstable();
    let errors = response.diagnostics().errors();
    let errors: Vec<_> = errors.map(ToString::to_string).collect();
    if response.decision() == Decision::Deny && !ids.is_empty() {
        let private = format!("forbidden by {}", ids.join(", "));
        return Err(Denied::Because("a policy forbids it", private));
    }
    match errors.is_empty() {
        true => Ok(ids),
        false => Err(Denied::failed(errors.join("; "))),
    }
}

/// The names of the declared arguments that are read, sorted. A policy that reads another did not load.
fn names(reads: &Reads, declared: &BTreeMap<String, ArgumentType>) -> Vec<String> {
    let read = |name: &&String| reads.all_arguments || reads.arguments.contains(*name);
    declared.keys().filter(read).cloned().collect()
}
