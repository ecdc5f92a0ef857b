//! Messages that are refused, each for one reason, however they are cut.

use super::*;

fn refused(reading: Reading, bytes: &[u8], fault: Fault) {
    assert_eq!(check(reading, bytes), Err(fault), "{:?}", text(bytes));
}

/// A request in both framings with these fields; the known lengths of sections are found here.
fn requests(fields: &[(&str, &str)]) -> [Vec<u8>; 2] {
    let section: Vec<u8> = fields.iter().flat_map(|(n, v)| message![*n, *v]).collect();
    let head = |framing: u64| message![framing, "POST", "https", "a.test", "/"];
    let known = [
        head(0),
        message![section.len() as u64],
        section.clone(),
        message![2, b"hi", 0],
    ];
    let stream = [head(2), section, message![0, "hi", 0, 0]];
    [known.concat(), stream.concat()]
}

fn with_fields(fields: &[(&str, &str)], expected: Result<(), Fault>) {
    for bytes in requests(fields) {
        assert_eq!(
            check(Reading::Request, &bytes).map(drop),
            expected,
            "{fields:?}"
        );
    }
}

#[test]
fn framing_of_another_kind() {
    for framing in [1, 3, 4, 5, 63, 64, 1 << 61] {
        refused(Reading::Request, &message![framing], Fault::Framing);
    }
    for framing in [0, 2, 4, 64] {
        refused(Reading::Response, &message![framing], Fault::Framing);
        refused(Reading::ResponseToHead, &message![framing], Fault::Framing);
    }
    // Any spelling of the integer is the integer (RFC 9000 §16).
    let long = message![
        &[0x40, 0],
        "GET",
        "https",
        "a.test",
        "/",
        &[0x80, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0]
    ];
    good(Reading::Request, &long);
}

#[test]
fn control_data() {
    let cases = [
        ("", "https", "a.test", "/", Fault::Method),
        ("GE T", "https", "a.test", "/", Fault::Method),
        ("GET\r\n", "https", "a.test", "/", Fault::Method),
        ("CONNECT", "https", "a.test:443", "", Fault::Connect),
        ("GET", "", "a.test", "/", Fault::Scheme),
        ("GET", "HTTPS", "a.test", "/", Fault::Scheme),
        ("GET", "ftp", "a.test", "/", Fault::Scheme),
        ("GET", "https", "", "/", Fault::Authority),
        ("GET", "https", ":80", "/", Fault::Authority),
        ("GET", "https", "a.test:x", "/", Fault::Authority),
        ("GET", "https", "a.test:1:2", "/", Fault::Authority),
        ("GET", "https", "user@a.test", "/", Fault::Authority),
        ("GET", "https", "a test", "/", Fault::Authority),
        ("GET", "https", "a.test/", "/", Fault::Authority),
        ("GET", "https", "a.test\r\nx: y", "/", Fault::Authority),
        ("GET", "https", "ä.test", "/", Fault::Authority),
        ("GET", "https", "[]", "/", Fault::Authority),
        ("GET", "https", "[::1", "/", Fault::Authority),
        ("GET", "https", "::1", "/", Fault::Authority),
        ("GET", "https", "a.test", "", Fault::Path),
        ("GET", "https", "a.test", "x", Fault::Path),
        ("GET", "https", "a.test", "*", Fault::Path),
        ("OPTIONS", "https", "a.test", "**", Fault::Path),
        ("GET", "https", "a.test", "http://a.test/", Fault::Path),
        ("GET", "https", "a.test", "/ HTTP/1.1\r\n", Fault::Path),
        ("GET", "https", "a.test", "/a b", Fault::Path),
        ("GET", "https", "a.test", "/a\0", Fault::Path),
        ("GET", "https", "a.test", "/a\x7f", Fault::Path),
        ("GET", "https", "a.test", "/a#b", Fault::Path),
    ];
    for (method, scheme, authority, path, fault) in cases {
        for framing in [0, 2] {
            let bytes = message![framing, method, scheme, authority, path, 0, 0, 0];
            refused(Reading::Request, &bytes, fault);
        }
    }
    for (method, authority, path) in [
        ("OPTIONS", "a.test", "*"),
        ("get", "a.test:", "/"),
        ("M-SEARCH", "[::1]:8080", "/?a=b#".trim_end_matches('#')),
        ("GET", "[fe80::1%25eth0]", "/%00//../ä\"<>"),
        ("GET", "a_b.test:65536", "/"),
    ] {
        good(
            Reading::Request,
            &message![0, method, "http", authority, path, 0, 0, 0],
        );
    }
}

#[test]
fn names_and_values() {
    for name in [
        "A",
        "Content-Type",
        "a b",
        "a:",
        ":",
        ":path",
        ":status",
        "a\r",
        "a\n",
        "a\0",
        "ä",
        "a\x7f",
        " a",
        "a(",
        "a,",
    ] {
        with_fields(&[(name, "x")], Err(Fault::FieldName));
    }
    for value in [
        "\r", "a\rb", "a\nb", "a\r\n b", "a\0", "\x01", "\x0b", "\x0c", "\x1f", "\x7f", " a", "a ",
        "\ta", "a\t", " ",
    ] {
        with_fields(&[("a", value)], Err(Fault::FieldValue));
    }
    for value in ["", "a", "a b\tc", "ä", "\"(),/:;<=>?@[\\]{}"] {
        with_fields(&[("!#$%&'*+-.^_`|~09az", value)], Ok(()));
    }
}

#[test]
fn fields_of_one_connection() {
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
    ] {
        for value in ["", "close", "chunked", "identity"] {
            with_fields(&[(name, value)], Err(Fault::ConnectionField));
        }
    }
    with_fields(&[("te", "trailers")], Ok(()));
    for value in ["", "gzip", "trailers, gzip", "trailers;q=1"] {
        with_fields(&[("te", value)], Err(Fault::ConnectionField));
    }
    with_fields(&[("upgrade", "websocket")], Err(Fault::Upgrade));
    assert!(Fault::Upgrade.status() == 501 && Fault::Connect.status() == 501);
    assert!(
        Fault::ALL
            .iter()
            .all(|fault| (400..=502).contains(&fault.status()) || *fault == Fault::Misuse)
    );
}

#[test]
fn host_and_length() {
    with_fields(&[("host", "a.test")], Ok(()));
    for host in ["b.test", "A.test", "a.test:443", "", "a.test, a.test"] {
        with_fields(&[("host", host)], Err(Fault::Host));
    }
    with_fields(&[("host", "a.test"), ("host", "a.test")], Err(Fault::Host));
    with_fields(&[("content-length", "2")], Ok(()));
    with_fields(&[("content-length", "0000000000000000002")], Ok(()));
    for length in [
        "",
        "1",
        "3",
        "0",
        "+2",
        "-2",
        "2 2",
        "2,2",
        "2, 2",
        "0x2",
        "２",
        "00000000000000000002",
    ] {
        with_fields(&[("content-length", length)], Err(Fault::ContentLength));
    }
    for huge in [
        "4611686018427387904",
        "9999999999999999999",
        "18446744073709551618",
    ] {
        with_fields(&[("content-length", huge)], Err(Fault::ContentLength));
    }
    with_fields(
        &[("content-length", "2"), ("content-length", "2")],
        Err(Fault::ContentLength),
    );
}

#[test]
fn sections_that_lie_about_their_length() {
    let head = message![0, "GET", "http", "a", "/"];
    let good_section = message!["ab", "cd"];
    for length in 1..good_section.len() as u64 {
        let bytes = [&head[..], &message![length], &good_section, &[0; 8]].concat();
        refused(Reading::Request, &bytes, Fault::Section);
    }
    // One byte too many is read as the next name.
    let bytes = [&head[..], &message![7], &good_section, &[0; 8]].concat();
    refused(Reading::Request, &bytes, Fault::FieldName);
    // The length of a string that stands astride the end of its section.
    let bytes = [&head[..], &message![1, &[0x40]], &[1; 8]].concat();
    refused(Reading::Request, &bytes, Fault::Section);
    let huge = [&head[..], &message![1 << 61]].concat();
    refused(Reading::Request, &huge, Fault::HeadTooLarge);
}

#[test]
fn trailers() {
    for (name, fault) in [
        ("host", Fault::TrailerField),
        ("content-length", Fault::TrailerField),
        ("transfer-encoding", Fault::ConnectionField),
        ("connection", Fault::ConnectionField),
        ("te", Fault::ConnectionField),
        ("upgrade", Fault::ConnectionField),
        (":status", Fault::FieldName),
        ("Check", Fault::FieldName),
    ] {
        let section = message![name, "trailers"];
        let known = [
            message![1, 200, 0, 0, section.len() as u64],
            section.clone(),
        ]
        .concat();
        refused(Reading::Response, &known, fault);
        let stream = [message![3, 200, 0, 0], section, message![0]].concat();
        refused(Reading::Response, &stream, fault);
    }
}

#[test]
fn statuses() {
    for status in [0, 1, 99, 600, 999, 65_536 + 200, 1 << 61] {
        refused(
            Reading::Response,
            &message![1, status, 0, 0, 0],
            Fault::Status,
        );
    }
    refused(
        Reading::Response,
        &message![3, 101, 0, 200, 0, 0, 0],
        Fault::Switching,
    );
    for framing in [1, 3] {
        let interims = |count| {
            [
                message![framing],
                message![103, 0].repeat(count),
                message![200, 0, 0, 0],
            ]
            .concat()
        };
        assert_eq!(good(Reading::Response, &interims(8)).interims.len(), 8);
        refused(Reading::Response, &interims(9), Fault::TooManyInterim);
    }
    let length = message![3, 103, "content-length", "0", 0, 200, 0, 0, 0];
    refused(Reading::Response, &length, Fault::ContentLength);
}

#[test]
fn content_that_nobody_asked_for() {
    for (reading, status) in [
        (Reading::ResponseToHead, 200),
        (Reading::ResponseToHead, 404),
        (Reading::Response, 204),
        (Reading::Response, 304),
    ] {
        refused(
            reading,
            &message![1, status, 0, "x", 0],
            Fault::ContentUnasked,
        );
        refused(
            reading,
            &message![3, status, 0, "x", 0, 0],
            Fault::ContentUnasked,
        );
        let said = message!["content-length", "5"];
        let known = [
            message![1, status, said.len() as u64],
            said.clone(),
            message![0, 0],
        ]
        .concat();
        let stream = [message![3, status], said, message![0, 0, 0]].concat();
        if status == 204 {
            refused(reading, &known, Fault::ContentLength);
            refused(reading, &stream, Fault::ContentLength);
        } else {
            let seen = good(reading, &known);
            assert_eq!((seen.content_length, seen.length), (Some(5), Some(0)));
            assert_eq!(good(reading, &stream), seen);
        }
    }
}

#[test]
fn content_that_is_not_as_long_as_it_says() {
    let head = |framing: u64| message![framing, "PUT", "http", "a", "/"];
    let said = message!["content-length", "5"];
    let stream = |pieces: &[&str]| {
        let pieces: Vec<u8> = pieces.iter().flat_map(|piece| message![*piece]).collect();
        [head(2), said.clone(), message![0], pieces, message![0, 0]].concat()
    };
    for pieces in [&["abc", "de"][..], &["abcde"], &["a", "b", "c", "d", "e"]] {
        assert_eq!(good(Reading::Request, &stream(pieces)).content, b"abcde");
    }
    for pieces in [&[][..], &["abcd"], &["abc", "def"], &["abcdef"]] {
        refused(Reading::Request, &stream(pieces), Fault::ContentLength);
    }
    // The piece that goes too far is refused by its length: none of it is let through.
    let bytes = stream(&["abc", "def"]);
    let mut decoder = Decoder::new(Limits::default(), Reading::Request);
    let (mut input, mut content) = (&bytes[..], Vec::new());
    let fault = loop {
        match decoder.read(&mut input) {
            Ok(Event::Content(piece)) => content.extend_from_slice(piece),
            Ok(_) => {}
            Err(fault) => break fault,
        }
    };
    assert_eq!((fault, &content[..]), (Fault::ContentLength, &b"abc"[..]));
    // And it stays refused.
    assert_eq!(decoder.read(&mut &b"x"[..]), Err(Fault::ContentLength));
    assert_eq!(decoder.end(), Err(Fault::ContentLength));
}

#[test]
fn limits() {
    let limits = Limits {
        head_bytes_max: 64,
        fields_max: 3,
        content_bytes_max: 10,
    };
    let read = |bytes: &[u8]| {
        let mut decoder = Decoder::new(limits, Reading::Request);
        let whole = super::read(&mut decoder, [bytes]).map(drop);
        decoder.begin(Reading::Request);
        assert_eq!(whole, super::read(&mut decoder, bytes.chunks(1)).map(drop));
        whole
    };
    for framing in [0, 2] {
        let line = message![framing, "GET", "http", "a", "/"];
        let request = |section: Vec<u8>, rest: Vec<u8>| {
            let open = if framing == 0 {
                message![section.len() as u64]
            } else {
                vec![]
            };
            let close = if framing == 0 { vec![] } else { message![0] };
            [line.clone(), open, section, close, rest].concat()
        };
        let empty = message![0, 0];
        // The line has 9 bytes, the name 1.
        assert_eq!(
            read(&request(
                message!["a", "b".repeat(54).as_str()],
                empty.clone()
            )),
            Ok(())
        );
        let long = request(message!["a", "b".repeat(55).as_str()], empty.clone());
        assert_eq!(read(&long), Err(Fault::HeadTooLarge));
        assert_eq!(
            read(&request(message!["a", ""].repeat(3), empty.clone())),
            Ok(())
        );
        let many = request(message!["a", ""].repeat(4), empty.clone());
        assert_eq!(read(&many), Err(Fault::TooManyFields));

        let content = |pieces: &[&str]| -> Vec<u8> {
            let mut out: Vec<u8> = pieces.iter().flat_map(|piece| message![*piece]).collect();
            out.resize(out.len() + if framing == 0 { 1 } else { 2 }, 0);
            out
        };
        assert_eq!(read(&request(vec![], content(&["0123456789"]))), Ok(()));
        let long = request(vec![], content(&["01234567890"]));
        assert_eq!(read(&long), Err(Fault::ContentTooLong));
        if framing == 2 {
            let long = request(vec![], content(&["0123456789", "0"]));
            assert_eq!(read(&long), Err(Fault::ContentTooLong));
        }
        // Trailers have the same room again.
        let trailer = message!["a", "b".repeat(63).as_str()];
        let open = if framing == 0 {
            message![trailer.len() as u64]
        } else {
            vec![]
        };
        let close = if framing == 0 { vec![] } else { message![0] };
        let trailing = |t: Vec<u8>| {
            request(
                vec![],
                [message![0], open.clone(), t, close.clone()].concat(),
            )
        };
        assert_eq!(read(&trailing(trailer.clone())), Ok(()));
        let line = message![
            framing,
            "GET",
            "http",
            "a",
            format!("/{}", "x".repeat(56)).as_str()
        ];
        assert_eq!(read(&line), Err(Fault::HeadTooLarge));
    }
    // A length is refused before a byte of what it promises has come.
    for bytes in [
        message![0, 1 << 40],
        message![0, "GET", "http", "a", "/", 0, 11],
    ] {
        let mut decoder = Decoder::new(limits, Reading::Request);
        let mut input = &bytes[..];
        let fault = loop {
            match decoder.read(&mut input) {
                Ok(Event::More) => panic!("it waits for more"),
                Ok(_) => {}
                Err(fault) => break fault,
            }
        };
        assert!(matches!(fault, Fault::HeadTooLarge | Fault::ContentTooLong));
    }
}
