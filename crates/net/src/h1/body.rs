//! How a body is framed, and the way from what came to what was meant (RFC 9112 §6 and §7).
//!
//! Bytes of a body are never copied, but for a body in chunks of which the caller wants more in one
//! piece than one chunk holds: then they are moved together within the buffer.

use memchr::memchr;

use super::buffer::Input;
use super::error::Fault;
use super::field::FieldSpans;
use super::head::{self, Scan};
use super::{CHUNK_EXTENSION_BYTES_MAX, CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none, or it is empty.
    None,
    /// After so many bytes, 1 or more where the engine says it.
    Length(u64),
    /// With the last chunk; trailers may follow.
    Chunked,
    /// With the connection. Of answers alone, and the only one where a cut can look like an end.
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    Done,
    /// So many bytes are missing.
    Length(u64),
    /// A chunk's size comes next.
    Size,
    /// So many bytes of a chunk are missing.
    Data(u64),
    /// The CRLF after a chunk comes next.
    DataEnd,
    Trailers,
    UntilClose,
}

/// The decoder of one body.
#[derive(Debug)]
pub(super) struct BodyDecoder {
    state: BodyState,
    extension_bytes: usize,
    scan: Scan,
    pub(super) trailers: Vec<FieldSpans>,
}

impl BodyDecoder {
    pub(super) fn new() -> BodyDecoder {
        BodyDecoder {
            state: BodyState::Done,
            extension_bytes: 0,
            scan: Scan::default(),
            trailers: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, framing: Framing) {
        self.state = match framing {
            Framing::None | Framing::Length(0) => BodyState::Done,
            Framing::Length(length) => BodyState::Length(length),
            Framing::Chunked => BodyState::Size,
            Framing::UntilClose => BodyState::UntilClose,
        };
        self.extension_bytes = 0;
        self.scan = Scan::default();
        self.trailers.clear();
    }

    /// Whether all of it came, with its trailers. Data may still be there to be used.
    pub(super) fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// The connection ended: whether that is the end of the body, too.
    pub(super) fn end_of_input(&mut self) -> bool {
        if self.state == BodyState::UntilClose {
            self.state = BodyState::Done;
        }
        self.is_done()
    }

    /// Decodes what came. Stops early if `want` bytes are there and more would have to be moved.
    pub(super) fn advance(
        &mut self,
        input: &mut Input,
        want: usize,
        fields_max: usize,
    ) -> Result<(), Fault> {
        loop {
            let came = input.raw().len();
            self.state = match self.state {
                BodyState::Done => return Ok(()),
                BodyState::UntilClose => {
                    input.take_data(came);
                    return Ok(());
                }
                BodyState::Length(left) => match take(input, left) {
                    0 => BodyState::Done,
                    left => {
                        self.state = BodyState::Length(left);
                        return Ok(());
                    }
                },
                BodyState::Data(_) if came == 0 => return Ok(()),
                BodyState::Data(_) if input.is_apart() && input.data_len() >= want => return Ok(()),
                BodyState::Data(left) => match take(input, left) {
                    0 => BodyState::DataEnd,
                    left => BodyState::Data(left),
                },
                BodyState::DataEnd => match input.raw() {
                    [b'\r', b'\n', ..] => {
                        input.skip(2);
                        BodyState::Size
                    }
                    [] | [b'\r'] => return Ok(()),
                    _ => return Err(Fault::ChunkEnd),
                },
                BodyState::Size => match self.size(input)? {
                    None => return Ok(()),
                    Some(0) => BodyState::Trailers,
                    Some(size) => BodyState::Data(size),
                },
                BodyState::Trailers => {
                    if !self.read_trailers(input, fields_max)? {
                        return Ok(());
                    }
                    BodyState::Done
                }
            };
        }
    }

    /// Reads the line before a chunk, if all of it is there.
    fn size(&mut self, input: &mut Input) -> Result<Option<u64>, Fault> {
        let raw = input.raw();
        let window = &raw[..raw.len().min(CHUNK_LINE_BYTES_MAX)];
        let Some(lf) = memchr(b'\n', window) else {
            // What is there has to be the beginning of such a line, so that junk does not have to
            // be waited for.
            digits(window)?;
            if window.len() == CHUNK_LINE_BYTES_MAX {
                return Err(Fault::ChunkExtension);
            }
            return Ok(None);
        };
        let (size, used) = digits(&window[..lf])?;
        let Some(line) = window[..lf].strip_suffix(b"\r") else {
            return Err(Fault::BareLf);
        };
        if used == 0 {
            return Err(Fault::ChunkSize);
        }
        let extension = &line[used..];
        check_extension(extension)?;
        self.extension_bytes += extension.len();
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            return Err(Fault::ChunkExtension);
        }
        input.skip(lf + 1);
        Ok(Some(size))
    }

    /// Reads the trailer section, if all of it is there.
    fn read_trailers(&mut self, input: &mut Input, fields_max: usize) -> Result<bool, Fault> {
        let raw = input.raw();
        let Some(end) = self.scan.end(raw)? else {
            return match raw.len() {
                0..TRAILER_BYTES_MAX => Ok(false),
                _ => Err(Fault::TrailerTooLarge),
            };
        };
        if end > TRAILER_BYTES_MAX {
            return Err(Fault::TrailerTooLarge);
        }
        let section = &raw[..end];
        head::trailers(section, input.raw_start(), fields_max, &mut self.trailers)?;
        input.skip(end);
        Ok(true)
    }
}

/// Takes at most `left` bytes as data; returns how many are still missing.
fn take(input: &mut Input, left: u64) -> u64 {
    let came = input.raw().len() as u64;
    let now = came.min(left);
    input.take_data(now as usize);
    left - now
}

/// The number at the start of a chunk's line, and how many digits it has. The first byte that is
/// none has to be one that may follow.
fn digits(line: &[u8]) -> Result<(u64, usize), Fault> {
    let mut size = 0u64;
    for (used, byte) in line.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b';' | b' ' | b'\t' | b'\r' if used > 0 => return Ok((size, used)),
            _ => return Err(Fault::ChunkSize),
        };
        // 15 digits and leading zeros up to 16: no size that is a bound for anyone is longer.
        if used == 16 || size >> 56 != 0 {
            return Err(Fault::ChunkTooLarge);
        }
        size = size << 4 | u64::from(digit);
    }
    Ok((size, line.len()))
}

/// Checks what follows a size: nothing, or `;` with visible characters, after whitespace that RFC
/// 9112 §7.1.1 tolerates.
fn check_extension(extension: &[u8]) -> Result<(), Fault> {
    if extension.is_empty() {
        return Ok(());
    }
    let ok = |byte: &u8| matches!(byte, b'\t' | b' '..=0x7e);
    if extension.trim_ascii_start().first() == Some(&b';') && extension.iter().all(ok) {
        Ok(())
    } else {
        Err(Fault::ChunkExtension)
    }
}
