//! `weir init`: write a configuration and a policy to begin with.
//!
//! It never overwrites, and the key that it makes is printed once and stored as a hash only.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::agent::new_key;
use super::{Answer, Ended, Failure, print, write_new};

const CONFIG: &str = include_str!("init/weir.yaml");
const POLICY: &str = include_str!("init/policy.cedar");

/// Write weir.yaml and policy.cedar to begin with, and a key for a first agent
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir init
  weir init /etc/weir
  weir init --json demo | jq -r .key

The key is printed once and stored as its hash. Files that are there already are not changed.")]
pub struct Init {
    /// The folder to write to; made if it is not there
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub fn run(self) -> Ended {
        let (config, policy) = (self.dir.join("weir.yaml"), self.dir.join("policy.cedar"));
        for path in [&config, &policy] {
            // Asked before anything is written, so that a refusal leaves no half of it behind.
            if path.symlink_metadata().is_ok() {
                let what = format!("{} is there already; nothing was changed", path.display());
                return Err(Failure::new(
                    what,
                    "Name another folder, or move the file away first.",
                ));
            }
        }
        std::fs::create_dir_all(&self.dir).map_err(|error| {
            Failure::new(
                format!("{} cannot be made: {error}", self.dir.display()),
                "",
            )
        })?;
        let (key, hash) = new_key()?;
        write_new(&policy, POLICY)?;
        write_new(&config, &CONFIG.replace("@HASH@", &hash.to_string()))?;
        let (config, policy, key) = (config.display().to_string(), policy.display(), key.expose());
        print(&match self.json {
            true => {
                let policy = policy.to_string();
                format!(
                    "{}\n",
                    json!({ "config": config, "policy": policy, "agent": "dev", "key": key })
                )
            }
            false => format!(
                "wrote {config} and {policy}\n\
                 key for the agent dev, shown once:  {key}\n\
                 next:  weir config check -c {config}\n       weir serve -c {config}\n"
            ),
        })?;
        Ok(Answer::Yes)
    }
}
