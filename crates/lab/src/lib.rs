//! The capacity lab: what a server carries, how it fails, and whether it changed, in numbers that repeat.
//!
//! The instrument must not share bugs with what it measures, so nothing of the gateway is used here but the
//! shared words of `base`. A run goes through the modules in this order: a scenario (or flags) is read, checked
//! into a plan, carried out by an engine on threads that share nothing, tallied in histograms, collected,
//! judged (valid first, fast second), and shown.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

pub mod exit;
pub mod experiments;

pub mod scenario;

pub mod plan;
pub mod schedule;
pub mod template;

pub mod collect;
pub mod engine;
pub mod tally;
pub mod watch;

mod ceilings;
mod interrupt;
mod judge;
mod origin;
pub mod result;
mod run;
pub mod stats;

pub mod bench;
pub mod facts;

pub mod output;
pub mod report;

pub mod target;
