//! The bodies of answers: whole, repeated, echoed, paced in time, or one of these with a byte changed or broken off.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::answer::{Connection, Cut, Origin, Seen};
use super::counts::Corrupted;
use super::faults::Break;
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
    /// Another body, that breaks in the middle.
    Broken(Box<Broken>),
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
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
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
            Body::Broken(broken) => return broken.poll(context),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Fill(left) => *left == 0,
            Body::Echo { first, rest } => first.is_empty() && rest.is_end_stream(),
            Body::Paced(_) | Body::Open(_) | Body::Broken(_) => false,
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
            Body::Broken(broken) => broken.body.size_hint(),
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
) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
    loop {
        match ready!(Pin::new(&mut *incoming).poll_frame(context)) {
            Some(Ok(frame)) if !frame.is_data() => {}
            other => return Poll::Ready(other.map(|frame| frame.map_err(|_| Cut))),
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

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
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

/// What is no event of any dialect.
const GARBAGE: &[u8] = b"data: {\"choices\":[{\"delta\":\n\n";
/// How long a connection stands that is to be cut, so that what was sent before has left it.
const LEAVE: Duration = Duration::from_millis(50);

/// Breaks a body off.
pub(super) struct Broken {
    body: Body,
    how: Break,
    left: Left,
    /// The error in the dialect of the route.
    error: Bytes,
    origin: Rc<Origin>,
    /// Set where a reset is to be by RST.
    connection: Option<Rc<Connection>>,
    wait: Option<Until>,
    is_over: bool,
}

/// What still passes.
enum Left {
    Events(u64),
    Bytes(usize),
}

impl Broken {
    pub(super) fn body(
        body: Body,
        (how, events): (Break, u64),
        error: Bytes,
        origin: &Rc<Origin>,
        connection: Option<Rc<Connection>>,
    ) -> Body {
        let left = match body.size_hint().exact() {
            Some(bytes) => Left::Bytes(usize::try_from(bytes / 2).unwrap_or(usize::MAX)),
            None => Left::Events(events),
        };
        Body::Broken(Box::new(Broken {
            body,
            how,
            left,
            error,
            origin: Rc::clone(origin),
            connection,
            wait: None,
            is_over: false,
        }))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if matches!(self.left, Left::Events(0) | Left::Bytes(0)) {
            return self.ends(context);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(Ok(frame)) = frame else {
            return Poll::Ready(frame);
        };
        let Ok(mut piece) = frame.into_data() else {
            return Poll::Ready(None);
        };
        let length = self.left.take(&piece);
        piece.truncate(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn ends(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let last = match self.how {
            Break::Stall => return Poll::Pending,
            Break::Error => self.error.clone(),
            Break::Garbage => Bytes::from_static(GARBAGE),
            Break::Reset | Break::Close => {
                let timer = self.origin.timer();
                let wait = self
                    .wait
                    .get_or_insert_with(|| timer.until(Instant::now() + LEAVE));
                ready!(Pin::new(wait).poll(context));
                if let (Break::Reset, Some(connection)) = (self.how, &self.connection) {
                    connection.reset.set(true);
                }
                return Poll::Ready(Some(Err(Cut)));
            }
        };
        self.is_over = true;
        Poll::Ready(Some(Ok(Frame::data(last))))
    }
}

impl Left {
    /// How much of a piece passes.
    fn take(&mut self, piece: &[u8]) -> usize {
        match self {
            Left::Bytes(left) => {
                let length = piece.len().min(*left);
                *left -= length;
                length
            }
            Left::Events(left) => {
                for end in memchr::memmem::find_iter(piece, b"\n\n") {
                    *left -= 1;
                    if *left == 0 {
                        return end + 2;
                    }
                }
                piece.len()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Left;

    #[test]
    fn events_are_counted_over_pieces() {
        let mut left = Left::Events(3);
        assert_eq!(left.take(b"data: 1\n\n"), 9);
        assert_eq!(left.take(b"data: 2\n\ndata: 3\n\ndata: 4\n\n"), 18);
        assert!(matches!(left, Left::Events(0)));
        let mut left = Left::Bytes(5);
        assert_eq!((left.take(b"abc"), left.take(b"defg")), (3, 2));
        assert!(matches!(left, Left::Bytes(0)));
    }
}
