//! `weir init`: write a configuration and a policy to begin with.
//!
//! It never overwrites, and the key that it makes is printed once and stored as a hash only.

mod agentgateway;
mod clients;
mod litellm;
mod models;
mod pipelock;

use std::path::{Path, PathBuf};

use ::relay::import::{self, Taken};
use clap::Args;
use serde_json::json;

use super::agent::new_key;
use super::{Answer, Ended, Failure, print, relay, write_new};
use crate::config::values;

use clients::Servers;
use models::Taking;

const CONFIG: &str = include_str!("init/weir.yaml");
const POLICY: &str = include_str!("init/policy.cedar");
/// The folder that the example's server shows to agents. Not the gateway's own, which holds the keys of its log.
const FILES: &str = "files";
/// What stands before and behind the servers in the file.
const SERVERS_BEGIN: &str = "at /mcp/<name>.\nmcp:\n";
const SERVERS_END: &str = "\n# Who may do what";
/// The policy where the servers are those that a person has used already.
const SERVERS_POLICY: &str = "\
// Who may do what. What no policy permits is refused, and a forbid wins over every permit.
//
// Check this file:   weir policy check

// Engineers may use every server: list and call its tools, read its resources, get its prompts. Narrow it by name:
// permit (principal, action in Action::\"mcp\", resource in Server::\"files\");
@id(\"engineers-use-servers\")
permit (
  principal in Group::\"engineers\",
  action in Action::\"mcp\",
  resource
);
";
/// What can be taken over.
const KINDS: &[&str] = &["agentgateway", "litellm", "mcp", "mte-env", "pipelock"];
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
  weir init --from mcp ~/.cursor/mcp.json    With the servers of an MCP client
  weir init --from mcp --find                With those of all clients that are found
  weir init --from litellm config.yaml       The models of a LiteLLM proxy, or of agentgateway
  weir init --from pipelock pipelock.yaml    From the configuration of Pipelock

The key is printed once and stored as its hash. Files that are there already are not changed.

Exit codes: 0 written, 2 it could not be done; nothing was changed where a file is there already.")]
pub(super) struct Init {
    /// The folder to write to; made if it is not there
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Take over what another product was told: mte-env and a file of NAME=VALUE, mcp and a client's configuration, or litellm,
    /// agentgateway or pipelock and its YAML
    #[arg(long, num_args = 1..=2, value_names = ["KIND", "FILE"])]
    from: Option<Vec<String>>,
    /// With --from mcp: look where clients keep their configurations
    #[arg(long, requires = "from")]
    find: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub(super) fn run(self) -> Ended {
        match self.from.as_deref() {
            None => self.begin(),
            Some([kind, file]) if kind == "mte-env" && !self.find => {
                self.take_over(Path::new(file))
            }
            Some([kind, file]) if kind == "mcp" && !self.find => {
                let servers = clients::of_file(Path::new(file))?;
                self.take_servers(&servers, &[PathBuf::from(file)])
            }
            Some([kind, file]) if kind == "litellm" && !self.find => {
                self.take_models(&litellm::of_file(Path::new(file))?)
            }
            Some([kind, file]) if kind == "agentgateway" && !self.find => {
                self.take_models(&agentgateway::of_file(Path::new(file))?)
            }
            Some([kind, file]) if kind == "pipelock" && !self.find => {
                self.take_pipelock(Path::new(file))
            }
            Some([kind]) if kind == "mcp" && self.find => {
                let (servers, files) = clients::find()?;
                self.take_servers(&servers, &files)
            }
            Some(given) => Err(Failure::new(
                match given.first() {
                    Some(kind) if !KINDS.contains(&kind.as_str()) => {
                        format!("{kind} is not known")
                    }
                    _ => "--from does not name what is to be taken over".to_owned(),
                },
                "What can be taken over is: mte-env FILE, mcp FILE, mcp --find, litellm FILE, agentgateway FILE, or pipelock FILE.",
            )),
        }
    }

    fn begin(&self) -> Ended {
        let (config, policy) = (self.dir.join("weir.yaml"), self.dir.join("policy.cedar"));
        self.make_dir(&[&config, &policy])?;
        let (key, hash) = new_key()?;
        Self::make_folder(&self.dir.join(FILES))?;
        write_new(&policy, POLICY)?;
        write_new(&config, &config_text(&hash.to_string(), None))?;
        let (config, policy, key) = (config.display().to_string(), policy.display(), key.expose());
        let files = self.dir.join(FILES).display().to_string();
        print(&match self.json {
            true => {
                let policy = policy.to_string();
                format!(
                    "{}\n",
                    json!({ "config": config, "policy": policy, "files": files, "agent": "dev", "key": key })
                )
            }
            false => format!(
                "wrote {config} and {policy}, and made the folder {files} that its first server shows to agents\n\
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
        Self::make_folder(&self.dir)
    }

    fn make_folder(folder: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::new(format!("{} cannot be made: {error}", folder.display()), "")
        })
    }

    /// A configuration with the servers of MCP clients.
    fn take_servers(&self, servers: &Servers, files: &[PathBuf]) -> Ended {
        let (config, policy) = (self.dir.join("weir.yaml"), self.dir.join("policy.cedar"));
        if servers.written.is_empty() {
            let why: Vec<String> = servers
                .not
                .iter()
                .map(|(what, why)| format!("{what} {why}"))
                .collect();
            let what = "there is no server to take over; nothing was written";
            return Err(Failure::new(what, why.join("; ")));
        }
        self.make_dir(&[&config, &policy])?;
        let (key, hash) = new_key()?;
        write_new(&policy, SERVERS_POLICY)?;
        write_new(&config, &config_text(&hash.to_string(), Some(servers)))?;
        let config = config.display().to_string();
        print(&match self.json {
            true => format!("{}\n", servers_json(servers, files, &config, key.expose())),
            false => servers_text(servers, files, &config, key.expose()),
        })?;
        Ok(Answer::Yes)
    }

    /// A configuration with the models of another gateway.
    fn take_models(&self, taking: &Taking) -> Ended {
        let (config, policy) = (self.dir.join("weir.yaml"), self.dir.join("policy.cedar"));
        if taking.is_empty() {
            let why = taking.not.iter().map(|(what, why)| format!("{what} {why}"));
            let what = "there is no model to take over; nothing was written";
            return Err(Failure::new(what, why.collect::<Vec<_>>().join("; ")));
        }
        self.make_dir(&[&config, &policy])?;
        let (key, hash) = new_key()?;
        write_new(&policy, Taking::policy())?;
        write_new(&config, &taking.config(&hash.to_string()))?;
        let config = config.display().to_string();
        print(&match self.json {
            true => format!("{}\n", models_json(taking, &config, key.expose())),
            false => models_text(taking, &config, key.expose()),
        })?;
        Ok(Answer::Yes)
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

/// The configuration to begin with, with these servers in the place of its example. Its comments show the defaults as the table of
/// keys has them.
fn config_text(hash: &str, servers: Option<&Servers>) -> String {
    let defaults = config::show::defaults(&crate::config::file::schema(), DEFAULTS);
    let defaults: String = defaults.lines().map(|line| format!("# {line}\n")).collect();
    let mut config = CONFIG.to_owned();
    if let Some(servers) = servers {
        let (before, rest) = CONFIG
            .split_once(SERVERS_BEGIN)
            .expect("the file has servers");
        let (_, behind) = rest.split_once(SERVERS_END).expect("the file has a policy");
        let written = servers.written.iter();
        let written: String = written
            .map(|(name, section)| format!("  {}:\n{section}", clients::yaml_key(name)))
            .collect();
        config = format!("{before}{SERVERS_BEGIN}{written}{SERVERS_END}{behind}");
    }
    config
        .replace("@HASH@", hash)
        .replace("@DEFAULTS@", &defaults)
}

/// A value in a line of a shell, left for a person to fill in.
const UNSAID: &str = "...";

fn servers_text(servers: &Servers, files: &[PathBuf], config: &str, key: &str) -> String {
    let mut text = format!("wrote {config} and its policy, by\n");
    for file in files {
        text.push_str(&format!("  {}\n", file.display()));
    }
    let names: Vec<&str> = servers
        .written
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    text.push_str(&format!("servers: {}\n", names.join(", ")));
    if !servers.not.is_empty() {
        text.push_str("not taken over:\n");
    }
    for (what, why) in &servers.not {
        text.push_str(&format!("  {what} {why}\n"));
    }
    if !servers.exports.is_empty() {
        text.push_str("set these before weir starts, with the values that stand there now:\n");
    }
    for (variable, stands) in &servers.exports {
        text.push_str(&format!("  export {variable}={UNSAID}   # {stands}\n"));
    }
    text.push_str(&format!(
        "key for the agent dev, shown once:  {key}\n\
         next:  weir config check -c {config}\n       weir serve -c {config}\n       weir connect CLIENT -c {config}\n"
    ));
    text
}

fn servers_json(
    servers: &Servers,
    files: &[PathBuf],
    config: &str,
    key: &str,
) -> serde_json::Value {
    let names: Vec<&String> = servers.written.iter().map(|(name, _)| name).collect();
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let exports = servers.exports.iter();
    let exports: Vec<_> = exports
        .map(|(name, stands)| json!({ "name": name, "at": stands }))
        .collect();
    let not = servers.not.iter();
    let not: Vec<_> = not
        .map(|(name, why)| json!({ "name": name, "what": why }))
        .collect();
    json!({
        "config": config, "from": files, "servers": names, "exports": exports, "without": not,
        "agent": "dev", "key": key,
    })
}

fn models_text(taking: &Taking, config: &str, key: &str) -> String {
    let mut text = format!("wrote {config} and its policy\n");
    let mut list = |what: &str, pairs: &[(String, String)]| {
        if !pairs.is_empty() {
            text.push_str(what);
        }
        for (name, value) in pairs {
            let (name, value) = (terminal::visible(name), terminal::visible(value));
            text.push_str(&format!("  {name}: {value}\n"));
        }
    };
    list("taken over:\n", &taking.as_what);
    list("not taken over:\n", &taking.not);
    if !taking.exports.is_empty() {
        text.push_str("has to be there before weir starts:\n");
    }
    for (variable, stands) in &taking.exports {
        text.push_str(&format!("  {variable}   # {}\n", terminal::visible(stands)));
    }
    text.push_str(&format!(
        "key for the agent dev, shown once:  {key}\n\
         next:  weir config check -c {config}\n       weir llm check -c {config}\n       weir serve -c {config}\n"
    ));
    text
}

fn models_json(taking: &Taking, config: &str, key: &str) -> serde_json::Value {
    let map = |pairs: &[(String, String)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| json!({ "name": name, "what": value }));
        pairs.collect::<Vec<_>>()
    };
    let exports = taking.exports.iter();
    let exports: Vec<_> = exports
        .map(|(name, stands)| json!({ "name": name, "at": stands }))
        .collect();
    json!({
        "config": config, "taken": map(&taking.as_what), "without": map(&taking.not), "exports": exports,
        "agent": "dev", "key": key,
    })
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
    fn the_readme_shows_what_is_written() {
        let readme = include_str!("../../../../README.md");
        let (_, begins) = readme.split_once("`weir init` writes this").unwrap();
        let fenced = |kind: &str| {
            let (_, text) = begins.split_once(&format!("```{kind}\n")).unwrap();
            text.split_once("```").unwrap().0
        };
        let bare = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("//"));
            let text = lines.collect::<Vec<_>>().join("");
            text.replace(char::is_whitespace, "")
        };
        assert_eq!(bare(fenced("cedar")), bare(POLICY));
        let written = |text: &str| {
            let read = crate::config::file::read("weir.yaml", text);
            let (document, _, problems) = read.unwrap();
            assert!(problems.is_empty(), "{problems:?}\n{text}");
            document.show()
        };
        let shown = fenced("yaml").replace("9f2c…", HASH);
        assert_eq!(written(&shown), written(&config_text(HASH, None)));
    }

    #[test]
    fn each_default_line_says_what_holds_without_it() {
        let text = config_text(HASH, None);
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
