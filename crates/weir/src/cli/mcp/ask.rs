//! `weir mcp list`, `call` and `inspect`: what servers behind a gateway that runs offer, asked as an agent asks it.
//!
//! The gateway judges and records each question as any other call of the agent whose key it is.

use std::path::PathBuf;

use base::Name;
use clap::Args;
use serde_json::{Value, json};
use terminal::{visible, visible_json, visible_lines};

use super::session::{Said, Session, Way};
use crate::assemble::client::Client;
use crate::cli::{Answer, ConfigFile, Ended, Failure, connect, print, secret_at};
use crate::config::settings::Ca;
use crate::config::values;

/// Revisions that a server is asked for, the newest first.
const REVISIONS: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26"];
/// Characters of a description that a list shows.
const DESCRIPTION_CHARS_MAX: usize = 100;

/// Which gateway is asked, and as whom.
#[derive(Args, Debug)]
pub(super) struct Gateway {
    #[command(flatten)]
    config: ConfigFile,
    /// Where the gateway is; by default public_url of the configuration, or else its first listener
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where the agent's key is: env:NAME or file:PATH
    #[arg(long, value_name = "WHERE", default_value = "env:WEIR_KEY")]
    key: String,
    /// Certificates to trust for the gateway instead of the public ones, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the tools that the agent may use, of these servers or of all
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir mcp list
  weir mcp list files --json | jq -r '.[].tools[].name'
  weir mcp list files --url https://weir.example --key file:dev.key

Exit codes: 0 all answered, 1 the gateway or a server refuses or is down, 2 it could not be asked.")]
pub(in crate::cli) struct List {
    /// Servers, as the gateway names them
    servers: Vec<String>,
    #[command(flatten)]
    gateway: Gateway,
}

/// Call one tool
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir mcp call files/list_directory '{\"path\": \".\"}'
  weir mcp call tracker/search '{\"text\": \"retries\"}' --json

Exit codes: 0 the tool answered, 1 it answered an error or the call was refused, 2 it could not be asked.")]
pub(in crate::cli) struct Call {
    /// The tool, as SERVER/TOOL
    name: String,
    /// Its arguments, as a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// Say what a server speaks and offers: revisions of MCP, capabilities, tools, prompts and resources
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir mcp inspect files
  weir mcp inspect files --json

Exit codes: 0 it answered, 1 the gateway or the server refuses or is down, 2 it could not be asked.")]
pub(in crate::cli) struct Inspect {
    /// The server, as the gateway names it
    server: String,
    #[command(flatten)]
    gateway: Gateway,
}

impl Gateway {
    /// Asks these servers, or all, as the body says.
    fn run<T>(
        &self,
        wanted: &[String],
        body: impl AsyncFnOnce(&Way<'_>, &[Name]) -> T,
    ) -> Result<T, Failure> {
        let (url, servers) = connect::servers(&self.config, self.url.as_deref(), wanted, None)?;
        let key = secret_at(&self.key, "--key").map_err(|failure| {
            let help =
                "Set WEIR_KEY to the key of an agent, or name it with --key env:NAME or file:PATH.";
            Failure::new(failure.what, help)
        })?;
        let url = values::url(&url).map_err(|why| Failure::new(format!("the URL {why}"), ""))?;
        let ca = self.ca.as_deref().map(|file| {
            let pem = crate::config::read::read_text(file, ::config::PEM_BYTES_MAX);
            pem.map(|pem| Ca {
                file: file.to_owned(),
                pem,
            })
            .map_err(|why| Failure::new(format!("{} {why}", file.display()), ""))
        });
        let client = Client::new(&url, ca.transpose()?.as_ref());
        let client = client.map_err(|why| Failure::new(why, ""))?;
        Ok(client.run(async |asker| body(&Way::new(asker, &key), &servers).await))
    }
}

/// How a command ends that a server or the gateway said no to. Nobody there is a failure.
fn ended(said: Said, what: &str) -> Ended {
    match said {
        Said::No(why) => {
            crate::cli::complain(&format!("{what}: {}", shown(&why)), "");
            Ok(Answer::No)
        }
        Said::Failed(why) => {
            let help = "Is the gateway running there? Name its address with --url.";
            Err(Failure::new(format!("{what}: {}", shown(&why)), help))
        }
    }
}

impl List {
    pub(super) fn run(self) -> Ended {
        let listed = self.gateway.run(&self.servers, async |way, servers| {
            let mut listed = Vec::new();
            for server in servers {
                listed.push((server.clone(), tools(way, server).await));
            }
            listed
        })?;
        let (mut text, mut values, mut answer) = (String::new(), Vec::new(), Answer::Yes);
        for (server, tools) in listed {
            match tools {
                Ok(tools) => {
                    for tool in &tools {
                        text.push_str(&line(&server, tool));
                    }
                    values.push(json!({ "server": server.as_str(), "tools": tools }));
                }
                Err(said) => {
                    values.push(json!({ "server": server.as_str(), "error": said.text() }));
                    answer = ended(said, server.as_str())?;
                }
            }
        }
        print(&match self.gateway.json {
            true => format!("{}\n", visible_json(&Value::from(values).to_string())),
            false => text,
        })?;
        Ok(answer)
    }
}

async fn tools(way: &Way<'_>, server: &Name) -> Result<Vec<Value>, Said> {
    let session = Session::begin(way, server, REVISIONS[0]).await?;
    let tools = session.list("tools/list", "tools").await;
    session.end().await;
    tools
}

/// One tool on one line.
fn line(server: &Name, tool: &Value) -> String {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
    let description = shown(text("description").lines().next().unwrap_or_default());
    let mut short: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if short.len() < description.len() {
        short.push('…');
    }
    let name = format!("{server}/{}", visible(text("name")));
    format!("{name:<32} {short}\n")
}

impl Call {
    pub(super) fn run(self) -> Ended {
        let help = "Name it as weir mcp list does: files/read_file.";
        let wrong = || Failure::new(format!("{:?} is not SERVER/TOOL", self.name), help);
        let (server, tool) = self.name.split_once('/').ok_or_else(wrong)?;
        let arguments: Value = serde_json::from_str(&self.arguments)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| {
                let help = "Quote it for the shell: '{\"path\": \"/tmp\"}'.";
                Failure::new("the arguments are not a JSON object", help)
            })?;
        let params = json!({ "name": tool, "arguments": arguments });
        let wanted = [server.to_owned()];
        let result = self.gateway.run(&wanted, async |way, servers| {
            let session = Session::begin(way, &servers[0], REVISIONS[0]).await?;
            let result = session.ask("tools/call", params).await;
            session.end().await;
            result
        })?;
        let result = match result {
            Ok(result) => result,
            Err(said) => return ended(said, &self.name),
        };
        print(&match self.gateway.json {
            true => format!("{}\n", visible_json(&result.to_string())),
            false => content(&result),
        })?;
        Ok(match result.get("isError") {
            Some(Value::Bool(true)) => Answer::No,
            _ => Answer::Yes,
        })
    }
}

/// What a tool answered: its texts as they are, and everything else as JSON.
fn content(result: &Value) -> String {
    let parts = result.get("content").and_then(Value::as_array);
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        match part.get("text").and_then(Value::as_str) {
            Some(said) => text.push_str(&shown(said)),
            None => text.push_str(&visible_json(&part.to_string())),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

impl Inspect {
    pub(super) fn run(self) -> Ended {
        let wanted = [self.server.clone()];
        let seen = self.gateway.run(&wanted, async |way, servers| {
            inspect(way, &servers[0]).await
        })?;
        let seen = match seen {
            Ok(seen) => seen,
            Err(said) => return ended(said, &self.server),
        };
        print(&match self.gateway.json {
            true => format!("{}\n", visible_json(&seen.to_string())),
            false => inspected(&seen),
        })?;
        Ok(Answer::Yes)
    }
}

/// What a server speaks and offers.
async fn inspect(way: &Way<'_>, server: &Name) -> Result<Value, Said> {
    let session = Session::begin(way, server, REVISIONS[0]).await?;
    let about = session.about.clone();
    let has = |what: &str| about["capabilities"].get(what).is_some();
    let lists = [
        ("tools", "tools/list"),
        ("prompts", "prompts/list"),
        ("resources", "resources/list"),
    ];
    let mut offers = serde_json::Map::new();
    for (what, method) in lists {
        if has(what) {
            let listed = session.list(method, what).await;
            offers.insert(
                what.to_owned(),
                match listed {
                    Ok(listed) => listed.iter().map(|item| item["name"].clone()).collect(),
                    Err(said) => json!({ "error": said.text() }),
                },
            );
        }
    }
    session.end().await;
    let mut speaks = Vec::from_iter(way.discover(server).await);
    for revision in REVISIONS {
        let Ok(session) = Session::begin(way, server, revision).await else {
            continue;
        };
        if session.about["protocolVersion"] == **revision {
            speaks.push((*revision).to_owned());
        }
        session.end().await;
    }
    Ok(json!({
        "server": server.as_str(),
        "about": about["serverInfo"],
        "revisions": speaks,
        "capabilities": about["capabilities"],
        "instructions": about["instructions"],
        "offers": offers,
    }))
}

fn inspected(seen: &Value) -> String {
    let text = |value: &Value| visible(value.as_str().unwrap_or_default()).into_owned();
    let about = &seen["about"];
    let mut said = format!(
        "{}  {} {}\n",
        text(&seen["server"]),
        text(&about["name"]),
        text(&about["version"])
    );
    let list = |value: &Value| {
        let words: Vec<String> = value.as_array().into_iter().flatten().map(text).collect();
        words.join(", ")
    };
    said.push_str(&format!("revisions     {}\n", list(&seen["revisions"])));
    let capabilities = seen["capabilities"].as_object().into_iter().flatten();
    let capabilities: Vec<String> = capabilities
        .map(|(name, value)| {
            let on = value.as_object().into_iter().flatten();
            let on: Vec<_> = on
                .filter(|(_, is)| **is == Value::Bool(true))
                .map(|(key, _)| visible(key))
                .collect();
            match on.is_empty() {
                true => visible(name).into_owned(),
                false => format!("{} ({})", visible(name), on.join(", ")),
            }
        })
        .collect();
    said.push_str(&format!("capabilities  {}\n", capabilities.join(", ")));
    for (what, items) in seen["offers"].as_object().into_iter().flatten() {
        let many = items.as_array().map_or(0, Vec::len);
        said.push_str(&format!("{what:<13} {many}: {}\n", list(items)));
    }
    let instructions = shown(seen["instructions"].as_str().unwrap_or_default());
    if !instructions.is_empty() {
        said.push_str(&format!(
            "instructions  {}\n",
            instructions.replace('\n', "\n              ")
        ));
    }
    said
}

/// A text of a server, fit for a terminal.
fn shown(text: &str) -> String {
    visible_lines(text).into_owned()
}
