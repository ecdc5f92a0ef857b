//! The statistics of the lab: what a handful of noisy measurements allows us to say.
//!
//! Every verdict of the lab rests on these functions, so each one names its source and is held to numbers that
//! SciPy computed (the vectors in the tests; SciPy 1.17, NumPy 2.4, statsmodels 0.14). They are pure: no clock,
//! no file, and chance comes in as a seeded generator. They refuse to guess: where the samples do not suffice the
//! answer is `None`, never a number.

pub mod counts;
pub mod distributions;
pub mod drift;
pub mod holm;
pub mod interval;
pub mod knee;
pub mod line;
pub mod location;
pub mod margin;
pub mod power;
pub mod rank;
pub mod usl;
#[cfg(test)]
mod vectors;
