//! Server-sent events, read as they come (WHATWG HTML, section 9.2).
//!
//! A stream is cut into pieces wherever the network likes, so the same events come out whatever the pieces. Bytes
//! are handed on as they are and not decoded: who needs text finds out whether it is. It refuses lines and events
//! over a bound, since a stream without line ends would fill the memory.

use memchr::memchr2;

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Longest data of one event, in bytes.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// One event. Its fields are valid while it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Of the last `event` field; empty where there was none, which means `message`.
    pub name: &'a [u8],
    /// The lines of the `data` fields, with LF between them.
    pub data: &'a [u8],
}

/// A line or an event is longer than its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an event is longer than {EVENT_BYTES_MAX} bytes")
    }
}

impl std::error::Error for TooLong {}

/// The state between two pieces of a stream.
#[derive(Default)]
pub struct Parser {
    /// The begin of a line whose end has not come.
    line: Vec<u8>,
    /// The last byte was CR, so an LF that follows belongs to it.
    after_cr: bool,
    /// The byte order mark can only be in front of the first line.
    begun: bool,
    failed: bool,
    fields: Fields,
}

#[derive(Default)]
struct Fields {
    name: Vec<u8>,
    /// Each line of data with an LF behind it.
    data: Vec<u8>,
    last_id: Vec<u8>,
    retry_ms: Option<u64>,
}

impl Parser {
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Takes the next piece of the stream, and shows each event that it completes.
    ///
    /// # Errors
    ///
    /// A line or an event is too long; then nothing more can be read.
    pub fn push(&mut self, piece: &[u8], mut show: impl FnMut(Event)) -> Result<(), TooLong> {
        let mut rest = piece;
        while !rest.is_empty() && !self.failed {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', rest) else {
                self.failed = self.line.len() + rest.len() > LINE_BYTES_MAX;
                if !self.failed {
                    self.line.extend_from_slice(rest);
                }
                break;
            };
            self.after_cr = rest[end] == b'\r';
            let done = if self.line.is_empty() {
                self.take(&rest[..end], &mut show)
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                let done = self.take(&line, &mut show);
                line.clear();
                self.line = line;
                done
            };
            self.failed = done.is_err();
            rest = &rest[end + 1..];
        }
        if self.failed { Err(TooLong) } else { Ok(()) }
    }

    /// The last `id` that a dispatched or later block named.
    pub fn last_id(&self) -> &[u8] {
        &self.fields.last_id
    }

    /// The reconnection time that the server asked for, in milliseconds.
    pub fn retry_ms(&self) -> Option<u64> {
        self.fields.retry_ms
    }

    fn take(&mut self, line: &[u8], show: &mut impl FnMut(Event)) -> Result<(), TooLong> {
        let first = !std::mem::replace(&mut self.begun, true);
        let line = match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if first => rest,
            _ => line,
        };
        if line.len() > LINE_BYTES_MAX {
            return Err(TooLong);
        }
        if line.is_empty() {
            self.fields.dispatch(show);
            return Ok(());
        }
        self.fields.set(line)
    }
}

impl Fields {
    /// An event ends. Without data it is none.
    fn dispatch(&mut self, show: &mut impl FnMut(Event)) {
        if let Some((_, data)) = self.data.split_last() {
            show(Event {
                name: &self.name,
                data,
            });
        }
        self.data.clear();
        self.name.clear();
    }

    /// Takes one field; a line that begins with a colon is a comment.
    fn set(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() > EVENT_BYTES_MAX {
                    return Err(TooLong);
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => {
                self.last_id.clear();
                self.last_id.extend_from_slice(value);
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                self.retry_ms = text.parse().ok();
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT_BYTES_MAX, LINE_BYTES_MAX, Parser, TooLong};

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        for piece in pieces {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let shown = parser.push(piece, |e| events.push((text(e.name), text(e.data))));
            shown.unwrap();
        }
        events
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let own = |(name, data): &(&str, &str)| (String::from(*name), String::from(*data));
        let expected: Vec<_> = expected.iter().map(own).collect();
        let bytes = stream.as_bytes();
        assert_eq!(read(&[bytes]), expected, "whole: {stream:?}");
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(read(&[a, b]), expected, "cut at {cut}: {stream:?}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), expected, "byte by byte: {stream:?}");
    }

    #[test]
    fn the_examples_of_the_standard() {
        check(
            "data: YHOO\ndata: +2\ndata: 10\n\n",
            &[("", "YHOO\n+2\n10")],
        );
        check(
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            &[
                ("", "first event"),
                ("", "second event"),
                ("", " third event"),
            ],
        );
        check("data\n\ndata\ndata\n\ndata:", &[("", ""), ("", "\n")]);
        check("data:test\n\ndata: test\n\n", &[("", "test"), ("", "test")]);
    }

    #[test]
    fn every_line_end_is_one() {
        check(
            "data: a\r\rdata: b\r\n\r\ndata: c\n\n",
            &[("", "a"), ("", "b"), ("", "c")],
        );
        check("\r\n\r\ndata: a\r\n\n", &[("", "a")]);
    }

    #[test]
    fn the_mark_is_skipped_once() {
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("\u{feff}\u{feff}data: a\n\n", &[]);
        check("data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
    }

    #[test]
    fn names_belong_to_one_event() {
        check(
            "event: add\ndata: 1\n\nevent: lost\n\ndata: 2\n\nevent: a\nevent: b\ndata: 3\n\n",
            &[("add", "1"), ("", "2"), ("b", "3")],
        );
        check("Data: no\ndata : no\n data: no\n\n", &[]);
    }

    #[test]
    fn ids_and_retries_are_kept() {
        let mut parser = Parser::new();
        let stream = b"id: 7\nretry: 250\n\nid: a\0b\nretry: 1x\nretry:\n\n";
        parser.push(stream, |_| {}).unwrap();
        assert_eq!(parser.last_id(), b"7");
        assert_eq!(parser.retry_ms(), Some(250));
        parser.push(b"id\n", |_| {}).unwrap();
        assert_eq!(parser.last_id(), b"");
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut parser = Parser::new();
        assert_eq!(parser.push(&vec![b'x'; LINE_BYTES_MAX], |_| {}), Ok(()));
        assert_eq!(parser.push(b"x", |_| {}), Err(TooLong));
        assert_eq!(parser.push(b"\n\ndata: a\n\n", |_| {}), Err(TooLong));
        let mut parser = Parser::new();
        let line = [b"data:".as_slice(), &vec![b'x'; EVENT_BYTES_MAX / 2], b"\n"].concat();
        assert_eq!(parser.push(&line, |_| {}), Ok(()));
        assert_eq!(parser.push(&line, |_| {}), Err(TooLong));
    }
}
