//! Reading the configuration again while serving: when told to, or when one of its files changed.
//!
//! It is all or nothing: a file that is not good leaves what is in force, and says why. A file that is being
//! written is left alone until it has stood still from one look to the next.

use std::sync::Arc;

use base::record::Admin;
use gate::ports::Recorder;

use crate::assemble::{Gateway, InForce};
use crate::config::settings::relay::Outbound;
use crate::config::settings::{Agent, ServerKind, Settings};
use crate::config::{Problem, Seen};
use crate::coverage::Coverage;

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
    pub(crate) fn new(gateway: Arc<Gateway>, started: Settings, seen: Seen, load: Load) -> Reload {
        Reload {
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
            let in_force = self.gateway.reload(&self.started, &settings)?;
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
        let keys = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect::<Vec<_>>();
        self.record(&Admin {
            at: self.gateway.now(),
            what: "reload",
            by: by.as_str(),
            changed: &changed(&self.current, settings),
            waiting: &keys(only_at_start(&self.started, settings)),
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

    /// Takes keys that have expired since the last look from the relay, which asks nobody else about them.
    fn expire(&mut self) {
        let (before, now) = (self.expired_unix_ms, self.gateway.now().unix_ms);
        self.expired_unix_ms = now;
        let since = |at: u64| before < at && at <= now;
        let mut agents = self.current.agents.iter();
        if agents.any(|agent| agent.expires_unix_ms.is_some_and(since))
            && let Err(problems) = self.gateway.reload_relay(&self.current)
        {
            say_refused(&problems);
        }
    }

    fn say_done(&self, settings: &Settings) {
        for warning in &settings.warnings {
            tracing::warn!(%warning, "configuration");
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
        tracing::info!(agents = settings.agents.len(), "reloaded");
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
        ("policy", policy(old) != policy(new)),
        ("scan", scan(old) != scan(new)),
        ("limits", rates(old) != rates(new)),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    let differs = differs.map(|(key, _)| key).chain(only_at_start(old, new));
    keys.extend(differs.map(str::to_owned));
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

/// The keys that differ and are read at the start alone.
fn only_at_start(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let limits = |settings: &Settings| {
        let mut limits = settings.limits.clone();
        // Rates are part of the rules.
        (limits.agent_per_minute, limits.address_per_minute) = (1, None);
        limits.strangers_per_minute = 1;
        limits
    };
    let differs = [
        ("listen", old.listen != new.listen),
        ("state", old.state != new.state),
        ("mcp", servers(old) != servers(new)),
        ("relay", relays(old) != relays(new)),
        ("scan.pins", old.pins != new.pins),
        ("limits", limits(old) != limits(new)),
        ("log", old.log != new.log),
        ("origins", old.origins != new.origins),
        ("logs", old.logs != new.logs),
        ("threads", old.threads != new.threads),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(key, _)| key).collect()
}

/// What of the relay is read at the start alone: which sides there are, where they listen, and where they go.
fn relays(settings: &Settings) -> impl PartialEq + '_ {
    let outbound = settings.relay.outbound.as_ref();
    let inbound = settings.relay.inbound.as_ref();
    let places: Vec<_> = settings.relay.places().collect();
    let windows = inbound.map(|side| (&side.listen, side.windows_max));
    let by_tls = |side: &Outbound| -> Vec<bool> {
        let peers = side.peers.iter();
        peers.map(|peer| peer.mutual.is_some()).collect()
    };
    let by_tls = (
        outbound.map(by_tls),
        inbound.map(|side| side.mutual.is_some()),
    );
    (outbound.map(|side| &side.listen), windows, places, by_tls)
}

/// All that servers are made of, to be compared and never shown: there are secrets in it.
fn servers(settings: &Settings) -> Vec<Vec<String>> {
    let servers = settings.servers.iter().map(|server| {
        let mut parts = vec![
            server.name.to_string(),
            server.sessions_max.to_string(),
            server.agent_sessions_max.to_string(),
            server.session_idle_ms.to_string(),
        ];
        match &server.kind {
            ServerKind::Child(child) => {
                parts.push(child.dir.display().to_string());
                parts.extend(child.command.iter().cloned());
                let env = child.env.iter();
                parts.extend(env.map(|env| format!("{}={}", env.name, env.value.expose())));
            }
            ServerKind::Http(http) => {
                let token = http.token.as_ref();
                parts.push(format!("{:?} {:?} {:?}", http.url, http.ca, http.addresses));
                parts.extend(token.map(|token| token.expose().to_owned()));
            }
        }
        parts
    });
    servers.collect()
}
