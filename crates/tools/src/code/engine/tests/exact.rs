//! Exact text and expressions answer as `git grep` does.

use std::collections::BTreeSet;

use super::*;
use crate::code::api::LeftOut;

/// A tree of the sources of this workspace, as files that git knows, with some that are awkward.
fn sources() -> tempfile::TempDir {
    let made = tempfile::tempdir().unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut count = 0;
    for entry in ignore::WalkBuilder::new(crates)
        .sort_by_file_path(Path::cmp)
        .build()
        .flatten()
    {
        if count < 250 && entry.file_type().is_some_and(|kind| kind.is_file()) {
            let to = made
                .path()
                .join("tree")
                .join(entry.path().strip_prefix(crates).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(entry.path(), to).unwrap();
            count += 1;
        }
    }
    let tree = made.path().join("tree");
    let late = format!("{}\0late zero\nfn late() {{}}\n", "x\n".repeat(5000));
    write_all(
        &tree,
        &[
            ("empty.txt", ""),
            ("no_end.txt", "last line without an end: fn"),
            ("blank.txt", "\n\n\n"),
            ("crlf.txt", "fn one\r\nfn two\r\n"),
            ("umlaut.txt", "größe Straße ÄÖÜ fn\n"),
            ("zero.bin", "fn\0zero\n"),
            ("late.txt", &late),
            ("long.txt", &format!("{} fn end\n", "word ".repeat(20_000))),
            (".hidden/x.rs", "fn hidden() {}\n"),
        ],
    );
    std::fs::write(tree.join("latin.txt"), b"fn caf\xe9 latin\n").unwrap();
    git(&tree, &["init", "-q"]);
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-qm", "all"]);
    made
}

fn of_git(tree: &Path, args: &[&str]) -> BTreeSet<(String, u32)> {
    let mut all = vec!["grep", "-I", "-n", "-z", "--no-color"];
    all.extend(args);
    let output = git(tree, &all);
    let mut found = BTreeSet::new();
    for line in output.split('\n').filter(|line| !line.is_empty()) {
        let mut parts = line.split('\0');
        let (path, number) = (parts.next().unwrap(), parts.next().unwrap());
        found.insert((path.to_owned(), number.parse().unwrap()));
    }
    found
}

fn of_engine(
    engine: &Engine,
    query: &str,
    mode: Mode,
    ignore_case: bool,
) -> BTreeSet<(String, u32)> {
    let ask = Search {
        query: query.to_owned(),
        mode,
        ignore_case,
        detail: crate::code::api::Detail::Paths,
        ..Search::default()
    };
    let hits = all_hits(engine, &ask);
    hits.into_iter()
        .map(|hit| (hit.path, hit.start_line))
        .collect()
}

fn check(engine: &Engine, tree: &Path) {
    let mut seed = fastrand::Rng::with_seed(7);
    let mut texts: Vec<String> = [
        "fn late",
        "größe",
        "Straße",
        "hidden()",
        "latin",
        "fn end",
        "without an end: fn",
        "zero",
        "unsafe_code",
        "\t",
    ]
    .map(str::to_owned)
    .to_vec();
    // Substrings of any file, from any place.
    let mut files = Vec::new();
    for entry in ignore::WalkBuilder::new(tree).build().flatten() {
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            files.extend(
                std::fs::read_to_string(entry.path())
                    .ok()
                    .filter(|text| text.len() > 40),
            );
        }
    }
    files.sort_unstable();
    for _ in 0..60 {
        let file = &files[seed.usize(..files.len())];
        let lines: Vec<&str> = file.lines().filter(|line| line.trim().len() > 3).collect();
        let Some(line) = seed.choice(&lines) else {
            continue;
        };
        let letters: Vec<char> = line.chars().collect();
        let length = seed.usize(3..12).min(letters.len());
        let from = seed.usize(..=letters.len() - length);
        texts.push(letters[from..from + length].iter().collect());
    }
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let ours = of_engine(engine, text, Mode::Text, false);
        if ours.len() < 4_000 {
            assert_eq!(ours, of_git(tree, &["-F", "-e", text]), "text {text:?}");
        }
        if text.is_ascii() {
            let ours = of_engine(engine, text, Mode::Text, true);
            if ours.len() < 4_000 {
                assert_eq!(
                    ours,
                    of_git(tree, &["-F", "-i", "-e", text]),
                    "text {text:?} in any case"
                );
            }
        }
    }
    for regex in [
        "fn [a-z]+_max",
        "^use (std|base)::",
        "^$",
        "Err\\(.*\\)\\?;$",
        "impl.*for.*\\{$",
        "[A-Z][a-z]+Error",
        "(limit|bound)s? of",
        "a{3}",
        "^ {8}let",
        "x?yz*",
        "\\.unwrap\\(\\)",
        "[0-9]+_[0-9]{3}",
        "two.$",
        "caf. latin",
        "^fn two",
        "gr..e",
        "(abc|def|ghi)+",
        "pub (fn|struct) [a-zA-Z_]*s\\b",
    ] {
        let ours = of_engine(engine, regex, Mode::Regex, false);
        if regex != "^$" && !regex.contains("caf") && ours.len() < 4_000 {
            assert_eq!(ours, of_git(tree, &["-E", "-e", regex]), "regex {regex:?}");
        }
    }
}

#[test]
fn as_git_grep() {
    let made = sources();
    let tree = made.path().join("tree").canonicalize().unwrap();
    let settings = settings(&made.path().join("data"), std::slice::from_ref(&tree));
    let engine = Engine::open(settings).unwrap();
    index(&engine, "");
    check(&engine, &tree);
}

/// What is not indexed yet is read.
#[test]
fn also_before_anything_is_indexed() {
    let bed = Bed::with(&[("a.rs", "fn early() {}\n")], |settings| {
        settings.limits.watch = false;
    });
    bed.write("b.rs", "fn early_too() {}\n");
    let found = bed.search("fn early", Mode::Text);
    assert_eq!(found.total, 2);
}

/// Lines that are not shown are counted where few files can have any; page by page all are found in any case.
#[test]
fn a_count_is_exact_or_the_least_there_is() {
    let named: Vec<(String, String)> = (0..300)
        .map(|at| {
            (
                format!("{at}.rs"),
                format!("fn common_{at}() {{}}\nfn common() {{}}\n"),
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = named
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let bed = Bed::new(&files);
    let few = bed.search("fn common_7", Mode::Text);
    assert_eq!((few.total, few.total_exact), (11, true));
    let many = bed.search("fn common", Mode::Text);
    assert!(!many.total_exact && (50..600).contains(&many.total));
    assert!(many.cursor.is_some());
    let counted = |left: &LeftOut| left.what.starts_with("files that can match");
    assert!(many.left_out.iter().any(counted));
    let ask = Search {
        query: "fn common".to_owned(),
        mode: Mode::Text,
        ..Search::default()
    };
    let hits = all_hits(&bed.engine, &ask);
    let lines: BTreeSet<_> = hits.iter().map(|hit| (&hit.path, hit.start_line)).collect();
    assert_eq!((hits.len(), lines.len()), (600, 600));
}
