//! Where the lines of a text begin.

use super::types::{Bytes, Span};

/// The lines of a text. A last line without a newline is a line; an empty text has none.
pub(super) struct Lines {
    /// The first byte of each line, then the length of the text.
    starts: Vec<u32>,
}

impl Lines {
    /// The lines of `text`.
    pub(super) fn of(text: &[u8]) -> Lines {
        let mut starts = Vec::with_capacity(text.len() / 32 + 2);
        if !text.is_empty() {
            starts.push(0);
        }
        starts.extend(memchr::memchr_iter(b'\n', text).map(|at| at as u32 + 1));
        if starts.last() != Some(&(text.len() as u32)) || text.is_empty() {
            starts.push(text.len() as u32);
        }
        Lines { starts }
    }

    /// How many.
    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The first byte of a row, counted from 0; the length of the text for rows behind it.
    pub(super) fn start(&self, row: usize) -> usize {
        self.starts[row.min(self.count())] as usize
    }

    /// The bytes of the rows from `from` to before `to`.
    pub(super) fn bytes(&self, from: usize, to: usize) -> Bytes {
        Bytes::new(self.start(from), self.start(to))
    }

    /// The row of a byte, counted from 0.
    pub(super) fn row(&self, byte: u32) -> usize {
        let after = self.starts.partition_point(|start| *start <= byte);
        after.saturating_sub(1).min(self.count().saturating_sub(1))
    }

    /// Bytes with their lines.
    pub(super) fn span(&self, bytes: Bytes) -> Span {
        let last = bytes.end.saturating_sub(1).max(bytes.start);
        Span {
            bytes,
            first: self.row(bytes.start) as u32 + 1,
            last: self.row(last) as u32 + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_editors_do() {
        for (text, count) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(Lines::of(text.as_bytes()).count(), count, "{text:?}");
        }
        let lines = Lines::of(b"ab\ncd\nef");
        let span = lines.span(Bytes::new(3, 6));
        assert_eq!((span.first, span.last), (2, 2));
        let span = lines.span(Bytes::new(0, 8));
        assert_eq!((span.first, span.last), (1, 3));
        assert_eq!(lines.bytes(1, 9), Bytes::new(3, 8));
    }
}
