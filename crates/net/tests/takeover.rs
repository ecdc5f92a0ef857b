//! Connections that are taken over, with real sockets on both sides: what is carried, and what ends it.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "takeover/ws.rs"]
mod ws;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{CallId, Destination, Name, Permit, Refusal, refusal};
use net::h1::{ConnectionSettings, Thread};
use net::{Body, Drain, EdgeSettings, EdgeShared, Endpoint, Listener, Request, Response, Service};
use net::{Switch, Targets, TunnelBounds, TunnelEnd, TunnelStop, Upstreams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

const CONNECT: &str = "CONNECT origin:1 HTTP/1.1\r\nhost: origin:1\r\n\r\n";
const UPGRADE: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: chat/2\r\n\r\n";
const BOUNDS: TunnelBounds = TunnelBounds {
    idle_ms: 60_000,
    whole_ms: 60_000,
    bytes_max: 1 << 30,
};

/// Says yes until the test withdraws it.
#[derive(Clone)]
struct Pass {
    target: Name,
    is_withdrawn: Rc<Cell<bool>>,
}

impl Permit for Pass {
    fn call(&self) -> CallId {
        CallId([1; 16])
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Configured(&self.target)
    }

    fn dial(&self, _: IpAddr) -> Result<(), Refusal> {
        Ok(())
    }

    fn in_force(&self) -> Result<(), Refusal> {
        match self.is_withdrawn.get() {
            false => Ok(()),
            true => Err(Refusal::new(refusal::REVOKED, "taken back")),
        }
    }
}

/// Makes the tunnel that CONNECT asks for, and passes an upgrade on; all else is answered.
struct Lane {
    upstreams: Upstreams<Pass>,
    pass: Pass,
    bounds: TunnelBounds,
    ends: RefCell<Vec<TunnelEnd>>,
    ended: Notify,
    sockets: RefCell<Vec<ws::SocketEnd>>,
}

impl Lane {
    async fn tunnel(&self, request: &mut Request) -> Result<Response, Refusal> {
        let mut lease = self.upstreams.dial(&self.pass, 5_000).await?;
        let switch = match request.head.method {
            http::Method::CONNECT => Switch::connected(),
            _ => {
                let fields: [(&[u8], &[u8]); 0] = [];
                lease
                    .request_upgrade(b"chat/2", b"/", b"origin", fields)
                    .unwrap();
                lease.flush().await.unwrap();
                lease.answer().await.map_err(net::SendError::from)?;
                match lease.is_switched() {
                    true => Switch::to("chat/2", &[(b"x-lane", b"echo")]),
                    false => return Ok(status(502)),
                }
            }
        };
        let code = switch.status;
        let far = lease.take_over(&self.pass)?;
        let near = request.take_over(&self.pass, switch).await?;
        let end = near.join(far, &self.pass, self.bounds).await;
        self.ends.borrow_mut().push(end);
        self.ended.notify_one();
        let mut taken = status(code);
        *taken.body_mut() = Body::Taken;
        Ok(taken)
    }
}

fn status(code: u16) -> Response {
    let response = http::Response::builder().status(code);
    response.body(Body::Empty).unwrap()
}

impl Service for Lane {
    async fn call(&self, mut request: Request) -> Response {
        if request.head.uri.path() == "/plain" {
            return status(204);
        }
        let tunnelled = match request.head.uri.path() {
            "/ws" => self.echo(&mut request).await,
            "/relayed" => self.relay(&mut request).await,
            _ => self.tunnel(&mut request).await,
        };
        tunnelled.unwrap_or_else(|refusal| self.refuse(&refusal))
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        let mut response = status(refusal.code.status);
        *response.body_mut() = Body::Full(refusal.code.name.into());
        response
    }
}

struct Edge {
    address: SocketAddr,
    lane: Rc<Lane>,
    origin: TcpListener,
    shared: Arc<EdgeShared>,
    drain: Drain,
    serving: JoinHandle<()>,
}

async fn start(bounds: TunnelBounds) -> Edge {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = origin.local_addr().unwrap();
    Edge {
        origin,
        ..start_before(address, bounds).await
    }
}

/// The same before a server that is there already.
async fn start_before(origin: SocketAddr, bounds: TunnelBounds) -> Edge {
    let url = format!("http://{origin}");
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Name::new("origin").unwrap();
    let endpoint = Endpoint::parse(&url).unwrap();
    let targets = Arc::new(Targets::new([(target.clone(), endpoint)]).unwrap());
    let settings = ConnectionSettings::default();
    let lane = Rc::new(Lane {
        upstreams: Upstreams::new(targets, Thread::new(settings.tick_ms()), settings),
        pass: Pass {
            target,
            is_withdrawn: Rc::default(),
        },
        bounds,
        ends: RefCell::default(),
        ended: Notify::new(),
        sockets: RefCell::default(),
    });
    let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (shared, drain) = (Arc::default(), Drain::new());
    let settings = EdgeSettings {
        head_ms: 400,
        drain_ms: 6_000,
        ..EdgeSettings::default()
    };
    let serving = net::serve(
        vec![(Listener::Tcp(listener), Rc::default())],
        Rc::clone(&lane),
        Rc::new(settings),
        Arc::clone(&shared),
        drain.clone(),
    );
    Edge {
        address,
        lane,
        origin,
        shared,
        drain,
        serving: spawn_local(async move { serving.await.unwrap() }),
    }
}

impl Edge {
    /// Asks with this head, and lets the origin answer; gives both ends of the tunnel.
    async fn tunnel(&self, head: &str) -> (TcpStream, TcpStream) {
        let mut near = TcpStream::connect(self.address).await.unwrap();
        near.write_all(head.as_bytes()).await.unwrap();
        let (mut far, _) = self.origin.accept().await.unwrap();
        if head == UPGRADE {
            let asked = until(&mut far, "\r\n\r\n").await;
            assert!(
                asked.contains("connection: upgrade\r\nupgrade: chat/2\r\n"),
                "{asked}"
            );
            let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat/2\r\n\r\n";
            far.write_all(answer.as_bytes()).await.unwrap();
        }
        let answer = until(&mut near, "\r\n\r\n").await;
        let expected = match head {
            UPGRADE => {
                "HTTP/1.1 101 Switching Protocols\r\nx-lane: echo\r\nconnection: upgrade\r\nupgrade: chat/2\r\n\r\n"
            }
            _ => "HTTP/1.1 200 OK\r\n\r\n",
        };
        assert_eq!(answer, expected);
        (near, far)
    }

    async fn end(&self) -> TunnelEnd {
        self.lane.ended.notified().await;
        self.lane.ends.borrow_mut().pop().unwrap()
    }

    async fn ask(&self, request: &str) -> String {
        let mut near = TcpStream::connect(self.address).await.unwrap();
        near.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(bytes).unwrap()
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

/// Both sides were cut, not closed.
async fn assert_reset(mut near: TcpStream, mut far: TcpStream) {
    for side in [&mut near, &mut far] {
        let read = side.read(&mut [0; 16]).await;
        let kind = read.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::ConnectionReset));
    }
}

#[test]
fn a_tunnel_carries_both_ways_and_passes_on_a_side_that_closes() {
    run(async {
        let edge = start(BOUNDS).await;
        for head in [CONNECT, UPGRADE] {
            let (mut near, mut far) = edge.tunnel(head).await;
            near.write_all(b"ping").await.unwrap();
            assert_eq!(until(&mut far, "ping").await, "ping");
            far.write_all(b"pong!").await.unwrap();
            assert_eq!(until(&mut near, "pong!").await, "pong!");
            near.shutdown().await.unwrap();
            assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0);
            // The other half goes on.
            far.write_all(b"late").await.unwrap();
            assert_eq!(until(&mut near, "late").await, "late");
            far.shutdown().await.unwrap();
            assert_eq!(near.read(&mut [0; 1]).await.unwrap(), 0);
            let end = edge.end().await;
            assert!(matches!(end.why, TunnelStop::Closed), "{end:?}");
            assert_eq!((end.up, end.down), (4, 9));
        }
        while edge.shared.connections() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn what_comes_behind_the_heads_belongs_to_the_tunnel() {
    run(async {
        let edge = start(BOUNDS).await;
        let mut near = TcpStream::connect(edge.address).await.unwrap();
        near.write_all(format!("{UPGRADE}early").as_bytes())
            .await
            .unwrap();
        let (mut far, _) = edge.origin.accept().await.unwrap();
        until(&mut far, "\r\n\r\n").await;
        let answer = "HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: chat/2\r\n\r\nfirst";
        far.write_all(answer.as_bytes()).await.unwrap();
        assert_eq!(until(&mut far, "early").await, "early");
        assert!(until(&mut near, "first").await.ends_with("\r\n\r\nfirst"));
        drop((near, far));
        assert!(matches!(edge.end().await.why, TunnelStop::Closed));
    });
}

#[test]
fn a_side_that_takes_nothing_makes_the_other_wait() {
    run(async {
        let edge = start(BOUNDS).await;
        let (mut near, mut far) = edge.tunnel(CONNECT).await;
        let piece = vec![b'x'; 1 << 20];
        let mut sent = 0;
        // Until the sockets on the way are full.
        while let Ok(bytes) =
            tokio::time::timeout(Duration::from_millis(300), near.write(&piece)).await
        {
            sent += bytes.unwrap();
            assert!(sent < 64 << 20, "somebody keeps it all");
        }
        let reading = spawn_local(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all.len()
        });
        near.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap(), sent);
        let end = edge.end().await;
        assert_eq!((end.up, end.down), (sent as u64, 0));
    });
}

#[test]
fn bounds_end_a_tunnel_visibly() {
    run(async {
        let idle = TunnelBounds {
            idle_ms: 200,
            ..BOUNDS
        };
        let edge = start(idle).await;
        let (near, far) = edge.tunnel(CONNECT).await;
        assert_reset(near, far).await;
        assert!(matches!(edge.end().await.why, TunnelStop::Idle));

        let late = TunnelBounds {
            whole_ms: 300,
            ..BOUNDS
        };
        let edge = start(late).await;
        let (mut near, mut far) = edge.tunnel(CONNECT).await;
        while near.write_all(b"x").await.is_ok() {
            let mut byte = [0];
            if far.read(&mut byte).await.is_err() {
                break;
            }
        }
        assert!(matches!(edge.end().await.why, TunnelStop::Late));

        let short = TunnelBounds {
            bytes_max: 10,
            ..BOUNDS
        };
        let edge = start(short).await;
        let (mut near, mut far) = edge.tunnel(CONNECT).await;
        near.write_all(b"123456").await.unwrap();
        assert_eq!(until(&mut far, "6").await, "123456");
        far.write_all(b"7890").await.unwrap();
        assert_eq!(until(&mut near, "0").await, "7890");
        far.write_all(b"!").await.unwrap();
        assert_reset(near, far).await;
        let end = edge.end().await;
        assert!(matches!(end.why, TunnelStop::TooLong), "{end:?}");
        assert_eq!((end.up, end.down), (6, 4));
    });
}

#[test]
fn a_side_that_breaks_ends_the_other() {
    run(async {
        let edge = start(BOUNDS).await;
        let (mut near, far) = edge.tunnel(CONNECT).await;
        far.set_zero_linger().unwrap();
        drop(far);
        assert!(near.read(&mut [0; 1]).await.is_err());
        assert!(matches!(edge.end().await.why, TunnelStop::Broken(_)));
    });
}

#[test]
fn a_permit_that_is_withdrawn_ends_a_tunnel_within_a_second_and_makes_none() {
    run(async {
        let edge = start(BOUNDS).await;
        let (mut near, mut far) = edge.tunnel(UPGRADE).await;
        near.write_all(b"ping").await.unwrap();
        until(&mut far, "ping").await;
        let withdrawn = Instant::now();
        edge.lane.pass.is_withdrawn.set(true);
        assert_reset(near, far).await;
        assert!(withdrawn.elapsed() < Duration::from_millis(1_200));
        let end = edge.end().await;
        let TunnelStop::Ended(refusal) = &end.why else {
            panic!("{end:?}");
        };
        assert_eq!((refusal.code, end.up), (refusal::REVOKED, 4));
        assert!(edge.ask(CONNECT).await.ends_with("\r\n\r\nagent.revoked"));
    });
}

#[test]
fn a_drain_lets_a_busy_tunnel_finish_and_ends_a_quiet_one() {
    run(async {
        let edge = start(BOUNDS).await;
        let quiet = edge.tunnel(CONNECT).await;
        let (mut near, mut far) = edge.tunnel(CONNECT).await;
        edge.drain.start();
        let drained = Instant::now();
        while drained.elapsed() < Duration::from_millis(1_800) {
            near.write_all(b"x").await.unwrap();
            assert_eq!(far.read_u8().await.unwrap(), b'x');
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let end = edge.end().await;
        assert!(matches!(end.why, TunnelStop::Drained), "{end:?}");
        assert_eq!(end.up, 0, "the quiet one");
        assert_reset(quiet.0, quiet.1).await;
        drop((near, far));
        assert!(matches!(edge.end().await.why, TunnelStop::Closed));
        edge.serving.await.unwrap();
        // Half of what the drain has is the most.
        let edge = start(BOUNDS).await;
        let (mut near, mut far) = edge.tunnel(CONNECT).await;
        edge.drain.start();
        let drained = Instant::now();
        while near.write_all(b"x").await.is_ok() && far.read_u8().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let took = drained.elapsed().as_millis();
        assert!((2_500..5_000).contains(&took), "{took} ms");
        assert!(matches!(edge.end().await.why, TunnelStop::Drained));
        edge.serving.await.unwrap();
    });
}

#[test]
fn a_request_that_does_not_ask_is_not_switched() {
    run(async {
        let edge = start(BOUNDS).await;
        let field = "upgrade: chat/2\r\n";
        for head in [
            // Connection does not list it; an old version; a body.
            format!("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{field}\r\n"),
            format!("GET / HTTP/1.0\r\nhost: x\r\nconnection: upgrade\r\n{field}\r\n"),
            format!(
                "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\n{field}content-length: 1\r\n\r\nx"
            ),
        ] {
            let asking = edge.ask(&head);
            let origin = async {
                let (mut far, _) = edge.origin.accept().await.unwrap();
                until(&mut far, "\r\n\r\n").await;
                let answer = "HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: chat/2\r\n\r\n";
                far.write_all(answer.as_bytes()).await.unwrap();
                assert_eq!(far.read(&mut [0; 1]).await.unwrap_or(0), 0);
            };
            let (answer, ()) = tokio::join!(asking, origin);
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
            assert!(answer.ends_with("http.head_invalid"), "{answer}");
        }
        // One that asks, of a service that answers, goes on with HTTP.
        let plain = UPGRADE.replace("GET /", "GET /plain");
        let close = "GET /plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let answer = edge.ask(&format!("{plain}{close}")).await;
        assert_eq!(answer.matches("HTTP/1.1 204").count(), 2, "{answer}");
    });
}

#[test]
fn an_origin_that_does_not_switch_is_not_taken_over() {
    run(async {
        let edge = start(BOUNDS).await;
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "502"),
            // It has to say what it switches to, in HTTP/1.1.
            ("HTTP/1.1 101 \r\nupgrade: chat/2\r\n\r\n", "502"),
            (
                "HTTP/1.0 101 \r\nconnection: upgrade\r\nupgrade: chat/2\r\n\r\n",
                "502",
            ),
        ] {
            let mut near = TcpStream::connect(edge.address).await.unwrap();
            near.write_all(UPGRADE.as_bytes()).await.unwrap();
            let (mut far, _) = edge.origin.accept().await.unwrap();
            until(&mut far, "\r\n\r\n").await;
            far.write_all(answer.as_bytes()).await.unwrap();
            let told = until(&mut near, "\r\n\r\n").await;
            assert!(
                told.starts_with(&format!("HTTP/1.1 {expected} ")),
                "{answer}: {told}"
            );
        }
        assert!(edge.lane.ends.borrow().is_empty());
    });
}
