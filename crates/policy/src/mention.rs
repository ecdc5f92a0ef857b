//! Which entities a policy text names, and where: for whoever knows which there are.
//!
//! The schema says which kinds of entities there are, and nothing of their names: `Group::"enginers"` is as good to it as
//! `Group::"engineers"`. A text that does not parse names nothing here; [`crate::Policies::load`] says what is wrong with it.

use std::collections::HashSet;
use std::str::FromStr;

use cedar_policy::PolicySet;

use crate::Source;
use crate::problem::position;

/// The type of the entities that are actions, which the schema names one by one.
const ACTION: &str = "Action";

/// An entity that a policy names, told once for each policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Its type, such as `Group`.
    pub kind: String,
    pub name: String,
    /// Where it stands, from 1; the policy's own place where it is not written in the plain form `Group::"engineers"`.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// The entities that the policies of a text name, but for actions, in their order in the text; nothing where the text holds
/// no policy at all.
pub fn mentions(source: &Source<'_>) -> Option<Vec<Mention>> {
    let Ok(set) = PolicySet::from_str(source.text) else {
        return Some(Vec::new());
    };
    if set.is_empty() {
        return None;
    }
    let mut mentions = Vec::new();
    for policy in set.policies() {
        let span = policy
            .as_ref()
            .loc()
            .map_or(0..0, |loc| loc.start()..loc.end());
        let text = source.text.get(span.clone()).unwrap_or_default();
        let mut seen = HashSet::new();
        for entity in policy.entity_literals() {
            let kind = entity.type_name().to_string();
            if kind == ACTION || !seen.insert(entity.clone()) {
                continue;
            }
            let offset = span.start + text.find(&entity.to_string()).unwrap_or_default();
            let (line, column) = position(source.text, offset);
            mentions.push(Mention {
                kind,
                name: entity.id().unescaped().to_owned(),
                line,
                column,
            });
        }
    }
    mentions.sort_by_key(|mention| (mention.line, mention.column));
    Some(mentions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Vec<(String, usize, usize)>> {
        let file = "policy.cedar";
        let mentions = mentions(&Source { file, text })?;
        let shown = |one: Mention| (format!("{} {}", one.kind, one.name), one.line, one.column);
        Some(mentions.into_iter().map(shown).collect())
    }

    #[test]
    fn every_entity_is_told_with_its_place_and_actions_are_not() {
        let text = "// Who.\npermit (principal in Group::\"enginers\", action in Action::\"mcp\", resource)\n  \
                    when { resource in Server::\"fils\" || resource == Toolset :: \"desk\" };\n\
                    forbid (principal == Agent::\"a\\\"b\", action, resource in Server::\"fils\");\n";
        let found = of(text).unwrap();
        let wanted = [
            ("Toolset desk", 2, 1),
            ("Group enginers", 2, 22),
            ("Server fils", 3, 22),
            ("Agent a\"b", 4, 22),
            ("Server fils", 4, 57),
        ];
        let wanted = wanted.map(|(name, line, column)| (name.to_owned(), line, column));
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_text_without_a_policy_is_told_from_one_that_names_nothing() {
        assert_eq!(of("// Nothing yet.\n"), None);
        assert_eq!(of(""), None);
        assert_eq!(
            of("permit (principal, action, resource);"),
            Some(Vec::new())
        );
        assert_eq!(of("permit ("), Some(Vec::new()));
    }
}
