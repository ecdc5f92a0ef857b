//! After any edits an answer is that of an index made from scratch.

use super::*;

const WORDS: [&str; 16] = [
    "pool", "take", "retry", "limit", "token", "parse", "stream", "session", "budget", "record",
    "digest", "frame", "header", "window", "bucket", "lease",
];

fn source(seed: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for _ in 0..seed.usize(1..6) {
        let word = |seed: &mut fastrand::Rng| WORDS[seed.usize(..WORDS.len())];
        let (a, b, c) = (word(seed), word(seed), word(seed));
        text.push_str(&format!(
            "/// {a} of the {b}.\nfn {b}_{c}({a}: u32) -> u32 {{\n    {a} + {c}::{b}({})\n}}\n\n",
            seed.u32(..1000)
        ));
    }
    text
}

fn path(seed: &mut fastrand::Rng) -> String {
    let dir = ["", "src/", "src/net/", "lib/", "tests/"][seed.usize(..5)];
    format!(
        "{dir}{}_{}.rs",
        WORDS[seed.usize(..WORDS.len())],
        seed.u32(..6)
    )
}

fn files(tree: &Path) -> Vec<String> {
    let bounds = crate::code::walk::WalkBounds {
        hidden: &Vec::new().into(),
        files_max: 10_000,
        cancel: &Cancel::new(),
    };
    let listing = crate::code::walk::list(tree, "", true, bounds);
    listing.files.keys().map(ToString::to_string).collect()
}

/// One random change.
fn change(tree: &Path, seed: &mut fastrand::Rng) {
    let known = files(tree);
    let some = known.get(seed.usize(..known.len().max(1))).cloned();
    match (seed.u32(..12), some) {
        (0..=2, _) | (_, None) => {
            let (path, text) = (path(seed), source(seed));
            write_all(tree, &[(&path, &text)]);
        }
        (3..=5, Some(path)) => {
            let text = source(seed);
            write_all(tree, &[(&path, &text)]);
        }
        (6, Some(path)) => std::fs::remove_file(tree.join(path)).unwrap(),
        (7, Some(old)) => {
            let new = tree.join(path(seed));
            std::fs::create_dir_all(new.parent().unwrap()).unwrap();
            std::fs::rename(tree.join(old), new).unwrap();
        }
        (8, _) => {
            let dir = ["src", "src/net", "lib"][seed.usize(..3)];
            let new = format!("moved{}", seed.u32(..4));
            if tree.join(dir).is_dir() && !tree.join(&new).exists() {
                std::fs::rename(tree.join(dir), tree.join(new)).unwrap();
            }
        }
        (9, _) => {
            let rule = ["*_1.rs\n", "lib/\n", "\n"][seed.usize(..3)];
            write_all(tree, &[(".gitignore", rule)]);
        }
        (10, _) => {
            git(tree, &["add", "-A"]);
            git(tree, &["commit", "-qm", "some"]);
            let branch = format!("b{}", seed.u32(..4));
            git(tree, &["checkout", "-qB", &branch]);
        }
        (_, Some(path)) => {
            git(tree, &["add", "-A"]);
            git(tree, &["commit", "-qm", "some"]);
            let to = format!("b{}", seed.u32(..4));
            git(tree, &["checkout", "-q", &to]);
            let text = source(seed);
            write_all(tree, &[(&path, &text)]);
        }
    }
}

/// What an answer says, but for times and counts of states.
fn said(answer: &Answer) -> Vec<(String, Option<String>)> {
    let hits = answer.hits.iter();
    hits.map(|hit| (hit.reference.clone(), hit.text.clone()))
        .collect()
}

fn same(engine: &Engine, fresh: &Engine, seed: u64, step: usize) {
    for (query, mode) in [
        ("fn ", Mode::Text),
        ("[a-z]+_pool", Mode::Regex),
        ("retry of the session", Mode::Auto),
        ("pool_take", Mode::Auto),
        ("token_limit", Mode::Symbol),
        ("src/net", Mode::Auto),
        ("how is the budget of a stream recorded", Mode::Auto),
    ] {
        let (ours, theirs) = (search(engine, query, mode), search(fresh, query, mode));
        assert_eq!(
            said(&ours),
            said(&theirs),
            "{query} after step {step} of seed {seed}"
        );
    }
    let all = |engine: &Engine| {
        let ask = FilesAsk {
            limit: Some(1000),
            ..FilesAsk::default()
        };
        let found = engine.files(&ask, &Cancel::new()).unwrap().files;
        found
            .into_iter()
            .map(|file| file.reference)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        all(engine),
        all(fresh),
        "files after step {step} of seed {seed}"
    );
}

fn play(seed: u64, watch: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let made = tempfile::tempdir().unwrap();
    let tree = made.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let tree = tree.canonicalize().unwrap();
    git(&tree, &["init", "-q"]);
    for _ in 0..12 {
        let (path, text) = (path(&mut random), source(&mut random));
        write_all(&tree, &[(&path, &text)]);
    }
    let open = |data: &Path| {
        let mut settings = settings(data, std::slice::from_ref(&tree));
        settings.limits.watch = watch;
        Engine::open(settings).unwrap()
    };
    let engine = open(&made.path().join("data"));
    index(&engine, "");
    for step in 0..6 {
        for _ in 0..random.usize(1..8) {
            change(&tree, &mut random);
        }
        let data = tempfile::tempdir().unwrap();
        let fresh = open(data.path());
        index(&fresh, "");
        same(&engine, &fresh, seed, step);
    }
}

#[test]
fn any_edits_that_are_told() {
    for seed in 0..6 {
        play(seed, true);
    }
}

#[test]
fn any_edits_that_must_be_looked_for() {
    for seed in 100..104 {
        play(seed, false);
    }
}

#[test]
fn a_branch_that_comes_back_is_not_parsed_again() {
    let made = tempfile::tempdir().unwrap();
    let tree = made.path().join("tree");
    write_all(
        &tree,
        &[("a.rs", "fn one() {}\n"), ("b.rs", "fn two() {}\n")],
    );
    let tree = tree.canonicalize().unwrap();
    git(&tree, &["init", "-q"]);
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-qm", "one"]);
    let mut settings = settings(&made.path().join("data"), std::slice::from_ref(&tree));
    settings.limits.watch = false;
    let engine = Engine::open(settings).unwrap();
    assert_eq!(index(&engine, "").files_indexed, 2);
    git(&tree, &["checkout", "-qb", "other"]);
    write_all(&tree, &[("a.rs", "fn three() {}\n")]);
    git(&tree, &["commit", "-qam", "two"]);
    assert_eq!(index(&engine, "").files_indexed, 1);
    git(&tree, &["checkout", "-q", "main"]);
    let back = index(&engine, "");
    assert_eq!(
        (
            back.files_indexed,
            search(&engine, "fn one", Mode::Text).total
        ),
        (0, 1)
    );
    assert_eq!(search(&engine, "three", Mode::Symbol).hits.len(), 0);
}

#[test]
fn worktrees_share_what_they_have_in_common() {
    let made = tempfile::tempdir().unwrap();
    let top = made.path().canonicalize().unwrap();
    let tree = top.join("tree");
    write_all(
        &tree,
        &[("a.rs", "fn one() {}\n"), ("b.rs", "fn two() {}\n")],
    );
    git(&tree, &["init", "-q"]);
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-qm", "one"]);
    git(&tree, &["worktree", "add", "-q", "../other", "-b", "other"]);
    write_all(&top.join("other"), &[("a.rs", "fn three() {}\n")]);
    let engine = Engine::open(settings(&top.join("data"), std::slice::from_ref(&top))).unwrap();
    assert_eq!(index(&engine, "tree").files_indexed, 2);
    assert_eq!(index(&engine, "other").files_indexed, 1);
    let of = |repository: &str, query: &str| {
        let ask = Search {
            query: query.to_owned(),
            mode: Mode::Symbol,
            repositories: vec![repository.to_owned()],
            ..Search::default()
        };
        engine.search(&ask, &Cancel::new()).unwrap().hits.len()
    };
    assert_eq!((of("tree", "one"), of("other", "one")), (1, 0));
    assert_eq!((of("tree", "two"), of("other", "two")), (1, 1));
}
