//! Reads HTTP/1.1 answers (RFC 9112) as they come, in pieces of any size.
//!
//! Heads are read by httparse. Most answers of one server have the same head byte for byte, so the last head
//! that was read is remembered and compared first: a repeated head costs a comparison, and there is no second
//! parser that could disagree with the first. Bodies are told to a [`Listener`] and never kept. What RFC 9112
//! forbids, or allows two readings of, is refused: a generator that repairs answers would hide the target's bugs.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

/// Longest head of an answer, and longest trailer section, in bytes.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Longest head that is remembered, in bytes.
const REMEMBERED_BYTES_MAX: usize = 1 << 10;
/// Most fields of one head.
const FIELDS_MAX: usize = 128;
/// Most interim (1xx) answers before the final one.
const INTERIM_MAX: u8 = 16;
/// Most bytes of one chunk's size line after the size.
const EXTENSION_BYTES_MAX: u32 = 4 << 10;

/// Who is told what an answer holds.
pub trait Listener {
    /// Whether [`Listener::head`] must be told the fields.
    fn wants_fields(&self) -> bool;
    /// The head of the final answer. The fields may be absent if they are not wanted.
    fn head(&mut self, status: u16, fields: &[Header<'_>]);
    /// The next bytes of the body, without framing.
    fn body(&mut self, piece: &[u8]);
}

/// Why what came is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Its first bytes are not those of HTTP/1.
    NotHttp,
    /// What is wrong, as the end of a sentence that begins with "the answer".
    Answer(&'static str),
}

/// How far a piece was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes that belong to this answer; the rest does not.
    pub used: usize,
    /// The answer is complete.
    pub done: bool,
}

/// What a head says about the answer's end.
#[derive(Clone, Copy, Debug, Default)]
struct Framing {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    /// The connection ends with this answer.
    close: bool,
}

/// The head that was read last, for all connections of a thread.
#[derive(Default)]
pub struct Remembered {
    head: Vec<u8>,
    framing: Framing,
}

impl Remembered {
    fn find(&self, bytes: &[u8]) -> Option<Framing> {
        (!self.head.is_empty() && bytes.starts_with(&self.head)).then_some(self.framing)
    }

    fn keep(&mut self, head: &[u8], framing: Framing) {
        self.head.clear();
        if head.len() <= REMEMBERED_BYTES_MAX {
            self.head.extend_from_slice(head);
            self.framing = framing;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    /// So many bytes of the body are missing.
    Length(u64),
    Chunks(Chunk),
    UntilClose,
    Done,
}

/// Where in a chunked body the next byte is.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    Size { size: u64, digits: u8 },
    Extension { size: u64, bytes: u32 },
    SizeLf { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailer { bytes: u32, line: u32 },
    TrailerLf { bytes: u32, line: u32 },
    Done,
}

const CHUNKS: Chunk = Chunk::Size { size: 0, digits: 0 };

/// The reader of one connection. [`Reader::begin`] comes before each answer.
#[derive(Default)]
pub struct Reader {
    state: State,
    /// A head whose end has not come yet.
    partial: Vec<u8>,
    /// Where the last line of `partial` begins.
    line: usize,
    interim: u8,
    to_head: bool,
    keeps: bool,
}

impl Reader {
    /// Makes ready for the answer to a request; the answer to a HEAD request has no body.
    pub fn begin(&mut self, to_head: bool) {
        self.state = State::Head;
        self.partial.clear();
        self.line = 0;
        self.interim = 0;
        self.to_head = to_head;
        self.keeps = false;
    }

    /// Whether the connection can be used again after this answer.
    pub fn keeps_connection(&self) -> bool {
        self.keeps
    }

    /// Whether the end of the connection is the end of the answer.
    pub fn ends_by_close(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    ///
    /// They are not what RFC 9112 allows, or a bound of this module is passed.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        remembered: &mut Remembered,
        listener: &mut impl Listener,
    ) -> Result<Fed, Wrong> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            match self.state {
                State::Head => match self.head(rest, remembered, listener)? {
                    Some(end) => used += end,
                    None => used = bytes.len(),
                },
                State::Length(missing) => {
                    let count = missing.min(rest.len() as u64);
                    listener.body(&rest[..count as usize]);
                    used += count as usize;
                    self.state = if count == missing {
                        State::Done
                    } else {
                        State::Length(missing - count)
                    };
                }
                State::Chunks(chunk) => {
                    let (next, count) = chunk.feed(rest, listener)?;
                    used += count;
                    self.state = match next {
                        Chunk::Done => State::Done,
                        next => State::Chunks(next),
                    };
                }
                State::UntilClose => {
                    listener.body(rest);
                    used = bytes.len();
                }
                State::Done => break,
            }
        }
        let done = matches!(self.state, State::Done);
        Ok(Fed { used, done })
    }

    /// Reads a head, or keeps what came of it. Returns how many of the bytes belong to it, if it ends here.
    fn head(
        &mut self,
        bytes: &[u8],
        remembered: &mut Remembered,
        listener: &mut impl Listener,
    ) -> Result<Option<usize>, Wrong> {
        if self.partial.is_empty() {
            if !listener.wants_fields()
                && let Some(framing) = remembered.find(bytes)
            {
                listener.head(framing.status, &[]);
                self.enter(framing);
                return Ok(Some(remembered.head.len()));
            }
            begins_as_http(bytes)?;
            let mut line = 0;
            if let Some(end) = head_end(bytes, &mut line)? {
                self.parse(&bytes[..end], remembered, listener)?;
                return Ok(Some(end));
            }
            self.line = line;
            self.partial.extend_from_slice(bytes);
            return Ok(None);
        }
        let before = self.partial.len();
        let room = (HEAD_BYTES_MAX + 1).saturating_sub(before);
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        begins_as_http(&self.partial)?;
        let Some(end) = head_end(&self.partial, &mut self.line)? else {
            return Ok(None);
        };
        let partial = std::mem::take(&mut self.partial);
        let parsed = self.parse(&partial[..end], remembered, listener);
        self.partial = partial;
        self.partial.clear();
        self.line = 0;
        parsed.map(|()| Some(end - before))
    }

    fn parse(
        &mut self,
        head: &[u8],
        remembered: &mut Remembered,
        listener: &mut impl Listener,
    ) -> Result<(), Wrong> {
        let mut space = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut response = Response::new(&mut []);
        let config = ParserConfig::default();
        match config.parse_response_with_uninit_headers(&mut response, head, &mut space) {
            Ok(Status::Complete(end)) if end == head.len() => {}
            Ok(_) => return Err(Wrong::Answer("has a head that ends twice")),
            Err(error) => return Err(Wrong::Answer(name(error))),
        }
        let status = response.code.unwrap_or(0);
        match status {
            101 => return Err(Wrong::Answer("switches protocols, which nobody asked for")),
            100..200 if self.interim == INTERIM_MAX => {
                return Err(Wrong::Answer("never comes: more than 16 interim ones do"));
            }
            100..200 => {
                self.interim += 1;
                return Ok(());
            }
            200..600 => {}
            _ => return Err(Wrong::Answer("has a status that is not from 100 to 599")),
        }
        let framing = Framing::read(status, response.version == Some(0), response.headers)?;
        listener.head(status, response.headers);
        if !listener.wants_fields() {
            remembered.keep(head, framing);
        }
        self.enter(framing);
        Ok(())
    }

    /// What comes after a final head.
    fn enter(&mut self, framing: Framing) {
        self.keeps = !framing.close;
        let bodiless = self.to_head || matches!(framing.status, 204 | 304);
        self.state = match framing.length {
            _ if bodiless => State::Done,
            _ if framing.chunked => State::Chunks(CHUNKS),
            Some(0) => State::Done,
            Some(length) => State::Length(length),
            None => State::UntilClose,
        };
        self.keeps &= !matches!(self.state, State::UntilClose);
    }
}

impl Framing {
    fn read(status: u16, is_old: bool, fields: &[Header<'_>]) -> Result<Framing, Wrong> {
        let (mut framing, mut keep_alive) = (Framing::default(), false);
        framing.status = status;
        for field in fields {
            // Most names have another length, which tells most of them apart at once.
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                14 if is("content-length") => {
                    if framing.length.is_some() {
                        return Err(Wrong::Answer("has two Content-Length fields"));
                    }
                    framing.length = Some(length(field.value)?);
                }
                17 if is("transfer-encoding") => {
                    if framing.chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Wrong::Answer("has another Transfer-Encoding than chunked"));
                    }
                    framing.chunked = true;
                }
                10 if is("connection") => {
                    let options = field.value.split(|byte| *byte == b',');
                    for option in options.map(<[u8]>::trim_ascii) {
                        framing.close |= option.eq_ignore_ascii_case(b"close");
                        keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                _ => {}
            }
        }
        if framing.chunked && (framing.length.is_some() || is_old) {
            return Err(Wrong::Answer(
                "is chunked although it has a Content-Length or is HTTP/1.0",
            ));
        }
        framing.close |= is_old && !keep_alive;
        Ok(framing)
    }
}

/// A Content-Length: digits only, and few enough of them.
fn length(value: &[u8]) -> Result<u64, Wrong> {
    let digits = value.iter().all(u8::is_ascii_digit) && (1..=18).contains(&value.len());
    if !digits {
        return Err(Wrong::Answer("has a Content-Length that is no number"));
    }
    let digit = |byte: &u8| u64::from(byte - b'0');
    Ok(value
        .iter()
        .fold(0, |length, byte| length * 10 + digit(byte)))
}

fn begins_as_http(bytes: &[u8]) -> Result<(), Wrong> {
    let count = bytes.len().min(7);
    if bytes[..count] == b"HTTP/1."[..count] {
        Ok(())
    } else {
        Err(Wrong::NotHttp)
    }
}

/// Where a head ends, after its empty line. `line` is where its last line begins, which is where to go on.
fn head_end(bytes: &[u8], line: &mut usize) -> Result<Option<usize>, Wrong> {
    let from = *line;
    for feed in memchr::memchr_iter(b'\n', &bytes[from..]) {
        let at = from + feed;
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(Wrong::Answer("has a line that ends without a CR"));
        }
        if at == *line + 1 {
            return if at < HEAD_BYTES_MAX {
                Ok(Some(at + 1))
            } else {
                Err(TOO_LONG)
            };
        }
        *line = at + 1;
    }
    if bytes.len() > HEAD_BYTES_MAX {
        return Err(TOO_LONG);
    }
    Ok(None)
}

const TOO_LONG: Wrong = Wrong::Answer("has a head of more than 32 KiB");

fn name(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "has a field name that is none",
        httparse::Error::HeaderValue => "has a field value with a control character",
        httparse::Error::NewLine => "has a line that does not end as lines do",
        httparse::Error::Status => "has a status line without a status",
        httparse::Error::TooManyHeaders => "has more than 128 fields",
        httparse::Error::Version => "has an HTTP version that is none",
        httparse::Error::Token => "has a status line that is none",
    }
}

impl Chunk {
    /// Reads bytes of which there is at least one. Returns what comes next and how many were read.
    fn feed(self, bytes: &[u8], listener: &mut impl Listener) -> Result<(Chunk, usize), Wrong> {
        let byte = bytes[0];
        let next = match self {
            Chunk::Data { left } => {
                let count = left.min(bytes.len() as u64);
                listener.body(&bytes[..count as usize]);
                let left = left - count;
                let next = if left > 0 {
                    Chunk::Data { left }
                } else {
                    Chunk::DataCr
                };
                return Ok((next, count as usize));
            }
            Chunk::Size { size, digits } => size_byte(size, digits, byte)?,
            Chunk::Extension { size, bytes } => match byte {
                b'\r' => Chunk::SizeLf { size },
                b'\n' => return Err(BARE),
                _ if bytes == EXTENSION_BYTES_MAX => {
                    return Err(Wrong::Answer("has a chunk extension of more than 4 KiB"));
                }
                _ => Chunk::Extension {
                    size,
                    bytes: bytes + 1,
                },
            },
            Chunk::SizeLf { .. } | Chunk::DataLf | Chunk::TrailerLf { .. } if byte != b'\n' => {
                return Err(BARE);
            }
            Chunk::SizeLf { size: 0 } => Chunk::Trailer { bytes: 0, line: 0 },
            Chunk::SizeLf { size } => Chunk::Data { left: size },
            Chunk::DataCr if byte == b'\r' => Chunk::DataLf,
            Chunk::DataCr => return Err(Wrong::Answer("has a chunk that is longer than it says")),
            Chunk::DataLf => CHUNKS,
            Chunk::Trailer { bytes, line } => match byte {
                b'\r' => Chunk::TrailerLf { bytes, line },
                b'\n' => return Err(BARE),
                _ if bytes as usize == HEAD_BYTES_MAX => {
                    return Err(Wrong::Answer("has trailers of more than 32 KiB"));
                }
                _ => Chunk::Trailer {
                    bytes: bytes + 1,
                    line: line + 1,
                },
            },
            Chunk::TrailerLf { line: 0, .. } => Chunk::Done,
            Chunk::TrailerLf { bytes, .. } => Chunk::Trailer { bytes, line: 0 },
            Chunk::Done => Chunk::Done,
        };
        Ok((next, 1))
    }
}

const BARE: Wrong = Wrong::Answer("has a line in its chunks that does not end in CR LF");

/// One byte of a chunk's size.
fn size_byte(size: u64, digits: u8, byte: u8) -> Result<Chunk, Wrong> {
    let is_size = digits > 0;
    match (byte as char).to_digit(16) {
        // Fifteen digits are more than any body, and cannot overflow.
        Some(_) if digits == 15 => Err(Wrong::Answer("has a chunk size of more than 15 digits")),
        Some(digit) => Ok(Chunk::Size {
            size: size << 4 | u64::from(digit),
            digits: digits + 1,
        }),
        None if is_size && byte == b'\r' => Ok(Chunk::SizeLf { size }),
        None if is_size && matches!(byte, b';' | b' ' | b'\t') => {
            Ok(Chunk::Extension { size, bytes: 0 })
        }
        None => Err(Wrong::Answer("has a chunk size that is no number")),
    }
}

#[cfg(test)]
mod tests;
