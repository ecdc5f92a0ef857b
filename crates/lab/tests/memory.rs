//! A run's memory does not grow with its length: seven million requests, counted and collected, in a process of
//! their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use lab::collect::Collector;
use lab::engine::Shipment;
use lab::plan::{Expect, Flow, Model, Plan, Protocol, Request};
use lab::schedule::{Profile, Shape};
use lab::tally::{Fault, Key, Tally};
use lab::template::{Body, Template};

const INTERVALS: u64 = 3500;
const REQUESTS: u64 = 2000;

fn plan() -> Plan {
    let hold = Shape::Hold {
        at: 64.0,
        lasting: Duration::from_secs(INTERVALS),
    };
    let request = Request {
        name: "get".into(),
        weight: 1,
        method: "GET".into(),
        path: Template::plain("/"),
        headers: Vec::new(),
        body: Body::None,
        ask: None,
        expect: Expect::default(),
    };
    let flow = Flow {
        name: "long".into(),
        index: 0,
        targets: Vec::new(),
        protocol: Protocol::Http1,
        model: Model::Closed,
        profile: Profile::new([("steady".to_owned(), false, hold)]),
        connections: 64,
        threads: 1,
        requests: vec![request],
        feeds: Vec::new(),
        tls: None,
        timeout: Duration::from_secs(10),
        pause: Duration::ZERO,
        reconnect: false,
        names_failures: false,
    };
    Plan {
        name: "long".into(),
        seed: 1,
        run: 1,
        flows: vec![Arc::new(flow)],
        interval: Duration::from_secs(1),
    }
}

/// One interval of answers that spread over six decades, one in a thousand of them failed.
fn shipment(interval: u64, draw: &mut fastrand::Rng) -> Shipment {
    let mut tally = Tally::default();
    for number in 0..REQUESTS {
        let took_ns = 10f64.powf(4.0 + 6.0 * draw.f64()) as u64;
        if number % 1000 == 0 {
            tally.failed(Fault::Server, 0, took_ns);
        } else {
            tally.good(0, 100, took_ns);
        }
    }
    let key = Key {
        flow: 0,
        request: 0,
        step: 0,
    };
    Shipment {
        flow: 0,
        thread: 0,
        interval,
        tallies: vec![(key, Box::new(tally))],
        in_flight: 64,
        waiting: 0,
        cpu_ns: interval,
        notes: Vec::new(),
        last: interval + 1 == INTERVALS,
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let field = line.unwrap().split_ascii_whitespace().nth(1);
    field.unwrap().parse().unwrap()
}

#[test]
fn seven_million_requests_need_no_more_memory_than_some() {
    let (plan, mut draw) = (plan(), fastrand::Rng::with_seed(7));
    let mut collector = Collector::new(&plan);
    let mut early = 0;
    for interval in 0..INTERVALS {
        // By the 1,300th interval the series has been halved once, so it has been as long as it gets.
        if interval == 1300 {
            early = resident_kib();
        }
        collector.take(shipment(interval, &mut draw), &mut |_| {});
    }
    collector.end(&mut |_| {});
    let grown = resident_kib().saturating_sub(early);
    let (flows, measured, _) = collector.results(INTERVALS as f64);
    assert_eq!(measured.requests, INTERVALS * REQUESTS);
    assert_eq!(measured.failed, INTERVALS * REQUESTS / 1000);
    assert!(flows[0].series.len() <= lab::result::POINTS_MAX);
    assert!(grown < 4096, "{grown} KiB more after {early} KiB");
}
