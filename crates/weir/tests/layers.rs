//! Holds the dependency table of ARCHITECTURE.md: which crate may know which, and what may stand where.
//!
//! Each rule names its reason. The table is read from the crates' manifests and sources, not from the
//! compiler, so a rule is broken by the first line that breaks it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may depend on, among ours.
const MAY: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("identity", &["base"]),
    ("policy", &["base"]),
    ("scan", &["base"]),
    ("net", &["base"]),
    ("gate", &["base", "identity", "policy", "scan"]),
    ("store", &["base", "gate", "identity", "policy"]),
    ("mcp", &["base", "gate", "identity", "net"]),
    ("lab", &["base"]),
    ("seal", &["base"]),
    ("relay", &["base", "gate", "net", "seal"]),
    ("tools", &["base"]),
    (
        "weir",
        &[
            "base", "identity", "policy", "scan", "gate", "net", "store", "mcp", "lab", "relay",
            "seal", "tools",
        ],
    ),
];

/// Outside crates that a crate must not depend on, and why.
const NEVER: &[(&str, &[&str], &str)] = &[
    ("base", &["tokio", "hyper"], "words do nothing"),
    (
        "identity",
        &["tokio", "hyper", "rustix"],
        "a judgement must be replayable",
    ),
    (
        "policy",
        &["tokio", "hyper", "rustix"],
        "a judgement must be replayable",
    ),
    (
        "scan",
        &["tokio", "hyper", "rustix"],
        "a judgement must be replayable",
    ),
    (
        "seal",
        &["tokio", "hyper", "rustix"],
        "a handshake must be replayable",
    ),
    (
        "gate",
        &["hyper", "rustix", "socket2"],
        "the gate reaches the world by its ports",
    ),
    (
        "net",
        &["serde", "serde_json", "cedar-policy"],
        "transport has no opinions",
    ),
    (
        "mcp",
        &["hyper", "socket2", "rustix", "rustls"],
        "sockets and children are net's",
    ),
    (
        "relay",
        &["hyper", "socket2", "rustls"],
        "sockets are net's",
    ),
    (
        "weir",
        &["hyper", "socket2", "rustls", "cedar-policy"],
        "the composition root composes",
    ),
];

/// Texts that must not stand in the sources of a crate (outside its tests), and why.
const NOWHERE: &[(&[&str], &[&str], &str)] = &[
    (
        &["identity", "policy", "scan", "seal", "gate", "base"],
        &[
            "std::net::Tcp",
            "std::fs",
            "std::env",
            "SystemTime",
            "Instant::now",
            "std::process",
        ],
        "no sockets, files, environment or clock: time and state are passed in",
    ),
    (
        &["mcp", "relay"],
        &["std::fs", "std::env::var", "TcpStream", "Command::new"],
        "sockets and child processes are net's",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

/// The dependencies that a crate ships with.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"));
    let manifest: toml::Table = manifest.expect("a manifest").parse().expect("TOML");
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    table
        .map(|t| t.keys().cloned().collect())
        .unwrap_or_default()
}

/// Every source file of a crate, with its path from the workspace.
fn sources(name: &str) -> BTreeMap<String, String> {
    fn walk(dir: &Path, root: &Path, into: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, root, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path
                    .strip_prefix(root)
                    .expect("inside")
                    .display()
                    .to_string();
                into.insert(name, fs::read_to_string(&path).expect("a source file"));
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(
        &root().join("crates").join(name).join("src"),
        &root(),
        &mut files,
    );
    files
}

/// A source without its comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

#[test]
fn every_crate_is_in_the_table() {
    let mut found: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("crates/")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    let mut table: Vec<&str> = MAY.iter().map(|(name, _)| *name).collect();
    table.sort_unstable();
    assert_eq!(found, table);
}

#[test]
fn arrows_point_down() {
    let ours: Vec<&str> = MAY.iter().map(|(name, _)| *name).collect();
    for (name, may) in MAY {
        for dependency in dependencies(name) {
            let known = ours.contains(&dependency.as_str());
            assert!(
                !known || may.contains(&dependency.as_str()),
                "{name} must not know {dependency}"
            );
        }
    }
}

#[test]
fn nobody_has_what_its_room_forbids() {
    for (name, never, why) in NEVER {
        for dependency in dependencies(name) {
            assert!(
                !never.contains(&dependency.as_str()),
                "{name} has {dependency}: {why}"
            );
        }
    }
    for (names, texts, why) in NOWHERE {
        for (path, source) in names.iter().flat_map(|name| sources(name)) {
            for text in *texts {
                let stands = !is_test_file(&path) && code(&source).contains(text);
                assert!(!stands, "{path} has {text}: {why}");
            }
        }
    }
}

/// How often a text stands in the code of all crates, outside tests.
fn places(text: &str) -> Vec<String> {
    let mut places = Vec::new();
    for (path, source) in MAY.iter().flat_map(|(name, _)| sources(name)) {
        if !is_test_file(&path) {
            let count = code(&source).matches(text).count();
            places.extend(std::iter::repeat_n(path, count));
        }
    }
    places
}

#[test]
fn one_permit_and_one_way_out() {
    assert_eq!(places("impl Permit for"), ["crates/gate/src/passed.rs"]);
    assert_eq!(places("Upstreams::new("), ["crates/weir/src/assemble.rs"]);
    assert_eq!(places("Wires::new("), ["crates/weir/src/assemble.rs"]);
    assert_eq!(
        places("Upstreams<Passed>"),
        [
            "crates/mcp/src/lane.rs",
            "crates/mcp/src/lane.rs",
            "crates/weir/src/assemble.rs"
        ]
    );
    assert_eq!(
        places("Passed {\n            gate"),
        ["crates/gate/src/passed.rs"]
    );
    assert_eq!(places("Passed::new("), ["crates/gate/src/pass.rs"]);
}

#[test]
fn unsafe_code_is_forbidden_everywhere() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    for (name, _) in MAY {
        let path = root().join("crates").join(name).join("Cargo.toml");
        let manifest = fs::read_to_string(path).expect("a manifest");
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{name} has lints of its own"
        );
    }
}

#[test]
fn files_and_words_are_small() {
    for (path, source) in MAY.iter().flat_map(|(name, _)| sources(name)) {
        assert!(source.lines().count() <= 1000, "{path} passes 1,000 lines");
    }
    let base: usize = sources("base")
        .values()
        .map(|source| source.lines().count())
        .sum();
    assert!(base < 3000, "base has {base} lines");
}
