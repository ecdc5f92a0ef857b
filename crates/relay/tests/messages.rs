//! Whole messages and chunks that are swapped, dropped, doubled, repeated, moved and rewritten on the way: nothing is
//! executed twice on one instance, and no answer is another's.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/between.rs"]
mod between;
#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use between::*;
use net::h1::ConnectionSettings;
use relay::{Enrolled, Inbound, InboundSettings, Key32, PeerKey, TicketKey, TicketKeys};
use rig::*;
use seal::{Identity, Suite};

/// Waits that a test can afford.
fn short() -> ConnectionSettings {
    ConnectionSettings {
        piece_ms: 2_000,
        answer_ms: 2_000,
        drain_ms: 500,
        ..ConnectionSettings::default()
    }
}

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// An origin that counts what was executed, by path, and gives bodies back with their path.
fn counting() -> (Origin, Counts) {
    let counts = Counts::default();
    let kept = Arc::clone(&counts);
    let origin = Origin::new(move |mut head, line| {
        line.body(&mut head)?;
        let path = head.path().to_owned();
        *kept.lock().unwrap().entry(path.clone()).or_default() += 1;
        let length = head.body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nx-path: {path}\r\ncontent-length: {length}\r\n\r\n");
        line.send(&[answer.as_bytes(), &head.body].concat())
    });
    (origin, counts)
}

fn ran(counts: &Counts, path: &str) -> usize {
    counts.lock().unwrap().get(path).copied().unwrap_or(0)
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..))
        .take(bytes)
        .collect()
}

fn quick(origin: SocketAddr) -> InboundSettings {
    InboundSettings {
        edge: short(),
        upstream: short(),
        ..inbound_settings(origin)
    }
}

#[test]
fn answers_that_are_swapped_between_two_calls_reach_neither() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let inbound = inbound(quick(origin.address), &clock);
    // Of each pair of calls both answers are here before either is given to the other.
    let (swapping, meet) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
    let slots: Arc<Mutex<Vec<Message>>> = Arc::default();
    let left = Arc::clone(&swapping);
    let between = Between::new(inbound.address, move |request, next| {
        let mut answer = next(&request)?;
        let take = |n: usize| n.checked_sub(1);
        let swap = is_request(&request)
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok();
        if swap {
            slots.lock().unwrap().push(answer.clone());
            meet.wait();
            let both = slots.lock().unwrap();
            let other = both.iter().position(|one| one.body != answer.body).unwrap();
            answer = both[other].clone();
            drop(both);
            meet.wait();
            slots.lock().unwrap().clear();
        }
        Ok(answer)
    });
    let mut settings = outbound_settings(between.address);
    settings.upstream = short();
    let outbound = outbound(settings, &clock);
    let warm = Line::to(outbound.address).ask(&request("GET", "/warm", b""));
    assert_eq!(warm.unwrap().status(), 200);
    for (method, bytes) in [
        ("POST", 100),
        ("GET", 100),
        ("POST", 150_000),
        ("GET", 150_000),
    ] {
        swapping.store(2, Ordering::SeqCst);
        let asks: Vec<_> = ["one", "two"]
            .into_iter()
            .enumerate()
            .map(|(seed, what)| {
                let (address, path) = (outbound.address, format!("/{what}/{method}/{bytes}"));
                thread::spawn(move || {
                    let body = noise(bytes, seed as u64);
                    let answer = Line::to(address)
                        .ask(&request(method, &path, &body))
                        .unwrap();
                    (path, body, answer)
                })
            })
            .collect();
        for ask in asks {
            let (path, body, answer) = ask.join().unwrap();
            if method == "POST" {
                let said = (answer.status(), answer.field("weir-refusal"));
                assert_eq!(said, (502, Some("relay.maybe_executed")), "{path}");
                assert_eq!(ran(&counts, &path), 1);
            } else {
                // Repeated, because the method is safe; and what comes is its own.
                assert_eq!(
                    (answer.status(), answer.field("x-path")),
                    (200, Some(&*path))
                );
                assert!(answer.body == body);
            }
        }
    }
}

/// What is done to the chunks of one message.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Swap(usize, usize),
    Drop(usize),
    Double(usize),
    /// The same chunk of an earlier message takes its place.
    Foreign(usize),
    Final(usize),
    Open,
    /// The outer message ends cleanly after so many chunks.
    Short(usize),
}

impl Harm {
    const ALL: [Harm; 10] = [
        Harm::Swap(0, 1),
        Harm::Swap(1, 2),
        Harm::Drop(0),
        Harm::Drop(1),
        Harm::Double(1),
        Harm::Foreign(0),
        Harm::Foreign(1),
        Harm::Final(1),
        Harm::Open,
        Harm::Short(2),
    ];

    fn harm(self, body: &mut Vec<u8>, earlier: &[u8], before: usize) {
        let mut parts = chunks(body, before);
        assert!(parts.len() > 3, "{} chunks", parts.len());
        match self {
            Harm::Swap(a, b) => parts.swap(a, b),
            Harm::Drop(at) => drop(parts.remove(at)),
            Harm::Double(at) => parts.insert(at, parts[at].clone()),
            Harm::Foreign(at) => parts[at] = chunks(earlier, before)[at].clone(),
            Harm::Final(at) => parts[at][0] |= 0x80,
            Harm::Open => parts.last_mut().unwrap()[0] &= 0x7f,
            Harm::Short(count) => parts.truncate(count),
        }
        body.truncate(before);
        body.extend(parts.concat());
    }
}

/// Harms one message of each kind in one direction. Gives how many calls came through all the same.
fn harmed(toward: Toward, bytes: usize) -> usize {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let inbound = inbound(quick(origin.address), &clock);
    let armed: Arc<Mutex<Option<Harm>>> = Arc::default();
    let earlier: Arc<Mutex<(Vec<u8>, Vec<u8>)>> = Arc::default();
    let (arm, kept) = (Arc::clone(&armed), Arc::clone(&earlier));
    let between = Between::new(inbound.address, move |mut request, next| {
        if !is_request(&request) {
            return next(&request);
        }
        let harm = arm.lock().unwrap().take();
        let before = request.body.clone();
        if let (Some(harm), Toward::Inbound) = (harm, toward) {
            harm.harm(&mut request.body, &kept.lock().unwrap().0, 200);
        }
        let mut answer = next(&request)?;
        let after = answer.body.clone();
        if let (Some(harm), Toward::Outbound) = (harm, toward) {
            harm.harm(&mut answer.body, &kept.lock().unwrap().1, 32);
        }
        *kept.lock().unwrap() = (before, after);
        Ok(answer)
    });
    let mut settings = outbound_settings(between.address);
    settings.upstream = short();
    let outbound = outbound(settings, &clock);
    let mut fine = 0;
    for (number, harm) in Harm::ALL.into_iter().enumerate() {
        let warm = Line::to(outbound.address).ask(&request("GET", "/warm", &noise(bytes, 99)));
        assert_eq!(warm.unwrap().status(), 200);
        *armed.lock().unwrap() = Some(harm);
        let (path, body) = (format!("/{number}"), noise(bytes, number as u64));
        let answer = Line::to(outbound.address).ask(&request("POST", &path, &body));
        assert!(armed.lock().unwrap().is_none(), "{harm:?} was done");
        assert!(ran(&counts, &path) <= 1, "{toward:?} {harm:?}");
        // An answer that breaks off after its head is cut.
        let Ok(answer) = answer else { continue };
        match answer.status() {
            200 => {
                assert!(answer.body == body, "{toward:?} {harm:?}");
                assert_eq!(ran(&counts, &path), 1);
                fine += 1;
            }
            status => assert!((500..504).contains(&status), "{harm:?}: {answer:?}"),
        }
    }
    fine
}

#[test]
fn chunks_of_a_request_that_are_moved_reach_no_origin() {
    // Verified whole before the origin sees any of it, so it goes again and comes through; where the first chunk does
    // not open nobody can say so under the seal.
    assert_eq!(harmed(Toward::Inbound, 300_000), 7);
}

#[test]
fn chunks_of_a_stream_that_are_moved_cut_it() {
    // The origin has seen some of it: it is not sent again.
    assert_eq!(harmed(Toward::Inbound, 1_300_000), 0);
}

#[test]
fn chunks_of_an_answer_that_are_moved_cut_it() {
    assert_eq!(harmed(Toward::Outbound, 300_000), 0);
}

#[test]
fn bytes_after_the_final_chunk_are_not_read_and_close_the_connection() {
    for toward in [Toward::Inbound, Toward::Outbound] {
        let (origin, counts) = counting();
        let clock = Shifted::new();
        let inbound = inbound(quick(origin.address), &clock);
        let armed = Arc::new(AtomicBool::new(false));
        let arm = Arc::clone(&armed);
        let closed = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&closed);
        let between = Between::new(inbound.address, move |mut request, next| {
            let harm = is_request(&request) && arm.swap(false, Ordering::SeqCst);
            let more = [&request.body[..], b"POST / HTTP/1.1\r\n\r\n"].concat();
            if harm && toward == Toward::Inbound {
                request.body = more;
            }
            let mut answer = next(&request)?;
            if harm && toward == Toward::Outbound {
                answer.body.extend_from_slice(&answer.body.clone());
            }
            let closes = answer.field("connection") == Some("close");
            seen.fetch_add(usize::from(closes), Ordering::SeqCst);
            Ok(answer)
        });
        let mut settings = outbound_settings(between.address);
        settings.upstream = short();
        let outbound = outbound(settings, &clock);
        let mut line = Line::to(outbound.address);
        assert_eq!(
            line.ask(&request("POST", "/warm", b"x")).unwrap().status(),
            200
        );
        let accepted = between.accepted.load(Ordering::SeqCst);
        armed.store(true, Ordering::SeqCst);
        let answer = line.ask(&request("POST", "/more", b"x")).unwrap();
        assert_eq!(
            (answer.status(), answer.body.as_slice()),
            (200, &b"x"[..]),
            "{toward:?}"
        );
        assert_eq!(ran(&counts, "/more"), 1);
        assert_eq!(
            line.ask(&request("POST", "/after", b"x")).unwrap().status(),
            200
        );
        match toward {
            Toward::Inbound => assert_eq!(closed.load(Ordering::SeqCst), 1),
            // The outbound took a new connection for what followed.
            Toward::Outbound => assert_eq!(between.accepted.load(Ordering::SeqCst), accepted + 1),
        }
    }
}

fn given(id: u32, begins_unix_ms: u64) -> TicketKeys {
    TicketKeys::Given(vec![TicketKey {
        id,
        key: Key32::new([id as u8; 32]),
        begins_unix_ms,
    }])
}

/// An inbound whose messages are kept as they come from an outbound.
fn keeping(inbound: &Serving<Inbound>) -> (Between, Arc<Mutex<Vec<Message>>>) {
    let kept: Arc<Mutex<Vec<Message>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let between = Between::new(inbound.address, move |request, next| {
        if is_request(&request) {
            keep.lock().unwrap().push(request.clone());
        }
        next(&request)
    });
    (between, kept)
}

/// Sends a message to an instance as it was captured. Gives the outer status and the length.
fn replayed(message: &Message, to: SocketAddr) -> (u16, usize) {
    let head = format!(
        "POST /.well-known/shr/1 HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n",
        message.body.len()
    );
    let answer = Line::to(to)
        .ask(&[head.as_bytes(), &message.body].concat())
        .unwrap();
    (answer.status(), answer.body.len())
}

/// A weir-made answer, which tells nobody in between what it says.
const SEALED: (u16, usize) = (200, 68);

#[test]
fn a_captured_request_runs_once_more_on_each_other_instance_and_not_twice() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let now = gate::ports::Clock::now(&*clock).unix_ms;
    let settings = || InboundSettings {
        ticket_keys: given(1, now),
        ..quick(origin.address)
    };
    let (first, second) = (inbound(settings(), &clock), inbound(settings(), &clock));
    let alone = inbound(quick(origin.address), &clock);
    let (between, kept) = keeping(&first);
    let outbound = outbound(outbound_settings(between.address), &clock);
    let mut line = Line::to(outbound.address);
    assert_eq!(
        line.ask(&request("POST", "/once", b"x")).unwrap().status(),
        200
    );
    let captured = kept.lock().unwrap()[0].clone();
    // The same instance: refused. Another one: once, as `local` says. One with other ticket keys: not at all.
    assert_eq!(replayed(&captured, first.address), SEALED);
    assert_eq!(ran(&counts, "/once"), 1);
    assert_ne!(replayed(&captured, second.address), SEALED);
    assert_eq!(ran(&counts, "/once"), 2);
    assert_eq!(replayed(&captured, second.address), SEALED);
    assert_eq!(replayed(&captured, alone.address).0, 409);
    // And after 30 s on none, one that has just started among them.
    clock.pass(31_000);
    let third = inbound(settings(), &clock);
    for instance in [&first, &second, &third] {
        assert_eq!(replayed(&captured, instance.address), SEALED);
    }
    assert_eq!(ran(&counts, "/once"), 2);
    assert_eq!(third.relay.counters().stale, 1);
}

#[test]
fn a_restarted_instance_lets_nothing_through_that_it_may_have_seen() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let now = gate::ports::Clock::now(&*clock).unix_ms;
    let settings = || InboundSettings {
        ticket_keys: given(1, now),
        ..quick(origin.address)
    };
    let mut first = inbound(settings(), &clock);
    let (between, kept) = keeping(&first);
    let outbound = outbound(outbound_settings(between.address), &clock);
    let mut line = Line::to(outbound.address);
    assert_eq!(
        line.ask(&request("POST", "/once", b"x")).unwrap().status(),
        200
    );
    first.stop();
    let again = inbound_at(settings(), &clock, 1, anywhere());
    let captured = kept.lock().unwrap()[0].clone();
    for _ in 0..4 {
        assert_eq!(replayed(&captured, again.address), SEALED);
        clock.pass(1_000);
    }
    assert_eq!(
        (ran(&counts, "/once"), again.relay.counters().stale),
        (1, 4)
    );
}

#[test]
fn a_ticket_of_another_session_opens_nothing_and_harms_neither() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let mut settings = quick(origin.address);
    let other = || Identity::from_seed(&[5; 32]);
    settings.peers.push(Enrolled {
        agent: agent("other"),
        public: other().public().clone(),
        psk: None,
        sessions_after_unix_ms: 0,
    });
    let inbound = inbound(settings, &clock);
    let (kept_at, kept) = keeping(&inbound);
    let first = outbound(outbound_settings(kept_at.address), &clock);
    assert_eq!(
        Line::to(first.address)
            .ask(&request("POST", "/a", b"x"))
            .unwrap()
            .status(),
        200
    );
    let theirs = kept.lock().unwrap()[0].clone();
    let armed = Arc::new(AtomicBool::new(true));
    let arm = Arc::clone(&armed);
    let between = Between::new(inbound.address, move |mut request, next| {
        if is_request(&request) && arm.swap(false, Ordering::SeqCst) {
            request.body[56..200].copy_from_slice(&theirs.body[56..200]);
            let answer = next(&request)?;
            assert_eq!(answer.status(), 409);
            return Ok(answer);
        }
        next(&request)
    });
    let mut settings = outbound_settings(between.address);
    settings.peers[0].identity = Arc::new(other());
    let second = outbound(settings, &clock);
    let answer = Line::to(second.address)
        .ask(&request("POST", "/b", b"x"))
        .unwrap();
    assert_eq!(answer.field("weir-refusal"), Some("relay.maybe_executed"));
    assert_eq!(ran(&counts, "/b"), 0);
    for (address, path) in [(first.address, "/a2"), (second.address, "/b2")] {
        assert_eq!(
            Line::to(address)
                .ask(&request("POST", path, b"x"))
                .unwrap()
                .status(),
            200
        );
        assert_eq!(ran(&counts, path), 1);
    }
}

#[test]
fn nothing_on_the_way_can_choose_a_weaker_suite_version_or_key() {
    type Rewrite = fn(&mut Message);
    let of_init: [(Rewrite, u16); 5] = [
        (|init| init.body[3] = 2, 403),
        (|init| init.body[3] = 3, 400),
        (|init| init.body[0] = 0, 426),
        (|init| init.body[8] ^= 1, 421),
        (|init| init.body[5] = 1, 400),
    ];
    let of_request: [(Rewrite, u16); 5] = [
        (|request| request.body[3] = 2, 409),
        (|request| request.body[3] = 3, 400),
        (|request| request.body[0] = 2, 426),
        (|request| request.body[5] = 2, 400),
        (|request| request.body[7] = 0, 400),
    ];
    let all = of_init.map(|(rewrite, status)| (true, rewrite, status));
    let all = all
        .into_iter()
        .chain(of_request.map(|(rewrite, status)| (false, rewrite, status)));
    for (of_init, rewrite, status) in all {
        let (origin, counts) = counting();
        let clock = Shifted::new();
        let inbound = inbound(quick(origin.address), &clock);
        let on = Arc::new(AtomicBool::new(true));
        let rewriting = Arc::clone(&on);
        let between = Between::new(inbound.address, move |mut message, next| {
            let is_it = if of_init {
                is_init(&message)
            } else {
                is_request(&message)
            };
            if is_it && rewriting.load(Ordering::SeqCst) {
                assert_eq!(
                    message.body[3], 1,
                    "the suite is the configuration's, whatever was said"
                );
                rewrite(&mut message);
                let answer = next(&message)?;
                assert_eq!(answer.status(), status);
                return Ok(answer);
            }
            next(&message)
        });
        let outbound = outbound(outbound_settings(between.address), &clock);
        let mut line = Line::to(outbound.address);
        let answer = line.ask(&request("POST", "/low", b"x")).unwrap();
        let told = if of_init {
            "relay.down"
        } else {
            "relay.maybe_executed"
        };
        assert_eq!(answer.field("weir-refusal"), Some(told));
        assert_eq!(ran(&counts, "/low"), 0);
        on.store(false, Ordering::SeqCst);
        // A handshake that failed is not tried again at once.
        clock.pass(1_100);
        assert_eq!(
            line.ask(&request("POST", "/low", b"x")).unwrap().status(),
            200
        );
    }
}

#[test]
fn a_list_of_keys_that_lies_changes_nothing() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let inbound = inbound(quick(origin.address), &clock);
    let suites: Arc<Mutex<Vec<u8>>> = Arc::default();
    let seen = Arc::clone(&suites);
    let liar = in_key(9).public().bytes().to_vec();
    let between = Between::new(inbound.address, move |message, next| {
        if is_init(&message) {
            seen.lock().unwrap().push(message.body[3]);
        }
        let mut answer = next(&message)?;
        if message.line.contains("/keys") {
            let text = String::from_utf8(answer.body).unwrap();
            assert!(text.contains("[1,2,4]"), "{text}");
            // Another key comes first, under the kid of the right one; and all serve one suite only.
            use base64::Engine;
            let pk = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&liar);
            let kid = in_key(2).public().kid();
            let lie = format!("{{\"keys\":[{{\"kid\":\"{kid}\",\"suite\":[2],\"pk\":\"{pk}\"}},");
            answer.body = text
                .replace("[1,2,4]", "[2]")
                .replace("{\"keys\":[", &lie)
                .into_bytes();
        }
        Ok(answer)
    });
    let mut settings = outbound_settings(between.address);
    settings.peers[0].keys = vec![PeerKey::Pin(in_key(2).public().pin())];
    settings.peers[0].suite = Suite::AesGcmSiv;
    let outbound = outbound(settings, &clock);
    let answer = Line::to(outbound.address)
        .ask(&request("POST", "/x", b"x"))
        .unwrap();
    assert_eq!((answer.status(), ran(&counts, "/x")), (200, 1));
    assert_eq!(*suites.lock().unwrap(), [4]);
}

#[test]
fn clocks_that_differ_are_bridged_up_to_ten_minutes() {
    for (ahead, minutes, works) in [
        (true, 9, true),
        (true, 11, false),
        (false, 9, true),
        (false, 11, false),
    ] {
        let (origin, _) = counting();
        let (near, far) = (Shifted::new(), Shifted::new());
        let inbound = inbound(quick(origin.address), &far);
        let skewed = if ahead { &near } else { &far };
        skewed.pass(minutes * 60_000);
        let outbound = outbound(outbound_settings(inbound.address), &near);
        let answer = Line::to(outbound.address)
            .ask(&request("POST", "/x", b"x"))
            .unwrap();
        let told = if works { 200 } else { 503 };
        assert_eq!(answer.status(), told, "{ahead} {minutes}");
        assert_eq!(origin.asked(), usize::from(works));
    }
}

#[test]
fn a_clock_that_steps_is_followed_by_what_is_sealed_alone() {
    let (origin, counts) = counting();
    let (near, far) = (Shifted::new(), Shifted::new());
    let inbound = inbound(quick(origin.address), &far);
    let outbound = outbound(outbound_settings(inbound.address), &near);
    let mut line = Line::to(outbound.address);
    assert_eq!(
        line.ask(&request("POST", "/a", b"x")).unwrap().status(),
        200
    );
    // So far behind that the message can never run: the inbound's sealed time is taken, and a new message goes.
    far.unix_ms.fetch_add(60_000, Ordering::SeqCst);
    assert_eq!(
        line.ask(&request("POST", "/b", b"x")).unwrap().status(),
        200
    );
    assert_eq!((ran(&counts, "/b"), inbound.relay.counters().stale), (1, 1));
    // Ahead: it could still run later, so the caller is told; and the next one goes by the right time.
    near.unix_ms.fetch_add(20_000, Ordering::SeqCst);
    let answer = line.ask(&request("POST", "/c", b"x")).unwrap();
    assert_eq!(answer.field("weir-refusal"), Some("relay.maybe_executed"));
    assert_eq!(ran(&counts, "/c"), 0);
    assert_eq!(
        line.ask(&request("POST", "/d", b"x")).unwrap().status(),
        200
    );
}

#[test]
fn what_expired_or_was_withdrawn_opens_nothing() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let now = gate::ports::Clock::now(&*clock).unix_ms;
    let settings = |id| InboundSettings {
        ticket_keys: given(id, now),
        session_ms: 5_000,
        ..quick(origin.address)
    };
    let inbound = inbound(settings(1), &clock);
    let (between, kept) = keeping(&inbound);
    let outbound = outbound(outbound_settings(between.address), &clock);
    let mut line = Line::to(outbound.address);
    assert_eq!(
        line.ask(&request("POST", "/a", b"x")).unwrap().status(),
        200
    );
    // A ticket whose key was taken from the ring, although it is kept opened.
    inbound.relay.reload(settings(2)).unwrap();
    let captured = kept.lock().unwrap()[0].clone();
    assert_eq!(replayed(&captured, inbound.address).0, 409);
    inbound.relay.reload(settings(1)).unwrap();
    assert_eq!(replayed(&captured, inbound.address), SEALED);
    // A ticket that ran out, before the message itself did.
    clock.pass(6_000);
    assert_eq!(replayed(&captured, inbound.address).0, 409);
    assert_eq!(ran(&counts, "/a"), 1);
}

#[test]
fn a_body_that_goes_piece_by_piece_goes_again_where_it_did_not_run() {
    let (origin, counts) = counting();
    let clock = Shifted::new();
    let inbound = inbound(quick(origin.address), &clock);
    let lost = Arc::new(AtomicUsize::new(0));
    let losing = Arc::clone(&lost);
    let between = Between::new(inbound.address, move |message, next| {
        let take = |n: usize| n.checked_sub(1);
        if is_request(&message)
            && losing
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok()
        {
            return Err(io::ErrorKind::Other.into());
        }
        next(&message)
    });
    let mut settings = outbound_settings(between.address);
    settings.upstream = short();
    let outbound = outbound(settings, &clock);
    let mut line = Line::to(outbound.address);
    assert_eq!(
        line.ask(&request("POST", "/warm", b"")).unwrap().status(),
        200
    );
    for bytes in [60_000, 200_000, 1 << 20] {
        // The answer is lost twice: a safe call goes on, with the same bytes.
        lost.store(2, Ordering::SeqCst);
        let (path, body) = (format!("/{bytes}"), noise(bytes, bytes as u64));
        let answer = line.ask(&request("OPTIONS", &path, &body)).unwrap();
        assert!(answer.status() == 200 && answer.body == body, "{bytes}");
        assert_eq!(ran(&counts, &path), 1);
    }
    assert_eq!(outbound.relay.counters().retries, 6);
    // A longer one is not kept.
    lost.store(1, Ordering::SeqCst);
    let answer = line
        .ask(&request("OPTIONS", "/long", &noise(1_100_000, 1)))
        .unwrap();
    assert_eq!(answer.field("weir-refusal"), Some("relay.failed"));
}
