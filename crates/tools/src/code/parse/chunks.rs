//! Cuts a file into chunks: split where the structure is shallow, then merge what is small.
//!
//! Whatever read the file (a grammar, headings, keys, indent) says for each line how deep in the structure a cut
//! before it would be. A range that is too large is cut before all of its shallowest lines, and neighbours are
//! joined again as long as they fit: the split-then-merge of cAST (Zhang et al., 2025), over lines instead of nodes,
//! so that a chunk is always whole lines. Every byte ends up in exactly one chunk.

use super::lines::Lines;
use super::types::{Bytes, Chunk, Symbol};
use super::{CHUNK_BYTES, CHUNK_BYTES_MAX};

/// How bad a cut before each line is. Rows count from 0.
pub(super) struct Depths(Vec<u8>);

/// A cut before a blank line: it belongs to what stands above.
const BLANK: u8 = u8::MAX;
/// How deep a cut in a documentation is, or between it and its definition: deeper than any in the definition's body.
pub(super) const GLUED: usize = 30;
/// The deepest that counts.
const DEEPEST: u8 = 60;
/// Bytes under which a piece is joined with a neighbour even if that makes it a little large.
const TINY_BYTES: usize = 240;
/// How far back from the bound a long line is searched for a place to cut.
const SLACK_BYTES: usize = 200;

impl Depths {
    /// Takes a depth for each line, and marks those that are blank.
    pub(super) fn new(text: &[u8], lines: &Lines, depth: impl Fn(usize) -> usize) -> Depths {
        let of = |row| {
            let line = lines.bytes(row, row + 1).of(text);
            let is_blank = line.iter().all(u8::is_ascii_whitespace);
            if is_blank {
                BLANK
            } else {
                depth(row).min(DEEPEST as usize) as u8
            }
        };
        Depths((0..lines.count()).map(of).collect())
    }
}

/// A name around code: what a breadcrumb is made of.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Where it reaches.
    pub bytes: Bytes,
    /// Its name.
    pub name: Box<str>,
}

/// The pieces of a text, in order and without gaps.
pub(super) fn cut(text: &[u8], lines: &Lines, depths: &Depths) -> Vec<Bytes> {
    let mut cutter = Cutter {
        text,
        lines,
        depths: &depths.0,
        pieces: Vec::new(),
    };
    cutter.split(0, lines.count());
    join_tiny(text, cutter.pieces)
}

struct Cutter<'a> {
    text: &'a [u8],
    lines: &'a Lines,
    depths: &'a [u8],
    pieces: Vec<Bytes>,
}

impl Cutter<'_> {
    fn size(&self, from: usize, to: usize) -> usize {
        self.lines.start(to) - self.lines.start(from)
    }

    /// Cuts the rows from `from` to before `to`. Each call looks at deeper lines only, so it ends.
    fn split(&mut self, from: usize, to: usize) {
        if to <= from + 1 || self.size(from, to) <= CHUNK_BYTES {
            return self.push(from, to);
        }
        let least = *self.depths[from + 1..to]
            .iter()
            .min()
            .expect("a range of two lines has a second");
        if usize::from(least) >= GLUED && self.size(from, to) <= CHUNK_BYTES_MAX {
            return self.push(from, to);
        }
        // Rows [group, at) are small and wait to be joined with what follows.
        let (mut group, mut at) = (from, from);
        let mut next = from + 1;
        while at < to {
            while next < to && self.depths[next] != least {
                next += 1;
            }
            if self.size(group, next) > CHUNK_BYTES {
                self.push(group, at);
                group = at;
            }
            if self.size(at, next) > CHUNK_BYTES {
                self.split(at, next);
                group = next;
            }
            at = next;
            next += 1;
        }
        self.push(group, to);
    }

    fn push(&mut self, from: usize, to: usize) {
        let mut piece = self.lines.bytes(from, to);
        while piece.len() > CHUNK_BYTES_MAX {
            let end = piece.start as usize + long_line(&piece.of(self.text)[..CHUNK_BYTES]);
            self.pieces.push(Bytes::new(piece.start as usize, end));
            piece.start = end as u32;
        }
        if !piece.is_empty() {
            self.pieces.push(piece);
        }
    }
}

/// Where to cut a line that is too long: behind a space, comma, semicolon or brace, else before a character.
fn long_line(text: &[u8]) -> usize {
    let from = text.len() - SLACK_BYTES;
    let stop = |b: &u8| matches!(b, b' ' | b',' | b';' | b'{' | b'}' | b'\t');
    if let Some(at) = text[from..].iter().rposition(stop) {
        return from + at + 1;
    }
    let starts = |at: &usize| text[*at] & 0xC0 != 0x80;
    (from..text.len()).rev().find(starts).unwrap_or(text.len())
}

/// Joins tiny pieces with a neighbour: one that closes something with the piece before, others with the next.
fn join_tiny(text: &[u8], pieces: Vec<Bytes>) -> Vec<Bytes> {
    let mut joined: Vec<Bytes> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let Some(last) = joined.last_mut() else {
            joined.push(piece);
            continue;
        };
        let is_small =
            last.len() < TINY_BYTES || piece.len() < TINY_BYTES && closes(piece.of(text));
        if is_small && last.len() + piece.len() <= CHUNK_BYTES_MAX {
            last.end = piece.end;
        } else {
            joined.push(piece);
        }
    }
    if let [.., before, last] = joined.as_mut_slice()
        && last.len() < TINY_BYTES
        && before.len() + last.len() <= CHUNK_BYTES_MAX
    {
        before.end = last.end;
        joined.pop();
    }
    joined
}

fn closes(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    matches!(text.first(), Some(b'}' | b')' | b']'))
        || text.starts_with(b"end")
        || text.starts_with(b"#endif")
}

/// Makes chunks of pieces: with the names around them, what they define, and their comments.
pub(super) fn assemble(
    text: &[u8],
    lines: &Lines,
    pieces: &[Bytes],
    symbols: &[Symbol],
    scopes: &[Scope],
    comments: &[Bytes],
) -> Vec<Chunk> {
    let mut around = Around {
        scopes,
        next: 0,
        open: Vec::new(),
    };
    let (mut symbol, mut comment) = (0, 0);
    let mut chunks = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let bytes = piece.of(text);
        let indent = bytes.len() - bytes.trim_ascii_start().len();
        let mut crumbs = around.at(piece.start + indent as u32);
        let first = symbol;
        while symbols
            .get(symbol)
            .is_some_and(|symbol| symbol.span.bytes.start < piece.end)
        {
            symbol += 1;
        }
        // A piece of a documentation that is too long for one is of the definition that follows.
        let described = symbols.get(symbol).filter(|next| describes(next, *piece));
        if crumbs.len() < CRUMBS_MAX {
            crumbs.extend(described.map(|symbol| symbol.name.clone()));
        }
        let (inside, next) = inside(comments, comment, *piece);
        comment = next;
        let defines = (first as u32..symbol as u32).collect();
        chunks.push(Chunk {
            span: lines.span(*piece),
            crumbs,
            defines,
            comments: inside,
        });
    }
    chunks
}

/// Whether a piece ends in, or with, the documentation that stands before a definition.
fn describes(symbol: &Symbol, piece: Bytes) -> bool {
    let doc = symbol.doc.filter(|doc| doc.start < symbol.span.bytes.start);
    doc.is_some_and(|doc| doc.start < piece.end && piece.start < doc.end)
}

/// The parts of comments, from `next` on, that stand in a piece; and the first comment that reaches behind it.
fn inside(comments: &[Bytes], mut next: usize, piece: Bytes) -> (Vec<Bytes>, usize) {
    let mut inside = Vec::new();
    while let Some(comment) = comments
        .get(next)
        .filter(|comment| comment.start < piece.end)
    {
        let part = Bytes {
            start: comment.start.max(piece.start),
            end: comment.end.min(piece.end),
        };
        if part.start < part.end {
            inside.push(part);
        }
        if comment.end > piece.end {
            break;
        }
        next += 1;
    }
    (inside, next)
}

/// The scopes around places that only go forward.
struct Around<'a> {
    /// By their first byte; an outer one before those in it.
    scopes: &'a [Scope],
    next: usize,
    open: Vec<&'a Scope>,
}

/// Names of a breadcrumb that are kept, the outermost first.
const CRUMBS_MAX: usize = 12;

impl Around<'_> {
    fn at(&mut self, place: u32) -> Vec<Box<str>> {
        while let Some(scope) = self
            .scopes
            .get(self.next)
            .filter(|scope| scope.bytes.start < place)
        {
            self.open.retain(|open| open.bytes.end > scope.bytes.start);
            self.open.push(scope);
            self.next += 1;
        }
        self.open.retain(|open| open.bytes.end > place);
        self.open
            .iter()
            .take(CRUMBS_MAX)
            .map(|scope| scope.name.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, depth: impl Fn(usize) -> usize) -> Vec<Bytes> {
        let lines = Lines::of(text.as_bytes());
        let depths = Depths::new(text.as_bytes(), &lines, depth);
        cut(text.as_bytes(), &lines, &depths)
    }

    #[track_caller]
    fn covered(text: &str, pieces: &[Bytes]) {
        let mut at = 0;
        for piece in pieces {
            assert_eq!(piece.start, at);
            assert!(piece.len() <= CHUNK_BYTES_MAX && !piece.is_empty());
            assert!(text.is_char_boundary(piece.end as usize));
            at = piece.end;
        }
        assert_eq!(at as usize, text.len());
    }

    #[test]
    fn every_byte_is_in_one_piece_whatever_the_depths() {
        let mut random = 7_u64;
        let mut next = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize
        };
        for _ in 0..200 {
            let mut text = String::new();
            for _ in 0..next() % 300 {
                let letter = ["x", "é", " ", "漢", ";"][next() % 5];
                let length =
                    [0, 3, 40, 100, 3000][next() % 5] / if next() % 9 == 0 { 1 } else { 30 };
                text.push_str(&letter.repeat(length));
                text.push('\n');
            }
            let depths: Vec<_> = (0..400).map(|_| next() % 70).collect();
            covered(&text, &pieces(&text, |row| depths[row]));
        }
        covered("", &pieces("", |_| 0));
    }

    #[test]
    fn it_cuts_where_it_is_shallow_and_joins_what_is_small() {
        let text = format!(
            "{}{}{}",
            "a\n".repeat(150),
            "b\n".repeat(700),
            "c\n".repeat(150)
        );
        let pieces = pieces(&text, |row| usize::from(row != 150 && row != 850));
        let ends: Vec<_> = pieces.iter().map(|piece| piece.end).collect();
        assert_eq!(ends, [300, 1700, 2000]);
    }

    #[test]
    fn a_blank_line_stays_with_what_stands_above() {
        let text = format!("{}\n{}", "a\n".repeat(700), "b\n".repeat(700));
        let pieces = pieces(&text, |row| usize::from(row != 701));
        assert_eq!(pieces[0].end, 1401);
    }
}
