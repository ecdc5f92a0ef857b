//! Taking over a configuration of Pipelock: from its YAML to a weir.yaml, policies and rules that do the same.
//!
//! Read from its public documentation and schema (2.x). What became of each key is told by its line: taken over, otherwise
//! here, or without a counterpart. Nothing is dropped in silence, nothing becomes weaker than it was, and no value of the file
//! that may be a secret is printed.

mod convert;
mod patterns;
mod policy;
mod source;
mod without;

use std::fmt::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Init;
use crate::cli::agent::new_key;
use crate::cli::{Answer, Ended, Failure, print, web, write_new};
use crate::config::read::read_text;

use convert::{Converted, convert};
use source::{Report, Told};

/// Bytes of a file of secrets, as `scan.values` takes one.
const SECRETS_BYTES_MAX: usize = 1 << 20;
/// The mode of files with values that nobody else should read.
const OWNER_ALONE: u32 = 0o600;

/// What stands at the end of a configuration whose agents may speak A2A; the file taken over names no agent of others.
const A2A_EXAMPLE: &str = "
# Agents of others that speak A2A, each by a name of your own; docs/a2a.md:
# a2a:
#   helper: { url: 'https://helper.example/a2a' }
";

impl Init {
    /// A configuration that does what Pipelock's does.
    pub(super) fn take_pipelock(&self, file: &Path) -> Ended {
        let help = "Name a configuration of Pipelock, such as pipelock generate config writes one.";
        let failed = |why: String| Failure::new(format!("{} {why}", file.display()), help);
        let text = read_text(file, config::FILE_BYTES_MAX).map_err(failed)?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let converted = convert(&text, &|name| secrets(folder, name)).map_err(failed)?;
        let at = |name: &str| self.dir.join(name);
        let (config, policy, rules) = (
            at("weir.yaml"),
            at("policy.cedar"),
            at("rules/pipelock.toml"),
        );
        let (canaries, ca) = (at("canaries.txt"), at("ca"));
        let mut files = vec![&config, &policy];
        if !converted.rules.is_empty() {
            files.push(&rules);
        }
        if !converted.canaries.is_empty() {
            files.push(&canaries);
        }
        if converted.intercepts {
            files.push(&ca);
        }
        self.make_dir(&files)?;
        let (agents, keys) = keys(&converted)?;
        write_new(&policy, &converted.policy)?;
        if !converted.rules.is_empty() {
            Self::make_folder(&at("rules"))?;
            write_new(&rules, &converted.rules)?;
        }
        if !converted.canaries.is_empty() {
            write_alone(&canaries, &converted.canaries)?;
        }
        if converted.intercepts {
            web::make_authority(&ca)?;
        }
        write_new(&config, &config_text(&converted, agents))?;
        let written: Vec<String> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        print(&match self.json {
            true => format!("{}\n", told_json(&converted.report, &written, &keys)),
            false => told_text(&converted.report, &written, &keys, &config),
        })?;
        Ok(Answer::Yes)
    }
}

/// Where a file of secrets is, if `scan.values` can have it. The error says why not, and no value.
fn secrets(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    let text = read_text(&path, SECRETS_BYTES_MAX);
    let text = text.map_err(|why| format!("its file cannot be taken over: it {why}"))?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lengths = scan::VALUE_BYTES_MIN..=scan::VALUE_BYTES_MAX;
    for (number, line) in lines {
        if !lengths.contains(&line.len()) {
            let line = number + 1;
            return Err(format!(
                "line {line} of its file is no value of 8 bytes or more; take it out, and write scan.values"
            ));
        }
    }
    let whole = path.canonicalize().unwrap_or(path);
    Ok(whole.display().to_string())
}

/// The section of the agents, with a key for each, and the keys to be shown once.
fn keys(converted: &Converted) -> Result<(Value, Vec<(String, base::Secret)>), Failure> {
    let (mut agents, mut keys) = (serde_json::Map::new(), Vec::new());
    for name in &converted.agents {
        let (key, hash) = new_key()?;
        let entry = json!({ "key": format!("sha256:{hash}"), "groups": [convert::GROUP] });
        agents.insert(name.to_string(), entry);
        keys.push((name.to_string(), key));
    }
    Ok((Value::Object(agents), keys))
}

fn write_alone(path: &PathBuf, text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(OWNER_ALONE)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::new(format!("{}: {error}", path.display()), ""))
}

fn config_text(converted: &Converted, agents: Value) -> String {
    let mut sections = converted.sections.clone();
    sections.insert("state".to_owned(), "./state".into());
    sections.insert("agents".to_owned(), agents);
    sections.insert("policy".to_owned(), "policy.cedar".into());
    let mut text = "\
# Made by weir init --from pipelock. Every key: docs/reference/config.md, or weir config schema for your editor.

"
    .to_owned();
    // In the order in which one reads them.
    for key in [
        "listen", "state", "stop", "agents", "policy", "web", "scan", "logs",
    ] {
        if let Some(value) = sections.shift_remove(key) {
            yaml(&mut text, key, &value, 0);
        }
    }
    for (key, value) in &sections {
        yaml(&mut text, key, value, 0);
    }
    if converted.has_a2a {
        text.push_str(A2A_EXAMPLE);
    }
    text
}

/// Writes a key and its value. JSON is YAML, so that what is short stands in one line.
fn yaml(text: &mut String, key: &str, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let key = super::clients::yaml_key(key);
    match value {
        Value::Object(map)
            if !map.is_empty() && (depth < 2 || map.values().any(Value::is_object)) =>
        {
            let _ = writeln!(text, "{indent}{key}:");
            for (key, value) in map {
                yaml(text, key, value, depth + 1);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            let _ = writeln!(text, "{indent}{key}:");
            for one in list {
                let _ = writeln!(text, "{indent}  - {one}");
            }
        }
        value => {
            let _ = writeln!(text, "{indent}{key}: {value}");
        }
    }
}

fn told_text(
    report: &Report,
    written: &[String],
    keys: &[(String, base::Secret)],
    config: &Path,
) -> String {
    let mut text = "wrote\n".to_owned();
    for file in written {
        let _ = writeln!(text, "  {file}");
    }
    let mut list = |title: &str, all: &[Told]| {
        if all.is_empty() {
            return;
        }
        let _ = writeln!(text, "{title}:");
        for Told { line, key, what } in all {
            let key = terminal::visible(key);
            let _ = writeln!(text, "  line {line:<4} {key:<44} {what}");
        }
    };
    list("taken over", &report.taken);
    list("otherwise here", &report.otherwise);
    list("no counterpart", &report.without);
    for (name, key) in keys {
        let _ = writeln!(
            text,
            "key for the agent {name}, shown once:  {}",
            key.expose()
        );
    }
    let config = config.display();
    let _ = write!(
        text,
        "Pipelock's servers of MCP stand in the clients' own files: weir init --from mcp takes them over.\n\
         next:  weir config check -c {config}\n       weir serve -c {config}\n       weir connect env -c {config}\n"
    );
    text
}

fn told_json(report: &Report, written: &[String], keys: &[(String, base::Secret)]) -> Value {
    let list = |all: &[Told]| -> Vec<Value> {
        let all = all.iter();
        all.map(|told| json!({ "line": told.line, "key": told.key, "what": told.what }))
            .collect()
    };
    let keys = keys.iter();
    let keys: serde_json::Map<String, Value> = keys
        .map(|(name, key)| (name.clone(), key.expose().into()))
        .collect();
    json!({
        "files": written,
        "taken": list(&report.taken),
        "otherwise": list(&report.otherwise),
        "without": list(&report.without),
        "keys": keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::load_text;

    fn converted(text: &str) -> Converted {
        convert(text, &|_| Err("is not there".to_owned())).unwrap()
    }

    /// The settings that a conversion makes, in a folder of its own, with the policies and rules compiled.
    fn checked(text: &str) -> (String, crate::config::Settings, Report) {
        let converted = converted(text);
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("policy.cedar", &converted.policy);
        std::fs::create_dir(dir.path().join("rules")).unwrap();
        if !converted.rules.is_empty() {
            write("rules/pipelock.toml", &converted.rules);
        }
        write_alone(&dir.path().join("canaries.txt"), &converted.canaries).unwrap();
        if converted.intercepts {
            web::make_authority(&dir.path().join("ca")).unwrap();
        }
        let (agents, _) = keys(&converted).unwrap();
        let written = config_text(&converted, agents);
        let path = dir.path().join("weir.yaml");
        let loaded = load_text(&path, &written, &|_| None, &mut Default::default());
        let settings = loaded.unwrap_or_else(|problems| panic!("{problems:?}\n{written}"));
        crate::config::compile::all(&settings, [1; 32])
            .unwrap_or_else(|problems| panic!("{problems:?}\n{written}\n{}", converted.policy));
        (written, settings, converted.report)
    }

    const SMALL: &str = "\
version: 1
mode: strict
api_allowlist: ['*.acme.example', api.other.example]
fetch_proxy:
  listen: 127.0.0.1:8888
  timeout_seconds: 30
  max_response_mb: 10
  monitoring:
    max_url_length: 500
    max_requests_per_minute: 30
    blocklist: ['*.paste.example']
forward_proxy: { enabled: true, max_tunnel_seconds: 300, idle_timeout_seconds: 120, sni_verification: true }
tls_interception: { enabled: true, passthrough_domains: ['*.pinned.example', '*.com'] }
websocket_proxy: { enabled: true, origin_policy: strip, allow_binary_frames: true }
dlp:
  patterns:
    - { name: GitHub Token, regex: 'gh[pousr]_[A-Za-z0-9_]{36,}', severity: critical }
    - { name: Acme Badge, regex: 'ACME-[0-9]{6,}', severity: low, exempt_domains: [hr.acme.example] }
    - { name: Anything, regex: '[a-z]+', severity: low }
canary_tokens: { enabled: true, tokens: [{ name: one, value: canary-0123456789 }, { name: two, value: short }] }
response_scanning: { enabled: true, action: strip, exempt_domains: [docs.example] }
ssrf: { ip_allowlist: [10.1.0.0/16] }
trusted_domains: [wiki.internal]
agents:
  ci: { mode: strict, api_allowlist: [registry.example], source_cidrs: [10.0.0.0/8] }
  free: { mode: balanced }
  '*bad*': {}
reverse_proxy: { enabled: true, listen: ':8890', upstream: 'http://10.0.0.7:7899/api/' }
a2a_scanning: { enabled: true, action: warn, detect_card_drift: true, scan_raw_parts: false, max_contexts: 10 }
kill_switch: { enabled: true }
airlock: { enabled: true }
newer_than_this: { key: hunter2 }
";

    #[test]
    fn what_is_written_is_a_good_configuration() {
        let (text, settings, report) = checked(SMALL);
        assert_eq!(settings.web.tunnel.whole_ms, 300_000);
        assert_eq!(settings.web.fetch.bytes_max, 10 << 20);
        assert!(settings.web.intercept.is_some() && settings.web.socket.is_binary);
        assert!(settings.agents.len() == 2, "{text}");
        assert!(!text.contains("canary-0123456789") && !format!("{report:?}").contains("hunter2"));
        let service = &settings.web.reverse[0];
        assert_eq!(
            (&*service.told.origin, &*service.told.base),
            ("http://10.0.0.7:7899", "/api")
        );
        assert_eq!(service.addresses.len(), 1);
        let keys = |all: &[Told]| all.iter().map(|told| told.key.clone()).collect::<Vec<_>>();
        let without = keys(&report.without);
        for key in [
            "airlock",
            "newer_than_this.key",
            "dlp.patterns[2]",
            "canary_tokens.tokens[1]",
            "agents.*bad*",
            "tls_interception.passthrough_domains[1]",
        ] {
            assert!(without.iter().any(|told| told == key), "{key}: {without:?}");
        }
        let line = report
            .without
            .iter()
            .find(|told| told.key == "airlock")
            .unwrap()
            .line;
        assert_eq!(
            SMALL.lines().nth(line - 1),
            Some("airlock: { enabled: true }")
        );
    }

    #[test]
    fn each_key_is_in_the_report() {
        let (_, _, report) = checked(SMALL);
        let told = [&report.taken, &report.otherwise, &report.without];
        let told: Vec<&str> = told
            .into_iter()
            .flatten()
            .map(|told| told.key.as_str())
            .collect();
        for key in [
            "version",
            "mode",
            "api_allowlist",
            "fetch_proxy.listen",
            "fetch_proxy.timeout_seconds",
            "fetch_proxy.monitoring.blocklist",
            "forward_proxy.enabled",
            "websocket_proxy.origin_policy",
            "dlp.patterns[0]",
            "dlp.patterns[1]",
            "response_scanning.action",
            "ssrf.ip_allowlist",
            "trusted_domains",
            "kill_switch.enabled",
            "agents.ci.mode",
            "agents.ci.source_cidrs",
            "agents.free.mode",
            "reverse_proxy.enabled",
            "reverse_proxy.listen",
            "reverse_proxy.upstream",
            "a2a_scanning.enabled",
            "a2a_scanning.action",
            "a2a_scanning.detect_card_drift",
            "a2a_scanning.scan_raw_parts",
            "a2a_scanning.max_contexts",
        ] {
            assert!(told.contains(&key), "{key}: {told:?}");
        }
    }

    #[test]
    fn every_kind_of_file_can_be_served() {
        for text in [
            "mode: balanced\n",
            "version: 1\nmode: audit\nenforce: false\n",
            "mode: strict\n",
            "fetch_proxy: { listen: ':8888' }\nforward_proxy: { enabled: true }\nwebsocket_proxy: { enabled: false }\n",
            "fetch_proxy: { listen: nonsense, timeout_seconds: -1, max_response_mb: 9999 }\n",
            "mode: 7\napi_allowlist: nothing\nagents: []\ndlp: { patterns: { a: b } }\n",
            "fetch_proxy: { monitoring: { max_url_length: 9999999, blocklist: ['*', '%%', 'a b'] } }\n",
            "api_allowlist: ['*.pastebin.com', pastebin.com]\n",
            "reverse_proxy: { enabled: true }\n",
            "reverse_proxy: { enabled: true, listen: ':8888', upstream: 'http://wiki.internal:9000' }\n",
            "reverse_proxy: { enabled: true, listen: 'localhost:8890', upstream: 'http://u:p@x/?a=b' }\n",
            "reverse_proxy: { enabled: true, listen: nonsense, upstream: 'https://[fd00::7]/' }\n",
            "mcp_tool_scanning: { detect_drift: false }\na2a_scanning: { enabled: false, detect_card_drift: true }\n",
        ] {
            checked(text);
        }
    }
}
