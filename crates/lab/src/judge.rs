//! Judges a run: first whether its numbers mean anything, then whether they are good enough.
//!
//! A fast number from a generator at its limit, or from a machine that was busy with something else, is worse than
//! none, so validity comes before every threshold and has its own exit codes. Nothing is judged on a ramp, and a
//! metric without a sample is a breach: silence never passes.

mod metrics;
pub(crate) mod thresholds;
pub(crate) mod validity;

pub(crate) use self::thresholds::{Known, Threshold, judge};
pub(crate) use self::validity::{Claim, validity};
