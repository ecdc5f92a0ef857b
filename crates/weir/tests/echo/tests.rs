//! The echo lane through a whole gateway: real sockets, a real server, a log on the disk.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use super::*;
use crate::assemble::Gateway;
use crate::config::read::load_text;
use crate::config::{Seen, Settings};
use crate::listen::Listening;

pub(super) const KEY: &str = "weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
pub(super) const OTHER: &str = "weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE";

/// A server that answers what it was sent, in angle brackets. It tells each body that it was sent.
pub(super) fn server() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            std::thread::spawn(move || while answer(&mut stream, &tell).is_some() {});
        }
    });
    (url, told)
}

fn answer(stream: &mut TcpStream, tell: &mpsc::Sender<String>) -> Option<()> {
    let (_, body) = message(&mut BufReader::new(&*stream))?;
    let answer = format!("<{body}>");
    let length = answer.len();
    tell.send(body).ok()?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"
    )
    .ok()
}

/// The head and the body of one HTTP message.
pub(super) fn message(reader: &mut impl BufRead) -> Option<(String, String)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    base::hex::encode(&sha2::Sha256::digest(text))
}

/// Calls made of a gateway while it serves: the method, the path, the key, and the text.
pub(super) struct Asked {
    pub(super) address: String,
    /// Where the operator's pages are.
    admin: PathBuf,
    pub(super) gateway: Arc<Gateway>,
    settings: Settings,
}

impl Asked {
    /// Takes an agent out of the configuration while the gateway serves.
    pub(super) fn without_agent(&self, name: &str) {
        let mut settings = self.settings.clone();
        settings.agents.retain(|agent| agent.name.as_str() != name);
        self.reload(&settings);
    }

    /// Puts the configuration back in force.
    pub(super) fn with_all_agents(&self) {
        self.reload(&self.settings);
    }

    fn reload(&self, settings: &Settings) {
        let reloaded = self.gateway.reload(&self.settings, settings);
        assert!(reloaded.is_ok());
    }

    fn ask(&self, method: &str, path: &str, key: &str, text: &str) -> (u16, String) {
        let stream = TcpStream::connect(&self.address).unwrap();
        let key = format!("Authorization: Bearer {key}\r\n");
        exchange(stream, &format!("{method} {path}"), &key, text)
    }

    /// One of the operator's pages.
    fn page(&self, path: &str) -> String {
        let stream = UnixStream::connect(&self.admin).unwrap();
        exchange(stream, &format!("GET {path}"), "", "").1
    }
}

/// The status and the body of the answer to one request.
fn exchange(mut stream: impl Read + Write, line: &str, fields: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n");
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    let (head, body) = message(&mut BufReader::new(stream)).unwrap();
    (head[9..12].parse().unwrap(), body)
}

/// Serves with this configuration while `body` asks; gives the text of the log.
pub(super) fn while_serving(dir: &Path, url: &str, body: impl FnOnce(&Asked)) -> String {
    let policy = "permit (principal == Agent::\"a\", action == Action::\"echo:send\", resource);";
    std::fs::write(dir.join("policy.cedar"), policy).unwrap();
    let text = format!(
        "policy: policy.cedar\nstate: ./state\nlisten: 127.0.0.1:0\nlog: {{ durability: os }}\necho: {{ url: {url} }}\nagents:\n  \
         a: {{ key: 'sha256:{}' }}\n  b: {{ key: 'sha256:{}' }}\n",
        sha256(KEY),
        sha256(OTHER),
    );
    let path = dir.join("weir.yaml");
    let settings = load_text(&path, &text, &|_: &str| None, &mut Seen::default())
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    let gateway = Arc::new(Gateway::with_logs(&settings, 1).unwrap());
    let mut listening = Listening::default();
    listening.for_agents(&settings, 1).unwrap();
    let url = listening.url(&settings).unwrap();
    let address = url.strip_prefix("http://").unwrap().to_owned();
    listening.for_the_operator(&settings).unwrap();
    let (listeners, operator) = (listening.take(), listening.take_admin());
    let serving = Arc::clone(&gateway);
    let thread =
        std::thread::spawn(move || crate::serve::serve(&serving, listeners, operator, true));
    let admin = settings.state.join("admin.sock");
    body(&Asked {
        address,
        admin,
        gateway: Arc::clone(&gateway),
        settings: settings.clone(),
    });
    gateway.drain.start();
    thread.join().unwrap().unwrap();
    gateway.close().unwrap();
    let mut log = String::new();
    let mut folders = vec![settings.state.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                // The admin socket is there too.
                false if !path.is_file() => {}
                false => log.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap())),
            }
        }
    }
    log
}

#[test]
fn a_small_lane_is_judged_scanned_recorded_counted_and_refused_like_every_other() {
    let dir = tempfile::tempdir().unwrap();
    let (url, told) = server();
    // Written in two halves, so that no scanner of this repository takes it for a secret.
    let secret = ["ghp_", "R4nd0mKyT0kenF0rTe5tsOnlyzX9Qw3pL7vBcD"].concat();
    let log = while_serving(dir.path(), &url, |gateway| {
        let (status, body) = gateway.ask("POST", "/echo/echo", KEY, "hello");
        assert_eq!((status, body.as_str()), (200, "<hello>"));
        assert_eq!(told.recv().unwrap(), "hello");
        let refused = |method, path, key: &str, text: &str, code: &str, status| {
            let (got, body) = gateway.ask(method, path, key, text);
            assert_eq!(got, status, "{method} {path}: {body}");
            assert!(body.contains(&format!("\"code\":\"{code}\"")), "{body}");
        };
        refused(
            "POST",
            "/echo/echo",
            OTHER,
            "hello",
            "policy.forbidden",
            403,
        );
        refused(
            "POST",
            "/echo/other",
            KEY,
            "hello",
            "mcp.server_unknown",
            404,
        );
        refused("PUT", "/echo/echo", KEY, "hello", "http.method", 405);
        refused(
            "POST",
            "/echo/echo",
            "weir_x",
            "hello",
            "agent.key_malformed",
            401,
        );
        refused("POST", "/echo/a/b", KEY, "hello", "http.not_found", 404);
        let (status, body) = gateway.ask("POST", "/echo/echo", KEY, &format!("token {secret} end"));
        assert!(
            status == 403 && body.contains("scan.secret"),
            "{status} {body}"
        );
        assert!(told.try_iter().all(|text| !text.contains(&secret)));
        let long = "x".repeat(4097);
        refused("POST", "/echo/echo", KEY, &long, "http.body_too_large", 413);
        let page = gateway.page("/metrics");
        assert!(
            page.contains("weir_judgements_total{server=\"echo\",code=\"passed\"}"),
            "{page}"
        );
    });
    for member in [
        "\"action\":\"echo:send\"",
        "\"server\":\"echo\"",
        "policy.forbidden",
    ] {
        assert!(log.contains(member), "{member} is not in {log}");
    }
    assert!(!log.contains(&secret), "the log holds a secret");
}

fn knows_echo(source: &str) -> bool {
    let marks = ["crate::echo", "file.echo", "mod echo"];
    marks.iter().any(|mark| source.contains(mark))
}

#[test]
fn a_lane_touches_five_files_outside_its_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut touched, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|end| end == "rs");
            if path.is_dir() && !path.ends_with("tests/echo") {
                folders.push(path);
            } else if is_source && knows_echo(&std::fs::read_to_string(&path).unwrap()) {
                touched.push(path.strip_prefix(&root).unwrap().display().to_string());
            }
        }
    }
    touched.sort();
    let expected = [
        "config/file.rs",
        "config/read.rs",
        "config/settings.rs",
        "lanes.rs",
        "main.rs",
    ];
    assert_eq!(touched, expected.map(|file| format!("weir/src/{file}")));
}

/// The pieces of the lane that the page shows, without their indentation.
fn shown() -> Vec<String> {
    let (mut pieces, mut piece) = (Vec::new(), None::<Vec<&str>>);
    for line in include_str!("lane.rs").lines() {
        match line.trim_start().strip_prefix("// docs: ") {
            Some("end") => pieces.extend(piece.take()),
            Some(_) => piece = Some(Vec::new()),
            None => piece.iter_mut().for_each(|piece| piece.push(line)),
        }
    }
    let indent = |piece: &[&str]| piece[0].len() - piece[0].trim_start().len();
    let cut = |piece: Vec<&str>| {
        let indent = indent(&piece);
        let lines = piece
            .iter()
            .map(|line| line.get(indent..).unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    };
    pieces.into_iter().map(cut).collect()
}

#[test]
fn the_page_shows_this_lane() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/adding-a-lane.md");
    let page = std::fs::read_to_string(page).unwrap();
    let shown = shown();
    assert_eq!(shown.len(), 5);
    for piece in shown {
        assert!(
            page.contains(&format!("```rust\n{piece}\n```\n")),
            "not on the page:\n{piece}"
        );
    }
}
