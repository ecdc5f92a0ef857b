//! The buffers of one thread, and the input of one connection.
//!
//! Buffers belong to the thread, not to the connection: one that waits gives its buffers back, and
//! the next one that has something to do takes them while they are still in the cache. So memory
//! follows the calls in flight, not the connections.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::stream::Socket;

/// Bytes of a new buffer: a message of 10 KB and its head fit.
const FIRST_BYTES: usize = 16 << 10;
/// Bytes up to which a buffer grows by itself, when reads fill it.
const READ_BYTES_MAX: usize = 64 << 10;
/// Buffers of each kind that a thread keeps.
const KEPT_MAX: usize = 64;

/// The buffers that nobody uses now.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    inputs: RefCell<Vec<Vec<u8>>>,
    outputs: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// A buffer of `FIRST_BYTES` or more, all of them readable.
    fn input(&self) -> Vec<u8> {
        let kept = self.inputs.borrow_mut().pop();
        kept.unwrap_or_else(|| vec![0; FIRST_BYTES])
    }

    /// An empty buffer.
    pub(super) fn output(&self) -> Vec<u8> {
        let kept = self.outputs.borrow_mut().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(FIRST_BYTES))
    }

    /// How many there are.
    pub(super) fn kept(&self) -> usize {
        self.inputs.borrow().len() + self.outputs.borrow().len()
    }

    fn give_input(&self, buffer: Vec<u8>) {
        let mut kept = self.inputs.borrow_mut();
        if kept.len() < KEPT_MAX && (FIRST_BYTES..=READ_BYTES_MAX).contains(&buffer.len()) {
            kept.push(buffer);
        }
    }

    pub(super) fn give_output(&self, mut buffer: Vec<u8>) {
        let mut kept = self.outputs.borrow_mut();
        if kept.len() < KEPT_MAX && (1..=READ_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

/// What came on a connection and is not used up.
///
/// In the buffer stand, in this order: the head that is lent (below `floor`), decoded bytes of a
/// body (`data`), and bytes as they came (`raw`).
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    floor: usize,
    data: Range<usize>,
    raw: Range<usize>,
    filled: bool,
}

impl Input {
    /// All bytes, for places to point into.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.bytes[self.raw.clone()]
    }

    pub(super) fn raw_start(&self) -> usize {
        self.raw.start
    }

    pub(super) fn data_len(&self) -> usize {
        self.data.len()
    }

    pub(super) fn data(&mut self) -> &mut [u8] {
        &mut self.bytes[self.data.clone()]
    }

    /// Forgets the head and the body of the last message; what came after them moves to the front.
    pub(super) fn next_message(&mut self) {
        (self.floor, self.data) = (0, 0..0);
        if self.raw.start > 0 {
            self.bytes.copy_within(self.raw.clone(), 0);
            self.raw = 0..self.raw.len();
        }
    }

    /// Passes over raw bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.raw.len());
        self.raw.start += bytes;
    }

    /// Takes raw bytes as the head that is lent until the next message.
    pub(super) fn take_head(&mut self, bytes: usize) {
        self.skip(bytes);
        self.floor = self.raw.start;
        self.data = self.floor..self.floor;
    }

    /// Whether taking raw bytes as data would have to move them.
    pub(super) fn is_apart(&self) -> bool {
        !self.data.is_empty() && self.data.end != self.raw.start
    }

    /// Takes raw bytes as data, behind the data that is there.
    pub(super) fn take_data(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.raw.len());
        let end = self.raw.start + bytes;
        if self.data.is_empty() {
            self.data = self.raw.start..end;
        } else {
            if self.is_apart() {
                self.bytes.copy_within(self.raw.start..end, self.data.end);
            }
            self.data.end += bytes;
        }
        self.raw.start = end;
    }

    /// Uses up the first bytes of the data, and lends them.
    pub(super) fn use_up(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.data.start;
        self.consume(bytes);
        &mut self.bytes[start..start + bytes]
    }

    /// Whether there is neither data nor anything that came after it.
    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.raw.is_empty()
    }

    /// Uses up data.
    pub(super) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.data.len());
        self.data.start += bytes;
    }

    /// Reads once, with a buffer of at most `max` bytes; 0 is the end of the stream. `OutOfMemory`
    /// says that the buffer is full: whoever asks has to have bounded what he asks for.
    pub(super) fn poll_read<S: Socket>(
        &mut self,
        io: &mut S,
        context: &mut Context<'_>,
        buffers: &Buffers,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(buffers, max)?;
        let room = self.bytes.len() - self.raw.end;
        let mut buffer = ReadBuf::new(&mut self.bytes[self.raw.end..]);
        let Poll::Ready(done) = Pin::new(io).poll_read(context, &mut buffer) else {
            self.give_back(buffers);
            return Poll::Pending;
        };
        let read = buffer.filled().len();
        done?;
        self.raw.end += read;
        self.filled = read == room;
        Poll::Ready(Ok(read))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        (self.floor, self.data, self.raw) = (0, 0..0, 0..0);
    }

    /// Gives the buffer back if nothing is in it.
    pub(super) fn give_back(&mut self, buffers: &Buffers) {
        if self.floor == 0 && self.data.is_empty() && self.raw.is_empty() {
            let Input { bytes, .. } = std::mem::take(self);
            buffers.give_input(bytes);
        }
    }

    fn make_room(&mut self, buffers: &Buffers, max: usize) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes = buffers.input();
        }
        let filled = std::mem::take(&mut self.filled);
        if self.data.is_empty() && self.raw.is_empty() {
            (self.data, self.raw) = (self.floor..self.floor, self.floor..self.floor);
        }
        if filled && self.bytes.len() < READ_BYTES_MAX {
            self.bytes
                .resize((2 * self.bytes.len()).min(max.max(self.bytes.len())), 0);
        }
        if self.raw.end < self.bytes.len() {
            return Ok(());
        }
        let kept = if self.data.is_empty() {
            self.raw.start
        } else {
            self.data.start
        };
        let gain = kept - self.floor;
        if gain > 0 {
            self.bytes.copy_within(kept..self.raw.end, self.floor);
            self.data = self.data.start.saturating_sub(gain)..self.data.end.saturating_sub(gain);
            self.raw = self.raw.start - gain..self.raw.end - gain;
        }
        if gain < self.bytes.len() / 4 && self.bytes.len() < max {
            self.bytes.resize((2 * self.bytes.len()).min(max), 0);
        }
        if self.raw.end < self.bytes.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }
}
