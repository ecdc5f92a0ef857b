//! Writes a message into the caller's output: known-length framing where all of it is at hand, pieces otherwise.
//!
//! Everything that a [`super::Decoder`] would refuse is refused here too, before anything of it is written: a fault
//! leaves the output as it was. Names are put in lower case; nothing else is mended. Host is left out, since it is the
//! authority, and Content-Length is an argument, because it frames the message.

use super::rules::{self, Kind, Place};
use super::{Fault, INTERIM_MAX, Length, Limits, RequestLine, integer};

/// Bytes kept free for the length of a section; what most sections need.
const SECTION_LENGTH_BYTES: usize = 2;

/// A message whose head has been written: its content and its trailers follow.
#[derive(Debug)]
#[must_use = "a message ends by `finish`"]
pub struct Encoder {
    limits: Limits,
    is_known: bool,
    /// What is left of the content, where its length is known.
    left: Option<u64>,
    written: u64,
    must_be_empty: bool,
}

/// A response whose framing has been written: informational responses and the head follow.
#[derive(Debug)]
#[must_use = "a response goes on with `head`"]
pub struct Answering {
    limits: Limits,
    length: Length,
    interims: usize,
}

impl Encoder {
    /// Writes the framing indicator, the control data and the fields of a request, and, where all of it is at hand,
    /// the length of its content. `content_length` becomes the field of that name.
    ///
    /// # Errors
    /// Whatever a decoder would refuse; the output is then as it was.
    pub fn request<'f>(
        out: &mut Vec<u8>,
        limits: &Limits,
        line: &RequestLine<'_>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        content_length: Option<u64>,
        length: Length,
    ) -> Result<Encoder, Fault> {
        rules::request(line)?;
        let whole = agreed(content_length, length)?;
        let is_known = whole.is_some();
        if whole > Some(limits.content_bytes_max) {
            return Err(Fault::ContentTooLong);
        }
        let parts = [line.method, line.scheme, line.authority, line.path];
        let used = parts.iter().map(|part| part.len()).sum();
        all_or_nothing(out, |out| {
            out.push(if is_known { 0 } else { 2 });
            for part in parts {
                string(out, part);
            }
            let authority = Some(line.authority);
            let mut section = Section::new(limits, Place::Head, used, authority)?;
            section.write(out, is_known, fields, content_length)?;
            if let Some(bytes) = whole {
                integer::write(out, bytes);
            }
            Ok(())
        })?;
        Ok(Encoder {
            limits: *limits,
            is_known,
            left: whole.or(content_length),
            written: 0,
            must_be_empty: false,
        })
    }

    /// Writes the framing indicator of a response.
    pub fn response(out: &mut Vec<u8>, limits: &Limits, length: Length) -> Answering {
        out.push(if length == Length::Stream { 3 } else { 1 });
        Answering {
            limits: *limits,
            length,
            interims: 0,
        }
    }

    /// Writes the next piece of content. An empty one writes nothing.
    ///
    /// # Errors
    /// [`Fault::ContentLength`] if there is more than the length said, [`Fault::ContentTooLong`],
    /// [`Fault::ContentUnasked`] if none may be.
    pub fn content(&mut self, out: &mut Vec<u8>, piece: &[u8]) -> Result<(), Fault> {
        self.content_head(out, piece.len())?;
        out.extend_from_slice(piece);
        Ok(())
    }

    /// Promises a piece of content that the caller then puts behind the output by itself, such as straight from a
    /// socket: exactly `bytes` bytes, before anything else is written.
    ///
    /// # Errors
    /// As [`Encoder::content`].
    pub fn content_head(&mut self, out: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        if self.must_be_empty {
            return Err(Fault::ContentUnasked);
        }
        let bytes = bytes as u64;
        let left = match self.left {
            Some(left) => Some(left.checked_sub(bytes).ok_or(Fault::ContentLength)?),
            None => None,
        };
        let written = self.written.saturating_add(bytes);
        if written > self.limits.content_bytes_max {
            return Err(Fault::ContentTooLong);
        }
        (self.left, self.written) = (left, written);
        if !self.is_known {
            integer::write(out, bytes);
        }
        Ok(())
    }

    /// Writes the end of the content and the trailers. Padding, if any, is zeros behind it.
    ///
    /// # Errors
    /// [`Fault::ContentLength`] if content is missing, and what a decoder would refuse in trailers; the output is
    /// then as it was.
    pub fn finish<'f>(
        self,
        out: &mut Vec<u8>,
        trailers: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Fault> {
        if self.left.is_some_and(|left| left > 0) {
            return Err(Fault::ContentLength);
        }
        all_or_nothing(out, |out| {
            if !self.is_known {
                out.push(0);
            }
            let mut section = Section::new(&self.limits, Place::Trailers, 0, None)?;
            section.write(out, self.is_known, trailers, None)
        })
    }
}

impl Answering {
    /// Writes an informational response.
    ///
    /// # Errors
    /// [`Fault::TooManyInterim`], [`Fault::Switching`], [`Fault::Status`] for one that is not informational, and what a
    /// decoder would refuse in its fields; the output is then as it was.
    pub fn interim<'f>(
        &mut self,
        out: &mut Vec<u8>,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Fault> {
        match status {
            101 => return Err(Fault::Switching),
            100..=199 if self.interims < INTERIM_MAX => {}
            100..=199 => return Err(Fault::TooManyInterim),
            _ => return Err(Fault::Status),
        }
        let is_known = self.length != Length::Stream;
        all_or_nothing(out, |out| {
            integer::write(out, status.into());
            let mut section = Section::new(&self.limits, Place::Interim, 0, None)?;
            section.write(out, is_known, fields, None)
        })?;
        self.interims += 1;
        Ok(())
    }

    /// Writes the final status and its fields, and, where all of it is at hand, the length of its content.
    /// `content_length` becomes the field of that name; in a response `to_head`, or with status 304, it is not the
    /// length of what follows.
    ///
    /// # Errors
    /// Whatever a decoder would refuse. The output is then as it was, and the response can only be given up.
    pub fn head<'f>(
        self,
        out: &mut Vec<u8>,
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        content_length: Option<u64>,
        to_head: bool,
    ) -> Result<Encoder, Fault> {
        if !(200..=599).contains(&status) {
            return Err(Fault::Status);
        }
        let must_be_empty = to_head || rules::has_no_content(status);
        let framed = content_length.filter(|_| !must_be_empty || status == 204);
        let whole = agreed(framed, self.length)?;
        if must_be_empty && whole.or(framed).is_some_and(|bytes| bytes > 0) {
            return Err(Fault::ContentUnasked);
        }
        if whole > Some(self.limits.content_bytes_max) {
            return Err(Fault::ContentTooLong);
        }
        all_or_nothing(out, |out| {
            integer::write(out, status.into());
            let mut section = Section::new(&self.limits, Place::Head, 0, None)?;
            section.write(out, whole.is_some(), fields, content_length)?;
            if let Some(bytes) = whole {
                integer::write(out, bytes);
            }
            Ok(())
        })?;
        Ok(Encoder {
            limits: self.limits,
            is_known: whole.is_some(),
            left: whole.or(framed),
            written: 0,
            must_be_empty,
        })
    }
}

/// The length of content that is at hand, which Content-Length must not contradict.
fn agreed(content_length: Option<u64>, length: Length) -> Result<Option<u64>, Fault> {
    match (content_length, length) {
        (_, Length::Whole(bytes)) | (Some(bytes), _) if bytes > integer::MAX => {
            Err(Fault::ContentTooLong)
        }
        (Some(said), Length::Whole(bytes)) if said != bytes => Err(Fault::ContentLength),
        (_, Length::Whole(bytes)) => Ok(Some(bytes)),
        (_, Length::Stream) => Ok(None),
    }
}

/// Takes back what was written before a fault.
fn all_or_nothing(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let before = out.len();
    let result = write(out);
    if result.is_err() {
        out.truncate(before);
    }
    result
}

/// Writes a string behind its length.
fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    integer::write(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A field section that is being written.
struct Section<'s> {
    place: Place,
    authority: Option<&'s [u8]>,
    has_host: bool,
    /// Bytes and fields that may still come.
    room: usize,
    fields_left: usize,
}

impl<'s> Section<'s> {
    fn new(
        limits: &Limits,
        place: Place,
        used: usize,
        authority: Option<&'s [u8]>,
    ) -> Result<Section<'s>, Fault> {
        let room = limits
            .head_bytes_max
            .checked_sub(used)
            .ok_or(Fault::HeadTooLarge)?;
        Ok(Section {
            place,
            authority,
            has_host: false,
            room,
            fields_left: limits.fields_max,
        })
    }

    fn write<'f>(
        &mut self,
        out: &mut Vec<u8>,
        is_known: bool,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        content_length: Option<u64>,
    ) -> Result<(), Fault> {
        let start = out.len();
        if is_known {
            out.extend_from_slice(&[0; SECTION_LENGTH_BYTES]);
        }
        for (name, value) in fields {
            self.field(out, name, value)?;
        }
        if let Some(bytes) = content_length {
            let mut digits = [0; 20];
            self.count(b"content-length".len() + 20)?;
            string(out, b"content-length");
            string(out, decimal(bytes, &mut digits));
        }
        if is_known {
            set_length(out, start);
        } else {
            out.push(0);
        }
        Ok(())
    }

    #[inline]
    fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        let before = out.len();
        integer::write(out, name.len() as u64);
        let name_from = out.len();
        out.extend(name.iter().map(|byte| rules::lower(*byte)));
        let name = &out[name_from..];
        if name.is_empty() || name.contains(&0) {
            return Err(Fault::FieldName);
        }
        match (rules::field(name, value, self.place)?, self.authority) {
            (Kind::ContentLength, _) => return Err(Fault::ContentLength),
            (Kind::Host, Some(authority)) => {
                if self.has_host || value != authority {
                    return Err(Fault::Host);
                }
                self.has_host = true;
                out.truncate(before);
                return Ok(());
            }
            _ => {}
        }
        self.count(name.len() + value.len())?;
        string(out, value);
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.room = self.room.checked_sub(bytes).ok_or(Fault::HeadTooLarge)?;
        self.fields_left = self
            .fields_left
            .checked_sub(1)
            .ok_or(Fault::TooManyFields)?;
        Ok(())
    }
}

/// Writes the length of what stands behind `start` into the room that was kept there, or makes the room fit.
fn set_length(out: &mut Vec<u8>, start: usize) {
    let from = start + SECTION_LENGTH_BYTES;
    let length = (out.len() - from) as u64;
    match length {
        0..0x40 => {
            out[start] = length as u8;
            out.copy_within(from.., start + 1);
            out.truncate(out.len() - 1);
        }
        0x40..0x4000 => out[start..from].copy_from_slice(&(length as u16 | 0x4000).to_be_bytes()),
        _ => {
            let end = out.len();
            out.extend_from_slice(&[0; 2]);
            out.copy_within(from..end, from + 2);
            out[start..from + 2].copy_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes());
        }
    }
}

/// The decimal digits of a number.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}
