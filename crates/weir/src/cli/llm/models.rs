//! `weir llm models`: the names that a client may send, what each stands for, and who may ask for it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base::{Action, Name, Resource};
use clap::Args;
use llm::actions::{CHAT, EMBED};
use policy::{Context, Decision, Policies, Principal};
use serde_json::{Value, json};

use crate::cli::{Answer, ConfigFile, Ended, Failure, print, unusable};
use crate::config::compile;
use crate::config::settings::{Agent, ModelProvider, Settings};

/// What stands for a model that the configuration does not name.
const ANY: &str = "MODEL";

/// List the names of models that a client may send
///
/// A route is a name of the configuration for models that are tried one after another; all others are PROVIDER/MODEL. Of a
/// provider whose models the configuration does not name, PROVIDER/MODEL stands for each.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir llm models
  weir llm models --agent dev
  weir llm models --json | jq -r '.[].name'

Exit codes: 0 there are some, 1 there is none, 2 it could not be done.")]
pub(in crate::cli) struct Models {
    #[command(flatten)]
    config: ConfigFile,
    /// Only those that the policies let this agent ask for
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One name.
struct ModelName {
    name: String,
    /// The models of a route, as PROVIDER/MODEL; none of a name that is one itself.
    stands_for: Vec<String>,
    /// The kinds of requests that are taken for it.
    takes: Vec<String>,
    /// What may be asked of it.
    actions: Vec<&'static str>,
}

impl Models {
    pub(super) fn run(self) -> Ended {
        let settings = self.config.load()?;
        let asker = self.agent.as_deref();
        let asker = asker.map(|name| Asking::new(&settings, name)).transpose()?;
        let names = names(&settings, asker.as_ref());
        print(&match self.json {
            true => format!(
                "{}\n",
                Value::from(names.iter().map(to_json).collect::<Vec<_>>())
            ),
            false => names.iter().map(to_line).collect(),
        })?;
        if names.is_empty() {
            let help = match &self.agent {
                Some(agent) => format!(
                    "Have a policy permit {agent} llm:chat or llm:embed on a model; see weir policy explain --model."
                ),
                None => "Write providers under llm in weir.yaml.".to_owned(),
            };
            crate::cli::complain("no model can be asked for", &help);
            return Ok(Answer::No);
        }
        Ok(Answer::Yes)
    }
}

fn names(settings: &Settings, asker: Option<&Asking>) -> Vec<ModelName> {
    let providers = &settings.llm.providers;
    let named = |name: String, tries: &[(&ModelProvider, &str)]| {
        let mut takes = Vec::new();
        let mut actions = Vec::new();
        for (provider, model) in tries {
            let may = asker.map_or(vec![CHAT.name, EMBED.name], |asker| {
                asker.may(provider, model)
            });
            if !may.is_empty() {
                takes.extend(provider.told.kind.paths.keys().cloned());
            }
            actions.extend(may);
        }
        takes.sort_unstable();
        takes.dedup();
        actions.sort_unstable();
        actions.dedup();
        (!actions.is_empty()).then_some(ModelName {
            name,
            stands_for: Vec::new(),
            takes,
            actions,
        })
    };
    let routes = settings.llm.routes.iter().filter_map(|route| {
        let tries = route.tries.iter();
        let tries: Vec<(&ModelProvider, &str)> = tries
            .map(|of| (&providers[of.provider], of.model.as_str()))
            .collect();
        let stands_for = tries.iter();
        let stands_for =
            stands_for.map(|(provider, model)| format!("{}/{model}", provider.told.name));
        Some(ModelName {
            stands_for: stands_for.collect(),
            ..named(route.name.clone(), &tries)?
        })
    });
    let models = providers.iter().flat_map(|provider| {
        let any = provider.told.models.is_empty().then_some(ANY);
        let models = provider.told.models.iter().map(String::as_str).chain(any);
        models.filter_map(move |model| {
            named(
                format!("{}/{model}", provider.told.name),
                &[(provider, model)],
            )
        })
    });
    routes.chain(models).collect()
}

fn to_line(model: &ModelName) -> String {
    let what = match model.stands_for.as_slice() {
        [] => model.takes.join(", "),
        tries => format!("→ {}", tries.join(", ")),
    };
    format!("{:<40} {what}\n", model.name)
}

fn to_json(model: &ModelName) -> Value {
    json!({
        "name": model.name,
        "models": model.stands_for,
        "takes": model.takes,
        "actions": model.actions,
    })
}

/// An agent, and what the policies say of it.
struct Asking {
    policies: Policies,
    principal: Arc<Principal>,
}

impl Asking {
    fn new(settings: &Settings, name: &str) -> Result<Asking, Failure> {
        let known = |agent: &&Agent| agent.name.as_str() == name;
        let unknown = || {
            let names: Vec<&str> = settings
                .agents
                .iter()
                .map(|agent| Name::as_str(&agent.name))
                .collect();
            let help = format!("There are: {}.", names.join(", "));
            Failure::new(format!("there is no agent {name:?}"), help)
        };
        let agent = settings.agents.iter().find(known).ok_or_else(unknown)?;
        let policies = compile::policies(settings);
        Ok(Asking {
            policies: policies.map_err(|problems| unusable(&settings.file, &problems))?,
            principal: Arc::new(Principal {
                name: agent.name.clone(),
                groups: agent.groups.clone(),
            }),
        })
    }

    /// The actions that the agent may ask of this model.
    fn may(&self, provider: &ModelProvider, model: &str) -> Vec<&'static str> {
        let resource = Resource::Model {
            provider: provider.told.name.clone(),
            model: model.into(),
        };
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let may = |action: &&'static Action| {
            let context = Context {
                method: action.method,
                peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
                unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
                arguments: None,
            };
            let explained = self
                .policies
                .explain(&self.principal, action, &resource, &context);
            !matches!(explained.decision, Decision::Refused(_))
        };
        let actions: [&'static Action; 2] = [&CHAT, &EMBED];
        let actions = actions.into_iter().filter(may);
        actions.map(|action| action.name).collect()
    }
}
