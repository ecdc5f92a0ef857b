//! One message that is being sealed.
//!
//! It exists apart from its sender because a message already begun keeps its sender's key, even when the
//! sender is spent and gone. It refuses chunks after the final one.

use std::rc::Rc;

use super::{Aad, ChunkHead, Line, Piece, Progress, State};
use crate::error::Error;
use crate::head::{
    CHUNK_EXTRA_BYTES, CHUNK_HEAD_BYTES, CHUNK_PLAIN_BYTES_MAX, RETRY_OF_BYTES, TAG_BYTES,
};

/// A message that is being sealed, chunk by chunk. Dropped before its final chunk, it is cut.
#[must_use = "a message without its final chunk is cut"]
pub struct Sealing {
    line: Rc<Line>,
    ctr: u64,
    aad: Aad,
    retry_of: Option<[u8; RETRY_OF_BYTES]>,
    progress: Progress,
}

impl Sealing {
    pub(crate) fn new(
        line: Rc<Line>,
        ctr: u64,
        aad: Aad,
        retry_of: Option<[u8; RETRY_OF_BYTES]>,
    ) -> Sealing {
        Sealing {
            line,
            ctr,
            aad,
            retry_of,
            progress: Progress::default(),
        }
    }

    /// Bytes at the beginning of the next chunk's plaintext that [`Sealing::seal`] writes itself: those
    /// that name the first attempt, in the first chunk of a retry.
    pub fn prefix_bytes(&self) -> usize {
        match self.retry_of {
            Some(_) if self.progress.chunks == 0 => RETRY_OF_BYTES,
            _ => 0,
        }
    }

    /// Seals one chunk in place. `chunk` is 4 bytes for its head, then the plaintext, of which the first
    /// [`Sealing::prefix_bytes`] are room too, then 16 bytes for the tag.
    ///
    /// # Errors
    /// [`Error::Chunk`] for an empty chunk that is not final and one that is too long, [`Error::TooLong`]
    /// for a message that is, [`Error::AfterFinal`]. Nothing was sealed then, and the message is over.
    pub fn seal(&mut self, chunk: &mut [u8], piece: Piece) -> Result<(), Error> {
        let sealed = self.try_seal(chunk, piece);
        if sealed.is_err() {
            self.progress.state = State::Failed;
        }
        sealed
    }

    fn try_seal(&mut self, chunk: &mut [u8], piece: Piece) -> Result<(), Error> {
        let (head, rest) = chunk
            .split_first_chunk_mut::<CHUNK_HEAD_BYTES>()
            .ok_or(Error::Chunk)?;
        let (text, tag) = rest
            .split_last_chunk_mut::<TAG_BYTES>()
            .ok_or(Error::Chunk)?;
        if let (Some(retry_of), 0) = (self.retry_of, self.progress.chunks) {
            let prefix = text.first_chunk_mut().ok_or(Error::Chunk)?;
            *prefix = retry_of;
        }
        let index = self.progress.take(text.len(), piece)?;
        self.line.chunks.set(self.line.chunks.get() + 1);
        let bytes = (text.len() + TAG_BYTES) as u64;
        self.line.bytes.set(self.line.bytes.get() + bytes);
        let nonce = self.line.nonce(self.ctr, index, piece);
        *tag = self.line.key.seal(nonce, self.aad.of(index), text)?;
        *head = ChunkHead::to_bytes(text.len(), piece);
        Ok(())
    }

    /// Makes room at the end of a buffer for a chunk's head and prefix, and says where the chunk begins.
    /// What is then appended is its plaintext, until [`Sealing::end_chunk`].
    pub fn begin_chunk(&self, out: &mut Vec<u8>) -> usize {
        let at = out.len();
        out.resize(at + CHUNK_HEAD_BYTES + self.prefix_bytes(), 0);
        at
    }

    /// Bytes of plaintext for which the chunk that begins at `at` still has room.
    pub fn room(out: &[u8], at: usize) -> usize {
        let used = out.len().saturating_sub(at + CHUNK_HEAD_BYTES);
        CHUNK_PLAIN_BYTES_MAX.saturating_sub(used)
    }

    /// Seals everything from `at` to the end of the buffer as one chunk, and appends its tag.
    ///
    /// # Errors
    /// As [`Sealing::seal`]. What was not sealed is then taken out of the buffer, so that no plaintext can be
    /// sent by mistake.
    pub fn end_chunk(&mut self, out: &mut Vec<u8>, at: usize, piece: Piece) -> Result<(), Error> {
        out.resize(out.len() + TAG_BYTES, 0);
        let chunk = out.get_mut(at..).unwrap_or_default();
        let sealed = self.seal(chunk, piece);
        if sealed.is_err() {
            out.get_mut(at..).unwrap_or_default().fill(0);
            out.truncate(at);
        }
        sealed
    }

    /// Seals a whole plaintext as one chunk at the end of a buffer. For small ones: it copies.
    ///
    /// # Errors
    /// As [`Sealing::seal`].
    pub fn push(&mut self, out: &mut Vec<u8>, text: &[u8], piece: Piece) -> Result<(), Error> {
        out.reserve(CHUNK_EXTRA_BYTES + self.prefix_bytes() + text.len());
        let at = self.begin_chunk(out);
        out.extend_from_slice(text);
        self.end_chunk(out, at, piece)
    }

    #[cfg(test)]
    pub(crate) fn forget_retry_of(&mut self) {
        self.retry_of = None;
    }

    /// Whether the final chunk was sealed.
    pub fn is_ended(&self) -> bool {
        self.progress.state == State::Ended
    }
}
