//! Which records are shown, and which names there are to ask for.
//!
//! An outcome names its call alone, so who made an open call, and of what, is kept until it has ended. A name that stands in
//! no record and not in the configuration is an error: otherwise a slip of the pen looks like an agent that asked nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};

use base::clock::rfc3339;
use clap::Args;
use serde_json::Value;

use super::super::{Failure, variable};
use super::Place;
use crate::config::{FILE_BYTES_MAX, file, read};
use crate::lanes;

/// Open calls that are remembered; of more, the oldest are forgotten, and their outcomes are nobody's.
const CALLS_MAX: usize = 65_536;
/// Names of one kind that are remembered. Where there are more, none is called unknown.
const NAMES_MAX: usize = 4096;
/// Names that an error gives where none is near.
const NAMES_SHOWN_MAX: usize = 12;
/// Calls that begin alike and that an error gives.
const CALLS_SHOWN_MAX: usize = 4;

/// Which records are shown
#[derive(Args, Debug, Default)]
pub(super) struct Wanted {
    /// Only this call; the beginning of its id is enough where no other begins so
    #[arg(long, value_name = "ID")]
    pub(super) call: Option<String>,
    /// Only what this agent asked, and how it ended
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Only what this server was asked, and how it ended
    #[arg(long, value_name = "NAME")]
    pub(super) server: Option<String>,
    /// Only what this tool was asked, and how it ended: by its name, or SERVER/TOOL
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only what was asked by this action, such as mcp:call or llm:chat, and how it ended
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only what this run asked, and how it ended
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Only records with a finding of this scan rule
    #[arg(long, value_name = "ID")]
    rule: Option<String>,
    /// Only what was refused: calls, answers, events of hooks, reloads
    #[arg(long)]
    pub(super) refused: bool,
    /// Only what was recorded since: 90s, 30m, 1h, 7d, or a date such as 2026-11-25 or 2026-11-25T08:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub(super) since: Option<Since>,
}

/// A time of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Since {
    /// Milliseconds before now.
    Ago(u64),
    /// Unix milliseconds.
    At(u64),
}

impl Since {
    /// It in Unix milliseconds.
    pub(in crate::cli) fn at_unix_ms(self, now: u64) -> u64 {
        match self {
            Since::Ago(ms) => now.saturating_sub(ms),
            Since::At(ms) => ms,
        }
    }
}

pub(in crate::cli) fn since(text: &str) -> Result<Since, String> {
    let wrong = || {
        "must be a number with s, m, h, d or w, or a date such as 2026-11-25 or 2026-11-25T08:30:00Z"
            .to_owned()
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        "w" => Some(7 * 86_400),
        _ => None,
    };
    if let (Some(seconds), Ok(count)) = (seconds, digits.parse::<u64>()) {
        return Ok(Since::Ago(count.saturating_mul(seconds * 1000)));
    }
    let date_alone = format!("{text}T00:00:00Z");
    let at = ::config::kinds::unix_ms(text).or_else(|| ::config::kinds::unix_ms(&date_alone));
    at.map(Since::At).ok_or_else(wrong)
}

/// Who made a call, and of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallOf {
    pub(super) agent: Option<String>,
    pub(super) server: Option<String>,
    pub(super) tool: Option<String>,
    action: Option<String>,
    /// The run that it is of.
    pub(super) run: Option<String>,
}

impl CallOf {
    fn read(record: &Value) -> CallOf {
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        CallOf {
            agent: text("agent"),
            server: text("server"),
            tool: text("tool"),
            action: text("action"),
            run: text("run"),
        }
    }

    /// The tool with its server, as `audit show` prints it.
    fn server_and_tool(&self) -> Option<String> {
        Some(format!("{}/{}", self.server.as_ref()?, self.tool.as_ref()?))
    }
}

/// Names of one kind that stand in records.
#[derive(Debug, Default)]
struct NamesSeen {
    names: BTreeSet<String>,
    has_more: bool,
}

impl NamesSeen {
    fn note(&mut self, name: Option<&str>) {
        let Some(name) = name.filter(|name| !self.names.contains(*name)) else {
            return;
        };
        match self.names.len() < NAMES_MAX {
            true => drop(self.names.insert(name.to_owned())),
            false => self.has_more = true,
        }
    }
}

/// The records until here, as far as it depends on them which are shown.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    /// The earliest time that is shown, as records write it.
    since: Option<String>,
    open: HashMap<String, CallOf>,
    /// The ids of `open`, the oldest first, and some that have ended.
    order: VecDeque<String>,
    agents: NamesSeen,
    servers: NamesSeen,
    actions: NamesSeen,
    rules: NamesSeen,
    /// Calls whose ids begin as the one that is wanted, up to one more than an error gives.
    calls: BTreeSet<String>,
}

impl Wanted {
    /// Lets through what is wanted, from now on. `now` in Unix milliseconds.
    pub(super) fn sieve(&self, now: u64) -> Sieve {
        let since = self.since.map(|since| since.at_unix_ms(now));
        Sieve {
            since: since.map(rfc3339),
            ..Sieve::default()
        }
    }

    /// Whether records are asked for by what they say, and not by whose they are alone.
    pub(super) fn is_of_content(&self) -> bool {
        self.refused || self.rule.is_some()
    }

    fn is_of_names(&self) -> bool {
        let names = [
            &self.agent,
            &self.server,
            &self.tool,
            &self.action,
            &self.run,
        ];
        names.into_iter().any(Option::is_some)
    }

    /// Fails where what is asked for cannot be: an agent, a server or a rule that nobody knows, or calls that begin alike.
    pub(super) fn check(&self, sieve: &Sieve, place: &Place) -> Result<(), Failure> {
        if let Some(call) = &self.call
            && !sieve.calls.contains(call)
            && sieve.calls.len() > 1
        {
            let calls = sieve.calls.iter().take(CALLS_SHOWN_MAX);
            let calls: Vec<&str> = calls.map(String::as_str).collect();
            let what = format!("several calls begin with {call:?}");
            let help = format!("Give more of the id, such as: {}.", calls.join(", "));
            return Err(Failure::new(what, help));
        }
        let asked = [
            ("agent", &self.agent, &sieve.agents),
            ("server", &self.server, &sieve.servers),
            ("action", &self.action, &sieve.actions),
            ("rule", &self.rule, &sieve.rules),
        ];
        let missing = |name: &Option<String>, seen: &NamesSeen| {
            let name = name.as_ref()?;
            (!seen.names.contains(name) && !seen.has_more).then(|| name.clone())
        };
        for (what, name, seen) in asked {
            let Some(name) = missing(name, seen) else {
                continue;
            };
            let known = configured(what, place);
            if !known.contains(&name) {
                let known: BTreeSet<String> = known.union(&seen.names).cloned().collect();
                return Err(unknown(what, &name, &known));
            }
        }
        Ok(())
    }
}

impl Sieve {
    /// Takes notice of a record: whether it is wanted, and of an outcome who made the call.
    pub(super) fn take(&mut self, wanted: &Wanted, record: &Value) -> (bool, Option<CallOf>) {
        let kind = record["kind"].as_str().unwrap_or_default();
        let of = CallOf::read(record);
        self.agents.note(of.agent.as_deref());
        self.servers.note(of.server.as_deref());
        self.actions.note(of.action.as_deref());
        let findings = record["findings"].as_array().into_iter().flatten();
        findings.for_each(|finding| self.rules.note(finding["rule"].as_str()));
        let call = record["call"].as_str();
        if let (Some(begins), Some(call)) = (&wanted.call, call)
            && call.starts_with(begins)
            && (self.calls.len() <= CALLS_SHOWN_MAX || call == begins)
        {
            self.calls.insert(call.to_owned());
        }
        let ended = matches!(kind, "outcome" | "lost" | "oversized");
        let of_call = match call {
            Some(call) if ended => self.open.remove(call),
            Some(call) if kind == "judgement" && record["decision"] == "pass" => {
                self.opens(call, &of);
                None
            }
            _ => None,
        };
        let whose = of_call.as_ref().unwrap_or(&of);
        (self.is_wanted(wanted, record, whose), of_call)
    }

    fn opens(&mut self, call: &str, of: &CallOf) {
        if self.order.len() >= CALLS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        self.order.push_back(call.to_owned());
        self.open.insert(call.to_owned(), of.clone());
    }

    fn is_wanted(&self, wanted: &Wanted, record: &Value, of: &CallOf) -> bool {
        let is = |wanted: &Option<String>, name: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| name.as_ref() == Some(wanted))
        };
        let call = record["call"].as_str();
        // Times are written in one way, so their texts are in their order.
        let is_since =
            |since: &String| record["at"].as_str().is_some_and(|at| at >= since.as_str());
        let is_call = |begins: &String| call.is_some_and(|call| call.starts_with(begins));
        let has_rule = |rule: &String| {
            let mut findings = record["findings"].as_array().into_iter().flatten();
            findings.any(|finding| finding["rule"] == **rule)
        };
        is(&wanted.agent, &of.agent)
            && is(&wanted.server, &of.server)
            && (is(&wanted.tool, &of.tool) || is(&wanted.tool, &of.server_and_tool()))
            && is(&wanted.action, &of.action)
            && is(&wanted.run, &of.run)
            && wanted.call.as_ref().is_none_or(is_call)
            && wanted.rule.as_ref().is_none_or(has_rule)
            && self.since.as_ref().is_none_or(is_since)
            && (!wanted.refused || is_refused(record))
            && (!wanted.is_of_names() || record["kind"] != "open")
    }

    /// Whether the call that was asked for has a record.
    pub(super) fn has_call(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Of calls that begin as the one that was asked for, whether a record of this call is meant.
    pub(super) fn means(&self, wanted: &Wanted, record: &Value) -> bool {
        let exact = wanted
            .call
            .as_ref()
            .filter(|call| self.calls.contains(*call));
        exact.is_none_or(|call| record["call"] == **call)
    }
}

/// Whether a record says that something was refused.
pub(super) fn is_refused(record: &Value) -> bool {
    let is = |key: &str, words: &[&str]| record[key].as_str().is_some_and(|w| words.contains(&w));
    is("decision", &["refuse", "ask"])
        || is("end", &["refused"])
        || (record["kind"] == "admin" && record.get("refused").is_some())
}

/// The names of this kind in the configuration that belongs to the log, where there is one. What is wrong with it is not
/// this command's to say.
fn configured(what: &str, place: &Place) -> BTreeSet<String> {
    let config = place.config();
    let mut names = BTreeSet::new();
    match what {
        "rule" => names.extend(scan::rules().iter().map(|rule| rule.id.to_owned())),
        "action" => names.extend(lanes::actions().map(|action| action.name.to_owned())),
        _ => {}
    }
    if let Ok(settings) = read::load_without_secrets(&config, &variable) {
        let agents = settings.agents.iter().map(|agent| &agent.name);
        let servers = settings.servers.iter().map(|server| &server.name);
        match what {
            "agent" => names.extend(agents.map(ToString::to_string)),
            "server" => names.extend(servers.map(ToString::to_string)),
            "action" => {}
            _ => names.extend(settings.scan.rules.iter().map(|rule| rule.id.to_owned())),
        }
        return names;
    }
    let text = read::read_text(&config, FILE_BYTES_MAX).unwrap_or_default();
    if let Ok((_, file, _)) = file::read("", &text) {
        match what {
            "agent" => names.extend(file.agents.iter().map(|(name, _)| name.to_owned())),
            "server" => names.extend(file.mcp.iter().map(|(name, _)| name.to_owned())),
            _ => {}
        }
    }
    names
}

fn unknown(what: &str, name: &str, known: &BTreeSet<String>) -> Failure {
    let help = match base::near::meant(name, known.iter().map(String::as_str)) {
        Some(near) => format!("Did you mean {near}?"),
        None if known.is_empty() => format!("No record names any {what}."),
        None => {
            let some: Vec<&str> = known
                .iter()
                .take(NAMES_SHOWN_MAX)
                .map(String::as_str)
                .collect();
            let more = if known.len() > some.len() {
                ", …"
            } else {
                ""
            };
            format!("There are: {}{more}.", some.join(", "))
        }
    };
    let what = format!("there is no {what} {name:?}, neither in the log nor in the configuration");
    Failure::new(what, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_past() {
        for (text, expected) in [
            ("90s", Since::Ago(90_000)),
            ("1h", Since::Ago(3_600_000)),
            ("2w", Since::Ago(14 * 86_400_000)),
            ("1970-01-02", Since::At(86_400_000)),
            ("1970-01-01T01:00:00+01:00", Since::At(0)),
        ] {
            assert_eq!(since(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "h",
            "1",
            "1y",
            "-1h",
            "1.5h",
            "2026-13-01",
            "yesterday",
            "1 h",
        ] {
            assert!(since(text).is_err(), "{text}");
        }
    }

    #[test]
    fn open_calls_have_a_bound() {
        let mut sieve = Sieve::default();
        for n in 0..=CALLS_MAX {
            sieve.opens(&n.to_string(), &CallOf::default());
        }
        assert_eq!(
            (sieve.open.len(), sieve.order.len()),
            (CALLS_MAX, CALLS_MAX)
        );
        assert!(!sieve.open.contains_key("0") && sieve.open.contains_key("1"));
    }
}
