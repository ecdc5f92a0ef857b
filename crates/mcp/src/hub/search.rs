//! Three tools in place of a long list: a model finds the tool that it needs, reads how it is called, and calls it.
//!
//! What is found is what `tools/list` would show. `call_tool` is the call of the tool that it names: judged and recorded as
//! that, never as a call of its own. Tools are ranked by BM25 (Robertson and Zaragoza 2009, equation 3.15) over the words of
//! their names, which count twice, and of their descriptions. Example: `find_tools` of `create a ticket` gives
//! `create_issue` before `list_issues`, since of the words that both have in common `create` is the rare one.

use std::collections::HashMap;

use base::{Json, JsonValue, Refusal, refusal};
use serde_json::{Value, json};

use super::Asking;
use super::lists::ShownItem;
use crate::envelope::Object;

pub(super) const FIND: &str = "find_tools";
pub(super) const DESCRIBE: &str = "describe_tool";
pub(super) const CALL: &str = "call_tool";

/// How many tools are found where the model does not say it, and at most.
const LIMIT_DEFAULT: usize = 8;
const LIMIT_MAX: usize = 50;
/// Longest description of a tool that was found, in characters; `describe_tool` gives all of it.
const DESCRIPTION_CHARS_MAX: usize = 240;
/// Longest query that is read, in words.
const QUERY_WORDS_MAX: usize = 64;
/// Constants of BM25.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// How often a word of the name counts.
const NAME_WEIGHT: usize = 2;

/// The three tools as a list shows them.
pub(super) fn definitions() -> [Value; 3] {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let name = "The tool's name, as find_tools gives it.";
    let tool = |name: &str, title: &str, what: &str, properties: Value, required: Value| {
        json!({
            "name": name,
            "title": title,
            "description": what,
            "inputSchema": { "type": "object", "properties": properties, "required": required },
        })
    };
    let mut find = tool(
        FIND,
        "Find tools",
        "Finds tools by what they do. Describe the task in a few words; the best matches come first.",
        json!({
            "query": text("What the tool is to do, in a few words."),
            "limit": { "type": "integer", "minimum": 1, "maximum": LIMIT_MAX,
                       "description": "How many tools to give; 8 where it is left out." },
        }),
        json!(["query"]),
    );
    let mut describe = tool(
        DESCRIBE,
        "Describe a tool",
        "Gives a tool's whole description and the schema of its arguments.",
        json!({ "name": text(name) }),
        json!(["name"]),
    );
    for reads in [&mut find, &mut describe] {
        reads["annotations"] = json!({ "readOnlyHint": true });
    }
    let call = tool(
        CALL,
        "Call a tool",
        "Calls a tool with arguments that fit its schema; describe_tool gives that.",
        json!({
            "name": text(name),
            "arguments": { "type": "object", "description": "The tool's arguments." },
        }),
        json!(["name", "arguments"]),
    );
    [find, describe, call]
}

/// A request that calls `call_tool`, as the call of the tool that it names.
///
/// # Errors
/// `mcp.message_invalid` where it names none.
pub(super) fn called(params: JsonValue<'_>) -> Result<String, Refusal> {
    let invalid = || {
        let public = "call_tool takes the name of a tool and an object of its arguments";
        Refusal::new(refusal::MESSAGE_INVALID, public)
    };
    let inner = params.get("arguments").ok_or_else(invalid)?;
    let name = inner
        .get("name")
        .and_then(JsonValue::as_str)
        .ok_or_else(invalid)?;
    if [FIND, DESCRIBE, CALL].contains(&&*name) {
        return Err(invalid());
    }
    let arguments = inner.get("arguments").map_or("{}", JsonValue::text);
    let put = || {
        let mut outer = Object::read(params.text())?;
        outer.put("name", Value::from(&*name).to_string())?;
        outer.put("arguments", arguments.to_owned())?;
        Some(outer.to_json())
    };
    put().ok_or_else(invalid)
}

impl Asking<'_> {
    /// Whether this URL shows the three tools.
    pub(super) fn searches(&self) -> bool {
        self.set
            .map_or(self.lane.settings().search, |set| set.search)
    }

    /// The result of `find_tools` and of `describe_tool`.
    pub(super) fn found(
        &self,
        tool: &str,
        params: Option<JsonValue<'_>>,
        shown: &[ShownItem],
    ) -> Value {
        let arguments = params.and_then(|params| params.get("arguments"));
        let text = |key: &str| {
            let value = arguments.and_then(|arguments| arguments.get(key));
            value.and_then(JsonValue::as_str)
        };
        let said = match tool {
            FIND => {
                let limit = arguments.and_then(|arguments| arguments.get("limit"));
                let limit = limit.and_then(|limit| limit.text().parse().ok());
                let limit: usize = limit.unwrap_or(LIMIT_DEFAULT);
                find(text("query").as_deref(), limit.clamp(1, LIMIT_MAX), shown)
            }
            _ => describe(text("name").as_deref(), shown),
        };
        match said {
            Ok(said) => json!({
                "content": [{ "type": "text", "text": said.to_string() }],
                "structuredContent": said,
            }),
            Err(why) => json!({ "content": [{ "type": "text", "text": why }], "isError": true }),
        }
    }
}

fn find(query: Option<&str>, limit: usize, shown: &[ShownItem]) -> Result<Value, String> {
    let query = query.ok_or("find_tools takes a query: what the tool is to do, in a few words")?;
    let texts: Vec<(String, String)> = shown.iter().map(name_and_description).collect();
    let ranked = rank(query, &texts);
    let found = ranked.into_iter().take(limit).map(|at| {
        let (name, description) = &texts[at];
        let short: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
        json!({ "name": name, "description": short })
    });
    Ok(json!({ "tools": found.collect::<Vec<_>>(), "of": shown.len() }))
}

fn describe(name: Option<&str>, shown: &[ShownItem]) -> Result<Value, String> {
    let name = name.ok_or("describe_tool takes the name of a tool")?;
    let found = shown.iter().find(|tool| tool.name == name);
    let tool = found.ok_or_else(|| format!("there is no tool {name:?}; find_tools gives names"))?;
    serde_json::from_str(&tool.json).map_err(|_| "its definition is not JSON".to_owned())
}

fn name_and_description(tool: &ShownItem) -> (String, String) {
    let json = Json::read(tool.json.as_bytes());
    let description = json.ok().and_then(|json| {
        let description = json.root().get("description")?.as_str()?;
        Some(description.into_owned())
    });
    (tool.name.clone(), description.unwrap_or_default())
}

/// The places of the texts that have a word of the query, the best first.
fn rank(query: &str, texts: &[(String, String)]) -> Vec<usize> {
    let documents: Vec<HashMap<String, usize>> = texts
        .iter()
        .map(|(name, description)| {
            let mut counts = HashMap::new();
            for word in words(name) {
                *counts.entry(word).or_default() += NAME_WEIGHT;
            }
            for word in words(description) {
                *counts.entry(word).or_default() += 1;
            }
            counts
        })
        .collect();
    let length = |counts: &HashMap<String, usize>| counts.values().sum::<usize>() as f64;
    let count = documents.len().max(1) as f64;
    let average = documents.iter().map(length).sum::<f64>() / count;
    let mut wanted = words(query);
    wanted.truncate(QUERY_WORDS_MAX);
    wanted.sort_unstable();
    wanted.dedup();
    let weighted = wanted.iter().map(|word| {
        let having = documents
            .iter()
            .filter(|counts| counts.contains_key(word))
            .count() as f64;
        (word, (1.0 + (count - having + 0.5) / (having + 0.5)).ln())
    });
    let weighted: Vec<_> = weighted.collect();
    let score = |counts: &HashMap<String, usize>| {
        let bound = K1 * (1.0 - B + B * length(counts) / average.max(1.0));
        let terms = weighted.iter().filter_map(|(word, weight)| {
            let often = *counts.get(*word)? as f64;
            Some(weight * often * (K1 + 1.0) / (often + bound))
        });
        terms.sum::<f64>()
    };
    let mut scored: Vec<(usize, f64)> = documents.iter().map(score).enumerate().collect();
    scored.retain(|(_, score)| *score > 0.0);
    // Equal ones stay in the order of the list.
    scored.sort_by(|one, other| other.1.total_cmp(&one.1));
    scored.into_iter().map(|(at, _)| at).collect()
}

/// The words of a text in lower case, those of `createIssue` and `create_issue` alike, without the ending of a plural.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in text.chars() {
        if (c.is_uppercase() && was_lower) || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words
                .last_mut()
                .expect("there is one")
                .extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_match_comes_first() {
        let tool = |name: &str, description: &str| (name.to_owned(), description.to_owned());
        let texts = [
            tool(
                "list_issues",
                "Lists the issues of a project, newest first.",
            ),
            tool("createIssue", "Files a ticket."),
            tool("read_text_file", "Reads a file as text."),
            tool("write_file", "Creates a file, or overwrites one."),
        ];
        let first = |query: &str| rank(query, &texts).first().map(|at| &*texts[*at].0);
        assert_eq!(first("create an issue"), Some("createIssue"));
        assert_eq!(first("ticket"), Some("createIssue"));
        assert_eq!(first("READ FILES"), Some("read_text_file"));
        assert_eq!(first("overwrite"), Some("write_file"));
        assert_eq!(first("over"), None);
        assert_eq!(first("overwrites a file"), Some("write_file"));
        assert_eq!(first("zebra"), None);
        assert_eq!(first(""), None);
    }

    #[test]
    fn call_tool_is_the_call_of_another() {
        let called = |params: &str| {
            let json = Json::read(params.as_bytes()).unwrap();
            called(json.root()).map_err(|refusal| refusal.code.name)
        };
        let given =
            r#"{"name":"call_tool","arguments":{"name":"echo","arguments":{"a":1}},"_meta":{}}"#;
        let wanted = r#"{"name":"echo","arguments":{"a":1},"_meta":{}}"#;
        assert_eq!(called(given), Ok(wanted.to_owned()));
        for wrong in [
            r#"{"name":"call_tool"}"#,
            r#"{"name":"call_tool","arguments":{}}"#,
            r#"{"name":"call_tool","arguments":{"name":7}}"#,
            r#"{"name":"call_tool","arguments":{"name":"call_tool","arguments":{}}}"#,
        ] {
            assert_eq!(called(wrong), Err("mcp.message_invalid"), "{wrong}");
        }
    }
}
