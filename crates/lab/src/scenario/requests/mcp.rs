//! What is asked of an MCP server: lists, calls of tools, pings.

use serde_json::{Map, Value as Json};

use super::{Words, distinct, expect, headers, path, weight};
use crate::plan::{Ask, Expect, McpRevision, REQUESTS_MAX, Request};
use crate::scenario::check::One;
use crate::scenario::file;
use crate::scenario::units::Text;
use crate::template::{Body, Template};
use config::Path;

/// Reads a scenario that speaks MCP. Where the revision has sessions, `initialize` comes first, with weight 0.
pub(crate) fn requests(
    one: &mut One,
    words: &Words,
    revision: McpRevision,
) -> Option<Vec<Request>> {
    let scenario = one.scenario;
    no_bodies(one)?;
    let at = one.path.key("expect");
    let written = scenario.expect.as_ref();
    let expect = expect(one, words, &at, written, None, None)?;
    let mut kinds = Vec::new();
    if let McpRevision::Session(_) = revision {
        kinds.push(made(
            one,
            words,
            "initialize".to_owned(),
            0,
            Ask::Initialize,
            &Expect::default(),
        )?);
    }
    let above = one.path.key("mcp");
    let empty = file::Mcp::default();
    let mcp = scenario.mcp.as_ref().unwrap_or(&empty);
    let Some(calls) = &mcp.calls else {
        let (name, ask) = single(one, words, &above, mcp)?;
        kinds.push(made(one, words, name, 1, ask, &expect)?);
        return Some(kinds);
    };
    if mcp.tool.is_some() || mcp.arguments.is_some() {
        let help = "write the tool as one of the calls";
        one.say("mcp.tool", "does not go together with calls", help);
        return None;
    }
    if calls.is_empty() || calls.len() >= REQUESTS_MAX {
        one.say(
            "mcp.calls",
            format!("there are not 1 to {}", REQUESTS_MAX - 1),
            "",
        );
        return None;
    }
    for (index, call) in calls.iter().enumerate() {
        let at = above.key("calls").index(index);
        let (name, ask) = asked(one, words, &at, call, revision)?;
        let weight = weight(one, &at, call.weight)?;
        kinds.push(made(one, words, name, weight, ask, &expect)?);
    }
    distinct(one, &kinds)?;
    Some(kinds)
}

/// Refuses what a scenario over plain HTTP would send.
fn no_bodies(one: &mut One) -> Option<()> {
    let scenario = one.scenario;
    let bodies = [
        ("requests", scenario.requests.is_some()),
        ("method", scenario.method.is_some()),
        ("body", scenario.body.is_some()),
        ("body_json", scenario.body_json.is_some()),
        ("body_file", scenario.body_file.is_some()),
        ("unique", scenario.unique.is_some()),
    ];
    for (key, _) in bodies.iter().filter(|(_, there)| *there) {
        one.say(
            key,
            "does not go together with the protocol mcp",
            "write mcp: { tool: … }",
        );
    }
    let none = !bodies.iter().any(|(_, there)| *there);
    none.then_some(())
}

fn made(
    one: &mut One,
    words: &Words,
    name: String,
    weight: u32,
    ask: Ask,
    expect: &Expect,
) -> Option<Request> {
    let mut fields = headers::Fields::default();
    let above = one.path.clone();
    fields.add(one, words, &above, &one.scenario.headers);
    fields.add_auth(one);
    fields.add_defaults(words.protocol, None);
    Some(Request {
        name,
        weight,
        method: "POST".to_owned(),
        path: path(one, words, &above.key("url"), words.url_path)?,
        headers: fields.done()?,
        body: Body::None,
        ask: Some(ask),
        expect: expect.clone(),
    })
}

/// The one tool of `mcp.tool`, or the list.
fn single(one: &mut One, words: &Words, at: &Path, mcp: &file::Mcp) -> Option<(String, Ask)> {
    match &mcp.tool {
        Some(Text(tool)) => call(one, words, at, tool, &mcp.arguments),
        None if mcp.arguments.is_some() => {
            one.say(
                "mcp.arguments",
                "there is no `tool` for them",
                "write mcp: { tool: echo }",
            );
            None
        }
        None => Some(("tools/list".to_owned(), Ask::List)),
    }
}

fn asked(
    one: &mut One,
    words: &Words,
    at: &Path,
    written: &file::Call,
    revision: McpRevision,
) -> Option<(String, Ask)> {
    let list = written.list.is_some_and(|on| on.0);
    let ping = written.ping.is_some_and(|on| on.0);
    let (name, ask) = match (list, ping, &written.tool) {
        (true, false, None) => ("tools/list".to_owned(), Ask::List),
        (false, true, None) if matches!(revision, McpRevision::Stateless(_)) => {
            one.check
                .say(&at.key("ping"), "this revision has no ping", "call a tool");
            return None;
        }
        (false, true, None) => ("ping".to_owned(), Ask::Ping),
        (false, false, Some(Text(tool))) => call(one, words, at, tool, &written.arguments)?,
        _ => {
            let help = "write { tool: echo, arguments: {} }, { list: true } or { ping: true }";
            one.check
                .say(at, "is not one of a tool, a list and a ping", help);
            return None;
        }
    };
    if written.arguments.is_some() && !matches!(ask, Ask::Call { .. }) {
        one.check
            .say(&at.key("arguments"), "are for a tool", "leave them out");
        return None;
    }
    match &written.name {
        Some(Text(name)) => Some((one.name(&at.key("name"), name)?, ask)),
        None => Some((name, ask)),
    }
}

fn call(
    one: &mut One,
    words: &Words,
    at: &Path,
    tool: &str,
    arguments: &Option<Map<String, Json>>,
) -> Option<(String, Ask)> {
    let tool = one.name(&at.key("tool"), tool)?;
    let arguments = match arguments {
        Some(map) => words.json(one, &at.key("arguments"), &Json::Object(map.clone()))?,
        None => Template::plain("{}"),
    };
    Some((tool.clone(), Ask::Call { tool, arguments }))
}
