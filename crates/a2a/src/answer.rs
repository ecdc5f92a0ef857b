//! One message that answers a request: held against the request, whose task it is of, and scanned.

use std::borrow::Cow;
use std::time::Duration;

use base::record::CallEnd;
use base::{Json, JsonKind, JsonValue, Permit as _, Refusal, refusal};
use bytes::Bytes;
use gate::{Answer, CallEnding, Passed};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use net::{Body, Response, UpstreamAnswer};
use serde_json::Value;
use store::OwnedKind;

use crate::lane::A2aLane;
use crate::method::{Asks, Method};
use crate::refuse;
use crate::request::once;
use crate::send::{Asking, has_token, of_send};

/// How often a call that waits looks whether it is in force, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// What a result of 1.0 is, by the name of its one member; of these `task` alone has its id in `id`.
const WRAPPED: &[&str] = &[
    "task",
    "message",
    "statusUpdate",
    "status_update",
    "artifactUpdate",
    "artifact_update",
];

/// What is known of an exchange, for the judgement of each message that answers it.
pub(crate) struct Answering {
    /// The request's id, as it is written.
    pub(crate) id: String,
    pub(crate) method: &'static Method,
    pub(crate) agent: crate::RemoteAgent,
}

impl Answering {
    pub(crate) fn of(asking: &Asking<'_>) -> Answering {
        Answering {
            id: asking.id.to_owned(),
            method: asking.method,
            agent: asking.agent.clone(),
        }
    }

    /// Judges one message: what may go on to the client.
    ///
    /// # Errors
    /// `a2a.answer_invalid`, `a2a.answer_foreign`, `a2a.tasks_full`, and the refusals of the scan.
    pub(crate) fn judge(
        &self,
        lane: &A2aLane,
        passed: &mut Passed,
        message: &[u8],
    ) -> Result<Bytes, Refusal> {
        let json = Json::read(message).map_err(|_| invalid("the answer is not JSON"))?;
        let root = json.root();
        once(root).map_err(|_| invalid("the answer could be read in two ways"))?;
        if has_token(&self.agent, root) {
            let what = "the token that the agent is asked with stands in its answer";
            return Err(invalid(what));
        }
        let is_error = root.get("error").is_some();
        self.answers(root, is_error)?;
        let result = root.get("result").filter(|_| !is_error);
        let filtered = match result {
            Some(_) if self.method.asks == Asks::List => {
                Some(self.own_tasks(lane, passed, message)?)
            }
            Some(result) => {
                self.own(lane, passed, result)?;
                None
            }
            None => None,
        };
        let answer = match &filtered {
            None => passed.answer(root, "")?,
            Some(filtered) => {
                let json = Json::read(filtered).map_err(|_| invalid("the list cannot be read"))?;
                passed.answer(json.root(), "")?
            }
        };
        Ok(match (answer, filtered) {
            (Answer::Redacted(redacted), _) => redacted.into(),
            (Answer::AsItCame, Some(filtered)) => filtered.into(),
            (Answer::AsItCame, None) => Bytes::copy_from_slice(message),
        })
    }

    /// Whether it is an answer, and to this request. An error may be of a request that the agent could not read.
    fn answers(&self, root: JsonValue<'_>, is_error: bool) -> Result<(), Refusal> {
        let has_result = root.get("result").is_some();
        if root.kind() != JsonKind::Object || has_result == is_error {
            return Err(invalid(
                "the answer has neither a result nor an error, or both",
            ));
        }
        let id = root.get("id");
        let asked = Json::read(self.id.as_bytes()).map_err(|_| invalid("the id cannot be read"))?;
        let is_same = id.is_some_and(|id| match id.as_str() {
            Some(said) => Some(said) == asked.root().as_str(),
            None => id.text() == self.id,
        });
        let is_none = id.is_none_or(|id| id.kind() == JsonKind::Null);
        match is_same || (is_error && is_none) {
            true => Ok(()),
            false => Err(invalid("the answer is to another request")),
        }
    }

    /// Sees that what is answered is the caller's own.
    fn own(&self, lane: &A2aLane, passed: &Passed, result: JsonValue<'_>) -> Result<(), Refusal> {
        let begins = self.method.asks == Asks::Send;
        for (kind, id) in named(result) {
            // A context goes with its tasks, and was chosen by a client or by the agent.
            let begins = begins || kind == OwnedKind::Context;
            let of = (kind, &*id);
            lane.shared
                .own(&self.agent.name, of, passed.agent(), begins)?;
        }
        Ok(())
    }

    /// A list of tasks without those of others.
    fn own_tasks(
        &self,
        lane: &A2aLane,
        passed: &Passed,
        message: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let Ok(mut message) = serde_json::from_slice::<Value>(message) else {
            return Err(invalid("the list cannot be read"));
        };
        let result = &mut message["result"];
        let Some(result) = result.as_object_mut() else {
            return Err(invalid("the result is no list of tasks"));
        };
        // A list of none may have no member.
        let mut kept = Vec::new();
        if let Some(Value::Array(tasks)) = result.remove("tasks") {
            kept = tasks;
            kept.retain(|task| {
                let id = task["id"].as_str();
                let of = |id| {
                    lane.shared
                        .is_own_task(&self.agent.name, id, passed.agent())
                };
                id.is_some_and(of)
            });
        }
        // How many tasks others have is not told either.
        for name in ["totalSize", "total_size"] {
            if result.contains_key(name) {
                result.insert(name.to_owned(), kept.len().into());
            }
        }
        result.insert("tasks".to_owned(), kept.into());
        Ok(message.to_string().into_bytes())
    }
}

/// The tasks and contexts that a result is of: a task, a message, or an event of a task, in the words of either version.
pub(crate) fn named(result: JsonValue<'_>) -> Vec<(OwnedKind, Cow<'_, str>)> {
    let mut named = Vec::new();
    let mut is_wrapped = false;
    for (key, value) in result.members() {
        if WRAPPED.iter().any(|name| key.is(name)) && value.kind() == JsonKind::Object {
            is_wrapped = true;
            names_of(value, key.is("task"), &mut named);
        }
    }
    if !is_wrapped {
        let kind = result.get("kind").and_then(JsonValue::as_str);
        let is_task = kind.is_none_or(|kind| kind == "task");
        names_of(result, is_task, &mut named);
    }
    named
}

fn names_of<'j>(value: JsonValue<'j>, is_task: bool, named: &mut Vec<(OwnedKind, Cow<'j, str>)>) {
    for (key, id) in value.members() {
        let owned = match &*key.name() {
            "id" if is_task => OwnedKind::Task,
            "taskId" | "task_id" => OwnedKind::Task,
            "contextId" | "context_id" => OwnedKind::Context,
            _ => continue,
        };
        let id = id.as_str().filter(|id| !id.is_empty());
        named.extend(id.map(|id| (owned, id)));
    }
}

fn invalid(why: &str) -> Refusal {
    Refusal::new(refusal::A2A_ANSWER_INVALID, why)
}

/// What is done for a call, as long as the call is in force.
async fn while_in_force<T>(passed: &Passed, work: impl Future<Output = T>) -> Result<T, Refusal> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(Duration::from_millis(LOOK_MS), &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) => passed.in_force()?,
        }
    }
}

/// Answers with one JSON text.
pub(crate) async fn whole(
    lane: &A2aLane,
    mut passed: Passed,
    asking: &Asking<'_>,
    mut answer: UpstreamAnswer,
) -> Response {
    let (call, status) = (passed.call(), answer.head.status.as_u16());
    let read = answer.whole(lane.settings().answer_bytes_max, asking.agent.answer_ms);
    let body = match while_in_force(&passed, read).await {
        Ok(read) => read.map_err(of_send),
        Err(refusal) => Err(refusal),
    };
    answer.reuse();
    let judged = body.and_then(|body| {
        let told = Answering::of(asking).judge(lane, &mut passed, &body)?;
        Ok((told, body.len() as u64))
    });
    match judged {
        Ok((told, bytes)) => {
            passed.end(CallEnding {
                status,
                bytes,
                ..CallEnding::of(CallEnd::Complete)
            });
            let mut response = Response::new(Body::Full(told));
            let fields = response.headers_mut();
            fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(refusal) => {
            end_refused(passed, status, 0, &refusal);
            refuse::respond(&refusal, call, Some(asking.id), asking.method.version)
        }
    }
}

/// Records that an answer was refused, or failed.
pub(crate) fn end_refused(passed: Passed, status: u16, bytes: u64, refusal: &Refusal) {
    passed.end(CallEnding {
        status,
        bytes,
        why: Some((refusal.code.name, &refusal.private)),
        ..CallEnding::of(match refusal.code.is_of_scan {
            true => CallEnd::Refused,
            false => CallEnd::Failed,
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let json = Json::read(text.as_bytes()).unwrap();
        let named = named(json.root());
        named
            .iter()
            .map(|(of, id)| format!("{of:?} {id}"))
            .collect()
    }

    #[test]
    fn what_a_result_is_of_is_found_in_both_versions() {
        let task = ["Task t", "Context c"];
        for text in [
            r#"{"task":{"id":"t","contextId":"c","history":[{"taskId":"other"}]}}"#,
            r#"{"statusUpdate":{"taskId":"t","contextId":"c","id":"x"}}"#,
            r#"{"artifact_update":{"task_id":"t","context_id":"c"}}"#,
            r#"{"message":{"messageId":"m","taskId":"t","contextId":"c"}}"#,
            r#"{"kind":"task","id":"t","contextId":"c"}"#,
            r#"{"kind":"status-update","id":"x","taskId":"t","contextId":"c"}"#,
            r#"{"id":"t","contextId":"c","status":{}}"#,
        ] {
            assert_eq!(of(text), task, "{text}");
        }
        assert_eq!(of(r#"{"kind":"message","messageId":"m"}"#), [""; 0]);
        assert_eq!(of("[]"), [""; 0]);
    }
}
