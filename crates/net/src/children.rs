//! Servers that weir runs: child processes that are spoken to in lines over their standard streams.
//!
//! No shell, no environment but the configured one, a process group of its own that is killed as a whole and
//! always reaped. A child that floods, stalls or hangs costs a bounded amount of memory and time. It is not
//! started again here: that is for whoever owns the session, with [`Backoff`].

mod backoff;
mod errors;
mod group;
mod input;
mod output;
mod spawn;

use std::path::PathBuf;

use base::{Name, Secret};

pub use backoff::Backoff;
pub use input::{ChildIn, SendLineError};
pub use output::{ChildOut, LineError};
pub use spawn::spawn;

/// What to run.
#[derive(Clone)]
pub struct Command {
    /// A path, or a name that is looked for in the gateway's own `PATH`.
    pub program: String,
    pub args: Vec<String>,
    /// The whole environment of the child.
    pub env: Vec<(String, Secret)>,
    /// The directory that it runs in; the gateway's own if none.
    pub dir: Option<PathBuf>,
    /// The target that the child is.
    pub name: Name,
    pub errors: Errors,
}

/// Where a child's standard error goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// To the gateway's log: cleaned, and within bounds.
    Log,
    /// To the gateway's own standard error, as it comes: for a child that stands in for the gateway.
    Ours,
}
