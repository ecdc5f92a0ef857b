//! The guard of a child: a small process between the gateway and a server, that ends what the server leaves behind.
//!
//! A process that leaves the server's group (`setsid`, a double fork) is still a descendant of the guard, because the
//! guard is a subreaper: orphans below it become its children. The guard ends the server and all descendants when the
//! server ends, and when its control socket is closed, which also happens when the gateway is killed. It is the same
//! program as the gateway, started again with [`GUARD`]; it reads and writes nothing of what the server says.
//!
//! The server ends when its guard is killed (`PR_SET_PDEATHSIG`). That mark is kept over `exec` but not over `fork`, so
//! the server is started by [`SERVER`]: a second run of the program that marks itself and becomes the server. What left
//! the server's group is out of reach when the guard itself is killed with SIGKILL.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use base::limit;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};

/// The first argument of a guard; the server's program and arguments follow.
pub(super) const GUARD: &str = "__guard";
/// The first argument of what becomes the server; the guard's process id and the same follow.
const SERVER: &str = "__server";
/// What the guard says over its control socket: the process id of the server.
pub(super) const STARTED: u8 = b'p';
/// The same: how the server ended, as `wait` tells it.
pub(super) const ENDED: u8 = b'e';
/// How often SIGKILL is sent to what is still there, in milliseconds: what was forked meanwhile is found then.
const AGAIN_MS: u64 = 20;
/// The stack of each of the guard's two threads, which call nothing deep.
const STACK_BYTES: usize = 128 << 10;
/// The exit codes of a server that is not there and of one that cannot be executed, as shells have them.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Does the work of a guard or of a server's start if the arguments of this process ask for it. A program that is given
/// as [`super::Command::guard`] calls this first of all.
pub fn run() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let work = match args.next()?.to_str()? {
        GUARD => guard,
        SERVER => become_server,
        _ => return None,
    };
    // Of a guard standard error is the server's, so this stands in the gateway's log.
    Some(work(args).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "the server cannot be started: {error}");
        ExitCode::from(match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        })
    }))
}

/// What a guard waits for.
enum Event {
    /// The server ended, with this status.
    Ended(i32),
    /// The guard has no children any more.
    Alone,
    /// The gateway asks for the end, or is gone.
    Asked,
}

fn guard(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let program = args.next().ok_or(io::ErrorKind::InvalidInput)?;
    // It was started from a path that tells nobody what it is.
    rustix::thread::set_name(c"weir-guard")?;
    // Looked up now: where there is no /proc, nothing could be ended later.
    processes()?;
    set_child_subreaper(Some(getpid()))?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let input = receive(&control)?;
    let server = Command::new(super::spawn::SELF)
        .args([SERVER, &getpid().to_string()])
        .arg(program)
        .args(args)
        .stdin(input)
        .process_group(0)
        .spawn()?;
    let server = Pid::from_raw(server.id().cast_signed()).ok_or(io::ErrorKind::InvalidData)?;
    // From here on only the server's processes hold the ends of its pipes.
    let nothing = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    tell(&control, STARTED, server.as_raw_pid());

    let (events, happened) = channel();
    let (asked, ended) = (events.clone(), events);
    let mut asking = control.try_clone()?;
    start(move || {
        // The gateway says nothing more: the next thing to read is the end.
        while matches!(asking.read(&mut [0]), Ok(1..)) {}
        let _ = asked.send(Event::Asked);
    })?;
    start(move || reap(server, &ended))?;
    if let Some(status) = watch(&happened) {
        tell(&control, ENDED, status);
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a thread. Where there is none to be had, the guard ends, and the server with it.
fn start(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(body).map(drop)
}

/// The server's standard input, which the gateway sends over the control socket.
fn receive(control: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(control, &mut bytes, &mut with, RecvFlags::CMSG_CLOEXEC)?;
    let sent = with.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sent) => sent.next(),
        _ => None,
    });
    sent.ok_or_else(|| io::Error::other("the gateway is gone"))
}

fn tell(mut control: &UnixStream, what: u8, number: i32) {
    let mut message = [what, 0, 0, 0, 0];
    message[1..].copy_from_slice(&number.to_le_bytes());
    // A gateway that is gone needs to know nothing.
    let _ = control.write_all(&message);
}

/// Waits for every child, also for orphans that became children of the guard, until there is none.
fn reap(server: Pid, events: &Sender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == server => {
                let _ = events.send(Event::Ended(status.as_raw()));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let _ = events.send(Event::Alone);
                return;
            }
        }
    }
}

/// Waits until the server ends or has to, and ends all that is below the guard. The server's status, if it ended.
fn watch(happened: &Receiver<Event>) -> Option<i32> {
    let mut status = None;
    match happened.recv() {
        Ok(Event::Ended(ended)) => status = Some(ended),
        Ok(Event::Asked) => {}
        Ok(Event::Alone) | Err(_) => return None,
    }
    signal_all(Signal::TERM);
    let grace = Instant::now() + Duration::from_millis(limit::CHILD_GRACE_MS);
    if alone(happened, grace, &mut status) {
        return status;
    }
    let last = Instant::now() + Duration::from_millis(limit::CHILD_KILL_MS_MAX);
    while Instant::now() < last {
        signal_all(Signal::KILL);
        let next = Instant::now() + Duration::from_millis(AGAIN_MS);
        if alone(happened, next, &mut status) {
            break;
        }
    }
    status
}

/// Waits until a time for the end of the last child. Whether it came.
fn alone(happened: &Receiver<Event>, until: Instant, status: &mut Option<i32>) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match happened.recv_timeout(left) {
            Ok(Event::Ended(ended)) => *status = Some(ended),
            Ok(Event::Asked) => {}
            Ok(Event::Alone) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// Signals every process below this one.
fn signal_all(signal: Signal) {
    let own = getpid().as_raw_pid();
    for pid in below(own, &processes().unwrap_or_default()) {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Every process below `root`; each process is given with its parent.
fn below(root: i32, processes: &[(i32, i32)]) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found
}

/// All processes, each with its parent.
fn processes() -> io::Result<Vec<(i32, i32)>> {
    let entries = std::fs::read_dir("/proc")?;
    let process = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        Some((pid, parent(&stat)?))
    };
    Ok(entries.flatten().filter_map(process).collect())
}

/// The parent that a line of `/proc/PID/stat` names: `PID (NAME) STATE PARENT …`, where the name may hold anything.
fn parent(stat: &[u8]) -> Option<i32> {
    let after = memchr::memrchr(b')', stat)? + 1;
    let rest = std::str::from_utf8(&stat[after..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Becomes the server, which ends when its guard is killed.
fn become_server(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let mut next = || args.next().ok_or(io::ErrorKind::InvalidInput);
    let (guard, program) = (next()?, next()?);
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A guard that was gone before the line above gives no signal.
    let parent = getppid().map(|parent| parent.as_raw_pid().to_string());
    if parent.as_deref() != guard.to_str() {
        return Err(io::Error::other("its guard is gone"));
    }
    Err(Command::new(program).args(args).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent(b"12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent(b"12 (a) R 1 (b) S 9 12"), Some(9));
        assert_eq!(parent(b"12 (\xff )) Z 3 12"), Some(3));
        for no_line in [&b""[..], b"12 (sh", b"12 (sh) S", b"12 (sh) S x 1"] {
            assert_eq!(parent(no_line), None);
        }
    }

    #[test]
    fn everything_below_is_found_and_nothing_else() {
        let processes = [
            (1, 0),
            (5, 4),
            (2, 1),
            (4, 2),
            (3, 1),
            (6, 5),
            (7, 7),
            (0, 0),
        ];
        assert_eq!(below(2, &processes), [4, 5, 6]);
        assert!(below(6, &processes).is_empty());
        // A process that is its own parent, as no kernel has it, does not keep the walk busy.
        assert_eq!(below(7, &processes), [7]);
    }
}
