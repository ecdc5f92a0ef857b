use super::*;

/// Remembers what it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Heard {
    wants_fields: bool,
    status: u16,
    fields: usize,
    body: Vec<u8>,
}

impl Listener for Heard {
    fn wants_fields(&self) -> bool {
        self.wants_fields
    }

    fn head(&mut self, status: u16, fields: &[Header<'_>]) {
        (self.status, self.fields) = (status, fields.len());
    }

    fn body(&mut self, piece: &[u8]) {
        self.body.extend_from_slice(piece);
    }
}

/// What one answer was: status, body, whether it is complete, and whether the connection can go on.
type Read = Result<(u16, Vec<u8>, bool, bool), Wrong>;

fn read(bytes: &[u8], pieces: &[usize], to_head: bool, remembered: &mut Remembered) -> Read {
    let (mut reader, mut heard) = (Reader::default(), Heard::default());
    reader.begin(to_head);
    let (mut from, mut done) = (0, false);
    let ends = pieces.iter().copied().chain([bytes.len()]);
    for end in ends {
        if done {
            break;
        }
        let fed = reader.feed(&bytes[from..end], remembered, &mut heard)?;
        assert!(fed.used <= end - from && (fed.done || fed.used == end - from));
        (from, done) = (end, fed.done);
    }
    let complete = done || reader.ends_by_close();
    Ok((
        heard.status,
        heard.body,
        complete,
        reader.keeps_connection(),
    ))
}

/// Reads it whole, in two pieces cut anywhere, byte by byte, and with its head known: the same each time.
fn check(answer: &str, to_head: bool) -> Read {
    let bytes = answer.as_bytes();
    let whole = read(bytes, &[], to_head, &mut Remembered::default());
    for cut in 0..bytes.len() {
        let cut = read(bytes, &[cut], to_head, &mut Remembered::default());
        assert_eq!(cut, whole, "{answer:?}");
    }
    let all: Vec<usize> = (0..bytes.len()).collect();
    let mut remembered = Remembered::default();
    assert_eq!(
        read(bytes, &all, to_head, &mut remembered),
        whole,
        "{answer:?}"
    );
    let again = read(bytes, &[], to_head, &mut remembered);
    assert_eq!(again, whole, "{answer:?}");
    whole
}

fn good(answer: &str, status: u16, body: &str, keeps: bool) {
    let expected = Ok((status, body.as_bytes().to_vec(), true, keeps));
    assert_eq!(check(answer, false), expected, "{answer:?}");
}

fn wrong(answer: &str) {
    let found = check(answer, false);
    assert!(
        matches!(found, Err(Wrong::Answer(_))),
        "{answer:?}: {found:?}"
    );
}

#[test]
fn answers_that_are_complete() {
    good(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        true,
    );
    good(
        "HTTP/1.1 200\r\ncontent-length:2\r\n\r\nhi",
        200,
        "hi",
        true,
    );
    good(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        200,
        "",
        true,
    );
    good(
        "HTTP/1.1 503 \r\nContent-Length: 1\r\nConnection: Keep-Alive, Close\r\n\r\nx",
        503,
        "x",
        false,
    );
    good(
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        200,
        "x",
        false,
    );
    good(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        200,
        "x",
        true,
    );
    good(
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        200,
        "until the end",
        false,
    );
    good("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true);
    good(
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        304,
        "",
        true,
    );
    good(
        "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        200,
        "x",
        true,
    );
}

#[test]
fn chunked_answers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let good = |body, text| good(&format!("{head}{body}"), 200, text, true);
    good("0\r\n\r\n", "");
    good("2\r\nhi\r\n0\r\n\r\n", "hi");
    good(
        "00a;name=\"v\";x\r\n0123456789\r\n1 \t;y\r\n!\r\n000\r\nA: b\r\nC: d\r\n\r\n",
        "0123456789!",
    );
    for body in [
        "\r\n",
        "g\r\n",
        "-1\r\n",
        "2\nhi\r\n",
        "2\r\nhi!\r\n",
        "2\r\nhi\n0\r\n\r\n",
        "2;x\nhi",
        "2\r\nhi\r\n0\r\n\n",
        "0\r\nA: b\n\r\n",
        "2\rhi",
        "1000000000000000\r\n",
        "2 x\ry",
    ] {
        wrong(&format!("{head}{body}"));
    }
    let open = check(&format!("{head}2\r\nhi\r\n"), false);
    assert!(open.is_ok_and(|(_, _, complete, _)| !complete));
}

#[test]
fn what_rfc_9112_forbids_or_leaves_open_is_refused() {
    for fields in [
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "A: b\r\n folded\r\n",
        "A : b\r\n",
        "A\r\n",
        ": b\r\n",
        "A: b\n",
        "A: b\rc\r\n",
        "A: b\0\r\n",
    ] {
        wrong(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nx"));
    }
    wrong("HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\nx");
    wrong("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\nx");
    wrong("HTTP/1.1 20 OK\r\n\r\n");
    wrong("HTTP/1.1 600 OK\r\n\r\n");
    wrong("HTTP/1.1 099 OK\r\n\r\n");
    wrong("HTTP/1.2 200 OK\r\n\r\n");
    wrong("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    wrong("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    wrong(&"HTTP/1.1 100 \r\n\r\n".repeat(usize::from(INTERIM_MAX) + 1));
}

#[test]
fn what_is_not_http_is_told_apart() {
    for bytes in [
        "SSH-2.0-OpenSSH\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "http/1.1 200 OK",
        "HTTP/2 200",
    ] {
        assert_eq!(check(bytes, false), Err(Wrong::NotHttp), "{bytes:?}");
    }
}

#[test]
fn the_answer_to_head_has_no_body() {
    let found = check("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", true);
    assert_eq!(found, Ok((200, vec![], true, true)));
    let found = check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        true,
    );
    assert_eq!(found, Ok((200, vec![], true, true)));
}

#[test]
fn bounds_hold() {
    let head = |bytes: usize| {
        let rest = bytes - "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: \r\n\r\n".len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: {}\r\n\r\n",
            "x".repeat(rest)
        )
    };
    let read =
        |text: &str, cut: usize| read(text.as_bytes(), &[cut], false, &mut Remembered::default());
    for cut in [0, 10, 1000, HEAD_BYTES_MAX - 1] {
        assert!(read(&head(HEAD_BYTES_MAX), cut).is_ok_and(|found| found.2));
        assert_eq!(read(&head(HEAD_BYTES_MAX + 1), cut), Err(TOO_LONG));
        assert_eq!(read(&"HTTP/1.1 x".repeat(9999), cut), Err(TOO_LONG));
    }
    let many = "A: b\r\n".repeat(FIELDS_MAX + 1);
    assert!(read(&format!("HTTP/1.1 200 OK\r\n{many}\r\n"), 0).is_err());
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = "x".repeat(EXTENSION_BYTES_MAX as usize + 1);
    assert!(read(&format!("{chunked}1;{long}"), 0).is_err());
    let long = "A: b\r\n".repeat(HEAD_BYTES_MAX);
    assert!(read(&format!("{chunked}0\r\n{long}"), 0).is_err());
}

#[test]
fn a_remembered_head_is_not_used_for_another_one() {
    let mut remembered = Remembered::default();
    let (one, two) = (
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxy",
    );
    for (answer, body) in [(one, "x"), (one, "x"), (two, "xy"), (one, "x")] {
        let found = read(answer.as_bytes(), &[], false, &mut remembered);
        assert_eq!(found, Ok((200, body.as_bytes().to_vec(), true, true)));
    }
    // To HEAD, the same head means no body; and who wants the fields is told them.
    let found = read(&one.as_bytes()[..one.len() - 1], &[], true, &mut remembered);
    assert_eq!(found, Ok((200, vec![], true, true)));
    let mut heard = Heard {
        wants_fields: true,
        ..Heard::default()
    };
    let mut reader = Reader::default();
    reader.begin(false);
    let fed = reader.feed(one.as_bytes(), &mut remembered, &mut heard);
    assert_eq!((fed.map(|fed| fed.done), heard.fields), (Ok(true), 1));
}

#[test]
fn what_follows_an_answer_is_left() {
    let (mut reader, mut heard) = (Reader::default(), Heard::default());
    reader.begin(false);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxjunk";
    let fed = reader.feed(bytes, &mut Remembered::default(), &mut heard);
    let used = bytes.len() - 4;
    assert_eq!(
        (fed, heard.body),
        (Ok(Fed { used, done: true }), vec![b'x'])
    );
}
