//! One call of a tool: what it may use, what it says, and why it may not answer.
//!
//! These are what the process that owns the engine and those that ask it tell each other, too.

use std::sync::atomic::{AtomicUsize, Ordering};

use base::limit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Cancel, Service};

/// What a tool may use.
pub struct Call<'c, S: Service> {
    /// The engine.
    pub engine: &'c S::Engine,
    /// What the session was told before.
    pub session: &'c Session,
    /// What tells this request from every other, so that one that is made again is known.
    pub request: &'c str,
    /// Whether answers have the keys of the server that this one takes the place of, where that has the tool, too.
    pub compat: bool,
    /// Gives up.
    pub cancel: &'c Cancel,
    /// Told how far a job is.
    pub progress: &'c dyn Fn(&S::Job),
    /// Places for calls that wait for a job.
    pub waits: &'c Waits,
}

/// Calls that wait for the end of a job at once. Each holds a thread for up to fifty seconds, and those that search
/// need threads, too.
pub const WAITS_MAX: usize = 16;

/// Places for calls that wait for the end of a job.
#[derive(Default)]
pub struct Waits(AtomicUsize);

/// One of those places, until it is dropped.
pub struct Wait<'w>(&'w Waits);

impl Waits {
    /// A place; none when all are taken.
    pub fn take(&self) -> Option<Wait<'_>> {
        let free = |taken: usize| (taken < WAITS_MAX).then_some(taken + 1);
        let taken = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, free);
        taken.is_ok().then(|| Wait(self))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a session was told by `set_working_directory`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id, made when it began.
    pub id: String,
    /// Who calls, as whoever started the server says; nothing that a client sends.
    #[serde(default)]
    pub actor: String,
    /// The project of calls that name none.
    pub project: Option<String>,
}

/// A tool and its arguments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ask {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The session that calls.
    pub session: Session,
    /// What tells this request from every other.
    #[serde(default)]
    pub request: String,
    /// Whether answers have the keys of the server that this one takes the place of. The name is that of older
    /// processes, which may share the data folder.
    #[serde(rename = "codebase")]
    pub compat: bool,
}

/// The answer of a tool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Said {
    /// For programs: what the tool's output schema says.
    pub value: Value,
    /// For models: the same, to be read.
    pub text: String,
    /// What the session knows from now on, where that changed.
    pub session: Option<Session>,
}

/// Why a tool does not answer, and how to mend the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A word for programs.
    pub code: String,
    /// For whoever called.
    pub message: String,
    /// More for programs, such as the row that a write is in conflict with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl Problem {
    /// A problem with an argument.
    pub fn argument(message: impl Into<String>) -> Problem {
        Problem {
            code: "bad_argument".to_owned(),
            message: message.into(),
            data: None,
        }
    }

    /// Something of ours failed.
    pub fn ours(message: impl Into<String>) -> Problem {
        Problem {
            code: "failed".to_owned(),
            message: message.into(),
            data: None,
        }
    }
}

/// Arguments as the type that a tool takes. The error names the argument.
pub fn arguments<T: for<'a> Deserialize<'a>>(map: Map<String, Value>) -> Result<T, Problem> {
    serde_path_to_error::deserialize(Value::Object(map)).map_err(|error| {
        let path = error.path().to_string();
        let what = error.into_inner();
        match path.as_str() {
            "." | "?" => Problem::argument(what.to_string()),
            path => Problem::argument(format!("`{path}`: {what}")),
        }
    })
}

/// The JSON Schema of a type, as an object.
pub fn schema<T: JsonSchema>() -> Map<String, Value> {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    match Value::from(schema) {
        Value::Object(mut map) => {
            map.remove("$schema");
            map.remove("title");
            map
        }
        _ => Map::new(),
    }
}

/// What becomes of an answer that is too large for one message.
pub(super) fn bounded<S: Service>(said: Said) -> Result<Said, Problem> {
    // Structure and text both go over the wire.
    let size = said.value.to_string().len() + said.text.len();
    if size > limit::ANSWER_BYTES_DEFAULT / 4 {
        return Err(Problem::argument(format!(
            "the answer has {size} bytes; ask for less: {}",
            S::ASK_LESS
        )));
    }
    Ok(said)
}
