//! The freeze test: a server that stands still for a second must be seen to have done so.
//!
//! A generator that counts from the send, or sends later because the server is slow, leaves out most of what
//! users would have waited (coordinated omission). Truth is known twice here: from the arithmetic of a server
//! that answers in 5 ms, and from what this server itself did on a host that may be busy.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::plan::{Flow, Request};
use lab::tally::Metric;
use lab::template::Template;

use super::rig::{exactly, get, holds, request, run, serve};

const ARRIVALS: u64 = 500;
const GAP: Duration = Duration::from_millis(10);
const ANSWER: Duration = Duration::from_millis(5);
const FREEZE: std::ops::Range<Duration> = Duration::from_secs(2)..Duration::from_secs(3);

/// What the server did: when its clock began, and when it answered which request.
#[derive(Default)]
struct Log {
    begin: Option<Instant>,
    answers: Vec<(u64, Instant)>,
}

/// Answers after 5 ms, and nothing within the freeze. Its clock begins with the first request.
fn freezing(log: Arc<Mutex<Log>>) -> std::net::SocketAddr {
    serve(move |mut stream, _| {
        while let Some((head, _)) = request(&mut stream) {
            let arrived = Instant::now();
            let begin = *log.lock().unwrap().begin.get_or_insert(arrived);
            let after = arrived - begin;
            let frozen = if FREEZE.contains(&after) {
                FREEZE.end - after
            } else {
                Duration::ZERO
            };
            // This is the work that the server does, not a wait for another thread.
            std::thread::sleep((frozen + ANSWER).saturating_sub(arrived.elapsed()));
            let path = head.split(' ').nth(1).unwrap();
            let number = path[1..].parse().unwrap();
            log.lock().unwrap().answers.push((number, Instant::now()));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    })
}

/// The responses in milliseconds, by arithmetic: each thread's connections take its requests in turn.
fn computed(threads: usize, connections: usize) -> Vec<f64> {
    let mut responses = Vec::new();
    for thread in 0..threads {
        let own = (connections + threads - 1 - thread) / threads;
        let mut free = vec![Duration::ZERO; own];
        for number in (thread as u64..ARRIVALS).step_by(threads) {
            let due = GAP * number as u32;
            free.sort_unstable();
            let start = due.max(free[0]);
            let held = if FREEZE.contains(&start) {
                FREEZE.end
            } else {
                start
            };
            free[0] = held + ANSWER;
            responses.push((free[0] - due).as_secs_f64() * 1e3);
        }
    }
    responses
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[(values.len() as f64 * q).ceil() as usize - 1]
}

fn check(threads: usize, connections: usize) {
    let log = Arc::new(Mutex::new(Log::default()));
    let address = freezing(log.clone());
    let outcome = run(Flow {
        threads,
        connections,
        requests: vec![Request {
            path: Template::parse("/${seq}", &[], &|_| None).unwrap(),
            ..get("/")
        }],
        profile: holds(&[(100.0, 5000)]),
        ..exactly(0, address)
    });
    outcome.all_good(ARRIVALS);
    let begin = outcome.begin.unwrap().instant;
    let answers = log.lock().unwrap().answers.clone();
    assert_eq!(answers.len() as u64, ARRIVALS);
    let response = |(number, at): &(u64, Instant)| {
        let due = begin + GAP * *number as u32;
        at.duration_since(due).as_secs_f64() * 1e3
    };
    let mut logged: Vec<f64> = answers.iter().map(response).collect();
    let mut computed = computed(threads, connections);
    for q in [0.5, 0.9, 0.95, 0.99] {
        let found = outcome.quantile_ms(Metric::Response, q);
        let (logged, computed) = (quantile(&mut logged, q), quantile(&mut computed, q));
        let case = format!(
            "{threads} threads, {connections} connections, p{}",
            q * 100.0
        );
        let is_near = |truth: f64| (found - truth).abs() <= truth * 0.03 + 3.0;
        assert!(
            is_near(logged),
            "{case}: {found} ms, the server's log says {logged}"
        );
        // A busy host makes the server itself slower than its arithmetic, which the log above allows for.
        let allowed = computed * 0.03 + 3.0 + (logged - computed).abs();
        assert!(
            (found - computed).abs() <= allowed,
            "{case}: {found} ms, computed {computed}"
        );
    }
    // Without counting from the schedule, nine in ten of these requests would seem to take 5 ms.
    assert!(quantile(&mut computed, 0.9) > 450.0 && quantile(&mut logged, 0.9) > 450.0);
}

#[test]
fn a_freeze_is_seen_whatever_the_threads_and_connections() {
    std::thread::scope(|scope| {
        for (threads, connections) in [(1, 10), (2, 10), (2, 200)] {
            scope.spawn(move || check(threads, connections));
        }
    });
}
