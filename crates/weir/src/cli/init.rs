//! `weir init`: write a configuration and a policy to begin with.
//!
//! It never overwrites, and the key that it makes is printed once and stored as a hash only.

mod mte;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::agent::new_key;
use super::{Answer, Ended, Failure, print, relay, write_new};

const CONFIG: &str = include_str!("init/weir.yaml");
const POLICY: &str = include_str!("init/policy.cedar");

/// Write weir.yaml and policy.cedar to begin with, and a key for a first agent
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir init
  weir init /etc/weir
  weir init --json demo | jq -r .key
  weir init --from mte-env relay.env relay   From the environment of an MTE Relay

The key is printed once and stored as its hash. Files that are there already are not changed.")]
pub struct Init {
    /// The folder to write to; made if it is not there
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Take over what another product was told: mte-env, and a file of NAME=VALUE
    #[arg(long, num_args = 2, value_names = ["KIND", "FILE"])]
    from: Option<Vec<String>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub fn run(self) -> Ended {
        match self.from.as_deref() {
            None => self.begin(),
            Some([kind, file]) if kind == "mte-env" => self.take_over(Path::new(file)),
            Some([kind, ..]) => Err(Failure::new(
                format!("{kind} is not known"),
                "What can be taken over is: mte-env FILE.",
            )),
            Some([]) => Err(Failure::new("--from needs a kind and a file", "")),
        }
    }

    fn begin(&self) -> Ended {
        let (config, policy) = (self.dir.join("weir.yaml"), self.dir.join("policy.cedar"));
        self.make_dir(&[&config, &policy])?;
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

    /// Makes the folder. A file that is there already is a failure.
    fn make_dir(&self, files: &[&PathBuf]) -> Result<(), Failure> {
        for path in files {
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
        })
    }

    /// A configuration that does what another product's does.
    fn take_over(&self, file: &Path) -> Ended {
        let help = "The file is one of NAME=VALUE lines, such as docker run --env-file takes.";
        let failed = |message: String| Failure::new(format!("{} {message}", file.display()), help);
        let text = crate::config::read::read_text(file, mte::FILE_BYTES_MAX).map_err(failed)?;
        let taken = mte::read(&text).map_err(failed)?;
        let at = |name: &str| self.dir.join(name);
        let (config, policy, inbound, outbound) = (
            at("weir.yaml"),
            at("policy.cedar"),
            at("inbound.key"),
            at("outbound.key"),
        );
        self.make_dir(&[&config, &policy, &inbound, &outbound])?;
        let (key, hash) = new_key()?;
        relay::make_pair_files(&inbound)?;
        if taken.outbound {
            relay::make_pair_files(&outbound)?;
        }
        write_new(&policy, taken.policy)?;
        write_new(&config, &taken.config.replace("@HASH@", &hash.to_string()))?;
        let key = taken.outbound.then(|| key.expose());
        let config = config.display().to_string();
        print(&match self.json {
            true => format!("{}\n", taken_json(&taken, &config, key)),
            false => taken_text(&taken, &config, key),
        })?;
        Ok(Answer::Yes)
    }
}

fn taken_text(taken: &mte::Taken, config: &str, key: Option<&str>) -> String {
    let mut text = format!("wrote {config}, its policy and its keys\n");
    let mut list = |what: &str, pairs: &[(String, String)]| {
        text.push_str(what);
        for (name, value) in pairs {
            text.push_str(&format!("  {name:<20} {value}\n"));
        }
    };
    list("taken over:\n", &taken.as_what);
    list("no counterpart:\n", &taken.not);
    if let Some(key) = key {
        text.push_str(&format!(
            "key for the agent {}, shown once:  {key}\n",
            mte::AGENT
        ));
    }
    text.push_str(&format!(
        "next:  write the public keys of outbounds under relay.inbound.allow\n       weir config check -c {config}\n       \
         weir serve -c {config}\n"
    ));
    text
}

fn taken_json(taken: &mte::Taken, config: &str, key: Option<&str>) -> serde_json::Value {
    let map = |pairs: &[(String, String)]| {
        let pairs = pairs
            .iter()
            .map(|(name, value)| json!({ "name": name, "what": value }));
        pairs.collect::<Vec<_>>()
    };
    json!({
        "config": config,
        "taken": map(&taken.as_what),
        "without": map(&taken.not),
        "agent": key.map(|_| mte::AGENT),
        "key": key,
    })
}
