//! The fields of a head, as ranges of the buffer that it was read into.
//!
//! Nothing is copied and nothing is allocated for a request: the list is reused. Names keep the
//! case that they came with and are compared without it.

/// What a field is for, as far as the engine has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// For whoever is at the end: it is passed on.
    Plain,
    /// Host: passed on by other means.
    Host,
    /// Content-Length.
    Length,
    /// Transfer-Encoding.
    Coding,
    /// Connection.
    Connection,
    /// Expect.
    Expect,
    /// Another field for this connection alone (RFC 9110 §7.6.1), or one that Connection lists.
    Hop,
}

impl FieldKind {
    /// The kind of a field of this name, without what Connection says of it.
    pub fn of(name: &[u8]) -> FieldKind {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            2 if is(b"te") => FieldKind::Hop,
            4 if is(b"host") => FieldKind::Host,
            6 if is(b"expect") => FieldKind::Expect,
            7 if is(b"upgrade") => FieldKind::Hop,
            10 if is(b"connection") => FieldKind::Connection,
            10 if is(b"keep-alive") => FieldKind::Hop,
            14 if is(b"content-length") => FieldKind::Length,
            16 if is(b"proxy-connection") => FieldKind::Hop,
            17 if is(b"transfer-encoding") => FieldKind::Coding,
            _ => FieldKind::Plain,
        }
    }
}

/// A range of the buffer. Buffers are far smaller than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Where `part` is in the buffer, given that it is a slice of `whole`, which begins at `base`
    /// there.
    pub(super) fn of(part: &[u8], whole: &[u8], base: usize) -> Span {
        let start = base + (part.as_ptr() as usize - whole.as_ptr() as usize);
        debug_assert!(start + part.len() <= base + whole.len());
        Span {
            start: start as u32,
            end: (start + part.len()) as u32,
        }
    }

    /// The same place, counted from `base` of the buffer.
    pub(super) fn back(self, base: usize) -> Span {
        Span {
            start: self.start - base as u32,
            end: self.end - base as u32,
        }
    }

    pub(super) fn in_(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// One field, by its place in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldSpans {
    pub(super) name: Span,
    pub(super) value: Span,
    pub(super) kind: FieldKind,
}

/// One field of a head or of trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// A token, in the case that it came with.
    pub name: &'a [u8],
    /// Without whitespace around it, and without CR, LF and NUL; not always UTF-8.
    pub value: &'a [u8],
    pub kind: FieldKind,
}

/// The fields of a head or of trailers, in the order that they came in.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    places: &'a [FieldSpans],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], places: &'a [FieldSpans]) -> Fields<'a> {
        Fields { bytes, places }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let bytes = self.bytes;
        self.places.iter().map(move |place| Field {
            name: place.name.in_(bytes),
            value: place.value.in_(bytes),
            kind: place.kind,
        })
    }

    /// Those for whoever is at the end: not Host, not the framing, not what is for this connection
    /// alone.
    pub fn passed_on(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.iter()
            .filter(|field| field.kind == FieldKind::Plain)
            .map(|field| (field.name, field.value))
    }

    /// The values of all fields of this name; the case does not matter.
    pub fn all<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.all(name).next()
    }
}

/// Whether these bytes are a token (RFC 9110 §5.6.2).
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| TOKEN[usize::from(*byte)])
}

/// Whether these bytes can be a field's value: no control characters but the tab (RFC 9110 §5.5).
pub(super) fn is_value(bytes: &[u8]) -> bool {
    // Without an early end, so that the compiler can look at many bytes at once.
    !bytes.iter().fold(false, |bad, byte| {
        bad | ((*byte < 0x20) & (*byte != b'\t')) | (*byte == 0x7f)
    })
}

/// The comma-separated elements of a list, without whitespace around them; empty ones are left out.
pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\''
            | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};
