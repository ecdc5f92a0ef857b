//! The policies that can matter to one agent's one action on one target, ready to be asked.
//!
//! It exists because asking all policies costs over 100 µs a call. What does not read the context is
//! answered when the slice is made; what reads findings is asked after the scan. It refuses where Cedar
//! goes on: a policy that cannot be evaluated refuses the call, since it may have been a `forbid`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::refusal::{FORBIDDEN, POLICY_BROKEN};
use base::{Action, Refusal, Target};
use cedar_policy::{Authorizer, Decision, Effect, Entities, Request};

use crate::arguments::{self, Argument};
use crate::load::Rule;
use crate::part::Part;
use crate::reads::Reads;
use crate::scope::Uids;
use crate::{ArgumentType, Context, Policies, Principal};

/// The policies of one kind of call.
pub struct Slice {
    asked: Asked,
    uids: Uids,
    /// Empty where no policy is left to ask: most slices are like that, and entities are large.
    entities: Entities,
    /// What the policies say that do not read the context: the ids that permit, or a refusal.
    fixed: Result<Vec<String>, Refusal>,
    /// Policies that read the context, but not its findings.
    early: Arc<Part>,
    /// Policies that read the context, with those that read its findings.
    all: Arc<Part>,
    late: bool,
    late_permits: bool,
    listable: bool,
    /// Every declared argument, sorted by name: each is checked, whether or not a policy here reads it.
    declared: Vec<(String, ArgumentType)>,
    /// Those among them that a policy here reads.
    names: Vec<String>,
}

/// Who asks for what.
pub(crate) type Asked = (Arc<Principal>, Action, Target);

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
        asked: Asked,
        uids: Uids,
        entities: Entities,
        rules: &[&Rule],
        policies: &Policies,
    ) -> Slice {
        let late = |rule: &&&Rule| rule.reads.late();
        let all: Vec<&Rule> = rules
            .iter()
            .copied()
            .filter(|rule| rule.reads.any())
            .collect();
        let early: Vec<&Rule> = all
            .iter()
            .copied()
            .filter(|rule| !rule.reads.late())
            .collect();
        let free: Vec<&Rule> = rules
            .iter()
            .copied()
            .filter(|rule| !rule.reads.any())
            .collect();
        let permits = |rule: &&&Rule| rule.effect == Effect::Permit;
        let part = policies.parts.of(&all);
        let declared = policies.arguments.iter();
        let declared = declared.map(|(name, kind)| (name.clone(), *kind)).collect();
        let mut slice = Slice {
            asked,
            uids,
            entities,
            fixed: Ok(Vec::new()),
            early: policies.parts.of(&early),
            late: all.iter().any(|rule| late(&rule)),
            late_permits: all.iter().filter(late).any(|rule| permits(&rule)),
            listable: false,
            names: names(&part.reads, &policies.arguments),
            declared,
            all: part,
        };
        slice.fixed = match policies.loaded {
            false => Err(Refusal::new(POLICY_BROKEN, "the policies cannot be read")),
            true if slice.asked.1 == Action::McpCall && slice.asked.2.tool.is_none() => {
                Err(slice.refusal("no tool is named"))
            }
            true => {
                let free = policies.parts.of(&free);
                slice.ask(&free, cedar_policy::Context::empty())
            }
        };
        slice.listable = slice
            .fixed
            .as_ref()
            .is_ok_and(|fixed| !fixed.is_empty() || all.iter().any(|rule| permits(&rule)));
        if all.is_empty() {
            slice.entities = Entities::empty();
        }
        slice
    }

    /// Whether some call of this kind can pass: a policy permits it or may, depending on the context, and
    /// none forbids it whatever the context. A tool that is not listable is hidden.
    pub fn listable(&self) -> bool {
        self.listable
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
    pub fn admit(&self, context: &Context<'_>) -> Result<Admission, Refusal> {
        let mut policies = self.fixed.clone()?;
        let arguments = self.arguments_of(context)?;
        if !self.early.set.is_empty() {
            policies.extend(self.ask_with(&self.early, context, &arguments, None)?);
            policies.sort_unstable();
        }
        if policies.is_empty() && !self.late_permits {
            return Err(self.refusal("no policy permits it"));
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
    pub fn decide(&self, context: &Context<'_>, findings: &[&str]) -> Result<Vec<String>, Refusal> {
        let mut policies = self.fixed.clone()?;
        let arguments = self.arguments_of(context)?;
        if !self.all.set.is_empty() {
            policies.extend(self.ask_with(&self.all, context, &arguments, Some(findings))?);
            policies.sort_unstable();
        }
        if policies.is_empty() {
            Err(self.refusal("no policy permits it"))
        } else {
            Ok(policies)
        }
    }

    pub(crate) fn is_of(&self, who: &Arc<Principal>, action: Action, target: &Target) -> bool {
        let (principal, asked, on) = &self.asked;
        (Arc::ptr_eq(principal, who) || principal == who) && *asked == action && on == target
    }

    /// The arguments that policies here read, after every declared one was found to be of its type.
    fn arguments_of(&self, context: &Context<'_>) -> Result<Vec<(String, Argument)>, Refusal> {
        match self.asked.1 {
            Action::McpCall => {
                let mut arguments = arguments::read(&self.declared, context.arguments)?;
                arguments.retain(|(name, _)| self.names.binary_search(name).is_ok());
                Ok(arguments)
            }
            Action::McpList
            | Action::McpRead
            | Action::McpPrompt
            | Action::McpUse
            | Action::RelayPass => Ok(vec![]),
        }
    }

    fn ask_with(
        &self,
        part: &Part,
        context: &Context<'_>,
        arguments: &[(String, Argument)],
        findings: Option<&[&str]>,
    ) -> Result<Vec<String>, Refusal> {
        let arguments = (self.asked.1 == Action::McpCall).then_some(arguments);
        match context.cedar(&part.reads, arguments, findings) {
            Ok(context) => self.ask(part, context),
            Err(error) => Err(self
                .refusal("a policy cannot be evaluated")
                .with_private(error)),
        }
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
        let arguments = (self.asked.1 == Action::McpCall).then_some(arguments);
        context.cedar(reads, arguments.as_deref(), None)
    }

    /// The ids of the policies that permit, or the refusal of those that forbid or fail.
    fn ask(&self, part: &Part, context: cedar_policy::Context) -> Result<Vec<String>, Refusal> {
        let Uids {
            principal,
            action,
            resource,
        } = self.uids.clone();
        let request = Request::new(principal, action, resource, context, None);
        let request = request.map_err(|error| {
            self.refusal("a policy cannot be evaluated")
                .with_private(error.to_string())
        })?;
        let response = Authorizer::new().is_authorized(&request, &part.set, &self.entities);
        let mut ids: Vec<String> = response
            .diagnostics()
            .reason()
            .map(|id| AsRef::<str>::as_ref(id).into())
            .collect();
        ids.sort_unstable();
        let errors: Vec<_> = response
            .diagnostics()
            .errors()
            .map(ToString::to_string)
            .collect();
        if response.decision() == Decision::Deny && !ids.is_empty() {
            let private = format!("forbidden by {}", ids.join(", "));
            return Err(self.refusal("a policy forbids it").with_private(private));
        }
        if !errors.is_empty() {
            let private = errors.join("; ");
            return Err(self
                .refusal("a policy cannot be evaluated")
                .with_private(private));
        }
        Ok(ids)
    }

    /// A refusal that says what was asked and what came of it.
    fn refusal(&self, why: &str) -> Refusal {
        let (principal, action, target) = &self.asked;
        let tool = match (&target.tool, action) {
            (Some(tool), Action::McpCall) => format!("tool {tool:?} of "),
            _ => String::new(),
        };
        let (agent, action, server) = (&principal.name, action.as_str(), &target.server);
        let asked = format!("agent {agent} may not {action} on {tool}server {server}");
        Refusal::new(FORBIDDEN, format!("{asked}: {why}"))
    }
}

/// The names of the declared arguments that are read, sorted. A policy that reads another did not load.
fn names(reads: &Reads, declared: &BTreeMap<String, ArgumentType>) -> Vec<String> {
    let read = |name: &&String| reads.all_arguments || reads.arguments.contains(*name);
    declared.keys().filter(read).cloned().collect()
}
