//! Which parts of the context a policy reads, and how it looks at the resource, found in its JSON form.
//!
//! It exists so that a call pays only for what its policies look at, and so that a policy that reads
//! findings is asked after the scan. Where the reading is not of a form known here, everything counts as
//! read: too much costs time, too little would be wrong.

use std::collections::BTreeSet;

use serde_json::Value;

/// The context attribute of declared arguments.
pub(crate) const ARGUMENTS: &str = "arguments";
/// The context attribute that exists after the scan.
pub(crate) const FINDINGS: &str = "findings";
/// What a call's context can hold.
pub(crate) const ATTRIBUTES: &[&str] = &["lane", "method", "peer", "at", ARGUMENTS, FINDINGS];

/// What of the context is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Attributes of the context.
    pub attributes: BTreeSet<&'static str>,
    /// Attributes of `context.arguments`, by name.
    pub arguments: BTreeSet<String>,
    /// `context.arguments` is used as a whole: every declared argument is read.
    pub all_arguments: bool,
    /// The resource is looked at in a way that its class does not tell (see [`crate::class`]), such as
    /// `resource.name == context.method`: the policy is asked about the resource itself.
    pub is_opaque: bool,
}

impl Reads {
    /// What a policy in its JSON form (Cedar's EST) reads.
    pub(crate) fn of(policy: &Value) -> Reads {
        let mut reads = Reads::default();
        match policy.get("conditions") {
            Some(conditions) => reads.walk(conditions),
            None => reads.everything(),
        }
        reads
    }

    /// Every part, for a policy that cannot be read.
    pub(crate) fn everything(&mut self) {
        self.attributes.extend(ATTRIBUTES);
        self.all_arguments = true;
        self.is_opaque = true;
    }

    pub(crate) fn merge(&mut self, other: &Reads) {
        self.attributes.extend(&other.attributes);
        self.arguments.extend(other.arguments.iter().cloned());
        self.all_arguments |= other.all_arguments;
        self.is_opaque |= other.is_opaque;
    }

    /// Whether it has to be asked for each call.
    pub(crate) fn any(&self) -> bool {
        !self.attributes.is_empty() || self.is_opaque
    }

    pub(crate) fn late(&self) -> bool {
        self.attributes.contains(FINDINGS)
    }

    fn walk(&mut self, value: &Value) {
        if let Some(path) = path(value) {
            return self.note(&path);
        }
        if is_told_by_class(value) {
            return;
        }
        self.is_opaque |= is_resource(value);
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.walk(field)),
            _ => {}
        }
    }

    /// Notes that this path from the context is read.
    fn note(&mut self, path: &[&str]) {
        let Some(first) = path.first() else {
            return self.everything();
        };
        let Some(known) = ATTRIBUTES.iter().find(|known| *known == first) else {
            return self.everything();
        };
        self.attributes.insert(known);
        if *known == ARGUMENTS {
            match path.get(1) {
                Some(name) => drop(self.arguments.insert((*name).into())),
                None => self.all_arguments = true,
            }
        }
    }
}

fn is_resource(value: &Value) -> bool {
    value.get("Var").is_some_and(|name| name == "resource")
}

/// `resource` or an attribute of it.
fn is_of_resource(value: &Value) -> bool {
    let left = value.get(".").and_then(|operand| operand.get("left"));
    is_resource(value) || left.is_some_and(is_resource)
}

/// A text or an entity, or a set of them, written out.
fn is_literal(value: &Value) -> bool {
    let is_set = |items: &Vec<Value>| items.iter().all(is_literal);
    let set = value.get("Set").and_then(Value::as_array);
    value.get("Value").is_some() || set.is_some_and(is_set)
}

/// Whether the expression is true or false alike for all resources of a class: `==`, `!=`, `in`, `is`, `has`, `like`
/// and `contains` between the resource or an attribute of it, and what is written out.
fn is_told_by_class(value: &Value) -> bool {
    let Some(fields) = value.as_object().filter(|fields| fields.len() == 1) else {
        return false;
    };
    let Some((operator, operand)) = fields.iter().next() else {
        return false;
    };
    let side = |key: &str| operand.get(key).unwrap_or(&Value::Null);
    let (left, right) = (side("left"), side("right"));
    match operator.as_str() {
        "==" | "!=" => {
            (is_of_resource(left) && is_literal(right))
                || (is_literal(left) && is_of_resource(right))
        }
        "in" => is_resource(left) && is_literal(right),
        "is" => is_resource(left) && operand.get("in").is_none_or(is_literal),
        "has" => is_resource(left),
        "like" => is_of_resource(left),
        "contains" => is_literal(left) && is_of_resource(right),
        _ => false,
    }
}

/// The attribute names from `context` on, if the expression is the context or an attribute of it:
/// `context`, `context.a`, `context.a.b`, `context has a`, `context.a has b`, `context has a.b`.
fn path(value: &Value) -> Option<Vec<&str>> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    let (operator, operand) = fields.iter().next()?;
    match (operator.as_str(), operand) {
        ("Var", Value::String(variable)) => (variable == "context").then(Vec::new),
        ("." | "has", operand) => {
            let mut names = path(operand.get("left")?)?;
            match operand.get("attr")? {
                Value::String(name) => names.push(name),
                Value::Array(more) => names.extend(more.iter().filter_map(Value::as_str)),
                _ => {}
            }
            Some(names)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    /// What a policy with this condition reads: attributes, arguments, and whether all of them.
    fn reads(condition: &str) -> (Vec<&'static str>, Vec<String>, bool) {
        let text = format!("permit(principal, action, resource) when {{ {condition} }};");
        let policy = cedar_policy::Policy::from_str(&text).unwrap();
        let reads = Reads::of(&policy.to_json().unwrap());
        let attributes = reads.attributes.into_iter().collect();
        (
            attributes,
            reads.arguments.into_iter().collect(),
            reads.all_arguments,
        )
    }

    #[test]
    fn reads_are_found_in_every_form() {
        let none: Vec<String> = vec![];
        let path = vec!["path".to_string()];
        assert_eq!(
            reads("principal.name == \"context\""),
            (vec![], none.clone(), false)
        );
        assert_eq!(
            reads("context.lane == \"mcp\""),
            (vec!["lane"], none.clone(), false)
        );
        assert_eq!(
            reads("context[\"at\"] > 5"),
            (vec!["at"], none.clone(), false)
        );
        let (args, found) = (vec!["arguments"], vec!["findings"]);
        assert_eq!(
            reads("context.arguments has path"),
            (args.clone(), path.clone(), false)
        );
        assert_eq!(
            reads("context has arguments.path"),
            (args.clone(), path.clone(), false)
        );
        assert_eq!(
            reads("context has arguments"),
            (args.clone(), none.clone(), true)
        );
        let like = "context[\"arguments\"][\"path\"] like \"*\"";
        assert_eq!(reads(like), (args.clone(), path.clone(), false));
        assert_eq!(reads("context.arguments == {}"), (args, none.clone(), true));
        assert_eq!(
            reads("context has findings"),
            (found.clone(), none.clone(), false)
        );
        assert_eq!(
            reads("!(context.findings.isEmpty())"),
            (found, none.clone(), false)
        );
        let nested = "if context.peer.isLoopback() then [context.at] == [1] else true";
        assert_eq!(reads(nested), (vec!["at", "peer"], none, false));
    }

    #[test]
    fn what_a_class_does_not_tell_is_opaque() {
        let opaque = |condition: &str| {
            let text = format!("permit(principal, action, resource) when {{ {condition} }};");
            let policy = cedar_policy::Policy::from_str(&text).unwrap();
            Reads::of(&policy.to_json().unwrap()).is_opaque
        };
        for told in [
            "resource.name == \"a\" || \"b\" != resource.name",
            "resource == Tool::\"s/t\" && resource in Server::\"s\"",
            "resource in [Server::\"s\", Server::\"t\"]",
            "resource is Tool in Server::\"s\" && resource is Tool",
            "!([\"a\", \"b\"].contains(resource.name))",
            "resource has name && resource.name like \"a*\"",
            "context.method == \"resource\"",
            "principal.name == \"resource\"",
        ] {
            assert!(!opaque(told), "{told}");
        }
        for other in [
            "resource.name == principal.name",
            "resource.name == context.method",
            "[resource.name].contains(\"a\")",
            "[\"a\", context.method].contains(resource.name)",
            "[\"a\"].containsAll([resource.name])",
            "(if resource.name like \"a*\" then resource else resource) == resource",
            "resource.name == (if true then \"a\" else \"b\")",
            "principal in resource",
            "context == {}",
        ] {
            assert!(opaque(other), "{other}");
        }
    }

    #[test]
    fn the_context_as_a_whole_is_everything() {
        for condition in [
            "context == {}",
            "[context].contains({})",
            "context has what",
        ] {
            let (attributes, _, all) = reads(condition);
            assert_eq!(
                (attributes.len(), all),
                (ATTRIBUTES.len(), true),
                "{condition}"
            );
        }
    }
}
