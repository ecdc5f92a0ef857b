//! `weir policy`: check the policies, and ask them what they would say.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base::{Action, ItemKind, Json, JsonKind, Name, Refusal, Resource, refusal};
use clap::{Args, Subcommand};
use policy::{Context, Decision, Explanation, Principal};
use serde_json::json;
use terminal::visible_json;

use super::problems::{ProblemCode, to_json as problems_json};
use super::{Answer, ConfigFile, Ended, Failure, print, print_problems, print_warnings, unusable};
use crate::config::settings::Agent;
use crate::config::{Problem, Settings, compile};
use crate::lanes;

/// Check the policies, or ask what they would say of a call
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir policy check
  weir policy explain --help    How a call is described")]
pub(super) enum Policy {
    Check(Check),
    Explain(Box<Explain>),
}

/// Compile the policies and say every problem at once
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir policy check
  weir policy check --json | jq '.problems[].text'

With --json, one object: `good`, `problems`, and where it is good `files` and `policies` (how many). A problem has `file`, `line`,
`column`, `key`, `code`, `text` and `help`, as weir config check --help says them.

Exit codes: 0 no problem, 1 problems, 2 a file cannot be read.")]
pub(super) struct Check {
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Say whether a call would be permitted, and what makes it so: policies, the agent's state, stops
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir policy explain --agent dev --action mcp:call --server files --tool read_file
  weir policy explain --agent dev --action mcp:call --server files --tool read_file \\
    --arguments '{\"path\": \"/etc/passwd\"}'
  weir policy explain --agent dev --action mcp:prompt --server files --prompt greet
  weir policy explain --agent dev --action mcp:read --server files --resource file:///etc/passwd
  weir policy explain --agent dev --action llm:chat --model anthropic/claude-opus-5
  weir policy explain --agent dev --action web:send --url https://api.example.com/items
  weir policy explain --agent dev --action llm:list --models usage
  weir policy explain --agent dev --action mcp:use --toolset mcp
  weir policy explain --agent dev --action mcp:list --server files --json

Exit codes: 0 permitted (or permitted until the scan is done), 1 refused, 2 it could not be asked.")]
pub(super) struct Explain {
    #[command(flatten)]
    file: ConfigFile,
    /// The agent that calls, as the configuration names it
    #[arg(long)]
    agent: String,
    /// What it asks: mcp:list, mcp:call, mcp:read, mcp:prompt, mcp:use, llm:chat, llm:embed, llm:list, web:get,
    /// web:send, web:tunnel or relay:pass
    #[arg(long)]
    action: String,
    /// The server that it asks, as the configuration names it
    #[arg(long)]
    #[arg(required_if_eq_any = [
        ("action", "mcp:call"), ("action", "mcp:read"), ("action", "mcp:prompt"), ("action", "relay:pass"),
    ])]
    server: Option<String>,
    /// The set of servers, for mcp:use and mcp:list: mcp is /mcp, and another name is /mcp/@NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["server", "model"])]
    toolset: Option<String>,
    /// The page of models, for llm:list: models is what there is (the default), usage what was used
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["server", "model", "toolset"])]
    #[arg(value_parser = ["models", "usage"])]
    models: Option<String>,
    /// The tool, for mcp:call
    #[arg(long, required_if_eq("action", "mcp:call"))]
    tool: Option<String>,
    /// The prompt, for mcp:prompt
    #[arg(long, required_if_eq("action", "mcp:prompt"))]
    prompt: Option<String>,
    /// The URI of the resource, for mcp:read
    #[arg(long, value_name = "URI", required_if_eq("action", "mcp:read"))]
    resource: Option<String>,
    /// The model, for llm:chat and llm:embed
    #[arg(long, value_name = "PROVIDER/MODEL", conflicts_with = "server")]
    model: Option<String>,
    /// The URL, for web:get, web:send and web:tunnel
    #[arg(long, conflicts_with_all = ["server", "model"])]
    url: Option<String>,
    /// The tool's arguments, as a JSON object
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// The address that the call comes from
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    peer: IpAddr,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Policy {
    pub(super) fn run(self) -> Ended {
        match self {
            Policy::Check(command) => command.run(),
            Policy::Explain(command) => command.run(),
        }
    }
}

impl Check {
    fn run(self) -> Ended {
        let settings = match self.file.read_without_secrets()? {
            Ok(settings) => settings,
            Err(problems) => return self.wrong(ProblemCode::Config, &problems),
        };
        let policies = match compile::policies(&settings) {
            Ok(policies) => policies,
            Err(problems) => return self.wrong(ProblemCode::Policy, &problems),
        };
        let (files, policies) = (settings.policy.files.len(), policies.len());
        print(&match self.json {
            true => {
                let warnings = problems_json(ProblemCode::Warning, &settings.warnings);
                let value = json!({
                    "good": true,
                    "problems": [],
                    "warnings": warnings,
                    "files": files,
                    "policies": policies,
                });
                format!("{}\n", visible_json(&value.to_string()))
            }
            false => {
                print_warnings(&settings.warnings);
                format!("the policies are good: files: {files}, policies: {policies}\n")
            }
        })?;
        Ok(Answer::Yes)
    }

    fn wrong(&self, code: ProblemCode, problems: &[Problem]) -> Ended {
        if self.json {
            let value = json!({ "good": false, "problems": problems_json(code, problems) });
            print(&format!("{}\n", visible_json(&value.to_string())))?;
        } else {
            print_problems(problems);
        }
        Ok(Answer::No)
    }
}

/// Reads the arguments of a call.
fn json_object(text: &str) -> Result<Json<'_>, Failure> {
    let failure = |why: String| {
        let what = format!("--arguments is not a JSON object{why}");
        Failure::new(what, "Quote it for the shell: '{\"path\": \"/tmp\"}'.")
    };
    let json = Json::read(text.as_bytes()).map_err(|error| {
        // The index says no more than that it is none; where it goes wrong, serde_json says.
        let why = serde_json::from_str::<serde_json::Value>(text).err();
        failure(why.map_or_else(|| format!(": {error:?}"), |why| format!(": {why}")))
    })?;
    let kind = match json.root().kind() {
        JsonKind::Object => return Ok(json),
        JsonKind::Array => "an array",
        JsonKind::String => "a string",
        JsonKind::Number => "a number",
        JsonKind::Bool | JsonKind::Null => "a word",
    };
    Err(failure(format!(": it is {kind}")))
}

impl Explain {
    fn run(self) -> Ended {
        let settings = self.file.load_without_secrets()?;
        let policies = compile::policies(&settings);
        let policies = policies.map_err(|problems| unusable(&settings.file, &problems))?;
        let (agent, action, resource) = self.question(&settings)?;
        let arguments = self.arguments.as_deref().map(json_object).transpose()?;
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let context = Context {
            method: action.method,
            peer: self.peer,
            unix_ms,
            arguments: arguments.as_ref().map(Json::root),
        };
        let principal = Arc::new(Principal {
            name: agent.name.clone(),
            groups: agent.groups.clone(),
        });
        let explanation = policies.explain(&principal, action, &resource, &context);
        let before = before(&settings, agent, action, unix_ms).err();
        print(&match self.json {
            true => format!("{}\n", to_json(&explanation, before.as_ref())),
            false => to_text(&explanation, before.as_ref()),
        })?;
        Ok(match (before, explanation.decision) {
            (None, Decision::Permitted | Decision::AfterScan) => Answer::Yes,
            _ => Answer::No,
        })
    }

    /// Who asks for what, if the configuration knows them.
    fn question<'s>(
        &self,
        settings: &'s Settings,
    ) -> Result<(&'s Agent, &'static Action, Resource), Failure> {
        let agents = || settings.agents.iter().map(|agent| &agent.name);
        let agent = settings
            .agents
            .iter()
            .find(|agent| agent.name.as_str() == self.agent);
        let agent = agent.ok_or_else(|| unknown("agent", &self.agent, agents()))?;
        let action = lanes::actions().find(|action| action.name == self.action);
        let actions = || lanes::actions().map(|action| action.name);
        let action = action.ok_or_else(|| unknown("action", &self.action, actions()))?;
        if let Some(model) = &self.model {
            return Ok((agent, action, self.of_model(settings, model, action)?));
        }
        if let Some(url) = &self.url {
            return Ok((agent, action, of_url(url, action)?));
        }
        if let Some(set) = &self.toolset {
            return Ok((agent, action, of_toolset(settings, set, action)?));
        }
        if *action == llm::actions::LIST || self.models.is_some() {
            goes_with("--models", action, &[&llm::actions::LIST])?;
            let page = Name::new(self.models.as_deref().unwrap_or("models"));
            let page = page.expect("the parser takes known names only");
            return Ok((agent, action, Resource::Setting(page)));
        }
        if self.server.is_none() {
            let what = format!("it is not said what {} is asked of", action.name);
            return Err(Failure::new(
                what,
                "Name it with --server, --toolset, --model or --url.",
            ));
        }
        let asked = self.server.as_deref().unwrap_or_default();
        let servers = || configured(settings, action);
        let server = servers().find(|name| name.as_str() == asked);
        let server = server.ok_or_else(|| unknown("server", asked, servers()))?;
        let resource = match self.item(action)? {
            Some((kind, name)) => Resource::item(server.clone(), kind, name),
            None if *action == relay::actions::PASS => Resource::Route(server.clone()),
            None => Resource::server(server.clone()),
        };
        Ok((agent, action, resource))
    }

    /// The model that is asked.
    fn of_model(
        &self,
        settings: &Settings,
        asked: &str,
        action: &Action,
    ) -> Result<Resource, Failure> {
        goes_with(
            "--model",
            action,
            &[&llm::actions::CHAT, &llm::actions::EMBED],
        )?;
        let (of, model) = asked.split_once('/').unwrap_or((asked, ""));
        let names = || settings.llm.providers.iter().map(|of| &of.told.name);
        let provider = names().find(|name| name.as_str() == of);
        let provider = provider.ok_or_else(|| unknown("provider", of, names()))?;
        Ok(Resource::Model {
            provider: provider.clone(),
            model: model.into(),
        })
    }

    /// The item that is asked for, which its action has to go with.
    fn item(&self, action: &Action) -> Result<Option<(ItemKind, &str)>, Failure> {
        let items = [
            (ItemKind::Tool, &self.tool, &mcp::actions::CALL),
            (ItemKind::Prompt, &self.prompt, &mcp::actions::PROMPT),
            (ItemKind::Resource, &self.resource, &mcp::actions::READ),
        ];
        let mut asked = None;
        for (kind, name, goes_with) in items {
            let Some(name) = name else { continue };
            if action != goes_with {
                let (word, name) = (kind.as_str(), goes_with.name);
                let what = format!("--{word} goes with --action {name} only");
                return Err(Failure::new(what, ""));
            }
            asked = Some((kind, name.as_str()));
        }
        Ok(asked)
    }
}

/// The names that an action of this lane may be asked of: servers, agents of others, or services behind the reverse proxy.
fn configured<'s>(
    settings: &'s Settings,
    action: &Action,
) -> Box<dyn Iterator<Item = &'s Name> + 's> {
    match action.lane.name {
        "a2a" => Box::new(settings.a2a.iter().map(|agent| &agent.told.name)),
        "web" => Box::new(settings.web.reverse.iter().map(|of| &of.told.name)),
        _ => Box::new(settings.servers.iter().map(|server| &server.name)),
    }
}

/// The site that is asked; of a tunnel its host and port alone.
fn of_url(url: &str, action: &Action) -> Result<Resource, Failure> {
    let site = web::read_url(url).map_err(|refusal| Failure::new(refusal.public, ""))?;
    if *action == web::actions::TUNNEL {
        return Ok(Resource::Site(base::Site {
            scheme: "tcp".into(),
            path: "/".into(),
            ..site
        }));
    }
    if ![&web::actions::GET, &web::actions::SEND].contains(&action) {
        let what = "--url goes with --action web:get, web:send and web:tunnel only";
        return Err(Failure::new(what, ""));
    }
    Ok(Resource::Site(site))
}

/// The set of servers that is asked.
fn of_toolset(settings: &Settings, asked: &str, action: &Action) -> Result<Resource, Failure> {
    goes_with(
        "--toolset",
        action,
        &[&mcp::actions::USE, &mcp::actions::LIST],
    )?;
    let sets = || {
        let named = settings.toolsets.iter().map(|(name, _)| name.as_str());
        named.chain([mcp::ALL_SERVERS])
    };
    let set = sets().find(|set| *set == asked).and_then(Name::new);
    let set = set.ok_or_else(|| unknown("toolset", asked, sets()))?;
    Ok(Resource::toolset(set))
}

/// Fails where a flag does not go with the action.
fn goes_with(flag: &str, action: &Action, with: &[&Action]) -> Result<(), Failure> {
    if with.contains(&action) {
        return Ok(());
    }
    let with: Vec<&str> = with.iter().map(|action| action.name).collect();
    let what = format!("{flag} goes with --action {} only", with.join(" and "));
    Err(Failure::new(what, ""))
}

/// What refuses a call before any policy is asked, in the gateway's order.
fn before(
    settings: &Settings,
    agent: &Agent,
    action: &Action,
    unix_ms: u64,
) -> Result<(), Refusal> {
    if agent
        .expires_unix_ms
        .is_some_and(|expires| expires <= unix_ms)
    {
        let public = "the agent's key has expired";
        return Err(Refusal::new(refusal::KEY_EXPIRED, public));
    }
    agent.state.check()?;
    settings.stop.check(action.lane.name, Some(&agent.name))
}

fn unknown<T: ToString>(what: &str, given: &str, known: impl Iterator<Item = T>) -> Failure {
    let known: Vec<String> = known.map(|name| name.to_string()).collect();
    let help = match known.is_empty() {
        true => format!("The configuration has no {what}."),
        false => format!("There are: {}.", known.join(", ")),
    };
    let near = base::near::meant(given, known.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    Failure::new(format!("there is no {what} {given:?}{near}"), help)
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Permitted => "permitted",
        Decision::AfterScan => "after scan",
        Decision::Refused(_) => "refused",
    }
}

fn to_json(explanation: &Explanation, before: Option<&Refusal>) -> serde_json::Value {
    let errors = explanation.errors.iter();
    let errors: Vec<_> = errors
        .map(|(id, error)| json!({ "policy": id, "error": error }))
        .collect();
    let mut value = json!({
        "decision": word(&explanation.decision),
        "permitted": explanation.permitted,
        "forbade": explanation.forbade,
        "unsatisfied": explanation.unsatisfied,
        "late": explanation.late,
        "errors": errors,
    });
    let by_policy = match &explanation.decision {
        Decision::Refused(refusal) => Some(refusal),
        Decision::Permitted | Decision::AfterScan => None,
    };
    if let Some(refusal) = before.or(by_policy) {
        value["decision"] = json!("refused");
        value["code"] = json!(refusal.code.name);
        value["reason"] = json!(refusal.public);
    }
    value
}

fn to_text(explanation: &Explanation, before: Option<&Refusal>) -> String {
    let refused =
        |refusal: &Refusal| format!("refused: {} ({})\n", refusal.public, refusal.code.name);
    let by_policies = match &explanation.decision {
        Decision::Permitted => "permitted\n".to_owned(),
        Decision::AfterScan => {
            "permitted so far; some policies are asked after the scan\n".to_owned()
        }
        Decision::Refused(refusal) => refused(refusal),
    };
    let mut text = match before {
        Some(before) => refused(before) + "the policies alone: " + &by_policies,
        None => by_policies,
    };
    let lines = text.lines().count();
    let lists = [
        ("permits", &explanation.permitted),
        ("forbids", &explanation.forbade),
        ("does not apply", &explanation.unsatisfied),
        ("asked after the scan", &explanation.late),
    ];
    for (what, ids) in lists {
        for id in ids {
            text.push_str(&format!("  {what}: {id}\n"));
        }
    }
    for (id, error) in &explanation.errors {
        text.push_str(&format!("  cannot be evaluated: {id}: {error}\n"));
    }
    if text.lines().count() == lines {
        text.push_str("  no policy speaks of this agent, action and target\n");
    }
    text
}
