//! Configuration: what the operator wrote, checked once, as values that the rest of the gateway can trust.
//!
//! [`file::File`] is what was written, each section read by the struct of whoever has it; [`Settings`] is made from it
//! and checked once. Every problem is collected with its file, line and help, so that one run shows all that has
//! to be mended. It refuses to guess: an unknown key, a literal secret, or a value out of its range is a
//! problem, never a warning.

mod a2a;
pub(crate) mod budgets;
pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod file;
pub(crate) mod identity;
pub(crate) mod listen;
mod llm;
mod mcp;
mod named;
mod outside;
pub(crate) mod read;
pub(crate) mod replicas;
mod runs;
pub(crate) mod seen;
pub(crate) mod settings;
mod tools;
mod toolsets;
pub(crate) mod values;
pub(crate) mod web;

pub(crate) use ::config::{FILE_BYTES_MAX, Problem, SECRET_BYTES_MAX};
pub(crate) use mcp::is_secret;
pub(crate) use read::{load, load_again};
pub(crate) use seen::Seen;
pub(crate) use settings::Settings;

/// Most bytes of a policy file.
pub(crate) const POLICY_BYTES_MAX: usize = 1 << 20;
