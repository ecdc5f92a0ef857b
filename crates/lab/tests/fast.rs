//! The hot path against servers of a few lines: exact counts, every odd shape of answer, every way to fail.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "fast/freeze.rs"]
mod freeze;
#[path = "fast/oracle.rs"]
mod oracle;
#[path = "fast/rig.rs"]
mod rig;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use lab::plan::{Arrivals, BodyCheck, Expect, Flow, Model, Request, Value};
use lab::schedule::{Profile, Shape};
use lab::tally::{Fault, Metric};
use lab::template::{Body, Feed, Order, Template};
use rig::{answering, echo, exactly, field, flow, get, holds, request, run, run_until, serve};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// An echo request with a payload that no other has.
fn echoed(bytes: usize) -> Request {
    let content_type = Value::Text(Template::plain("application/json"));
    Request {
        method: "POST".into(),
        headers: vec![("Content-Type".into(), content_type)],
        body: Body::Unique { bytes },
        expect: Expect {
            body: BodyCheck::Echo,
            ..Expect::default()
        },
        ..get("/echo")
    }
}

/// A server that counts the requests that it has read.
fn counting(answer: &'static [u8]) -> (std::net::SocketAddr, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counter = count.clone();
    let address = answering(move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        answer.to_vec()
    });
    (address, count)
}

#[test]
fn a_closed_load_counts_what_the_server_counts() {
    let (address, count) = counting(OK);
    let outcome = run(Flow {
        connections: 7,
        threads: 2,
        profile: holds(&[(7.0, 300)]),
        ..flow(address)
    });
    let counted = count.load(Ordering::SeqCst);
    assert!(counted > 20, "{counted}");
    outcome.all_good(counted);
    assert_eq!((outcome.sum.connections, outcome.ended), (7, 2));
    assert_eq!(outcome.sum.statuses[200], counted);
    assert_eq!(outcome.sum.bytes_in, counted * OK.len() as u64);
    for metric in [Metric::Response, Metric::Service, Metric::Lag] {
        assert_eq!(outcome.count(metric), counted);
    }
}

#[test]
fn an_open_load_is_exactly_what_the_schedule_says() {
    for (threads, connections) in [(1, 1), (2, 3)] {
        let (address, count) = counting(OK);
        let outcome = run(Flow {
            threads,
            connections,
            profile: holds(&[(1000.0, 200), (500.0, 200)]),
            ..exactly(0, address)
        });
        outcome.all_good(300);
        assert_eq!(count.load(Ordering::SeqCst), 300);
        assert_eq!((outcome.steps[0].good, outcome.steps[1].good), (200, 100));
    }
}

#[test]
fn a_pause_lies_between_an_answer_and_the_next_request() {
    let (address, count) = counting(OK);
    let outcome = run(Flow {
        pause: Duration::from_millis(50),
        profile: holds(&[(1.0, 280)]),
        ..flow(address)
    });
    let counted = count.load(Ordering::SeqCst);
    assert!((1..=6).contains(&counted), "{counted}");
    outcome.all_good(counted);
}

/// Ten requests, each answered with these bytes, which are written in pieces of one byte if `slowly`.
fn ten(answer: &'static [u8], closes: bool, slowly: bool) -> rig::Outcome {
    let address = serve(move |mut stream, _| {
        while request(&mut stream).is_some() {
            for piece in answer.chunks(if slowly { 1 } else { answer.len() }) {
                if stream.write_all(piece).is_err() {
                    return;
                }
            }
            if closes {
                return;
            }
        }
    });
    run(exactly(10, address))
}

#[test]
fn odd_answers_are_answers() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n";
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    for answer in [OK, chunked, interim] {
        for slowly in [false, true] {
            let outcome = ten(answer, false, slowly);
            outcome.all_good(10);
            assert_eq!(outcome.sum.connections, 1);
        }
    }
    let by_close = b"HTTP/1.1 200 OK\r\n\r\nas long as it is";
    let close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    for answer in [by_close.as_slice(), close] {
        let outcome = ten(answer, true, false);
        outcome.all_good(10);
        // The last connection may not be made again.
        assert_eq!(outcome.sum.connections, 10);
        assert_eq!(outcome.count(Metric::Connect), 10);
    }
}

#[test]
fn answers_that_are_wrong_fail_with_their_class() {
    let cases: [(&[u8], bool, Fault); 8] = [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi",
            true,
            Fault::Closed,
        ),
        (b"HTTP/1.1 200 OK\r\nConte", true, Fault::Closed),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi, there",
            false,
            Fault::Protocol,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: no\r\n\r\nhi",
            false,
            Fault::Protocol,
        ),
        (
            b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
            false,
            Fault::Protocol,
        ),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            false,
            Fault::Client,
        ),
        (
            b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n",
            false,
            Fault::Limited,
        ),
        (
            b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
            false,
            Fault::Server,
        ),
    ];
    for (answer, closes, fault) in cases {
        let outcome = ten(answer, closes, false);
        assert_eq!(outcome.fault(fault), 10, "{fault:?}: {:?}", outcome.notes);
        assert_eq!((outcome.sum.failures(), outcome.sum.good), (10, 0));
        assert_eq!(outcome.count(Metric::Failed), 10);
        assert_eq!(outcome.notes.is_empty(), fault != Fault::Protocol);
    }
}

#[test]
fn a_reset_and_a_silent_close_are_told_apart() {
    for (linger, fault) in [(true, Fault::Reset), (false, Fault::Closed)] {
        let address = serve(move |mut stream, _| {
            request(&mut stream);
            if linger {
                let socket = socket2::SockRef::from(&stream);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
        });
        let outcome = run(exactly(10, address));
        assert_eq!(outcome.fault(fault), 10, "{fault:?}");
        assert_eq!(outcome.sum.failures(), 10);
    }
}

#[test]
fn a_connection_that_is_closed_while_idle_is_made_again() {
    // It is closed after each answer, without a word, and the next request is due half a second later.
    let address = serve(|mut stream, _| {
        if request(&mut stream).is_some() {
            stream.write_all(OK).unwrap();
        }
    });
    let outcome = run(Flow {
        profile: holds(&[(2.0, 1500)]),
        ..exactly(0, address)
    });
    outcome.all_good(3);
    assert_eq!(outcome.sum.connections, 3);
}

#[test]
fn a_new_connection_for_each_request() {
    let connections = Arc::new(AtomicU64::new(0));
    let counter = connections.clone();
    let address = serve(move |mut stream, _| {
        if let Some((head, _)) = request(&mut stream) {
            assert_eq!(field(&head, "connection"), Some("close"));
            counter.fetch_add(1, Ordering::SeqCst);
            stream.write_all(OK).unwrap();
        }
    });
    let outcome = run(Flow {
        reconnect: true,
        connections: 3,
        profile: holds(&[(3.0, 200)]),
        ..flow(address)
    });
    let counted = connections.load(Ordering::SeqCst);
    assert!(counted > 3, "{counted}");
    outcome.all_good(counted);
    // One more was made before the run, to see that the target is there.
    assert_eq!(outcome.sum.connections, counted + 1);
}

#[test]
fn what_takes_too_long_is_given_up() {
    let address = serve(|mut stream, number| {
        while request(&mut stream).is_some() {
            // The first connection's answers never end.
            let answer = if number == 0 { &OK[..OK.len() - 1] } else { OK };
            stream.write_all(answer).unwrap();
        }
    });
    let outcome = run(Flow {
        timeout: Duration::from_millis(100),
        ..exactly(20, address)
    });
    assert_eq!(outcome.fault(Fault::Timeout), 1);
    assert_eq!((outcome.sum.good, outcome.sum.connections), (19, 2));
    let least = outcome.sum.distribution(Metric::Failed).unwrap().least;
    assert!(least >= 100_000_000, "{least} ns");
}

#[test]
fn what_is_under_way_at_the_end_is_waited_for_but_not_after_a_stop() {
    // Answers only when the test says so, or never.
    let address = serve(|mut stream, _| while request(&mut stream).is_some() {});
    let started = Instant::now();
    let outcome = run_until(
        Flow {
            timeout: Duration::from_secs(600),
            profile: holds(&[(4.0, 600_000)]),
            connections: 4,
            ..flow(address)
        },
        |control, _| control.stop(),
    );
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(outcome.fault(Fault::Unfinished), 4);
    assert_eq!((outcome.sum.sent, outcome.sum.failures()), (4, 4));
    let late = serve(|mut stream, _| {
        while request(&mut stream).is_some() {
            std::thread::sleep(Duration::from_millis(300));
            stream.write_all(OK).unwrap();
        }
    });
    run(flow(late)).all_good(1);
}

#[test]
fn the_queue_has_a_bound_and_what_passes_it_is_dropped() {
    // Nobody is answered until all 100 are due; two are on connections, ten wait, the rest is dropped.
    let open = Arc::new(Barrier::new(3));
    let gate = open.clone();
    let address = serve(move |mut stream, _| {
        let mut first = true;
        while request(&mut stream).is_some() {
            if std::mem::take(&mut first) {
                gate.wait();
            }
            stream.write_all(OK).unwrap();
        }
    });
    let model = Model::Open {
        arrivals: Arrivals::Uniform,
        queue_max: 10,
    };
    let mut dropped = 0;
    let outcome = run_until(
        Flow {
            model,
            connections: 2,
            profile: holds(&[(1000.0, 100), (0.0, 900)]),
            ..exactly(0, address)
        },
        |_, shipment| {
            dropped += shipment.tallies.iter().map(|(_, t)| t.dropped).sum::<u64>();
            if dropped == 88 {
                dropped = 0;
                open.wait();
            }
        },
    );
    let sum = &outcome.sum;
    assert_eq!((sum.dropped, sum.queued, sum.good), (88, 10, 12));
    assert_eq!((sum.sent, sum.failures()), (12, 0));
    assert_eq!(outcome.waiting_most, 10);
}

#[test]
fn a_ramp_adds_connections_when_their_turn_comes() {
    let first: Arc<Mutex<Vec<(usize, Instant)>>> = Arc::default();
    let log = first.clone();
    let address = serve(move |mut stream, number| {
        let mut is_first = true;
        while request(&mut stream).is_some() {
            if std::mem::take(&mut is_first) {
                log.lock().unwrap().push((number, Instant::now()));
            }
            stream.write_all(OK).unwrap();
        }
    });
    let stages = [
        Shape::Ramp {
            to: 10.0,
            over: Duration::from_millis(500),
        },
        Shape::Hold {
            at: 10.0,
            lasting: Duration::from_millis(100),
        },
    ];
    let outcome = run(Flow {
        connections: 10,
        pause: Duration::from_millis(5),
        profile: Profile::new(stages.map(|shape| ("s".into(), false, shape))),
        ..flow(address)
    });
    let (mut first, begin) = (first.lock().unwrap().clone(), outcome.begin.unwrap());
    first.sort_unstable();
    assert_eq!(first.len(), 10);
    for (number, at) in first {
        let after = at.duration_since(begin.instant);
        assert!(
            after >= Duration::from_millis(50 * number as u64),
            "{number}: {after:?}"
        );
    }
    outcome.all_good(outcome.sum.sent);
    assert!(outcome.steps.iter().all(|step| step.good > 0));
}

#[test]
fn one_wrong_byte_in_ten_thousand_answers_is_found() {
    let seen = Arc::new(AtomicU64::new(0));
    let address = answering(move |head, body| {
        let mut answer = echo(head, body);
        let length = answer.len();
        if seen.fetch_add(1, Ordering::SeqCst) == 7_777 {
            answer[length - 1024 + 613] ^= 0x20;
        }
        answer
    });
    let outcome = run(Flow {
        connections: 8,
        profile: holds(&[(10_000.0, 1000)]),
        requests: vec![echoed(1024)],
        ..exactly(0, address)
    });
    assert_eq!((outcome.sum.completed, outcome.sum.good), (10_000, 9_999));
    assert_eq!(outcome.fault(Fault::Integrity), 1);
    let [note] = &*outcome.notes else {
        panic!("{:?}", outcome.notes);
    };
    assert_eq!((note.fault.as_str(), note.offset), ("integrity", Some(613)));
    let (expected, received) = (note.expected_hex.as_ref(), note.received_hex.as_ref());
    let differing = expected.unwrap().bytes().zip(received.unwrap().bytes());
    assert_eq!(differing.filter(|(a, b)| a != b).count(), 1);
}

#[test]
fn an_echo_that_forgets_a_field_is_no_echo() {
    for forgotten in ["weir-lab-id", "content-type"] {
        let address = answering(move |head, body| {
            let kept = head
                .lines()
                .filter(|line| !line.to_lowercase().starts_with(forgotten));
            echo(&kept.collect::<Vec<_>>().join("\r\n"), body)
        });
        let outcome = run(Flow {
            requests: vec![echoed(100)],
            ..exactly(5, address)
        });
        assert_eq!(outcome.fault(Fault::Integrity), 5);
        assert!(outcome.notes[0].what.contains(forgotten));
    }
}

#[test]
fn large_bodies_go_both_ways_at_once() {
    let address = answering(echo);
    let outcome = run(Flow {
        connections: 2,
        requests: vec![echoed(3 << 20)],
        ..exactly(6, address)
    });
    outcome.all_good(6);
    assert!(outcome.sum.bytes_out > 6 * (3 << 20) && outcome.sum.bytes_in > 6 * (3 << 20));
}

#[test]
fn requests_are_what_the_plan_says() {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = heads.clone();
    let address = answering(move |head, body| {
        assert!(body.len() < 10);
        log.lock().unwrap().push(head.to_owned());
        OK.to_vec()
    });
    let text = |text| Template::parse(text, &[], &|_| None).unwrap();
    let posted = Request {
        method: "POST".into(),
        headers: vec![("X-Number".into(), Value::Text(text("n${seq}")))],
        body: Body::Template(text("<${seq}>")),
        ..get("/p?n=1")
    };
    let bare = Request {
        method: "POST".into(),
        ..get("/bare")
    };
    let outcome = run(Flow {
        requests: vec![posted, bare, get("/")],
        ..exactly(30, address)
    });
    outcome.all_good(30);
    let heads = heads.lock().unwrap();
    let begin = |path: &str| {
        heads
            .iter()
            .filter(|h| h.starts_with(path))
            .collect::<Vec<_>>()
    };
    let (posted, bare) = (
        begin("POST /p?n=1 HTTP/1.1\r\n"),
        begin("POST /bare HTTP/1.1\r\n"),
    );
    // Equal weights are mixed evenly, one more or less.
    for count in [posted.len(), bare.len(), begin("GET / ").len()] {
        assert!((9..=11).contains(&count), "{count}");
    }
    assert!(
        bare.iter()
            .all(|head| field(head, "content-length") == Some("0"))
    );
    for head in posted {
        assert_eq!(field(head, "host").unwrap(), address.to_string());
        let number = field(head, "x-number").unwrap();
        let length = field(head, "content-length").unwrap().parse();
        assert_eq!(length, Ok(number.len() + 1));
    }
}

#[test]
fn a_feed_cannot_begin_a_line() {
    let (address, count) = counting(OK);
    let feed = Feed {
        name: "f".into(),
        columns: vec!["v".into()],
        rows: vec![vec!["good".into()], vec!["x\r\nInjected: yes".into()]],
        order: Order::Sequential,
    };
    let template = Template::parse("/${f.v}", std::slice::from_ref(&feed), &|_| None).unwrap();
    let in_path = Request {
        path: template.clone(),
        ..get("/")
    };
    let in_field = Request {
        headers: vec![("X-Value".into(), Value::Text(template))],
        ..get("/")
    };
    for (request, place) in [(in_path, "path"), (in_field, "X-Value")] {
        let before = count.load(Ordering::SeqCst);
        let outcome = run(Flow {
            feeds: vec![feed.clone()],
            requests: vec![request],
            ..exactly(10, address)
        });
        let said = outcome.failure.unwrap().to_string();
        assert!(said.contains(place) && said.contains("number 1"), "{said}");
        assert!(!said.contains("Injected"), "{said}");
        assert_eq!(
            (count.load(Ordering::SeqCst) - before, outcome.ended),
            (1, 1)
        );
    }
}

#[test]
fn what_cannot_be_a_request_is_said_before_the_run() {
    let (address, count) = counting(OK);
    let plain = |text: &str| Value::Text(Template::plain(text));
    let with = |name: &str, value: &str| Request {
        headers: vec![(name.into(), plain(value))],
        ..get("/")
    };
    let method = |method: &str| Request {
        method: method.into(),
        ..get("/")
    };
    for (request, said) in [
        (get("no-slash"), "slash"),
        (get("/a b"), "percent-encode"),
        (get("/a\r\nb"), "percent-encode"),
        (with("X\r\nY", "z"), "field name"),
        (with("X", "a\nb"), "line break"),
        (with("Content-Length", "1"), "written by the generator"),
        (
            with("Transfer-Encoding", "chunked"),
            "written by the generator",
        ),
        (method("CONNECT"), "method"),
        (method("GET /"), "method"),
    ] {
        let outcome = run(Flow {
            requests: vec![request],
            ..flow(address)
        });
        let failure = outcome.failure.unwrap();
        assert!(failure.what.contains(said), "{failure}");
        assert!(!failure.help.is_empty());
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_target_that_is_no_http_server_ends_the_run() {
    let first = serve(|mut stream, _| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        request(&mut stream);
    });
    let after = answering(|_, _| b"\x15\x03\x01\x00\x02\x02\x46".to_vec());
    for (address, shown, help) in [(first, "SSH-2.0", "port"), (after, "\\x15", "https")] {
        let failure = run(flow(address)).failure.unwrap();
        assert!(
            failure.what.contains("does not speak HTTP/1.1"),
            "{failure}"
        );
        assert!(failure.what.contains(shown), "{failure}");
        assert!(failure.help.contains(help), "{failure}");
    }
}

#[test]
fn a_target_that_is_not_there_is_said_before_the_run() {
    // Bound, not listening: nobody else gets this port, and connections to it are refused.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let failure = run(flow(address)).failure.unwrap();
    assert!(failure.what.contains("cannot connect"), "{failure}");
    assert!(failure.help.contains("listens"), "{failure}");
    // The second address of the target is tried, too.
    let (other, _) = counting(OK);
    let mut both = exactly(5, other);
    both.targets[0].addresses = vec![address, other];
    run(both).all_good(5);
}

#[test]
fn a_target_that_goes_away_costs_failures_and_not_the_cpu() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream).unwrap();
        stream.write_all(OK).unwrap();
    });
    let outcome = run(Flow {
        profile: holds(&[(1.0, 1000)]),
        ..flow(address)
    });
    server.join().unwrap();
    assert_eq!(outcome.sum.good, 1);
    let refused = outcome.fault(Fault::Refused);
    // It rests 1, 2, 4 … 256 ms: ten attempts or so, not as many as fit.
    assert!((2..=12).contains(&refused), "{refused}");
    // Besides, the request that was under way, and one that the closing socket still took.
    assert!(outcome.sum.failures() <= refused + 2);
}

#[test]
fn several_targets_take_turns() {
    let (one, two) = (counting(OK), counting(OK));
    let mut both = exactly(100, one.0);
    both.targets.push(rig::target(two.0));
    both.connections = 4;
    run(both).all_good(100);
    let counts = (one.1.load(Ordering::SeqCst), two.1.load(Ordering::SeqCst));
    assert_eq!(counts.0 + counts.1, 100);
    assert!(counts.0 >= 20 && counts.1 >= 20, "{counts:?}");
}
