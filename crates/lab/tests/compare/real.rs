//! The command itself on servers that it starts: what they cost is noise here, so only errors decide.

use std::path::Path;

use clap::Parser;
use lab::exit::{Exit, Failure};
use lab::experiments::compare::answer::Answer;
use lab::experiments::compare::comparison::Comparison;
use lab::experiments::compare::{COMPARE_FILE, Compare};
use lab::target::{self, Behaviour, Settings};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    compare: Compare,
}

fn compare(words: &[&str]) -> Result<Exit, Failure> {
    let words = std::iter::once(&"compare").chain(words);
    Cli::try_parse_from(words).unwrap().compare.run()
}

/// The command that starts this very test as a server: with errors, every tenth answer is a 503.
fn server(errors: &str) -> String {
    let own = std::env::current_exe().unwrap();
    format!(
        "SERVE_ERRORS={errors} SERVE={{port}} exec '{}' --exact real::serves_when_asked --nocapture",
        own.display()
    )
}

#[test]
fn serves_when_asked() {
    let Ok(port) = std::env::var("SERVE") else {
        return;
    };
    let mut behaviour = Behaviour::default();
    if std::env::var("SERVE_ERRORS").is_ok_and(|errors| errors == "yes") {
        behaviour.every.push("503:10".parse().unwrap());
    }
    let running = target::start(Settings {
        listen: format!("127.0.0.1:{port}").parse().unwrap(),
        behaviour,
        ..Settings::default()
    });
    let running = running.unwrap();
    println!("listening on http://{}", running.address());
    loop {
        std::thread::park();
    }
}

/// A short comparison of two servers. A busy test machine is no reason to drop a block here.
fn started(b_errors: &str, more: &[&str]) -> Result<Exit, Failure> {
    let (a, b) = (server("no"), server(b_errors));
    let mut words = vec![
        "--a-command",
        &a,
        "--b-command",
        &b,
        "http://127.0.0.1:{port}/",
    ];
    words.extend([
        "-c", "4", "-d", "200ms", "--warmup", "50ms", "--blocks", "3", "--quiet",
    ]);
    words.extend(["--accept", "noisy-host", "--accept", "generator-bound"]);
    words.extend(more);
    compare(&words)
}

fn read(folder: &Path) -> Comparison {
    let text = std::fs::read_to_string(folder.join(COMPARE_FILE)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn more_errors_are_found_and_all_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let page = folder.path().join("compare.html");
    let html = page.to_str().unwrap();
    let more = ["--out", out, "--html", html];
    assert_eq!(started("yes", &more), Ok(Exit::Worse));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("errors increased") && page.contains("<svg"),
        "{page}"
    );
    let comparison = read(folder.path());
    assert_eq!(
        (comparison.answer, comparison.leading),
        (Answer::Worse, None)
    );
    let errors = comparison.errors.unwrap();
    assert_eq!(errors.failed_a, 0);
    let share = errors.failed_b as f64 / errors.requests_b as f64;
    assert!((share - 0.1).abs() < 0.01, "one in ten, not {share}");
    // Each server was watched: CPU time and memory are there, and a control of A and A.
    let names: Vec<&str> = comparison.metrics.iter().map(|m| m.name.as_str()).collect();
    for name in [
        "cpu_us_per_request",
        "service_us_p50",
        "requests_per_second",
        "rss_bytes",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let pairs = comparison.blocks.iter().filter(|block| !block.control);
    assert_eq!(pairs.count(), 3);
}

#[test]
fn dropped_blocks_have_a_code_of_their_own() {
    let server = server("no");
    let mut words = vec!["--a-command", &server, "--b-command", &server];
    // Far more than any generator sends: each run is at its limit and not at the server's.
    words.extend(["http://127.0.0.1:{port}/", "-R", "5000000", "-c", "1"]);
    words.extend(["-d", "100ms", "--warmup", "0s", "--blocks", "3", "--quiet"]);
    words.extend(["--keep", "--accept", "noisy-host"]);
    let folder = tempfile::tempdir().unwrap();
    words.extend(["--out", folder.path().to_str().unwrap()]);
    assert_eq!(compare(&words), Ok(Exit::BlocksDropped));
    let comparison = read(folder.path());
    assert_eq!(comparison.answer, Answer::CannotTell);
    let pairs = comparison.blocks.iter().filter(|block| !block.control);
    assert!(pairs.clone().count() > 3, "they were tried again");
}

#[test]
fn servers_can_be_kept_and_comparisons_repeated() {
    let more = ["--keep", "--repeat", "2", "--truth"];
    assert_eq!(
        started("yes", &[&more[..], &["worse"]].concat()),
        Ok(Exit::Pass)
    );
    assert_eq!(
        started("yes", &[&more[..], &["same"]].concat()),
        Ok(Exit::Worse)
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let url = "http://127.0.0.1:1/";
    let check = |words: &[&str], why: &str| {
        let failure = compare(words).unwrap_err().to_string();
        assert!(failure.contains(why), "{words:?}: {failure}");
    };
    check(&[], "0 runs");
    check(&["one"], "1 runs");
    check(&["one", "two"], "one");
    check(&["--a", url], "b is not said");
    check(
        &["--a-command", "true", "--b-command", "true"],
        "where a listens",
    );
    check(
        &["--a", url, "--b", url, "c.yaml", "d.yaml"],
        "`d.yaml` is one target too many",
    );
    check(&["--a", url, "--b", url, "--blocks", "2"], "2 blocks");
    check(
        &["--a", url, "--b", url, "--blocks", "few"],
        "no number of blocks",
    );
    check(
        &[
            "--a",
            url,
            "--b",
            url,
            "--blocks",
            "auto",
            "--blocks-max",
            "5000",
        ],
        "5000 blocks",
    );
    check(&["--a", url, "--b", url, "--margin", "0"], "--margin 0");
    check(
        &["--a", url, "--b", url, "--max-drop", "100%"],
        "--max-drop 100%",
    );
    check(&["--a", url, "--b", url, "--alpha", "2"], "--alpha 2");
    check(
        &["--a", url, "--b", url, "--metric", "speed"],
        "cpu_us_per_request",
    );
    check(&["--a", url, "--b", url, "--repeat", "0"], "--repeat 0");
    check(
        &["--a", url, "--b", url, "--matrix", "connections=1,2"],
        "--matrix",
    );
    check(
        &["--a", url, "--b", url, "--threshold", "errors:count<1"],
        "--threshold",
    );
    check(
        &["--a", url, "--b", url, "--out", "/dev/null/x"],
        "/dev/null/x",
    );
    check(&["--a", url, "--b", url, "-d", "1s"], "127.0.0.1");
    check(&["--a", "http://192.0.2.1/", "--b", url], "--i-own-this");
    check(&["--a", url, "--b", url, "--a-watch", "pid:x"], "pid");
}

#[test]
fn a_server_that_does_not_start_says_what_it_said() {
    let command = "echo no such config; exit 3";
    let words = ["--a-command", command, "--b-command", command];
    let failure = compare(&[&words[..], &["http://127.0.0.1:{port}/"]].concat()).unwrap_err();
    assert!(
        failure.what.contains("ended before it was ready"),
        "{failure}"
    );
    assert!(failure.what.contains("no such config"), "{failure}");
}
