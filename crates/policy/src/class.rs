//! What policies can tell resources apart by: the key of a slice.
//!
//! Agents choose what they ask for, so a slice for each resource would be a cache that they can flood. Two resources
//! are of one class where no policy can tell them apart. Example: with the one condition
//! `["read", "list"].contains(resource.name)`, the tools `read` and `list` of a server have a class each, and all its
//! other tools share one. A class is made of the entities, texts and patterns that policies name:
//!
//! - which entities that policies name are the resource or one of its ancestors,
//! - which texts that policies name are attributes of it,
//! - which patterns of policies (`like`) match attributes of it.
//!
//! A policy that looks at the resource in any other way is *opaque*; it is asked for each call, see [`Reads`].
//!
//! [`Reads`]: crate::reads::Reads

use std::collections::{HashMap, HashSet};

use base::Entity;
use cedar_policy::{EntityUid, ResourceConstraint};
use serde_json::Value;

use crate::scope::Scope;

/// Patterns beside which a policy with another one is opaque.
const PATTERNS_MAX: usize = 256;

/// The class of a resource: numbers of what it shares with policies, ascending in each of the three kinds.
pub(crate) type Class = Vec<u32>;

/// All that policies name.
#[derive(Default)]
pub(crate) struct Named {
    /// By entity type and id.
    entities: HashMap<String, HashMap<String, u32>>,
    texts: HashMap<String, u32>,
    patterns: Vec<Pattern>,
    seen: HashSet<Pattern>,
    numbers: u32,
    /// Whether all patterns of the policy that was added last found room.
    has_room: bool,
}

/// A pattern of Cedar's `like`: texts between wildcards.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pattern(Vec<Option<char>>);

impl Named {
    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Adds what a policy in its JSON form (Cedar's EST) names; false where there is no room for its patterns.
    pub(crate) fn add(&mut self, scope: &Scope, policy: &Value) -> bool {
        match scope.resource() {
            ResourceConstraint::Eq(uid)
            | ResourceConstraint::In(uid)
            | ResourceConstraint::IsIn(_, uid) => self.add_uid(uid),
            ResourceConstraint::Any | ResourceConstraint::Is(_) => {}
        }
        self.has_room = true;
        if let Some(conditions) = policy.get("conditions") {
            self.walk(conditions);
        }
        self.has_room
    }

    fn add_uid(&mut self, uid: &EntityUid) {
        let id: &str = uid.id().unescaped();
        self.add_entity(uid.type_name().to_string(), id.to_owned());
    }

    fn add_entity(&mut self, kind: String, id: String) {
        let number = self.number();
        let kind = self.entities.entry(kind).or_default();
        kind.entry(id).or_insert(number);
    }

    fn walk(&mut self, value: &Value) {
        if let Some((kind, id)) = entity(value) {
            return self.add_entity(kind.to_owned(), id.to_owned());
        }
        match value {
            Value::String(text) => {
                let number = self.number();
                self.texts.entry(text.clone()).or_insert(number);
            }
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            Value::Object(fields) => {
                if let Some(pattern) = fields.get("pattern").and_then(pattern) {
                    self.add_pattern(pattern);
                }
                fields.values().for_each(|field| self.walk(field));
            }
            _ => {}
        }
    }

    fn add_pattern(&mut self, pattern: Pattern) {
        if self.seen.contains(&pattern) {
            return;
        }
        if self.patterns.len() >= PATTERNS_MAX {
            self.has_room = false;
            return;
        }
        self.seen.insert(pattern.clone());
        self.patterns.push(pattern);
    }

    /// The class of a resource.
    pub(crate) fn class(&self, resource: &Entity<'_>) -> Class {
        let mut class = Class::with_capacity(8);
        self.ancestors(resource, &mut class);
        class.sort_unstable();
        class.dedup();
        for (_, text) in &resource.attributes {
            class.push(self.texts.get(&**text).copied().unwrap_or_default());
            for (i, pattern) in self.patterns.iter().enumerate() {
                if pattern.matches(text) {
                    // After the numbers of all texts, so that the two are never taken for each other.
                    class.push(self.numbers + 1 + i as u32);
                }
            }
        }
        class
    }

    fn ancestors(&self, entity: &Entity<'_>, class: &mut Class) {
        let named = self.entities.get(entity.kind);
        class.extend(named.and_then(|ids| ids.get(&*entity.id)));
        for parent in &entity.parents {
            self.ancestors(parent, class);
        }
    }
}

/// The type and id of an entity that stands in a policy's JSON form.
fn entity(value: &Value) -> Option<(&str, &str)> {
    let entity = value.get("__entity").unwrap_or(value).as_object()?;
    let known = entity.len() == 2;
    let text = |key: &str| entity.get(key).and_then(Value::as_str);
    text("type").zip(text("id")).filter(|_| known)
}

/// The pattern of a `like` in a policy's JSON form: `["Wildcard", {"Literal": "a"}, …]`.
fn pattern(value: &Value) -> Option<Pattern> {
    let mut pattern = Vec::new();
    for element in value.as_array()? {
        match element.get("Literal").and_then(Value::as_str) {
            Some(text) => pattern.extend(text.chars().map(Some)),
            None if element == "Wildcard" => pattern.push(None),
            None => return None,
        }
    }
    Some(Pattern(pattern))
}

impl Pattern {
    /// Whether the whole text matches, a wildcard standing for any characters or none.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut next) = (0, 0);
        // Where to go on if a wildcard has to take one character more: after it, and in the text.
        let mut again: Option<(usize, usize)> = None;
        loop {
            match self.0.get(next) {
                Some(None) => {
                    next += 1;
                    again = Some((next, at));
                }
                Some(Some(character)) if text.get(at) == Some(character) => {
                    next += 1;
                    at += 1;
                }
                None if at == text.len() => return true,
                _ => {
                    let Some((after, from)) = again.filter(|(_, from)| *from < text.len()) else {
                        return false;
                    };
                    again = Some((after, from + 1));
                    (next, at) = (after, from + 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use cedar_policy::Policy;

    use super::*;

    fn named(texts: &[&str]) -> Named {
        let mut named = Named::default();
        for text in texts {
            let policy = Policy::from_str(text).unwrap();
            assert!(named.add(&Scope::of(&policy), &policy.to_json().unwrap()));
        }
        named
    }

    fn tool<'a>(server: &'a str, tool: &'a str) -> Entity<'a> {
        Entity {
            id: format!("{server}/{tool}").into(),
            parents: vec![Entity::named("Server", server)],
            ..Entity::named("Tool", tool)
        }
    }

    #[test]
    fn what_no_policy_names_is_of_one_class() {
        let named = named(&[
            "permit(principal, action, resource in Server::\"files\")
             when { [\"read\", \"list\"].contains(resource.name) };",
            "forbid(principal, action, resource) when { resource.name like \"*write*\" };",
            "permit(principal, action, resource) when { resource == Tool::\"web/get\" };",
        ]);
        let class = |server, name| named.class(&tool(server, name));
        assert_eq!(class("files", "x1"), class("files", "x2"));
        assert_eq!(class("other", "x1"), class("third", "x2"));
        for other in [
            class("web", "x1"),
            class("files", "read"),
            class("files", "list"),
            class("files", "rewrite_it"),
        ] {
            assert_ne!(class("files", "x1"), other);
        }
        assert_ne!(class("files", "read"), class("files", "list"));
        assert_ne!(class("web", "get"), class("web", "x1"));
        assert_eq!(class("web", "write"), class("web", "a_write_b"));
    }

    #[test]
    fn a_pattern_matches_as_cedar_does() {
        let cases = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("*ab", "aab", true),
            ("*\\**", "x", false),
            ("*\\**", "x*y", true),
            ("é*", "é1", true),
        ];
        for (text, subject, is_match) in cases {
            let policy = format!(
                "permit(principal, action, resource) when {{ resource.name like \"{text}\" }};"
            );
            let named = named(&[&policy]);
            assert_eq!(
                named.patterns[0].matches(subject),
                is_match,
                "{text} {subject}"
            );
        }
    }
}
