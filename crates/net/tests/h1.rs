//! The engine's two roles over streams in memory and over sockets: what is written, in which order,
//! what is refused, and what becomes of a connection that waits, breaks or has to end.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use net::h1::{
    ClientConnection, ConnectionSettings, Error, Fault, Framing, SendOutcome, ServerConnection,
    Thread, Wait,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

const GET: &[u8] = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
const NO_FIELDS: [(&[u8], &[u8]); 0] = [];

/// Runs a test whose clock stands still but for waits: then it jumps.
fn run(test: impl Future<Output = ()>) {
    run_on(true, test);
}

/// Runs a test with real sockets and the real clock.
fn run_real(test: impl Future<Output = ()>) {
    run_on(false, test);
}

fn run_on(paused: bool, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(paused)
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(3600), test).await };
    LocalSet::new()
        .block_on(&runtime, bounded)
        .expect("the test ends in time");
}

fn thread() -> Rc<Thread> {
    Thread::new(ConnectionSettings::default().tick_ms())
}

/// A server, and the client's end of its stream, which holds so many bytes each way.
fn server(bytes: usize) -> (ServerConnection<DuplexStream>, DuplexStream) {
    let (ours, theirs) = duplex(bytes);
    let thread = thread();
    (ServerConnection::new(ours, &thread, &Rc::default()), theirs)
}

/// A client, and the server's end of its stream.
fn client(bytes: usize) -> (ClientConnection<DuplexStream>, DuplexStream) {
    let (ours, theirs) = duplex(bytes);
    let thread = thread();
    (ClientConnection::new(ours, &thread, &Rc::default()), theirs)
}

/// Reads exactly this.
async fn expect(stream: &mut DuplexStream, text: &str) {
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

/// Reads this, and then the end.
async fn expect_end(stream: &mut DuplexStream, text: &str) {
    let mut all = String::new();
    stream.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, text);
}

async fn whole(server: &mut ServerConnection<DuplexStream>) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(piece) = server.piece().await.unwrap() {
        body.extend_from_slice(piece);
    }
    body
}

/// Answers with these, and flushes.
async fn answer(
    server: &mut ServerConnection<DuplexStream>,
    status: u16,
    framing: Framing,
    body: &[u8],
) {
    server.respond(status, NO_FIELDS, framing).unwrap();
    server.body(body).await.unwrap();
    server.end().unwrap();
    server.flush().await.unwrap();
}

#[test]
fn an_answer_is_one_write_and_byte_for_byte_what_was_said() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        assert_eq!(server.head().await.unwrap().unwrap().method(), b"GET");
        let fields: [(&[u8], &[u8]); 2] = [(b"X-One", b"1"), (b"two", b"a, b")];
        server.respond(404, fields, Framing::Length(2)).unwrap();
        server.body(b"no").await.unwrap();
        server.end().unwrap();
        assert_eq!(
            server.unflushed(),
            68,
            "nothing is written before the flush"
        );
        server.flush().await.unwrap();
        let text = "HTTP/1.1 404 Not Found\r\nX-One: 1\r\ntwo: a, b\r\ncontent-length: 2\r\n\r\nno";
        expect(&mut peer, text).await;
    });
}

#[test]
fn what_frames_is_the_engines_and_no_field_ends_its_line() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        server.head().await.unwrap().unwrap();
        let bad: [&[u8]; 6] = [b"a\r\nb: c", b"a\nb", b"a\rb", b"a\0b", b"\x7f", b"a\x1b"];
        for value in bad {
            let wrong = server.respond(200, [(&b"x"[..], value)], Framing::None);
            assert!(matches!(wrong, Err(Error::Misuse(_))), "{value:?}");
        }
        for name in [&b""[..], b"a b", b"a:", b"a\r\n", b"\xc3\xa4", b"a\0"] {
            let wrong = server.respond(200, [(name, &b"x"[..])], Framing::None);
            assert!(matches!(wrong, Err(Error::Misuse(_))), "{name:?}");
        }
        assert_eq!(server.unflushed(), 0, "nothing of them is written");
        let fields: [(&[u8], &[u8]); 7] = [
            (b"Content-Length", b"9"),
            (b"TRANSFER-ENCODING", b"chunked"),
            (b"connection", b"close"),
            (b"keep-alive", b"timeout=1"),
            (b"upgrade", b"h2c"),
            (b"proxy-connection", b"x"),
            (b"kept", b"\t\xff"),
        ];
        server.respond(200, fields, Framing::None).unwrap();
        server.end().unwrap();
        server.flush().await.unwrap();
        let said = b"HTTP/1.1 200 OK\r\nkept: \t\xff\r\ncontent-length: 0\r\n\r\n";
        let mut bytes = [0; 48];
        peer.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, said);
    });
}

#[test]
fn chunks_are_written_in_place_and_end_with_trailers() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        server.head().await.unwrap().unwrap();
        server.respond(200, NO_FIELDS, Framing::Chunked).unwrap();
        server.body(b"0123456789abcdef").await.unwrap();
        let made = server.body_with(|out| {
            out.extend_from_slice(b"xyz");
            7
        });
        assert_eq!(made, Ok(7));
        server.body_with(|_| ()).unwrap();
        server.body(b"").await.unwrap();
        let framing = [(&b"content-length"[..], &b"1"[..]), (b"sum", b"1")];
        server.end_with(framing).unwrap();
        server.flush().await.unwrap();
        let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                    10\r\n0123456789abcdef\r\n00000003\r\nxyz\r\n0\r\nsum: 1\r\n\r\n";
        expect(&mut peer, text).await;
    });
}

#[test]
fn answers_without_a_body_say_only_what_they_may() {
    let cases = [
        ("HEAD", 200, Framing::Length(5), "content-length: 5\r\n"),
        ("HEAD", 200, Framing::Chunked, ""),
        ("HEAD", 200, Framing::UntilClose, ""),
        ("HEAD", 200, Framing::None, ""),
        ("GET", 304, Framing::Length(5), "content-length: 5\r\n"),
        ("GET", 304, Framing::None, ""),
        ("GET", 204, Framing::None, ""),
        ("GET", 204, Framing::Length(0), ""),
        ("GET", 200, Framing::None, "content-length: 0\r\n"),
        ("GET", 205, Framing::None, "content-length: 0\r\n"),
    ];
    for (method, status, framing, said) in cases {
        run(async {
            let (mut server, mut peer) = server(1 << 20);
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            peer.write_all(request.as_bytes()).await.unwrap();
            server.head().await.unwrap().unwrap();
            server.respond(status, NO_FIELDS, framing).unwrap();
            let pushed = server.body(b"x").await;
            assert!(matches!(pushed, Err(Error::Misuse(_))), "{method} {status}");
            server.end().unwrap();
            peer.write_all(GET).await.unwrap();
            assert!(
                server.head().await.unwrap().is_some(),
                "{method} {status} keeps the connection"
            );
            drop(server);
            let mut text = String::new();
            peer.read_to_string(&mut text).await.unwrap();
            let (line, rest) = text.split_once("\r\n").unwrap();
            assert!(line.starts_with(&format!("HTTP/1.1 {status} ")));
            assert_eq!(rest, format!("{said}\r\n"), "{method} {status} {framing:?}");
        });
    }
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        server.head().await.unwrap().unwrap();
        for (status, framing) in [
            (204, Framing::Chunked),
            (101, Framing::None),
            (1000, Framing::None),
        ] {
            let wrong = server.respond(status, NO_FIELDS, framing);
            assert!(matches!(wrong, Err(Error::Misuse(_))), "{status}");
        }
    });
}

#[test]
fn http_1_0_gets_no_chunks_and_no_second_request() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n")
            .await
            .unwrap();
        server.head().await.unwrap().unwrap();
        server.inform(103, NO_FIELDS).unwrap();
        answer(&mut server, 200, Framing::Chunked, b"abc").await;
        peer.shutdown().await.unwrap();
        assert!(server.head().await.unwrap().is_none());
        drop(server);
        expect_end(&mut peer, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc").await;
    });
}

#[test]
fn a_body_has_exactly_its_length() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        let before = server.respond(200, NO_FIELDS, Framing::None);
        assert!(
            matches!(before, Err(Error::Misuse(_))),
            "there is no request yet"
        );
        server.head().await.unwrap().unwrap();
        assert!(
            matches!(server.end(), Err(Error::Misuse(_))),
            "there is no answer yet"
        );
        assert!(
            matches!(server.head().await, Err(Error::Misuse(_))),
            "an answer is owed"
        );
        server.respond(200, NO_FIELDS, Framing::Length(3)).unwrap();
        let twice = server.respond(200, NO_FIELDS, Framing::None);
        assert!(matches!(twice, Err(Error::Misuse(_))));
        assert!(matches!(server.body(b"abcd").await, Err(Error::Misuse(_))));
        let more = server.body_with(|out| out.extend_from_slice(b"abcd"));
        assert!(matches!(more, Err(Error::Misuse(_))));
        server.body(b"ab").await.unwrap();
        assert!(matches!(server.end(), Err(Error::Misuse(_))));
        server.body_with(|out| out.push(b'c')).unwrap();
        server.end().unwrap();
        server.flush().await.unwrap();
        expect(&mut peer, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await;
    });
}

#[test]
fn a_client_that_waits_for_100_gets_it_when_the_body_is_wanted() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(head.as_bytes()).await.unwrap();
        assert!(server.head().await.unwrap().unwrap().expects_continue());
        let asked = async {
            expect(&mut peer, "HTTP/1.1 100 Continue\r\n\r\n").await;
            peer.write_all(b"abc").await.unwrap();
        };
        let (body, ()) = tokio::join!(whole(&mut server), asked);
        assert_eq!(body, b"abc");
        answer(&mut server, 200, Framing::None, b"").await;
        expect(&mut peer, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        // A client that did not wait is not told to go on.
        peer.write_all(format!("{head}abc").as_bytes())
            .await
            .unwrap();
        server.head().await.unwrap().unwrap();
        assert_eq!(whole(&mut server).await, b"abc");
        answer(&mut server, 200, Framing::None, b"").await;
        expect(&mut peer, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        // A final answer instead: the body may come or not, so nothing can follow.
        peer.write_all(head.as_bytes()).await.unwrap();
        server.head().await.unwrap().unwrap();
        answer(&mut server, 403, Framing::None, b"").await;
        peer.shutdown().await.unwrap();
        assert!(server.head().await.unwrap().is_none());
        drop(server);
        let text = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        expect_end(&mut peer, text).await;
    });
}

#[test]
fn informational_answers_come_before_the_final_one_alone() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        assert!(matches!(
            server.inform(103, NO_FIELDS),
            Err(Error::Misuse(_))
        ));
        server.head().await.unwrap().unwrap();
        for status in [99, 101, 200] {
            assert!(matches!(
                server.inform(status, NO_FIELDS),
                Err(Error::Misuse(_))
            ));
        }
        let link: [(&[u8], &[u8]); 2] = [(b"link", b"</x>"), (b"content-length", b"5")];
        server.inform(103, link).unwrap();
        answer(&mut server, 200, Framing::None, b"").await;
        assert!(matches!(server.inform(103, link), Err(Error::Misuse(_))));
        let text = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n\
                    HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        expect(&mut peer, text).await;
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        let mut sent = String::new();
        for number in 0..300 {
            sent += &format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 200\r\n\r\n");
            sent += &format!("{number:200}");
        }
        peer.write_all(sent.as_bytes()).await.unwrap();
        peer.shutdown().await.unwrap();
        let mut count = 0;
        while let Some(request) = server.head().await.unwrap() {
            assert_eq!(request.target(), format!("/{count}").as_bytes());
            // The first bodies are left unread: they are here already, so they cost nothing but
            // themselves.
            if count > 10 {
                assert_eq!(whole(&mut server).await, format!("{count:200}").as_bytes());
            }
            answer(&mut server, 200, Framing::Length(1), b"x").await;
            count += 1;
        }
        assert_eq!(count, 300);
        drop(server);
        expect_end(
            &mut peer,
            &"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx".repeat(300),
        )
        .await;
    });
}

#[test]
fn a_head_stays_readable_while_its_body_is_read() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        let body = vec![b'b'; 600_000];
        let head = "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\nx: y\r\n\r\n";
        let send = async {
            peer.write_all(head.as_bytes()).await.unwrap();
            peer.write_all(&body).await.unwrap();
        };
        let read = async {
            server.head().await.unwrap().unwrap();
            let (mut bytes, mut pieces) = (0, 0);
            while let Some(piece) = server.piece().await.unwrap() {
                assert!(piece.iter().all(|byte| *byte == b'b'));
                (bytes, pieces) = (bytes + piece.len(), pieces + 1);
                let request = server.request();
                assert_eq!(
                    (request.target(), request.fields().get(b"X")),
                    (&b"/long"[..], Some(&b"y"[..]))
                );
            }
            assert_eq!(bytes, 600_000);
            assert!(pieces < 20, "pieces grow to the size of a read: {pieces}");
        };
        tokio::join!(send, read);
    });
}

#[test]
fn a_piece_can_be_had_whole_however_it_was_cut_into_chunks() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        let mut sent =
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
        for number in 0..3000 {
            sent += &format!("5;x\r\n{number:05}\r\n");
        }
        sent += "0\r\nsum: 1\r\n\r\n";
        let send = async { peer.write_all(sent.as_bytes()).await.unwrap() };
        let read = async {
            server.head().await.unwrap().unwrap();
            for number in 0..1500 {
                let piece = server.fill(10).await.unwrap();
                assert_eq!(
                    &piece[..10],
                    format!("{:05}{:05}", 2 * number, 2 * number + 1).as_bytes()
                );
                piece[0] = b'!';
                assert_eq!(server.filled()[0], b'!', "it may be worked on in place");
                server.consume(10);
            }
            assert_eq!(server.fill(1).await.unwrap(), b"");
            assert!(server.is_body_here());
            assert_eq!(server.trailers().get(b"Sum"), Some(&b"1"[..]));
            assert!(matches!(server.fill(1 << 20).await, Err(Error::Misuse(_))));
        };
        tokio::join!(send, read);
    });
}

#[test]
fn large_pieces_are_had_in_one() {
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        let sizes = [65_556, 1, 90_000, 65_556, 65_556];
        let body: Vec<u8> = (0..sizes.iter().sum())
            .map(|at: usize| (at % 251) as u8)
            .collect();
        let send = async {
            let head = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            peer.write_all(head.as_bytes()).await.unwrap();
            for part in body.chunks(7000) {
                peer.write_all(part).await.unwrap();
            }
        };
        let read = async {
            server.head().await.unwrap().unwrap();
            let mut at = 0;
            for size in sizes {
                let piece = server.fill(size).await.unwrap();
                assert!(piece[..size] == body[at..at + size]);
                server.consume(size);
                at += size;
            }
        };
        tokio::join!(send, read);
    });
}

#[test]
fn waits_are_bounded() {
    let settings = ConnectionSettings::default();
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        let start = tokio::time::Instant::now();
        assert!(
            server.head().await.unwrap().is_none(),
            "a connection that says nothing is closed"
        );
        assert!(start.elapsed() >= Duration::from_millis(settings.head_ms));
        assert!(start.elapsed() <= Duration::from_millis(settings.head_ms + 1000));
        expect_end_of(server, &mut peer, "").await;
    });
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(GET).await.unwrap();
        server.head().await.unwrap().unwrap();
        answer(&mut server, 200, Framing::None, b"").await;
        let start = tokio::time::Instant::now();
        assert!(server.head().await.unwrap().is_none(), "an idle one, too");
        assert!(start.elapsed() >= Duration::from_millis(settings.idle_ms));
    });
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        let drip = async {
            // A byte now and then does not make a head quick.
            for byte in b"GET / HTTP/1.1\r\n".chunks(1) {
                peer.write_all(byte).await.unwrap();
                tokio::time::sleep(Duration::from_millis(settings.head_ms / 10)).await;
            }
        };
        let (slow, ()) = tokio::join!(server.head(), drip);
        assert_eq!(slow.err(), Some(Error::Slow(Wait::Head)));
        server.refuse(408, NO_FIELDS, b"slow").await.unwrap();
        let text =
            "HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\nconnection: close\r\n\r\nslow";
        expect_end_of(server, &mut peer, text).await;
    });
    run(async {
        let (mut server, mut peer) = server(1 << 20);
        peer.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
            .await
            .unwrap();
        server.head().await.unwrap().unwrap();
        assert_eq!(server.piece().await.unwrap().unwrap(), b"abc");
        assert_eq!(server.piece().await, Err(Error::Slow(Wait::Piece)));
        assert_eq!(Error::Slow(Wait::Piece).status(), Some(408));
        server.refuse(408, NO_FIELDS, b"").await.unwrap();
    });
    run(async {
        let (mut server, mut peer) = server(1 << 10);
        peer.write_all(GET).await.unwrap();
        server.head().await.unwrap().unwrap();
        server
            .respond(200, NO_FIELDS, Framing::Length(1 << 20))
            .unwrap();
        let slow = server.body(&[0; 1 << 20]).await;
        assert_eq!(slow, Err(Error::Slow(Wait::Write)));
    });
    run(async {
        let (mut client, mut peer) = client(1 << 20);
        client
            .request(b"GET", b"/", b"a", NO_FIELDS, Framing::None)
            .unwrap();
        client.flush().await.unwrap();
        assert_eq!(client.answer().await.err(), Some(Error::Slow(Wait::Answer)));
        assert!(!client.is_reusable());
        peer.write_all(b"x").await.unwrap();
    });
}

async fn expect_end_of(
    server: ServerConnection<DuplexStream>,
    peer: &mut DuplexStream,
    text: &str,
) {
    drop(server);
    expect_end(peer, text).await;
}

#[test]
fn a_refusal_reaches_a_client_that_still_sends() {
    run_real(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread();
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut server = ServerConnection::new(stream, &thread, &Rc::default());
            server.head().await.unwrap().unwrap();
            server.refuse(413, NO_FIELDS, b"too much").await.unwrap();
        };
        let ask = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n";
            stream.write_all(head).await.unwrap();
            stream.write_all(&[b'x'; 900_000]).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(
                text.starts_with("HTTP/1.1 413 ") && text.ends_with("too much"),
                "{text}"
            );
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn a_cut_answer_never_looks_whole() {
    run_real(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread();
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut server = ServerConnection::new(stream, &thread, &Rc::default());
            server.head().await.unwrap().unwrap();
            server.respond(200, NO_FIELDS, Framing::Chunked).unwrap();
            server.body(b"half").await.unwrap();
            server.flush().await.unwrap();
        };
        let ask = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap_err()
        };
        let ((), cut) = tokio::join!(serve, ask);
        assert_eq!(cut.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_client_that_closed_its_side_still_gets_its_answer() {
    run_real(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread();
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut server = ServerConnection::new(stream, &thread, &Rc::default());
            server.head().await.unwrap().unwrap();
            server.respond(200, NO_FIELDS, Framing::Length(2)).unwrap();
            server.body(b"ok").await.unwrap();
            server.end().unwrap();
            assert!(server.head().await.unwrap().is_none());
        };
        let ask = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(GET).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(text.ends_with("\r\n\r\nok"), "{text}");
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn a_drain_ends_busy_connections_after_their_answer_and_idle_ones_a_moment_later() {
    run(async {
        let (tick, thread) = (Duration::from_millis(250), thread());
        let (ours, _idle_peer) = duplex(1 << 16);
        let mut idle = ServerConnection::new(ours, &thread, &Rc::default());
        let idle = spawn_local(async move { idle.head().await.unwrap().is_none() });
        let (ours, mut peer) = duplex(1 << 16);
        let mut busy = ServerConnection::new(ours, &thread, &Rc::default());
        peer.write_all(GET).await.unwrap();
        busy.head().await.unwrap().unwrap();
        tokio::task::yield_now().await;
        let start = tokio::time::Instant::now();
        thread.drain(1_000);
        answer(&mut busy, 200, Framing::None, b"").await;
        assert!(busy.head().await.unwrap().is_none());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(idle.await.unwrap());
        let waited = start.elapsed();
        let least = Duration::from_millis(1_000);
        assert!(least <= waited && waited <= least + 2 * tick, "{waited:?}");
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        expect_end_of(busy, &mut peer, text).await;
    });
}

#[test]
fn a_request_that_was_on_its_way_when_the_drain_began_is_answered() {
    run(async {
        let thread = thread();
        let (ours, mut peer) = duplex(1 << 16);
        let mut server = ServerConnection::new(ours, &thread, &Rc::default());
        peer.write_all(GET).await.unwrap();
        server.head().await.unwrap().unwrap();
        answer(&mut server, 200, Framing::None, b"").await;
        let serving = spawn_local(async move {
            server.head().await.unwrap().unwrap();
            answer(&mut server, 200, Framing::None, b"").await;
            assert!(server.head().await.unwrap().is_none());
            server
        });
        tokio::task::yield_now().await;
        thread.drain(1_000);
        tokio::task::yield_now().await;
        peer.write_all(GET).await.unwrap();
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\
                    HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        expect_end_of(serving.await.unwrap(), &mut peer, text).await;
    });
}

#[test]
fn a_request_is_byte_for_byte_what_was_said() {
    run(async {
        let (mut client, mut peer) = client(1 << 20);
        let fields: [(&[u8], &[u8]); 4] = [
            (b"Accept", b"*/*"),
            (b"host", b"evil"),
            (b"TE", b"trailers"),
            (b"expect", b"100-continue"),
        ];
        client
            .request(b"PUT", b"/a?b", b"origin:81", fields, Framing::Length(3))
            .unwrap();
        assert_eq!(client.written(), 0);
        client.body(b"abc").await.unwrap();
        client.end().unwrap();
        assert_eq!(client.written(), 0, "nothing is written before the flush");
        client.flush().await.unwrap();
        let text = "PUT /a?b HTTP/1.1\r\nhost: origin:81\r\nAccept: */*\r\nexpect: 100-continue\r\n\
                    content-length: 3\r\n\r\nabc";
        assert_eq!(client.written(), text.len() as u64);
        expect(&mut peer, text).await;
        peer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(client.answer().await.unwrap().status(), 204);
        assert!(client.is_silent());
        client
            .request(b"POST", b"http://b/", b"b", NO_FIELDS, Framing::None)
            .unwrap();
        assert_eq!(client.written(), 0, "counted for each request");
        client.flush().await.unwrap();
        expect(
            &mut peer,
            "POST http://b/ HTTP/1.1\r\nhost: b\r\ncontent-length: 0\r\n\r\n",
        )
        .await;
    });
}

#[test]
fn what_cannot_be_asked_is_not_written() {
    run(async {
        let (mut client, _peer) = client(1 << 20);
        type Asked = (&'static [u8], &'static [u8], &'static [u8], Framing);
        let cases: [Asked; 9] = [
            (b"GE T", b"/", b"a", Framing::None),
            (b"CONNECT", b"a:1", b"a", Framing::None),
            (b"GET", b"/ HTTP/1.1\r\nx: y", b"a", Framing::None),
            (b"GET", b"", b"a", Framing::None),
            (b"GET", b"*", b"a", Framing::None),
            (b"GET", b"/#x", b"a", Framing::None),
            (b"GET", b"/", b"a\r\nx: y", Framing::None),
            (b"GET", b"/", b"u@a", Framing::None),
            (b"GET", b"/", b"a", Framing::UntilClose),
        ];
        for (method, target, authority, framing) in cases {
            let wrong = client.request(method, target, authority, NO_FIELDS, framing);
            assert!(
                matches!(wrong, Err(Error::Misuse(_))),
                "{}",
                target.escape_ascii()
            );
        }
        assert_eq!(client.unflushed(), 0);
        assert!(matches!(client.answer().await, Err(Error::Misuse(_))));
        assert!(matches!(client.piece().await, Err(Error::Misuse(_))));
    });
}

#[test]
fn an_early_answer_is_heard_before_the_request_is_out() {
    run(async {
        let (mut client, mut peer) = client(1 << 10);
        client
            .request(b"POST", b"/", b"a", NO_FIELDS, Framing::Length(1 << 16))
            .unwrap();
        client
            .body_with(|out| out.extend_from_slice(&[b'x'; 1 << 16]))
            .unwrap();
        peer.write_all(b"HTTP/1.1 413 Too Much\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(client.send().await, Ok(SendOutcome::Early));
        assert_eq!(client.answer().await.unwrap().status(), 413);
        assert_eq!(client.piece().await, Ok(None));
        assert!(
            client.unflushed() > 0 && !client.is_reusable(),
            "its request is not whole"
        );
    });
    run(async {
        // The server took a part, answered, and closed.
        let (mut client, mut peer) = client(1 << 10);
        client
            .request(b"POST", b"/", b"a", NO_FIELDS, Framing::Length(1 << 16))
            .unwrap();
        client
            .body_with(|out| out.extend_from_slice(&[b'x'; 1 << 16]))
            .unwrap();
        peer.write_all(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        drop(peer);
        assert!(matches!(client.flush().await, Err(Error::Io(_))));
        assert_eq!(client.answer().await.unwrap().status(), 400);
        assert!(!client.is_reusable());
    });
}

#[test]
fn a_client_can_wait_for_100_before_it_sends_the_body() {
    run(async {
        let (mut client, mut peer) = client(1 << 20);
        let expect_field: [(&[u8], &[u8]); 1] = [(b"expect", b"100-continue")];
        client
            .request(b"POST", b"/", b"a", expect_field, Framing::Length(1))
            .unwrap();
        client.flush().await.unwrap();
        let head =
            "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
        expect(&mut peer, head).await;
        peer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        assert!(client.answer().await.unwrap().is_informational());
        client.body(b"x").await.unwrap();
        client.end().unwrap();
        client.flush().await.unwrap();
        expect(&mut peer, "x").await;
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
        assert_eq!(client.answer().await.unwrap().status(), 200);
        assert_eq!(client.piece().await.unwrap().unwrap(), b"ok");
        assert_eq!(client.piece().await, Ok(None));
        assert!(client.is_silent());
    });
}

#[test]
fn an_answer_to_half_a_request_leaves_nothing_to_reuse() {
    run(async {
        let (mut client, mut peer) = client(1 << 20);
        client
            .request(b"POST", b"/", b"a", NO_FIELDS, Framing::Chunked)
            .unwrap();
        client.body(b"x").await.unwrap();
        client.flush().await.unwrap();
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        client.answer().await.unwrap();
        assert!(!client.is_reusable());
        client.end().unwrap();
        client.flush().await.unwrap();
        assert!(client.is_reusable(), "it is whole now");
        peer.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        assert!(!client.is_silent(), "an answer that nobody asked for");
        assert!(!client.is_reusable());
        let again = client.request(b"GET", b"/", b"a", NO_FIELDS, Framing::None);
        assert!(matches!(again, Err(Error::Misuse(_))));
    });
}

#[test]
fn both_directions_can_flow_at_once() {
    // A server that answers each piece as it comes, and a client that keeps sending: neither has
    // room for all of it.
    run(async {
        let (ours, theirs) = duplex(1 << 12);
        let thread = thread();
        let (mut server, mut client) = (
            ServerConnection::new(ours, &thread, &Rc::default()),
            ClientConnection::new(theirs, &thread, &Rc::default()),
        );
        let total = 1 << 20;
        let serve = async {
            server.head().await.unwrap().unwrap();
            server.respond(200, NO_FIELDS, Framing::Chunked).unwrap();
            let mut piece = Vec::new();
            while let Some(came) = server.piece().await.unwrap() {
                piece.clear();
                piece.extend_from_slice(came);
                server.body(&piece).await.unwrap();
                server.flush().await.unwrap();
            }
            server.end().unwrap();
            server.flush().await.unwrap();
        };
        let ask = async {
            client
                .request(b"POST", b"/", b"a", NO_FIELDS, Framing::Length(total))
                .unwrap();
            let (mut sent, mut came, mut answered) = (0, 0, false);
            while came < total {
                if sent < total && client.unflushed() == 0 {
                    client
                        .body_with(|out| out.resize(out.len() + 4096, b'x'))
                        .unwrap();
                    sent += 4096;
                }
                std::future::poll_fn(|context| {
                    use std::task::Poll;
                    let flushed = client.poll_flush(context).map(Result::unwrap);
                    if !answered {
                        answered = client.poll_answer(context).map(Result::unwrap).is_ready();
                        return if flushed.is_ready() || answered {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        };
                    }
                    match client.poll_fill(context, 1).map(Result::unwrap) {
                        Poll::Pending if flushed.is_ready() && sent < total => Poll::Ready(()),
                        other => other,
                    }
                })
                .await;
                if answered {
                    let bytes = client.filled().len();
                    client.consume(bytes);
                    came += bytes as u64;
                }
            }
            assert_eq!(came, total);
        };
        tokio::join!(serve, ask);
    });
}

#[test]
fn every_fault_has_a_status_and_a_sentence() {
    for fault in Fault::ALL {
        assert!((400..600).contains(&fault.status()), "{fault:?}");
        assert!(
            fault.text().ends_with('.') && fault.text().len() < 100,
            "{fault:?}"
        );
    }
}

#[test]
fn buffers_are_given_back_while_a_connection_waits() {
    run(async {
        let thread = thread();
        let mut peers = Vec::new();
        for _ in 0..100 {
            let (ours, peer) = duplex(1 << 16);
            let mut server = ServerConnection::new(ours, &thread, &Rc::default());
            spawn_local(async move {
                while server.head().await.unwrap().is_some() {
                    answer(&mut server, 200, Framing::Length(1), b"x").await;
                }
            });
            peers.push(peer);
        }
        for peer in &mut peers {
            peer.write_all(GET).await.unwrap();
            expect(peer, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx").await;
        }
        assert!(
            thread.buffers_kept() <= 4,
            "one connection after the other: {}",
            thread.buffers_kept()
        );
    });
}

#[test]
fn a_forgotten_request_lends_its_buffer_and_loses_nothing_behind_it() {
    run(async {
        let (mut server, mut peer) = server(1 << 16);
        let body = "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc";
        peer.write_all(format!("{body}{body}GET /c HTTP/1.1\r\nhost: h\r\n\r\nGET").as_bytes())
            .await
            .unwrap();
        for _ in 0..2 {
            assert_eq!(server.head().await.unwrap().unwrap().method(), b"POST");
            server.forget_request();
            assert_eq!(
                server.request().method(),
                b"POST",
                "its body was not read yet"
            );
            assert_eq!(server.fill(3).await.unwrap(), b"abc");
            server.forget_request();
            let forgotten = server.request();
            assert!(forgotten.method().is_empty() && forgotten.fields().is_empty());
            assert!(server.filled().is_empty());
            answer(&mut server, 200, Framing::Length(1), b"x").await;
        }
        assert_eq!(server.head().await.unwrap().unwrap().target(), b"/c");
        server.forget_request();
        answer(&mut server, 200, Framing::Length(1), b"x").await;
        let answered = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";
        expect(&mut peer, &answered.repeat(3)).await;
        peer.write_all(b" /d HTTP/1.1\r\nhost: h\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(server.head().await.unwrap().unwrap().target(), b"/d");
    });
}

#[test]
fn connections_whose_requests_are_forgotten_need_one_buffer() {
    run(async {
        let thread = thread();
        let mut open = Vec::new();
        for _ in 0..50 {
            let (ours, mut peer) = duplex(1 << 16);
            let mut server = ServerConnection::new(ours, &thread, &Rc::default());
            peer.write_all(GET).await.unwrap();
            assert!(server.head().await.unwrap().is_some());
            server.forget_request();
            open.push((server, peer));
        }
        assert_eq!(thread.buffers_kept(), 1);
        for (server, peer) in &mut open {
            answer(server, 200, Framing::Length(1), b"x").await;
            expect(peer, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx").await;
        }
    });
}
