//! The lanes of this gateway, each with its table of actions.

use base::{Action, Lane};

/// All lanes, in the order of the reference.
pub(crate) static ALL: &[&Lane] = &[&mcp::LANE, &relay::LANE];

/// Everything that agents can do.
pub(crate) fn actions() -> impl Iterator<Item = &'static Action> {
    ALL.iter().flat_map(|lane| lane.actions.iter().copied())
}

/// Those whose messages the scan reads.
pub(crate) fn scanned() -> impl Iterator<Item = &'static Lane> {
    ALL.iter().copied().filter(|lane| lane.is_scanned)
}
