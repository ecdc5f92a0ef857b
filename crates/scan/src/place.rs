//! Where a text stands: which way it goes, through which lane, to which target, from which agent.

use crate::rule::Direction;

/// Where a text stands. What is not known is empty, and matches no setting that names it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub direction: Direction,
    /// The lane's name, such as `mcp`.
    pub lane: &'a str,
    /// What is asked of: a server's name, or a host.
    pub target: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// The wall clock, in seconds since 1970, for exemptions that expire. At 0 none is in force.
    pub now_s: u64,
}

impl From<Direction> for Place<'_> {
    fn from(direction: Direction) -> Self {
        Place {
            direction,
            lane: "",
            target: "",
            agent: "",
            now_s: 0,
        }
    }
}
