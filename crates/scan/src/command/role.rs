//! What an argument is: a command, a path, a program, or text that only talks about them.
//!
//! Names decide. Where they say nothing, a text counts as a command only if it starts with one.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::Argument;
use crate::shell::{self, Dialect, Plain};

/// Names of this machine.
pub(crate) const LOCAL: [&str; 5] = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    "0.0.0.0",
    "host.docker.internal",
];

/// Bytes that neither part nor hide words of a command.
pub(super) const CLEAN: [bool; 256] = clean(b" /._-:=,@+");
/// Bytes that hide nothing in a path.
pub(super) const CLEAN_PATH: [bool; 256] = clean(b" /._-:=,@+~()[]#&';!?");

const fn clean(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
}

/// What a tool does, as far as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Runs commands.
    Shell,
    /// Runs programs in a language.
    Code,
    /// Writes, changes, moves files.
    Write,
    Read,
    Delete,
    /// Searches, or sends words to people.
    Talk,
    Unknown,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Command,
    /// A program in a language other than a shell's.
    Code,
    /// A file that says at its start that it is to be run.
    Script,
    /// The path of a file that is read, written, deleted.
    Read,
    Write,
    Delete,
    /// A statement of a database.
    Statement,
    /// Words that are neither.
    Text,
    /// A command only if it looks like one.
    Unknown,
}

/// What an argument's name says.
#[derive(Clone, Copy, PartialEq)]
enum Name {
    Command,
    Arguments,
    Code,
    Path,
    /// A path that something comes from, in a tool that writes.
    Source,
    Target,
    /// What a file, a message, a form holds.
    Body,
    /// Words for people.
    Prose,
    Other,
}

/// Rounds of percent-encoding that are undone in a path.
const PERCENT_ROUNDS_MAX: usize = 4;
/// Bytes of a text in which a command may be smuggled into a name.
const SMUGGLED_BYTES_MAX: usize = 512;
/// Bytes of the longest word that is known in a name.
const WORD_BYTES_MAX: usize = 16;

impl Tool {
    pub(crate) fn of(name: &str) -> Tool {
        let mut best = Tool::Unknown;
        words(name, &mut |word| {
            let found = match word {
                b"python" | b"python3" | b"code" | b"jupyter" | b"notebook" | b"ipython"
                | b"repl" | b"node" | b"nodejs" | b"javascript" | b"js" | b"interpreter"
                | b"ruby" | b"perl" | b"evaluate" => Tool::Code,
                b"bash" | b"sh" | b"zsh" | b"shell" | b"exec" | b"execute" | b"run"
                | b"command" | b"commands" | b"cmd" | b"terminal" | b"console" | b"powershell"
                | b"pwsh" | b"ssh" | b"subprocess" | b"process" | b"spawn" | b"tty" | b"script"
                | b"eval" => Tool::Shell,
                b"search" | b"query" | b"send" | b"message" | b"email" | b"mail" | b"post"
                | b"comment" | b"issue" | b"note" | b"chat" | b"reply" | b"notify" | b"slack"
                | b"tweet" | b"ask" | b"summarize" | b"translate" | b"memory" | b"ticket" => {
                    Tool::Talk
                }
                b"delete" | b"remove" | b"unlink" | b"rm" | b"rmdir" => Tool::Delete,
                b"write" | b"create" | b"append" | b"edit" | b"save" | b"put" | b"patch"
                | b"insert" | b"replace" | b"update" | b"modify" | b"touch" | b"move"
                | b"rename" | b"copy" => Tool::Write,
                b"read" | b"cat" | b"open" | b"view" | b"get" | b"load" | b"fetch" | b"list"
                | b"stat" | b"upload" | b"download" | b"file" | b"files" => Tool::Read,
                _ => Tool::Unknown,
            };
            // A code tool stays one when it also runs; the rest goes by how much harm it can do.
            let rank = |tool: Tool| match tool {
                Tool::Code => 6,
                Tool::Shell => 5,
                Tool::Talk => 4,
                Tool::Delete => 3,
                Tool::Write => 2,
                Tool::Read => 1,
                Tool::Unknown => 0,
            };
            if rank(found) > rank(best) {
                best = found;
            }
        });
        best
    }

    /// What an argument of this tool is.
    pub(crate) fn role(self, path: &str, text: &str) -> Role {
        let path_role = match self {
            Tool::Write => Role::Write,
            Tool::Delete => Role::Delete,
            _ => Role::Read,
        };
        match (Name::of(path), self) {
            (Name::Command | Name::Arguments, Tool::Talk) => Role::Unknown,
            (Name::Command, Tool::Code) if is_expression(text) => Role::Code,
            (Name::Command | Name::Arguments, _) => Role::Command,
            (Name::Code, Tool::Talk | Tool::Write | Tool::Read) => Role::Text,
            (Name::Code, Tool::Shell) if starts_known(text) => Role::Command,
            (Name::Code, _) => Role::Code,
            (Name::Path, _) => path_role,
            (Name::Prose, _) if is_file_url(text) => Role::Read,
            (Name::Source, _) => Role::Read,
            (Name::Target, Tool::Read | Tool::Talk) => Role::Read,
            (Name::Target, _) => Role::Write,
            (Name::Prose, _) | (Name::Body | Name::Other, Tool::Talk) => Role::Text,
            (Name::Body, Tool::Shell) => Role::Command,
            (Name::Body, Tool::Code) => Role::Code,
            (Name::Body, _) if text.starts_with("#!") => Role::Script,
            (Name::Body, _) => Role::Text,
            (Name::Other, Tool::Shell) => Role::Command,
            (Name::Other, Tool::Code) => Role::Code,
            (Name::Other, Tool::Unknown) => match is_path(text) {
                true => Role::Read,
                false => Role::Unknown,
            },
            (Name::Other, Tool::Write | Tool::Read | Tool::Delete) => {
                match is_path(text) || !text.contains(' ') {
                    true => path_role,
                    false => Role::Unknown,
                }
            }
        }
    }
}

impl Name {
    fn of(path: &str) -> Name {
        let mut found = Name::Other;
        words(last(path), &mut |word| {
            let name = match word {
                b"command" | b"commands" | b"cmd" | b"cmds" | b"cmdline" | b"commandline"
                | b"argv" | b"shell" | b"bash" | b"exec" | b"executable" | b"program"
                | b"script" => Name::Command,
                b"args" | b"arguments" | b"arg" | b"params" | b"parameters" | b"flags" => {
                    Name::Arguments
                }
                b"code" | b"snippet" | b"python" | b"javascript" => Name::Code,
                b"path" | b"paths" | b"file" | b"files" | b"filename" | b"filepath" | b"dir"
                | b"directory" | b"folder" | b"uri" | b"cwd" | b"workdir" | b"root"
                | b"attachment" => Name::Path,
                b"source" | b"src" | b"from" => Name::Source,
                b"destination" | b"dest" | b"dst" | b"target" | b"output" | b"outfile" => {
                    Name::Target
                }
                b"content" | b"contents" | b"text" | b"body" | b"data" | b"input" | b"query"
                | b"value" | b"old" | b"new" | b"diff" | b"patch" | b"html" | b"markdown"
                | b"sql" | b"search" | b"q" | b"string" | b"pattern" | b"prompt" | b"line"
                | b"lines" | b"keys" => Name::Body,
                b"description" | b"title" | b"subject" | b"reason" | b"explanation"
                | b"comment" | b"summary" | b"note" | b"notes" | b"thought" | b"label"
                | b"purpose" | b"message" | b"question" | b"name" | b"url" | b"recipient"
                | b"channel" | b"intent" => Name::Prose,
                _ => Name::Other,
            };
            // The last word that is known says what it is: `file_content`, `script_path`.
            if name != Name::Other {
                found = name;
            }
        });
        found
    }
}

/// Calls `with` for each word of a name, in lower case: `run_Command2` is `run`, `command`.
pub(crate) fn words(name: &str, with: &mut dyn FnMut(&[u8])) {
    let mut word = [0; WORD_BYTES_MAX];
    let mut length = 0;
    let mut lower = false;
    for byte in name.bytes() {
        let starts = byte.is_ascii_uppercase() && lower;
        if (starts || !byte.is_ascii_alphanumeric()) && length > 0 {
            with(&word[..length.min(WORD_BYTES_MAX)]);
            length = 0;
        }
        lower = byte.is_ascii_lowercase();
        if byte.is_ascii_alphanumeric() {
            if length < WORD_BYTES_MAX {
                word[length] = byte.to_ascii_lowercase();
            }
            length += 1;
        }
    }
    if length > 0 {
        with(&word[..length.min(WORD_BYTES_MAX)]);
    }
}

/// The path without its last index, and whether it had one.
fn base(path: &str) -> (&str, bool) {
    let open = path.ends_with(']').then(|| path.rfind('[')).flatten();
    match open {
        Some(open) => (&path[..open], true),
        None => (path, false),
    }
}

/// The last name of a path.
fn last(path: &str) -> &str {
    let mut path = path;
    while let (shorter, true) = base(path) {
        path = shorter;
    }
    path.rsplit('.').next().unwrap_or(path)
}

/// Strings from `at` on that stand in one array.
pub(crate) fn group(args: &[Argument<'_>], at: usize) -> usize {
    let (first, indexed) = base(args[at].path);
    if !indexed {
        return 1;
    }
    let same = |argument: &&Argument<'_>| base(argument.path) == (first, true);
    args[at..].iter().take_while(same).count()
}

pub(super) fn is_arguments(path: &str) -> bool {
    Name::of(path) == Name::Arguments && !last(path).eq_ignore_ascii_case("argv")
}

/// The command whose arguments this group is: a string of the same object, under a name of a command.
pub(super) fn command_before<'a>(
    args: &[Argument<'a>],
    group: &std::ops::Range<usize>,
) -> Option<&'a str> {
    if !is_arguments(args[group.start].path) {
        return None;
    }
    let parent = |path: &str| base(path).0.rfind('.').unwrap_or(0);
    let at = parent(args[group.start].path);
    let same = |argument: &&Argument<'_>| {
        let path = argument.path;
        !base(path).1
            && Name::of(path) == Name::Command
            && parent(path) == at
            && path.get(..at) == args[group.start].path.get(..at)
    };
    args.iter().find(same).map(|argument| argument.text)
}

/// Adds a word of a command, quoted where it is not to be read as anything else.
pub(super) fn push_word(word: &str, plain: bool, out: &mut Vec<u8>) {
    let clean = !word.is_empty()
        && word
            .bytes()
            .all(|byte| CLEAN[usize::from(byte)] && byte != b' ');
    if plain || clean {
        out.extend_from_slice(word.as_bytes());
        return;
    }
    out.push(b'\'');
    for byte in word.bytes() {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
}

/// Whether a text is a path and nothing else.
pub(super) fn is_path(text: &str) -> bool {
    let rooted = text.starts_with(['/', '~', '.']) || text.starts_with("file:") || {
        let bytes = text.as_bytes();
        bytes.len() > 2 && bytes[1] == b':' && matches!(bytes[2], b'\\' | b'/')
    };
    rooted && !text.contains([' ', '\n', ';', '|', '&', '>', '<'])
}

/// Whether a text starts with a call of a function, as no command of a shell does.
fn is_expression(text: &str) -> bool {
    let name = text.trim_start();
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_');
    end.is_some_and(|end| end > 0 && name[end..].starts_with('('))
}

/// Whether a text is the address of a file, as a browser is given it.
fn is_file_url(text: &str) -> bool {
    let text = text.trim_start();
    let text = text.strip_prefix("view-source:").unwrap_or(text);
    let scheme = text.get(..6).unwrap_or_default();
    scheme.eq_ignore_ascii_case("file:/") && !text.contains(' ')
}

/// Writes the line of a file tool that is given this path.
pub(super) fn path(tool: &[u8], text: &[u8], plain: &mut Plain) {
    if memchr::memchr(b'$', text).is_some() {
        let line = [tool, b" ", text].concat();
        shell::plain(&line, Dialect::Posix, plain);
        return;
    }
    let text = text.trim_ascii();
    let mut path = text.strip_prefix(b"view-source:").unwrap_or(text).to_vec();
    for _ in 0..PERCENT_ROUNDS_MAX {
        if memchr::memchr(b'%', &path).is_none() {
            break;
        }
        path = unpercent(&path);
    }
    for byte in &mut path {
        if *byte == b'\\' {
            *byte = b'/';
        }
    }
    for scheme in [&b"file://localhost"[..], b"file://", b"file:"] {
        let start = path.get(..scheme.len());
        if start.is_some_and(|start| start.eq_ignore_ascii_case(scheme)) {
            path.drain(..scheme.len());
            break;
        }
    }
    shell::argv(&[tool, &path], plain);
}

/// Undoes one round of percent-encoding.
fn unpercent(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let pair = match text[at..] {
            [b'%', ref high, ref low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        match pair {
            Some((high, low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// Whether only cmd.exe or PowerShell would understand a text.
pub(super) fn may_be_windows(text: &[u8]) -> bool {
    const WORDS: [&str; 14] = [
        "powershell",
        "pwsh",
        "iex",
        "invoke-",
        "-item",
        "new-object",
        "cmd",
        "reg ",
        "schtasks",
        "iwr",
        "irm ",
        "mppreference",
        "start-process",
        "frombase64",
    ];
    static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(WORDS)
            .expect("a few words fit an automaton")
    });
    memchr::memchr3(b'^', b'%', b'\\', text).is_some()
        || memchr::memchr(b'`', text).is_some()
        || AUTOMATON.is_match(text)
}

/// Names of commands that a text of an unknown argument is taken for a command by.
const KNOWN: [&str; 198] = [
    "alias",
    "aria2c",
    "ash",
    "at",
    "auditctl",
    "awk",
    "aws",
    "az",
    "base32",
    "base64",
    "bash",
    "batch",
    "blkdiscard",
    "brew",
    "builtin",
    "bun",
    "busybox",
    "bzip2",
    "cargo",
    "cat",
    "certutil",
    "chattr",
    "chgrp",
    "chmod",
    "chown",
    "chroot",
    "chsh",
    "clear-disk",
    "cmd",
    "command",
    "conda",
    "cp",
    "crontab",
    "csh",
    "curl",
    "dash",
    "dd",
    "del",
    "deltree",
    "dig",
    "diskpart",
    "disown",
    "doas",
    "docker",
    "dpkg",
    "dropdb",
    "echo",
    "env",
    "erase",
    "eval",
    "exec",
    "export",
    "fdisk",
    "find",
    "fish",
    "format",
    "ftp",
    "gawk",
    "gcloud",
    "gdisk",
    "gem",
    "gh",
    "git",
    "go",
    "gpg",
    "grep",
    "gsutil",
    "gunzip",
    "gzip",
    "halt",
    "hdparm",
    "head",
    "helm",
    "history",
    "host",
    "icacls",
    "iex",
    "init",
    "insmod",
    "install",
    "invoke-expression",
    "invoke-restmethod",
    "invoke-webrequest",
    "iptables",
    "irm",
    "iwr",
    "journalctl",
    "kexec",
    "kill",
    "killall",
    "ksh",
    "kubectl",
    "launchctl",
    "less",
    "ln",
    "lua",
    "lvremove",
    "mkfifo",
    "mkfs",
    "mknod",
    "modprobe",
    "more",
    "mount",
    "mshta",
    "mv",
    "mysql",
    "nc",
    "ncat",
    "netcat",
    "netsh",
    "ngrok",
    "nice",
    "nmap",
    "node",
    "nohup",
    "npm",
    "npx",
    "nsenter",
    "nslookup",
    "openssl",
    "passwd",
    "perl",
    "php",
    "pip",
    "pip3",
    "pipx",
    "pkexec",
    "pkill",
    "pnpm",
    "podman",
    "poweroff",
    "powershell",
    "printenv",
    "printf",
    "psql",
    "pwsh",
    "python",
    "python3",
    "rclone",
    "rd",
    "read_file",
    "reboot",
    "redis-cli",
    "reg",
    "regsvr32",
    "remove-item",
    "rev",
    "rimraf",
    "rm",
    "rmdir",
    "rmmod",
    "rsync",
    "ruby",
    "rundll32",
    "sc",
    "schtasks",
    "scp",
    "screen",
    "sed",
    "set-mppreference",
    "setcap",
    "setenforce",
    "setfacl",
    "setsid",
    "sftp",
    "sgdisk",
    "sh",
    "shred",
    "shutdown",
    "socat",
    "source",
    "ssh",
    "strings",
    "su",
    "sudo",
    "sysctl",
    "systemctl",
    "tac",
    "tail",
    "tar",
    "tcsh",
    "tee",
    "telnet",
    "terraform",
    "timeout",
    "tmux",
    "truncate",
    "ufw",
    "unset",
    "useradd",
    "usermod",
    "vssadmin",
    "wget",
    "wipefs",
    "write_file",
    "xargs",
    "xxd",
    "zsh",
];

/// Whether this is the name of a command.
pub(super) fn is_known(name: &str) -> bool {
    let mut lower = [0; 24];
    let Some(lower) = lower.get_mut(..name.len()) else {
        return false;
    };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    let name: &[u8] = lower;
    KNOWN
        .binary_search_by(|known| known.as_bytes().cmp(name))
        .is_ok()
        || name.starts_with(b"mkfs.")
        || name == b"."
}

/// Whether a text starts with the name of a command, with or without its directory.
fn starts_known(text: &str) -> bool {
    is_known(first(text))
}

fn first(text: &str) -> &str {
    let text = text.trim_start();
    let end = text
        .find([' ', '\t', '\n', ';', '|', '&', '>', '<'])
        .unwrap_or(text.len());
    let word = &text[..end];
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a text of an unknown argument could be a command.
pub(super) fn looks_like_command(text: &str) -> bool {
    let word = first(text);
    // A name that is written in a strange way is looked at more closely.
    is_known(word) || word.bytes().any(|byte| !CLEAN[usize::from(byte)]) || smuggles(text)
}

/// Whether a short text goes on as a command behind what ends one: `8.8.8.8; cat x`, as it is put into a name.
pub(super) fn smuggles(text: &str) -> bool {
    let parts = || text.split([';', '|', '&', '\n', '`']).skip(1);
    text.len() <= SMUGGLED_BYTES_MAX && parts().any(starts_known)
}

/// The first word of a command.
pub(super) fn head(text: &[u8]) -> &[u8] {
    let end = text.iter().position(u8::is_ascii_whitespace);
    &text[..end.unwrap_or(text.len())]
}

/// Whether the name of a command on this line has a word with letters of two scripts.
pub(super) fn mixes_scripts(line: &[u8]) -> bool {
    if line.is_ascii() {
        return false;
    }
    let starts = memchr::memmem::find_iter(line, b" | ").map(|at| at + 3);
    std::iter::once(0).chain(starts).any(|start| {
        let name = String::from_utf8_lossy(head(&line[start..]));
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        words.any(|word| {
            word.contains(|c: char| c.is_ascii_alphabetic())
                && word.contains(|c: char| !c.is_ascii() && c.is_alphabetic())
        })
    })
}

/// Whether one of the first of these lines has a known command.
pub(super) fn starts_with_known(plain: &Plain) -> bool {
    let named = |text: &[u8]| {
        let end = text
            .iter()
            .position(|b| matches!(b, b' ' | b'\n'))
            .unwrap_or(text.len());
        std::str::from_utf8(&text[..end])
            .is_ok_and(|name| name != "export" && is_known(name) || name == ":|:&")
    };
    let known = |line: &shell::Line| {
        let text = &plain.text[line.text.clone()];
        let mut piped = memchr::memmem::find_iter(text, b" | ").map(|at| &text[at + 3..]);
        named(text) || piped.any(named)
    };
    plain.lines.iter().take(8).any(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_sorted() {
        assert!(KNOWN.is_sorted());
    }

    #[test]
    fn names_decide() {
        let role = |tool: &str, path: &str, text: &str| Tool::of(tool).role(path, text);
        assert_eq!(role("run_command", "command", "x"), Role::Command);
        assert_eq!(role("runCommand", "options.cmd", "x"), Role::Command);
        assert_eq!(role("bash", "description", "x"), Role::Text);
        assert_eq!(role("write_file", "path", "x"), Role::Write);
        assert_eq!(role("write_file", "content", "x"), Role::Text);
        assert_eq!(role("write_file", "content", "#!/bin/sh\n"), Role::Script);
        assert_eq!(role("read_file", "file_path", "x"), Role::Read);
        assert_eq!(role("move_file", "source", "x"), Role::Read);
        assert_eq!(role("move_file", "destination", "x"), Role::Write);
        assert_eq!(role("send_message", "text", "x"), Role::Text);
        assert_eq!(role("run_python", "code", "x"), Role::Code);
        assert_eq!(role("mystery", "thing", "x y"), Role::Unknown);
        assert_eq!(role("execute_sql", "query", "x"), Role::Command);
    }

    #[test]
    fn arrays_are_groups() {
        let argument = |path| Argument { path, text: "" };
        let args = [
            argument("command"),
            argument("args[0]"),
            argument("args[1]"),
            argument("env[0]"),
        ];
        assert_eq!(group(&args, 0), 1);
        assert_eq!(group(&args, 1), 2);
        assert_eq!(group(&args, 3), 1);
        assert!(command_before(&args, &(1..3)).is_some());
        assert!(command_before(&args, &(3..4)).is_none());
    }
}
