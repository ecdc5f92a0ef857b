//! What policies name and the configuration does not: names that nothing has, and texts without a policy.
//!
//! They are warnings and no problems. The last agent of a group may be taken out while the gateway runs, and that must not
//! wait for the policies; but a `forbid` that names a server which is not there forbids nothing, and somebody relies on it.
//! The names of tools are not known before their servers answer, so of those the server alone is looked at.

use std::collections::BTreeSet;

use policy::{Mention, Source};

use super::Problem;
use super::settings::{LOCAL, PolicyFile, Settings};
use crate::lanes;

/// The names that policies may use.
struct KnownNames<'s> {
    agents: BTreeSet<&'s str>,
    groups: BTreeSet<&'s str>,
    servers: BTreeSet<String>,
    toolsets: BTreeSet<&'s str>,
    providers: BTreeSet<&'s str>,
    remote_agents: BTreeSet<&'s str>,
}

impl<'s> KnownNames<'s> {
    fn of(settings: &'s Settings) -> KnownNames<'s> {
        let agents = settings.agents.iter().map(|agent| &agent.name);
        let agents = agents.chain(settings.relay.agents());
        let groups = settings.agents.iter().flat_map(|agent| &agent.groups);
        let inbound = settings.relay.inbound.iter();
        let outside = inbound.flat_map(|side| {
            let sealed = side.allow.iter().flat_map(|peer| &peer.groups);
            sealed.chain(side.certified.iter().flat_map(|peer| &peer.groups))
        });
        let destinations = lanes::ALL.iter();
        let destinations = destinations.flat_map(|row| (row.reach)(settings, settings));
        let toolsets = settings.toolsets.iter().map(|(name, _)| name.as_str());
        let providers = settings.llm.providers.iter();
        let providers = providers.map(|provider| provider.told.name.as_str());
        let remote_agents = settings.a2a.iter().map(|agent| agent.told.name.as_str());
        KnownNames {
            remote_agents: remote_agents.collect(),
            providers: providers.collect(),
            agents: agents.map(|name| name.as_str()).chain([LOCAL]).collect(),
            groups: groups.chain(outside).map(|name| name.as_str()).collect(),
            servers: destinations
                .map(|(name, _)| name.as_str().to_owned())
                .collect(),
            toolsets: toolsets.chain([mcp::ALL_SERVERS]).collect(),
        }
    }

    /// What is wrong with an entity that a policy names.
    fn wrong(&self, mention: &Mention) -> Option<String> {
        let name = mention.name.as_str();
        match mention.kind.as_str() {
            "Agent" => missing("agent", name, self.agents.iter().copied()),
            "Group" => missing("group of an agent", name, self.groups.iter().copied()),
            "Server" => missing("server", name, self.servers.iter().map(String::as_str)),
            "Toolset" => missing("toolset", name, self.toolsets.iter().copied()),
            "RemoteAgent" => missing("remote agent", name, self.remote_agents.iter().copied()),
            "Provider" => missing("provider", name, self.providers.iter().copied()),
            kind @ ("Tool" | "Prompt" | "Resource") => match name.split_once('/') {
                Some((server, _)) => {
                    missing("server", server, self.servers.iter().map(String::as_str))
                }
                None => Some(format!(
                    "a {kind} is named SERVER/NAME, and {name:?} is not"
                )),
            },
            "Model" => match name.split_once('/') {
                Some((provider, _)) => {
                    missing("provider", provider, self.providers.iter().copied())
                }
                None => Some(format!(
                    "a Model is named PROVIDER/MODEL, and {name:?} is not"
                )),
            },
            _ => None,
        }
    }
}

fn missing<'n>(
    what: &str,
    name: &str,
    mut known: impl Iterator<Item = &'n str> + Clone,
) -> Option<String> {
    if known.clone().any(|known| known == name) {
        return None;
    }
    let near = base::near::meant(name, known.by_ref());
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    Some(format!("no {what} is named {name:?}{near}"))
}

/// What policies name that nothing has, and the files that hold no policy: for `weir config check`, `weir policy check`, and
/// whoever serves.
pub(super) fn unknown(settings: &Settings) -> Vec<Problem> {
    let known = KnownNames::of(settings);
    let files = settings.policy.files.iter();
    let mut unknown: Vec<Problem> = files.flat_map(|file| of_file(file, &known)).collect();
    unknown.truncate(::config::PROBLEMS_MAX);
    unknown
}

fn of_file(file: &PolicyFile, known: &KnownNames<'_>) -> Vec<Problem> {
    let source = Source {
        file: &file.file,
        text: &file.text,
    };
    let Some(mentions) = policy::mentions(&source) else {
        let help = "Write a policy that permits what agents may do, such as weir init writes.";
        let message = "holds no policy, so nothing in it permits a call";
        return vec![Problem::of_file(file.file.clone(), message, help)];
    };
    let wrong = mentions.iter().filter_map(|mention| {
        let help = "A policy for what is not there never applies.";
        Some(Problem {
            line: mention.line,
            column: mention.column,
            ..Problem::of_file(file.file.clone(), known.wrong(mention)?, help)
        })
    });
    wrong.collect()
}
