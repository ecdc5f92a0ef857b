//! The accepting loop, with real sockets: who is served, who is told that there is no place, and how a thread stops.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use net::h1::{ConnectionSettings, Error, Framing, PeerAddress, ServerConnection, Stream, Thread};
use net::{AcceptedConnection, ConnectionService, Drain, EdgeShared, Listener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

const NO_FIELDS: [(&[u8], &[u8]); 0] = [];
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

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

/// Lets everything that is due happen.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Answers `ok`; `/wait` only when the connection is told to go on by another byte.
struct Plain;

impl ConnectionService for Plain {
    async fn connection(&self, accepted: AcceptedConnection) {
        let AcceptedConnection {
            stream,
            peer,
            thread,
            bounds,
            ..
        } = accepted;
        let mut server = ServerConnection::new(stream, &thread, &bounds);
        // What a client does wrong is its own matter.
        let _ = serve_plain(&mut server, peer.address).await;
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
    let serving = net::serve_connections(
        (listener, Rc::default()),
        Rc::new(Plain),
        thread,
        Rc::new(settings),
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
        assert!(
            text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\n\r\nhttp.busy: "), "{text}");
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
        let listener = Listener::unix(&path, 0o600).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert!(
            Listener::unix(&path, 0o600).is_err(),
            "somebody listens there"
        );
        let edge = start(listener.share().unwrap(), ConnectionSettings::default());
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(GET).await.unwrap();
        let mut bytes = [0; 42];
        stream.read_exact(&mut bytes).await.unwrap();
        assert!(bytes.ends_with(b"\r\n\r\nunix"));
        edge.drain.start();
        edge.serving.await.unwrap();
        drop(listener);
        Listener::unix(&path, 0o600).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(Listener::unix(&file, 0o600).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    });
}
