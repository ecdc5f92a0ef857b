//! Is it safe: finds secrets and prompt injection in every text that crosses the gate.
//!
//! One pass drives one automaton of all literals over a folded view of the text; a rule's exact regular
//! expression runs only where one of its literals opened a span. What is encoded is decoded and scanned
//! again, within bounds, and a bound that is reached is an error. The crate does no I/O, reads no clock,
//! keeps nothing of what it saw but a keyed fingerprint, and decides nothing beyond the action that the
//! settings give a rule.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod patterns;
mod rule;
mod settings;

mod engine;

mod decode;
mod fold;
mod json;
mod layer;
mod words;

mod check;
mod report;

#[cfg(test)]
mod tests;

pub use engine::Engine;
pub use patterns::rules;
pub use report::{Bound, Finding, Report};
pub use rule::{Action, Class, Direction, Kind, Rule, Severity};
pub use settings::Settings;
