//! Input whose lines have a bound: a peer that never ends a line costs no more memory than one line may have.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::limit;
use tokio::io::{AsyncRead, ReadBuf};

/// Fails at a line that is too long.
pub struct Lines<R> {
    inner: R,
    /// Bytes since the last line's end.
    line_bytes: usize,
}

impl<R> Lines<R> {
    /// Input of lines of at most [`limit::BODY_BYTES_DEFAULT`] bytes.
    pub fn new(inner: R) -> Lines<R> {
        Lines {
            inner,
            line_bytes: 0,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let (mut line_bytes, mut longest) = (self.line_bytes, 0);
        for part in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            line_bytes += part.len();
            longest = longest.max(line_bytes);
            if part.ends_with(b"\n") {
                line_bytes = 0;
            }
        }
        self.line_bytes = line_bytes;
        if longest > limit::BODY_BYTES_DEFAULT {
            // What fails has read nothing.
            buffer.set_filled(before);
            let what = format!("a line of over {} bytes", limit::BODY_BYTES_DEFAULT);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn read(bytes: &[u8]) -> io::Result<usize> {
        let mut all = Vec::new();
        Lines::new(bytes).read_to_end(&mut all).await
    }

    #[tokio::test]
    async fn only_lines_are_bounded() {
        let line = [vec![b'x'; limit::BODY_BYTES_DEFAULT - 1], vec![b'\n']].concat();
        assert!(read(&line.repeat(2)).await.is_ok());
        let long = vec![b'x'; limit::BODY_BYTES_DEFAULT + 1];
        assert!(read(&long).await.is_err());
    }
}
