//! `weir agent`: keys for agents.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Answer, Ended, Failure, print};

/// Make keys for agents
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir agent key            Print a new key, and the hash for weir.yaml")]
pub(super) enum Agent {
    Key(Key),
}

/// Make a new key: print it once, with the hash that goes into the configuration
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir agent key\n  weir agent key --json\n\nThe key is kept nowhere: give it to the agent now. To replace a key, list both hashes,\nmove the agent over, then take the old hash out.\n\nExit codes: 0 printed, 2 the system gives no random bytes."
)]
pub(super) struct Key {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Agent {
    pub(super) fn run(self) -> Ended {
        let Agent::Key(command) = self;
        let (key, hash) = new_key()?;
        let key = key.expose();
        print(&match command.json {
            true => format!(
                "{}\n",
                json!({ "key": key, "hash": format!("sha256:{hash}") })
            ),
            false => format!(
                "key for the agent, shown once:  {key}\nline for weir.yaml:  key: sha256:{hash}\n"
            ),
        })?;
        Ok(Answer::Yes)
    }
}

/// A key from the system's random source.
pub(super) fn new_key() -> Result<(base::Secret, base::Digest), Failure> {
    let mut random = [0; 32];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Failure::new("the system gives no random bytes", ""))?;
    Ok(identity::new_key(random))
}
