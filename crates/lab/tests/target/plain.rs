//! Fixed bodies, the echo, event streams, the counts, and the limits of each.

use std::io::Write;
use std::sync::Barrier;

use lab::target::Settings;

use super::client::Client;
use super::started;

#[test]
fn fixed_bodies_have_the_size_that_is_asked_for() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    assert_eq!(client.get("/").body.len(), 128);
    for bytes in [0_usize, 1, 64 << 10, (64 << 10) + 1, 1_000_003] {
        let answer = client.get(&format!("/bytes/{bytes}"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body.len(), bytes);
        assert_eq!(answer.header("content-length"), Some(&*bytes.to_string()));
    }
    let first = client.get("/bytes/200000").body;
    assert!(
        first
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == first[at % 64])
    );
    assert_eq!(target.counts().responses_ok, 7);
}

#[test]
fn head_gives_the_length_without_the_body() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    for (path, length) in [
        ("/", "128"),
        ("/bytes/5", "5"),
        ("/bytes/1000000", "1000000"),
    ] {
        let answer = client.ask("HEAD", path, &[], b"");
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (200, Some(length))
        );
    }
    // Nothing of a body came: the next answer is where it should be.
    assert_eq!(client.get("/bytes/3").body, b"abc");
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_reason() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    let cases = [
        ("GET", "/bytes/67108865", 400, "67108864"),
        ("GET", "/bytes/-1", 400, "/bytes/N"),
        ("GET", "/bytes/99999999999999999999", 400, "/bytes/N"),
        ("GET", "/bytes/", 400, "/bytes/N"),
        ("GET", "/nothing", 404, "/nothing"),
        ("POST", "/", 405, "/echo"),
        ("GET", "/sse?events=1000001", 400, "events"),
        ("GET", "/sse?gap_ms=60001", 400, "gap_ms"),
        ("GET", "/sse?bytes=-1", 400, "bytes"),
        ("GET", "/sse?speed=1", 400, "/sse takes"),
    ];
    for (method, path, status, says) in cases {
        let answer = client.ask(method, path, &[], b"");
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text().contains(says), "{path}: {}", answer.text());
    }
    let counts = target.counts();
    assert_eq!((counts.requests, counts.responses_refused), (10, 10));
}

#[test]
fn the_echo_gives_back_each_byte() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = client.ask(method, "/echo", &[("content-type", "a/b")], &body);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("a/b"))
        );
        assert_eq!(answer.body, body);
    }
    let answer = client.get("/echo");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(
        answer.header("content-type"),
        Some("application/octet-stream")
    );
}

#[test]
fn the_echo_takes_chunks() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    client.send("POST /echo HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n4;name=value\r\ndefg\r\n0\r\n\r\n");
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.text()), (200, "abcdefg"));
    // A chunk's size that is no number ends the request, not the target.
    client.send("POST /echo HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n");
    assert!(
        client
            .try_answer(false)
            .is_none_or(|answer| answer.status == 400)
    );
    assert_eq!(Client::to(target.address()).get("/").status, 200);
}

#[test]
fn a_long_echo_flows_while_it_is_sent() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 64;
    let target = started(Settings::default());
    for chunked in [false, true] {
        let mut client = Client::to(target.address());
        let mut writer = client.stream.try_clone().unwrap();
        let piece: Vec<u8> = (0..PIECE).map(|at| (at % 251) as u8).collect();
        let expected = piece.clone();
        let sender = std::thread::spawn(move || {
            let framing = match chunked {
                true => "transfer-encoding: chunked".to_owned(),
                false => format!("content-length: {}", PIECE * PIECES),
            };
            write!(
                writer,
                "POST /echo HTTP/1.1\r\nhost: t\r\n{framing}\r\n\r\n"
            )
            .unwrap();
            for _ in 0..PIECES {
                if chunked {
                    write!(writer, "{PIECE:x}\r\n").unwrap();
                }
                writer.write_all(&piece).unwrap();
                if chunked {
                    writer.write_all(b"\r\n").unwrap();
                }
            }
            if chunked {
                writer.write_all(b"0\r\n\r\n").unwrap();
            }
        });
        let answer = client.answer(false);
        sender.join().unwrap();
        assert_eq!(answer.body.len(), PIECE * PIECES);
        assert!(answer.body.chunks(PIECE).all(|piece| piece == expected));
    }
}

#[test]
fn requests_may_follow_each_other_without_waiting() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    let mut requests = String::new();
    for bytes in 0..50 {
        requests += &format!("GET /bytes/{bytes} HTTP/1.1\r\nhost: t\r\n\r\n");
        requests += "POST /echo HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\nhi";
    }
    client.send(requests);
    for bytes in 0..50 {
        assert_eq!(client.answer(false).body.len(), bytes);
        assert_eq!(client.answer(false).body, b"hi");
    }
    assert_eq!(target.counts().responses_ok, 100);
}

#[test]
fn a_connection_is_kept_or_closed_as_the_client_says() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    client.send("GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
    assert_eq!(client.answer(false).status, 200);
    assert!(client.try_answer(false).is_none());
    let mut old = Client::to(target.address());
    old.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.answer(false).status, 200);
    assert!(old.try_answer(false).is_none());
}

#[test]
fn what_is_not_http_does_not_stop_the_target() {
    let target = started(Settings::default());
    for bytes in [
        b"\x16\x03\x01\x02\x00".as_slice(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nthis is no frame, however long it goes on",
        b"PRI * HTTP/9\r\n\r\n",
        b"GET\r\n\r\n",
        b"\0\0\0\0",
        b"",
    ] {
        let mut client = Client::to(target.address());
        client.send(bytes);
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // The end may be a reset, as there are bytes that nobody read.
        let _ = std::io::Read::read_to_end(&mut client.stream, &mut answer);
    }
    let mut client = Client::to(target.address());
    let long = format!(
        "GET / HTTP/1.1\r\nhost: t\r\na: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let _ = client.stream.write_all(long.as_bytes());
    assert_eq!(Client::to(target.address()).get("/").status, 200);
}

#[test]
fn an_event_stream_has_each_event() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    let answer = client.get("/sse?events=100&bytes=70&gap_ms=0");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    assert_eq!(events.len(), 100);
    assert!(
        events
            .iter()
            .all(|(name, data)| name == "message" && data.len() == 70)
    );
    assert!(answer.text().starts_with("id: 0\ndata: abc"));
    assert_eq!(client.get("/sse?events=0").body, b"");
    assert_eq!(client.get("/sse").events().len(), 10);
}

#[test]
fn ids_come_back_and_duplicates_are_exact() {
    let target = started(Settings {
        threads: 2,
        ..Settings::default()
    });
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let (barrier, address) = (&barrier, target.address());
            scope.spawn(move || {
                let mut client = Client::to(address);
                barrier.wait();
                // Each worker has 200 ids of its own, and all have the same 50.
                for sequence in (worker * 1_000..worker * 1_000 + 200).chain(900_000..900_050) {
                    let id = format!("Beef-{sequence}");
                    let path = if sequence % 2 == 0 { "/" } else { "/echo" };
                    let answer = client.ask("GET", path, &[("weir-lab-id", &id)], b"");
                    assert_eq!(answer.header("weir-lab-id"), Some(&*id));
                }
            });
        }
    });
    let counts = target.counts();
    assert_eq!(counts.requests, 8 * 250);
    let run = &counts.runs["beef"];
    assert_eq!((run.distinct, run.duplicates), (8 * 200 + 50, 7 * 50));
    assert!(
        run.first_duplicates
            .iter()
            .all(|id| (900_000..900_050).contains(id))
    );
    // The same by HTTP, and after a reset nothing.
    let mut client = Client::to(target.address());
    assert_eq!(
        client.get("/lab/counts").json(),
        serde_json::to_value(&counts).unwrap()
    );
    assert_eq!(client.post("/lab/reset", &[], "").status, 204);
    assert_eq!(target.counts(), Default::default());
    client.ask("GET", "/", &[("weir-lab-id", "beef-900001")], b"");
    let run = &target.counts().runs["beef"];
    assert_eq!((run.distinct, run.duplicates), (1, 0));
}

#[test]
fn ids_beyond_the_bounds_are_answered_and_wrong_ones_refused() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    let mut with_id = |path: &str, id: &str| {
        let answer = client.ask("GET", path, &[("weir-lab-id", id)], b"");
        (
            answer.status,
            answer.header("weir-lab-id").map(str::to_owned),
        )
    };
    for path in ["/", "/echo"] {
        let huge = "1-18446744073709551615";
        assert_eq!(with_id(path, huge), (200, Some(huge.to_owned())));
        for wrong in ["", "x", "1-", "1-18446744073709551616", "g-1", "1-1-1"] {
            assert_eq!(with_id(path, wrong).0, 400, "{wrong}");
        }
    }
    let counts = target.counts();
    assert_eq!((counts.uncounted, counts.responses_refused), (2, 12));
}

#[test]
fn control_routes_have_their_methods() {
    let target = started(Settings::default());
    let mut client = Client::to(target.address());
    assert_eq!(client.post("/lab/counts", &[], "").status, 405);
    assert_eq!(client.get("/lab/reset").header("allow"), Some("POST"));
    assert_eq!(client.get("/lab/other").status, 404);
    assert_eq!(target.counts().requests, 0);
}
