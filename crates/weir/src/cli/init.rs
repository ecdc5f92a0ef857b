//! `weir init`: write a configuration and a policy to begin with.
//!
//! It never overwrites, and the key that it makes is printed once and stored as a hash only.

use std::path::{Path, PathBuf};

use ::relay::import::{self, Taken};
use clap::Args;
use serde_json::json;

use super::agent::new_key;
use super::{Answer, Ended, Failure, print, relay, write_new};
use crate::config::values;

const CONFIG: &str = include_str!("init/weir.yaml");
const POLICY: &str = include_str!("init/policy.cedar");
/// What the file shows as comments: keys of which everything has a default.
const DEFAULTS: &[&str] = &["scan", "limits", "log", "origins", "logs", "threads"];

/// Write weir.yaml and policy.cedar to begin with, and a key for a first agent
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir init
  weir init /etc/weir
  weir init --json demo | jq -r .key
  weir init --from mte-env relay.env relay   From the environment of an MTE Relay

The key is printed once and stored as its hash. Files that are there already are not changed.")]
pub(super) struct Init {
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
    pub(super) fn run(self) -> Ended {
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
        write_new(&config, &config_text(&hash.to_string()))?;
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
        let text = crate::config::read::read_text(file, import::FILE_BYTES_MAX).map_err(failed)?;
        let taken = import::mte(&text, &import_url).map_err(failed)?;
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

/// A URL, read as that of a configuration.
fn import_url(text: &str) -> Result<import::Url, String> {
    let url = values::url(text)?;
    Ok(import::Url {
        origin: url.origin(),
        is_loopback: url.is_loopback(),
        host: url.host,
        path: url.path,
    })
}

/// The configuration to begin with. Its comments show the defaults as the table of keys has them.
fn config_text(hash: &str) -> String {
    let defaults = config::show::defaults(&crate::config::file::schema(), DEFAULTS);
    let defaults: String = defaults.lines().map(|line| format!("# {line}\n")).collect();
    CONFIG
        .replace("@HASH@", hash)
        .replace("@DEFAULTS@", &defaults)
}

fn taken_text(taken: &Taken, config: &str, key: Option<&str>) -> String {
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
            import::AGENT
        ));
    }
    text.push_str(&format!(
        "next:  write the public keys of outbounds under relay.inbound.allow\n       weir config check -c {config}\n       \
         weir serve -c {config}\n"
    ));
    text
}

fn taken_json(taken: &Taken, config: &str, key: Option<&str>) -> serde_json::Value {
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
        "agent": key.map(|_| import::AGENT),
        "key": key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::config::read::load_text;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// Settings as text, of all keys that a default line can change.
    fn settings(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("policy.cedar"), POLICY).unwrap();
        let path = dir.path().join("weir.yaml");
        let loaded = load_text(&path, text, &|_| None, &mut Default::default());
        let Settings {
            scan,
            pins,
            limits,
            log,
            origins,
            logs,
            threads,
            ..
        } = loaded.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        format!("{scan:?} {pins} {limits:?} {log:?} {origins:?} {logs:?} {threads}")
    }

    /// The default lines of the file: what stands before them, and each line with the names above it.
    fn defaults(text: &str) -> (&str, Vec<String>) {
        let (before, lines) = text.split_once("# Below this line").unwrap();
        let (_, lines) = lines.split_once('\n').unwrap();
        let depth = |line: &str| line.len() - line.trim_start().len();
        let mut above: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        for line in lines.lines() {
            let line = line.strip_prefix("# ").unwrap();
            above.retain(|name| depth(name) < depth(line));
            if line.ends_with(':') {
                above.push(line);
            } else {
                all.push([&above[..], &[line, ""]].concat().join("\n"));
            }
        }
        (before, all)
    }

    #[test]
    fn each_default_line_says_what_holds_without_it() {
        let text = config_text(HASH);
        let (before, lines) = defaults(&text);
        assert!(!text.contains('@') && lines.len() > 15, "{text}");
        let without = settings(before);
        for line in &lines {
            assert_eq!(settings(&format!("{before}{line}")), without, "{line}");
        }
        // All of them at once.
        let uncommented = text.split_once("# Below").unwrap().1.replace("\n# ", "\n");
        let uncommented = uncommented.split_once('\n').unwrap().1;
        assert_eq!(settings(&format!("{before}{uncommented}")), without);
        // The comparison sees a change.
        for other in [
            "scan: { injection: { incoming: warn } }",
            "scan: { urls: { length_max: 100 } }",
            "limits: { agent_per_minute: 7 }",
        ] {
            assert_ne!(settings(&format!("{before}{other}\n")), without, "{other}");
        }
    }

    #[test]
    fn what_is_written_is_a_good_configuration() {
        let envs = [
            "UPSTREAM='https://api.my-company.com'\nPORT=3000\nDEBUG=true\nMTE_ROUTES='/api/v1/*,/api/v2/*'\nOUTBOUND_TOKEN=x",
            "UPSTREAM=10.0.0.7:3000",
            "UPSTREAM=http://[::1]:3000/base",
            "DOMAIN_MAP={\"a.example\":{\"upstream\":\"https://a.internal\"},\"b.example\":{\"upstream\":\"http://10.1.1.1\"}}",
            "UPSTREAM=https://x.example\nMTE_ROUTES=*,/a*b,/c*",
        ];
        for env in envs {
            let taken = import::mte(env, &import_url).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let seed = [7; 32];
            let key = seal::keytext::identity_text(&seed);
            std::fs::write(dir.path().join("inbound.key"), key.expose()).unwrap();
            std::fs::write(dir.path().join("policy.cedar"), taken.policy).unwrap();
            let text = taken.config.replace("@HASH@", &"a".repeat(64));
            let path = dir.path().join("weir.yaml");
            let read = load_text(&path, &text, &|_| None, &mut Default::default());
            let problems = read.as_ref().err().map(|problems| {
                problems
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\n")
            });
            assert!(problems.is_none(), "{text}\n{}", problems.unwrap());
        }
    }

    #[test]
    fn what_cannot_be_is_an_error_without_the_value() {
        for (env, word) in [
            ("PORT=1", "neither UPSTREAM"),
            ("UPSTREAM=http://a\nPORT=hunter2", "PORT"),
            ("hunter2", "line 1"),
            ("UPSTREAM=https://u:hunter2@a", "UPSTREAM"),
            ("DOMAIN_MAP=hunter2", "DOMAIN_MAP"),
            ("DOMAIN_MAP={\"a\":{}}", "has no upstream"),
        ] {
            let error = import::mte(env, &import_url).map(drop).unwrap_err();
            assert!(
                error.contains(word) && !error.contains("hunter2"),
                "{env}: {error}"
            );
        }
    }
}
