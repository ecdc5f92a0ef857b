//! Chunks: how a message of any length is sealed and opened piece by piece.
//!
//! It exists so that the limits and the rules of the final chunk stand once, for both directions. A
//! message ends by its final chunk and by nothing else: everything before is a cut, and after it nothing
//! is read. Nothing here copies or allocates: sealing and opening happen in the caller's buffer.

mod opening;
mod sealing;
#[cfg(test)]
mod tests;

pub use opening::Opening;
pub use sealing::Sealing;

use std::cell::Cell;

use crate::aead::Key;
use crate::error::Error;
use crate::head::{
    CHUNK_HEAD_BYTES, CHUNK_PLAIN_BYTES_MAX, REQUEST_BYTES, RESPONSE_BYTES, TAG_BYTES,
};
use crate::key::SenderId;
use crate::schedule::{Secret, nonce, sender_key};
use crate::suite::Suite;

/// A message has fewer chunks than this.
pub const CHUNKS_LIMIT: u32 = 1 << 24;
/// A message has fewer bytes of ciphertext and tags than this.
pub const BYTES_LIMIT: u64 = 1 << 38;

const LAST_BIT: u32 = 1 << 31;

/// Whether a chunk ends its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    More,
    Last,
}

/// The four bytes before a chunk, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Bytes of the whole chunk with these four.
    pub bytes: usize,
    pub piece: Piece,
}

impl ChunkHead {
    /// Reads the four bytes before a chunk.
    ///
    /// # Errors
    /// [`Error::Chunk`] for a chunk without a whole tag, one that is too long, and an empty one that is
    /// not final.
    pub fn read(bytes: [u8; CHUNK_HEAD_BYTES]) -> Result<ChunkHead, Error> {
        let word = u32::from_be_bytes(bytes);
        let sealed_bytes = (word & !LAST_BIT) as usize;
        let piece = match word & LAST_BIT {
            0 => Piece::More,
            _ => Piece::Last,
        };
        let plain_bytes = sealed_bytes.checked_sub(TAG_BYTES).ok_or(Error::Chunk)?;
        check_length(plain_bytes, piece)?;
        Ok(ChunkHead {
            bytes: CHUNK_HEAD_BYTES + sealed_bytes,
            piece,
        })
    }

    fn to_bytes(plain_bytes: usize, piece: Piece) -> [u8; CHUNK_HEAD_BYTES] {
        let sealed_bytes = (plain_bytes + TAG_BYTES) as u32;
        let last = match piece {
            Piece::More => 0,
            Piece::Last => LAST_BIT,
        };
        (sealed_bytes | last).to_be_bytes()
    }
}

fn check_length(plain_bytes: usize, piece: Piece) -> Result<(), Error> {
    let empty = plain_bytes == 0 && piece == Piece::More;
    if empty || plain_bytes > CHUNK_PLAIN_BYTES_MAX {
        return Err(Error::Chunk);
    }
    Ok(())
}

/// How far a message is.
#[derive(Default)]
struct Progress {
    chunks: u32,
    bytes: u64,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Going,
    Ended,
    Failed,
}

impl Progress {
    /// Takes the place of one chunk: its number, or the reason why the message cannot have it.
    fn take(&mut self, plain_bytes: usize, piece: Piece) -> Result<u32, Error> {
        match self.state {
            State::Going => {}
            State::Ended => return Err(Error::AfterFinal),
            State::Failed => return Err(Error::Failed),
        }
        check_length(plain_bytes, piece)?;
        let bytes = self.bytes + (plain_bytes + TAG_BYTES) as u64;
        if self.chunks + 1 >= CHUNKS_LIMIT || bytes >= BYTES_LIMIT {
            return Err(Error::TooLong);
        }
        let index = self.chunks;
        self.chunks += 1;
        self.bytes = bytes;
        if piece == Piece::Last {
            self.state = State::Ended;
        }
        Ok(index)
    }
}

/// Key and IV of one sender of one direction, and what went through them here.
pub(crate) struct Line {
    pub(crate) id: SenderId,
    key: Key,
    iv: [u8; 12],
    pub(crate) chunks: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
}

impl Line {
    pub(crate) fn new(way: &Secret, suite: Suite, id: SenderId) -> Line {
        let (key, iv) = sender_key(way, suite, id);
        Line {
            id,
            key,
            iv,
            chunks: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    fn nonce(&self, ctr: u64, index: u32, piece: Piece) -> [u8; 12] {
        nonce(&self.iv, ctr, index, piece == Piece::Last)
    }
}

/// What the seal of a message's first chunk covers beside its text.
pub(crate) struct Aad {
    bytes: [u8; REQUEST_BYTES],
    length: usize,
}

/// Bytes of a response's: its head, and whom it answers.
const RESPONSE_AAD_BYTES: usize = RESPONSE_BYTES + 24;

impl Aad {
    /// The whole head of a request.
    pub(crate) fn request(head: &[u8; REQUEST_BYTES]) -> Aad {
        Aad {
            bytes: *head,
            length: REQUEST_BYTES,
        }
    }

    /// The head of a response, and the S and ctr of its request, which are not sent.
    pub(crate) fn response(head: &[u8; RESPONSE_BYTES], to: SenderId, ctr: u64) -> Aad {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..32].copy_from_slice(head);
        bytes[32..48].copy_from_slice(&to.0);
        bytes[48..RESPONSE_AAD_BYTES].copy_from_slice(&ctr.to_be_bytes());
        Aad {
            bytes,
            length: RESPONSE_AAD_BYTES,
        }
    }

    /// Later chunks need none: their place is in the nonce.
    fn of(&self, index: u32) -> &[u8] {
        match index {
            0 => &self.bytes[..self.length],
            _ => &[],
        }
    }
}
