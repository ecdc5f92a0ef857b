//! A2A: an agent of runs is an agent that others' clients know by its card; a run is a task, its thread the task's context.
//!
//! Both versions are one writer with two vocabularies: 1.0 is ProtoJSON, 0.3 has objects with a `kind`. What the model says in a step is
//! an artifact that grows; its calls of tools and their answers are messages of the task's status.

use std::collections::BTreeMap;

use base::{CallId, Refusal, refusal};
use serde_json::{Map, Value, json};

use super::is_nothing;
use crate::body::{StartBody, StartMode, invalid, is_thread};
use crate::event::{HeardEvent, RunEvent};
use crate::listen::EventWriter;
use crate::live::{LiveRun, RunState};

/// Longest id of a request, in bytes.
const ID_BYTES_MAX: usize = 512;
/// Members of a message that say nothing to a run.
const UNUSED: &[&str] = &["messageId", "message_id", "kind", "role", "extensions"];
/// Members of a configuration that change nothing: a run says texts, and keeps no history of a task.
const UNUSED_CONFIGURATION: &[&str] = &[
    "acceptedOutputModes",
    "accepted_output_modes",
    "historyLength",
    "history_length",
];

/// In which version's words a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskWords {
    /// 1.0.
    One,
    /// 0.3.
    Old,
}

/// What is asked of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMethod {
    Send { is_stream: bool },
    Get,
    Follow,
    Cancel,
    List,
}

/// A request that was read.
#[derive(Debug)]
pub(crate) struct TaskRequest {
    /// Its id, a text or a number.
    pub(crate) id: Value,
    pub(crate) words: TaskWords,
    pub(crate) method: TaskMethod,
    params: Map<String, Value>,
}

/// Which tasks a list is to be of: of one context, so many at most, and behind one.
pub(crate) struct TaskPage {
    pub(crate) context: Option<String>,
    pub(crate) size: Option<usize>,
    pub(crate) before: Option<String>,
}

/// What a request that cannot be taken is answered with: its id and words, as far as they were read.
pub(crate) struct NotATask {
    pub(crate) id: Value,
    pub(crate) words: TaskWords,
    pub(crate) refusal: Refusal,
}

/// Every method, by its name.
const METHODS: &[(&str, TaskWords, TaskMethod)] = &[
    (
        "SendMessage",
        TaskWords::One,
        TaskMethod::Send { is_stream: false },
    ),
    (
        "SendStreamingMessage",
        TaskWords::One,
        TaskMethod::Send { is_stream: true },
    ),
    ("GetTask", TaskWords::One, TaskMethod::Get),
    ("SubscribeToTask", TaskWords::One, TaskMethod::Follow),
    ("CancelTask", TaskWords::One, TaskMethod::Cancel),
    ("ListTasks", TaskWords::One, TaskMethod::List),
    (
        "message/send",
        TaskWords::Old,
        TaskMethod::Send { is_stream: false },
    ),
    (
        "message/stream",
        TaskWords::Old,
        TaskMethod::Send { is_stream: true },
    ),
    ("tasks/get", TaskWords::Old, TaskMethod::Get),
    ("tasks/resubscribe", TaskWords::Old, TaskMethod::Follow),
    ("tasks/cancel", TaskWords::Old, TaskMethod::Cancel),
    ("tasks/list", TaskWords::Old, TaskMethod::List),
];

/// Reads a JSON-RPC request.
pub(crate) fn read(body: &[u8]) -> Result<TaskRequest, Box<NotATask>> {
    let mut no = NotATask {
        id: Value::Null,
        words: TaskWords::One,
        refusal: Refusal::new(refusal::A2A_JSON_INVALID, "the body is not JSON"),
    };
    let Ok(Value::Object(mut message)) = serde_json::from_slice(body) else {
        return Err(Box::new(no));
    };
    let id = message.remove("id");
    let is_id = |id: &Value| id.is_string() || id.is_number();
    no.id = id
        .filter(|id| is_id(id) && id.to_string().len() <= ID_BYTES_MAX)
        .unwrap_or_default();
    let mut refuse = |code, why: &str| no.refusal = Refusal::new(code, why);
    let name = message
        .get("method")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let known = METHODS.iter().find(|(known, ..)| *known == name);
    match known {
        _ if no.id.is_null() || message.get("jsonrpc") != Some(&json!("2.0")) => {
            let what = "the body is no JSON-RPC 2.0 request with an id";
            refuse(refusal::A2A_REQUEST_INVALID, what);
        }
        None if name.contains("ushNotification") => {
            refuse(refusal::A2A_PUSH, "weir carries no push notifications");
        }
        None if name.contains("xtendedAgentCard") || name.contains("xtendedCard") => {
            refuse(refusal::A2A_EXTENDED_CARD, "a run has one card");
        }
        None => refuse(refusal::A2A_METHOD, "A2A has no method of this name"),
        Some((_, words, method)) => {
            let params = match message.remove("params") {
                None => Map::new(),
                Some(Value::Object(params)) => params,
                Some(_) => {
                    no.words = *words;
                    let what = "params is no object";
                    no.refusal = Refusal::new(refusal::A2A_PARAMS_INVALID, what);
                    return Err(Box::new(no));
                }
            };
            return Ok(TaskRequest {
                id: no.id,
                words: *words,
                method: *method,
                params,
            });
        }
    }
    Err(Box::new(no))
}

/// A text by either of its names, where it is there and says something.
fn text_by(members: &Map<String, Value>, names: [&str; 2]) -> Result<Option<String>, Refusal> {
    let mut found = names.iter().filter_map(|name| members.get(*name));
    let found = found.find(|value| !is_nothing(value));
    match found {
        None => Ok(None),
        Some(Value::String(text)) => Ok((!text.is_empty()).then(|| text.clone())),
        Some(_) => Err(params_invalid("an id is a text")),
    }
}

fn params_invalid(why: &str) -> Refusal {
    Refusal::new(refusal::A2A_PARAMS_INVALID, why)
}

impl TaskRequest {
    /// The task that it names.
    pub(crate) fn task(&self) -> Result<String, Refusal> {
        let task = text_by(&self.params, ["id", "id"])?;
        task.ok_or_else(|| params_invalid("params.id names no task"))
    }

    /// Which tasks a list is to be of.
    pub(crate) fn listed(&self) -> Result<TaskPage, Refusal> {
        let size = ["pageSize", "page_size"];
        let size = size
            .iter()
            .find_map(|name| self.params.get(*name)?.as_u64());
        let size = size.and_then(|size| usize::try_from(size).ok());
        Ok(TaskPage {
            context: text_by(&self.params, ["contextId", "context_id"])?,
            size: size.filter(|size| *size > 0),
            before: text_by(&self.params, ["pageToken", "page_token"])?,
        })
    }

    fn message(&self) -> Result<&Map<String, Value>, Refusal> {
        let message = self.params.get("message").and_then(Value::as_object);
        message.ok_or_else(|| params_invalid("params.message is no object"))
    }

    /// The task that a message is of, where it goes on with one.
    pub(crate) fn message_task(&self) -> Result<Option<String>, Refusal> {
        text_by(self.message()?, ["taskId", "task_id"])
    }

    /// The run that a message starts, or what it says to the run of this thread.
    pub(crate) fn start(&self, agent: &str, steered: Option<&str>) -> Result<StartBody, Refusal> {
        let message = self.message()?;
        let mut start = StartBody::of_text(agent.to_owned(), text_of(message)?);
        let context = text_by(message, ["contextId", "context_id"])?;
        start.stream = self.method == TaskMethod::Send { is_stream: true };
        match (steered, context) {
            (Some(thread), context) => {
                if context.is_some_and(|context| context != thread) {
                    return Err(params_invalid("the task is of another context"));
                }
                (start.mode, start.thread) = (StartMode::Steer, Some(thread.to_owned()));
            }
            (None, Some(context)) if !is_thread(&context) => {
                return Err(params_invalid("contextId is a text of 1 to 128 characters"));
            }
            (None, context) => start.thread = context,
        }
        start.background = self.is_background()?;
        Ok(start)
    }

    /// Whether the answer is wanted at once; refuses what a run cannot do.
    fn is_background(&self) -> Result<bool, Refusal> {
        let Some(Value::Object(configuration)) = self.params.get("configuration") else {
            return Ok(false);
        };
        let mut is_background = false;
        for (name, value) in configuration.iter().filter(|(_, value)| !is_nothing(value)) {
            match (name.as_str(), value) {
                ("returnImmediately" | "return_immediately", Value::Bool(at_once)) => {
                    is_background = *at_once;
                }
                ("blocking", Value::Bool(waits)) => is_background = !waits,
                (name, _) if UNUSED_CONFIGURATION.contains(&name) => {}
                (name, _)
                    if name
                        .to_ascii_lowercase()
                        .replace('_', "")
                        .contains("pushnotification") =>
                {
                    let what = "weir carries no push notifications";
                    return Err(Refusal::new(refusal::A2A_PUSH, what));
                }
                _ => return Err(params_invalid("configuration says what a run has not")),
            }
        }
        Ok(is_background)
    }
}

/// What a message says: texts alone.
fn text_of(message: &Map<String, Value>) -> Result<String, Refusal> {
    let known = ["parts", "taskId", "task_id", "contextId", "context_id"];
    let mut said = message.iter().filter(|(_, value)| !is_nothing(value));
    if said.any(|(name, _)| !known.contains(&name.as_str()) && !UNUSED.contains(&name.as_str())) {
        return Err(invalid(
            "a run takes the parts of a message and nothing beside",
        ));
    }
    let parts = message.get("parts").and_then(Value::as_array);
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        match part["text"].as_str() {
            Some(piece) => text.push_str(piece),
            None => return Err(invalid("a run takes texts, and no files or data")),
        }
    }
    match text.is_empty() {
        true => Err(invalid("the message says nothing")),
        false => Ok(text),
    }
}

impl TaskWords {
    fn state(self, state: RunState) -> &'static str {
        match (self, state) {
            (TaskWords::One, RunState::Queued) => "TASK_STATE_SUBMITTED",
            (TaskWords::One, RunState::Running | RunState::Parked) => "TASK_STATE_WORKING",
            (TaskWords::One, RunState::Completed) => "TASK_STATE_COMPLETED",
            (TaskWords::One, RunState::Failed) => "TASK_STATE_FAILED",
            (TaskWords::One, RunState::Cancelled) => "TASK_STATE_CANCELED",
            (TaskWords::Old, RunState::Queued) => "submitted",
            (TaskWords::Old, RunState::Running | RunState::Parked) => "working",
            (TaskWords::Old, RunState::Completed) => "completed",
            (TaskWords::Old, RunState::Failed) => "failed",
            (TaskWords::Old, RunState::Cancelled) => "canceled",
        }
    }

    fn text(self, text: &str) -> Value {
        match self {
            TaskWords::One => json!({ "text": text }),
            TaskWords::Old => json!({ "kind": "text", "text": text }),
        }
    }

    fn data(self, data: &Value) -> Value {
        match self {
            TaskWords::One => json!({ "data": data }),
            TaskWords::Old => json!({ "kind": "data", "data": data }),
        }
    }

    /// An object of a kind: its name around it in 1.0, and in it in 0.3.
    fn result(self, name: &str, kind: &str, mut object: Value) -> Value {
        match self {
            TaskWords::One => json!({ name: object }),
            TaskWords::Old => {
                object["kind"] = kind.into();
                object
            }
        }
    }
}

/// Says a run as a task, and its events as those of one.
pub(crate) struct TaskWriter {
    request: Value,
    words: TaskWords,
    task: String,
    context: String,
    /// What the model said in each step.
    said: BTreeMap<u64, String>,
    messages: u64,
    is_begun: bool,
    /// Why it failed.
    why: Option<Value>,
}

impl EventWriter for TaskWriter {
    fn write(&mut self, heard: &HeardEvent) -> String {
        let mut out = Vec::new();
        if let Some((_, line)) = HeardEvent::read(&heard.line) {
            self.take(line.event, &mut out);
        }
        let events = out.into_iter().map(|result| {
            let message = answer(&self.request, result);
            format!("data: {message}\n\n")
        });
        events.collect()
    }
}

/// A JSON-RPC answer.
pub(crate) fn answer(request: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request, "result": result })
}

/// A refusal as a JSON-RPC error. In 1.0 its data is a list of typed details (section 9.5), in 0.3 an object.
pub(crate) fn error(request: &Value, words: TaskWords, refusal: &Refusal, call: CallId) -> Value {
    let told = json!({
        "code": refusal.code.name, "call": call.to_string(), "mend": refusal.mend(),
    });
    let data = match words {
        TaskWords::One => json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refusal.code.name.replace('.', "_").to_ascii_uppercase(),
            "domain": "weir",
            "metadata": told,
        }]),
        TaskWords::Old => told,
    };
    // A run that is not there, or is another agent's, is a task that is not there.
    let is_unknown =
        [refusal::RUN_UNKNOWN.name, refusal::RUN_GONE.name].contains(&refusal.code.name);
    let code = match is_unknown {
        true => refusal::A2A_TASK_UNKNOWN.rpc,
        false => refusal.code.rpc,
    };
    let public = refusal.public.trim_end_matches('.');
    let message = format!("{}: {public}. {}", refusal.code.name, refusal.mend());
    let error = json!({ "code": code, "message": message, "data": data });
    json!({ "jsonrpc": "2.0", "id": request, "error": error })
}

impl TaskWriter {
    pub(crate) fn new(asked: &TaskRequest, run: &LiveRun) -> TaskWriter {
        TaskWriter::of(asked.id.clone(), asked.words, &run.id, &run.thread)
    }

    fn of(request: Value, words: TaskWords, run: &str, thread: &str) -> TaskWriter {
        TaskWriter {
            request,
            words,
            task: run.to_owned(),
            context: thread.to_owned(),
            said: BTreeMap::new(),
            messages: 0,
            is_begun: false,
            why: None,
        }
    }

    /// The task as it is by now, of a run in this state; without what it said where that was not read.
    pub(crate) fn task(&self, state: RunState) -> Value {
        let words = self.words;
        let mut status = json!({ "state": words.state(state) });
        if let Some(why) = &self.why {
            status["message"] = why.clone();
        }
        let mut task = json!({ "id": self.task, "contextId": self.context, "status": status });
        let said = self.said.iter().filter(|(_, text)| !text.is_empty());
        let artifacts: Vec<Value> = said
            .map(|(step, text)| {
                json!({ "artifactId": artifact_id(*step), "parts": [words.text(text)] })
            })
            .collect();
        if !artifacts.is_empty() {
            task["artifacts"] = artifacts.into();
        }
        if words == TaskWords::Old {
            task["kind"] = "task".into();
        }
        task
    }

    /// The answer to a message that was sent: a task.
    pub(crate) fn sent(&self, state: RunState) -> Value {
        self.words.result("task", "task", self.task(state))
    }

    fn status(&self, state: RunState, message: Option<Value>) -> Value {
        let mut status = json!({ "state": self.words.state(state) });
        if let Some(message) = message {
            status["message"] = message;
        }
        let mut event = json!({ "taskId": self.task, "contextId": self.context, "status": status });
        if self.words == TaskWords::Old {
            event["final"] = state.is_final().into();
        }
        self.words.result("statusUpdate", "status-update", event)
    }

    /// A message of the agent's.
    fn message(&mut self, part: Value) -> Value {
        self.messages += 1;
        let mut message = json!({
            "messageId": format!("{}-{}", self.task, self.messages),
            "taskId": self.task, "contextId": self.context, "parts": [part],
        });
        match self.words {
            TaskWords::One => message["role"] = "ROLE_AGENT".into(),
            TaskWords::Old => {
                message["role"] = "agent".into();
                message["kind"] = "message".into();
            }
        }
        message
    }

    fn take(&mut self, event: RunEvent, out: &mut Vec<Value>) {
        if !self.is_begun {
            self.is_begun = true;
            out.push(self.sent(RunState::Queued));
        }
        match event {
            RunEvent::Started { .. } => out.push(self.status(RunState::Running, None)),
            RunEvent::Text { step, text } if !text.is_empty() => {
                let said = self.said.entry(step).or_default();
                let append = !said.is_empty();
                said.push_str(&text);
                out.push(self.artifact(step, &text, append));
            }
            RunEvent::Call { call, .. } => {
                let arguments = serde_json::from_str::<Value>(&call.arguments);
                let arguments = arguments.unwrap_or_else(|_| call.arguments.clone().into());
                let data = json!({ "tool": call.tool, "call": call.id, "arguments": arguments });
                self.tell(&data, out);
            }
            RunEvent::Answer {
                call,
                tool,
                content,
                is_error,
                ..
            } => {
                let data = json!({
                    "tool": tool, "call": call, "result": content, "isError": is_error,
                });
                self.tell(&data, out);
            }
            // What the step said before is void: its next words begin the artifact anew.
            RunEvent::Resumed { step } => {
                self.said.remove(&step);
            }
            RunEvent::Completed { .. } => out.push(self.status(RunState::Completed, None)),
            RunEvent::Failed { code, message, .. } => {
                let why = self.words.text(&format!("{code}: {message}"));
                let why = self.message(why);
                self.why = Some(why.clone());
                out.push(self.status(RunState::Failed, Some(why)));
            }
            RunEvent::Cancelled { .. } => out.push(self.status(RunState::Cancelled, None)),
            RunEvent::StepStarted { .. }
            | RunEvent::Text { .. }
            | RunEvent::Reasoning { .. }
            | RunEvent::Message { .. }
            | RunEvent::Refused { .. }
            | RunEvent::Added { .. }
            | RunEvent::Parked { .. } => {}
        }
    }

    fn artifact(&self, step: u64, text: &str, append: bool) -> Value {
        let artifact = json!({ "artifactId": artifact_id(step), "parts": [self.words.text(text)] });
        let event = json!({
            "taskId": self.task, "contextId": self.context, "artifact": artifact, "append": append,
        });
        self.words
            .result("artifactUpdate", "artifact-update", event)
    }

    /// Says what is done as a message of the status.
    fn tell(&mut self, data: &Value, out: &mut Vec<Value>) {
        let part = self.words.data(data);
        let message = self.message(part);
        out.push(self.status(RunState::Running, Some(message)));
    }
}

fn artifact_id(step: u64) -> String {
    format!("step-{step}")
}

/// The card of an agent of runs at this URL.
pub(crate) fn card(agent: &str, url: &str) -> Value {
    let bearer = json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" }, "type": "http", "scheme": "Bearer" });
    let interface = |version: &str| json!({ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": version });
    json!({
        "name": agent,
        "description": format!("The agent {agent} of this gateway. A message begins a run; its steps are told as they happen."),
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [interface("1.0"), interface("0.3")],
        "url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
        "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": "run", "name": agent, "description": format!("Runs {agent} with a text."), "tags": ["run"],
        }],
        "securitySchemes": { "weir": bearer },
        "securityRequirements": [{ "schemes": { "weir": { "list": [] } } }],
        "security": [{ "weir": [] }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RunTotals;

    fn said(words: TaskWords, events: Vec<RunEvent>) -> (Vec<Value>, TaskWriter) {
        let mut writer = TaskWriter::of(json!("q"), words, "r", "t");
        let mut out = Vec::new();
        for event in events {
            writer.take(event, &mut out);
        }
        (out, writer)
    }

    fn events() -> Vec<RunEvent> {
        let text = |text: &str| RunEvent::Text {
            step: 1,
            text: text.into(),
        };
        vec![
            RunEvent::Started {
                run: "r".into(),
                agent: "a".into(),
            },
            text("void"),
            RunEvent::Resumed { step: 1 },
            text("good "),
            text("words"),
            RunEvent::Completed {
                output: "good words".into(),
                usage: RunTotals::default(),
            },
        ]
    }

    #[test]
    fn a_run_is_a_task_whose_artifact_grows() {
        let (out, writer) = said(TaskWords::One, events());
        let appended: Vec<&Value> = out
            .iter()
            .filter_map(|event| event["artifactUpdate"].get("append"))
            .collect();
        assert_eq!(appended, [&json!(false), &json!(false), &json!(true)]);
        assert_eq!(out[0]["task"]["contextId"], "t");
        let last = &out.last().unwrap()["statusUpdate"];
        assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED");
        let task = writer.task(RunState::Completed);
        assert_eq!(
            task["artifacts"][0]["parts"],
            json!([{ "text": "good words" }])
        );
        let (out, writer) = said(TaskWords::Old, events());
        let kinds: Vec<&str> = out
            .iter()
            .filter_map(|event| event["kind"].as_str())
            .collect();
        let artifact = "artifact-update";
        let expected = [
            "task",
            "status-update",
            artifact,
            artifact,
            artifact,
            "status-update",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(out.last().unwrap()["final"], true);
        assert_eq!(writer.task(RunState::Failed)["kind"], "task");
    }

    #[test]
    fn a_message_is_a_start_and_nothing_more() {
        let of = |method: &str, params: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            read(text.as_bytes()).map_err(|no| no.refusal.code.name)
        };
        let code = |params: &str| {
            let asked = of("SendMessage", params).unwrap();
            asked
                .start("a", None)
                .map_or_else(|no| no.code.name, |_| "")
        };
        let good = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"contextId":"c"},"configuration":{"returnImmediately":true}}"#;
        let start = of("SendMessage", good).unwrap().start("a", None).unwrap();
        assert_eq!(
            (start.thread.as_deref(), start.background),
            (Some("c"), true)
        );
        assert_eq!(start.text().unwrap(), "x");
        let steered = of("message/send", good)
            .unwrap()
            .start("a", Some("c"))
            .unwrap();
        assert_eq!(steered.mode, StartMode::Steer);
        for (params, expected) in [
            (r#"{}"#, "a2a.params_invalid"),
            (r#"{"message":{"parts":[]}}"#, "run.invalid"),
            (
                r#"{"message":{"parts":[{"url":"http://a"}]}}"#,
                "run.invalid",
            ),
            (
                r#"{"message":{"parts":[{"text":"x"}],"metadata":{"a":1}}}"#,
                "run.invalid",
            ),
            (
                r#"{"message":{"parts":[{"text":"x"}]},"configuration":{"taskPushNotificationConfig":{"url":"a"}}}"#,
                "a2a.push",
            ),
        ] {
            assert_eq!(code(params), expected, "{params}");
        }
        assert_eq!(of("tasks/send", "{}").unwrap_err(), "a2a.method");
        assert_eq!(
            of("CreateTaskPushNotificationConfig", "{}").unwrap_err(),
            "a2a.push"
        );
        assert_eq!(of("GetTask", "[]").unwrap_err(), "a2a.params_invalid");
        assert!(of("GetTask", "{}").unwrap().task().is_err());
    }
}
