//! Flows by hand, an engine carried out, and servers whose every byte the test decides.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::engine::{Control, Share, wire};
use lab::exit::Failure;
use lab::plan::{Expect, Flow, Model, Protocol, Request, Target};
use lab::result::Note;
use lab::schedule::{Profile, Shape};
use lab::tally::{Fault, Tally};
use lab::template::{Body, Template};

/// A GET of `/`, of which nothing special is expected.
pub(crate) fn get() -> Request {
    Request {
        name: "get".to_owned(),
        weight: 1,
        method: "GET".to_owned(),
        path: Template::plain("/"),
        headers: Vec::new(),
        body: Body::None,
        ask: None,
        expect: Expect::default(),
    }
}

/// A flow of one connection, closed, for 300 ms.
pub(crate) fn flow(address: SocketAddr) -> Flow {
    Flow {
        name: "test".to_owned(),
        index: 0,
        targets: vec![Target {
            tls: false,
            host: "localhost".to_owned(),
            port: address.port(),
            authority: format!("localhost:{}", address.port()),
            addresses: vec![address],
        }],
        protocol: Protocol::Http1,
        model: Model::Closed,
        profile: hold(1.0, 300),
        connections: 1,
        threads: 1,
        requests: vec![get()],
        feeds: Vec::new(),
        tls: None,
        timeout: Duration::from_secs(5),
        pause: Duration::ZERO,
        reconnect: false,
        names_failures: false,
    }
}

/// One hold.
pub(crate) fn hold(level: f64, ms: u64) -> Profile {
    let lasting = Duration::from_millis(ms);
    let shape = Shape::Hold { at: level, lasting };
    Profile::new([("hold".to_owned(), false, shape)])
}

/// What a run gave.
pub(crate) struct Outcome {
    /// By kind of request, over all steps.
    pub kinds: BTreeMap<u16, Tally>,
    pub notes: Vec<Note>,
    /// Threads that said their last.
    pub ended: usize,
    pub failure: Option<Failure>,
}

impl Outcome {
    pub(crate) fn kind(&self, kind: u16) -> Tally {
        self.kinds.get(&kind).cloned().unwrap_or_default()
    }

    /// Everything together.
    pub(crate) fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.kinds.values().for_each(|tally| total.add(tally));
        total
    }
}

/// Failures of one class.
pub(crate) fn faults(tally: &Tally, fault: Fault) -> u64 {
    tally.faults[fault as usize]
}

/// Carries a flow out with this engine.
pub(crate) fn drive(flow: Flow) -> Outcome {
    drive_until(flow, |_| {})
}

/// Carries a flow out; `begun` is called when it has begun, with the run's control.
pub(crate) fn drive_until(flow: Flow, begun: impl FnOnce(&Control)) -> Outcome {
    let (flow, control) = (Arc::new(flow), Arc::new(Control::default()));
    let (shipments, arrived) = std::sync::mpsc::sync_channel(64);
    let share = |thread| Share {
        flow: flow.clone(),
        thread,
        seed: 7,
        run: "00c0ffee0000".to_owned(),
        interval: Duration::from_millis(50),
        control: control.clone(),
        shipments: shipments.clone(),
    };
    let shares: Vec<_> = (0..flow.threads).map(share).collect();
    let work = |share: Share| {
        std::thread::spawn(move || {
            let control = share.control.clone();
            if let Err(failure) = wire::run(share) {
                control.fail(failure);
            }
        })
    };
    let threads: Vec<_> = shares.into_iter().map(work).collect();
    drop(shipments);
    let collector = std::thread::spawn(move || {
        let (mut kinds, mut notes, mut ended) = (BTreeMap::new(), Vec::new(), 0);
        for shipment in arrived {
            for (key, tally) in shipment.tallies {
                let kind: &mut Tally = kinds.entry(key.request).or_default();
                kind.add(&tally);
            }
            notes.extend(shipment.notes);
            ended += usize::from(shipment.last);
        }
        (kinds, notes, ended)
    });
    if control.begin(flow.threads).is_ok() {
        begun(&control);
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let (kinds, notes, ended) = collector.join().unwrap();
    Outcome {
        kinds,
        notes,
        ended,
        failure: control.failure(),
    }
}

/// What a flow fails of before it begins.
pub(crate) fn refusal(flow: Flow) -> Failure {
    let outcome = drive(flow);
    assert_eq!(outcome.total().good, 0, "nothing can have been good");
    outcome.failure.expect("the run is refused")
}

/// A request as the raw server read it.
#[derive(Debug)]
pub(crate) struct Heard {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What the raw server does for one request, in order.
pub(crate) enum Act {
    Write(Vec<u8>),
    Pause(Duration),
    /// Ends the connection.
    Close,
}

/// An answer with a body of a known length.
pub(crate) fn answer(status: u16, fields: &str, body: &[u8]) -> Vec<Act> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{fields}content-length: {length}\r\n\r\n");
    vec![Act::Write([head.as_bytes(), body].concat())]
}

pub(crate) fn json(fields: &str, body: serde_json::Value) -> Vec<Act> {
    let fields = format!("content-type: application/json\r\n{fields}");
    answer(200, &fields, body.to_string().as_bytes())
}

/// The begin of an event stream in chunks.
pub(crate) fn events() -> Act {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                transfer-encoding: chunked\r\n\r\n";
    Act::Write(head.as_bytes().to_vec())
}

/// One chunk.
pub(crate) fn chunk(text: &str) -> Act {
    Act::Write(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

pub(crate) fn last_chunk() -> Act {
    Act::Write(b"0\r\n\r\n".to_vec())
}

/// A server that reads requests and does what it is told.
pub(crate) struct Raw {
    pub address: SocketAddr,
    pub connections: Arc<AtomicU64>,
    pub requests: Arc<AtomicU64>,
    heard: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
}

impl Raw {
    pub(crate) fn new(act: impl Fn(&Heard) -> Vec<Act> + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let raw = Raw {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
            heard: Arc::default(),
            stop: Arc::default(),
        };
        let (connections, requests) = (raw.connections.clone(), raw.requests.clone());
        let (heard, stop, act) = (raw.heard.clone(), raw.stop.clone(), Arc::new(act));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                connections.fetch_add(1, Ordering::Relaxed);
                let (act, requests, heard) = (act.clone(), requests.clone(), heard.clone());
                std::thread::spawn(move || {
                    let mut socket = socket.unwrap();
                    socket.set_nodelay(true).unwrap();
                    while let Some(request) = hear(&mut socket) {
                        requests.fetch_add(1, Ordering::Relaxed);
                        let line = format!("{} {}", request.method, request.path);
                        heard.lock().unwrap().push(line);
                        if !perform(&mut socket, act(&request)) {
                            return;
                        }
                    }
                });
            }
        });
        raw
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests of a method.
    pub(crate) fn heard(&self, method: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|line| line.starts_with(method)).count()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn perform(socket: &mut TcpStream, acts: Vec<Act>) -> bool {
    acts.into_iter().all(|act| match act {
        Act::Write(bytes) => socket.write_all(&bytes).is_ok(),
        Act::Pause(lasting) => {
            std::thread::sleep(lasting);
            true
        }
        Act::Close => false,
    })
}

fn hear(socket: &mut TcpStream) -> Option<Heard> {
    let mut bytes = Vec::new();
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut fields);
        if let httparse::Status::Complete(head) = request.parse(&bytes).ok()? {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers = request.headers.iter();
            let mut heard = Heard {
                method: request.method?.to_owned(),
                path: request.path?.to_owned(),
                headers: headers
                    .map(|h| (h.name.to_owned(), text(h.value)))
                    .collect(),
                body: bytes[head..].to_vec(),
            };
            let length = heard.header("content-length").unwrap_or("0").parse().ok()?;
            let have = heard.body.len();
            heard.body.resize(length, 0);
            socket.read_exact(&mut heard.body[have..]).ok()?;
            return Some(heard);
        }
        let mut piece = [0; 4096];
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}
