//! Servers of a few lines on threads of their own, and a flow driven against them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use lab::engine::{Begin, Control, Shipment, start};
use lab::exit::Failure;
use lab::plan::{Arrivals, Expect, Flow, Model, Plan, Protocol, Request, Target};
use lab::result::Note;
use lab::schedule::{Profile, Shape};
use lab::tally::{Fault, Metric, Tally};
use lab::template::{Body, Template};

/// What a run was.
pub(crate) struct Outcome {
    pub sum: Tally,
    /// By stage.
    pub steps: Vec<Tally>,
    pub notes: Vec<Note>,
    pub failure: Option<Failure>,
    pub begin: Option<Begin>,
    /// Threads that said that nothing more comes.
    pub ended: usize,
    /// The most requests that waited at the end of an interval.
    pub waiting_most: u64,
}

impl Outcome {
    pub(crate) fn fault(&self, fault: Fault) -> u64 {
        self.sum.faults[fault as usize]
    }

    pub(crate) fn count(&self, metric: Metric) -> u64 {
        self.sum.distribution(metric).map_or(0, |d| d.count())
    }

    pub(crate) fn quantile_ms(&self, metric: Metric, q: f64) -> f64 {
        let distribution = self.sum.distribution(metric).unwrap();
        distribution.quantile(q).unwrap() as f64 / 1e6
    }

    /// Everything went well, `count` times.
    pub(crate) fn all_good(&self, count: u64) {
        let sum = &self.sum;
        assert!(self.failure.is_none(), "{:?}", self.failure);
        assert_eq!((sum.good, sum.failures()), (count, 0), "{:?}", self.notes);
        assert_eq!((sum.sent, sum.completed, sum.dropped), (count, count, 0));
    }
}

/// A flow of GET requests, closed, on one connection, for a fifth of a second.
pub(crate) fn flow(address: SocketAddr) -> Flow {
    Flow {
        name: "test".into(),
        index: 0,
        targets: vec![target(address)],
        protocol: Protocol::Http1,
        model: Model::Closed,
        profile: holds(&[(1.0, 200)]),
        connections: 1,
        threads: 1,
        requests: vec![get("/")],
        feeds: Vec::new(),
        tls: None,
        timeout: Duration::from_secs(5),
        pause: Duration::ZERO,
        reconnect: false,
        names_failures: false,
    }
}

/// The same with exactly so many requests, one each millisecond, none dropped.
pub(crate) fn exactly(count: u64, address: SocketAddr) -> Flow {
    let model = Model::Open {
        arrivals: Arrivals::Uniform,
        queue_max: 100_000,
    };
    Flow {
        model,
        profile: holds(&[(1000.0, count)]),
        timeout: Duration::from_secs(20),
        ..flow(address)
    }
}

pub(crate) fn target(address: SocketAddr) -> Target {
    Target {
        tls: false,
        host: address.ip().to_string(),
        port: address.port(),
        authority: address.to_string(),
        addresses: vec![address],
    }
}

pub(crate) fn get(path: &str) -> Request {
    Request {
        name: "one".into(),
        weight: 1,
        method: "GET".into(),
        path: Template::plain(path),
        headers: Vec::new(),
        body: Body::None,
        ask: None,
        expect: Expect::default(),
    }
}

/// Stages that hold a level for so many milliseconds.
pub(crate) fn holds(levels: &[(f64, u64)]) -> Profile {
    let shape = |(at, ms): &(f64, u64)| Shape::Hold {
        at: *at,
        lasting: Duration::from_millis(*ms),
    };
    Profile::new(
        levels
            .iter()
            .map(|level| ("hold".into(), false, shape(level))),
    )
}

/// Drives a flow to its end.
pub(crate) fn run(flow: Flow) -> Outcome {
    run_until(flow, |_, _| {})
}

/// Drives a flow, with something to do at each shipment.
pub(crate) fn run_until(flow: Flow, mut each: impl FnMut(&Control, &Shipment)) -> Outcome {
    let (threads, steps) = (flow.threads, flow.profile.steps().len());
    let plan = Plan {
        name: "test".into(),
        seed: 7,
        run: 0xc0ffee,
        flows: vec![Arc::new(flow)],
        interval: Duration::from_millis(100),
    };
    let control = Arc::new(Control::default());
    let (sender, shipments) = sync_channel(1024);
    let joins = start(&plan, &control, &sender);
    drop(sender);
    let begun = control.begin(threads);
    let mut outcome = Outcome {
        sum: Tally::default(),
        steps: vec![Tally::default(); steps],
        notes: Vec::new(),
        failure: None,
        begin: begun.as_ref().ok().copied(),
        ended: 0,
        waiting_most: 0,
    };
    for shipment in shipments {
        each(&control, &shipment);
        for (key, tally) in &shipment.tallies {
            outcome.sum.add(tally);
            outcome.steps[usize::from(key.step)].add(tally);
        }
        outcome.notes.extend(shipment.notes);
        outcome.ended += usize::from(shipment.last);
        outcome.waiting_most = outcome.waiting_most.max(shipment.waiting);
    }
    joins.into_iter().for_each(|join| join.join().unwrap());
    outcome.failure = control.failure().or(begun.err());
    outcome
}

/// A server that hands each connection, with its number, to a thread of its own.
pub(crate) fn serve(each: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, each) = (listener.local_addr().unwrap(), Arc::new(each));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, each) = (stream.unwrap(), each.clone());
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || each(stream, number));
        }
    });
    address
}

/// A server that answers each request of a connection with what is made of its head and body.
pub(crate) fn answering(
    answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> SocketAddr {
    serve(move |mut stream, _| {
        while let Some((head, body)) = request(&mut stream) {
            if stream.write_all(&answer(&head, &body)).is_err() {
                return;
            }
        }
    })
}

/// The next request on a connection: its head without the empty line, and its body.
pub(crate) fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    head.truncate(head.len() - 4);
    let head = String::from_utf8(head).unwrap();
    let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// A field of a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let mut values = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value)
}

/// The answer of an echo server.
pub(crate) fn echo(head: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
    for name in ["weir-lab-id", "content-type"] {
        if let Some(value) = field(head, name) {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    answer.push_str("\r\n");
    [answer.as_bytes(), body].concat()
}
