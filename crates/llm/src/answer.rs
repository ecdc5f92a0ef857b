//! What a model says, read by its dialect: what was used, the calls of tools, and of a stream the texts that grow.

use base::record::Usage;
use base::{Json, JsonKind, JsonValue, Refusal, refusal};
use gate::Passed;
use serde_json::Value;

use crate::lane::check_names;

/// Texts in the arguments of one call that are JSON themselves, and how deep such texts stand in each other.
const INNER_MAX: usize = 64;
const INNER_DEPTH_MAX: usize = 4;

/// What a whole answer says.
#[derive(Default)]
pub(crate) struct AnswerSaid<'j> {
    pub(crate) usage: Option<Usage>,
    pub(crate) calls: Vec<ToolCall<'j>>,
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

    /// Its arguments, as JSON.
    ///
    /// # Errors
    /// `llm.answer_invalid` where two clients could read two calls.
    pub(crate) fn arguments(&self) -> Result<String, Refusal> {
        match self.arguments {
            None => Ok("{}".to_owned()),
            Some(value) if value.kind() == JsonKind::String => {
                arguments_of(&value.as_str().unwrap_or_default(), self.is_text)
            }
            Some(value) => {
                is_read_alike(value)?;
                Ok(value.text().to_owned())
            }
        }
    }

    /// As a call is judged: `{"name":…,"arguments":…}`.
    ///
    /// # Errors
    /// As [`ToolCall::arguments`].
    pub(crate) fn json(&self) -> Result<String, Refusal> {
        Ok(call_json(self.name.text(), &self.arguments()?))
    }

    /// Has the gate judge it.
    ///
    /// # Errors
    /// As [`ToolCall::arguments`], and what the gate refuses.
    pub(crate) fn judge(&self, passed: &mut Passed) -> Result<(), Refusal> {
        let arguments = self.arguments()?;
        judge_call(passed, self.name.text(), &arguments, &self.path).map(drop)
    }
}

/// The arguments that a text stands for, as JSON: most dialects write them as JSON in a string. A model may get that wrong, and
/// then one client reads a call where another reads none.
///
/// # Errors
/// `llm.answer_invalid` where it is no JSON that everybody reads alike.
pub(crate) fn arguments_of(text: &str, is_text: bool) -> Result<String, Refusal> {
    if is_text {
        return Ok(Value::from(text).to_string());
    }
    if text.trim_ascii().is_empty() {
        return Ok("{}".to_owned());
    }
    // It is judged a level deeper than it stands here, and has to be one value there.
    let within = format!("[{text}]");
    let json = Json::read(within.as_bytes()).map_err(|_| unclear())?;
    let mut values = json.root().items();
    match (values.next(), values.next()) {
        (Some(value), None) => is_read_alike(value)?,
        _ => return Err(unclear()),
    }
    Ok(text.to_owned())
}

/// # Errors
/// A name twice in an object, or a number that is larger than programs count to.
fn is_read_alike(value: JsonValue<'_>) -> Result<(), Refusal> {
    check_names(value).map_err(|_| unclear())?;
    match value.kind() {
        JsonKind::Object => value
            .members()
            .try_for_each(|(_, inner)| is_read_alike(inner)),
        JsonKind::Array => value.items().try_for_each(is_read_alike),
        JsonKind::Number => match value.text().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(()),
            _ => Err(unclear()),
        },
        _ => Ok(()),
    }
}

fn unclear() -> Refusal {
    let public = "the arguments of a call of a tool are no JSON that all clients read alike";
    Refusal::new(refusal::LLM_ANSWER_INVALID, public)
}

/// Has the gate judge a call, and what stands as JSON in the texts of its arguments as a call too, because tools read that.
///
/// # Errors
/// What the gate refuses.
pub(crate) fn judge_call(
    passed: &mut Passed,
    name: &str,
    arguments: &str,
    path: &str,
) -> Result<gate::Answer, Refusal> {
    let answer = passed.proposed(call_json(name, arguments).as_bytes(), path)?;
    for inner in inner_texts(arguments) {
        passed.proposed(call_json(name, &inner).as_bytes(), path)?;
    }
    Ok(answer)
}

/// The texts in a JSON that are JSON objects or lists themselves: `{"input": "{\"command\": …}"}` gives the inner one.
fn inner_texts(json: &str) -> Vec<String> {
    let (mut found, mut at): (Vec<(String, usize)>, usize) = (Vec::new(), 0);
    let look = |json: &str, depth: usize, found: &mut Vec<(String, usize)>| {
        if let Ok(json) = Json::read(json.as_bytes()) {
            texts_below(json.root(), depth, found);
        }
    };
    look(json, 1, &mut found);
    while let Some((text, depth)) = found
        .get(at)
        .cloned()
        .filter(|(_, depth)| *depth < INNER_DEPTH_MAX)
    {
        look(&text, depth + 1, &mut found);
        at += 1;
    }
    found.into_iter().map(|(text, _)| text).collect()
}

fn texts_below(value: JsonValue<'_>, depth: usize, found: &mut Vec<(String, usize)>) {
    match value.kind() {
        JsonKind::Object => value
            .members()
            .for_each(|(_, inner)| texts_below(inner, depth, found)),
        JsonKind::Array => value
            .items()
            .for_each(|inner| texts_below(inner, depth, found)),
        JsonKind::String if found.len() < INNER_MAX => {
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
    fn arguments_are_what_every_client_reads() {
        let of = |text: &str| arguments_of(text, false);
        assert_eq!(of(" ").unwrap(), "{}");
        assert_eq!(of(r#"{"a": [1, "x"]}"#).unwrap(), r#"{"a": [1, "x"]}"#);
        for unclear in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,}"#,
            r#"{"a":1"#,
            r#"{"a":1}{"b":2}"#,
            r#"{"a":1e999}"#,
            r#"{"a":NaN}"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"x\ny\"}",
            "{'a':1}",
            "\u{feff}{}",
            "rm -rf /",
        ] {
            let refusal = of(unclear).unwrap_err();
            assert_eq!(refusal.code, refusal::LLM_ANSWER_INVALID, "{unclear}");
        }
        assert_eq!(arguments_of("rm -rf /", true).unwrap(), r#""rm -rf /""#);
    }

    #[test]
    fn json_in_texts_is_found_however_deep() {
        let inner = r#"{"command":"x"}"#;
        let twice = serde_json::json!({ "a": [{ "b": inner }], "c": "{no" });
        assert_eq!(inner_texts(&twice.to_string()), [inner]);
        let thrice = serde_json::json!({ "a": twice.to_string() }).to_string();
        assert_eq!(inner_texts(&thrice), [twice.to_string(), inner.to_owned()]);
        let many = serde_json::json!(vec!["[]"; 1_000]).to_string();
        assert_eq!(inner_texts(&many).len(), INNER_MAX);
    }
}
