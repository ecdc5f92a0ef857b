//! RESP2, the protocol of Redis: commands as they are written, replies as they are read.
//!
//! Replies come from outside: their bytes, their elements and their nesting have bounds, and what is not exactly a
//! reply is a fault, after which the connection is of no use.

use std::fmt;

use base::limit::{CACHE_REPLY_BYTES_MAX, CACHE_REPLY_ELEMENTS_MAX};

/// Nesting of arrays in a reply.
const DEPTH_MAX: u32 = 2;
/// Longest line of a length or a number: a sign and 19 digits.
const NUMBER_BYTES_MAX: usize = 20;

/// Commands that go out together, and whose replies come in their order.
#[derive(Clone, Default)]
pub struct CacheCommands {
    bytes: Vec<u8>,
    count: usize,
}

/// They may hold a password.
impl fmt::Debug for CacheCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.count)
    }
}

impl CacheCommands {
    pub fn new() -> CacheCommands {
        CacheCommands::default()
    }

    /// Adds a command: its name and its arguments, each of any bytes.
    #[must_use]
    pub fn with(mut self, words: &[&[u8]]) -> CacheCommands {
        self.bytes
            .extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.bytes
                .extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.count += 1;
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// What the store replied to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheReply {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// There is no such thing.
    Nil,
    Array(Vec<CacheReply>),
}

/// Bytes that are no reply, or one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    Form,
    TooLong,
}

/// Reads the first reply of these bytes, and how many it takes; nothing where it is not whole yet.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(CacheReply, usize)>, ReplyFault> {
    let mut reader = Reader {
        bytes,
        at: 0,
        elements: 0,
    };
    let reply = reader.reply(0)?;
    match reply {
        Some(_) if reader.at > CACHE_REPLY_BYTES_MAX => Err(ReplyFault::TooLong),
        None if bytes.len() > CACHE_REPLY_BYTES_MAX => Err(ReplyFault::TooLong),
        reply => Ok(reply.map(|reply| (reply, reader.at))),
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    elements: usize,
}

impl Reader<'_> {
    fn reply(&mut self, depth: u32) -> Result<Option<CacheReply>, ReplyFault> {
        let Some(kind) = self.bytes.get(self.at).copied() else {
            return Ok(None);
        };
        self.at += 1;
        match kind {
            b'+' => Ok(self.line()?.map(|line| CacheReply::Simple(line.to_vec()))),
            b'-' => Ok(self.line()?.map(|line| CacheReply::Error(line.to_vec()))),
            b':' => Ok(self.number()?.map(CacheReply::Integer)),
            b'$' => self.bulk(),
            b'*' => self.array(depth),
            _ => Err(ReplyFault::Form),
        }
    }

    /// Up to CR LF, in which neither stands alone.
    fn line(&mut self) -> Result<Option<&[u8]>, ReplyFault> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return Ok(None);
        };
        match rest.get(end..end + 2) {
            Some(b"\r\n") => {
                self.at += end + 2;
                Ok(Some(&rest[..end]))
            }
            None if rest[end] == b'\r' => Ok(None),
            _ => Err(ReplyFault::Form),
        }
    }

    fn number(&mut self) -> Result<Option<i64>, ReplyFault> {
        let left = self.bytes.len() - self.at;
        let Some(line) = self.line()? else {
            return match left > NUMBER_BYTES_MAX + 1 {
                true => Err(ReplyFault::Form),
                false => Ok(None),
            };
        };
        let digits = line.strip_prefix(b"-").unwrap_or(line);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(ReplyFault::Form);
        }
        let text = std::str::from_utf8(line).map_err(|_| ReplyFault::Form)?;
        text.parse().map(Some).map_err(|_| ReplyFault::Form)
    }

    /// A length: that of nothing is −1, and others are in bounds.
    fn length(&mut self, max: usize) -> Result<Option<Option<usize>>, ReplyFault> {
        match self.number()? {
            None => Ok(None),
            Some(-1) => Ok(Some(None)),
            Some(length) => match usize::try_from(length) {
                Ok(length) if length <= max => Ok(Some(Some(length))),
                Ok(_) => Err(ReplyFault::TooLong),
                Err(_) => Err(ReplyFault::Form),
            },
        }
    }

    fn bulk(&mut self) -> Result<Option<CacheReply>, ReplyFault> {
        let length = match self.length(CACHE_REPLY_BYTES_MAX)? {
            None => return Ok(None),
            Some(None) => return Ok(Some(CacheReply::Nil)),
            Some(Some(length)) => length,
        };
        let Some(text) = self.bytes.get(self.at..self.at + length + 2) else {
            return Ok(None);
        };
        let Some(text) = text.strip_suffix(b"\r\n") else {
            return Err(ReplyFault::Form);
        };
        self.at += length + 2;
        Ok(Some(CacheReply::Bulk(text.to_vec())))
    }

    fn array(&mut self, depth: u32) -> Result<Option<CacheReply>, ReplyFault> {
        if depth >= DEPTH_MAX {
            return Err(ReplyFault::TooLong);
        }
        let length = match self.length(CACHE_REPLY_ELEMENTS_MAX)? {
            None => return Ok(None),
            Some(None) => return Ok(Some(CacheReply::Nil)),
            Some(Some(length)) => length,
        };
        self.elements += length;
        if self.elements > CACHE_REPLY_ELEMENTS_MAX {
            return Err(ReplyFault::TooLong);
        }
        let mut elements = Vec::with_capacity(length);
        for _ in 0..length {
            match self.reply(depth + 1)? {
                Some(reply) => elements.push(reply),
                None => return Ok(None),
            }
        }
        Ok(Some(CacheReply::Array(elements)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> CacheReply {
        CacheReply::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn replies_are_read_whole_and_in_any_pieces() {
        let cases: &[(&str, CacheReply)] = &[
            ("+OK\r\n", CacheReply::Simple(b"OK".to_vec())),
            ("-ERR no\r\n", CacheReply::Error(b"ERR no".to_vec())),
            (":-12\r\n", CacheReply::Integer(-12)),
            ("$5\r\na\r\nbc\r\n", bulk("a\r\nbc")),
            ("$0\r\n\r\n", bulk("")),
            ("$-1\r\n", CacheReply::Nil),
            ("*-1\r\n", CacheReply::Nil),
            (
                "*2\r\n:0\r\n*1\r\n$1\r\nx\r\n",
                CacheReply::Array(vec![
                    CacheReply::Integer(0),
                    CacheReply::Array(vec![bulk("x")]),
                ]),
            ),
        ];
        for (text, reply) in cases {
            let more = format!("{text}+OK\r\n");
            let read_first = read(more.as_bytes()).unwrap();
            assert_eq!(read_first, Some((reply.clone(), text.len())), "{text:?}");
            for cut in 0..text.len() {
                assert_eq!(read(&text.as_bytes()[..cut]), Ok(None), "{text:?} to {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_reply_or_a_long_one_is_a_fault() {
        for text in [
            "HTTP/1.1 400\r\n",
            ":+1\r\n",
            ":\r\n",
            ":1a\r\n",
            ":99999999999999999999\r\n",
            "$-2\r\n",
            "$2\r\nabcd",
            "+a\nb\r\n",
            ":1111111111111111111111111111",
            "*3\r\n*1\r\n*1\r\n:1\r\n",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:?}");
        }
        let long = format!("${}\r\n", CACHE_REPLY_BYTES_MAX + 1);
        assert_eq!(read(long.as_bytes()), Err(ReplyFault::TooLong));
        let long = format!("*{}\r\n", CACHE_REPLY_ELEMENTS_MAX + 1);
        assert_eq!(read(long.as_bytes()), Err(ReplyFault::TooLong));
        let endless = vec![b'+'; CACHE_REPLY_BYTES_MAX + 1];
        assert_eq!(read(&endless), Err(ReplyFault::TooLong));
    }

    #[test]
    fn arguments_of_any_bytes_stay_one_argument() {
        let commands = CacheCommands::new().with(&[b"SET", b"a\r\n*1\r\n$8\r\nFLUSHALL\r\n", b""]);
        assert_eq!(
            commands.bytes(),
            b"*3\r\n$3\r\nSET\r\n$21\r\na\r\n*1\r\n$8\r\nFLUSHALL\r\n\r\n$0\r\n\r\n"
        );
        assert_eq!(format!("{commands:?}"), "1 commands");
    }
}
