//! Reading the configuration again while serving: when told to, or when one of its files changed.
//!
//! It is all or nothing: a file that is not good leaves what is in force, and says why. A file that is being
//! written is left alone until it has stood still from one look to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Name;
use base::record::Admin;
use gate::ports::Recorder;
use identity::AgentState;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::assemble::{Gateway, InForce};
use crate::config::listen::Listener;
use crate::config::settings::{Agent, Settings};
use crate::config::{Problem, Seen};
use crate::coverage::Coverage;
use crate::lanes;
use crate::listen::Certificates;

/// Reads the settings again, and notes the files that they come from.
pub(crate) type Load = Box<dyn Fn(&mut Seen) -> Result<Settings, Vec<Problem>> + Send>;

/// What has the configuration read again. Nobody says who changed a file or sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Files,
    Signal,
}

impl By {
    fn as_str(self) -> &'static str {
        match self {
            By::Files => "files",
            By::Signal => "signal",
        }
    }
}

/// A running gateway, and the files that its settings came from.
pub(crate) struct Reload {
    gateway: Arc<Gateway>,
    load: Load,
    /// What its listeners show.
    certificates: Certificates,
    /// The settings that the gateway was made of: what cannot be changed while serving stays so.
    started: Settings,
    /// Those that are in force now.
    current: Settings,
    /// When agents' keys were last looked at, in Unix milliseconds.
    expired_unix_ms: u64,
    /// The files as they were when they were read.
    seen: Seen,
    /// The files at the last look.
    last: Seen,
}

impl Reload {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        certificates: Certificates,
        started: Settings,
        seen: Seen,
        load: Load,
    ) -> Reload {
        Reload {
            certificates,
            expired_unix_ms: gateway.now().unix_ms,
            gateway,
            load,
            current: started.clone(),
            started,
            last: seen.clone(),
            seen,
        }
    }

    /// Looks at the files; reads them again if they changed and are still what they were at the last look.
    pub(crate) fn look(&mut self) {
        self.expire();
        let now = self.seen.again();
        let still = now == self.last;
        if still && now != self.seen {
            self.now(By::Files);
        } else {
            self.last = now;
        }
    }

    /// Reads the configuration again.
    pub(crate) fn now(&mut self, by: By) {
        let mut seen = Seen::default();
        let loaded = (self.load)(&mut seen);
        self.last = seen.clone();
        self.seen = seen;
        let done = loaded.and_then(|settings| {
            let certificates = self.certificates.prepare(&settings)?;
            let in_force = self.gateway.reload(&self.started, &settings)?;
            certificates.into_iter().for_each(|take| take());
            self.gateway.admin.configure(&settings.admin);
            Ok((settings, in_force))
        });
        self.gateway.metrics.count_reload(done.is_ok());
        match done {
            Ok((settings, in_force)) => {
                self.record_done(by, &settings, &in_force);
                self.say_done(&settings);
                self.current = settings;
            }
            Err(problems) => {
                self.record_refused(by, &problems);
                say_refused(&problems);
            }
        }
    }

    /// Records which settings changed, by their keys: values may be nobody's business.
    fn record_done(&self, by: By, settings: &Settings, in_force: &InForce) {
        self.record(&Admin {
            at: self.gateway.now(),
            what: "reload",
            by: by.as_str(),
            changed: &changed(&self.current, settings),
            waiting: &only_at_start(&self.started, settings),
            policy_set: Some(in_force.policy_set()),
            directory: Some(in_force.directory()),
            refused: None,
        });
    }

    fn record_refused(&self, by: By, problems: &[Problem]) {
        let refused = match problems.len() {
            1 => "1 problem".to_owned(),
            problems => format!("{problems} problems"),
        };
        self.record(&Admin {
            at: self.gateway.now(),
            what: "reload",
            by: by.as_str(),
            changed: &[],
            waiting: &[],
            policy_set: None,
            directory: None,
            refused: Some(&refused),
        });
    }

    fn record(&self, admin: &Admin<'_>) {
        self.gateway.log.note(admin.to_json());
    }

    /// Takes keys that have expired since the last look from lanes that ask nobody else about them.
    fn expire(&mut self) {
        let (before, now) = (self.expired_unix_ms, self.gateway.now().unix_ms);
        self.expired_unix_ms = now;
        let since = |at: u64| before < at && at <= now;
        let mut agents = self.current.agents.iter();
        if agents.any(|agent| agent.expires_unix_ms.is_some_and(since))
            && let Err(problems) = self.gateway.reload_lanes(&self.current)
        {
            say_refused(&problems);
        }
    }

    fn say_done(&self, settings: &Settings) {
        for problem in &settings.unusable {
            tracing::error!(%problem, "configuration");
        }
        if !settings.unusable.is_empty() {
            tracing::error!("certificates not renewed: those before stay in force");
        }
        for warning in &settings.warnings {
            tracing::warn!(%warning, "configuration");
        }
        for agent in restored(&self.current, settings) {
            tracing::warn!(
                %agent,
                "was revoked and may call again: its old keys are good again; list new ones if others may have those"
            );
        }
        for line in Coverage::new(settings).lines() {
            tracing::info!("coverage: {line}");
        }
        for key in only_at_start(&self.started, settings) {
            tracing::warn!(
                key,
                "changed in the configuration, and takes a restart; until then the old value holds"
            );
        }
        let changed = changed(&self.current, settings).join(" ");
        tracing::info!(agents = settings.agents.len(), changed, "reloaded");
    }
}

fn say_refused(problems: &[Problem]) {
    for problem in problems {
        tracing::error!(%problem, "configuration");
    }
    let problems = problems.len();
    tracing::error!(problems, "not reloaded: the running settings stay in force");
}

/// The keys that differ from those before: of agents by name, of others the key of the whole.
fn changed(old: &Settings, new: &Settings) -> Vec<String> {
    let mut keys: Vec<String> = agents(old, new)
        .map(|name| format!("agents.{name}"))
        .collect();
    let scan = |settings: &Settings| format!("{:?}", settings.scan);
    let policy = |settings: &Settings| {
        (
            settings.policy.files.clone(),
            settings.policy.arguments.clone(),
        )
    };
    let rates = |settings: &Settings| {
        let limits = &settings.limits;
        (
            limits.agent_per_minute,
            limits.address_per_minute,
            limits.strangers_per_minute,
        )
    };
    let differs = [
        ("stop", old.stop != new.stop),
        ("policy", policy(old) != policy(new)),
        ("scan", scan(old) != scan(new)),
        ("limits", rates(old) != rates(new)),
        ("budgets", old.budgets != new.budgets),
        ("listen", old.listen != new.listen),
        ("admin", old.admin != new.admin),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    keys.extend(differs.map(|(key, _)| key.to_owned()));
    keys.extend(only_at_start(old, new));
    keys.extend(lanes::ALL.iter().flat_map(|row| (row.reloaded)(old, new)));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The names of agents that came, went or are known by something else.
fn agents<'s>(old: &'s Settings, new: &'s Settings) -> impl Iterator<Item = &'s base::Name> {
    let missing = |of: &'s Settings, from: &'s Settings| {
        let missing = |agent: &&Agent| !from.agents.contains(agent);
        of.agents.iter().filter(missing).map(|agent| &agent.name)
    };
    missing(old, new).chain(missing(new, old))
}

/// Agents that were revoked, which is meant for good, and may call again.
fn restored<'s>(old: &Settings, new: &'s Settings) -> impl Iterator<Item = &'s Name> {
    let in_state = |settings: &Settings, name: &Name, state| {
        let mut agents = settings.agents.iter();
        agents.any(|agent| agent.name == *name && agent.state == state)
    };
    let names = new.agents.iter().map(|agent| &agent.name);
    names.filter(move |name| {
        in_state(old, name, AgentState::Revoked) && in_state(new, name, AgentState::Active)
    })
}

/// The keys that differ and are read at the start alone. Settings are compared as values: what a secret became is
/// seen, and never shown.
fn only_at_start(old: &Settings, new: &Settings) -> Vec<String> {
    let limits = |settings: &Settings| {
        let mut limits = settings.limits.clone();
        // Rates are part of the rules.
        (limits.agent_per_minute, limits.address_per_minute) = (1, None);
        limits.strangers_per_minute = 1;
        limits
    };
    let fixed = |listeners: &[Listener]| -> Vec<_> {
        let fixed = listeners.iter().map(Listener::fixed);
        fixed
            .map(|(at, mode, tls, proxies)| (at.clone(), mode, tls, proxies.clone()))
            .collect()
    };
    let admin = |settings: &Settings| {
        let listener = settings.admin.listener.clone();
        (fixed(listener.as_slice()), settings.admin.mode)
    };
    let single = [
        ("listen", fixed(&old.listen) != fixed(&new.listen)),
        ("admin", admin(old) != admin(new)),
        ("public_url", old.public_url != new.public_url),
        ("state", old.state != new.state),
        ("scan.pins", old.pins != new.pins),
        ("origins", old.origins != new.origins),
        ("threads", old.threads != new.threads),
        ("identity", old.identity != new.identity),
        ("store", old.store != new.store),
        ("cache", old.cache != new.cache),
    ];
    let single = single.into_iter().filter(|(_, differs)| *differs);
    let mut keys: Vec<String> = single.map(|(key, _)| key.to_owned()).collect();
    keys.extend(fields("limits", &limits(old), &limits(new)));
    keys.extend(fields("log", &old.log, &new.log));
    keys.extend(fields("logs", &old.logs, &new.logs));
    keys.extend(
        lanes::ALL
            .iter()
            .flat_map(|row| (row.only_at_start)(old, new)),
    );
    keys
}

/// The fields of a section that differ.
fn fields(section: &str, old: &impl Serialize, new: &impl Serialize) -> Vec<String> {
    let map = |value: Result<Value, _>| match value {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err::<_, serde_json::Error>(_) => Map::new(),
    };
    let old = map(serde_json::to_value(old));
    let new = map(serde_json::to_value(new));
    let differ = new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value));
    differ.map(|(key, _)| format!("{section}.{key}")).collect()
}

/// The names of a map that are in one of two and not in the other, or that stand for something else there.
pub(crate) fn named<'s, T: PartialEq>(
    at: &str,
    old: impl Iterator<Item = (&'s Name, T)>,
    new: impl Iterator<Item = (&'s Name, T)>,
) -> Vec<String> {
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) = (old.collect(), new.collect());
    let names: BTreeSet<&Name> = old.keys().chain(new.keys()).copied().collect();
    let differ = names
        .into_iter()
        .filter(|name| old.get(name) != new.get(name));
    differ.map(|name| format!("{at}.{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::load_text;

    fn settings(text: &str, token: &str) -> Settings {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("policy.cedar"), "").unwrap();
        let text = format!("policy: policy.cedar\nstate: /tmp/state\n{text}");
        let path = dir.path().join("weir.yaml");
        let environment = |_: &str| Some(token.to_owned());
        load_text(&path, &text, &environment, &mut Seen::default())
            .unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    #[test]
    fn the_keys_that_take_a_restart_are_named_and_those_that_do_not() {
        let old = "mcp: { a: { command: [srv, A=1], dir: / }, b: { url: https://b.example } }";
        let cases = [
            (old, "x", ""),
            (
                "mcp: { b: { url: https://b.example }, a: { dir: /, command: [srv, A=1] } }",
                "x",
                "",
            ),
            (
                "mcp: { a: { command: [srv], env: { A: '1' }, dir: / }, b: { url: https://b.example } }",
                "x",
                "mcp.a.command mcp.a.env",
            ),
            (
                "mcp: { a: { command: [srv, A=1], dir: / }, c: { url: https://b.example } }",
                "x",
                "mcp.b mcp.c",
            ),
            (
                "limits: { agent_per_minute: 1, head_ms: 5 }\nlog: { durability: os }\nlogs: { level: debug }\n\
                 mcp: { a: { command: [srv, A=1], dir: / }, b: { url: https://b.example } }",
                "x",
                "limits.head_ms log.durability logs.level",
            ),
        ];
        for (new, token, keys) in cases {
            let (old, new) = (settings(old, "x"), settings(new, token));
            let found = only_at_start(&old, &new);
            let (waiting, done): (Vec<_>, Vec<_>) = keys
                .split_whitespace()
                .partition(|key| !key.starts_with("mcp."));
            assert_eq!(found, waiting, "{keys}");
            let changed = changed(&old, &new);
            assert!(
                done.iter().all(|key| changed.iter().any(|k| k == key)),
                "{keys}"
            );
        }
    }

    #[test]
    fn an_agent_that_was_revoked_and_may_call_again_is_named() {
        let states = |states: [&str; 3]| {
            let agents = ["a", "b", "c"].iter().zip(states).enumerate();
            let line = |(i, (name, state)): (usize, (&&str, &str))| {
                format!("  {name}: {{ key: 'sha256:{i:064}', state: {state} }}\n")
            };
            settings(
                &format!("agents:\n{}", agents.map(line).collect::<String>()),
                "x",
            )
        };
        let old = states(["revoked", "revoked", "suspended"]);
        let new = states(["active", "revoked", "active"]);
        let names: Vec<&str> = restored(&old, &new).map(Name::as_str).collect();
        assert_eq!(names, ["a"]);
    }

    #[test]
    fn a_secret_that_changed_behind_its_reference_is_noticed_and_not_shown() {
        let text = "mcp: { b: { url: https://b.example, token: env:TOKEN } }";
        let (old, new) = (settings(text, "one"), settings(text, "two"));
        let changed = changed(&old, &new);
        assert!(changed.contains(&"mcp.b.token".to_owned()), "{changed:?}");
        assert!(!format!("{changed:?}").contains("two"));
    }
}
