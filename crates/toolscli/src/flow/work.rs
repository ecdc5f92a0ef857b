//! `weir flow add`, `claim`, `done`: what is worked on.

use clap::Args;
use serde_json::{Value, json};

use super::calls::{Calls, Scope};
use super::show::line;
use crate::{Answer, Ended, print, remark};

/// Write down what is to be done
///
/// A project that is named and not there yet is made.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow add 'Repair the door' --project Shop
  weir flow add 'Buy paint' --priority 1 --parent 12
  weir flow add 'Paint it' --after 13 --after 14\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Add {
    /// What is to be done
    #[arg(value_name = "TITLE")]
    title: String,
    /// More about it
    #[arg(short, long, value_name = "TEXT")]
    description: Option<String>,
    /// 1 (first) to 5 (last)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=5))]
    priority: Option<i64>,
    /// The item that it stands below
    #[arg(long, value_name = "ITEM")]
    parent: Option<String>,
    /// An item that has to be done before; may be given more than once
    #[arg(long = "after", value_name = "ITEM")]
    after: Vec<String>,
    #[command(flatten)]
    scope: Scope,
}

impl Add {
    pub(crate) fn run(self) -> Ended {
        let calls = Calls::open(&self.scope)?;
        if let Some(name) = &self.scope.project
            && calls
                .call("project", json!({ "action": "get", "project": name }))
                .is_err()
        {
            calls.call("project", json!({ "action": "create", "name": name }))?;
            remark(&format!("project {name:?} is new"));
        }
        let on: Vec<Value> = self.after.iter().map(|id| json!({ "id": id })).collect();
        let asked = json!({
            "title": self.title, "description": self.description, "priority": self.priority, "parent": self.parent,
            "depends_on": on,
        });
        let answer = calls.call("work_item_create", asked)?;
        print(&line(&answer["item"]))?;
        Ok(Answer::Yes)
    }
}

/// Take an item for yourself, keep it, or give it back
///
/// Without an item, the most urgent that is ready is taken.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow claim
  weir flow claim 12 --for 3600
  weir flow claim 12 --renew 3
  weir flow claim 12 --release 3

Exit codes: 0 it is taken, 1 nothing is ready, 2 it cannot be taken.")]
pub struct Claim {
    /// The item: its number or id
    #[arg(value_name = "ITEM")]
    item: Option<String>,
    /// How long you hold it, in seconds
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Keep an item for longer, by the token of its claim
    #[arg(long, value_name = "TOKEN", requires = "item")]
    renew: Option<i64>,
    /// Give an item back, by the token of its claim
    #[arg(
        long,
        value_name = "TOKEN",
        requires = "item",
        conflicts_with = "renew"
    )]
    release: Option<i64>,
    /// Take it away from who holds it; history tells who did
    #[arg(long, requires = "item", conflicts_with_all = ["renew", "release"])]
    force: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scope: Scope,
}

impl Claim {
    pub(crate) fn run(self) -> Ended {
        let action = match (self.renew, self.release.is_some() || self.force) {
            (Some(_), _) => "renew",
            (None, true) => "release",
            (None, false) => "claim",
        };
        let asked = json!({
            "action": action, "id": self.item, "ttl_s": self.seconds, "token": self.renew.or(self.release),
            "force": self.force.then_some(true),
        });
        let answer = Calls::open(&self.scope)?.call("claim", asked)?;
        if self.json {
            print(&format!("{answer}\n"))?;
        } else if answer["item"].is_object() {
            let token = answer["token"].as_i64().map(|token| {
                format!(
                    "token {token}, until {}\n",
                    answer["until"].as_str().unwrap_or_default()
                )
            });
            print(&format!(
                "{}{}",
                line(&answer["item"]),
                token.unwrap_or_default()
            ))?;
        }
        match answer["item"].is_object() {
            true => Ok(Answer::Yes),
            false => {
                remark("nothing is ready");
                Ok(Answer::No)
            }
        }
    }
}

/// Say that an item is done
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow done 12
  weir flow done 12 --token 3 --commit 0123456789abcdef0123456789abcdef01234567\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Done {
    /// The item: its number or id
    #[arg(value_name = "ITEM")]
    item: String,
    /// The token of your claim: a claim that is over is refused
    #[arg(long, value_name = "TOKEN")]
    token: Option<i64>,
    /// A commit that belongs to it; may be given more than once
    #[arg(long = "commit", value_name = "COMMIT")]
    commits: Vec<String>,
    #[command(flatten)]
    scope: Scope,
}

impl Done {
    pub(crate) fn run(self) -> Ended {
        let calls = Calls::open(&self.scope)?;
        let now = calls.call("work_item_get", json!({ "id": self.item, "include": [] }))?;
        let asked = json!({
            "id": self.item, "version": now["item"]["version"], "status": "completed", "lease_token": self.token,
            "commits": self.commits,
        });
        let answer = calls.call("work_item_update", asked)?;
        print(&line(&answer["item"]))?;
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            remark(&terminal::visible(warning.as_str().unwrap_or_default()));
        }
        Ok(Answer::Yes)
    }
}
