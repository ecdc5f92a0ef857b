//! Configuration files: YAML with positions, read by serde into structs that say what a key is, with every problem at
//! once.
//!
//! A key is one field of one struct: its type reads and checks the value, its doc comment is the help and the
//! reference, its `Default` is the default. The struct belongs to whoever has the setting; there are no settings
//! here. Nothing here reads a file, a variable or a clock: [`Outside`] is asked.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

pub mod check;
pub mod document;
pub mod edit;
pub mod kinds;
pub mod map;
pub mod problem;
pub mod read;
pub mod schema;
pub mod show;
pub mod url;
pub mod yaml;

pub use check::{Check, Outside, PEM_BYTES_MAX, Pem, SECRET_BYTES_MAX, SecretsNeeded, one_line};
pub use document::Document;
pub use kinds::{
    Addresses, Count, Dollars, EnvValue, FileMode, FilePath, FileReference, Label, Listen,
    Reference, Switch, Text, Time, addresses, unix_ms,
};
pub use map::{ByArgument, ByItem, ByName, ByRule, ByVariable, List, Named, OneOr, OneOrMore};
pub use problem::{Path, Problem, Step};
pub use url::Url;

/// Not for use by hand: what the macros of this crate name.
#[doc(hidden)]
pub mod export {
    pub use {schemars, serde};
}

/// Largest configuration file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Most problems that are told at once; the rest would say nothing new.
pub const PROBLEMS_MAX: usize = 200;
