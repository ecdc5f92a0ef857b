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
/// Bytes of buffers of each kind that a thread keeps at most. Below the most that its calls use at
/// once, each of them would make its own anew.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Buffers of each kind that a thread keeps even if nobody needs them for a while.
const KEPT_ALWAYS: usize = 16;

/// The buffers that nobody uses now.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    inputs: RefCell<Shelf>,
    outputs: RefCell<Shelf>,
}

/// Buffers of one kind. The one that was given back last goes first, because it is still in the
/// cache.
#[derive(Debug, Default)]
struct Shelf {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// The fewest that lay here since the last trim: so many were not needed.
    unused: usize,
}

impl Shelf {
    fn take(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.bytes -= buffer.capacity();
        self.unused = self.unused.min(self.buffers.len());
        Some(buffer)
    }

    fn give(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes <= READ_BYTES_MAX && self.bytes + bytes <= KEPT_BYTES_MAX {
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }

    /// Gives back to the system what was not needed since the last time.
    fn trim(&mut self) {
        let spare = self.buffers.len().saturating_sub(KEPT_ALWAYS);
        for buffer in self.buffers.drain(..self.unused.min(spare)) {
            self.bytes -= buffer.capacity();
        }
        self.unused = self.buffers.len();
    }
}

impl Buffers {
    /// A buffer of `FIRST_BYTES` or more, all of them readable.
    fn input(&self) -> Vec<u8> {
        let kept = self.inputs.borrow_mut().take();
        kept.unwrap_or_else(|| vec![0; FIRST_BYTES])
    }

    /// An empty buffer.
    pub(super) fn output(&self) -> Vec<u8> {
        let kept = self.outputs.borrow_mut().take();
        kept.unwrap_or_else(|| Vec::with_capacity(FIRST_BYTES))
    }

    /// How many there are.
    pub(super) fn kept(&self) -> usize {
        self.inputs.borrow().buffers.len() + self.outputs.borrow().buffers.len()
    }

    fn give_input(&self, buffer: Vec<u8>) {
        if buffer.len() >= FIRST_BYTES {
            self.inputs.borrow_mut().give(buffer);
        }
    }

    pub(super) fn give_output(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            buffer.clear();
            self.outputs.borrow_mut().give(buffer);
        }
    }

    /// Gives back to the system what was not needed since the last time.
    pub(super) fn trim(&self) {
        self.inputs.borrow_mut().trim();
        self.outputs.borrow_mut().trim();
    }
}

/// What came on a connection and is not used up.
///
/// In the buffer stand, in this order: the head that is lent (below `floor`), decoded bytes of a
/// body (`data`), and bytes as they came (`raw`).
#[derive(Debug, Default)]
pub(crate) struct Input {
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

    pub(crate) fn raw(&self) -> &[u8] {
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
    pub(crate) fn skip(&mut self, bytes: usize) {
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
    pub(crate) fn poll_read<S: Socket>(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as are used at once come back to whoever asks next.
    #[test]
    fn what_is_used_at_once_is_kept() {
        let buffers = Buffers::default();
        for _ in 0..3 {
            let used: Vec<_> = (0..200).map(|_| buffers.input()).collect();
            used.into_iter()
                .for_each(|buffer| buffers.give_input(buffer));
            assert_eq!(buffers.kept(), 200);
            buffers.trim();
        }
    }

    #[test]
    fn what_nobody_needs_is_given_back() {
        let buffers = Buffers::default();
        let used: Vec<_> = (0..200).map(|_| buffers.output()).collect();
        used.into_iter()
            .for_each(|buffer| buffers.give_output(buffer));
        buffers.trim();
        assert_eq!(buffers.kept(), 200, "all were used since the last trim");
        let few: Vec<_> = (0..40).map(|_| buffers.output()).collect();
        few.into_iter()
            .for_each(|buffer| buffers.give_output(buffer));
        buffers.trim();
        assert_eq!(buffers.kept(), 40);
        buffers.trim();
        buffers.trim();
        assert_eq!(buffers.kept(), KEPT_ALWAYS);
        assert!(buffers.outputs.borrow().bytes <= KEPT_ALWAYS * FIRST_BYTES);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let buffers = Buffers::default();
        for _ in 0..2 * KEPT_BYTES_MAX / FIRST_BYTES {
            buffers.give_input(vec![0; FIRST_BYTES]);
        }
        assert_eq!(buffers.kept(), KEPT_BYTES_MAX / FIRST_BYTES);
        let buffers = Buffers::default();
        buffers.give_input(vec![0; READ_BYTES_MAX + 1]);
        buffers.give_output(vec![0; READ_BYTES_MAX + 1]);
        buffers.give_input(Vec::new());
        buffers.give_output(Vec::new());
        assert_eq!(buffers.kept(), 0);
    }
}
