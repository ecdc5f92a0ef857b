//! What the operator is told while the gateway serves: refusals, tools that are held, and tools that are new, each as a
//! warning in the gateway's own messages.
//!
//! The log has every record; these lines say that there is one to look at. Agents choose what they ask, so lines have a bound:
//! one for each agent and code in [`EVERY_MS`], and the next one says how many more there were. Nothing is said here that the
//! record does not keep, and text of agents and servers is shown without what steers a terminal.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::{CallId, Digest, ItemKind, Name, Now, Resource, ServerItem};
use gate::ports::{
    Appended, HeldItem, HoldReason, Pins, PinsFull, RecordError, Recorder, SeenDefinition,
    Standing, Trust,
};
use scan::tool::shown;
use serde_json::Value;
use store::Log;
use store::replica::{StoreStanding, StoreTrouble};

/// Time between two lines about the refusals of one agent by one code, in milliseconds.
const EVERY_MS: u64 = 10_000;
/// Pairs of agent and code that are told apart; what is refused to further ones is counted together.
const PAIRS_MAX: usize = 1_024;
/// Definitions that are remembered as told.
const TOLD_MAX: usize = 4_096;
/// For so long after the first tool of a server that was never seen before, its tools are a first list and no news, in
/// milliseconds.
const FIRST_LIST_MS: u64 = 60_000;
/// How a refused judgement's record says that it is one.
const REFUSED: &[u8] = b"\"decision\":\"refuse\"";
/// Who is named where a request showed no key that is known.
const STRANGER: &str = "(unknown)";

/// What was told, and when. Says nothing before [`Notices::begin`].
pub(crate) struct Notices {
    is_on: AtomicBool,
    /// How a command is told which configuration is meant: ` -c FILE`, or nothing.
    config: String,
    start: Instant,
    refusals: Mutex<HashMap<(String, String), NoticeWindow>>,
    held: Mutex<HashSet<(Name, ServerItem, Digest)>>,
    /// When the first tool of a server was seen; nothing where tools of it were known at the start.
    first_lists: Mutex<HashMap<Name, Option<u64>>>,
}

/// The lines about one agent and code.
#[derive(Default)]
struct NoticeWindow {
    last_ms: u64,
    /// Refusals since the last line.
    more: u64,
}

/// What a line says of a refusal.
#[derive(Debug, Default, PartialEq, Eq)]
struct RefusalLine {
    agent: String,
    server: String,
    tool: String,
    code: String,
    rule: String,
    call: String,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line, without what steers a terminal.
fn plain(text: &str) -> String {
    shown(text).replace('\n', "\\n")
}

impl Notices {
    /// `config` is the file that a person names to commands, where it is not the one that they look for.
    pub(crate) fn new(config: &Path) -> Notices {
        let config = config.display().to_string();
        let is_plain = config.chars().all(is_word);
        Notices {
            config: match config.as_str() {
                "weir.yaml" | "./weir.yaml" => String::new(),
                _ if is_plain => format!(" -c {config}"),
                _ => format!(" -c '{}'", config.replace('\'', "'\\''")),
            },
            is_on: AtomicBool::new(false),
            start: Instant::now(),
            refusals: Mutex::default(),
            held: Mutex::default(),
            first_lists: Mutex::default(),
        }
    }

    /// From now on it tells: for a process whose messages are the operator's.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts one refusal; gives how many were counted since the last line where a line is due.
    fn count(&self, agent: &str, code: &str, now_ms: u64) -> Option<u64> {
        let mut refusals = lock(&self.refusals);
        let mut key = (agent.to_owned(), code.to_owned());
        if refusals.len() >= PAIRS_MAX && !refusals.contains_key(&key) {
            key = ("(others)".to_owned(), String::new());
        }
        match refusals.get_mut(&key) {
            Some(told) if now_ms < told.last_ms + EVERY_MS => {
                told.more += 1;
                None
            }
            Some(told) => {
                told.last_ms = now_ms;
                Some(std::mem::take(&mut told.more))
            }
            None => {
                let told = NoticeWindow {
                    last_ms: now_ms,
                    more: 0,
                };
                refusals.insert(key, told);
                Some(0)
            }
        }
    }

    /// The counts of agents and codes of which no line was due again; all of them where the process ends.
    fn rest(&self, now_ms: u64, last: bool) -> Vec<(String, String, u64)> {
        let mut rest = Vec::new();
        lock(&self.refusals).retain(|(agent, code), told| {
            let is_over = last || now_ms >= told.last_ms + EVERY_MS;
            if is_over && told.more > 0 {
                rest.push((agent.clone(), code.clone(), told.more));
            }
            !is_over
        });
        rest
    }

    /// Tells of what was only counted. Call it every second or so, and with `last` at the end.
    pub(crate) fn tell_rest(&self, last: bool) {
        for (agent, code, more) in self.rest(self.now_ms(), last) {
            tracing::warn!(agent, code, more, "refused, and {more} more");
        }
    }

    fn refused(&self, line: &RefusalLine) {
        let RefusalLine {
            agent,
            server,
            tool,
            code,
            rule,
            call,
        } = line;
        let Some(more) = self.count(agent, code, self.now_ms()) else {
            return;
        };
        let also = match more {
            0 => String::new(),
            more => format!(", and {more} more of this agent and code"),
        };
        tracing::warn!(agent, server, tool, code, rule, call, more, "refused{also}");
    }

    /// Tells of an item that waits for a person.
    fn held(&self, sight: &SeenDefinition<'_>, held: &HeldItem) {
        let key = (sight.server.clone(), sight.item.clone(), held.digest);
        let mut told = lock(&self.held);
        if told.len() >= TOLD_MAX || !told.insert(key) {
            return;
        }
        drop(told);
        let why = match (held.why, &held.rule) {
            (HoldReason::Changed, _) => "it is not what was approved".to_owned(),
            (HoldReason::Lookalike, _) => "its name looks like another tool's".to_owned(),
            (HoldReason::Refused, Some(rule)) => format!("its definition met the rule {rule}"),
            (HoldReason::Refused, None) => "its definition was refused by the scan".to_owned(),
        };
        let (server, name, kind) = (sight.server, name_of(sight), sight.item.kind.as_str());
        let approve = approve(server, sight) + &self.config;
        tracing::warn!(%server, kind, name, why, approve, "a {kind} is held until a person approves it");
    }

    /// Tells of an item that is trusted on first use, where its server had others before.
    fn new_item(&self, sight: &SeenDefinition<'_>) {
        let now_ms = self.now_ms();
        let mut first = lock(&self.first_lists);
        let since = *first.entry(sight.server.clone()).or_insert(Some(now_ms));
        drop(first);
        let (server, name, kind) = (sight.server, name_of(sight), sight.item.kind.as_str());
        let is_first = since.is_some_and(|since| now_ms.saturating_sub(since) < FIRST_LIST_MS);
        // Resources come and go by themselves.
        if is_first || sight.item.kind == ItemKind::Resource {
            tracing::info!(%server, kind, name, "a {kind} is trusted on first use");
        } else {
            tracing::warn!(%server, kind, name, "a server has a new {kind}; it is trusted on first use");
        }
    }

    /// Servers of which tools are known already: what else they list is new.
    fn know(&self, pins: &dyn Pins) {
        let mut first = lock(&self.first_lists);
        pins.names(&mut |server, _| {
            first.insert(server.clone(), None);
        });
    }
}

fn name_of(sight: &SeenDefinition<'_>) -> String {
    match sight.is_private {
        true => "(a name that the scan refuses)".to_owned(),
        false => plain(&sight.item.name),
    }
}

/// Whether no shell reads more in a character.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}

/// What to enter to approve a tool: its name only where no shell reads more in it.
fn approve(server: &Name, sight: &SeenDefinition<'_>) -> String {
    let ServerItem { kind, name } = sight.item;
    let first = name.chars().next();
    let is_plain = first.is_some_and(|c| is_word(c) && c != '-') && name.chars().all(is_word);
    match is_plain && !sight.is_private {
        true if *kind == ItemKind::Tool => format!("weir pins approve {server} {name}"),
        true => format!("weir pins approve {server} {name} --kind {}", kind.as_str()),
        false => format!("weir pins diff {server}"),
    }
}

/// Reads what a line says from a record.
fn line_of(record: &[u8]) -> Option<RefusalLine> {
    let record: Value = serde_json::from_slice(record).ok()?;
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let agent = match &record["agent"] {
        Value::String(agent) => plain(agent),
        _ => STRANGER.to_owned(),
    };
    let code = match &record["refusal"] {
        Value::String(code) => plain(code),
        _ => text(&record["why"]),
    };
    Some(RefusalLine {
        agent,
        server: text(&record["server"]),
        tool: ["tool", "prompt", "resource", "model"]
            .iter()
            .map(|key| text(&record[*key]))
            .find(|name| !name.is_empty())
            .unwrap_or_default(),
        code,
        rule: rule_of(&record),
        call: text(&record["call"]),
    })
}

/// The first rule of the scan that refused.
fn rule_of(record: &Value) -> String {
    let findings = record["findings"].as_array();
    let mut findings = findings.into_iter().flatten();
    let refused = findings.find(|finding| finding["action"] == "refuse");
    refused.map_or(String::new(), |finding| {
        plain(finding["rule"].as_str().unwrap_or_default())
    })
}

/// The log, and the operator told of what it keeps of refusals.
pub(crate) struct NoticingLog {
    pub(crate) log: Arc<Log>,
    pub(crate) notices: Arc<Notices>,
    /// Of a replica: whether calls may go on by what it hears of the store.
    pub(crate) store: Option<Arc<StoreStanding>>,
}

impl NoticingLog {
    /// What the store refuses calls for.
    fn store_trouble(&self) -> Option<RecordError> {
        Some(match self.store.as_ref()?.trouble()? {
            StoreTrouble::Away => RecordError::Away,
            StoreTrouble::Behind => RecordError::Behind,
            StoreTrouble::Alarm(alarm) => RecordError::Failed(alarm),
        })
    }

    fn look(&self, record: &[u8]) {
        if self.notices.is_on()
            && is_refusal(record)
            && let Some(line) = line_of(record)
        {
            self.notices.refused(&line);
        }
    }
}

fn is_refusal(record: &[u8]) -> bool {
    record.windows(REFUSED.len()).any(|part| part == REFUSED)
}

impl Recorder for NoticingLog {
    fn append(&self, record: Vec<u8>) -> Appended {
        self.look(&record);
        self.log.append(record)
    }

    fn note(&self, record: Vec<u8>) {
        self.look(&record);
        self.log.note(record);
    }

    fn passes(&self, call: CallId, record: Vec<u8>) -> Appended {
        if let Some(trouble) = self.store_trouble() {
            let (answer, appended) = tokio::sync::oneshot::channel();
            let _ = answer.send(Err(trouble));
            return appended;
        }
        self.log.passes(call, record)
    }

    fn ends(&self, call: CallId, record: Vec<u8>) {
        self.log.ends(call, record);
    }

    fn ends_refused(&self, call: CallId, record: Vec<u8>, agent: &Name, resource: &Resource) {
        if self.notices.is_on()
            && let Some(line) = line_of(&record)
        {
            let tool = resource
                .part()
                .map_or(String::new(), |(_, name)| plain(name));
            self.notices.refused(&RefusalLine {
                agent: agent.as_str().to_owned(),
                server: plain(resource.place()),
                tool,
                ..line
            });
        }
        self.log.ends(call, record);
    }

    fn trouble(&self) -> Option<RecordError> {
        Recorder::trouble(&*self.log).or_else(|| self.store_trouble())
    }
}

/// The pins, and the operator told of tools that are held or new.
pub(crate) struct NoticingPins {
    pins: Arc<store::Pins>,
    notices: Arc<Notices>,
}

impl NoticingPins {
    pub(crate) fn new(pins: Arc<store::Pins>, notices: Arc<Notices>) -> NoticingPins {
        notices.know(&*pins);
        NoticingPins { pins, notices }
    }
}

impl Pins for NoticingPins {
    fn held(&self, server: &Name, item: &ServerItem) -> Option<HeldItem> {
        self.pins.held(server, item)
    }

    fn known(&self, server: &Name, item: &ServerItem, bytes: &Digest) -> Option<Standing> {
        self.pins.known(server, item, bytes)
    }

    fn see(
        &self,
        sight: &SeenDefinition<'_>,
        trust: Trust,
        now: Now,
    ) -> Result<Standing, PinsFull> {
        let standing = self.pins.see(sight, trust, now)?;
        if self.notices.is_on() {
            match &standing {
                Standing::Held(held) => self.notices.held(sight, held),
                Standing::New => self.notices.new_item(sight),
                Standing::Approved | Standing::Accepted => {}
            }
        }
        Ok(standing)
    }

    fn names(&self, each: &mut dyn FnMut(&Name, &str)) {
        self.pins.names(each);
    }

    fn definitions(&self, each: &mut dyn FnMut(&Name, &str, &str)) {
        self.pins.definitions(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once_in_an_interval_for_each_agent_and_code() {
        let notices = Notices::new(Path::new("weir.yaml"));
        assert_eq!(notices.count("dev", "policy.forbidden", 0), Some(0));
        assert_eq!(notices.count("dev", "scan.secret", 0), Some(0));
        assert_eq!(notices.count("ops", "policy.forbidden", 0), Some(0));
        for _ in 0..41 {
            assert_eq!(notices.count("dev", "policy.forbidden", EVERY_MS - 1), None);
        }
        assert_eq!(notices.count("dev", "policy.forbidden", EVERY_MS), Some(41));
        assert_eq!(notices.count("dev", "policy.forbidden", EVERY_MS + 1), None);
        assert_eq!(notices.rest(EVERY_MS + 2, false), []);
        let rest = [("dev".to_owned(), "policy.forbidden".to_owned(), 1)];
        assert_eq!(notices.rest(2 * EVERY_MS, false), rest);
        assert_eq!(lock(&notices.refusals).len(), 0);
        notices.count("dev", "scan.secret", 0);
        notices.count("dev", "scan.secret", 1);
        assert_eq!(notices.rest(2, true).len(), 1);
    }

    #[test]
    fn agents_and_codes_beyond_the_bound_are_counted_together() {
        let notices = Notices::new(Path::new("weir.yaml"));
        let told = (0..2 * PAIRS_MAX).filter_map(|i| notices.count(&format!("agent-{i}"), "c", 0));
        assert_eq!(told.count(), PAIRS_MAX + 1);
        assert_eq!(lock(&notices.refusals).len(), PAIRS_MAX + 1);
    }

    #[test]
    fn a_line_says_what_the_record_says_and_steers_no_terminal() {
        let record = br#"{"agent":"dev","call":"0a","decision":"refuse","findings":[{"action":"warn","rule":"url"},
            {"action":"refuse","rule":"github_token"}],"refusal":"scan.secret","server":"files","tool":"read\u202e\nfile"}"#;
        assert!(is_refusal(record));
        let line = line_of(record).unwrap();
        let wanted = RefusalLine {
            agent: "dev".into(),
            server: "files".into(),
            tool: "read\\u{202e}\\nfile".into(),
            code: "scan.secret".into(),
            rule: "github_token".into(),
            call: "0a".into(),
        };
        assert_eq!(line, wanted);
        let stranger = line_of(br#"{"decision":"refuse","refusal":"auth.missing"}"#).unwrap();
        assert_eq!(
            (&*stranger.agent, &*stranger.code),
            (STRANGER, "auth.missing")
        );
        assert!(!is_refusal(br#"{"decision":"pass"}"#));
    }

    #[test]
    fn a_command_holds_no_name_that_a_shell_would_read_more_in() {
        let server = Name::new("files").unwrap();
        let command = |tool: &str| {
            let sight = SeenDefinition {
                server: &server,
                item: &ServerItem {
                    kind: ItemKind::Tool,
                    name: tool.into(),
                },
                is_private: false,
                digest: Digest([0; 32]),
                definition: None,
                bytes: Digest([0; 32]),
            };
            approve(&server, &sight)
        };
        assert_eq!(
            command("read-file_2"),
            "weir pins approve files read-file_2"
        );
        for odd in ["x; rm -rf ~", "$(id)", "--all", "", "a b", "a\u{202e}b"] {
            assert_eq!(command(odd), "weir pins diff files", "{odd}");
        }
    }
}
