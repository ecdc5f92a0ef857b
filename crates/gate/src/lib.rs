//! The one path: every call of every lane goes through one judge, and leaves a record.
//!
//! The gate asks identity, policy and scan, takes from limits, has the judgement written down, and only
//! then hands out a [`Passed`]. It opens no socket or file and reads no clock: all of that is a port.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod pass;

pub mod judge;

mod admit;
mod append;
mod inspect;
mod pinned;
mod reserve;

mod acting;
mod again;
mod budget;
mod flow;
mod grant;
mod passed;
mod stream;

mod call;
mod flood;
mod gate;
pub mod ports;
mod reach;
mod rules;
mod stop;
mod trail;

pub use acting::ActingFor;
pub use budget::{Budget, BudgetScope, NANOS_PER_DOLLAR, Price, TokenPrices};
pub use call::{Call, ContentPart, Cost, PartContent, Repeat, Role};
pub use flow::Channel;
pub use gate::Gate;
pub use grant::{GRANT_BYTES_MAX, GRANT_CALLS_MAX, GRANT_MS_MAX, Grant, GrantedCall};
pub use judge::{Asker, Case, Scanned};
pub use passed::{CallEnding, Passed, Sight};
pub use reach::Reach;
pub use reserve::Reservation;
pub use rules::{Rates, Rules};
pub use stop::Stops;
pub use stream::Answer;
