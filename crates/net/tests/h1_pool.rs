//! The pool and the accepting loop, with real sockets: who may be dialled, what is used again, what
//! is not, and how a thread stops.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::cell::RefCell;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Name, Permit, Refusal, refusal};
use net::h1::{
    self, ConnectionService, ConnectionSettings, Error, Framing, Listener, PeerAddress,
    ServerConnection, Stream, Thread, Wires,
};
use net::{Drain, EdgeShared, Endpoint, SendError, Targets};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

const NO_FIELDS: [(&[u8], &[u8]); 0] = [];
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Allows what the test says, and remembers what it was asked.
struct Pass {
    target: Name,
    allow: fn(IpAddr) -> bool,
    asked: RefCell<Vec<IpAddr>>,
}

impl Permit for Pass {
    fn call(&self) -> CallId {
        CallId([1; 16])
    }

    fn destination(&self) -> base::Destination<'_> {
        base::Destination::Configured(&self.target)
    }

    fn dial(&self, address: IpAddr) -> Result<(), Refusal> {
        self.asked.borrow_mut().push(address);
        match (self.allow)(address) {
            true => Ok(()),
            false => Err(Refusal::new(refusal::ADDRESS, format!("not {address}"))),
        }
    }
}

fn pass(allow: fn(IpAddr) -> bool) -> Pass {
    let (target, asked) = (name(), RefCell::default());
    Pass {
        target,
        allow,
        asked,
    }
}

fn name() -> Name {
    Name::new("origin").unwrap()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(20), test).await };
    LocalSet::new()
        .block_on(&runtime, bounded)
        .expect("the test ends in time");
}

fn wires(address: SocketAddr, change: impl FnOnce(&mut Endpoint)) -> Wires<Pass> {
    let mut endpoint = Endpoint::parse(&format!("http://{address}")).unwrap();
    change(&mut endpoint);
    let targets = Arc::new(Targets::new([(name(), endpoint)]).unwrap());
    let bounds = ConnectionSettings::default();
    Wires::new(targets, Thread::new(bounds.tick_ms()), bounds)
}

/// Listens, and answers the first request of each connection with these bytes, more of them with
/// `OK`; what `close` says is closed after its first answer.
async fn origin(first: &'static [u8], close: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            spawn_local(async move {
                let mut answer = first;
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).await.unwrap_or(0) > 0 {
                    stream.write_all(answer).await.unwrap();
                    if close {
                        return;
                    }
                    answer = OK.as_bytes();
                }
            });
        }
    });
    address
}

/// One exchange; says whether the connection was a new one.
async fn ask(wires: &Wires<Pass>, permit: &Pass) -> Result<bool, SendError> {
    let mut wire = wires.take(permit, 5000).await?;
    wire.request(b"GET", b"/", b"a", NO_FIELDS, Framing::None)
        .unwrap();
    wire.end().unwrap();
    wire.flush().await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status(), 200);
    assert_eq!(wire.piece().await.unwrap().unwrap(), b"ok");
    assert_eq!(wire.piece().await.unwrap(), None);
    Ok(wire.is_fresh())
}

/// Lets everything that is due happen.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_whole_exchange_leaves_a_connection_for_the_next() {
    run(async {
        let wires = wires(origin(OK.as_bytes(), false).await, |_| ());
        let permit = pass(|_| true);
        assert!(ask(&wires, &permit).await.unwrap());
        assert_eq!(wires.idle(&name()), 1);
        assert!(!ask(&wires, &permit).await.unwrap());
        // A connection that is dropped within its exchange does not come back.
        let mut wire = wires.take(&permit, 5000).await.unwrap();
        wire.request(b"GET", b"/", b"a", NO_FIELDS, Framing::None)
            .unwrap();
        drop(wire);
        assert_eq!(wires.idle(&name()), 0);
        // One that nothing was asked on does.
        drop(wires.take(&permit, 5000).await.unwrap());
        assert_eq!(wires.idle(&name()), 1);
        assert!(wires.dial(&permit, 5000).await.unwrap().is_fresh());
    });
}

#[test]
fn nothing_is_dialled_or_lent_that_the_permit_does_not_allow() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let wires = wires(address, |_| ());
        let no = pass(|_| false);
        assert!(matches!(ask(&wires, &no).await, Err(SendError::Refused(_))));
        assert_eq!(*no.asked.borrow(), [address.ip()]);
        assert!(ask(&wires, &pass(|_| true)).await.unwrap());
        assert_eq!(wires.idle(&name()), 1);
        // The pooled connection was allowed to another call.
        let no = pass(|_| false);
        assert!(matches!(ask(&wires, &no).await, Err(SendError::Refused(_))));
        assert_eq!(
            no.asked.borrow().len(),
            2,
            "for the pooled one and for the new one"
        );
    });
}

#[test]
fn a_connection_that_ended_or_spoke_is_not_used_again() {
    run(async {
        let unasked =
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n".as_bytes();
        let closing =
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok".as_bytes();
        for (first, close, kept) in [
            (OK.as_bytes(), true, 1),
            (unasked, false, 0),
            (closing, false, 0),
        ] {
            let wires = wires(origin(first, close).await, |_| ());
            let permit = pass(|_| true);
            assert!(ask(&wires, &permit).await.unwrap());
            assert_eq!(wires.idle(&name()), kept);
            settle().await;
            assert!(ask(&wires, &permit).await.unwrap(), "a new connection");
        }
    });
}

#[test]
fn the_pool_is_bounded_in_number_and_time() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let wires = wires(address, |endpoint| {
            (endpoint.idle_max, endpoint.idle_ms) = (2, 1)
        });
        let permit = pass(|_| true);
        let mut lent = Vec::new();
        for _ in 0..3 {
            lent.push(wires.take(&permit, 5000).await.unwrap());
        }
        drop(lent);
        assert_eq!(wires.idle(&name()), 2);
        while wires.idle(&name()) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn what_cannot_be_reached_says_so() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let failed = ask(&wires(address, |_| ()), &pass(|_| true)).await;
        assert!(
            matches!(failed, Err(SendError::Unreachable(_))),
            "{failed:?}"
        );
    });
}

/// Answers `ok`; `/wait` only when the connection is told to go on by another byte.
struct Plain;

impl ConnectionService for Plain {
    async fn connection(
        &self,
        stream: Stream,
        peer: PeerAddress,
        thread: Rc<Thread>,
        bounds: Rc<ConnectionSettings>,
    ) {
        let mut server = ServerConnection::new(stream, &thread, &bounds);
        // What a client does wrong is its own matter.
        let _ = serve_plain(&mut server, peer).await;
    }

    fn busy(&self) -> &[u8] {
        b"HTTP/1.1 503 ConnectionService Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy"
    }
}

async fn serve_plain(
    server: &mut ServerConnection<Stream>,
    peer: PeerAddress,
) -> Result<(), Error> {
    loop {
        match server.head().await {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => {}
            Err(error) => {
                let status = error.status().ok_or(error)?;
                return server
                    .refuse(status, NO_FIELDS, error.to_string().as_bytes())
                    .await;
            }
        }
        while server.piece().await?.is_some() {}
        let said = match peer {
            PeerAddress::Tcp(_) => "ok",
            PeerAddress::Unix { .. } => "unix",
        };
        server.respond(200, NO_FIELDS, Framing::Length(said.len() as u64))?;
        server.body(said.as_bytes()).await?;
        server.end()?;
    }
}

struct Edge {
    shared: Arc<EdgeShared>,
    drain: Drain,
    serving: JoinHandle<()>,
}

fn start(listener: Listener, settings: ConnectionSettings) -> Edge {
    let (shared, drain) = (Arc::<EdgeShared>::default(), Drain::new());
    let thread = Thread::new(settings.tick_ms());
    let serving = h1::serve(
        listener,
        Rc::new(Plain),
        thread,
        settings,
        Arc::clone(&shared),
        drain.clone(),
    );
    let serving = spawn_local(async move { serving.await.unwrap() });
    Edge {
        shared,
        drain,
        serving,
    }
}

fn tcp() -> (Listener, SocketAddr) {
    let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (Listener::Tcp(listener), address)
}

#[test]
fn an_edge_serves_refuses_and_drains() {
    run(async {
        let (listener, address) = tcp();
        let edge = start(
            listener,
            ConnectionSettings {
                connections_max: 2,
                ..ConnectionSettings::default()
            },
        );
        let mut one = TcpStream::connect(address).await.unwrap();
        for _ in 0..3 {
            one.write_all(GET).await.unwrap();
            let mut bytes = vec![0; OK.len()];
            one.read_exact(&mut bytes).await.unwrap();
            assert_eq!(bytes, OK.as_bytes());
        }
        let mut bad = TcpStream::connect(address).await.unwrap();
        bad.write_all(b"GET / HTTP/1.1\nHost: a\n\n").await.unwrap();
        let mut text = String::new();
        bad.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(text.ends_with("A line ends in LF without CR."), "{text}");
        drop(bad);
        while edge.shared.connections() > 1 {
            tokio::task::yield_now().await;
        }
        let _two = TcpStream::connect(address).await.unwrap();
        let mut three = TcpStream::connect(address).await.unwrap();
        let mut text = String::new();
        three.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("busy"), "{text}");
        assert_eq!((edge.shared.accepted(), edge.shared.refused_busy()), (4, 1));
        // Idle connections do not hold up a drain.
        edge.drain.start();
        edge.serving.await.unwrap();
        assert_eq!(one.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(edge.shared.connections(), 0);
    });
}

#[test]
fn a_drain_lets_a_request_end_and_waits_no_longer_than_it_may() {
    run(async {
        let (listener, address) = tcp();
        let edge = start(
            listener,
            ConnectionSettings {
                drain_ms: 10_000,
                ..ConnectionSettings::default()
            },
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
            .await
            .unwrap();
        while edge.shared.connections() == 0 {
            tokio::task::yield_now().await;
        }
        settle().await;
        edge.drain.start();
        settle().await;
        stream.write_all(b"b").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        assert_eq!(text, head);
        edge.serving.await.unwrap();
        let (listener, address) = tcp();
        let edge = start(
            listener,
            ConnectionSettings {
                drain_ms: 1,
                ..ConnectionSettings::default()
            },
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
            .await
            .unwrap();
        while edge.shared.connections() == 0 {
            tokio::task::yield_now().await;
        }
        edge.drain.start();
        edge.serving.await.unwrap();
        assert_eq!(edge.shared.connections(), 0, "it was cut");
    });
}

#[test]
fn a_connection_that_stands_in_the_queue_when_the_drain_begins_is_served() {
    run(async {
        let (listener, address) = tcp();
        let edge = start(listener, ConnectionSettings::default());
        // Nothing is awaited until the drain has begun, so nobody has accepted it.
        let stream = std::net::TcpStream::connect(address).unwrap();
        edge.drain.start();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream).unwrap();
        stream.write_all(GET).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.contains("\r\nconnection: close\r\n"), "{text}");
        edge.serving.await.unwrap();
    });
}

#[test]
fn a_reserved_port_is_closed_until_it_is_opened() {
    run(async {
        let listener = net::reserve("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let listener = Listener::Tcp(listener);
        listener.open().unwrap();
        listener.open().unwrap();
        let edge = start(listener, ConnectionSettings::default());
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(GET).await.unwrap();
        let mut bytes = vec![0; OK.len()];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, OK.as_bytes());
        edge.drain.start();
        edge.serving.await.unwrap();
    });
}

#[test]
fn a_unix_socket_is_its_owners_alone_and_replaces_a_dead_one() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.sock");
        let listener = Listener::unix(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert!(Listener::unix(&path).is_err(), "somebody listens there");
        let edge = start(listener.share().unwrap(), ConnectionSettings::default());
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(GET).await.unwrap();
        let mut bytes = [0; 42];
        stream.read_exact(&mut bytes).await.unwrap();
        assert!(bytes.ends_with(b"\r\n\r\nunix"));
        edge.drain.start();
        edge.serving.await.unwrap();
        drop(listener);
        Listener::unix(&path).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(Listener::unix(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    });
}
