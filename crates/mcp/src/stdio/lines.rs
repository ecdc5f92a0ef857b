//! What a client writes to a server over stdio, cut into lines within bounds.
//!
//! A line over the bound is not kept, but the id of the request that it was is found while it is skipped:
//! over stdio an answer without its id reaches nobody, and the client would wait for good. It reads no more
//! of a line than that.

use bytes::Bytes;
use serde_json::value::RawValue;

/// Longest id that is answered, in bytes as it is written; and so the longest key or value that is kept.
const ID_BYTES_MAX: usize = 256;

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientLine {
    Whole(Bytes),
    /// Over the bound, and not kept.
    TooLong {
        bytes: u64,
        /// The id of the request that it was, if it was one.
        id: Option<String>,
    },
}

impl ClientLine {
    /// The id of the request that it is, as far as it can be seen in a line that is not parsed.
    pub(super) fn id(&self) -> Option<String> {
        match self {
            ClientLine::Whole(line) => Top::of(line).id(true).map(str::to_owned),
            ClientLine::TooLong { id, .. } => id.clone(),
        }
    }
}

/// Takes what is read in pieces, split anywhere, and gives its lines.
pub struct Lines {
    line: Vec<u8>,
    skipped: Option<(u64, Top)>,
    bytes_max: usize,
}

impl Lines {
    pub fn new(bytes_max: usize) -> Lines {
        Lines {
            line: Vec::new(),
            skipped: None,
            bytes_max,
        }
    }

    /// Reads a piece; each line that it completes goes to `each`, but those of white space only.
    pub fn push(&mut self, mut piece: &[u8], mut each: impl FnMut(ClientLine)) {
        while let Some(at) = memchr::memchr(b'\n', piece) {
            self.take(&piece[..at]);
            if let Some(line) = self.end() {
                each(line);
            }
            piece = &piece[at + 1..];
        }
        self.take(piece);
    }

    /// Ends the line that was begun, as a line's end or the end of all does.
    pub fn end(&mut self) -> Option<ClientLine> {
        let line = std::mem::take(&mut self.line);
        if let Some((bytes, top)) = self.skipped.take() {
            let id = top.id(true).map(str::to_owned);
            return Some(ClientLine::TooLong { bytes, id });
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        (!blank).then(|| ClientLine::Whole(Bytes::from(line)))
    }

    fn take(&mut self, piece: &[u8]) {
        if let Some((bytes, top)) = &mut self.skipped {
            *bytes += piece.len() as u64;
            top.push(piece);
            return;
        }
        self.line.extend_from_slice(piece);
        if self.line.len() > self.bytes_max {
            let line = std::mem::take(&mut self.line);
            let mut top = Top::default();
            top.push(&line);
            self.skipped = Some((line.len() as u64, top));
        }
    }
}

/// The fields at the top of a JSON object that is not parsed, as far as they say whom to answer.
#[derive(Default)]
pub(crate) struct Top {
    depth: usize,
    in_string: bool,
    escaped: bool,
    key: Vec<u8>,
    token: Vec<u8>,
    ids: usize,
    id: Option<String>,
    has_method: bool,
}

impl Top {
    /// Reads a whole text.
    pub(crate) fn of(text: &[u8]) -> Top {
        let mut top = Top::default();
        top.push(text);
        top
    }

    /// The id of the message, if it has exactly one, and is a request or else an answer.
    pub(crate) fn id(&self, is_request: bool) -> Option<&str> {
        let one = self.ids == 1 && self.has_method == is_request;
        self.id.as_deref().filter(|_| one)
    }

    fn push(&mut self, piece: &[u8]) {
        for &byte in piece {
            self.byte(byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        match byte {
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.end_field();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.token),
            b',' => self.end_field(),
            byte if byte.is_ascii_whitespace() => {
                if !self.token.is_empty() {
                    self.keep(b' ');
                }
            }
            byte => {
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= ID_BYTES_MAX {
            self.token.push(byte);
        }
    }

    fn end_field(&mut self) {
        if self.depth != 1 {
            return;
        }
        let (key, value) = (
            std::mem::take(&mut self.key),
            std::mem::take(&mut self.token),
        );
        match key.trim_ascii() {
            b"\"id\"" => {
                self.ids += 1;
                self.id = id(value.trim_ascii());
            }
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }
}

/// The text of an id: a JSON string or number, and not too long.
fn id(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?;
    let begins = value.starts_with(['"', '-']) || value.starts_with(|c: char| c.is_ascii_digit());
    let fits = begins && value.len() <= ID_BYTES_MAX;
    let is_json = serde_json::from_str::<&RawValue>(value).is_ok();
    (fits && is_json).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]], bytes_max: usize) -> Vec<ClientLine> {
        let mut lines = Lines::new(bytes_max);
        let mut all = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| all.push(line));
        }
        all.extend(lines.end());
        all
    }

    fn whole(text: &str) -> ClientLine {
        ClientLine::Whole(Bytes::from(text.to_owned()))
    }

    #[test]
    fn any_split_gives_the_same_lines() {
        let long =
            br#"{"jsonrpc":"2.0","id":"a\"b","method":"m","params":{"id":5,"x":"}, \"id\": 6"}}"#;
        let text = [b"one\n\n \r\ntwo\n".as_slice(), long, b"\nlast"].concat();
        let expected = vec![
            whole("one"),
            whole("two"),
            ClientLine::TooLong {
                bytes: long.len() as u64,
                id: Some(r#""a\"b""#.into()),
            },
            whole("last"),
        ];
        for i in 0..text.len() {
            assert_eq!(lines(&[&text[..i], &text[i..]], 40), expected, "{i}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes, 40), expected);
    }

    #[test]
    fn the_bound_is_of_the_line_without_its_end() {
        assert_eq!(lines(&[b"1234\n"], 4), [whole("1234")]);
        let too_long = ClientLine::TooLong { bytes: 5, id: None };
        assert_eq!(lines(&[b"12345\n67"], 4), [too_long, whole("67")]);
    }

    #[test]
    fn an_id_is_found_or_nothing() {
        let request = |text: &str| Top::of(text.as_bytes()).id(true).map(str::to_owned);
        let found = |text: &str| request(text).expect(text);
        assert_eq!(found(r#"{"method":"m","params":[1,{}],"id": -7 }"#), "-7");
        // Broken after its id, as a line that was cut is.
        assert_eq!(found(r#"{"id":7,"method":"m","params":{"a":[1,"#), "7");
        assert_eq!(found(r#"{"id":7,"method":"m","id2":1,,}"#), "7");
        for none in [
            "",
            "7",
            "[]",
            r#"[{"id":7,"method":"m"}]"#,
            r#"{"id":7}"#,
            r#"{"id":7,"id":8,"method":"m"}"#,
            r#"{"id":null,"method":"m"}"#,
            r#"{"id":{"id":7},"method":"m"}"#,
            r#"{"id":7 8,"method":"m"}"#,
            r#"{"params":{"id":7},"method":"m"}"#,
            r#"{"method":"m","id":7"#,
            "}}}{\"id\"",
        ] {
            assert_eq!(request(none), None, "{none}");
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(300));
        assert_eq!(request(&long), None);
        let answer = Top::of(br#"{"id":7,"result":{},}"#);
        assert_eq!((answer.id(false), answer.id(true)), (Some("7"), None));
    }
}
