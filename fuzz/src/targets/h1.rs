//! HTTP/1.1 as the engine of `net` reads it: the same, however the bytes are cut into reads.
//!
//! What it takes of a body in chunks is held against a second, careless decoder: that one may take
//! more, but where both take a body it is the same.

use net::h1::{ConnectionSettings, probe};

fn settings() -> ConnectionSettings {
    ConnectionSettings::default()
}

/// What clients send; the first byte says how it is cut.
pub fn h1_request(data: &[u8]) {
    let Some((&cut, sent)) = data.split_first() else {
        return;
    };
    let whole = probe::requests(sent.chunks(8192), &settings());
    let cut = probe::requests(sent.chunks(usize::from(cut).max(1)), &settings());
    assert_eq!(whole, cut, "the cut changed the requests");
    assert_eq!(
        whole,
        probe::requests(sent.chunks(1), &settings()),
        "single bytes changed the requests"
    );
}

/// What servers send, to one of these requests; the first byte says how it is cut.
pub fn h1_response(data: &[u8]) {
    let Some((&cut, sent)) = data.split_first() else {
        return;
    };
    let methods: &[&[u8]] = if cut & 1 == 1 { &[b"HEAD"] } else { &[b"GET"] };
    let whole = probe::answers(methods, sent.chunks(8192), &settings());
    let cut = probe::answers(methods, sent.chunks(usize::from(cut).max(1)), &settings());
    assert_eq!(whole, cut, "the cut changed the answers");
}

/// A body in chunks.
pub fn h1_chunked(data: &[u8]) {
    let Some((&cut, sent)) = data.split_first() else {
        return;
    };
    let head = &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"[..];
    let read = |size: usize| {
        let pieces = head.chunks(100).chain(sent.chunks(size.max(1)));
        probe::answers(&[b"GET"], pieces, &settings())
    };
    let whole = read(8192);
    assert_eq!(whole, read(cut.into()), "the cut changed the body");
    if !whole.ends_with("close\n") {
        return;
    }
    let body = careless(sent).expect("a careless decoder takes what a strict one takes");
    let told = whole.lines().find_map(|line| line.strip_prefix("  body "));
    let told = told.unwrap_or("\"\"");
    assert_eq!(
        told,
        format!("\"{}\"", body.escape_ascii()),
        "two decoders see two bodies"
    );
}

/// The body of chunks, by a decoder that believes what it sees.
fn careless(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line = std::str::from_utf8(&bytes[..line_end]).ok()?;
        let size = line.split([';', ' ', '\t']).next()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        bytes = &bytes[line_end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..size)?);
        bytes = bytes.get(size + 2..)?;
    }
}
