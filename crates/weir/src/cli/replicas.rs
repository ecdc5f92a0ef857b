//! `weir replicas`: who shares the store, and how far each is.

use clap::Args;
use serde_json::json;
use store::replica::status::replicas;

use super::store::{failure, settings};
use super::{Answer, ConfigFile, Ended, print};

/// List the gateways that share the store, and how far each is behind
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir replicas
  weir replicas --json | jq '.[] | select(.state != \"serving\")'

BEHIND counts the entries of a replica's log that are not in the store yet. Of a replica that is gone they are on its disk.

Exit codes: 0 printed, 2 the store cannot be read.")]
pub(super) struct Replicas {
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Replicas {
    pub(super) fn run(self) -> Ended {
        let (_, store) = settings(&self.file)?;
        let rows = replicas(&store.target).map_err(failure)?;
        if self.json {
            print(&format!("{}\n", json!(rows)))?;
            return Ok(Answer::Yes);
        }
        let mut text = format!(
            "{:<20}  {:<8}  {:>8}  {:>10}  {:>7}  {:<9}  LOG\n",
            "REPLICA", "STATE", "SEEN", "ENTRIES", "BEHIND", "VERSION"
        );
        for row in &rows {
            let seen = format!("{}s ago", row.seen_ms_ago / 1000);
            let behind = row.entries.saturating_sub(row.shipped);
            let before = row
                .before
                .as_ref()
                .map_or(String::new(), |before| format!(" (after {before})"));
            text += &format!(
                "{:<20}  {:<8}  {seen:>8}  {:>10}  {behind:>7}  {:<9}  {}{before}\n",
                row.name, row.state, row.entries, row.version, row.origin
            );
        }
        print(&text)?;
        Ok(Answer::Yes)
    }
}
