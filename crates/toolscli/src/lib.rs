//! The command line of the MCP servers that weir ships: `weir tools` runs one, `weir code` asks the same index for
//! people, `weir flow` the same board.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod code;
mod flow;
mod tools;

use terminal::{Answer, Ended, Failure, print, remark};
use tokio::runtime::Runtime;

pub use code::Code;
pub use flow::Flow;
pub use tools::Tools;

/// A runtime of one thread.
fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::new(format!("a runtime: {error}"), ""))
}
