//! The command line as a person meets it: files and arguments in, output and exit code out.
//!
//! Each file of `tests/cli/` is one case. `UPDATE=1` rewrites what is expected, and the diff is the review.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn updating() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// One case: sections that begin with `== file NAME`, `== env NAME=VALUE` or `== run ARGUMENTS`. After a
/// run come `== exit`, `== stdout` and `== stderr`, which are compared.
fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).expect("a case is UTF-8");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut env = BTreeMap::new();
    let mut got = String::new();
    for section in text
        .split_inclusive('\n')
        .fold(Vec::<String>::new(), sections)
    {
        let (head, body) = section.split_once('\n').expect("a section ends its line");
        let mut words = head.trim_start_matches("== ").splitn(2, ' ');
        match (words.next(), words.next()) {
            (Some("file"), Some(name)) => {
                std::fs::write(dir.path().join(name), body).expect("a file is written");
                got.push_str(&section);
            }
            (Some("env"), Some(pair)) => {
                let (name, value) = pair.split_once('=').expect("NAME=VALUE");
                env.insert(name.to_owned(), value.to_owned());
                got.push_str(&section);
            }
            (Some("run"), Some(line)) => run(dir.path(), &env, line, &mut got),
            (Some("exit" | "stdout" | "stderr"), _) => {}
            _ => got.push_str(&section),
        }
    }
    if got == text {
        return Ok(());
    }
    if updating() {
        std::fs::write(path, got).expect("a case is written");
        return Ok(());
    }
    Err(format!("{} differs. Got:\n{got}", path.display()))
}

fn sections(mut all: Vec<String>, line: &str) -> Vec<String> {
    match all.last_mut().filter(|_| !line.starts_with("== ")) {
        Some(last) => last.push_str(line),
        None => all.push(line.to_owned()),
    }
    all
}

fn run(dir: &Path, env: &BTreeMap<String, String>, line: &str, got: &mut String) {
    let output = Command::new(WEIR)
        .args(arguments(line))
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(env)
        .output()
        .expect("the binary runs");
    let code = output.status.code().expect("the binary ends by itself");
    let (stdout, stderr) = (masked(&output.stdout), masked(&output.stderr));
    writeln!(got, "== run {line}\n== exit {code}").expect("a string takes all");
    for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
        if !text.is_empty() {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            write!(got, "== {name}\n{text}{end}").expect("a string takes all");
        }
    }
}

/// Words, with single quotes around those that hold spaces.
fn arguments(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(i, part)| match i % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(str::to_owned).collect(),
        })
        .collect()
}

/// The output without what is different in each run: keys and their hashes.
fn masked(bytes: &[u8]) -> String {
    let mut text = String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
    for (prefix, chars) in [("weir_", 43), ("sha256:", 64)] {
        let mut from = 0;
        while let Some(at) = text[from..].find(prefix).map(|at| from + at + prefix.len()) {
            let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
            let end = text[at..].find(word).map_or(text.len(), |end| at + end);
            if end - at == chars {
                text.replace_range(at..end, "MASKED");
            }
            from = at;
        }
    }
    text
}

#[test]
fn each_case_says_what_it_said() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder("tests/cli"))
        .expect("the cases are there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 5, "the cases are gone");
    let wrong: Vec<String> = paths.iter().filter_map(|path| check(path).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_reference_pages_are_those_that_the_code_makes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let made = Command::new(WEIR).arg("reference").arg(dir.path()).status();
    assert!(made.expect("the binary runs").success());
    let pages = std::fs::read_dir(dir.path()).expect("the pages are there");
    let names: Vec<_> = pages
        .map(|page| page.expect("a page").file_name())
        .collect();
    assert!(names.len() >= 4, "pages are gone: {names:?}");
    for name in names {
        let made = std::fs::read_to_string(dir.path().join(&name)).expect("a page");
        let kept = folder("../../docs/reference").join(&name);
        if updating() {
            std::fs::write(&kept, &made).expect("a page is written");
        }
        let kept = std::fs::read_to_string(&kept).unwrap_or_default();
        assert!(kept == made, "{name:?} is old; run this test with UPDATE=1");
    }
}

#[test]
fn what_init_writes_is_good_and_its_key_is_stored_as_a_hash_only() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let init = Command::new(WEIR)
        .args(["init", "--json", "new"])
        .current_dir(dir.path())
        .output();
    let init = init.expect("the binary runs");
    let said: serde_json::Value = serde_json::from_slice(&init.stdout).expect("JSON");
    let key = said["key"].as_str().expect("a key");
    assert!(key.starts_with("weir_") && key.len() == 48, "{key}");
    let config = std::fs::read_to_string(dir.path().join("new/weir.yaml")).expect("a file");
    let digest = identity::key_digest(key).expect("a key of ours");
    assert!(config.contains(&format!("sha256:{digest}")) && !config.contains(key));

    // What `show` prints is a configuration too, and shows the same again.
    let weir = |arguments: &[&str]| {
        let output = Command::new(WEIR)
            .args(arguments)
            .current_dir(dir.path().join("new"))
            .output();
        let output = output.expect("the binary runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    weir(&["config", "check"]);
    let shown = weir(&["config", "show"]);
    std::fs::write(dir.path().join("new/again.yaml"), &shown).expect("a file is written");
    weir(&["config", "check", "-c", "again.yaml"]);
    let plain = |text: &str| text.replace(" # default", "");
    assert_eq!(
        plain(&weir(&["config", "show", "-c", "again.yaml"])),
        plain(&shown)
    );
}
