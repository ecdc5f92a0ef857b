//! Two relays in one process with real sockets, an origin that is none of ours, and something in between.

#![expect(clippy::disallowed_types, reason = "a test has sockets of its own")]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::record::CallEnd;
use base::{Name, Now, Resource};
use gate::ports::{Clock, Meter, Ports, RecordError, Recorder};
use gate::{Gate, Reach, Rules};
use net::h1::ConnectionSettings;
use net::{Drain, EdgeShared, Endpoint, Listener, Targets, Upstreams};
use relay::settings::{CONTENT_BYTES_DEFAULT, SESSION_MS_DEFAULT};
use relay::{
    Agent, Callers, Enrolled, HostMatch, Inbound, InboundSettings, Outbound, OutboundSettings,
    Peer, PeerKey, Route, TicketKeys, To,
};
use seal::{Identity, Suite};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Longest wait of a test for something that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this comes true in time: what is counted behind the last byte of an answer, or behind a close.
pub(crate) fn comes(true_now: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !true_now() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        thread::yield_now();
    }
    true
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// The machine's clocks, which a test can put forward or back.
pub(crate) struct Shifted {
    start: Instant,
    pub unix_ms: AtomicU64,
    pub mono_ms: AtomicU64,
}

impl Shifted {
    pub(crate) fn new() -> Arc<Shifted> {
        Arc::new(Shifted {
            start: Instant::now(),
            unix_ms: AtomicU64::new(0),
            mono_ms: AtomicU64::new(0),
        })
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, ms: u64) {
        self.unix_ms.fetch_add(ms, Ordering::SeqCst);
        self.mono_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Shifted {
    fn now(&self) -> Now {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        Now {
            unix_ms: unix.as_millis() as u64 + self.unix_ms.load(Ordering::SeqCst),
            mono_ms: self.start.elapsed().as_millis() as u64 + self.mono_ms.load(Ordering::SeqCst),
        }
    }

    fn after(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// Keeps records in memory.
#[derive(Default)]
pub(crate) struct Kept(pub Mutex<Vec<String>>);

impl Kept {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panics here").clone()
    }

    fn keep(&self, record: Vec<u8>) {
        let text = String::from_utf8(record).expect("a record is text");
        self.0.lock().expect("no test panics here").push(text);
    }
}

impl Recorder for Kept {
    fn append(&self, record: Vec<u8>) -> oneshot::Receiver<Result<u64, RecordError>> {
        self.keep(record);
        let (answer, receiver) = oneshot::channel();
        let _ = answer.send(Ok(0));
        receiver
    }

    fn note(&self, record: Vec<u8>) {
        self.keep(record);
    }

    fn trouble(&self) -> Option<RecordError> {
        None
    }
}

struct Unmetered;

impl Meter for Unmetered {
    fn judged(&self, _: &Resource, _: Option<&'static str>) {}
    fn ended(&self, _: &Resource, _: CallEnd, _: u64) {}
    fn found(&self, _: &'static str, _: &'static str) {}
}

pub(crate) const PERMIT_ALL: &str = "permit (principal, action, resource);";

pub(crate) fn rules(policy: &str, names: &[&str]) -> Rules {
    let source = policy::Source {
        file: "test.cedar",
        text: policy,
    };
    Rules {
        policies: policy::Policies::load(&[&relay::LANE], &[source], &BTreeMap::new())
            .expect("a policy"),
        engine: scan::Engine::new(scan::Settings::default(), [7; 32]),
        rates: gate::Rates::of_agent(1_000_000),
        budgets: Vec::new(),
        reach: names
            .iter()
            .map(|text| (name(text), Reach::loopback()))
            .collect(),
    }
}

pub(crate) fn gate(policy: &str, names: &[&str], clock: &Arc<Shifted>) -> (Arc<Gate>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let ports = Ports::new(
        Arc::new(store::Agents::new(std::iter::empty())),
        Arc::new(store::Limits::new()),
        kept.clone(),
        Arc::clone(clock) as Arc<dyn Clock>,
        Arc::new(Unmetered),
    );
    (Arc::new(Gate::new(ports, rules(policy, names))), kept)
}

pub(crate) fn agent(text: &str) -> Agent {
    Agent {
        name: name(text),
        groups: Vec::new(),
        state: identity::AgentState::Active,
    }
}

pub(crate) fn everything_to(to: To) -> Vec<Route> {
    vec![Route {
        host: HostMatch::Any,
        path: "/".into(),
        to,
    }]
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::parse(&format!("http://{address}")).expect("a URL")
}

pub(crate) fn edge() -> ConnectionSettings {
    ConnectionSettings {
        drain_ms: 2_000,
        ..ConnectionSettings::default()
    }
}

/// The outbound's key and the inbound's, for every test the same.
pub(crate) fn out_key() -> Identity {
    Identity::from_seed(&[1; 32])
}

pub(crate) fn in_key(seed: u8) -> Identity {
    Identity::from_seed(&[seed; 32])
}

pub(crate) fn inbound_settings(origin: SocketAddr) -> InboundSettings {
    InboundSettings {
        routes: everything_to(To::Plain(name("origin"))),
        origins: vec![(name("origin"), endpoint(origin))],
        mutual: None,
        identities: vec![in_key(2)],
        peers: vec![Enrolled {
            agent: agent("app"),
            public: out_key().public().clone(),
            psk: None,
            sessions_after_unix_ms: 0,
        }],
        tokens: Vec::new(),
        ticket_keys: TicketKeys::Own,
        mode: relay::Mode::Local,
        claims: None,
        session_ms: SESSION_MS_DEFAULT,
        next_pin: None,
        windows_max: 4096,
        handshake_cpu_us_per_s: 1_000_000,
        content_bytes_max: CONTENT_BYTES_DEFAULT,
        padding: false,
        edge: edge(),
        upstream: edge(),
    }
}

pub(crate) fn outbound_settings(peer: SocketAddr) -> OutboundSettings {
    OutboundSettings {
        routes: everything_to(To::Peer(name("peer"))),
        peers: vec![Peer {
            name: name("peer"),
            endpoint: endpoint(peer),
            keys: vec![PeerKey::Public(in_key(2).public().clone())],
            suite: Suite::AesGcm,
            identity: Arc::new(out_key()),
            psks: Vec::new(),
            token: None,
            padding: false,
        }],
        plain: Vec::new(),
        callers: anyone(),
        content_bytes_max: CONTENT_BYTES_DEFAULT,
        edge: edge(),
        upstream: edge(),
    }
}

pub(crate) fn anyone() -> Callers {
    Callers {
        field: "proxy-authorization".into(),
        tokens: Vec::new(),
        users: Vec::new(),
        anyone: Some(agent("anyone")),
    }
}

/// A relay that serves on threads of its own; it drains when it is dropped.
pub(crate) struct Serving<R> {
    pub relay: Arc<R>,
    pub address: SocketAddr,
    pub kept: Arc<Kept>,
    pub gate: Arc<Gate>,
    pub drain: Drain,
    threads: Vec<JoinHandle<()>>,
}

impl<R> Serving<R> {
    /// Drains, and waits until all threads have ended.
    pub(crate) fn stop(&mut self) {
        self.drain.start();
        for thread in self.threads.drain(..) {
            thread.join().expect("a relay's thread");
        }
    }
}

impl<R> Drop for Serving<R> {
    fn drop(&mut self) {
        self.drain.start();
        if !thread::panicking() {
            let (seals, repeats) = seal::audit::so_far();
            assert_eq!(repeats, 0, "of {seals} seals some had one key and nonce");
        }
    }
}

/// Begins the nonce audit of this process: whatever a test does to messages, no key and nonce seal twice.
fn audit() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(seal::audit::begin);
}

/// So many listeners on one address.
fn listeners(count: usize, address: SocketAddr) -> (SocketAddr, Vec<Listener>) {
    audit();
    let first = net::bind(address).expect("a listener");
    let address = first.local_addr().expect("an address");
    let rest = (1..count).map(|_| net::bind(address).expect("another listener"));
    let listeners = std::iter::once(first).chain(rest);
    (address, listeners.map(Listener::Tcp).collect())
}

/// A thread for each listener.
pub(crate) fn threads<F>(listeners: Vec<Listener>, serve: F) -> Vec<JoinHandle<()>>
where
    F: AsyncFn(Listener) + Clone + Send + 'static,
{
    let start = |listener: Listener| {
        let serve = serve.clone();
        thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().expect("a runtime");
            let local = LocalSet::new();
            runtime.block_on(local.run_until(serve(listener)));
        })
    };
    listeners.into_iter().map(start).collect()
}

pub(crate) fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// An inbound that is past its first two seconds.
pub(crate) fn inbound(settings: InboundSettings, clock: &Arc<Shifted>) -> Serving<Inbound> {
    let serving = inbound_at(settings, clock, 1, anywhere());
    clock.pass(2_100);
    serving
}

pub(crate) fn inbound_at(
    settings: InboundSettings,
    clock: &Arc<Shifted>,
    count: usize,
    address: SocketAddr,
) -> Serving<Inbound> {
    let (address, listeners) = listeners(count, address);
    let names: Vec<String> = settings
        .endpoints()
        .iter()
        .map(|(n, _)| n.to_string())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (gate, kept) = gate(PERMIT_ALL, &names, clock);
    let targets = Arc::new(Targets::new(settings.endpoints()).expect("targets"));
    let port = Arc::clone(clock) as Arc<dyn Clock>;
    let relay = Inbound::new(settings, Arc::clone(&gate), port).expect("settings");
    let (drain, shared) = (Drain::new(), Arc::new(EdgeShared::default()));
    let serve = {
        let (relay, drain) = (Arc::clone(&relay), drain.clone());
        async move |listener| {
            let (targets, shared) = (Arc::clone(&targets), Arc::clone(&shared));
            let upstreams = |thread, bounds| Upstreams::new(targets, thread, bounds);
            let served = relay
                .serve(listener, upstreams, shared, drain.clone())
                .await;
            served.expect("it serves");
        }
    };
    let threads = threads(listeners, serve);
    Serving {
        relay,
        address,
        kept,
        gate,
        drain,
        threads,
    }
}

pub(crate) fn outbound(settings: OutboundSettings, clock: &Arc<Shifted>) -> Serving<Outbound> {
    outbound_at(settings, clock, 1, anywhere())
}

pub(crate) fn outbound_at(
    settings: OutboundSettings,
    clock: &Arc<Shifted>,
    count: usize,
    address: SocketAddr,
) -> Serving<Outbound> {
    let (address, listeners) = listeners(count, address);
    let mut serving = outbound_on(settings, clock, listeners);
    serving.address = address;
    serving
}

/// An outbound on listeners that are there already.
pub(crate) fn outbound_on(
    settings: OutboundSettings,
    clock: &Arc<Shifted>,
    listeners: Vec<Listener>,
) -> Serving<Outbound> {
    let address = anywhere();
    let names: Vec<String> = settings
        .endpoints()
        .iter()
        .map(|(n, _)| n.to_string())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (gate, kept) = gate(PERMIT_ALL, &names, clock);
    let targets = Arc::new(Targets::new(settings.endpoints()).expect("targets"));
    let port = Arc::clone(clock) as Arc<dyn Clock>;
    let relay = Outbound::new(settings, Arc::clone(&gate), port).expect("settings");
    let (drain, shared) = (Drain::new(), Arc::new(EdgeShared::default()));
    let serve = {
        let (relay, drain) = (Arc::clone(&relay), drain.clone());
        async move |listener| {
            let (targets, shared) = (Arc::clone(&targets), Arc::clone(&shared));
            let upstreams = |thread, bounds| Upstreams::new(targets, thread, bounds);
            let served = relay
                .serve(listener, upstreams, shared, drain.clone())
                .await;
            served.expect("it serves");
        }
    };
    let threads = threads(listeners, serve);
    Serving {
        relay,
        address,
        kept,
        gate,
        drain,
        threads,
    }
}

/// One message as it stood on the wire, with its body out of its framing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub line: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn status(&self) -> u16 {
        self.line
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .unwrap_or(0)
    }

    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// A connection, read with a parser that is none of ours.
pub(crate) struct Line {
    pub stream: TcpStream,
    pub rest: Vec<u8>,
}

impl Line {
    pub(crate) fn to(address: SocketAddr) -> Line {
        Line::of(TcpStream::connect(address).expect("a connection"))
    }

    pub(crate) fn of(stream: TcpStream) -> Line {
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Line {
            stream,
            rest: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads more; false at the end.
    pub(crate) fn more(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 64 << 10];
        let read = self.stream.read(&mut buffer)?;
        self.rest.extend_from_slice(&buffer[..read]);
        Ok(read > 0)
    }

    fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut from = 0;
        loop {
            let found = self.rest[from..].windows(end.len()).position(|w| w == end);
            if let Some(at) = found {
                let end = from + at + end.len();
                return Ok(self.rest.drain(..end).collect());
            }
            from = self.rest.len().saturating_sub(end.len());
            if !self.more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    pub(crate) fn exactly(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        while self.rest.len() < bytes {
            if !self.more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.rest.drain(..bytes).collect())
    }

    /// A head, without its body.
    pub(crate) fn head(&mut self) -> io::Result<Message> {
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8(head).expect("a head is text here");
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        Ok(Message {
            line,
            fields: lines.map(field).collect(),
            ..Message::default()
        })
    }

    /// The next piece of a chunked body; nothing at its end.
    pub(crate) fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.until(b"\r\n")?;
        let size = String::from_utf8_lossy(&size);
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk's size");
        if size == 0 {
            return Ok(None);
        }
        let mut piece = self.exactly(size + 2)?;
        piece.truncate(size);
        Ok(Some(piece))
    }

    pub(crate) fn trailers(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut trailers = Vec::new();
        loop {
            let line = self.until(b"\r\n")?;
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if line.is_empty() {
                return Ok(trailers);
            }
            trailers.push(field(&line));
        }
    }

    /// A body, by what its head says.
    pub(crate) fn body(&mut self, message: &mut Message) -> io::Result<()> {
        if message.field("transfer-encoding").is_some() {
            while let Some(piece) = self.piece()? {
                message.body.extend_from_slice(&piece);
            }
            message.trailers = self.trailers()?;
        } else if let Some(length) = message.field("content-length") {
            let length = length.parse().expect("a length");
            message.body = self.exactly(length)?;
        }
        Ok(())
    }

    /// A whole message.
    pub(crate) fn message(&mut self) -> io::Result<Message> {
        let mut message = self.head()?;
        self.body(&mut message)?;
        Ok(message)
    }

    /// Sends a request and reads the final answer.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Message> {
        self.send(request)?;
        let is_head = request.starts_with(b"HEAD");
        loop {
            let mut answer = self.head()?;
            if answer.status() >= 200 {
                if !is_head && !matches!(answer.status(), 204 | 304) {
                    self.body(&mut answer)?;
                }
                return Ok(answer);
            }
        }
    }
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').expect("a field");
    (name.to_owned(), value.trim().to_owned())
}

pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: app.example\r\nX-Kept: Yes\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// An origin: a thread for each connection, and what it was asked.
pub(crate) struct Origin {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<Message>>>,
}

impl Origin {
    /// `answer` gets each head with its connection, and has to read the body.
    pub(crate) fn new(
        answer: impl Fn(Message, &mut Line) -> io::Result<()> + Send + Sync + 'static,
    ) -> Origin {
        let listener = TcpListener::bind(anywhere()).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut line = Line::of(stream);
                    while let Ok(head) = line.head() {
                        kept.lock().expect("no panic here").push(head.clone());
                        if answer(head, &mut line).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Origin { address, seen }
    }

    /// One that gives every body back with its length.
    pub(crate) fn echo() -> Origin {
        Origin::new(|mut head, line| {
            line.body(&mut head)?;
            let length = head.body.len();
            let is_head = head.line.starts_with("HEAD ");
            line.send(
                format!(
                    "HTTP/1.1 200 OK\r\nX-Path: {}\r\ncontent-length: {length}\r\n\r\n",
                    head.path()
                )
                .as_bytes(),
            )?;
            if is_head {
                Ok(())
            } else {
                line.send(&head.body)
            }
        })
    }

    pub(crate) fn asked(&self) -> usize {
        self.seen.lock().expect("no panic here").len()
    }
}

/// What stands between the two relays: it keeps all bytes, and may change those of each direction.
pub(crate) struct Middle {
    pub address: SocketAddr,
    pub captured: Arc<Mutex<Vec<u8>>>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Inbound,
    Outbound,
}

/// What a middle hop does with bytes that it read: changes them, or cuts both connections by `false`.
pub(crate) type Change = dyn Fn(Toward, &mut Vec<u8>) -> bool + Send + Sync;

impl Middle {
    pub(crate) fn new(to: SocketAddr, change: Arc<Change>) -> Middle {
        let listener = TcpListener::bind(anywhere()).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let captured = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&captured);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(near) = stream else { return };
                let Ok(far) = TcpStream::connect(to) else {
                    continue;
                };
                for (toward, from, to) in [
                    (Toward::Inbound, &near, &far),
                    (Toward::Outbound, &far, &near),
                ] {
                    let (from, to) = (
                        from.try_clone().expect("a clone"),
                        to.try_clone().expect("a clone"),
                    );
                    let (kept, change) = (Arc::clone(&kept), Arc::clone(&change));
                    thread::spawn(move || carry(toward, from, to, &kept, &*change));
                }
            }
        });
        Middle { address, captured }
    }
}

fn carry(
    toward: Toward,
    mut from: TcpStream,
    mut to: TcpStream,
    kept: &Mutex<Vec<u8>>,
    change: &Change,
) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..read].to_vec();
        kept.lock()
            .expect("no panic here")
            .extend_from_slice(&bytes);
        if !change(toward, &mut bytes) {
            break;
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}
