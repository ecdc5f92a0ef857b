//! What happens to keys, sessions, callers and instances over time, with nobody in between.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test has files and sockets of its own"
)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use base::{Digest, Now};
use gate::ports::Clock;
use relay::{
    Callers, Inbound, InboundSettings, Key32, OutboundSettings, PeerKey, Route, TicketKey,
    TicketKeys, To, Token,
};
use rig::*;
use seal::{Identity, Suite};

fn get(address: std::net::SocketAddr) -> Message {
    Line::to(address).ask(&request("GET", "/", b"")).unwrap()
}

fn post(address: std::net::SocketAddr) -> Message {
    Line::to(address)
        .ask(&request("POST", "/", b"body"))
        .unwrap()
}

fn refusal(message: &Message) -> Option<&str> {
    message.field("weir-refusal")
}

#[test]
fn a_restarted_inbound_costs_a_safe_call_nothing() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let mut first = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(first.address), &clock);
    assert_eq!(get(outbound.address).status(), 200);
    first.stop();
    let address = first.address;
    let second = inbound_at(inbound_settings(origin.address), &clock, 1, address);
    clock.pass(2_100);
    assert_eq!(get(outbound.address).status(), 200);
    assert_eq!(post(outbound.address).status(), 200);
    assert_eq!(second.relay.counters().handshakes, 1);
    assert_eq!(second.relay.counters().unknown_ticket, 1);
    assert_eq!(outbound.relay.counters().handshakes, 2);
}

#[test]
fn another_call_owns_up_and_the_next_goes_through() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let mut first = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(first.address), &clock);
    assert_eq!(post(outbound.address).status(), 200);
    first.stop();
    // Nothing is written to nobody: it was not executed, and the caller knows.
    assert_eq!(refusal(&post(outbound.address)), Some("relay.down"));
    let _second = inbound_at(inbound_settings(origin.address), &clock, 1, first.address);
    clock.pass(2_100);
    // A plain 409 can be anybody's, so this may have been executed for all that is known.
    assert_eq!(
        refusal(&post(outbound.address)),
        Some("relay.maybe_executed")
    );
    // It asked for a session all the same, so that the next one is not lost too.
    assert_eq!(post(outbound.address).status(), 200);
    assert_eq!(get(outbound.address).status(), 200);
    assert_eq!(outbound.relay.counters().handshakes, 2);
}

#[test]
fn a_call_waits_for_an_inbound_that_has_just_begun() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound_at(inbound_settings(origin.address), &clock, 1, anywhere());
    let health = || {
        Line::to(inbound.address)
            .ask(b"GET /health/ready HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap()
            .status()
    };
    assert_eq!((inbound.relay.is_ready(), health()), (false, 503));
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    // It waits for two seconds, because a handshake that is refused runs nothing.
    assert_eq!(post(outbound.address).status(), 200);
    assert!(inbound.relay.counters().handshakes_failed > 0);
    clock.pass(500);
    assert_eq!((inbound.relay.is_ready(), health()), (true, 200));
    assert_eq!(origin.asked(), 1);
}

/// A clock that stands where it is put.
struct Standing(AtomicU64);

impl Clock for Standing {
    fn now(&self) -> Now {
        let mono_ms = self.0.load(Ordering::Relaxed);
        Now {
            unix_ms: 1_790_000_000_000 + mono_ms,
            mono_ms,
        }
    }

    fn after(&self, _ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn whoever_is_ready_takes_what_was_sealed_half_a_second_ago() {
    let clock = Arc::new(Standing(AtomicU64::new(0)));
    let (gate, _) = gate(PERMIT_ALL, &["origin"], &Shifted::new());
    let settings = inbound_settings(([127, 0, 0, 1], 1).into());
    let relay = Inbound::new(settings, gate, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    let mut began_ms = None;
    for ms in 0..4_000 {
        clock.0.store(ms, Ordering::Relaxed);
        assert!(began_ms.is_none() || relay.is_ready(), "not at {ms} ms");
        began_ms = began_ms.or(relay.is_ready().then_some(ms));
    }
    // Of what is sealed up to START_MS after its start it knows nothing.
    assert_eq!(began_ms, Some(seal::replay::START_MS + 1 + 500));
}

#[test]
fn sessions_run_out_and_are_renewed_before() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    assert_eq!(post(outbound.address).status(), 200);
    // Long after the session has run out: the inbound's own ticket key has turned over by then.
    clock.pass(2 * 3_600_000);
    while inbound.relay.counters().handshakes < 2 {
        let status = post(outbound.address).status();
        assert!(status == 200 || status == 503, "{status}");
    }
    assert_eq!(post(outbound.address).status(), 200);
    // At nine tenths of its life it is renewed, whoever asks.
    clock.pass(3_240_000);
    while outbound.relay.counters().handshakes < 3 {
        assert_eq!(post(outbound.address).status(), 200);
    }
}

#[test]
fn short_sessions_run_out_under_load_and_nothing_fails() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let settings = InboundSettings {
        session_ms: 1_000,
        ..inbound_settings(origin.address)
    };
    let inbound = inbound_at(settings, &clock, 2, anywhere());
    clock.pass(2_100);
    let outbound = outbound_at(outbound_settings(inbound.address), &clock, 2, anywhere());
    let load = Load::on(outbound.address, 4);
    while inbound.relay.counters().handshakes < 4 {
        load.go_on(50);
    }
    assert_eq!(load.end(), []);
    assert_eq!(outbound.relay.counters().retries, 0);
}

/// Calls without end until it is dropped; gives how many went wrong.
struct Load {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    threads: Vec<thread::JoinHandle<Vec<Message>>>,
}

impl Load {
    fn on(address: std::net::SocketAddr, threads: usize) -> Load {
        let (stop, made) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let start = |_| {
            let (stop, made) = (Arc::clone(&stop), Arc::clone(&made));
            thread::spawn(move || {
                let (mut wrong, mut line) = (Vec::new(), Line::to(address));
                while !stop.load(Ordering::SeqCst) {
                    let answer = line.ask(&request("POST", "/load", b"body")).unwrap();
                    if answer.status() != 200 || answer.body != b"body" {
                        wrong.push(answer);
                    }
                    made.fetch_add(1, Ordering::SeqCst);
                }
                wrong
            })
        };
        let threads = (0..threads).map(start).collect();
        Load {
            stop,
            made,
            threads,
        }
    }

    /// Waits until so many more calls were made.
    fn go_on(&self, more: usize) {
        let until = self.made.load(Ordering::SeqCst) + more;
        while self.made.load(Ordering::SeqCst) < until {
            assert!(self.threads.iter().any(|thread| !thread.is_finished()));
            thread::yield_now();
        }
    }

    fn end(self) -> Vec<Message> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    }
}

fn tek(id: u32, begins_unix_ms: u64) -> TicketKey {
    TicketKey {
        id,
        key: Key32::new([id as u8; 32]),
        begins_unix_ms,
    }
}

#[test]
fn every_key_turns_over_under_load() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let now = gate::ports::Clock::now(&*clock).unix_ms;
    let settings = |seeds: &[u8], teks: &[u32]| InboundSettings {
        identities: seeds.iter().map(|seed| in_key(*seed)).collect(),
        ticket_keys: TicketKeys::Given(
            teks.iter()
                .map(|id| tek(*id, now - 1_000 + u64::from(*id)))
                .collect(),
        ),
        ..inbound_settings(origin.address)
    };
    let outside = |seeds: &[u8], inbound| {
        let mut settings = outbound_settings(inbound);
        let keys = seeds
            .iter()
            .map(|seed| PeerKey::Public(in_key(*seed).public().clone()));
        settings.peers[0].keys = keys.collect();
        settings
    };
    let inbound = inbound_at(settings(&[2], &[1]), &clock, 2, anywhere());
    clock.pass(2_100);
    let outbound = outbound_at(outside(&[2], inbound.address), &clock, 2, anywhere());
    let load = Load::on(outbound.address, 4);
    load.go_on(200);
    inbound.relay.reload(settings(&[2], &[1, 2])).unwrap();
    load.go_on(100);
    inbound.relay.reload(settings(&[2, 3], &[1, 2])).unwrap();
    load.go_on(100);
    outbound
        .relay
        .reload(outside(&[3, 2], inbound.address))
        .unwrap();
    load.go_on(100);
    // Only the new key is left on our side: a new session is made with it.
    outbound
        .relay
        .reload(outside(&[3], inbound.address))
        .unwrap();
    load.go_on(200);
    inbound.relay.reload(settings(&[3], &[2, 3])).unwrap();
    load.go_on(200);
    assert_eq!(load.end(), []);
    assert!(inbound.relay.counters().handshakes >= 2);
}

#[test]
fn a_drain_loses_nothing() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let mut outbound = outbound(outbound_settings(inbound.address), &clock);
    let mut lines: Vec<Line> = (0..4).map(|_| Line::to(outbound.address)).collect();
    for line in &mut lines {
        assert_eq!(line.ask(&request("POST", "/", b"x")).unwrap().status(), 200);
    }
    outbound.drain.start();
    while outbound.relay.is_ready() {
        thread::yield_now();
    }
    for line in &mut lines {
        let answer = line.ask(&request("POST", "/", b"x")).unwrap();
        assert_eq!(
            (answer.status(), answer.field("connection")),
            (200, Some("close"))
        );
        assert!(!line.more().unwrap());
    }
    outbound.stop();
}

#[test]
fn both_sides_have_to_be_who_they_say() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let with = |change: &dyn Fn(&mut OutboundSettings)| {
        let mut settings = outbound_settings(inbound.address);
        change(&mut settings);
        let outbound = outbound(settings, &clock);
        post(outbound.address)
    };
    // Another pin than the inbound's, a key that is not enrolled, a key of the pair on one side, a token on one side.
    let other_pin = with(&|s| s.peers[0].keys = vec![PeerKey::Pin(in_key(9).public().pin())]);
    let other_key = with(&|s| s.peers[0].keys = vec![PeerKey::Public(in_key(9).public().clone())]);
    let stranger = with(&|s| s.peers[0].identity = Arc::new(Identity::from_seed(&[8; 32])));
    let psk = with(&|s| s.peers[0].psks = vec![Key32::new([7; 32])]);
    let token = with(&|s| s.peers[0].token = Some(Token::new(vec![7; 16])));
    for answer in [other_pin, other_key, stranger, psk, token] {
        assert_eq!(
            (answer.status(), refusal(&answer)),
            (503, Some("relay.down"))
        );
    }
    assert_eq!(origin.asked(), 0);
    // The right pin alone, and each suite.
    for suite in Suite::ALL {
        let answer = with(&|s| {
            s.peers[0].keys = vec![PeerKey::Pin(in_key(2).public().pin())];
            s.peers[0].suite = suite;
            s.peers[0].padding = true;
        });
        assert_eq!(answer.status(), 200, "{suite:?}");
    }
}

#[test]
fn a_pair_with_a_key_of_its_own_and_a_token() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let mut settings = inbound_settings(origin.address);
    settings.peers[0].psk = Some(Key32::new([7; 32]));
    settings.tokens = vec![Token::new(vec![6; 16])];
    settings.padding = true;
    let inbound = inbound(settings, &clock);
    let mut settings = outbound_settings(inbound.address);
    settings.peers[0].psks = vec![Key32::new([5; 32]), Key32::new([7; 32])];
    settings.peers[0].token = Some(Token::new(vec![6; 16]));
    let outbound = outbound(settings, &clock);
    assert_eq!(post(outbound.address).status(), 200);
}

#[test]
fn a_stranger_is_refused_and_a_token_goes_no_further() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let digest = |text: &str| {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        Digest(hash.as_ref().try_into().unwrap())
    };
    let mut settings = outbound_settings(inbound.address);
    settings.callers = Callers {
        tokens: vec![(digest("right"), agent("dev"))],
        anyone: None,
        ..anyone()
    };
    let outbound = outbound(settings, &clock);
    let with = |field: &str| {
        let text = format!("GET / HTTP/1.1\r\nhost: a\r\n{field}\r\n");
        Line::to(outbound.address).ask(text.as_bytes()).unwrap()
    };
    for stranger in [
        "",
        "proxy-authorization: Bearer wrong\r\n",
        "proxy-authorization: Basic right\r\n",
        "proxy-authorization: right\r\n",
        "proxy-authorization: Bearer right\r\nproxy-authorization: Bearer right\r\n",
        "authorization: Bearer right\r\n",
    ] {
        let answer = with(stranger);
        assert_eq!(
            (answer.status(), refusal(&answer)),
            (407, Some("relay.caller")),
            "{stranger}"
        );
    }
    assert_eq!(origin.asked(), 0);
    assert_eq!(
        with("Proxy-Authorization: bearer right\r\nauthorization: Bearer mine\r\n").status(),
        200
    );
    let seen = origin.seen.lock().unwrap();
    assert_eq!(seen[0].field("proxy-authorization"), None);
    assert_eq!(seen[0].field("authorization"), Some("Bearer mine"));
    let records = outbound.kept.all();
    assert_eq!(
        records
            .iter()
            .filter(|r| r.contains("relay.caller"))
            .count(),
        6,
        "one by one"
    );
    assert!(
        records
            .iter()
            .any(|r| r.contains("\"agent\":\"dev\"") && r.contains("relay:pass"))
    );
    assert!(!records.iter().any(|r| r.contains("right")));
}

#[test]
fn many_calls_are_one_record_and_the_gate_can_say_no() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    for _ in 0..20 {
        assert_eq!(post(outbound.address).status(), 200);
    }
    let passages = |kept: &Kept| {
        let all = kept.all();
        all.iter()
            .filter(|r| r.contains("\"method\":\"http\"") && r.contains("\"decision\":\"pass\""))
            .count()
    };
    assert_eq!((passages(&outbound.kept), passages(&inbound.kept)), (1, 1));
    clock.pass(61_000);
    assert_eq!(post(outbound.address).status(), 200);
    assert_eq!((passages(&outbound.kept), passages(&inbound.kept)), (2, 2));
    let counted = |kept: &Kept| kept.all().iter().any(|r| r.contains("\"calls\":20"));
    assert!(counted(&outbound.kept) && counted(&inbound.kept));

    // Bodies of four bytes, both ways, and at the outbound what frames them.
    assert!(
        inbound
            .kept
            .all()
            .iter()
            .any(|r| r.contains("\"bytes\":160,"))
    );

    // The inbound's gate changes its mind; what it says comes back under the seal.
    inbound
        .gate
        .replace(rules("forbid (principal, action, resource);", &["origin"]));
    let answer = post(outbound.address);
    assert_eq!(
        (answer.status(), refusal(&answer)),
        (403, Some("relay.refused"))
    );
    outbound
        .gate
        .replace(rules("forbid (principal, action, resource);", &["peer"]));
    let answer = post(outbound.address);
    assert_eq!(
        (answer.status(), refusal(&answer)),
        (403, Some("policy.forbidden"))
    );
    assert_eq!(origin.asked(), 21);
}

#[test]
fn a_peer_that_is_struck_off_is_refused_at_once() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    assert_eq!(post(outbound.address).status(), 200);
    let none = || InboundSettings {
        peers: Vec::new(),
        ..inbound_settings(origin.address)
    };
    // What is only checked changes nothing.
    drop(inbound.relay.prepare(none()).unwrap());
    assert_eq!(post(outbound.address).status(), 200);
    inbound.relay.reload(none()).unwrap();
    assert_eq!(post(outbound.address).status(), 502);
    assert_eq!(get(outbound.address).status(), 502);
    inbound
        .relay
        .reload(inbound_settings(origin.address))
        .unwrap();
    assert_eq!(post(outbound.address).status(), 200);
    assert_eq!(origin.asked(), 3);
}

#[test]
fn an_origin_that_is_not_there_was_not_asked() {
    let clock = Shifted::new();
    let nobody = std::net::TcpListener::bind(anywhere())
        .unwrap()
        .local_addr()
        .unwrap();
    let inbound = inbound(inbound_settings(nobody), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    let answer = post(outbound.address);
    assert_eq!(
        (answer.status(), refusal(&answer)),
        (502, Some("relay.origin"))
    );
    assert_eq!(inbound.relay.counters().not_reached, 3);
}

#[test]
fn some_routes_go_on_as_they_are() {
    let (origin, other, clock) = (Origin::echo(), Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let mut settings = outbound_settings(inbound.address);
    settings.plain = vec![(name("other"), endpoint(other.address))];
    let plain = Route {
        path: "/plain".into(),
        ..everything_to(To::Plain(name("other"))).remove(0)
    };
    settings.routes.insert(0, plain);
    let outbound = outbound(settings, &clock);
    let mut line = Line::to(outbound.address);
    for bytes in [0, 10, 100_000, 3 << 20] {
        let body = vec![b'x'; bytes];
        let answer = line.ask(&request("POST", "/plain/x", &body)).unwrap();
        assert!(answer.status() == 200 && answer.body == body, "{bytes}");
    }
    assert_eq!((other.asked(), origin.asked()), (4, 0));
    assert_eq!(
        line.ask(&request("POST", "/plainer", b""))
            .unwrap()
            .status(),
        200
    );
    assert_eq!((other.asked(), origin.asked()), (4, 1));
}

#[test]
fn a_user_of_this_machine_calls_by_a_unix_socket() {
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let folder = std::env::temp_dir().join(format!("weir-relay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let own_uid = std::fs::metadata(&folder).unwrap().uid();
    for (uid, status) in [(own_uid, "200"), (own_uid + 1, "407")] {
        let mut settings = outbound_settings(inbound.address);
        settings.callers = Callers {
            users: vec![(uid, agent("user"))],
            anyone: None,
            ..anyone()
        };
        let path = folder.join(status);
        let listener = net::Listener::unix(&path, 0o600).unwrap();
        let outbound = outbound_on(settings, &clock, vec![listener]);
        let mut stream = UnixStream::connect(&path).unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        drop(outbound);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn stages_are_timed_now_and_then() {
    let (origin, clock) = (Origin::echo(), Shifted::new());
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    let mut line = Line::to(outbound.address);
    for _ in 0..64 {
        assert_eq!(line.ask(&request("POST", "/", b"x")).unwrap().status(), 200);
    }
    let counted = |counters: relay::Snapshot| counters.completed == 64 && counters.timed == 4;
    assert!(comes(|| {
        counted(inbound.relay.counters()) && counted(outbound.relay.counters())
    }));
    for counters in [outbound.relay.counters(), inbound.relay.counters()] {
        assert_eq!(
            (counters.requests, counters.completed, counters.timed),
            (64, 64, 4)
        );
        assert!(counters.first_ns > 0 && counters.wait_ns > 0 && counters.last_ns > 0);
    }
}
