//! The processes of a child: ended as a whole.
//!
//! With a guard, that is the server and all its descendants, and the guard sees to it. Without one it is the process
//! group, and a process that leaves the group (`setsid`) is out of reach.

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process_group};

use super::guard;

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

/// The gateway's end of a guard's control socket. When it is closed, by whatever end of the gateway, the guard ends
/// its server.
pub(super) struct Control(UnixStream);

impl Control {
    /// A control socket, and the end of it that becomes the guard's standard input.
    pub(super) fn new() -> io::Result<(Control, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        // It is read when the guard has ended, and must not hold a thread up.
        ours.set_nonblocking(true)?;
        Ok((Control(ours), theirs.into()))
    }

    /// Gives the guard its server's standard input.
    pub(super) fn send(&self, input: &OwnedFd) -> io::Result<()> {
        let input = [input.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        with.push(SendAncillaryMessage::ScmRights(&input));
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(b"i")], &mut with, flags)?;
        Ok(())
    }

    /// Asks the guard to end its server and what is below it.
    pub(super) fn ask(&self) {
        // The one error that can come is that the guard is gone.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// How the server ended, of a guard that has ended. Where the guard was killed before it could say so, the server
    /// ended with it, and what is left of the server's group is killed.
    pub(super) fn ended(mut self, guard: io::Result<ExitStatus>) -> io::Result<ExitStatus> {
        let mut group = None;
        let mut message = [0; 5];
        while self.0.read_exact(&mut message).is_ok() {
            let [what, number @ ..] = message;
            let number = i32::from_le_bytes(number);
            match what {
                guard::ENDED => return Ok(ExitStatus::from_raw(number)),
                guard::STARTED => group = Pid::from_raw(number),
                _ => break,
            }
        }
        drop(group.map(Group));
        guard
    }
}
