//! The client's side of one connection: a request out, its answers in.
//!
//! One request at a time; the next one goes out after the last answer is whole, and only if both
//! sides want to keep the connection. Whether anything of a request reached the socket can be
//! asked: only what did not may be sent again without knowing what it does.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use super::ConnectionSettings;
use super::body::{BodyDecoder, Framing};
use super::connection::Connection;
use super::error::{Error, Fault, Wait};
use super::field::{Fields, is_token};
use super::head::{self, AnswerHead, Scan, Version};
use super::prepared::{Asks, RequestLines, check_framing, put_connect, put_request, put_switch};
use super::stream::Socket;
use super::thread::Thread;
use super::write::{self, Sending, put_length};

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientStage {
    /// Nothing is asked.
    Idle,
    /// A request is begun; its answer is not.
    Asked,
    /// The final answer's head was read.
    Answered,
    /// The answer ended HTTP on this connection.
    Switched,
}

/// What became of [`ClientConnection::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The output is written out.
    All,
    /// The server begins to answer before it took all of it.
    Early,
}

/// One connection, as its client.
pub struct ClientConnection<S: Socket> {
    connection: Connection<S>,
    head: AnswerHead,
    body: BodyDecoder,
    scan: Scan,
    stage: ClientStage,
    sending: Sending,
    asks: Asks,
    close: bool,
    informational: usize,
    written_before: u64,
}

impl<S: Socket> ClientConnection<S> {
    pub fn new(io: S, thread: &Rc<Thread>, bounds: &Rc<ConnectionSettings>) -> ClientConnection<S> {
        ClientConnection {
            connection: Connection::new(io, thread, bounds),
            head: AnswerHead::new(),
            body: BodyDecoder::new(),
            scan: Scan::default(),
            stage: ClientStage::Idle,
            sending: Sending::Done,
            asks: Asks::Other,
            close: false,
            informational: 0,
            written_before: 0,
        }
    }

    /// Whether the connection can carry another request: the last exchange is whole on both sides,
    /// and neither wants to close.
    pub fn is_reusable(&self) -> bool {
        let whole = match self.stage {
            ClientStage::Idle => true,
            ClientStage::Asked | ClientStage::Switched => false,
            ClientStage::Answered => self.body.is_done() && self.sending == Sending::Done,
        };
        whole
            && !self.close
            && self.connection.is_flushed()
            && self.connection.input.raw().is_empty()
    }

    /// Ends the connection after this exchange.
    pub fn close_after(&mut self) {
        self.close = true;
    }

    /// Whether nothing came on an idle connection: neither its end nor bytes that answer nothing.
    /// Costs no system call while the socket is silent.
    pub fn is_silent(&mut self) -> bool {
        if !self.is_reusable() {
            return false;
        }
        self.rest();
        let mut context = Context::from_waker(Waker::noop());
        let silent = self.connection.poll_unasked(&mut context).is_pending();
        self.close |= !silent;
        silent
    }

    /// Holds the connection to other bounds from its next wait on.
    pub(crate) fn set_bounds(&mut self, bounds: Rc<ConnectionSettings>) {
        self.connection.watch.bounds = bounds;
    }

    /// Gives the buffers back until the next request.
    pub(crate) fn rest(&mut self) {
        self.connection.input.next_message();
        self.connection.watch.read_done();
        self.connection
            .input
            .give_back(&self.connection.watch.thread.buffers);
    }

    /// Bytes of the current request that the socket took. 0 says that nobody can have seen it.
    pub fn written(&self) -> u64 {
        self.connection.written - self.written_before
    }

    /// Writes the head of a request into the output.
    ///
    /// `target` is one of the forms of RFC 9112 §3.2 that this engine reads, `authority` goes into
    /// Host. What frames the message and what is for this connection alone is written here and left
    /// out of `fields`.
    pub fn request<'f>(
        &mut self,
        method: &[u8],
        target: &[u8],
        authority: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        framing: Framing,
    ) -> Result<(), Error> {
        let put = |out: &mut Vec<u8>| put_request(out, method, target, authority, fields);
        self.begin(Asks::of(method), framing, put)
    }

    /// As [`Self::request`], with a head that was checked before.
    pub fn request_as(&mut self, lines: &RequestLines, framing: Framing) -> Result<(), Error> {
        self.begin(lines.kind, framing, |out| {
            out.extend_from_slice(&lines.bytes);
            Ok(())
        })
    }

    /// Writes the head of a GET request that asks to go on with another protocol, such as `websocket`. A server that
    /// does answers 101, and [`Self::is_switched`] says so; each other answer is one of HTTP.
    pub fn request_upgrade<'f>(
        &mut self,
        protocol: &[u8],
        target: &[u8],
        authority: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        self.begin(Asks::Upgrade, Framing::None, |out| {
            put_request(out, b"GET", target, authority, fields)?;
            put_switch(out, protocol)
        })
    }

    /// Writes the head of a CONNECT request: a proxy that makes the tunnel to this host and port answers 2xx, and
    /// [`Self::is_switched`] says so.
    pub fn request_tunnel<'f>(
        &mut self,
        authority: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        let put = |out: &mut Vec<u8>| put_connect(out, authority, fields);
        self.begin(Asks::Tunnel, Framing::None, put)
    }

    /// Whether the last answer ended HTTP on this connection: what follows is of the protocol that was asked for.
    pub fn is_switched(&self) -> bool {
        self.stage == ClientStage::Switched
    }

    /// Gives up the socket of a connection that was switched or on which nothing was asked, with what came behind
    /// the answer.
    pub(crate) fn into_parts(mut self) -> Result<(S, Vec<u8>), Error> {
        let is_unused = self.connection.written == 0 && self.is_reusable();
        match self.is_switched() || is_unused {
            true => Ok(self.connection.give_up()),
            false => Err(Error::Misuse("the connection speaks HTTP")),
        }
    }

    fn begin(
        &mut self,
        asks: Asks,
        framing: Framing,
        put: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_reusable() {
            return Err(Error::Misuse("the connection cannot carry another request"));
        }
        check_framing(framing)?;
        self.connection.input.next_message();
        self.written_before = self.connection.written;
        write::whole(self.connection.out(), |out| {
            put(out)?;
            match framing {
                Framing::Length(length) => put_length(out, length),
                Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
                _ if asks == Asks::WithBody => put_length(out, 0),
                _ => {}
            }
            out.extend_from_slice(b"\r\n");
            Ok(())
        })?;
        self.sending = Sending::of(framing);
        (self.stage, self.asks) = (ClientStage::Asked, asks);
        (self.informational, self.scan) = (0, Scan::default());
        self.body.begin(Framing::None);
        self.connection.watch.read_done();
        Ok(())
    }

    /// Writes bytes of the request's body; waits only if the output is full.
    pub async fn body(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for part in bytes.chunks(super::OUTPUT_BYTES_MAX) {
            if self.connection.out.len() + part.len() > super::OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
            self.sending.push(self.connection.out(), part)?;
        }
        Ok(())
    }

    /// Lets `fill` append bytes of the body to the output, where they are made in place; it must
    /// not touch what stands there already. Waits for nothing: whoever writes more than a few of
    /// them calls [`Self::flush`] between.
    pub fn body_with<R>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, Error> {
        self.sending.push_with(self.connection.out(), fill)
    }

    /// Ends the request.
    pub fn end(&mut self) -> Result<(), Error> {
        self.end_with(std::iter::empty())
    }

    /// Ends the request with trailers, which are left out where the body is not in chunks.
    pub fn end_with<'f>(
        &mut self,
        trailers: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        self.sending.end(self.connection.out(), trailers)
    }

    /// Writes out what is in the output. After an error [`Self::answer`] may still have one: a
    /// server that refuses a body closes its side.
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// As [`Self::flush`], for a caller that waits for other things, too.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let flushed = ready!(self.connection.poll_flush(context));
        self.close |= flushed.is_err();
        Poll::Ready(flushed)
    }

    /// Writes out what is in the output, until the server begins to answer.
    pub async fn send(&mut self) -> Result<SendOutcome, Error> {
        poll_fn(|context| {
            if let Poll::Ready(flushed) = self.poll_flush(context) {
                return Poll::Ready(flushed.map(|()| SendOutcome::All));
            }
            if self.stage == ClientStage::Asked && self.connection.input.raw().is_empty() {
                self.connection.watch.read_done();
                match ready!(self.connection.poll_more(context))? {
                    Some(0) => return Poll::Ready(Err(Error::Cut)),
                    _ => return Poll::Ready(Ok(SendOutcome::Early)),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Whether bytes of the body are still to be written, or its end.
    pub(crate) fn has_body_to_send(&self) -> bool {
        self.sending != Sending::Done
    }

    /// Bytes that wait in the output.
    pub fn unflushed(&self) -> usize {
        self.connection.out.len()
    }

    /// The next answer: informational ones (1xx) one by one, then the final one.
    ///
    /// What is in the output is not written out by this: a request may be half sent on purpose.
    pub async fn answer(&mut self) -> Result<AnswerView<'_>, Error> {
        poll_fn(|context| self.poll_answer(context)).await?;
        Ok(self.answered())
    }

    /// The answer that was read last. Its head stays readable until the next call of
    /// [`Self::answer`] or [`Self::request`].
    pub fn answered(&self) -> AnswerView<'_> {
        AnswerView {
            bytes: self.connection.input.bytes(),
            head: &self.head,
        }
    }

    /// Says that the head of the final answer is not looked at any more: its buffer serves others while
    /// the body is waited for. Called before any of the body is read.
    pub(crate) fn forget_answer(&mut self) {
        self.head.forget();
        self.connection.input.next_message();
    }

    /// As [`Self::answer`], for a caller that waits for other things, too; [`Self::answered`]
    /// has it.
    pub fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.stage != ClientStage::Asked {
            return Poll::Ready(Err(Error::Misuse("nothing is asked")));
        }
        let answer = ready!(self.poll_head(context));
        self.close |= answer.is_err();
        Poll::Ready(answer)
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            if self.find_head()? {
                return Poll::Ready(Ok(()));
            }
            let watch = &self.connection.watch;
            let begun = !self.connection.input.raw().is_empty();
            if !watch.is_reading_bounded() {
                let settings = &watch.bounds;
                watch.read_within(if begun {
                    settings.head_ms
                } else {
                    settings.answer_ms
                });
            }
            match ready!(self.connection.poll_more(context))? {
                None if begun => return Poll::Ready(Err(Error::Slow(Wait::Head))),
                None => return Poll::Ready(Err(Error::Slow(Wait::Answer))),
                Some(0) => return Poll::Ready(Err(Error::Cut)),
                Some(_) if !begun => self.connection.watch.read_done(),
                Some(_) => {}
            }
        }
    }

    /// Reads the head if all of it is there.
    fn find_head(&mut self) -> Result<bool, Error> {
        match self.connection.input.raw() {
            [] => return Ok(false),
            [b'H', ..] => {}
            _ => return Err(Fault::NotHttp.into()),
        }
        let Some(end) = self.connection.head_end(&mut self.scan)? else {
            return Ok(false);
        };
        let input = &mut self.connection.input;
        // The head of the last informational answer makes room.
        let moved = input.raw_start() > 0;
        if moved {
            input.next_message();
        }
        let settings = &self.connection.watch.bounds;
        self.head
            .read(&input.raw()[..end], input.raw_start(), self.asks, settings)?;
        input.take_head(end);
        self.connection.watch.read_done();
        self.scan = Scan::default();
        self.close |= self.head.common.close;
        if self.head.is_switch {
            (self.stage, self.close) = (ClientStage::Switched, true);
            return Ok(true);
        }
        if self.head.status < 200 {
            self.informational += 1;
            if self.informational > super::INFORMATIONAL_MAX {
                return Err(Fault::TooManyInterim.into());
            }
            return Ok(true);
        }
        self.stage = ClientStage::Answered;
        self.body.begin(self.head.framing);
        // Bytes behind an answer that has none belong to nothing.
        if self.body.is_done() && !input.raw().is_empty() {
            self.close = true;
        }
        Ok(true)
    }

    /// The next bytes of the answer's body as they came; nothing after its end. They may be worked
    /// on in place.
    pub async fn piece(&mut self) -> Result<Option<&mut [u8]>, Error> {
        poll_fn(|context| self.poll_fill(context, 1)).await?;
        match self.connection.input.data_len() {
            0 => Ok(None),
            _ => Ok(Some(self.use_up())),
        }
    }

    /// The bytes of the body that are here, which are used up by this.
    pub(crate) fn use_up(&mut self) -> &mut [u8] {
        let bytes = self.connection.input.data_len();
        self.connection.input.use_up(bytes)
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
        if self.stage != ClientStage::Answered {
            return Poll::Ready(Err(Error::Misuse("there is no answer to read")));
        }
        let filled = ready!(self.connection.poll_fill(context, &mut self.body, want));
        self.close |= filled.is_err();
        Poll::Ready(filled)
    }

    /// The bytes of the body that are here and not consumed.
    pub fn filled(&mut self) -> &mut [u8] {
        self.connection.input.data()
    }

    /// Uses up bytes of [`Self::fill`]; at most those that it had.
    pub fn consume(&mut self, bytes: usize) {
        self.connection.input.consume(bytes);
    }

    /// Whether all of the answer's body came; some of it may still be there to be used.
    pub fn is_body_here(&self) -> bool {
        self.body.is_done()
    }

    /// The trailers of the answer; empty before the end of its body.
    pub fn trailers(&self) -> Fields<'_> {
        Fields::new(self.connection.input.bytes(), &self.body.trailers)
    }
}

/// Refuses a method, target or authority that cannot be written.
pub(super) fn check_request(method: &[u8], target: &[u8], authority: &[u8]) -> Result<(), Error> {
    if !is_token(method) || method == b"CONNECT" || head::form(method, target).is_none() {
        return Err(Error::Misuse("a method or target that cannot be written"));
    }
    if !authority.is_empty() && !head::is_authority(authority) {
        return Err(Error::Misuse("an authority that cannot be written"));
    }
    Ok(())
}

/// Refuses what is no host with a port, which CONNECT has to name.
pub(super) fn check_authority(authority: &[u8]) -> Result<(), Error> {
    match head::form(b"CONNECT", authority) {
        Some(_) => Ok(()),
        None => Err(Error::Misuse("an authority that cannot be written")),
    }
}

/// An answer's head, lent from the buffer that it was read into.
#[derive(Clone, Copy)]
pub struct AnswerView<'a> {
    bytes: &'a [u8],
    head: &'a AnswerHead,
}

impl<'a> AnswerView<'a> {
    /// 100 to 999.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// Whether another answer follows.
    pub fn is_informational(&self) -> bool {
        self.head.status < 200 && !self.head.is_switch
    }

    /// The reason as it came, which means nothing; empty if it is not ASCII.
    pub fn reason(&self) -> &'a [u8] {
        self.head.reason.in_(self.bytes)
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

    /// The Content-Length that came: what a body would have had where there is none.
    pub fn length(&self) -> Option<u64> {
        self.head.common.length
    }
}
