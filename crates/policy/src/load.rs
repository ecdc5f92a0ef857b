//! From policy texts to rules: parsed, checked against the schema, named.
//!
//! It exists so that every problem is known at once, before anything is in force. It refuses what
//! Cedar's validator only warns of: a policy that can never apply is a mistake that somebody relies on.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use base::Lane;
use base::limit::{ARGUMENTS_DECLARED_MAX, POLICIES_MAX};
use cedar_policy::{Effect, Policy, PolicyId, PolicySet, Schema, ValidationMode, Validator};

use crate::class::Named;
use crate::problem::{Problem, position, say_meant_actions};
use crate::reads::Reads;
use crate::schema::{declarable, schema_text};
use crate::scope::Scope;
use crate::{ArgumentType, Source};

/// Characters of a policy's name.
const ID_CHARS_MAX: usize = 128;

/// One policy, with what slicing needs to know of it.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its place among all, from 0.
    pub index: u32,
    /// From `@id("…")`, else `file:line`.
    pub id: String,
    pub policy: Policy,
    pub scope: Scope,
    pub reads: Reads,
    pub effect: Effect,
}

/// All policies, checked, and what they name.
pub(crate) struct Loaded {
    pub schema: Schema,
    pub rules: Vec<Rule>,
    pub named: Named,
}

/// Loads every text, or says everything that is wrong.
pub(crate) fn load(
    lanes: &[&'static Lane],
    sources: &[Source<'_>],
    arguments: &BTreeMap<String, ArgumentType>,
) -> Result<Loaded, Vec<Problem>> {
    let schema = schema(lanes, arguments)?;
    let validator = Validator::new(schema.clone());
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    let mut named = Named::default();
    let mut seen = HashMap::new();
    for source in sources {
        for found in rules_of(source, &validator, &mut named, &mut problems) {
            let place = format!("{}:{}:{}", source.file, found.line, found.column);
            if let Some(first) = seen.insert(found.rule.id.clone(), place) {
                let message = format!("a policy at {first} is named {:?} too", found.rule.id);
                let problem = Problem {
                    file: source.file.into(),
                    line: found.line,
                    column: found.column,
                    message,
                    help: "give each policy an @id of its own".into(),
                };
                problems.push(problem);
            }
            let index = u32::try_from(rules.len()).unwrap_or(u32::MAX);
            rules.push(Rule {
                index,
                ..found.rule
            });
        }
    }
    if let Some(source) = sources.first().filter(|_| rules.len() > POLICIES_MAX) {
        let message = format!(
            "there are {} policies; at most {POLICIES_MAX} are",
            rules.len()
        );
        problems.push(Problem::at(source.file, source.text, 0, message));
    }
    say_meant_actions(&mut problems, lanes);
    if problems.is_empty() {
        Ok(Loaded {
            schema,
            rules,
            named,
        })
    } else {
        Err(problems)
    }
}

/// The schema of these lanes with these arguments.
pub(crate) fn schema(
    lanes: &[&'static Lane],
    arguments: &BTreeMap<String, ArgumentType>,
) -> Result<Schema, Vec<Problem>> {
    let problem = |message: String, help: &str| Problem {
        file: "policy.arguments".into(),
        line: 1,
        column: 1,
        message,
        help: help.into(),
    };
    let bad = arguments.keys().filter(|name| !declarable(name));
    let help = "use 1 to 64 visible ASCII characters, without \" and \\";
    let mut problems: Vec<_> = bad
        .map(|name| problem(format!("{name:?} cannot be declared"), help))
        .collect();
    if arguments.len() > ARGUMENTS_DECLARED_MAX {
        let message = format!("at most {ARGUMENTS_DECLARED_MAX} arguments can be declared");
        problems.push(problem(message, "declare only what policies read"));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    match Schema::from_cedarschema_str(&schema_text(lanes, arguments)) {
        Ok((schema, _)) => Ok(schema),
        Err(error) => Err(vec![problem(error.to_string(), "")]),
    }
}

/// A rule and where it stands.
struct LoadedRule {
    rule: Rule,
    line: usize,
    column: usize,
}

/// The rules of one text; what is wrong with it is added to the problems.
fn rules_of(
    source: &Source<'_>,
    validator: &Validator,
    named: &mut Named,
    problems: &mut Vec<Problem>,
) -> Vec<LoadedRule> {
    let Source { file, text } = *source;
    let set = match PolicySet::from_str(text) {
        Ok(set) => set,
        Err(errors) => {
            problems.extend(errors.iter().map(|error| Problem::of(file, text, error)));
            return Vec::new();
        }
    };
    for template in set.templates() {
        let offset = template.as_ref().loc().map_or(0, |loc| loc.start());
        let message = "a template has nothing to fill its slot with";
        let help = "write the policy out, with == or in and an entity";
        problems.push(Problem::at(file, text, offset, message).with_help(help));
    }
    let result = validator.validate(&set, ValidationMode::Strict);
    problems.extend(
        result
            .validation_errors()
            .map(|error| Problem::of(file, text, error)),
    );
    problems.extend(
        result
            .validation_warnings()
            .map(|warning| Problem::of(file, text, warning)),
    );
    let mut found = Vec::new();
    for policy in set.policies() {
        let offset = policy.as_ref().loc().map_or(0, |loc| loc.start());
        let (line, column) = position(text, offset);
        let id = policy
            .annotation("id")
            .map_or_else(|| format!("{file}:{line}"), Into::into);
        if id.is_empty() || id.chars().count() > ID_CHARS_MAX || id.contains(char::is_control) {
            let message = format!("the @id is not 1 to {ID_CHARS_MAX} printable characters");
            problems.push(Problem::at(file, text, offset, message));
        }
        found.push(LoadedRule {
            rule: rule(policy, id, named),
            line,
            column,
        });
    }
    found
}

fn rule(policy: &Policy, id: String, named: &mut Named) -> Rule {
    let scope = Scope::of(policy);
    let reads = match policy.to_json() {
        Ok(json) => {
            let mut reads = Reads::of(&json);
            reads.is_opaque |= !named.add(&scope, &json);
            reads
        }
        Err(_) => {
            let mut reads = Reads::default();
            reads.everything();
            reads
        }
    };
    let effect = policy.effect();
    Rule {
        index: 0,
        policy: policy.new_id(PolicyId::new(&id)),
        id,
        scope,
        reads,
        effect,
    }
}
