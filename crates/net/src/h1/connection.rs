//! What a server's and a client's connection have in common: reading more, and writing out.
//!
//! Both try first and wait only if they have to, each within its bound.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::body::BodyDecoder;
use super::buffer::Input;
use super::error::{Error, Fault, Wait};
use super::head::Scan;
use super::stream::Socket;
use super::thread::{Thread, Watch};
use super::{ConnectionSettings, PIECE_BYTES_MAX};

#[derive(Debug)]
pub(super) struct Connection<S> {
    /// Absent once it was taken over.
    io: Option<S>,
    pub(super) input: Input,
    pub(super) out: Vec<u8>,
    pub(super) watch: Watch,
    /// The tick at which all of the body has to be there.
    pub(super) body_due: u64,
    /// Bytes of `out` that are written.
    gone: usize,
    /// Bytes that the socket took in all.
    pub(super) written: u64,
}

impl<S: Socket> Connection<S> {
    pub(super) fn new(
        io: S,
        thread: &Rc<Thread>,
        bounds: &Rc<ConnectionSettings>,
    ) -> Connection<S> {
        Connection {
            io: Some(io),
            input: Input::default(),
            out: Vec::new(),
            watch: Watch::new(thread, bounds),
            body_due: u64::MAX,
            gone: 0,
            written: 0,
        }
    }

    /// The socket, beside what bounds its waits.
    pub(super) fn io(&mut self) -> (&mut S, &Watch) {
        (socket(&mut self.io), &self.watch)
    }

    /// Makes the coming close a visible failure, unless the socket is another's by now.
    pub(super) fn reset(&mut self) {
        if let Some(io) = &mut self.io {
            io.reset();
        }
    }

    /// Whether an end that is not announced is a failure to the other side.
    pub(super) fn tells_end(&self) -> bool {
        self.io.as_ref().is_some_and(Socket::tells_end)
    }

    /// Gives up the socket, with the bytes that came and belong to no message. What is in the output has to be written
    /// out before.
    pub(super) fn give_up(&mut self) -> (S, Vec<u8>) {
        debug_assert!(self.is_flushed());
        let unread = self.input.raw().to_vec();
        (self.io.take().expect(NOT_TAKEN), unread)
    }

    pub(super) fn thread(&self) -> &Rc<Thread> {
        &self.watch.thread
    }

    pub(super) fn bounds(&self) -> &ConnectionSettings {
        &self.watch.bounds
    }

    /// The output, to be written into.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        if self.out.capacity() == 0 {
            self.out = self.watch.thread.buffers.output();
        }
        &mut self.out
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.out.is_empty()
    }

    /// Writes out all that is in the output.
    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.gone < self.out.len() {
            match Pin::new(socket(&mut self.io)).poll_write(context, &self.out[self.gone..]) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
                }
                Poll::Ready(Ok(bytes)) => {
                    self.gone += bytes;
                    self.written += bytes as u64;
                    self.watch.write_done();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return self.poll_write_late(context),
            }
        }
        if !self.out.is_empty() {
            if Pin::new(socket(&mut self.io))
                .poll_flush(context)?
                .is_pending()
            {
                return self.poll_write_late(context);
            }
            self.gone = 0;
            let buffer = std::mem::take(&mut self.out);
            self.watch.thread.buffers.give_output(buffer);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_late(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.watch.write_within(self.bounds().write_ms);
        if self.watch.is_write_late() {
            return Poll::Ready(Err(Error::Slow(Wait::Write)));
        }
        self.watch.wake_later(context.waker());
        Poll::Pending
    }

    /// Reads once; 0 is the end of the stream. The bound that was set for reading holds.
    pub(super) fn poll_more(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<usize>, Error>> {
        let buffers = &self.watch.thread.buffers;
        let max = self.watch.bounds.head_bytes_max + 2 * PIECE_BYTES_MAX;
        let io = socket(&mut self.io);
        match self.input.poll_read(io, context, buffers, max) {
            Poll::Ready(read) => Poll::Ready(Ok(Some(read?))),
            Poll::Pending if self.watch.is_read_late() => Poll::Ready(Ok(None)),
            Poll::Pending => {
                self.watch.wake_later(context.waker());
                Poll::Pending
            }
        }
    }

    /// Reads where nothing is waited for, so nobody is woken.
    pub(super) fn poll_unasked(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        let buffers = &self.watch.thread.buffers;
        self.input
            .poll_read(socket(&mut self.io), context, buffers, PIECE_BYTES_MAX)
    }

    /// Makes `want` bytes of the body available in one piece; fewer only at its end.
    pub(super) fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        body: &mut BodyDecoder,
        want: usize,
    ) -> Poll<Result<(), Error>> {
        if want > PIECE_BYTES_MAX {
            return Poll::Ready(Err(Error::Misuse("a piece of a body is bounded")));
        }
        let fields_max = self.bounds().fields_max;
        loop {
            body.advance(&mut self.input, want.max(1), fields_max)?;
            if body.is_done() || self.input.data_len() >= want.max(1) {
                self.watch.read_done();
                return Poll::Ready(Ok(()));
            }
            if !self.watch.is_reading_bounded() {
                self.watch.read_within(self.bounds().piece_ms);
                self.watch.read_by(self.body_due);
            }
            match ready!(self.poll_more(context))? {
                None => return Poll::Ready(Err(Error::Slow(Wait::Piece))),
                Some(0) if !body.end_of_input() => return Poll::Ready(Err(Error::Cut)),
                Some(_) => self.watch.read_done(),
            }
        }
    }

    /// Whether a whole head is there: its length.
    pub(super) fn head_end(&mut self, scan: &mut Scan) -> Result<Option<usize>, Fault> {
        let settings = &self.watch.bounds;
        let raw = self.input.raw();
        let found = scan.end(raw)?;
        if found.unwrap_or(raw.len()) > settings.head_bytes_max {
            return Err(Fault::HeadTooLarge);
        }
        // Method, two spaces and version.
        if !scan.has_line() && raw.len() > settings.target_bytes_max + super::METHOD_BYTES_MAX + 10
        {
            return Err(Fault::TargetTooLong);
        }
        Ok(found)
    }
}

const NOT_TAKEN: &str = "a socket is taken over with the connection that reads from it";

fn socket<S>(io: &mut Option<S>) -> &mut S {
    io.as_mut().expect(NOT_TAKEN)
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        let thread = &self.watch.thread;
        thread.buffers.give_output(std::mem::take(&mut self.out));
        self.input.clear();
        self.input.give_back(&thread.buffers);
    }
}

impl From<std::io::ErrorKind> for Error {
    fn from(kind: std::io::ErrorKind) -> Error {
        Error::Io(kind)
    }
}
