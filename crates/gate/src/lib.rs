//! The one path: every call of every lane goes through [`Gate::pass`], and leaves a record.
//!
//! The gate asks identity, policy and scan, takes from limits, has the judgement written down, and only
//! then hands out a [`Passed`]. It opens no socket or file and reads no clock: all of that is a port.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod pass;

mod admit;
mod flood;
mod inspect;
mod pinned;
mod reserve;

mod grant;
mod passed;
mod stream;
mod trail;

pub mod ports;
mod reach;

pub use grant::{Ask, GRANT_BYTES_MAX, GRANT_CALLS_MAX, GRANT_MS_MAX, Grant, Under, Who};
pub use pass::{Call, Gate, Rules};
pub use passed::{Ending, Passed};
pub use reach::{Range, Reach};
pub use stream::Answer;
