//! What stands between the relays sees nothing, changes nothing, and makes nothing run twice.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use net::h1::ConnectionSettings;
use relay::{Inbound, Outbound};
use rig::*;

/// A pair with something in between, whose waits are short.
struct Pair {
    outbound: Serving<Outbound>,
    inbound: Serving<Inbound>,
    middle: Middle,
    clock: Arc<Shifted>,
}

fn short() -> ConnectionSettings {
    ConnectionSettings {
        head_ms: 400,
        piece_ms: 400,
        answer_ms: 400,
        drain_ms: 500,
        ..ConnectionSettings::default()
    }
}

fn pair(origin: &Origin, change: Arc<Change>) -> Pair {
    let clock = Shifted::new();
    let mut settings = inbound_settings(origin.address);
    (settings.edge, settings.upstream) = (short(), short());
    let inbound = inbound(settings, &clock);
    let middle = Middle::new(inbound.address, change);
    let mut settings = outbound_settings(middle.address);
    (settings.edge, settings.upstream) = (short(), short());
    let outbound = outbound(settings, &clock);
    Pair {
        outbound,
        inbound,
        middle,
        clock,
    }
}

/// An origin that counts how often each path was executed, and gives bodies back.
fn counting() -> (Origin, Arc<Mutex<HashMap<String, usize>>>) {
    let counts = Arc::new(Mutex::new(HashMap::new()));
    let kept = Arc::clone(&counts);
    let origin = Origin::new(move |mut head, line| {
        line.body(&mut head)?;
        *kept
            .lock()
            .unwrap()
            .entry(head.path().to_owned())
            .or_default() += 1;
        let length = head.body.len();
        line.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").as_bytes())?;
        line.send(&head.body)
    });
    (origin, counts)
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    let lower = haystack.to_ascii_lowercase();
    lower
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

#[test]
fn the_middle_sees_no_canary() {
    let origin = Origin::new(|mut head, line| {
        line.body(&mut head)?;
        assert!(
            head.line
                .starts_with("CANARYMETHOD /canarypath?canaryquery")
        );
        assert_eq!(head.trailers.len(), 1);
        line.send(
            b"HTTP/1.1 299 canaryreason\r\ncanaryname2: canaryvalue2\r\nset-cookie: s=canarycookie2\r\ntransfer-encoding: chunked\r\n\r\n\
              b\r\ncanarybody2\r\n0\r\ncanarytrailer2: canarytail2\r\n\r\n",
        )
    });
    let pair = pair(&origin, Arc::new(|_, _| true));
    let answer = Line::to(pair.outbound.address).ask(
        b"CANARYMETHOD /canarypath?canaryquery HTTP/1.1\r\nhost: canaryhost\r\ncanaryname: canaryvalue\r\ncookie: canarycookie\r\n\
          transfer-encoding: chunked\r\n\r\na\r\ncanarybody\r\n0\r\ncanarytrailer: canarytail\r\n\r\n",
    );
    let answer = answer.unwrap();
    assert_eq!(
        (answer.status(), answer.body.as_slice()),
        (299, &b"canarybody2"[..])
    );
    assert_eq!(
        answer.trailers,
        [("canarytrailer2".to_owned(), "canarytail2".to_owned())]
    );
    let captured = pair.middle.captured.lock().unwrap();
    assert!(captured.len() > 5_000, "a handshake and a request");
    for canary in ["canary", "299 ", "/canarypath"] {
        assert!(!contains(&captured, canary), "{canary}");
    }
}

/// What is done to the bytes of one direction, once, after so many of them.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip(u8),
    Cut,
    Drop(usize),
    Double(usize),
    Swap(usize),
}

#[derive(Default)]
struct Plan {
    armed: Option<(Toward, usize, Harm)>,
    seen: usize,
}

fn harm(plan: &Mutex<Plan>, toward: Toward, bytes: &mut Vec<u8>) -> bool {
    let mut plan = plan.lock().unwrap();
    let Some((way, offset, what)) = plan.armed else {
        return true;
    };
    if way != toward {
        return true;
    }
    let at = offset.checked_sub(plan.seen);
    plan.seen += bytes.len();
    let Some(at) = at.filter(|at| *at < bytes.len()) else {
        return true;
    };
    plan.armed = None;
    let end = |count: usize| (at + count).min(bytes.len());
    match what {
        Harm::Flip(bit) => bytes[at] ^= 1 << bit,
        Harm::Cut => {
            bytes.truncate(at);
            return false;
        }
        Harm::Drop(count) => drop(bytes.drain(at..end(count))),
        Harm::Double(count) => {
            let part = bytes[at..end(count)].to_vec();
            bytes.splice(at..at, part);
        }
        Harm::Swap(count) => {
            let end = (at + 2 * count).min(bytes.len());
            let middle = at + (end - at) / 2;
            bytes[at..end].rotate_left(middle - at);
        }
    }
    true
}

/// Harms one of many requests at each sampled place: whatever comes of it, no byte is wrong and nothing runs twice.
fn harmed(toward: Toward, body_bytes: usize, reach: usize, step: usize) {
    let (origin, counts) = counting();
    let plan = Arc::new(Mutex::new(Plan::default()));
    let harming = Arc::clone(&plan);
    let pair = pair(
        &origin,
        Arc::new(move |toward, bytes| harm(&harming, toward, bytes)),
    );
    let mut random = fastrand::Rng::with_seed(9);
    let (mut fine, mut number) = (0, 0);
    for offset in (0..reach).step_by(step) {
        for what in [
            Harm::Flip(random.u8(..8)),
            Harm::Cut,
            Harm::Drop(5),
            Harm::Double(40),
            Harm::Swap(20),
        ] {
            number += 1;
            let method = if number % 2 == 0 { "POST" } else { "GET" };
            let path = format!("/{number}");
            let body: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
                .take(body_bytes)
                .collect();
            // A connection and a session that work: what was harmed before may have left one that does not.
            let mut line = Line::to(pair.outbound.address);
            while line.ask(&request("GET", "/warm", b"")).unwrap().status() != 200 {}
            *plan.lock().unwrap() = Plan {
                armed: Some((toward, offset, what)),
                seen: 0,
            };
            let answer = line.ask(&request(method, &path, &body));
            plan.lock().unwrap().armed = None;
            if let Ok(answer) = answer {
                match answer.status() {
                    200 => {
                        assert!(answer.body == body, "{toward:?} {offset} {what:?}");
                        fine += 1;
                    }
                    status => assert!(
                        (500..504).contains(&status),
                        "{offset} {what:?}: {answer:?}"
                    ),
                }
            }
            let ran = counts.lock().unwrap().get(&path).copied().unwrap_or(0);
            assert!(
                ran <= 1 || method == "GET",
                "{toward:?} {offset} {what:?}: {ran} times"
            );
        }
    }
    // Safe calls are repeated; a body that goes piece by piece cannot be.
    assert!(fine > 0 || body_bytes > 60_000);
    let mut line = Line::to(pair.outbound.address);
    while line.ask(&request("GET", "/warm", b"")).unwrap().status() != 200 {}
    assert_eq!(
        line.ask(&request("POST", "/after", b"x")).unwrap().status(),
        200
    );
}

#[test]
fn a_harmed_request_runs_once_or_not_at_all() {
    harmed(Toward::Inbound, 300, 900, 61);
}

#[test]
fn a_harmed_answer_is_never_wrong() {
    harmed(Toward::Outbound, 300, 600, 53);
}

#[test]
fn a_harmed_stream_is_cut_and_never_wrong() {
    harmed(Toward::Inbound, 200_000, 200_000, 40_009);
    harmed(Toward::Outbound, 200_000, 200_000, 40_009);
}

#[test]
fn a_captured_request_is_let_through_once() {
    let (origin, counts) = counting();
    let up = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&up);
    let pair = pair(
        &origin,
        Arc::new(move |toward, bytes| {
            if toward == Toward::Inbound {
                keep.lock().unwrap().extend_from_slice(bytes);
            }
            true
        }),
    );
    let mut line = Line::to(pair.outbound.address);
    assert_eq!(
        line.ask(&request("POST", "/first", b"x")).unwrap().status(),
        200
    );
    up.lock().unwrap().clear();
    assert_eq!(
        line.ask(&request("POST", "/once", b"x")).unwrap().status(),
        200
    );
    let captured = up.lock().unwrap().clone();
    for _ in 0..3 {
        let answer = Line::to(pair.inbound.address).ask(&captured).unwrap();
        // Sealed, and made by the weir: which code it is nobody in between can tell.
        assert_eq!((answer.status(), answer.body.len()), (200, 68));
    }
    assert_eq!(counts.lock().unwrap()["/once"], 1);
    assert_eq!(pair.inbound.relay.counters().replays, 3);
    pair.clock.pass(31_000);
    Line::to(pair.inbound.address).ask(&captured).unwrap();
    assert_eq!(counts.lock().unwrap()["/once"], 1);
    assert_eq!(pair.inbound.relay.counters().stale, 1);
}

#[test]
fn a_lost_answer_is_owned_up_to() {
    let (origin, counts) = counting();
    let cut = Arc::new(AtomicBool::new(false));
    let cutting = Arc::clone(&cut);
    let pair = pair(
        &origin,
        Arc::new(move |toward, _| {
            !(toward == Toward::Outbound && cutting.swap(false, Ordering::SeqCst))
        }),
    );
    let mut line = Line::to(pair.outbound.address);
    assert_eq!(
        line.ask(&request("GET", "/warm", b"")).unwrap().status(),
        200
    );
    cut.store(true, Ordering::SeqCst);
    let answer = line.ask(&request("POST", "/lost", b"x")).unwrap();
    assert_eq!(
        (answer.status(), answer.field("weir-refusal")),
        (502, Some("relay.maybe_executed"))
    );
    assert_eq!(counts.lock().unwrap()["/lost"], 1);
    // A safe call is repeated: its first attempt is found claimed, so the third is a message of its own.
    cut.store(true, Ordering::SeqCst);
    assert_eq!(
        line.ask(&request("GET", "/again", b"")).unwrap().status(),
        200
    );
    assert_eq!(counts.lock().unwrap()["/again"], 2);
    assert_eq!(pair.inbound.relay.counters().replays, 1);
}

/// What comes back is replaced by these bytes while the switch is on.
fn forged(answer: &'static [u8]) -> (Arc<AtomicUsize>, Arc<Change>) {
    let left = Arc::new(AtomicUsize::new(0));
    let forging = Arc::clone(&left);
    let change = Arc::new(move |toward, bytes: &mut Vec<u8>| {
        let on = || {
            forging
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
        };
        if toward == Toward::Outbound && on() {
            *bytes = answer.to_vec();
        }
        true
    });
    (left, change)
}

#[test]
fn forged_answers_move_nothing() {
    for answer in [
        &b"HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 421 Misdirected Request\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 425 Too Early\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 301 Moved Permanently\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nrubbish",
        b"HTTP/1.1 200 OK\r\ncontent-length: 68\r\n\r\n\x01\x02\x00\x01\x00\x01\x00\x00____________________________________________________________",
        b"rubbish",
    ] {
        let (origin, counts) = counting();
        let (left, change) = forged(answer);
        let pair = pair(&origin, change);
        let mut line = Line::to(pair.outbound.address);
        assert_eq!(line.ask(&request("GET", "/warm", b"")).unwrap().status(), 200);
        left.store(1, Ordering::SeqCst);
        let told = line.ask(&request("POST", "/one", b"x")).unwrap();
        assert_eq!(told.field("weir-refusal"), Some("relay.maybe_executed"), "{told:?}");
        assert!(counts.lock().unwrap()["/one"] == 1);
        // The session was not ended by it, nor was the clock moved: the next call goes through.
        assert_eq!(line.ask(&request("POST", "/two", b"x")).unwrap().status(), 200);
        assert_eq!(counts.lock().unwrap()["/two"], 1);
        assert!(pair.inbound.relay.counters().stale == 0);
    }
}

#[test]
fn junk_at_the_inbound_is_told_in_one_word() {
    let (origin, _) = counting();
    let pair = pair(&origin, Arc::new(|_, _| true));
    let post = |body: &[u8]| {
        let head = format!(
            "POST /.well-known/shr/1 HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Line::to(pair.inbound.address)
            .ask(&[head.as_bytes(), body].concat())
            .unwrap()
    };
    let kid = in_key(2).public().kid().0;
    let init = |kid: &[u8], rest: u8| {
        let mut init = vec![1, 3, 0, 1, 0, 0, 0, 0];
        init.extend_from_slice(kid);
        init.resize(2432, rest);
        init
    };
    let mut version = init(&kid, 0);
    version[0] = 2;
    for (body, status) in [
        (Vec::new(), 400),
        (vec![1], 400),
        (vec![0; 300], 426),
        ([1, 9, 0, 1, 0, 0, 0, 144].repeat(50), 400),
        ([1, 1, 0, 1, 0, 0, 0, 144].repeat(50), 409),
        (init(&kid, 7), 403),
        (init(&[0; 8], 7), 421),
        (init(&kid, 7)[..2431].to_vec(), 400),
        ([&init(&kid, 7)[..], &[0]].concat(), 400),
        (version, 426),
    ] {
        assert_eq!(
            post(&body).status(),
            status,
            "{:?}",
            &body[..body.len().min(8)]
        );
    }
    for _ in 0..2_000 {
        assert_eq!(post(&init(&kid, 9)).status(), 403);
    }
    assert_eq!(origin.asked(), 0);
    // Junk spent no budget: a handshake still gets through.
    assert_eq!(
        Line::to(pair.outbound.address)
            .ask(&request("GET", "/", b""))
            .unwrap()
            .status(),
        200
    );
}
