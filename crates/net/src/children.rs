//! Servers that weir runs: child processes that are spoken to in lines over their standard streams.
//!
//! No shell, no environment but the configured one, a guard that ends all that is left of the child, also when the
//! gateway is killed. A child that floods, stalls or hangs costs a bounded amount of memory and time. It is not
//! started again here: that is for whoever owns the session, with [`Backoff`].

mod backoff;
mod errors;
mod group;
mod guard;
mod input;
mod output;
mod spawn;

use std::path::PathBuf;

use base::{Name, Secret};

pub use backoff::Backoff;
pub use guard::run as run_guard;
pub use input::{ChildIn, SendLineError};
pub use output::{ChildOut, LineError};
pub use spawn::{find, spawn};

/// The guard that is this very program, also where its file was replaced since it was started.
pub const OWN_GUARD: &str = spawn::SELF;

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
    /// The program that stands guard over the child, which calls [`run_guard`] first of all. Without one only the
    /// child's process group is ended, and only by a gateway that lives.
    pub guard: Option<PathBuf>,
}

/// Where a child's standard error goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// To the gateway's log: cleaned, and within bounds.
    Log,
    /// To the gateway's own standard error, as it comes: for a child that stands in for the gateway.
    Ours,
}
