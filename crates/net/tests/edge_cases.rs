//! What the engine refuses of a request's framing, the edge refuses: the cases of `cases/h1` that are meant to
//! smuggle, sent to the edge.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "h1/text.rs"]
#[allow(dead_code, reason = "the methods of answers are not asked for here")]
mod text;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Refusal;
use net::{Body, Drain, EdgeSettings, Listener, Request, Response, Service};
use text::Case;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

struct Reads;

impl Service for Reads {
    async fn call(&self, mut request: Request) -> Response {
        match request.body().await {
            Ok(_) => Response::new(Body::Empty),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        let response = http::Response::builder().status(refusal.code.status);
        response.body(Body::Empty).unwrap()
    }
}

/// The statuses of all answers.
async fn statuses(address: SocketAddr, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The edge may close before it has read all.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers).await;
    let answers = String::from_utf8(answers).unwrap();
    let found = answers
        .match_indices("HTTP/1.")
        .map(|(at, _)| &answers[at + 9..at + 12]);
    let statuses = found.filter_map(|status| status.parse().ok());
    statuses.filter(|status| *status != 100).collect()
}

/// How many whole requests the engine took before it refused; nothing where it refuses none.
fn taken_before_refusal(case: &Case) -> Option<usize> {
    let is_status = |line: &str| {
        let first = line.split(' ').next().unwrap_or_default();
        first.parse::<u16>().is_ok()
    };
    let lines: Vec<&str> = case.told.lines().collect();
    let end = lines.iter().position(|line| is_status(line))?;
    let is_request = |line: &&&str| line.contains(" origin of ") || line.contains(" absolute ");
    let heads = lines[..end].iter().filter(is_request).count();
    // A chunked request that nothing of a body or an end was told of is not whole.
    let last = lines[..end].iter().rev().find(is_request);
    let told_more = lines[..end]
        .last()
        .is_some_and(|line| !line.starts_with("  "));
    let is_cut = last.is_some_and(|line| line.ends_with(" chunked")) && !told_more;
    Some(heads - usize::from(is_cut))
}

async fn check(address: SocketAddr) {
    let (mut refused, mut wrong) = (0, Vec::new());
    for (path, _, cases) in text::files() {
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !matches!(file.as_str(), "request-smuggling" | "request-framing") {
            continue;
        }
        for case in cases {
            let Some(taken) = taken_before_refusal(&case) else {
                continue;
            };
            let bytes: Vec<u8> = case.parts().concat();
            let statuses = statuses(address, &bytes).await;
            let answered = statuses.iter().take_while(|status| **status == 200).count();
            let is_right = answered <= taken;
            refused += usize::from(is_right);
            if !is_right {
                wrong.push(format!(
                    "{file}: {}: {taken} taken, {statuses:?}",
                    case.title
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused > 60, "{refused} cases");
}

#[test]
fn what_the_engine_refuses_of_framing_the_edge_refuses() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let test = async {
        let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (settings, shared) = (Rc::new(EdgeSettings::default()), Arc::default());
        let listeners = vec![(Listener::Tcp(listener), Rc::default())];
        let serving = net::serve(listeners, Rc::new(Reads), settings, shared, Drain::new());
        spawn_local(serving);
        let bounded = tokio::time::timeout(Duration::from_secs(60), check(address)).await;
        bounded.expect("the edge answers in time");
    };
    LocalSet::new().block_on(&runtime, test);
}
