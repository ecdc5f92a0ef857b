//! The engine beside hyper: both get the bytes of every case, and every difference stands in
//! `cases/h1-hyper.txt` with its reason. A difference that is not listed, or is listed and gone,
//! fails the test.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "h1/text.rs"]
mod text;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use net::h1::{ConnectionSettings, probe};
use text::Case;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::{LocalSet, spawn_local};

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(10), test).await };
    LocalSet::new()
        .block_on(&runtime, bounded)
        .expect("hyper says something")
}

/// What hyper's server makes of requests: method, target and body of each, and whether it ended
/// well.
async fn hyper_requests(sent: Vec<u8>) -> String {
    let (mut client, ours) = duplex(1 << 20);
    client.write_all(&sent).await.unwrap();
    client.shutdown().await.unwrap();
    let told = Rc::new(RefCell::new(String::new()));
    let service = service_fn(|request: http::Request<Incoming>| {
        let told = Rc::clone(&told);
        async move {
            let (head, body) = request.into_parts();
            *told.borrow_mut() += &format!("{} {}\n", head.method, head.uri);
            match body.collect().await {
                Ok(body) => tell_body(&body.to_bytes(), &mut told.borrow_mut()),
                Err(error) => return Err(error),
            }
            Ok(http::Response::new(Empty::<Bytes>::new()))
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .max_header_size(64 << 10)
        .half_close(true)
        .serve_connection(TokioIo::new(ours), service);
    let end = match served.await {
        Ok(()) => "end",
        Err(_) => "no",
    };
    told.take() + end
}

/// What hyper's client makes of the answer to one request: status and body, and how it ended.
async fn hyper_answer(method: &str, sent: Vec<u8>) -> String {
    let (mut server, ours) = duplex(1 << 20);
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_header_size(64 << 10);
    let (mut sender, connection) = builder.handshake(TokioIo::new(ours)).await.unwrap();
    let connection = spawn_local(connection);
    let request = http::Request::builder()
        .method(method)
        .uri("/")
        .header("host", "a");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap());
    let serve = async {
        // The request first: hyper, too, takes no answer to nothing.
        let _ = server.read(&mut [0; 1024]).await;
        server.write_all(&sent).await.unwrap();
        let _ = server.shutdown().await;
    };
    let (answer, ()) = tokio::join!(answer, serve);
    let mut told = String::new();
    let end = match answer {
        Err(_) => "no",
        Ok(answer) => {
            told += &format!("{}\n", answer.status().as_u16());
            match answer.into_body().collect().await {
                Ok(body) => {
                    tell_body(&body.to_bytes(), &mut told);
                    "end"
                }
                Err(_) => "no",
            }
        }
    };
    connection.abort();
    told + end
}

fn tell_body(body: &[u8], told: &mut String) {
    if !body.is_empty() {
        *told += &format!("body \"{}\"\n", body.escape_ascii());
    }
}

/// What our engine told, in the words of the two above.
fn ours(told: &str, answers: bool) -> String {
    let mut short = String::new();
    for line in told.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match line.strip_prefix("  ") {
            Some(body) if body.starts_with("body ") => short += &format!("{body}\n"),
            Some(_) => {}
            None if matches!(line, "end" | "close" | "keep") => return short + "end",
            None if line == "cut" || line.starts_with("Misuse") => return short + "no",
            None if words.len() == 2 && !line.contains('"') => return short + "no",
            None if !answers => short += &format!("{} {}\n", words[0], words[1]),
            None if line.starts_with('1') => {}
            None => short += &format!("{}\n", words[0]),
        }
    }
    short
}

fn compare(file: &str, case: &Case) -> Option<String> {
    let parts = case.parts();
    let (mine, hypers) = if file.starts_with("answers") {
        // hyper's connection outlives one exchange; only the first is compared.
        let method = case.methods()[0];
        if method == "CONNECT" {
            return None;
        }
        let told = probe::answers(
            &[method.as_bytes()],
            parts[0].chunks(1 << 20),
            &ConnectionSettings::default(),
        );
        (
            ours(&told, true),
            run(hyper_answer(method, parts[0].clone())),
        )
    } else {
        let told = probe::requests(parts[0].chunks(1 << 20), &ConnectionSettings::default());
        (ours(&told, false), run(hyper_requests(parts[0].clone())))
    };
    let line = |told: &str| {
        let told = told.replace('\n', ", ");
        let short: String = told.chars().take(60).collect();
        if short.len() < told.len() {
            short + "…"
        } else {
            told
        }
    };
    (mine != hypers).then(|| format!("{}; hyper: {}", line(&mine), line(&hypers)))
}

#[test]
fn hyper_differs_where_it_is_known_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/h1-hyper.txt");
    let text = fs::read_to_string(&path).unwrap();
    let (intro, list) = text.split_once("\n\n").unwrap();
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    for entry in list.split("\n\n").filter(|entry| !entry.trim().is_empty()) {
        let mut lines = entry.trim().lines().map(str::to_owned);
        let (title, what) = (lines.next().unwrap(), lines.next().unwrap_or_default());
        known.insert(title, (what, lines.next().unwrap_or_default()));
    }
    let (mut rewritten, mut found) = (intro.to_owned() + "\n", 0);
    let update = std::env::var_os("UPDATE").is_some();
    for (path, _, cases) in text::files() {
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for case in cases {
            let title = format!("{file}: {}", case.title);
            let Some(what) = compare(&file, &case) else {
                continue;
            };
            let (told, reason) = known.remove(&title).unwrap_or_default();
            rewritten += &format!("\n{title}\n{what}\n{reason}\n");
            found += 1;
            if !update {
                assert_eq!(what, told, "{title}");
                assert!(!reason.is_empty(), "{title}: the difference has no reason");
            }
        }
    }
    if update {
        fs::write(&path, rewritten).unwrap();
    } else {
        assert!(known.is_empty(), "these differ no more: {:?}", known.keys());
    }
    assert!(found > 0);
}
