//! What a rule's expression finds and the rule does not mean: commands that only name what it looks for.

use super::role;

/// For a rule, commands in whose stage it finds nothing.
const HEADS: [(&str, &[&str]); 4] = [
    (
        "credential_file",
        &[
            "ssh",
            "ssh-add",
            "ssh-keygen",
            "ssh-copy-id",
            "autossh",
            "mosh",
            "sshfs",
            "chmod",
            "chown",
            "chgrp",
            "ls",
            "stat",
            "file",
            "test",
            "[",
            "[[",
            "mkdir",
            "write_file",
            "delete_file",
            "touch",
            "echo",
            "cd",
            "pushd",
            "man",
            "which",
            "rm",
            "git",
            "export",
            "ll",
            "restorecon",
            "exa",
            "eza",
            "tree",
            "du",
            "systemd-tmpfiles",
            "wc",
            "list_directory",
        ],
    ),
    (
        "project_secret_file",
        &[
            "write_file",
            "delete_file",
            "echo",
            "ls",
            "test",
            "[",
            "[[",
            "touch",
            "rm",
            "git",
            "chmod",
            "chown",
            "docker",
            "docker-compose",
            "podman",
            "export",
            "source",
            ".",
            "printf",
            "stat",
            "file",
            "cd",
            "cp",
            "mv",
            "mkdir",
            "node",
            "npm",
            "yarn",
            "pnpm",
            "man",
            "dotenv",
            "keytool",
            "terraform",
            "tofu",
            "pytest",
            "openssl",
            "nginx",
        ],
    ),
    ("command_disk_wipe", &["echo", "ls", "lsblk", "man"]),
    ("command_metadata_service", &["echo", "man"]),
];

/// Rules that mean what cannot be made again.
const LOST: [&str; 2] = ["command_delete_recursive", "command_delete_tree"];
/// Directories that a build, a test or a package manager makes, and makes again.
const MADE: [&str; 44] = [
    ".angular",
    ".astro",
    ".cache",
    ".dart_tool",
    ".docusaurus",
    ".eggs",
    ".eslintcache",
    ".expo",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".nyc_output",
    ".output",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".tox",
    ".turbo",
    ".venv",
    ".vite",
    ".webpack",
    "DerivedData",
    "__pycache__",
    "_build",
    "bower_components",
    "build",
    "cmake-build-debug",
    "cmake-build-release",
    "coverage",
    "dist",
    "htmlcov",
    "node_modules",
    "obj",
    "out",
    "package-lock.json",
    "pnpm-lock.yaml",
    "storybook-static",
    "target",
    "tsconfig.tsbuildinfo",
    "venv",
    "yarn.lock",
];

/// Rules that mean other machines only.
const REMOTE: [&str; 2] = ["command_post_data", "command_file_upload"];

/// Whether this rule does not mean this stage of a line.
pub(super) fn is(rule: &str, stage: &[u8]) -> bool {
    let head = stage.split(|byte| *byte == b' ').next().unwrap_or_default();
    let exempt = HEADS.iter().find(|(id, _)| *id == rule);
    if exempt.is_some_and(|(_, heads)| heads.iter().any(|exempt| exempt.as_bytes() == head)) {
        return true;
    }
    if LOST.contains(&rule) {
        return is_made_again(stage);
    }
    if rule == "command_database_destroy" {
        return keeps_copies(stage);
    }
    REMOTE.contains(&rule) && stays_here(head, stage)
}

/// Whether all that a stage deletes is made again by a build, below the directory that it runs in.
fn is_made_again(stage: &[u8]) -> bool {
    let stage = stage.strip_prefix(b" | ").unwrap_or(stage);
    let mut words = stage
        .split(|byte| *byte == b' ')
        .skip(1)
        .filter(|word| !word.starts_with(b"-"))
        .peekable();
    let made = |word: &[u8]| {
        let word = word.strip_suffix(b"/*").unwrap_or(word);
        let word = word.strip_suffix(b"/").unwrap_or(word);
        let mut parts = word.split(|byte| *byte == b'/');
        let last = parts.next_back().unwrap_or_default();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._@-".contains(byte);
        MADE.iter().any(|name| name.as_bytes() == last)
            && parts.all(|part| !part.is_empty() && part != b".." && part.iter().all(plain))
    };
    words.peek().is_some() && words.all(made)
}

/// Whether the only thing that a stage empties holds copies, by its name.
fn keeps_copies(stage: &[u8]) -> bool {
    let stage = stage.to_ascii_lowercase();
    let mut words = stage
        .split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .filter(|word| !word.is_empty());
    let from = words.by_ref().skip_while(|word| *word != b"delete").nth(1);
    let table = words.next().unwrap_or_default();
    let copies = table
        .split(|byte| *byte == b'_')
        .any(|part| matches!(part, b"cache" | b"caches" | b"tmp" | b"temp"));
    let more = [&b"drop"[..], b"truncate", b"delete"];
    from == Some(b"from") && copies && !words.any(|word| more.contains(&word))
}

/// Whether a stage names this machine, and no other.
fn stays_here(head: &[u8], stage: &[u8]) -> bool {
    let words = stage.split(|byte| *byte == b' ').skip(1);
    let mut here = false;
    for word in words.filter(|word| !word.starts_with(b"-")) {
        let host = match memchr::memmem::find(word, b"://") {
            Some(scheme) => &word[scheme + 3..],
            None => word,
        };
        let end = host
            .iter()
            .position(|b| matches!(b, b'/' | b'?' | b'#'))
            .unwrap_or(host.len());
        let host = &host[..end];
        let local = role::LOCAL.iter().any(|name| {
            host.strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b':')
        });
        if local {
            here = true;
        } else if memchr::memmem::find(word, b"://").is_some() {
            return false;
        }
    }
    here && (head == b"curl"
        || head == b"wget"
        || head == b"nc"
        || head == b"telnet"
        || head == b"http")
}
