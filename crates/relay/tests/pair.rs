//! A pair of relays with real sockets: what goes through, byte for byte, in every form that HTTP/1.1 has.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

use std::io;
use std::sync::Mutex;
use std::sync::mpsc;

use relay::{Inbound, Outbound};
use rig::*;

/// A pair with this origin.
struct Pair {
    outbound: Serving<Outbound>,
    inbound: Serving<Inbound>,
}

fn pair(origin: &Origin) -> Pair {
    let clock = Shifted::new();
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    Pair { outbound, inbound }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(bytes as u64 + 1);
    std::iter::repeat_with(|| random.u8(..))
        .take(bytes)
        .collect()
}

#[test]
fn bodies_of_every_size_come_back_as_they_went() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    for bytes in [
        0,
        1,
        2,
        100,
        10_240,
        57_000,
        57_344,
        57_345,
        65_000,
        65_519,
        65_520,
        65_521,
        65_536,
        65_537,
        100_000,
        131_072,
        1 << 20,
        (1 << 20) + 1,
        8 << 20,
    ] {
        let body = noise(bytes);
        let answer = line
            .ask(&request("POST", &format!("/size/{bytes}?q=1"), &body))
            .unwrap();
        assert_eq!(answer.status(), 200, "{bytes}: {answer:?}");
        assert_eq!(answer.field("x-path"), Some(&*format!("/size/{bytes}?q=1")));
        assert!(answer.body == body, "{bytes}");
    }
    let seen = origin.seen.lock().unwrap();
    assert!(seen.iter().all(|head| head.field("x-kept") == Some("Yes")));
    assert!(
        seen.iter()
            .all(|head| head.field("host") == Some("app.example"))
    );
    assert_eq!(pair.inbound.relay.counters().handshakes, 1);
    assert_eq!(pair.outbound.relay.counters().retries, 0);
}

fn chunked(method: &str, path: &str, pieces: &[&[u8]], trailers: &str) -> Vec<u8> {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nhost: app.example\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for piece in pieces {
        bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend(format!("0\r\n{trailers}\r\n").bytes());
    bytes
}

#[test]
fn chunks_and_trailers_go_both_ways() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let origin = Origin::new(move |mut head, line| {
        line.body(&mut head)?;
        tell.lock().unwrap().send(head.clone()).unwrap();
        let mut answer =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n".to_vec();
        for piece in head.body.chunks(7_000) {
            answer.extend(format!("{:x}\r\n", piece.len()).bytes());
            answer.extend_from_slice(piece);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\nx-sum: 42\r\n\r\n");
        line.send(&answer)
    });
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    for bytes in [0, 5, 10_000, 300_000] {
        let body = noise(bytes);
        let pieces: Vec<&[u8]> = body.chunks(3_333).collect();
        let answer = line
            .ask(&chunked("PUT", "/c", &pieces, "x-tail: end\r\n"))
            .unwrap();
        let asked = told.recv_timeout(PATIENCE).unwrap();
        assert!(asked.body == body && answer.body == body, "{bytes}");
        assert_eq!(asked.trailers, [("x-tail".to_owned(), "end".to_owned())]);
        assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
        assert_eq!(answer.field("trailer"), Some("x-sum"));
    }
}

#[test]
fn head_and_answers_without_a_body() {
    let origin = Origin::new(|mut head, line| {
        line.body(&mut head)?;
        line.send(match head.path() {
            "/head" => b"HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n".as_slice(),
            "/head-chunked" => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "/204" => b"HTTP/1.1 204 No Content\r\nx-a: b\r\n\r\n",
            "/304" => b"HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\netag: \"x\"\r\n\r\n",
            _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
        })
    });
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    let get = |method: &str, path: &str| {
        format!("{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes()
    };
    let answer = line.ask(&get("HEAD", "/head")).unwrap();
    assert_eq!(
        (answer.status(), answer.field("content-length")),
        (200, Some("12345"))
    );
    let answer = line.ask(&get("HEAD", "/head-chunked")).unwrap();
    assert_eq!(
        (answer.status(), answer.field("content-length")),
        (200, None)
    );
    let answer = line.ask(&get("GET", "/204")).unwrap();
    assert_eq!((answer.status(), answer.field("x-a")), (204, Some("b")));
    let answer = line.ask(&get("GET", "/304")).unwrap();
    assert_eq!(
        (answer.status(), answer.field("etag")),
        (304, Some("\"x\""))
    );
    let answer = line.ask(&get("GET", "/other")).unwrap();
    assert_eq!((answer.status(), answer.body.as_slice()), (404, &b"no"[..]));
    let answer = line.ask(b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(answer.status(), 404);
}

#[test]
fn informational_answers_come_before_the_answer() {
    let origin = Origin::new(|mut head, line| {
        line.body(&mut head)?;
        line.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n")?;
        line.send(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    });
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    line.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let hints = line.head().unwrap();
    assert_eq!(
        (hints.status(), hints.field("link")),
        (103, Some("</a.css>"))
    );
    assert_eq!(line.head().unwrap().status(), 102);
    let answer = line.message().unwrap();
    assert_eq!((answer.status(), answer.body.as_slice()), (200, &b"ok"[..]));
}

#[test]
fn events_come_one_by_one() {
    let (next, told) = mpsc::channel::<&'static str>();
    let told = Mutex::new(told);
    let origin = Origin::new(move |_, line| {
        line.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        while let Ok(event) = told.lock().unwrap().recv() {
            line.send(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
            if event == "end" {
                break;
            }
        }
        line.send(b"0\r\n\r\n")
    });
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    line.send(b"GET /events HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    // The head comes before the first event is there.
    assert_eq!(
        line.head().unwrap().field("content-type"),
        Some("text/event-stream")
    );
    for event in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n", "end"] {
        next.send(event).unwrap();
        assert_eq!(line.piece().unwrap().unwrap(), event.as_bytes());
    }
    assert_eq!(line.piece().unwrap(), None);
    assert_eq!(line.trailers().unwrap(), []);
}

#[test]
fn an_answer_may_come_before_the_body_is_whole() {
    let origin = Origin::new(|head, line| {
        line.send(
            b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig",
        )?;
        let _ = head;
        Err(io::ErrorKind::Other.into())
    });
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    line.send(b"POST /big HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\nsome")
        .unwrap();
    let answer = line.message().unwrap();
    assert_eq!(
        (answer.status(), answer.body.as_slice()),
        (413, &b"big"[..])
    );
}

#[test]
fn who_expects_to_be_asked_is_asked() {
    let origin = Origin::new(|mut head, line| {
        if head.field("expect").is_some() {
            if head.path() == "/no" {
                line.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")?;
                return Err(io::ErrorKind::Other.into());
            }
            line.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        line.body(&mut head)?;
        line.send(
            format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-got: {}\r\n\r\n",
                head.body.len()
            )
            .as_bytes(),
        )
    });
    let pair = pair(&origin);
    let ask = |path: &str, bytes: usize| {
        let mut line = Line::to(pair.outbound.address);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: {bytes}\r\n\r\n"
        );
        line.send(head.as_bytes()).unwrap();
        let first = line.head().unwrap();
        if first.status() == 100 {
            line.send(&noise(bytes)).unwrap();
            return (100, line.message().unwrap());
        }
        (first.status(), first)
    };
    for bytes in [10, 3 << 20] {
        let (first, answer) = ask("/yes", bytes);
        assert_eq!(
            (first, answer.field("x-got")),
            (100, Some(&*bytes.to_string()))
        );
    }
    // A long body is not sent for an answer that is no anyway.
    assert_eq!(ask("/no", 3 << 20).0, 401);
}

#[test]
fn what_the_relay_cannot_carry_is_refused() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    for (request, status) in [
        (&b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n"[..], 501),
        (b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 501),
        (b"GET /../etc HTTP/1.1\r\nhost: a\r\n\r\n", 404),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nhost: a\n\n", 400),
    ] {
        let mut line = Line::to(pair.outbound.address);
        let answer = line.ask(request).unwrap();
        assert_eq!(answer.status(), status, "{}", request.escape_ascii());
    }
    assert_eq!(origin.asked(), 0);
    assert_eq!(
        Line::to(pair.outbound.address)
            .ask(&request("GET", "/", b""))
            .unwrap()
            .status(),
        200
    );
}

#[test]
fn a_connection_is_used_again_after_every_form() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    for number in 0..50 {
        let forms = [
            chunked("POST", "/c", &[b"x"], "a: b\r\n"),
            request("POST", "/l", &noise(100_000)),
            request("POST", "/s", b"x"),
            b"GET /g HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
            b"HEAD /h HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
        ];
        for form in forms {
            assert_eq!(line.ask(&form).unwrap().status(), 200, "{number}");
        }
    }
    let counters = pair.outbound.relay.counters();
    assert_eq!((counters.retries, counters.lost), (0, 0), "{counters:?}");
    assert_eq!(origin.asked(), 250);
}
