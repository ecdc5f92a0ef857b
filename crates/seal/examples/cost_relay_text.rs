//! CPU time of what a relay does to each message besides cryptography: a replay claim, and Binary HTTP both ways.
//!
//! `cargo run --release -p seal --example cost_relay_text`. It prints nanoseconds of the best of several rounds, by the
//! wall, on an otherwise idle core; it judges nothing.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "an example measures time and prints"
)]

use std::hint::black_box;
use std::time::Instant;

use base::Now;
use seal::bhttp::{Decoder, Encoder, Event, Length, Limits, Reading, Scheme, request_line};
use seal::replay::{Claim, Replay};
use seal::{Attempt, PeerId, SenderId, Sid};

const ROUNDS: usize = 15;
const EACH: u64 = 20_000;

/// Nanoseconds of one call, of the round that was disturbed least.
fn cost(name: &str, mut each: impl FnMut(u64)) {
    let mut best = f64::INFINITY;
    for round in 0..ROUNDS as u64 {
        let start = Instant::now();
        for step in 0..EACH {
            each(round * EACH + step);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / EACH as f64);
    }
    println!("{name:<48} {best:>8.1} ns");
}

fn main() {
    replay();
    text();
}

fn replay() {
    let now = Now {
        unix_ms: 1_700_000_000_000,
        mono_ms: 10_000,
    };
    let start = Now {
        unix_ms: now.unix_ms - 10_000,
        mono_ms: 0,
    };
    let claim = |sender: u64, ctr: u64| {
        let mut id = [9; 16];
        id[..8].copy_from_slice(&sender.to_be_bytes());
        let attempt = Attempt {
            sender: SenderId(id),
            ctr,
            ts_unix_ms: now.unix_ms,
        };
        Claim {
            peer_id: PeerId([1; 32]),
            sid: Sid([sender as u8; 16]),
            attempt,
            retry_of: None,
        }
    };
    let table = Replay::local(16_384, [7; 16], start);
    cost("claim, one sender", |step| {
        drop(black_box(table.claim(&claim(1, step), now)))
    });
    cost("claim, 64 senders in turn", |step| {
        drop(black_box(table.claim(&claim(step % 64, step / 64), now)))
    });
    cost("claim, 8,192 senders in turn", |step| {
        drop(black_box(
            table.claim(&claim(step % 8_192, step / 8_192), now),
        ));
    });
    cost("claim of a replay", |_| {
        drop(black_box(table.claim(&claim(1, 1), now)))
    });
    cost("claim of a retry", |step| {
        let mut retry = claim(20_000, step);
        retry.retry_of = Some(claim(20_001, step).attempt);
        drop(black_box(table.claim(&retry, now)));
    });
}

/// A request as browsers make them, and a small answer, with 10 KB of content each.
fn text() {
    let fields: [(&[u8], &[u8]); 9] = [
        (b"Accept", b"application/json, text/plain, */*"),
        (b"Accept-Encoding", b"gzip, deflate, br, zstd"),
        (b"Accept-Language", b"en-GB,en;q=0.9"),
        (
            b"Authorization",
            b"Bearer 0123456789abcdef0123456789abcdef0123456789abcdef",
        ),
        (b"Content-Type", b"application/json"),
        (
            b"Cookie",
            b"session=0123456789abcdef0123456789abcdef; theme=dark",
        ),
        (
            b"User-Agent",
            b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        ),
        (b"X-Request-Id", b"6f0a2b1c-7d3e-4f5a-8b9c-0d1e2f3a4b5c"),
        (
            b"Traceparent",
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
    ];
    let content = vec![b'x'; 10_240];
    let limits = Limits::default();
    let mut out = Vec::with_capacity(20_000);
    let write = |out: &mut Vec<u8>, length| {
        out.clear();
        let line = request_line(
            b"POST",
            b"/v1/things?x=y",
            Some(b"api.example.com"),
            Scheme::Https,
        );
        let line = line.expect("a good line");
        let bytes = content.len() as u64;
        let encoder = Encoder::request(out, &limits, &line, fields, Some(bytes), length);
        let mut encoder = encoder.expect("a good head");
        encoder.content(out, &content).expect("as long as it says");
        encoder.finish(out, []).expect("no trailers");
    };
    let whole = Length::Whole(10_240);
    cost("request with 9 fields and 10 KB, written", |_| {
        write(black_box(&mut out), whole)
    });
    let mut decoder = Decoder::new(limits, Reading::Request);
    let mut read = |bytes: &[u8]| {
        decoder.begin(Reading::Request);
        let mut input = bytes;
        while decoder.read(&mut input).expect("a good message") != Event::More {}
        decoder.end().expect("a whole message");
    };
    cost("the same, read", |_| read(black_box(&out)));
    write(&mut out, Length::Stream);
    cost("the same as a stream, read", |_| read(black_box(&out)));
}
