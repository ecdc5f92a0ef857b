//! Plants violations of the bans in the crates' `clippy.toml`, and checks that clippy reports each of them.
//!
//! `make lint` holds the bans in the crates themselves. This test holds `make lint`: a ban that is
//! deleted, misspelled, or that a renaming import gets around, fails here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources::root;

/// Crates without files, sockets, processes, environment, threads, terminal or clock.
const PURE: &[&str] = &[
    "base", "config", "identity", "policy", "scan", "seal", "gate",
];

/// Crates without files, sockets, processes or environment.
const LANES: &[&str] = &["mcp", "relay"];

/// Code that reaches the world in several spellings. A line that ends in `// both` must be reported in
/// each crate, one that ends in `// pure` in pure crates only, and every other line in none.
const PLANTED: &str = r#"
use std::fs::*;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::net::{TcpListener as Door, TcpStream}; // both
use std::os::unix::net::UnixStream; // both
use std::process::Command as Program; // both
use std::time::{Duration, Instant, SystemTime as Wall}; // pure
use std::{env, fs, process, thread};

pub fn files() {
    let _ = fs::read("a"); // both
    let _ = read_to_string("a"); // both
    let keep = fs::write::<&str, &str>; // both
    let _ = keep("a", "b");
    let _ = fs::File::open("a"); // both
    let _ = OpenOptions::new().read(true).open("a"); // both
    let _ = std::path::Path::new("a").exists(); // both
    let _ = std::path::PathBuf::from("a").metadata(); // both
}

pub fn environment() {
    let _ = env::var("A"); // both
    let _ = ["A"].map(env::var_os); // both
    let _ = env::args().count(); // both
    let _ = env::temp_dir(); // both
}

pub fn sockets(address: IpAddr) {
    let _ = TcpStream::connect((address, 1)); // both
    let _ = <Door>::bind((address, 1)); // both
    let _ = UnixStream::pair(); // both
    let _ = std::net::UdpSocket::bind((address, 1)); // both
    let _ = "a:1".to_socket_addrs(); // both
}

pub fn processes() {
    let _ = Program::new("a").status(); // both
    process::exit(1); // both
}

pub fn clock(since: Instant) {
    let _ = Instant::now(); // pure
    let _ = since.elapsed(); // pure
    let _ = Wall::now(); // pure
    let _ = Some(()).map(|()| Instant::now()); // pure
}

pub fn threads() {
    thread::sleep(Duration::from_millis(1)); // pure
    let _ = thread::spawn(|| {}); // pure
    thread::scope(|_| {}); // pure
    let _ = thread::Builder::new().spawn(|| {}); // pure
}

pub fn terminal() {
    println!("a"); // pure
    std::eprint!("a"); // pure
    let _ = std::io::stdin().lines(); // pure
    let _ = std::io::stdout(); // pure
}
"#;

fn crates() -> PathBuf {
    root().join("crates")
}

/// The lines of `PLANTED` that end in one of the marks, counted from 1.
fn marked(marks: &[&str]) -> BTreeSet<u64> {
    let lines = (1..).zip(PLANTED.lines());
    let marked = lines.filter(|(_, line)| marks.iter().any(|mark| line.ends_with(mark)));
    marked.map(|(number, _)| number).collect()
}

/// The lines of `PLANTED` that clippy reports by the bans of a crate.
fn reported(name: &str) -> BTreeSet<u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("planted.rs");
    fs::write(&source, PLANTED).expect("the planted code");
    // The same toolchain as cargo's.
    let mut clippy = Command::new(Path::new(env!("CARGO")).with_file_name("clippy-driver"));
    clippy
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata"])
        .args(["--error-format=json", "--out-dir"])
        .args([folder.path(), &source])
        .env("CLIPPY_CONF_DIR", crates().join(name));
    let done = clippy.output().expect("clippy is installed");
    let text = String::from_utf8(done.stderr).expect("UTF-8");
    assert!(done.status.success(), "{text}");
    let mut lines = BTreeSet::new();
    for message in text.lines() {
        let message: serde_json::Value = serde_json::from_str(message).expect("JSON");
        let Some(code) = message["code"]["code"].as_str() else {
            // The count at the end has no place; a word about `clippy.toml` itself has.
            let about = message["spans"].as_array().expect("a list");
            assert!(about.is_empty(), "{name}/clippy.toml: {message}");
            continue;
        };
        assert!(code.starts_with("clippy::disallowed_"), "{message}");
        let line = message["spans"][0]["line_start"].as_u64();
        lines.insert(line.expect("a line"));
    }
    lines
}

#[test]
fn what_is_planted_in_a_pure_crate_is_reported() {
    for name in PURE {
        assert_eq!(reported(name), marked(&["// both", "// pure"]), "{name}");
    }
}

#[test]
fn what_is_planted_in_a_lane_is_reported() {
    for name in LANES {
        assert_eq!(reported(name), marked(&["// both"]), "{name}");
    }
}

/// What a crate bans, each with its reason.
fn bans(name: &str) -> BTreeSet<(String, String)> {
    let text = fs::read_to_string(crates().join(name).join("clippy.toml"));
    let table: toml::Table = text.expect("clippy.toml").parse().expect("TOML");
    let lists = table.values().filter_map(toml::Value::as_array);
    let of = |ban: &toml::Value, key: &str| ban[key].as_str().expect("a text").to_owned();
    lists
        .flatten()
        .map(|ban| (of(ban, "path"), of(ban, "reason")))
        .collect()
}

#[test]
fn pure_crates_ban_the_same() {
    let base = bans("base");
    for name in PURE {
        let missing: Vec<_> = base.difference(&bans(name)).cloned().collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
    assert_eq!(bans("mcp"), bans("relay"));
}
