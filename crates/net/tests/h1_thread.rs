//! One clock for connections whose bounds differ: each meets its own.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::future::Future;
use std::rc::Rc;

use net::h1::{
    ClientConnection, ConnectionSettings, Error, Framing, ServerConnection, Thread, Wait,
};
use tokio::io::{AsyncWriteExt, duplex};
use tokio::task::LocalSet;
use tokio::time::Instant;

/// Runs a test whose clock stands still but for waits: then it jumps.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// Asserts that something took so long, and at most two ticks longer.
fn assert_took(since: Instant, ms: u64, tick_ms: u64) {
    let took = since.elapsed().as_millis() as u64;
    assert!(
        (ms..=ms + 2 * tick_ms).contains(&took),
        "{took} ms, not {ms}"
    );
}

#[test]
fn each_side_of_one_thread_meets_its_own_bounds() {
    run(async {
        let quick = Rc::new(ConnectionSettings {
            head_ms: 800,
            ..ConnectionSettings::default()
        });
        let slow = Rc::new(ConnectionSettings {
            answer_ms: 20_000,
            ..ConnectionSettings::default()
        });
        let tick_ms = quick.tick_ms().min(slow.tick_ms());
        assert_eq!(tick_ms, 100);
        let thread = Thread::new(tick_ms);
        let (ours, mut agent) = duplex(1 << 10);
        let mut server = ServerConnection::new(ours, &thread, &quick);
        let (ours, _upstream) = duplex(1 << 10);
        let mut client = ClientConnection::new(ours, &thread, &slow);
        agent.write_all(b"GET /").await.unwrap();
        client
            .request(b"GET", b"/", b"a", [], Framing::None)
            .unwrap();
        client.flush().await.unwrap();
        let start = Instant::now();
        let head = async {
            let late = server.head().await.err();
            assert_eq!(late, Some(Error::Slow(Wait::Head)));
            assert_took(start, 800, tick_ms);
        };
        let answer = async {
            let late = client.answer().await.err();
            assert_eq!(late, Some(Error::Slow(Wait::Answer)));
            assert_took(start, 20_000, tick_ms);
        };
        tokio::join!(head, answer);
    });
}
