//! Delays, faults and freezes: known exactly, because they are decided by the number of the request.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Duration, Instant};

use lab::target::{Behaviour, Running, Settings};

use super::client::Client;
use super::started;

fn misbehaving(behaviour: Behaviour) -> Running {
    started(Settings {
        behaviour,
        ..Settings::default()
    })
}

fn parsed<T: std::str::FromStr<Err = String>>(texts: &[&str]) -> Vec<T> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn faults_by_number_are_known_exactly() {
    let target = misbehaving(Behaviour {
        every: parsed(&["503:10", "429:7"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    for nth in 1..=100 {
        let answer = client.post("/echo", &[], "abc");
        let expected = match nth {
            _ if nth % 10 == 0 => 503,
            _ if nth % 7 == 0 => 429,
            _ => 200,
        };
        assert_eq!(answer.status, expected, "request {nth}");
    }
    let counts = target.counts();
    let expected = BTreeMap::from([("503".to_owned(), 10), ("429".to_owned(), 13)]);
    assert_eq!(counts.injected_errors, expected);
    assert_eq!((counts.requests, counts.responses_ok), (100, 77));
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let statuses = |seed| {
        let target = started(Settings {
            seed,
            behaviour: Behaviour {
                chances: parsed(&["500:20%", "503:10%"]),
                ..Behaviour::default()
            },
            ..Settings::default()
        });
        let mut client = Client::to(target.address());
        let statuses: Vec<u16> = (0..200).map(|_| client.get("/").status).collect();
        let count = |status: u16| statuses.iter().filter(|found| **found == status).count() as u64;
        let counts = target.counts();
        assert_eq!(counts.injected_errors["500"], count(500));
        assert_eq!(counts.injected_errors["503"], count(503));
        assert_eq!(counts.responses_ok, count(200));
        statuses
    };
    assert_eq!(statuses(1), statuses(1));
    assert_ne!(statuses(1), statuses(2));
}

#[test]
fn a_closed_connection_carries_no_answer() {
    let target = misbehaving(Behaviour {
        every: parsed(&["close:2"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    assert_eq!(client.get("/").status, 200);
    client.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    assert!(client.try_answer(false).is_none());
    assert_eq!(target.counts().injected_errors["close"], 1);
}

#[test]
fn a_reset_connection_is_reset() {
    let target = misbehaving(Behaviour {
        every: parsed(&["reset:1"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    client.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    let error = client.stream.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(target.counts().injected_errors["reset"], 1);
}

#[test]
fn a_corrupt_answer_differs_in_the_byte_that_is_said() {
    let target = misbehaving(Behaviour {
        every: parsed(&["corrupt:3"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    let sent: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    let mut found = Vec::new();
    for nth in 1..=30_u64 {
        let id = format!("a-{nth}");
        // Whole bodies, streamed bodies and events, in turn.
        let (expected, answer) = match nth % 9 {
            0 => (client.get("/sse?events=4").body, client.get("/")),
            _ => (
                sent.clone(),
                client.post("/echo", &[("weir-lab-id", &id)], &sent),
            ),
        };
        if nth % 9 == 0 {
            continue;
        }
        assert_eq!((answer.status, answer.body.len()), (200, expected.len()));
        let differ = (0..expected.len()).filter(|at| answer.body[*at] != expected[*at]);
        found.extend(differ.map(|at| (id.clone(), at as u64)));
    }
    let counts = target.counts();
    let said: Vec<_> = counts
        .corrupted
        .iter()
        .filter_map(|one| Some((one.id.clone()?, one.offset)))
        .collect();
    assert!(!found.is_empty());
    assert_eq!(found, said);
    assert_eq!(counts.injected_errors["corrupt"], counts.requests / 3);
    assert_eq!(counts.corrupted.len() as u64, counts.requests / 3);
}

#[test]
fn a_long_echo_is_corrupted_once_too() {
    let target = misbehaving(Behaviour {
        every: parsed(&["corrupt:1"]),
        ..Behaviour::default()
    });
    let sent = vec![7_u8; 3 << 20];
    let mut client = Client::to(target.address());
    let mut writer = client.stream.try_clone().unwrap();
    let body = sent.clone();
    let sender = std::thread::spawn(move || {
        use std::io::Write;
        let length = body.len();
        write!(
            writer,
            "POST /echo HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n"
        )
        .unwrap();
        writer.write_all(&body).unwrap();
    });
    let answer = client.answer(false);
    sender.join().unwrap();
    let differ: Vec<_> = (0..sent.len()).filter(|at| answer.body[*at] != 7).collect();
    assert_eq!(differ.len(), 1);
    assert_eq!(target.counts().corrupted[0].offset, differ[0] as u64);
}

#[test]
fn an_empty_body_cannot_be_corrupt() {
    let target = misbehaving(Behaviour {
        every: parsed(&["corrupt:1"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    assert_eq!(client.get("/bytes/0").status, 200);
    let counts = target.counts();
    assert_eq!((counts.responses_ok, counts.injected_errors.len()), (1, 0));
}

#[test]
fn an_answer_is_never_earlier_than_its_delay() {
    let target = misbehaving(Behaviour {
        delay: "20ms".parse().unwrap(),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    for _ in 0..10 {
        let begun = Instant::now();
        client.get("/");
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
    assert_eq!(target.counts().injected_delays, 10);
}

#[test]
fn nothing_is_answered_in_a_freeze() {
    let target = misbehaving(Behaviour {
        delay: "1ms".parse().unwrap(),
        freezes: parsed(&["200ms..700ms"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    // The first request sets the time zero, so it is known within the time that its answer takes.
    let least = Instant::now();
    client.get("/");
    let most = Instant::now();
    while least.elapsed() < Duration::from_millis(900) {
        let asked = Instant::now();
        client.get("/");
        let answered = Instant::now();
        // An answer that surely left inside the window would be earlier than its end after the earliest zero,
        // to a request sent after the latest one.
        let inside = asked > most + Duration::from_millis(200)
            && answered < least + Duration::from_millis(700);
        assert!(!inside, "answered in the freeze");
    }
    assert_eq!(target.counts().frozen, 1);
    // A reset sets the time zero back: the next window is yet to come.
    target.reset();
    client.get("/");
    assert_eq!(target.counts().frozen, 0);
}

#[test]
fn a_stream_stops_in_a_freeze() {
    let target = misbehaving(Behaviour {
        freezes: parsed(&["100ms..400ms"]),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    let begun = Instant::now();
    let events = client.get("/sse?events=11&gap_ms=20").events();
    assert_eq!(events.len(), 11);
    // The last is due at 200 ms, in the window.
    assert!(begun.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_client_that_goes_is_counted_as_gone() {
    let target = misbehaving(Behaviour {
        delay: "10s".parse().unwrap(),
        ..Behaviour::default()
    });
    let mut client = Client::to(target.address());
    client.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    wait_for(|| target.counts().requests == 1);
    drop(client);
    wait_for(|| target.counts().abandoned == 1);
}

#[test]
fn stopping_does_not_wait_for_what_is_in_flight() {
    let target = misbehaving(Behaviour {
        delay: "600s".parse().unwrap(),
        ..Behaviour::default()
    });
    let address = target.address();
    let mut client = Client::to(address);
    client.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    wait_for(|| target.counts().requests == 1);
    target.stop();
    assert!(client.try_answer(false).is_none());
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// Asks until it is so. The runner's own limit ends it when it never is.
fn wait_for(mut is: impl FnMut() -> bool) {
    while !is() {
        std::thread::yield_now();
    }
}
