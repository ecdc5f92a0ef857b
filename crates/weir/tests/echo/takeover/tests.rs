//! Tunnels and WebSockets through a whole gateway: judged, recorded with how they ended, ended from outside.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use gate::Stops;

use crate::echo::tests::{Asked, KEY, OTHER, message, server, while_serving};

/// How long a stop or a revocation takes at most; the rest is for a machine that does other things, too.
const ENDED_WITHIN: Duration = Duration::from_millis(1_500);

/// Asks for a connection; gives it with the head of the answer.
fn asked(gateway: &Asked, line: &str, key: &str, fields: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    let wait = Some(Duration::from_secs(10));
    stream.set_read_timeout(wait).unwrap();
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{fields}\r\n"
    )
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    (stream, String::from_utf8(head).unwrap())
}

fn tunnel(gateway: &Asked, url: &str, key: &str) -> (TcpStream, String) {
    let host = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    asked(gateway, &format!("CONNECT {host}"), key, "")
}

fn socket(gateway: &Asked) -> TcpStream {
    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                  Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let (stream, head) = asked(gateway, "GET /echo/ws", KEY, fields);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream
}

/// Sends a short text, with a mask of zeros.
fn send(stream: &mut TcpStream, text: &str) {
    let head = [0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    stream
        .write_all(&[&head, text.as_bytes()].concat())
        .unwrap();
}

/// Reads a short frame.
fn read(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut payload = vec![0; usize::from(head[1])];
    stream.read_exact(&mut payload).unwrap();
    (head[0], payload)
}

fn read_close(stream: &mut TcpStream) -> u16 {
    let (first, payload) = read(stream);
    assert_eq!(first, 0x88, "{payload:?}");
    u16::from_be_bytes([payload[0], payload[1]])
}

/// Whether the tunnel is cut, and not only closed.
fn is_reset(stream: &mut TcpStream) -> bool {
    let read = stream.read(&mut [0; 1]);
    read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// The outcomes in a log that holds all of these.
fn outcomes(log: &str, members: &[&str]) -> usize {
    let records = log
        .split("{\"at\":")
        .filter(|record| record.contains("\"kind\":\"outcome\""));
    records
        .filter(|record| members.iter().all(|member| record.contains(member)))
        .count()
}

#[test]
fn a_tunnel_is_judged_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (url, told) = server();
    let (request, answer) = (
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<hello>",
    );
    let log = while_serving(dir.path(), &url, |gateway| {
        let (mut stream, head) = tunnel(gateway, &url, KEY);
        assert_eq!(head, "HTTP/1.1 200 OK\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (_, body) = message(&mut BufReader::new(&stream)).unwrap();
        assert_eq!(body, "<hello>");
        assert_eq!(told.recv().unwrap(), "hello");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(
            stream.read(&mut [0; 1]).unwrap(),
            0,
            "the server closes, too"
        );
        for (url, key, status) in [
            (url.as_str(), OTHER, "403"),
            (url.as_str(), "weir_x", "401"),
            ("http://127.0.0.1:1/", KEY, "404"),
        ] {
            let (_, head) = tunnel(gateway, url, key);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        }
    });
    let bytes = format!("\"bytes\":{},", request.len() + answer.len());
    let complete = ["\"end\":\"complete\"", "\"status\":200", bytes.as_str()];
    assert_eq!(outcomes(&log, &complete), 1, "{log}");
    assert_eq!(
        outcomes(&log, &["\"end\":\"failed\"", "mcp.server_unknown"]),
        1,
        "{log}"
    );
    assert!(log.contains("\"method\":\"connect\""), "{log}");
}

#[test]
fn a_stop_a_revocation_and_a_drain_end_a_tunnel() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _told) = server();
    let log = while_serving(dir.path(), &url, |gateway| {
        let stops = Stops {
            lanes: vec!["echo".to_owned()],
            ..Stops::default()
        };
        let (mut stopped, _) = tunnel(gateway, &url, KEY);
        let at = Instant::now();
        gateway.gateway.gate().stop(stops);
        assert!(is_reset(&mut stopped) && at.elapsed() < ENDED_WITHIN);
        let (_, head) = tunnel(gateway, &url, KEY);
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        gateway.gateway.gate().stop(Stops::default());

        let (mut revoked, _) = tunnel(gateway, &url, KEY);
        let at = Instant::now();
        gateway.without_agent("a");
        assert!(is_reset(&mut revoked) && at.elapsed() < ENDED_WITHIN);
        gateway.with_all_agents();

        let (mut drained, _) = tunnel(gateway, &url, KEY);
        gateway.gateway.drain.start();
        assert!(is_reset(&mut drained));
    });
    for code in ["gate.stopped", "agent.key_unknown", "http.draining"] {
        let why = format!("\"why\":\"{code}\"");
        assert_eq!(
            outcomes(&log, &["\"end\":\"cut\"", &why]),
            1,
            "{code}: {log}"
        );
    }
}

#[test]
fn a_socket_is_judged_scanned_recorded_and_ended_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _told) = server();
    // Written in two halves, so that no scanner of this repository takes it for a secret.
    let secret = ["ghp_", "R4nd0mKyT0kenF0rTe5tsOnlyzX9Qw3pL7vBcD"].concat();
    let log = while_serving(dir.path(), &url, |gateway| {
        let mut closed = socket(gateway);
        for text in ["hello", "again"] {
            send(&mut closed, text);
            assert_eq!(read(&mut closed), (0x81, text.into()));
        }
        closed
            .write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8])
            .unwrap();
        assert_eq!(read_close(&mut closed), 1000);

        let mut leaking = socket(gateway);
        send(&mut leaking, &format!("token {secret} end"));
        let (first, payload) = read(&mut leaking);
        assert!(
            !String::from_utf8_lossy(&payload).contains(&secret),
            "{first}"
        );
        drop(leaking);

        let (_, head) = asked(gateway, "GET /echo/ws", KEY, "");
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        assert!(head.contains("sec-websocket-version: 13\r\n"), "{head}");
        let (_, head) = asked(gateway, "GET /echo/ws", OTHER, "");
        assert!(head.starts_with("HTTP/1.1 4"), "{head}");

        let mut revoked = socket(gateway);
        let at = Instant::now();
        gateway.without_agent("a");
        assert_eq!(read_close(&mut revoked), 1008);
        assert!(at.elapsed() < ENDED_WITHIN);
        gateway.with_all_agents();

        let mut drained = socket(gateway);
        gateway.gateway.drain.start();
        assert_eq!(read_close(&mut drained), 1001);
    });
    let complete = ["\"end\":\"complete\"", "\"status\":101", "\"bytes\":10,"];
    assert_eq!(outcomes(&log, &complete), 1, "{log}");
    for code in ["agent.key_unknown", "http.draining"] {
        let why = format!("\"why\":\"{code}\"");
        assert_eq!(
            outcomes(&log, &["\"end\":\"cut\"", &why]),
            1,
            "{code}: {log}"
        );
    }
    assert!(!log.contains(&secret), "the log holds a secret");
}
