//! What clients of the legacy era set for their sessions at the URL of many servers.
//!
//! A session is a sealed id: nothing is kept of one that set nothing. What is kept are the level of the log that a client chose,
//! and that it ended its session.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crate::era::CapabilitySet;
use crate::upstream::lock;

/// Sessions of which something is kept.
const KEPT_MAX: usize = 10_000;
/// The level of a session whose client chose none (MCP 2025-11-25, "Logging", leaves it to the server).
const LEVEL_DEFAULT: &str = "info";
/// The levels that there are, as RFC 5424 has them.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// A session, as its id says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetSession {
    /// Tells it from others of the process.
    pub(crate) number: String,
    /// What its client is capable of.
    pub(crate) can: CapabilitySet,
}

impl SetSession {
    /// What is sealed as its id.
    pub(super) fn inside(&self, process: &str) -> String {
        format!("{process}.{}.{}", self.number, self.can.bits())
    }

    /// The session whose id has that inside; nothing where it is one of another process.
    pub(super) fn of(inside: &str, process: &str) -> Option<SetSession> {
        let mut parts = inside.split('.');
        let (of, number, can) = (parts.next()?, parts.next()?, parts.next()?);
        let can = CapabilitySet::from_bits(can.parse().ok()?);
        let number = number.to_owned();
        (of == process).then_some(SetSession { number, can })
    }
}

/// What is kept of sessions, by their numbers.
#[derive(Default)]
pub(crate) struct SetSessions(Mutex<KeptSessions>);

#[derive(Default)]
struct KeptSessions {
    of: HashMap<String, SessionState>,
    /// The same numbers, the oldest first.
    order: VecDeque<String>,
}

#[derive(Default)]
struct SessionState {
    level: Option<&'static str>,
    is_ended: bool,
}

impl SetSessions {
    fn kept(&self) -> MutexGuard<'_, KeptSessions> {
        lock(&self.0)
    }

    fn change(&self, number: &str, change: impl FnOnce(&mut SessionState)) {
        let mut kept = self.kept();
        if !kept.of.contains_key(number) {
            if kept.order.len() >= KEPT_MAX
                && let Some(oldest) = kept.order.pop_front()
            {
                kept.of.remove(&oldest);
            }
            kept.order.push_back(number.to_owned());
        }
        change(kept.of.entry(number.to_owned()).or_default());
    }

    /// Sets the level of a session's log. Whether there is such a level.
    pub(super) fn set_level(&self, session: &SetSession, level: &str) -> bool {
        let level = LEVELS.into_iter().find(|known| *known == level);
        if level.is_some() {
            self.change(&session.number, |state| state.level = level);
        }
        level.is_some()
    }

    pub(super) fn level(&self, session: Option<&SetSession>) -> &'static str {
        let kept = self.kept();
        let state = session.and_then(|session| kept.of.get(&session.number));
        state.and_then(|state| state.level).unwrap_or(LEVEL_DEFAULT)
    }

    pub(super) fn end(&self, session: &SetSession) {
        self.change(&session.number, |state| state.is_ended = true);
    }

    pub(super) fn is_ended(&self, session: &SetSession) -> bool {
        let kept = self.kept();
        kept.of
            .get(&session.number)
            .is_some_and(|state| state.is_ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_what_its_client_made_of_it() {
        let sessions = SetSessions::default();
        let session = SetSession {
            number: "a1".into(),
            can: CapabilitySet::from_bits(9),
        };
        let inside = session.inside("p1");
        assert_eq!(SetSession::of(&inside, "p1").as_ref(), Some(&session));
        assert_eq!(SetSession::of(&inside, "p2"), None);
        assert_eq!(SetSession::of("p1", "p1"), None);
        assert_eq!(sessions.level(Some(&session)), "info");
        assert!(sessions.set_level(&session, "debug") && !sessions.set_level(&session, "loud"));
        assert_eq!(sessions.level(Some(&session)), "debug");
        assert!(!sessions.is_ended(&session));
        sessions.end(&session);
        assert!(sessions.is_ended(&session));
    }

    #[test]
    fn of_many_the_oldest_is_forgotten() {
        let sessions = SetSessions::default();
        let session = |number: usize| SetSession {
            number: number.to_string(),
            can: CapabilitySet::default(),
        };
        for number in 0..=KEPT_MAX {
            assert!(sessions.set_level(&session(number), "error"));
        }
        assert_eq!(sessions.level(Some(&session(0))), "info");
        assert_eq!(sessions.level(Some(&session(1))), "error");
        assert_eq!(sessions.kept().of.len(), KEPT_MAX);
    }
}
