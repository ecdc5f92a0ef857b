//! Commands that run other commands: `sudo`, `env`, `xargs`, `sh -c`, `eval`, `find -exec` and their kin.

use super::evaluate;
use super::expand::written;

/// What a command runs.
pub(super) enum Inner {
    None,
    /// Another command.
    Argv(Vec<Vec<u8>>),
    /// A script of the shell.
    Script(Vec<u8>),
    /// A script of cmd.exe or PowerShell, with what was undone to read it.
    Windows(Vec<u8>, &'static str),
    /// Several scripts.
    Scripts(Vec<Vec<u8>>),
    /// What it reads from its standard input.
    Input,
}

/// Commands whose first words that are not options are a command: name, options that take a value, and
/// words that come before the command.
const PREFIXES: [(&str, &[&str], usize); 35] = [
    (
        "sudo",
        &[
            "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t",
        ],
        0,
    ),
    ("doas", &["-u", "-C"], 0),
    ("env", &["-u", "-C", "--unset", "--chdir"], 0),
    ("nice", &["-n"], 0),
    ("ionice", &["-c", "-n", "-p"], 0),
    ("nohup", &[], 0),
    ("setsid", &[], 0),
    ("command", &[], 0),
    ("builtin", &[], 0),
    ("exec", &["-a"], 0),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    ("gtimeout", &["-s", "-k"], 1),
    ("stdbuf", &["-i", "-o", "-e"], 0),
    (
        "xargs",
        &["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "-i"],
        0,
    ),
    ("busybox", &[], 0),
    ("toybox", &[], 0),
    ("chroot", &[], 1),
    ("unshare", &[], 0),
    ("nsenter", &["-t", "--target", "-S", "-G"], 0),
    ("strace", &["-o", "-e", "-p", "-s"], 0),
    ("ltrace", &["-o", "-e", "-p", "-s"], 0),
    ("taskset", &["-c"], 1),
    ("caffeinate", &["-t", "-w"], 0),
    ("systemd-run", &["-u", "-p", "-M", "--unit"], 0),
    ("setarch", &[], 1),
    ("proot", &["-r", "-b"], 0),
    ("firejail", &[], 0),
    ("dbus-run-session", &["--"], 0),
    ("torsocks", &[], 0),
    ("proxychains", &["-f"], 0),
    ("proxychains4", &["-f"], 0),
    ("daemonize", &["-c", "-e", "-o", "-p"], 0),
    ("start-stop-daemon", &["-x", "-p"], 0),
    ("winpty", &[], 0),
    ("wsl", &["-d", "-u"], 0),
];

/// Shells, and languages that can run commands.
const SHELLS: [&[u8]; 10] = [
    b"sh", b"bash", b"dash", b"zsh", b"ksh", b"ash", b"fish", b"csh", b"tcsh", b"rbash",
];
const LANGUAGES: [&str; 10] = [
    "python",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "php",
    "lua",
    "deno",
    "bun",
    "osascript",
];

/// What this command runs.
pub(super) fn unwrap(argv: &[Vec<u8>]) -> Inner {
    let Some((name, rest)) = argv.split_first() else {
        return Inner::None;
    };
    let text = std::str::from_utf8(name).unwrap_or("");
    if let Some((_, valued, before)) = PREFIXES.iter().find(|(prefix, ..)| *prefix == text) {
        return prefixed(text, rest, valued, *before);
    }
    if SHELLS.contains(&name.as_slice()) {
        return shell(rest);
    }
    let language = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if LANGUAGES.contains(&language) {
        return Inner::Scripts(language_scripts(rest));
    }
    match text {
        "eval" | "watch" | "parallel" | "iex" | "invoke-expression" => joined(rest),
        "su" | "runuser" | "script" | "flock" => after(rest, &[b"-c", b"--command"]),
        "trap" => rest
            .first()
            .map_or(Inner::None, |text| Inner::Script(written(text))),
        "alias" => Inner::Scripts(rest.iter().filter_map(|word| aliased(word)).collect()),
        "ssh" => remote(rest),
        "source" | "." if rest.first().is_some_and(|file| file == b"/dev/stdin") => Inner::Input,
        "at" | "batch" => Inner::Input,
        "find" | "fd" => find(rest),
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "crictl" | "lxc" => container(rest),
        "tmux" | "screen" | "konsole" | "xterm" | "gnome-terminal" => {
            let last = rest.last().filter(|word| !word.starts_with(b"-"));
            last.map_or(Inner::None, |text| Inner::Script(written(text)))
        }
        "awk" | "gawk" | "mawk" => Inner::Scripts(strings_of(rest)),
        "vim" | "vi" | "nvim" | "ex" | "view" | "less" => Inner::Scripts(escaped(rest)),
        "man" => after(rest, &[b"-P", b"--pager"]),
        "tar" | "bsdtar" => Inner::Scripts(rest.iter().filter_map(|word| hooked(word)).collect()),
        "cmd" => windows(rest, &[b"/c", b"/k", b"/r"]),
        "powershell" | "pwsh" => powershell(rest),
        "start" => Inner::Argv(
            rest.iter()
                .skip_while(|word| word.starts_with(b"/"))
                .cloned()
                .collect(),
        ),
        _ => Inner::None,
    }
}

fn prefixed(name: &str, rest: &[Vec<u8>], valued: &[&str], before: usize) -> Inner {
    let mut words = rest.iter();
    let mut left = before;
    let mut at = 0;
    while let Some(word) = words.next() {
        let text = std::str::from_utf8(word).unwrap_or("");
        if name == "env" && (text == "-S" || text == "--split-string") {
            return Inner::Script(written(&rest[at + 1..].join(&b' ')));
        }
        if text == "--" {
            at += 1;
            break;
        }
        let assignment = text.contains('=') && !text.contains('/') && !text.starts_with('-');
        if valued.contains(&text) {
            words.next();
            at += 1;
        } else if !text.starts_with('-') && !assignment {
            if left == 0 {
                break;
            }
            left -= 1;
        }
        at += 1;
    }
    match rest.get(at..) {
        Some(inner) if !inner.is_empty() => Inner::Argv(inner.to_vec()),
        _ => Inner::None,
    }
}

fn shell(rest: &[Vec<u8>]) -> Inner {
    for (i, word) in rest.iter().enumerate() {
        let flags = word.starts_with(b"-") && !word.starts_with(b"--");
        if flags && word.contains(&b'c') {
            let script = rest[i + 1..].iter().find(|word| !word.starts_with(b"-"));
            return script.map_or(Inner::None, |text| Inner::Script(written(text)));
        }
        if !word.starts_with(b"-") {
            return match word.as_slice() {
                b"/dev/stdin" => Inner::Input,
                _ => Inner::None,
            };
        }
    }
    Inner::Input
}

fn joined(rest: &[Vec<u8>]) -> Inner {
    let words = rest.iter().skip_while(|word| word.starts_with(b"-"));
    let words: Vec<&[u8]> = words.map(Vec::as_slice).collect();
    match words.is_empty() {
        true => Inner::None,
        false => Inner::Script(written(&words.join(&b' '))),
    }
}

fn after(rest: &[Vec<u8>], flags: &[&[u8]]) -> Inner {
    let at = rest
        .iter()
        .position(|word| flags.contains(&word.as_slice()));
    match at.and_then(|at| rest.get(at + 1)) {
        Some(script) => Inner::Script(written(script)),
        None => Inner::None,
    }
}

/// The commands that an editor or a pager is told to run: behind a `!`, and in the strings of its scripts.
fn escaped(rest: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let behind = rest.iter().filter_map(|word| {
        let mark = memchr::memchr(b'!', word).filter(|mark| *mark <= 3)?;
        Some(written(&word[mark + 1..]))
    });
    behind.chain(strings_of(rest)).collect()
}

/// The command that `tar` runs for each file, or after some.
fn hooked(word: &[u8]) -> Option<Vec<u8>> {
    const HOOKS: [&[u8]; 3] = [
        b"--to-command=",
        b"--checkpoint-action=exec=",
        b"--use-compress-program=",
    ];
    let script = HOOKS.iter().find_map(|hook| word.strip_prefix(*hook))?;
    Some(written(script))
}

fn aliased(word: &[u8]) -> Option<Vec<u8>> {
    let equals = memchr::memchr(b'=', word)?;
    Some(written(&word[equals + 1..]))
}

/// What `ssh` runs on the other side.
fn remote(rest: &[Vec<u8>]) -> Inner {
    const VALUED: &[u8] = b"BbcDEeFIiJLlmOopQRSWw";
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        match word.as_slice() {
            [b'-', flag] if VALUED.contains(flag) => at += 2,
            [b'-', ..] => at += 1,
            _ => break,
        }
    }
    joined(rest.get(at + 1..).unwrap_or_default())
}

fn find(rest: &[Vec<u8>]) -> Inner {
    const FLAGS: [&[u8]; 6] = [b"-exec", b"-execdir", b"-ok", b"-okdir", b"-x", b"-X"];
    let Some(at) = rest
        .iter()
        .position(|word| FLAGS.contains(&word.as_slice()))
    else {
        return Inner::None;
    };
    let inner = rest[at + 1..]
        .iter()
        .take_while(|word| !matches!(word.as_slice(), b";" | b"+"));
    Inner::Argv(inner.cloned().collect())
}

/// What runs in a container that runs already: behind `exec`, its options and the container's name.
fn container(rest: &[Vec<u8>]) -> Inner {
    if let Some(at) = rest.iter().position(|word| word == b"--") {
        return Inner::Argv(rest[at + 1..].to_vec());
    }
    let Some(at) = rest.iter().position(|word| word == b"exec") else {
        return Inner::None;
    };
    let mut words = rest[at + 1..].iter();
    while let Some(word) = words.next() {
        match word.as_slice() {
            b"-e" | b"-u" | b"-w" | b"-n" | b"-c" | b"--user" | b"--workdir" => {
                words.next();
            }
            word if word.starts_with(b"-") => {}
            _ => break,
        }
    }
    Inner::Argv(words.cloned().collect())
}

fn windows(rest: &[Vec<u8>], flags: &[&[u8]]) -> Inner {
    let flag = |word: &Vec<u8>| flags.contains(&word.to_ascii_lowercase().as_slice());
    match rest.iter().position(flag) {
        Some(at) => Inner::Windows(written(&rest[at + 1..].join(&b' ')), ""),
        None => Inner::None,
    }
}

fn powershell(rest: &[Vec<u8>]) -> Inner {
    for (i, word) in rest.iter().enumerate() {
        let flag = word.to_ascii_lowercase();
        let flag = flag
            .strip_prefix(b"-")
            .or_else(|| flag.strip_prefix(b"/"))
            .unwrap_or_default();
        let script = &rest[i + 1..];
        let encoded = flag == b"ec" || (!flag.is_empty() && b"encodedcommand".starts_with(flag));
        if encoded && let Some(text) = script.first() {
            let Some(bytes) = evaluate::base64(text) else {
                return Inner::None;
            };
            let units = bytes
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            let text = char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}'));
            return Inner::Windows(text.collect::<String>().into_bytes(), "base64");
        }
        if !flag.is_empty() && b"command".starts_with(flag) {
            return Inner::Windows(written(&script.join(&b' ')), "");
        }
    }
    match rest.first() {
        Some(word) if !word.starts_with(b"-") => Inner::Windows(written(&rest.join(&b' ')), ""),
        _ => Inner::None,
    }
}

/// The commands in the strings of a program that is given on the command line.
fn language_scripts(rest: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let given = |word: &Vec<u8>| {
        word.starts_with(b"-")
            && word
                .iter()
                .any(|flag| matches!(flag, b'c' | b'e' | b'r' | b'E'))
    };
    match rest.iter().position(given) {
        Some(at) => strings_of(&rest[at + 1..]),
        None => Vec::new(),
    }
}

fn strings_of(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let runs = |word: &&Vec<u8>| {
        const RUN: [&[u8]; 9] = [
            b"system",
            b"popen",
            b"subprocess",
            b"exec",
            b"spawn",
            b"shell",
            b"check_output",
            b"!",
            b"`",
        ];
        RUN.iter()
            .any(|run| memchr::memmem::find(word, run).is_some())
    };
    words
        .iter()
        .filter(runs)
        .flat_map(|word| strings(&written(word)))
        .collect()
}

/// The strings of a program; also all of them together, as a list of arguments is written.
fn strings(code: &[u8]) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut at = 0;
    while let Some(open) = code[at..]
        .iter()
        .position(|b| matches!(b, b'\'' | b'"' | b'`'))
    {
        let (quote, start) = (code[at + open], at + open + 1);
        let rest = &code[start..];
        let mut end = 0;
        while end < rest.len() && rest[end] != quote {
            end += 1 + usize::from(rest[end] == b'\\');
        }
        if end >= rest.len() {
            break;
        }
        let mut text = Vec::new();
        evaluate::escapes(&rest[..end], true, &mut |byte| text.push(byte));
        if !text.is_empty() {
            found.push(text);
        }
        at = start + end + 1;
    }
    if found.len() > 1 {
        found.push(found.join(&b' '));
    }
    found
}
