//! What to do about each rule in each place: the rules' defaults, what the operator changed, and what
//! was exempted.
//!
//! The narrower override wins: one of a rule over one of its class, then the one that names more of
//! direction, lane, target and agent, then the one that was set last.

use base::near;

use crate::patterns::rules;
use crate::place::Place;
use crate::rule::{Action, Class, Direction, Rule};
use crate::url::UrlRules;
use crate::values::Values;

/// What the operator decided. The default is each rule's own.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    overrides: Vec<Override>,
    exemptions: Vec<Exemption>,
    /// Rules of the operator's own, as [`crate::operator_rules`] gives them.
    pub rules: Vec<&'static Rule>,
    /// Their secrets and canaries.
    pub values: Option<Values>,
    /// What may be asked of the web.
    pub urls: UrlRules,
}

/// Where an override holds; what is absent holds everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    pub direction: Option<Direction>,
    pub lane: Option<String>,
    pub target: Option<String>,
    pub agent: Option<String>,
}

#[derive(Clone, Debug)]
struct Override {
    /// A rule's id, or a class.
    name: &'static str,
    scope: Scope,
    action: Action,
}

/// A finding that is known and may pass: one rule, for one target or agent, for a reason, for a time.
#[derive(Clone, Debug)]
pub struct Exemption {
    pub rule: String,
    pub target: Option<String>,
    pub agent: Option<String>,
    pub reason: String,
    /// Seconds since 1970.
    pub expires_s: u64,
}

impl Scope {
    fn holds(&self, place: &Place<'_>) -> bool {
        let same = |given: &Option<String>, here: &str| given.as_deref().is_none_or(|g| g == here);
        self.direction.is_none_or(|given| given == place.direction)
            && same(&self.lane, place.lane)
            && same(&self.target, place.target)
            && same(&self.agent, place.agent)
    }

    /// How much it names.
    fn width(&self) -> usize {
        usize::from(self.direction.is_some())
            + usize::from(self.lane.is_some())
            + 2 * usize::from(self.target.is_some())
            + 2 * usize::from(self.agent.is_some())
    }
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
        let scope = Scope {
            direction,
            ..Scope::default()
        };
        self.set_in(rule_or_class, scope, action)
    }

    /// The same for a part of all places. Errors: as [`Settings::set`].
    pub fn set_in(
        &mut self,
        rule_or_class: &str,
        scope: Scope,
        action: Action,
    ) -> Result<(), String> {
        let name = self.name(rule_or_class)?;
        self.overrides
            .retain(|old| (old.name, &old.scope) != (name, &scope));
        self.overrides.push(Override {
            name,
            scope,
            action,
        });
        Ok(())
    }

    /// Lets a known finding pass. Errors: a rule that is not, an exemption that names neither target nor
    /// agent, or one without a reason.
    pub fn exempt(&mut self, exemption: Exemption) -> Result<(), String> {
        self.name(&exemption.rule)?;
        if Class::ALL.iter().any(|c| c.as_str() == exemption.rule) {
            return Err("name one rule: a whole class is not exempted".to_owned());
        }
        if exemption.target.is_none() && exemption.agent.is_none() {
            return Err("name the target or the agent that it is for".to_owned());
        }
        if exemption.reason.trim().is_empty() {
            return Err("say the reason".to_owned());
        }
        self.exemptions.push(exemption);
        Ok(())
    }

    /// What to do about a rule in a place.
    pub fn action<'a>(&self, rule: &Rule, place: impl Into<Place<'a>>) -> Action {
        let place = place.into();
        let best = |name: &str| {
            let here = |given: &&Override| given.name == name && given.scope.holds(&place);
            let given = self.overrides.iter().filter(here);
            given
                .max_by_key(|given| given.scope.width())
                .map(|given| given.action)
        };
        best(rule.id)
            .or_else(|| best(rule.class.as_str()))
            .unwrap_or_else(|| rule.default_action(place.direction))
    }

    /// How many overrides hold for a target or an agent alone.
    pub fn overrides_of_some(&self) -> usize {
        let some = |given: &&Override| given.scope.target.is_some() || given.scope.agent.is_some();
        self.overrides.iter().filter(some).count()
    }

    /// How many exemptions are in force at a time, in seconds since 1970.
    pub fn exemptions_at(&self, now_s: u64) -> usize {
        let holds = |exemption: &&Exemption| now_s < exemption.expires_s;
        self.exemptions.iter().filter(holds).count()
    }

    /// The exemption that lets a finding of this rule pass here and now.
    pub(crate) fn exemption(&self, rule: &Rule, place: &Place<'_>) -> Option<&Exemption> {
        let same = |given: &Option<String>, here: &str| given.as_deref().is_none_or(|g| g == here);
        self.exemptions.iter().find(|exemption| {
            exemption.rule == rule.id
                && place.now_s != 0
                && place.now_s < exemption.expires_s
                && same(&exemption.target, place.target)
                && same(&exemption.agent, place.agent)
        })
    }

    /// Whether anything is done about a rule anywhere in a direction.
    pub(crate) fn looks_for(&self, rule: &Rule, direction: Direction) -> bool {
        let scoped = |given: &Override| {
            (given.name == rule.id || given.name == rule.class.as_str())
                && given.scope.direction.is_none_or(|d| d == direction)
                && given.action != Action::Off
        };
        self.action(rule, direction) != Action::Off || self.overrides.iter().any(scoped)
    }

    fn name(&self, given: &str) -> Result<&'static str, String> {
        let own = self.rules.iter().map(|rule| rule.id);
        let names = || names().chain(own.clone());
        names().find(|name| *name == given).ok_or_else(|| {
            let given: String = given.chars().take(64).collect();
            let nearest = names().min_by_key(|name| near::distance(name, &given));
            let nearest = nearest.expect("there are classes");
            format!("no rule or class is named so; the nearest is `{nearest}`")
        })
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Class::ALL
        .into_iter()
        .map(Class::as_str)
        .chain(rules().iter().map(|rule| rule.id))
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
