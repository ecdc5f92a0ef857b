//! The `mcp:` section: what a server's keys say about each other, and the secrets and files that they name.

use std::path::{Path, PathBuf};

use ::config::{ByName, Check, EnvValue as Written, Path as Key};
use base::{Name, Secret};
use mcp::section;

use super::settings::{ChildServer, EnvValue, HttpServer, Server, ServerKind};
use super::toolsets;

/// The servers that can be used.
pub(super) fn servers(
    written: &ByName<section::ServerSection>,
    check: &mut Check<'_>,
) -> Vec<Server> {
    let servers = written.iter().filter_map(|(name, server)| {
        let at = Key::of("mcp").key(name);
        let kind = kind(server, &at, check);
        Some(Server {
            name: Name::new(name)?,
            kind: kind?,
            sessions_max: server.sessions_max.size(),
            agent_sessions_max: server.agent_sessions_max.size(),
            session_idle_ms: server.session_idle_ms.0,
            tells_agent: server.tells_agent.0,
            list_ms: server.list_ms.0,
            names: toolsets::names(&server.names, &at.key("names"), check),
            items: toolsets::items(&server.items),
        })
    });
    servers.collect()
}

fn kind(server: &section::ServerSection, at: &Key, check: &mut Check<'_>) -> Option<ServerKind> {
    match (check.wrote(&at.key("command")), check.wrote(&at.key("url"))) {
        (true, false) => child(server, at, check).map(ServerKind::Child),
        (false, true) => http(server, at, check).map(ServerKind::Http),
        (true, true) => {
            check.say_of_name(at, "has both a command and a url; keep one");
            None
        }
        (false, false) => {
            check.say_of_name(at, "needs a command or a url");
            None
        }
    }
}

fn child(server: &section::ServerSection, at: &Key, check: &mut Check<'_>) -> Option<ChildServer> {
    check.not_with(at, "command", &["token", "ca", "http2", "addresses"]);
    let command = server.command.as_ref();
    if command.is_some_and(|command| command.is_empty()) {
        check.say(&at.key("command"), "must name a program");
    }
    let mut env = Vec::new();
    for (name, section::Variable(value)) in server.env.iter() {
        let value = env_value(name, value, &at.key("env").key(name), check);
        if name == mcp::AGENT && server.tells_agent.0 {
            let message = "is told by weir where tells_agent is true; take one of the two away";
            check.say(&at.key("env").key(name), message);
        }
        env.extend(value.map(|value| EnvValue {
            name: name.to_owned(),
            value,
        }));
    }
    let mut dir = check.folder.join(&server.dir.0);
    if dir.as_os_str().is_empty() {
        dir = ".".into();
    }
    if !check.outside.is_folder(&dir) {
        check.say(&at.key("dir"), "is not a folder");
    }
    // No problem: what is started may be installed later, and the other servers work.
    if let Some(program) = command.and_then(|words| words.values().next())
        && let Err(why) = net::children::find(&program.0)
    {
        check.warn(&at.key("command"), not_started(&program.0, &why));
    }
    Some(ChildServer {
        command: command?.values().map(|word| word.0.clone()).collect(),
        env,
        dir,
        errors: net::children::Errors::Log,
    })
}

/// Warns of arguments that are folders of the gateway's own: the program may show to agents what is in them, such as the keys of
/// the log. `own` are the state folder and files.
pub(super) fn warn_of_exposed(servers: &[Server], own: &[PathBuf], check: &mut Check<'_>) {
    let own: Vec<(String, PathBuf)> = own
        .iter()
        .filter_map(|own| Some((own.display().to_string(), resolved(own)?)))
        .collect();
    for server in servers {
        let ServerKind::Child(child) = &server.kind else {
            continue;
        };
        let at = Key::of("mcp").key(server.name.as_str()).key("command");
        for (i, word) in child.command.iter().enumerate().skip(1) {
            // `--root=DIR` names a folder too.
            let named = word.split_once('=').map_or(&**word, |(_, value)| value);
            let words = [&**word, named].into_iter().filter(|word| !word.is_empty());
            let mut folders = words.map(|word| child.dir.join(word));
            let folder = folders.find(|folder| check.outside.is_folder(folder));
            let Some(folder) = folder.and_then(|folder| resolved(&folder)) else {
                continue;
            };
            let held = own
                .iter()
                .find(|(_, own)| own.starts_with(&folder) || folder.starts_with(own));
            if let Some((held, _)) = held {
                let message = format!(
                    "names a folder that holds {held}: agents may read, through this server, what is the gateway's alone, such as the \
                     signing key of its log; name another folder"
                );
                check.warn(&at.index(i), message);
            }
        }
    }
}

/// A path without links and dots. Of what is not there yet, that of its folder.
pub(super) fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Some(path);
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(folder.join(path.file_name()?))
}

/// Why a program cannot be started, to be put after its key.
fn not_started(program: &str, why: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match why.kind() {
        ErrorKind::NotFound if program.contains('/') => {
            format!("the program {program:?} is not there, so the server cannot be started")
        }
        ErrorKind::NotFound => format!(
            "the program {program:?} is in no folder of the PATH that weir runs with, so the server cannot be started; \
             install it, or write its path"
        ),
        ErrorKind::IsADirectory => format!("{program:?} is a folder, so it cannot be started"),
        _ => format!("the program {program:?} cannot be executed: {why}"),
    }
}

fn env_value(name: &str, value: &Written, at: &Key, check: &mut Check<'_>) -> Option<Secret> {
    match value {
        Written::Secret(reference) => check.secret(reference, at),
        Written::Plain(text) => {
            if is_secret(name) {
                let message = "looks like a secret, so it must not be written here; put it in a \
                               variable or a file and write env:NAME or file:PATH";
                check.say(at, message);
            }
            Some(Secret::new(text.clone()))
        }
    }
}

/// Whether a variable of this name is likely to hold a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words = [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "APIKEY",
        "CREDENTIAL",
    ];
    words.iter().any(|word| name.contains(word)) || name.ends_with("_KEY") || name == "KEY"
}

fn http(server: &section::ServerSection, at: &Key, check: &mut Check<'_>) -> Option<HttpServer> {
    check.not_with(at, "url", &["env", "dir", "tells_agent"]);
    let token = check.of(&server.token, &at.key("token"), Check::secret);
    let ca = check.of(&server.ca, &at.key("ca"), Check::certificates);
    let url = server.url.clone()?;
    if !url.https && !url.is_loopback() && check.wrote(&at.key("token")) {
        let message = "would cross the network in the clear; use an https url";
        check.say(&at.key("token"), message);
    }
    if !url.https && ca.is_some() {
        check.say(&at.key("ca"), "is for https, and the url is http");
    }
    Some(HttpServer {
        url,
        token,
        ca,
        http2: server.http2.0,
        addresses: server.addresses.values().map(|range| range.0).collect(),
    })
}
