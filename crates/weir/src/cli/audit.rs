//! `weir audit`: prove that the log is whole, read it, and hand it on.
//!
//! It works without the gateway and beside a running one, and but for `accept` changes nothing. It needs the folder of
//! the log only: of the configuration it reads no more than where that is.

mod accept;
mod line;
mod show;
mod snapshot;
mod stored;
mod wanted;

use std::path::{Path, PathBuf};

use base::limit::{AUDIT_CHECKPOINT_BYTES_MAX, LOG_UNSIGNED_ENTRIES_MAX, LOG_UNSIGNED_MS_MAX};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::audit::{self, Against, Damage, ExportError, Kind, Verified};
use terminal::visible_json;

use accept::Accept;
use show::Show;
use snapshot::Snapshot;
pub(super) use wanted::{Since, since};

use super::{Answer, ConfigFile, Ended, Failure, complain, print, print_problems, without_help};

/// Verify, read or export the log
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir audit verify state           Prove that the log is whole
  weir audit show --last 20         Read its last records
  weir audit show --refused --since 1h --follow
  weir audit export --out exported  Write it for others")]
pub(super) enum Audit {
    Verify(Verify),
    Show(Box<Show>),
    Snapshot(Snapshot),
    Export(Export),
    Accept(Accept),
}

/// Where the log is.
#[derive(Args, Debug)]
struct Place {
    #[command(flatten)]
    file: ConfigFile,
    /// The log: a state folder, a log, an export or a configuration; by default that of the configuration
    #[arg(value_name = "LOG")]
    place: Option<PathBuf>,
    /// The same, as other commands name a state folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "place"])]
    state: Option<PathBuf>,
}

/// Prove that each record is the one that was written, or say which is the first that is not
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir audit verify
  weir audit verify ./state --json
  weir audit verify exported --key \"$(cat kept-elsewhere.pub)\"
  weir audit verify --checkpoint /mnt/witness/weir --since-checkpoint
  weir audit verify --store

A log that a gateway writes, or that was killed, may end in a few entries that are not signed yet. More of them than
that are damage, and so is a log without any checkpoint.

With --since-checkpoint the records of whole segments (65,536 entries) before the checkpoint are not read: their stored
leaf hashes have to give what it signed. Of an export everything is read.

Exit codes: 0 the log is whole, 1 it is damaged, 2 it cannot be read.")]
pub(super) struct Verify {
    #[command(flatten)]
    place: Place,
    /// The log's public key, kept elsewhere; without it the key beside the log is trusted
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A checkpoint of the log, kept elsewhere: the log must hold what it signed; without this, the witness that the
    /// configuration names for the log
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Read only what follows that checkpoint, or the newest of the log
    #[arg(long)]
    since_checkpoint: bool,
    /// Verify the logs of all replicas in the store that the configuration names
    #[arg(long, conflicts_with_all = ["place", "state", "checkpoint", "since_checkpoint"])]
    store: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Write the log as C2SP tlog-tiles, which others can verify without weir
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir audit export --out exported
  weir audit export ./state --out exported
  weir audit export --out exported --json | jq .entries

With --json, one object: `exported`, and where that is true `out`, `entries` and `root` (of the signed checkpoint, in hex),
or else, of a damaged log, `entry`, `kind` and `what`, as weir audit verify says them.

Exit codes: 0 exported, 1 the log is damaged, 2 it could not be done.")]
pub(super) struct Export {
    #[command(flatten)]
    place: Place,
    /// The folder to write to; new or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(super) fn run(self) -> Ended {
        match self {
            Audit::Verify(command) => command.run(),
            Audit::Show(command) => command.run(),
            Audit::Snapshot(command) => command.run(),
            Audit::Export(command) => command.run(),
            Audit::Accept(command) => command.run(),
        }
    }
}

impl Place {
    /// What was named instead of a configuration.
    fn named(&self) -> Option<&Path> {
        self.place.as_deref().or(self.state.as_deref())
    }

    /// The configuration that is read with it.
    fn config(&self) -> PathBuf {
        let named = self.named().filter(|place| place.is_file());
        let named = named.map(Path::to_path_buf);
        named.unwrap_or_else(|| self.file.path())
    }

    /// The folder that holds the log's files.
    fn dir(&self) -> Result<PathBuf, Failure> {
        let folder = match self.named() {
            Some(place) if place.is_dir() => place.to_path_buf(),
            Some(place) => state(place)?,
            None => state(&self.file.path())?,
        };
        let inner = folder.join("log");
        Ok(if inner.is_dir() { inner } else { folder })
    }
}

impl Place {
    /// The witness that the configuration names for the log in this folder. Of a folder that is none of the
    /// configuration's: none.
    fn witness(&self, dir: &Path) -> Result<Option<PathBuf>, Failure> {
        let config = self.config();
        if !config.is_file() {
            return Ok(None);
        }
        let kept = crate::config::read::kept(&config).map_err(|problems| {
            print_problems(&problems);
            let what = "the configuration does not say what the log's witness is";
            Failure::new(what, "Mend it: weir config check.")
        });
        let (state, Some(witness)) = kept? else {
            return Ok(None);
        };
        let mut witnesses = store::state::log_names(&witness);
        let same = |log: &Path| log.canonicalize().ok() == dir.canonicalize().ok();
        let of = witnesses.find(|(log, _)| same(&state.join(log)));
        Ok(of.map(|(_, witness)| witness))
    }
}

/// Where the configuration has its state. What else is wrong with it is not this command's to say.
fn state(config: &Path) -> Result<PathBuf, Failure> {
    crate::config::read::state(config).map_err(|problems| {
        let of_state = problems.iter().find(|problem| problem.key == "state");
        let what = match of_state.or(problems.first()) {
            Some(problem) => without_help(problem),
            None => format!("{} does not say where the log is", config.display()),
        };
        Failure::new(
            what,
            "Name a state folder, a log, an export or a configuration.",
        )
    })
}

fn unreadable(dir: &Path, damage: &Damage) -> Failure {
    let what = format!("{} cannot be read as a log: {}", dir.display(), damage.what);
    Failure::new(what, "Name a state folder, a log or an export of one.")
}

impl Verify {
    fn run(self) -> Ended {
        if self.store {
            let (_, store) = super::store::settings(&self.place.file)?;
            let keys: Vec<String> = self.key.into_iter().collect();
            return super::store::verified(&store, &keys, self.json);
        }
        let dir = self.place.dir()?;
        let elsewhere = match &self.checkpoint {
            Some(file) => Some(file.clone()),
            None => self.place.witness(&dir)?,
        };
        let checkpoint = elsewhere.as_deref().map(checkpoint).transpose()?;
        let against = Against {
            key: self.key.as_deref(),
            checkpoint: checkpoint.as_deref(),
            since: self.since_checkpoint,
        };
        let verified = match audit::verify_against(&dir, against) {
            Ok(verified) => verified,
            Err(damage) if damage.kind == Kind::Unreadable => {
                return Err(unreadable(&dir, &damage));
            }
            Err(damage) => return self.damaged(&dir, &damage),
        };
        print(&match self.json {
            true => format!("{}\n", json_of(&verified)),
            false => told(&verified),
        })?;
        Ok(Answer::Yes)
    }

    fn damaged(&self, dir: &Path, damage: &Damage) -> Ended {
        if self.json {
            let (entry, kind, what) = (damage.index, damage.kind.as_str(), &damage.what);
            let value = json!({ "whole": false, "entry": entry, "kind": kind, "what": what });
            print(&format!("{}\n", visible_json(&value.to_string())))?;
        } else {
            let help = "Keep the folder as it is, and compare it with an export or a checkpoint kept elsewhere.";
            complain(
                &format!("{}: the log is damaged at {damage}", dir.display()),
                help,
            );
        }
        Ok(Answer::No)
    }
}

/// The text of a checkpoint that was kept elsewhere: of a file that holds several, the last.
fn checkpoint(file: &Path) -> Result<String, Failure> {
    let failed = |error: String| {
        let help = "Name a file that holds a signed checkpoint, such as the log's witness.";
        Failure::new(format!("{}: {error}", file.display()), help)
    };
    if !file.is_file() {
        return Err(failed("it is no file".to_owned()));
    }
    let text = crate::config::read::read_text(file, AUDIT_CHECKPOINT_BYTES_MAX).map_err(failed)?;
    let (notes, _) = store::note::split_history(&text);
    let last = notes.last();
    last.map(|note| (*note).to_owned())
        .ok_or_else(|| failed("there is no checkpoint in it".to_owned()))
}

fn json_of(verified: &Verified) -> Value {
    json!({
        "whole": true,
        "entries": verified.entries,
        "signed": verified.entries - verified.unsigned,
        "unsigned_tail": verified.unsigned,
        "being_written": verified.torn,
        "not_looked_at": verified.skipped,
        "accepted": verified.accepted,
        "checkpoints": verified.checkpoints,
        "root": verified.root.to_string(),
    })
}

fn told(verified: &Verified) -> String {
    let (entries, unsigned) = (verified.entries, verified.unsigned);
    let (signed, checkpoints) = (entries - unsigned, verified.checkpoints);
    let mut told = format!(
        "the log is whole: entries: {entries}, signed: {signed}, unsigned tail: {unsigned}, checkpoints: {checkpoints}\nroot {}\n",
        verified.root
    );
    if unsigned > 0 {
        let seconds = LOG_UNSIGNED_MS_MAX / 1000;
        told += &format!(
            "unsigned tail of {unsigned}: chained, not signed yet; a crash or a running gateway leaves at most \
             {LOG_UNSIGNED_ENTRIES_MAX} entries of {seconds} s\n"
        );
    }
    if verified.torn {
        told += "an entry is torn at the end: a gateway writes the log, and is not done with it; it is not counted\n";
    }
    if let Some(last) = verified.skipped.checked_sub(1) {
        told += &format!(
            "not looked at: the records of entries 0 to {last}; their stored hashes give what the checkpoint signed\n"
        );
    }
    for entry in &verified.accepted {
        told += &format!(
            "entry {entry}: an operator accepted what nothing proved before it; see weir audit show\n"
        );
    }
    told
}

impl Export {
    fn run(self) -> Ended {
        let dir = self.place.dir()?;
        match audit::export(&dir, &self.out) {
            Ok(exported) => {
                let (out, entries) = (self.out.display(), exported.entries);
                print(&match self.json {
                    true => {
                        let root = exported.checkpoint.root.to_string();
                        let out = out.to_string();
                        let value = json!({ "exported": true, "out": out, "entries": entries, "root": root });
                        format!("{value}\n")
                    }
                    false => format!("exported to {out}: entries: {entries}\n"),
                })?;
                Ok(Answer::Yes)
            }
            Err(ExportError::Damage(damage)) if damage.kind == Kind::Unreadable => {
                Err(unreadable(&dir, &damage))
            }
            Err(ExportError::Damage(damage)) if self.json => {
                let (entry, kind, what) = (damage.index, damage.kind.as_str(), damage.what);
                let value =
                    json!({ "exported": false, "entry": entry, "kind": kind, "what": what });
                print(&format!("{}\n", visible_json(&value.to_string())))?;
                Ok(Answer::No)
            }
            Err(ExportError::Damage(damage)) => {
                complain(
                    &format!("the log is damaged at {damage}"),
                    "Nothing was exported.",
                );
                Ok(Answer::No)
            }
            Err(error) => Err(Failure::new(error.to_string(), "")),
        }
    }
}
