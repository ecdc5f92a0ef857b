//! Scripts: what each model answers, turn by turn.
//!
//! A file names models, and each has a list of turns. A request is answered by the turn whose number is how often the
//! model has spoken in it already, counted from 0, and by the last one when there are no more. So an answer depends on
//! the request alone, and a session can be repeated, joined or left anywhere.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::chance::{Distribution, duration};
use super::super::faults::Fault;
use super::super::refuse::ErrorNames;
use super::asked::ToolCall;
use super::{RETRY_AFTER_MAX, TOKENS_MAX};
use config::yaml::{self, Scalars};
use config::{Named, read};

/// The most bytes of a script.
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;
/// The most models of a script.
const MODELS_MAX: usize = 256;
/// The most turns of one model.
const TURNS_MAX: usize = 1_000;
/// The most calls of tools in one turn.
const CALLS_MAX: usize = 128;
/// How many problems are told at once.
const PROBLEMS_MAX: usize = 10;
/// The model that stands for all that have no turns of their own.
const ANY: &str = "*";

/// What models answer.
#[derive(Debug, PartialEq)]
pub struct Script {
    /// Sorted by name.
    models: Vec<(String, Vec<Turn>)>,
}

/// One answer of a model.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    pub reply: Reply,
    pub fault: Option<Fault>,
    pub first_token: Option<Distribution>,
    pub tokens_per_second: Option<f64>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Refused(Refused),
    Said(Said),
}

/// An error in the provider's own form.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    pub status: StatusCode,
    pub message: String,
    pub names: ErrorNames,
    /// Seconds.
    pub retry_after: Option<u64>,
}

/// What a model says.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub reasoning: Option<String>,
    pub words: Option<String>,
    /// So many words without a meaning.
    pub tokens: Option<u64>,
    pub tools: Vec<ToolCall>,
    pub usage: Count,
}

/// Tokens that are told, whatever was counted.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Count {
    pub input: Option<u64>,
    pub cached: Option<u64>,
    pub output: Option<u64>,
    pub reasoning: Option<u64>,
}

/// A file as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    models: Named<Vec<TurnEntry>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TurnEntry {
    reasoning: Option<String>,
    words: Option<String>,
    tokens: Option<u64>,
    tools: Vec<ToolEntry>,
    usage: Count,
    error: Option<ErrorEntry>,
    fault: Option<String>,
    ttft: Option<String>,
    tokens_per_second: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolEntry {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorEntry {
    status: u16,
    message: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
    retry_after: Option<String>,
}

impl Script {
    /// Reads a script. Its file's name is for messages.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, a line each.
    pub fn read(name: &str, text: &str) -> Result<Script, String> {
        let parsed = yaml::parse(text, Scalars::Json);
        let (tree, spot) = parsed.map_err(|wrong| {
            let at = wrong.at;
            format!("{name}:{}:{}: {}", at.line, at.column, wrong.message)
        })?;
        let (file, wrong) = read::all::<ScriptFile>(tree);
        if let (Some(file), true) = (file, wrong.is_empty()) {
            return Script::of(file).map_err(|what| format!("{name}: {what}"));
        }
        let told = wrong.iter().take(PROBLEMS_MAX).map(|(path, wrong)| {
            let at = spot.key(path);
            let (line, column) = (at.line, at.column);
            format!("{name}:{line}:{column}: {path}: {}", wrong.message())
        });
        Err(told.collect::<Vec<_>>().join("\n"))
    }

    fn of(file: ScriptFile) -> Result<Script, String> {
        let mut models = Vec::new();
        for (name, turns) in file.models.0 {
            if turns.is_empty() || turns.len() > TURNS_MAX {
                return Err(format!("models.{name}: from 1 to {TURNS_MAX} turns"));
            }
            let turns = turns.into_iter().enumerate().map(|(at, entry)| {
                Turn::of(entry).map_err(|what| format!("models.{name}[{at}]: {what}"))
            });
            models.push((name.clone(), turns.collect::<Result<Vec<_>, _>>()?));
        }
        if models.is_empty() || models.len() > MODELS_MAX {
            return Err(format!("models: from 1 to {MODELS_MAX}"));
        }
        models.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Script { models })
    }

    /// The answer of a model that has spoken so many times.
    pub(super) fn turn(&self, model: &str, spoken: usize) -> Option<&Turn> {
        let of = |name: &str| {
            let found = self
                .models
                .binary_search_by(|(known, _)| known.as_str().cmp(name));
            found.ok().map(|at| &self.models[at].1)
        };
        let turns = of(model).or_else(|| of(ANY))?;
        turns.get(spoken).or_else(|| turns.last())
    }

    /// The models that it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.models.iter().map(|(name, _)| name.as_str());
        names.filter(|name| *name != ANY)
    }
}

impl Turn {
    fn of(entry: TurnEntry) -> Result<Turn, String> {
        let says = entry.words.is_some() || entry.tokens.is_some() || !entry.tools.is_empty();
        if entry.error.is_some() && (says || entry.reasoning.is_some()) {
            return Err("error goes with nothing that is said".into());
        }
        if entry.words.is_some() && entry.tokens.is_some() {
            return Err("words and tokens are two ways to say the text; leave one out".into());
        }
        if !entry
            .tokens
            .is_none_or(|tokens| (1..=TOKENS_MAX).contains(&tokens))
        {
            return Err(format!("tokens: from 1 to {TOKENS_MAX}"));
        }
        if entry.tools.len() > CALLS_MAX {
            return Err(format!("tools: at most {CALLS_MAX}"));
        }
        let rate = entry.tokens_per_second;
        if !rate.is_none_or(|rate| rate == 0.0 || (0.01..=1e9).contains(&rate)) {
            return Err("tokens_per_second: 0 or from 0.01 to 1e9".into());
        }
        let fault = entry.fault.as_deref().map(str::parse).transpose();
        let first_token = entry.ttft.as_deref().map(str::parse).transpose();
        Ok(Turn {
            fault: fault.map_err(|what: String| format!("fault: {what}"))?,
            first_token: first_token.map_err(|what: String| format!("ttft: {what}"))?,
            tokens_per_second: rate,
            reply: match entry.error {
                Some(error) => Reply::Refused(Refused::of(error)?),
                None => Reply::Said(Said {
                    reasoning: entry.reasoning,
                    words: entry.words,
                    tokens: entry.tokens,
                    tools: entry.tools.into_iter().map(ToolEntry::call).collect(),
                    usage: entry.usage,
                }),
            },
        })
    }
}

impl ToolEntry {
    fn call(self) -> ToolCall {
        ToolCall {
            name: self.name,
            id: self.id,
            arguments: Value::Object(self.arguments).to_string(),
        }
    }
}

impl Refused {
    fn of(entry: ErrorEntry) -> Result<Refused, String> {
        let status = StatusCode::from_u16(entry.status).ok();
        let status = status.filter(|status| status.is_client_error() || status.is_server_error());
        let after = entry.retry_after.as_deref().map(duration).transpose();
        let after = after.map_err(|what| format!("error.retry_after: {what}"))?;
        let after = after.map(|after| after.as_secs_f64().ceil() as u64);
        if after.is_some_and(|after| after > RETRY_AFTER_MAX) {
            return Err(format!("error.retry_after: at most {RETRY_AFTER_MAX} s"));
        }
        let message = entry.message;
        Ok(Refused {
            status: status.ok_or("error.status: a status from 400 to 599")?,
            message: message.unwrap_or_else(|| "as the script of the lab's target says".into()),
            names: ErrorNames {
                kind: entry.kind,
                code: entry.code,
            },
            retry_after: after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
models:
  coder:
    - { reasoning: Look first., tools: [{ name: read, arguments: { path: a.txt, depth: 2 } }] }
    - { words: It is done., usage: { input: 7, output: 3 }, ttft: 10ms, tokens_per_second: 50 }
  limited:
    - { error: { status: 429, retry_after: 7s, type: insufficient_quota } }
  "*":
    - { tokens: 4, fault: reset@3 }
"#;

    #[test]
    fn a_turn_is_chosen_by_the_model_and_by_how_often_it_spoke() {
        let script = Script::read("script.yaml", SCRIPT).unwrap();
        let said = |model: &str, spoken| match &script.turn(model, spoken).unwrap().reply {
            Reply::Said(said) => said,
            Reply::Refused(refused) => panic!("{refused:?}"),
        };
        let arguments: Value = serde_json::from_str(&said("coder", 0).tools[0].arguments).unwrap();
        assert_eq!(
            arguments,
            serde_json::json!({ "path": "a.txt", "depth": 2 })
        );
        assert_eq!(said("coder", 1).words.as_deref(), Some("It is done."));
        assert_eq!(said("coder", 9), said("coder", 1));
        assert_eq!(said("other", 0).tokens, Some(4));
        assert!(script.turn("other", 0).unwrap().fault.is_some());
        let Reply::Refused(refused) = &script.turn("limited", 3).unwrap().reply else {
            panic!("it says something");
        };
        assert_eq!(
            (refused.status.as_u16(), refused.retry_after),
            (429, Some(7))
        );
        assert_eq!(script.names().collect::<Vec<_>>(), ["coder", "limited"]);
    }

    #[test]
    fn what_is_no_script_is_refused_with_its_place() {
        for (text, says) in [
            ("[", "script.yaml:"),
            ("model: {}", "model"),
            ("models: {}", "from 1 to"),
            ("models: { m: [] }", "from 1 to"),
            ("models: { m: [{ word: x }] }", "word"),
            (
                "models: { m: [{ words: x, tokens: 3 }] }",
                "words and tokens",
            ),
            ("models: { m: [{ tokens: 0 }] }", "tokens"),
            (
                "models: { m: [{ words: x, error: { status: 500 } }] }",
                "error",
            ),
            ("models: { m: [{ error: { status: 200 } }] }", "status"),
            (
                "models: { m: [{ error: { status: 429, retry_after: 9 d } }] }",
                "retry_after",
            ),
            ("models: { m: [{ fault: broken }] }", "broken"),
            ("models: { m: [{ ttft: soon }] }", "ttft"),
            (
                "models: { m: [{ tokens_per_second: -1 }] }",
                "tokens_per_second",
            ),
            ("models: { m: [{ tools: [{}] }] }", "name"),
        ] {
            let error = Script::read("script.yaml", text).unwrap_err();
            assert!(
                error.contains("script.yaml") && error.contains(says),
                "{text}: {error}"
            );
        }
    }
}
