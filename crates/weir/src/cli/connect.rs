//! `weir connect`: write the servers of a gateway into the configuration of a program that speaks MCP, and take them out again.
//!
//! The key is never written as text unless a person asks for it: each program refers to a variable in its own way.

pub(in crate::cli) mod clients;
mod file;
pub(in crate::cli) mod text;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ::config::Listen;
use base::{Name, Resource, Secret};
use clap::Args;
use clap::builder::PossibleValuesParser;
use policy::{Context, Decision, Policies, Principal};
use serde_json::{Value, json};

use super::{Answer, ConfigFile, Ended, Failure, print, unusable};
use crate::config::settings::Agent;
use crate::config::{Settings, compile, values};
use clients::{CLIENTS, Client, KeyForm, Target};
use file::{Held, Note, OWNER_ONLY};

/// Write the gateway's servers into the configuration of an MCP client
///
/// One entry, weir, for all servers that the agent may use, at /mcp; with --server one for each that is named. Comments, order
/// and spacing of the file are kept, a backup stands beside it, and --undo brings back the same bytes. The key is read from a
/// variable by the client itself; it is not written.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir connect claude-code              Write ~/.claude.json
  weir connect cursor --print           Show what would be written, and where
  weir connect gemini --set desk        The servers and tools of /mcp/@desk
  weir connect vscode --project . --server files
  weir connect codex --url https://weir.example --server files
  weir connect zed --write-key env:WEIR_KEY
  weir connect cursor --undo

Zed and Claude Desktop hand no variable to a server, so they need --write-key.
Exit codes: 0 done, 2 it could not be done; the file is then as it was.")]
pub(super) struct Connect {
    /// The program to connect
    #[arg(value_parser = PossibleValuesParser::new(CLIENTS.iter().map(|client| client.name)))]
    client: String,
    #[command(flatten)]
    config: ConfigFile,
    /// An entry for each of these servers, at its own URL, and none for all of them
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// The set of servers and tools at /mcp/@NAME, as toolsets in the configuration name it
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    set: Option<String>,
    /// The agent that the client is: servers that the policies refuse it are left out
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Where the gateway is; by default public_url of the configuration, or else its first listener
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Write the configuration of a project, in this folder, and not that of the user
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    project: Option<PathBuf>,
    /// Write this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The variable that the client reads the agent's key from
    #[arg(long, value_name = "NAME", default_value = "WEIR_KEY", value_parser = variable_name)]
    variable: String,
    /// Write the key itself, found at env:NAME or file:PATH; only the file's owner can read it then
    #[arg(long, value_name = "WHERE")]
    write_key: Option<String>,
    /// Show what would be written, and change nothing
    #[arg(long)]
    print: bool,
    /// Take out what was written
    #[arg(long, conflicts_with_all = ["server", "set", "agent", "url", "write_key"])]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn variable_name(text: &str) -> Result<String, String> {
    match ::config::kinds::is_variable(text) {
        true => Ok(text.to_owned()),
        false => Err("must be letters, digits and _, and not begin with a digit".to_owned()),
    }
}

/// The entries to write, and where they lead.
struct Entries {
    entries: Vec<(String, Value)>,
    urls: Vec<String>,
}

impl Entries {
    fn names(&self) -> Vec<String> {
        self.entries.iter().map(|(name, _)| name.clone()).collect()
    }
}

impl Connect {
    pub(super) fn run(self) -> Ended {
        let client = Client::named(&self.client).expect("the parser takes known names only");
        let path = self.path(client)?;
        match self.undo {
            true => self.undo(client, &path),
            false => self.connect(client, &path),
        }
    }

    /// The file to write.
    fn path(&self, client: &Client) -> Result<PathBuf, Failure> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let Some(folder) = &self.project else {
            let what = format!(
                "there is no home folder to look for the configuration of {} in",
                client.title
            );
            let file = client.user_file();
            return file.ok_or_else(|| Failure::new(what, "Name its file with --file."));
        };
        let what = format!("{} has no configuration for a project", client.title);
        let file = client.project.map(|file| folder.join(file));
        file.ok_or_else(|| Failure::new(what, "Leave --project out."))
    }

    fn connect(&self, client: &Client, path: &Path) -> Ended {
        let key = self.key()?;
        let entries = self.entries(client, key.as_ref())?;
        let (found, note) = (file::read(path)?, file::read_note(path)?);
        let edited = |why: String| {
            let what = format!("{} {why}; nothing was changed", path.display());
            Failure::new(what, "Mend it, or name another file with --file.")
        };
        // What an earlier run wrote goes first, so that a second run is as the first.
        let before = before(client, path, found.as_ref(), note.as_ref()).map_err(edited)?;
        let text = before.as_deref().unwrap_or_default();
        let has_root = text::has_root(client, text);
        let with = text::insert(client, text, &entries.entries).map_err(edited)?;
        let mode_before = note.as_ref().map(|note| note.mode);
        let mode_before = mode_before.or(found.as_ref().map(|held| held.mode));
        let mode_before = mode_before.unwrap_or(OWNER_ONLY);
        let mode = match key {
            Some(_) => OWNER_ONLY,
            None => mode_before,
        };
        if !self.print {
            make_folder(path, self.project.is_some())?;
            let told = Note {
                before: before.as_deref().map(file::digest),
                after: file::digest(&with),
                mode: mode_before,
                entries: entries.names(),
                root: !has_root,
            };
            file::write(path, found.as_ref(), before.as_deref(), &with, mode, &told)?;
        }
        print(&match self.json {
            true => format!(
                "{}\n",
                self.to_json(client, path, &entries, before.is_some())
            ),
            false => self.to_text(client, path, &entries, before.is_some()),
        })?;
        Ok(Answer::Yes)
    }

    /// The key, where it is to be written.
    fn key(&self) -> Result<Option<Secret>, Failure> {
        let Some(reference) = &self.write_key else {
            return Ok(None);
        };
        super::secret_at(reference, "--write-key").map(Some)
    }

    fn entries(&self, client: &Client, key: Option<&Secret>) -> Result<Entries, Failure> {
        if key.is_some() && client.name == "codex" {
            let what = "Codex takes no key as text";
            return Err(Failure::new(
                what,
                "Leave --write-key out, and set the variable.",
            ));
        }
        let targets = self.targets()?;
        let entry = |url: &String| {
            client.entry(&Target {
                url,
                variable: &self.variable,
                key: key.map(Secret::expose),
            })
        };
        Ok(Entries {
            entries: targets
                .iter()
                .map(|(name, url)| (name.clone(), entry(url)))
                .collect(),
            urls: targets.into_iter().map(|(_, url)| url).collect(),
        })
    }

    /// The entries' names and URLs: one for all servers, or one for each that is named. The one place that says which.
    fn targets(&self) -> Result<Vec<(String, String)>, Failure> {
        let (agent, url) = (self.agent.as_deref(), self.url.as_deref());
        if self.server.is_empty() {
            let gateway = match (url, agent) {
                // A gateway elsewhere needs no configuration here.
                (Some(url), None) => gateway_url(url)?,
                _ => servers(&self.config, url, &[], agent)?.0,
            };
            let (name, path) = match &self.set {
                Some(set) => {
                    let set = named(set)?;
                    (format!("weir-{set}"), format!("/mcp/@{set}"))
                }
                None => ("weir".to_owned(), "/mcp".to_owned()),
            };
            return Ok(vec![(name, format!("{gateway}{path}"))]);
        }
        let (gateway, servers) = servers(&self.config, url, &self.server, agent)?;
        let target = |server: &Name| (format!("weir-{server}"), format!("{gateway}/mcp/{server}"));
        Ok(servers.iter().map(target).collect())
    }

    fn undo(&self, client: &Client, path: &Path) -> Ended {
        let nothing = || {
            let what = format!("{} holds nothing that weir connect wrote", path.display());
            Failure::new(
                what,
                "Name the file with --file or --project, as it was written.",
            )
        };
        let note = file::read_note(path)?.ok_or_else(nothing)?;
        let found = file::read(path)?;
        let is_ours = found
            .as_ref()
            .is_some_and(|held| file::digest(&held.text) == note.after);
        let edited = |why: String| Failure::new(format!("{} {why}", path.display()), "");
        let text = before(client, path, found.as_ref(), Some(&note)).map_err(edited)?;
        let is_whole = is_ours && text.as_deref().map(file::digest) == note.before;
        let mode = match (is_whole, &found) {
            (false, Some(held)) => held.mode,
            _ => note.mode,
        };
        if !self.print {
            file::restore(path, found.as_ref(), text.as_deref(), mode)?;
        }
        let done = match (&text, is_whole) {
            (None, _) => "gone, as it was",
            (Some(_), true) => "as it was, byte for byte",
            (Some(_), false) => "changed since, so only the entries of weir were taken out",
        };
        print(&match self.json {
            true => {
                let value = json!({
                    "client": client.name, "file": path.display().to_string(), "removed": note.entries,
                    "restored": is_whole, "changed": !self.print,
                });
                format!("{value}\n")
            }
            false => {
                let would = if self.print { "would be " } else { "" };
                format!(
                    "{}: {would}{done}: {}\n",
                    path.display(),
                    note.entries.join(", ")
                )
            }
        })?;
        Ok(Answer::Yes)
    }

    /// What is to be known beside what was written.
    fn hint(&self, client: &Client) -> String {
        let variable = &self.variable;
        match (client.key, &self.write_key) {
            (_, Some(_)) => format!(
                "the key stands in this file{}",
                if self.project.is_some() {
                    "; keep it out of version control"
                } else {
                    ""
                }
            ),
            (KeyForm::Variable, None) => {
                format!(
                    "{} reads the key from {variable}:  export {variable}=weir_…",
                    client.title
                )
            }
            (KeyForm::Written, None) => format!(
                "{} hands no variable to a server, so calls are refused until it has the key: \
                 --write-key env:{variable}",
                client.title
            ),
        }
    }

    fn to_text(&self, client: &Client, path: &Path, entries: &Entries, had_file: bool) -> String {
        let path_shown = path.display();
        let hint = self.hint(client);
        if self.print {
            let shown = match &self.write_key {
                None => text::alone(client, &entries.entries),
                // What is shown may be kept by a terminal; the key is not.
                Some(_) => text::alone(client, &self.masked(client, entries)),
            };
            return format!("{path_shown} would have:\n\n{shown}\nkey     {hint}\n");
        }
        let mut said = format!("wrote   {path_shown}\n");
        for (name, url) in entries.names().iter().zip(&entries.urls) {
            said.push_str(&format!("entry   {name}  {url}\n"));
        }
        if had_file {
            said.push_str(&format!("backup  {}\n", file::backup(path).display()));
        }
        said.push_str(&format!("key     {hint}\n"));
        said
    }

    /// The entries with a mark in the key's place.
    fn masked(&self, client: &Client, entries: &Entries) -> Vec<(String, Value)> {
        let pairs = entries.names().into_iter().zip(&entries.urls);
        let masked = pairs.map(|(name, url)| {
            let target = Target {
                url,
                variable: &self.variable,
                key: Some("(the key)"),
            };
            (name, client.entry(&target))
        });
        masked.collect()
    }

    fn to_json(&self, client: &Client, path: &Path, entries: &Entries, had_file: bool) -> Value {
        let pairs = entries.names().into_iter().zip(&entries.urls);
        let listed: Vec<Value> = pairs
            .map(|(name, url)| json!({ "name": name, "url": url }))
            .collect();
        json!({
            "client": client.name,
            "file": path.display().to_string(),
            "entries": listed,
            "backup": had_file.then(|| file::backup(path).display().to_string()),
            "variable": self.variable,
            "key_written": self.write_key.is_some(),
            "changed": !self.print,
            "hint": self.hint(client),
        })
    }
}

/// What the file held before weir wrote to it: the backup where nothing else changed it, else what it holds without our entries.
fn before(
    client: &Client,
    path: &Path,
    found: Option<&Held>,
    note: Option<&Note>,
) -> Result<Option<String>, String> {
    let (Some(held), Some(note)) = (found, note) else {
        return Ok(found.map(|held| held.text.clone()));
    };
    if file::digest(&held.text) == note.after {
        match note.before {
            None => return Ok(None),
            Some(_) => {
                if let Some(text) = file::read_backup(path, note) {
                    return Ok(Some(text));
                }
            }
        }
    }
    text::remove(client, &held.text, &note.entries, note.root).map(Some)
}

/// Makes the folder of a project's configuration. That of a user is there if the program is.
fn make_folder(path: &Path, is_project: bool) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder.filter(|folder| !folder.is_dir()) else {
        return Ok(());
    };
    if !is_project {
        let what = format!(
            "there is no folder {}; nothing was changed",
            folder.display()
        );
        let help = "Start the program once, or name its file with --file.";
        return Err(Failure::new(what, help));
    }
    // Only the last: a folder that is mistyped is not made.
    std::fs::create_dir(folder)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", folder.display()), ""))
}

/// Where the gateway is, and which of its servers are meant: those that are wanted, or all, of which the agent may use. A gateway
/// elsewhere needs no configuration here.
pub(in crate::cli) fn servers(
    config: &ConfigFile,
    url: Option<&str>,
    wanted: &[String],
    agent: Option<&str>,
) -> Result<(String, Vec<Name>), Failure> {
    let given = url.map(gateway_url).transpose()?;
    let wanted: Vec<Name> = wanted
        .iter()
        .map(|name| named(name))
        .collect::<Result<_, _>>()?;
    if let Some(gateway) = &given
        && !wanted.is_empty()
        && agent.is_none()
    {
        return Ok((gateway.clone(), wanted));
    }
    let settings = config.load()?;
    let gateway = match given {
        Some(gateway) => gateway,
        None => own_url(&settings)?,
    };
    let known = settings.servers.iter().map(|server| server.name.clone());
    let known: Vec<Name> = known.collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        return Err(unknown_name("server", unknown.as_str(), &known));
    }
    let wanted = if wanted.is_empty() { known } else { wanted };
    let servers = match agent {
        None => wanted,
        Some(agent) => usable(&settings, agent, wanted)?,
    };
    match servers.is_empty() {
        true => Err(Failure::new(
            "there is no server to connect",
            "Write one under mcp in weir.yaml, or let the agent use one by a policy.",
        )),
        false => Ok((gateway, servers)),
    }
}

/// Where the gateway is: what was given, or else what the configuration says.
pub(in crate::cli) fn gateway(config: &ConfigFile, url: Option<&str>) -> Result<String, Failure> {
    match url {
        Some(url) => gateway_url(url),
        None => own_url(&config.load()?),
    }
}

fn named(text: &str) -> Result<Name, Failure> {
    let what = format!("{text:?} cannot be a server's name");
    Name::new(text).ok_or_else(|| Failure::new(what, "Name one as weir.yaml does, under mcp."))
}

fn unknown_name(what: &str, given: &str, known: &[Name]) -> Failure {
    let known: Vec<&str> = known.iter().map(Name::as_str).collect();
    let help = match known.is_empty() {
        true => format!("The configuration has no {what}."),
        false => format!("There are: {}.", known.join(", ")),
    };
    Failure::new(format!("there is no {what} {given:?}"), help)
}

/// The address of a gateway, as a person gives it.
fn gateway_url(text: &str) -> Result<String, Failure> {
    let help =
        "Name the gateway's own address, such as https://weir.example or http://127.0.0.1:8700.";
    let url = values::url(text).map_err(|why| Failure::new(format!("--url {why}"), help))?;
    match url.path.as_str() {
        "/" => Ok(url.origin()),
        _ => Err(Failure::new("--url must hold no path", help)),
    }
}

/// The address of the gateway that a configuration is for.
fn own_url(settings: &Settings) -> Result<String, Failure> {
    if let Some(url) = &settings.public_url {
        return Ok(url.clone());
    }
    let address = settings
        .listen
        .iter()
        .find_map(|listener| match &listener.at {
            Listen::Tcp(address) if address.port() != 0 => Some((
                if listener.tls.is_some() {
                    "https"
                } else {
                    "http"
                },
                *address,
            )),
            Listen::Tcp(_) | Listen::Unix(_) => None,
        });
    let unknown = || {
        let what = "the configuration does not say at which address the gateway is reached";
        Failure::new(
            what,
            "Write public_url in weir.yaml, or name it with --url.",
        )
    };
    let (scheme, address) = address.ok_or_else(unknown)?;
    // Whoever listens everywhere is reached here.
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    Ok(format!(
        "{scheme}://{}",
        SocketAddr::new(ip, address.port())
    ))
}

/// The servers that policies let the agent use and list.
fn usable(settings: &Settings, agent: &str, servers: Vec<Name>) -> Result<Vec<Name>, Failure> {
    let known = settings
        .agents
        .iter()
        .find(|known| known.name.as_str() == agent);
    let names: Vec<Name> = settings
        .agents
        .iter()
        .map(|agent| agent.name.clone())
        .collect();
    let agent = known.ok_or_else(|| unknown_name("agent", agent, &names))?;
    let policies = compile::policies(settings);
    let policies = policies.map_err(|problems| unusable(&settings.file, &problems))?;
    let mut servers = servers;
    servers.retain(|server| may_use(&policies, agent, server));
    Ok(servers)
}

fn may_use(policies: &Policies, agent: &Agent, server: &Name) -> bool {
    let principal = Arc::new(Principal {
        name: agent.name.clone(),
        groups: agent.groups.clone(),
    });
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let may = |action: &'static base::Action| {
        let context = Context {
            method: action.method,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            arguments: None,
        };
        let resource = Resource::server(server.clone());
        let explanation = policies.explain(&principal, action, &resource, &context);
        !matches!(explanation.decision, Decision::Refused(_))
    };
    may(&mcp::actions::USE) && may(&mcp::actions::LIST)
}
