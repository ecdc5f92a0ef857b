//! Upstreams, with real sockets: who is dialled, what is sent, what comes back, and what is kept.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use base::{CallId, Name, Permit, Refusal, limit, refusal};
use bytes::Bytes;
use net::h1::{ConnectionSettings, Thread};
use net::{Endpoint, EndpointError, Scheme, SendError, Targets, Upstreams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

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
        let no = || Refusal::new(refusal::ADDRESS, format!("not {address}"));
        if (self.allow)(address) {
            Ok(())
        } else {
            Err(no())
        }
    }

    fn in_force(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

fn pass(allow: fn(IpAddr) -> bool) -> Pass {
    Pass {
        target: name(),
        allow,
        asked: RefCell::default(),
    }
}

fn name() -> Name {
    Name::new("tracker").unwrap()
}

fn run(test: impl Future<Output = ()>) {
    run_for(Duration::from_secs(20), test);
}

fn run_for(wait: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(wait, test).await };
    LocalSet::new()
        .block_on(&runtime, bounded)
        .expect("the test ends in time");
}

fn upstreams(url: &str) -> Upstreams<Pass> {
    with(Endpoint::parse(url).unwrap())
}

fn with(endpoint: Endpoint) -> Upstreams<Pass> {
    let targets = Arc::new(Targets::new([(name(), endpoint)]).unwrap());
    let bounds = ConnectionSettings {
        head_bytes_max: limit::HEAD_BYTES_MAX,
        ..ConnectionSettings::default()
    };
    Upstreams::new(targets, Thread::new(bounds.tick_ms()), bounds)
}

/// Listens, and hands each connection to `serve` with its number.
async fn listen<F: Future<Output = ()> + 'static>(
    host: &str,
    serve: impl Fn(TcpStream, usize) -> F + 'static,
) -> (SocketAddr, Rc<Cell<usize>>) {
    let listener = TcpListener::bind((host, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Rc::new(Cell::new(0));
    let accepted = Rc::clone(&count);
    spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            accepted.set(accepted.get() + 1);
            spawn_local(serve(stream, accepted.get()));
        }
    });
    (address, count)
}

/// Reads one request, with its body; nothing at the end of the connection.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
}

/// Answers every request with itself.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    while let Some(text) = request(&mut stream).await {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
        if stream.write_all((head + &text).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Answers one request with these bytes, then closes.
async fn once(mut stream: TcpStream, answer: String) {
    request(&mut stream).await;
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn post(uri: &str, body: &'static str) -> http::Request<Bytes> {
    http::Request::post(uri)
        .body(Bytes::from_static(body.as_bytes()))
        .unwrap()
}

async fn text(upstreams: &Upstreams<Pass>, permit: &Pass, request: http::Request<Bytes>) -> String {
    let mut answer = upstreams.send(permit, request, 5_000).await.unwrap();
    answer.reuse();
    String::from_utf8(answer.whole(1 << 20, 5_000).await.unwrap().to_vec()).unwrap()
}

/// Lets the tasks of the connections run.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_request_goes_to_the_endpoint_with_its_host_and_framing() {
    run(async {
        let (address, _) = listen("127.0.0.1", |stream, _| echo(stream)).await;
        let upstreams = upstreams(&format!("http://{address}/mcp"));
        let permit = pass(|_| true);
        let mut forged = post("/", "hello");
        for (name, value) in [
            ("host", "evil.example"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("x-kept", "yes"),
        ] {
            forged.headers_mut().insert(name, value.parse().unwrap());
        }
        let echoed = text(&upstreams, &permit, forged).await;
        assert!(echoed.starts_with("POST /mcp HTTP/1.1\r\n"), "{echoed}");
        assert!(echoed.ends_with("\r\n\r\nhello"), "{echoed}");
        for field in [
            &*format!("host: {address}\r\n"),
            "content-length: 5\r\n",
            "x-kept: yes\r\n",
        ] {
            assert_eq!(echoed.matches(field).count(), 1, "{field} in {echoed}");
        }
        for field in ["evil", "transfer-encoding", "connection"] {
            assert!(!echoed.contains(field), "{field} in {echoed}");
        }
        for (uri, line) in [
            ("/", "/mcp"),
            ("/a/b?c=d", "/mcp/a/b?c=d"),
            ("/?c=d", "/mcp?c=d"),
        ] {
            let echoed = text(&upstreams, &permit, post(uri, "")).await;
            assert!(
                echoed.starts_with(&format!("POST {line} HTTP/1.1\r\n")),
                "{echoed}"
            );
        }
        // A URI with a host of its own changes nothing about where it goes.
        let echoed = text(&upstreams, &permit, post("http://evil.example/x", "")).await;
        assert!(echoed.starts_with("POST /mcp/x HTTP/1.1\r\n"), "{echoed}");
        assert!(!echoed.contains("evil"), "{echoed}");
    });
}

#[test]
fn a_connection_is_used_again_after_a_complete_answer_only() {
    run(async {
        let (address, accepted) = listen("127.0.0.1", |stream, _| echo(stream)).await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let permit = pass(|_| true);
        for _ in 0..3 {
            text(&upstreams, &permit, post("/", "x")).await;
            settle().await;
            assert_eq!((accepted.get(), upstreams.idle(&name())), (1, 1));
        }
        // The permit was asked for each call, on the pooled connection, too.
        assert_eq!(permit.asked.borrow().len(), 3);
        let dropped = upstreams
            .send(&permit, post("/", "x"), 5_000)
            .await
            .unwrap();
        assert_eq!(upstreams.idle(&name()), 0);
        drop(dropped);
        settle().await;
        assert_eq!(upstreams.idle(&name()), 0);
        text(&upstreams, &permit, post("/", "x")).await;
        assert_eq!(accepted.get(), 2);
    });
}

#[test]
fn a_pooled_connection_is_not_used_by_a_permit_that_refuses_its_address() {
    run(async {
        let (address, accepted) = listen("127.0.0.1", |stream, _| echo(stream)).await;
        let upstreams = upstreams(&format!("http://{address}/"));
        text(&upstreams, &pass(|_| true), post("/", "x")).await;
        settle().await;
        let error = upstreams
            .send(&pass(|_| false), post("/", "x"), 5_000)
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Refused(_)), "{error:?}");
        assert_eq!(accepted.get(), 1);
    });
}

#[test]
fn idle_connections_are_bounded_and_grow_old() {
    run(async {
        let (address, _) = listen("127.0.0.1", |stream, _| echo(stream)).await;
        let mut endpoint = Endpoint::parse(&format!("http://{address}/")).unwrap();
        (endpoint.idle_max, endpoint.idle_ms) = (2, 200);
        let upstreams = with(endpoint);
        let permit = pass(|_| true);
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(
                upstreams
                    .send(&permit, post("/", "x"), 5_000)
                    .await
                    .unwrap(),
            );
        }
        for mut answer in answers {
            answer.reuse();
            answer.whole(1000, 1000).await.unwrap();
        }
        settle().await;
        assert_eq!(upstreams.idle(&name()), 2);
        while upstreams.idle(&name()) > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_connection_that_the_server_closed_is_replaced() {
    run(async {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let (address, accepted) =
            listen("127.0.0.1", |stream, _| once(stream, ok.to_owned())).await;
        let upstreams = upstreams(&format!("http://{address}/"));
        for round in 1..=3 {
            assert_eq!(
                text(&upstreams, &pass(|_| true), post("/", "x")).await,
                "ok"
            );
            while upstreams.idle(&name()) > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(accepted.get(), round);
        }
    });
}

#[test]
fn a_request_that_may_have_arrived_is_not_sent_twice() {
    run(async {
        let seen = Rc::new(Cell::new(0));
        let count = Rc::clone(&seen);
        let (address, _) = listen("127.0.0.1", move |mut stream, _| {
            let count = Rc::clone(&count);
            async move {
                // One answer, then death upon the second request.
                request(&mut stream).await;
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .await
                    .unwrap();
                if request(&mut stream).await.is_some() {
                    count.set(count.get() + 1);
                }
            }
        })
        .await;
        let upstreams = upstreams(&format!("http://{address}/"));
        text(&upstreams, &pass(|_| true), post("/", "x")).await;
        settle().await;
        let error = upstreams
            .send(&pass(|_| true), post("/", "x"), 5_000)
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Broken(_)), "{error:?}");
        assert_eq!(seen.get(), 1);
    });
}

#[test]
fn a_request_that_a_dead_connection_did_not_take_is_sent_again() {
    // A server of its own thread, so that it can end a connection while nothing of ours runs.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = (mpsc::channel::<()>(), mpsc::channel());
    let server = std::thread::spawn(move || {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let mut bytes = [0; 4096];
        let (mut first, _) = listener.accept().unwrap();
        assert!(first.read(&mut bytes).unwrap() > 0);
        first.write_all(ok).unwrap();
        end.1.recv().unwrap();
        let at_once = Some(Duration::ZERO);
        socket2::SockRef::from(&first).set_linger(at_once).unwrap();
        drop(first);
        ended.0.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        let read = second.read(&mut bytes).unwrap();
        second.write_all(ok).unwrap();
        String::from_utf8(bytes[..read].to_vec()).unwrap()
    });
    run(async move {
        let upstreams = upstreams(&format!("http://{address}/"));
        let permit = pass(|_| true);
        assert_eq!(text(&upstreams, &permit, post("/", "one")).await, "ok");
        // From here on the runtime knows that nothing has come, and is not given the time to learn more.
        drop(upstreams.take(&permit, 1_000).await.unwrap());
        end.0.send(()).unwrap();
        ended.1.recv().unwrap();
        assert_eq!(text(&upstreams, &permit, post("/", "two")).await, "ok");
    });
    assert!(server.join().unwrap().ends_with("two"));
}

#[test]
fn a_server_may_answer_before_it_took_all() {
    const BYTES: usize = 8 << 20;
    run(async {
        let (address, _) = listen("127.0.0.1", |mut stream, _| async move {
            let mut bytes = vec![0; 64 << 10];
            let mut taken = stream.read(&mut bytes).await.unwrap();
            let head = bytes[..taken].windows(4).position(|end| end == b"\r\n\r\n");
            taken -= head.unwrap() + 4;
            let early = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n-\r\n";
            stream.write_all(early).await.unwrap();
            while taken < BYTES {
                taken += stream.read(&mut bytes).await.unwrap();
            }
            let end = format!("7\r\n{taken}\r\n0\r\n\r\n");
            stream.write_all(end.as_bytes()).await.unwrap();
            let _ = stream.read(&mut bytes).await;
        })
        .await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let body = Bytes::from(vec![b'x'; BYTES]);
        let request = http::Request::post("/").body(body).unwrap();
        let sent = upstreams.send(&pass(|_| true), request, 5_000).await;
        let mut answer = sent.unwrap();
        answer.reuse();
        assert_eq!(answer.whole(100, 5_000).await.unwrap(), format!("-{BYTES}"));
        assert_eq!(upstreams.idle(&name()), 1, "both messages were whole");
    });
}

#[test]
fn a_quiet_stream_stays() {
    run_for(Duration::from_secs(7200), async {
        let (address, _) = listen("127.0.0.1", |mut stream, _| async move {
            request(&mut stream).await;
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n:\n\n";
            stream.write_all(head).await.unwrap();
            tokio::time::sleep(Duration::from_secs(3600)).await;
            stream.write_all(b"data: late\n\n").await.unwrap();
        })
        .await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let sent = upstreams.send(&pass(|_| true), post("/", "x"), 5_000).await;
        let mut answer = sent.unwrap();
        assert_eq!(answer.chunk().await.unwrap().unwrap(), ":\n\n");
        // What waits for the clock waits no longer: an hour passes at once.
        tokio::time::pause();
        let since = tokio::time::Instant::now();
        assert_eq!(answer.chunk().await.unwrap().unwrap(), "data: late\n\n");
        assert!(since.elapsed() > Duration::from_secs(3_500));
        assert_eq!(answer.chunk().await.unwrap(), None);
    });
}

#[test]
fn each_address_is_asked_of_the_permit_and_only_the_allowed_are_dialled() {
    run(async {
        let (address, accepted) = listen("127.0.0.1", |stream, _| echo(stream)).await;
        let upstreams = upstreams(&format!("http://localhost:{}/", address.port()));
        let v4 = pass(|address| address.is_ipv4());
        text(&upstreams, &v4, post("/", "x")).await;
        let asked = v4.asked.borrow().clone();
        assert!(asked.contains(&address.ip()), "{asked:?}");
        settle().await;
        let none = pass(|_| false);
        match upstreams.send(&none, post("/", "x"), 5_000).await {
            Err(SendError::Refused(refusal)) => assert_eq!(refusal.code, refusal::ADDRESS),
            other => panic!("{other:?}"),
        }
        let v6 = pass(|address| address.is_ipv6());
        let error = upstreams
            .send(&v6, post("/", "x"), 5_000)
            .await
            .unwrap_err();
        // Refused where localhost has no IPv6 address, else there is no listener at it.
        assert!(
            matches!(error, SendError::Refused(_) | SendError::Unreachable(_)),
            "{error:?}"
        );
        assert_eq!(accepted.get(), 1);
    });
}

#[test]
fn what_cannot_be_reached_is_unreachable() {
    run(async {
        let free = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        for url in [
            format!("http://{free}/"),
            "http://no-such-host.invalid/".to_owned(),
        ] {
            let error = upstreams(&url)
                .send(&pass(|_| true), post("/", "x"), 9_000)
                .await;
            assert!(
                matches!(error, Err(SendError::Unreachable(_))),
                "{url}: {error:?}"
            );
        }
    });
}

#[test]
fn a_silent_server_is_slow_and_its_connection_is_not_kept() {
    run(async {
        let (address, _) = listen("127.0.0.1", |mut stream, _| async move {
            while stream.read(&mut [0; 100]).await.is_ok_and(|read| read > 0) {}
        })
        .await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let error = upstreams
            .send(&pass(|_| true), post("/", "x"), 100)
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Slow), "{error:?}");
        assert_eq!(upstreams.idle(&name()), 0);
    });
}

#[test]
fn answers_that_are_not_http_are_broken() {
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    let fields = (0..200)
        .map(|i| format!("x-{i}: y\r\n"))
        .collect::<String>();
    let cases = [
        "garbage\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\n".to_owned(),
        String::new(),
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".to_owned(),
        head,
        format!("HTTP/1.1 200 OK\r\n{fields}\r\n"),
    ];
    run(async {
        for case in cases {
            let answer = case.clone();
            let (address, _) =
                listen("127.0.0.1", move |stream, _| once(stream, answer.clone())).await;
            let upstreams = upstreams(&format!("http://{address}/"));
            let error = upstreams.send(&pass(|_| true), post("/", "x"), 5_000).await;
            assert!(
                matches!(error, Err(SendError::Broken(_))),
                "{case:.40}: {error:?}"
            );
        }
    });
}

#[test]
fn a_body_that_ends_early_is_broken() {
    run(async {
        for framing in [
            "content-length: 100\r\n\r\n12345",
            "transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n",
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{framing}");
            let (address, _) =
                listen("127.0.0.1", move |stream, _| once(stream, answer.clone())).await;
            let upstreams = upstreams(&format!("http://{address}/"));
            let mut answer = upstreams
                .send(&pass(|_| true), post("/", "x"), 5_000)
                .await
                .unwrap();
            assert_eq!(
                answer.chunk().await.unwrap().as_deref(),
                Some(&b"12345"[..])
            );
            let error = answer.chunk().await.unwrap_err();
            assert!(matches!(error, SendError::Broken(_)), "{error:?}");
            settle().await;
            assert_eq!(upstreams.idle(&name()), 0);
        }
    });
}

#[test]
fn answers_over_the_bound_are_refused_whether_they_say_so_or_not() {
    run(async {
        let long = "x".repeat(2000);
        for framing in [
            format!("content-length: 2000\r\n\r\n{long}"),
            format!("transfer-encoding: chunked\r\n\r\n7d0\r\n{long}\r\n0\r\n\r\n"),
            format!("connection: close\r\n\r\n{long}"),
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{framing}");
            let (address, _) =
                listen("127.0.0.1", move |stream, _| once(stream, answer.clone())).await;
            let upstreams = upstreams(&format!("http://{address}/"));
            let send = || async {
                upstreams
                    .send(&pass(|_| true), post("/", "x"), 5_000)
                    .await
                    .unwrap()
            };
            let error = send().await.whole(1999, 5_000).await.unwrap_err();
            assert!(matches!(error, SendError::TooLarge), "{error:?}");
            assert_eq!(send().await.whole(2000, 5_000).await.unwrap().len(), 2000);
        }
    });
}

#[test]
fn an_endless_answer_costs_no_more_than_its_bound() {
    run(async {
        let (address, _) = listen("127.0.0.1", |mut stream, _| async move {
            request(&mut stream).await;
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await.unwrap();
            let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
            while stream.write_all(chunk.as_bytes()).await.is_ok() {}
        })
        .await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let mut answer = upstreams
            .send(&pass(|_| true), post("/", "x"), 5_000)
            .await
            .unwrap();
        let error = answer.whole(1 << 20, 5_000).await.unwrap_err();
        assert!(matches!(error, SendError::TooLarge), "{error:?}");
    });
}

#[test]
fn a_stalled_body_is_slow() {
    run(async {
        let (address, _) = listen("127.0.0.1", |mut stream, _| async move {
            request(&mut stream).await;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
                .await
                .unwrap();
            let _ = stream.read(&mut [0]).await;
        })
        .await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let mut answer = upstreams
            .send(&pass(|_| true), post("/", "x"), 5_000)
            .await
            .unwrap();
        let error = answer.whole(100, 100).await.unwrap_err();
        assert!(matches!(error, SendError::Slow), "{error:?}");
    });
}

#[test]
fn a_redirect_is_an_answer() {
    run(async {
        let moved =
            "HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let (address, accepted) =
            listen("127.0.0.1", |stream, _| once(stream, moved.to_owned())).await;
        let upstreams = upstreams(&format!("http://{address}/"));
        let answer = upstreams
            .send(&pass(|_| true), post("/", "x"), 5_000)
            .await
            .unwrap();
        assert_eq!((answer.head.status.as_u16(), accepted.get()), (307, 1));
    });
}

#[test]
#[should_panic(expected = "never: a permit for other")]
fn only_configured_targets_exist() {
    run(async {
        let permit = Pass {
            target: Name::new("other").unwrap(),
            ..pass(|_| true)
        };
        let _ = upstreams("http://127.0.0.1:1/")
            .send(&permit, post("/", "x"), 100)
            .await;
    });
}

/// A certificate for `localhost` by an authority that only this test knows, made by openssl.
fn certificate() -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let (key, pem) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=test",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .args([&key, std::path::Path::new("-out"), &pem])
        .output()
        .expect("openssl is installed");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    (std::fs::read(key).unwrap(), std::fs::read(pem).unwrap())
}

#[test]
fn tls_is_spoken_and_its_certificate_checked() {
    let (key, pem) = certificate();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(&pem).unwrap()],
            PrivateKeyDer::from_pem_slice(&key).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    run(async move {
        let (address, accepted) = listen("127.0.0.1", move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    echo(stream).await;
                }
            }
        })
        .await;
        let v4 = || pass(|address| address.is_ipv4());
        let mut endpoint =
            Endpoint::parse(&format!("https://localhost:{}/s", address.port())).unwrap();
        let strange = with(endpoint.clone())
            .send(&v4(), post("/", "x"), 5_000)
            .await
            .unwrap_err();
        assert!(
            matches!(&strange, SendError::Unreachable(why) if why.contains("TLS")),
            "{strange:?}"
        );
        endpoint.ca = Some(pem.clone());
        let known = with(endpoint.clone());
        for _ in 0..2 {
            let echoed = text(&known, &v4(), post("/", "x")).await;
            assert!(echoed.starts_with("POST /s HTTP/1.1\r\n"), "{echoed}");
            settle().await;
        }
        assert_eq!(accepted.get(), 2);
        endpoint.host = "127.0.0.1".to_owned();
        let other = with(endpoint)
            .send(&v4(), post("/", "x"), 5_000)
            .await
            .unwrap_err();
        assert!(matches!(other, SendError::Unreachable(_)), "{other:?}");
    });
}

#[test]
fn endpoints_are_read_and_checked() {
    let endpoint = Endpoint::parse("https://tracker.example/mcp").unwrap();
    assert_eq!((endpoint.scheme, endpoint.port), (Scheme::Https, 443));
    assert_eq!(
        (endpoint.host.as_str(), endpoint.path.as_str()),
        ("tracker.example", "/mcp")
    );
    let endpoint = Endpoint::parse("http://[::1]:8080").unwrap();
    assert_eq!(
        (
            endpoint.host.as_str(),
            endpoint.port,
            endpoint.path.as_str()
        ),
        ("::1", 8080, "/")
    );
    assert!(Targets::new([(name(), endpoint)]).is_ok());
    for (url, error) in [
        ("", EndpointError::NotUrl),
        ("/mcp", EndpointError::NotUrl),
        ("tracker.example", EndpointError::NotUrl),
        ("http://", EndpointError::NotUrl),
        ("http://x:99999/", EndpointError::NotUrl),
        ("http://x:0/", EndpointError::NotUrl),
        ("http://x:/", EndpointError::NotUrl),
        ("http://[::1/", EndpointError::NotUrl),
        ("ftp://x/", EndpointError::Scheme),
        ("http://user:pass@x/", EndpointError::User),
        ("http://x/?key=1", EndpointError::Query),
        ("http://x/#a", EndpointError::Query),
    ] {
        assert_eq!(Endpoint::parse(url).unwrap_err(), error, "{url}");
    }
    let mut bad = Endpoint::parse("https://x/").unwrap();
    bad.ca = Some(b"not pem".to_vec());
    let mut worse = Endpoint::parse("http://x/").unwrap();
    worse.path = "no-slash".to_owned();
    let other = Name::new("other").unwrap();
    let Err(errors) = Targets::new([(name(), bad), (other, worse)]) else {
        panic!("accepted")
    };
    assert_eq!(errors.len(), 2, "{errors:?}");
}
