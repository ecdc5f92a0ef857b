//! A small blocking HTTP/1.1 client: it shows exactly what came over the wire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that does not answer fails a test instead of holding it up.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Client<S = TcpStream> {
    pub stream: S,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The events of a stream: name and data.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        events(self.text())
    }
}

/// The events of an event stream: name (`message` unless it is said) and data.
pub(crate) fn events(text: &str) -> Vec<(String, String)> {
    assert!(
        text.ends_with("\n\n"),
        "the stream ends in an event: {text:?}"
    );
    let blocks = text.split("\n\n").filter(|block| !block.is_empty());
    blocks
        .map(|block| {
            let (mut name, mut data) = ("message".to_owned(), Vec::new());
            for line in block.lines() {
                match line.split_once(':').unwrap() {
                    ("event", value) => name = value.trim_start().to_owned(),
                    ("data", value) => data.push(value.strip_prefix(' ').unwrap_or(value)),
                    ("id" | "", _) => {}
                    other => panic!("unknown field {other:?}"),
                }
            }
            (name, data.join("\n"))
        })
        .collect()
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Client<S> {
        Client {
            stream,
            unread: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(text.as_ref()).unwrap();
        self
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        self.ask("POST", path, headers, body.as_ref())
    }

    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: target\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        self.send(request);
        self.answer(method == "HEAD")
    }

    /// The next answer, or None when the connection closes before one begins.
    pub(crate) fn try_answer(&mut self, headless: bool) -> Option<Answer> {
        let head_length = loop {
            if let Some(at) = self
                .unread
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break at + 4;
            }
            if !self.more() {
                assert!(self.unread.is_empty(), "half an answer");
                return None;
            }
        };
        let head: Vec<u8> = self.unread.drain(..head_length).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer {
            status: status.parse().unwrap(),
            headers,
            body: Vec::new(),
        };
        if !headless && answer.status != 204 {
            answer.body = self.body(&answer);
        }
        Some(answer)
    }

    pub(crate) fn answer(&mut self, headless: bool) -> Answer {
        self.try_answer(headless).expect("an answer")
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        if answer.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    return body;
                }
                body.extend_from_slice(&chunk);
            }
        }
        let length = answer.header("content-length").expect("a length");
        self.exactly(length.parse().unwrap())
    }

    /// The next chunk of a chunked body; the last is empty.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let line_length = loop {
            if let Some(at) = self.unread.windows(2).position(|window| window == b"\r\n") {
                break at;
            }
            assert!(self.more(), "the stream was cut");
        };
        let line = self.exactly(line_length + 2);
        let size = std::str::from_utf8(&line[..line_length]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let mut chunk = self.exactly(size + 2);
        chunk.truncate(size);
        chunk
    }

    fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.more(), "the body was cut");
        }
        self.unread.drain(..count).collect()
    }

    /// Reads once. False at the end.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        let count = self.stream.read(&mut buffer).unwrap();
        self.unread.extend_from_slice(&buffer[..count]);
        count > 0
    }
}
