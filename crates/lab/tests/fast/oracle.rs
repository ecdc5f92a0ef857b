//! The reader of answers beside two others: one of a few lines over whole answers, and hyper's client.
//!
//! Answers are drawn from a seed, some of them then spoilt. Ours and the short one must say the same of each;
//! hyper repairs more than we do, so where both read an answer they must read the same one, and a good answer
//! must be good to all three.

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::{BodyExt, Empty};
use httparse::{EMPTY_HEADER, Header, Response, Status};
use hyper_util::rt::TokioIo;
use lab::engine::fast::answer::{Listener, Reader, Remembered};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CASES: u64 = 3000;

/// Status and body, or that it is none or not whole.
type Answer = Option<(u16, Vec<u8>)>;

#[derive(Default)]
struct Kept(u16, Vec<u8>);

impl Listener for Kept {
    fn wants_fields(&self) -> bool {
        false
    }

    fn head(&mut self, status: u16, _: &[Header<'_>]) {
        self.0 = status;
    }

    fn body(&mut self, piece: &[u8]) {
        self.1.extend_from_slice(piece);
    }
}

/// Ours, in pieces of any size.
fn ours(bytes: &[u8], remembered: &mut Remembered, rng: &mut Rng) -> Answer {
    let (mut reader, mut kept, mut rest) = (Reader::default(), Kept::default(), bytes);
    reader.begin(false);
    let most = rng.usize(1..200);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rng.usize(1..=most.min(rest.len())));
        if reader.feed(piece, remembered, &mut kept).ok()?.done {
            return Some((kept.0, kept.1));
        }
        rest = after;
    }
    reader.ends_by_close().then_some((kept.0, kept.1))
}

/// The short one: everything is there, so it can look ahead.
fn short(bytes: &[u8]) -> Answer {
    let mut rest = bytes;
    for _ in 0..=16 {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = &rest[..end];
        let lines = head.split(|byte| *byte == b'\n').rev().skip(1);
        if !head.starts_with(b"HTTP/1.") || lines.into_iter().any(|line| !line.ends_with(b"\r")) {
            return None;
        }
        let mut fields = [EMPTY_HEADER; 128];
        let mut response = Response::new(&mut fields);
        if response.parse(head) != Ok(Status::Complete(end)) {
            return None;
        }
        rest = &rest[end..];
        match response.code? {
            101 => return None,
            100..200 => {}
            status @ (204 | 304) => return framing(&response).map(|_| (status, Vec::new())),
            status @ 200..600 => return Some((status, body(framing(&response)?, rest)?)),
            _ => return None,
        }
    }
    None
}

enum Framing {
    Length(usize),
    Chunked,
    Close,
}

fn framing(response: &Response<'_, '_>) -> Option<Framing> {
    let all = |name: &str| -> Vec<&[u8]> {
        let fields = response.headers.iter();
        let named = fields.filter(|field| field.name.to_lowercase() == name);
        named.map(|field| field.value).collect()
    };
    match (&*all("content-length"), &*all("transfer-encoding")) {
        ([], []) => Some(Framing::Close),
        ([length], []) => {
            let text = std::str::from_utf8(length).ok()?;
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 18;
            is_plain.then(|| text.parse().ok())?.map(Framing::Length)
        }
        ([], [coding]) if response.version == Some(1) => {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            is_chunked.then_some(Framing::Chunked)
        }
        _ => None,
    }
}

fn body(framing: Framing, rest: &[u8]) -> Option<Vec<u8>> {
    match framing {
        Framing::Close => Some(rest.to_vec()),
        Framing::Length(length) => rest.get(..length).map(<[u8]>::to_vec),
        Framing::Chunked => chunks(rest),
    }
}

fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = line(&mut rest)?;
        let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let after = line.get(digits);
        if digits == 0 || digits > 15 || !matches!(after, None | Some(b';' | b' ' | b'\t')) {
            return None;
        }
        let size = u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
        if size == 0 {
            while !self::line(&mut rest)?.is_empty() {}
            return Some(body);
        }
        let size = usize::try_from(size).ok()?;
        body.extend_from_slice(rest.get(..size)?);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
}

/// A line that ends in CR LF and has neither in it.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let found = &rest[..end];
    *rest = rest[end..].strip_prefix(b"\r\n")?;
    Some(found)
}

/// What hyper reads.
async fn hyper(bytes: Vec<u8>) -> Answer {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    let serving = async move {
        // What comes before the request would be refused as unasked for.
        let mut request = [0; 1024];
        let _ = server.read(&mut request).await;
        let _ = server.write_all(&bytes).await;
        let _ = server.shutdown().await;
        // It stays open for what the client writes, so that writing does not fail first.
        server
    };
    let asking = async move {
        let io = TokioIo::new(client);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
        let request = hyper::Request::get("http://a/").body(Empty::<Bytes>::new());
        let answer = async {
            let response = sender.send_request(request.ok()?).await.ok()?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.ok()?;
            Some((status, body.to_bytes().to_vec()))
        };
        let (answer, _) = tokio::join!(answer, connection);
        answer
    };
    let (_server, answer) = tokio::join!(serving, asking);
    answer
}

/// A good answer.
fn draw(rng: &mut Rng) -> Vec<u8> {
    let mut answer = Vec::new();
    if rng.u8(..4) == 0 {
        answer.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    }
    let status = *rng.choice(&[200u16, 201, 204, 304, 404, 500]).unwrap();
    answer.extend_from_slice(format!("HTTP/1.1 {status} Some Thing\r\n").as_bytes());
    for number in 0..rng.usize(..6) {
        let text: String = std::iter::repeat_with(|| rng.alphanumeric())
            .take(9)
            .collect();
        answer.extend_from_slice(format!("X-{number}: {text}\r\n").as_bytes());
    }
    let bodiless = matches!(status, 204 | 304);
    let body_bytes = rng.usize(..300);
    let body: Vec<u8> = (0..body_bytes).map(|_| rng.u8(..)).collect();
    match rng.u8(..3) {
        _ if bodiless => answer.extend_from_slice(b"\r\n"),
        0 => {
            answer.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            answer.extend_from_slice(&body);
        }
        1 => {
            answer.extend_from_slice(b"Connection: close\r\n\r\n");
            answer.extend_from_slice(&body);
        }
        _ => {
            answer.extend_from_slice(b"transfer-encoding: CHUNKED\r\n\r\n");
            for piece in body.chunks(rng.usize(1..80)) {
                let extension = if rng.bool() { ";a=b" } else { "" };
                answer.extend_from_slice(format!("{:x}{extension}\r\n", piece.len()).as_bytes());
                answer.extend_from_slice(piece);
                answer.extend_from_slice(b"\r\n");
            }
            let end = if rng.bool() {
                "0\r\n\r\n"
            } else {
                "00\r\nX-T: v\r\n\r\n"
            };
            answer.extend_from_slice(end.as_bytes());
        }
    }
    answer
}

/// One change somewhere, of the kind that breaks parsers.
fn spoil(answer: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.usize(..answer.len());
    let pieces: [&[u8]; 10] = [
        b"\r",
        b"\n",
        b"\r\n",
        b" ",
        b":",
        b"0",
        b"\0",
        b"Content-Length: 3\r\n",
        b"A: b\r\n",
        b"F",
    ];
    match rng.u8(..4) {
        0 => answer.truncate(at),
        1 => drop(answer.remove(at)),
        2 => answer[at] = rng.u8(..),
        _ => drop(answer.splice(at..at, rng.choice(pieces).unwrap().to_vec())),
    }
}

#[test]
fn three_readers_agree() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut remembered, mut both, mut refused) = (Remembered::default(), 0, 0);
    for seed in 0..CASES {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = draw(&mut rng);
        let is_good = seed % 3 == 0;
        if !is_good {
            spoil(&mut bytes, &mut rng);
        }
        let said = || format!("seed {seed}: {}", bytes.escape_ascii());
        let mine = ours(&bytes, &mut remembered, &mut rng);
        assert_eq!(mine, short(&bytes), "{}", said());
        let theirs = runtime.block_on(hyper(bytes.clone()));
        if is_good {
            assert!(mine.is_some() && theirs.is_some(), "{}", said());
        }
        match (&mine, &theirs) {
            (Some(mine), Some(theirs)) => {
                assert_eq!(mine, theirs, "{}", said());
                both += 1;
            }
            _ => refused += 1,
        }
    }
    assert!(
        both > CASES / 3 && refused > CASES / 10,
        "{both}, {refused}"
    );
}
