//! What a bare hop costs: a server that echoes bodies, or a proxy in front of one, on one thread.
//!
//! `h1_echo echo ADDR`, `h1_echo proxy ADDR UPSTREAM`, and the same by hyper: `hyper-echo`, `hyper-proxy`. It judges
//! nothing and is no gateway.

#![allow(clippy::print_stderr, reason = "an example says what it does")]

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use base::{CallId, Name, Permit, Refusal};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use net::h1::{self, Error, Framing, ServerConnection, Stream, Thread};
use net::{AcceptedConnection, ConnectionService, Drain, Endpoint, Listener, Targets, Upstreams};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

/// Allows everything: this is no gateway.
struct Open(Name);

impl Permit for Open {
    fn call(&self) -> CallId {
        CallId([0; 16])
    }

    fn destination(&self) -> base::Destination<'_> {
        base::Destination::Configured(&self.0)
    }

    fn dial(&self, _: IpAddr) -> Result<(), Refusal> {
        Ok(())
    }

    fn in_force(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

enum Bare {
    Echo,
    Proxy(Upstreams<Open>, Open),
}

impl ConnectionService for Bare {
    async fn connection(&self, accepted: AcceptedConnection) {
        let AcceptedConnection {
            stream,
            thread,
            bounds,
            ..
        } = accepted;
        let mut server = ServerConnection::new(stream, &thread, &bounds);
        let served = match self {
            Bare::Echo => echo(&mut server).await,
            Bare::Proxy(upstreams, permit) => proxy(&mut server, upstreams, permit).await,
        };
        if let Err(error) = served {
            eprintln!("{error}");
        }
    }
}

async fn echo(server: &mut ServerConnection<Stream>) -> Result<(), Error> {
    let mut body = Vec::new();
    while server.head().await?.is_some() {
        body.clear();
        while let Some(piece) = server.piece().await? {
            body.extend_from_slice(piece);
        }
        server.respond(200, [], Framing::Length(body.len() as u64))?;
        server.body(&body).await?;
        server.end()?;
        server.flush().await?;
    }
    Ok(())
}

async fn proxy(
    server: &mut ServerConnection<Stream>,
    upstreams: &Upstreams<Open>,
    permit: &Open,
) -> Result<(), Error> {
    while server.head().await?.is_some() {
        let Ok(mut wire) = upstreams.take(permit, 1000).await else {
            return server.refuse(502, [], b"").await;
        };
        let request = server.request();
        let (method, target, framing) = (request.method(), request.target(), request.framing());
        let fields = request.fields().passed_on();
        wire.request(method, target, request.authority(), fields, framing)?;
        while let Some(piece) = server.piece().await? {
            wire.body(piece).await?;
        }
        wire.end()?;
        wire.flush().await?;
        while wire.answer().await?.is_informational() {}
        let answer = wire.answered();
        server.respond(
            answer.status(),
            answer.fields().passed_on(),
            answer.framing(),
        )?;
        while let Some(piece) = wire.piece().await? {
            server.body(piece).await?;
        }
        server.end()?;
        drop(wire);
        server.flush().await?;
    }
    Ok(())
}

async fn hyper_serve(address: SocketAddr, upstream: Option<SocketAddr>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let pool: Rc<RefCell<Vec<SendRequest<Incoming>>>> = Rc::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pool = Rc::clone(&pool);
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let pool = Rc::clone(&pool);
            async move {
                let Some(upstream) = upstream else {
                    let whole = request
                        .into_body()
                        .collect()
                        .await
                        .expect("a body")
                        .to_bytes();
                    return Ok::<_, Infallible>(hyper::Response::new(Full::new(whole).boxed()));
                };
                let mut sender = match take(&pool) {
                    Some(sender) => sender,
                    None => connect(upstream).await,
                };
                let mut request = request;
                *request.version_mut() = hyper::Version::HTTP_11;
                let response = sender.send_request(request).await.expect("an answer");
                let (head, body) = response.into_parts();
                let whole = body.collect().await.expect("a body").to_bytes();
                pool.borrow_mut().push(sender);
                Ok(hyper::Response::from_parts(
                    head,
                    Full::<Bytes>::new(whole).boxed(),
                ))
            }
        });
        spawn_local(async move {
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn take(pool: &RefCell<Vec<SendRequest<Incoming>>>) -> Option<SendRequest<Incoming>> {
    let mut pool = pool.borrow_mut();
    let ready = pool.iter().rposition(SendRequest::is_ready)?;
    Some(pool.swap_remove(ready))
}

async fn connect(upstream: SocketAddr) -> SendRequest<Incoming> {
    let stream = TcpStream::connect(upstream).await.expect("an upstream");
    stream.set_nodelay(true).expect("a socket");
    let io = TokioIo::new(stream);
    let (sender, connection) = hyper::client::conn::http1::handshake(io)
        .await
        .expect("a client");
    spawn_local(connection);
    sender
}

async fn own(address: SocketAddr, upstream: Option<&str>) -> std::io::Result<()> {
    let bounds = h1::ConnectionSettings::default();
    let thread = Thread::new(bounds.tick_ms());
    let bare = match upstream {
        None => Bare::Echo,
        Some(upstream) => {
            let name = Name::new("upstream").expect("a name");
            let mut endpoint = Endpoint::parse(&format!("http://{upstream}")).expect("an address");
            endpoint.idle_max = 1024;
            let targets = Targets::new([(name.clone(), endpoint)]).expect("a target");
            Bare::Proxy(
                Upstreams::new(Arc::new(targets), Rc::clone(&thread), bounds.clone()),
                Open(name),
            )
        }
    };
    let listener = Listener::Tcp(net::bind(address)?);
    net::serve_connections(
        (listener, Rc::default()),
        Rc::new(bare),
        thread,
        Rc::new(bounds),
        Arc::default(),
        Drain::new(),
    )
    .await
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let parse = |text: &str| text.parse::<SocketAddr>().expect("ADDR is address:port");
    LocalSet::new().block_on(&runtime, async {
        match arguments[..] {
            ["echo", address] => own(parse(address), None).await,
            ["proxy", address, upstream] => own(parse(address), Some(upstream)).await,
            ["hyper-echo", address] => hyper_serve(parse(address), None).await,
            ["hyper-proxy", address, up] => hyper_serve(parse(address), Some(parse(up))).await,
            _ => panic!("h1_echo (echo | hyper-echo) ADDR | (proxy | hyper-proxy) ADDR UPSTREAM"),
        }
    })
}
