//! What a model says, read by its dialect: what was used, the calls of tools, and of a stream the texts that grow.

use base::record::Usage;
use base::{Json, JsonKind, JsonValue};
use serde_json::Value;

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
        })
    }

    /// As a call is judged: `{"name":…,"arguments":…}`.
    pub(crate) fn json(&self) -> String {
        let arguments = match self.arguments {
            None => "{}".to_owned(),
            Some(value) if value.kind() == JsonKind::String => {
                arguments_of(&value.as_str().unwrap_or_default())
            }
            Some(value) => value.text().to_owned(),
        };
        call_json(self.name.text(), &arguments)
    }
}

/// The arguments that a text stands for, as JSON: most dialects write them as JSON in a string, which a model may get wrong. What
/// is no JSON is judged as the text that it is.
pub(crate) fn arguments_of(text: &str) -> String {
    // It is judged a level deeper than it stands here, and has to be one value there.
    let within = format!("[{text}]");
    let is_one = Json::read(within.as_bytes()).is_ok_and(|json| json.root().items().count() == 1);
    match is_one {
        true => text.to_owned(),
        false if text.is_empty() => "{}".to_owned(),
        false => Value::from(text).to_string(),
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
}

impl TextKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            TextKind::Content => "content",
            TextKind::Reasoning => "reasoning",
            TextKind::Refusal => "refusal",
            TextKind::Arguments => "arguments",
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
        (group, index): (u64, u64),
        name: Option<JsonValue<'j>>,
        id: Option<JsonValue<'j>>,
    ) {
        let kind = TextKind::Arguments;
        let key = TextKey { kind, group, index };
        self.begun.push(CallBegin { key, name, id });
    }

    pub(crate) fn ends(&mut self, group: u64) {
        self.ended.push(group);
    }
}
