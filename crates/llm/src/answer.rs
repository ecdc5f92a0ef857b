//! What a model says, read by its dialect: what was used, the calls of tools, and of a stream the texts that grow.

use base::record::Usage;
use base::{Json, JsonKind, JsonValue, Refusal, refusal};
use gate::{Answer, Passed};
use serde_json::Value;

use crate::lane::check_names;

/// Texts that are judged beside the arguments of one call, and how deep JSON may stand in texts of JSON.
const TEXTS_MAX: usize = 64;
const INNER_DEPTH_MAX: usize = 4;

/// What a whole answer says.
#[derive(Default)]
pub(crate) struct AnswerSaid<'j> {
    pub(crate) usage: Option<Usage>,
    pub(crate) calls: Vec<ToolCall<'j>>,
    /// The id of what the provider keeps of it.
    pub(crate) stored: Option<JsonValue<'j>>,
}

/// A call of a tool that a model proposes.
pub(crate) struct ToolCall<'j> {
    /// Where it stands in the answer.
    pub(crate) path: String,
    name: JsonValue<'j>,
    arguments: Option<JsonValue<'j>>,
    /// A text is no JSON in a string, but what the tool is given.
    is_text: bool,
}

impl<'j> ToolCall<'j> {
    pub(crate) fn of(
        path: String,
        name: Option<JsonValue<'j>>,
        arguments: Option<JsonValue<'j>>,
    ) -> Option<ToolCall<'j>> {
        Some(ToolCall {
            path,
            name: name?,
            arguments,
            is_text: false,
        })
    }

    /// A call of a tool that is given a text.
    pub(crate) fn of_text(
        path: String,
        name: Option<JsonValue<'j>>,
        text: Option<JsonValue<'j>>,
    ) -> Option<ToolCall<'j>> {
        let call = ToolCall::of(path, name, text)?;
        Some(ToolCall {
            is_text: true,
            ..call
        })
    }

    /// Its arguments, as they are judged.
    fn arguments(&self) -> CallArguments {
        match self.arguments {
            None => CallArguments::of("{}", false),
            Some(value) if value.kind() == JsonKind::String => {
                CallArguments::of(&value.as_str().unwrap_or_default(), self.is_text)
            }
            Some(value) => CallArguments::of(value.text(), false),
        }
    }

    /// As a call is judged: `{"name":…,"arguments":…}`.
    pub(crate) fn json(&self) -> String {
        call_json(self.name.text(), &self.arguments().json)
    }

    /// Has the gate judge it.
    ///
    /// # Errors
    /// What the gate refuses, and `llm.answer_invalid` where more could be read in it than is judged.
    pub(crate) fn judge(&self, passed: &mut Passed) -> Result<(), Refusal> {
        let judged = self.arguments().judge(passed, self.name.text(), &self.path);
        judged.map(drop)
    }
}

/// The arguments of a call as they are judged. Most dialects write them as JSON in a string, which a model may get wrong: then one
/// client reads what another does not, and each text that stands in quotation marks there is judged as a command would be.
///
/// Example: `{"n": NaN, "command": "rm -rf /"}` is no JSON, and Python reads it; `n`, `command` and `rm -rf /` are judged.
pub(crate) struct CallArguments {
    /// One JSON value: what was said, or where that is no JSON, it as a text.
    json: String,
    /// Texts that are judged beside it.
    beside: Vec<String>,
}

impl CallArguments {
    /// Those that a text stands for; `is_text` where the tool is given the text itself.
    pub(crate) fn of(text: &str, is_text: bool) -> CallArguments {
        let of_text = |beside| CallArguments {
            json: Value::from(text).to_string(),
            beside,
        };
        if is_text {
            return of_text(Vec::new());
        }
        let text = match text.trim_ascii() {
            "" => "{}",
            _ => text,
        };
        match is_clear(text) {
            true => CallArguments {
                json: text.to_owned(),
                beside: inner_texts(text),
            },
            false => of_text(quoted_texts(text)),
        }
    }

    /// Has the gate judge a call with them.
    ///
    /// # Errors
    /// As [`ToolCall::judge`].
    pub(crate) fn judge(
        &self,
        passed: &mut Passed,
        name: &str,
        path: &str,
    ) -> Result<Answer, Refusal> {
        if self.beside.len() > TEXTS_MAX {
            let public = "more texts stand in the arguments of a call than are judged";
            return Err(Refusal::new(refusal::LLM_ANSWER_INVALID, public));
        }
        let answer = passed.proposed(call_json(name, &self.json).as_bytes(), path)?;
        for text in &self.beside {
            passed.proposed(call_json(name, text).as_bytes(), path)?;
        }
        Ok(answer)
    }
}

/// Whether a text is one JSON value that all programs read alike.
fn is_clear(text: &str) -> bool {
    // It is judged a level deeper than it stands here.
    let within = format!("[{text}]");
    let Ok(json) = Json::read(within.as_bytes()) else {
        return false;
    };
    let mut values = json.root().items();
    matches!((values.next(), values.next()), (Some(value), None) if is_read_alike(value))
}

/// Whether no object has a name twice, and no number is larger than programs count to.
fn is_read_alike(value: JsonValue<'_>) -> bool {
    let finite = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
    match value.kind() {
        JsonKind::Object => {
            check_names(value).is_ok() && value.members().all(|(_, inner)| is_read_alike(inner))
        }
        JsonKind::Array => value.items().all(is_read_alike),
        JsonKind::Number => finite(value.text()),
        _ => true,
    }
}

/// The texts of a JSON that are JSON objects or lists themselves, because tools read that: `{"input": "{\"command\": …}"}` gives
/// the inner one.
fn inner_texts(json: &str) -> Vec<String> {
    let mut found: Vec<(String, usize)> = vec![(json.to_owned(), 0)];
    let mut at = 0;
    while let Some((text, depth)) = found.get(at).cloned() {
        at += 1;
        if depth < INNER_DEPTH_MAX
            && let Ok(json) = Json::read(text.as_bytes())
        {
            texts_below(json.root(), depth + 1, &mut found);
        }
    }
    let inner = found.into_iter().skip(1);
    inner.map(|(text, _)| text).collect()
}

fn texts_below(value: JsonValue<'_>, depth: usize, found: &mut Vec<(String, usize)>) {
    match value.kind() {
        JsonKind::Object => {
            let members = value.members();
            members.for_each(|(_, inner)| texts_below(inner, depth, found));
        }
        JsonKind::Array => {
            let items = value.items();
            items.for_each(|inner| texts_below(inner, depth, found));
        }
        // One more than may be: so many are refused.
        JsonKind::String if found.len() <= TEXTS_MAX + 1 => {
            let text = value.as_str().unwrap_or_default();
            let text = text.trim_ascii();
            let may_be = text.starts_with('{') || text.starts_with('[');
            if may_be && Json::read(text.as_bytes()).is_ok() {
                found.push((text.to_owned(), depth));
            }
        }
        _ => {}
    }
}

/// All that stands in quotation marks in a text that is no clear JSON, and the whole text, each as the arguments of a command.
fn quoted_texts(text: &str) -> Vec<String> {
    let command = |text: &str| serde_json::json!({ "command": text }).to_string();
    let mut found = vec![command(text)];
    let mut letters = text.chars();
    while let Some(mark) = letters.next() {
        if !matches!(mark, '"' | '\'' | '`') {
            continue;
        }
        let mut inside = String::new();
        while let Some(letter) = letters.next().filter(|letter| *letter != mark) {
            match letter {
                '\\' => inside.extend(escaped(&mut letters)),
                letter => inside.push(letter),
            }
        }
        if !inside.is_empty() && found.len() <= TEXTS_MAX {
            found.push(command(&inside));
        }
    }
    found
}

/// What stands behind a backslash (RFC 8259, section 7); half of a pair is no letter.
fn escaped(letters: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match letters.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'u' => {
            let digits = letters.as_str().get(..4)?;
            let code = u32::from_str_radix(digits, 16).ok()?;
            *letters = letters.as_str().get(4..)?.chars();
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        other => other,
    })
}

/// A call as it is judged; the name is JSON.
pub(crate) fn call_json(name: &str, arguments: &str) -> String {
    format!("{{\"name\":{name},\"arguments\":{arguments}}}")
}

/// What kind of text grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TextKind {
    Content,
    Reasoning,
    Refusal,
    /// Of a call of a tool: judged as a call once it is whole.
    Arguments,
    /// Of a call of a tool that is given a text and no JSON.
    Input,
}

impl TextKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            TextKind::Content => "content",
            TextKind::Reasoning => "reasoning",
            TextKind::Refusal => "refusal",
            TextKind::Arguments => "arguments",
            TextKind::Input => "input",
        }
    }
}

/// One text of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextKey {
    pub(crate) kind: TextKind,
    /// The choice, block or item that it is of: its texts come one after another.
    pub(crate) group: u64,
    /// Which of the texts of its kind there.
    pub(crate) index: u64,
}

/// What one event of a stream adds.
#[derive(Default)]
pub(crate) struct Delta<'j> {
    pub(crate) usage: Option<Usage>,
    pub(crate) texts: Vec<(TextKey, JsonValue<'j>)>,
    /// Calls that begin or go on here.
    pub(crate) begun: Vec<CallBegin<'j>>,
    /// Calls that stand whole in this event.
    pub(crate) whole_calls: Vec<ToolCall<'j>>,
    /// The id of what the provider keeps of the answer.
    pub(crate) stored: Option<JsonValue<'j>>,
    /// Groups that end with this event.
    pub(crate) ended: Vec<u64>,
    /// The provider says in the middle of a stream that it failed.
    pub(crate) is_error: bool,
    /// Why the event could be read in two ways, and goes to nobody.
    pub(crate) invalid: Option<&'static str>,
}

/// A call that begins or goes on in an event, with what the event says of it.
pub(crate) struct CallBegin<'j> {
    pub(crate) key: TextKey,
    pub(crate) name: Option<JsonValue<'j>>,
    pub(crate) id: Option<JsonValue<'j>>,
}

impl<'j> Delta<'j> {
    pub(crate) fn text(&mut self, kind: TextKind, (group, index): (u64, u64), text: JsonValue<'j>) {
        if text.kind() == JsonKind::String {
            self.texts.push((TextKey { kind, group, index }, text));
        }
    }

    pub(crate) fn call(
        &mut self,
        kind: TextKind,
        (group, index): (u64, u64),
        name: Option<JsonValue<'j>>,
        id: Option<JsonValue<'j>>,
    ) {
        let key = TextKey { kind, group, index };
        self.begun.push(CallBegin { key, name, id });
    }

    pub(crate) fn ends(&mut self, group: u64) {
        self.ended.push(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_judged_however_a_client_may_read_them() {
        let of = |text: &str| CallArguments::of(text, false);
        assert_eq!(of(" ").json, "{}");
        let clear = of(r#"{"a": [1, "x"]}"#);
        assert_eq!(
            (clear.json.as_str(), clear.beside.len()),
            (r#"{"a": [1, "x"]}"#, 0)
        );
        for unclear in [
            r#"{"a":1,"command":"ls","command":"rm -rf /"}"#,
            r#"{"command":"rm -rf /",}"#,
            r#"{"command":"rm -rf /"#,
            r#"{}{"command":"rm -rf /"}"#,
            r#"{"a":1e999,"command":"rm\u0020-rf /"}"#,
            r#"{"a":NaN,"command":"rm -rf /"}"#,
            r#"{"a":"\ud800","command":"rm -rf \/"}"#,
            "{'command':'rm -rf /'}",
        ] {
            let arguments = of(unclear);
            assert_eq!(arguments.json, Value::from(unclear).to_string());
            let command = r#"{"command":"rm -rf /"}"#.to_owned();
            assert!(
                arguments.beside.contains(&command),
                "{unclear}: {:?}",
                arguments.beside
            );
        }
        let many = "'a' ".repeat(1_000);
        assert!(of(&many).beside.len() == TEXTS_MAX + 1);
        let text = CallArguments::of("{ not json", true);
        assert_eq!(
            (text.json.as_str(), text.beside.len()),
            (r#""{ not json""#, 0)
        );
    }

    #[test]
    fn json_in_texts_is_found_however_deep() {
        let inner = r#"{"command":"x"}"#;
        let twice = serde_json::json!({ "a": [{ "b": inner }], "c": "{no" });
        assert_eq!(inner_texts(&twice.to_string()), [inner]);
        let thrice = serde_json::json!({ "a": twice.to_string() }).to_string();
        assert_eq!(inner_texts(&thrice), [twice.to_string(), inner.to_owned()]);
        let many = serde_json::json!(vec!["[]"; 1_000]).to_string();
        assert!(inner_texts(&many).len() > TEXTS_MAX);
    }
}
