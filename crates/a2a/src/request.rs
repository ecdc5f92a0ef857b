//! One JSON-RPC request, read strictly: which method, and which tasks and contexts it names.
//!
//! Agents are written in many languages. Readers of ProtoJSON take `taskId` and `task_id` as the same name, and Go's reader
//! takes `TASKID` too. So a name that only looks like one that A2A gives a meaning is refused, and so is a name that stands
//! twice: whoever is not allowed to name another's task must not name it in a way that only the agent reads.

use std::collections::HashSet;

use base::limit::JSON_KEYS_MAX;
use base::{JsonError, JsonKind, JsonValue, Refusal, refusal};

use crate::method::{self, Asks, Method};

/// Longest id of a request, in bytes as it is written.
const ID_BYTES_MAX: usize = 512;
/// Most tasks that a message refers to.
const REFERENCES_MAX: usize = 64;
/// Members of the message that JSON-RPC 2.0 names (section 4).
const ENVELOPE: &[&str] = &["jsonrpc", "id", "method", "params"];

/// A request that was read.
#[derive(Debug)]
pub(crate) struct Asked<'j> {
    /// As it is written.
    pub(crate) id: &'j str,
    pub(crate) method: &'static Method,
    /// Tasks that have to be the caller's own.
    pub(crate) tasks: Vec<String>,
    /// A context that must not be another's.
    pub(crate) context: Option<String>,
}

/// Why a request cannot be taken, with its id where that was read, and its method where that is known.
#[derive(Debug)]
pub(crate) struct NotAsked<'j> {
    pub(crate) id: Option<&'j str>,
    pub(crate) method: Option<&'static Method>,
    pub(crate) refusal: Refusal,
}

/// What a text that is not JSON is refused with.
pub(crate) fn not_json(error: JsonError) -> Refusal {
    match error {
        JsonError::Syntax => Refusal::new(refusal::A2A_JSON_INVALID, "the body is not JSON"),
        JsonError::Deep => Refusal::new(refusal::A2A_JSON_INVALID, "the body is nested too deep"),
    }
}

/// Reads a request.
pub(crate) fn read(root: JsonValue<'_>) -> Result<Asked<'_>, Box<NotAsked<'_>>> {
    let mut no = NotAsked {
        id: None,
        method: None,
        refusal: Refusal::new(refusal::A2A_REQUEST_INVALID, ""),
    };
    match read_into(root, &mut no) {
        Ok(asked) => Ok(asked),
        Err(refusal) => Err(Box::new(NotAsked { refusal, ..no })),
    }
}

fn read_into<'j>(root: JsonValue<'j>, no: &mut NotAsked<'j>) -> Result<Asked<'j>, Refusal> {
    if root.kind() != JsonKind::Object {
        return Err(invalid("the body is no request: A2A has no batches"));
    }
    once(root)?;
    let id = root
        .get("id")
        .filter(|id| matches!(id.kind(), JsonKind::String | JsonKind::Number))
        .filter(|id| id.bytes().len() <= ID_BYTES_MAX);
    no.id = id.map(JsonValue::text);
    for (key, _) in root.members() {
        if !ENVELOPE.iter().any(|known| key.is(known)) {
            return Err(invalid(
                "the request has a member that JSON-RPC does not name",
            ));
        }
    }
    let text = |name: &str| root.get(name).and_then(JsonValue::as_str);
    if text("jsonrpc").as_deref() != Some("2.0") {
        return Err(invalid("jsonrpc is not \"2.0\""));
    }
    let Some(id) = no.id else {
        return Err(invalid("the request has no id that is a text or a number"));
    };
    let Some(name) = text("method") else {
        return Err(invalid("the request names no method"));
    };
    let Some(method) = method::find(&name) else {
        return Err(Refusal::new(
            refusal::A2A_METHOD,
            "A2A has no method of this name",
        ));
    };
    no.method = Some(method);
    let params = root.get("params");
    if params.is_some_and(|params| params.kind() != JsonKind::Object) {
        return Err(params_invalid("params is no object"));
    }
    let mut asked = Asked {
        id,
        method,
        tasks: Vec::new(),
        context: None,
    };
    match method.asks {
        Asks::Send => message(params, &mut asked)?,
        Asks::Task => {
            let named = params.map(|params| id_of(params, "id")).transpose()?;
            let Some(task) = named.flatten() else {
                return Err(params_invalid("params.id names no task"));
            };
            asked.tasks.push(task);
        }
        Asks::List => {
            let context = params
                .map(|params| id_of(params, "contextId"))
                .transpose()?;
            asked.context = context.flatten();
        }
        Asks::Push => return Err(no_push()),
        Asks::ExtendedCard => {
            let what = "weir passes no extended card on";
            return Err(Refusal::new(refusal::A2A_EXTENDED_CARD, what));
        }
    }
    Ok(asked)
}

/// What a message names, and what it configures.
fn message(params: Option<JsonValue<'_>>, asked: &mut Asked<'_>) -> Result<(), Refusal> {
    let message = params.map(|params| member(params, "message")).transpose()?;
    let message = message.flatten().filter(|of| of.kind() == JsonKind::Object);
    let (Some(params), Some(message)) = (params, message) else {
        return Err(params_invalid("params.message is no object"));
    };
    asked.tasks.extend(id_of(message, "taskId")?);
    asked.context = id_of(message, "contextId")?;
    if let Some(references) = member(message, "referenceTaskIds")? {
        for (i, reference) in references.items().enumerate() {
            match reference.as_str() {
                Some(task) if i < REFERENCES_MAX => asked.tasks.push(task.into_owned()),
                _ => return Err(params_invalid("referenceTaskIds is no short list of ids")),
            }
        }
    }
    let Some(configuration) = member(params, "configuration")? else {
        return Ok(());
    };
    for name in ["taskPushNotificationConfig", "pushNotificationConfig"] {
        let config = member(configuration, name)?;
        if config.is_some_and(|config| config.kind() != JsonKind::Null) {
            return Err(no_push());
        }
    }
    Ok(())
}

fn no_push() -> Refusal {
    Refusal::new(refusal::A2A_PUSH, "weir carries no push notifications")
}

/// An id; nothing where it is absent, null, or empty, which ProtoJSON has for absent.
fn id_of(object: JsonValue<'_>, name: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = member(object, name)? else {
        return Ok(None);
    };
    match (value.kind(), value.as_str()) {
        (JsonKind::Null, _) => Ok(None),
        (_, Some(id)) if id.len() <= store::tasks::TASK_ID_BYTES_MAX => {
            Ok((!id.is_empty()).then(|| id.into_owned()))
        }
        _ => Err(params_invalid("an id is no short text")),
    }
}

/// A member by its name or by that of the protocol buffer, `taskId` and `task_id`.
///
/// # Errors
/// A name that some reader takes for it, or both.
fn member<'j>(object: JsonValue<'j>, name: &str) -> Result<Option<JsonValue<'j>>, Refusal> {
    let mut found = None;
    for (key, value) in object.members() {
        let said = key.name();
        if !is_alike(&said, name) {
            continue;
        }
        if found.is_some() || (said != name && said != snake(name)) {
            return Err(invalid(
                "a name is spelled as A2A does not spell it, or stands twice",
            ));
        }
        found = Some(value);
    }
    Ok(found)
}

/// A name without its case and its underscores.
fn plain(name: &str) -> String {
    base::fold::folded(name).replace('_', "")
}

/// Whether two names are one but for case and underscores.
pub(crate) fn is_alike(said: &str, name: &str) -> bool {
    said.len() <= 4 * name.len() && plain(said) == plain(name)
}

fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Refuses a name that stands twice in one object, however deep.
pub(crate) fn once(value: JsonValue<'_>) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    for (key, member) in value.members() {
        if names.len() >= JSON_KEYS_MAX || !names.insert(key.name()) {
            return Err(invalid("an object has a name twice, or too many"));
        }
        once(member)?;
    }
    let mut items = value.items();
    items.try_for_each(once)
}

fn invalid(why: &str) -> Refusal {
    Refusal::new(refusal::A2A_REQUEST_INVALID, why)
}

fn params_invalid(why: &str) -> Refusal {
    Refusal::new(refusal::A2A_PARAMS_INVALID, why)
}

#[cfg(test)]
mod tests {
    use base::Json;

    use super::*;

    fn code(text: &str) -> &'static str {
        let json = Json::read(text.as_bytes()).unwrap();
        read(json.root()).map_or_else(|no| no.refusal.code.name, |_| "")
    }

    fn send(message: &str, rest: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":"1","method":"SendMessage","params":{{"message":{message}{rest}}}}}"#
        )
    }

    #[test]
    fn a_message_names_its_task_its_context_and_others() {
        for task in ["taskId", "task_id"] {
            let text = send(
                &format!(r#"{{"{task}":"t","contextId":"c","referenceTaskIds":["r","s"]}}"#),
                "",
            );
            let json = Json::read(text.as_bytes()).unwrap();
            let asked = read(json.root()).unwrap();
            assert_eq!(asked.tasks, ["t", "r", "s"]);
            assert_eq!(asked.context.as_deref(), Some("c"));
            assert_eq!(asked.id, "\"1\"");
        }
        assert_eq!(code(&send(r#"{"taskId":""}"#, "")), "");
    }

    #[test]
    fn a_name_that_only_some_readers_take_is_refused() {
        for message in [
            r#"{"taskid":"t"}"#,
            r#"{"TaskId":"t"}"#,
            r#"{"tas\u212aId":"t"}"#,
            r#"{"ta_sk_id":"t"}"#,
            r#"{"taskId":"a","task_id":"b"}"#,
            r#"{"taskId":"a","taskId":"b"}"#,
            r#"{"parts":[{"a":1,"a":2}]}"#,
        ] {
            assert_eq!(code(&send(message, "")), "a2a.request_invalid", "{message}");
        }
        assert_eq!(code(&send("{}", r#","Message":{}"#)), "a2a.request_invalid");
        for message in [
            r#"{"taskId":7}"#,
            r#"{"referenceTaskIds":[1]}"#,
            "[]",
            "null",
        ] {
            assert_eq!(code(&send(message, "")), "a2a.params_invalid", "{message}");
        }
    }

    #[test]
    fn what_is_not_carried_is_refused_by_name() {
        for name in [
            "taskPushNotificationConfig",
            "push_notification_config",
            "pushNotificationConfig",
        ] {
            let rest = format!(r#","configuration":{{"{name}":{{"url":"http://a"}}}}"#);
            assert_eq!(code(&send("{}", &rest)), "a2a.push");
        }
        let of = |method: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"id":"t"}}}}"#)
        };
        let push = "tasks/pushNotificationConfig/set";
        assert_eq!(code(&of(push)), "a2a.push");
        assert_eq!(code(&of("GetExtendedAgentCard")), "a2a.extended_card");
        assert_eq!(code(&of("tasks/send")), "a2a.method");
        assert_eq!(code(&of("tasks/get")), "");
        assert_eq!(
            code(&of("tasks/get").replace("\"id\":1,", "")),
            "a2a.request_invalid"
        );
        assert_eq!(code("[]"), "a2a.request_invalid");
        let more = of("GetTask").replace("\"id\":1", "\"id\":1,\"x\":1");
        assert_eq!(code(&more), "a2a.request_invalid");
    }
}
