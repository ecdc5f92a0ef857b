//! The `tools:` section: servers that weir ships, written in short.
//!
//! Each becomes a server of kind stdio, as `mcp:` could have written it: a child with a whole environment of
//! its own, known to policies by its name. Nothing here gives it more than that.

use base::{Name, Secret};

use super::{Group, Node, Read, Value, values};
use crate::config::settings::{ChildServer, EnvValue, Server, ServerKind};

/// This binary, also where its file was replaced while it runs.
const OURSELVES: &str = "/proc/self/exe";
/// The variable that hands the key of the embedding endpoint to the child.
pub(crate) const EMBED_KEY: &str = "WEIR_EMBED_KEY";
/// Variables of ours that the child has: git's global ignore files are found by them.
const HANDED_ON: &[&str] = &["HOME", "XDG_CONFIG_HOME"];

impl Read<'_> {
    /// The shipped servers that are asked for. `taken` are the names of the others.
    pub(super) fn tools(&mut self, root: &Group<'_>, taken: &[Name]) -> Vec<Server> {
        let group = root.group("tools").group("code");
        if group.node.is_none() {
            return Vec::new();
        }
        if taken.iter().any(|name| name.as_str() == "code") {
            let message = "mcp has a server of that name; give that one another";
            self.say_key(&root.group("tools"), "code", message);
        }
        self.code(&group).into_iter().collect()
    }

    fn code(&mut self, group: &Group<'_>) -> Option<Server> {
        let mut command: Vec<String> = [OURSELVES, "tools", "code", "--stdio"]
            .map(str::to_owned)
            .into();
        let roots = group.list("roots", |text| Ok(text.to_owned()));
        if let Some(Value::List(nodes)) = group.get("roots").map(|node| &node.value)
            && nodes.is_empty()
        {
            self.say_key(group, "roots", "must name at least one folder");
        }
        for root in roots {
            let path = self.absolute(&root);
            if !std::path::Path::new(&path).is_dir() {
                self.say_key(group, "roots", format!("{root:?} is not a folder"));
            }
            command.extend(["--root".to_owned(), path]);
        }
        let data = match group.text("data") {
            Some(data) => self.absolute(data),
            None => {
                let state = Group::root(self.file).scalar("state", |text| Ok(text.to_owned()))?;
                self.absolute(&format!("{state}/tools/code"))
            }
        };
        command.extend(["--data".to_owned(), data]);
        if let Some(compat) = group.text("compat") {
            command.extend(["--compat".to_owned(), compat.to_owned()]);
        }
        let mut env = self.handed_on();
        let embed = group.group("embed");
        if embed.node.is_some() {
            self.embed(&embed, &mut command, &mut env);
        }
        Some(Server {
            name: Name::new("code").expect("a name"),
            kind: ServerKind::Child(ChildServer {
                command,
                env,
                dir: "/".into(),
                errors: net::children::Errors::Log,
            }),
            sessions_max: group.size("sessions_max")?,
            agent_sessions_max: group.size("agent_sessions_max")?,
            session_idle_ms: group.count("session_idle_ms")?,
        })
    }

    fn absolute(&self, path: &str) -> String {
        let path = self.folder.join(path);
        // Fails for an empty path only, or where there is no working folder.
        let path = std::path::absolute(&path).unwrap_or(path);
        path.display().to_string()
    }

    fn handed_on(&self) -> Vec<EnvValue> {
        let set = |name: &&'static str| {
            let value = (self.environment)(name)?;
            Some(EnvValue {
                name: (*name).to_owned(),
                value: Secret::new(value),
            })
        };
        HANDED_ON.iter().filter_map(set).collect()
    }

    /// The endpoint as arguments; its key as a variable, because arguments can be read by every process.
    fn embed(&mut self, group: &Group<'_>, command: &mut Vec<String>, env: &mut Vec<EnvValue>) {
        let flags = [
            ("url", "--embed-url"),
            ("kind", "--embed-kind"),
            ("model", "--embed-model"),
            ("query_prefix", "--embed-query-prefix"),
            ("document_prefix", "--embed-document-prefix"),
        ];
        for (key, flag) in flags {
            // Joined by =, so that a text that begins with a dash is no flag.
            let text = group.scalar(key, |text| Ok(text.to_owned()));
            command.extend(text.map(|text| format!("{flag}={text}")));
        }
        let key = group.group("key");
        let reference = group.scalar("key", values::reference);
        let (Some(reference), Some(Node { at, .. })) = (reference, key.node) else {
            return;
        };
        if let Some(url) = group.scalar("url", values::url)
            && !url.https
            && !url.is_loopback()
        {
            let message = "would cross the network in the clear; use an https url";
            self.say_key(group, "key", message);
        }
        if let Some(value) = self.secret(&reference, *at, &key) {
            let name = EMBED_KEY.to_owned();
            env.push(EnvValue { name, value });
        }
    }
}
