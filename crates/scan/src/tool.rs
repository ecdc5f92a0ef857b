//! Is this still the tool that was approved, and is it the one that its name says?
//!
//! A server can change a tool after people have looked at it, or name it so that it is taken for another.
//! Here a definition gets a digest, two definitions a readable difference, and a name its lookalikes. What
//! was approved is kept elsewhere: nothing here remembers a definition or decides whom to trust.

mod definition;
mod diff;
mod names;

pub use definition::{Definition, Unreadable, digest};
pub use diff::{Change, Word, diff, shown};
pub use names::{Likeness, Names};

use crate::engine::Engine;
use crate::patterns;
use crate::place::Place;
use crate::rule::{Action, Rule};

/// What can be wrong with a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Its definition is not the one that was approved.
    Changed,
    /// The scan refused its definition.
    Refused,
    /// Its name is like another's.
    Like(Likeness),
}

/// The rule that a tool meets, and what to do about it.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    pub rule: &'static Rule,
    pub action: Action,
}

impl Wrong {
    fn rule(self) -> &'static Rule {
        let id = match self {
            Wrong::Changed => "tool_changed",
            Wrong::Refused => "tool_refused",
            Wrong::Like(Likeness::Confusable | Likeness::Disguised) => "tool_lookalike",
            Wrong::Like(Likeness::Same) => "tool_shadowed",
            Wrong::Like(Likeness::Similar) => "tool_similar",
        };
        patterns::rule(id).expect("patterns/tools.toml has this rule")
    }
}

impl Engine {
    /// What to do about a tool of the server that the place names. Definitions come from servers, so the
    /// place's direction is that of descriptions.
    pub fn tool_is<'a>(&self, wrong: Wrong, place: impl Into<Place<'a>>) -> Judged {
        let rule = wrong.rule();
        let (action, _exempt) = self.decide(rule, false, &place.into());
        Judged { rule, action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Exemption, Settings};

    #[test]
    fn what_to_do_follows_the_settings() {
        let actions = |settings: &Settings, place: Place<'_>| {
            let engine = Engine::new(settings.clone(), [7; 32]);
            let like = [Likeness::Confusable, Likeness::Same, Likeness::Similar].map(Wrong::Like);
            [Wrong::Changed, like[0], like[1], like[2]]
                .map(|wrong| engine.tool_is(wrong, place).action)
        };
        let (refuse, warn) = (Action::Refuse, Action::Warn);
        let mut settings = Settings::default();
        let place = Place {
            lane: "mcp",
            target: "files",
            now_s: 5,
            ..Direction::Description.into()
        };
        assert_eq!(actions(&settings, place), [refuse, refuse, warn, warn]);
        let exemption = Exemption {
            rule: "tool_changed".into(),
            target: Some("files".into()),
            agent: None,
            reason: "its descriptions hold the date".into(),
            expires_s: 6,
        };
        settings.exempt(exemption).unwrap();
        settings.set("tool_shadowed", None, refuse).unwrap();
        assert_eq!(actions(&settings, place), [warn, refuse, refuse, warn]);
    }
}
