//! Heads, fields, chunks and trailers, as bytes in an output.
//!
//! Whatever a caller passes, no field can end its line, and no field of the caller's frames the
//! message: those for one connection are left out and written by the engine alone.

use super::body::Framing;
use super::error::Error;
use super::field::{FieldKind, is_token, is_value};

/// Digits of a chunk's size where it is written before the chunk is known.
const SIZE_DIGITS: usize = 8;

/// How the body that we write is framed, and how much of it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// There is nothing more to send.
    Done,
    Length(u64),
    Chunked,
    UntilClose,
}

impl Sending {
    pub(super) fn of(framing: Framing) -> Sending {
        match framing {
            Framing::None | Framing::Length(0) => Sending::Done,
            Framing::Length(length) => Sending::Length(length),
            Framing::Chunked => Sending::Chunked,
            Framing::UntilClose => Sending::UntilClose,
        }
    }

    /// Writes bytes of the body.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.used(bytes.len())?;
        if *self == Sending::Chunked {
            put_size(out, bytes.len());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Lets `fill` append bytes of the body to the output. It must not touch what stands before.
    pub(super) fn push_with<R>(
        &mut self,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, Error> {
        let before = out.len();
        if *self == Sending::Chunked {
            out.extend_from_slice(b"00000000\r\n");
        }
        let start = out.len();
        let result = fill(out);
        let bytes = out.len().saturating_sub(start);
        if bytes == 0 {
            out.truncate(before);
            return Ok(result);
        }
        if let Err(error) = self.used(bytes) {
            out.truncate(before);
            return Err(error);
        }
        if *self == Sending::Chunked {
            put_hex(&mut out[before..before + SIZE_DIGITS], bytes);
            out.extend_from_slice(b"\r\n");
        }
        Ok(result)
    }

    fn used(&mut self, bytes: usize) -> Result<(), Error> {
        match self {
            Sending::Chunked | Sending::UntilClose => Ok(()),
            Sending::Length(left) => match left.checked_sub(bytes as u64) {
                Some(0) => {
                    *self = Sending::Done;
                    Ok(())
                }
                Some(rest) => {
                    *left = rest;
                    Ok(())
                }
                None => Err(Error::Misuse("the body is longer than its length")),
            },
            Sending::Done => Err(Error::Misuse("the message has no body, or not so much")),
        }
    }

    /// Ends the body; trailers are left out where it is not in chunks.
    pub(super) fn end<'f>(
        &mut self,
        out: &mut Vec<u8>,
        trailers: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Error> {
        match self {
            Sending::Done => {}
            Sending::Length(_) => return Err(Error::Misuse("the body is shorter than its length")),
            Sending::UntilClose => {}
            Sending::Chunked => whole(out, |out| {
                out.extend_from_slice(b"0\r\n");
                put_fields(out, trailers)?;
                out.extend_from_slice(b"\r\n");
                Ok(())
            })?,
        }
        *self = Sending::Done;
        Ok(())
    }
}

/// Lets `write` append to the output; takes it all back if it fails.
pub(super) fn whole(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let before = out.len();
    let written = write(out);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// Writes the fields that are for whoever is at the end. Those of one connection are left out.
pub(super) fn put_fields<'f>(
    out: &mut Vec<u8>,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), Error> {
    for (name, value) in fields {
        if !matches!(FieldKind::of(name), FieldKind::Plain | FieldKind::Expect) {
            continue;
        }
        if !is_token(name) || !is_value(value) {
            return Err(Error::Misuse("a field that cannot be written"));
        }
        put_field(out, name, value);
    }
    Ok(())
}

pub(super) fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes `content-length`.
pub(super) fn put_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    put_decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Writes the line before a chunk.
fn put_size(out: &mut Vec<u8>, bytes: usize) {
    let mut digits = [0; 2 * size_of::<usize>()];
    put_hex(&mut digits, bytes);
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    out.extend_from_slice(&digits[zeros.min(digits.len() - 1)..]);
    out.extend_from_slice(b"\r\n");
}

fn put_hex(digits: &mut [u8], mut number: usize) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[number & 15];
        number >>= 4;
    }
    debug_assert_eq!(number, 0, "a chunk is shorter than 4 GiB");
}
