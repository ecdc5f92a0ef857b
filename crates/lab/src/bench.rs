//! A server on a bench: started where it does not run yet, given a load, watched, and ended.
//!
//! Every experiment that measures servers of others stands on this. What it measures, and how often, is its own.

pub mod launch;
pub mod side;
