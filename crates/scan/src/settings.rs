//! What to do about each rule in each direction: the rules' defaults, and what the operator changed.
//!
//! An override of a rule wins over one of its class, and one for a direction over one for all of them,
//! in whatever order they were set.

use crate::patterns::rules;
use crate::rule::{Action, Class, Direction, Rule};

/// Compiled overrides. The default is each rule's own.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    overrides: Vec<Override>,
}

#[derive(Clone, Debug, PartialEq)]
struct Override {
    name: &'static str,
    direction: Option<Direction>,
    action: Action,
}

impl Settings {
    /// Sets what to do about a rule, or about a class (`secret`, `injection`), in one direction or in all.
    ///
    /// Setting the same again replaces it. Errors: a name that is neither, with the nearest that is.
    pub fn set(
        &mut self,
        rule_or_class: &str,
        direction: Option<Direction>,
        action: Action,
    ) -> Result<(), String> {
        let Some(name) = names().find(|name| *name == rule_or_class) else {
            let nearest = names().min_by_key(|name| distance(name, rule_or_class));
            let nearest = nearest.expect("there are classes");
            return Err(format!(
                "no rule or class is named so; the nearest is `{nearest}`"
            ));
        };
        self.overrides
            .retain(|old| (old.name, old.direction) != (name, direction));
        self.overrides.push(Override {
            name,
            direction,
            action,
        });
        Ok(())
    }

    /// What to do about a rule in a direction.
    pub fn action(&self, rule: &Rule, direction: Direction) -> Action {
        let given = |name: &str, direction: Option<Direction>| {
            let same = |given: &&Override| given.name == name && given.direction == direction;
            self.overrides.iter().find(same).map(|given| given.action)
        };
        given(rule.id, Some(direction))
            .or_else(|| given(rule.id, None))
            .or_else(|| given(rule.class.as_str(), Some(direction)))
            .or_else(|| given(rule.class.as_str(), None))
            .unwrap_or_else(|| rule.default_action(direction))
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Class::ALL
        .into_iter()
        .map(Class::as_str)
        .chain(rules().iter().map(|rule| rule.id))
}

/// Edits between two names (Levenshtein), reading at most 64 characters of the one that was given.
fn distance(name: &str, given: &str) -> usize {
    let given: Vec<char> = given.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=given.len()).collect();
    for (i, a) in name.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in given.iter().enumerate() {
            let edited = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = edited.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[given.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_override_wins_whatever_the_order() {
        let rule = rules()
            .iter()
            .find(|rule| rule.id == "github_token")
            .unwrap();
        let mut settings = Settings::default();
        assert_eq!(settings.action(rule, Direction::Outgoing), Action::Refuse);
        settings
            .set("github_token", Some(Direction::Incoming), Action::Warn)
            .unwrap();
        settings.set("github_token", None, Action::Redact).unwrap();
        settings.set("secret", None, Action::Off).unwrap();
        assert_eq!(settings.action(rule, Direction::Incoming), Action::Warn);
        assert_eq!(settings.action(rule, Direction::Outgoing), Action::Redact);
        let other = rules().iter().find(|rule| rule.id == "jwt").unwrap();
        assert_eq!(settings.action(other, Direction::Outgoing), Action::Off);
        settings.set("secret", None, Action::Warn).unwrap();
        assert_eq!(settings.action(other, Direction::Outgoing), Action::Warn);
    }

    #[test]
    fn an_unknown_name_is_told_its_nearest() {
        let error = Settings::default()
            .set("github_tokn", None, Action::Off)
            .unwrap_err();
        assert!(error.contains("`github_token`"), "{error}");
    }
}
