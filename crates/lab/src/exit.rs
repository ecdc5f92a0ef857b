//! How a command of the lab ends: its exit codes, in one table.
//!
//! A script must tell "slow" from "not measured", so each verdict has a code of its own. 99 is k6's code for a
//! breached threshold, and 105 its code for an interrupted run.

pub use terminal::Failure;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; valid and within its thresholds.
    Pass,
    /// Wrong use, or a file, a target or a machine that the run cannot begin with.
    CannotRun,
    /// The run is too short to be judged.
    TooShort,
    /// The target was not brought to its limit, and the run claims what it carries.
    NotSaturated,
    /// The machine was busy with something else.
    NoisyHost,
    /// The generator was the limit, not the target.
    GeneratorBound,
    /// An answer was not what was sent, or one request was executed twice.
    Integrity,
    /// The comparison cannot tell, since blocks were dropped and fewer are left than were asked for.
    BlocksDropped,
    /// The comparison cannot tell, and `--strict` asks that it can.
    CannotTell,
    /// The comparison says worse.
    Worse,
    /// A threshold was breached.
    Threshold,
    /// Stopped in the middle; what was measured until then is written.
    Interrupted,
}

impl Exit {
    /// Every way to end, in the order of the codes.
    pub const ALL: &[Exit] = &[
        Exit::Pass,
        Exit::CannotRun,
        Exit::TooShort,
        Exit::NotSaturated,
        Exit::NoisyHost,
        Exit::GeneratorBound,
        Exit::Integrity,
        Exit::BlocksDropped,
        Exit::CannotTell,
        Exit::Worse,
        Exit::Threshold,
        Exit::Interrupted,
    ];

    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Pass => 0,
            Exit::CannotRun => 2,
            Exit::TooShort => 91,
            Exit::NotSaturated => 92,
            Exit::NoisyHost => 93,
            Exit::GeneratorBound => 94,
            Exit::Integrity => 95,
            Exit::BlocksDropped => 96,
            Exit::CannotTell => 97,
            Exit::Worse => 98,
            Exit::Threshold => 99,
            Exit::Interrupted => 105,
        }
    }

    /// What the code means, for the help and the reference page.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Pass => "done: valid, within its thresholds, not worse",
            Exit::CannotRun => {
                "could not be run: wrong use, a file, the target, or this machine's limits"
            }
            Exit::TooShort => "too short to be judged",
            Exit::NotSaturated => "the target was not brought to its limit",
            Exit::NoisyHost => "the machine was busy with something else",
            Exit::GeneratorBound => "the generator was the limit, not the target",
            Exit::Integrity => "an answer was not what was sent, or a request was executed twice",
            Exit::BlocksDropped => "the comparison cannot tell, because blocks were dropped",
            Exit::CannotTell => "the comparison cannot tell (with --strict)",
            Exit::Worse => "the comparison says worse",
            Exit::Threshold => "a threshold was breached",
            Exit::Interrupted => "interrupted; a partial result was written",
        }
    }
}

/// What each command of the lab returns.
pub type Ended = Result<Exit, Failure>;

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn codes_are_unique_and_rise() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
    }
}
