//! From what was written to what holds: the one place that makes [`Settings`].
//!
//! It reads the files and variables that the configuration refers to, checks what one key says about another,
//! and collects every problem. A value that the first stage found wrong is not complained about twice.

mod relay;
mod scanning;
mod tools;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use base::{Digest, Name, Secret};

use super::file::File;
use super::keys::{self, Kind};
use super::problem::Problem;
use super::seen::Seen;
use super::settings::{
    Agent, Ca, ChildServer, Durability, EnvValue, HttpServer, Limits, Log, LogFormat, LogLevel,
    Logs, Policy, PolicyFile, Reference, Server, ServerKind, Settings,
};
use super::values;
use super::yaml::{At, Node, Value};
use super::{FILE_BYTES_MAX, POLICY_BYTES_MAX, SECRET_BYTES_MAX};

pub(crate) use tools::EMBED_KEY;

/// Keys of a server that is a command.
pub(crate) const CHILD_ONLY: &[&str] = &["env", "dir"];
/// Keys of a server that is a URL.
pub(crate) const HTTP_ONLY: &[&str] = &["token", "ca", "addresses"];

/// Looks up a variable of the environment.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Reads and checks a configuration file. Each file that is read, or would be if it were there, is noted,
/// whatever comes of it.
pub(crate) fn load(
    path: &Path,
    environment: Environment<'_>,
    seen: &mut Seen,
) -> Result<Settings, Vec<Problem>> {
    seen.note(path);
    let text = read_text(path, FILE_BYTES_MAX).map_err(|message| {
        let help = "Write one with weir init, or name another with -c FILE.".to_owned();
        let (file, key) = (path.display().to_string(), String::new());
        vec![Problem {
            file,
            line: 0,
            column: 0,
            key,
            message,
            help,
        }]
    })?;
    load_text(path, &text, environment, seen)
}

/// Checks a configuration's text as if it stood in the file `path`.
pub(crate) fn load_text(
    path: &Path,
    text: &str,
    environment: Environment<'_>,
    seen: &mut Seen,
) -> Result<Settings, Vec<Problem>> {
    let (file, mut problems) = File::parse(&path.display().to_string(), text);
    let Some(file) = file else {
        return Err(problems);
    };
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut read = Read {
        file: &file,
        folder,
        environment,
        seen,
        problems: Vec::new(),
        warnings: Vec::new(),
        rules_missing: false,
    };
    let settings = read.settings(path);
    problems.append(&mut read.problems);
    // Those of the configuration itself first, then file by file.
    problems.sort_by(|a, b| {
        let place = |p: &Problem| (p.file != file.name, p.file.clone(), p.line, p.column);
        place(a).cmp(&place(b))
    });
    problems.truncate(super::PROBLEMS_MAX);
    match settings {
        Some(settings) if problems.is_empty() => Ok(settings),
        Some(_) | None => Err(problems),
    }
}

/// Where a configuration keeps its state, whatever else is wrong with it.
pub(crate) fn state(path: &Path) -> Result<PathBuf, Vec<Problem>> {
    kept(path).map(|(state, _)| state)
}

/// The same, and the witness of its log where it has one.
pub(crate) fn kept(path: &Path) -> Result<(PathBuf, Option<PathBuf>), Vec<Problem>> {
    let name = path.display().to_string();
    let text = read_text(path, FILE_BYTES_MAX).map_err(|message| {
        let (key, help) = (String::new(), "Name the folder of the log.".to_owned());
        vec![Problem {
            file: name.clone(),
            line: 0,
            column: 0,
            key,
            message,
            help,
        }]
    })?;
    let (file, problems) = File::parse(&name, &text);
    let file = file.ok_or_else(|| problems.clone())?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let root = Group::root(&file);
    let witness = root.group("log").text("witness");
    let witness = witness.map(|text| folder.join(text));
    let state = root.scalar("state", |text| Ok(folder.join(text)));
    state.map(|state| (state, witness)).ok_or(problems)
}

/// A file's text, if it is small enough and UTF-8. The error names neither the file nor its contents.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> Result<String, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|e| format!("cannot be read: {e}"))?;
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// One map of the file with its place in the table.
#[derive(Clone)]
struct Group<'f> {
    node: Option<&'f Node>,
    pattern: String,
    path: String,
}

impl<'f> Group<'f> {
    fn root(file: &'f File) -> Group<'f> {
        Group {
            node: Some(&file.root),
            pattern: String::new(),
            path: String::new(),
        }
    }

    fn get(&self, key: &str) -> Option<&'f Node> {
        self.node
            .and_then(|node| node.get(key))
            .filter(|node| node.value != Value::Null)
    }

    /// A map below this one; empty where nothing was written.
    fn group(&self, key: &str) -> Group<'f> {
        let (pattern, path) = (join(&self.pattern, key), join(&self.path, key));
        Group {
            node: self.get(key),
            pattern,
            path,
        }
    }

    /// The maps or values below a map by name.
    fn named(&self, key: &str) -> Vec<(&'f str, At, Group<'f>)> {
        let group = self.group(key);
        let Some(Value::Map(entries)) = group.node.map(|node| &node.value) else {
            return Vec::new();
        };
        let below = |entry: &'f super::yaml::Entry| Group {
            node: Some(&entry.node),
            pattern: join(&group.pattern, "*"),
            path: join(&group.path, &entry.key),
        };
        entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.at, below(entry)))
            .collect()
    }

    /// The maps of a list.
    fn maps(&self, key: &str) -> Vec<Group<'f>> {
        let group = self.group(key);
        let Some(Value::List(nodes)) = group.node.map(|node| &node.value) else {
            return Vec::new();
        };
        let maps = nodes.iter().enumerate();
        let maps = maps.filter(|(_, node)| matches!(node.value, Value::Map(_)));
        maps.map(|(i, node)| Group {
            node: Some(node),
            pattern: group.pattern.clone(),
            path: format!("{}[{i}]", group.path),
        })
        .collect()
    }

    fn text(&self, key: &str) -> Option<&'f str> {
        match &self.get(key)?.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// A scalar, or its default. Nothing where neither is there, or where stage one refused it.
    fn scalar<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match self.get(key) {
            Some(_) => parse(self.text(key)?).ok(),
            None => {
                let row = keys::find(&join(&self.pattern, key)).expect("every key read has a row");
                parse(&row.default.text()?).ok()
            }
        }
    }

    fn count(&self, key: &str) -> Option<u64> {
        let row = keys::find(&join(&self.pattern, key)).expect("every key read has a row");
        let Kind::Count { min, max } = row.kind else {
            return None;
        };
        self.scalar(key, |text| values::count(text, min, max))
    }

    fn size(&self, key: &str) -> Option<usize> {
        self.count(key).and_then(|n| usize::try_from(n).ok())
    }

    /// The texts of a list, or one text alone, that parse.
    fn list<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let nodes = match self.get(key) {
            None => &[],
            Some(Node {
                value: Value::List(nodes),
                ..
            }) => nodes.as_slice(),
            Some(node) => std::slice::from_ref(node),
        };
        let texts = nodes.iter().filter_map(|node| match &node.value {
            Value::Text(text) => Some(text.as_str()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        });
        texts.filter_map(|text| parse(text).ok()).collect()
    }
}

struct Read<'f> {
    file: &'f File,
    folder: PathBuf,
    environment: Environment<'f>,
    seen: &'f mut Seen,
    problems: Vec<Problem>,
    /// What does not keep the configuration from being used.
    warnings: Vec<Problem>,
    /// Whether rules of the operator's own could not be read.
    rules_missing: bool,
}

impl Read<'_> {
    fn say(&mut self, at: At, path: &str, pattern: &str, message: impl Into<String>) {
        self.problems
            .push(self.file.problem(at, path, pattern, message));
    }

    /// A problem with a key of a group, at the key's value or else at the group.
    fn say_key(&mut self, group: &Group<'_>, key: &str, message: impl Into<String>) {
        let problem = self.problem_of(group, key, message);
        self.problems.push(problem);
    }

    fn problem_of(&self, group: &Group<'_>, key: &str, message: impl Into<String>) -> Problem {
        let node = group.get(key).or(group.node).unwrap_or(&self.file.root);
        let (path, pattern) = (join(&group.path, key), join(&group.pattern, key));
        self.file.problem(node.at, &path, &pattern, message)
    }

    /// The text of a file that the configuration names.
    fn text_of(&mut self, path: &Path, bytes_max: usize) -> Result<String, String> {
        self.seen.note(path);
        read_text(path, bytes_max)
    }

    fn settings(&mut self, path: &Path) -> Option<Settings> {
        let file = self.file;
        let root = Group::root(file);
        // Each part is read before any is asked for, so that all problems are found.
        let listen = self.listen(&root);
        let agents = self.agents(&root);
        let mut servers = self.servers(&root);
        let taken: Vec<Name> = servers.iter().map(|server| server.name.clone()).collect();
        servers.extend(self.tools(&root, &taken));
        let policy = self.policy(&root);
        let scan = self.scan(&root);
        let names: Vec<Name> = servers.iter().map(|server| server.name.clone()).collect();
        let relay = self.relay(&root, &names);
        let state = root.scalar("state", |text| Ok(self.folder.join(text)));
        Some(Settings {
            file: path.to_path_buf(),
            listen: listen?,
            state: state?,
            agents,
            servers,
            policy,
            scan,
            relay,
            pins: root.group("scan").scalar("pins", values::switch)?,
            warnings: std::mem::take(&mut self.warnings),
            limits: limits(&root.group("limits"))?,
            log: log(&root.group("log"), &self.folder)?,
            origins: root.list("origins", values::origin),
            logs: logs(&root.group("logs"))?,
            threads: root.size("threads")?,
        })
    }

    fn listen(&mut self, root: &Group<'_>) -> Option<std::net::SocketAddr> {
        let listen = root.scalar("listen", values::socket)?;
        let public = root.scalar("listen_public", values::switch)?;
        if !listen.ip().to_canonical().is_loopback() && !public {
            let message = "other machines reach this address, and agents' keys would cross the network \
                           in the clear; listen on 127.0.0.1 behind a proxy that speaks TLS, or write \
                           listen_public: true";
            self.say_key(root, "listen", message);
        }
        Some(listen)
    }

    fn agents(&mut self, root: &Group<'_>) -> Vec<Agent> {
        let mut agents = Vec::new();
        let mut owners: HashMap<Digest, &str> = HashMap::new();
        for (name, _, group) in root.named("agents") {
            let keys = group.list("key", values::digest);
            if let Some(Node {
                value: Value::List(nodes),
                ..
            }) = group.get("key")
                && nodes.is_empty()
            {
                self.say_key(&group, "key", "must list at least one key");
            }
            for key in &keys {
                match owners.insert(*key, name) {
                    Some(other) if other == name => {
                        self.say_key(&group, "key", "lists a key twice")
                    }
                    Some(other) => {
                        let message =
                            format!("is also a key of the agent {other}; give each its own");
                        self.say_key(&group, "key", message);
                    }
                    None => {}
                }
            }
            let expires_unix_ms = group.scalar("expires", values::time);
            let groups = group.list("groups", values::name);
            if let Some(name) = Name::new(name) {
                agents.push(Agent {
                    name,
                    keys,
                    groups,
                    expires_unix_ms,
                });
            }
        }
        agents
    }

    fn servers(&mut self, root: &Group<'_>) -> Vec<Server> {
        let mut servers = Vec::new();
        for (name, at, group) in root.named("mcp") {
            let kind = match (group.get("command"), group.get("url")) {
                (Some(_), None) => self.child(&group).map(ServerKind::Child),
                (None, Some(_)) => self.http(&group).map(ServerKind::Http),
                (Some(_), Some(_)) => {
                    self.say(
                        at,
                        &group.path,
                        &group.pattern,
                        "has both a command and a url; keep one",
                    );
                    None
                }
                (None, None) => {
                    self.say(at, &group.path, &group.pattern, "needs a command or a url");
                    None
                }
            };
            let sessions_max = group.size("sessions_max");
            let agent_sessions_max = group.size("agent_sessions_max");
            let session_idle_ms = group.count("session_idle_ms");
            let bounds = sessions_max.zip(agent_sessions_max).zip(session_idle_ms);
            if let (
                Some(name),
                Some(kind),
                Some(((sessions_max, agent_sessions_max), session_idle_ms)),
            ) = (Name::new(name), kind, bounds)
            {
                servers.push(Server {
                    name,
                    kind,
                    sessions_max,
                    agent_sessions_max,
                    session_idle_ms,
                });
            }
        }
        servers
    }

    fn child(&mut self, group: &Group<'_>) -> Option<ChildServer> {
        self.not_with(group, "command", HTTP_ONLY);
        let command = group.list("command", |text| Ok(text.to_owned()));
        if command.is_empty() {
            self.say_key(group, "command", "must name a program");
        }
        let mut env = Vec::new();
        for (name, _, value) in group.named("env") {
            if let Some(value) = self.env_value(name, &value) {
                env.push(EnvValue {
                    name: name.to_owned(),
                    value,
                });
            }
        }
        let dir = group.scalar("dir", |text| Ok(self.folder.join(text)))?;
        let dir = if dir.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            dir
        };
        if !dir.is_dir() {
            self.say_key(group, "dir", "is not a folder");
        }
        Some(ChildServer {
            command,
            env,
            dir,
            errors: net::children::Errors::Log,
        })
    }

    fn env_value(&mut self, name: &str, value: &Group<'_>) -> Option<Secret> {
        let Some(Node {
            value: Value::Text(text),
            at,
        }) = value.node
        else {
            return None;
        };
        if let Ok(reference) = values::reference(text) {
            return self.secret(&reference, *at, value);
        }
        if values::env_name_is_secret(name) {
            let message = "looks like a secret, so it must not be written here; put it in a variable \
                           or a file and write env:NAME or file:PATH";
            self.say(*at, &value.path, &value.pattern, message);
        }
        Some(Secret::new(text.clone()))
    }

    fn http(&mut self, group: &Group<'_>) -> Option<HttpServer> {
        self.not_with(group, "url", CHILD_ONLY);
        let url = group.scalar("url", values::url);
        let below = group.group("token");
        let token = match (group.scalar("token", values::reference), below.node) {
            (Some(reference), Some(node)) => self.secret(&reference, node.at, &below),
            _ => None,
        };
        let ca = self.ca(group);
        let addresses = group.list("addresses", values::range);
        let url = url?;
        if !url.https && !url.is_loopback() && group.get("token").is_some() {
            self.say_key(
                group,
                "token",
                "would cross the network in the clear; use an https url",
            );
        }
        if !url.https && ca.is_some() {
            self.say_key(group, "ca", "is for https, and the url is http");
        }
        Some(HttpServer {
            url,
            token,
            ca,
            addresses,
        })
    }

    fn ca(&mut self, group: &Group<'_>) -> Option<Ca> {
        self.certificates(group, "ca")
    }

    /// The certificates of a file that a key names.
    fn certificates(&mut self, group: &Group<'_>, key: &str) -> Option<Ca> {
        self.pem(group, key, "certificate", "-----BEGIN CERTIFICATE-----")
    }

    /// A PEM file that a key names, which has at least one of what begins so.
    fn pem(&mut self, group: &Group<'_>, key: &str, what: &str, begin: &str) -> Option<Ca> {
        let file = group
            .text(key)?
            .strip_prefix("file:")
            .filter(|path| !path.is_empty())?;
        let file = self.folder.join(file);
        match self.text_of(&file, SECRET_BYTES_MAX * 16) {
            Ok(pem) if pem.contains(begin) => Some(Ca { file, pem }),
            Ok(_) => {
                self.say_key(group, key, format!("the file holds no {what} ({begin})"));
                None
            }
            Err(message) => {
                self.say_key(group, key, format!("the file {message}"));
                None
            }
        }
    }

    fn not_with(&mut self, group: &Group<'_>, kept: &str, others: &[&str]) {
        for other in others.iter().filter(|other| group.get(other).is_some()) {
            self.say_key(group, other, format!("does not go with {kept}"));
        }
    }

    /// The secret behind a reference; one line, without the line's end.
    fn secret(&mut self, reference: &Reference, at: At, group: &Group<'_>) -> Option<Secret> {
        let found = match reference {
            Reference::Env(name) => {
                (self.environment)(name).ok_or_else(|| format!("the variable {name} is not set"))
            }
            Reference::File(path) => self
                .text_of(&self.folder.join(path), SECRET_BYTES_MAX)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|message| format!("the file {message}")),
        };
        let checked = found.and_then(|text| match text.as_str() {
            "" => Err("the secret is empty".to_owned()),
            text if text.contains(['\0', '\r', '\n']) => {
                Err("the secret is not one line".to_owned())
            }
            _ => Ok(Secret::new(text)),
        });
        match checked {
            Ok(secret) => Some(secret),
            Err(message) => {
                self.say(at, &group.path, &group.pattern, message);
                None
            }
        }
    }

    fn policy(&mut self, root: &Group<'_>) -> Policy {
        let group = root.group("policy");
        let names = match root.text("policy") {
            Some(file) => vec![file.to_owned()],
            None => group.list("files", |text| Ok(text.to_owned())),
        };
        if let Some(Node {
            value: Value::List(nodes),
            ..
        }) = group.get("files")
            && nodes.is_empty()
        {
            self.say_key(
                &group,
                "files",
                "must name at least one file; without one all is refused",
            );
        }
        let mut files = Vec::new();
        for name in names {
            let path = self.folder.join(&name);
            match self.text_of(&path, POLICY_BYTES_MAX) {
                Ok(text) => files.push(PolicyFile {
                    file: path.display().to_string(),
                    text,
                }),
                Err(message) => {
                    self.say_key(root, "policy", format!("the file {name:?} {message}"));
                }
            }
        }
        let arguments = group
            .named("arguments")
            .into_iter()
            .filter_map(|(name, _, value)| {
                let Some(Value::Text(kind)) = value.node.map(|node| &node.value) else {
                    return None;
                };
                values::argument(kind)
                    .ok()
                    .map(|kind| (name.to_owned(), kind))
            });
        let arguments: BTreeMap<_, _> = arguments.collect();
        Policy { files, arguments }
    }
}

fn limits(group: &Group<'_>) -> Option<Limits> {
    let rate = |key| group.count(key).and_then(|n| u32::try_from(n).ok());
    Some(Limits {
        agent_per_minute: rate("agent_per_minute")?,
        address_per_minute: rate("address_per_minute"),
        strangers_per_minute: rate("strangers_per_minute")?,
        body_bytes_max: group.size("body_bytes_max")?,
        answer_bytes_max: group.size("answer_bytes_max")?,
        head_ms: group.count("head_ms")?,
        body_ms: group.count("body_ms")?,
        answer_ms: group.count("answer_ms")?,
        connections_max: group.size("connections_max")?,
        strangers_connections_max: group.size("strangers_connections_max")?,
        drain_ms: group.count("drain_ms")?,
    })
}

fn log(group: &Group<'_>, folder: &Path) -> Option<Log> {
    let words = [("fsync", Durability::Fsync), ("os", Durability::Os)];
    let durability = group.scalar("durability", |text| word(text, &words))?;
    Some(Log {
        durability,
        bytes_max: group.count("bytes_max")?,
        origin: group.text("origin").map(str::to_owned),
        witness: group.text("witness").map(|text| folder.join(text)),
    })
}

fn logs(group: &Group<'_>) -> Option<Logs> {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let levels = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];
    let format = group.scalar("format", |text| word(text, &formats))?;
    let level = group.scalar("level", |text| word(text, &levels.map(|l| (l.as_str(), l))))?;
    Some(Logs { format, level })
}

/// The value of a word. The table has checked the word, so the error is never seen.
fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value)
        .ok_or_else(String::new)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
