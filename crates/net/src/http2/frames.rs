//! Frames that cost a server and carry nothing of a request are counted as they come, and are too many at a bound.
//!
//! `h2` bounds what a stream can make it keep. What a connection can make it do is bounded here: floods of PING and
//! SETTINGS (CVE-2019-9512, CVE-2019-9515), of CONTINUATION (CVE-2024-27316), of empty DATA (CVE-2019-9518), of
//! priorities (CVE-2019-9513), and of streams that are taken back at once (CVE-2023-44487). Only the nine bytes before each
//! frame are looked at; what comes is changed in nothing.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::limit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes of the preface of a client.
const PREFACE_BYTES: u32 = 24;
/// Bytes before the content of a frame (RFC 9113 §4.1).
const FRAME_HEAD_BYTES: usize = 9;
/// What a flood is counted over.
const SPAN: Duration = Duration::from_secs(1);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;

/// Whether the other side of a connection sends too much that means nothing.
pub(super) struct FrameGuard {
    idle: FrameBudget,
    resets: FrameBudget,
    is_flooded: Cell<bool>,
}

impl FrameGuard {
    pub(super) fn new() -> Rc<FrameGuard> {
        Rc::new(FrameGuard {
            idle: FrameBudget::new(limit::HTTP2_IDLE_FRAMES_MAX),
            resets: FrameBudget::new(limit::HTTP2_RESETS_MAX),
            is_flooded: Cell::new(false),
        })
    }

    /// Whether it does; nothing more is read then.
    pub(super) fn is_flooded(&self) -> bool {
        self.is_flooded.get()
    }

    fn came(&self, frame: FrameHead) {
        let budget = match frame.kind {
            HEADERS | WINDOW_UPDATE => return,
            DATA if frame.bytes > 0 || frame.flags & END_STREAM != 0 => return,
            RST_STREAM => &self.resets,
            _ => &self.idle,
        };
        if !budget.spend() {
            self.is_flooded.set(true);
        }
    }
}

/// So many of one kind in a second. The clock is read once for each time that the bound is reached.
struct FrameBudget {
    max: u32,
    spent: Cell<u32>,
    since: Cell<Option<Instant>>,
}

impl FrameBudget {
    fn new(max: u32) -> FrameBudget {
        FrameBudget {
            max,
            spent: Cell::new(0),
            since: Cell::new(None),
        }
    }

    fn spend(&self) -> bool {
        let spent = self.spent.get();
        if spent == 0 || spent == self.max {
            let now = Instant::now();
            let is_over = |since: Instant| now.duration_since(since) >= SPAN;
            if spent > 0 && !self.since.get().is_some_and(is_over) {
                return false;
            }
            self.since.set(Some(now));
            self.spent.set(1);
            return true;
        }
        self.spent.set(spent + 1);
        true
    }
}

/// What stands before the content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHead {
    bytes: u32,
    kind: u8,
    flags: u8,
}

/// Finds the heads of frames in bytes that come in any pieces.
#[derive(Debug)]
struct FrameWalk {
    /// Bytes that belong to no head.
    skip: u32,
    head: [u8; FRAME_HEAD_BYTES],
    here: usize,
}

impl FrameWalk {
    fn new(skip: u32) -> FrameWalk {
        FrameWalk {
            skip,
            head: [0; FRAME_HEAD_BYTES],
            here: 0,
        }
    }

    fn walk(&mut self, mut bytes: &[u8], mut found: impl FnMut(FrameHead)) {
        while !bytes.is_empty() {
            let skipped = bytes.len().min(self.skip as usize);
            self.skip -= skipped as u32;
            bytes = &bytes[skipped..];
            let taken = bytes.len().min(FRAME_HEAD_BYTES - self.here);
            self.head[self.here..self.here + taken].copy_from_slice(&bytes[..taken]);
            self.here += taken;
            bytes = &bytes[taken..];
            if self.here == FRAME_HEAD_BYTES {
                let [a, b, c, kind, flags, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                found(FrameHead {
                    bytes: length,
                    kind,
                    flags,
                });
                (self.skip, self.here) = (length, 0);
            }
        }
    }
}

/// A connection whose frames are counted as they are read.
pub(super) struct GuardedStream<S> {
    stream: S,
    guard: Rc<FrameGuard>,
    walk: FrameWalk,
}

impl<S> GuardedStream<S> {
    /// Of a client, which begins with the preface.
    pub(super) fn of_client(stream: S, guard: &Rc<FrameGuard>) -> GuardedStream<S> {
        Self::new(stream, guard, PREFACE_BYTES)
    }

    pub(super) fn of_server(stream: S, guard: &Rc<FrameGuard>) -> GuardedStream<S> {
        Self::new(stream, guard, 0)
    }

    fn new(stream: S, guard: &Rc<FrameGuard>, skip: u32) -> GuardedStream<S> {
        GuardedStream {
            stream,
            guard: Rc::clone(guard),
            walk: FrameWalk::new(skip),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Whoever drives the connection looks at the guard after each turn.
        if this.guard.is_flooded() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let guard = &this.guard;
        this.walk
            .walk(&buffer.filled()[before..], |head| guard.came(head));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The heads of the frames in these pieces, for the fuzzer: their lengths and kinds.
pub(super) fn heads(pieces: &[&[u8]]) -> Vec<(u32, u8)> {
    let (mut walk, mut found) = (FrameWalk::new(0), Vec::new());
    for piece in pieces {
        walk.walk(piece, |head| found.push((head.bytes, head.kind)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: u32, kind: u8, flags: u8) -> Vec<u8> {
        let [_, a, b, c] = bytes.to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD_BYTES + bytes as usize, 0xff);
        frame
    }

    #[test]
    fn heads_are_found_in_any_pieces() {
        let mut bytes = frame(0, 4, 0);
        bytes.extend(frame(300, DATA, 0));
        bytes.extend(frame(8, 6, 0));
        let all = [(0, 4), (300, DATA), (8, 6)];
        for size in [1, 2, 7, 9, 10, 100, 1000] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(heads(&pieces), all, "pieces of {size}");
        }
    }

    #[test]
    fn what_means_nothing_is_too_many_at_a_bound() {
        let guard = FrameGuard::new();
        let came = |kind, bytes, flags| guard.came(FrameHead { bytes, kind, flags });
        for _ in 0..limit::HTTP2_IDLE_FRAMES_MAX * 2 {
            came(HEADERS, 10, 0);
            came(DATA, 10, 0);
            came(DATA, 0, END_STREAM);
            came(WINDOW_UPDATE, 4, 0);
        }
        assert!(!guard.is_flooded());
        for _ in 0..limit::HTTP2_IDLE_FRAMES_MAX {
            came(6, 8, 0);
        }
        assert!(!guard.is_flooded());
        came(DATA, 0, 0);
        assert!(guard.is_flooded());
    }

    #[test]
    fn streams_that_are_taken_back_have_a_bound_of_their_own() {
        let guard = FrameGuard::new();
        let reset = || {
            guard.came(FrameHead {
                bytes: 4,
                kind: RST_STREAM,
                flags: 0,
            });
        };
        (0..limit::HTTP2_RESETS_MAX).for_each(|_| reset());
        assert!(!guard.is_flooded());
        reset();
        assert!(guard.is_flooded());
    }
}
