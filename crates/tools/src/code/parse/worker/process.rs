//! One child, from outside: started with nothing, never waited for without end, ended when it is dropped.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use super::super::types::Parsed;
use super::{ANSWER_BYTES_MAX, Error, answer, wire};

/// A child that runs.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    frame: Vec<u8>,
    silence: Duration,
    files: usize,
}

/// How a child was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It ended.
    Died,
    /// It said nothing for too long.
    Silent,
    /// What it said is about no file that it was asked about.
    Lied,
}

impl Process {
    /// Starts a child and waits until it says what it is.
    pub(super) fn start(
        program: &Path,
        args: &[OsString],
        silence: Duration,
    ) -> Result<Process, Error> {
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::Start)?;
        let input = child.stdin.take().expect("its input is a pipe");
        let output = child.stdout.take().expect("its output is a pipe");
        let mut process = Process {
            child,
            input,
            output,
            frame: Vec::new(),
            silence,
            files: 0,
        };
        let apart = |fd: BorrowedFd<'_>| {
            fcntl_setfl(fd, OFlags::NONBLOCK).map_err(|error| Error::Start(error.into()))
        };
        apart(process.input.as_fd())?;
        apart(process.output.as_fd())?;
        let mut hello = [0; 8];
        process.read(&mut hello).map_err(|_| Error::NotAParser)?;
        if hello == wire::hello() {
            Ok(process)
        } else {
            Err(Error::NotAParser)
        }
    }

    /// How many files it was sent.
    pub(super) fn files(&self) -> usize {
        self.files
    }

    /// Parses files and adds what was made of each. After an error the next file is the one that did it.
    pub(super) fn parse(
        &mut self,
        files: &[(&str, &[u8])],
        parsed: &mut Vec<Parsed>,
    ) -> Result<(), Lost> {
        self.files += files.len();
        let mut frame = std::mem::take(&mut self.frame);
        wire::write(files, &mut frame);
        self.write(&frame)?;
        for (path, bytes) in files {
            let mut length = [0; 4];
            self.read(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            if length > ANSWER_BYTES_MAX {
                return Err(Lost::Lied);
            }
            frame.clear();
            frame.resize(length, 0);
            self.read(&mut frame)?;
            parsed.push(answer(&frame, path, bytes).ok_or(Lost::Lied)?);
        }
        // A large frame is not kept for small ones.
        if frame.capacity() <= super::BATCH_BYTES_MAX * 2 {
            self.frame = frame;
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Lost> {
        let end = Instant::now() + self.silence;
        while !bytes.is_empty() {
            match self.input.write(bytes) {
                Ok(0) => return Err(Lost::Died),
                Ok(count) => bytes = &bytes[count..],
                Err(error) => again(&error, self.input.as_fd(), PollFlags::OUT, end)?,
            }
        }
        Ok(())
    }

    fn read(&mut self, mut into: &mut [u8]) -> Result<(), Lost> {
        let end = Instant::now() + self.silence;
        while !into.is_empty() {
            match self.output.read(into) {
                Ok(0) => return Err(Lost::Died),
                Ok(count) => into = &mut into[count..],
                Err(error) => again(&error, self.output.as_fd(), PollFlags::IN, end)?,
            }
        }
        Ok(())
    }
}

/// Waits until a pipe is ready for another try, or it is `end`.
fn again(
    error: &io::Error,
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    end: Instant,
) -> Result<(), Lost> {
    match error.kind() {
        io::ErrorKind::Interrupted => return Ok(()),
        io::ErrorKind::WouldBlock => {}
        _ => return Err(Lost::Died),
    }
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Lost::Silent);
    }
    let left = Timespec::try_from(left).map_err(|_| Lost::Silent)?;
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&left)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(_) => Err(Lost::Died),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end, and waiting is at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
