//! The socket as hyper sees it.
//!
//! It tells the connection's [`Pulse`] what moves, swallows the empty answers that hyper writes to bad heads
//! (weir answers those in its own words), and leaves the closing of the socket to the connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::pulse::Pulse;

pub(super) struct EdgeIo {
    stream: TokioIo<TcpStream>,
    pulse: Rc<Pulse>,
}

impl EdgeIo {
    pub(super) fn new(stream: TcpStream, pulse: Rc<Pulse>) -> EdgeIo {
        EdgeIo {
            stream: TokioIo::new(stream),
            pulse,
        }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream.into_inner()
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Pending => self.pulse.write_blocked(),
            Poll::Ready(_) => self.pulse.has_written(),
        }
    }
}

impl Read for EdgeIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.pulse.has_read();
        }
        read
    }
}

impl Write for EdgeIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.pulse.owes() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.pulse.owes() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A socket has nothing to flush; hyper calls this when its own buffer is empty.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pulse.has_flushed();
        Poll::Ready(Ok(()))
    }

    /// Left to the connection, which may still have a refusal to write.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
