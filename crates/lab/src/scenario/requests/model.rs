//! The body of a question to a model, in the dialect's own shape.

use serde_json::{Map, Value as Json, json};

use super::Words;
use crate::plan::Protocol;
use crate::scenario::check::One;
use crate::scenario::units::{Count, Text};
use crate::template::Body;

/// Tokens that are asked for when nothing else is said.
pub(crate) const TOKENS: u64 = 128;

/// Makes the body from the scenario's `llm`.
pub(crate) fn body(one: &mut One, words: &Words) -> Option<Body> {
    let scenario = one.scenario;
    let Some(llm) = &scenario.llm else {
        let help = "write llm: { model: NAME, prompt: TEXT }, or a body";
        one.say("llm", "what is to be asked is missing", help);
        return None;
    };
    let messages = match (&llm.prompt, &llm.messages) {
        (Some(Text(prompt)), None) => json!([{ "role": "user", "content": prompt }]),
        (None, Some(messages)) if !messages.is_empty() => json!(messages),
        (Some(_), Some(_)) => {
            one.say(
                "llm.messages",
                "does not go together with prompt",
                "keep one of them",
            );
            return None;
        }
        (None, _) => {
            one.say(
                "llm",
                "needs `prompt` or `messages`",
                "write prompt: Say hello",
            );
            return None;
        }
    };
    let Some(Text(model)) = &llm.model else {
        one.say("llm", "needs `model`", "write model: NAME");
        return None;
    };
    let stream = llm.stream.is_none_or(|on| on.0);
    let Count(tokens) = llm.max_tokens.unwrap_or(Count(TOKENS));
    if tokens == 0 {
        one.say("llm.max_tokens", "is 0: nothing would be answered", "");
        return None;
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(model));
    body.insert("max_tokens".into(), json!(tokens));
    body.insert("messages".into(), messages);
    body.insert("stream".into(), json!(stream));
    if stream && *words.protocol == Protocol::Openai {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    let at = one.path.key("llm");
    words
        .json(one, &at, &Json::Object(body))
        .map(Body::Template)
}
