//! Code search: what a parse child and a process of another session say, what an endpoint answers, and what our own
//! cutters make of a file.
//!
//! Grammars are not tried here: they are C of others, and run in children so that a crash costs one file. What has to hold
//! is that nothing which such a child says can do more.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tools::code::api::Job;
use tools::code::embed::{self, Kind};
use tools::code::parse::{self, Parsed, worker};
use tools::serve::desk::frame::{self, Asked, Frame};

/// Names of files that no grammar reads.
const NAMES: [&str; 6] = ["a.md", "a.json", "a.yaml", "a.toml", "a.txt", "Makefile"];

/// Takes a part of the bytes, as long as their first one says.
fn part(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first()?;
    rest.split_at_checked(usize::from(*length).min(rest.len()))
}

/// A file as our own cutters cut it: every byte stands in one piece.
pub fn code_parse(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    let parsed = parse::file(NAMES[usize::from(*which) % NAMES.len()], bytes);
    about(&parsed, bytes);
}

fn about(parsed: &Parsed, bytes: &[u8]) {
    assert!(
        parsed.is_about(bytes),
        "an answer that is about no such file"
    );
    let mut next = 0;
    for chunk in &parsed.chunks {
        assert_eq!(
            chunk.span.bytes.start as usize, next,
            "a byte in no piece, or in two"
        );
        next = chunk.span.bytes.end as usize;
        let _ = chunk.span.bytes.of(bytes);
    }
    assert!(
        next == bytes.len() || parsed.chunks.is_empty(),
        "the end of the file is in no piece"
    );
}

/// The wire between a pool and its children, both ways: a batch is what was written or none, and an answer that was
/// tampered with is about the file or refused.
pub fn code_wire(data: &[u8]) {
    let Some((head, rest)) = part(data) else {
        return;
    };
    for count in [0, 1, head.len()] {
        if let Some(files) = worker::wire::read(rest, count) {
            let mut frame = Vec::new();
            worker::wire::write(&files, &mut frame);
            assert_eq!(
                worker::wire::read(&frame[8..], count).as_ref(),
                Some(&files),
                "another batch"
            );
        }
    }
    let path = NAMES[head.len() % NAMES.len()];
    let mut frame =
        postcard::to_allocvec(&parse::file(path, head)).expect("what was parsed can be sent");
    assert!(
        worker::answer(&frame, path, head).is_some(),
        "a true answer was refused"
    );
    for change in rest.chunks_exact(2) {
        let at = usize::from(change[0]) % frame.len();
        frame[at] = change[1];
        if let Some(parsed) = worker::answer(&frame, path, head) {
            about(&parsed, head);
        }
    }
    if let Some(parsed) = worker::answer(rest, path, head) {
        about(&parsed, head);
    }
}

/// What a process of another session says at the socket of an index: read in any pieces, or refused.
pub fn code_desk(data: &[u8]) {
    if let Some(ask) = read::<Asked>(data) {
        assert_eq!(again(&ask), serde_json::to_value(&ask).ok(), "another call");
    }
    if let Some(frame) = read::<Frame<Job>>(data) {
        let _ = serde_json::to_vec(&frame).expect("what was read can be written");
    }
    // With a head that is right.
    let mut framed = u32::try_from(data.len())
        .expect("an input is short")
        .to_be_bytes()
        .to_vec();
    framed.extend_from_slice(data);
    let (ask, frame) = (read::<Asked>(&framed), read::<Frame<Job>>(&framed));
    assert!(
        ask.is_none() || frame.is_none(),
        "one text is both a call and an answer"
    );
}

/// Reads from bytes that are there: nothing is waited for.
fn read<T: for<'a> serde::Deserialize<'a>>(mut bytes: &[u8]) -> Option<T> {
    done(frame::read(&mut bytes)).ok()
}

/// What is read of what is written.
fn again<T: serde::Serialize>(value: &T) -> Option<serde_json::Value> {
    let mut wire = std::io::Cursor::new(Vec::new());
    done(frame::write(&mut wire, value)).ok()?;
    read(wire.get_ref())
}

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("bytes that are there were waited for"),
    }
}

/// What an embedding endpoint answers: vectors of length one, or an error.
pub fn code_embedding(data: &[u8]) {
    for kind in [Kind::Ollama, Kind::OpenAi] {
        for vector in embed::answer(kind, data).into_iter().flatten() {
            let length: f32 = vector.iter().map(|x| x * x).sum();
            assert!(
                (length - 1.0).abs() < 0.01,
                "a vector of length {}",
                length.sqrt()
            );
        }
    }
}
