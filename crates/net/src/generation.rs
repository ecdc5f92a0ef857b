//! Whether this machine goes on as another one: cloned, or restored from a snapshot.
//!
//! A hypervisor gives the machine a new generation then, and Linux tells all who listen by a uevent (`vmgenid`, from
//! 6.10 on). Listening needs no privilege, but the device, and a network namespace that the first user namespace owns.
//! It tells as soon as the kernel does, and no sooner: what the machine did between its resumption and that word was
//! done with what it remembered.

use std::io;
use std::os::unix::net as unix;

use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use tokio::net::UnixDatagram;

/// Uevents as the kernel sends them; those of group 2 are sent by udev.
const GROUP_KERNEL: u32 = 1;
/// What the kernel says of a new generation (drivers/virt/vmgenid.c).
const WORD: &[u8] = b"NEW_VMGENID=1";
/// Longest uevent: its variables have at most 2 KiB (UEVENT_BUFFER_SIZE), and a path stands before them.
const UEVENT_BYTES_MAX: usize = 8 << 10;

/// A listener for new generations of this machine. The socket is none of Unix, but one that is read as those are: the
/// runtime has no other name for a datagram socket without addresses.
#[derive(Debug)]
pub struct Generations(UnixDatagram);

impl Generations {
    /// Listens. Must be called on a thread that runs a runtime.
    ///
    /// # Errors
    /// The system does not let this process listen.
    pub fn listen() -> io::Result<Generations> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUP_KERNEL))?;
        let socket = UnixDatagram::from_std(unix::UnixDatagram::from(socket))?;
        Ok(Generations(socket))
    }

    /// Waits until there is a new generation, or until word of one may have been lost.
    ///
    /// # Errors
    /// The socket broke; nothing more will come.
    pub async fn changed(&self) -> io::Result<()> {
        let mut uevent = vec![0; UEVENT_BYTES_MAX];
        loop {
            match self.0.recv(&mut uevent).await {
                Ok(bytes) if tells(&uevent[..bytes]) => return Ok(()),
                Ok(_) => {}
                // There were more uevents than the socket holds: any of them may have been the one.
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

const ENOBUFS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();

/// Whether a uevent tells of a new generation: its variables follow its path, and each ends with a NUL.
fn tells(uevent: &[u8]) -> bool {
    uevent
        .split(|byte| *byte == 0)
        .skip(1)
        .any(|variable| variable == WORD)
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    #[test]
    fn only_the_word_itself_tells() {
        let path: &[u8] = b"change@/devices/platform/VMGENCTR:00\0ACTION=change\0";
        let with = |variables: &[u8]| [path, variables].concat();
        assert!(tells(&with(b"NEW_VMGENID=1\0SEQNUM=1234\0")));
        assert!(tells(&with(b"SEQNUM=1234\0NEW_VMGENID=1")));
        assert!(!tells(&with(b"SEQNUM=1234\0")));
        assert!(!tells(&with(b"NEW_VMGENID=10\0")));
        assert!(!tells(&with(b"NEW_VMGENID=0\0")));
        assert!(!tells(&with(b"SYNTH_ARG_NEW_VMGENID=1\0")));
        assert!(
            !tells(b"NEW_VMGENID=1\0ACTION=change\0"),
            "that is its path"
        );
        assert!(!tells(b""));
    }

    /// Where it may listen it waits, because no machine is cloned while its tests run.
    #[test]
    fn it_waits_where_it_may_listen() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        runtime.expect("a runtime").block_on(async {
            let Ok(generations) = Generations::listen() else {
                return;
            };
            let mut changed = std::pin::pin!(generations.changed());
            std::future::poll_fn(|context| {
                assert!(changed.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        });
    }
}
