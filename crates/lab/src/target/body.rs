//! The bodies of answers: whole, repeated, echoed, paced in time, or one of these with a byte changed.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::answer::{Origin, Seen};
use super::counts::Corrupted;
use super::timer::Until;

/// What bodies without a meaning are made of: letters, digits and line ends, 64 bytes a line.
static FILL: LazyLock<Bytes> = LazyLock::new(|| {
    const LINE: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+\n";
    Bytes::from(LINE.repeat(1_024))
});

/// So many bytes of [`FILL`], at most its length.
pub(super) fn fill(bytes: u64) -> Bytes {
    FILL.slice(..usize::try_from(bytes).map_or(FILL.len(), |bytes| bytes.min(FILL.len())))
}

/// A body of an answer.
pub(super) enum Body {
    /// All of it at once. Empty when it is over.
    Whole(Bytes),
    /// So many bytes of [`FILL`], over and over.
    Fill(u64),
    /// What the client sends: what was read of it, and the rest as it comes.
    Echo { first: Bytes, rest: Incoming },
    /// Pieces, each when it is due.
    Paced(Box<Paced>),
    /// One piece, and then nothing until the client goes.
    Open(Option<Bytes>),
    /// Another body, with one byte changed.
    Corrupt(Box<Corrupt>),
}

impl Body {
    pub(super) const EMPTY: Body = Body::Whole(Bytes::new());

    /// A body of so many bytes.
    pub(super) fn of_size(bytes: u64) -> Body {
        if bytes <= FILL.len() as u64 {
            Body::Whole(fill(bytes))
        } else {
            Body::Fill(bytes)
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let piece = match self.get_mut() {
            Body::Whole(bytes) => some(std::mem::take(bytes)),
            Body::Fill(left) => {
                let piece = fill(*left);
                *left -= piece.len() as u64;
                some(piece)
            }
            Body::Echo { first, rest } => {
                if !first.is_empty() {
                    some(std::mem::take(first))
                } else {
                    return poll_data(rest, context);
                }
            }
            Body::Paced(paced) => ready!(paced.poll(context)),
            Body::Open(first) => match first.take() {
                Some(first) => some(first),
                // Nobody wakes this: it is dropped when the connection closes.
                None => return Poll::Pending,
            },
            Body::Corrupt(corrupt) => return corrupt.poll(context),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Fill(left) => *left == 0,
            Body::Echo { first, rest } => first.is_empty() && rest.is_end_stream(),
            Body::Paced(_) | Body::Open(_) => false,
            Body::Corrupt(corrupt) => corrupt.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Fill(left) => SizeHint::with_exact(*left),
            Body::Echo { first, rest } => {
                let whole = rest
                    .size_hint()
                    .exact()
                    .and_then(|rest| rest.checked_add(first.len() as u64));
                whole.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Body::Paced(_) | Body::Open(_) => SizeHint::default(),
            Body::Corrupt(corrupt) => corrupt.body.size_hint(),
        }
    }
}

fn some(piece: Bytes) -> Option<Bytes> {
    (!piece.is_empty()).then_some(piece)
}

/// The next data of a client's body. Trailers are left out.
fn poll_data(
    incoming: &mut Incoming,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    loop {
        match ready!(Pin::new(&mut *incoming).poll_frame(context)) {
            Some(Ok(frame)) if !frame.is_data() => {}
            other => return Poll::Ready(other),
        }
    }
}

/// The next piece of a paced body. None ends it.
pub(super) type Script = Box<dyn FnMut() -> Option<Bytes>>;

/// Pieces in time: the first at `begun + first`, each later one `gap` after it. What comes late does not shift
/// what follows. A piece that is due in a freeze comes when the freeze ends.
pub(super) struct Paced {
    script: Script,
    origin: Rc<Origin>,
    seen: Rc<Seen>,
    due: Instant,
    gap: Duration,
    wait: Option<Until>,
}

impl Paced {
    pub(super) fn body(
        origin: &Rc<Origin>,
        seen: &Rc<Seen>,
        first: Duration,
        gap: Duration,
        script: Script,
    ) -> Body {
        Body::Paced(Box::new(Paced {
            script,
            origin: Rc::clone(origin),
            seen: Rc::clone(seen),
            due: Instant::now() + first,
            gap,
            wait: None,
        }))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let wait = self.wait.get_or_insert_with(|| {
            let due = self.origin.thawed(&self.seen, self.due);
            self.origin.timer().until(due)
        });
        ready!(Pin::new(wait).poll(context));
        self.wait = None;
        self.due += self.gap;
        Poll::Ready((self.script)())
    }
}

/// Changes one byte of a body.
pub(super) struct Corrupt {
    body: Body,
    /// Which byte, when the length is known; else drawn from the first piece.
    offset: Option<u64>,
    rng: fastrand::Rng,
    /// Bytes that went by.
    passed: u64,
    request: u64,
    id: Option<String>,
    /// Taken when the byte is changed.
    seen: Option<Rc<Seen>>,
}

impl Corrupt {
    /// The body with one byte changed, or as it is when it is empty.
    pub(super) fn body(
        body: Body,
        mut rng: fastrand::Rng,
        seen: &Rc<Seen>,
        request: u64,
        id: Option<String>,
    ) -> Result<Body, Body> {
        let offset = match body.size_hint().exact() {
            Some(0) => return Err(body),
            Some(length) => Some(rng.u64(..length)),
            None => None,
        };
        Ok(Body::Corrupt(Box::new(Corrupt {
            body,
            offset,
            rng,
            passed: 0,
            request,
            id,
            seen: Some(Rc::clone(seen)),
        })))
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(Ok(frame)) = frame else {
            return Poll::Ready(frame);
        };
        let Ok(piece) = frame.into_data() else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(Ok(Frame::data(self.changed(piece)))))
    }

    fn changed(&mut self, piece: Bytes) -> Bytes {
        let length = piece.len() as u64;
        if length == 0 || self.seen.is_none() {
            return piece;
        }
        let offset = *self.offset.get_or_insert_with(|| self.rng.u64(..length));
        let within = offset
            .checked_sub(self.passed)
            .filter(|within| *within < length);
        self.passed += length;
        let (Some(within), Some(seen)) = (within, &self.seen) else {
            return piece;
        };
        seen.tables.corrupted(Corrupted {
            request: self.request,
            id: self.id.take(),
            offset,
        });
        self.seen = None;
        let mut piece = BytesMut::from(piece);
        let at = usize::try_from(within).expect("a place within a piece in memory");
        piece[at] ^= self.rng.u8(1..);
        piece.freeze()
    }
}
