//! The status of a work item, and what may follow it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::serve::call::Problem;

use super::problem;

/// How far a work item is.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody works on it yet.
    #[default]
    Planned,
    /// Somebody works on it.
    Active,
    /// It cannot go on; `blocked_reason` says why.
    Blocked,
    /// It is done.
    Completed,
    /// It will not be done.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 5] = [
        Status::Planned,
        Status::Active,
        Status::Blocked,
        Status::Completed,
        Status::Cancelled,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Planned => "planned",
            Status::Active => "active",
            Status::Blocked => "blocked",
            Status::Completed => "completed",
            Status::Cancelled => "cancelled",
        }
    }

    /// The status of a word.
    pub fn of(word: &str) -> Option<Status> {
        Status::ALL
            .into_iter()
            .find(|status| status.as_str() == word)
    }

    /// Whether there is nothing more to do.
    pub fn is_over(self) -> bool {
        matches!(self, Status::Completed | Status::Cancelled)
    }

    /// What may follow.
    pub fn next(self) -> &'static [Status] {
        use Status::{Active, Blocked, Cancelled, Completed, Planned};
        match self {
            Planned => &[Active, Blocked, Completed, Cancelled],
            Active => &[Planned, Blocked, Completed, Cancelled],
            Blocked => &[Planned, Active, Cancelled],
            Completed => &[Active],
            Cancelled => &[Planned],
        }
    }

    /// Refuses what may not follow, and says what may.
    pub fn to(self, next: Status) -> Result<Status, Problem> {
        if self == next || self.next().contains(&next) {
            return Ok(next);
        }
        let may: Vec<&str> = self.next().iter().map(|next| next.as_str()).collect();
        Err(problem(
            "status_not_allowed",
            format!(
                "`status`: {} may not follow {}; what may is {}",
                next.as_str(),
                self.as_str(),
                may.join(", ")
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_change_says_what_may_follow() {
        for from in Status::ALL {
            assert_eq!(Status::of(from.as_str()), Some(from));
            for to in Status::ALL {
                let allowed = from.to(to);
                assert_eq!(allowed.is_ok(), from == to || from.next().contains(&to));
                if let Err(problem) = allowed {
                    assert_eq!(problem.code, "status_not_allowed");
                    assert!(
                        from.next()
                            .iter()
                            .all(|next| problem.message.contains(next.as_str()))
                    );
                }
            }
        }
        assert!(Status::Completed.to(Status::Planned).is_err());
        assert!(Status::Blocked.to(Status::Completed).is_err());
    }
}
