//! A child's standard output, line by line.
//!
//! It is read only when somebody asks for the next line, so a child that floods is held back by its own pipe.
//! A line over the bound is skipped without being kept. A last line without a newline is dropped: a child that
//! dies in the middle of a message has not said it.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

use base::limit;
use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::oneshot;

use super::input::Exit;

/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// The reading end of a child. Dropping it ends the child.
pub struct ChildOut {
    stdout: Option<ChildStdout>,
    buffer: BytesMut,
    /// Bytes of the buffer that hold no newline.
    searched: usize,
    /// A line over the bound is being skipped.
    skipping: bool,
    line_bytes_max: usize,
    listening: Option<oneshot::Sender<()>>,
    exit: Exit,
}

/// Why there is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// A line was over the bound and was skipped; the next one may be well.
    TooLong,
    /// The child ended. Nothing comes after this.
    Exited(Option<ExitStatus>),
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::TooLong => f.write_str("a line of the server is too long"),
            LineError::Exited(Some(status)) => write!(f, "the server ended: {status}"),
            LineError::Exited(None) => f.write_str("the server ended"),
        }
    }
}

impl std::error::Error for LineError {}

pub(super) fn new(
    stdout: ChildStdout,
    line_bytes_max: usize,
    listening: oneshot::Sender<()>,
    exit: Exit,
) -> ChildOut {
    ChildOut {
        stdout: Some(stdout),
        buffer: BytesMut::new(),
        searched: 0,
        skipping: false,
        line_bytes_max,
        listening: Some(listening),
        exit,
    }
}

impl ChildOut {
    /// The next line, without its newline (or CR LF). `None` after [`LineError::Exited`].
    ///
    /// Safe to drop and call again: nothing that was read is lost.
    pub async fn next(&mut self) -> Option<Result<Bytes, LineError>> {
        loop {
            if let Some(line) = self.line() {
                return Some(line);
            }
            if self.stdout.is_none() {
                self.listening.take()?;
                return Some(Err(LineError::Exited(self.status())));
            }
            if !self.read().await {
                self.stdout = None;
                (self.buffer, self.searched) = (BytesMut::new(), 0);
                self.wait().await;
            }
        }
    }

    /// A line of what was read, or the news that one is too long.
    fn line(&mut self) -> Option<Result<Bytes, LineError>> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                // One more: it may be the CR before a newline that is still to come.
                if self.searched <= self.line_bytes_max + 1 {
                    return None;
                }
                // What is skipped is not kept; the news is told once.
                let told = std::mem::replace(&mut self.skipping, true);
                self.buffer.clear();
                self.searched = 0;
                return if told {
                    None
                } else {
                    Some(Err(LineError::TooLong))
                };
            };
            let mut line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            if std::mem::replace(&mut self.skipping, false) {
                continue;
            }
            line.truncate(line.len() - 1);
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            return Some(if line.len() > self.line_bytes_max {
                Err(LineError::TooLong)
            } else {
                Ok(line.freeze())
            });
        }
    }

    /// Reads more; false at the end of the output.
    async fn read(&mut self) -> bool {
        let Some(stdout) = &mut self.stdout else {
            return false;
        };
        self.buffer.reserve(READ_BYTES);
        let exited = async {
            let _ = self.exit.wait_for(Option::is_some).await;
            tokio::time::sleep(Duration::from_millis(limit::CHILD_LAST_MS_MAX)).await;
        };
        tokio::select! {
            biased;
            read = stdout.read_buf(&mut self.buffer) => matches!(read, Ok(1..)),
            // Something outside the group holds the pipe open; its child is gone all the same.
            () = exited => false,
        }
    }

    /// Waits for the end of a child that closed its output; one that lives on is ended.
    async fn wait(&mut self) {
        let grace = Duration::from_millis(limit::CHILD_LAST_MS_MAX);
        let ended = tokio::time::timeout(grace, self.exit.wait_for(Option::is_some))
            .await
            .is_ok();
        if !ended && let Some(listening) = &mut self.listening {
            // The sender stays in place, as the mark that the end was not told yet.
            let (fresh, _) = oneshot::channel();
            drop(std::mem::replace(listening, fresh));
            let _ = self.exit.wait_for(Option::is_some).await;
        }
    }

    /// Ends the child, politely first, and waits until it is gone: at most `CHILD_GRACE_MS`, and what the
    /// kernel takes to end it after that.
    pub async fn end(mut self) -> Option<ExitStatus> {
        self.listening = None;
        // An error means that the task which sees to the child's end is gone, and the child with it.
        let _ = self.exit.wait_for(Option::is_some).await;
        self.status()
    }

    fn status(&self) -> Option<ExitStatus> {
        match &*self.exit.borrow() {
            Some(Ok(status)) => Some(*status),
            Some(Err(_)) | None => None,
        }
    }
}

impl fmt::Debug for ChildOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOut")
            .field("buffered", &self.buffer.len())
            .finish_non_exhaustive()
    }
}
