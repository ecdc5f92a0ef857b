//! Reads a message as its bytes come: the head into a buffer that is used again, content without a copy.
//!
//! The state is one [`At`], and each step either finds all the bytes that it needs or keeps those that came, so a
//! chunk may end anywhere. Lengths are checked before anything is kept for them. A decoder that has refused a message
//! refuses everything until it is told to begin anew.

use super::rules::{self, Kind, Place};
use super::{Fault, INTERIM_MAX, Limits, RequestLine, integer};

/// Bytes of the text buffer that are kept for the next message.
const TEXT_KEPT_BYTES: usize = 8 << 10;

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Request,
    /// The response to any request but HEAD.
    Response,
    /// The response to HEAD: its length is that of another content, and it has none (RFC 9110 §9.3.2).
    ResponseToHead,
}

/// What a read has found. Whatever is not in the event is asked of the [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// All input is used up.
    More,
    /// An informational response: [`Decoder::status`] and [`Decoder::fields`] are its own until the next read.
    Interim,
    /// The head. It stays readable to the end of the message.
    Head,
    /// The next piece of content, never empty, where it stands in the input.
    Content(&'i [u8]),
    /// The end of content and trailers. Only zeros may follow, so the message is whole only when [`Decoder::end`]
    /// says so.
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// One field: its value stands right behind its name.
#[derive(Clone, Copy, Debug)]
struct Field {
    start: u32,
    value: u32,
    end: u32,
    kind: Kind,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Framing,
    /// Which part of a request's control data.
    Control(usize),
    Status,
    /// The length of a field section, in known-length framing.
    Section,
    Name,
    Value,
    ContentLength,
    Content,
    Padding,
}

/// How far a step came.
enum Step<'i> {
    On,
    Short,
    Found(Event<'i>),
}

/// Reads one message after another; its buffers are used again.
pub struct Decoder {
    limits: Limits,
    reading: Reading,
    at: At,
    place: Place,
    is_known: bool,
    integer: integer::Partial,
    /// Bytes still missing of the string that is being read.
    string: Option<usize>,
    string_from: u32,
    /// Bytes left of a field section in known-length framing.
    section: u64,
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Where the head's text, and the trailers', begins in `text`, and where trailers begin in `fields`.
    text_from: usize,
    trailers_from: usize,
    name_from: u32,
    value_from: u32,
    control: [Span; 4],
    status: u16,
    interims: usize,
    has_host: bool,
    /// What Content-Length says.
    declared: Option<u64>,
    /// All content that is to come, where that is known.
    length: Option<u64>,
    /// Content that has been promised by lengths so far, and what of it has not come.
    promised: u64,
    left: u64,
    failed: Option<Fault>,
}

impl Decoder {
    pub fn new(limits: Limits, reading: Reading) -> Decoder {
        Decoder {
            limits,
            reading,
            at: At::Framing,
            place: Place::Head,
            is_known: false,
            integer: integer::Partial::default(),
            string: None,
            string_from: 0,
            section: 0,
            text: Vec::new(),
            fields: Vec::new(),
            text_from: 0,
            trailers_from: 0,
            name_from: 0,
            value_from: 0,
            control: [Span::default(); 4],
            status: 0,
            interims: 0,
            has_host: false,
            declared: None,
            length: None,
            promised: 0,
            left: 0,
            failed: None,
        }
    }

    /// Begins another message. Nothing of the last one is left but the room of its buffers.
    pub fn begin(&mut self, reading: Reading) {
        let (mut text, mut fields) = (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.fields),
        );
        text.clear();
        text.shrink_to(TEXT_KEPT_BYTES);
        fields.clear();
        *self = Decoder {
            text,
            fields,
            ..Decoder::new(self.limits, reading)
        };
    }

    /// Reads on, and takes from `input` what it has read. Call it until it answers [`Event::More`].
    ///
    /// # Errors
    /// The first fault of the message, and the same one for ever after.
    #[inline]
    pub fn read<'i>(&mut self, input: &mut &'i [u8]) -> Result<Event<'i>, Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        loop {
            match self.step(input) {
                Ok(Step::On) => {}
                Ok(Step::Short) => return Ok(Event::More),
                Ok(Step::Found(event)) => return Ok(event),
                Err(fault) => {
                    self.failed = Some(fault);
                    return Err(fault);
                }
            }
        }
    }

    /// Says that no more input will come: the final chunk has been verified and read.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if the message is not whole, or the fault that it had before.
    pub fn end(&self) -> Result<(), Fault> {
        match (self.failed, self.at) {
            (Some(fault), _) => Err(fault),
            (None, At::Padding) => Ok(()),
            (None, _) => Err(Fault::Truncated),
        }
    }

    /// The control data of a request, after [`Event::Head`].
    pub fn request(&self) -> Option<RequestLine<'_>> {
        let is_read = self.reading == Reading::Request && self.head_is_read();
        is_read.then(|| self.line())
    }

    /// The status of the response that [`Event::Interim`] or [`Event::Head`] told of.
    pub fn status(&self) -> Option<u16> {
        (self.status != 0).then_some(self.status)
    }

    /// The fields of the head or of the informational response.
    pub fn fields(&self) -> Fields<'_> {
        let to = if self.place == Place::Trailers {
            self.trailers_from
        } else {
            self.fields.len()
        };
        self.part(&self.fields[..to])
    }

    /// The trailers, after [`Event::Done`].
    pub fn trailers(&self) -> Fields<'_> {
        let is_done = self.at == At::Padding;
        let from = if is_done {
            self.trailers_from
        } else {
            self.fields.len()
        };
        self.part(&self.fields[from..])
    }

    /// What Content-Length says. In a response to HEAD, and of status 304, it is not the length of this message.
    pub fn content_length(&self) -> Option<u64> {
        self.declared
    }

    /// How many bytes of content there are, as far as the head tells: nothing in a stream without Content-Length.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    fn part<'d>(&'d self, fields: &'d [Field]) -> Fields<'d> {
        Fields {
            text: &self.text,
            fields: fields.iter(),
        }
    }

    fn head_is_read(&self) -> bool {
        self.place == Place::Trailers || matches!(self.at, At::Content | At::ContentLength)
    }

    fn line(&self) -> RequestLine<'_> {
        let [method, scheme, authority, path] = self.control.map(|span| span.of(&self.text));
        RequestLine {
            method,
            scheme,
            authority,
            path,
        }
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        match self.at {
            At::Framing => self.framing(input),
            At::Control(index) => self.control(index, input),
            At::Status => self.read_status(input),
            At::Section => self.section(input),
            At::Name | At::Value if self.is_known => self.in_section(input),
            At::Name => self.name(input),
            At::Value => self.value(input),
            At::ContentLength => self.read_length(input),
            At::Content => self.content(input),
            At::Padding => padding(input),
        }
    }

    fn framing<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(framing) = self.integer.read(input) else {
            return Ok(Step::Short);
        };
        let is_request = self.reading == Reading::Request;
        (self.is_known, self.at) = match (framing, is_request) {
            (0, true) => (true, At::Control(0)),
            (2, true) => (false, At::Control(0)),
            (1, false) => (true, At::Status),
            (3, false) => (false, At::Status),
            _ => return Err(Fault::Framing),
        };
        Ok(Step::On)
    }

    fn control<'i>(&mut self, index: usize, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(span) = self.string(input)? else {
            return Ok(Step::Short);
        };
        self.control[index] = span;
        if index < 3 {
            self.at = At::Control(index + 1);
        } else {
            rules::request(&self.line())?;
            self.begin_section(Place::Head);
        }
        Ok(Step::On)
    }

    fn read_status<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(status) = self.integer.read(input) else {
            return Ok(Step::Short);
        };
        // The text of an informational response makes room for what follows it.
        self.text.clear();
        self.fields.clear();
        let place = match status {
            101 => return Err(Fault::Switching),
            100..=199 if self.interims == INTERIM_MAX => return Err(Fault::TooManyInterim),
            100..=199 => {
                self.interims += 1;
                Place::Interim
            }
            200..=599 => Place::Head,
            _ => return Err(Fault::Status),
        };
        self.status = status as u16;
        self.begin_section(place);
        Ok(Step::On)
    }

    fn begin_section(&mut self, place: Place) {
        self.place = place;
        if place == Place::Trailers {
            (self.text_from, self.trailers_from) = (self.text.len(), self.fields.len());
        }
        self.at = if self.is_known { At::Section } else { At::Name };
    }

    fn section<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(length) = self.integer.read(input) else {
            return Ok(Step::Short);
        };
        // Names and values are counted as they come; their lengths, of at most 8 bytes each, are not.
        let lengths_max = self.limits.fields_max.saturating_mul(16);
        if length > self.room().saturating_add(lengths_max) as u64 {
            return Err(Fault::HeadTooLarge);
        }
        self.section = length;
        self.at = At::Name;
        Ok(Step::On)
    }

    /// One step within a known-length section: it sees no byte beyond the section's end.
    fn in_section<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let is_between = self.at == At::Name && self.string.is_none() && !self.integer.is_open();
        if self.section == 0 {
            return if is_between {
                self.end_section()
            } else {
                Err(Fault::Section)
            };
        }
        let seen = input
            .len()
            .min(usize::try_from(self.section).unwrap_or(usize::MAX));
        let mut window = &input[..seen];
        let step = match self.at {
            At::Name => self.name(&mut window)?,
            _ => self.value(&mut window)?,
        };
        let used = seen - window.len();
        *input = &input[used..];
        self.section -= used as u64;
        // What stopped for want of bytes at the end of the section will find none.
        Ok(if self.section == 0 { Step::On } else { step })
    }

    fn name<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(span) = self.string(input)? else {
            return Ok(Step::Short);
        };
        let name = span.of(&self.text);
        if name.is_empty() && !self.is_known {
            return self.end_section();
        }
        if !rules::is_lower_token(name) {
            return Err(Fault::FieldName);
        }
        if self.fields.len() - self.section_from() == self.limits.fields_max {
            return Err(Fault::TooManyFields);
        }
        (self.name_from, self.value_from, self.at) = (span.start, span.end, At::Value);
        Ok(Step::On)
    }

    fn value<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(span) = self.string(input)? else {
            return Ok(Step::Short);
        };
        let name = &self.text[self.name_from as usize..self.value_from as usize];
        let value = span.of(&self.text);
        let kind = rules::field(name, value, self.place)?;
        match kind {
            Kind::ContentLength if self.declared.is_some() => return Err(Fault::ContentLength),
            Kind::ContentLength => self.declared = Some(rules::content_length(value)?),
            Kind::Host if self.reading == Reading::Request => {
                if self.has_host || value != self.control[2].of(&self.text) {
                    return Err(Fault::Host);
                }
                self.has_host = true;
            }
            _ => {}
        }
        self.fields.push(Field {
            start: self.name_from,
            value: span.start,
            end: span.end,
            kind,
        });
        self.at = At::Name;
        Ok(Step::On)
    }

    fn end_section<'i>(&mut self) -> Result<Step<'i>, Fault> {
        match self.place {
            Place::Interim => {
                self.at = At::Status;
                Ok(Step::Found(Event::Interim))
            }
            // A known length is part of the head, for whoever has to write it in HTTP/1.1.
            Place::Head if self.is_known => {
                self.at = At::ContentLength;
                Ok(Step::On)
            }
            Place::Head => {
                self.length = if self.must_be_empty() {
                    Some(0)
                } else {
                    self.declared
                };
                self.at = At::ContentLength;
                Ok(Step::Found(Event::Head))
            }
            Place::Trailers => {
                self.at = At::Padding;
                Ok(Step::Found(Event::Done))
            }
        }
    }

    /// The length of all content, or of its next piece; 0 ends pieces.
    fn read_length<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(length) = self.integer.read(input) else {
            return Ok(Step::Short);
        };
        self.promised = self.promised.saturating_add(length);
        if self.promised > self.limits.content_bytes_max {
            return Err(Fault::ContentTooLong);
        }
        if self.must_be_empty() && length > 0 {
            return Err(Fault::ContentUnasked);
        }
        let is_last = self.is_known || length == 0;
        if let Some(declared) = self
            .declared
            .filter(|_| !self.must_be_empty() || self.status == 204)
            && (self.promised > declared || is_last && self.promised < declared)
        {
            return Err(Fault::ContentLength);
        }
        self.left = length;
        if self.is_known {
            self.length = Some(length);
            self.at = At::Content;
            return Ok(Step::Found(Event::Head));
        }
        if is_last {
            self.begin_section(Place::Trailers);
        } else {
            self.at = At::Content;
        }
        Ok(Step::On)
    }

    fn content<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        if self.left == 0 {
            if self.is_known {
                self.begin_section(Place::Trailers);
            } else {
                self.at = At::ContentLength;
            }
            return Ok(Step::On);
        }
        if input.is_empty() {
            return Ok(Step::Short);
        }
        let taken = input
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let (piece, rest) = input.split_at(taken);
        *input = rest;
        self.left -= taken as u64;
        Ok(Step::Found(Event::Content(piece)))
    }

    /// Whether this is a response that has no content, whatever its length says.
    fn must_be_empty(&self) -> bool {
        self.reading == Reading::ResponseToHead || rules::has_no_content(self.status)
    }

    fn section_from(&self) -> usize {
        if self.place == Place::Trailers {
            self.trailers_from
        } else {
            0
        }
    }

    /// Bytes that this head, or these trailers, may still have.
    fn room(&self) -> usize {
        let used = self.text.len() - self.text_from;
        self.limits.head_bytes_max.saturating_sub(used)
    }

    /// Adds the string that comes next to the text: its place once all of it has come.
    #[inline]
    fn string(&mut self, input: &mut &[u8]) -> Result<Option<Span>, Fault> {
        let mut missing = match self.string {
            Some(missing) => missing,
            None => {
                let Some(length) = self.integer.read(input) else {
                    return Ok(None);
                };
                if length > self.room() as u64 {
                    return Err(Fault::HeadTooLarge);
                }
                self.string_from = self.text.len() as u32;
                length as usize
            }
        };
        let (come, rest) = input.split_at(missing.min(input.len()));
        self.text.extend_from_slice(come);
        *input = rest;
        missing -= come.len();
        self.string = (missing > 0).then_some(missing);
        Ok((missing == 0).then_some(Span {
            start: self.string_from,
            end: self.text.len() as u32,
        }))
    }
}

/// Takes the zeros after the message.
fn padding<'i>(input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
    let is_zero = input.iter().fold(0, |all, byte| all | byte) == 0;
    *input = &[];
    if is_zero {
        Ok(Step::Short)
    } else {
        Err(Fault::Padding)
    }
}

/// Names in lower case and values, in the order that they came in.
#[derive(Clone)]
pub struct Fields<'d> {
    text: &'d [u8],
    fields: std::slice::Iter<'d, Field>,
}

impl<'d> Fields<'d> {
    /// Those that an HTTP/1.1 engine passes on as they are: it writes Host and Content-Length itself, from
    /// [`RequestLine::authority`] and [`Decoder::content_length`].
    pub fn passed_on(self) -> impl Iterator<Item = (&'d [u8], &'d [u8])> + Clone {
        let text = self.text;
        let is_ours = |field: &&Field| matches!(field.kind, Kind::Plain | Kind::Te);
        self.fields.filter(is_ours).map(move |field| field.of(text))
    }
}

impl Field {
    fn of(self, text: &[u8]) -> (&[u8], &[u8]) {
        let [start, value, end] = [self.start, self.value, self.end].map(|at| at as usize);
        (&text[start..value], &text[value..end])
    }
}

impl<'d> Iterator for Fields<'d> {
    type Item = (&'d [u8], &'d [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.fields.next().map(|field| field.of(self.text))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}
