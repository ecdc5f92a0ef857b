//! Taking over the servers that MCP clients are told of: from their configurations to the `mcp` section of weir's own.
//!
//! Secrets are not copied. Each becomes a reference to a variable, and what has to be exported is told by name and place. What has
//! no counterpart is told with the reason; nothing is dropped in silence.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Name;
use gate::Reach;
use scan::{Class, Direction, Engine};
use serde_json::{Map, Value};

use crate::cli::Failure;
use crate::cli::connect::clients::{CLIENTS, Client, Format};
use crate::cli::connect::text;
use crate::config::{is_secret, values};

/// Largest configuration of a client that is read.
const FILE_BYTES_MAX: usize = 4 << 20;
/// Most servers that are taken over.
const SERVERS_MAX: usize = 256;
/// Variables without which few programs start; a client hands them on, and weir only where they are named.
const USUAL: &[&str] = &["HOME", "PATH"];

/// What became of the configurations.
#[derive(Default)]
pub(super) struct Servers {
    /// Each server as it is written below `mcp:`.
    pub written: Vec<(String, String)>,
    /// Variables to be set before weir starts, and where their values stand now.
    pub exports: BTreeMap<String, String>,
    /// What was not taken over, and why.
    pub not: Vec<(String, String)>,
}

/// One server as it is written.
#[derive(Default)]
struct Section {
    lines: Vec<String>,
    env: Vec<(String, String)>,
    exports: Vec<(String, String)>,
}

/// Reads one configuration.
pub(super) fn of_file(file: &Path) -> Result<Servers, Failure> {
    let mut reader = Reader::new();
    reader.file(file, None)?;
    Ok(reader.servers)
}

/// Reads the configurations of all clients that are found where these keep them.
pub(super) fn find() -> Result<(Servers, Vec<PathBuf>), Failure> {
    let mut reader = Reader::new();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for client in CLIENTS {
        let project = client.project.map(PathBuf::from);
        for file in client.user_file().into_iter().chain(project) {
            // The folder may be the home folder, where a project's file is the user's.
            let Ok(place) = file.canonicalize() else {
                continue;
            };
            if !file.is_file() || !seen.insert(place) {
                continue;
            }
            match reader.file(&file, Some(client)) {
                Ok(()) => found.push(file),
                Err(failure) => reader.not(&file.display().to_string(), &failure.what),
            }
        }
    }
    if found.is_empty() {
        let what = "no client keeps a configuration where it was looked for";
        return Err(Failure::new(
            what,
            "Name its file: weir init --from mcp FILE.",
        ));
    }
    Ok((reader.servers, found))
}

struct Reader {
    engine: Engine,
    servers: Servers,
    /// What each name stands for, so that one server in two configurations is one.
    known: BTreeMap<String, Value>,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            // Nothing that is found is kept, so fingerprints need no key.
            engine: Engine::new(scan::Settings::default(), [0; 32]),
            servers: Servers::default(),
            known: BTreeMap::new(),
        }
    }

    fn not(&mut self, what: &str, why: &str) {
        self.servers.not.push((what.to_owned(), why.to_owned()));
    }

    fn file(&mut self, file: &Path, client: Option<&Client>) -> Result<(), Failure> {
        let failed = |why: String| {
            let help = "Name the configuration of an MCP client: JSON with mcpServers, servers or context_servers, or the TOML of codex.";
            Failure::new(format!("{} {why}", file.display()), help)
        };
        let text = crate::config::read::read_text(file, FILE_BYTES_MAX).map_err(failed)?;
        let clients: Vec<&Client> = match client {
            Some(client) => vec![client],
            None => clients_of(file),
        };
        let mut has_any = client.is_some();
        let mut roots = Vec::new();
        for client in clients {
            if roots.contains(&client.root) {
                continue;
            }
            roots.push(client.root);
            match text::servers(client, &text).map_err(failed)? {
                None => {}
                Some(Value::Object(servers)) => {
                    has_any = true;
                    self.all(file, client, &servers);
                }
                Some(_) => {
                    return Err(failed(format!("has a {:?} that is no object", client.root)));
                }
            }
        }
        match has_any {
            true => Ok(()),
            false => Err(failed("names no MCP servers".to_owned())),
        }
    }

    fn all(&mut self, file: &Path, client: &Client, servers: &Map<String, Value>) {
        for (name, entry) in servers {
            let place = format!("{}.{name}", client.root);
            let told = format!("{name} ({})", file.display());
            if self.servers.written.len() == SERVERS_MAX {
                self.not(&told, "there are more servers than are taken over at once");
                continue;
            }
            if let Err(why) = self.one(file, client, name, entry, &place) {
                self.not(&told, &why);
            }
        }
    }

    fn one(
        &mut self,
        file: &Path,
        client: &Client,
        name: &str,
        entry: &Value,
        place: &str,
    ) -> Result<(), String> {
        let entry = entry.as_object().ok_or("is no object")?;
        let known = Value::Object(entry.clone());
        let name = self.name(name, client, &known)?;
        let Some(name) = name else { return Ok(()) };
        let is_off = entry.get("disabled") == Some(&Value::Bool(true))
            || entry.get("enabled") == Some(&Value::Bool(false));
        if is_off {
            return Err("is switched off there".to_owned());
        }
        let mut section = Section::default();
        let address = ["url", "httpUrl", "serverUrl"]
            .iter()
            .find_map(|key| text_of(entry, key));
        match (text_of(entry, "command"), address) {
            (_, Some(url)) => self.http(client, entry, &name, url, &mut section)?,
            (Some(command), None) => self.child(entry, &name, command, &mut section)?,
            (None, None) => return Err("has neither a command nor a url".to_owned()),
        }
        for (variable, member) in std::mem::take(&mut section.exports) {
            let stands = format!("{place}.{member} of {}", file.display());
            self.servers.exports.entry(variable).or_insert(stands);
        }
        self.known.insert(name.clone(), known);
        self.servers.written.push((name, section.text()));
        Ok(())
    }

    /// The name that a server has here; nothing where it is known already, from another configuration.
    fn name(&self, name: &str, client: &Client, entry: &Value) -> Result<Option<String>, String> {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        };
        let plain: String = name.chars().take(48).map(plain).collect();
        let plain = plain.trim_start_matches(['.', '_', '-']);
        if (plain == "weir" || plain.starts_with("weir-")) && leads_to_weir(entry) {
            return Err("is an entry of weir already".to_owned());
        }
        let base = if plain.is_empty() { "server" } else { plain };
        let candidates = std::iter::once(base.to_owned())
            .chain(std::iter::once(format!("{base}-{}", client.name)))
            .chain((2..).map(|number| format!("{base}-{number}")));
        for name in candidates.take(SERVERS_MAX) {
            match self.known.get(&name) {
                Some(known) if known == entry => return Ok(None),
                Some(_) => {}
                None if Name::new(&name).is_some() => return Ok(Some(name)),
                None => {}
            }
        }
        Err("has no name that weir can give it".to_owned())
    }

    fn child(
        &self,
        entry: &Map<String, Value>,
        name: &str,
        command: &str,
        section: &mut Section,
    ) -> Result<(), String> {
        let mut words = vec![command.to_owned()];
        let args = entry.get("args").and_then(Value::as_array);
        for arg in args.into_iter().flatten() {
            words.push(
                arg.as_str()
                    .ok_or("has an argument that is no text")?
                    .to_owned(),
            );
        }
        // Some clients start a command that is one text by a shell.
        if words.len() == 1 && command.contains(' ') && !Path::new(command).exists() {
            words = command.split_whitespace().map(str::to_owned).collect();
        }
        for (number, word) in words.iter().enumerate() {
            if word.contains("${") {
                return Err(format!(
                    "refers to a variable in word {number} of its command; write it out"
                ));
            }
            if self.is_secret_text(word) {
                return Err(format!(
                    "holds a secret in word {number} of its command; give it by env"
                ));
            }
        }
        let words: Vec<String> = words.iter().map(|word| yaml(word)).collect();
        section
            .lines
            .push(format!("command: [{}]", words.join(", ")));
        if let Some(dir) = text_of(entry, "cwd") {
            if dir.contains("${") {
                return Err("refers to a variable in its folder; write it out".to_owned());
            }
            section.lines.push(format!("dir: {}", yaml(dir)));
        }
        let env = entry.get("env").and_then(Value::as_object);
        for (variable, value) in env.into_iter().flatten() {
            let value = match value {
                Value::String(value) => value.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(format!("has a variable {variable} that is no text")),
            };
            if !::config::kinds::is_variable(variable) {
                return Err(format!(
                    "has a variable {variable:?}, which is no name of one"
                ));
            }
            let written =
                self.value(name, variable, &value, &format!("env.{variable}"), section)?;
            section.env.push((variable.clone(), written));
        }
        // Codex names variables that are handed on.
        for variable in entry
            .get("env_vars")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let variable = variable.as_str().or_else(|| variable.get("name")?.as_str());
            section
                .env
                .extend(variable.map(|of| (of.to_owned(), format!("env:{of}"))));
        }
        for usual in USUAL {
            if section.env.iter().all(|(known, _)| known != usual) {
                section
                    .env
                    .push(((*usual).to_owned(), format!("env:{usual}")));
            }
        }
        Ok(())
    }

    /// A variable's value as it is written here: a reference where it is a secret or refers to a variable itself.
    fn value(
        &self,
        server: &str,
        variable: &str,
        value: &str,
        member: &str,
        section: &mut Section,
    ) -> Result<String, String> {
        if let Some(referred) = reference(value) {
            section.exports.push((referred.clone(), member.to_owned()));
            return Ok(format!("env:{referred}"));
        }
        if value.contains("${") {
            return Err(format!(
                "refers to a variable within {member}; write it out"
            ));
        }
        if !is_secret(variable) && !self.is_secret_text(value) {
            return Ok(yaml(value));
        }
        let named = self.export_name(server, variable, section);
        section.exports.push((named.clone(), member.to_owned()));
        Ok(format!("env:{named}"))
    }

    /// The variable that holds a secret: its own name, or where another server has a secret of that name, both names.
    fn export_name(&self, server: &str, variable: &str, section: &Section) -> String {
        let is_taken = |name: &str| {
            self.servers.exports.contains_key(name)
                || section.exports.iter().any(|(known, _)| known == name)
        };
        match is_taken(variable) {
            false => variable.to_owned(),
            true => format!("{}_{variable}", upper(server)),
        }
    }

    fn http(
        &self,
        client: &Client,
        entry: &Map<String, Value>,
        name: &str,
        url: &str,
        section: &mut Section,
    ) -> Result<(), String> {
        let kind = text_of(entry, "type").unwrap_or_default();
        let is_events = kind == "sse" || (client.name == "gemini" && entry.contains_key("url"));
        if is_events {
            return Err("speaks HTTP+SSE; name the URL of its streamable HTTP".to_owned());
        }
        if url.contains("${") {
            return Err("refers to a variable in its URL; write it out".to_owned());
        }
        let read = values::url(url).map_err(|why| format!("has a URL that {why}"))?;
        if read.path.contains('?') {
            // It may be a secret, so it is not repeated.
            return Err("has a query in its URL; weir sends none".to_owned());
        }
        section.lines.push(format!("url: {}", yaml(url)));
        if let Ok(address) = read.host.parse::<IpAddr>()
            && !read.is_loopback()
            && !Reach::default().allows(address)
        {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            section
                .lines
                .push(format!("addresses: [\"{address}/{bits}\"]"));
        }
        let variable = text_of(entry, "bearer_token_env_var");
        if let Some(variable) = variable.filter(|name| ::config::kinds::is_variable(name)) {
            section.lines.push(format!("token: env:{variable}"));
            section
                .exports
                .push((variable.to_owned(), "bearer_token_env_var".to_owned()));
        }
        for member in ["headers", "http_headers", "requestInit"] {
            let headers = entry.get(member).and_then(Value::as_object);
            for (header, value) in headers.into_iter().flatten() {
                self.header(name, member, header, value, section)?;
            }
        }
        let has_token = section.lines.iter().any(|line| line.starts_with("token:"));
        if has_token && !read.https && !read.is_loopback() {
            return Err("would send its token in the clear; name an https URL".to_owned());
        }
        match entry.contains_key("env_http_headers") {
            true => {
                Err("sends headers by env_http_headers; weir sends a bearer token alone".to_owned())
            }
            false => Ok(()),
        }
    }

    fn header(
        &self,
        server: &str,
        member: &str,
        header: &str,
        value: &Value,
        section: &mut Section,
    ) -> Result<(), String> {
        let value = value.as_str().unwrap_or_default();
        let token = value
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = token.filter(|_| header.eq_ignore_ascii_case("authorization"))
        else {
            return Err(format!(
                "sends the header {header}; weir sends a bearer token alone"
            ));
        };
        let token = token.trim();
        let named = match reference(token) {
            Some(referred) => referred,
            None if token.contains("${") => {
                return Err(format!(
                    "refers to a variable within {member}.{header}; write it out"
                ));
            }
            None => self.export_name(server, &format!("{}_TOKEN", upper(server)), section),
        };
        section.lines.push(format!("token: env:{named}"));
        section.exports.push((named, format!("{member}.{header}")));
        Ok(())
    }

    fn is_secret_text(&self, text: &str) -> bool {
        let report = self.engine.text(Direction::Outgoing, text, "value");
        // What cannot be scanned is taken for a secret.
        report.map_or(true, |report| {
            let mut findings = report.findings.iter();
            findings.any(|finding| finding.rule.class == Class::Secret)
        })
    }
}

impl Section {
    fn text(&self) -> String {
        let mut text: String = self
            .lines
            .iter()
            .map(|line| format!("    {line}\n"))
            .collect();
        if !self.env.is_empty() {
            text.push_str("    env:\n");
        }
        for (name, value) in &self.env {
            text.push_str(&format!("      {name}: {value}\n"));
        }
        text
    }
}

/// The clients whose format a file may have, by its name.
fn clients_of(file: &Path) -> Vec<&'static Client> {
    let is_toml = file
        .extension()
        .is_some_and(|extension| extension == "toml");
    let format = if is_toml { Format::Toml } else { Format::Json };
    CLIENTS
        .iter()
        .filter(|client| client.format == format)
        .collect()
}

fn text_of<'e>(entry: &'e Map<String, Value>, key: &str) -> Option<&'e str> {
    entry.get(key).and_then(Value::as_str)
}

fn text_of_value<'e>(entry: &'e Value, keys: &[&str]) -> Option<&'e str> {
    keys.iter().find_map(|key| entry.get(key)?.as_str())
}

/// Whether an entry has the URL of a gateway, such as `weir connect` writes one: as an address, or for a command that speaks HTTP.
fn leads_to_weir(entry: &Value) -> bool {
    let args = entry.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    let address = text_of_value(entry, &["url", "httpUrl", "serverUrl"]);
    let texts = address.into_iter().chain(args);
    let mut paths = texts.filter_map(|text| Some(values::url(text).ok()?.path));
    paths.any(|path| path == "/mcp" || path.starts_with("/mcp/"))
}

/// The variable that a whole text refers to: `$NAME`, `${NAME}`, `${env:NAME}`, or what `${input:NAME}` asks a person for.
fn reference(text: &str) -> Option<String> {
    let inside = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    let inside = inside.or_else(|| text.strip_prefix('$'))?;
    if let Some(asked) = inside.strip_prefix("input:") {
        return Some(upper(asked)).filter(|name| ::config::kinds::is_variable(name));
    }
    let name = inside.strip_prefix("env:").unwrap_or(inside);
    let name = name.split_once(":-").map_or(name, |(name, _)| name);
    ::config::kinds::is_variable(name).then(|| name.to_owned())
}

/// A name as variables are written.
fn upper(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

/// The name of a server in YAML, where some plain words are no text.
pub(super) fn yaml_key(name: &str) -> String {
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
    match is_word && !["true", "false", "null"].contains(&name.to_ascii_lowercase().as_str()) {
        true => name.to_owned(),
        false => yaml(name),
    }
}

/// A text in YAML. A JSON string is one.
pub(super) fn yaml(text: &str) -> String {
    Value::from(text).to_string()
}
