//! Input whose lines have a bound: a peer that never ends a line costs no more memory than one line may have.
//!
//! A line over the bound is skipped, and answered with an error where its id can be found: a client that is not answered
//! would wait for good. What stands before it and behind it is served as if it were not there.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use base::limit;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::top::Top;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// A session over two pipes, with lines of at most [`limit::BODY_BYTES_DEFAULT`] bytes.
pub(super) struct Pipes<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, Lines<R>, W>,
    refused: Refused,
    /// The answer to a line that was too long, on its way: nothing is read meanwhile.
    answer: Option<Answer>,
}

type Answer = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

impl<R, W> Pipes<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(input: R, output: W) -> Pipes<R, W> {
        let refused = Refused::default();
        let lines = Lines::new(input, refused.clone());
        Pipes {
            inner: AsyncRwTransport::new(lines, output),
            refused,
            answer: None,
        }
    }
}

impl<R, W> Transport<RoleServer> for Pipes<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // This may be given up at any time and asked again, so an answer is kept until it is sent.
            if let Some(answer) = &mut self.answer {
                let sent = answer.await;
                self.answer = None;
                if sent.is_err() {
                    return None;
                }
            }
            let refused = self.refused.clone();
            let id = tokio::select! {
                biased;
                id = poll_fn(|_| refused.take()) => id,
                message = self.inner.receive() => match (message, refused.take()) {
                    (Some(message), _) => return Some(message),
                    // The last line of all was too long.
                    (None, Poll::Ready(id)) => id,
                    (None, Poll::Pending) => return None,
                },
            };
            self.answer = Some(Box::pin(self.inner.send(too_long(id))));
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

fn too_long(id: Option<RequestId>) -> ServerJsonRpcMessage {
    let what = format!(
        "the message has more than {} bytes; send a shorter one",
        limit::BODY_BYTES_DEFAULT
    );
    ServerJsonRpcMessage::error(ErrorData::invalid_request(what, None), id)
}

/// A line that was too long and is not answered yet, with the id of the request that it was.
#[derive(Clone, Default)]
struct Refused(Arc<Mutex<Option<Option<RequestId>>>>);

impl Refused {
    fn waits(&self) -> bool {
        self.lock().is_some()
    }

    fn put(&self, id: Option<RequestId>) {
        *self.lock() = Some(id);
    }

    fn take(&self) -> Poll<Option<RequestId>> {
        self.lock().take().map_or(Poll::Pending, Poll::Ready)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Option<RequestId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives whole lines that are not too long, and nothing of others.
struct Lines<R> {
    inner: R,
    refused: Refused,
    /// What was read; of it `at` bytes are done with.
    read: Vec<u8>,
    at: usize,
    /// The line that was begun and has not ended, within the bound.
    line: Vec<u8>,
    /// Bytes of a line that ended and that were not given yet start here.
    given: Option<usize>,
    /// A line over the bound, of which only what tells whom to answer is kept.
    skipped: Option<Top>,
}

impl<R> Lines<R> {
    fn new(inner: R, refused: Refused) -> Lines<R> {
        Lines {
            inner,
            refused,
            read: Vec::new(),
            at: 0,
            line: Vec::new(),
            given: None,
            skipped: None,
        }
    }

    /// Takes what was read, up to the end of a line.
    fn take(&mut self) {
        let rest = &self.read[self.at..];
        let end = memchr::memchr(b'\n', rest).map(|end| end + 1);
        let part = &rest[..end.unwrap_or(rest.len())];
        self.at += part.len();
        match &mut self.skipped {
            Some(top) => top.push(part),
            None => {
                self.line.extend_from_slice(part);
                if self.line.len() > limit::BODY_BYTES_DEFAULT + usize::from(end.is_some()) {
                    let mut top = Top::default();
                    top.push(&std::mem::take(&mut self.line));
                    self.skipped = Some(top);
                }
            }
        }
        if end.is_some() && !self.refuse() {
            self.given = Some(0);
        }
    }

    /// Has a line answered that was too long. Whether it was.
    fn refuse(&mut self) -> bool {
        let skipped = self.skipped.take();
        if let Some(top) = &skipped {
            let id = top.id().and_then(|id| serde_json::from_str(id).ok());
            self.refused.put(id);
        }
        skipped.is_some()
    }

    /// Gives as much of a line that ended as there is room for.
    fn give(&mut self, from: usize, buffer: &mut ReadBuf<'_>) {
        let to = self.line.len().min(from + buffer.remaining());
        buffer.put_slice(&self.line[from..to]);
        self.given = Some(to);
        if to == self.line.len() {
            self.given = None;
            self.line.clear();
            // A long line is rare, and its room is not kept for short ones.
            self.line.shrink_to(READ_BYTES);
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if let Some(from) = this.given {
                this.give(from, buffer);
                return Poll::Ready(Ok(()));
            }
            if this.refused.waits() {
                // It is answered first, by whoever polls this.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if this.at < this.read.len() {
                this.take();
                continue;
            }
            this.read.resize(READ_BYTES, 0);
            let mut read = ReadBuf::new(&mut this.read);
            let polled = Pin::new(&mut this.inner).poll_read(context, &mut read);
            let count = read.filled().len();
            this.at = 0;
            this.read
                .truncate(if polled.is_ready() { count } else { 0 });
            ready!(polled)?;
            if count == 0 {
                // What has no end is no message, but a client may wait for an answer to one that was too long.
                if this.refuse() {
                    continue;
                }
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    /// What of these pieces is given, and the ids of the lines that are refused.
    async fn read(pieces: &[&[u8]]) -> (Vec<u8>, Vec<Option<RequestId>>) {
        let refused = Refused::default();
        let input = pieces.iter().fold(
            Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>,
            |all, piece| Box::new(all.chain(*piece)),
        );
        let mut lines = Lines::new(input, refused.clone());
        let (mut all, mut ids) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; 10_000];
        loop {
            let count = tokio::select! {
                biased;
                id = poll_fn(|_| refused.take()) => {
                    ids.push(id);
                    continue;
                }
                count = lines.read(&mut buffer) => count.unwrap(),
            };
            if count == 0 {
                return (all, ids);
            }
            all.extend_from_slice(&buffer[..count]);
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_and_nothing_else_is_lost() {
        let long = |id: &str, bytes: usize| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":""#);
            let mut text = text.into_bytes();
            text.resize(bytes, b'x');
            text
        };
        let bound = limit::BODY_BYTES_DEFAULT;
        let (just, over) = (long("1", bound), long("2", bound + 1));
        let (huge, one_piece) = (long("\"three\"", 3 * bound), long("4", bound + 1));
        let end = &b"\n"[..];
        let (given, refused) = read(&[
            b"first\n",
            &just,
            end,
            &over,
            b"\nbetween\n",
            &huge,
            end,
            b"last\nhalf of ",
            b"one\n",
            &one_piece,
        ])
        .await;
        let expected = [b"first\n", &just[..], b"\nbetween\nlast\nhalf of one\n"].concat();
        assert!(given == expected, "{} bytes", given.len());
        let ids = [
            RequestId::Number(2),
            RequestId::String("three".into()),
            RequestId::Number(4),
        ];
        assert_eq!(refused, ids.map(Some));
    }

    #[tokio::test]
    async fn what_has_no_end_and_no_id_is_answered_too() {
        let long = vec![b'x'; limit::BODY_BYTES_DEFAULT * 2];
        let (given, refused) = read(&[b"one\n", &long]).await;
        assert_eq!((given, refused), (b"one\n".to_vec(), vec![None]));
        assert_eq!(read(&[b"one\ntwo"]).await, (b"one\n".to_vec(), vec![]));
    }
}
