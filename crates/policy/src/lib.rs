//! May they: Cedar policies, loaded once, sliced by their scope, asked for each call.
//!
//! It exists so that what an agent may do is text that the operator wrote, checked against a schema when
//! it is loaded, with decisions that name the policies that made them. Nothing is permitted by default and
//! a `forbid` wins. It refuses to do I/O and to read a clock, and it refuses the call where a policy cannot
//! be evaluated or an argument is not of its declared type: it never leaves a policy out.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod arguments;
mod cache;
mod class;
mod context;
mod entities;
mod explain;
mod load;
mod mention;
mod part;
mod policies;
mod problem;
mod reads;
mod schema;
mod scope;
mod slice;
#[cfg(test)]
mod tests;

pub use context::Context;
pub use explain::{Decision, Explanation};
pub use mention::{Mention, mentions};
pub use policies::{Policies, Principal, Source};
pub use problem::Problem;
pub use schema::{ArgumentType, schema_text};
pub use slice::{Admission, Slice};
