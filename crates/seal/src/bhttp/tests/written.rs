//! What is written: read again it is the same, in every framing and however it is cut; and what is refused leaves
//! the output as it was.

use super::*;

const LINE: RequestLine<'static> = RequestLine {
    method: b"POST",
    scheme: b"https",
    authority: b"a.test",
    path: b"/x?y",
};

/// A message of random parts.
pub(super) struct Made {
    pub is_request: bool,
    pub to_head: bool,
    pub status: u16,
    pub interims: Vec<(u16, Pairs)>,
    pub fields: Pairs,
    pub content_length: Option<u64>,
    pub length: Length,
    pub pieces: Vec<Vec<u8>>,
    pub trailers: Pairs,
}

fn random_pairs(random: &mut fastrand::Rng) -> Pairs {
    let names = [
        "a",
        "Content-Type",
        "x-LONG-name-that-goes-on",
        "cookie",
        "te",
        "0",
        "set-cookie",
    ];
    let mut pair = || {
        let name = names[random.usize(..names.len())];
        let length = random.usize(..20) * random.usize(..20);
        // The crate `bhttp` joins cookies: an empty one would leave whitespace at an end.
        let value = match name {
            "te" => "trailers".to_string(),
            "cookie" => "v;".repeat(length / 2 + 1),
            _ => "v;".repeat(length / 2),
        };
        (name.to_string(), value)
    };
    let count = 7;
    let mut pairs: Pairs = (0..count).map(|_| pair()).collect();
    pairs.truncate(random.usize(..=count));
    pairs
}

impl Made {
    pub(super) fn random(random: &mut fastrand::Rng) -> Made {
        let is_request = random.bool();
        let to_head = !is_request && random.u8(..5) == 0;
        let status = [200, 201, 204, 304, 404, 500, 599][random.usize(..7)];
        let must_be_empty = !is_request && (to_head || matches!(status, 204 | 304));
        let pieces: Vec<Vec<u8>> = (0..random.usize(..4))
            .map(|_| {
                vec![
                    random.u8(..);
                    if must_be_empty {
                        0
                    } else {
                        random.usize(..300)
                    }
                ]
            })
            .collect();
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let is_own = !must_be_empty || status == 204;
        let interims = (0..random.usize(..3))
            .map(|_| (103, random_pairs(random)))
            .collect();
        let mut trailers = random_pairs(random);
        trailers.retain(|(name, _)| name != "te");
        Made {
            is_request,
            to_head,
            status,
            interims: if is_request { vec![] } else { interims },
            fields: random_pairs(random),
            content_length: random
                .bool()
                .then(|| if is_own { bytes } else { random.u64(..1000) }),
            length: if random.bool() {
                Length::Whole(bytes)
            } else {
                Length::Stream
            },
            pieces,
            trailers,
        }
        .without_te_in_interims()
    }

    fn without_te_in_interims(mut self) -> Made {
        for (_, fields) in &mut self.interims {
            fields.retain(|(name, _)| name != "te");
        }
        self
    }

    pub(super) fn reading(&self) -> Reading {
        match (self.is_request, self.to_head) {
            (true, _) => Reading::Request,
            (false, true) => Reading::ResponseToHead,
            (false, false) => Reading::Response,
        }
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let limits = Limits::default();
        let mut encoder = if self.is_request {
            let fields = slices(&self.fields);
            Encoder::request(
                &mut out,
                &limits,
                &LINE,
                fields,
                self.content_length,
                self.length,
            )
            .unwrap()
        } else {
            let mut answering = Encoder::response(&mut out, &limits, self.length);
            for (status, fields) in &self.interims {
                answering
                    .interim(&mut out, *status, slices(fields))
                    .unwrap();
            }
            let fields = slices(&self.fields);
            answering
                .head(
                    &mut out,
                    self.status,
                    fields,
                    self.content_length,
                    self.to_head,
                )
                .unwrap()
        };
        for piece in &self.pieces {
            encoder.content(&mut out, piece).unwrap();
        }
        encoder.finish(&mut out, slices(&self.trailers)).unwrap();
        out
    }

    /// What reading it has to show.
    pub(super) fn seen(&self) -> Seen {
        let lower = |pairs: &Pairs| -> Pairs {
            pairs
                .iter()
                .map(|(name, value)| (name.to_lowercase(), value.clone()))
                .collect()
        };
        let mut fields = lower(&self.fields);
        fields.extend(
            self.content_length
                .map(|n| ("content-length".to_string(), n.to_string())),
        );
        let must_be_empty = !self.is_request && (self.to_head || matches!(self.status, 204 | 304));
        let line = [LINE.method, LINE.scheme, LINE.authority, LINE.path].map(text);
        Seen {
            interims: self
                .interims
                .iter()
                .map(|(status, fields)| (*status, lower(fields)))
                .collect(),
            line: self.is_request.then_some(line),
            status: (!self.is_request).then_some(self.status),
            fields,
            content_length: self.content_length,
            length: match self.length {
                Length::Whole(bytes) => Some(bytes),
                Length::Stream if must_be_empty => Some(0),
                Length::Stream => self.content_length,
            },
            content: self.pieces.concat(),
            trailers: lower(&self.trailers),
        }
    }
}

#[test]
fn what_is_written_is_read_in_any_pieces() {
    let mut decoder = Decoder::new(Limits::default(), Reading::Request);
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let made = Made::random(&mut random);
        let mut bytes = made.write();
        bytes.resize(bytes.len() + random.usize(..3) * 17, 0);
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.usize(1..=rest.len().min(200)));
            pieces.push(piece);
            rest = after;
        }
        decoder.begin(made.reading());
        let read = read(&mut decoder, pieces);
        assert_eq!(read, Ok(made.seen()), "seed {seed}");
    }
}

#[test]
fn sections_of_every_size_of_length() {
    let limits = Limits {
        head_bytes_max: 1 << 20,
        ..Limits::default()
    };
    for bytes in [
        0, 1, 60, 61, 62, 63, 64, 100, 16_300, 16_380, 16_381, 16_384, 70_000,
    ] {
        let value = "v".repeat(bytes);
        let mut out = b"before".to_vec();
        let fields = [(&b"A"[..], value.as_bytes())];
        let encoder = Encoder::request(&mut out, &limits, &LINE, fields, None, Length::Whole(0));
        encoder.unwrap().finish(&mut out, fields).unwrap();
        let mut decoder = Decoder::new(limits, Reading::Request);
        let seen = read(&mut decoder, [&out[6..]]).unwrap();
        assert_eq!(seen.fields, [("a".to_string(), value)]);
        assert_eq!(seen.trailers, seen.fields);
    }
}

#[test]
fn host_is_the_authority_and_stands_there_alone() {
    let mut out = Vec::new();
    let limits = Limits::default();
    let fields = [(&b"Host"[..], &b"a.test"[..]), (b"x", b"y")];
    let encoder = Encoder::request(&mut out, &limits, &LINE, fields, None, Length::Whole(0));
    encoder.unwrap().finish(&mut out, []).unwrap();
    assert_eq!(
        good(Reading::Request, &out).fields,
        [("x".to_string(), "y".to_string())]
    );
    // A field of that name in a response is a field like others.
    let mut out = Vec::new();
    let answering = Encoder::response(&mut out, &limits, Length::Whole(0));
    let encoder = answering.head(&mut out, 200, [(&b"Host"[..], &b"b"[..])], None, false);
    encoder.unwrap().finish(&mut out, []).unwrap();
    assert_eq!(good(Reading::Response, &out).fields.len(), 1);
}

fn refuse(fields: &[(&str, &str)], content_length: Option<u64>, length: Length, fault: Fault) {
    let mut out = b"before".to_vec();
    let limits = Limits {
        content_bytes_max: 100,
        ..Limits::default()
    };
    let fields = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
    let result = Encoder::request(&mut out, &limits, &LINE, fields, content_length, length);
    assert_eq!(result.map(drop), Err(fault));
    assert_eq!(out, b"before");
}

#[test]
fn what_would_be_refused_is_not_written() {
    let whole = Length::Whole(0);
    refuse(&[("a", "b"), ("", "x")], None, whole, Fault::FieldName);
    refuse(&[("a b", "x")], None, Length::Stream, Fault::FieldName);
    refuse(&[(":path", "x")], None, whole, Fault::FieldName);
    refuse(&[("a", "x\r\ny: z")], None, whole, Fault::FieldValue);
    refuse(&[("a", " x")], None, whole, Fault::FieldValue);
    refuse(
        &[("Connection", "close")],
        None,
        whole,
        Fault::ConnectionField,
    );
    refuse(
        &[("Transfer-Encoding", "chunked")],
        None,
        Length::Stream,
        Fault::ConnectionField,
    );
    refuse(&[("Upgrade", "h2c")], None, whole, Fault::Upgrade);
    refuse(&[("Host", "b.test")], None, whole, Fault::Host);
    refuse(
        &[("Host", "a.test"), ("Host", "a.test")],
        None,
        whole,
        Fault::Host,
    );
    refuse(
        &[("Content-Length", "0")],
        None,
        whole,
        Fault::ContentLength,
    );
    refuse(&[], Some(1), whole, Fault::ContentLength);
    refuse(&[], None, Length::Whole(101), Fault::ContentTooLong);
    refuse(&[], None, Length::Whole(u64::MAX), Fault::ContentTooLong);
    refuse(&[("a", ""); 101], None, whole, Fault::TooManyFields);
    let long = "x".repeat(40_000);
    refuse(&[("a", &long)], None, whole, Fault::HeadTooLarge);
    let mut out = Vec::new();
    let line = RequestLine {
        authority: b"",
        ..LINE
    };
    let result = Encoder::request(&mut out, &Limits::default(), &line, [], None, whole);
    assert_eq!((result.map(drop), out), (Err(Fault::Authority), vec![]));
}

#[test]
fn content_is_as_long_as_was_said() {
    let limits = Limits {
        content_bytes_max: 10,
        ..Limits::default()
    };
    for (said, length) in [(None, Length::Whole(5)), (Some(5), Length::Stream)] {
        let mut out = Vec::new();
        let mut encoder = Encoder::request(&mut out, &limits, &LINE, [], said, length).unwrap();
        encoder.content(&mut out, b"abc").unwrap();
        let before = out.len();
        assert_eq!(encoder.content(&mut out, b"def"), Err(Fault::ContentLength));
        assert_eq!(out.len(), before);
        assert_eq!(encoder.finish(&mut out, []), Err(Fault::ContentLength));
        assert_eq!(out.len(), before);
    }
    let mut out = Vec::new();
    let mut encoder = Encoder::request(&mut out, &limits, &LINE, [], None, Length::Stream).unwrap();
    encoder.content_head(&mut out, 10).unwrap();
    out.extend_from_slice(b"0123456789");
    assert_eq!(encoder.content(&mut out, b"x"), Err(Fault::ContentTooLong));
    assert_eq!(encoder.content(&mut out, b""), Ok(()));
    encoder.finish(&mut out, []).unwrap();
    assert_eq!(good(Reading::Request, &out).content, b"0123456789");
}

#[test]
fn responses_that_cannot_be() {
    let limits = Limits::default();
    let mut out = Vec::new();
    for status in [0, 100, 101, 199, 600, 999] {
        let answering = Encoder::response(&mut out, &limits, Length::Stream);
        let head = answering.head(&mut out, status, [], None, false);
        assert_eq!(head.map(drop), Err(Fault::Status));
    }
    let mut answering = Encoder::response(&mut out, &limits, Length::Stream);
    assert_eq!(answering.interim(&mut out, 101, []), Err(Fault::Switching));
    assert_eq!(answering.interim(&mut out, 200, []), Err(Fault::Status));
    for _ in 0..INTERIM_MAX {
        answering.interim(&mut out, 103, []).unwrap();
    }
    assert_eq!(
        answering.interim(&mut out, 103, []),
        Err(Fault::TooManyInterim)
    );
    for (status, to_head) in [(204, false), (304, false), (200, true)] {
        let answering = Encoder::response(&mut out, &limits, Length::Whole(1));
        let head = answering.head(&mut out, status, [], None, to_head);
        assert_eq!(head.map(drop), Err(Fault::ContentUnasked));
        let answering = Encoder::response(&mut out, &limits, Length::Stream);
        let mut encoder = answering.head(&mut out, status, [], None, to_head).unwrap();
        assert_eq!(encoder.content(&mut out, b"x"), Err(Fault::ContentUnasked));
    }
}

#[test]
fn targets() {
    let line = |method: &'static str, target: &'static str, host: Option<&'static str>| {
        let host = host.map(str::as_bytes);
        let line = request_line(method.as_bytes(), target.as_bytes(), host, Scheme::Https)?;
        Ok([line.method, line.scheme, line.authority, line.path]
            .map(text)
            .join(" "))
    };
    let host = Some("a.test");
    for (method, target, host, expected) in [
        ("GET", "/x?y", host, Ok("GET https a.test /x?y")),
        ("GET", "//x", host, Ok("GET https a.test //x")),
        ("OPTIONS", "*", host, Ok("OPTIONS https a.test *")),
        ("GET", "http://b.test/x", host, Ok("GET http b.test /x")),
        ("GET", "HTTPS://b.test", None, Ok("GET https b.test /")),
        (
            "OPTIONS",
            "http://b.test",
            host,
            Ok("OPTIONS http b.test *"),
        ),
        ("GET", "http://b.test?x", host, Err(Fault::Path)),
        ("GET", "http://u@b.test/", host, Err(Fault::Authority)),
        ("GET", "http:///x", host, Err(Fault::Authority)),
        ("GET", "ftp://b.test/", host, Err(Fault::Path)),
        ("GET", "*", host, Err(Fault::Path)),
        ("GET", "", host, Err(Fault::Path)),
        ("GET", "/", None, Err(Fault::Authority)),
        ("GET", "/", Some(""), Err(Fault::Authority)),
        ("GET", "/#x", host, Err(Fault::Path)),
        ("CONNECT", "b.test:443", host, Err(Fault::Connect)),
        ("", "/", host, Err(Fault::Method)),
    ] {
        assert_eq!(
            line(method, target, host),
            expected.map(str::to_string),
            "{method} {target}"
        );
    }
}
