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

/// Rules that mean other machines only.
const REMOTE: [&str; 2] = ["command_post_data", "command_file_upload"];

/// Whether this rule does not mean this stage of a line.
pub(super) fn is(rule: &str, stage: &[u8]) -> bool {
    let head = stage.split(|byte| *byte == b' ').next().unwrap_or_default();
    let exempt = HEADS.iter().find(|(id, _)| *id == rule);
    if exempt.is_some_and(|(_, heads)| heads.iter().any(|exempt| exempt.as_bytes() == head)) {
        return true;
    }
    REMOTE.contains(&rule) && stays_here(head, stage)
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
