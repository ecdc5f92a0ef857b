//! What hyper lets pass and two readers could frame in two ways, found in the bytes before hyper has them.
//!
//! hyper takes lines that end in LF alone, `Transfer-Encoding` beside `Content-Length`, codings beside
//! `chunked`, and lengths that are repeated (RFC 9112 §2.2, §6.1, §6.3). A proxy in front of the gateway
//! may frame those otherwise, and then one request hides another (request smuggling). This follows the
//! framing of each message, so that it knows where heads begin, and refuses; all else stays hyper's.

use base::limit;
use memchr::memchr;

use crate::h1::CHUNK_LINE_BYTES_MAX;

/// Digits of a length and of a chunk's size, zeros or not.
const DIGITS_MAX: usize = 19;
const HEX_DIGITS_MAX: usize = 16;
/// Fields that must not stand in trailers: a reader that merges them with the head's frames anew.
const NOT_IN_TRAILERS: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"host"];

/// What is wrong, and how much of the last bytes stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramingFault {
    pub(super) what: FaultKind,
    /// Of the bytes that were looked at: those before the bad head, or before the bad line of a body.
    pub(super) good: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Head(&'static str),
    /// A line of the head is longer than a head may be.
    Large,
    Body(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageStage {
    /// Before a head: empty lines are skipped.
    Before,
    Head,
    /// In a body with so many bytes to come.
    Length(u64),
    /// Before the line with a chunk's size.
    Size,
    /// In a chunk with so many bytes to come.
    Chunk(u64),
    /// Behind a chunk's bytes.
    ChunkEnd,
    Trailers,
}

/// The framing of one connection's requests.
#[derive(Debug)]
pub(super) struct Strict {
    stage: MessageStage,
    /// The beginning of a line whose end has not come.
    held: Vec<u8>,
    /// Of the head that is being read.
    old: bool,
    lengths: usize,
    length: Option<u64>,
    codings: usize,
    chunked: bool,
    heads: u64,
}

impl Strict {
    pub(super) fn new() -> Strict {
        Strict {
            stage: MessageStage::Before,
            held: Vec::new(),
            old: false,
            lengths: 0,
            length: None,
            codings: 0,
            chunked: false,
            heads: 0,
        }
    }

    /// Heads that were whole and good.
    pub(super) fn heads(&self) -> u64 {
        self.heads
    }

    /// Looks at the next bytes.
    pub(super) fn look(&mut self, bytes: &[u8]) -> Result<(), FramingFault> {
        let (mut at, mut head) = (0, 0);
        while at < bytes.len() {
            if let Some(left) = self.skip((bytes.len() - at) as u64) {
                at += left as usize;
                continue;
            }
            if self.stage == MessageStage::Before && self.held.is_empty() {
                head = at;
            }
            let good = if self.in_head() { head } else { at };
            let fault = |what| FramingFault { what, good };
            let Some(end) = memchr(b'\n', &bytes[at..]) else {
                return self.hold(&bytes[at..]).map_err(fault);
            };
            let line = &bytes[at..at + end];
            at += end + 1;
            if self.held.is_empty() {
                self.line(line).map_err(fault)?;
            } else {
                self.hold(line).map_err(fault)?;
                let mut held = std::mem::take(&mut self.held);
                self.line(&held).map_err(fault)?;
                held.clear();
                self.held = held;
            }
        }
        if self.held.is_empty() {
            // Idle connections keep no buffer.
            self.held = Vec::new();
        }
        Ok(())
    }

    fn in_head(&self) -> bool {
        matches!(self.stage, MessageStage::Before | MessageStage::Head)
    }

    /// Passes over bytes of a body: says how many, of those that are here.
    fn skip(&mut self, here: u64) -> Option<u64> {
        let (MessageStage::Length(left) | MessageStage::Chunk(left)) = self.stage else {
            return None;
        };
        let skipped = left.min(here);
        self.stage = match self.stage {
            MessageStage::Length(_) if skipped == left => MessageStage::Before,
            MessageStage::Length(_) => MessageStage::Length(left - skipped),
            _ if skipped == left => MessageStage::ChunkEnd,
            _ => MessageStage::Chunk(left - skipped),
        };
        Some(skipped)
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), FaultKind> {
        if self.held.len() + bytes.len() > limit::HEAD_BYTES_MAX {
            return Err(match self.in_head() {
                true => FaultKind::Large,
                false => FaultKind::Body("a line between chunks is too long"),
            });
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// A line, without its LF.
    fn line(&mut self, line: &[u8]) -> Result<(), FaultKind> {
        let wrong = |in_head, why| match in_head {
            true => FaultKind::Head(why),
            false => FaultKind::Body(why),
        };
        let in_head = self.in_head();
        let Some(line) = line.strip_suffix(b"\r") else {
            return Err(wrong(in_head, "a line ends in LF alone, not in CR LF"));
        };
        match self.stage {
            MessageStage::Before if line.is_empty() => Ok(()),
            MessageStage::Before => {
                (self.lengths, self.length) = (0, None);
                (self.codings, self.chunked) = (0, false);
                self.old = line.ends_with(b"HTTP/1.0");
                self.stage = MessageStage::Head;
                Ok(())
            }
            MessageStage::Head if line.is_empty() => {
                self.stage = self.framing().map_err(FaultKind::Head)?;
                self.heads += 1;
                Ok(())
            }
            MessageStage::Head => self.field(line).map_err(FaultKind::Head),
            MessageStage::Size => self.size(line).map_err(FaultKind::Body),
            MessageStage::ChunkEnd if line.is_empty() => {
                self.stage = MessageStage::Size;
                Ok(())
            }
            MessageStage::ChunkEnd => Err(FaultKind::Body("a chunk is longer than its size")),
            MessageStage::Trailers if line.is_empty() => {
                self.stage = MessageStage::Before;
                Ok(())
            }
            MessageStage::Trailers => trailer(line).map_err(FaultKind::Body),
            MessageStage::Length(_) | MessageStage::Chunk(_) => Ok(()),
        }
    }

    fn field(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let Some(colon) = memchr(b':', line) else {
            return Ok(());
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            self.lengths += 1;
            self.length = Some(number(value, 10).ok_or("Content-Length is no number")?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.codings += 1;
            self.chunked = value.eq_ignore_ascii_case(b"chunked");
        }
        Ok(())
    }

    fn framing(&self) -> Result<MessageStage, &'static str> {
        match (self.codings, self.lengths) {
            (0, 0) => Ok(MessageStage::Before),
            (0, 1) => Ok(match self.length {
                Some(length @ 1..) => MessageStage::Length(length),
                _ => MessageStage::Before,
            }),
            (0, _) => Err("the request has more than one Content-Length field"),
            (_, 1..) => Err("the request has both Transfer-Encoding and Content-Length"),
            _ if self.old => Err("a request of HTTP/1.0 cannot have Transfer-Encoding"),
            (1, 0) if self.chunked => Ok(MessageStage::Size),
            _ => Err("Transfer-Encoding is not chunked alone"),
        }
    }

    fn size(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let (digits, rest) = line.split_at(digits);
        let size = number(digits, 16).ok_or("a chunk's size is no number")?;
        let extension = rest.trim_ascii_start();
        let is_visible = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
        let is_extension = extension.starts_with(b";") && extension.iter().all(is_visible);
        if !rest.is_empty() && !is_extension || line.len() > CHUNK_LINE_BYTES_MAX {
            return Err("what follows a chunk's size is no extension");
        }
        self.stage = match size {
            0 => MessageStage::Trailers,
            size => MessageStage::Chunk(size),
        };
        Ok(())
    }
}

fn trailer(line: &[u8]) -> Result<(), &'static str> {
    let name = line.split(|b| *b == b':').next().unwrap_or_default();
    let name = name.trim_ascii();
    match NOT_IN_TRAILERS
        .iter()
        .any(|not| name.eq_ignore_ascii_case(not))
    {
        true => Err("a field that frames or routes stands in the trailers"),
        false => Ok(()),
    }
}

/// Digits and nothing else, as a number that fits a signed one of 64 bits.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits_max = match radix {
        16 => HEX_DIGITS_MAX,
        _ => DIGITS_MAX,
    };
    let plain = digits.len() <= digits_max && digits.iter().all(|b| (*b as char).is_digit(radix));
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    let number = u64::from_str_radix(text, radix).ok()?;
    i64::try_from(number).is_ok().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of bytes that come in pieces of this size.
    fn outcome(bytes: &[u8], piece: usize) -> Result<MessageStage, FaultKind> {
        let mut strict = Strict::new();
        for piece in bytes.chunks(piece) {
            strict.look(piece).map_err(|fault| fault.what)?;
        }
        Ok(strict.stage)
    }

    fn each_way(text: &str) -> Result<MessageStage, FaultKind> {
        let whole = outcome(text.as_bytes(), text.len());
        for piece in 1..text.len() {
            assert_eq!(
                outcome(text.as_bytes(), piece),
                whole,
                "{text:?} by {piece}"
            );
        }
        whole
    }

    #[test]
    fn messages_are_followed_to_their_end() {
        for text in [
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\na\nb\nc\n\n\n\n",
            "POST / HTTP/1.0\r\ncontent-length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding:CHUNKED \r\n\r\n3;x=y\r\n\n\n\n\r\n0\r\nt: v\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nA ;x\r\n0123456789\r\n00\r\n\r\n",
        ] {
            assert_eq!(each_way(text), Ok(MessageStage::Before), "{text:?}");
        }
        let open = each_way("POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc");
        assert_eq!(open, Ok(MessageStage::Length(6)));
    }

    #[test]
    fn what_two_readers_frame_in_two_ways_is_a_fault() {
        let post = "POST / HTTP/1.1\r\nhost: x\r\n";
        for fields in [
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding:\r\n",
            "transfer-encoding: \"chunked\"\r\n",
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
            "content-length: 5\r\ncontent-length: 5\r\n",
            "content-length: 5, 5\r\n",
            "content-length: +5\r\n",
            "content-length:\r\n",
            "content-length: 9223372036854775808\r\n",
            "content-length: 00000000000000000003\r\n",
            "a: b\n",
            "a: b\r\n\n",
        ] {
            let found = each_way(&format!("{post}{fields}\r\n"));
            assert!(
                matches!(found, Err(FaultKind::Head(_))),
                "{fields:?}: {found:?}"
            );
        }
        let old = each_way("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n");
        assert!(matches!(old, Err(FaultKind::Head(_))));
        assert!(matches!(
            each_way("\nGET / HTTP/1.1\r\n\r\n"),
            Err(FaultKind::Head(_))
        ));
        let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n");
        for body in [
            "3\nabc\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\r\n0\n\r\n",
            "3\r\nabc\r\n0\r\nt: v\n\r\n",
            "3\r\nabc\r\n0\r\n\n",
            "3;x\ny\r\nabc\r\n",
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "3x\r\nabc\r\n",
            "3 \r\nabc\r\n",
            "3;\u{1}\r\nabc\r\n",
            "0\r\nContent-Length: 5\r\n\r\n",
            "10000000000000000\r\n",
        ] {
            let found = each_way(&format!("{chunked}{body}"));
            assert!(
                matches!(found, Err(FaultKind::Body(_))),
                "{body:?}: {found:?}"
            );
        }
        let long = format!("{post}a: {}", "b".repeat(limit::HEAD_BYTES_MAX));
        assert_eq!(outcome(long.as_bytes(), 4096), Err(FaultKind::Large));
    }

    #[test]
    fn what_stands_before_a_fault_is_good() {
        let good = "GET /1 HTTP/1.1\r\nhost: x\r\n\r\n";
        let bad = "GET /2 HTTP/1.1\nhost: x\r\n\r\n";
        let fault = Strict::new().look(format!("{good}{bad}").as_bytes());
        assert_eq!(fault.unwrap_err().good, good.len());
        let head = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
        let fault = Strict::new().look(format!("{head}x\r\n").as_bytes());
        assert_eq!(fault.unwrap_err().good, head.len());
    }
}
