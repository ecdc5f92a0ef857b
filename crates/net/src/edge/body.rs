//! The body of an answer: nothing, bytes, or a stream that somebody feeds.
//!
//! A stream has a bound on what waits in it, and an end that can be told from a cut: a client that reads a
//! cut answer sees an error, never a short answer that looks whole.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    Empty,
    /// All of it, with its length in the head; written together with the head.
    Full(Bytes),
    /// Chunks, as they come.
    Stream(StreamBody),
}

/// The reading end of [`Body::stream`].
#[derive(Debug)]
pub struct StreamBody {
    chunks: mpsc::Receiver<Bytes>,
    cut: Arc<AtomicBool>,
    /// hyper had a chance to write what came before the cut.
    flushed: bool,
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

/// The answer was cut on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort;

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was cut")
    }
}

impl std::error::Error for CutShort {}

impl Body {
    /// A body that is fed, with at most `capacity` chunks waiting.
    pub fn stream(capacity: usize) -> (BodySender, Body) {
        let (sender, receiver) = mpsc::channel(capacity);
        let cut = Arc::new(AtomicBool::new(false));
        let body = StreamBody {
            chunks: receiver,
            cut: Arc::clone(&cut),
            flushed: false,
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

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        match &mut *self {
            Body::Empty => Poll::Ready(None),
            Body::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Body::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Body::Stream(stream) => match stream.chunks.poll_recv(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
                Poll::Ready(None) if stream.cut.load(Ordering::Acquire) => {
                    if std::mem::replace(&mut stream.flushed, true) {
                        return Poll::Ready(Some(Err(CutShort)));
                    }
                    // hyper forgets what it has not written when a body fails; it writes while one waits.
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Poll::Ready(None) => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Full(bytes) => bytes.is_empty(),
            Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}
