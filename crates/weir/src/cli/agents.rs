//! `weir agents` and `weir keys`: who may call a gateway that runs, changed at once.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::admin::Gateway;
use super::{Answer, Ended, print};

/// Invite, approve, suspend and revoke agents of a running gateway
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir agents invite build --group ci   Print an invite for a new agent
  weir agents list                      Show all agents, those of weir.yaml too
  weir agents suspend build             Have it lose its next call and its open streams\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub(super) enum Agents {
    Invite(Invite),
    List(List),
    Show(AgentName),
    Approve(Approve),
    Suspend(Suspend),
    Resume(Resume),
    Revoke(Revoke),
    Rotate(Rotate),
}

/// Print an invite: a text that is used once, by which an agent enrols with a key of its own
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents invite build\n  weir agents invite build --group ci --approved --hours 2\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Invite {
    /// The agent's name
    name: String,
    /// A group that policies know it by; may be given several times
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Let it call as soon as it has enrolled; else a person approves it
    #[arg(long)]
    approved: bool,
    /// How long the invite is good
    #[arg(long, default_value_t = 1)]
    hours: u64,
    /// How long the agent is good
    #[arg(long, value_name = "HOURS")]
    agent_hours: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Gateway,
}

/// List the agents, with those that weir.yaml defines
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents list\n  weir agents list --json\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Gateway,
}

/// Show an agent, its credentials and its open invites, as JSON
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents show build\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct AgentName {
    /// The agent's name
    name: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// Approve an agent that enrolled
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents approve build\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Approve {
    #[command(flatten)]
    of: PlainName,
}

/// Refuse an agent until it is resumed; it loses open streams and sessions
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents suspend build\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Suspend {
    #[command(flatten)]
    of: PlainName,
}

/// Let a suspended agent call again
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents resume build\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Resume {
    #[command(flatten)]
    of: PlainName,
}

/// Refuse an agent for good; it loses open streams and sessions, and its certificates go on the list
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents revoke build\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Revoke {
    #[command(flatten)]
    of: PlainName,
}

/// Print an invite by which an agent enrols with another key; the one before is good until it is revoked
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agents rotate build\n  weir keys revoke build 4f2a9c01d3e8b765\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Rotate {
    #[command(flatten)]
    of: PlainName,
}

#[derive(Args, Debug)]
struct PlainName {
    /// The agent's name
    name: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// Make and revoke keys of agents while the gateway runs
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir keys new build                   Print a new key, which is good at once
  weir keys list build                  Show what the agent is recognised by
  weir keys revoke build 4f2a9c01d3e8b765   Take one of these back\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub(super) enum Keys {
    New(NewKey),
    List(ListKeys),
    Rotate(RotateKey),
    Revoke(RevokeKey),
}

/// Make a key, which is shown once and is good at once; the agent is made where there is none
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir keys new build\n  weir keys new build --group ci --hours 720\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct NewKey {
    /// The agent's name
    name: String,
    /// A group of a new agent; may be given several times
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// How long the key is good
    #[arg(long)]
    hours: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Gateway,
}

/// Show the keys, public keys and certificates of an agent, by their ids
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir keys list build\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct ListKeys {
    /// The agent's name
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Gateway,
}

/// Make a key in the place of the others, which are good for a while still
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir keys rotate build\n  weir keys rotate build --overlap-hours 48\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct RotateKey {
    /// The agent's name
    name: String,
    /// How long the keys before are good still
    #[arg(long, default_value_t = 24)]
    overlap_hours: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Gateway,
}

/// Take a key, a public key or a certificate back at once
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir keys revoke build 4f2a9c01d3e8b765\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct RevokeKey {
    /// The agent's name
    name: String,
    /// The credential's id, as weir keys list shows it
    id: String,
    #[command(flatten)]
    gateway: Gateway,
}

impl Agents {
    pub(super) fn run(self) -> Ended {
        match self {
            Agents::Invite(command) => command.run(),
            Agents::List(command) => command.run(),
            Agents::Show(command) => {
                let said = command
                    .gateway
                    .ask("GET", &agent(&command.name), &Value::Null)?;
                print(&pretty(&said))?;
                Ok(Answer::Yes)
            }
            Agents::Approve(command) => command.of.change("approve"),
            Agents::Suspend(command) => command.of.change("suspend"),
            Agents::Resume(command) => command.of.change("resume"),
            Agents::Revoke(command) => command.of.change("revoke"),
            Agents::Rotate(command) => {
                let body = json!({ "name": command.of.name, "approved": true });
                let said = command.of.gateway.ask("POST", "/admin/agents", &body)?;
                print(&invited(&said))?;
                Ok(Answer::Yes)
            }
        }
    }
}

impl PlainName {
    fn change(&self, verb: &str) -> Ended {
        let path = format!("{}/{verb}", agent(&self.name));
        let said = self.gateway.ask("POST", &path, &json!({}))?;
        let state = said["state"].as_str().unwrap_or_default();
        print(&format!("{} is {state}\n", self.name))?;
        Ok(Answer::Yes)
    }
}

impl Invite {
    fn run(self) -> Ended {
        let body = json!({
            "name": self.name,
            "groups": self.group,
            "approved": self.approved,
            "hours": self.hours,
            "agent_hours": self.agent_hours,
        });
        let said = self.gateway.ask("POST", "/admin/agents", &body)?;
        print(&match self.json {
            true => pretty(&said),
            false => invited(&said),
        })?;
        Ok(Answer::Yes)
    }
}

fn invited(said: &Value) -> String {
    let text = |name: &str| said[name].as_str().unwrap_or_default();
    let url = match text("url") {
        "" => "URL",
        url => url,
    };
    format!(
        "invite for {}, shown once, good until {}:  {}\non the agent's machine:  weir enrol {url} --invite {}\n",
        text("name"),
        text("expires"),
        text("invite"),
        text("invite")
    )
}

impl List {
    fn run(self) -> Ended {
        let said = self.gateway.ask("GET", "/admin/agents", &Value::Null)?;
        if self.json {
            print(&pretty(&said))?;
            return Ok(Answer::Yes);
        }
        let mut lines = String::new();
        for agent in said["agents"].as_array().into_iter().flatten() {
            let text = |name: &str| agent[name].as_str().unwrap_or_default();
            let groups = agent["groups"].as_array().into_iter().flatten();
            let groups: Vec<&str> = groups.filter_map(Value::as_str).collect();
            lines += &format!(
                "{:<24} {:<10} {:<10} {}\n",
                text("name"),
                text("state"),
                text("from"),
                groups.join(" ")
            );
        }
        print(&lines)?;
        Ok(Answer::Yes)
    }
}

impl Keys {
    pub(super) fn run(self) -> Ended {
        match self {
            Keys::New(command) => {
                let body = json!({ "groups": command.group, "hours": command.hours });
                new_key(&command.gateway, &command.name, &body, command.json)
            }
            Keys::Rotate(command) => {
                let body = json!({ "overlap_hours": command.overlap_hours });
                new_key(&command.gateway, &command.name, &body, command.json)
            }
            Keys::List(command) => command.run(),
            Keys::Revoke(command) => {
                let path = format!("{}/credentials/{}", agent(&command.name), command.id);
                command.gateway.ask("DELETE", &path, &Value::Null)?;
                print(&format!(
                    "{} of {} is good no more\n",
                    command.id, command.name
                ))?;
                Ok(Answer::Yes)
            }
        }
    }
}

fn new_key(gateway: &Gateway, name: &str, body: &Value, json: bool) -> Ended {
    let said = gateway.ask("POST", &format!("{}/keys", agent(name)), body)?;
    let text = |name: &str| said[name].as_str().unwrap_or_default();
    print(&match json {
        true => pretty(&said),
        false => format!(
            "key for {name}, shown once:  {}\nid:  {}\n",
            text("key"),
            text("id")
        ),
    })?;
    Ok(Answer::Yes)
}

impl ListKeys {
    fn run(self) -> Ended {
        let said = self.gateway.ask("GET", &agent(&self.name), &Value::Null)?;
        if self.json {
            print(&pretty(&said["credentials"]))?;
            return Ok(Answer::Yes);
        }
        let mut lines = String::new();
        for credential in said["credentials"].as_array().into_iter().flatten() {
            let text = |name: &str| credential[name].as_str().unwrap_or("-");
            lines += &format!(
                "{} {:<12} made {} until {}\n",
                text("id"),
                text("kind"),
                text("made"),
                text("expires")
            );
        }
        print(&lines)?;
        Ok(Answer::Yes)
    }
}

/// The path of an agent. A name that would be another path is refused by the gateway's own check of names.
fn agent(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
                c
            } else {
                '~'
            }
        })
        .collect();
    format!("/admin/agents/{plain}")
}

fn pretty(value: &Value) -> String {
    format!(
        "{}\n",
        serde_json::to_string_pretty(value).unwrap_or_default()
    )
}
