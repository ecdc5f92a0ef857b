//! The `tools:` section: servers that weir ships, written in short.
//!
//! Each becomes a server of kind stdio, as `mcp:` could have written it: a child with a whole environment of
//! its own, known to policies by its name. Nothing here gives it more than that.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ::config::{Check, Path as Key, Reference};
use base::{Name, Secret};
use flow::store::Database;
use postgres::Target;
use tools::section::{Code, Embed, FlowSection, FlowStore};

use super::file::File;
use super::settings::{ChildServer, EnvValue, Server, ServerKind};

/// This binary, also where its file was replaced while it runs.
const OURSELVES: &str = "/proc/self/exe";
/// Variables of ours that the child has: git's global ignore files are found by them.
const HANDED_ON: &[&str] = &["HOME", "XDG_CONFIG_HOME"];

/// The shipped servers that are asked for. `taken` are the names of the others.
pub(super) fn servers(file: &File, taken: &[Name], check: &mut Check<'_>) -> Vec<Server> {
    let tools = file.tools.as_ref();
    let code = tools.and_then(|tools| tools.code.as_ref());
    let code = code.map(|section| {
        let at = free("code", taken, check);
        code_server(section, &at, &file.state.0, check)
    });
    let flow = tools.and_then(|tools| tools.flow.as_ref());
    let flow = flow.map(|section| {
        let at = free("flow", taken, check);
        flow_server(section, &at, &file.state.0, check)
    });
    code.into_iter().chain(flow).collect()
}

/// The key of a shipped server, whose name no other may have.
fn free(name: &str, taken: &[Name], check: &mut Check<'_>) -> Key {
    let at = Key::of("tools").key(name);
    if taken.iter().any(|other| other.as_str() == name) {
        check.say(&at, "mcp has a server of that name; give that one another");
    }
    at
}

/// Work tracking. It is told which agent a process serves, so that each write names who made it.
fn flow_server(flow: &FlowSection, at: &Key, state: &Path, check: &mut Check<'_>) -> Server {
    let data = match &flow.data {
        Some(data) => absolute(&data.0, check),
        None => absolute(&state.join("tools/flow"), check),
    };
    let mut command: Vec<String> = [OURSELVES, "tools", "flow", "--stdio", "--data"]
        .map(str::to_owned)
        .into();
    command.push(data);
    command.extend(["--durability", flow.durability.as_str()].map(str::to_owned));
    if let Some(compat) = flow.compat {
        command.extend(["--compat", compat.as_str()].map(str::to_owned));
    }
    let mut env = Vec::new();
    if let Some(store) = &flow.store {
        flow_store(store, &at.key("store"), check, &mut command, &mut env);
    }
    Server {
        tells_agent: true,
        sessions_max: flow.sessions_max.size(),
        agent_sessions_max: flow.agent_sessions_max.size(),
        session_idle_ms: flow.session_idle_ms.0,
        ..shipped("flow", command, env)
    }
}

/// The database that a work tracking of several machines shares. Its URL goes by a variable, because arguments can be read by
/// every process.
fn flow_store(
    store: &FlowStore,
    at: &Key,
    check: &mut Check<'_>,
    command: &mut Vec<String>,
    env: &mut Vec<EnvValue>,
) {
    let Some(text) = &store.postgres else { return };
    let key = at.key("postgres");
    let url = if Target::is_url(&text.0) {
        let read = Target::written(&text.0);
        check
            .good(&key, read)
            .map(|target| (target, Secret::new(text.0.clone())))
    } else {
        let reference = check.good(&key, Reference::parse(&text.0));
        let secret = reference.and_then(|reference| check.secret(&reference, &key));
        secret.and_then(|url| {
            let read = Target::read(url.expose());
            check.good(&key, read).map(|target| (target, url))
        })
    };
    let tenant = store
        .tenant
        .as_ref()
        .map_or("default", |name| name.0.as_str());
    if let Some((target, value)) = url {
        let _ = check.good(&at.key("tenant"), Database::new(target, tenant));
        let name = tools::section::FLOW_URL.to_owned();
        env.push(EnvValue { name, value });
    }
    let reference = format!("env:{}", tools::section::FLOW_URL);
    command.extend(["--postgres", &reference, "--tenant", tenant].map(str::to_owned));
}

/// A shipped server with the bounds that servers have by default.
fn shipped(name: &str, command: Vec<String>, env: Vec<EnvValue>) -> Server {
    let default = mcp::section::ServerSection::default();
    Server {
        name: Name::new(name).expect("a name"),
        kind: ServerKind::Child(ChildServer {
            command,
            env,
            dir: "/".into(),
            errors: net::children::Errors::Log,
        }),
        sessions_max: default.sessions_max.size(),
        agent_sessions_max: default.agent_sessions_max.size(),
        session_idle_ms: default.session_idle_ms.0,
        tells_agent: false,
        list_ms: default.list_ms.0,
        names: HashMap::new(),
        items: HashMap::new(),
    }
}

fn code_server(code: &Code, at: &Key, state: &Path, check: &mut Check<'_>) -> Server {
    let mut command: Vec<String> = [OURSELVES, "tools", "code", "--stdio"]
        .map(str::to_owned)
        .into();
    if code.roots.as_ref().is_some_and(|roots| roots.is_empty()) {
        check.say(&at.key("roots"), "must name at least one folder");
    }
    for root in code.roots.iter().flat_map(|roots| roots.values()) {
        let path = absolute(&root.0, check);
        if !check.outside.is_folder(Path::new(&path)) {
            let message = format!("{:?} is not a folder", root.0);
            check.say(&at.key("roots"), message);
        }
        command.extend(["--root".to_owned(), path]);
    }
    let data = match &code.data {
        Some(data) => absolute(&data.0, check),
        None => absolute(&state.join("tools/code"), check),
    };
    command.extend(["--data".to_owned(), data]);
    if let Some(compat) = code.compat {
        command.extend(["--compat".to_owned(), compat.as_str().to_owned()]);
    }
    let mut env = handed_on(check);
    if let Some(embed) = &code.embed {
        self::embed(embed, &at.key("embed"), check, &mut command, &mut env);
    }
    Server {
        sessions_max: code.sessions_max.size(),
        agent_sessions_max: code.agent_sessions_max.size(),
        session_idle_ms: code.session_idle_ms.0,
        ..shipped("code", command, env)
    }
}

/// Hides from code search what is the gateway's alone and lies below a root: the state folder, with the keys of the log and of
/// tokens, the configuration, and each file that it names. A root inside of the state folder is a problem.
pub(super) fn hide(servers: &mut [Server], own: &[PathBuf], check: &mut Check<'_>) {
    let child = servers
        .iter_mut()
        .find_map(|server| match &mut server.kind {
            ServerKind::Child(child) if child.command.get(1..3).is_some_and(is_code_search) => {
                Some(child)
            }
            _ => None,
        });
    let Some(child) = child else { return };
    let roots: Vec<PathBuf> = child
        .command
        .windows(2)
        .filter(|pair| pair[0] == "--root")
        .filter_map(|pair| super::mcp::resolved(Path::new(&pair[1])))
        .collect();
    let own = own.iter().filter_map(|path| super::mcp::resolved(path));
    let mut own: Vec<PathBuf> = own.collect();
    own.sort();
    own.dedup();
    let at = Key::of("tools").key("code").key("roots");
    for path in own {
        if roots.iter().any(|root| root.starts_with(&path)) {
            check.say(
                &at,
                "is inside of the state folder, which is the gateway's alone",
            );
        } else if roots.iter().any(|root| path.starts_with(root)) {
            let hidden = path.display().to_string();
            child.command.extend(["--hide".to_owned(), hidden]);
        }
    }
}

fn is_code_search(words: &[String]) -> bool {
    words == ["tools", "code"]
}

fn absolute(path: &Path, check: &Check<'_>) -> String {
    let path = check.folder.join(path);
    // Fails for an empty path only, or where there is no working folder.
    let path = std::path::absolute(&path).unwrap_or(path);
    path.display().to_string()
}

fn handed_on(check: &Check<'_>) -> Vec<EnvValue> {
    let set = |name: &&'static str| {
        let value = check.outside.variable(name)?;
        Some(EnvValue {
            name: (*name).to_owned(),
            value: Secret::new(value),
        })
    };
    HANDED_ON.iter().filter_map(set).collect()
}

/// The endpoint as arguments; its key as a variable, because arguments can be read by every process.
fn embed(
    embed: &Embed,
    at: &Key,
    check: &mut Check<'_>,
    command: &mut Vec<String>,
    env: &mut Vec<EnvValue>,
) {
    let url = check.document.text(&at.key("url"));
    let text = |text: &Option<::config::Text>| text.as_ref().map(|text| text.0.clone());
    let flags = [
        ("--embed-url", url.map(str::to_owned)),
        ("--embed-kind", Some(embed.kind.as_str().to_owned())),
        ("--embed-model", text(&embed.model)),
        ("--embed-query-prefix", text(&embed.query_prefix)),
        ("--embed-document-prefix", text(&embed.document_prefix)),
    ];
    for (flag, text) in flags {
        // Joined by =, so that a text that begins with a dash is no flag.
        command.extend(text.map(|text| format!("{flag}={text}")));
    }
    let Some(reference) = &embed.key else { return };
    let at = at.key("key");
    if let Some(url) = &embed.url
        && !url.https
        && !url.is_loopback()
    {
        let message = "would cross the network in the clear; use an https url";
        check.say(&at, message);
    }
    if let Some(value) = check.secret(reference, &at) {
        let name = tools::section::EMBED_KEY.to_owned();
        env.push(EnvValue { name, value });
    }
}
