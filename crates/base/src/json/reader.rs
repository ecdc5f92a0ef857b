//! Reads a text into nodes.

use super::{Form, JsonError, JsonKind, Node};
use crate::limit::JSON_DEPTH_MAX;

/// Bytes that are looked at in one step.
const WORD: usize = size_of::<u64>();
/// Bytes of a text for each node that room is made for at first.
const BYTES_PER_NODE: usize = 16;

/// The nodes of a text.
pub(super) fn nodes(text: &str) -> Result<Vec<Node>, JsonError> {
    if u32::try_from(text.len()).is_err() {
        return Err(JsonError::Deep);
    }
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        nodes: Vec::with_capacity(text.len() / BYTES_PER_NODE + 1),
    };
    reader.space();
    reader.value(0)?;
    reader.space();
    match reader.at == text.len() {
        true => Ok(reader.nodes),
        false => Err(JsonError::Syntax),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes this byte if it is the next one.
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        self.take(byte).then_some(()).ok_or(JsonError::Syntax)
    }

    /// Reads the value that begins here. Its depth is bounded, so the calls are.
    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > JSON_DEPTH_MAX {
            return Err(JsonError::Deep);
        }
        let (number, start) = (self.nodes.len(), self.at);
        match self.peek().ok_or(JsonError::Syntax)? {
            b'"' => {
                let form = match self.string()? {
                    true => Form::EscapedString,
                    false => Form::Value(JsonKind::String),
                };
                self.leaf(start, form);
            }
            b'{' => {
                self.leaf(start, Form::Value(JsonKind::Object));
                self.object(depth)?;
                self.close(number);
            }
            b'[' => {
                self.leaf(start, Form::Value(JsonKind::Array));
                self.array(depth)?;
                self.close(number);
            }
            b't' => self.word(b"true", JsonKind::Bool)?,
            b'f' => self.word(b"false", JsonKind::Bool)?,
            b'n' => self.word(b"null", JsonKind::Null)?,
            _ => {
                self.number()?;
                self.leaf(start, Form::Value(JsonKind::Number));
            }
        }
        Ok(())
    }

    /// Adds the node of what stands from `start` to here, with nothing inside of it.
    fn leaf(&mut self, start: usize, form: Form) {
        let next = self.nodes.len() + 1;
        self.nodes.push(Node {
            start: short(start),
            end: short(self.at),
            next: short(next),
            form,
        });
    }

    /// Says that a container ends here.
    fn close(&mut self, number: usize) {
        let next = self.nodes.len();
        let node = &mut self.nodes[number];
        (node.end, node.next) = (short(self.at), short(next));
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.space();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(JsonError::Syntax);
            }
            let form = match self.string()? {
                true => Form::EscapedKey,
                false => Form::Key,
            };
            self.leaf(start, form);
            self.space();
            self.expect(b':')?;
            self.space();
            self.value(depth + 1)?;
            self.space();
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',')?;
            self.space();
        }
    }

    fn word(&mut self, word: &[u8], kind: JsonKind) -> Result<(), JsonError> {
        let start = self.at;
        if !self.text[start..].starts_with(word) {
            return Err(JsonError::Syntax);
        }
        self.at += word.len();
        self.leaf(start, Form::Value(kind));
        Ok(())
    }

    /// RFC 8259, section 6. A number that no double can hold is refused: readers differ in what they make of it.
    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut is_large = self.at - start > f64::MAX_10_EXP as usize;
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            is_large = true;
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let is_held = || {
            let written = std::str::from_utf8(&self.text[start..self.at]);
            let number = written.ok().and_then(|text| text.parse::<f64>().ok());
            number.is_some_and(f64::is_finite)
        };
        match !is_large || is_held() {
            true => Ok(()),
            false => Err(JsonError::Syntax),
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(()),
            false => Err(JsonError::Syntax),
        }
    }

    /// Reads the string that begins here, quotes included; whether it has escapes.
    fn string(&mut self) -> Result<bool, JsonError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    let (_, length) = escape(&self.text[self.at..]).ok_or(JsonError::Syntax)?;
                    self.at += length;
                }
                // A control character, or the end.
                _ => return Err(JsonError::Syntax),
            }
        }
    }

    /// Goes on to the next quote, backslash or control character, eight bytes in one step.
    fn plain(&mut self) {
        let (words, _) = self.text[self.at..].as_chunks::<WORD>();
        for word in words {
            let marks = marks(u64::from_le_bytes(*word));
            if marks != 0 {
                self.at += marks.trailing_zeros() as usize / 8;
                return;
            }
            self.at += WORD;
        }
        let is_mark = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        while self.peek().is_some_and(|byte| !is_mark(byte)) {
            self.at += 1;
        }
    }
}

/// A place or a number of nodes; both are at most the text's length, which was looked at.
fn short(long: usize) -> u32 {
    u32::try_from(long).expect("the text has less than 4 GiB")
}

/// The high bit of each byte that is a quote, a backslash or below a space, up to the first of them, which comes first in
/// memory. (Mycroft's test for a zero byte; those above the first may be wrong.)
fn marks(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, most: u8| word.wrapping_sub(ONES * u64::from(most)) & !word & HIGH;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    is(b'"') | is(b'\\') | below(word, b' ')
}

/// What the escape at the start of a text stands for, and its length: `\uXXXX`, or two of them that are a surrogate pair,
/// or a backslash and one of eight bytes (RFC 8259, section 7). Half of a pair alone is no character.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let simple = match text.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((simple, 2))
}

fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let value = |sum: u32, byte: &u8| Some(sum * 16 + char::from(*byte).to_digit(16)?);
        digits.iter().try_fold(0, value)
    };
    let first = unit(0)?;
    if !(0xd800..=0xdbff).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = unit(6).filter(|second| (0xdc00..=0xdfff).contains(second))?;
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((char::from_u32(code)?, 12))
}

/// What is written between the quotes of a string that was read, without its escapes.
pub(super) fn unescaped(written: &str) -> String {
    let mut said = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        said.push_str(&rest[..at]);
        let Some((character, length)) = escape(&rest.as_bytes()[at..]) else {
            crate::never!("a string that was read has an escape that is none");
            break;
        };
        said.push(character);
        rest = &rest[at + length..];
    }
    said.push_str(rest);
    said
}
