//! Holds the dependency table of ARCHITECTURE.md: which crate may know which, and what may stand where.
//!
//! Each rule names its reason. The table is read from the crates' manifests and from the syntax of their
//! sources. What a crate must not call is banned in its `clippy.toml`; `layers/bans.rs` tests the bans.

#[path = "layers/bans.rs"]
mod bans;
#[path = "layers/names.rs"]
mod names;
#[path = "layers/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use syn::visit::{self, Visit};

use sources::{all_sources, attributes, is_for_tests, root, sources, type_name};

/// What each crate may depend on, among ours.
const MAY: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("config", &["base"]),
    ("cache", &["base"]),
    ("identity", &["base"]),
    ("policy", &["base"]),
    ("scan", &["base", "config"]),
    ("net", &["base"]),
    ("gate", &["base", "identity", "policy", "scan"]),
    (
        "store",
        &["base", "config", "gate", "identity", "policy", "postgres"],
    ),
    ("llm", &["base", "config", "gate", "identity", "net"]),
    ("mcp", &["base", "config", "gate", "identity", "net"]),
    // Whose task is whose is kept by store.
    (
        "a2a",
        &["base", "config", "gate", "identity", "net", "store"],
    ),
    // It answers what the scan finds, at /v1/scan.
    (
        "web",
        &["base", "config", "gate", "identity", "net", "scan"],
    ),
    ("lab", &["base", "config", "terminal"]),
    ("seal", &["base"]),
    (
        "relay",
        &["base", "config", "gate", "identity", "net", "seal"],
    ),
    (
        "run",
        &["base", "config", "gate", "identity", "net", "store"],
    ),
    ("postgres", &["config"]),
    ("tools", &["base", "config"]),
    ("terminal", &[]),
    ("scancli", &["base", "scan", "terminal"]),
    ("flow", &["base", "postgres", "tools"]),
    (
        "toolscli",
        &["base", "flow", "postgres", "store", "terminal", "tools"],
    ),
    (
        "weir",
        &[
            "a2a", "base", "cache", "config", "identity", "policy", "scan", "gate", "net", "store",
            "mcp", "llm", "flow", "lab", "postgres", "relay", "run", "scancli", "seal", "terminal",
            "tools", "toolscli", "web",
        ],
    ),
];

/// Outside crates that a crate must not depend on, and why.
const NEVER: &[(&str, &[&str], &str)] = &[
    ("base", &["tokio", "hyper"], "words do nothing"),
    (
        "config",
        &["tokio", "hyper", "rustix"],
        "what was written is read, and the world is asked for by a port",
    ),
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
        &["serde", "serde_json", "cedar-policy", "hyper"],
        "transport has no opinions, and one HTTP engine",
    ),
    (
        "mcp",
        &["h2", "hyper", "socket2", "rustix", "rustls"],
        "sockets and children are net's",
    ),
    (
        "llm",
        &["h2", "hyper", "socket2", "rustix", "rustls"],
        "sockets are net's",
    ),
    (
        "web",
        &["h2", "hyper", "socket2", "rustix", "rustls"],
        "sockets and TLS are net's",
    ),
    (
        "a2a",
        &["llm", "mcp", "h2", "hyper", "socket2", "rustix", "rustls"],
        "sockets are net's",
    ),
    (
        "relay",
        &["h2", "hyper", "socket2", "rustls"],
        "sockets are net's",
    ),
    (
        "flow",
        &["tokio", "hyper", "rmcp"],
        "tools/serve speaks the protocol; flow keeps, and answers calls",
    ),
    (
        "run",
        &["llm", "mcp", "h2", "hyper", "socket2", "rustix", "rustls"],
        "a run asks models and tools by its ports",
    ),
    (
        "terminal",
        &["tokio", "hyper", "clap"],
        "it knows nothing of what commands do",
    ),
    (
        "scancli",
        &["tokio", "h2", "hyper", "socket2", "rustls", "cedar-policy"],
        "it judges what is on this machine, and sends nothing",
    ),
    (
        "weir",
        &["h2", "hyper", "socket2", "rustls", "cedar-policy"],
        "the composition root composes",
    ),
];

/// The dependencies that a crate ships with.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"));
    let manifest: toml::Table = manifest.expect("a manifest").parse().expect("TOML");
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    table
        .map(|t| t.keys().cloned().collect())
        .unwrap_or_default()
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

/// What only the fuzzer is built on.
const FUZZ_ALONE: &[&str] = &["arbitrary", "libfuzzer-sys"];

/// Packages with their features, as `cargo tree` resolves them.
fn resolved(more: &[&str]) -> BTreeSet<String> {
    let done = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--locked", "--offline", "--prefix", "none"])
        .args(["--format", "{p} {f}"])
        .args(more)
        .output()
        .expect("cargo");
    let problem = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{problem}");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.map(str::to_owned).collect()
}

/// `make run`, the tests and the fuzzer share what they build only where they find the same versions and features.
#[test]
fn nothing_is_built_twice() {
    let of_weir = dependencies("weir");
    for (name, _) in MAY.iter().filter(|(name, _)| *name != "weir") {
        let known = of_weir.iter().any(|dependency| dependency == name);
        assert!(known, "`cargo build -p weir` leaves {name} out");
    }
    let run = resolved(&["-p", "weir", "--features", "tested", "-e", "normal,build"]);
    let tests = ["--workspace", "--features", "weir/tested"];
    let tests = resolved(&[&tests[..], &["-e", "normal,build,dev"]].concat());
    let other: Vec<&String> = run.difference(&tests).collect();
    assert!(
        other.is_empty(),
        "the tests build these again, with other features: {other:?}"
    );
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml", "-e", "normal,build"];
    let fuzz = resolved(&fuzz);
    let other: Vec<&String> = fuzz
        .difference(&tests)
        .filter(|package| !package.contains("(/") && !FUZZ_ALONE.contains(&first(package)))
        .collect();
    assert!(
        other.is_empty(),
        "the fuzzer builds these again: give fuzz/Cargo.toml their features, or do \
         `cp Cargo.lock fuzz/ && (cd fuzz && cargo update --workspace)`: {other:?}"
    );
}

/// The packages that a manifest compiles in a way of their own, each with its settings.
fn optimized(manifest: &str) -> toml::Table {
    let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    let packages = &manifest["profile"]["dev"]["package"];
    packages.as_table().expect("a table").clone()
}

#[test]
fn the_fuzzer_is_optimized_as_the_rest_is() {
    let ours = optimized("Cargo.toml");
    assert!(ours.len() > 50, "the profile of Cargo.toml was not found");
    assert_eq!(
        ours,
        optimized("fuzz/Cargo.toml"),
        "copy [profile.dev.package.…] to fuzz/Cargo.toml"
    );
}

/// The name of a package in a line of `cargo tree`.
fn first(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
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
}

/// The crates that reach the world by ports or through `net`: `layers/bans.rs` says which bans they have.
const BANNED: &[&str] = &[
    "base", "identity", "policy", "scan", "seal", "gate", "mcp", "relay",
];

#[test]
fn bans_are_not_lifted_outside_tests() {
    for source in BANNED.iter().flat_map(|name| sources(name)) {
        let mut lifted = Lifted::default();
        lifted.visit_file(&source.file);
        assert!(
            lifted.attributes.is_empty(),
            "{} lifts a ban of its crate's clippy.toml: {:?}",
            source.path,
            lifted.attributes
        );
    }
}

/// Finds the attributes that lift a ban, alone or with others.
#[derive(Default)]
struct Lifted {
    attributes: Vec<String>,
}

impl<'ast> Visit<'ast> for Lifted {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            let text = squeezed(&list.tokens);
            let lifts = [
                "clippy::disallowed_",
                "clippy::style",
                "clippy::all",
                "warnings",
            ];
            if !attribute.path().is_ident("doc") && lifts.iter().any(|lint| text.contains(lint)) {
                self.attributes.push(text);
            }
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }
}

/// The text of the tokens without the spaces between them.
fn squeezed(tokens: &impl ToString) -> String {
    tokens.to_string().split_whitespace().collect()
}

/// The names that decide who may send: nobody may call them by another name, or use them in a macro.
const GUARDED: &[&str] = &["Permit", "Passed", "Upstreams"];

/// Where the guarded names are used, as `path: use`.
#[derive(Default)]
struct Uses {
    /// The type whose `impl` is being read.
    own: Option<String>,
    found: Vec<String>,
}

impl Uses {
    /// The last names of a path, with `Self` undone.
    fn ends(&self, path: &syn::Path) -> (Option<String>, String) {
        let names = path.segments.iter().map(|segment| {
            let name = segment.ident.to_string();
            let own = self.own.clone().filter(|_| name == "Self");
            own.unwrap_or(name)
        });
        let mut names: Vec<String> = names.collect();
        let last = names.pop().unwrap_or_default();
        (names.pop(), last)
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some((_, path, _)) = &item.trait_ {
            let (_, name) = self.ends(path);
            if name == "Permit" {
                self.found.push("impl Permit".to_owned());
            }
        }
        let outer = std::mem::replace(&mut self.own, type_name(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.own = outer;
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        let of = type_name(&item.ty).unwrap_or_default();
        if GUARDED.contains(&of.as_str()) {
            self.found.push(format!("another name for {of}"));
        }
        visit::visit_item_type(self, item);
    }

    fn visit_use_rename(&mut self, rename: &'ast syn::UseRename) {
        let of = rename.ident.to_string();
        if GUARDED.contains(&of.as_str()) && rename.rename != "_" {
            self.found.push(format!("another name for {of}"));
        }
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let (before, last) = self.ends(&path.path);
        let of = path
            .qself
            .as_ref()
            .map_or(before, |qself| type_name(&qself.ty));
        if let Some(of) = of.filter(|of| last == "new" && GUARDED.contains(&of.as_str())) {
            self.found.push(format!("{of}::new"));
        }
        visit::visit_expr_path(self, path);
    }

    fn visit_expr_struct(&mut self, made: &'ast syn::ExprStruct) {
        let (_, name) = self.ends(&made.path);
        if GUARDED.contains(&name.as_str()) {
            self.found.push(format!("{name} {{}}"));
        }
        visit::visit_expr_struct(self, made);
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
            let permits = arguments.args.iter().any(|argument| {
                let syn::GenericArgument::Type(of) = argument else {
                    return false;
                };
                type_name(of).is_some_and(|name| name == "Passed")
            });
            if permits && segment.ident == "Upstreams" {
                self.found.push("Upstreams<Passed>".to_owned());
            }
        }
        visit::visit_path_segment(self, segment);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let text = squeezed(&called.tokens);
        for name in GUARDED {
            let forms = [
                format!("{name}{{"),
                format!("{name}::"),
                format!("impl{name}for"),
            ];
            if forms.iter().any(|form| text.contains(form)) {
                self.found.push(format!("{name} in a macro"));
            }
        }
        visit::visit_macro(self, called);
    }
}

#[test]
fn one_permit_and_one_way_out() {
    let mut found = Vec::new();
    for source in MAY.iter().flat_map(|(name, _)| sources(name)) {
        let mut uses = Uses::default();
        uses.visit_file(&source.file);
        let path = source.path;
        found.extend(uses.found.iter().map(|of| format!("{path}: {of}")));
    }
    found.sort();
    // Which files have a way out matters, not how often each says so.
    found.dedup_by(|a, b| a == b && a.ends_with("Upstreams<Passed>"));
    assert_eq!(
        found,
        [
            "crates/a2a/src/lane.rs: Upstreams<Passed>",
            "crates/gate/src/append.rs: Passed::new",
            "crates/gate/src/passed.rs: Passed {}",
            "crates/gate/src/passed.rs: impl Permit",
            "crates/llm/src/lane.rs: Upstreams<Passed>",
            "crates/mcp/src/lane.rs: Upstreams<Passed>",
            "crates/net/src/pool.rs: Upstreams {}",
            "crates/relay/src/doctor/exchange.rs: Upstreams<Passed>",
            "crates/relay/src/inbound.rs: Upstreams<Passed>",
            "crates/relay/src/inbound/desk.rs: Upstreams<Passed>",
            "crates/relay/src/outbound.rs: Upstreams<Passed>",
            "crates/relay/src/outbound/desk.rs: Upstreams<Passed>",
            "crates/relay/src/plain.rs: Upstreams<Passed>",
            "crates/web/src/lane.rs: Upstreams<Passed>",
            "crates/weir/src/assemble.rs: Upstreams::new",
            "crates/weir/src/assemble.rs: Upstreams<Passed>",
            "crates/weir/src/lanes/relay.rs: Upstreams<Passed>",
        ]
    );
}

#[test]
fn unsafe_code_is_forbidden_everywhere() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    assert!(!manifest.contains("disallowed_"), "a ban is lifted for all");
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
    for source in MAY.iter().flat_map(|(name, _)| all_sources(name)) {
        let lines = source.text.lines().count();
        assert!(lines <= 1000, "{} passes 1,000 lines", source.path);
    }
    // What everything stands on stays small. Its three tables grow with each lane, by a row for each of its refusals,
    // actions and bounds: they are what a reader looks a thing up in, and are not counted.
    let tables = [
        "base/src/refusal.rs",
        "base/src/action.rs",
        "base/src/limit.rs",
    ];
    let base = all_sources("base");
    let counted = base
        .iter()
        .filter(|source| !tables.iter().any(|table| source.path.ends_with(table)));
    assert_eq!(base.len() - counted.clone().count(), tables.len());
    let lines: usize = counted.map(|source| source.text.lines().count()).sum();
    assert!(lines < 2700, "base has {lines} lines beside its tables");
}

/// Ways around the rules above, each of which must be found; what follows a module of tests is seen.
const PLANTED: &str = r#"
#[cfg(test)]
mod tests;
#[cfg(test)]
mod more { fn test() { Upstreams::new() } }

use gate::Passed as Free;
type Freer = gate::Passed;
impl base::Permit for Mine {}
impl Passed {
    fn made() -> Passed { Self { gate } }
    fn again() -> Passed { Self::new() }
}
fn out() {
    let all = [net::Upstreams::<P>::new, <Upstreams>::new];
    made!(Passed { gate });
}
#[allow(clippy::disallowed_methods, reason = "a test")]
fn lifted() {}
"#;

#[test]
fn planted_ways_around_are_found() {
    let file = syn::parse_file(PLANTED).expect("syntax");
    let mut uses = Uses::default();
    uses.visit_file(&file);
    assert_eq!(
        uses.found,
        [
            "another name for Passed",
            "another name for Passed",
            "impl Permit",
            "Passed {}",
            "Passed::new",
            "Upstreams::new",
            "Upstreams::new",
            "Passed in a macro",
        ]
    );
    let mut lifted = Lifted::default();
    lifted.visit_file(&file);
    assert_eq!(lifted.attributes.len(), 1);
}
