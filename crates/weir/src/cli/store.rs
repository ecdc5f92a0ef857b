//! `weir store`: the tables in PostgreSQL that replicas share, what is brought into them, and whether it is whole.
//!
//! Tables belong to a role of their own, which `--owner` names; gateways connect as another, which can change nothing that was recorded.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use postgres::Target;
use serde_json::json;
use store::replica::keep::{self, StoreExport};
use store::replica::verify::{StoreDamage, StoredLog};
use store::replica::{ReplicaError, migrate, retain, status, verify};
use terminal::visible_json;

use super::{Answer, ConfigFile, Ended, Failure, complain, print, secret_at, write_new};
use crate::config::Settings;
use crate::config::replicas::StoreSettings;

/// Largest file that is imported, in bytes.
const EXPORT_BYTES_MAX: usize = 80 << 20;

/// Make, fill and check the store that replicas share
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir store migrate --owner env:OWNER_URL  Make the tables, and let store.postgres use them
  weir store import --owner env:OWNER_URL   Bring in the agents, keys and authority of this gateway
  weir store status                         Say whether a gateway could start with it
  weir store verify                         Prove that the logs in it are whole")]
pub(super) enum Store {
    Migrate(Migrate),
    Import(Import),
    Export(Export),
    Status(Status),
    Verify(VerifyStore),
    Retain(Retain),
}

impl Store {
    pub(super) fn run(self) -> Ended {
        match self {
            Store::Migrate(command) => command.run(),
            Store::Import(command) => command.run(),
            Store::Export(command) => command.run(),
            Store::Status(command) => command.run(),
            Store::Verify(command) => command.run(),
            Store::Retain(command) => command.run(),
        }
    }
}

/// Make the tables or bring them up to date, and let the role of store.postgres use them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir store migrate --owner env:OWNER_URL
  weir store migrate --owner file:/run/secrets/owner-url

It only goes forward, one at a time under a lock of the database. Run it again after the role of store.postgres changed.

Exit codes: 0 done, 2 it could not be done, and nothing was.")]
pub(super) struct Migrate {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    owner: Owner,
}

/// The role that the tables belong to.
#[derive(Args, Debug)]
struct Owner {
    /// The URL of the role that owns the tables, as env:NAME or file:PATH
    #[arg(long = "owner", value_name = "URL")]
    owner: String,
}

/// Bring what this gateway knows into the store: agents, credentials, invites, revocations, keys, authority
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir store import --owner env:OWNER_URL
  weir store import --owner env:OWNER_URL --from exported.json
  weir store import --owner env:OWNER_URL --replace

Keys are sealed with store.passphrase before they leave this machine. A store that has something keeps it, unless --replace is
given; stop all replicas before that. Logs are not brought in: each replica ships its own.

Exit codes: 0 done, 2 it could not be done, and nothing was.")]
pub(super) struct Import {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    owner: Owner,
    /// What weir store export wrote, instead of the state folder
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Put it in the place of what is there
    #[arg(long)]
    replace: bool,
}

/// Write what the store has beside logs: one JSON document, in which keys are sealed
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir store export > exported.json
  weir store export --out exported.json

Exit codes: 0 written, 2 it could not be done.")]
pub(super) struct Export {
    #[command(flatten)]
    file: ConfigFile,
    /// The file to write, which is not there yet; by default standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Say what the store holds, and what would keep a gateway from starting with it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir store status
  weir store status --json

Exit codes: 0 a gateway could start with it, 2 it could not, which is said.")]
pub(super) struct Status {
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prove from the store alone that each log in it is the one that was written
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir store verify
  weir store verify --key \"$(cat a.pub)\" --key \"$(cat b.pub)\"
  weir store verify --json

The same as weir audit verify --store. Without --key the keys beside the logs are trusted, which proves less: who owns the
tables could have put others there.

Exit codes: 0 all logs are whole, 1 one is damaged, 2 they cannot be read.")]
pub(super) struct VerifyStore {
    #[command(flatten)]
    file: ConfigFile,
    /// A log's public key that was kept elsewhere; once for each log
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Print JSON, one object a log
    #[arg(long)]
    json: bool,
}

/// Let whole days of records go, and keep the checkpoints that prove the rest
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir store retain --days 400 --owner env:OWNER_URL

Who did it, when, and up to which entry of each log stands in the table weir.dropped. Logs verify as before. Records on the disks
of replicas are not touched.

Exit codes: 0 done, 2 it could not be done, and nothing was.")]
pub(super) struct Retain {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    owner: Owner,
    /// How many days of records stay, beside today's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

/// The settings, and those of the store.
pub(super) fn settings(file: &ConfigFile) -> Result<(Settings, StoreSettings), Failure> {
    let settings = file.load()?;
    let store = settings.store.clone().ok_or_else(|| {
        let help = "Write store: { postgres: env:DATABASE_URL, passphrase: file:store.pass } and replica: NAME.";
        Failure::new("the configuration names no store", help)
    })?;
    Ok((settings, store))
}

pub(super) fn failure(error: ReplicaError) -> Failure {
    Failure::new(error.what, error.help)
}

impl Owner {
    fn target(&self) -> Result<Target, Failure> {
        let url = secret_at(&self.owner, "--owner")?;
        Target::read(url.expose()).map_err(|why| Failure::new(format!("--owner {why}"), ""))
    }
}

impl Migrate {
    fn run(self) -> Ended {
        let (_, store) = settings(&self.file)?;
        let (from, to) = migrate(&self.owner.target()?, &store.target).map_err(failure)?;
        print(&match from == to {
            true => format!("the tables are of version {to} already; the role may use them\n"),
            false => {
                format!("the tables went from version {from} to {to}; the role may use them\n")
            }
        })?;
        Ok(Answer::Yes)
    }
}

impl Import {
    fn run(self) -> Ended {
        let (settings, store) = settings(&self.file)?;
        let domain = settings
            .identity
            .as_ref()
            .map_or("", |identity| identity.trust_domain.as_str());
        let export = match &self.from {
            None => keep::gather(&settings.state, domain, &store.passphrase).map_err(failure)?,
            Some(path) => {
                let unreadable = |why: String| {
                    Failure::new(
                        format!("{}: {why}", path.display()),
                        "Name what weir store export wrote.",
                    )
                };
                let text =
                    crate::config::read::read_text(path, EXPORT_BYTES_MAX).map_err(unreadable)?;
                serde_json::from_str::<StoreExport>(&text)
                    .map_err(|error| unreadable(error.to_string()))?
            }
        };
        keep::import(&self.owner.target()?, &export, self.replace).map_err(failure)?;
        let (agents, authority) = (
            export.directory.agents.len(),
            export.kept.contains_key("ca/root.pem"),
        );
        let authority = if authority { "with" } else { "without" };
        print(&format!(
            "imported, {authority} an authority: agents: {agents}\n"
        ))?;
        Ok(Answer::Yes)
    }
}

impl Export {
    fn run(self) -> Ended {
        let (_, store) = settings(&self.file)?;
        let export = keep::export(&store.target).map_err(failure)?;
        let text = serde_json::to_string_pretty(&export);
        let text = text.map_err(|error| Failure::new(error.to_string(), ""))? + "\n";
        match &self.out {
            Some(path) => write_new(path, &text)?,
            None => print(&text)?,
        }
        Ok(Answer::Yes)
    }
}

impl Status {
    fn run(self) -> Ended {
        let (settings, store) = settings(&self.file)?;
        let domain = settings
            .identity
            .as_ref()
            .map(|identity| identity.trust_domain.as_str());
        let status = status::status(&store.target, domain).map_err(failure)?;
        if self.json {
            print(&format!("{}\n", json!(status)))?;
            return Ok(Answer::Yes);
        }
        print(&format!(
            "a gateway can start with it: tables of version {}, trust domain {:?}, {} authority\nagents: {}, directory of epoch {}\nlogs: {}, records: {}, checkpoints: {}, days: {}\n",
            status.schema,
            status.trust_domain,
            if status.has_authority {
                "with an"
            } else {
                "without"
            },
            status.agents,
            status.directory_epoch,
            status.origins,
            status.records,
            status.checkpoints,
            status.days,
        ))?;
        Ok(Answer::Yes)
    }
}

impl VerifyStore {
    fn run(self) -> Ended {
        let (_, store) = settings(&self.file)?;
        verified(&store, &self.keys, self.json)
    }
}

/// Verifies all logs of a store and prints what was found.
pub(super) fn verified(store: &StoreSettings, keys: &[String], json: bool) -> Ended {
    let logs = verify::verify(&store.target, keys).map_err(failure)?;
    let mut answer = Answer::Yes;
    for log in &logs {
        match log {
            Ok(log) => print(&told(log, json))?,
            Err(damage) => {
                answer = Answer::No;
                say_damage(damage, json)?;
            }
        }
    }
    if logs.is_empty() && !json {
        print("the store has no log\n")?;
    }
    Ok(answer)
}

fn told(log: &StoredLog, json: bool) -> String {
    if json {
        let value = json!({
            "whole": true, "origin": log.origin, "replica": log.replica, "before": log.before, "entries": log.entries, "dropped": log.dropped,
            "unsigned_tail": log.unsigned, "checkpoints": log.checkpoints, "root": log.root.to_string(),
        });
        return format!("{}\n", visible_json(&value.to_string()));
    }
    let before = log
        .before
        .as_ref()
        .map_or(String::new(), |before| format!(", after {before}"));
    let dropped = match log.dropped {
        0 => String::new(),
        dropped => format!(", dropped with their days: {dropped}"),
    };
    format!(
        "{} ({}{before}) is whole: entries: {}, unsigned tail: {}, checkpoints: {}{dropped}\nroot {}\n",
        log.origin, log.replica, log.entries, log.unsigned, log.checkpoints, log.root
    )
}

fn say_damage(damage: &StoreDamage, json: bool) -> Result<(), Failure> {
    if json {
        let value = json!({
            "whole": false, "origin": damage.origin, "entry": damage.index, "kind": damage.kind.as_str(), "what": damage.what,
        });
        return print(&format!("{}\n", visible_json(&value.to_string())));
    }
    complain(
        &format!("the store is damaged: {damage}"),
        "Compare it with the log on that replica's disk: weir audit verify.",
    );
    Ok(())
}

impl Retain {
    fn run(self) -> Ended {
        let _ = settings(&self.file)?;
        let retained = retain::retain(&self.owner.target()?, self.days).map_err(failure)?;
        let (days, records) = (retained.days.len(), retained.records);
        let span = match (retained.days.first(), retained.days.last()) {
            (Some(first), Some(last)) => format!(", from {first} to {last}"),
            _ => String::new(),
        };
        print(&format!(
            "dropped: days: {days}, records: {records}{span}\n"
        ))?;
        Ok(Answer::Yes)
    }
}
