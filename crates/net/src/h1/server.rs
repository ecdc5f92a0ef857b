//! The server's side of one connection: requests in, answers out, one after the other.
//!
//! Requests that come before the last answer is done wait in the input and in the kernel, so
//! pipelining is bounded by one buffer and answers keep their order. A request whose body was not
//! read to its end takes the connection along: it is closed in a way that lets the client read the
//! answer (RFC 9112 §9.6).

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base::limit;
use tokio::io::ReadBuf;

use super::ConnectionSettings;
use super::body::{BodyDecoder, Framing};
use super::connection::Connection;
use super::error::{Error, Fault, Wait};
use super::field::Fields;
use super::head::{Form, RequestHead, Scan, Version};
use super::prepared::{AnswerLines, put_switch};
use super::stream::Socket;
use super::thread::{DATE_BYTES, Thread};
use super::write::{self, Sending, put_decimal, put_fields, put_length};

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerStage {
    /// Before a request, or in its head.
    Between,
    /// A head was read, or could not be; an answer is owed.
    Owed,
    /// The head of the answer is written.
    Answering,
    /// The answer that ends HTTP on this connection is written.
    Switched,
}

/// One connection, as its server.
pub struct ServerConnection<S: Socket> {
    connection: Connection<S>,
    head: RequestHead,
    body: BodyDecoder,
    scan: Scan,
    stage: ServerStage,
    sending: Sending,
    /// A 100 (Continue) is due before the body is read.
    expects: bool,
    /// No request is read after this one.
    close: bool,
    /// A fault was found: what follows in the input has no meaning.
    lost: bool,
    /// A request was read on this connection before.
    used: bool,
    /// The client was too slow once, so it is not waited for long.
    late: bool,
    line_skipped: bool,
    informational: usize,
}

impl<S: Socket> ServerConnection<S> {
    pub fn new(io: S, thread: &Rc<Thread>, bounds: &Rc<ConnectionSettings>) -> ServerConnection<S> {
        ServerConnection {
            connection: Connection::new(io, thread, bounds),
            head: RequestHead::new(),
            body: BodyDecoder::new(),
            scan: Scan::default(),
            stage: ServerStage::Between,
            sending: Sending::Done,
            expects: false,
            close: false,
            lost: false,
            used: false,
            late: false,
            line_skipped: false,
            informational: 0,
        }
    }

    /// The next request, when its head is there; nothing at the end of the connection: the client
    /// closed it or left it unused, the last exchange ended it, or the thread drains.
    ///
    /// The answer to the last request has to be whole. What is not read of its body is thrown away
    /// if it is here already; otherwise the connection ends. After [`Error::Fault`] and
    /// `Slow(Head)` an answer is owed, and [`Self::refuse`] gives it.
    pub async fn head(&mut self) -> Result<Option<RequestView<'_>>, Error> {
        if self.stage != ServerStage::Between && !self.next().await? {
            return Ok(None);
        }
        let found = poll_fn(|context| self.poll_head(context)).await?;
        Ok(found.then(|| self.request()))
    }

    /// The request that was read last. Its head stays readable until the next call of
    /// [`Self::head`].
    pub fn request(&self) -> RequestView<'_> {
        RequestView {
            bytes: self.connection.input.bytes(),
            head: &self.head,
        }
    }

    /// Finishes the last exchange; says whether there may be another.
    async fn next(&mut self) -> Result<bool, Error> {
        if self.stage == ServerStage::Owed || self.sending != Sending::Done {
            return Err(Error::Misuse("the last request has no whole answer"));
        }
        self.flush().await?;
        if !self.close && !self.lost {
            self.connection
                .input
                .consume(self.connection.input.data_len());
            self.decode_here();
        }
        if self.close || self.lost || !self.body.is_done() {
            let unread = !self.body.is_done() || !self.connection.input.raw().is_empty();
            if self.lost || unread || self.connection.tells_end() {
                self.linger().await;
            }
            return Ok(false);
        }
        self.connection.input.next_message();
        self.connection.watch.read_done();
        (self.stage, self.scan) = (ServerStage::Between, Scan::default());
        (self.line_skipped, self.informational) = (false, 0);
        self.connection.body_due = u64::MAX;
        Ok(true)
    }

    /// Decodes what is here of the body, without reading more.
    fn decode_here(&mut self) {
        let fields_max = self.connection.bounds().fields_max;
        let decoded = self
            .body
            .advance(&mut self.connection.input, usize::MAX, fields_max);
        self.lost |= decoded.is_err();
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        loop {
            match self.find_head() {
                Ok(true) => return Poll::Ready(Ok(true)),
                Ok(false) => {}
                Err(fault) => return Poll::Ready(Err(self.owe(fault.into()))),
            }
            let begun = !self.connection.input.raw().is_empty();
            self.bound_head(begun);
            let read = match self.connection.poll_more(context) {
                Poll::Ready(read) => read,
                Poll::Pending => return Poll::Pending,
            };
            match read {
                Ok(Some(0)) if begun => return Poll::Ready(Err(Error::Cut)),
                Ok(Some(1..)) if begun => {}
                Ok(Some(1..)) => {
                    let watch = &self.connection.watch;
                    watch.read_within(watch.bounds.head_ms);
                }
                Ok(None) if begun => return Poll::Ready(Err(self.owe(Error::Slow(Wait::Head)))),
                Err(error) if begun => return Poll::Ready(Err(error)),
                // Nothing was asked, so nobody has to know.
                Ok(Some(0) | None) | Err(_) => return Poll::Ready(Ok(false)),
            }
        }
    }

    fn bound_head(&mut self, begun: bool) {
        let watch = &self.connection.watch;
        if !watch.is_reading_bounded() {
            let settings = &watch.bounds;
            let idle = self.used && !begun;
            watch.read_within(if idle {
                settings.idle_ms
            } else {
                settings.head_ms
            });
        }
        if !begun {
            watch.read_until_drained();
        }
    }

    /// Notes that the connection ends with an error that the client is told.
    fn owe(&mut self, error: Error) -> Error {
        (self.stage, self.lost, self.close) = (ServerStage::Owed, true, true);
        (self.head.is_head, self.head.common.version) = (false, Version::Http11);
        (self.head.is_connect, self.head.wants_upgrade) = (false, false);
        (self.expects, self.sending) = (false, Sending::Done);
        self.late |= matches!(error, Error::Slow(_));
        error
    }

    /// Reads the head if all of it is there.
    fn find_head(&mut self) -> Result<bool, Fault> {
        let input = &mut self.connection.input;
        // RFC 9112 §2.2: one empty line before a request is forgiven.
        if !self.line_skipped && input.raw().starts_with(b"\r\n") {
            input.skip(2);
            self.line_skipped = true;
        }
        match input.raw() {
            [] | [b'\r'] => return Ok(false),
            // Not HTTP at all, such as TLS on this port: its end need not be waited for.
            [first, ..] if !super::field::is_token(&[*first]) => return Err(Fault::NotHttp),
            _ => {}
        }
        let Some(end) = self.connection.head_end(&mut self.scan)? else {
            return Ok(false);
        };
        let input = &mut self.connection.input;
        let settings = &self.connection.watch.bounds;
        self.head
            .read(&input.raw()[..end], input.raw_start(), settings)?;
        input.take_head(end);
        self.connection.watch.read_done();
        self.body.begin(self.head.framing);
        (self.stage, self.used) = (ServerStage::Owed, true);
        (self.expects, self.close) = (self.head.expects, self.head.common.close);
        // What follows a CONNECT is for the tunnel that it asks for.
        self.lost = self.head.is_connect;
        Ok(true)
    }

    /// The next bytes of the request's body as they came; nothing after its end. They may be worked
    /// on in place.
    ///
    /// The first call tells a client that waits for it to go on.
    pub async fn piece(&mut self) -> Result<Option<&mut [u8]>, Error> {
        poll_fn(|context| self.poll_fill(context, 1)).await?;
        let bytes = self.connection.input.data_len();
        if bytes == 0 {
            return Ok(None);
        }
        let data = self.connection.input.use_up(bytes);
        Ok(Some(data))
    }

    /// The next `want` bytes of the body or more, in one piece; fewer only at its end. They stay
    /// until [`Self::consume`]; `want` is at most [`super::PIECE_BYTES_MAX`].
    pub async fn fill(&mut self, want: usize) -> Result<&mut [u8], Error> {
        poll_fn(|context| self.poll_fill(context, want)).await?;
        Ok(self.connection.input.data())
    }

    /// As [`Self::fill`], for a caller that waits for other things, too; [`Self::filled`] has
    /// the bytes.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, want: usize) -> Poll<Result<(), Error>> {
        if self.lost {
            return Poll::Ready(Err(Error::Misuse("the request could not be read")));
        }
        if self.expects && self.connection.input.is_empty() && !self.body.is_done() {
            self.expects = false;
            if self.stage == ServerStage::Owed {
                self.connection
                    .out()
                    .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
        }
        if self.stage == ServerStage::Owed && !self.connection.is_flushed() {
            ready!(self.connection.poll_flush(context))?;
        }
        let filled = ready!(self.connection.poll_fill(context, &mut self.body, want));
        if let Err(error) = filled {
            (self.lost, self.close) = (true, true);
            self.late |= matches!(error, Error::Slow(_));
        }
        Poll::Ready(filled)
    }

    /// Bounds the time for what is not here of the body, from now, and not only for each of its pieces.
    pub(crate) fn bound_body(&mut self, ms: u64) {
        self.connection.body_due = self.connection.thread().after(ms);
    }

    /// Waits until the client is gone, or has closed its side. It is not looked for before all of the request
    /// came, nor once bytes of the next one are here: those wait until this one has its answer.
    pub(crate) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.lost || !self.body.is_done() || !self.connection.input.raw().is_empty() {
            return Poll::Pending;
        }
        match self.connection.poll_unasked(context) {
            Poll::Ready(Ok(1..)) | Poll::Pending => Poll::Pending,
            // The buffer is full of a body that nobody reads.
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::OutOfMemory => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(()),
        }
    }

    /// The bytes of the body that are here and not consumed.
    pub fn filled(&mut self) -> &mut [u8] {
        self.connection.input.data()
    }

    /// Uses up bytes of [`Self::fill`]; at most those that it had.
    pub fn consume(&mut self, bytes: usize) {
        self.connection.input.consume(bytes);
    }

    /// Says that the request is not looked at any more, neither its head nor what is left of its
    /// body: where all of it came, its buffer serves others while the answer is made.
    pub fn forget_request(&mut self) {
        if self.lost || !self.body.is_done() {
            return;
        }
        let Connection { input, watch, .. } = &mut self.connection;
        self.head.forget();
        self.body.trailers.clear();
        input.next_message();
        input.give_back(&watch.thread.buffers);
    }

    /// Whether all of the request's body came; some of it may still be there to be used.
    pub fn is_body_here(&self) -> bool {
        self.body.is_done()
    }

    /// The trailers of the request; empty before the end of its body.
    pub fn trailers(&self) -> Fields<'_> {
        Fields::new(self.connection.input.bytes(), &self.body.trailers)
    }

    /// Writes an informational answer (1xx, but not 101) into the output. For a client of HTTP/1.0
    /// it is left out.
    pub fn inform<'f>(
        &mut self,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        if self.stage != ServerStage::Owed || !(100..200).contains(&status) || status == 101 {
            return Err(Error::Misuse("no informational answer can be given now"));
        }
        if self.informational == super::INFORMATIONAL_MAX {
            return Err(Error::Misuse("there are too many informational answers"));
        }
        if self.head.common.version == Version::Http10 {
            return Ok(());
        }
        if status == 100 {
            self.expects = false;
        }
        self.informational += 1;
        write::whole(self.connection.out(), |out| {
            put_status(out, status);
            put_fields(out, fields)?;
            out.extend_from_slice(b"\r\n");
            Ok(())
        })
    }

    /// Writes the head of the answer into the output.
    ///
    /// What frames the message and what is for this connection alone is written here and left out
    /// of `fields`. For HEAD and 304 `framing` says what the body would have been. An answer before
    /// the end of the request's body ends the connection after this exchange, and says so.
    pub fn respond<'f>(
        &mut self,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        framing: Framing,
    ) -> Result<(), Error> {
        self.begin(status, framing, |out| {
            put_status(out, status);
            put_fields(out, fields)
        })
    }

    /// As [`Self::respond`], with a head that was checked before.
    pub fn respond_as(&mut self, lines: &AnswerLines, framing: Framing) -> Result<(), Error> {
        self.begin(lines.status, framing, |out| {
            out.extend_from_slice(&lines.bytes);
            Ok(())
        })
    }

    fn begin(
        &mut self,
        status: u16,
        framing: Framing,
        put: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.stage != ServerStage::Owed || !(200..1000).contains(&status) {
            return Err(Error::Misuse("no answer with this status can be given now"));
        }
        if status == 204 && !matches!(framing, Framing::None | Framing::Length(0)) {
            return Err(Error::Misuse("an answer of this status has no body"));
        }
        let bodiless = self.head.is_head || matches!(status, 204 | 304);
        let mut framing = framing;
        if framing == Framing::Chunked && self.head.common.version == Version::Http10 {
            framing = Framing::UntilClose;
        }
        if !self.lost && !self.body.is_done() {
            self.decode_here();
        }
        let ends = framing == Framing::UntilClose && !bodiless;
        self.close |= ends || self.lost || !self.body.is_done();
        self.close |= self.connection.thread().is_draining();
        let close = self.close;
        write::whole(self.connection.out(), |out| {
            put(out)?;
            match framing {
                Framing::Length(length) if status != 204 => put_length(out, length),
                Framing::None if !bodiless => put_length(out, 0),
                Framing::Chunked if !bodiless => {
                    out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                }
                _ => {}
            }
            if close {
                out.extend_from_slice(b"connection: close\r\n");
            }
            out.extend_from_slice(b"\r\n");
            Ok(())
        })?;
        self.sending = if bodiless {
            Sending::Done
        } else {
            Sending::of(framing)
        };
        (self.stage, self.expects) = (ServerStage::Answering, false);
        Ok(())
    }

    /// Whether [`Self::switch`] can answer the request that was read last.
    pub(crate) fn can_switch(&self, status: u16) -> bool {
        let head = &self.head;
        let is_asked = match status {
            101 => head.wants_upgrade && !head.is_connect && head.common.version == Version::Http11,
            200 => head.is_connect,
            _ => false,
        };
        is_asked && head.framing == Framing::None && self.stage == ServerStage::Owed
    }

    /// Writes the answer that ends HTTP on this connection: 101, with the protocol that follows, to a request that
    /// asks for another, or 200 to CONNECT.
    pub(crate) fn switch<'f>(
        &mut self,
        status: u16,
        protocol: Option<&[u8]>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        if !self.can_switch(status) || (status == 101) != protocol.is_some() {
            return Err(Error::Misuse("the request does not ask for this switch"));
        }
        write::whole(self.connection.out(), |out| {
            put_status(out, status);
            put_fields(out, fields)?;
            protocol.map_or(Ok(()), |protocol| put_switch(out, protocol))?;
            out.extend_from_slice(b"\r\n");
            Ok(())
        })?;
        (self.stage, self.sending, self.close) = (ServerStage::Switched, Sending::Done, true);
        Ok(())
    }

    /// Gives up the socket of a connection that was switched, with what came behind the request. The answer has to be
    /// written out before.
    pub(crate) fn into_parts(mut self) -> Result<(S, Vec<u8>), Error> {
        match self.stage == ServerStage::Switched && self.connection.is_flushed() {
            true => Ok(self.connection.give_up()),
            false => Err(Error::Misuse("the connection speaks HTTP")),
        }
    }

    /// What bounds the connection, and its thread.
    pub(crate) fn watched_by(&self) -> (Rc<Thread>, Rc<ConnectionSettings>) {
        let watch = &self.connection.watch;
        (Rc::clone(&watch.thread), Rc::clone(&watch.bounds))
    }

    /// Writes bytes of the answer's body; waits only if the output is full.
    pub async fn body(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for part in bytes.chunks(super::OUTPUT_BYTES_MAX) {
            if self.connection.out.len() + part.len() > super::OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
            self.sending.push(self.connection.out(), part)?;
        }
        Ok(())
    }

    /// Writes bytes of the answer's body into the output, and waits for nothing.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sending.push(self.connection.out(), bytes)
    }

    /// The time of day as an answer says it.
    pub(crate) fn date(&self) -> [u8; DATE_BYTES] {
        self.connection.thread().date()
    }

    /// Whether bytes of the body are still to be written.
    pub(crate) fn has_body_to_send(&self) -> bool {
        self.sending != Sending::Done
    }

    /// Lets `fill` append bytes of the body to the output, where they are made in place; it must
    /// not touch what stands there already. Waits for nothing: whoever writes more than a few of
    /// them calls [`Self::flush`] between.
    pub fn body_with<R>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, Error> {
        self.sending.push_with(self.connection.out(), fill)
    }

    /// Ends the answer.
    pub fn end(&mut self) -> Result<(), Error> {
        self.end_with(std::iter::empty())
    }

    /// Ends the answer with trailers, which are left out where the body is not in chunks.
    pub fn end_with<'f>(
        &mut self,
        trailers: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        if self.stage != ServerStage::Answering {
            return Err(Error::Misuse("there is no answer to end"));
        }
        self.sending.end(self.connection.out(), trailers)
    }

    /// Writes out what is in the output. [`Self::head`] does it, too.
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// As [`Self::flush`], for a caller that waits for other things, too.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.connection.poll_flush(context)
    }

    /// Bytes that wait in the output.
    pub fn unflushed(&self) -> usize {
        self.connection.out.len()
    }

    /// Ends the connection after this exchange, and says so if the answer's head is not written
    /// yet.
    pub fn close_after(&mut self) {
        self.close = true;
    }

    /// Answers the request that is owed an answer with a whole one, and ends the connection.
    pub async fn refuse<'f>(
        &mut self,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        body: &[u8],
    ) -> Result<(), Error> {
        self.close = true;
        self.respond(status, fields, Framing::Length(body.len() as u64))?;
        if self.sending != Sending::Done {
            self.body(body).await?;
        }
        self.end()?;
        self.next().await.map(|_| ())
    }

    /// The bytes that came and were not read: where a head was refused, they begin with it.
    pub(crate) fn unread(&self) -> &[u8] {
        self.connection.input.raw()
    }

    /// Lets a connection be refused that was not listened to.
    pub(crate) fn owe_refusal(&mut self) {
        self.owe(Error::Slow(Wait::Head));
    }

    /// Closes our side, and waits a moment for the client to read what we said: bytes of it that
    /// nobody reads would make the kernel throw our answer away. A client that sends all of a body before it
    /// reads is let, within bounds; one that neither closes nor stops sending is cut off.
    async fn linger(&mut self) {
        let end = self.connection.thread().after(match self.late {
            true => limit::LINGER_QUIET_MS_MAX,
            false => limit::LINGER_MS_MAX,
        });
        self.connection
            .watch
            .read_within(limit::LINGER_QUIET_MS_MAX);
        let (mut closed, mut left) = (false, limit::LINGER_BYTES_MAX);
        let mut buffer = [0; 4096];
        poll_fn(|context| {
            let (io, watch) = self.connection.io();
            loop {
                let mut read = ReadBuf::new(&mut buffer);
                let done = if closed {
                    Pin::new(&mut *io).poll_read(context, &mut read)
                } else {
                    Pin::new(&mut *io).poll_shutdown(context)
                };
                match (done, read.filled().len()) {
                    (Poll::Pending, _) if watch.is_read_late() => return Poll::Ready(()),
                    (Poll::Pending, _) => {
                        watch.wake_later(context.waker());
                        return Poll::Pending;
                    }
                    (Poll::Ready(Ok(())), _) if !closed => closed = true,
                    (Poll::Ready(Ok(())), bytes @ 1..)
                        if bytes <= left && !watch.thread.has_passed(end) =>
                    {
                        left -= bytes;
                        watch.read_within(limit::LINGER_QUIET_MS_MAX);
                    }
                    (Poll::Ready(_), _) => return Poll::Ready(()),
                }
            }
        })
        .await;
    }
}

impl<S: Socket> Drop for ServerConnection<S> {
    fn drop(&mut self) {
        if self.sending == Sending::UntilClose {
            // Otherwise what was cut would look whole.
            self.connection.reset();
        }
    }
}

/// Writes the first line of an answer.
pub(super) fn put_status(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    let reason = http::StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|status| status.canonical_reason());
    out.extend_from_slice(b"HTTP/1.1 ");
    put_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A request's head, lent from the buffer that it was read into.
#[derive(Clone, Copy)]
pub struct RequestView<'a> {
    bytes: &'a [u8],
    head: &'a RequestHead,
}

impl<'a> RequestView<'a> {
    /// The head as it came; all that this view lends is part of it.
    pub(crate) fn head(&self) -> &'a [u8] {
        self.head.whole.in_(self.bytes)
    }

    /// A token; methods are case-sensitive.
    pub fn method(&self) -> &'a [u8] {
        self.head.method.in_(self.bytes)
    }

    /// The request target as it came: visible ASCII without `#`.
    pub fn target(&self) -> &'a [u8] {
        self.head.target.in_(self.bytes)
    }

    pub fn form(&self) -> Form {
        self.head.form
    }

    /// Host and port: those of the target if it has them, else those of Host (RFC 9112 §3.2.2);
    /// empty if there are none.
    pub fn authority(&self) -> &'a [u8] {
        self.head.authority.in_(self.bytes)
    }

    pub fn version(&self) -> Version {
        self.head.common.version
    }

    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.bytes, &self.head.common.fields)
    }

    pub fn framing(&self) -> Framing {
        self.head.framing
    }

    pub fn is_head(&self) -> bool {
        self.head.is_head
    }

    /// Whether the client waits for 100 (Continue) before it sends the body.
    pub fn expects_continue(&self) -> bool {
        self.head.expects
    }

    /// Whether the client asks to switch to another protocol.
    pub fn wants_upgrade(&self) -> bool {
        self.head.wants_upgrade
    }
}
