//! From what was written to what holds: the one place that makes a [`Plan`].
//!
//! It goes on after a problem, so that all are told at once. A scenario in which a key was not even readable is
//! not judged further, because what would be said about it follows from that.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::source::Source;
use super::units::{Count, Span, Text};
use super::{Around, address, feeds, file, limits, load, read, requests, tls};
use crate::plan::{FLOWS_MAX, Flow, McpRevision, Plan, Protocol, THREADS_MAX};
use crate::template::Feed;
use config::{Path, Problem, Reference};

/// Longest name of a scenario, a stage or a request, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 64;
/// Most requests at once on one HTTP/2 connection.
pub(super) const STREAMS_MAX: usize = 1000;
/// The finest series.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Reads one scenario source into a plan, and keeps the problems.
pub(super) struct Check<'s> {
    pub source: &'s Source,
    pub around: &'s Around<'s>,
    /// Variables of the file and of the flags, which come before the process's.
    env: Vec<(String, String)>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
}

/// A variable's value: the file's and the flags' before the process's.
pub(super) type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl<'s> Check<'s> {
    pub(super) fn new(source: &'s Source, around: &'s Around<'s>, file: &file::File) -> Check<'s> {
        let env = file.env.iter().flat_map(|named| &named.0);
        Check {
            source,
            around,
            env: env
                .map(|(name, value)| (name.clone(), value.0.clone()))
                .collect(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Tells a problem of the key at a path.
    pub(super) fn say(&mut self, path: &Path, message: impl Into<String>, help: &str) {
        self.problems.push(self.source.problem(path, message, help));
    }

    /// The value of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let own = self.env.iter().find(|(known, _)| known == name);
        own.map(|(_, value)| value.clone())
            .or_else(|| (self.around.environment)(name))
    }

    /// The path of a file that a key names: beside the scenario file, or as the flag has it.
    pub(super) fn beside(&self, path: &Path, name: impl AsRef<std::path::Path>) -> PathBuf {
        match self.source.file().filter(|_| self.source.in_file(path)) {
            Some(file) => std::path::Path::new(file)
                .parent()
                .unwrap_or(std::path::Path::new(""))
                .join(name),
            None => name.as_ref().to_path_buf(),
        }
    }

    /// The secret behind a reference.
    pub(super) fn secret(&mut self, path: &Path, reference: &Reference) -> Option<base::Secret> {
        let found = match reference {
            Reference::Env(name) => self
                .variable(name)
                .ok_or_else(|| format!("the variable {name} is not set")),
            Reference::File(file) => read::text(&self.beside(path, file), read::SECRET_BYTES_MAX),
        };
        match found.and_then(|text| config::one_line(&text)) {
            Ok(secret) => Some(base::Secret::new(secret)),
            Err(message) => {
                self.say(path, message, "");
                None
            }
        }
    }

    /// The whole plan; nothing where a problem was found.
    pub(super) fn plan(&mut self, file: &file::File, unread: &[Path]) -> Option<Plan> {
        if let Some(Count(version)) = file.version.filter(|v| v.0 != 1) {
            let message = format!("{version} is not a version that is known");
            self.say(&Path::of("version"), message, "write version: 1");
        }
        let empty = config::Named::default();
        let scenarios = file.scenarios.as_ref().unwrap_or(&empty);
        let above = Path::of("scenarios");
        let unreadable = unread.iter().any(|path| path.0.len() <= 1);
        if scenarios.0.is_empty() && !unreadable {
            let help = "write scenarios: { NAME: { url: http://127.0.0.1:8080/ } }";
            self.say(&above, "there is no scenario", help);
        }
        if scenarios.0.len() > FLOWS_MAX {
            self.say(&above, format!("there are more than {FLOWS_MAX}"), "");
            return None;
        }
        let cores = self.around.cores / scenarios.0.len().max(1);
        let mut flows = Vec::new();
        for (index, (name, scenario)) in scenarios.0.iter().enumerate() {
            let path = above.key(name);
            if unread.iter().any(|unread| path.covers(unread)) {
                continue;
            }
            let shared = Shared {
                threads: file.threads,
                cores,
            };
            let mut one = One {
                path,
                scenario,
                check: self,
            };
            flows.extend(one.flow(index, name, &shared).map(Arc::new));
        }
        let interval = self.interval(file.interval, &flows);
        let known = file.name.as_ref().map(|name| name.0.clone());
        let plan = Plan {
            name: known.unwrap_or_else(|| self.default_name(&flows)),
            seed: file.seed.map_or(1, |seed| seed.0),
            run: fastrand::u32(..),
            flows,
            interval: interval?,
        };
        limits::descriptors(&plan).unwrap_or_else(|problem| self.problems.push(problem));
        self.problems.is_empty().then_some(plan)
    }

    /// Without a name, a run is called as its first target.
    fn default_name(&self, flows: &[Arc<Flow>]) -> String {
        let first = flows.first().and_then(|flow| flow.targets.first());
        first.map_or_else(String::new, |target| target.authority.clone())
    }

    /// One second, and for a short run about a fiftieth of it.
    fn interval(&mut self, written: Option<Span>, flows: &[Arc<Flow>]) -> Option<Duration> {
        const FINER_MS: &[u64] = &[1000, 500, 200, 100];
        match written {
            Some(Span(span)) if span < INTERVAL_MIN => {
                self.say(&Path::of("interval"), "is under 10ms", "write 100ms or 1s");
                None
            }
            Some(Span(span)) => Some(span),
            None => {
                let ends = flows.iter().map(|flow| flow.profile.end_ns());
                let part_ms = ends.max().unwrap_or(0) / 50_000_000;
                let fits = FINER_MS.iter().find(|ms| **ms <= part_ms);
                Some(Duration::from_millis(*fits.unwrap_or(&100)))
            }
        }
    }
}

/// What scenarios have in common.
struct Shared {
    threads: Option<Count>,
    /// Cores for each scenario.
    cores: usize,
}

/// One scenario under check.
pub(super) struct One<'c, 's> {
    pub check: &'c mut Check<'s>,
    pub path: Path,
    pub scenario: &'c file::Scenario,
}

impl One<'_, '_> {
    /// Tells a problem of one of the scenario's keys.
    pub(super) fn say(&mut self, key: &str, message: impl Into<String>, help: &str) {
        let path = Path([&self.path.0[..], &Path::of(key).0[..]].concat());
        self.check.say(&path, message, help);
    }

    /// A name that fits where names are shown.
    pub(super) fn name(&mut self, path: &Path, name: &str) -> Option<String> {
        let fits =
            !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
        if !fits {
            let message =
                format!("a name has 1 to {NAME_BYTES_MAX} bytes and no control characters");
            self.check.say(path, message, "");
        }
        fits.then(|| name.to_owned())
    }

    fn flow(&mut self, index: usize, name: &str, shared: &Shared) -> Option<Flow> {
        let path = self.path.clone();
        let name = self.name(&path, name);
        let protocol = self.protocol();
        let feeds = feeds::feeds(self);
        // Each part is read before any is asked for, so that all problems are found.
        let places = address::places(self, &protocol);
        let load = load::load(self);
        let threads = self.threads(shared, load.as_ref().map(|load| load.connections));
        let (first, targets) = match &places {
            Some(places) => (Some(&places.first), Some(&places.targets)),
            None => (None, None),
        };
        let requests = feeds
            .as_deref()
            .and_then(|feeds| self.requests(feeds, first, &protocol));
        let secure = targets
            .and_then(|targets| targets.first())
            .map(|target| target.tls);
        let tls = secure.and_then(|secure| tls::client(self, secure, &protocol));
        let timeout = self.timeout(&protocol);
        let pause = self.scenario.pause.map_or(Duration::ZERO, |pause| pause.0);
        let load = load?;
        Some(Flow {
            name: name?,
            index,
            targets: places?.targets,
            protocol,
            model: load.model,
            profile: load.profile,
            connections: load.connections,
            threads: threads?,
            requests: requests?,
            feeds: feeds?,
            tls: tls?,
            timeout: timeout?,
            pause,
            reconnect: self.scenario.reconnect.is_some_and(|on| on.0),
            names_failures: false,
        })
    }

    fn requests(
        &mut self,
        feeds: &[Feed],
        first: Option<&String>,
        protocol: &Protocol,
    ) -> Option<Vec<crate::plan::Request>> {
        let plain = "/".to_owned();
        requests::requests(self, feeds, first.unwrap_or(&plain), protocol)
    }

    fn protocol(&mut self) -> Protocol {
        let written = self.scenario.protocol.unwrap_or_default();
        let streams = self.streams(written);
        if self.scenario.mcp.is_some() && written != file::Protocol::Mcp {
            self.say("mcp", "is for the protocol mcp", "write protocol: mcp");
        }
        let model = matches!(written, file::Protocol::Openai | file::Protocol::Anthropic);
        if self.scenario.llm.is_some() && !model {
            let help = "write protocol: openai or protocol: anthropic";
            self.say("llm", "is for the protocols openai and anthropic", help);
        }
        match written {
            file::Protocol::Http1 => Protocol::Http1,
            file::Protocol::Http2 => Protocol::Http2 { streams },
            file::Protocol::Sse => Protocol::Sse,
            file::Protocol::Openai => Protocol::Openai,
            file::Protocol::Anthropic => Protocol::Anthropic,
            file::Protocol::Mcp => {
                let revision = self.scenario.mcp.as_ref().and_then(|mcp| mcp.revision);
                Protocol::Mcp(match revision.unwrap_or(file::Revision::November2025) {
                    file::Revision::June2025 => McpRevision::Session("2025-06-18"),
                    file::Revision::November2025 => McpRevision::Session("2025-11-25"),
                    file::Revision::July2026 => McpRevision::Stateless("2026-07-28"),
                })
            }
        }
    }

    fn streams(&mut self, protocol: file::Protocol) -> usize {
        let Some(Count(streams)) = self.scenario.streams else {
            return 1;
        };
        if protocol != file::Protocol::Http2 {
            self.say(
                "streams",
                "is for the protocol http2",
                "write protocol: http2",
            );
        }
        if streams == 0 || streams > STREAMS_MAX as u64 {
            self.say("streams", format!("is not from 1 to {STREAMS_MAX}"), "");
            return 1;
        }
        streams as usize
    }

    fn threads(&mut self, shared: &Shared, connections: Option<usize>) -> Option<usize> {
        let connections = connections?;
        let Some(Count(threads)) = self.scenario.threads.or(shared.threads) else {
            return Some(shared.cores.clamp(1, connections.min(THREADS_MAX)));
        };
        if threads == 0 || threads > THREADS_MAX as u64 {
            self.say("threads", format!("is not from 1 to {THREADS_MAX}"), "");
            return None;
        }
        if threads > connections as u64 {
            let message = format!("{threads} threads cannot share {connections} connections");
            self.say(
                "threads",
                message,
                "ask for at most one thread for each connection",
            );
            return None;
        }
        Some(threads as usize)
    }

    fn timeout(&mut self, protocol: &Protocol) -> Option<Duration> {
        const ANSWER: Duration = Duration::from_secs(10);
        const STREAM: Duration = Duration::from_secs(120);
        let streams = matches!(
            protocol,
            Protocol::Sse | Protocol::Openai | Protocol::Anthropic
        );
        let default = if streams { STREAM } else { ANSWER };
        let timeout = self.scenario.timeout.map_or(default, |timeout| timeout.0);
        if timeout < Duration::from_millis(1) {
            self.say("timeout", "is under 1ms", "write 5s, for instance");
            return None;
        }
        Some(timeout)
    }
}

/// The texts of a list.
pub(super) fn texts(list: &Option<Vec<Text>>) -> Vec<String> {
    list.iter().flatten().map(|text| text.0.clone()).collect()
}
