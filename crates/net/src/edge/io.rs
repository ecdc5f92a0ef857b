//! The socket as hyper sees it.
//!
//! It tells the connection's [`Pulse`] what moves, keeps from hyper what two readers could frame in two ways,
//! swallows the empty answers that hyper writes to bad heads
//! (weir answers those in its own words), and leaves the closing of the socket to the connection.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::pulse::Pulse;
use super::strict::{FaultKind, Strict};

/// Bytes that are read and looked at in one go.
const READ_BYTES: usize = 32 << 10;

thread_local! {
    /// What was read, before it is looked at and handed to hyper. One for all connections of a thread.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

pub(super) struct EdgeIo {
    stream: TokioIo<TcpStream>,
    pulse: Rc<Pulse>,
    strict: Strict,
    fault: Option<FaultKind>,
}

impl EdgeIo {
    pub(super) fn new(stream: TcpStream, pulse: Rc<Pulse>) -> EdgeIo {
        EdgeIo {
            stream: TokioIo::new(stream),
            pulse,
            strict: Strict::new(),
            fault: None,
        }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream.into_inner()
    }

    /// Reads and looks. Hands out what is good, says how much that is, and notes what is not.
    fn poll_good(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<usize>> {
        READ.with_borrow_mut(|read| {
            let room = buffer.remaining().min(read.len());
            let mut read = ReadBuf::new(&mut read[..room]);
            ready!(Pin::new(self.stream.inner_mut()).poll_read(context, &mut read))?;
            let bytes = read.filled();
            let good = match self.strict.look(bytes) {
                Ok(()) => bytes.len(),
                Err(fault) => {
                    self.fault = Some(fault.what);
                    self.pulse.has_fault(fault.what, self.strict.heads());
                    fault.good
                }
            };
            buffer.put_slice(&bytes[..good]);
            Poll::Ready(Ok(good))
        })
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
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.fault {
            None => {}
            Some(FaultKind::Body(why)) => return Poll::Ready(Err(invalid(why))),
            // The connection ends once the answers before the bad head are out: it looks after each poll.
            Some(FaultKind::Head(_) | FaultKind::Large) => return Poll::Pending,
        }
        let read = ready!(self.poll_good(context, &mut buffer));
        self.pulse.has_read();
        match (read, self.fault) {
            (Ok(0), Some(FaultKind::Body(why))) => Poll::Ready(Err(invalid(why))),
            (Ok(0), Some(_)) => Poll::Pending,
            (Ok(_), _) => Poll::Ready(Ok(())),
            (Err(error), _) => Poll::Ready(Err(error)),
        }
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
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
