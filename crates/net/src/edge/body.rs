//! The body of an answer: nothing, bytes, or a stream that somebody feeds.
//!
//! A stream has a bound on what waits in it, and an end that can be told from a cut: a client that reads a
//! cut answer sees an error, never a short answer that looks whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    Empty,
    /// All of it, with its length in the head; written together with the head.
    Full(Bytes),
    /// Chunks, as they come.
    Stream(StreamBody),
    /// There is no answer to write: the service took the connection over ([`super::Request::take_over`]), and its
    /// call lasted as long as what followed.
    Taken,
}

/// The reading end of [`Body::stream`].
#[derive(Debug)]
pub struct StreamBody {
    /// Of all chunks together, where it is known.
    pub(super) length: Option<u64>,
    chunks: mpsc::Receiver<Bytes>,
    cut: Arc<AtomicBool>,
}

/// The feeding end of [`Body::stream`]. Dropping it ends the body cleanly.
#[derive(Debug)]
pub struct BodySender {
    chunks: mpsc::Sender<Bytes>,
    cut: Arc<AtomicBool>,
}

/// The client went away, and with it the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// What comes next of a stream.
pub(super) enum BodyPart {
    Chunk(Bytes),
    End,
    /// It was cut on purpose.
    Cut,
}

impl Body {
    /// A body that is fed, with at most `capacity` chunks waiting.
    pub fn stream(capacity: usize) -> (BodySender, Body) {
        Body::stream_of(capacity, None)
    }

    /// The same, with the length of the whole where it is known: it is said in the head. A body that turns out to have
    /// another length is cut.
    pub fn stream_of(capacity: usize, length: Option<u64>) -> (BodySender, Body) {
        let (sender, receiver) = mpsc::channel(capacity);
        let cut = Arc::new(AtomicBool::new(false));
        let body = StreamBody {
            length,
            chunks: receiver,
            cut: Arc::clone(&cut),
        };
        (
            BodySender {
                chunks: sender,
                cut,
            },
            Body::Stream(body),
        )
    }
}

impl BodySender {
    /// Adds a chunk; waits while the client is behind.
    pub async fn send(&self, chunk: Bytes) -> Result<(), Gone> {
        self.chunks.send(chunk).await.map_err(|_| Gone)
    }

    /// Cuts the answer after what was already sent, as far as the client takes that without delay. It sees
    /// that the answer is not whole.
    pub fn abort(self) {
        self.cut.store(true, Ordering::Release);
    }

    /// Waits until the client is gone.
    pub async fn closed(&self) {
        self.chunks.closed().await;
    }

    /// Whether the client is gone.
    pub fn is_closed(&self) -> bool {
        self.chunks.is_closed()
    }
}

impl StreamBody {
    /// The next chunk, for whoever reads an answer inside of the process; nothing at its end.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.chunks.recv().await
    }

    /// Whether it ended before it was whole; to be asked once there is nothing more.
    pub fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// What is there already.
    pub(super) fn now(&mut self) -> Option<BodyPart> {
        match self.chunks.try_recv() {
            Ok(chunk) => Some(BodyPart::Chunk(chunk)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(self.end()),
        }
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<BodyPart> {
        let chunk = self.chunks.poll_recv(context);
        chunk.map(|chunk| chunk.map_or_else(|| self.end(), BodyPart::Chunk))
    }

    fn end(&self) -> BodyPart {
        match self.cut.load(Ordering::Acquire) {
            true => BodyPart::Cut,
            false => BodyPart::End,
        }
    }
}
