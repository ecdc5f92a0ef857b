//! A text that comes in pieces: scanned as it flows, and let go as soon as nothing can begin in it.
//!
//! What is held back is the word that has not ended, and what may belong together with it; a piece of
//! prose waits for its last word only. A match that is replaced is replaced whole, wherever the pieces
//! were cut; one that refuses is found before its last byte leaves. All that is kept has a bound.

use base::limit::{STREAM_CONTEXT_BYTES, STREAM_HELD_BYTES_MAX};

use crate::engine::Engine;
use crate::phrase;
use crate::place::Place;
use crate::report::{Bound, Finding, Report};
use crate::rule::{Action, Direction};

/// Bytes of words that may belong together, such as the groups of a card's number.
const GROUPS_BYTES_MAX: usize = 64;
/// Longest word of such a group.
const GROUP_BYTES_MAX: usize = 4;
/// Bytes of characters that stand apart.
const SPACED_BYTES_MAX: usize = 1024;
/// Bytes of a line that may be the first of a PEM block.
const PEM_LINE_BYTES_MAX: usize = 64;
/// Groups of base64, hex and base32 begin at multiples of this many characters.
const GROUP_CHARACTERS: usize = 8;

/// One text, as far as it came.
#[derive(Default)]
pub struct Stream {
    /// What was let go lately, and what is held back.
    bytes: Vec<u8>,
    /// How much of `bytes` was let go.
    gone: usize,
    /// Where `bytes` begins in the text.
    offset: usize,
    /// What was found in `bytes`: its rule, and where it begins in the text.
    known: Vec<(&'static str, usize)>,
    /// Where the word begins that has not ended, in the text.
    word: usize,
    /// The rest of a block that was replaced is left out.
    in_block: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.bytes.fill(0);
    }
}

impl Stream {
    /// Takes the next piece, and puts what may go on into `out`. Spans of findings count from the start of
    /// the text.
    ///
    /// Nothing is put out once a finding refuses: the stream is to be cut. Errors: a bound was reached.
    pub fn push(
        &mut self,
        engine: &Engine,
        place: Place<'_>,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Vec<Finding>, Bound> {
        let mut findings = Vec::new();
        // A large piece is taken in parts, so that what is held never passes its bound.
        for part in piece.chunks(STREAM_HELD_BYTES_MAX / 2) {
            self.take(part);
            let open = self.open_from();
            let held = self.bytes.len() - self.gone;
            if open > self.gone || held >= STREAM_HELD_BYTES_MAX {
                self.flow(engine, place, open, out, &mut findings)?;
            }
            if findings
                .iter()
                .any(|finding| finding.action == Action::Refuse)
            {
                break;
            }
        }
        Ok(findings)
    }

    /// Lets go of the rest: the text has ended. Errors: as [`Stream::push`].
    pub fn finish(
        &mut self,
        engine: &Engine,
        place: Place<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Vec<Finding>, Bound> {
        let mut findings = Vec::new();
        let end = self.bytes.len();
        self.word = self.offset + end;
        self.flow(engine, place, end, out, &mut findings)?;
        Ok(findings)
    }

    /// How many bytes of the text were let go, or replaced.
    pub fn gone(&self) -> usize {
        self.offset + self.gone
    }

    fn take(&mut self, mut part: &[u8]) {
        if self.in_block {
            let end = part.iter().position(|byte| !pem(*byte));
            self.offset += end.unwrap_or(part.len());
            part = &part[end.unwrap_or(part.len())..];
            self.in_block = end.is_none();
            self.word = self.offset;
        }
        self.bytes.extend_from_slice(part);
    }

    /// Scans what is there, and lets go of what stands before `open`.
    fn flow(
        &mut self,
        engine: &Engine,
        place: Place<'_>,
        open: usize,
        out: &mut Vec<u8>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Bound> {
        let report = engine.bytes(place, &self.bytes, "")?;
        let mut until = open;
        let over = (self.bytes.len() - self.gone).saturating_sub(STREAM_HELD_BYTES_MAX / 2);
        let forced = self.gone + over;
        // A match that goes on into what is held waits with it, unless that is too much already.
        for redaction in report.redactions.iter().rev() {
            if redaction.span.start < until && until < redaction.span.end {
                until = redaction.span.start;
            }
        }
        if until < forced && self.bytes.len() - self.gone >= STREAM_HELD_BYTES_MAX {
            until = forced;
        }
        let until = until.max(self.gone);
        for mut finding in report.findings.iter().cloned() {
            finding.span.start += self.offset;
            finding.span.end += self.offset;
            let place = (finding.rule.id, finding.span.start);
            let waits = finding.action == Action::Redact && place.1 >= self.offset + until;
            if !waits && !self.known.contains(&place) {
                self.known.push(place);
                findings.push(finding);
            }
        }
        if report.action == Action::Refuse {
            return Ok(());
        }
        let end = self.release(&report, until, out);
        self.forget(end);
        Ok(())
    }

    /// Puts out what stands before `until`, with what has to be replaced replaced; answers what is gone.
    fn release(&mut self, report: &Report, until: usize, out: &mut Vec<u8>) -> usize {
        let mut at = self.gone;
        for redaction in &report.redactions {
            let span = redaction.span.clone();
            if span.start >= until || span.end <= at {
                continue;
            }
            out.extend_from_slice(&self.bytes[at..span.start.max(at)]);
            if span.start >= at {
                out.extend_from_slice(b"[redacted:");
                out.extend_from_slice(redaction.rule.as_bytes());
                out.push(b']');
            }
            at = span.end;
            // A block that has not ended goes on in the next piece.
            self.in_block |= span.end == self.bytes.len() && until < span.end;
        }
        if at < until {
            out.extend_from_slice(&self.bytes[at..until]);
            at = until;
        }
        at
    }

    /// Keeps of what is gone only what a match may still need.
    fn forget(&mut self, gone: usize) {
        let mut from = gone.saturating_sub(STREAM_CONTEXT_BYTES);
        // Inside a long word the groups of its encoding have to begin where they began.
        let word = self.word.saturating_sub(self.offset);
        if self.offset + from > self.word && word <= from {
            from -= (self.offset + from - self.word) % GROUP_CHARACTERS;
        }
        self.bytes[..from].fill(0);
        self.bytes.drain(..from);
        self.offset += from;
        self.gone = gone - from;
        self.known.retain(|(_, start)| *start >= self.offset);
    }

    /// Where that begins which may go on in the next piece.
    fn open_from(&mut self) -> usize {
        let held = &self.bytes[self.gone..];
        let word = self.gone + last_word(held);
        if word > self.gone || self.word < self.offset + self.gone {
            let long = word == self.gone && self.word < self.offset + self.gone;
            let goes_on = long && self.gone > 0 && !ends_word(self.bytes[self.gone - 1]);
            if !goes_on {
                self.word = self.offset + word;
            }
        }
        let before = &self.bytes[self.gone..word];
        let groups = before.len() - groups(before);
        let line = memchr::memchr(b'\n', &self.bytes[word..]).is_none();
        let from = self
            .bytes
            .len()
            .saturating_sub(PEM_LINE_BYTES_MAX)
            .max(self.gone);
        let pem = memchr::memmem::rfind(&self.bytes[from..], b"-----BEGIN").filter(|_| line);
        let pem = pem.map_or(word, |at| from + at);
        (self.gone + groups).min(word).min(pem)
    }
}

/// Where the last word begins, if it has not ended.
fn last_word(bytes: &[u8]) -> usize {
    let end = bytes.iter().rposition(|byte| ends_word(*byte));
    end.map_or(0, |at| at + 1)
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`')
}

/// How many bytes at the end are words that may belong together: groups of a number, characters that
/// stand apart, numbers of a list, words of a seed phrase, lines of a document.
fn groups(bytes: &[u8]) -> usize {
    let mut length = 0;
    let mut few = true;
    for word in bytes.rsplit(|byte| *byte == b' ' || *byte == b'\n') {
        let short = word.len() <= GROUP_BYTES_MAX;
        let part =
            short && word.len() <= 1 || numbers(word) || phrase::listed(word) || filled(word);
        few &= part;
        let max = if few {
            SPACED_BYTES_MAX
        } else {
            GROUPS_BYTES_MAX
        };
        if !(short || part) || length + word.len() + 1 > max {
            break;
        }
        length += word.len() + 1;
    }
    length.min(bytes.len())
}

/// Whether a word is numbers of a list.
fn numbers(word: &[u8]) -> bool {
    word.iter()
        .all(|byte| byte.is_ascii_digit() || b"[](),.".contains(byte))
}

/// Whether a word is a line that is filled up, as the first of a passport.
fn filled(word: &[u8]) -> bool {
    memchr::memmem::find(word, b"<<<").is_some()
}

fn pem(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=:,-\\ \t\r\n".contains(&byte)
}

/// Scans a whole text through a stream, in pieces that a function cuts. For tests and for long inputs.
///
/// Errors: a bound was reached.
pub fn in_pieces<'p>(
    engine: &Engine,
    direction: Direction,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<(Vec<u8>, Vec<Finding>), Bound> {
    let (mut out, mut findings) = (Vec::new(), Vec::new());
    let mut stream = Stream::default();
    for piece in pieces {
        findings.extend(stream.push(engine, direction.into(), piece, &mut out)?);
        if findings
            .iter()
            .any(|finding| finding.action == Action::Refuse)
        {
            return Ok((out, findings));
        }
    }
    findings.extend(stream.finish(engine, direction.into(), &mut out)?);
    Ok((out, findings))
}
