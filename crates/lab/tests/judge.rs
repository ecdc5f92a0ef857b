//! A run that a threshold stops: against a real server, by the command as it is given.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use clap::Parser;
use lab::experiments::load::Load;
use lab::result::Run;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    load: Load,
}

/// Answers every request with 404 until its client goes.
fn serve(mut stream: TcpStream) {
    let mut part = [0; 4096];
    let mut seen = Vec::new();
    while let Ok(count @ 1..) = stream.read(&mut part) {
        seen.extend_from_slice(&part[..count]);
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            seen.drain(..end + 4);
            let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

fn load(scenario: &str) -> (Run, u8) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.yaml");
    std::fs::write(&file, scenario).unwrap();
    let file = file.to_str().unwrap();
    // Whatever else this machine does, and however short the run is.
    let accepted = ["noisy-host", "generator-bound", "too-short"].map(|v| format!("--accept={v}"));
    let begin = ["load", file, "--json", "--quiet"].map(str::to_owned);
    let command = Command::parse_from(begin.into_iter().chain(accepted));
    let mut out = Vec::new();
    let exit = command.load.run_to(&mut out).unwrap();
    (serde_json::from_slice(&out).unwrap(), exit.code())
}

#[test]
fn a_threshold_stops_a_run_that_it_is_to_stop() {
    let url = server();
    let begun = Instant::now();
    let (run, exit) = load(&format!(
        "version: 1\nscenarios:\n  all-fail: {{ url: \"{url}\", connections: 2, duration: 10m }}\n\
         thresholds:\n  http_req_failed:\n  - {{ threshold: \"rate<0.01\", abortOnFail: true, delayAbortEval: 1s }}\n"
    ));
    assert!(
        begun.elapsed() < Duration::from_secs(300),
        "it went on to its end"
    );
    assert_eq!(
        run.meta.stopped_by.as_deref(),
        Some("http_req_failed: rate<0.01")
    );
    assert!(
        run.meta.partial && run.meta.seconds >= 1.0,
        "{}",
        run.meta.seconds
    );
    let judged = &run.thresholds[0];
    assert!(!judged.ok && judged.found.unwrap() > 0.99, "{judged:?}");
    // What was cut short lasts as long as it did, so its rate is that of what was done.
    let step = &run.flows[0].steps[0].summary;
    assert!(step.seconds <= run.meta.seconds, "{} s", step.seconds);
    assert!(run.requests > 0 && exit == 99, "exit {exit}");
}

#[test]
fn a_threshold_that_only_judges_lets_a_run_go_on() {
    let url = server();
    let (run, exit) = load(&format!(
        "version: 1\nscenarios:\n  all-fail: {{ url: \"{url}\", connections: 2, duration: 2s }}\n\
         thresholds: {{ http_req_failed: [\"rate<0.01\"], http_reqs: [\"count>0\"] }}\n"
    ));
    assert_eq!((run.meta.stopped_by, run.meta.partial), (None, false));
    let ok: Vec<bool> = run
        .thresholds
        .iter()
        .map(|threshold| threshold.ok)
        .collect();
    assert_eq!(
        ok.iter().filter(|ok| **ok).count(),
        1,
        "{:?}",
        run.thresholds
    );
    assert_eq!(exit, 99);
}
