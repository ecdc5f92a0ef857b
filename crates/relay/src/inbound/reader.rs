//! A sealed request, read chunk by chunk: its head, its content where it stands in the buffer, its end.
//!
//! A chunk's plaintext is seen only after its tag verified, and the end only after the final chunk. Content is not
//! copied: it is lent by its place, until the next is asked for.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;

use net::h1::{Error, ServerConnection, Stream};
use seal::bhttp::{Decoder, Event};
use seal::head::{CHUNK_HEAD_BYTES, TAG_BYTES};
use seal::{ChunkHead, Opening};

pub(super) type Shared<'a, T> = RefCell<&'a mut T>;

/// What comes next of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The head was read; the decoder has it.
    Head,
    /// Content, at this place of what the connection has.
    Content(Range<usize>),
    /// The request is whole; the decoder has its trailers.
    End,
}

/// Why a request cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// The connection broke, or what came is not HTTP.
    Outer(Error),
    /// It ended before its final chunk, or a chunk does not verify: anybody on the way can have done that.
    Cut,
    /// What verified is no Binary HTTP: only the peer itself can have made that.
    Malformed,
}

/// A request whose first chunk was opened.
pub(super) struct Reader<'d> {
    pub(super) decoder: &'d mut Decoder,
    opening: Opening,
    /// What of the opened chunk was not read yet.
    text: Range<usize>,
    /// Where the opened chunk ends.
    chunk_end: usize,
}

impl<'d> Reader<'d> {
    /// `text` is where the plaintext of the first chunk stands, `chunk_end` where the chunk ends.
    pub(super) fn new(
        decoder: &'d mut Decoder,
        opening: Opening,
        text: Range<usize>,
        chunk_end: usize,
    ) -> Reader<'d> {
        Reader {
            decoder,
            opening,
            text,
            chunk_end,
        }
    }

    /// Whether all of it is here.
    pub(super) fn is_here(&self) -> bool {
        self.opening.is_ended()
    }

    /// Reads on. While all of it is here this waits for nothing, and what was lent stays where it is.
    pub(super) async fn next(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
    ) -> Result<Part, Bad> {
        loop {
            if let Some(part) = self.read(&mut server.borrow_mut())? {
                return Ok(part);
            }
            if self.opening.is_ended() {
                self.decoder.end().map_err(|_| Bad::Malformed)?;
                let mut server = server.borrow_mut();
                if server.filled().len() > self.chunk_end {
                    // Nothing is read behind the final chunk. What did not come yet closes the connection by itself.
                    server.close_after();
                }
                return Ok(Part::End);
            }
            self.next_chunk(server).await?;
        }
    }

    /// What is next in the chunk that is open.
    fn read(&mut self, server: &mut ServerConnection<Stream>) -> Result<Option<Part>, Bad> {
        loop {
            let mut input: &[u8] = &server.filled()[self.text.clone()];
            let event = self.decoder.read(&mut input).map_err(|_| Bad::Malformed)?;
            let content = match event {
                Event::Content(piece) => Some(piece.len()),
                _ => None,
            };
            let (event_is_head, is_more) = (event == Event::Head, event == Event::More);
            self.text.start = self.text.end - input.len();
            if let Some(bytes) = content {
                return Ok(Some(Part::Content(
                    self.text.start - bytes..self.text.start,
                )));
            }
            if event_is_head {
                return Ok(Some(Part::Head));
            }
            if is_more {
                return Ok(None);
            }
        }
    }

    async fn next_chunk(
        &mut self,
        server: &Shared<'_, ServerConnection<Stream>>,
    ) -> Result<(), Bad> {
        server.borrow_mut().consume(self.chunk_end);
        (self.text, self.chunk_end) = (0..0, 0);
        fill(server, CHUNK_HEAD_BYTES).await?;
        let head = *server.borrow_mut().filled().first_chunk().ok_or(Bad::Cut)?;
        let head = ChunkHead::read(head).map_err(|_| Bad::Cut)?;
        fill(server, head.bytes).await?;
        let mut server = server.borrow_mut();
        let chunk = &mut server.filled()[..head.bytes];
        self.opening.open(chunk).map_err(|_| Bad::Cut)?;
        self.text = CHUNK_HEAD_BYTES..head.bytes - TAG_BYTES;
        self.chunk_end = head.bytes;
        Ok(())
    }
}

/// Waits for so many bytes; that there are fewer is a cut.
pub(super) async fn fill(
    server: &Shared<'_, ServerConnection<Stream>>,
    bytes: usize,
) -> Result<(), Bad> {
    let filled = poll_fn(|context| server.borrow_mut().poll_fill(context, bytes)).await;
    filled.map_err(Bad::Outer)?;
    match server.borrow_mut().filled().len() >= bytes {
        true => Ok(()),
        false => Err(Bad::Cut),
    }
}
