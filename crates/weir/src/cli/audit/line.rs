//! A record in one line for people: when, which call, who, what, and what came of it.
//!
//! Agents and servers wrote some of it, so nothing of it can steer a terminal or stay unseen.

use serde_json::Value;
use terminal::visible;

use super::wanted::CallOf;

/// What stands above the lines.
pub(super) fn header() -> String {
    format!("{:>6}  {:<24}  {:<32}  WHAT", "ENTRY", "TIME", "CALL")
}

/// The line of the record with this index. `of` says of an outcome who made the call and of what.
pub(super) fn line(index: u64, record: &Value, of: Option<&CallOf>) -> String {
    let told = match record["kind"].as_str() {
        Some("outcome") => of_call(
            record,
            &(outcome(record) + &of.map(of_whom).unwrap_or_default()),
        ),
        Some("lost") => of_call(record, "  lost: the process died before it ended"),
        Some("approval") => approval(record),
        Some("accepted") => accepted(record),
        Some("start") => start(record),
        Some("stop") => "stopped".to_owned(),
        Some("snapshot") => snapshot(record),
        Some("admin") => admin(record),
        Some("open") => open(record),
        Some("hook") => of_call(record, &event(record)),
        _ => of_call(record, &judgement(record)),
    };
    format!("{index:>6}  {}  {told}", text(record, "at"))
}

fn of_call(record: &Value, what: &str) -> String {
    let observed = given(record, "observed").map(|code| format!(" (observed: {code})"));
    let (call, observed) = (text(record, "call"), observed.unwrap_or_default());
    format!("{call}  {what}{observed}{}", findings(record))
}

fn judgement(record: &Value) -> String {
    let text = |key: &str| text(record, key);
    let part = part(record).map(|(_, name)| format!("/{name}"));
    let why = given(record, "refusal").map(|code| format!(" {code}"));
    let behalf = given(record, "behalf").map(|person| format!(" for {person}"));
    let (agent, action, server) = (text("agent"), text("action"), text("server"));
    let (part, why) = (part.unwrap_or_default(), why.unwrap_or_default());
    let behalf = behalf.unwrap_or_default();
    format!(
        "{} {agent}{behalf} {action} {server}{part}{why}",
        text("decision")
    )
}

/// An event of a coding agent, as `weir hook` records it.
fn event(record: &Value) -> String {
    let tool = match (given(record, "server"), given(record, "tool")) {
        (Some(server), Some(tool)) => format!(" {server}/{tool}"),
        (None, Some(tool)) => format!(" {tool}"),
        _ => String::new(),
    };
    let why = given(record, "refusal").map(|code| format!(" {code}"));
    let (decision, agent) = (text(record, "decision"), text(record, "agent"));
    let event = given(record, "event").unwrap_or_else(|| "-".to_owned());
    format!(
        "{decision} {agent} {event}{tool}{}",
        why.unwrap_or_default()
    )
}

fn of_whom(of: &CallOf) -> String {
    let tool = of.tool.as_deref().map(|tool| format!("/{}", visible(tool)));
    let (agent, server) = (of.agent.as_deref(), of.server.as_deref());
    let (agent, server) = (
        visible(agent.unwrap_or("-")),
        visible(server.unwrap_or("-")),
    );
    format!(", of {agent} {server}{}", tool.unwrap_or_default())
}

fn outcome(record: &Value) -> String {
    let why = given(record, "why").map(|why| format!(" {why}"));
    let (status, bytes) = (number(record, "status"), number(record, "bytes"));
    let (end, why) = (text(record, "end"), why.unwrap_or_default());
    let ms = number(record, "duration_ms");
    let usage = record["usage"].as_object().map(|usage| {
        let counts = usage
            .iter()
            .map(|(name, count)| format!("{} {}", visible(name), visible(&count.to_string())));
        format!(", tokens: {}", counts.collect::<Vec<_>>().join(", "))
    });
    let usage = usage.unwrap_or_default();
    format!("  {end}{why}, status {status}, {bytes} bytes, {ms} ms{usage}")
}

fn approval(record: &Value) -> String {
    let text = |key: &str| text(record, key);
    let login = given(record, "login").map(|login| format!(", logged in as {login}"));
    let (kind, name) = part(record).unwrap_or_default();
    let word = match kind {
        "tool" => String::new(),
        other => format!("{other} "),
    };
    let (server, digest, by) = (text("server"), text("digest"), text("by"));
    let login = login.unwrap_or_default();
    format!("approved {word}{server}/{name} {digest} by {by}{login}")
}

/// What a record names of its server, after the word for it.
fn part(record: &Value) -> Option<(&'static str, String)> {
    let keys = ["tool", "prompt", "resource", "model", "path"];
    let parts = keys.into_iter();
    parts
        .filter_map(|key| Some((key, given(record, key)?)))
        .next()
}

fn accepted(record: &Value) -> String {
    let text = |key: &str| text(record, key);
    format!(
        "accepted by {}: {} ({})",
        text("by"),
        text("reason"),
        text("found")
    )
}

fn start(record: &Value) -> String {
    let text = |key: &str| text(record, key);
    let lost = match number(record, "lost") {
        0 => String::new(),
        lost => format!(", {lost} calls lost"),
    };
    format!(
        "started weir {}, process {}, policies {}, directory {}{lost}",
        text("version"),
        number(record, "pid"),
        text("policy_set"),
        text("directory")
    )
}

fn snapshot(record: &Value) -> String {
    format!(
        "snapshot of the {} {}, part {} of {}",
        text(record, "of"),
        text(record, "digest"),
        number(record, "part"),
        number(record, "parts")
    )
}

fn admin(record: &Value) -> String {
    let list = |key: &str, before: &str| {
        let keys = record[key].as_array().into_iter().flatten();
        let keys = keys.filter_map(Value::as_str).map(visible);
        match keys.collect::<Vec<_>>().join(", ") {
            keys if keys.is_empty() => keys,
            keys => format!(", {before}: {keys}"),
        }
    };
    let refused = given(record, "refused").map(|why| format!(", refused: {why}"));
    format!(
        "{} by {}{}{}{}",
        text(record, "what"),
        text(record, "by"),
        list("changed", "changed"),
        list("waiting", "waits for a restart"),
        refused.unwrap_or_default()
    )
}

fn open(record: &Value) -> String {
    let calls = record["open"].as_array().map_or(0, Vec::len);
    let (part, parts) = (number(record, "part"), number(record, "parts"));
    format!("open here: {calls} calls, part {part} of {parts}")
}

fn findings(record: &Value) -> String {
    // Each rule once, with how often it met.
    let mut rules: Vec<(&str, usize)> = Vec::new();
    let findings = record["findings"].as_array().into_iter().flatten();
    for rule in findings.filter_map(|finding| finding["rule"].as_str()) {
        match rules.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, times)) => *times += 1,
            None => rules.push((rule, 1)),
        }
    }
    let word = |(rule, times): (&str, usize)| match times {
        1 => visible(rule).into_owned(),
        times => format!("{} ×{times}", visible(rule)),
    };
    let rules: Vec<String> = rules.into_iter().map(word).collect();
    match rules.is_empty() {
        true => String::new(),
        false => format!("  [{}]", rules.join(", ")),
    }
}

fn given(record: &Value, key: &str) -> Option<String> {
    record[key].as_str().map(|text| visible(text).into_owned())
}

fn text(record: &Value, key: &str) -> String {
    given(record, key).unwrap_or_else(|| "-".to_owned())
}

fn number(record: &Value, key: &str) -> u64 {
    record[key].as_u64().unwrap_or(0)
}
