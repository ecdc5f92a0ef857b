//! TLS, HTTP/2, and targets that are not what they should be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lab::plan::{BodyCheck, Expect, Flow, Protocol, Value};
use lab::tally::{Fault, Metric};
use lab::template::{Body, Template};

use crate::rig::{Act, Raw, drive, faults, flow, hold, refusal};
use crate::secure::{Certificate, Echo};

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Makes the first request one that is echoed, with a body that no other has.
fn echoing(flow: &mut Flow, bytes: usize) {
    let request = &mut flow.requests[0];
    request.method = "POST".to_owned();
    request.body = Body::Unique { bytes };
    let json = Value::Text(Template::plain("application/json"));
    request.headers.push(("content-type".to_owned(), json));
    request.expect = Expect {
        body: BodyCheck::Echo,
        ..Expect::default()
    };
}

/// A flow to an echo server; the server counts what the client claims.
fn check(echo: &Echo, mut flow: Flow, connections: usize) {
    flow.connections = connections;
    flow.profile = hold(connections as f64, 300);
    let tls = flow.targets[0].tls;
    echoing(&mut flow, 1000);
    let outcome = drive(flow);
    assert_eq!(outcome.failure, None);
    let total = outcome.total();
    assert_eq!(
        total.good, total.completed,
        "{:?} {:?}",
        total.faults, outcome.notes
    );
    assert!(total.good > 1, "only {} in 300 ms", total.good);
    assert_eq!(total.sent, total.good);
    assert_eq!(total.good, count(&echo.requests));
    assert_eq!(total.connections, connections as u64);
    assert_eq!(total.connections, count(&echo.connections));
    assert_eq!(total.statuses[200], total.good);
    assert!(total.bytes_out > total.good * 1000 && total.bytes_in > total.good * 1000);
    let times = |metric| total.distribution(metric).map_or(0, |d| d.count());
    assert_eq!(times(Metric::Connect), total.connections);
    assert_eq!(times(Metric::Tls), if tls { total.connections } else { 0 });
    assert_eq!(times(Metric::Response), total.good);
}

#[test]
fn http1_over_tls() {
    let certificate = Certificate::new();
    let echo = Echo {
        tls: Some(certificate.server(&["http/1.1"], false)),
        ..Echo::default()
    };
    let mut flow = flow(echo.start());
    flow.targets[0].tls = true;
    flow.tls = Some(certificate.client());
    flow.threads = 2;
    check(&echo, flow, 4);
}

#[test]
fn http2_over_tls() {
    let certificate = Certificate::new();
    let echo = Echo {
        tls: Some(certificate.server(&["h2"], false)),
        http2: true,
        ..Echo::default()
    };
    let mut flow = flow(echo.start());
    flow.targets[0].tls = true;
    flow.tls = Some(certificate.client());
    flow.protocol = Protocol::Http2 { streams: 8 };
    check(&echo, flow, 2);
}

#[test]
fn http2_without_tls() {
    let echo = Echo {
        http2: true,
        ..Echo::default()
    };
    let mut flow = flow(echo.start());
    flow.protocol = Protocol::Http2 { streams: 4 };
    check(&echo, flow, 3);
}

#[test]
fn a_client_certificate_is_shown() {
    let certificate = Certificate::new();
    let echo = Echo {
        tls: Some(certificate.server(&["http/1.1"], true)),
        ..Echo::default()
    };
    let address = echo.start();
    let mut with = flow(address);
    with.targets[0].tls = true;
    with.tls = Some(certificate.client_with_certificate());
    check(&echo, with, 1);
    let mut without = flow(address);
    without.targets[0].tls = true;
    without.tls = Some(certificate.client());
    let failure = refusal(without);
    assert!(failure.what.contains("refuses the client"), "{failure}");
    assert!(failure.help.contains("--cert"), "{failure}");
}

#[test]
fn one_wrong_byte_is_found() {
    let certificate = Certificate::new();
    for http2 in [false, true] {
        let protocols = if http2 { ["h2"] } else { ["http/1.1"] };
        let echo = Echo {
            tls: Some(certificate.server(&protocols, false)),
            http2,
            wrong: 5,
            ..Echo::default()
        };
        let mut flow = flow(echo.start());
        flow.targets[0].tls = true;
        flow.tls = Some(certificate.client());
        if http2 {
            flow.protocol = Protocol::Http2 { streams: 2 };
        }
        echoing(&mut flow, 20_000);
        let outcome = drive(flow);
        let total = outcome.total();
        assert_eq!(faults(&total, Fault::Integrity), 1, "{:?}", total.faults);
        assert_eq!(total.failures(), 1);
        assert_eq!(total.completed, count(&echo.requests));
        assert_eq!(outcome.notes.len(), 1);
        let note = &outcome.notes[0];
        assert_eq!(note.offset, Some(10), "{note:?}");
        assert_eq!(note.fault, "integrity");
        let hex = |hex: &Option<String>| hex.clone().unwrap();
        assert_eq!(hex(&note.expected_hex)[..20], hex(&note.received_hex)[..20]);
        assert_ne!(
            hex(&note.expected_hex)[20..22],
            hex(&note.received_hex)[20..22]
        );
    }
}

#[test]
fn certificates_that_do_not_verify() {
    let (certificate, other) = (Certificate::new(), Certificate::new());
    let echo = Echo {
        tls: Some(certificate.server(&["http/1.1"], false)),
        ..Echo::default()
    };
    let address = echo.start();
    let secure = |client| {
        let mut flow = flow(address);
        flow.targets[0].tls = true;
        flow.tls = Some(client);
        flow
    };
    let failure = refusal(secure(other.client()));
    assert!(failure.what.contains("does not verify") || failure.what.contains("trusted"));
    assert!(
        failure.help.contains("--ca") && failure.help.contains("--insecure"),
        "{failure}"
    );
    let mut named = secure(certificate.client());
    named.targets[0].host = "example.test".to_owned();
    let failure = refusal(named);
    assert!(failure.what.contains("not for `example.test`"), "{failure}");
    let mut http2 = secure(certificate.client());
    http2.protocol = Protocol::Http2 { streams: 1 };
    let failure = refusal(http2);
    assert!(failure.what.contains("ALPN h2"), "{failure}");
    assert_eq!(count(&echo.requests), 0);
}

#[test]
fn targets_that_are_not_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = refusal(flow(address));
    assert!(failure.what.contains("cannot be reached"), "{failure}");
    assert!(failure.help.contains("start the target"), "{failure}");
    let raw = Raw::new(|_| vec![Act::Close]);
    let mut secure = flow(raw.address);
    secure.targets[0].tls = true;
    secure.tls = Some(Certificate::new().client());
    let failure = refusal(secure);
    assert!(failure.what.contains("TLS"), "{failure}");
}

#[test]
fn targets_that_speak_something_else() {
    let raw = Raw::new(|_| vec![Act::Write(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()), Act::Close]);
    let failure = refusal(flow(raw.address));
    assert!(
        failure.what.contains("does not speak HTTP/1.1"),
        "{failure}"
    );
    let echo = Echo::default();
    let mut http2 = flow(echo.start());
    http2.protocol = Protocol::Http2 { streams: 1 };
    let failure = refusal(http2);
    assert!(failure.what.contains("does not speak HTTP/2"), "{failure}");
}

#[test]
fn expectations_are_judged() {
    let raw = Raw::new(|heard| match heard.path.as_str() {
        "/429" => crate::rig::answer(429, "", b"slow down"),
        "/500" => crate::rig::answer(500, "", b""),
        _ => crate::rig::answer(200, "x-a: 1\r\n", b"hello world"),
    });
    let fault = |path: &str, expect: Expect| {
        let mut flow = flow(raw.address);
        flow.profile = hold(1.0, 100);
        flow.requests[0].path = Template::plain(path);
        flow.requests[0].expect = expect;
        let total = drive(flow).total();
        let all = Fault::ALL
            .iter()
            .find(|fault| total.faults[**fault as usize] > 0);
        assert_eq!(total.completed, total.good + total.failures());
        all.copied()
    };
    let body = |body| Expect {
        body,
        ..Expect::default()
    };
    let header = |value: &str| Expect {
        headers: vec![("x-a".to_owned(), value.to_owned())],
        ..Expect::default()
    };
    assert_eq!(fault("/", Expect::default()), None);
    assert_eq!(fault("/429", Expect::default()), Some(Fault::Limited));
    assert_eq!(fault("/500", Expect::default()), Some(Fault::Server));
    let accepted = Expect {
        statuses: vec![500],
        ..Expect::default()
    };
    assert_eq!(fault("/500", accepted), None);
    assert_eq!(fault("/", header("1")), None);
    assert_eq!(fault("/", header("2")), Some(Fault::Check));
    assert_eq!(
        fault("/", body(BodyCheck::Exact(b"hello world".to_vec()))),
        None
    );
    assert_eq!(
        fault("/", body(BodyCheck::Exact(b"hello".to_vec()))),
        Some(Fault::Check)
    );
    assert_eq!(fault("/", body(BodyCheck::Contains(b"o w".to_vec()))), None);
    assert_eq!(
        fault("/", body(BodyCheck::Contains(b"ow".to_vec()))),
        Some(Fault::Check)
    );
}

#[test]
fn connections_that_end_are_made_again() {
    // Every third request: the server answers, says so, and closes.
    let turn = AtomicU64::new(0);
    let raw = Raw::new(move |_| {
        let closes = turn.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        let fields = if closes { "connection: close\r\n" } else { "" };
        let mut acts = crate::rig::answer(200, fields, b"x");
        acts.extend(closes.then_some(Act::Close));
        acts
    });
    let total = drive(flow(raw.address)).total();
    assert_eq!(total.failures(), 0, "{:?}", total.faults);
    assert_eq!(total.good, raw.requests());
    assert_eq!(total.connections, raw.connections());
    assert_eq!(
        total.connections,
        total.good.div_ceil(3).max(1),
        "{} good",
        total.good
    );
}

#[test]
fn a_connection_for_each_request() {
    let raw = Raw::new(|_| crate::rig::answer(200, "", b"x"));
    let mut flow = flow(raw.address);
    flow.reconnect = true;
    flow.profile = hold(1.0, 100);
    let total = drive(flow).total();
    assert_eq!(total.failures(), 0, "{:?}", total.faults);
    assert!(total.good > 1);
    assert_eq!(total.connections, total.good);
    assert_eq!(total.connections, raw.connections());
}

#[test]
fn answers_that_break_off() {
    let raw = Raw::new(|_| {
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello".to_vec();
        vec![Act::Write(half), Act::Close]
    });
    let mut flow = flow(raw.address);
    flow.profile = hold(1.0, 100);
    flow.pause = Duration::from_millis(1);
    let total = drive(flow).total();
    assert_eq!(
        faults(&total, Fault::Closed),
        total.failures(),
        "{:?}",
        total.faults
    );
    assert_eq!(total.sent, total.failures());
    assert_eq!(total.sent, raw.requests());
    assert_eq!(total.completed, 0);
}
