//! WebSockets: with a client that we did not write, and with frames that no good client sends.

use std::process::Stdio;

use net::{WebSocket, WebSocketAsk, WebSocketBounds, WebSocketEnd, WebSocketOffer};

use super::*;

/// How a socket of the lane ended: with the code of the client's close, or why.
pub(crate) type SocketEnd = Result<Option<u16>, WebSocketEnd>;

const MESSAGE_BYTES_MAX: usize = 200_000;
const TEXT: u8 = 0x81;

impl Lane {
    fn socket_bounds(&self) -> WebSocketBounds {
        WebSocketBounds {
            idle_ms: self.bounds.idle_ms,
            whole_ms: self.bounds.whole_ms,
            message_bytes_max: MESSAGE_BYTES_MAX,
        }
    }

    fn socket_ended(&self, end: SocketEnd) -> Response {
        self.sockets.borrow_mut().push(end);
        self.ended.notify_one();
        let mut taken = status(101);
        *taken.body_mut() = Body::Taken;
        taken
    }

    async fn accept(&self, request: &mut Request) -> Result<WebSocket, Refusal> {
        let offer = WebSocketOffer::read(&request.head)?;
        let protocol = offer.protocols().find(|protocol| *protocol == "echo");
        let bounds = self.socket_bounds();
        WebSocket::accept(request, &self.pass, &offer, protocol, bounds).await
    }

    /// Sends each message back.
    pub(crate) async fn echo(&self, request: &mut Request) -> Result<Response, Refusal> {
        let mut socket = self.accept(request).await?;
        let end = loop {
            match socket.next(&self.pass).await {
                Ok(Some(message)) => match socket.send(&self.pass, message).await {
                    Ok(()) => {}
                    Err(end) => break Err(end),
                },
                Ok(None) => break Ok(socket.closed_with()),
                Err(end) => break Err(end),
            }
        };
        Ok(self.socket_ended(end))
    }

    /// Passes messages on to the origin, and back.
    pub(crate) async fn relay(&self, request: &mut Request) -> Result<Response, Refusal> {
        let lease = self.upstreams.dial(&self.pass, 5_000).await?;
        let ask = WebSocketAsk {
            target: "/ws",
            protocols: &["chat", "echo"],
            fields: &[],
        };
        let bounds = self.socket_bounds();
        let (mut far, protocol) = WebSocket::connect(lease, &self.pass, ask, bounds).await?;
        assert_eq!(protocol.as_deref(), Some("echo"));
        let mut near = self.accept(request).await?;
        let pass = &self.pass;
        let end = loop {
            let (came, is_near) = tokio::select! {
                came = near.next(pass) => (came, true),
                came = far.next(pass) => (came, false),
            };
            let message = match came {
                Ok(Some(message)) => message,
                Ok(None) => break Ok(near.closed_with()),
                Err(end) => break Err(end),
            };
            let sent = match is_near {
                true => far.send(pass, message).await,
                false => near.send(pass, message).await,
            };
            if let Err(end) = sent {
                break Err(end);
            }
        };
        far.close(1000, "the agent is gone").await;
        Ok(self.socket_ended(end))
    }
}

impl Edge {
    async fn socket_end(&self) -> SocketEnd {
        self.lane.ended.notified().await;
        self.lane.sockets.borrow_mut().pop().unwrap()
    }

    /// A socket whose frames the test writes itself.
    async fn socket(&self) -> TcpStream {
        let mut near = TcpStream::connect(self.address).await.unwrap();
        near.write_all(handshake("/ws").as_bytes()).await.unwrap();
        let answer = until(&mut near, "\r\n\r\n").await;
        let expected = "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
                        connection: upgrade\r\nupgrade: websocket\r\n\r\n";
        assert_eq!(answer, expected);
        near
    }
}

fn handshake(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

/// A frame as a client sends it, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    frame.extend(mask);
    frame.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    frame
}

/// A short frame as a server sends it: its first byte and its payload.
async fn read_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let (first, length) = (
        stream.read_u8().await.unwrap(),
        stream.read_u8().await.unwrap(),
    );
    assert!(length < 126, "a short frame that is not masked");
    let mut payload = vec![0; usize::from(length)];
    stream.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

/// Reads a close frame and the end of the connection.
async fn read_close(stream: &mut TcpStream) -> u16 {
    let (first, payload) = read_frame(stream).await;
    assert_eq!(first, 0x88, "{payload:?}");
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "it ends");
    u16::from_be_bytes([payload[0], payload[1]])
}

/// Runs a client in Node, whose WebSocket is none of ours; gives what it says.
async fn node(url: &str, and_then: &str) -> String {
    let script = format!(
        "const socket = new WebSocket('{url}', ['chat', 'echo']);
         socket.binaryType = 'arraybuffer';
         const got = [];
         socket.onopen = () => {{
             console.log('open', socket.protocol, '[' + socket.extensions + ']');
             socket.send('h\u{e9}llo');
             socket.send(new Uint8Array(100000).fill(7));
         }};
         socket.onmessage = (event) => {{
             const data = event.data;
             console.log(typeof data === 'string' ? data : data.byteLength);
             if (got.push(data) === 2) {{ {and_then} }}
         }};
         socket.onclose = (event) => console.log('close', event.code, event.reason, event.wasClean);
         socket.onerror = () => console.log('error');"
    );
    let mut node = tokio::process::Command::new("node");
    node.args(["--experimental-websocket", "--no-warnings", "-e", &script]);
    node.kill_on_drop(true).stderr(Stdio::inherit());
    String::from_utf8(node.output().await.unwrap().stdout).unwrap()
}

#[test]
fn a_client_that_is_not_ours_talks_and_closes() {
    run(async {
        let edge = start(BOUNDS).await;
        let url = format!("ws://{}/ws", edge.address);
        let said = node(&url, "socket.close(3001, 'bye');").await;
        assert_eq!(
            said,
            "open echo []\nh\u{e9}llo\n100000\nclose 3001 bye true\n"
        );
        assert!(matches!(edge.socket_end().await, Ok(Some(3001))));
        // Ended by us.
        let withdraw = edge.lane.pass.is_withdrawn.clone();
        let client = spawn_local(async move { node(&url, "").await });
        while edge.shared.connections() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        withdraw.set(true);
        let said = client.await.unwrap();
        assert!(
            said.ends_with("100000\nclose 1008 taken back true\n"),
            "{said}"
        );
        let end = edge.socket_end().await;
        assert!(
            matches!(end, Err(WebSocketEnd::Stopped(TunnelStop::Ended(_)))),
            "{end:?}"
        );
    });
}

#[test]
fn messages_are_passed_on_to_another_server() {
    run(async {
        let origin = start(BOUNDS).await;
        let edge = start_before(origin.address, BOUNDS).await;
        let url = format!("ws://{}/relayed", edge.address);
        let said = node(&url, "socket.close(3002);").await;
        assert_eq!(said, "open echo []\nh\u{e9}llo\n100000\nclose 3002  true\n");
        assert!(matches!(edge.socket_end().await, Ok(Some(3002))));
        assert!(matches!(origin.socket_end().await, Ok(Some(1000))));
    });
}

#[test]
fn fragments_are_one_message_and_pings_between_them_are_answered() {
    run(async {
        let edge = start(BOUNDS).await;
        let mut near = edge.socket().await;
        let parts = [
            frame(0x01, b"h\xc3"),
            frame(0x89, b"there?"),
            frame(0x80, b"\xa9llo"),
        ];
        for byte in parts.concat() {
            near.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(read_frame(&mut near).await, (0x8a, b"there?".to_vec()));
        assert_eq!(read_frame(&mut near).await, (TEXT, "h\u{e9}llo".into()));
        near.write_all(&frame(0x88, &[])).await.unwrap();
        assert_eq!(read_frame(&mut near).await, (0x88, Vec::new()));
        assert_eq!(near.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(matches!(edge.socket_end().await, Ok(None)));
    });
}

#[test]
fn what_the_protocol_does_not_allow_is_told_by_a_code() {
    run(async {
        let edge = start(BOUNDS).await;
        let large = vec![b'x'; MESSAGE_BYTES_MAX + 1];
        let (half, other_half) = large.split_at(MESSAGE_BYTES_MAX / 2);
        let mut unmasked = frame(TEXT, b"x");
        unmasked.drain(2..6);
        unmasked[1] &= 0x7f;
        for (sent, code) in [
            (frame(TEXT, b"\xff"), 1007),
            ([frame(0x01, b"\xc3"), frame(0x80, b"\x28")].concat(), 1007),
            (frame(TEXT, &large), 1009),
            ([frame(0x01, half), frame(0x80, other_half)].concat(), 1009),
            (unmasked, 1002),
            (frame(0xc1, b"compressed"), 1002),
            (frame(0x83, b"reserved"), 1002),
            (frame(0x80, b"nothing to continue"), 1002),
        ] {
            let mut near = edge.socket().await;
            near.write_all(&sent).await.unwrap();
            assert_eq!(read_close(&mut near).await, code);
            drop(near);
            let end = edge.socket_end().await;
            let told = match &end {
                Err(WebSocketEnd::NotText) => 1007,
                Err(WebSocketEnd::TooLarge) => 1009,
                Err(WebSocketEnd::Invalid(_)) => 1002,
                _ => panic!("{end:?}"),
            };
            assert_eq!(told, code);
        }
        let near = edge.socket().await;
        drop(near);
        assert!(matches!(
            edge.socket_end().await,
            Err(WebSocketEnd::Broken(_))
        ));
    });
}

#[test]
fn a_drain_and_a_bound_close_a_socket() {
    run(async {
        let edge = start(BOUNDS).await;
        let mut near = edge.socket().await;
        edge.drain.start();
        assert_eq!(read_close(&mut near).await, 1001);
        drop(near);
        let end = edge.socket_end().await;
        assert!(
            matches!(end, Err(WebSocketEnd::Stopped(TunnelStop::Drained))),
            "{end:?}"
        );
        edge.serving.await.unwrap();

        let idle = TunnelBounds {
            idle_ms: 200,
            ..BOUNDS
        };
        let edge = start(idle).await;
        let mut near = edge.socket().await;
        assert_eq!(read_close(&mut near).await, 1001);
        let end = edge.socket_end().await;
        assert!(
            matches!(end, Err(WebSocketEnd::Stopped(TunnelStop::Idle))),
            "{end:?}"
        );
    });
}

#[test]
fn a_client_that_does_not_read_is_ended_like_any_other() {
    run(async {
        let edge = start(BOUNDS).await;
        let mut near = edge.socket().await;
        let message = frame(0x82, &vec![0; MESSAGE_BYTES_MAX]);
        // Until the lane waits with its answers.
        let stuck = async { while near.write_all(&message).await.is_ok() {} };
        let stuck = tokio::time::timeout(Duration::from_millis(500), stuck).await;
        assert!(stuck.is_err(), "nobody takes it all");
        let withdrawn = Instant::now();
        edge.lane.pass.is_withdrawn.set(true);
        let end = edge.socket_end().await;
        assert!(
            matches!(end, Err(WebSocketEnd::Stopped(TunnelStop::Ended(_)))),
            "{end:?}"
        );
        assert!(withdrawn.elapsed() < Duration::from_millis(2_500));
    });
}

#[test]
fn a_handshake_that_is_not_good_is_refused_on_both_sides() {
    run(async {
        let edge = start(BOUNDS).await;
        let old = handshake("/ws").replace("version: 13", "version: 8");
        let old = old.replace("Upgrade\r\n", "Upgrade, close\r\n");
        let answer = edge.ask(&old).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("http.websocket"),
            "{answer}"
        );
        let switch = "HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: websocket\r\n";
        let wrong = "sec-websocket-accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n";
        for answer in [
            "HTTP/1.1 426 \r\ncontent-length: 0\r\n\r\n".to_owned(),
            format!("{switch}\r\n"),
            format!("{switch}{wrong}\r\n"),
            switch.replace("websocket", "chat") + "\r\n",
        ] {
            let mut near = TcpStream::connect(edge.address).await.unwrap();
            near.write_all(handshake("/relayed").as_bytes())
                .await
                .unwrap();
            let (mut far, _) = edge.origin.accept().await.unwrap();
            let asked = until(&mut far, "\r\n\r\n").await;
            for line in [
                "sec-websocket-version: 13\r\n",
                "sec-websocket-protocol: chat, echo\r\n",
            ] {
                assert!(asked.contains(line), "{asked}");
            }
            assert!(!asked.contains("extensions"), "{asked}");
            far.write_all(answer.as_bytes()).await.unwrap();
            let told = until(&mut near, "\r\n\r\n").await;
            assert!(told.starts_with("HTTP/1.1 502 "), "{answer}: {told}");
        }
        assert!(edge.lane.sockets.borrow().is_empty());
    });
}
