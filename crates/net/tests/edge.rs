//! The edge, with real sockets and raw bytes: what is answered, what is refused, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Refusal;
use bytes::Bytes;
use net::{
    Body, BodySender, Drain, EdgeSettings, EdgeShared, Listener, Request, Response, Service,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

/// Answers `/echo` with the body, `/stream` with a body that the test feeds, `/wait` when told, all else with
/// the path. Who asks for `/known` is a known agent.
/// The bound of the route `/count`.
const COUNTED_BYTES: usize = 48 << 20;

#[derive(Default)]
struct Echo {
    streams: RefCell<Vec<BodySender>>,
    opened: Notify,
    go: Notify,
    calls: Cell<usize>,
    dropped: Rc<Cell<bool>>,
}

struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl Service for Echo {
    async fn call(&self, mut request: Request) -> Response {
        self.calls.set(self.calls.get() + 1);
        let path = request.head.uri.path().to_owned();
        match path.as_str() {
            "/echo" => match request.body().await {
                Ok(bytes) => Response::new(Body::Full(bytes)),
                Err(refusal) => self.refuse(&refusal),
            },
            "/stream" => {
                let (sender, body) = Body::stream(1);
                self.streams.borrow_mut().push(sender);
                self.opened.notify_one();
                Response::new(body)
            }
            "/wait" => {
                let _guard = SetOnDrop(Rc::clone(&self.dropped));
                self.opened.notify_one();
                self.go.notified().await;
                Response::new(Body::Full("done".into()))
            }
            "/count" => {
                request.bound_body(COUNTED_BYTES);
                self.opened.notify_one();
                self.go.notified().await;
                let mut bytes = 0;
                loop {
                    match request.chunk().await {
                        Ok(Some(piece)) => bytes += piece.len(),
                        Ok(None) => return Response::new(Body::Full(bytes.to_string().into())),
                        Err(refusal) => return self.refuse(&refusal),
                    }
                }
            }
            "/known" => {
                request.is_of_known_agent();
                Response::new(Body::Full("/known".into()))
            }
            "/empty" => Response::new(Body::Empty),
            "/bad" => http::Response::builder()
                .status(400)
                .body(Body::Empty)
                .unwrap(),
            "/big" => Response::new(Body::Full(vec![b'x'; 32 << 20].into())),
            path => Response::new(Body::Full(Bytes::copy_from_slice(path.as_bytes()))),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        let body = Body::Full(format!("{}: {}", refusal.code.name, refusal.public).into());
        http::Response::builder()
            .status(refusal.code.status)
            .body(body)
            .unwrap()
    }
}

struct Edge {
    address: SocketAddr,
    echo: Rc<Echo>,
    shared: Arc<EdgeShared>,
    drain: Drain,
    serving: JoinHandle<()>,
}

fn start(settings: EdgeSettings) -> Edge {
    let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (echo, shared, drain) = (Rc::new(Echo::default()), Arc::default(), Drain::new());
    let serving = net::serve(
        vec![(Listener::Tcp(listener), Rc::default())],
        Rc::clone(&echo),
        Rc::new(settings),
        Arc::clone(&shared),
        drain.clone(),
    );
    let serving = spawn_local(async move { serving.await.unwrap() });
    Edge {
        address,
        echo,
        shared,
        drain,
        serving,
    }
}

/// Bounds that are short enough to be met in a test.
fn short() -> EdgeSettings {
    EdgeSettings {
        head_ms: 300,
        body_ms: 300,
        idle_ms: 300,
        write_ms: 300,
        body_bytes_max: 100_000,
        drain_ms: 500,
        ..EdgeSettings::default()
    }
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

impl Edge {
    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads to the end of the connection.
    async fn all(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.dial().await;
        // A gateway that refuses in the middle may stop reading.
        let _ = stream.write_all(bytes.as_ref()).await;
        rest(&mut stream).await
    }

    async fn no_connection(&self) {
        while self.shared.connections() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads until what came ends like this.
async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let mut byte = [0];
        let read = stream.read(&mut byte).await.unwrap();
        let so_far = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(read, 1, "ended early: {so_far}");
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

fn assert_refused(answer: &str, status: &str, code: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{answer}"
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(body.starts_with(&format!("{code}: ")), "{answer}");
    assert!(
        head.to_lowercase().contains("connection: close"),
        "{answer}"
    );
    assert_eq!(
        answer.matches("HTTP/1.1").count(),
        1 + body.matches("HTTP/1.1").count(),
        "{answer}"
    );
}

#[test]
fn a_request_is_answered_and_the_connection_kept() {
    run(async {
        let edge = start(EdgeSettings::default());
        let mut stream = edge.dial().await;
        for path in ["/a", "/b", "/a"] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let answer = until(&mut stream, path).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("content-length: 2\r\n"), "{answer}");
        }
        assert_eq!((edge.shared.accepted(), edge.shared.connections()), (1, 1));
        drop(stream);
        edge.no_connection().await;
    });
}

#[test]
fn http_1_0_is_answered_and_closed() {
    run(async {
        let edge = start(EdgeSettings::default());
        let answer = edge.all("GET /old HTTP/1.0\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("/old"),
            "{answer}"
        );
        // Also where it asks to be kept.
        let kept = "GET /k HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
        let answer = edge.all(kept.repeat(2)).await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
    });
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_bad_one_after_them_is_refused() {
    run(async {
        let edge = start(EdgeSettings::default());
        let good = "GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /bad HTTP/1.1\r\nhost: x\r\n\r\n";
        let answer = edge.all(format!("{good}BAD\x01 / HTTP/1.1\r\n\r\n")).await;
        let codes = answer
            .match_indices("HTTP/1.1 ")
            .map(|(at, _)| &answer[at + 9..at + 12]);
        let codes = codes.collect::<Vec<_>>();
        assert_eq!(codes[..3], ["200", "400", "400"], "{answer}");
        assert!(answer.contains("http.head_invalid: "), "{answer}");
        assert_eq!(edge.echo.calls.get(), 2);
    });
}

#[test]
fn a_bad_head_takes_no_answer_along() {
    run(async {
        let edge = start(EdgeSettings::default());
        let post = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nhe\nllo";
        let wait = "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n";
        let bad = "GET /a HTTP/1.1\nhost: x\r\n\r\n";
        let mut stream = edge.dial().await;
        let all = format!("{post}{wait}{bad}");
        stream.write_all(all.as_bytes()).await.unwrap();
        until(&mut stream, "he\nllo").await;
        edge.echo.opened.notified().await;
        edge.echo.go.notify_one();
        until(&mut stream, "done").await;
        assert_refused(&rest(&mut stream).await, "400", "http.head_invalid");
        assert_eq!((edge.echo.calls.get(), edge.shared.refused_heads()), (2, 1));
    });
}

#[test]
fn bodies_are_read_whole() {
    run(async {
        let edge = start(EdgeSettings::default());
        let mut stream = edge.dial().await;
        stream
            .write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello")
            .await
            .unwrap();
        until(&mut stream, "\r\n\r\nhello").await;
        let chunked = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunks = "3\r\nabc\r\n4\r\ndefg\r\n0\r\ntrailer: t\r\n\r\n";
        stream
            .write_all(format!("{chunked}{chunks}").as_bytes())
            .await
            .unwrap();
        until(&mut stream, "\r\n\r\nabcdefg").await;
        let expect =
            "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n";
        stream.write_all(expect.as_bytes()).await.unwrap();
        until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
        stream.write_all(b"ok").await.unwrap();
        until(&mut stream, "\r\n\r\nok").await;
        let big = vec![b'z'; 300_000];
        let head = format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            big.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&big).await.unwrap();
        until(&mut stream, "\r\n\r\n").await;
        let mut back = vec![0; big.len()];
        stream.read_exact(&mut back).await.unwrap();
        assert!(back == big);
    });
}

#[test]
fn bad_heads_are_refused_in_words() {
    let fields = (0..101)
        .map(|i| format!("x-{i}: y\r\n"))
        .collect::<String>();
    let cases = [
        ("400", "http.head_invalid", "hello\r\n\r\n".to_owned()),
        (
            "400",
            "http.head_invalid",
            "\x16\x03\x01\x02\x00\x01\x00\x01\x00\x00".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET / HTTP/1.1\r\nhost: x\r\nbad field: y\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET / HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET / HTTP/1.1\r\nhost: x\r\na: b\rc: d\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET / HTTP/1.1\r\nhost: x\r\na : b\r\n\r\n".to_owned(),
        ),
        (
            "505",
            "http.version",
            "GET / HTTP/3.1\r\nhost: x\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "http.head_invalid",
            "GET ftp://x/ HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        ),
        (
            "421",
            "http.misdirected",
            "GET https://x/ HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        ),
        (
            "505",
            "http.version",
            "GET / HTTP/2.0\r\nhost: x\r\n\r\n".to_owned(),
        ),
        (
            "431",
            "http.head_too_large",
            format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n"),
        ),
        (
            "431",
            "http.head_too_large",
            format!(
                "GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n",
                "y".repeat(40_000)
            ),
        ),
        (
            "431",
            "http.head_too_large",
            format!("GET / HTTP/1.1\r\nhost: x\r\na: {}", "y".repeat(33_000)),
        ),
        (
            "414",
            "http.target_too_long",
            format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(20_000)),
        ),
        (
            "431",
            "http.head_too_large",
            format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(70_000)),
        ),
    ];
    run(async {
        let edge = start(EdgeSettings::default());
        for (status, code, bytes) in &cases {
            let answer = edge.all(bytes).await;
            assert_refused(&answer, status, code);
        }
        for host in [
            "a, b", "u@a", "a:b", "a:1:2", "a/b", "[::1", ":80", "a:123456",
        ] {
            let answer = edge.all(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
            assert_refused(&answer.await, "400", "http.head_invalid");
        }
        assert_eq!(edge.echo.calls.get(), 0);
        edge.no_connection().await;
    });
}

#[test]
fn requests_cannot_be_smuggled() {
    let hidden = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";
    let post = "POST /echo HTTP/1.1\r\nhost: x\r\n";
    run(async {
        let edge = start(EdgeSettings::default());
        for framing in [
            "content-length: 5\r\ncontent-length: 6\r\n",
            "content-length: 5, 6\r\n",
            "content-length: +5\r\n",
            "content-length: 0x5\r\n",
            "content-length: 99999999999999999999\r\n",
            "transfer-encoding: chunked, identity\r\n",
            "transfer-encoding: xchunked\r\n",
            "transfer-encoding : chunked\r\n",
            "content-length: 5\r\ncontent-length: 5\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            "transfer-encoding: chunked\n",
            "a: b\n",
        ] {
            let answer = edge
                .all(format!("{post}{framing}\r\n0\r\n\r\n{hidden}"))
                .await;
            let is_other_coding = ["identity", "xchunked", "gzip"]
                .iter()
                .any(|coding| framing.contains(coding));
            match is_other_coding {
                true => assert_refused(&answer, "501", "http.unsupported"),
                false => assert_refused(&answer, "400", "http.head_invalid"),
            }
        }
        assert_eq!(edge.echo.calls.get(), 0);
        // LF alone, in every place of a head; and in pieces that come one after the other.
        for head in [
            "\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET / HTTP/1.1\nhost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n\n",
            "GET / HTTP/1.1\nhost: x\n\n",
        ] {
            assert_refused(&edge.all(head).await, "400", "http.head_invalid");
        }
        let mut stream = edge.dial().await;
        stream.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
        while edge.shared.connections() == 0 {
            tokio::task::yield_now().await;
        }
        stream.write_all(b"st: x\n\r\n").await.unwrap();
        assert_refused(&rest(&mut stream).await, "400", "http.head_invalid");
        assert_eq!(edge.echo.calls.get(), 0);
        // A chunk whose size is none.
        for chunk in [
            "zz\r\n",
            "5;\n\r\nhello\r\n",
            "-1\r\n",
            "fffffffffffffffff\r\n",
            "5\nhello\r\n",
            "5\r\nhello\n",
            "5\r\nhello, and more\r\n",
        ] {
            let framing = "transfer-encoding: chunked\r\n";
            let answer = edge
                .all(format!("{post}{framing}\r\n{chunk}0\r\n\r\n{hidden}"))
                .await;
            assert!(!answer.contains("/hidden"), "{answer}");
            assert_refused(&answer, "400", "http.body_cut");
        }
    });
}

#[test]
fn a_slow_head_is_refused_also_one_that_drips() {
    run(async {
        let edge = start(short());
        let mut stream = edge.dial().await;
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        assert_refused(&rest(&mut stream).await, "408", "http.head_too_slow");

        let (mut reader, mut writer) = edge.dial().await.into_split();
        let drip = spawn_local(async move {
            let mut drops = b"GET / HTTP/1.1\r\nx: "
                .iter()
                .chain(std::iter::repeat(&b'y'));
            while writer.write_all(&[*drops.next().unwrap()]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let mut answer = String::new();
        let _ = reader.read_to_string(&mut answer).await;
        assert_refused(&answer, "408", "http.head_too_slow");
        drip.await.unwrap();

        // On a kept connection, too; and one that says nothing is closed without a word.
        let mut kept = edge.dial().await;
        kept.write_all(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        until(&mut kept, "/a").await;
        kept.write_all(b"GET").await.unwrap();
        assert_refused(&rest(&mut kept).await, "408", "http.head_too_slow");
        assert_eq!(edge.all("").await, "");
        assert_eq!(edge.shared.refused_heads(), 3);
    });
}

#[test]
fn a_slow_or_cut_body_is_refused() {
    run(async {
        let edge = start(short());
        let mut stream = edge.dial().await;
        stream
            .write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
            .await
            .unwrap();
        assert_refused(&rest(&mut stream).await, "408", "http.body_too_slow");
        let chunked = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab";
        let mut stream = edge.dial().await;
        stream.write_all(chunked.as_bytes()).await.unwrap();
        assert_refused(&rest(&mut stream).await, "408", "http.body_too_slow");
        edge.no_connection().await;
    });
}

#[test]
fn a_large_body_is_refused_before_it_is_read_and_the_client_can_read_why() {
    run(async {
        let edge = start(short());
        let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n".to_owned();
        assert_refused(&edge.all(&head).await, "413", "http.body_too_large");
        assert_refused(
            &edge.all(head + &"x".repeat(900_000)).await,
            "413",
            "http.body_too_large",
        );
        // A client that sends all of a body before it reads, however much that is.
        let body = vec![b'x'; 20 << 20];
        let head = format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = edge.dial().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        assert_refused(&rest(&mut stream).await, "413", "http.body_too_large");
        let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000)).repeat(4);
        let chunked = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = edge.all(format!("{chunked}{chunk}")).await;
        assert_refused(&answer, "413", "http.body_too_large");
        edge.no_connection().await;
    });
}

#[test]
fn a_body_is_read_in_pieces_and_who_reads_none_makes_the_client_wait() {
    run(async {
        let edge = start(EdgeSettings::default());
        let (mut read, mut write) = edge.dial().await.into_split();
        let head =
            format!("POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: {COUNTED_BYTES}\r\n\r\n");
        write.write_all(head.as_bytes()).await.unwrap();
        let sent = Rc::new(Cell::new(0));
        let counted = Rc::clone(&sent);
        spawn_local(async move {
            let piece = vec![b'x'; 64 << 10];
            while counted.get() < COUNTED_BYTES {
                write.write_all(&piece).await.unwrap();
                counted.set(counted.get() + piece.len());
            }
            let tail = b"GET /next HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            write.write_all(tail).await.unwrap();
        });
        edge.echo.opened.notified().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        // The rest stands in the sockets' buffers.
        assert!(sent.get() < COUNTED_BYTES / 2, "{}", sent.get());
        edge.echo.go.notify_one();
        let mut answers = String::new();
        read.read_to_string(&mut answers).await.unwrap();
        assert!(
            answers.contains(&format!("\r\n\r\n{COUNTED_BYTES}HTTP/1.1")),
            "{answers}"
        );
        assert!(answers.ends_with("/next"), "{answers}");
    });
}

#[test]
fn the_pieces_of_a_body_have_one_bound() {
    run(async {
        let edge = start(EdgeSettings::default());
        let over = COUNTED_BYTES + 1;
        let announced =
            format!("POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: {over}\r\n\r\n");
        edge.echo.go.notify_one();
        assert_refused(&edge.all(announced).await, "413", "http.body_too_large");
        edge.echo.go.notify_one();
        let chunk = format!("1000000\r\n{}\r\n", "x".repeat(16 << 20));
        let head = "POST /count HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let fits = format!("{head}{}0\r\n\r\n", chunk.repeat(3));
        let mut stream = edge.dial().await;
        stream.write_all(fits.as_bytes()).await.unwrap();
        until(&mut stream, &COUNTED_BYTES.to_string()).await;
        edge.echo.go.notify_one();
        let over = format!("{head}{}1\r\nx\r\n", chunk.repeat(3));
        assert_refused(&edge.all(over).await, "413", "http.body_too_large");
        let cut = "POST /count HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
        edge.echo.go.notify_one();
        assert_refused(&edge.all(cut).await, "400", "http.body_cut");
    });
}

#[test]
fn an_unread_body_ends_the_connection_cleanly() {
    run(async {
        let edge = start(short());
        let head = "POST /other HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n";
        let answer = edge.all(format!("{head}{}", "x".repeat(90_000))).await;
        assert!(
            answer.ends_with("/other") && answer.contains("connection: close"),
            "{answer}"
        );
    });
}

#[test]
fn too_many_connections_are_told_so() {
    run(async {
        let edge = start(EdgeSettings {
            connections_max: 2,
            ..short()
        });
        let mut first = edge.dial().await;
        let mut second = edge.dial().await;
        for stream in [&mut first, &mut second] {
            ask(stream, "/known").await;
        }
        let answer = edge.all("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_refused(&answer, "503", "http.busy");
        assert_eq!(
            (edge.shared.refused_busy(), edge.shared.connections()),
            (1, 2)
        );
        drop(first);
        while edge.shared.connections() > 1 {
            tokio::task::yield_now().await;
        }
        let answer = edge.all("GET /a HTTP/1.0\r\n\r\n").await;
        assert!(answer.ends_with("/a"), "{answer}");
    });
}

/// Asks for a path that is its own answer.
async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    until(stream, path).await;
}

#[test]
fn a_silent_stranger_gives_up_its_place_for_whoever_comes() {
    run(async {
        let edge = start(EdgeSettings {
            connections_max: 4,
            ..EdgeSettings::default()
        });
        let mut known = edge.dial().await;
        ask(&mut known, "/known").await;
        let mut busy = edge.dial().await;
        busy.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        edge.echo.opened.notified().await;
        // One that has asked nothing, one whose head is not whole, one that has asked and is idle.
        let mut silent = edge.dial().await;
        while edge.shared.connections() < 3 {
            tokio::task::yield_now().await;
        }
        let mut half = edge.dial().await;
        half.write_all(b"GET /a HTTP/1.1\r\n").await.unwrap();
        while edge.shared.connections() < 4 {
            tokio::task::yield_now().await;
        }
        let mut idle = edge.dial().await;
        ask(&mut idle, "/a").await;
        assert_eq!(rest(&mut silent).await, "");
        let mut next = edge.dial().await;
        ask(&mut next, "/known").await;
        assert_eq!(rest(&mut half).await, "");
        let mut last = edge.dial().await;
        ask(&mut last, "/known").await;
        assert_eq!(rest(&mut idle).await, "");
        // Now there is nobody to give up a place: agents and a request in flight hold them all.
        let answer = edge.all("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_refused(&answer, "503", "http.busy");
        assert_eq!(
            (edge.shared.connections(), edge.shared.closed_silent()),
            (4, 3)
        );
        edge.echo.go.notify_one();
        until(&mut busy, "done").await;
        for stream in [&mut known, &mut next, &mut last] {
            ask(stream, "/b").await;
        }
    });
}

#[test]
fn strangers_at_one_address_have_a_bound() {
    run(async {
        let edge = start(EdgeSettings {
            strangers_max: 2,
            ..EdgeSettings::default()
        });
        let mut first = edge.dial().await;
        ask(&mut first, "/a").await;
        let mut second = edge.dial().await;
        ask(&mut second, "/a").await;
        // One that shows who it is counts no more, and another may come.
        ask(&mut first, "/known").await;
        let mut third = edge.dial().await;
        ask(&mut third, "/a").await;
        for stream in [&mut first, &mut second, &mut third] {
            ask(stream, "/b").await;
        }
        assert_eq!(edge.shared.closed_silent(), 0);
        // At the bound, the oldest stranger that asks nothing makes room.
        let mut fourth = edge.dial().await;
        ask(&mut fourth, "/a").await;
        assert_eq!(second.read(&mut [0]).await.unwrap_or(0), 0);
        assert_eq!(edge.shared.closed_silent(), 1);
        for stream in [&mut first, &mut third, &mut fourth] {
            ask(stream, "/b").await;
        }
    });
}

#[test]
fn a_stream_flows_ends_and_is_cut() {
    run(async {
        let edge = start(EdgeSettings::default());
        let mut stream = edge.dial().await;
        let ask = b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(ask).await.unwrap();
        edge.echo.opened.notified().await;
        let sender = edge.echo.streams.borrow_mut().pop().unwrap();
        sender.send("one".into()).await.unwrap();
        until(&mut stream, "3\r\none\r\n").await;
        drop(sender);
        until(&mut stream, "0\r\n\r\n").await;
        // The same connection again; this time it is cut.
        stream.write_all(ask).await.unwrap();
        edge.echo.opened.notified().await;
        let sender = edge.echo.streams.borrow_mut().pop().unwrap();
        sender.send("two".into()).await.unwrap();
        sender.abort();
        let answer = rest(&mut stream).await;
        assert!(answer.ends_with("3\r\ntwo\r\n"), "{answer}");
        // For HTTP/1.0 a cut is a reset, because the end of the connection is the end of the body.
        let mut old = edge.dial().await;
        old.write_all(b"GET /stream HTTP/1.0\r\n\r\n")
            .await
            .unwrap();
        edge.echo.opened.notified().await;
        let sender = edge.echo.streams.borrow_mut().pop().unwrap();
        sender.send("old".into()).await.unwrap();
        until(&mut old, "old").await;
        sender.abort();
        assert!(old.read(&mut [0]).await.is_err());
    });
}

#[test]
fn a_client_that_vanishes_is_noticed() {
    run(async {
        let edge = start(EdgeSettings::default());
        let mut stream = edge.dial().await;
        stream
            .write_all(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        edge.echo.opened.notified().await;
        let sender = edge.echo.streams.borrow_mut().pop().unwrap();
        sender.send("one".into()).await.unwrap();
        until(&mut stream, "one\r\n").await;
        drop(stream);
        sender.closed().await;
        assert!(sender.send("two".into()).await.is_err());

        let mut stream = edge.dial().await;
        stream
            .write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        edge.echo.opened.notified().await;
        drop(stream);
        edge.no_connection().await;
        assert!(edge.echo.dropped.get(), "the call in flight is dropped");
    });
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    run(async {
        let edge = start(short());
        let mut stream = edge.dial().await;
        stream
            .write_all(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        while edge.shared.connections() == 0 {
            tokio::task::yield_now().await;
        }
        edge.no_connection().await;
    });
}

#[test]
fn a_drain_finishes_what_is_in_flight_and_closes_what_is_idle() {
    run(async {
        let edge = start(short());
        let mut idle = edge.dial().await;
        idle.write_all(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        until(&mut idle, "/a").await;
        let mut busy = edge.dial().await;
        busy.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        edge.echo.opened.notified().await;
        edge.drain.start();
        assert_eq!(rest(&mut idle).await, "");
        assert!(!edge.serving.is_finished());
        edge.echo.go.notify_one();
        let answer = rest(&mut busy).await;
        assert!(
            answer.ends_with("done") && answer.contains("connection: close"),
            "{answer}"
        );
        edge.serving.await.unwrap();
        assert!(TcpStream::connect(edge.address).await.is_err());
        assert_eq!(edge.shared.connections(), 0);
    });
}

#[test]
fn a_drain_ends_in_bounded_time() {
    run(async {
        let edge = start(short());
        let mut busy = edge.dial().await;
        busy.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        edge.echo.opened.notified().await;
        edge.drain.start();
        edge.serving.await.unwrap();
        assert_eq!(rest(&mut busy).await, "");
        assert!(edge.echo.dropped.get());
    });
}

#[test]
fn listeners_share_a_port() {
    let first = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let second = net::bind(first.local_addr().unwrap()).unwrap();
    assert_eq!(first.local_addr().unwrap(), second.local_addr().unwrap());
}
