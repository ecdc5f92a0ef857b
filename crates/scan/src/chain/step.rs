//! What kind of step a call is, by the names of its tool and arguments and by the commands in it.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::command::{Argument, Hit, Role, Tool, group, words};
use crate::shell::{self, Dialect, Plain};

/// It runs a command.
pub(super) const SHELL: u16 = 1;
/// It reads a file that holds secrets, or a secret was found in it.
pub(super) const SECRET: u16 = 1 << 1;
/// It reads a file.
pub(super) const READ: u16 = 1 << 2;
/// It lists files.
pub(super) const LIST: u16 = 1 << 3;
/// It asks who and where it is.
pub(super) const RECON: u16 = 1 << 4;
/// It reads the environment.
pub(super) const ENVIRONMENT: u16 = 1 << 5;
/// It talks to another machine.
pub(super) const NETWORK: u16 = 1 << 6;
/// It gives data to another machine.
pub(super) const DATA: u16 = 1 << 7;
/// It encodes, packs or encrypts.
pub(super) const ENCODE: u16 = 1 << 8;
/// It deletes.
pub(super) const DELETE: u16 = 1 << 9;
/// It changes what runs by itself.
pub(super) const PERSIST: u16 = 1 << 10;
/// It brings a file from another machine.
pub(super) const DOWNLOAD: u16 = 1 << 11;
/// It reads all of the environment, and looks for nothing in it.
pub(super) const ALL: u16 = 1 << 12;
/// It asks a URL, and carries something in it or with it.
pub(super) const CARRIES: u16 = 1 << 13;
/// It reads settings that hold passwords as a rule.
pub(super) const CONFIG: u16 = 1 << 14;

/// It asks a store of secrets for one, as its name says.
pub(super) const STORE: u16 = 1 << 15;

/// Names of files that are kept of one step.
const NAMES_MAX: usize = 4;
/// Bytes of a text that are looked at for what kind it is.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of a query that can carry data.
const QUERY_BYTES_MIN: usize = 16;

/// What is kept of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    kinds: u16,
    /// Hashes of the names of files that it wrote or downloaded and that could run.
    left: [u64; NAMES_MAX],
    /// Hashes of the names of files that it runs.
    run: [u64; NAMES_MAX],
}

impl Step {
    /// What this call is. `hits` are what the rules about commands found in it; `secret` says that a secret
    /// was found in what it sends or brings back.
    pub fn of(tool: &str, args: &[Argument<'_>], hits: &[Hit], secret: bool) -> Step {
        let mut step = Step::default();
        for hit in hits {
            step.kinds |= match hit.rule {
                "credential_file"
                | "project_secret_file"
                | "secret_reveal"
                | "command_metadata_service" => SECRET | READ,
                "persistence_write"
                | "shell_profile_write"
                | "command_cron"
                | "command_service" => PERSIST,
                "command_file_upload" | "command_post_data" => NETWORK | DATA,
                "command_reverse_shell" | "command_download_execute" => NETWORK | DOWNLOAD,
                _ => 0,
            };
        }
        if secret {
            step.kinds |= SECRET;
        }
        step.tool(tool, args);
        let kind = Tool::of(tool);
        let mut at = 0;
        while at < args.len() {
            let length = group(args, at);
            step.arguments(tool, kind, &args[at..at + length]);
            at += length;
        }
        let file = args
            .iter()
            .find(|argument| matches!(kind.role(argument.path, argument.text), Role::Write));
        if let Some(file) = file {
            let body = args
                .iter()
                .map(|argument| argument.text)
                .filter(|text| text.len() > file.text.len());
            let body = body.max_by_key(|text| text.len()).unwrap_or("");
            if kind == Tool::Write && can_run(file.text, body) {
                step.leaves(name(file.text));
            }
        }
        step
    }

    /// What the tool's name says.
    fn tool(&mut self, tool: &str, args: &[Argument<'_>]) {
        let url = args.iter().any(|argument| is_remote(argument.text));
        words(tool, &mut |word| {
            self.kinds |= match word {
                b"list" | b"ls" | b"tree" | b"glob" | b"directory" | b"enumerate" => LIST,
                b"read" | b"get" | b"cat" | b"view" | b"open" | b"load" => READ,
                b"env" | b"environment" | b"getenv" | b"printenv" => ENVIRONMENT,
                b"whoami" | b"hostname" | b"users" | b"processes" => RECON,
                b"encode" | b"base64" | b"compress" | b"zip" | b"archive" | b"encrypt"
                | b"gzip" | b"tar" | b"hex" => ENCODE,
                b"post" | b"upload" | b"webhook" | b"publish" | b"tweet" | b"email" | b"mail"
                | b"send" | b"notify" | b"slack" | b"exfil" | b"submit" | b"share" => {
                    NETWORK | DATA
                }
                b"http" | b"fetch" | b"request" | b"curl" | b"wget" | b"browse" | b"navigate"
                | b"url" | b"api" | b"dns" | b"web"
                    if url =>
                {
                    NETWORK
                }
                b"discord" | b"telegram" | b"sms" | b"whatsapp" | b"gist" | b"pastebin" => {
                    NETWORK | DATA
                }
                b"download" => NETWORK | DOWNLOAD,
                b"delete" | b"remove" | b"rm" | b"unlink" => DELETE,
                _ => 0,
            }
        });
        if names_any(tool, &STORES) && self.is(READ) {
            self.kinds |= STORE;
        }
        if names_any(tool, &PAGES) && names_any(tool, &WRITES) {
            self.kinds |= NETWORK | DATA;
        }
        if self.is(NETWORK) && args.iter().any(|argument| carries_data(argument)) {
            self.kinds |= DATA;
        }
        let asks = |argument: &Argument<'_>| is_remote(argument.text) && has_query(argument.text);
        if self.is(NETWORK) && url && (self.is(DATA) || args.iter().any(asks)) {
            self.kinds |= CARRIES;
        }
        // A file that is read is not a network address, whatever the tool is called.
        if self.kinds & READ != 0 && url {
            self.kinds &= !READ;
        }
    }

    /// What the strings of one array, or one string, say.
    fn arguments(&mut self, tool: &str, kind: Tool, words: &[Argument<'_>]) {
        let Argument { path, text } = words[0];
        match kind.role(path, text) {
            Role::Command | Role::Code => {}
            Role::Read if kind == Tool::Shell || kind == Tool::Code => {
                self.runs_file(name(text));
                return;
            }
            Role::Read if self.is(DOWNLOAD) && !is_remote(text) => {
                self.leaves(name(text));
                return;
            }
            Role::Read => {
                self.kinds |= words
                    .iter()
                    .map(|word| held(word.text))
                    .fold(0, |a, b| a | b);
                return;
            }
            Role::Write if self.is(DOWNLOAD) => {
                self.leaves(name(text));
                return;
            }
            _ => return,
        }
        self.kinds |= SHELL;
        let joined: String;
        let text = match words.len() {
            1 => text,
            _ => {
                let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
                joined = texts.join(if text.contains(' ') { "\n" } else { " " });
                joined.as_str()
            }
        };
        let text = &text.as_bytes()[..text.len().min(TEXT_BYTES_MAX)];
        let mut plain = Plain::default();
        match Tool::of(tool) {
            Tool::Code => shell::code(text, &mut plain),
            _ => shell::plain(text, Dialect::Posix, &mut plain),
        }
        for line in plain.text.split(|byte| *byte == b'\n') {
            let stages = stages(line);
            for stage in &stages {
                self.stage(stage);
            }
            if stages.first().is_some_and(|stage| lists_environment(stage)) {
                let whole = stages.iter().skip(1).all(|stage| {
                    let head = stage.split(|byte| *byte == b' ').next().unwrap_or_default();
                    [&b"sort"[..], b"cat", b"tee", b"less", b"base64", b"uniq"].contains(&head)
                });
                self.kinds |= if whole { ALL } else { 0 };
            }
        }
    }

    /// What one command says.
    fn stage(&mut self, stage: &[u8]) {
        let words: Vec<&[u8]> = stage.split(|byte| *byte == b' ').collect();
        let (head, rest) = (words[0], &words[1..]);
        let text = String::from_utf8_lossy(stage);
        let file = rest.iter().find(|word| !word.starts_with(b"-"));
        if READERS.contains(&head) {
            let held = rest.iter().map(|word| held(&String::from_utf8_lossy(word)));
            self.kinds |= held.fold(0, |a, b| a | b);
        }
        let has = |part: &str| text.contains(part);
        self.kinds |= match head {
            b"ls" | b"find" | b"tree" | b"dir" | b"fd" | b"locate" => {
                let far = [" /", " ~", " /root", " /home", " /etc"];
                let roots = rest.iter().any(|word| {
                    matches!(
                        *word,
                        b"/" | b"/root" | b"/home" | b"/etc" | b"/root/" | b"/home/" | b"/etc/"
                    ) || word.starts_with(b"/root/")
                        || memchr::memmem::find(word, b".ssh").is_some()
                });
                if roots && far.iter().any(|part| has(part)) {
                    LIST | RECON
                } else {
                    LIST
                }
            }
            b"whoami" | b"id" | b"uname" | b"hostname" | b"ps" | b"netstat" | b"ss"
            | b"ifconfig" | b"ip" | b"arp" | b"last" | b"w" | b"who" | b"groups" | b"getent"
            | b"lsof" | b"ipconfig" | b"systeminfo" | b"net" | b"tasklist" | b"route" | b"nmap"
            | b"masscan" | b"arp-scan" | b"lscpu" | b"mount" | b"df" | b"dmesg" | b"finger"
            | b"users" | b"lastlog" | b"crontab" | b"lsblk" => RECON,
            b"python" | b"python3" | b"node"
                if has("dict(os.environ")
                    || has("print(os.environ)")
                    || has("log(process.env)") =>
            {
                ENVIRONMENT | ALL
            }
            b"sudo" if rest.contains(&&b"-l"[..]) => RECON,
            b"env" | b"printenv" if rest.is_empty() => ENVIRONMENT | RECON,
            b"set" | b"export" | b"declare" if rest.is_empty() || rest == [b"-p"] => ENVIRONMENT,
            b"cat" | b"head" | b"tail" | b"less" | b"more" | b"grep" | b"strings" | b"awk"
            | b"sed" | b"type" | b"get-content" | b"xxd" | b"od" => {
                if has(" /etc/passwd")
                    || has(" /etc/group")
                    || has(" /etc/hosts")
                    || has(" /etc/os-release")
                {
                    READ | RECON
                } else {
                    READ
                }
            }
            b"base64" | b"base32" | b"zip" | b"7z" | b"gpg" | b"gzip" | b"xz" | b"bzip2"
            | b"zstd"
                if !has(" -d") && !has(" --decode") && !has(" --decrypt") =>
            {
                ENCODE
            }
            b"tar" if rest.first().is_some_and(|flags| flags.contains(&b'c')) => ENCODE,
            b"openssl" if has(" enc") || has(" base64") => ENCODE,
            b"rm" | b"shred" | b"unlink" | b"srm" | b"del" => DELETE,
            b"ssh" | b"scp" | b"sftp" | b"ftp" | b"nc" | b"ncat" | b"netcat" | b"telnet"
            | b"socat" | b"rsync" => NETWORK | DATA,
            b"dig" | b"nslookup" | b"host" => NETWORK,
            b"curl" | b"wget" | b"invoke-webrequest" | b"invoke-restmethod" | b"iwr" | b"irm"
            | b"http" | b"xh" | b"aria2c" => self.fetch(rest),
            _ => 0,
        };
        match head {
            b"sh" | b"bash" | b"zsh" | b"dash" | b"ksh" | b"source" | b"." | b"python"
            | b"python3" | b"perl" | b"ruby" | b"node" | b"php" | b"powershell" | b"pwsh"
            | b"exec" | b"start" | b"mshta" | b"wscript" | b"cscript" | b"rundll32" => {
                if let Some(file) = file {
                    self.runs_file(name(&String::from_utf8_lossy(file)));
                }
            }
            // A name that is no command's may be a file's.
            _ => self.runs_file(name(&String::from_utf8_lossy(head))),
        }
        self.redirected(&words);
    }

    /// `curl` and its kin.
    fn fetch(&mut self, rest: &[&[u8]]) -> u16 {
        let words: Vec<_> = rest
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect();
        let remote = words.iter().any(|word| is_remote(word))
            || words
                .iter()
                .any(|word| !word.starts_with('-') && word.contains('.') && !is_local(word));
        if !remote {
            return 0;
        }
        let mut kinds = NETWORK;
        for (i, word) in words.iter().enumerate() {
            let sends = [
                "-d",
                "--data",
                "-F",
                "--form",
                "-T",
                "--upload-file",
                "--json",
                "--post-",
            ];
            let sends =
                sends.iter().any(|flag| word.starts_with(flag)) && !word.starts_with("--dump");
            let query = word
                .split_once('?')
                .is_some_and(|(_, query)| query.len() >= QUERY_BYTES_MIN);
            if sends || query || word.contains("$(") {
                kinds |= DATA | CARRIES;
            }
            if has_query(word) {
                kinds |= CARRIES;
            }
            let output = match word.as_ref() {
                "-o" | "-O" | "--output" | "--output-document" | "-OutFile" => words.get(i + 1),
                _ => None,
            };
            if let Some(file) = output {
                kinds |= DOWNLOAD;
                self.leaves(name(file));
            }
            if word.contains("://") {
                // `wget` and `curl -O` name the file as the address does.
                self.leaves(name(word));
            }
        }
        kinds
    }

    /// Files that a command writes by redirection.
    fn redirected(&mut self, words: &[&[u8]]) {
        for pair in words.windows(2) {
            if matches!(pair[0], b">" | b">>") {
                let file = String::from_utf8_lossy(pair[1]);
                let text = words
                    .iter()
                    .map(|word| String::from_utf8_lossy(word))
                    .collect::<Vec<_>>();
                if can_run(&file, &text.join(" ").replace('\t', " ")) {
                    self.leaves(name(&file));
                }
            }
        }
    }

    fn leaves(&mut self, name: &str) {
        put(&mut self.left, name);
    }

    fn runs_file(&mut self, name: &str) {
        put(&mut self.run, name);
    }

    /// Whether it is of one of these kinds.
    pub(super) fn is(&self, kinds: u16) -> bool {
        self.kinds & kinds != 0
    }

    pub(super) fn is_nothing(&self) -> bool {
        *self == Step::default()
    }

    pub(super) fn left(&self) -> impl Iterator<Item = u64> {
        self.left.into_iter().filter(|name| *name != 0)
    }

    pub(super) fn runs(&self, name: u64) -> bool {
        self.run.contains(&name)
    }
}

fn put(names: &mut [u64; NAMES_MAX], name: &str) {
    if name.len() < 2 {
        return;
    }
    let mut hasher = DefaultHasher::new();
    name.to_ascii_lowercase().hash(&mut hasher);
    let hash = hasher.finish().max(1);
    if names.contains(&hash) {
        return;
    }
    // The latest are the ones that count.
    let at = names.iter().position(|name| *name == 0).unwrap_or_else(|| {
        names.rotate_left(1);
        NAMES_MAX - 1
    });
    names[at] = hash;
}

fn stages(line: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in memchr::memmem::find_iter(line, b" | ") {
        if at >= start {
            parts.push(&line[start..at]);
            start = at + 3;
        }
    }
    parts.push(&line[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// The last name of a path or an address.
fn name(path: &str) -> &str {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = path.trim_end_matches(['/', '\\', '\t', ' ']);
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Whether a file that is written could do harm when it runs: it says that it is a program, it lies where
/// programs that nobody wants lie, or it talks to other machines.
fn can_run(path: &str, body: &str) -> bool {
    const PROGRAMS: [&str; 22] = [
        ".sh", ".bash", ".zsh", ".ps1", ".bat", ".cmd", ".vbs", ".exe", ".com", ".scr", ".py",
        ".pl", ".rb", ".js", ".php", ".bin", ".elf", ".run", ".command", ".hta", ".jar", ".so",
    ];
    const REACHES: [&str; 17] = [
        "curl ",
        "wget ",
        "/dev/tcp/",
        "socket",
        "http://",
        "https://",
        "nc -",
        "ncat ",
        "base64",
        "exec(",
        "eval ",
        "invoke-",
        "/etc/passwd",
        "/etc/shadow",
        ".ssh",
        "rm -rf",
        "requests.post",
    ];
    let lower = path.to_ascii_lowercase();
    let program = PROGRAMS.iter().any(|ending| lower.ends_with(ending));
    let temporary = ["/tmp/", "/var/tmp/", "/dev/shm/", "\\temp\\", "/temp/"]
        .iter()
        .any(|place| lower.contains(place));
    let plain = !name(&lower).contains('.');
    let end = body.floor_char_boundary(body.len().min(TEXT_BYTES_MAX));
    let body = body[..end].to_ascii_lowercase();
    let reaches = REACHES.iter().any(|word| body.contains(word));
    body.starts_with("#!") || (program && (temporary || reaches)) || (plain && temporary && reaches)
}

/// What keeps secrets, in the name of a tool.
const STORES: [&[u8]; 6] = [
    b"secret",
    b"vault",
    b"credential",
    b"credentials",
    b"keychain",
    b"keyring",
];
/// What many people read, and the words for writing it.
const PAGES: [&[u8]; 5] = [b"issue", b"comment", b"ticket", b"paste", b"discussion"];
const WRITES: [&[u8]; 5] = [b"create", b"add", b"open", b"new", b"write"];

/// Whether the name of a tool has one of these words.
fn names_any(tool: &str, any: &[&[u8]]) -> bool {
    let mut found = false;
    words(tool, &mut |word| found |= any.contains(&word));
    found
}

/// Commands that show what a file holds.
const READERS: [&[u8]; 12] = [
    b"cat", b"head", b"tail", b"less", b"more", b"strings", b"xxd", b"od", b"base64", b"bat",
    b"nl", b"type",
];

/// What a file holds, by its name: keys and passwords, or settings with passwords among them.
fn held(path: &str) -> u16 {
    const KEYS: [&str; 7] = [".key", ".pem", ".ppk", ".p12", ".pfx", ".kdbx", ".keystore"];
    const PUBLIC: [&str; 6] = ["pub", "cert", "ca.", "ca-", "chain", "bundle"];
    const DATA_ENDINGS: [&str; 9] = [
        ".json", ".yml", ".yaml", ".txt", ".ini", ".toml", ".csv", ".conf", ".xml",
    ];
    const SETTINGS: [&str; 8] = [
        "database.yml",
        "application.yml",
        "application.yaml",
        "application.properties",
        "local_settings.py",
        "config.php",
        "settings.php",
        "web.config",
    ];
    let name = name(path).to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if ends(&KEYS) && !PUBLIC.iter().any(|part| name.contains(part)) {
        return SECRET;
    }
    let named = ["credentials", "passwords", "passwd"]
        .iter()
        .any(|part| name.contains(part));
    if named && ends(&DATA_ENDINGS) {
        return SECRET;
    }
    let settings = name.starts_with("appsettings") && name.ends_with(".json");
    match settings || SETTINGS.contains(&name.as_str()) {
        true => CONFIG,
        false => 0,
    }
}

/// Whether a command writes all of the environment out.
fn lists_environment(stage: &[u8]) -> bool {
    matches!(
        stage,
        b"env" | b"printenv" | b"export -p" | b"declare -x" | b"set"
    )
}

/// Whether a URL has a query.
fn has_query(url: &str) -> bool {
    url.split_once('?')
        .is_some_and(|(_, query)| !query.is_empty())
}

pub(super) fn is_remote(text: &str) -> bool {
    let remote = |at: usize| {
        let mut schemes = ["http", "https", "ftp", "ws", "wss"].iter();
        schemes.any(|scheme| text[..at].ends_with(scheme)) && !is_local(&text[at + "://".len()..])
    };
    crate::joined::SCHEME_END
        .find_iter(text.as_bytes())
        .any(remote)
}

fn is_local(host: &str) -> bool {
    crate::command::LOCAL
        .iter()
        .any(|name| host.starts_with(name))
}

/// Whether an argument of a tool that talks to others gives them something.
fn carries_data(argument: &Argument<'_>) -> bool {
    let query = argument.text.split_once('?').map_or("", |(_, query)| query);
    let mut data = query.len() >= QUERY_BYTES_MIN && is_remote(argument.text);
    let last = argument.path.rsplit('.').next().unwrap_or(argument.path);
    words(last, &mut |word| {
        data |= matches!(
            word,
            b"body"
                | b"data"
                | b"payload"
                | b"json"
                | b"content"
                | b"form"
                | b"file"
                | b"attachment"
                | b"text"
        );
        data |= word == b"method" && ["POST", "PUT", "PATCH"].contains(&argument.text);
    });
    data
}
