//! Closed and open, ramps, queues, timeouts, and ends.

use std::time::{Duration, Instant};

use lab::plan::{Arrivals, Model, Protocol};
use lab::schedule::{Profile, Shape};
use lab::tally::{Fault, Metric};

use crate::rig::{Act, Raw, answer, drive, drive_until, faults, flow, hold};
use crate::secure::Echo;

fn open(arrivals: Arrivals, queue_max: usize) -> Model {
    Model::Open {
        arrivals,
        queue_max,
    }
}

#[test]
fn arrivals_are_all_sent() {
    let raw = Raw::new(|_| answer(200, "", b"x"));
    for (threads, arrivals) in [
        (1, Arrivals::Uniform),
        (2, Arrivals::Uniform),
        (2, Arrivals::Burst(25)),
        (2, Arrivals::Poisson),
    ] {
        let before = raw.requests();
        let mut flow = flow(raw.address);
        flow.model = open(arrivals, 1000);
        flow.profile = hold(400.0, 500);
        flow.connections = 8;
        flow.threads = threads;
        let total = drive(flow).total();
        assert_eq!(total.failures(), 0, "{:?}", total.faults);
        assert_eq!(total.good, raw.requests() - before);
        assert_eq!(total.dropped, 0);
        match arrivals {
            Arrivals::Uniform | Arrivals::Burst(_) => assert_eq!(total.good, 200),
            Arrivals::Poisson => assert!((120..280).contains(&total.good), "{}", total.good),
        }
        assert_eq!(total.distribution(Metric::Lag).unwrap().count(), total.good);
    }
}

#[test]
fn arrivals_share_the_streams_of_one_connection() {
    let echo = Echo {
        http2: true,
        ..Echo::default()
    };
    let mut flow = flow(echo.start());
    flow.protocol = Protocol::Http2 { streams: 4 };
    flow.model = open(Arrivals::Uniform, 1000);
    flow.profile = hold(200.0, 500);
    let total = drive(flow).total();
    assert_eq!(
        (total.good, total.connections),
        (100, 1),
        "{:?}",
        total.faults
    );
}

#[test]
fn what_finds_no_place_waits_or_is_dropped() {
    // One connection answers 10 a second; 100 a second come for 500 ms; 3 may wait.
    let raw = Raw::new(|_| {
        let mut acts = vec![Act::Pause(Duration::from_millis(100))];
        acts.extend(answer(200, "", b"x"));
        acts
    });
    let mut flow = flow(raw.address);
    flow.model = open(Arrivals::Uniform, 3);
    flow.profile = hold(100.0, 500);
    let total = drive(flow).total();
    assert_eq!(total.failures(), 0, "{:?}", total.faults);
    assert_eq!(total.good, raw.requests());
    assert_eq!(total.good + total.dropped, 50);
    assert!(total.dropped >= 35, "{} dropped", total.dropped);
    assert_eq!(total.queued, total.good - 1, "the first finds a place");
    let response = total.distribution(Metric::Response).unwrap();
    let service = total.distribution(Metric::Service).unwrap();
    assert!(
        response.most >= 300_000_000,
        "three waited before it: {}",
        response.most
    );
    assert!(service.least >= 100_000_000);
}

#[test]
fn a_ramp_takes_connections_one_by_one() {
    let raw = Raw::new(|_| {
        let mut acts = vec![Act::Pause(Duration::from_millis(20))];
        acts.extend(answer(200, "", b"x"));
        acts
    });
    let mut flow = flow(raw.address);
    let over = Duration::from_millis(400);
    flow.profile = Profile::new([("up".to_owned(), false, Shape::Ramp { to: 4.0, over })]);
    flow.connections = 4;
    flow.threads = 2;
    let total = drive(flow).total();
    assert_eq!(total.connections, 4);
    assert_eq!(total.good, raw.requests());
    // Connection j begins after j quarters of the time, and has an answer each 20 ms at most: 20, 15, 10 and 5.
    assert!((4..=54).contains(&total.good), "{}", total.good);
}

#[test]
fn a_level_bounds_the_connections_in_use() {
    let raw = Raw::new(|heard| answer(200, "", heard.path.as_bytes()));
    let mut flow = flow(raw.address);
    flow.connections = 4;
    flow.profile = hold(0.0, 100);
    let total = drive(flow).total();
    assert_eq!((total.sent, total.connections), (0, 4));
}

#[test]
fn no_answer_is_a_timeout() {
    let raw = Raw::new(|_| vec![Act::Pause(Duration::from_secs(2))]);
    let mut flow = flow(raw.address);
    flow.timeout = Duration::from_millis(100);
    flow.profile = hold(1.0, 250);
    let total = drive(flow).total();
    let timeouts = faults(&total, Fault::Timeout);
    assert!((1..=3).contains(&timeouts), "{:?}", total.faults);
    assert_eq!((total.sent, total.completed), (timeouts, 0));
    assert_eq!(
        total.connections, timeouts,
        "a late answer must not meet the next request"
    );
    let failed = total.distribution(Metric::Failed).unwrap();
    assert!(failed.least >= 100_000_000, "{}", failed.least);
}

#[test]
fn what_is_in_flight_at_the_end_is_waited_for() {
    let raw = Raw::new(|_| {
        let mut acts = vec![Act::Pause(Duration::from_millis(200))];
        acts.extend(answer(200, "", b"x"));
        acts
    });
    let mut flow = flow(raw.address);
    flow.profile = hold(1.0, 100);
    let outcome = drive(flow);
    assert_eq!(outcome.total().good, 1);
    assert_eq!(outcome.ended, 1);
}

#[test]
fn a_stop_is_heard_soon() {
    let raw = Raw::new(|_| vec![Act::Pause(Duration::from_secs(5))]);
    let mut flow = flow(raw.address);
    flow.profile = hold(2.0, 60_000);
    flow.connections = 2;
    let begun = Instant::now();
    let outcome = drive_until(flow, |control| {
        while raw.requests() < 2 {
            std::thread::yield_now();
        }
        control.stop();
    });
    let total = outcome.total();
    assert_eq!(faults(&total, Fault::Unfinished), 2, "{:?}", total.faults);
    assert_eq!((total.sent, outcome.ended), (2, 1));
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_target_that_dies_does_not_end_the_run() {
    let raw = Raw::new(|_| answer(200, "connection: close\r\n", b"x"));
    let address = raw.address;
    let mut flow = flow(address);
    flow.profile = hold(1.0, 1500);
    // It answers and closes, so each request needs the listener.
    let outcome = drive_until(flow, move |_| {
        let begun = Instant::now();
        // The fourth comes when three are answered.
        while raw.requests() < 4 && begun.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        drop(raw);
    });
    let total = outcome.total();
    assert_eq!(outcome.failure, None);
    assert!(total.good >= 3);
    assert!(
        total.failures() >= 1 && total.failures() < 40,
        "it backs off: {:?}",
        total.faults
    );
    // Without a listener a connection is refused; one that waited to be accepted is reset, and its
    // request may have been written or not.
    let written = total.good + total.failures() - faults(&total, Fault::Refused);
    let unsure = faults(&total, Fault::Reset);
    assert!(
        (written - unsure..=written).contains(&total.sent),
        "{} sent: {:?}",
        total.sent,
        total.faults
    );
}
