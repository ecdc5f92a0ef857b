//! A server on a bench: started where it does not run yet, put into a shape, given a load, watched, and ended.
//!
//! Every experiment that measures servers of others stands on this. What it measures, and how often, is its own.

pub mod asked;
pub mod deliver;
pub mod launch;
pub mod shape;
pub mod side;
pub mod stand;
