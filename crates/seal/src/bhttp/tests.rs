//! Tests of Binary HTTP: one way to read a message, used by all of them, and what holds for every message.

mod examples;
mod others;
mod refused;
mod written;

use super::*;

pub(super) type Pairs = Vec<(String, String)>;

/// All that a decoder says of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub interims: Vec<(u16, Pairs)>,
    /// Method, scheme, authority and path.
    pub line: Option<[String; 4]>,
    pub status: Option<u16>,
    pub fields: Pairs,
    pub content_length: Option<u64>,
    pub length: Option<u64>,
    pub content: Vec<u8>,
    pub trailers: Pairs,
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pairs<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Pairs {
    fields
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

pub(super) fn slices(pairs: &Pairs) -> impl Iterator<Item = (&[u8], &[u8])> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

/// Reads a message that comes in these pieces.
pub(super) fn read<'p>(
    decoder: &mut Decoder,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Seen, Fault> {
    let mut seen = Seen::default();
    for mut piece in pieces {
        loop {
            match decoder.read(&mut piece)? {
                Event::More => break,
                Event::Interim => {
                    let status = decoder.status().expect("an interim has a status");
                    seen.interims.push((status, pairs(decoder.fields())));
                }
                Event::Head => {
                    let line = decoder.request();
                    seen.line = line.map(|l| [l.method, l.scheme, l.authority, l.path].map(text));
                    seen.status = decoder.status();
                    seen.fields = pairs(decoder.fields());
                    seen.content_length = decoder.content_length();
                    seen.length = decoder.length();
                }
                Event::Content(bytes) => {
                    assert!(!bytes.is_empty());
                    seen.content.extend_from_slice(bytes);
                }
                Event::Done => {
                    seen.trailers = pairs(decoder.trailers());
                    // The head is still there.
                    assert_eq!(seen.fields, pairs(decoder.fields()));
                }
            }
        }
        assert!(piece.is_empty(), "More means that the input is used up");
    }
    decoder.end()?;
    Ok(seen)
}

pub(super) fn whole(reading: Reading, bytes: &[u8]) -> Result<Seen, Fault> {
    read(&mut Decoder::new(Limits::default(), reading), [bytes])
}

/// Reads a message in one piece, byte by byte, and cut at every place: it is always the same.
pub(super) fn check(reading: Reading, bytes: &[u8]) -> Result<Seen, Fault> {
    let seen = whole(reading, bytes);
    let mut decoder = Decoder::new(Limits::default(), reading);
    assert_eq!(seen, read(&mut decoder, bytes.chunks(1)), "byte by byte");
    for at in 0..=bytes.len() {
        // The same decoder, so that nothing may be left of the message before.
        decoder.begin(reading);
        let (a, b) = bytes.split_at(at);
        assert_eq!(seen, read(&mut decoder, [a, b]), "cut at {at}");
    }
    seen
}

/// A message that is good, and of which no part is.
pub(super) fn good(reading: Reading, bytes: &[u8]) -> Seen {
    let seen = check(reading, bytes).unwrap();
    let padded = [bytes, &[0; 100]].concat();
    assert_eq!(check(reading, &padded), Ok(seen.clone()), "padded");
    for at in 0..bytes.len() {
        let cut = whole(reading, &bytes[..at]);
        assert_eq!(cut, Err(Fault::Truncated), "cut off at {at}");
    }
    for at in 0..100 {
        let mut bad = padded.clone();
        bad[bytes.len() + at] = 1;
        assert_eq!(whole(reading, &bad), Err(Fault::Padding));
    }
    seen
}

/// The parts of a message, put behind each other; a text stands behind its length.
macro_rules! message {
    ($($part:expr),* $(,)?) => {{
        let mut out: Vec<u8> = Vec::new();
        $($crate::bhttp::tests::Part::put($part, &mut out);)*
        out
    }};
}

use message;

pub(super) trait Part {
    fn put(self, out: &mut Vec<u8>);
}

impl Part for u64 {
    fn put(self, out: &mut Vec<u8>) {
        integer::write(out, self);
    }
}

impl Part for &str {
    fn put(self, out: &mut Vec<u8>) {
        integer::write(out, self.len() as u64);
        out.extend_from_slice(self.as_bytes());
    }
}

impl<const N: usize> Part for &[u8; N] {
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}
