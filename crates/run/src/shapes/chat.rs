//! AgentZero's chat: a message, and the answer to it.

use base::Refusal;
use serde_json::{Value, json};

use super::object;
use crate::body::{StartBody, invalid, is_thread};
use crate::event::{RunEvent, RunMessage};
use crate::settings::Settings;

/// The agent that answers where a message names none.
const DEFAULT: &str = "default";

/// Reads `{"message": …, "agent_id": …, "thread": …}`. `context` has to be empty: a thread is what was said before.
pub(crate) fn read(body: &[u8], settings: &Settings) -> Result<StartBody, Refusal> {
    let mut members = object(body)?;
    let mut word = |name: &str| match members.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(format!("{name} is a text"))),
    };
    let message = word("message")?.ok_or_else(|| invalid("message is missing"))?;
    if message.is_empty() {
        return Err(invalid("message is empty"));
    }
    let (agent, thread) = (word("agent_id")?, word("thread")?);
    if let Some(name) = members.keys().next() {
        let name: String = name.chars().take(64).collect();
        return Err(invalid(format!(
            "a chat has message, agent_id and thread, and no {name:?}: its agent is of the configuration"
        )));
    }
    if thread.as_ref().is_some_and(|thread| !is_thread(thread)) {
        return Err(invalid("thread is a text of 1 to 128 characters"));
    }
    let agent = match agent {
        Some(agent) => agent,
        None => usual(settings)?,
    };
    let content = RunMessage::User { content: message };
    let mut start = StartBody::of_agent(agent, vec![content]);
    start.thread = thread;
    Ok(start)
}

/// The only agent of the configuration, or the one that is named for this.
fn usual(settings: &Settings) -> Result<String, Refusal> {
    let names = || settings.agents.iter().map(|agent| agent.name.as_str());
    let default = names().find(|name| *name == DEFAULT);
    match (default, settings.agents.as_slice()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, [only]) => Ok(only.name.to_string()),
        (None, _) => Err(invalid(
            "name an agent in agent_id: there is not one alone, and none is named default",
        )),
    }
}

/// A message of a WebSocket as the body of a chat: an object with a message, or the text itself.
pub(crate) fn body_of(text: String) -> String {
    let read: Option<Value> = serde_json::from_str(&text).ok();
    match read.is_some_and(|value| value["message"].is_string()) {
        true => text,
        false => json!({ "message": text }).to_string(),
    }
}

/// What a WebSocket says of an event; nothing where that has no word.
pub(crate) fn frame(event: &RunEvent) -> Option<Value> {
    match event {
        RunEvent::Text { text, .. } => Some(json!({ "type": "delta", "delta": text })),
        RunEvent::Completed { .. } => Some(json!({ "type": "done" })),
        RunEvent::Failed { code, message, .. } => {
            Some(json!({ "type": "error", "message": message, "code": code }))
        }
        RunEvent::Cancelled { .. } => Some(json!({
            "type": "error", "message": "the run was cancelled", "code": "run.cancelled",
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::tests::settings;

    #[test]
    fn a_chat_is_of_the_only_agent_or_of_the_one_that_it_names() {
        let mut settings = settings();
        let agent = |body: &str, settings: &Settings| {
            let start = read(body.as_bytes(), settings)?;
            start.plan(settings).map(|plan| plan.agent)
        };
        assert_eq!(agent(r#"{"message":"x"}"#, &settings).unwrap(), "triage");
        let named = r#"{"message":"x","agent_id":"triage","context":[]}"#;
        assert_eq!(agent(named, &settings).unwrap(), "triage");
        let mut other = settings.agents[0].clone();
        other.name = base::Name::new("other").unwrap();
        settings.agents.push(other.clone());
        let refused = agent(r#"{"message":"x"}"#, &settings).unwrap_err();
        assert_eq!(refused.code.name, "run.invalid");
        other.name = base::Name::new("default").unwrap();
        settings.agents.push(other);
        assert_eq!(agent(r#"{"message":"x"}"#, &settings).unwrap(), "default");
        for bad in [
            "{}",
            "[]",
            r#"{"message":1}"#,
            r#"{"message":"x","model":"m"}"#,
            r#"{"message":"x","context":["a"]}"#,
            r#"{"message":"x","thread":""}"#,
        ] {
            let refused = agent(bad, &settings).unwrap_err();
            assert_eq!(refused.code.name, "run.invalid", "{bad}");
        }
    }

    #[test]
    fn a_text_is_a_message() {
        assert_eq!(body_of("hello".into()), r#"{"message":"hello"}"#);
        assert_eq!(body_of("[1]".into()), r#"{"message":"[1]"}"#);
        let object = r#"{"message":"a","agent_id":"b"}"#;
        assert_eq!(body_of(object.into()), object);
    }
}
