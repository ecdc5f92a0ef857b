//! Cuts a text that no grammar reads: at blank lines, then at lines that stand far left, then at any line.
//!
//! It is the last resort of every other splitter, so it takes anything, in time linear in its length.

use super::CHUNK_BYTES;
use super::types::{Bytes, Chunk, Span};

/// Cuts a whole text.
pub fn split(text: &[u8]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut line = 1;
    pieces(text, |piece| {
        let span = span(text, piece, &mut line);
        chunks.push(Chunk {
            span,
            crumbs: Vec::new(),
            defines: Vec::new(),
            comments: Vec::new(),
        });
    });
    chunks
}

/// The span of a piece that begins in `line`; moves `line` behind it.
fn span(text: &[u8], piece: Bytes, line: &mut u32) -> Span {
    let bytes = piece.of(text);
    let first = *line;
    let newlines = memchr::memchr_iter(b'\n', bytes).count() as u32;
    *line += newlines;
    let last = if bytes.ends_with(b"\n") {
        *line - 1
    } else {
        *line
    };
    Span {
        bytes: piece,
        first,
        last: last.max(first),
    }
}

/// Hands out the pieces of a text, in order and without gaps, each at most [`CHUNK_BYTES`] long.
pub fn pieces(text: &[u8], mut each: impl FnMut(Bytes)) {
    let mut start = 0;
    while start < text.len() {
        let end = start + cut(&text[start..]);
        each(Bytes::new(start, end));
        start = end;
    }
}

/// Where the first piece of `text` ends: the best place in its second half that is not over the bound.
fn cut(text: &[u8]) -> usize {
    if text.len() <= CHUNK_BYTES {
        return text.len();
    }
    let mut best = (0, 0);
    let mut at = 0;
    while let Some(newline) = memchr::memchr(b'\n', &text[at..CHUNK_BYTES]) {
        at += newline + 1;
        let rank = (worth(&text[at..]), at);
        if at >= CHUNK_BYTES / 2 && rank >= best || best.0 == 0 {
            best = rank;
        }
        if at >= CHUNK_BYTES {
            break;
        }
    }
    match best.1 {
        0 => character(text, CHUNK_BYTES),
        at => at,
    }
}

/// How well a text can be cut before `rest`: 3 where a blank line went before is seen by the blank line itself
/// being rest, 2 at a line without indent, 1 at any line.
fn worth(rest: &[u8]) -> u8 {
    match rest.first() {
        None | Some(b'\n' | b'\r') => 3,
        Some(b' ' | b'\t' | b'}' | b')' | b']') => 1,
        Some(_) => 2,
    }
}

/// The end of the character that stands at `at`, moved back to its start.
pub fn character(text: &[u8], at: usize) -> usize {
    let floor = at.saturating_sub(3);
    let back = (floor..=at)
        .rev()
        .find(|&i| i >= text.len() || text[i] & 0xC0 != 0x80);
    back.filter(|&i| i > 0).unwrap_or(at)
}
