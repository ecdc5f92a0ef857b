//! The corpus of `net` that two readers could take in two ways, sent to both ends of a pair: by an application to the
//! outbound, and by an origin to the inbound.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/cases.rs"]
mod cases;
#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex};

use cases::{Case, REQUESTS, cases};
use net::h1::ConnectionSettings;
use rig::*;

fn short() -> ConnectionSettings {
    ConnectionSettings {
        head_ms: 300,
        piece_ms: 300,
        answer_ms: 300,
        drain_ms: 300,
        ..ConnectionSettings::default()
    }
}

#[test]
fn no_request_is_smuggled_to_the_origin() {
    let origin = Origin::echo();
    let clock = Shifted::new();
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let mut settings = outbound_settings(inbound.address);
    settings.edge = short();
    let outbound = outbound(settings, &clock);
    let (mut tried, mut refused, mut allowed) = (0, 0, 0);
    for file in REQUESTS {
        for case in cases(file) {
            let mut line = Line::to(outbound.address);
            // It may be refused before all of it is sent.
            let _ = line.send(&case.sent);
            let _ = line.stream.shutdown(Shutdown::Write);
            while matches!(line.more(), Ok(true)) {}
            // What was read of a case may reach the origin only while the next one is tried.
            allowed += case.requests();
            let asked = origin.asked();
            assert!(
                asked <= allowed,
                "{file}: {}: {asked} of {allowed}",
                case.title
            );
            (tried, refused) = (tried + 1, refused + usize::from(case.is_refused()));
        }
    }
    assert!(tried > 50 && refused > 30, "{tried} {refused}");
    let seen = origin.seen.lock().unwrap();
    for head in seen.iter() {
        let both =
            head.field("content-length").is_some() && head.field("transfer-encoding").is_some();
        assert!(!both, "{head:?}");
        let hosts = head
            .fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        assert_eq!(hosts.count(), 1, "{head:?}");
    }
}

#[test]
fn no_answer_is_split() {
    let next = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&next);
    let origin = Origin::new(move |mut head, line| {
        line.body(&mut head)?;
        if head.path() == "/good" {
            return line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood");
        }
        line.send(&told.lock().unwrap())?;
        line.stream.shutdown(Shutdown::Write)?;
        Err(io::ErrorKind::Other.into())
    });
    let clock = Shifted::new();
    let mut settings = inbound_settings(origin.address);
    settings.upstream = short();
    let inbound = inbound(settings, &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    let mut tried = 0;
    for case in cases("answers-splitting.txt")
        .into_iter()
        .filter(Case::is_refused)
    {
        next.lock().unwrap().clone_from(&case.sent);
        let mut line = Line::to(outbound.address);
        let answer = line.ask(b"POST /bad HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
        // Refused in our own words, or cut; a first answer that was whole may have come before what is refused.
        let first_is_good = case.told.starts_with("200 \"") || case.told.starts_with("1");
        if let Ok(answer) = answer {
            assert!(
                answer.status() == 502 || first_is_good,
                "{}: {answer:?}",
                case.title
            );
        }
        let mut line = Line::to(outbound.address);
        let good = line.ask(b"GET /good HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        assert_eq!(
            (good.status(), good.body.as_slice()),
            (200, &b"good"[..]),
            "{}",
            case.title
        );
        tried += 1;
    }
    assert!(tried > 8, "{tried}");
}
