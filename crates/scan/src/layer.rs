//! A text as the engine sees it, and the way from there back to the bytes that came.
//!
//! Reading JSON, folding and decoding each make a new view of the text. A view remembers, piece by piece,
//! where its bytes came from, so that a finding's span is of the original and never cuts an escape or a
//! character in two.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;

use crate::stretches::Stretches;

/// Buffers larger than this are not kept for the next scan, in bytes.
const KEPT_BYTES_MAX: usize = 512 << 10;
/// Buffers kept by one thread.
const KEPT_MAX: usize = 8;

/// Where a stretch of a view came from. It ends where the next piece starts.
#[derive(Clone, Debug)]
struct Piece {
    view: usize,
    source: Range<usize>,
    /// Bytes of the view at its start that stand for an escape; [`WHOLE`] where the stretch is one thing.
    head: u8,
    /// Bytes of that escape. Behind it the bytes are the same, one by one.
    escape: u8,
}

/// A stretch that stands for its source as one thing.
const WHOLE: u8 = u8::MAX;

impl Piece {
    /// The place in the source that a place in the view begins at, or ends at.
    fn place(&self, at: usize, end: bool) -> usize {
        let inside = at - self.view;
        // The end of an escape is the place behind it, and its middle is at its start.
        let escaped = inside < usize::from(self.head) || end && inside == usize::from(self.head);
        match (self.head, end) {
            (WHOLE, true) => self.source.end,
            (WHOLE, false) => self.source.start,
            (_, true) if escaped => self.source.start + usize::from(self.escape),
            (_, false) if escaped => self.source.start,
            (head, _) => self.source.start + usize::from(self.escape) + inside - usize::from(head),
        }
    }
}

/// The buffers of one view. Taken from and given back to the thread, so that clean text allocates nothing.
#[derive(Default)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pieces: Vec<Piece>,
    /// The strings in `bytes`: a JSON document's, or one that is all of it.
    pub(crate) strings: Vec<Range<usize>>,
}

thread_local! {
    static KEPT: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
}

impl Text {
    /// Empty buffers.
    pub(crate) fn take() -> Text {
        KEPT.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Keeps the buffers for the next scan of this thread.
    pub(crate) fn give(mut self) {
        self.clear();
        let bytes = self.bytes.capacity()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.strings.capacity() * size_of::<Range<usize>>();
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < KEPT_MAX && bytes <= KEPT_BYTES_MAX {
                kept.push(self);
            }
        });
    }

    /// Empties the buffers. What was scanned does not stay in memory longer than it has to.
    pub(crate) fn clear(&mut self) {
        self.bytes.fill(0);
        self.bytes.clear();
        self.pieces.clear();
        self.strings.clear();
    }

    /// Whether it was made of more than one stretch.
    pub(crate) fn joins(&self) -> bool {
        self.pieces.len() > 1
    }

    /// How many bytes there are, and how many stretches.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.bytes.len(), self.pieces.len())
    }

    /// Takes back what was added since there were so many.
    pub(crate) fn cut(&mut self, (bytes, pieces): (usize, usize)) {
        self.bytes[bytes..].fill(0);
        self.bytes.truncate(bytes);
        self.pieces.truncate(pieces);
    }

    /// Says that all of it is one string.
    pub(crate) fn one_string(&mut self) {
        self.strings.clear();
        self.strings.push(0..self.bytes.len());
    }

    /// Adds a stretch of the source as it is.
    pub(crate) fn copy(&mut self, source: &[u8], range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let view = self.bytes.len();
        self.bytes.extend_from_slice(&source[range.clone()]);
        match self.pieces.last_mut() {
            Some(last) if last.head != WHOLE && last.source.end == range.start => {
                last.source.end = range.end;
            }
            _ => self.pieces.push(Piece {
                view,
                source: range,
                head: 0,
                escape: 0,
            }),
        }
    }

    /// Adds bytes that stand for a stretch of the source.
    pub(crate) fn put(&mut self, bytes: &[u8], source: Range<usize>) {
        if bytes.is_empty() {
            return;
        }
        self.pieces.push(Piece {
            view: self.bytes.len(),
            source,
            head: WHOLE,
            escape: 0,
        });
        self.bytes.extend_from_slice(bytes);
    }

    /// Says that `head` bytes at a place of the view stand for an escape of the source, and that what
    /// follows them is as it follows there. The bytes are whoever's who fills them in.
    pub(crate) fn escape(&mut self, view: usize, source: Range<usize>, head: u8) {
        let escape = u8::try_from(source.len()).expect("no escape has 256 bytes");
        self.pieces.push(Piece {
            view,
            source,
            head,
            escape,
        });
    }

    /// Says that all bytes together stand for a stretch of the source, and that they are one string.
    pub(crate) fn whole(&mut self, source: Range<usize>) {
        self.pieces.clear();
        self.pieces.push(Piece {
            view: 0,
            source,
            head: WHOLE,
            escape: 0,
        });
        self.strings.clear();
        self.strings.push(0..self.bytes.len());
    }
}

/// One view of the text.
pub(crate) struct Layer<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) strings: &'a [Range<usize>],
    pieces: &'a [Piece],
    /// What was undone to make it from its parent; empty for reading and folding.
    pub(crate) name: &'static str,
    pub(crate) parent: Option<&'a Layer<'a>>,
    stretches: OnceCell<Stretches>,
}

impl<'a> Layer<'a> {
    /// The bytes that came, as they are.
    pub(crate) fn plain(bytes: &'a [u8], strings: &'a [Range<usize>]) -> Layer<'a> {
        Layer {
            bytes,
            strings,
            pieces: &[],
            name: "",
            parent: None,
            stretches: OnceCell::new(),
        }
    }

    /// A view made of the bytes that came, or of another view.
    pub(crate) fn view(
        text: &'a Text,
        name: &'static str,
        parent: Option<&'a Layer<'a>>,
    ) -> Layer<'a> {
        Layer {
            bytes: &text.bytes,
            strings: &text.strings,
            pieces: &text.pieces,
            name,
            parent,
            stretches: OnceCell::new(),
        }
    }

    /// Whether it stands for one run of another view, or is in what does.
    pub(crate) fn is_decoded(&self) -> bool {
        let whole = matches!(self.pieces, [piece] if piece.head == WHOLE);
        whole || self.parent.is_some_and(Layer::is_decoded)
    }

    /// Its long stretches, which are found when they are first asked for.
    pub(crate) fn stretches(&self) -> &Stretches {
        self.stretches.get_or_init(|| Stretches::of(self.bytes))
    }

    /// The string that holds this place, with its index.
    pub(crate) fn string(&self, at: usize) -> Option<(usize, Range<usize>)> {
        let index = self
            .strings
            .partition_point(|string| string.start <= at)
            .checked_sub(1)?;
        let string = self.strings[index].clone();
        (at < string.end).then_some((index, string))
    }

    /// The span of the parent, or of the bytes that came, that these bytes came from.
    pub(crate) fn source(&self, span: &Range<usize>) -> Range<usize> {
        if self.pieces.is_empty() {
            return span.clone();
        }
        let piece = |at: usize| &self.pieces[self.piece(at)];
        let (first, last) = (piece(span.start), piece(span.end.saturating_sub(1)));
        first.place(span.start, false)..last.place(span.end, true)
    }

    /// The spans of the parent that these bytes came from, where they came from several.
    pub(crate) fn sources(&self, span: &Range<usize>) -> Vec<Range<usize>> {
        if self.name != "split" {
            return vec![self.source(span)];
        }
        let first = self.piece(span.start);
        let last = self.piece(span.end.saturating_sub(1));
        let part = |index: usize| {
            let start = self.pieces[index].view.max(span.start);
            let next = self.pieces.get(index + 1).map_or(span.end, |p| p.view);
            self.source(&(start..next.min(span.end)))
        };
        let mut parts: Vec<Range<usize>> = Vec::new();
        for part in (first..=last).map(part).filter(|part| !part.is_empty()) {
            match parts.last_mut() {
                Some(before) if before.end == part.start => before.end = part.end,
                _ => parts.push(part),
            }
        }
        parts
    }

    /// Whether a span of joined strings goes from one into another. What follows in the source too is of the same.
    pub(crate) fn crosses_seam(&self, span: &Range<usize>) -> bool {
        if self.pieces.is_empty() {
            return false;
        }
        let last = self.piece(span.end.saturating_sub(1));
        let pieces = &self.pieces[self.piece(span.start)..=last];
        let seam = |pair: &[Piece]| pair[0].source.end != pair[1].source.start;
        pieces.windows(2).any(seam)
    }

    /// The index of the piece that a place is in.
    fn piece(&self, at: usize) -> usize {
        let after = self.pieces.partition_point(|piece| piece.view <= at);
        after.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_comes_back_to_where_it_was() {
        let source = b"ab\\ncd\\u00e9f";
        let mut text = Text::take();
        text.copy(source, 0..2);
        text.put(b"\n", 2..4);
        text.copy(source, 4..6);
        text.put("é".as_bytes(), 6..12);
        text.copy(source, 12..13);
        let layer = Layer::view(&text, "", None);
        assert_eq!(layer.bytes, "ab\ncdéf".as_bytes());
        assert_eq!(layer.source(&(1..4)), 1..5);
        // Half of a character is all of its escape.
        assert_eq!(layer.source(&(6..8)), 6..13);
        assert_eq!(layer.source(&(4..6)), 5..12);
    }

    #[test]
    fn what_goes_on_in_the_source_crosses_no_seam() {
        let source = b"a%2Db/c";
        let mut text = Text::take();
        text.copy(source, 0..1);
        text.put(b"-", 1..4);
        text.copy(source, 4..5);
        text.copy(source, 6..7);
        let layer = Layer::view(&text, "split", None);
        assert_eq!(layer.bytes, b"a-bc");
        assert!(!layer.crosses_seam(&(0..3)) && layer.crosses_seam(&(1..4)));
        assert_eq!(layer.sources(&(0..4)), [0..5, 6..7]);
        assert_eq!(layer.sources(&(1..2))[0], 1..4);
    }
}
