//! `weir audit accept`: go on with a log whose end nothing proves, and say so in the log itself.
//!
//! It accepts an end that nobody signed and a witness that saw another log. It mends nothing: what a checkpoint
//! denies, and what is no entry, stays refused.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base::limit::AUDIT_REASON_BYTES_MAX;
use clap::Args;
use serde_json::json;
use store::log::{self, AcceptError, LogError, Witness};
use store::state::{StateError, witness_at};

use super::Place;
use crate::cli::{Answer, Ended, Failure, print};

/// Go on with a log whose end nobody signed, and record why
#[derive(Args, Debug)]
#[command(after_help = "\
A gateway refuses to start on a log of which more than a crash leaves is unsigned, and on one that does not follow its
witness. Find out why first: compare it with an export or a checkpoint kept elsewhere. Then this puts a record with the
reason and what was found at the end of the log, and signs it all. Stop the gateway before.

Examples:
  weir audit accept --reason \"restored from the backup of Monday\"
  weir audit accept ./state/log.admin --reason \"the disk was repaired\"
  weir audit accept --reason \"restored\" --json | jq .accepted

Exit codes: 0 accepted, or there was nothing to accept, 2 it could not be done.")]
pub(crate) struct Accept {
    #[command(flatten)]
    place: Place,
    /// Why, in a sentence for whoever reads the log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The log's witness; by default that of the configuration, where the log is the configuration's
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Accept {
    pub(crate) fn run(self) -> Ended {
        let reason = self.reason.trim();
        if reason.is_empty() || reason.len() > AUDIT_REASON_BYTES_MAX {
            let what = format!("a reason has 1 to {AUDIT_REASON_BYTES_MAX} bytes");
            return Err(Failure::new(what, "Say in a sentence why the log is good."));
        }
        let dir = self.place.dir()?;
        let witness = self.witness(&dir)?;
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_ms = unix_ms.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        let found = match log::accept(&dir, witness, reason, unix_ms) {
            Err(AcceptError::Log(LogError::Locked)) => {
                let what = format!("{}: another process writes this log", dir.display());
                return Err(Failure::new(what, "Stop the gateway first."));
            }
            found => found.map_err(|error| failed(&dir, &error.to_string()))?,
        };
        print(&match found {
            found if self.json => {
                let (entry, what) = found.map(|found| (found.entries, found.what)).unzip();
                format!(
                    "{}\n",
                    json!({ "accepted": entry.is_some(), "entry": entry, "found": what })
                )
            }
            Some(found) => format!(
                "accepted and signed, as entry {}: {}\n",
                found.entries, found.what
            ),
            None => "there is nothing to accept: the log is signed as far as a crash leaves one\n"
                .to_owned(),
        })?;
        Ok(Answer::Yes)
    }

    /// The witness that was named, or that the configuration names for this log. Of a folder that is none of the
    /// configuration's: none.
    fn witness(&self, dir: &Path) -> Result<Option<Witness>, Failure> {
        if let Some(witness) = &self.witness {
            let witness = witness_at(witness, dir);
            return witness.map(Some).map_err(unusable);
        }
        let of = self.place.witness(dir)?;
        let of = of.map(|witness| witness_at(&witness, dir));
        of.transpose().map_err(unusable)
    }
}

fn unusable(error: StateError) -> Failure {
    Failure::new(error.to_string(), "")
}

fn failed(dir: &Path, why: &str) -> Failure {
    let what = format!("the log in {} is not accepted: {why}", dir.display());
    Failure::new(what, "Nothing was signed.")
}
