//! Binary HTTP, beside the crate `bhttp` where both have an opinion; and targets of HTTP/1.1.
//!
//! What ours reads, theirs must read, to the same parts; what either writes, the other must read. What theirs reads
//! and ours refuses is one of these deliberate differences, and never a disagreement about where a part ends:
//!
//! - a message may not leave out its empty end (RFC 9292 §3.8 lets it), and what follows it must be zeros;
//! - limits of bytes, fields and informational responses; the kind of message must be the one expected;
//! - names are tokens in lower case, values have no control characters and no whitespace around them;
//! - no field of one connection, no CONNECT, no Upgrade, no 101; Host is the authority, which is never empty;
//! - method, scheme, authority and path are what HTTP/1.1 can say;
//! - content is as long as Content-Length says, and is empty where none may be;
//! - theirs joins several `cookie` fields into one; ours leaves them as they are.

use std::io::Cursor;

use bhttp::{Message, Mode};
use seal::bhttp::{
    Decoder, Encoder, Event, Fault, Length, Limits, Reading, RequestLine, Scheme, request_line,
};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    interims: Vec<(u16, Pairs)>,
    line: Option<[Vec<u8>; 4]>,
    status: Option<u16>,
    fields: Pairs,
    passed_on: Pairs,
    content_length: Option<u64>,
    content: Vec<u8>,
    trailers: Pairs,
}

fn owned<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Pairs {
    fields
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

fn slices(fields: &Pairs) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (&name[..], &value[..]))
}

/// Reads a message in pieces of this many bytes.
fn ours(reading: Reading, bytes: &[u8], piece_bytes: usize) -> Result<Seen, Fault> {
    let mut decoder = Decoder::new(Limits::default(), reading);
    let mut seen = Seen::default();
    for mut piece in bytes.chunks(piece_bytes.max(1)) {
        loop {
            match decoder.read(&mut piece)? {
                Event::More => break,
                Event::Interim => {
                    let status = decoder.status().expect("an interim has a status");
                    seen.interims.push((status, owned(decoder.fields())));
                }
                Event::Head => {
                    let line = decoder.request();
                    seen.line =
                        line.map(|l| [l.method, l.scheme, l.authority, l.path].map(<[u8]>::to_vec));
                    seen.status = decoder.status();
                    seen.fields = owned(decoder.fields());
                    seen.passed_on = owned(decoder.fields().passed_on());
                    seen.content_length = decoder.content_length();
                }
                Event::Content(content) => seen.content.extend_from_slice(content),
                Event::Done => seen.trailers = owned(decoder.trailers()),
            }
        }
    }
    decoder.end()?;
    Ok(seen)
}

fn theirs(bytes: &[u8]) -> Option<Message> {
    Message::read_bhttp(&mut Cursor::new(bytes)).ok()
}

fn their_fields(fields: &bhttp::FieldSection) -> Pairs {
    fields
        .iter()
        .map(|field| (field.name().to_vec(), field.value().to_vec()))
        .collect()
}

/// Cookies come from them as one field.
fn with_one_cookie(fields: &Pairs) -> Pairs {
    let mut joined = Pairs::new();
    for (name, value) in fields {
        let known = joined.iter().position(|(known, _)| known == b"cookie");
        match known.filter(|_| name == b"cookie") {
            Some(at) => {
                joined[at].1.extend_from_slice(b"; ");
                joined[at].1.extend_from_slice(value);
            }
            None => joined.push((name.clone(), value.clone())),
        }
    }
    joined
}

fn same(ours: &Seen, theirs: &Message) {
    let control = theirs.control();
    assert_eq!(control.status().map(|status| status.code()), ours.status);
    if let Some([method, scheme, authority, path]) = &ours.line {
        let theirs = [
            control.method(),
            control.scheme(),
            control.authority(),
            control.path(),
        ];
        assert_eq!(
            theirs.map(Option::unwrap_or_default),
            [method, scheme, authority, path].map(|v| &v[..])
        );
    }
    assert_eq!(theirs.informational().len(), ours.interims.len());
    for (theirs, (status, fields)) in theirs.informational().iter().zip(&ours.interims) {
        assert_eq!(
            (theirs.status().code(), their_fields(theirs.fields())),
            (*status, with_one_cookie(fields))
        );
    }
    assert_eq!(their_fields(theirs.header()), with_one_cookie(&ours.fields));
    assert_eq!(
        their_fields(theirs.trailer()),
        with_one_cookie(&ours.trailers)
    );
    assert_eq!(theirs.content(), ours.content);
}

/// Writes what was read. Whatever we read, we can write.
fn write(reading: Reading, seen: &Seen, length: Length) -> Vec<u8> {
    let (mut out, limits) = (Vec::new(), Limits::default());
    let fields = slices(&seen.passed_on);
    let mut encoder = match &seen.line {
        Some([method, scheme, authority, path]) => {
            let line = RequestLine {
                method,
                scheme,
                authority,
                path,
            };
            Encoder::request(
                &mut out,
                &limits,
                &line,
                fields,
                seen.content_length,
                length,
            )
        }
        None => {
            let mut answering = Encoder::response(&mut out, &limits, length);
            for (status, fields) in &seen.interims {
                answering
                    .interim(&mut out, *status, slices(fields))
                    .expect("it was read");
            }
            let status = seen.status.expect("a response has a status");
            let to_head = reading == Reading::ResponseToHead;
            answering.head(&mut out, status, fields, seen.content_length, to_head)
        }
    }
    .expect("it was read");
    for piece in seen.content.chunks(100) {
        encoder.content(&mut out, piece).expect("it was read");
    }
    encoder
        .finish(&mut out, slices(&seen.trailers))
        .expect("it was read");
    out
}

/// The parts that a message has after it was written: Host is the authority, Content-Length the last of the fields.
fn written(seen: &Seen) -> Pairs {
    let mut fields = seen.passed_on.clone();
    let digits = seen
        .content_length
        .map(|bytes| bytes.to_string().into_bytes());
    fields.extend(digits.map(|digits| (b"content-length".to_vec(), digits)));
    fields
}

/// A message of any kind. The first byte says which, and how it is cut.
pub fn seal_bhttp(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else {
        return;
    };
    let reading =
        [Reading::Request, Reading::Response, Reading::ResponseToHead][usize::from(first % 3)];
    let result = ours(reading, bytes, usize::MAX);
    assert_eq!(
        result,
        ours(reading, bytes, usize::from(first / 3)),
        "it depends on how it is cut"
    );
    let message = theirs(bytes);
    let seen = match result {
        Ok(seen) => seen,
        Err(fault) => {
            let is_form = matches!(fault, Fault::Section | Fault::Misuse);
            assert!(
                message.is_none() || !is_form,
                "they read it; for us: {fault}"
            );
            return;
        }
    };
    let message = message.expect("what we read, they read");
    same(&seen, &message);

    for length in [Length::Whole(seen.content.len() as u64), Length::Stream] {
        let out = write(reading, &seen, length);
        let again = ours(reading, &out, 7).expect("what we write, we read");
        assert_eq!(again.fields, written(&seen));
        assert_eq!(
            (&again.content, &again.trailers),
            (&seen.content, &seen.trailers)
        );
        assert_eq!((&again.line, again.status), (&seen.line, seen.status));
        assert_eq!(again.interims, seen.interims);
        same(&again, &theirs(&out).expect("what we write, they read"));
    }
    // A cookie that is empty leaves whitespace where theirs joins it to others.
    let has_edge = |field: &bhttp::Field| field.value().trim_ascii() != field.value();
    let sections = [message.header() as &bhttp::FieldSection, message.trailer()];
    let interims = message
        .informational()
        .iter()
        .map(|interim| interim.fields());
    if sections
        .into_iter()
        .chain(interims)
        .any(|section| section.iter().any(has_edge))
    {
        return;
    }
    for mode in [Mode::KnownLength, Mode::IndeterminateLength] {
        let mut out = Vec::new();
        message.write_bhttp(mode, &mut out).expect("they read it");
        same(
            &ours(reading, &out, 11).expect("what they write, we read"),
            &message,
        );
    }
}

/// Method, target and Host of an HTTP/1.1 request, with line ends between them: what is made of them can be written
/// and read.
pub fn seal_target(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let (method, target) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let Ok(line) = request_line(method, target, parts.next(), Scheme::Https) else {
        return;
    };
    let mut out = Vec::new();
    let limits = Limits::default();
    let encoder = Encoder::request(&mut out, &limits, &line, [], None, Length::Whole(0));
    encoder
        .expect("it was checked")
        .finish(&mut out, [])
        .expect("no trailers");
    let seen = ours(Reading::Request, &out, 3).expect("what we write, we read");
    let parts = [line.method, line.scheme, line.authority, line.path].map(<[u8]>::to_vec);
    for part in &parts {
        assert!(
            !part.iter().any(|byte| matches!(byte, 0..=b' ' | 0x7f)),
            "it would split an HTTP/1.1 head"
        );
    }
    assert_eq!(seen.line, Some(parts));
}
