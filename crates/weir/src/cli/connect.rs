//! `weir connect`: write the servers of a gateway into the configuration of a program that speaks MCP, and take them out again.
//!
//! The key is never written as text unless a person asks for it: each program refers to a variable in its own way.

pub(in crate::cli) mod clients;
mod file;
mod plan;
pub(in crate::cli) mod text;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ::config::Listen;
use base::{Name, Resource, Secret};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use policy::{Context, Decision, Policies, Principal};
use serde_json::{Value, json};

use super::{Answer, ConfigFile, Ended, Failure, print, unusable};
use crate::config::settings::Agent;
use crate::config::{Settings, compile, values};
use clients::{CLIENTS, Client, KeyForm, ModelsFile, Target};
use plan::{FilePlan, PlannedEntry, PlannedSection, ReadyFile, Undone};

/// Not a program: the variables by which programs send their requests through the proxy.
const ENVIRONMENT: &str = "env";

/// Write the gateway's servers and models into the configuration of a client
///
/// One entry, weir, for all servers that the agent may use, at /mcp; with --server one for each that is named. Comments, order
/// and spacing of the file are kept, a backup stands beside it, and --undo brings back the same bytes. The key is read from a
/// variable by the client itself; it is not written. Claude Code, Codex and Gemini CLI are also told to ask the gateway for models
/// where the configuration has providers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir connect claude-code              Write ~/.claude.json
  weir connect cursor --print           Show what would be written, and where
  weir connect gemini --set desk        The servers and tools of /mcp/@desk
  weir connect vscode --project . --server files
  weir connect codex --url https://weir.example --server files
  weir connect zed --write-key env:WEIR_KEY
  weir connect codex --only llm         Models alone, and no servers
  weir connect cursor --undo
  eval \"$(weir connect env)\"            Send curl, git, npm, pip and the like through the proxy

Zed and Claude Desktop hand no variable to a server, so they need --write-key.
Exit codes: 0 done, 2 it could not be done; the file is then as it was.")]
pub(super) struct Connect {
    /// The program to connect
    #[arg(value_parser = PossibleValuesParser::new(CLIENTS.iter().map(|client| client.name).chain([ENVIRONMENT])))]
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
    /// Write the servers alone, or where models are asked alone
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    /// Show what would be written, and change nothing
    #[arg(long)]
    print: bool,
    /// Take out what was written
    #[arg(long, conflicts_with_all = ["server", "set", "agent", "url", "write_key", "only"])]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What stands in the place of a key that is shown.
const MASK: &str = "(the key)";

fn variable_name(text: &str) -> Result<String, String> {
    match ::config::kinds::is_variable(text) {
        true => Ok(text.to_owned()),
        false => Err("must be letters, digits and _, and not begin with a digit".to_owned()),
    }
}

/// One of the two things that a client is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Servers of MCP
    Mcp,
    /// Where models are asked
    Llm,
}

impl Connect {
    pub(super) fn run(self) -> Ended {
        if self.client == ENVIRONMENT {
            return super::web::print_environment(&self.config, &self.variable);
        }
        let client = Client::named(&self.client).expect("the parser takes known names only");
        match self.undo {
            true => self.undo(client),
            false => self.connect(client),
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

    /// The file that says where models are asked, where the client has one. One that is named is that of the servers.
    fn models_path(&self, models: &ModelsFile) -> Option<PathBuf> {
        match (&self.file, &self.project) {
            (Some(file), _) => (self.only == Some(Only::Llm)).then(|| file.clone()),
            (None, Some(folder)) => Some(folder.join(models.project)),
            (None, None) => models.user.path(),
        }
    }

    fn connect(&self, client: &Client) -> Ended {
        let key = self.key()?;
        let plans = self.plans(client, key.as_ref())?;
        let ready = plans.iter().map(|plan| plan.ready(client, key.is_some()));
        let ready: Vec<ReadyFile<'_>> = ready.collect::<Result<_, _>>()?;
        if !self.print {
            plan::write(&ready, self.project.is_some())?;
        }
        print(&match self.json {
            true => {
                let files = ready.iter().map(ReadyFile::to_json).collect();
                let more = json!({
                    "client": client.name, "variable": self.variable, "key_written": key.is_some(), "changed": !self.print,
                });
                format!("{}\n", files_json(files, &more))
            }
            false => {
                let texts = ready
                    .iter()
                    .map(|ready| ready.to_text(self.print, key.is_some()));
                texts
                    .collect::<Vec<_>>()
                    .join(if self.print { "\n" } else { "" })
            }
        })?;
        Ok(Answer::Yes)
    }

    /// What is to be written, file by file: the servers first.
    fn plans(&self, client: &Client, key: Option<&Secret>) -> Result<Vec<FilePlan>, Failure> {
        if key.is_some() && client.name == "codex" {
            let what = "Codex takes no key as text";
            return Err(Failure::new(
                what,
                "Leave --write-key out, and set the variable.",
            ));
        }
        let (servers, models) = self.wanted(client)?;
        let mut plans = Vec::new();
        if servers {
            plans.push(self.servers_plan(client, key)?);
        }
        let models = client.models.as_ref().filter(|_| models);
        if let Some(models) = models
            && let Some(path) = self.models_path(models)
        {
            let plan = self.models_plan(client, models, path, key)?;
            match plans
                .first_mut()
                .filter(|servers| servers.path == plan.path)
            {
                Some(servers) => servers.sections.extend(plan.sections),
                None => plans.push(plan),
            }
        }
        Ok(plans)
    }

    /// Whether the servers are to be written, and whether where models are asked is.
    fn wanted(&self, client: &Client) -> Result<(bool, bool), Failure> {
        match self.only {
            Some(Only::Mcp) => return Ok((true, false)),
            Some(Only::Llm) if client.models.is_some() => return Ok((false, true)),
            Some(Only::Llm) => {
                let what = format!("no file tells {} where models are asked", client.title);
                return Err(Failure::new(
                    what,
                    "Set it in the program itself; see docs/llm.md.",
                ));
            }
            None => {}
        }
        // Of a gateway elsewhere nobody here knows whether it has models.
        let is_elsewhere = self.url.is_some() && self.agent.is_none();
        if client.models.is_none() || self.file.is_some() || is_elsewhere {
            return Ok((true, false));
        }
        let settings = self.config.load()?;
        let models = !settings.llm.providers.is_empty();
        Ok((!models || !settings.servers.is_empty(), models))
    }

    fn servers_plan(&self, client: &Client, key: Option<&Secret>) -> Result<FilePlan, Failure> {
        let targets = self.targets()?;
        let entries = targets.into_iter().map(|(name, url)| {
            let target = |key| Target {
                url: &url,
                variable: &self.variable,
                key,
            };
            PlannedEntry {
                value: client.entry(&target(key.map(Secret::expose))),
                masked: client.entry(&target(key.map(|_| MASK))),
                name,
                leads_to: url.clone(),
            }
        });
        Ok(FilePlan {
            path: self.path(client)?,
            format: client.format,
            sections: vec![PlannedSection {
                root: client.root,
                entries: entries.collect(),
            }],
            hint: self.hint(client),
        })
    }

    fn models_plan(
        &self,
        client: &Client,
        models: &ModelsFile,
        path: PathBuf,
        key: Option<&Secret>,
    ) -> Result<FilePlan, Failure> {
        let url = match &self.url {
            Some(url) => gateway_url(url)?,
            None => own_url(&self.config.load()?)?,
        };
        let sections = |key| {
            (models.sections)(&Target {
                url: &url,
                variable: &self.variable,
                key,
            })
        };
        let masked = sections(key.map(|_| MASK));
        let written = sections(key.map(Secret::expose));
        let sections = written
            .into_iter()
            .zip(masked)
            .map(|((root, entries), (_, masked))| {
                let entries = entries.into_iter().zip(masked);
                let entries = entries.map(|((name, value), (_, masked))| PlannedEntry {
                    name: name.to_owned(),
                    leads_to: url.clone(),
                    value,
                    masked,
                });
                PlannedSection {
                    root,
                    entries: entries.collect(),
                }
            });
        let variable = &self.variable;
        let hint = match models.variable {
            Some(own) if key.is_none() => {
                format!(
                    "{} asks models with the key in {own}:  export {own}=\"${variable}\"",
                    client.title
                )
            }
            _ => self.hint(client),
        };
        Ok(FilePlan {
            path,
            format: models.format,
            sections: sections.collect(),
            hint,
        })
    }

    /// The key, where it is to be written.
    fn key(&self) -> Result<Option<Secret>, Failure> {
        let Some(reference) = &self.write_key else {
            return Ok(None);
        };
        super::secret_at(reference, "--write-key").map(Some)
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
                    if url.is_none() || agent.is_some() {
                        self.check_set(&set)?;
                    }
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

    /// Whether the configuration has a set of this name.
    fn check_set(&self, set: &Name) -> Result<(), Failure> {
        let settings = self.config.load_without_secrets()?;
        let sets = settings.toolsets.iter().map(|(name, _)| name.clone());
        let sets: Vec<Name> = sets.collect();
        match sets.contains(set) {
            true => Ok(()),
            false => Err(unknown_name("toolset", set.as_str(), &sets)),
        }
    }

    /// Undoes all that was written for this client, in whichever files.
    fn undo(&self, client: &Client) -> Ended {
        let path = self.path(client)?;
        let mut files = vec![(path.clone(), client.format)];
        if let Some(models) = &client.models
            && self.file.is_none()
            && let Some(path) = self.models_path(models)
        {
            files.push((path, models.format));
        }
        if let (Some(models), Some(file)) = (&client.models, &self.file)
            && models.format != client.format
            && file.file_name() == Path::new(models.project).file_name()
        {
            files = vec![(file.clone(), models.format)];
        }
        files.dedup_by(|one, other| one.0 == other.0);
        let mut undone: Vec<Undone> = Vec::new();
        for (path, format) in files {
            undone.extend(plan::undo(client, format, &path, self.print)?);
        }
        if undone.is_empty() {
            let what = format!("{} holds nothing that weir connect wrote", path.display());
            let help = "Name the file with --file or --project, as it was written.";
            return Err(Failure::new(what, help));
        }
        print(&match self.json {
            true => {
                let files = undone.iter().map(Undone::to_json).collect();
                let more = json!({ "client": client.name, "changed": !self.print });
                format!("{}\n", files_json(files, &more))
            }
            false => undone
                .iter()
                .map(|undone| undone.to_text(self.print))
                .collect(),
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
}

/// The first file with what holds for all; those behind it in `more`.
fn files_json(files: Vec<Value>, all: &Value) -> Value {
    let mut files = files.into_iter();
    let mut first = files.next().unwrap_or_else(|| json!({}));
    for (key, value) in all.as_object().into_iter().flatten() {
        first[key] = value.clone();
    }
    let more: Vec<Value> = files.collect();
    if !more.is_empty() {
        first["more"] = Value::from(more);
    }
    first
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
    let settings = config.load_without_secrets()?;
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
