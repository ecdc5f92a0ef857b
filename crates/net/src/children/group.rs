//! The process group of a child: signalled as a whole.
//!
//! A process that leaves the group (`setsid`) is out of reach, as it would be for any supervisor without
//! cgroups.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};

/// A child's process group. Dropping it kills what is left of it, so that no child outlives its gateway's
/// threads. Right after the child was reaped this is safe: the kernel gives ids out in turn, so the number
/// does not belong to others yet.
pub(super) struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Group {
    pub(super) fn of(child: &tokio::process::Child) -> io::Result<Group> {
        let id = child.id().and_then(|id| Pid::from_raw(id as i32));
        id.map(Group)
            .ok_or_else(|| io::Error::other("the child has no process id"))
    }

    /// Asks every process of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends every process of the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The one error that can come is that the group has no process any more.
        let _ = kill_process_group(self.0, signal);
    }
}
