//! One message that is being opened.
//!
//! It exists so that nothing of a message is seen before its tag verified, and so that its end is its final
//! chunk. After the first failure it refuses everything.

use std::rc::Rc;

use super::{Aad, ChunkHead, Line, Piece, Progress, State};
use crate::error::Error;
use crate::head::{CHUNK_HEAD_BYTES, TAG_BYTES};

/// A message that is being opened, chunk by chunk. It keeps its keys to its end.
pub struct Opening {
    line: Rc<Line>,
    ctr: u64,
    aad: Aad,
    progress: Progress,
}

impl Opening {
    pub(crate) fn new(line: Rc<Line>, ctr: u64, aad: Aad) -> Opening {
        Opening {
            line,
            ctr,
            aad,
            progress: Progress::default(),
        }
    }

    /// Opens one chunk in place. `chunk` is exactly one chunk with its head, as [`ChunkHead::bytes`] says;
    /// the plaintext is returned where its ciphertext was.
    ///
    /// # Errors
    /// [`Error::Chunk`] for a length that a chunk must not have or that is not the buffer's,
    /// [`Error::Open`] if it does not verify, [`Error::TooLong`], [`Error::AfterFinal`], and after any of
    /// them [`Error::Failed`].
    pub fn open<'a>(&mut self, chunk: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let opened = self.try_open(chunk);
        if opened.is_err() {
            self.progress.state = State::Failed;
        }
        opened
    }

    fn try_open<'a>(&mut self, chunk: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        let bytes = chunk.len();
        let (head, sealed) = chunk
            .split_first_chunk_mut::<CHUNK_HEAD_BYTES>()
            .ok_or(Error::Chunk)?;
        let head = ChunkHead::read(*head)?;
        if head.bytes != bytes {
            return Err(Error::Chunk);
        }
        let index = self.progress.take(sealed.len() - TAG_BYTES, head.piece)?;
        let nonce = self.line.nonce(self.ctr, index, head.piece);
        self.line.key.open(nonce, self.aad.of(index), sealed)
    }

    /// Whether the final chunk was opened: the message is whole.
    pub fn is_ended(&self) -> bool {
        self.progress.state == State::Ended
    }

    /// Says that there is no more input.
    ///
    /// # Errors
    /// [`Error::Cut`] if the message is not whole.
    pub fn end(&self) -> Result<(), Error> {
        match self.progress.state {
            State::Ended => Ok(()),
            State::Going => Err(Error::Cut),
            State::Failed => Err(Error::Failed),
        }
    }

    pub(crate) fn line(&self) -> &Rc<Line> {
        &self.line
    }
}

impl Piece {
    /// Whether this is the final piece.
    pub fn is_last(self) -> bool {
        self == Piece::Last
    }
}
