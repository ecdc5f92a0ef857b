//! `weir flow board`, `next`, `status`, `log`: what there is.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use terminal::{visible, visible_lines};

use super::calls::{Calls, Scope, failure};
use crate::{Answer, Ended, print, remark};

/// Show the board: what is active, blocked, planned and completed
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow board
  weir flow board --project Shop --data state/tools/flow\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Board {
    #[command(flatten)]
    scope: Scope,
}

impl Board {
    pub(crate) fn run(self) -> Ended {
        let place = self.scope.data.place()?;
        let board = flow::store::read_beside(&place, |tx| {
            let project = flow::ops::project(tx, self.scope.project.as_deref(), None)?;
            flow::ops::board::board(tx, &project)
        });
        print(&board.map_err(failure)?)?;
        Ok(Answer::Yes)
    }
}

/// Show what can be taken now, what waits, or what is yours
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow next
  weir flow next --want blocked
  weir flow next --want mine --as ada --json

Exit codes: 0 there is something, 1 there is nothing, 2 it could not be asked.")]
pub struct Next {
    /// ready can be taken now, blocked waits, mine is assigned to you
    #[arg(long, value_enum, value_name = "WHAT", default_value = "ready")]
    want: Want,
    /// Most items
    #[arg(short = 'n', long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scope: Scope,
}

/// Which work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Want {
    Ready,
    Blocked,
    Mine,
}

impl Next {
    pub(crate) fn run(self) -> Ended {
        let want = match self.want {
            Want::Ready => "ready",
            Want::Blocked => "blocked",
            Want::Mine => "mine",
        };
        let answer = Calls::open(&self.scope)?
            .call("next_work", json!({ "want": want, "limit": self.limit }))?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        match self.json {
            true => print(&format!("{answer}\n"))?,
            false => {
                let lines: String = items.iter().map(line).collect();
                print(&lines)?;
            }
        }
        if items.is_empty() {
            remark("nothing");
            return Ok(Answer::No);
        }
        Ok(Answer::Yes)
    }
}

/// An item on one line.
pub(super) fn line(item: &Value) -> String {
    let word = |name: &str| visible(item[name].as_str().unwrap_or_default()).into_owned();
    let mut line = format!(
        "#{:<5} P{} {:<9} {}",
        item["number"],
        item["priority"],
        word("status"),
        word("title")
    );
    if item["assignee"].is_string() {
        line.push_str(&format!("  @{}", word("assignee")));
    }
    let waits = item["waits_for"].as_array().into_iter().flatten();
    let waits: Vec<String> = waits.map(|other| format!("#{}", other["number"])).collect();
    if !waits.is_empty() {
        line.push_str(&format!("  waits for {}", waits.join(", ")));
    }
    if item["blocked_reason"].is_string() {
        line.push_str(&format!("  ({})", word("blocked_reason")));
    }
    line.push('\n');
    line
}

/// Show the whole project: counts, what is active, ready and blocked, deployments, vendors
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow status > .project_status.md
  weir flow status --json --project Shop\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Status {
    /// Print JSON in place of Markdown
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scope: Scope,
}

impl Status {
    pub(crate) fn run(self) -> Ended {
        let format = if self.json { "json" } else { "markdown" };
        let answer = Calls::open(&self.scope)?.call("status", json!({ "format": format }))?;
        let text = match answer["markdown"].as_str() {
            Some(markdown) => markdown.to_owned(),
            None => format!("{answer}\n"),
        };
        print(&text)?;
        Ok(Answer::Yes)
    }
}

/// Show who changed what, the newest first, or check that the log of changes makes the same board again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow log
  weir flow log 12 -n 5
  weir flow log --by ada --since 2026-11-01
  weir flow log --undo 431
  weir flow log --check\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Log {
    /// Only what happened to this item: its number, or any id
    #[arg(value_name = "ITEM")]
    item: Option<String>,
    /// Only what this one did
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only since this time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Most changes
    #[arg(short = 'n', long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Take the change of this number back
    #[arg(long, value_name = "CHANGE", conflicts_with_all = ["item", "by", "since", "check"])]
    undo: Option<i64>,
    /// Replay all changes and compare what they make with what is kept
    #[arg(long, conflicts_with_all = ["item", "by", "since"])]
    check: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scope: Scope,
}

impl Log {
    pub(crate) fn run(self) -> Ended {
        if self.check {
            return self.check();
        }
        let calls = Calls::open(&self.scope)?;
        if let Some(change) = self.undo {
            let answer = calls.call("history", json!({ "action": "undo", "change": change }))?;
            let count = answer["undone"].as_array().map_or(0, Vec::len);
            print(&format!("taken back: {count} objects\n"))?;
            return Ok(Answer::Yes);
        }
        let asked =
            json!({ "id": self.item, "actor": self.by, "since": self.since, "limit": self.limit });
        let answer = calls.call("history", asked)?;
        if self.json {
            print(&format!("{answer}\n"))?;
            return Ok(Answer::Yes);
        }
        let events = answer["events"].as_array().cloned().unwrap_or_default();
        let lines: String = events.iter().map(event).collect();
        print(&lines)?;
        Ok(Answer::Yes)
    }

    fn check(&self) -> Ended {
        let place = self.scope.data.place()?;
        let standing = flow::store::replay_beside(&place).map_err(failure)?;
        match standing.kept == standing.replayed {
            true => {
                print(&format!(
                    "{} events make what is kept, byte for byte\n",
                    standing.events
                ))?;
                Ok(Answer::Yes)
            }
            false => {
                print(&format!(
                    "{} events make something else than what is kept\n",
                    standing.events
                ))?;
                Ok(Answer::No)
            }
        }
    }
}

fn event(event: &Value) -> String {
    let word = |name: &str| visible(event[name].as_str().unwrap_or_default()).into_owned();
    let names = event["changed"]
        .as_object()
        .map(|map| map.keys().cloned().collect::<Vec<_>>());
    let what = match event["created"].as_bool() {
        Some(true) => "created".to_owned(),
        _ => names.unwrap_or_default().join(", "),
    };
    let line = format!(
        "{:>6}  {}  {}  {} {} {}: {}",
        event["change"],
        word("at"),
        word("actor"),
        word("tool"),
        word("kind"),
        word("title"),
        visible_lines(&what)
    );
    format!("{}\n", line.trim_end())
}
