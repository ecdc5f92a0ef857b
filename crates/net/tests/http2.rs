//! HTTP/2 as its server and its client, with real sockets: what has a bound in time, what is translated, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Destination, Name, Permit, Refusal};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request};
use net::h1::{ConnectionSettings, Error, Framing, ServerConnection, Stream, Thread};
use net::{
    AcceptedConnection, ConnectionService, Drain, EdgeShared, Endpoint, Listener, ListenerSettings,
    Targets, Upstreams,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

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

/// Answers with what came: the body, its trailers, and as many bytes as `/bytes/N` asks for.
#[derive(Default)]
struct Echo {
    /// Connections that are being served.
    open: Rc<Cell<usize>>,
    /// Those that ended with an error.
    failed: Cell<usize>,
}

/// One that is being served, until its service ends or is dropped.
struct Served(Rc<Cell<usize>>);

impl Served {
    fn new(open: &Rc<Cell<usize>>) -> Served {
        open.set(open.get() + 1);
        Served(Rc::clone(open))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl ConnectionService for Echo {
    async fn connection(&self, accepted: AcceptedConnection) {
        let _served = Served::new(&self.open);
        let AcceptedConnection {
            stream,
            thread,
            bounds,
            ..
        } = accepted;
        let mut server = ServerConnection::new(stream, &thread, &bounds);
        if echo(&mut server).await.is_err() {
            self.failed.set(self.failed.get() + 1);
        }
    }
}

async fn echo(server: &mut ServerConnection<Stream>) -> Result<(), Error> {
    while let Some(request) = server.head().await? {
        let (target, is_head) = (request.target().to_vec(), request.is_head());
        let told = format!("{} {}", request.version() as u8, request.fields().len());
        let mut body = Vec::new();
        while let Some(piece) = server.piece().await? {
            body.extend_from_slice(piece);
        }
        if let Some(bytes) = target.strip_prefix(b"/bytes/") {
            let bytes: usize = std::str::from_utf8(bytes).unwrap().parse().unwrap();
            body = vec![b'x'; bytes];
        }
        if target == b"/204" {
            server.respond(204, [], Framing::None)?;
            server.end()?;
            server.flush().await?;
            continue;
        }
        if target == b"/cut" {
            server.respond(200, [], Framing::Chunked)?;
            server.body(b"half").await?;
            server.flush().await?;
            return Err(Error::Cut);
        }
        let trailers: Vec<(Vec<u8>, Vec<u8>)> = server
            .trailers()
            .iter()
            .map(|field| (field.name.to_vec(), field.value.to_vec()))
            .collect();
        server.respond(200, [(&b"x-told"[..], told.as_bytes())], Framing::Chunked)?;
        if !is_head {
            server.body(&body).await?;
        }
        server.end_with(trailers.iter().map(|(name, value)| (&name[..], &value[..])))?;
        server.flush().await?;
    }
    Ok(())
}

struct Edge {
    address: SocketAddr,
    echo: Rc<Echo>,
    drain: Drain,
}

fn start(bounds: ConnectionSettings) -> Edge {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (echo, drain) = (Rc::new(Echo::default()), Drain::new());
    let thread = Thread::new(bounds.tick_ms());
    spawn_local(net::serve_connections(
        (
            Listener::Tcp(listener),
            Rc::new(ListenerSettings::default()),
        ),
        Rc::clone(&echo),
        thread,
        Rc::new(bounds),
        Arc::<EdgeShared>::default(),
        drain.clone(),
    ));
    Edge {
        address,
        echo,
        drain,
    }
}

async fn connect(edge: &Edge, window: u32) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(edge.address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window);
    let (send, connection) = builder.handshake(stream).await.unwrap();
    spawn_local(async move {
        let _ = connection.await;
    });
    send.ready().await.unwrap()
}

fn get(path: &str) -> Request<()> {
    let uri = format!("http://a.example{path}");
    Request::builder().uri(uri).body(()).unwrap()
}

async fn whole(mut body: RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        all.extend_from_slice(&piece);
    }
    (all, body.trailers().await.unwrap())
}

async fn until(is_true: impl Fn() -> bool) {
    while !is_true() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn bodies_and_trailers_go_both_ways() {
    run(async {
        let edge = start(ConnectionSettings::default());
        let mut send = connect(&edge, 65_535).await;
        let post = Request::post("http://a.example/").body(()).unwrap();
        let (answer, mut sending) = send.send_request(post, false).unwrap();
        let body = vec![b'b'; 300_000];
        let mut rest = Bytes::from(body.clone());
        let up = async {
            while !rest.is_empty() {
                sending.reserve_capacity(rest.len().min(10_000));
                let room = poll_fn(|context| sending.poll_capacity(context)).await;
                let part = rest.split_to(room.unwrap().unwrap().min(rest.len()));
                sending.send_data(part, false).unwrap();
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "42".parse().unwrap());
            sending.send_trailers(trailers).unwrap();
        };
        let down = async {
            let answer = answer.await.unwrap();
            assert_eq!(answer.headers()["x-told"], "1 2");
            whole(answer.into_body()).await
        };
        let ((), (got, trailers)) = tokio::join!(up, down);
        assert!(got == body);
        assert_eq!(trailers.unwrap()["x-sum"], "42");
    });
}

#[test]
fn an_answer_without_a_body_has_none() {
    run(async {
        let edge = start(ConnectionSettings::default());
        let mut send = connect(&edge, 65_535).await;
        let head = Request::head("http://a.example/bytes/9").body(()).unwrap();
        for (request, status) in [(get("/204"), 204), (head, 200)] {
            let (answer, _) = send.send_request(request, true).unwrap();
            let answer = answer.await.unwrap();
            assert_eq!(answer.status(), status);
            assert!(answer.body().is_end_stream());
        }
    });
}

#[test]
fn an_answer_that_breaks_off_does_not_end() {
    run(async {
        let edge = start(ConnectionSettings::default());
        let mut send = connect(&edge, 65_535).await;
        let (answer, _) = send.send_request(get("/cut"), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        let error = loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("it ended well"),
            }
        };
        assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    });
}

#[test]
fn a_window_that_stays_closed_ends_its_stream() {
    run(async {
        let edge = start(ConnectionSettings {
            write_ms: 100,
            ..ConnectionSettings::default()
        });
        let mut send = connect(&edge, 1_000).await;
        let (answer, _) = send.send_request(get("/bytes/200000"), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        // Nothing that comes is released, so no more may come.
        let error = loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("it ended well"),
            }
        };
        assert!(error.is_reset());
        until(|| edge.echo.open.get() == 0).await;
        // Others of the connection go on.
        let (answer, _) = send.send_request(get("/bytes/10"), true).unwrap();
        assert_eq!(whole(answer.await.unwrap().into_body()).await.0.len(), 10);
    });
}

#[test]
fn a_stream_that_is_taken_back_ends_its_exchange() {
    run(async {
        let edge = start(ConnectionSettings::default());
        let mut send = connect(&edge, 65_535).await;
        let post = Request::post("http://a.example/").body(()).unwrap();
        let (answer, mut sending) = send.send_request(post, false).unwrap();
        sending
            .send_data(Bytes::from_static(b"some"), false)
            .unwrap();
        until(|| edge.echo.open.get() == 1).await;
        sending.send_reset(Reason::CANCEL);
        until(|| edge.echo.open.get() == 0).await;
        assert!(answer.await.is_err());
    });
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    run(async {
        let edge = start(ConnectionSettings {
            piece_ms: 100,
            ..ConnectionSettings::default()
        });
        let mut send = connect(&edge, 65_535).await;
        let post = Request::post("http://a.example/").body(()).unwrap();
        let (answer, _sending) = send.send_request(post, false).unwrap();
        assert!(answer.await.is_err());
        until(|| edge.echo.open.get() == 0).await;
        assert_eq!(edge.echo.failed.get(), 1);
    });
}

#[test]
fn a_connection_that_asks_nothing_is_closed_and_a_drain_ends_it() {
    run(async {
        let edge = start(ConnectionSettings {
            idle_ms: 100,
            ..ConnectionSettings::default()
        });
        let stream = TcpStream::connect(edge.address).await.unwrap();
        let (_send, connection) = h2::client::handshake(stream).await.unwrap();
        let ended = connection.await;
        assert!(ended.is_ok() || ended.unwrap_err().is_go_away());
        // Without a word of the preface it is closed as one of HTTP/1.1.
        let edge = start(ConnectionSettings {
            head_ms: 100,
            ..ConnectionSettings::default()
        });
        let silent = TcpStream::connect(edge.address).await.unwrap();
        silent.readable().await.unwrap();
        assert_eq!(silent.try_read(&mut [0; 1]).unwrap(), 0);
        let edge = start(ConnectionSettings::default());
        let stream = TcpStream::connect(edge.address).await.unwrap();
        let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
        let driven = spawn_local(connection);
        let (answer, _) = send.send_request(get("/bytes/10"), true).unwrap();
        assert_eq!(whole(answer.await.unwrap().into_body()).await.0.len(), 10);
        edge.drain.start();
        let _ = driven.await.unwrap();
    });
}

/// Lets everything pass to one target.
struct Pass(Name);

impl Permit for Pass {
    fn call(&self) -> CallId {
        CallId([1; 16])
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Configured(&self.0)
    }

    fn dial(&self, _: IpAddr) -> Result<(), Refusal> {
        Ok(())
    }

    fn in_force(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A server of HTTP/2 that echoes; says how many connections it had, and whether a stream was taken back.
#[derive(Default)]
struct Server {
    connections: Cell<usize>,
    taken_back: Cell<usize>,
}

async fn serve(listener: TcpListener, server: Rc<Server>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        server.connections.set(server.connections.get() + 1);
        let server = Rc::clone(&server);
        spawn_local(async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let server = Rc::clone(&server);
                spawn_local(async move {
                    assert_eq!(request.headers()["te"], "trailers");
                    if request.uri().path() == "/never" {
                        let reset = poll_fn(|context| respond.poll_reset(context)).await;
                        assert!(reset.is_ok());
                        server.taken_back.set(server.taken_back.get() + 1);
                        return;
                    }
                    let (body, _) = whole(request.into_body()).await;
                    let answer = http::Response::builder()
                        .header("x-a", "b")
                        .body(())
                        .unwrap();
                    let mut sending = respond.send_response(answer, false).unwrap();
                    sending.send_data(body.into(), false).unwrap();
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", "0".parse().unwrap());
                    sending.send_trailers(trailers).unwrap();
                });
            }
        });
    }
}

async fn upstreams() -> (Rc<Server>, Upstreams<Pass>, Pass) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = Name::new("origin").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = Endpoint {
        http2: true,
        ..Endpoint::parse(&url).unwrap()
    };
    let server = Rc::new(Server::default());
    spawn_local(serve(listener, Rc::clone(&server)));
    let targets = Targets::new([(name.clone(), endpoint)]).unwrap();
    let bounds = ConnectionSettings::default();
    let thread = Thread::new(bounds.tick_ms());
    let upstreams = Upstreams::new(Arc::new(targets), thread, bounds);
    (server, upstreams, Pass(name))
}

#[test]
fn calls_share_a_connection_to_a_server() {
    run(async {
        let (server, upstreams, pass) = upstreams().await;
        let ask = async |text: &'static str| {
            let request = Request::post("/").body(Bytes::from_static(text.as_bytes()));
            let mut answer = upstreams
                .send(&pass, request.unwrap(), 5_000)
                .await
                .unwrap();
            let all = answer.whole(1_000, 5_000).await.unwrap();
            assert_eq!(all, text.as_bytes());
            answer.reuse();
        };
        tokio::join!(ask("one"), ask("two"), ask("three"), ask("four"));
        ask("after").await;
        assert_eq!(server.connections.get(), 1);
        let mut lease = upstreams.take(&pass, 5_000).await.unwrap();
        lease
            .request(b"POST", b"/", b"a.example", [], Framing::Length(2))
            .unwrap();
        lease.body(b"hi").await.unwrap();
        lease.end().unwrap();
        lease.flush().await.unwrap();
        let answer = lease.answer().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.fields().get(b"x-a"), Some(&b"b"[..]));
        let mut body = Vec::new();
        while let Some(piece) = lease.piece().await.unwrap() {
            body.extend_from_slice(piece);
        }
        assert_eq!(body, b"hi");
        assert_eq!(lease.trailers().get(b"grpc-status"), Some(&b"0"[..]));
    });
}

#[test]
fn a_call_that_is_given_up_takes_its_stream_back() {
    run(async {
        let (server, upstreams, pass) = upstreams().await;
        let request = Request::get("/never").body(Bytes::new()).unwrap();
        let late = upstreams.send(&pass, request, 100).await;
        assert!(late.is_err());
        until(|| server.taken_back.get() == 1).await;
    });
}

#[test]
fn a_server_that_speaks_http11_alone_is_down() {
    run(async {
        let edge = start(ConnectionSettings {
            http2: false,
            ..ConnectionSettings::default()
        });
        let name = Name::new("origin").unwrap();
        let endpoint = Endpoint {
            http2: true,
            ..Endpoint::parse(&format!("http://{}", edge.address)).unwrap()
        };
        let targets = Targets::new([(name.clone(), endpoint)]).unwrap();
        let bounds = ConnectionSettings::default();
        let thread = Thread::new(bounds.tick_ms());
        let upstreams = Upstreams::new(Arc::new(targets), thread, bounds);
        let request = Request::get("/").body(Bytes::new()).unwrap();
        let answer = upstreams.send(&Pass(name), request, 5_000).await;
        assert!(answer.is_err());
    });
}
