//! A child's standard input: a bounded queue of lines.
//!
//! The queue is bounded in lines and in bytes. A line that holds a newline is refused: the child would read
//! two messages where one was judged.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use base::{Name, Permit, limit};
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::spawn_local;

/// How a child ended, once it has.
pub(super) type Exit = watch::Receiver<Option<io::Result<ExitStatus>>>;

/// A line and its share of the bytes that may wait.
type WaitingLine = (Bytes, OwnedSemaphorePermit);

/// The writing end of a child. When the last clone is dropped, the child's input is closed.
pub struct ChildIn<P: Permit> {
    name: Name,
    lines: mpsc::Sender<WaitingLine>,
    bytes: Arc<Semaphore>,
    permit: PhantomData<fn(&P)>,
}

impl<P: Permit> Clone for ChildIn<P> {
    fn clone(&self) -> Self {
        ChildIn {
            name: self.name.clone(),
            lines: self.lines.clone(),
            bytes: Arc::clone(&self.bytes),
            permit: PhantomData,
        }
    }
}

/// Why a line was not sent to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLineError {
    /// The permit is for another target.
    NotPermitted,
    /// There is a newline in the line.
    NotALine,
    /// The line has more bytes than may wait in all.
    TooLong,
    /// The child does not read, and the deadline passed.
    Slow,
    /// The child ended, or closed its input.
    Gone,
}

impl fmt::Display for SendLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendLineError::NotPermitted => "the permit is for another server",
            SendLineError::NotALine => "the message holds a newline",
            SendLineError::TooLong => "the message is too long for the server's input",
            SendLineError::Slow => "the server does not read its input",
            SendLineError::Gone => "the server ended or closed its input",
        })
    }
}

impl std::error::Error for SendLineError {}

impl<P: Permit> ChildIn<P> {
    /// Queues a line, without its newline; waits while the queue is full, for at most `CHILD_SEND_MS_MAX`.
    pub async fn send(&self, permit: &P, line: Bytes) -> Result<(), SendLineError> {
        self.check(permit, &line)?;
        let wait = Duration::from_millis(limit::CHILD_SEND_MS_MAX);
        tokio::time::timeout(wait, self.queue(line))
            .await
            .unwrap_or(Err(SendLineError::Slow))
    }

    /// Queues a line where there is room for it now: for what is of use to the child, and lost without harm.
    pub fn try_send(&self, permit: &P, line: Bytes) -> Result<(), SendLineError> {
        self.check(permit, &line)?;
        let share = u32::try_from(line.len()).expect("the line is shorter than the queue's bytes");
        let share = Arc::clone(&self.bytes).try_acquire_many_owned(share);
        let share = share.map_err(|_| SendLineError::Slow)?;
        let queued = self.lines.try_send((line, share));
        queued.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendLineError::Slow,
            mpsc::error::TrySendError::Closed(_) => SendLineError::Gone,
        })
    }

    fn check(&self, permit: &P, line: &Bytes) -> Result<(), SendLineError> {
        if permit.target() != Some(&self.name) {
            let permitted = permit.destination();
            base::never!("a permit for {permitted} writes to {}", self.name);
            return Err(SendLineError::NotPermitted);
        }
        if memchr::memchr2(b'\n', b'\r', line).is_some() {
            return Err(SendLineError::NotALine);
        }
        match line.len() > limit::CHILD_QUEUE_BYTES_MAX {
            true => Err(SendLineError::TooLong),
            false => Ok(()),
        }
    }

    async fn queue(&self, line: Bytes) -> Result<(), SendLineError> {
        let share = u32::try_from(line.len()).expect("the line is shorter than the queue's bytes");
        let share = Arc::clone(&self.bytes).acquire_many_owned(share).await;
        let share = share.map_err(|_| SendLineError::Gone)?;
        self.lines
            .send((line, share))
            .await
            .map_err(|_| SendLineError::Gone)
    }

    /// Whether the child ended or closed its input.
    pub fn is_gone(&self) -> bool {
        self.lines.is_closed()
    }
}

/// Starts the task that writes.
pub(super) fn start<P: Permit>(stdin: ChildStdin, name: Name, exit: Exit) -> ChildIn<P> {
    let (lines, waiting) = mpsc::channel(limit::CHILD_QUEUE_MAX);
    let bytes = Arc::new(Semaphore::new(limit::CHILD_QUEUE_BYTES_MAX));
    let permits = Arc::clone(&bytes);
    spawn_local(async move {
        write(stdin, waiting, exit).await;
        // Whoever waits for room is told that there will be none.
        permits.close();
    });
    ChildIn {
        name,
        lines,
        bytes,
        permit: PhantomData,
    }
}

async fn write(mut stdin: ChildStdin, mut waiting: mpsc::Receiver<WaitingLine>, mut exit: Exit) {
    let lines = async {
        let mut buffer = Vec::new();
        while let Some((line, _share)) = waiting.recv().await {
            // One write for a line and its end: a child that reads in parts sees them together.
            buffer.clear();
            buffer.extend_from_slice(&line);
            buffer.push(b'\n');
            if stdin.write_all(&buffer).await.is_err() {
                return;
            }
            if buffer.capacity() > BUFFER_KEPT_BYTES {
                buffer = Vec::new();
            }
        }
    };
    tokio::select! {
        () = lines => {}
        // An error means that the task which sees to the child's end is gone, and the child with it.
        _ = exit.wait_for(Option::is_some) => {}
    }
}

/// Bytes of the write buffer that are kept between two lines.
const BUFFER_KEPT_BYTES: usize = 64 << 10;
