//! Memory that is given back: what an index was written with is not kept while it is only read.
//!
//! The allocator of glibc learns from a large block that was freed to keep such blocks: after some hundred megabytes of
//! writing, an idle server would have most of them still. It can be told to keep none, but only by the environment that a
//! process starts with, or by a call that is not safe. So the server starts itself anew, once, with two variables.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the allocator is told, as its manual names it (`mallopt(3)`): blocks of this many bytes are returned to the system
/// when they are freed, and threads share two pools.
const TOLD: [(&str, &str); 2] = [
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_ARENA_MAX", "2"),
];

/// Starts this program anew with the same arguments and an allocator that gives memory back; returns where that is so
/// already. To be called before there is any other thread.
///
/// # Errors
///
/// When it cannot be started anew. It can go on as it is.
pub fn give_back() -> io::Result<()> {
    let (first, _) = TOLD[0];
    if std::env::var_os(first).is_some() {
        return Ok(());
    }
    let mut args = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    Err(command.args(args).envs(TOLD).exec())
}
